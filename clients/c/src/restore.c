/* The floor of the key store: charges that a lost or old state lacks are booked again. */
#include "state.h"

#define MOST_ITEM 65536
#define MOST_DIGESTS 4096
#define MOST_NUMBER (((uint64_t)1 << 53) - 1)
#define PER_ROUND 118 /* bytes of a charge, a round and a loss */
#define PER_DRAW 32
static const char lost_name[] = "(lost)";

/* Read a charge of an item, and round it up to an amount. */
HB_INSIDE int hb_amount_of(hubbub_text string, hb_integer *amount) {
  hubbub_text inside = hb_json_inside(string);
  hb_integer divisor, one;
  int places = -1;
  hb_set(amount, 0);
  hb_set(&one, 1);
  divisor = one;
  if (hb_json_kind(string) != '"' || inside.size == 0 || inside.size > 49) return 0;

  for (size_t i = 0; i < inside.size; i++) {
    char byte = inside.at[i];
    if (byte == '.' && places < 0 && i > 0 && i + 1 < inside.size) {
      places = 0;
      continue;
    }
    if (byte < '0' || byte > '9') return 0;
    if (places >= 0 && ++places > 30) return 0;
    if (places > 0) hb_scale(&divisor, 10);
    hb_integer digit;
    hb_set(&digit, (uint64_t)(byte - '0'));
    hb_scale(amount, 10);
    hb_add(amount, &digit);
  }
  hb_left(amount, HB_UNIT);
  if (hb_divide(amount, amount, &divisor)) hb_add(amount, &one);
  return hb_length(amount) <= 2 * HB_UNIT;
}

static int digest_of(hubbub_text key, uint8_t digest[8]) {
  hubbub_text inside = hb_json_inside(key);
  if (inside.size != 16) return 0;

  for (unsigned i = 0; i < 8; i++) {
    int high = hb_hex_digit(inside.at[2 * i]), low = hb_hex_digit(inside.at[2 * i + 1]);
    if (high < 0 || low < 0) return 0;
    digest[i] = (uint8_t)(high << 4 | low);
  }
  return 1;
}

/* Return the room for all rows that an item may add. */
HB_INSIDE size_t hb_restore_room(hubbub_text kept) {
  if (kept.size == 0 || kept.size > MOST_ITEM || !hb_json_is_valid(kept, MOST_DIGESTS)) return 0;
  size_t rounds = hb_json_count(hb_listed(kept, "rounds")), draws = hb_json_count(hb_listed(kept, "fresh"));

  return PER_ROUND * (rounds + 1) + PER_DRAW * draws;
}

/* Book what a state lacks of a charge, with the device time of the newest use. */
static int book(hubbub_buffer *state, const hb_row *noise, hubbub_text string, const hb_integer *booked, int64_t newest) {
  hb_integer amount, rounded;
  char text[50];
  size_t size = hb_amount_text(booked, text + 1);
  text[0] = text[size + 1] = '"';
  hubbub_text own = {text, size + 2};
  if (!hb_amount_of(string, &amount) || !hb_amount_of(own, &rounded)) return 0;
  if (hb_compare(&amount, &rounded) <= 0) return 1;

  hb_row row = *noise;
  row.kind = HB_CHARGES;
  row.size = HB_CHARGE + sizeof lost_name - 1;
  row.at = (size_t)(hb_add_row(state, &row) - state->at);
  hb_subtract(&amount, booked);
  hb_charge_row charge = {hb_round(&amount, -HB_UNIT, HB_UP), 1, 0, newest, {0, 0}};
  hb_write_charge(state, &row, &charge);
  memcpy(state->at + row.at + HB_CHARGE, lost_name, sizeof lost_name - 1);
  return 1;
}

