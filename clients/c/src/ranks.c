/* Subsets of buckets and their ranks, for sub. */
#include "core.h"

#define MOST_MEMBERS 64

/* Return the number of subsets with so many members, or 0 if it has more than 64 bits. */
HB_INSIDE uint64_t hb_choose(uint64_t items, uint64_t members) {
  uint64_t choices = 1;
  hb_integer product;
  if (members > MOST_MEMBERS) return 0;

  for (uint64_t i = 0; i < members; i++) {
    if (i >= items) return 0;
    if (choices <= UINT64_MAX / (items - i)) {
      choices = choices * (items - i) / (i + 1);
      continue;
    }
    hb_set(&product, choices);
    hb_scale(&product, (uint32_t)(items - i));
    hb_divide_small(&product, (uint32_t)(i + 1));
    if (hb_length(&product) > 64) return 0;
    choices = hb_low(&product);
  }
  return choices;
}

/* Return the rank of members in falling order. */
static uint64_t rank_of(const uint64_t *members, unsigned count) {
  uint64_t rank = 0;

  for (unsigned i = 0; i < count; i++) rank += hb_choose(members[i], count - i);
  return rank;
}

/* Return the rank of a random subset of buckets, with the own one in it or not. */
HB_INSIDE uint64_t hb_rank(const hb_oracle *oracle, uint64_t own, int is_inside, hb_source *source) {
  uint64_t members[MOST_MEMBERS], item = ((uint64_t)1 << oracle->rows) - 1;
  unsigned count = 0, left = (unsigned)oracle->members - (unsigned)is_inside;
  uint64_t rank = hb_below(source, hb_choose(item, left));

  /* The others are numbered without the own bucket, and come in falling order. */
  for (; left > 0; left--) {
    do item--;
    while (hb_choose(item, left) > rank);
    rank -= hb_choose(item, left);
    uint64_t bucket = item + (item >= own);
    if (is_inside && bucket < own) {
      members[count++] = own;
      is_inside = 0;
    }
    members[count++] = bucket;
  }
  if (is_inside) members[count++] = own;
  return rank_of(members, count);
}
