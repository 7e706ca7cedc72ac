/* The rows of a state. They lie one after another, in the order of their making. */
#include "state.h"

/* Go to the next row, from an offset of 0 to the first. Return 0 at the end. */
HB_INSIDE int hb_next_row(const hubbub_buffer *state, hb_row *row) {
  size_t offset = row->offset ? row->at + row->size : HB_HEAD;
  if (offset + HB_ROW + HB_CHECK > state->size) return 0;

  const uint8_t *bytes = state->at + offset;
  row->kind = bytes[0];
  row->mode = bytes[1];
  row->size = (size_t)hb_load(bytes + 4, 4);
  row->id = bytes + 8;
  row->number = (int64_t)hb_load(bytes + 16, 8);
  row->offset = offset;
  row->at = offset + HB_ROW;
  return row->size <= state->size - HB_CHECK - row->at;
}

/* Find the row of a kind and an id. */
HB_INSIDE int hb_find_row(const hubbub_buffer *state, unsigned kind, const uint8_t id[8], hb_row *row) {
  memset(row, 0, sizeof *row);

  while (hb_next_row(state, row)) {
    if (row->kind == kind && memcmp(row->id, id, 8) == 0) return 1;
  }
  return 0;
}

/* Add a row of zeros at the end, and return its payload. The room was checked before. */
HB_INSIDE uint8_t *hb_add_row(hubbub_buffer *state, const hb_row *row) {
  uint8_t *bytes = state->at + state->size - HB_CHECK;

  state->size += HB_ROW + row->size;
  memset(bytes, 0, HB_ROW + row->size + HB_CHECK);
  bytes[0] = row->kind;
  bytes[1] = row->mode;
  hb_store(bytes + 4, row->size, 4);
  memcpy(bytes + 8, row->id, 8);
  hb_store(bytes + 16, (uint64_t)row->number, 8);
  return bytes + HB_ROW;
}

HB_INSIDE void hb_remove_row(hubbub_buffer *state, const hb_row *row) {
  size_t end = row->at + row->size;

  memmove(state->at + row->offset, state->at + end, state->size - end);
  state->size -= end - row->offset;
}

/* Return the integer of a row, or what stands for a missing one. */
HB_INSIDE int64_t hb_number_of(const hubbub_buffer *state, unsigned kind, const uint8_t id[8], int64_t missing) {
  hb_row row;

  return hb_find_row(state, kind, id, &row) ? (int64_t)hb_load(state->at + row.at, 8) : missing;
}

HB_INSIDE void hb_set_number(hubbub_buffer *state, unsigned kind, const uint8_t id[8], int64_t value) {
  hb_row row;
  if (hb_find_row(state, kind, id, &row)) {
    hb_store(state->at + row.at, (uint64_t)value, 8);
    return;
  }

  memset(&row, 0, sizeof row);
  row.kind = (uint8_t)kind;
  row.mode = kind == HB_GIVEN ? HB_EACH : HB_STABLE;
  row.id = id;
  row.size = 8;
  hb_store(hb_add_row(state, &row), (uint64_t)value, 8);
}

HB_INSIDE void hb_read_charge(const hubbub_buffer *state, const hb_row *row, hb_charge_row *charge) {
  const uint8_t *payload = state->at + row->at;

  charge->epsilon = hb_load(payload, 8);
  charge->times = (uint32_t)hb_load(payload + 8, 4);
  charge->draw = (uint32_t)hb_load(payload + 12, 4);
  charge->used = (int64_t)hb_load(payload + 16, 8);
  charge->name.at = (const char *)payload + HB_CHARGE;
  charge->name.size = row->size - HB_CHARGE;
}

/* Write a charge and its round. The name stays. */
HB_INSIDE void hb_write_charge(hubbub_buffer *state, const hb_row *row, const hb_charge_row *charge) {
  uint8_t *payload = state->at + row->at;

  hb_store(payload - 8, (uint64_t)row->number, 8);
  hb_store(payload, charge->epsilon, 8);
  hb_store(payload + 8, charge->times, 4);
  hb_store(payload + 12, charge->draw, 4);
  hb_store(payload + 16, (uint64_t)charge->used, 8);
}
