/* Rows of bits: the number of rows in which each bit is 1, and the number of ones in each row.

Each file that includes this one sets LANE, the bytes of a vector. A line is one row, or several short rows in a row.
Carry-save adders (Harley and Seal) add sixteen lines at a time. A plane holds one digit of the binary counters of all
columns. The next adder turns two carries into one of twice the weight, so a line costs about one adder. */

#include "common.h"

#define LINES 16
#define FOLDED 4  /* planes that a block of 16 lines changes. Its carry weighs 2^4. */
#define SHORT 64  /* bytes of the shortest line */
#define LONG 256  /* bytes of a line of which the last vector wastes little */

typedef uint64_t vector __attribute__((vector_size(LANE), may_alias));
typedef uint64_t loose __attribute__((vector_size(LANE), may_alias, aligned(1)));
typedef size_t ones_of_row(const uint8_t *row, size_t width);

#define ADD_PARAMETERS                                                                                                 \
    const uint8_t *rows, size_t count, size_t width, int64_t *counts, size_t size, const int64_t *bins, size_t least,  \
        size_t most, int64_t *marks, uint8_t *scratch
#define ADD_ARGUMENTS rows, count, width, counts, size, bins, least, most, marks, scratch

size_t add_bits_avx2(ADD_PARAMETERS);
size_t add_bits_avx512(ADD_PARAMETERS);

struct counter {
    size_t together; /* rows of a line */
    size_t line;     /* bytes of a line, at least SHORT */
    size_t vectors;  /* vectors of a line. The last one ends with the line, and may overlap the one before. */
    size_t levels;   /* digits of a counter */
    size_t blocks;   /* number of blocks so far */
    vector *planes;  /* `vectors` for each level */
    vector *carries; /* for each level the carry that waits for a second one */
};

INLINE struct counter counter_of(size_t count, size_t width)
{
    struct counter counter = {.together = 1};
    if (width % SHORT)
        counter.together = ((count * width < LINES * LONG ? SHORT : LONG) + width - 1) / width;
    counter.line = counter.together * width;
    counter.vectors = (counter.line + LANE - 1) / LANE;
    size_t block = LINES * counter.together, blocks = (count + block - 1) / block;
    for (counter.levels = FOLDED + 1; blocks >> (counter.levels - FOLDED);)
        counter.levels++;
    return counter;
}

/* Adds three vectors of one weight: the digits to `sum`, and the carries, of twice the weight, to `carry`. */
INLINE void full_add(vector *sum, vector *carry, vector x, vector y)
{
    vector half = *sum ^ x;
    *carry = *sum ^ (half & (*sum ^ y));
    *sum = half ^ y;
}

INLINE size_t start_of(const struct counter *counter, size_t j)
{
    return j + 1 < counter->vectors ? j * LANE : counter->line - LANE;
}

INLINE void fold(struct counter *counter, const uint8_t *lines)
{
    size_t line = counter->line, vectors = counter->vectors, blocks = counter->blocks++;
    for (size_t j = 0; j < vectors; j++) {
        const uint8_t *at = lines + start_of(counter, j);
        vector *planes = counter->planes + j, *carries = counter->carries + j;
        vector one = planes[0], two = planes[vectors], four = planes[2 * vectors], eight = planes[3 * vectors];
        vector twos[2], fours[2], eights[2], carry;
        for (int half = 0; half < 2; half++) {
            for (int quarter = 0; quarter < 2; quarter++, at += 4 * line) {
                full_add(&one, &twos[0], *(const loose *)at, *(const loose *)(at + line));
                full_add(&one, &twos[1], *(const loose *)(at + 2 * line), *(const loose *)(at + 3 * line));
                full_add(&two, &fours[quarter], twos[0], twos[1]);
            }
            full_add(&four, &eights[half], fours[0], fours[1]);
        }
        full_add(&eight, &carry, eights[0], eights[1]);
        planes[0] = one;
        planes[vectors] = two;
        planes[2 * vectors] = four;
        planes[3 * vectors] = eight;
        size_t level = FOLDED;
        for (; blocks >> (level - FOLDED) & 1; level++)
            full_add(&planes[level * vectors], &carry, carries[level * vectors], carry);
        carries[level * vectors] = carry;
    }
}

