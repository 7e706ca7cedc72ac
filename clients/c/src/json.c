/* The check of a text of JSON: grammar, UTF-8, nesting, and no key twice. No function calls itself, so the stack is small. */
#include "text.h"

typedef struct {
  hubbub_text rest;
  const char *opened[HB_DEPTH]; /* the first byte inside of each open container */
  char closes[HB_DEPTH];
  unsigned members[HB_DEPTH];
  unsigned depth, most_members;
} checker;

static int peek(const checker *text) { return text->rest.size > 0 ? (uint8_t)text->rest.at[0] : HB_END; }

static void step(checker *text, size_t bytes) {
  text->rest.at += bytes;
  text->rest.size -= bytes;
}

static void skip_space(checker *text) {
  int byte = peek(text);

  while (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
    step(text, 1);
    byte = peek(text);
  }
}

/* Pass a string. The points inside are good UTF-8, and each surrogate has its pair. */
static int pass_string(checker *text) {
  if (peek(text) != '"') return 0;
  step(text, 1);

  while (peek(text) != '"') {
    if (peek(text) == HB_END || peek(text) < 0x20) return 0;
    int32_t point = hb_json_point(&text->rest);
    if (point < 0) return 0;
  }
  step(text, 1);
  return 1;
}

static unsigned pass_digits(checker *text) {
  unsigned count = 0;

  while (peek(text) >= '0' && peek(text) <= '9') {
    step(text, 1);
    count++;
  }
  return count;
}

static int pass_number(checker *text) {
  if (peek(text) == '-') step(text, 1);
  if (peek(text) == '0') step(text, 1);
  else if (pass_digits(text) == 0) return 0;

  if (peek(text) == '.') {
    step(text, 1);
    if (pass_digits(text) == 0) return 0;
  }
  if (peek(text) != 'e' && peek(text) != 'E') return 1;
  step(text, 1);
  if (peek(text) == '+' || peek(text) == '-') step(text, 1);
  return pass_digits(text) > 0;
}

static int pass_word(checker *text, const char *literal) {
  hubbub_text word = hb_text(literal);
  if (text->rest.size < word.size || memcmp(text->rest.at, word.at, word.size) != 0) return 0;

  step(text, word.size);
  return 1;
}

static int pass_scalar(checker *text) {
  switch (peek(text)) {
    case '"': return pass_string(text);
    case 't': return pass_word(text, "true");
    case 'f': return pass_word(text, "false");
    case 'n': return pass_word(text, "null");
    default: return pass_number(text);
  }
}

/* Whether an earlier member of the innermost object has a key. */
static int is_double(const checker *text, hubbub_text key) {
  const char *opened = text->opened[text->depth - 1];
  hb_members earlier = {{opened, (size_t)(key.at - opened)}, 1};
  hubbub_text earlier_key, value;

  while (hb_json_next(&earlier, &earlier_key, &value)) {
    if (hb_json_order(earlier_key, key) == 0) return 1;
  }
  return 0;
}

/* Pass the key of a member and its colon. */
static int pass_key(checker *text) {
  hubbub_text key = text->rest;
  if (!pass_string(text)) return 0;

  key.size -= text->rest.size;
  if (++text->members[text->depth - 1] > text->most_members || is_double(text, key)) return 0;
  skip_space(text);
  if (peek(text) != ':') return 0;
  step(text, 1);
  return 1;
}

static int open_container(checker *text) {
  if (text->depth == HB_DEPTH) return 0;

  text->closes[text->depth] = peek(text) == '{' ? '}' : ']';
  step(text, 1);
  text->opened[text->depth] = text->rest.at;
  text->members[text->depth] = 0;
  text->depth++;
  skip_space(text);
  return 1;
}

/* Pass all that may follow a value, up to the start of the next one. Return 0 if there is none. */
static int pass_end(checker *text) {
  skip_space(text);
  while (text->depth > 0 && peek(text) == text->closes[text->depth - 1]) {
    step(text, 1);
    text->depth--;
    skip_space(text);
  }
  if (text->depth == 0 || peek(text) != ',') return 0;

  step(text, 1);
  skip_space(text);
  return text->closes[text->depth - 1] == ']' || pass_key(text);
}

/* Whether a text is one value of JSON within the limits. */
HB_INSIDE int hb_json_is_valid(hubbub_text body, unsigned most_members) {
  checker text;
  memset(&text, 0, sizeof text);
  text.rest = body;
  text.most_members = most_members;

  for (;;) {
    skip_space(&text);
    if (peek(&text) == '{' || peek(&text) == '[') {
      if (!open_container(&text)) return 0;
      int is_empty = peek(&text) == text.closes[text.depth - 1];
      if (!is_empty && text.closes[text.depth - 1] == '}' && !pass_key(&text)) return 0;
      if (!is_empty) continue;
    } else if (!pass_scalar(&text)) {
      return 0;
    }
    if (!pass_end(&text)) return text.depth == 0 && text.rest.size == 0;
  }
}
