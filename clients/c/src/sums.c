/* Sums of charges, without rounding. */
#include "state.h"

static void begin_sum(hb_sum *sum) {
  hb_set(&sum->amount, 0);
  sum->used = HB_NEVER;
}

static void add(hb_sum *sum, const hb_charge_row *charge) {
  hb_charge unit = {charge->epsilon, charge->times};
  hb_integer amount;

  hb_charge_amount(&unit, &amount);
  hb_add(&sum->amount, &amount);
  if (charge->used > sum->used) sum->used = charge->used;
}

/* Go to the next charge. */
static int next(const hubbub_buffer *state, hb_row *row, hb_charge_row *charge) {
  while (hb_next_row(state, row)) {
    if (row->kind != HB_CHARGES) continue;
    hb_read_charge(state, row, charge);
    return 1;
  }
  return 0;
}

/* Add up the charges of the noise of a round, or of a draw by its number. */
HB_INSIDE void hb_noise_sum(const hubbub_buffer *state, const uint8_t digest[8], unsigned mode, int64_t place, hb_sum *sum) {
  hb_row row = {0};
  hb_charge_row charge;

  begin_sum(sum);
  while (next(state, &row, &charge)) {
    int64_t draw = charge.draw;
    int is_own = mode == HB_STABLE ? row.number == place : draw <= place && place < draw + charge.times;
    if (is_own && row.mode == mode && memcmp(row.id, digest, 8) == 0) add(sum, &charge);
  }
}

/* Add up the charges of a definition in a round. */
HB_INSIDE void hb_round_sum(const hubbub_buffer *state, const uint8_t digest[8], int64_t start, hb_sum *sum) {
  hb_row row = {0};
  hb_charge_row charge;

  begin_sum(sum);
  while (next(state, &row, &charge)) {
    if (row.number == start && memcmp(row.id, digest, 8) == 0) add(sum, &charge);
  }
}

/* Add up all charges that were used later than a device time. */
HB_INSIDE void hb_active_sum(const hubbub_buffer *state, int64_t since, hb_sum *sum) {
  hb_row row = {0};
  hb_charge_row charge;

  begin_sum(sum);
  while (next(state, &row, &charge)) {
    if (charge.used > since) add(sum, &charge);
  }
}

/* Return the newest time of a use or an answer. The device time is never lower. */
HB_INSIDE int64_t hb_newest(const hubbub_buffer *state) {
  hb_row row = {0};
  hb_charge_row charge;
  int64_t newest = 0;

  while (hb_next_row(state, &row)) {
    int64_t time = 0;
    if (row.kind == HB_CHARGES) {
      hb_read_charge(state, &row, &charge);
      time = charge.used;
    }
    if (row.kind == HB_LAST) time = (int64_t)hb_load(state->at + row.at, 8);
    if (time > newest) newest = time;
  }
  return newest;
}

/* Whether a limit allows a charge. Rounding may exceed it by one part in 10^12: 0.3 is three times 0.1. */
HB_INSIDE int hb_affords(uint64_t limit, const hb_integer *spent, const hb_integer *due) {
  hb_integer total = *spent, most, slack;
  hb_add(&total, due);
  hb_scale(&total, 1000000);
  hb_scale(&total, 1000000);

  hb_exact(&most, limit);
  slack = most;
  hb_scale(&most, 1000000);
  hb_scale(&most, 1000000);
  hb_add(&most, &slack);
  return hb_compare(&total, &most) <= 0;
}
