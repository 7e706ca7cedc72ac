/* The choice between the vectors of this processor. */

#define LANE 32
#include "lines.h"

#define WIDE 256 /* bytes of a row from which AVX-512 is faster. It counts the ones of a short row more slowly. */

#ifdef X86
#include <cpuid.h>

static struct processor look(void)
{
    struct processor has = {0, 0, 0};
    unsigned a, b, c, d, low = 0, high;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return has;
    has.sse42 = c >> 20 & 1;
    if (c >> 27 & 1) /* the system tells which registers it saves */
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return has;
    has.avx2 = (low & 0x06) == 0x06 && b >> 5 & 1;
    has.avx512 = (low & 0xe6) == 0xe6 && b >> 16 & 1 && b >> 30 & 1 && c >> 14 & 1; /* F, BW and VPOPCNTDQ */
    return has;
}

struct processor processor(void)
{
    static struct processor has;
    static int known; /* a virtual machine takes microseconds for each look */
    if (!known) {
        has = look();
        known = 1;
    }
    return has;
}
#endif

/* Returns the number of bits of the widest vectors that `add_bits` can use on this processor. */
size_t vector_bits(void)
{
#ifdef X86
    if (processor().avx512)
        return 512;
    if (processor().avx2)
        return 256;
#endif
    return 64;
}

/* Returns the bytes that `add_bits` needs in addition. */
size_t bits_scratch(size_t count, size_t width)
{
    struct counter counter = counter_of(count, width);
    size_t plane = counter.line + SHORT;
    return SHORT + 2 * counter.levels * plane + LINES * counter.line;
}

/* Adds the columns of `count` rows to `counts`. With `bins`, rows with fewer than `least` or more than `most` ones are
skipped, and the others add to marks[bins[ones]]. Returns the number of skipped rows. `scratch` has bits_scratch(count,
width) bytes, all zero. `bits` is at most vector_bits(), and the result is the same for each. */
size_t add_bits(const uint8_t *rows, size_t count, size_t width, int64_t *counts, size_t size, const int64_t *bins,
                size_t least, size_t most, int64_t *marks, uint8_t *scratch, size_t bits)
{
#ifdef X86
    if (bits >= 512 && width >= WIDE)
        return add_bits_avx512(ADD_ARGUMENTS);
    if (bits >= 256)
        return add_bits_avx2(ADD_ARGUMENTS);
#endif
    (void)bits;
    return add_lines(ADD_ARGUMENTS, ones_by_words);
}

CLONES void row_ones(const uint8_t *rows, size_t count, size_t width, int64_t *ones)
{
    for (size_t i = 0; i < count; i++, rows += width)
        ones[i] = (int64_t)ones_by_words(rows, width);
}
