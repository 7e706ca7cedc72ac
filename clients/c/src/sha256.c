/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104). */
#include "core.h"

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t rotated(uint32_t word, unsigned bits) { return word >> bits | word << (32 - bits); }

static uint32_t big_endian(const uint8_t *from) {
  return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static void expand(const uint8_t block[64], uint32_t w[64]) {
  for (unsigned i = 0; i < 16; i++) w[i] = big_endian(block + 4 * i);
  for (unsigned i = 16; i < 64; i++) {
    uint32_t early = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t late = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + early + w[i - 7] + late;
  }
}

static void compress(hb_sha256 *hash) {
  uint32_t w[64], v[8];

  expand(hash->block, w);
  memcpy(v, hash->state, sizeof v);
  for (unsigned i = 0; i < 64; i++) {
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    uint32_t from_end = v[7] + (rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)) + choice + constants[i] + w[i];
    uint32_t from_start = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22)) + majority;

    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += from_end;
    v[0] = from_end + from_start;
  }
  for (unsigned i = 0; i < 8; i++) hash->state[i] += v[i];
  hb_wipe(w, sizeof w);
}

HB_INSIDE void hb_sha256_begin(hb_sha256 *hash) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  memcpy(hash->state, start, sizeof start);
  hash->size = 0;
}

HB_INSIDE void hb_sha256_add(hb_sha256 *hash, const void *bytes, size_t size) {
  const uint8_t *from = bytes;

  while (size > 0) {
    size_t used = (size_t)(hash->size % 64);
    size_t part = size < 64 - used ? size : 64 - used;

    memcpy(hash->block + used, from, part);
    hash->size += part;
    from += part;
    size -= part;
    if (used + part == 64) compress(hash);
  }
}

HB_INSIDE void hb_sha256_end(hb_sha256 *hash, uint8_t digest[32]) {
  static const uint8_t padding[64] = {0x80};
  uint64_t bits = 8 * hash->size;
  uint8_t length[8];

  for (unsigned i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  hb_sha256_add(hash, padding, 1 + (size_t)((119 - hash->size % 64) % 64));
  hb_sha256_add(hash, length, 8);
  for (unsigned i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
  hb_wipe(hash, sizeof *hash);
}

HB_INSIDE void hb_hmac_begin(hb_hmac *mac, const uint8_t key[HUBBUB_KEY]) {
  uint8_t padded[64];

  memset(padded, 0x36, sizeof padded);
  for (unsigned i = 0; i < HUBBUB_KEY; i++) padded[i] ^= key[i];
  hb_sha256_begin(&mac->inner);
  hb_sha256_add(&mac->inner, padded, sizeof padded);

  for (unsigned i = 0; i < sizeof padded; i++) padded[i] ^= 0x36 ^ 0x5c;
  hb_sha256_begin(&mac->outer);
  hb_sha256_add(&mac->outer, padded, sizeof padded);
  hb_wipe(padded, sizeof padded);
}

HB_INSIDE void hb_hmac_of(const hb_hmac *mac, const void *text, size_t size, uint8_t digest[32]) {
  hb_sha256 hash = mac->inner;

  hb_sha256_add(&hash, text, size);
  hb_sha256_end(&hash, digest);
  hash = mac->outer;
  hb_sha256_add(&hash, digest, 32);
  hb_sha256_end(&hash, digest);
}
