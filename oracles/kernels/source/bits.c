/* Rows of bits: the number of rows in which each bit is 1, and the number of ones in each row.

Full adders add sixteen rows at a time, with 64 columns in a word. So `levels` planes hold a binary counter for every
column. Most blocks change only the lowest few planes. */

#include "common.h"

#define BLOCK 16
#define FOLDED 4 /* planes that a block of 16 changes. Its carry weighs 2^4. */

INLINE void full_add(uint64_t *sum, uint64_t *carry, uint64_t x, uint64_t y)
{
    uint64_t half = *sum ^ x;
    *carry = (*sum & x) | (half & y);
    *sum = half ^ y;
}

INLINE void fold(const u64 *restrict rows, size_t words, uint64_t *restrict planes, uint64_t *restrict carry)
{
    for (size_t j = 0; j < words; j++) {
        uint64_t one = planes[j], two = planes[words + j], four = planes[2 * words + j], eight = planes[3 * words + j];
        uint64_t twos[2], fours[2], eights[2], sixteen;
        for (int half = 0; half < 2; half++) {
            for (int quarter = 0; quarter < 2; quarter++) {
                const u64 *r = rows + (8 * half + 4 * quarter) * words + j;
                full_add(&one, &twos[0], r[0], r[words]);
                full_add(&one, &twos[1], r[2 * words], r[3 * words]);
                full_add(&two, &fours[quarter], twos[0], twos[1]);
            }
            full_add(&four, &eights[half], fours[0], fours[1]);
        }
        full_add(&eight, &sixteen, eights[0], eights[1]);
        planes[j] = one;
        planes[words + j] = two;
        planes[2 * words + j] = four;
        planes[3 * words + j] = eight;
        carry[j] = sixteen;
    }
}

INLINE void ripple(uint64_t *planes, uint64_t *carry, size_t words, size_t levels)
{
    for (size_t level = FOLDED; level < levels; level++) {
        uint64_t left = 0, *plane = planes + level * words;
        for (size_t j = 0; j < words; j++) {
            uint64_t both = plane[j] & carry[j];
            plane[j] ^= carry[j];
            carry[j] = both;
            left |= both;
        }
        if (!left)
            return;
    }
}

/* Returns a word with bit i of a byte in the lowest bit of byte i. */
INLINE uint64_t spread(uint64_t byte)
{
    uint64_t bits = (byte * 0x0101010101010101u) & 0x8040201008040201u;
    return ((bits + 0x7f7f7f7f7f7f7f7fu) >> 7) & 0x0101010101010101u;
}

/* Adds the counters of all columns to `counts`. */
INLINE void decode(const uint64_t *planes, size_t words, size_t levels, int64_t *counts, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)planes;
    for (size_t start = 0; start < levels; start += 8) {
        size_t end = levels < start + 8 ? levels : start + 8;
        for (size_t column = 0; column < size; column += 8) {
            uint64_t lanes = 0;
            for (size_t level = start; level < end; level++)
                lanes |= spread(bytes[8 * level * words + column / 8]) << (level - start);
            if (size - column >= 8)
                for (size_t i = 0; i < 8; i++)
                    counts[column + i] += (int64_t)(lanes >> 8 * i & 255) << start;
            else
                for (size_t i = 0; i < size - column; i++)
                    counts[column + i] += (int64_t)(lanes >> 8 * i & 255) << start;
        }
    }
}

INLINE size_t ones_of(const u64 *row, size_t words)
{
    size_t ones = 0;
    for (size_t j = 0; j < words; j++)
        ones += (size_t)__builtin_popcountll(row[j]);
    return ones;
}

/* Adds the columns of `count` rows to `counts`. With `bins`, rows with fewer than `least` or more than `most` ones are
skipped, and the others add to marks[bins[ones]]. Returns the number of skipped rows. `scratch` has
(levels + 1 + 16) times the words of a row, all zero. 2^levels must be above `count`, and levels at least 5. */
CLONES size_t add_bits(const uint8_t *rows, size_t count, size_t width, int64_t *counts, size_t size,
                       const int64_t *bins, size_t least, size_t most, int64_t *marks, uint64_t *scratch, size_t levels)
{
    size_t words = (width + 7) / 8, out = 0;
    uint64_t *carry = scratch + levels * words, *copy = carry + words;
    for (size_t done = 0; done < count; done += BLOCK, rows += BLOCK * width) {
        size_t here = count - done < BLOCK ? count - done : BLOCK;
        int copied = here < BLOCK || width % 8;
        if (copied) {
            memset(copy, 0, BLOCK * words * sizeof *copy);
            for (size_t i = 0; i < here; i++)
                memcpy(copy + i * words, rows + i * width, width);
        }
        const u64 *block = copied ? (const u64 *)copy : (const u64 *)rows;
        for (size_t i = 0; bins && i < here; i++) {
            size_t ones = ones_of(block + i * words, words);
            if (ones >= least && ones <= most) {
                marks[bins[ones]]++;
                continue;
            }
            if (!copied) {
                memcpy(copy, rows, BLOCK * width);
                copied = 1;
                block = (const u64 *)copy;
            }
            memset(copy + i * words, 0, words * sizeof *copy);
            out++;
        }
        fold(block, words, scratch, carry);
        ripple(scratch, carry, words, levels);
    }
    decode(scratch, words, levels, counts, size);
    return out;
}

CLONES void row_ones(const uint8_t *rows, size_t count, size_t width, int64_t *ones)
{
    size_t whole = width / 8, rest = width % 8;
    for (size_t i = 0; i < count; i++, rows += width) {
        uint64_t last = 0;
        memcpy(&last, rows + 8 * whole, rest);
        ones[i] = (int64_t)ones_of((const u64 *)rows, whole) + __builtin_popcountll(last);
    }
}
