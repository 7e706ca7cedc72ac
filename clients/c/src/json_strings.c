/* Strings of JSON with their escapes, point by point. */
#include "text.h"

HB_INSIDE int hb_hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* Take an escape such as \u00e9, or return HB_MALFORMED. */
static int32_t take_unit(hubbub_text *inside) {
  int32_t unit = 0;
  if (inside->size < 6 || inside->at[0] != '\\' || inside->at[1] != 'u') return HB_MALFORMED;

  for (unsigned i = 2; i < 6; i++) {
    int digit = hb_hex_digit(inside->at[i]);
    if (digit < 0) return HB_MALFORMED;
    unit = unit << 4 | digit;
  }
  inside->at += 6;
  inside->size -= 6;
  return unit;
}

static int32_t take_escape(hubbub_text *inside) {
  static const char letters[] = "\"\\/bfnrt", points[] = "\"\\/\b\f\n\r\t";
  if (inside->size < 2) return HB_MALFORMED;
  for (unsigned i = 0; letters[i]; i++) {
    if (inside->at[1] != letters[i]) continue;
    inside->at += 2;
    inside->size -= 2;
    return points[i];
  }

  int32_t high = take_unit(inside);
  if (high >> 10 == 0xdc00 >> 10) return HB_MALFORMED;
  if (high >> 10 != 0xd800 >> 10) return high;
  int32_t low = take_unit(inside);
  if (low >> 10 != 0xdc00 >> 10) return HB_MALFORMED;
  return 0x10000 + ((high & 0x3ff) << 10 | (low & 0x3ff));
}

/* Take the next point inside of a string. */
HB_INSIDE int32_t hb_json_point(hubbub_text *inside) {
  return inside->size > 0 && inside->at[0] == '\\' ? take_escape(inside) : hb_point(inside);
}

/* Return a string without its quotation marks. Other values give an empty text. */
HB_INSIDE hubbub_text hb_json_inside(hubbub_text string) {
  hubbub_text inside = {string.at, 0};

  if (hb_json_kind(string) == '"') {
    inside.at = string.at + 1;
    inside.size = string.size - 2;
  }
  return inside;
}

/* Return the order of two strings by their points: below 0, 0 or above 0. */
HB_INSIDE int hb_json_order(hubbub_text left, hubbub_text right) {
  hubbub_text left_rest = hb_json_inside(left), right_rest = hb_json_inside(right);
  int32_t left_point = 0, right_point = 0;

  while (left_point == right_point && left_point >= 0) {
    left_point = hb_json_point(&left_rest);
    right_point = hb_json_point(&right_rest);
  }
  return left_point - right_point;
}

/* Whether a value is the string of a text. */
HB_INSIDE int hb_json_is(hubbub_text string, hubbub_text plain) {
  hubbub_text inside = hb_json_inside(string);
  int32_t point = 0, plain_point = 0;
  if (hb_json_kind(string) != '"') return 0;

  while (point == plain_point && point >= 0) {
    point = hb_json_point(&inside);
    plain_point = hb_point(&plain);
  }
  return point == HB_END && plain_point == HB_END;
}

/* Copy the text of a string, and return its bytes. If they are more than the room, the copy is of no use. */
HB_INSIDE size_t hb_json_copy(hubbub_text string, char *to, size_t room) {
  hubbub_text inside = hb_json_inside(string);
  size_t size = 0;

  for (int32_t point = hb_json_point(&inside); point >= 0; point = hb_json_point(&inside)) {
    char bytes[4];
    unsigned count = hb_put_point(bytes, point);
    if (size + count <= room) memcpy(to + size, bytes, count);
    size += count;
  }
  return size;
}
