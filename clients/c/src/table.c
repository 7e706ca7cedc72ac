/* Tables: one random permutation of the buckets decides all answers of a round. */
#include "core.h"

/* Return the number of permutations of g buckets with exactly k fixed points. */
static uint32_t permutations(unsigned g, unsigned k) {
  static const uint32_t derangements[HB_BUCKETS + 1] = {1, 0, 1, 2, 9, 44, 265, 1854, 14833};
  uint32_t choices = 1;

  for (unsigned i = 0; i < k; i++) choices = choices * (g - i) / (i + 1);
  return choices * derangements[g - k];
}

/* Set `lo`, which follows from `hi`, and return whether it is above 0. */
static int low_of(const hb_table *table, const hb_integer *hi, hb_integer *lo) {
  hb_integer likely = *hi;
  uint32_t above = 0, below = 0;
  for (unsigned k = 0; k <= table->buckets; k++) {
    *(k >= table->points ? &above : &below) += permutations(table->buckets, k);
  }

  hb_scale(&likely, above);
  hb_set(lo, 1);
  hb_left(lo, 64);
  if (below == 0 || hb_compare(&likely, lo) > 0) return 0;
  hb_subtract(lo, &likely);
  hb_divide_small(lo, below);
  return hb_length(lo) > 0;
}

/* Whether one answer of a table with this `hi` is within e. */
static int is_within(const hb_table *table, const hb_integer *hi, const hb_integer *e) {
  hb_integer lo, own, total;
  unsigned g = table->buckets;
  if (!low_of(table, hi, &lo)) return 0;

  hb_set(&own, 0);
  hb_set(&total, 0);
  for (unsigned k = 0; k <= g; k++) {
    hb_integer weight = k >= table->points ? *hi : lo;
    hb_scale(&weight, permutations(g, k));
    hb_add(&total, &weight);
    hb_scale(&weight, k);
    hb_add(&own, &weight);
  }

  hb_scale(&total, g);
  hb_subtract(&total, &own);
  hb_multiply(&total, &total, e);
  hb_scale(&own, g - 1);
  hb_left(&own, HB_FRACTION);
  return hb_compare(&own, &total) <= 0;
}

/* Whether hi is the largest integer for which one answer is within e, and lo follows from it. */
HB_INSIDE int hb_table_fits(const hb_table *table, const hb_integer *e) {
  hb_integer hi, lo, listed, one;
  hb_set(&hi, table->hi);
  hb_set(&listed, table->lo);
  hb_set(&one, 1);
  if (table->points > table->buckets || !low_of(table, &hi, &lo) || hb_compare(&lo, &listed) != 0) return 0;
  if (!is_within(table, &hi, e)) return 0;

  hb_add(&hi, &one);
  return !is_within(table, &hi, e);
}

/* Whether e^(steps / 10^12) is at least hi / lo. */
static int covers(const hb_table *table, uint64_t steps) {
  hb_integer power, hi, lo;
  hb_set(&power, steps);
  hb_left(&power, HB_FRACTION);
  hb_divide_small(&power, 1000000);
  hb_divide_small(&power, 1000000);
  hb_exponential(&power, &power);

  hb_set(&lo, table->lo);
  hb_multiply(&power, &power, &lo);
  hb_set(&hi, table->hi);
  hb_left(&hi, HB_FRACTION);
  return hb_compare(&power, &hi) >= 0;
}

/* Return about ln(hi / lo) 10^12. Each square of the ratio shows one bit of its logarithm to base 2. */
static uint64_t estimated_steps(const hb_table *table) {
  hb_integer ratio, lo, steps, weight;
  hb_set(&ratio, table->hi);
  hb_left(&ratio, 128);
  hb_set(&lo, table->lo);
  hb_divide(&ratio, &ratio, &lo);
  hb_set(&steps, 0);

  hb_set(&weight, 693147180560);
  hb_left(&weight, 64);
  while (hb_length(&ratio) > 129) {
    hb_right(&ratio, 1);
    hb_add(&steps, &weight);
  }
  for (unsigned i = 0; i < 60; i++) {
    hb_multiply(&ratio, &ratio, &ratio);
    hb_right(&ratio, 128);
    hb_right(&weight, 1);
    if (hb_length(&ratio) < 130) continue;
    hb_right(&ratio, 1);
    hb_add(&steps, &weight);
  }
  hb_right(&steps, 64);
  return hb_low(&steps);
}

/* Return the bits of the charge of a round: ln(hi / lo), rounded up to 12 decimals. */
HB_INSIDE uint64_t hb_table_bound(const hb_table *table, uint64_t epsilon) {
  if (table->buckets == 2) return epsilon;

  uint64_t steps = estimated_steps(table);
  while (!covers(table, steps)) steps++;
  while (steps > 1 && covers(table, steps - 1)) steps--;
  return hb_ratio_of_ten(steps, -12);
}

static void swap(uint8_t *left, uint8_t *right) {
  uint8_t item = *left;

  *left = *right;
  *right = item;
}

/* Draw a number of fixed points, and return it. */
static unsigned draw_points(const hb_table *table, hb_source *source) {
  uint64_t weights[HB_BUCKETS + 1], total = 0;
  for (unsigned k = 0; k <= table->buckets; k++) {
    weights[k] = permutations(table->buckets, k) * (k >= table->points ? table->hi : table->lo);
    total += weights[k];
  }

  /* All weights together are at most 2^64, which a uint64 holds as 0. */
  uint64_t u = hb_draw(source, 8);
  while (total != 0 && u >= total) u = hb_draw(source, 8);
  unsigned k = table->buckets;
  while (u >= weights[k]) u -= weights[k--];
  return k;
}

static void sort(uint8_t *items, unsigned count) {
  for (unsigned i = 1; i < count; i++) {
    for (unsigned j = i; j > 0 && items[j - 1] > items[j]; j--) swap(items + j - 1, items + j);
  }
}

/* Set the bucket of each class. */
HB_INSIDE void hb_table_draw(const hb_table *table, hb_source *source, uint8_t bucket_of[HB_BUCKETS]) {
  uint8_t order[HB_BUCKETS], buckets[HB_BUCKETS];
  unsigned g = table->buckets, points = draw_points(table, source);
  for (unsigned i = 0; i < g; i++) order[i] = bucket_of[i] = (uint8_t)i;
  if (points == g) return;

  for (unsigned i = 0; i < points; i++) swap(order + i, order + i + hb_below(source, g - i));
  unsigned count = g - points;
  uint8_t *moved = order + points;
  sort(moved, count);

  int is_fixed = 1;
  while (is_fixed) {
    memcpy(buckets, moved, count);
    for (unsigned i = count - 1; i > 0; i--) swap(buckets + i, buckets + hb_below(source, i + 1));
    is_fixed = 0;
    for (unsigned i = 0; i < count; i++) is_fixed |= buckets[i] == moved[i];
  }
  for (unsigned i = 0; i < count; i++) bucket_of[moved[i]] = buckets[i];
}
