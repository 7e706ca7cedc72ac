/* A small fuzzer: it changes the entries of a corpus at random, from a seed. usage: fuzz TARGET COUNT SEED CORPUS
   The corpus has one entry on each line. Lines of JSON are definitions too. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ENTRIES 4096
#define ROOM (1 << 16)

static char *entries[MOST_ENTRIES];
static size_t sizes[MOST_ENTRIES], entry_count;
static uint64_t seed;

static uint64_t random_below(uint64_t bound) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed % bound;
}

static void load(const char *path) {
  static char line[ROOM];
  FILE *file = fopen(path, "rb");
  if (!file) exit(2);

  while (entry_count < MOST_ENTRIES && fgets(line, sizeof line, file)) {
    size_t size = strcspn(line, "\n");
    entries[entry_count] = malloc(size + 1);
    if (!entries[entry_count]) exit(2);
    memcpy(entries[entry_count], line, size);
    sizes[entry_count] = size;
    fuzz_add_query(entries[entry_count], size);
    entry_count++;
  }
  fclose(file);
}

/* Change one place of an input: other bits, another byte, a byte less, or a part of another entry. */
static size_t mutate(uint8_t *input, size_t size) {
  size_t place = random_below(size), other = random_below(entry_count), part = 1 + random_below(16);

  switch (random_below(5)) {
    case 0: input[place] ^= (uint8_t)(1u << random_below(8)); return size;
    case 1: input[place] = (uint8_t)"{}[]\",:0e-\\\xff\x00tn9"[random_below(16)]; return size;
    case 2:
      memmove(input + place, input + place + 1, size - place - 1);
      return size > 2 ? size - 1 : size;
    case 3:
      if (sizes[other] <= part || size + part > ROOM) return size;
      memmove(input + place + part, input + place, size - place);
      memcpy(input + place, entries[other] + random_below(sizes[other] - part), part);
      return size + part;
    default: return place > 1 && random_below(8) == 0 ? place : size;
  }
}

int main(int count, char **arguments) {
  static uint8_t input[ROOM + 1];
  if (count != 5) return 2;
  int is_lives = strcmp(arguments[1], "lives") == 0;
  seed = strtoull(arguments[3], NULL, 10) * 2654435761u + 1;
  load(arguments[4]);

  for (unsigned long i = strtoul(arguments[2], NULL, 10); i > 0; i--) {
    size_t entry = random_below(entry_count), size = sizes[entry] + 1;
    input[0] = (uint8_t)random_below(256);
    memcpy(input + 1, entries[entry], sizes[entry]);
    for (uint64_t changes = random_below(4); changes > 0; changes--) size = mutate(input, size);
    if (is_lives) fuzz_lives(input + 1, size - 1);
    else fuzz_texts(input, size);
  }
  printf("no finding\n");
  return 0;
}
