/* Oracles: how a position in the domain becomes a report. All integers follow from epsilon. */
#include "core.h"

#define MOST_BITS 524280

HB_INSIDE int hb_is_hashing(const hb_oracle *oracle) { return oracle->kind >= HB_BLH; }

/* Return the number of classes that a table would have. */
HB_INSIDE unsigned hb_oracle_buckets(const hb_oracle *oracle) {
  if (hb_is_hashing(oracle)) return 1u << oracle->rows;
  return oracle->kind == HB_GRR && oracle->size <= HB_BUCKETS ? (unsigned)oracle->size : 0;
}

/* Begin an oracle of so many values, or return 0 if it cannot have them. */
HB_INSIDE int hb_oracle_begin(hb_oracle *oracle, enum hb_kind kind, uint64_t size) {
  memset(oracle, 0, sizeof *oracle);
  oracle->kind = kind;
  oracle->family = kind == HB_FULL ? HB_ROWS_FULL : kind == HB_SHORT ? HB_ROWS_SHORT : HB_ROWS_FREE;
  oracle->size = size;
  oracle->members = 1;
  if (size < 2 || size > (uint64_t)1 << 32) return 0;

  int is_unary = kind == HB_SUE || kind == HB_OUE || kind == HB_SS;
  return !is_unary || size <= MOST_BITS;
}

static int choose_grr(hb_oracle *oracle, const hb_integer *e) {
  oracle->threshold = hb_largest(oracle->size - 1, 1, e);
  oracle->classes = oracle->size;
  oracle->width = oracle->size <= 256 ? 1 : oracle->size <= 65536 ? 2 : 4;
  return 1;
}

static int choose_unary(hb_oracle *oracle, uint64_t epsilon, const hb_integer *e) {
  hb_integer root;

  oracle->threshold = (uint64_t)1 << 63;
  oracle->other = 0 - hb_largest(1, 1, e);
  if (oracle->kind == HB_SUE) {
    hb_exponential_of(&root, epsilon, 1);
    oracle->threshold = hb_largest(1, 1, &root);
    oracle->other = 0 - oracle->threshold;
  }
  return 1;
}

/* The number of ones is one of two candidates next to d / (e + 1). The listed threshold tells which. */
static int choose_subset(hb_oracle *oracle, unsigned choice, const hb_integer *e) {
  hb_integer size, total;
  hb_set(&size, oracle->size);
  hb_left(&size, HB_FRACTION);
  hb_set(&total, 1);
  hb_left(&total, HB_FRACTION);
  hb_add(&total, e);
  hb_divide(&size, &size, &total);

  uint64_t members = hb_low(&size) + choice;
  if (members < 1) members = 1;
  if (members > oracle->size - 1) members = oracle->size - 1;
  oracle->members = members;
  oracle->threshold = hb_largest(oracle->size - members, members, e);
  return 1;
}

static int choose_hashing(hb_oracle *oracle, unsigned rows, const hb_integer *e) {
  uint64_t buckets = (uint64_t)1 << rows;
  oracle->rows = rows;
  if (oracle->members >= buckets || !hb_hashing_widths(oracle)) return 0;
  if (oracle->kind == HB_FULL && rows < 2) return 0;
  if (oracle->kind == HB_SHORT && rows < 3) return 0;

  oracle->threshold = hb_largest(buckets - oracle->members, oracle->members, e);
  oracle->classes = buckets < oracle->size ? buckets : oracle->size;
  return 1;
}

/* Set the integers of a choice, from 0 on, or return 0 if the oracle has no such choice. */
HB_INSIDE int hb_oracle_choice(hb_oracle *oracle, unsigned choice, uint64_t epsilon, const hb_integer *e) {
  static const unsigned choices[HB_KINDS] = {1, 1, 1, 2, 1, 8, 8, 8, 1, 1, HB_ROW_COUNT};

  oracle->has_table = 0;
  if (choice >= choices[oracle->kind]) return 0;
  if (oracle->kind == HB_GRR) return choose_grr(oracle, e);
  if (hb_is_hashing(oracle)) return choose_hashing(oracle, choice + 1, e);

  oracle->classes = oracle->size;
  oracle->width = (oracle->size + 7) / 8;
  return oracle->kind == HB_SS ? choose_subset(oracle, choice, e) : choose_unary(oracle, epsilon, e);
}

/* Let a table decide the answers. */
HB_INSIDE void hb_oracle_table(hb_oracle *oracle, const hb_table *table) {
  oracle->has_table = 1;
  oracle->table = *table;
  oracle->classes = table->buckets;
}

/* Return the class of a position. Its report is the same for all positions of the class. */
HB_INSIDE uint64_t hb_class_of(const hb_oracle *oracle, uint64_t position, const uint64_t rows[HB_ROW_COUNT]) {
  return hb_is_hashing(oracle) ? hb_bucket_of(oracle, position, rows) : position;
}

/* Write the report of a class. Only ss needs work memory: four bytes for each value. */
HB_INSIDE void hb_report(const hb_oracle *oracle, uint64_t class, const uint64_t rows[HB_ROW_COUNT], hb_source *source,
                         uint8_t *report, uint8_t *work) {
  memset(report, 0, (size_t)oracle->width);
  if (oracle->kind == HB_SUE || oracle->kind == HB_OUE) {
    hb_unary(oracle, class, source, report);
    return;
  }
  if (oracle->kind == HB_SS) {
    hb_subset(oracle, class, source, report, work);
    return;
  }

  uint64_t buckets = hb_is_hashing(oracle) ? (uint64_t)1 << oracle->rows : oracle->size;
  if (oracle->has_table) {
    uint8_t bucket_of[HB_BUCKETS];
    hb_table_draw(&oracle->table, source, bucket_of);
    class = bucket_of[class];
  } else {
    int is_own = hb_event(source, oracle->threshold);
    if (oracle->kind == HB_SUB) class = hb_rank(oracle, class, is_own, source);
    else if (!is_own) class = hb_other(source, class, buckets);
  }
  if (hb_is_hashing(oracle)) hb_pack(oracle, class, rows, report);
  else hb_store(report, class, (unsigned)oracle->width);
}
