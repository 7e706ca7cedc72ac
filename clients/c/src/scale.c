/* Numbers in bins. The edges follow from the scale, so a listing cannot choose others. */
#include "query.h"

#define MOST_BINS ((uint64_t)1 << 24)
#define PRECISION 112 /* bits of an edge on a logarithmic scale before it is rounded */

/* An end of the scale: its amount and its sign. */
typedef struct {
  hb_integer amount;
  int is_negative;
} signed_amount;

/* A number above 0: an integer of PRECISION bits times a power of two. */
typedef struct {
  hb_integer integer;
  int exponent;
} real;

/* Read an end: 0, or from 1e-40 to 1e50 in magnitude. */
static int read_end(hubbub_text domain, const char *member, signed_amount *end, uint64_t *bits) {
  hb_decimal decimal;
  if (!hb_decimal_of(hb_listed(domain, member), &decimal)) return 0;

  *bits = decimal.digits ? hb_decimal_bits(&decimal) : 0;
  end->is_negative = decimal.is_negative && decimal.digits > 0;
  hb_exact(&end->amount, *bits);
  return *bits == 0 || (*bits >= hb_ratio_of_ten(1, -40) && *bits <= hb_ratio_of_ten(1, 50));
}

static int is_logarithmic(hubbub_text domain) { return hb_json_is(hb_listed(domain, "scale"), hb_text("log")); }

/* Return the order of two amounts. */
static int compare_ends(const signed_amount *left, const signed_amount *right) {
  if (left->is_negative != right->is_negative) return left->is_negative ? -1 : 1;

  int magnitude = hb_compare(&left->amount, &right->amount);
  return left->is_negative ? -magnitude : magnitude;
}

/* Read a scale, and set the number of its bins. */
HB_INSIDE int hb_read_scale(hubbub_text domain, uint64_t *bins) {
  signed_amount low, high;
  uint64_t low_bits, high_bits;
  int is_linear = hb_json_is(hb_listed(domain, "scale"), hb_text("linear"));
  if (!is_linear && !is_logarithmic(domain)) return 0;

  if (!hb_whole(hb_listed(domain, "bins"), MOST_BINS, bins) || *bins < 2 || (*bins & (*bins - 1)) != 0) return 0;
  if (!read_end(domain, "low", &low, &low_bits) || !read_end(domain, "high", &high, &high_bits)) return 0;
  return compare_ends(&low, &high) < 0 && (is_linear || (!low.is_negative && low_bits > 0));
}

/* Whether the float next to an amount is not above a number. Both may be negative. */
static int is_not_above(const signed_amount *edge, int exponent, uint64_t number, int is_negative) {
  uint64_t bits = hb_round(&edge->amount, exponent, HB_NEAREST);
  if (bits == 0 && number == 0) return 1;
  if (edge->is_negative && bits > 0) return !is_negative || bits >= number;

  return !is_negative && bits <= number;
}

/* Set low (bins - i) + high i. */
static void sum_ends(signed_amount *sum, const signed_amount *low, const signed_amount *high) {
  hb_integer term = high->amount;
  *sum = *low;
  if (low->is_negative == high->is_negative) {
    hb_add(&sum->amount, &term);
  } else if (hb_compare(&sum->amount, &term) >= 0) {
    hb_subtract(&sum->amount, &term);
  } else {
    hb_subtract(&term, &sum->amount);
    sum->amount = term;
    sum->is_negative = high->is_negative;
  }
}

static uint64_t linear_bin(const signed_amount *low, const signed_amount *high, uint64_t bins, uint64_t number,
                           int is_negative) {
  uint64_t bin = 0;
  int levels = 0;
  while ((uint64_t)1 << levels < bins) levels++;

  for (uint64_t half = bins / 2; half > 0; half /= 2) {
    signed_amount left = *low, right = *high, edge;
    hb_scale(&left.amount, (uint32_t)(bins - bin - half));
    hb_scale(&right.amount, (uint32_t)(bin + half));
    sum_ends(&edge, &left, &right);
    if (is_not_above(&edge, -HB_UNIT - levels, number, is_negative)) bin += half;
  }
  return bin;
}

static void shorten(real *number) {
  unsigned length = hb_length(&number->integer);

  if (length > PRECISION) hb_right(&number->integer, length - PRECISION);
  else hb_left(&number->integer, PRECISION - length);
  number->exponent += (int)length - PRECISION;
}

/* Set the geometric mean of two numbers. */
static void mean(real *result, const real *low, const real *high) {
  hb_integer square, root, candidate;
  unsigned odd = (unsigned)(low->exponent + high->exponent) & 1;
  hb_multiply(&square, &low->integer, &high->integer);
  hb_left(&square, odd);
  result->exponent = (low->exponent + high->exponent - (int)odd) / 2;

  /* Each bit of the root stays if the square of the root does not become too large. */
  hb_set(&root, 0);
  for (unsigned bit = PRECISION + 1; bit-- > 0;) {
    hb_integer product;
    candidate = root;
    candidate.word[bit / 32] |= (uint32_t)1 << bit % 32;
    hb_multiply(&product, &candidate, &candidate);
    if (hb_compare(&product, &square) <= 0) root = candidate;
  }
  result->integer = root;
  shorten(result);
}

static uint64_t logarithmic_bin(const hb_integer *low, const hb_integer *high, uint64_t bins, uint64_t number,
                                int is_negative) {
  real left = {*low, -HB_UNIT}, right = {*high, -HB_UNIT}, middle;
  uint64_t bin = 0;
  shorten(&left);
  shorten(&right);

  /* The middle edge of a block of bins is the geometric mean of its ends. */
  for (uint64_t half = bins / 2; half > 0; half /= 2) {
    mean(&middle, &left, &right);
    if (!is_negative && hb_round(&middle.integer, middle.exponent, HB_NEAREST) <= number) {
      bin += half;
      left = middle;
    } else {
      right = middle;
    }
  }
  return bin;
}

/* Set the bin of a number, given by its bits: how many inner edges are not above it. */
HB_INSIDE int hb_bin_of(hubbub_text domain, uint64_t bits, uint64_t *bin) {
  signed_amount low, high;
  uint64_t bins, low_bits, high_bits;
  if (!hb_whole(hb_listed(domain, "bins"), MOST_BINS, &bins)) return 0;
  if (!read_end(domain, "low", &low, &low_bits) || !read_end(domain, "high", &high, &high_bits)) return 0;

  int is_negative = bits >> 63 == 1 && bits << 1 != 0;
  bits &= UINT64_MAX >> 1;
  if (is_logarithmic(domain)) *bin = logarithmic_bin(&low.amount, &high.amount, bins, bits, is_negative);
  else *bin = linear_bin(&low, &high, bins, bits, is_negative);
  return 1;
}
