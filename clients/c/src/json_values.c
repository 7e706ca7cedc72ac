/* Values of a text of JSON that was checked. A value is the part of the text that holds it. */
#include "text.h"

static int is_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

/* Remove the space around a value. */
HB_INSIDE hubbub_text hb_json_trim(hubbub_text text) {
  while (text.size > 0 && is_space(text.at[0])) {
    text.at++;
    text.size--;
  }
  while (text.size > 0 && is_space(text.at[text.size - 1])) text.size--;
  return text;
}

/* Return the bytes of a string at the start of a text. */
static size_t string_size(hubbub_text text) {
  size_t size = 1;

  while (size < text.size && text.at[size] != '"') size += text.at[size] == '\\' ? 2 : 1;
  return size < text.size ? size + 1 : text.size;
}

/* Return the bytes of the value at the start of a text. */
static size_t value_size(hubbub_text text) {
  size_t size = 0;
  unsigned depth = 0;

  while (size < text.size) {
    char byte = text.at[size];
    int closes = byte == '}' || byte == ']';
    if (depth == 0 && (closes || byte == ',' || is_space(byte))) return size;
    if (byte == '"') {
      hubbub_text string = {text.at + size, text.size - size};
      size += string_size(string);
    } else {
      size++;
    }
    depth += byte == '{' || byte == '[';
    depth -= (unsigned)closes;
    if (depth == 0 && (closes || byte == '"')) return size;
  }
  return size;
}

/* Take what is at the start of a text, and the sign after it. */
static hubbub_text take(hubbub_text *rest, int is_key) {
  *rest = hb_json_trim(*rest);
  hubbub_text value = {rest->at, is_key ? string_size(*rest) : value_size(*rest)};

  rest->at += value.size;
  rest->size -= value.size;
  *rest = hb_json_trim(*rest);
  if (rest->size > 0) {
    rest->at++;
    rest->size--;
  }
  return value;
}

/* Return the members of an object or the values of a list. Other values have none. */
HB_INSIDE hb_members hb_json_members(hubbub_text container) {
  hb_members members = {{container.at, 0}, hb_json_kind(container) == '{'};

  if (members.is_object || hb_json_kind(container) == '[') {
    members.rest.at++;
    members.rest.size = container.size - 2;
  }
  return members;
}

/* Take the next member, or return 0. The key of a value of a list is empty. */
HB_INSIDE int hb_json_next(hb_members *members, hubbub_text *key, hubbub_text *value) {
  members->rest = hb_json_trim(members->rest);
  key->at = members->rest.at;
  key->size = 0;
  if (members->rest.size == 0) return 0;

  if (members->is_object) *key = take(&members->rest, 1);
  *value = take(&members->rest, 0);
  return 1;
}

/* Return the first byte of a value, '0' for all numbers, and 0 for a value that is missing or null. */
HB_INSIDE char hb_json_kind(hubbub_text value) {
  if (value.size == 0 || value.at[0] == 'n') return 0;
  return value.at[0] == '-' || (value.at[0] >= '0' && value.at[0] <= '9') ? '0' : value.at[0];
}

/* Return a member of an object. It is empty if it is missing or null. */
HB_INSIDE hubbub_text hb_json_member(hubbub_text object, hubbub_text name) {
  hb_members members = hb_json_members(object);
  hubbub_text key, value, none = {0, 0};
  if (!members.is_object) return none;

  while (hb_json_next(&members, &key, &value)) {
    if (hb_json_is(key, name)) return hb_json_kind(value) ? value : none;
  }
  return none;
}

HB_INSIDE unsigned hb_json_count(hubbub_text container) {
  hb_members members = hb_json_members(container);
  hubbub_text key, value;
  unsigned count = 0;

  while (hb_json_next(&members, &key, &value)) count++;
  return count;
}
