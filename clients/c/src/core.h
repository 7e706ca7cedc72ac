/* What the sources of the core share. The amalgamation makes all of it static, so that a program sees hubbub.h only. */
#ifndef HUBBUB_CORE_H
#define HUBBUB_CORE_H
#include "hubbub.h"

#ifndef HB_INSIDE
#define HB_INSIDE
#endif

/* All that the core needs from outside. A machine without an operating system has no string.h. */
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *left, const void *right, size_t size);

/* bytes.c: little-endian integers, and memory that must not stay */
HB_INSIDE uint64_t hb_load(const uint8_t *from, unsigned bytes);
HB_INSIDE void hb_store(uint8_t *to, uint64_t value, unsigned bytes);
HB_INSIDE void hb_wipe(void *memory, size_t size);

/* sha256.c */
typedef struct {
  uint32_t state[8];
  uint64_t size;
  uint8_t block[64];
} hb_sha256;

HB_INSIDE void hb_sha256_begin(hb_sha256 *hash);
HB_INSIDE void hb_sha256_add(hb_sha256 *hash, const void *bytes, size_t size);
HB_INSIDE void hb_sha256_end(hb_sha256 *hash, uint8_t digest[32]);

/* HMAC-SHA-256 with a key of 32 bytes: the two hashes after their first blocks */
typedef struct {
  hb_sha256 inner, outer;
} hb_hmac;

HB_INSIDE void hb_hmac_begin(hb_hmac *mac, const uint8_t key[HUBBUB_KEY]);
HB_INSIDE void hb_hmac_of(const hb_hmac *mac, const void *text, size_t size, uint8_t digest[32]);

/* integer.c: unsigned integers of 576 bits, the lowest word first */
#define HB_WORDS 18
typedef struct {
  uint32_t word[HB_WORDS];
} hb_integer;

HB_INSIDE void hb_set(hb_integer *to, uint64_t value);
HB_INSIDE unsigned hb_length(const hb_integer *value);
HB_INSIDE int hb_compare(const hb_integer *left, const hb_integer *right);
HB_INSIDE void hb_add(hb_integer *sum, const hb_integer *term);
HB_INSIDE void hb_subtract(hb_integer *rest, const hb_integer *term);
HB_INSIDE void hb_scale(hb_integer *product, uint32_t factor);
HB_INSIDE uint32_t hb_divide_small(hb_integer *quotient, uint32_t divisor);
HB_INSIDE void hb_multiply(hb_integer *product, const hb_integer *left, const hb_integer *right);
HB_INSIDE int hb_divide(hb_integer *quotient, const hb_integer *numerator, const hb_integer *divisor);
HB_INSIDE void hb_left(hb_integer *value, unsigned bits);
HB_INSIDE void hb_right(hb_integer *value, unsigned bits);
HB_INSIDE uint64_t hb_low(const hb_integer *value);

/* amount.c: an amount is an integer, a float times 2^192. `bits` are those of a float. */
#define HB_UNIT 192
enum hb_rounding { HB_DOWN, HB_NEAREST, HB_UP };

HB_INSIDE uint64_t hb_bits_of(double value);
HB_INSIDE double hb_double_of(uint64_t bits);
HB_INSIDE void hb_exact(hb_integer *amount, uint64_t bits);
HB_INSIDE uint64_t hb_round(const hb_integer *value, int exponent, enum hb_rounding rounding);
HB_INSIDE uint64_t hb_ratio_of_ten(uint64_t digits, int exponent);

/* exponential.c: numbers with 224 bits after the point */
#define HB_FRACTION 224

HB_INSIDE void hb_exponential(hb_integer *result, const hb_integer *exponent);
HB_INSIDE void hb_exponential_of(hb_integer *result, uint64_t epsilon, unsigned halvings);
HB_INSIDE uint64_t hb_largest(uint64_t losing, uint64_t winning, const hb_integer *e);

/* source.c: random bytes, a stream of a key or the bytes of a test vector */
enum hb_purpose { HB_ATTRIBUTE, HB_ROWS, HB_ANSWER };

typedef struct {
  uint64_t attribute;
  uint8_t mode;
  enum hb_purpose purpose;
  int64_t number; /* the round, or for fresh the number of earlier answers */
  int64_t class;
} hb_stream;

