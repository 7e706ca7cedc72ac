/* Exact amounts. A float is an integer times a power of two, so sums of charges have no rounding. */
#include "core.h"

HB_INSIDE uint64_t hb_bits_of(double value) {
  uint64_t bits;

  memcpy(&bits, &value, sizeof bits);
  return bits;
}

HB_INSIDE double hb_double_of(uint64_t bits) {
  double value;

  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Set the amount of a float that is not negative. Bits below 2^-192 are dropped: only a limit can have them. */
HB_INSIDE void hb_exact(hb_integer *amount, uint64_t bits) {
  int exponent = (int)(bits >> 52) - 1075 + HB_UNIT;

  hb_set(amount, (bits & 0xfffffffffffff) | (uint64_t)1 << 52);
  if (bits >> 52 == 0) hb_set(amount, 0);
  if (exponent >= 0) hb_left(amount, (unsigned)exponent);
  else hb_right(amount, (unsigned)-exponent);
}

/* Return the bits of the float that is value 2^exponent, rounded. */
HB_INSIDE uint64_t hb_round(const hb_integer *value, int exponent, enum hb_rounding rounding) {
  unsigned length = hb_length(value);
  if (length == 0) return 0;

  hb_integer top = *value, rest = *value;
  if (length <= 53) hb_left(&top, 53 - length);
  else hb_right(&top, length - 53);
  uint64_t mantissa = hb_low(&top);

  if (length > 53) {
    hb_left(&top, length - 53);
    hb_subtract(&rest, &top);
    unsigned rest_length = hb_length(&rest);
    hb_integer half;
    hb_set(&half, 1);
    hb_left(&half, length - 54);
    int order = hb_compare(&rest, &half);
    int is_above = order > 0 || (order == 0 && mantissa % 2 == 1);
    mantissa += rounding == HB_UP ? rest_length > 0 : rounding == HB_NEAREST && is_above;
  }
  /* A mantissa of 2^53 carries into the exponent by itself. */
  return ((uint64_t)(exponent + (int)length + 1021) << 52) + mantissa;
}

/* Return the bits of the float nearest to digits 10^exponent. */
HB_INSIDE uint64_t hb_ratio_of_ten(uint64_t digits, int exponent) {
  hb_integer value, divisor;
  hb_set(&value, digits);
  hb_set(&divisor, 1);

  for (; exponent > 0; exponent--) hb_scale(&value, 10);
  for (; exponent < 0; exponent++) hb_scale(&divisor, 10);
  /* At least 66 bits stay, so a last bit for the remainder decides ties only. */
  hb_left(&value, 256);
  if (hb_divide(&value, &value, &divisor)) value.word[0] |= 1;
  return hb_round(&value, -256, HB_NEAREST);
}
