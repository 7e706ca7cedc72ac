/* The state of a device: charges, rounds, times and reports of once, but never a value. README.md has its bytes. */
#ifndef HUBBUB_STATE_H
#define HUBBUB_STATE_H
#include "query.h"

#define HB_HEAD 24
#define HB_ROW 24   /* bytes of a row before its payload */
#define HB_CHECK 8  /* bytes of the hash at the end */
#define HB_CHARGE 24 /* bytes of a charge before its name */
#define HB_MOST_STATE ((size_t)1 << 20)
#define HB_NEVER INT64_MIN

enum hb_row_kind { HB_CHARGES = 1, HB_LAST, HB_ROUNDS, HB_GIVEN, HB_REPORTS, HB_LOST, HB_EXPIRY };
enum hb_mode { HB_STABLE, HB_EACH };

/* A row. Its members are copied, and `at` is the place of its payload. */
typedef struct {
  uint8_t kind, mode;
  const uint8_t *id;
  int64_t number; /* of a charge: the round */
  size_t offset, at, size;
} hb_row;

/* A charge of a noise. In mode STABLE a noise is that of a digest and a round, in mode EACH that of one draw. */
typedef struct {
  uint64_t epsilon;
  uint32_t times;
  uint32_t draw; /* number of earlier draws. A row may hold several draws, one after another. */
  int64_t used;  /* device time of the last answer that used the noise */
  hubbub_text name;
} hb_charge_row;

/* rows.c */
HB_INSIDE int hb_next_row(const hubbub_buffer *state, hb_row *row);
HB_INSIDE int hb_find_row(const hubbub_buffer *state, unsigned kind, const uint8_t id[8], hb_row *row);
HB_INSIDE uint8_t *hb_add_row(hubbub_buffer *state, const hb_row *row);
HB_INSIDE void hb_remove_row(hubbub_buffer *state, const hb_row *row);
HB_INSIDE int64_t hb_number_of(const hubbub_buffer *state, unsigned kind, const uint8_t id[8], int64_t missing);
HB_INSIDE void hb_set_number(hubbub_buffer *state, unsigned kind, const uint8_t id[8], int64_t value);
HB_INSIDE void hb_read_charge(const hubbub_buffer *state, const hb_row *row, hb_charge_row *charge);
HB_INSIDE void hb_write_charge(hubbub_buffer *state, const hb_row *row, const hb_charge_row *charge);

/* state.c */
HB_INSIDE int hb_device_is_valid(const hubbub_device *device);
HB_INSIDE int hb_check_state(const hubbub_buffer *state);
HB_INSIDE int hb_check_owner(const hubbub_buffer *state, const hubbub_device *device);
HB_INSIDE void hb_seal_state(hubbub_buffer *state);

/* sums.c */
typedef struct {
  hb_integer amount;
  int64_t used; /* the newest last use, or HB_NEVER */
} hb_sum;

HB_INSIDE void hb_noise_sum(const hubbub_buffer *state, const uint8_t digest[8], unsigned mode, int64_t place, hb_sum *sum);
HB_INSIDE void hb_round_sum(const hubbub_buffer *state, const uint8_t digest[8], int64_t start, hb_sum *sum);
HB_INSIDE void hb_active_sum(const hubbub_buffer *state, int64_t since, hb_sum *sum);
HB_INSIDE int64_t hb_newest(const hubbub_buffer *state);
HB_INSIDE int hb_affords(uint64_t limit, const hb_integer *spent, const hb_integer *due);

/* ledger.c */
typedef struct {
  int code;
  int64_t round, time, since; /* a use counts after `since` */
  hb_charge unpaid;           /* the part of the charge that is not booked yet; of no times if it is */
  int is_lengthened;
} hb_decision;

HB_INSIDE unsigned hb_mode_of(const hb_query *query);
HB_INSIDE uint64_t hb_limit_of(const hubbub_device *device);
HB_INSIDE void hb_decide(const hubbub_buffer *state, const hb_query *query, const hubbub_device *device,
                         hb_decision *decision);
HB_INSIDE int64_t hb_place_of(const hubbub_buffer *state, const hb_query *query, int64_t round);
HB_INSIDE void hb_book(hubbub_buffer *state, const hb_query *query, const hb_decision *decision);

/* periods.c */
HB_INSIDE void hb_name_id(const hb_query *query, uint8_t id[8]);
HB_INSIDE int hb_is_open(const hubbub_buffer *state, const hb_query *query, int64_t now);
HB_INSIDE double hb_due(const hubbub_buffer *state, const hb_query *query, const hb_hmac *mac, int64_t now);
HB_INSIDE int hb_is_lost(const hubbub_buffer *state, const hb_query *query, int64_t round);
HB_INSIDE int64_t hb_next_round(const hb_query *query, int64_t now, int64_t round);

/* item.c, restore.c */
HB_INSIDE int hb_restore(hubbub_buffer *state, hubbub_text kept);
HB_INSIDE size_t hb_restore_room(hubbub_text kept);
HB_INSIDE size_t hb_amount_text(const hb_integer *amount, char to[48]);
HB_INSIDE int hb_amount_of(hubbub_text string, hb_integer *amount);

#endif