/* Adds the carries that wait to the planes. */
INLINE void settle(struct counter *counter)
{
    for (size_t j = 0; j < counter->vectors; j++) {
        vector carry = {0};
        for (size_t level = FOLDED; level < counter->levels; level++) {
            size_t at = level * counter->vectors + j;
            vector waiting = {0};
            if (counter->blocks >> (level - FOLDED) & 1)
                waiting = counter->carries[at];
            full_add(&counter->planes[at], &carry, waiting, carry);
        }
    }
}

/* Adds the counters of all columns to the counts of the bits of a row. */
INLINE void decode(const struct counter *counter, size_t width, int64_t *counts, size_t size)
{
    for (size_t j = 0, done = 0; j < counter->vectors; j++) {
        size_t start = start_of(counter, j);
        for (size_t w = 0; w < LANE / 8; w++) {
            uint64_t numbers[64] = {0};
            for (size_t level = 0; level < counter->levels; level++) {
                uint64_t digits = counter->planes[level * counter->vectors + j][w];
                for (size_t i = 0; i < 64; i++)
                    numbers[i] += (digits >> i & 1) << level;
            }
            for (size_t byte = 0; byte < 8; byte++) {
                size_t place = start + 8 * w + byte, column = 8 * (place % width);
                if (place >= done && column + 8 <= size)
                    for (size_t i = 0; i < 8; i++)
                        counts[column + i] += (int64_t)numbers[8 * byte + i];
                else if (place >= done)
                    for (size_t i = 0; column + i < size; i++)
                        counts[column + i] += (int64_t)numbers[8 * byte + i];
            }
        }
        done = start + LANE;
    }
}

INLINE uint64_t short_row(const uint8_t *row, size_t width)
{
    if (width >= 4)
        return *(const u32 *)row | (uint64_t) * (const u32 *)(row + width - 4) << 8 * (width - 4);
    if (width >= 2)
        return *(const u16 *)row | (uint64_t) * (const u16 *)(row + width - 2) << 8 * (width - 2);
    return *row;
}

#define ONES(j) (size_t)__builtin_popcountll(((const u64 *)row)[j])

INLINE size_t ones_by_words(const uint8_t *row, size_t width)
{
    if (width < 8)
        return (size_t)__builtin_popcountll(short_row(row, width));
    size_t words = width / 8, rest = width % 8, j = 0, ones = 0, others[3] = {0};
    for (; j + 4 <= words; j += 4) { /* sums of their own, since one addition waits for another */
        ones += ONES(j);
        for (size_t i = 0; i < 3; i++)
            others[i] += ONES(j + 1 + i);
    }
    for (ones += others[0] + others[1] + others[2]; j < words; j++)
        ones += ONES(j);
    if (rest)
        ones += (size_t)__builtin_popcountll(*(const u64 *)(row + width - 8) >> (64 - 8 * rest));
    return ones;
}

INLINE size_t add_lines(ADD_PARAMETERS, ones_of_row *ones_of)
{
    struct counter counter = counter_of(count, width);
    size_t planes = counter.levels * counter.vectors, block = LINES * counter.together, out = 0;
    counter.planes = (vector *)(scratch + (LANE - (uintptr_t)scratch % LANE) % LANE);
    counter.carries = counter.planes + planes;
    uint8_t *copy = (uint8_t *)(counter.carries + planes);
    for (size_t done = 0; done < count; done += block, rows += block * width) {
        size_t here = count - done < block ? count - done : block;
        const uint8_t *lines = rows;
        if (here < block) {
            lines = memcpy(copy, rows, here * width);
            memset(copy + here * width, 0, (block - here) * width);
        }
        for (size_t i = 0; bins && i < here; i++) {
            size_t ones = ones_of(rows + i * width, width);
            if (ones >= least && ones <= most) {
                marks[bins[ones]]++;
                continue;
            }
            if (lines == rows)
                lines = memcpy(copy, rows, block * width);
            memset(copy + i * width, 0, width);
            out++;
        }
        fold(&counter, lines);
    }
    settle(&counter);
    decode(&counter, width, counts, size);
    return out;
}
