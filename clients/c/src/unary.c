/* Reports of one bit for each value: sue, oue and ss. */
#include "core.h"

static void put_bit(uint8_t *report, uint64_t bit, int is_one) {
  uint8_t mask = (uint8_t)(1u << bit % 8);

  report[bit / 8] = (uint8_t)((report[bit / 8] & ~mask) | (is_one ? mask : 0));
}

static int bit_of(const uint8_t *report, uint64_t bit) { return report[bit / 8] >> bit % 8 & 1; }

/* Write the report of sue or oue into zeros. Each bit is one with T_q, the own bit with T_p. */
HB_INSIDE void hb_unary(const hb_oracle *oracle, uint64_t value, hb_source *source, uint8_t *report) {
  int is_kept = hb_event(source, oracle->threshold);
  uint64_t high = oracle->other >> 56, low = oracle->other & 0xffffffffffffff;

  /* First a byte of each bit, then seven bytes of each tie. */
  uint64_t tie = source->position + oracle->size, first = source->position;
  for (uint64_t bit = 0; bit < oracle->size; bit++) {
    source->position = first + bit;
    uint64_t byte = hb_draw(source, 1);
    int is_one = byte < high;
    if (byte == high && low > 0) {
      source->position = tie;
      is_one = hb_draw(source, 7) < low;
      tie = source->position;
    }
    put_bit(report, bit, is_one);
  }
  source->position = tie;
  put_bit(report, value, is_kept);
}

/* Return how many of the drawn numbers are below a limit. */
static uint64_t count_below(const uint8_t *work, uint64_t items, uint64_t limit) {
  uint64_t count = 0;

  for (uint64_t i = 0; i < items; i++) count += hb_load(work + 4 * i, 4) < limit;
  return count;
}

/* Draw a number for each item, and return the limit with so many numbers below it, or 0 if two are equal there. */
static uint64_t draw_limit(hb_source *source, uint64_t members, uint64_t items, uint8_t *work) {
  uint64_t low = 0, high = (uint64_t)1 << 32;
  for (uint64_t i = 0; i < items; i++) hb_store(work + 4 * i, hb_draw(source, 4), 4);

  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (count_below(work, items, middle) < members) low = middle + 1;
    else high = middle;
  }
  return count_below(work, items, low) == members ? low : 0;
}

/* Write a uniform choice of so many items into zeros. */
static void choose(hb_source *source, uint64_t members, uint64_t items, uint8_t *report, uint8_t *work) {
  uint64_t limit = 0;
  if (members == items) {
    for (uint64_t i = 0; i < items; i++) put_bit(report, i, 1);
  }
  if (members == 0 || members == items) return;

  while (limit == 0) limit = draw_limit(source, members, items, work);
  for (uint64_t i = 0; i < items; i++) put_bit(report, i, hb_load(work + 4 * i, 4) < limit);
}

/* Write the report of ss into zeros: a set of values, with the own one in it or not. */
HB_INSIDE void hb_subset(const hb_oracle *oracle, uint64_t value, hb_source *source, uint8_t *report, uint8_t *work) {
  int is_inside = hb_event(source, oracle->threshold);
  uint64_t last = oracle->size - 1;

  choose(source, oracle->members - (uint64_t)is_inside, last, report, work);
  /* Item v stands for the last value, since the own value is no item. */
  if (value < last) put_bit(report, last, bit_of(report, value));
  put_bit(report, value, is_inside);
}
