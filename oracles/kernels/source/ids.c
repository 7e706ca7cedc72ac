/* A set of ids in a table of 2^bits: each id is at its place or after it, before the next 0.

An id is never 0. A secret key gives the places, so nobody outside can choose ids that collide. */

#include "common.h"

#define AHEAD 16 /* a place is fetched from memory this many ids early */

INLINE size_t place_of(uint64_t id, const uint64_t *key, size_t bits)
{
    uint64_t mixed = (id ^ key[0]) * (key[1] | 1);
    mixed = (mixed ^ mixed >> 32) * (key[2] | 1);
    return (size_t)(mixed >> (64 - bits));
}

/* Returns the place of the id, or the free place for it. */
INLINE size_t seek(const uint64_t *table, size_t bits, const uint64_t *key, uint64_t id)
{
    size_t at = place_of(id, key, bits), mask = ((size_t)1 << bits) - 1;
    while (table[at] && table[at] != id)
        at = (at + 1) & mask;
    return at;
}

int knows_id(const uint64_t *table, size_t bits, const uint64_t *key, uint64_t id)
{
    return id && table[seek(table, bits, key, id)] == id;
}

/* Adds ids if all are new, none occurs twice and none is 0. Otherwise it changes nothing and returns 0. The table must
have more places than ids afterwards. */
int learn_ids(uint64_t *table, size_t bits, const uint64_t *key, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(table + place_of(ids[i + AHEAD], key, bits), 1);
        size_t at = seek(table, bits, key, ids[i]);
        if (!ids[i] || table[at]) {
            while (i--) /* the last first: a gap would hide the ids after it */
                table[seek(table, bits, key, ids[i])] = 0;
            return 0;
        }
        table[at] = ids[i];
    }
    return 1;
}
