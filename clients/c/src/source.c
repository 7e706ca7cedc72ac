/* Random integers, in the order of docs/wire-format.md. */
#include "core.h"

#define NOT_LOADED UINT64_MAX

HB_INSIDE void hb_source_begin(hb_source *source, const hb_hmac *mac, const uint8_t digest[8], const hb_stream *stream) {
  uint8_t *fields = source->fields;
  memset(source, 0, sizeof *source);
  source->mac = *mac;
  source->loaded = NOT_LOADED;

  memcpy(fields, digest, 8);
  hb_store(fields + 8, stream->attribute, 2);
  fields[10] = stream->mode;
  fields[11] = (uint8_t)stream->purpose;
  hb_store(fields + 12, (uint64_t)stream->number, 8);
  source->size = 20;
  if (stream->purpose == HB_ANSWER) {
    hb_store(fields + 20, (uint64_t)stream->class, 8);
    source->size = 28;
  }
}

/* Any byte can be read, so a client needs no memory for the bytes before it. */
static uint8_t byte_at(hb_source *source, uint64_t position) {
  if (source->bytes) return source->bytes[position];

  if (source->loaded != position / 32) {
    source->loaded = position / 32;
    hb_store(source->fields + source->size, source->loaded, 4);
    hb_hmac_of(&source->mac, source->fields, source->size + 4, source->block);
  }
  return source->block[position % 32];
}

/* Return a uniform integer of so many bytes. */
HB_INSIDE uint64_t hb_draw(hb_source *source, unsigned bytes) {
  uint64_t value = 0;

  for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)byte_at(source, source->position++) << (8 * i);
  return value;
}

/* Whether an event of probability T / 2^64 happens. */
HB_INSIDE int hb_event(hb_source *source, uint64_t threshold) {
  uint64_t byte = hb_draw(source, 1);
  uint64_t low = threshold & 0xffffffffffffff;

  if (byte != threshold >> 56) return byte < threshold >> 56;
  return low > 0 && hb_draw(source, 7) < low;
}

/* Return a uniform integer below a bound. */
HB_INSIDE uint64_t hb_below(hb_source *source, uint64_t bound) {
  unsigned bits = 0;
  while (bits < 64 && (bound - 1) >> bits > 0) bits++;
  if (bits == 0) return 0;

  unsigned bytes = bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
  uint64_t mask = UINT64_MAX >> (64 - bits);
  uint64_t value = hb_draw(source, bytes) & mask;
  while (value >= bound) value = hb_draw(source, bytes) & mask;
  return value;
}

/* Return a uniform integer below a bound that is not `own`. */
HB_INSIDE uint64_t hb_other(hb_source *source, uint64_t own, uint64_t bound) {
  uint64_t value = hb_below(source, bound - 1);

  return value < own ? value : value + 1;
}
