/* Periods: a device answers at most once in each, and never in an earlier one. */
#include "state.h"

/* Set the id of all definitions with the name of a query. */
HB_INSIDE void hb_name_id(const hb_query *query, uint8_t id[8]) {
  hb_sha256 hash;
  uint8_t digest[32];

  hb_sha256_begin(&hash);
  hb_sha256_add(&hash, query->name.at, query->name.size);
  hb_sha256_end(&hash, digest);
  memcpy(id, digest, 8);
}

/* Return the number of the next period that has no answer yet. */
static int64_t open_period(const hubbub_buffer *state, const hb_query *query) {
  uint8_t id[8];
  hb_name_id(query, id);
  int64_t last = hb_number_of(state, HB_LAST, id, -1);

  return last < 0 ? 0 : last / query->period + 1;
}

HB_INSIDE int hb_is_open(const hubbub_buffer *state, const hb_query *query, int64_t now) {
  return now / query->period >= open_period(state, query);
}

/* Return a time in the next open period. The key spreads the times of devices over the period. */
HB_INSIDE double hb_due(const hubbub_buffer *state, const hb_query *query, const hb_hmac *mac, int64_t now) {
  int64_t index = now / query->period, open = open_period(state, query);
  uint8_t text[19] = "due", digest[32];
  if (open > index) index = open;
  memcpy(text + 3, query->digest, 8);
  hb_store(text + 11, (uint64_t)index, 8);
  hb_hmac_of(mac, text, sizeof text, digest);

  /* Two roundings, as in Python: of the place in the period, then of the sum. */
  hb_integer place, start;
  hb_set(&place, hb_load(digest, 6));
  hb_scale(&place, (uint32_t)query->period);
  hb_exact(&place, hb_round(&place, -48, HB_NEAREST));
  hb_set(&start, (uint64_t)index);
  hb_scale(&start, (uint32_t)query->period);
  hb_left(&start, HB_UNIT);
  hb_add(&start, &place);
  return hb_double_of(hb_round(&start, -HB_UNIT, HB_NEAREST));
}

/* Whether a round had a report that the state does not have: the key store knows of it. */
HB_INSIDE int hb_is_lost(const hubbub_buffer *state, const hb_query *query, int64_t round) {
  hb_row row;
  if (query->answers != HB_ONCE || hb_number_of(state, HB_LOST, query->digest, -1) != round) return 0;

  return !hb_find_row(state, HB_REPORTS, query->digest, &row) || row.number != round || row.size == 0;
}

/* Return the start of the round after a round, or 0 if it never ends. */
HB_INSIDE int64_t hb_next_round(const hb_query *query, int64_t now, int64_t round) {
  int64_t time = now > round ? now : round;

  return query->renew ? (time / query->renew + 1) * query->renew : 0;
}
