/* The rules of charges and rounds, as docs/clients.md states them. */
#include "state.h"

HB_INSIDE unsigned hb_mode_of(const hb_query *query) { return query->answers == HB_FRESH ? HB_EACH : HB_STABLE; }

/* Return the bits of max_epsilon. A limit beyond all charges is as good as a larger one. */
HB_INSIDE uint64_t hb_limit_of(const hubbub_device *device) {
  uint64_t bits = hb_bits_of(device->max_epsilon), most = hb_ratio_of_ten(1, 50);

  return bits < most ? bits : most;
}

/* Return the start of the present round. It never goes back, even if the clock does. */
static int64_t round_of(const hubbub_buffer *state, const hb_query *query, int64_t now) {
  int64_t start = query->renew ? now / query->renew * query->renew : 0;
  int64_t last = hb_number_of(state, HB_ROUNDS, query->digest, 0);

  return start > last ? start : last;
}

/* Return the place of the noise of a round: its start, or the number of the next draw. */
HB_INSIDE int64_t hb_place_of(const hubbub_buffer *state, const hb_query *query, int64_t round) {
  return hb_mode_of(query) == HB_EACH ? hb_number_of(state, HB_GIVEN, query->digest, 0) : round;
}

/* Set the part of an answer's charge that its noise has not booked. */
static void set_unpaid(const hb_query *query, const hb_integer *booked, hb_charge *unpaid) {
  hb_integer rest, unit, times;
  unpaid->epsilon = query->charge.epsilon;
  unpaid->times = hb_length(booked) == 0;
  if (query->answers == HB_FRESH) return;

  unpaid->times = 0;
  hb_charge_amount(&query->charge, &rest);
  if (hb_compare(&rest, booked) <= 0) return;
  hb_subtract(&rest, booked);
  hb_exact(&unit, query->charge.epsilon);
  if (hb_divide(&times, &rest, &unit)) {
    unpaid->epsilon = hb_round(&rest, -HB_UNIT, HB_UP);
    unpaid->times = 1;
  } else {
    unpaid->times = (uint32_t)hb_low(&times);
  }
}

/* Whether answers for life may go on with the noise of the last round. */
static int may_lengthen(const hubbub_buffer *state, const hb_query *query, int64_t last, int64_t since) {
  hb_sum noise;
  hb_integer amount;
  if (query->answers != HB_LIFE) return 0;

  hb_noise_sum(state, query->digest, HB_STABLE, last, &noise);
  hb_charge_amount(&query->charge, &amount);
  return noise.used > since && hb_compare(&noise.amount, &amount) >= 0;
}

/* Decide how the next answer is charged. A charge counts until `per` has passed since the last use of its noise. */
HB_INSIDE void hb_decide(const hubbub_buffer *state, const hb_query *query, const hubbub_device *device,
                         hb_decision *decision) {
  hb_sum noise, spent, active;
  hb_integer due;
  int64_t newest = hb_newest(state);
  memset(decision, 0, sizeof *decision);
  decision->time = device->now > newest ? device->now : newest;
  decision->since = device->per ? decision->time - device->per : HB_NEVER;
  decision->round = round_of(state, query, device->now);

  hb_noise_sum(state, query->digest, hb_mode_of(query), hb_place_of(state, query, decision->round), &noise);
  set_unpaid(query, &noise.amount, &decision->unpaid);
  int is_active = noise.used > decision->since;
  if (is_active && decision->unpaid.times == 0) return;

  hb_charge_amount(&decision->unpaid, &due);
  hb_round_sum(state, query->digest, decision->round, &spent);
  decision->code = HUBBUB_BUDGET_SPENT;
  if (decision->unpaid.times > 0 && !hb_affords(query->budget, &spent.amount, &due)) return;

  /* Noise that has expired comes back with all that it has booked. */
  if (!is_active) hb_add(&due, &noise.amount);
  hb_active_sum(state, decision->since, &active);
  int64_t last = hb_number_of(state, HB_ROUNDS, query->digest, 0);
  if (hb_affords(hb_limit_of(device), &active.amount, &due)) {
    decision->code = HUBBUB_OK;
  } else if (may_lengthen(state, query, last, decision->since)) {
    decision->code = HUBBUB_OK;
    decision->round = last;
    decision->unpaid.times = 0;
    decision->is_lengthened = 1;
  }
}

