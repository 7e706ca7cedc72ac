/* Reports that are integers: histograms of values, and of the rows of local hashing. */

#include "common.h"
#include "powers.h"

/* Adds 1 to counts[v] for each value of 1, 2 or 4 bytes. */
void add_values(const uint8_t *values, size_t count, size_t width, int64_t *counts)
{
    if (width == 1)
        for (size_t i = 0; i < count; i++)
            counts[values[i]]++;
    else if (width == 2)
        for (size_t i = 0; i < count; i++)
            counts[((const u16 *)values)[i]]++;
    else
        for (size_t i = 0; i < count; i++)
            counts[((const u32 *)values)[i]]++;
}

/* Returns `bits` bits of a report from bit `at` on. */
INLINE uint64_t piece(const u64 *words, size_t at, size_t bits)
{
    size_t word = at / 64, shift = at % 64;
    uint64_t found = words[word] >> shift;
    if (shift + bits > 64)
        found |= words[word + 1] << (64 - shift);
    return found & (((uint64_t)1 << bits) - 1);
}

/* Adds 1 to signs[xor of the rows] for every non-empty set of a report's rows, or -1 if the xor of their y is odd.
Gray's order adds or removes one row at each step. */
INLINE void add_report(const uint64_t *rows, uint64_t y, size_t hashes, int64_t *signs, int64_t *marks)
{
    uint64_t row = 0, odd = 0;
    for (size_t step = 1; step < (size_t)1 << hashes; step++) {
        size_t j = (size_t)__builtin_ctzll(step);
        row ^= rows[j];
        odd ^= y >> j & 1;
        signs[row] += 1 - 2 * (int64_t)odd;
    }
    for (size_t j = 0; j < hashes; j++)
        marks[rows[j] & 63]++;
}

/* The compiler unrolls all inner loops, since `hashes` and `width` are constants in each call. */
INLINE void add_all(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, int64_t *signs,
                    int64_t *marks)
{
    uint64_t rows[8];
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (size_t i = 0; i < count; i++, reports += width) {
        uint64_t first = width == 4 ? *(const u32 *)reports : *(const u64 *)reports;
        for (size_t j = 0; j < hashes; j++) {
            size_t at = hashes + j * bits;
            rows[j] = width <= 8 ? first >> at & mask : piece((const u64 *)reports, at, bits);
        }
        add_report(rows, first, hashes, signs, marks);
    }
}

#define CASE(l)                                                                                                        \
    case l:                                                                                                            \
        if (width == 4)                                                                                                \
            add_all(reports, count, 4, l, bits, signs, marks);                                                         \
        else if (width == 8)                                                                                           \
            add_all(reports, count, 8, l, bits, signs, marks);                                                         \
        else                                                                                                           \
            add_all(reports, count, width, l, bits, signs, marks);                                                     \
        break;

void add_hashes(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, int64_t *signs,
                int64_t *marks)
{
    switch (hashes) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
    }
}

/* Adds reports y | a | b. The two words give all rows. */
INLINE void add_pairs(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits,
                      uint64_t polynomial, int64_t *signs, int64_t *marks)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (size_t n = 0; n < count; n++, reports += width) {
        uint64_t report = width == 4 ? *(const u32 *)reports : *(const u64 *)reports;
        uint64_t a = report >> hashes & mask, b = report >> (hashes + bits) & mask;
        uint64_t rows[8];
        rows_of_powers(a, b, hashes, bits, polynomial, rows);
        add_report(rows, report, hashes, signs, marks);
    }
}

#define SHORT(l)                                                                                                       \
    case l:                                                                                                            \
        add_pairs(reports, count, width, l, bits, polynomial, signs, marks);                                           \
        break;

void add_short(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, uint64_t polynomial,
               int64_t *signs, int64_t *marks)
{
    switch (hashes) {
        SHORT(3)
        SHORT(4)
        SHORT(5)
        SHORT(6)
        SHORT(7)
        SHORT(8)
    }
}

/* Sets flags[n] to 1 if the rows of report n are linearly dependent, else to 0. */
void find_dependent(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, uint8_t *flags)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (size_t n = 0; n < count; n++, reports += width) {
        uint64_t report = width == 4 ? *(const u32 *)reports : *(const u64 *)reports;
        uint64_t basis[8], least = ~(uint64_t)0;
        for (size_t j = 0; j < hashes; j++) {
            uint64_t rest = report >> (hashes + j * bits) & mask;
            for (size_t i = 0; i < j; i++)
                rest = (rest ^ basis[i]) < rest ? rest ^ basis[i] : rest;
            basis[j] = rest;
            least = rest < least ? rest : least;
        }
        flags[n] = least == 0;
    }
}
