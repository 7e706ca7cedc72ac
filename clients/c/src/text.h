/* Texts: UTF-8, JSON that was checked once, decimals and the canonical form. */
#ifndef HUBBUB_TEXT_H
#define HUBBUB_TEXT_H
#include "core.h"

#define HB_DEPTH 8     /* most objects and lists inside each other */
#define HB_MEMBERS 128 /* most members of an object */

/* utf8.c: a point is a Unicode code point */
enum { HB_END = -1, HB_MALFORMED = -2 };

HB_INSIDE int32_t hb_point(hubbub_text *rest);
HB_INSIDE unsigned hb_put_point(char *to, int32_t point);
HB_INSIDE int hb_is_utf8(hubbub_text text);
HB_INSIDE int hb_same(hubbub_text left, hubbub_text right);
HB_INSIDE hubbub_text hb_text(const char *literal);

/* json.c checks a text once. json_values.c reads it afterwards, and takes it as good. */
HB_INSIDE int hb_json_is_valid(hubbub_text text, unsigned most_members);

typedef struct {
  hubbub_text rest;
  int is_object;
} hb_members;

HB_INSIDE hubbub_text hb_json_trim(hubbub_text text);
HB_INSIDE hb_members hb_json_members(hubbub_text container);
HB_INSIDE int hb_json_next(hb_members *members, hubbub_text *key, hubbub_text *value);
HB_INSIDE char hb_json_kind(hubbub_text value);
HB_INSIDE hubbub_text hb_json_member(hubbub_text object, hubbub_text name);
HB_INSIDE unsigned hb_json_count(hubbub_text container);

/* json_strings.c: strings with their escapes */
HB_INSIDE int hb_hex_digit(char byte);
HB_INSIDE int32_t hb_json_point(hubbub_text *inside);
HB_INSIDE hubbub_text hb_json_inside(hubbub_text string);
HB_INSIDE int hb_json_order(hubbub_text left, hubbub_text right);
HB_INSIDE int hb_json_is(hubbub_text string, hubbub_text plain);
HB_INSIDE size_t hb_json_copy(hubbub_text string, char *to, size_t room);

/* decimal.c: a number of JSON is digits 10^exponent */
typedef struct {
  uint64_t digits; /* without zeros at the end, at most 17 */
  int exponent;
  int is_negative, is_integer; /* is_integer: written without point and exponent */
} hb_decimal;

HB_INSIDE int hb_decimal_of(hubbub_text number, hb_decimal *decimal);
HB_INSIDE uint64_t hb_decimal_bits(const hb_decimal *decimal);
HB_INSIDE int hb_whole(hubbub_text number, uint64_t most, uint64_t *value);
HB_INSIDE size_t hb_decimal_text(const hb_decimal *decimal, char to[32]);

/* canonical.c */
HB_INSIDE int hb_canonical(hb_sha256 *hash, hubbub_text value);
HB_INSIDE int hb_canonical_float(hb_sha256 *hash, hubbub_text number);
HB_INSIDE void hb_canonical_string(hb_sha256 *hash, hubbub_text string);
HB_INSIDE void hb_canonical_plain(hb_sha256 *hash, const char *text);

#endif