/* Add a charge, or count it to one of the same noise. */
static void add_charge(hubbub_buffer *state, const hb_query *query, const hb_decision *decision, int64_t place) {
  hb_row row = {0};
  hb_charge_row charge;
  uint32_t draw = query->answers == HB_FRESH ? (uint32_t)place : 0;
  while (hb_next_row(state, &row)) {
    if (row.kind != HB_CHARGES || row.mode != hb_mode_of(query) || memcmp(row.id, query->digest, 8) != 0) continue;
    hb_read_charge(state, &row, &charge);
    if (row.number != decision->round || charge.draw != draw || charge.epsilon != decision->unpaid.epsilon) continue;
    if (!hb_same(charge.name, query->name) || charge.times > UINT32_MAX - decision->unpaid.times) continue;
    charge.times += decision->unpaid.times;
    hb_write_charge(state, &row, &charge);
    return;
  }

  hb_row added = {HB_CHARGES, (uint8_t)hb_mode_of(query), query->digest, decision->round, 0, 0, 0};
  added.size = HB_CHARGE + query->name.size;
  added.at = (size_t)(hb_add_row(state, &added) - state->at);
  charge = (hb_charge_row){decision->unpaid.epsilon, decision->unpaid.times, draw, decision->time, query->name};
  hb_write_charge(state, &added, &charge);
  memcpy(state->at + added.at + HB_CHARGE, query->name.at, query->name.size);
}

/* Store that an answer used some noise. */
static void use(hubbub_buffer *state, const hb_query *query, int64_t place, int64_t time) {
  hb_row row = {0};
  hb_charge_row charge;

  while (hb_next_row(state, &row)) {
    if (row.kind != HB_CHARGES || row.mode != hb_mode_of(query) || memcmp(row.id, query->digest, 8) != 0) continue;
    hb_read_charge(state, &row, &charge);
    int64_t draw = charge.draw;
    int is_own = row.mode == HB_STABLE ? row.number == place : draw <= place && place < draw + charge.times;
    if (!is_own) continue;
    charge.used = time;
    hb_write_charge(state, &row, &charge);
  }
}

/* Store that the noise of a round is charged before its first report. */
static void mark_unanswered(hubbub_buffer *state, const hb_query *query, int64_t round) {
  hb_row row;
  if (hb_find_row(state, HB_REPORTS, query->digest, &row)) hb_remove_row(state, &row);

  row = (hb_row){HB_REPORTS, HB_STABLE, query->digest, round, 0, 0, 0};
  hb_add_row(state, &row);
}

/* Whether a charge counts for no later answer, so that it may be joined with others. */
static int is_old(const hubbub_buffer *state, const hb_row *row, const hb_charge_row *charge, int64_t since) {
  int is_expired = charge->used <= since;
  /* A round never returns, and a draw below the next number is answered. */
  if (row->mode == HB_STABLE) return is_expired && row->number < hb_number_of(state, HB_ROUNDS, row->id, 0);

  int64_t given = hb_number_of(state, HB_GIVEN, row->id, 0);
  return (is_expired || since == HB_NEVER) && (int64_t)charge->draw + charge->times <= given;
}

/* Join the old charges of a definition. Their sum and their newest use stay. */
static void join_old(hubbub_buffer *state, const uint8_t digest[8], int64_t since) {
  hb_row row = {0};
  hb_charge_row charge, first_charge;
  int64_t last = hb_number_of(state, HB_ROUNDS, digest, 0);

  while (hb_next_row(state, &row)) {
    if (row.kind != HB_CHARGES || memcmp(row.id, digest, 8) != 0) continue;
    hb_read_charge(state, &row, &charge);
    if (!is_old(state, &row, &charge, since)) continue;
    hb_row first = {0};
    while (hb_next_row(state, &first) && first.offset < row.offset) {
      if (first.kind != HB_CHARGES || first.mode != row.mode || memcmp(first.id, digest, 8) != 0) continue;
      hb_read_charge(state, &first, &first_charge);
      if (first_charge.epsilon != charge.epsilon || !hb_same(first_charge.name, charge.name)) continue;
      if ((first.number < last) != (row.number < last) || !is_old(state, &first, &first_charge, since)) continue;
      if (first_charge.times > UINT32_MAX - charge.times) continue;
      first_charge.times += charge.times;
      if (row.number > first.number) first.number = row.number;
      if (charge.used > first_charge.used) first_charge.used = charge.used;
      hb_write_charge(state, &first, &first_charge);
      hb_remove_row(state, &row);
      row = first;
      break;
    }
  }
}

/* Book the charge and the use of an answer. */
HB_INSIDE void hb_book(hubbub_buffer *state, const hb_query *query, const hb_decision *decision) {
  static const uint8_t none[8] = {0};
  int64_t place = hb_place_of(state, query, decision->round);
  hb_sum noise;
  hb_row row;
  hb_noise_sum(state, query->digest, hb_mode_of(query), place, &noise);

  /* A round counts as answered in the key store only after its first report is stored. */
  if (query->answers == HB_ONCE && noise.used == HB_NEVER) mark_unanswered(state, query, decision->round);
  if (decision->unpaid.times > 0) add_charge(state, query, decision, place);
  use(state, query, place, decision->time);
  hb_set_number(state, HB_ROUNDS, query->digest, decision->round);

  if (decision->since != HB_NEVER) hb_set_number(state, HB_EXPIRY, none, decision->since);
  else if (hb_find_row(state, HB_EXPIRY, none, &row)) hb_remove_row(state, &row);
  join_old(state, query->digest, decision->since);
}
