/* The check of a state that was read: half a store is refused. */
#include "state.h"

static const uint8_t magic[8] = {'H', 'B', 'S', '1', HUBBUB_STATE_VERSION, 0, 0, 0};
static const char key_text[] = "hubbub: the key of this store";
static const char machine_text[] = "hubbub: the machine of this store";
#define LATEST ((int64_t)1 << 53)
#define SHORTEST_PER 60
#define MOST_MACHINE 256

/* Whether the limits of an application are possible. */
HB_INSIDE int hb_device_is_valid(const hubbub_device *device) {
  if (!device || !device->key || device->now < 0 || device->now > LATEST) return 0;
  if (device->per != 0 && (device->per < SHORTEST_PER || device->per > HB_LONGEST)) return 0;
  if (device->machine.size > MOST_MACHINE || (device->machine.size > 0 && !device->machine.at)) return 0;

  uint64_t bits = hb_bits_of(device->max_epsilon);
  return bits > 0 && bits < 0x7ff0000000000000;
}

/* Set the tag of the key, or with a machine that of the machine. */
static void tag_of(const hubbub_device *device, hubbub_text machine, uint8_t tag[8]) {
  hb_hmac mac;
  uint8_t digest[32], text[sizeof machine_text + MOST_MACHINE];
  size_t size = sizeof key_text - 1;

  memcpy(text, key_text, size);
  if (machine.size > 0) {
    size = sizeof machine_text - 1 + machine.size;
    memcpy(text, machine_text, sizeof machine_text - 1);
    memcpy(text + sizeof machine_text - 1, machine.at, machine.size);
  }
  hb_hmac_begin(&mac, device->key);
  hb_hmac_of(&mac, text, size, digest);
  memcpy(tag, digest, 8);
  hb_wipe(&mac, sizeof mac);
}

static void hash_of(const hubbub_buffer *state, uint8_t check[HB_CHECK]) {
  hb_sha256 hash;
  uint8_t digest[32];

  hb_sha256_begin(&hash);
  hb_sha256_add(&hash, state->at, state->size - HB_CHECK);
  hb_sha256_end(&hash, digest);
  memcpy(check, digest, HB_CHECK);
}

/* Write the hash over all bytes before it. */
HB_INSIDE void hb_seal_state(hubbub_buffer *state) { hash_of(state, state->at + state->size - HB_CHECK); }

static int is_charge(const hubbub_buffer *state, const hb_row *row) {
  hb_charge_row charge;
  if (row->size < HB_CHARGE || row->size > HB_CHARGE + HUBBUB_NAME || row->mode > HB_EACH) return 0;

  hb_read_charge(state, row, &charge);
  if (charge.epsilon < hb_ratio_of_ten(1, -45) || charge.epsilon > hb_ratio_of_ten(1, 19)) return 0;
  return charge.times > 0 && charge.used >= 0 && charge.used <= LATEST && row->number >= 0;
}

static int is_row(const hubbub_buffer *state, const hb_row *row) {
  if (state->at[row->offset + 2] || state->at[row->offset + 3]) return 0;
  if (row->kind == HB_CHARGES) return is_charge(state, row);
  if (row->mode != (row->kind == HB_GIVEN ? HB_EACH : HB_STABLE)) return 0;
  if (row->kind == HB_REPORTS) return row->size <= UINT16_MAX && row->number >= 0;
  if (row->kind < HB_CHARGES || row->kind > HB_EXPIRY || row->size != 8 || row->number != 0) return 0;

  int64_t value = (int64_t)hb_load(state->at + row->at, 8);
  return value <= LATEST && (row->kind == HB_EXPIRY ? value >= -LATEST : value >= 0);
}

/* Whether all bytes of a state are good. */
HB_INSIDE int hb_check_state(const hubbub_buffer *state) {
  uint8_t check[HB_CHECK];
  hb_row row = {0};
  if (state->size < HB_HEAD + HB_CHECK || state->size > HB_MOST_STATE || memcmp(state->at, magic, 8) != 0) return 0;
  hash_of(state, check);
  if (memcmp(state->at + state->size - HB_CHECK, check, HB_CHECK) != 0) return 0;

  size_t end = HB_HEAD;
  while (hb_next_row(state, &row)) {
    if (!is_row(state, &row)) return 0;
    end = row.at + row.size;
  }
  return end + HB_CHECK == state->size;
}

