/* Numbers of JSON. At most 17 digits count, since the shortest form of a float has no more. */
#include "text.h"

#define MOST_DIGITS 17
#define MOST_EXPONENT 60

static int is_digit(char byte) { return byte >= '0' && byte <= '9'; }

/* Read an exponent behind the digits. A long one is beyond every limit. */
static int exponent_of(hubbub_text text) {
  int exponent = 0, is_negative = text.size > 0 && text.at[0] == '-';

  for (size_t i = 0; i < text.size; i++) {
    if (is_digit(text.at[i]) && exponent < 10000) exponent = 10 * exponent + (text.at[i] - '0');
  }
  return is_negative ? -exponent : exponent;
}

/* Read a number. Return 0 if it has too many digits or is far too large or small. */
HB_INSIDE int hb_decimal_of(hubbub_text number, hb_decimal *decimal) {
  memset(decimal, 0, sizeof *decimal);
  if (hb_json_kind(number) != '0') return 0;
  decimal->is_negative = number.at[0] == '-';
  decimal->is_integer = 1;

  int zeros = 0, places = 0, is_fraction = 0;
  size_t i = (size_t)decimal->is_negative;
  for (; i < number.size && (is_digit(number.at[i]) || number.at[i] == '.'); i++) {
    if (number.at[i] == '.') {
      is_fraction = 1;
      continue;
    }
    places += is_fraction;
    zeros++;
    if (number.at[i] == '0') continue;
    for (; zeros > 0; zeros--) {
      if (decimal->digits >= 10000000000000000) return 0;
      decimal->digits *= 10;
    }
    decimal->digits += (uint64_t)(number.at[i] - '0');
  }

  /* Zeros at the end are no digits. */
  decimal->exponent = decimal->digits ? zeros - places : 0;
  decimal->is_integer = !is_fraction && i == number.size;
  if (i < number.size && decimal->digits) {
    hubbub_text exponent = {number.at + i + 1, number.size - i - 1};
    decimal->exponent += exponent_of(exponent);
  }
  return decimal->exponent >= -MOST_EXPONENT && decimal->exponent <= MOST_EXPONENT;
}

/* Return the bits of the nearest float, without its sign. */
HB_INSIDE uint64_t hb_decimal_bits(const hb_decimal *decimal) {
  return hb_ratio_of_ten(decimal->digits, decimal->exponent);
}

/* Read a whole number from 0 to a limit below 10^17. */
HB_INSIDE int hb_whole(hubbub_text number, uint64_t most, uint64_t *value) {
  hb_decimal decimal;
  if (!hb_decimal_of(number, &decimal) || decimal.is_negative || !decimal.is_integer) return 0;

  *value = decimal.digits;
  for (int i = 0; i < decimal.exponent; i++) {
    if (*value > most / 10) return 0;
    *value *= 10;
  }
  return *value <= most;
}

/* Write a float as Python prints it, and return the bytes. */
HB_INSIDE size_t hb_decimal_text(const hb_decimal *decimal, char to[32]) {
  char digits[20];
  int count = 0;
  for (uint64_t rest = decimal->digits; rest > 0 || count == 0; rest /= 10) digits[count++] = (char)('0' + rest % 10);
  int top = count - 1 + decimal->exponent, last = decimal->exponent;
  int is_scientific = decimal->digits > 0 && (top < -4 || top >= 16);
  if (is_scientific) last = 1 - count;

  size_t size = 0;
  if (decimal->is_negative) to[size++] = '-';
  int first = is_scientific ? 0 : top > 0 ? top : 0;
  int end = is_scientific ? last : last < -1 ? last : -1;
  if (is_scientific && count == 1) end = 0;
  for (int place = first; place >= end; place--) {
    int index = place - (is_scientific ? 1 - count : decimal->exponent);
    if (place == -1) to[size++] = '.';
    to[size++] = index >= 0 && index < count ? digits[index] : '0';
  }
  if (!is_scientific) return size;

  unsigned exponent = (unsigned)(top < 0 ? -top : top);
  to[size++] = 'e';
  to[size++] = top < 0 ? '-' : '+';
  to[size++] = (char)('0' + exponent / 10);
  to[size++] = (char)('0' + exponent % 10);
  return size;
}
