/* The canonical form of a definition, as it goes into its digest. */
#include "text.h"

HB_INSIDE void hb_canonical_plain(hb_sha256 *hash, const char *text) { hb_sha256_add(hash, text, hb_text(text).size); }

/* Add a string with the escapes that JSON requires. */
HB_INSIDE void hb_canonical_string(hb_sha256 *hash, hubbub_text string) {
  static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
  hubbub_text inside = hb_json_inside(string);

  hb_canonical_plain(hash, "\"");
  for (int32_t point = hb_json_point(&inside); point >= 0; point = hb_json_point(&inside)) {
    char bytes[6] = {'\\', 'u', '0', '0', hex[point >> 4 & 15], hex[point & 15]};
    unsigned size = 6, letter = 0;
    while (escaped[letter] && escaped[letter] != point) letter++;
    if (escaped[letter]) {
      bytes[1] = letters[letter];
      size = 2;
    } else if (point >= 0x20) {
      size = hb_put_point(bytes, point);
    }
    hb_sha256_add(hash, bytes, size);
  }
  hb_canonical_plain(hash, "\"");
}

/* Add a number that is a float in Python, from its digits alone. */
HB_INSIDE int hb_canonical_float(hb_sha256 *hash, hubbub_text number) {
  hb_decimal decimal;
  char text[32];
  if (!hb_decimal_of(number, &decimal)) return 0;

  hb_sha256_add(hash, text, hb_decimal_text(&decimal, text));
  return 1;
}

/* Find the smallest key that is larger than another one, or the smallest of all. */
static int next_key(hubbub_text object, hubbub_text *key, hubbub_text *value) {
  hb_members members = hb_json_members(object);
  hubbub_text candidate, content, found = {0, 0};

  while (hb_json_next(&members, &candidate, &content)) {
    if (key->size > 0 && hb_json_order(candidate, *key) <= 0) continue;
    if (found.size > 0 && hb_json_order(candidate, found) >= 0) continue;
    found = candidate;
    *value = content;
  }
  *key = found;
  return found.size > 0;
}

static int add_object(hb_sha256 *hash, hubbub_text object) {
  hubbub_text key = {0, 0}, value;
  int is_scale = hb_json_kind(hb_json_member(object, hb_text("scale"))) == '"';

  hb_canonical_plain(hash, "{");
  for (int count = 0; next_key(object, &key, &value); count++) {
    if (count > 0) hb_canonical_plain(hash, ",");
    hb_canonical_string(hash, key);
    hb_canonical_plain(hash, ":");
    int is_end = hb_json_is(key, hb_text("low")) || hb_json_is(key, hb_text("high"));
    if (is_scale && is_end ? !hb_canonical_float(hash, value) : !hb_canonical(hash, value)) return 0;
  }
  hb_canonical_plain(hash, "}");
  return 1;
}

static int add_list(hb_sha256 *hash, hubbub_text list) {
  hb_members members = hb_json_members(list);
  hubbub_text key, value;

  hb_canonical_plain(hash, "[");
  for (int count = 0; hb_json_next(&members, &key, &value); count++) {
    if (count > 0) hb_canonical_plain(hash, ",");
    if (!hb_canonical(hash, value)) return 0;
  }
  hb_canonical_plain(hash, "]");
  return 1;
}

/* Add any value. Return 0 if it has a number that is not whole. It calls itself at most 8 times, as objects nest. */
HB_INSIDE int hb_canonical(hb_sha256 *hash, hubbub_text value) {
  hb_decimal decimal;

  switch (hb_json_kind(value)) {
    case '{': return add_object(hash, value);
    case '[': return add_list(hash, value);
    case '"': hb_canonical_string(hash, value); return 1;
    case '0':
      if (!hb_decimal_of(value, &decimal) || !decimal.is_integer) return 0;
      break;
    default: break;
  }
  hb_sha256_add(hash, value.at, value.size);
  return 1;
}
