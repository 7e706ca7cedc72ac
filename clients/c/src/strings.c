/* Unknown strings: the cells of a text that nobody listed. */
#include "query.h"

#define TEXT_ROOM 1024 /* 128 characters have at most 512 bytes */
#define MAPS 4         /* parts that tell of the whole text */
#define PER_LEVEL 5
#define PER_MAP 3

/* Divide the symbols into chunks. */
static void divide(hb_strings *strings) {
  unsigned left = strings->length;

  for (strings->chunks = 0; left > 0; strings->chunks++) {
    uint64_t limit = strings->chunks ? 2048 : (uint64_t)1 << strings->cells, product = strings->base;
    unsigned symbols = 1;
    while (symbols < left && product * strings->base <= limit) {
      product *= strings->base;
      symbols++;
    }
    strings->symbols[strings->chunks] = (uint8_t)symbols;
    left -= symbols;
  }
}

static unsigned count_points(hubbub_text string) {
  hubbub_text inside = hb_json_inside(string);
  unsigned count = 0;

  while (hb_json_point(&inside) >= 0) count++;
  return count;
}

/* Read a domain of unknown strings. */
HB_INSIDE int hb_read_strings(hb_strings *strings, hubbub_text domain) {
  hubbub_text normal = hb_listed(domain, "normal"), discover = hb_listed(domain, "discover");
  uint64_t length, cells;
  if (!hb_whole(hb_listed(domain, "length"), HB_SYMBOLS, &length) || length == 0) return 0;
  if (!hb_whole(hb_listed(domain, "cells"), 16, &cells) || cells < 12) return 0;

  strings->length = (unsigned)length;
  strings->cells = (unsigned)cells;
  strings->is_lower = hb_json_is(normal, hb_text("NFC lower"));
  strings->is_normal = strings->is_lower || hb_json_is(normal, hb_text("NFC"));
  if (!strings->is_normal && !hb_json_is(normal, hb_text("none"))) return 0;

  strings->alphabet = hb_listed(domain, "alphabet");
  int has_alphabet = hb_json_is(discover, hb_text("text"));
  unsigned letters = has_alphabet ? count_points(strings->alphabet) : 255;
  if (!has_alphabet && (!hb_json_is(discover, hb_text("bytes")) || strings->alphabet.size > 0)) return 0;
  if (letters < 2 || letters > 255) return 0;
  strings->base = letters + 1;
  divide(strings);
  return 1;
}

/* Return the symbol of a character. The whole alphabet is read, whatever the character is. */
static unsigned symbol_of(const hb_strings *strings, int32_t point) {
  hubbub_text inside = hb_json_inside(strings->alphabet);
  unsigned symbol = 0, i = 1;

  for (int32_t letter = hb_json_point(&inside); letter >= 0; letter = hb_json_point(&inside)) {
    if (letter == point && symbol == 0) symbol = i;
    i++;
  }
  return symbol ? symbol : strings->base - 1;
}

static char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte; }

/* Set the symbols of a text that is in its normal form. Zeros follow after its end. */
static void set_symbols(const hb_strings *strings, hubbub_text text, uint8_t symbols[HB_SYMBOLS]) {
  memset(symbols, 0, HB_SYMBOLS);
  for (unsigned i = 0; i < strings->length && text.size > 0; i++) {
    if (strings->alphabet.size == 0) {
      uint8_t byte = (uint8_t)(strings->is_lower ? lower(text.at[0]) : text.at[0]);
      symbols[i] = byte ? byte : 255;
      text.at++;
      text.size--;
      continue;
    }
    int32_t point = hb_point(&text);
    if (point < 0) return;
    if (strings->is_lower && point < 0x80) point = lower((char)point);
    symbols[i] = (uint8_t)symbol_of(strings, point);
  }
}

/* Set the number of each chunk of a text. */
HB_INSIDE int hb_chunks_of(const hb_strings *strings, hubbub_text text, hubbub_normal normal, uint64_t *numbers) {
  char to[TEXT_ROOM];
  uint8_t symbols[HB_SYMBOLS];
  if (!text.at || !hb_is_utf8(text)) return 0;

  if (strings->is_normal && normal) {
    /* What does not fit lies beyond the last symbol. */
    size_t size = normal(text.at, text.size, to, TEXT_ROOM);
    text.at = to;
    text.size = size < TEXT_ROOM ? size : TEXT_ROOM;
  }
  set_symbols(strings, text, symbols);

  const uint8_t *symbol = symbols;
  for (unsigned chunk = 0; chunk < strings->chunks; chunk++) {
    numbers[chunk] = 0;
    for (unsigned i = 0; i < strings->symbols[chunk]; i++) numbers[chunk] = numbers[chunk] * strings->base + *symbol++;
  }
  return 1;
}

/* Return the cell of a text in a part, by the numbers of its chunks. */
HB_INSIDE uint64_t hb_cell_of(const hb_query *query, const uint64_t *numbers, unsigned part) {
  const hb_strings *strings = &query->strings;
  uint64_t cell = 0;

  for (unsigned i = 0; i < strings->chunks && i <= part; i++) {
    hb_sha256 hash;
    uint8_t fields[15], digest[32];
    memcpy(fields, query->digest, 8);
    hb_store(fields + 8, i, 2);
    hb_store(fields + 10, numbers[i], 4);
    fields[14] = (uint8_t)(part / 8);
    hb_sha256_begin(&hash);
    hb_sha256_add(&hash, fields, sizeof fields);
    hb_sha256_end(&hash, digest);
    cell ^= hb_load(digest + 4 * (part % 8), 4);
  }
  return cell & (((uint64_t)1 << strings->cells) - 1);
}

/* Draw the part that a device tells of: a level or a map. */
HB_INSIDE unsigned hb_string_part(const hb_strings *strings, hb_source *source) {
  unsigned levels = strings->chunks;
  unsigned slot = (unsigned)hb_below(source, PER_LEVEL * levels + PER_MAP * MAPS);

  return slot < PER_LEVEL * levels ? slot / PER_LEVEL : levels + (slot - PER_LEVEL * levels) / PER_MAP;
}
