/* Domains: the position of a value among the possible answers. */
#include "query.h"

#define MOST_VALUES ((uint64_t)1 << 32)
#define NAME_ROOM 1024 /* bytes of a name in normal form. A longer one equals no value. */

static int are_strings(hubbub_text list) {
  hb_members members = hb_json_members(list);
  hubbub_text key, value;

  while (hb_json_next(&members, &key, &value)) {
    if (hb_json_kind(value) != '"') return 0;
  }
  return 1;
}

/* Read the domain of a part. */
HB_INSIDE int hb_read_domain(hb_part *part, hubbub_text domain, hubbub_text other) {
  part->domain = domain;
  part->has_other = hb_json_kind(other) == 't';
  if (other.size > 0 && hb_json_kind(other) != 't' && hb_json_kind(other) != 'f') return 0;

  switch (hb_json_kind(domain)) {
    case '[':
      part->kind = HB_NAMES;
      part->named = hb_json_count(domain);
      return are_strings(domain);
    case '0':
      part->kind = HB_SIZE;
      return hb_whole(domain, MOST_VALUES, &part->named);
    case '{':
      part->kind = hb_listed(domain, "discover").size > 0 ? HB_TEXTS : HB_SCALE;
      if (part->has_other) return 0;
      if (part->kind == HB_SCALE) return hb_read_scale(domain, &part->named);
      if (!hb_whole(hb_listed(domain, "cells"), 16, &part->named)) return 0;
      part->named = (uint64_t)1 << part->named;
      return 1;
    default: return 0;
  }
}

/* Bring a text to normal form. A size above the room means that the text is too long. */
static size_t normalize(hubbub_text text, hubbub_normal normal, char to[NAME_ROOM]) {
  if (normal) return normal(text.at, text.size, to, NAME_ROOM);

  if (text.size <= NAME_ROOM) memcpy(to, text.at, text.size);
  return text.size;
}

/* Find a name in the list. All names are compared, so the time does not tell the value. */
static int find_name(const hb_part *part, hubbub_text text, hubbub_normal normal, uint64_t *position) {
  char raw[NAME_ROOM], name[NAME_ROOM], own[NAME_ROOM];
  hb_members members = hb_json_members(part->domain);
  hubbub_text key, value, listed = {raw, 0};
  size_t own_size = normalize(text, normal, own);
  int is_found = 0;

  for (uint64_t i = 0; hb_json_next(&members, &key, &value); i++) {
    listed.size = hb_json_copy(value, raw, NAME_ROOM);
    if (listed.size > NAME_ROOM) continue;
    size_t size = normalize(listed, normal, name);
    unsigned difference = size != own_size || size > NAME_ROOM;
    for (size_t j = 0; j < size && j < NAME_ROOM; j++) {
      difference |= (unsigned)(uint8_t)name[j] ^ (j < own_size && j < NAME_ROOM ? (uint8_t)own[j] : 0);
    }
    if (difference || is_found) continue;
    *position = i;
    is_found = 1;
  }
  return is_found;
}

/* Read the decimal digits of a position. Other texts stand for no position. */
static int read_digits(hubbub_text text, uint64_t *position) {
  *position = 0;
  if (text.size == 0 || text.size > 10 || (text.size > 1 && text.at[0] == '0')) return 0;

  for (size_t i = 0; i < text.size; i++) {
    if (text.at[i] < '0' || text.at[i] > '9') return 0;
    *position = 10 * *position + (uint64_t)(text.at[i] - '0');
  }
  return 1;
}

#define SIGN ((uint64_t)1 << 63)
#define INFINITE 0x7ff0000000000000

/* Return the bits of the float next to an integer. */
static uint64_t float_of(int64_t integer) {
  hb_integer magnitude;
  hb_set(&magnitude, integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer);

  return hb_round(&magnitude, 0, HB_NEAREST) | (integer < 0 ? SIGN : 0);
}

static int bin_of(const hb_part *part, const hubbub_value *value, uint64_t *position) {
  uint64_t bits = value->kind == HUBBUB_NUMBER ? hb_bits_of(value->number) : float_of(value->integer);
  int is_number = (bits & ~SIGN) <= INFINITE;

  return value->kind != HUBBUB_TEXT && is_number && hb_bin_of(part->domain, bits, position);
}

/* Set the position of a value, or return 0 if it is no answer. */
HB_INSIDE int hb_position_of(const hb_part *part, const hubbub_value *value, hubbub_normal normal, uint64_t *position) {
  int is_text = value->kind == HUBBUB_TEXT, is_found = 0;
  if (part->kind == HB_SCALE) return bin_of(part, value, position);
  if (is_text && (!value->text.at || !hb_is_utf8(value->text))) return 0;
  if (value->kind == HUBBUB_NUMBER || (part->kind == HB_NAMES && !is_text)) return 0;

  int is_other = is_text && hb_same(value->text, hb_text("(other)"));
  if (part->kind == HB_NAMES) {
    is_found = find_name(part, value->text, normal, position);
  } else if (is_text) {
    is_found = read_digits(value->text, position) && *position < part->named;
  } else {
    *position = (uint64_t)value->integer;
    is_found = value->integer >= 0 && *position < part->named;
  }
  if (is_found && !(is_other && part->has_other)) return 1;
  *position = part->named;
  return part->has_other;
}
