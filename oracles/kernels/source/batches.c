/* The records of a fetch, without an object for each: the places of their values, and the values of one kind.

The walk reads only ordinary batches: format 2, complete, with the broker's time, not compressed, in no transaction,
and with records that are numbered without a gap and have no headers. The first other batch ends the walk. A slower
reader, which knows every form, takes it from there. */

#include "common.h"

#define OVERHEAD 12 /* offset and length, which the length does not include */
#define HEADER 61
#define CHECKED_FROM 21
#define LOG_APPEND_TIME 8

INLINE uint64_t big_endian(const uint8_t *at, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

#if defined(__x86_64__)
#include <nmmintrin.h>
#if defined(__clang__) && __clang_major__ >= 14
#define CRC32 __attribute__((target("sse4.2,crc32")))
#else
#define CRC32 __attribute__((target("sse4.2")))
#endif
CRC32 static uint32_t checksum(const uint8_t *data, size_t size)
{
    uint64_t crc = 0xffffffff;
    for (; size >= 8; size -= 8, data += 8)
        crc = _mm_crc32_u64(crc, *(const u64 *)data);
    for (; size; size--, data++)
        crc = _mm_crc32_u8((uint32_t)crc, *data);
    return ~(uint32_t)crc;
}
int can_walk(void) { return processor().sse42; }
#elif defined(__aarch64__)
#include <arm_acle.h>
__attribute__((target("+crc"))) static uint32_t checksum(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xffffffff;
    for (; size >= 8; size -= 8, data += 8)
        crc = __crc32cd(crc, *(const u64 *)data);
    for (; size; size--, data++)
        crc = __crc32cb(crc, *data);
    return ~crc;
}
#if defined(__linux__)
#include <sys/auxv.h>
int can_walk(void) { return (getauxval(AT_HWCAP) >> 7 & 1) != 0; } /* HWCAP_CRC32 */
#else
int can_walk(void) { return 1; } /* each machine of Apple has the instruction */
#endif
#else
static uint32_t checksum(const uint8_t *data, size_t size)
{
    (void)data;
    return (uint32_t)size;
}
int can_walk(void) { return 0; } /* without an instruction for checksums the walk is not faster */
#endif

/* Returns the checksum of Kafka's batches, CRC-32C. Call it only if can_walk(). */
uint32_t crc32c(const uint8_t *data, size_t size) { return checksum(data, size); }

/* Reads a zigzag varint of at most 5 bytes. Returns NULL if there is none before `end`. */
INLINE const uint8_t *varint(const uint8_t *at, const uint8_t *end, int64_t *number)
{
    uint64_t read = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (at >= end)
            return NULL;
        uint8_t byte = *at++;
        read |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *number = (int64_t)(read >> 1) ^ -(int64_t)(read & 1);
            return at;
        }
    }
    return NULL;
}

/* Returns the end of the record at `at`, or NULL unless it is an ordinary one with this number. */
INLINE const uint8_t *record(const uint8_t *at, const uint8_t *end, int64_t number, const uint8_t **value, int64_t *size)
{
    int64_t length, delta, key, headers;
    if (!(at = varint(at, end, &length)) || length < 1 || length > end - at)
        return NULL;
    end = at + length;
    if (*at++) /* attributes: there are none */
        return NULL;
    for (int bytes = 0;; bytes++) { /* the producer's time, which is not used */
        if (at >= end || bytes == 10)
            return NULL;
        if (*at++ < 128)
            break;
    }
    if (!(at = varint(at, end, &delta)) || delta != number)
        return NULL;
    if (!(at = varint(at, end, &key)) || key < -1 || key > end - at)
        return NULL;
    at += key > 0 ? key : 0;
    if (!(at = varint(at, end, size)) || *size < 0 || *size > end - at)
        return NULL;
    *value = at;
    if (!(at = varint(at + *size, end, &headers)) || headers || at != end)
        return NULL;
    return end;
}

