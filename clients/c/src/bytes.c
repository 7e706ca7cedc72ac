/* Little-endian integers, and memory that must not stay. */
#include "core.h"

HB_INSIDE uint64_t hb_load(const uint8_t *from, unsigned bytes) {
  uint64_t value = 0;

  while (bytes-- > 0) value = value << 8 | from[bytes];
  return value;
}

HB_INSIDE void hb_store(uint8_t *to, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) {
    to[i] = (uint8_t)value;
    value >>= 8;
  }
}

HB_INSIDE void hb_wipe(void *memory, size_t size) {
  /* A compiler drops a memset of memory that is not read again. */
  volatile uint8_t *byte = memory;

  while (size-- > 0) *byte++ = 0;
}
