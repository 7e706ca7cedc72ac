/* Two targets for a fuzzer. The first reads texts and states of any bytes. The second goes through lives of a device. */
#include "fuzz.h"
#include "state.h"

#include <stdlib.h>
#include <string.h>

#define STATE_ROOM (1 << 18)
#define FRAME_ROOM 70000
#define WORK_ROOM (1 << 21)
#define MOST_QUERIES 32

static const uint8_t key[HUBBUB_KEY] = {1, 2, 3};
static uint8_t state_bytes[STATE_ROOM], item_bytes[STATE_ROOM], frame_bytes[FRAME_ROOM], work_bytes[WORK_ROOM];
static hubbub_query queries[MOST_QUERIES];
static size_t query_count;

/* Open the query of a corpus for the lives. The text must stay. */
void fuzz_add_query(const char *text, size_t size) {
  hubbub_text body = {text, size}, name = {"screens", 7}, none = {0, 0};

  if (query_count < MOST_QUERIES && hubbub_open(queries + query_count, body, name, none) == HUBBUB_OK) query_count++;
}

static hubbub_device device_at(int64_t now) {
  hubbub_device device = {.key = key, .now = now, .max_epsilon = 20.0, .per = 864000, .first = 1};

  return device;
}

static void read_json(hubbub_text text) {
  hb_sha256 hash;
  hb_decimal decimal;
  hb_members members;
  hubbub_text member, value;
  char name[64];
  hb_sha256_begin(&hash);
  hb_pins_are_valid(text);
  text = hb_json_trim(text);
  if (!hb_json_is_valid(text, HB_MEMBERS)) return;

  hb_canonical(&hash, text);
  hb_decimal_of(text, &decimal);
  hb_json_copy(text, name, sizeof name);
  members = hb_json_members(text);
  while (hb_json_next(&members, &member, &value)) {
    hb_canonical(&hash, value);
    hb_decimal_of(value, &decimal);
    hb_json_copy(member, name, sizeof name);
  }
}

/* Read a state. Its check is made good at times, or no fuzzer would come behind it. */
static void read_state(const uint8_t *data, size_t size, int is_sealed) {
  hubbub_device device = device_at(1000000);
  hubbub_buffer state = {state_bytes, size, STATE_ROOM}, item = {item_bytes, 0, STATE_ROOM};
  if (size > STATE_ROOM / 2) return;

  memcpy(state_bytes, data, size);
  if (is_sealed && size >= HB_HEAD + HB_CHECK) {
    hubbub_buffer empty = {item_bytes, 0, STATE_ROOM};
    hubbub_bind(&empty, &device);
    memcpy(state_bytes, item_bytes, HB_HEAD);
    hb_seal_state(&state);
  }
  if (hubbub_bind(&state, &device) == HUBBUB_OK) hubbub_keep(&device, &state, &item);
}

static void read_item(hubbub_text text) {
  hubbub_device device = device_at(1000000);
  hubbub_buffer state = {state_bytes, 0, STATE_ROOM}, item = {item_bytes, 0, STATE_ROOM};

  device.kept = text;
  if (text.size > 0 && hubbub_bind(&state, &device) == HUBBUB_OK) hubbub_keep(&device, &state, &item);
}

static void read_value(hubbub_text text) {
  hubbub_device device = device_at(1000000);
  hubbub_value value = {.kind = HUBBUB_TEXT, .text = text};

  for (size_t i = 0; i < query_count; i++) {
    hubbub_buffer state = {state_bytes, 0, STATE_ROOM}, frame = {frame_bytes, 0, FRAME_ROOM};
    hubbub_buffer work = {work_bytes, 0, WORK_ROOM};
    hubbub_bind(&state, &device);
    hubbub_answer(queries + i, &device, &value, 1, &state, &frame, &work);
  }
}

void fuzz_texts(const uint8_t *data, size_t size) {
  if (size < 2) return;
  /* A copy of the exact size, so that a byte too many is noticed. */
  char *copy = malloc(size - 1);
  hubbub_text text = {copy, size - 1};
  if (!copy) return;

  memcpy(copy, data + 1, size - 1);
  switch (data[0] % 32) {
    case 0: read_value(text); break;
    case 1: case 2: case 3: case 4: read_state(data + 1, size - 1, 0); break;
    case 5: case 6: case 7: case 8: case 9: case 10: read_state(data + 1, size - 1, 1); break;
    case 11: case 12: case 13: case 14: read_item(text); break;
    default: read_json(text);
  }
  free(copy);
}

void fuzz_lives(const uint8_t *data, size_t size) {
  hubbub_text name = {"screens", 7}, none = {0, 0};
  hubbub_buffer state = {state_bytes, 0, STATE_ROOM};
  static hubbub_query altered;
  hubbub_device device = device_at(0);
  if (size < 2 || query_count == 0) return;
  char *copy = malloc(size);
  hubbub_text body = {copy, size};
  if (!copy) return;
  memcpy(copy, data, size);
  int is_open = hubbub_open(&altered, body, name, none) == HUBBUB_OK;

  hubbub_bind(&state, &device);
  for (size_t i = 1; i + 4 < size && i < 80; i += 5) {
    hubbub_buffer frame = {frame_bytes, 0, FRAME_ROOM}, work = {work_bytes, 0, WORK_ROOM};
    hubbub_text text = {copy + i, data[i] % 5u};
    hubbub_value value = {.kind = (enum hubbub_kind)(data[i + 1] % 3), .text = text, .integer = data[i + 2] % 70};
    hubbub_account account;
    const hubbub_query *query = is_open && i % 2 ? &altered : queries + data[i + 4] % query_count;
    value.number = value.kind == HUBBUB_NUMBER ? data[i + 2] / 4.0 : 0.0;
    device.now += data[i + 3] * 5000 - (data[i + 3] == 7 ? device.now / 2 : 0);
    hubbub_answer(query, &device, &value, 1, &state, &frame, &work);
    hubbub_account_of(query, &device, &state, &account);
    if (data[i + 3] % 64 == 0 && state.size > 40) {
      state_bytes[32 + data[i + 2] % (state.size - 40)] ^= data[i + 1];
      hb_seal_state(&state);
    }
  }
  free(copy);
}