/* Walks the batches from data[at] on while there is room for their records. Stores offset, time, place and size of
the records from offset `from` on. Returns the place of the first batch that is not walked to its end. `found` is the
number of records, and `next` the offset after the last one. `part` has the number and the place of the record at which
the walk of that batch goes on, or zeros if the batch is not begun. */
size_t walk(const uint8_t *data, size_t size, size_t at, int checked, int64_t from, size_t room, int64_t *offsets,
            int64_t *times, int64_t *places, int64_t *sizes, size_t *found, int64_t *next, size_t *part)
{
    *found = 0;
    *next = from;
    while (*found < room && size - at >= HEADER) {
        const uint8_t *batch = data + at;
        int64_t base = (int64_t)big_endian(batch, 8), time = (int64_t)big_endian(batch + 35, 8);
        uint64_t length = big_endian(batch + 8, 4), count = big_endian(batch + 57, 4);
        if (length < HEADER - OVERHEAD || length > size - at - OVERHEAD || batch[16] != 2)
            break;
        if (big_endian(batch + 21, 2) != LOG_APPEND_TIME || base < 0 || base >= INT64_MAX >> 1 || time < 0)
            break;
        if (!count || count != big_endian(batch + 23, 4) + 1)
            break;
        const uint8_t *end = batch + OVERHEAD + length, *place = part[0] ? data + part[1] : batch + HEADER;
        if (checked && !part[0] &&
            checksum(batch + CHECKED_FROM, (size_t)(end - batch) - CHECKED_FROM) != big_endian(batch + 17, 4))
            break;
        size_t here = *found;
        uint64_t number = part[0];
        for (; place && number < count && here < room; number++) {
            const uint8_t *value;
            int64_t bytes;
            place = record(place, end, (int64_t)number, &value, &bytes);
            if (!place || base + (int64_t)number < from)
                continue;
            offsets[here] = base + (int64_t)number;
            times[here] = time;
            places[here] = value - data;
            sizes[here] = bytes;
            here++;
        }
        if (!place || (number == count && place != end))
            break;
        *found = here;
        if (base + (int64_t)number > from)
            *next = from = base + (int64_t)number;
        part[0] = number < count ? number : 0;
        part[1] = number < count ? (size_t)(place - data) : 0;
        if (number < count)
            break;
        at += OVERHEAD + length;
    }
    return at;
}

#define HEAD 40 /* bytes of a frame's header. All of it but the id gives the kind of the frame. */
#define ID 24   /* the place of the eight bytes of the id */

#define COUNT 32 /* the place of the four bytes of the number of reports */
#define GROUP 36 /* the place of what follows it */

INLINE int alike(const uint8_t *one, const uint8_t *other)
{
    return !memcmp(one, other, ID) && !memcmp(one + GROUP, other + GROUP, HEAD - GROUP);
}

/* Whether a value has reports, and the size that its header says. */
INLINE int has_reports(const uint8_t *head, int64_t size)
{
    uint64_t width = ((const u64 *)head)[0] >> 48;
    uint64_t count = ((const u64 *)head)[4] & 0xffffffffu;
    return count && (uint64_t)size == HEAD + count * width;
}

/* Groups values of the same frame header, except for the id and the number of reports. kinds[i] is the number of the
kind, or -1 if the value has no reports, or another size than its header says, or if there are too many kinds. firsts
has the first value of each kind. `slots` must hold 2^bits times -1, more than twice `most`. Returns the number of
kinds. */
size_t tell_kinds(const uint8_t *data, size_t count, const int64_t *places, const int64_t *sizes, int16_t *kinds,
                  uint64_t *ids, int64_t *firsts, size_t most, int16_t *slots, size_t bits)
{
    size_t found = 0;
    int last = -1;
    for (size_t i = 0; i < count; i++) {
        kinds[i] = -1;
        ids[i] = 0;
        if (sizes[i] < HEAD)
            continue;
        const uint8_t *head = data + places[i];
        ids[i] = *(const u64 *)(head + ID);
        if (!has_reports(head, sizes[i]))
            continue;
        if (last >= 0 && alike(head, data + places[firsts[last]])) {
            kinds[i] = (int16_t)last;
            continue;
        }
        const u64 *words = (const u64 *)head;
        uint64_t hash = (words[0] ^ words[1]) * 0x9e3779b97f4a7c15u;
        hash = (hash ^ words[2]) * 0x9e3779b97f4a7c15u;
        hash = (hash ^ hash >> 32 ^ words[4] >> 32) * 0x9e3779b97f4a7c15u;
        size_t slot = hash >> (64 - bits);
        while (slots[slot] >= 0) {
            if (alike(head, data + places[firsts[slots[slot]]]))
                break;
            slot = (slot + 1) & (((size_t)1 << bits) - 1);
        }
        if (slots[slot] < 0) {
            if (found == most)
                continue;
            firsts[found] = (int64_t)i;
            slots[slot] = (int16_t)found++;
        }
        kinds[i] = (int16_t)(last = slots[slot]);
    }
    return found;
}

/* Copies the reports of these frames, one after another. */
void gather(const uint8_t *data, size_t count, const int64_t *places, const int64_t *sizes, uint8_t *into)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)sizes[i] - HEAD;
        memcpy(into, data + places[i] + HEAD, size);
        into += size;
    }
}
