/* An answer of a device: charged first, then drawn with the key, then put into a frame. */
#include "state.h"

#define FRAME_HEAD 40
#define GROWTH 1024 /* bytes by which one answer lengthens a state at most, without the report of once */

uint32_t hubbub_api(void) { return HUBBUB_API; }

void hubbub_derive(const uint8_t secret[HUBBUB_KEY], const uint8_t *installation, size_t size, uint8_t key[HUBBUB_KEY]) {
  static const char label[] = "hubbub installation";
  hb_hmac mac;
  hb_sha256 outer;
  if (size == 0) {
    memmove(key, secret, HUBBUB_KEY);
    return;
  }

  hb_hmac_begin(&mac, secret);
  outer = mac.outer;
  hb_sha256_add(&mac.inner, label, sizeof label - 1);
  hb_sha256_add(&mac.inner, installation, size);
  hb_sha256_end(&mac.inner, key);
  hb_sha256_add(&outer, key, HUBBUB_KEY);
  hb_sha256_end(&outer, key);
  hb_wipe(&mac, sizeof mac);
}

/* Return the code of a call that cannot be answered whatever the value is. */
static int check_call(const hb_query *query, const hubbub_device *device, const hubbub_buffer *state) {
  if (!query || !hb_device_is_valid(device) || !state || !state->at) return HUBBUB_MISUSE;
  if (device->group.size > 0 && !device->group.at) return HUBBUB_MISUSE;
  if (state->size == 0 || !hb_check_state(state) || !hb_check_owner(state, device)) return HUBBUB_STORE_ERROR;

  return HUBBUB_OK;
}

static int has_room(const hb_query *query, const hubbub_query *opaque, const hubbub_buffer *state,
                    const hubbub_buffer *frame, const hubbub_buffer *work) {
  size_t size = state->size + GROWTH + (size_t)query->width, work_room = hubbub_work_room(opaque);
  if (state->room < size || size > HB_MOST_STATE || frame->room < hubbub_frame_room(opaque)) return 0;

  return work_room == 0 || (work && work->at && work->room >= work_room);
}

/* Return the code of an answer that the rules do not allow. */
static int admit(const hubbub_buffer *state, const hb_query *query, const hubbub_device *device, hb_decision *decision) {
  if (!hb_is_open(state, query, device->now)) return HUBBUB_NOT_YET;
  hb_decide(state, query, device, decision);
  if (decision->code != HUBBUB_OK) return decision->code;

  if (!hb_is_lost(state, query, decision->round)) return HUBBUB_OK;
  return query->renew ? HUBBUB_NOT_YET : HUBBUB_BUDGET_SPENT;
}

/* Store a report of once, or take the first one of the round. */
static void repeat_first(hubbub_buffer *state, const hb_query *query, int64_t round, uint8_t *report) {
  hb_row row;
  int has_row = hb_find_row(state, HB_REPORTS, query->digest, &row);
  if (has_row && row.number == round && row.size == query->width) {
    memcpy(report, state->at + row.at, row.size);
    return;
  }

  if (has_row) hb_remove_row(state, &row);
  row = (hb_row){HB_REPORTS, HB_STABLE, query->digest, round, 0, 0, (size_t)query->width};
  memcpy(hb_add_row(state, &row), report, row.size);
}

/* Store that a report was made. */
static void store_answer(hubbub_buffer *state, const hb_query *query, const hb_decision *decision, int64_t now,
                         uint8_t *report) {
  uint8_t id[8];
  hb_row row;
  hb_name_id(query, id);

  if (query->answers == HB_ONCE) repeat_first(state, query, decision->round, report);
  if (query->answers == HB_FRESH) {
    hb_set_number(state, HB_GIVEN, query->digest, hb_place_of(state, query, decision->round) + 1);
  }
  int has_row = hb_find_row(state, HB_REPORTS, query->digest, &row);
  if (query->answers == HB_LIFE && has_row && row.size == 0) hb_remove_row(state, &row);
  hb_set_number(state, HB_LAST, id, now);
}

