/* Unsigned integers of 576 bits. The limits of a definition keep every result below, so nothing is ever cut off. */
#include "core.h"

HB_INSIDE void hb_set(hb_integer *to, uint64_t value) {
  memset(to, 0, sizeof *to);
  to->word[0] = (uint32_t)value;
  to->word[1] = (uint32_t)(value >> 32);
}

HB_INSIDE uint64_t hb_low(const hb_integer *value) { return (uint64_t)value->word[1] << 32 | value->word[0]; }

/* Return the number of bits. */
HB_INSIDE unsigned hb_length(const hb_integer *value) {
  unsigned words = HB_WORDS;
  while (words > 0 && value->word[words - 1] == 0) words--;
  if (words == 0) return 0;

  unsigned bits = 32 * words;
  for (uint32_t top = value->word[words - 1]; !(top >> 31); top <<= 1) bits--;
  return bits;
}

HB_INSIDE int hb_compare(const hb_integer *left, const hb_integer *right) {
  for (unsigned i = HB_WORDS; i-- > 0;) {
    if (left->word[i] != right->word[i]) return left->word[i] < right->word[i] ? -1 : 1;
  }
  return 0;
}

HB_INSIDE void hb_add(hb_integer *sum, const hb_integer *term) {
  uint64_t carry = 0;

  for (unsigned i = 0; i < HB_WORDS; i++) {
    carry += (uint64_t)sum->word[i] + term->word[i];
    sum->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
}

/* Subtract a term that is not larger. */
HB_INSIDE void hb_subtract(hb_integer *rest, const hb_integer *term) {
  uint64_t borrow = 0;

  for (unsigned i = 0; i < HB_WORDS; i++) {
    uint64_t difference = (uint64_t)rest->word[i] - term->word[i] - borrow;
    rest->word[i] = (uint32_t)difference;
    borrow = difference >> 63;
  }
}

HB_INSIDE void hb_scale(hb_integer *product, uint32_t factor) {
  uint64_t carry = 0;

  for (unsigned i = 0; i < HB_WORDS; i++) {
    carry += (uint64_t)product->word[i] * factor;
    product->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
}

/* Divide in place, and return the remainder. */
HB_INSIDE uint32_t hb_divide_small(hb_integer *quotient, uint32_t divisor) {
  uint64_t remainder = 0;

  for (unsigned i = HB_WORDS; i-- > 0;) {
    remainder = remainder << 32 | quotient->word[i];
    quotient->word[i] = (uint32_t)(remainder / divisor);
    remainder %= divisor;
  }
  return (uint32_t)remainder;
}

HB_INSIDE void hb_multiply(hb_integer *product, const hb_integer *left, const hb_integer *right) {
  hb_integer result;
  hb_set(&result, 0);

  for (unsigned i = 0; i < HB_WORDS; i++) {
    uint64_t carry = 0;
    if (left->word[i] == 0) continue;
    for (unsigned j = 0; i + j < HB_WORDS; j++) {
      carry += (uint64_t)left->word[i] * right->word[j] + result.word[i + j];
      result.word[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
  }
  *product = result;
}

HB_INSIDE void hb_left(hb_integer *value, unsigned bits) {
  unsigned words = bits / 32;
  bits %= 32;

  for (unsigned i = HB_WORDS; i-- > 0;) {
    uint64_t high = i >= words ? value->word[i - words] : 0;
    uint64_t low = i > words ? value->word[i - words - 1] : 0;
    value->word[i] = (uint32_t)((high << 32 | low) >> (32 - bits));
  }
}

HB_INSIDE void hb_right(hb_integer *value, unsigned bits) {
  unsigned words = bits / 32;
  bits %= 32;

  for (unsigned i = 0; i < HB_WORDS; i++) {
    uint64_t low = i + words < HB_WORDS ? value->word[i + words] : 0;
    uint64_t high = i + words + 1 < HB_WORDS ? value->word[i + words + 1] : 0;
    value->word[i] = (uint32_t)((high << 32 | low) >> bits);
  }
}

/* Divide by a divisor above 0, and return whether there is a remainder. */
HB_INSIDE int hb_divide(hb_integer *quotient, const hb_integer *numerator, const hb_integer *divisor) {
  hb_integer rest = *numerator, shifted = *divisor, result;
  unsigned length = hb_length(numerator), own_length = hb_length(divisor);
  hb_set(&result, 0);

  if (length >= own_length) {
    unsigned shift = length - own_length;
    hb_left(&shifted, shift);
    for (unsigned i = shift + 1; i-- > 0;) {
      if (hb_compare(&rest, &shifted) >= 0) {
        hb_subtract(&rest, &shifted);
        result.word[i / 32] |= (uint32_t)1 << (i % 32);
      }
      hb_right(&shifted, 1);
    }
  }
  *quotient = result;
  return hb_length(&rest) > 0;
}
