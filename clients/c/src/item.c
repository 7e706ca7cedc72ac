/* The item of the key store: a floor of all charges, which notices a lost or old state. */
#include "state.h"

#define MOST_ITEM 65536
#define DIGITS 1000000000000 /* an item has 12 significant digits */

typedef struct {
  hubbub_buffer *item;
  int is_full;
} writer;

static void put(writer *to, const void *bytes, size_t size) {
  if (to->item->room - to->item->size < size) {
    to->is_full = 1;
    return;
  }
  memcpy(to->item->at + to->item->size, bytes, size);
  to->item->size += size;
}

static void put_text(writer *to, const char *text) { put(to, text, hb_text(text).size); }

static void put_number(writer *to, uint64_t number) {
  char text[20];
  size_t from = sizeof text;
  do {
    text[--from] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);

  put(to, text + from, sizeof text - from);
}

static void scale_by_ten(hb_integer *value, int times) {
  for (; times > 0; times--) hb_scale(value, 10);
}

/* Return amount 10^places, rounded up. */
static uint64_t digits_at(const hb_integer *amount, int places) {
  hb_integer numerator = *amount, divisor, one;
  hb_set(&one, 1);
  divisor = one;
  hb_left(&divisor, HB_UNIT);
  scale_by_ten(&numerator, places);
  scale_by_ten(&divisor, -places);

  if (hb_divide(&numerator, &numerator, &divisor)) hb_add(&numerator, &one);
  return hb_low(&numerator);
}

/* Write an amount as a decimal text, rounded up to 12 significant digits. Return its bytes. */
HB_INSIDE size_t hb_amount_text(const hb_integer *amount, char to[48]) {
  int top = (int)hb_length(amount) - HB_UNIT - 1;
  /* One more place than the first digit allows, so that the loop finds the right one. */
  int places = 12 - (top >= 0 ? top * 3 / 10 : -(-top * 31 / 100) - 2);
  uint64_t digits = hb_length(amount) > 0 ? digits_at(amount, places) : 0;
  while (digits > DIGITS) digits = digits_at(amount, --places);
  while (places > 0 && digits % 10 == 0) {
    digits /= 10;
    places--;
  }

  char reversed[80];
  int count = 0, size = 0;
  for (; places < 0; places++) reversed[count++] = '0';
  for (int place = places; digits > 0 || place >= 0; place--) {
    reversed[count++] = (char)('0' + digits % 10);
    digits /= 10;
    if (place == 1) reversed[count++] = '.';
  }
  while (count > 0 && size < 48) to[size++] = reversed[--count];
  return (size_t)size;
}

/* Find the smallest digest after another one, or the smallest of all. Zeros are no digest. */
static int next_digest(const hubbub_buffer *state, uint8_t digest[8]) {
  uint8_t last[8];
  int is_found = 0;
  hb_row row = {0};
  memcpy(last, digest, 8);

  while (hb_next_row(state, &row)) {
    if (row.kind != HB_CHARGES && row.kind != HB_GIVEN && row.kind != HB_LOST) continue;
    if (memcmp(row.id, last, 8) <= 0 || (is_found && memcmp(row.id, digest, 8) >= 0)) continue;
    memcpy(digest, row.id, 8);
    is_found = 1;
  }
  return is_found;
}

/* Return the number of draws of a definition, charged or answered. */
static uint64_t draws_of(const hubbub_buffer *state, const uint8_t digest[8]) {
  int64_t draws = hb_number_of(state, HB_GIVEN, digest, 0);
  hb_row row = {0};
  hb_charge_row charge;

  while (hb_next_row(state, &row)) {
    if (row.kind != HB_CHARGES || row.mode != HB_EACH || memcmp(row.id, digest, 8) != 0) continue;
    hb_read_charge(state, &row, &charge);
    if ((int64_t)charge.draw + charge.times > draws) draws = (int64_t)charge.draw + charge.times;
  }
  return (uint64_t)draws;
}

/* Return the last round of a definition whose noise a report used, or -1. */
static int64_t answered_round(const hubbub_buffer *state, const uint8_t digest[8]) {
  int64_t start = hb_number_of(state, HB_LOST, digest, -1);
  hb_row row = {0}, report;
  int has_report = hb_find_row(state, HB_REPORTS, digest, &report);

  while (hb_next_row(state, &row)) {
    if (row.kind != HB_CHARGES || row.mode != HB_STABLE || memcmp(row.id, digest, 8) != 0) continue;
    /* A charge without an answer must not hide the answered round before it. */
    int is_unanswered = has_report && report.size == 0 && report.number == row.number;
    if (!is_unanswered && row.number > start) start = row.number;
  }
  return start;
}

static void put_digest(writer *to, const uint8_t digest[8], int is_first) {
  static const char hex[] = "0123456789abcdef";
  char text[16];

  for (unsigned i = 0; i < 16; i++) text[i] = hex[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
  put_text(to, is_first ? "\"" : ",\"");
  put(to, text, sizeof text);
  put_text(to, "\":");
}

static void put_fresh(writer *to, const hubbub_buffer *state) {
  uint8_t digest[8] = {0};
  int is_first = 1;

  put_text(to, "{\"fresh\":{");
  while (next_digest(state, digest)) {
    uint64_t draws = draws_of(state, digest);
    if (draws == 0) continue;
    put_digest(to, digest, is_first);
    put_number(to, draws);
    is_first = 0;
  }
}

static void put_rounds(writer *to, const hubbub_buffer *state) {
  static const uint8_t none[8] = {0};
  int64_t since = hb_number_of(state, HB_EXPIRY, none, HB_NEVER);
  uint8_t digest[8] = {0};
  int is_first = 1;

  while (next_digest(state, digest)) {
    hb_sum noise;
    char text[48];
    int64_t start = answered_round(state, digest);
    if (start < 0) continue;
    hb_noise_sum(state, digest, HB_STABLE, start, &noise);
    /* Noise that had expired needs room again after a loss. */
    if (noise.used <= since) hb_set(&noise.amount, 0);
    put_digest(to, digest, is_first);
    put_text(to, "[");
    put_number(to, (uint64_t)start);
    put_text(to, ",\"");
    put(to, text, hb_amount_text(&noise.amount, text));
    put_text(to, "\"]");
    is_first = 0;
  }
}

int hubbub_keep(const hubbub_device *device, const hubbub_buffer *state, hubbub_buffer *item) {
  writer to = {item, 0};
  hb_sum life;
  char text[48];
  if (!hb_device_is_valid(device) || !state || !state->at || !item || !item->at) return HUBBUB_MISUSE;
  if (state->size == 0 || !hb_check_state(state) || !hb_check_owner(state, device)) return HUBBUB_STORE_ERROR;

  item->size = 0;
  put_fresh(&to, state);
  put_text(&to, "},\"life\":\"");
  hb_active_sum(state, HB_NEVER, &life);
  put(&to, text, hb_amount_text(&life.amount, text));
  put_text(&to, "\",\"newest\":");
  put_number(&to, (uint64_t)hb_newest(state));
  put_text(&to, ",\"rounds\":{");
  put_rounds(&to, state);
  put_text(&to, "},\"version\":1}");
  return to.is_full || item->size > MOST_ITEM ? HUBBUB_NO_SPACE : HUBBUB_OK;
}