/* Whether two rows are of one thing. */
static int is_same_row(const hubbub_buffer *state, const hb_row *left, const hb_row *right) {
  if (left->kind != right->kind || memcmp(left->id, right->id, 8) != 0 || left->mode != right->mode) return 0;
  if (left->kind != HB_CHARGES) return 1;

  hb_charge_row left_charge, right_charge;
  hb_read_charge(state, left, &left_charge);
  hb_read_charge(state, right, &right_charge);
  return left->number == right->number && left_charge.epsilon == right_charge.epsilon &&
         left_charge.draw == right_charge.draw && left_charge.used == right_charge.used &&
         hb_same(left_charge.name, right_charge.name);
}

static int has_double(const hubbub_buffer *state) {
  hb_row row = {0}, later;

  while (hb_next_row(state, &row)) {
    later = row;
    while (hb_next_row(state, &later)) {
      if (is_same_row(state, &row, &later)) return 1;
    }
  }
  return 0;
}

static int has_history(const hubbub_buffer *state) {
  hb_row row = {0};

  while (hb_next_row(state, &row)) {
    if (row.kind == HB_CHARGES || row.kind == HB_LAST) return 1;
  }
  return 0;
}

static int has_machine(const hubbub_buffer *state) { return hb_load(state->at + 16, 8) != 0; }

/* Whether a state is that of this key and machine. */
HB_INSIDE int hb_check_owner(const hubbub_buffer *state, const hubbub_device *device) {
  uint8_t tag[8];
  hubbub_text none = {0, 0};

  tag_of(device, none, tag);
  if (memcmp(state->at + 8, tag, 8) != 0) return 0;
  if (device->machine.size == 0 || !has_machine(state)) return 1;
  tag_of(device, device->machine, tag);
  return memcmp(state->at + 16, tag, 8) == 0;
}

/* Bind a state to a key and a machine, or say why that cannot be. */
static int bind_owner(hubbub_buffer *state, const hubbub_device *device) {
  hubbub_text none = {0, 0};
  uint8_t key_tag[8], machine_tag[8];
  tag_of(device, none, key_tag);
  tag_of(device, device->machine, machine_tag);
  int is_same_key = memcmp(state->at + 8, key_tag, 8) == 0;
  if (!is_same_key && has_history(state)) return HUBBUB_STORE_ERROR;

  int is_moved = device->machine.size > 0 && has_machine(state) && memcmp(state->at + 16, machine_tag, 8) != 0;
  if (is_same_key && is_moved) {
    /* Devices of one image with one key would have the same noise. */
    if (!has_history(state)) return HUBBUB_NEW_KEY;
    if (!device->moved) return HUBBUB_STORE_ERROR;
  }
  memcpy(state->at + 8, key_tag, 8);
  /* Without a name of the machine the last tag stays, or a copy would pass here and then on another machine. */
  if (device->machine.size > 0) memcpy(state->at + 16, machine_tag, 8);
  return HUBBUB_OK;
}

int hubbub_bind(hubbub_buffer *state, const hubbub_device *device) {
  if (!state || !state->at || !hb_device_is_valid(device)) return HUBBUB_MISUSE;
  size_t size = state->size ? state->size : HB_HEAD + HB_CHECK;
  if (state->size == 0 && device->kept.size == 0 && !device->first) return HUBBUB_STORE_ERROR;
  if (state->size > 0 && (!hb_check_state(state) || has_double(state))) return HUBBUB_STORE_ERROR;
  if (state->room < size + hb_restore_room(device->kept)) return HUBBUB_NO_SPACE;

  if (state->size == 0) {
    memset(state->at, 0, size);
    memcpy(state->at, magic, 8);
    state->size = size;
  }
  int code = bind_owner(state, device);
  if (code == HUBBUB_OK && !hb_restore(state, device->kept)) code = HUBBUB_STORE_ERROR;
  if (code == HUBBUB_OK) hb_seal_state(state);
  return code;
}