/* A noise has one last use, also if several charges have booked it. */
static void use_round(hubbub_buffer *state, const hb_row *noise, int64_t newest) {
  hb_row row = {0};
  hb_charge_row charge;

  while (hb_next_row(state, &row)) {
    if (row.kind != HB_CHARGES || row.mode != HB_STABLE || row.number != noise->number) continue;
    if (memcmp(row.id, noise->id, 8) != 0) continue;
    hb_read_charge(state, &row, &charge);
    charge.used = newest;
    hb_write_charge(state, &row, &charge);
  }
}

static int restore_round(hubbub_buffer *state, hubbub_text key, hubbub_text value, int64_t newest) {
  hb_members members = hb_json_members(value);
  hubbub_text none, start_text, charge;
  uint8_t digest[8];
  uint64_t start;
  if (!digest_of(key, digest) || hb_json_kind(value) != '[' || hb_json_count(value) != 2) return 0;
  hb_json_next(&members, &none, &start_text);
  hb_json_next(&members, &none, &charge);
  if (!hb_whole(start_text, MOST_NUMBER, &start)) return 0;

  hb_sum booked;
  hb_row report, noise = {HB_CHARGES, HB_STABLE, digest, (int64_t)start, 0, 0, 0};
  hb_noise_sum(state, digest, HB_STABLE, (int64_t)start, &booked);
  int has_report = hb_find_row(state, HB_REPORTS, digest, &report);
  int is_unanswered = has_report && report.number == (int64_t)start && report.size == 0;
  /* The key draws the same noise again, but a report of once is gone. */
  if (booked.used == HB_NEVER || is_unanswered) hb_set_number(state, HB_LOST, digest, (int64_t)start);

  size_t size = state->size;
  if (!book(state, &noise, charge, &booked.amount, newest)) return 0;
  if (state->size > size) use_round(state, &noise, newest);
  if (hb_number_of(state, HB_ROUNDS, digest, -1) < (int64_t)start) {
    hb_set_number(state, HB_ROUNDS, digest, (int64_t)start);
  }
  return 1;
}

static int restore_draws(hubbub_buffer *state, hubbub_text key, hubbub_text value) {
  uint8_t digest[8];
  uint64_t draws;
  if (!digest_of(key, digest) || !hb_whole(value, MOST_NUMBER, &draws)) return 0;

  /* A draw that this state has charged may be sent already: a backup can be older than the answer. */
  if (hb_number_of(state, HB_GIVEN, digest, 0) < (int64_t)draws) {
    hb_set_number(state, HB_GIVEN, digest, (int64_t)draws);
  }
  return 1;
}

/* Book what a state lacks of the item of the key store. Return 0 if the item cannot be read. */
HB_INSIDE int hb_restore(hubbub_buffer *state, hubbub_text kept) {
  static const uint8_t none[8] = {0};
  uint64_t version, newest;
  if (kept.size == 0) return 1;
  /* Nothing may be looked up before the text is known to be good JSON. */
  if (hb_restore_room(kept) == 0) return 0;
  hubbub_text key, value, rounds = hb_listed(kept, "rounds"), fresh = hb_listed(kept, "fresh");
  if (!hb_whole(hb_listed(kept, "version"), 1, &version) || version != 1) return 0;
  if (!hb_whole(hb_listed(kept, "newest"), MOST_NUMBER, &newest)) return 0;
  if (hb_json_kind(rounds) != '{' || hb_json_kind(fresh) != '{') return 0;

  hb_members members = hb_json_members(rounds);
  while (hb_json_next(&members, &key, &value)) {
    if (!restore_round(state, key, value, (int64_t)newest)) return 0;
  }

  hb_sum life;
  hb_row all = {HB_CHARGES, HB_STABLE, none, 0, 0, 0, 0};
  hb_active_sum(state, HB_NEVER, &life);
  if (!book(state, &all, hb_listed(kept, "life"), &life.amount, (int64_t)newest)) return 0;

  members = hb_json_members(fresh);
  while (hb_json_next(&members, &key, &value)) {
    if (!restore_draws(state, key, value)) return 0;
  }
  return 1;
}
