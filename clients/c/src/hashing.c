/* Local hashing: a report has random rows, and the bucket of the value under these rows, or another bucket. */
#include "core.h"

/* Return the number of words that are drawn. The rows of short follow from two, those of line from one. */
static unsigned words_of(const hb_oracle *oracle) {
  if (oracle->family == HB_ROWS_LINE) return 1;
  return oracle->family == HB_ROWS_SHORT ? 2 : oracle->rows;
}

/* Return the bits of the bucket, or of the rank of a subset of buckets. */
static unsigned head_of(const hb_oracle *oracle) {
  uint64_t largest = hb_choose((uint64_t)1 << oracle->rows, oracle->members) - 1;
  unsigned bits = 0;

  while (bits < 64 && largest >> bits > 0) bits++;
  return bits;
}

/* Set the bits of a row and the width of a report. Return 0 if there is no such oracle. */
HB_INSIDE int hb_hashing_widths(hb_oracle *oracle) {
  static const unsigned least[] = {1, 3, 3, 1};
  uint64_t largest = oracle->size - (oracle->kind != HB_HR);
  unsigned bits = oracle->kind == HB_FULL ? 2 : least[oracle->family];
  while (largest >> bits > 0) bits++;
  oracle->bits = bits;

  unsigned total = head_of(oracle) + words_of(oracle) * bits;
  oracle->width = total <= 32 ? 4 : 8 * ((total + 63) / 64);
  if (oracle->kind == HB_SUB) oracle->width = (total + 7) / 8;
  if (oracle->family == HB_ROWS_FREE) return oracle->kind != HB_SUB;
  if (oracle->family == HB_ROWS_LINE && oracle->rows + 1 != bits) return 0;
  /* The table of polynomials ends at 30. */
  return oracle->rows <= bits && total <= 64 && (oracle->family == HB_ROWS_FULL || bits <= 30);
}

static unsigned parity(uint64_t word) {
  for (unsigned shift = 32; shift > 0; shift /= 2) word ^= word >> shift;
  return (unsigned)(word & 1);
}

/* Whether no xor of some rows is 0. */
static int are_independent(const uint64_t *rows, unsigned count) {
  uint64_t reduced[HB_ROW_COUNT];

  for (unsigned i = 0; i < count; i++) {
    uint64_t row = rows[i];
    for (unsigned j = 0; j < i; j++) {
      /* The smaller of both has a zero at the highest bit of the earlier row. */
      if ((row ^ reduced[j]) < row) row ^= reduced[j];
    }
    if (row == 0) return 0;
    reduced[i] = row;
  }
  return 1;
}

/* Draw the words that a report has, which do not depend on the value. */
HB_INSIDE void hb_rows_of(const hb_oracle *oracle, hb_source *source, uint64_t rows[HB_ROW_COUNT]) {
  unsigned words = words_of(oracle);
  if (oracle->kind == HB_HAAR) {
    uint64_t level = hb_below(source, oracle->bits);
    rows[0] = (2 * hb_below(source, (uint64_t)1 << (oracle->bits - 1 - level)) + 1) << level;
    return;
  }

  uint64_t bound = (uint64_t)1 << oracle->bits;
  if (oracle->family == HB_ROWS_LINE) {
    rows[0] = 1 + hb_below(source, bound - 1);
    return;
  }

  int is_drawn = 0;
  while (!is_drawn) {
    for (unsigned i = 0; i < words; i++) rows[i] = hb_below(source, bound);
    is_drawn = oracle->family != HB_ROWS_FULL || are_independent(rows, words);
  }
}

static uint64_t times_x(uint64_t word, unsigned bits) {
  /* All terms of the polynomials below x^k, from k = 3. */
  static const uint8_t polynomials[28] = {3,    3, 5, 3,    3, 0x1b, 3, 9, 5, 9,    0x1b, 0x21, 3,    0x2b,
                                          9,    9, 0x27, 9, 5, 3,    0x21, 0x1b, 9, 0x1b, 0x27, 3,    5, 3};
  uint64_t top = word >> (bits - 1) & 1;

  return (word << 1 ^ (top << bits)) ^ (top ? polynomials[bits - 3] : 0);
}

/* Return the low bits of a v xor b v^2 in the field of 2^k elements. */
static uint64_t field_bucket(const hb_oracle *oracle, uint64_t code, const uint64_t rows[HB_ROW_COUNT]) {
  uint64_t a = rows[0], b = words_of(oracle) == 2 ? rows[1] : 0, bucket = 0;

  for (unsigned i = 0; i < oracle->bits; i++) {
    /* The square is linear in the bits of v: its part of bit i is x^(2 i). */
    bucket ^= (code >> i & 1) * (a ^ b);
    a = times_x(a, oracle->bits);
    b = times_x(times_x(b, oracle->bits), oracle->bits);
  }
  return bucket & (((uint64_t)1 << oracle->rows) - 1);
}

HB_INSIDE uint64_t hb_bucket_of(const hb_oracle *oracle, uint64_t position, const uint64_t rows[HB_ROW_COUNT]) {
  uint64_t code = position + (oracle->kind == HB_HR), bucket = 0;
  if (words_of(oracle) < oracle->rows) return field_bucket(oracle, code, rows);

  for (unsigned j = 0; j < oracle->rows; j++) bucket |= (uint64_t)parity(rows[j] & code) << j;
  return bucket;
}

/* Write so many bits of a value into zeros, from a bit on. */
static void put_bits(uint8_t *report, unsigned from, uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; i++) report[(from + i) / 8] |= (uint8_t)((value >> i & 1) << (from + i) % 8);
}

/* Write the bucket, then the words. */
HB_INSIDE void hb_pack(const hb_oracle *oracle, uint64_t bucket, const uint64_t rows[HB_ROW_COUNT], uint8_t *report) {
  unsigned head = head_of(oracle);

  put_bits(report, 0, bucket, head);
  for (unsigned i = 0; i < words_of(oracle); i++) {
    put_bits(report, head + i * oracle->bits, rows[i], oracle->bits);
  }
}
