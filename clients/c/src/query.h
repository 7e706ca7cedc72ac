/* A query that passed all checks. */
#ifndef HUBBUB_QUERY_H
#define HUBBUB_QUERY_H
#include "core.h"
#include "text.h"

#define HB_SYMBOLS 128 /* most symbols of an unknown string */
#define HB_LONGEST 1000000000

enum hb_domain { HB_NAMES, HB_SIZE, HB_SCALE, HB_TEXTS };
enum hb_answers { HB_LIFE, HB_ONCE, HB_FRESH };
enum hb_solution { HB_SINGLE, HB_SMP, HB_SPL };

/* One question, or a pair of two. */
typedef struct {
  hubbub_text name; /* the string in the listing; empty if there is one question */
  int is_pair;
  unsigned first, second; /* the attributes of a pair */
  enum hb_domain kind;
  hubbub_text domain;
  uint64_t named; /* values of the domain, without the one of `(other)` */
  int has_other;
  hb_oracle oracle;
} hb_part;

/* The chunks of unknown strings. */
typedef struct {
  hubbub_text alphabet; /* empty if bytes are symbols */
  unsigned base, length, cells;
  int is_normal, is_lower;
  unsigned chunks;
  uint8_t symbols[HB_SYMBOLS]; /* of each chunk */
} hb_strings;

/* An epsilon, as the bits of a float, so many times. */
typedef struct {
  uint64_t epsilon;
  uint32_t times;
} hb_charge;

typedef struct {
  uint64_t seal; /* HB_SEAL if the query may be used */
  hubbub_text item, name;
  uint8_t digest[8];
  enum hb_answers answers;
  enum hb_solution solution;
  uint64_t epsilon, own_epsilon, budget; /* own_epsilon: of each attribute */
  int64_t renew, period, pane;           /* renew is 0 if the query has no rounds */
  hb_charge charge;                      /* of the first answer of a round, or of each fresh answer */
  unsigned singles, parts;
  uint64_t width;
  hb_strings strings;
  hb_part part[HUBBUB_PARTS];
} hb_query;

#define HB_SEAL 0x7265776f6c666e75u

/* definition.c */
HB_INSIDE hubbub_text hb_listed(hubbub_text item, const char *member);
HB_INSIDE const hb_query *hb_query_of(const hubbub_query *query);
HB_INSIDE void hb_charge_amount(const hb_charge *charge, hb_integer *amount);

/* parts.c, domain.c, scale.c, strings.c: 0 if a definition is not valid, or a value is no answer */
HB_INSIDE int hb_read_parts(hb_query *query);
HB_INSIDE int hb_read_domain(hb_part *part, hubbub_text domain, hubbub_text other);
HB_INSIDE int hb_read_scale(hubbub_text domain, uint64_t *bins);
HB_INSIDE int hb_bin_of(hubbub_text domain, uint64_t bits, uint64_t *bin);
HB_INSIDE int hb_read_strings(hb_strings *strings, hubbub_text domain);
HB_INSIDE int hb_position_of(const hb_part *part, const hubbub_value *value, hubbub_normal normal, uint64_t *position);
HB_INSIDE int hb_chunks_of(const hb_strings *strings, hubbub_text text, hubbub_normal normal, uint64_t *numbers);
HB_INSIDE uint64_t hb_cell_of(const hb_query *query, const uint64_t *numbers, unsigned part);
HB_INSIDE unsigned hb_string_part(const hb_strings *strings, hb_source *source);

/* pins.c */
HB_INSIDE int hb_pins_are_valid(hubbub_text pinned);
HB_INSIDE int hb_pins_allow(const hb_query *query, hubbub_text pinned);

/* report.c */
HB_INSIDE int hb_positions_of(const hb_query *query, const hubbub_value *values, size_t count, hubbub_normal normal,
                              uint64_t *positions);
HB_INSIDE void hb_report_of(const hb_query *query, const hb_hmac *mac, int64_t number, const uint64_t *positions,
                            uint8_t *report, uint8_t *work);
HB_INSIDE uint32_t hb_group_of(const hb_query *query, hubbub_text group);

#endif
