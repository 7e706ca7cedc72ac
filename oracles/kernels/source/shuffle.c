/* Rows in a random order, with equal probability for every order. Without its key nobody can predict the stream.

The stream is ChaCha20 (RFC 8439) with a nonce of zeros, as words. 16 blocks are computed together. The stream has the
first words of all 16, then the second words, and so on. */

#include "common.h"

#define BLOCKS 16
#define WORDS (16 * BLOCKS)
typedef uint32_t lanes __attribute__((vector_size(4 * BLOCKS)));

struct stream {
    const uint32_t *key;
    uint32_t block;     /* the first block that is not computed yet */
    size_t used;        /* number of used words */
    uint32_t words[WORDS];
};

#define ROTATED(x, by) ((x) << (by) | (x) >> (32 - (by)))
#define QUARTER(a, b, c, d)                                                                                            \
    (a) += (b), (d) ^= (a), (d) = ROTATED(d, 16), (c) += (d), (b) ^= (c), (b) = ROTATED(b, 12),                        \
    (a) += (b), (d) ^= (a), (d) = ROTATED(d, 8), (c) += (d), (b) ^= (c), (b) = ROTATED(b, 7)

CLONES static void fill(struct stream *stream)
{
    static const uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    static const lanes number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    lanes first[16], x[16];
    for (int i = 0; i < 16; i++)
        first[i] = (lanes){0} + (i < 4 ? constants[i] : i < 12 ? stream->key[i - 4] : 0);
    first[12] = number + stream->block;
    memcpy(x, first, sizeof x);
    for (int round = 0; round < 20; round += 2) {
        for (int i = 0; i < 4; i++)
            QUARTER(x[i], x[4 + i], x[8 + i], x[12 + i]);
        for (int i = 0; i < 4; i++)
            QUARTER(x[i], x[4 + (i + 1) % 4], x[8 + (i + 2) % 4], x[12 + (i + 3) % 4]);
    }
    for (int i = 0; i < 16; i++)
        x[i] += first[i];
    memcpy(stream->words, x, sizeof x);
    stream->block += BLOCKS;
    stream->used = 0;
}

/* Returns a uniform integer below `bound`. Words that would favour some integers are skipped. */
INLINE uint32_t below(struct stream *stream, uint32_t bound)
{
    for (;;) {
        if (stream->used == WORDS)
            fill(stream);
        uint64_t drawn = (uint64_t)stream->words[stream->used++] * bound;
        if ((uint32_t)drawn >= bound || (uint32_t)drawn >= -bound % bound)
            return (uint32_t)(drawn >> 32);
    }
}

/* Draws integers below first, first + 1, ..., from the next words. Returns 0 if a word might have to be skipped. */
CLONES static int draw(const uint32_t *words, uint32_t first, size_t number, uint32_t *drawn)
{
    uint32_t doubtful = 0;
    for (size_t i = 0; i < number; i++) {
        uint32_t bound = first + (uint32_t)i;
        uint64_t product = (uint64_t)words[i] * bound;
        drawn[i] = (uint32_t)(product >> 32);
        doubtful |= (uint32_t)product < bound;
    }
    return !doubtful;
}

/* Each row goes to a random place among the occupied ones and the next one. The row there moves to the next place. */
INLINE void place(const uint8_t *const *pieces, const size_t *counts, size_t number, size_t width,
                  struct stream *stream, uint8_t *into)
{
    uint32_t places[WORDS];
    size_t taken = 0;
    for (size_t i = 0; i < number; i++) {
        const uint8_t *row = pieces[i];
        for (size_t left = counts[i], many; left; left -= many) {
            if (stream->used == WORDS)
                fill(stream);
            many = left < WORDS - stream->used ? left : WORDS - stream->used;
            if (draw(stream->words + stream->used, (uint32_t)taken + 1, many, places))
                stream->used += many;
            else
                for (size_t j = 0; j < many; j++)
                    places[j] = below(stream, (uint32_t)(taken + j) + 1);
            for (size_t j = 0; j < many; j++, row += width, taken++) {
                uint8_t *next = into + taken * width, *chosen = into + places[j] * width;
                memmove(next, chosen, width);
                memcpy(chosen, row, width);
            }
        }
    }
}

/* Fills `into` with the rows of all pieces, fewer than 2^32. `key` has 8 words. */
void shuffle_pieces(const uint8_t *const *pieces, const size_t *counts, size_t number, size_t width,
                    const uint32_t *key, uint8_t *into)
{
    struct stream stream = {.key = key, .used = WORDS};
    if (width == 4)
        place(pieces, counts, number, 4, &stream, into);
    else if (width == 8)
        place(pieces, counts, number, 8, &stream, into);
    else
        place(pieces, counts, number, width, &stream, into);
}