/* Write a binary frame of one report, without an id. */
static void write_head(const hb_query *query, const hubbub_device *device, hubbub_buffer *frame) {
  uint8_t *head = frame->at;
  memset(head, 0, FRAME_HEAD);

  memcpy(head, "HBB1", 4);
  head[4] = 1;
  hb_store(head + 6, query->width, 2);
  memcpy(head + 8, query->digest, 8);
  hb_store(head + 16, (uint64_t)(device->now / query->pane * query->pane), 8);
  hb_store(head + 32, 1, 4);
  hb_store(head + 36, hb_group_of(query, device->group), 2);
  frame->size = FRAME_HEAD + (size_t)query->width;
}

int hubbub_answer(const hubbub_query *opaque, const hubbub_device *device, const hubbub_value *values, size_t count,
                  hubbub_buffer *state, hubbub_buffer *frame, hubbub_buffer *work) {
  const hb_query *query = hb_query_of(opaque);
  uint64_t positions[HB_SYMBOLS];
  hb_decision decision;
  if (!frame || !frame->at || !values || count == 0) return HUBBUB_MISUSE;
  int code = check_call(query, device, state);
  if (code != HUBBUB_OK) return code;
  if (!has_room(query, opaque, state, frame, work)) return HUBBUB_NO_SPACE;
  /* This core does not know shares of devices, and must not answer for all. */
  if (hb_bits_of(device->sample) != 0) return HUBBUB_NOT_ALLOWED;

  code = admit(state, query, device, &decision);
  if (code != HUBBUB_OK) return code;
  /* The charge comes before the value is read, so silence does not tell the value. */
  int64_t number = hb_place_of(state, query, decision.round);
  hb_book(state, query, &decision);
  frame->size = 0;
  if (hb_positions_of(query, values, count, device->normal, positions)) {
    hb_hmac mac;
    hb_hmac_begin(&mac, device->key);
    hb_report_of(query, &mac, number, positions, frame->at + FRAME_HEAD, work ? work->at : 0);
    hb_wipe(&mac, sizeof mac);
    store_answer(state, query, &decision, device->now, frame->at + FRAME_HEAD);
    write_head(query, device, frame);
  } else {
    code = HUBBUB_REPORT_ERROR;
  }
  hb_seal_state(state);
  hb_wipe(positions, sizeof positions);
  return code;
}

/* Return the rest of a limit, or 0 if nothing is left. */
static void set_rest(hb_integer *rest, uint64_t limit, const hb_integer *spent) {
  hb_exact(rest, limit);
  if (hb_compare(rest, spent) > 0) hb_subtract(rest, spent);
  else hb_set(rest, 0);
}

static double nearest(const hb_integer *amount) { return hb_double_of(hb_round(amount, -HB_UNIT, HB_NEAREST)); }

int hubbub_account_of(const hubbub_query *opaque, const hubbub_device *device, const hubbub_buffer *state,
                      hubbub_account *account) {
  const hb_query *query = hb_query_of(opaque);
  hb_decision decision;
  hb_sum spent, active, life;
  hb_integer in_round, in_device;
  hb_hmac mac;
  if (!account) return HUBBUB_MISUSE;
  int code = check_call(query, device, state);
  if (code != HUBBUB_OK) return code;

  hb_decide(state, query, device, &decision);
  hb_round_sum(state, query->digest, decision.round, &spent);
  hb_active_sum(state, decision.since, &active);
  hb_active_sum(state, HB_NEVER, &life);
  set_rest(&in_round, query->budget, &spent.amount);
  set_rest(&in_device, hb_limit_of(device), &active.amount);

  memset(account, 0, sizeof *account);
  account->spent = nearest(&spent.amount);
  account->remaining = nearest(hb_compare(&in_round, &in_device) < 0 ? &in_round : &in_device);
  account->counted = nearest(&active.amount);
  account->life = nearest(&life.amount);
  account->round = decision.round;
  account->lengthened = decision.is_lengthened;
  memcpy(account->digest, query->digest, 8);
  account->group = hb_group_of(query, device->group);

  int64_t now = device->now;
  if (hb_is_open(state, query, now) && hb_is_lost(state, query, decision.round) && query->renew) {
    now = hb_next_round(query, now, decision.round);
  }
  hb_hmac_begin(&mac, device->key);
  account->due = hb_due(state, query, &mac, now);
  hb_wipe(&mac, sizeof mac);
  return HUBBUB_OK;
}