typedef struct {
  hb_hmac mac;
  uint8_t fields[32]; /* of the stream, with the number of the block at the end */
  unsigned size;
  uint64_t position, loaded;
  uint8_t block[32];
  const uint8_t *bytes; /* of a vector; null: the stream */
} hb_source;

HB_INSIDE void hb_source_begin(hb_source *source, const hb_hmac *mac, const uint8_t digest[8], const hb_stream *stream);
HB_INSIDE uint64_t hb_draw(hb_source *source, unsigned bytes);
HB_INSIDE int hb_event(hb_source *source, uint64_t threshold);
HB_INSIDE uint64_t hb_below(hb_source *source, uint64_t bound);
HB_INSIDE uint64_t hb_other(hb_source *source, uint64_t own, uint64_t bound);

/* table.c: one permutation of the buckets decides all answers of a round */
#define HB_BUCKETS 8
typedef struct {
  unsigned buckets, points; /* a permutation with at least `points` fixed points has the weight `hi`, another one `lo` */
  uint64_t hi, lo;
} hb_table;

HB_INSIDE int hb_table_fits(const hb_table *table, const hb_integer *e);
HB_INSIDE uint64_t hb_table_bound(const hb_table *table, uint64_t epsilon);
HB_INSIDE void hb_table_draw(const hb_table *table, hb_source *source, uint8_t bucket_of[HB_BUCKETS]);

/* oracle.c, hashing.c, ranks.c, unary.c: how a position becomes a report */
enum hb_kind { HB_GRR, HB_SUE, HB_OUE, HB_SS, HB_BLH, HB_OLH, HB_FULL, HB_SHORT, HB_HR, HB_HAAR, HB_SUB, HB_KINDS };
enum hb_family { HB_ROWS_FULL, HB_ROWS_SHORT, HB_ROWS_LINE, HB_ROWS_FREE }; /* how rows are drawn */
#define HB_ROW_COUNT 11

typedef struct {
  enum hb_kind kind;
  enum hb_family family;
  uint64_t size;             /* d */
  unsigned rows, bits;       /* l and k */
  uint64_t members;          /* m, of ss and sub */
  uint64_t threshold, other; /* T, or T_p and T_q */
  int has_table;
  hb_table table;
  uint64_t classes;
  uint64_t width;
} hb_oracle;

HB_INSIDE int hb_oracle_begin(hb_oracle *oracle, enum hb_kind kind, uint64_t size);
HB_INSIDE int hb_oracle_choice(hb_oracle *oracle, unsigned choice, uint64_t epsilon, const hb_integer *e);
HB_INSIDE void hb_oracle_table(hb_oracle *oracle, const hb_table *table);
HB_INSIDE unsigned hb_oracle_buckets(const hb_oracle *oracle);
HB_INSIDE void hb_rows_of(const hb_oracle *oracle, hb_source *source, uint64_t rows[HB_ROW_COUNT]);
HB_INSIDE uint64_t hb_class_of(const hb_oracle *oracle, uint64_t position, const uint64_t rows[HB_ROW_COUNT]);
HB_INSIDE void hb_report(const hb_oracle *oracle, uint64_t class, const uint64_t rows[HB_ROW_COUNT], hb_source *source,
                         uint8_t *report, uint8_t *work);
HB_INSIDE int hb_is_hashing(const hb_oracle *oracle);
HB_INSIDE int hb_hashing_widths(hb_oracle *oracle);
HB_INSIDE uint64_t hb_bucket_of(const hb_oracle *oracle, uint64_t position, const uint64_t rows[HB_ROW_COUNT]);
HB_INSIDE void hb_pack(const hb_oracle *oracle, uint64_t bucket, const uint64_t rows[HB_ROW_COUNT], uint8_t *report);
HB_INSIDE uint64_t hb_choose(uint64_t items, uint64_t members);
HB_INSIDE uint64_t hb_rank(const hb_oracle *oracle, uint64_t own, int is_inside, hb_source *source);
HB_INSIDE void hb_unary(const hb_oracle *oracle, uint64_t value, hb_source *source, uint8_t *report);
HB_INSIDE void hb_subset(const hb_oracle *oracle, uint64_t value, hb_source *source, uint8_t *report, uint8_t *work);

#endif
