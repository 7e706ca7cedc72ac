/* Ids that are known, in a table of 2^bits: each stands at its place or behind, before the next that is 0.

An id is never 0. Its place is told by a key that nobody outside knows, so that nobody can choose ids that meet. */

#include "common.h"

#define AHEAD 16 /* so many ids early a place is fetched from memory */

INLINE size_t place_of(uint64_t id, const uint64_t *key, size_t bits)
{
    uint64_t mixed = (id ^ key[0]) * (key[1] | 1);
    mixed = (mixed ^ mixed >> 32) * (key[2] | 1);
    return (size_t)(mixed >> (64 - bits));
}

/* Where the id stands, or where it would. */
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

/* Whether all ids are new, none twice and none 0: then the table holds them, else it is as it was.
There must be more places than ids then. */
int learn_ids(uint64_t *table, size_t bits, const uint64_t *key, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(table + place_of(ids[i + AHEAD], key, bits), 1);
        size_t at = seek(table, bits, key, ids[i]);
        if (!ids[i] || table[at]) {
            while (i--) /* the last first, so that nothing behind it is lost */
                table[seek(table, bits, key, ids[i])] = 0;
            return 0;
        }
        table[at] = ids[i];
    }
    return 1;
}
