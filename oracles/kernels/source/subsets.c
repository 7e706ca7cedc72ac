/* Reports that name subsets of buckets: their signs at every xor of the rows of a map. */

#include "common.h"
#include "powers.h"

#define MOST_ROWS 9

/* Returns the largest member of the subset with this rank, and leaves the rank of the others. counts[s] is C(s, i). */
INLINE size_t largest_member(uint64_t *rank, const int64_t *counts, size_t items)
{
    size_t member = 0;
    for (size_t step = items >> 1; step; step >>= 1)
        member += (uint64_t)counts[member + step] <= *rank ? step : 0;
    *rank -= (uint64_t)counts[member];
    return member;
}

INLINE uint64_t report_at(const uint8_t *report, size_t width)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < width; i++)
        bits |= (uint64_t)report[i] << 8 * i;
    return bits;
}

/* Adds to signs[xor of the rows], for every non-empty set of a report's rows, the signs of all members of its subset. */
INLINE void add_mapped(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits,
                       uint64_t polynomial, const int64_t *table, size_t members, size_t head, int64_t *signs,
                       int64_t *marks)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1, rows[MOST_ROWS];
    size_t items = (size_t)1 << hashes;
    for (size_t n = 0; n < count; n++, reports += width) {
        uint64_t report = report_at(reports, width), seed = report >> head;
        if (polynomial)
            rows_of_powers(seed & mask, seed >> bits & mask, hashes, bits, polynomial, rows);
        else
            for (size_t j = 0; j < hashes; j++)
                rows[j] = seed >> j * bits & mask;

        /* Bit i of odds[j] is bit j of member i, so one integer holds the signs of all members. */
        uint64_t rank = report & (((uint64_t)1 << head) - 1), odds[MOST_ROWS] = {0};
        for (size_t i = members; i--;) {
            size_t member = largest_member(&rank, table + i * items, items);
            for (size_t j = 0; j < hashes; j++)
                odds[j] |= (uint64_t)(member >> j & 1) << i;
        }
        uint64_t row = 0, odd = 0;
        for (size_t step = 1; step < items; step++) {
            size_t j = (size_t)__builtin_ctzll(step);
            row ^= rows[j];
            odd ^= odds[j];
            signs[row] += (int64_t)members - 2 * __builtin_popcountll(odd);
        }
        marks[rows[0] & 63]++;
    }
}

/* The compiler unrolls the inner loops, since `hashes` is a constant in each call. */
#define CASE(l)                                                                                                        \
    case l:                                                                                                            \
        add_mapped(reports, count, width, l, bits, polynomial, table, members, head, signs, marks);             \
        break;

/* Adds the signs of the subset of each report, and the mark of its first row. The words after the rank are the rows, or
a and b of a field if there is a polynomial. table[i * 2^hashes + s] is C(s, i + 1). */
void add_subsets(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits,
                 uint64_t polynomial, const int64_t *table, size_t members, size_t head, int64_t *signs, int64_t *marks)
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
        CASE(9)
    }
}

/* Adds 1 to the two codes of each bucket of each report's subset, and marks the word a. A code is bucket / a in a field
of 2^(hashes + 1) elements, whose top bit is free. powers[i] is the generator to the power i, and logs its inverse. */
void add_codes(const uint8_t *reports, size_t count, size_t width, size_t hashes, const int64_t *table, size_t members,
               size_t head, const int64_t *powers, const int64_t *logs, int64_t *counts, int64_t *marks)
{
    size_t items = (size_t)1 << hashes;
    int64_t order = 2 * (int64_t)items - 1;
    for (size_t n = 0; n < count; n++, reports += width) {
        uint64_t report = report_at(reports, width), rank = report & (((uint64_t)1 << head) - 1);
        uint64_t a = report >> head;
        for (size_t i = members; i--;) {
            size_t member = largest_member(&rank, table + i * items, items);
            for (size_t code = member; code < 2 * items; code += items) {
                int64_t power = logs[code] - logs[a];
                counts[code ? powers[power < 0 ? power + order : power] : 0]++;
            }
        }
        marks[a & 63]++;
    }
}
