/* The exponential function with more than 60 digits, and the thresholds that follow from it. */
#include "core.h"

#define HALVINGS 8

/* Set e^exponent. Exponent and result have 224 bits after the point, and the result is at most 2^64. */
HB_INSIDE void hb_exponential(hb_integer *result, const hb_integer *exponent) {
  hb_integer x = *exponent, term, sum;
  hb_right(&x, HALVINGS);
  hb_set(&term, 1);
  hb_left(&term, HB_FRACTION);
  sum = term;

  for (uint32_t i = 1; hb_length(&term) > 0; i++) {
    hb_multiply(&term, &term, &x);
    hb_right(&term, HB_FRACTION);
    hb_divide_small(&term, i);
    hb_add(&sum, &term);
  }
  for (unsigned i = 0; i < HALVINGS; i++) {
    hb_multiply(&sum, &sum, &sum);
    hb_right(&sum, HB_FRACTION);
  }
  *result = sum;
}

/* Set the exponential of epsilon, or of its half. */
HB_INSIDE void hb_exponential_of(hb_integer *result, uint64_t epsilon, unsigned halvings) {
  hb_integer exponent;

  hb_exact(&exponent, epsilon);
  hb_left(&exponent, HB_FRACTION - HB_UNIT - halvings);
  hb_exponential(result, &exponent);
}

/* Return the largest T with T losing <= e winning (2^64 - T). */
HB_INSIDE uint64_t hb_largest(uint64_t losing, uint64_t winning, const hb_integer *e) {
  hb_integer share, total;
  hb_set(&share, winning);
  hb_multiply(&share, &share, e);
  hb_set(&total, losing);
  hb_left(&total, HB_FRACTION);

  hb_add(&total, &share);
  hb_left(&share, 64);
  hb_divide(&share, &share, &total);
  return hb_low(&share);
}
