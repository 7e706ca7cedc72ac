/* Rows of bits with AVX-512, whose vectors count their own ones. */

#define LANE 64
#include "lines.h"

#ifdef X86
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vpopcntdq,popcnt")))

AVX512 static size_t ones_by_vectors(const uint8_t *row, size_t width)
{
    size_t j = 0;
    __m512i ones = _mm512_setzero_si512();
    for (; j + LANE <= width; j += LANE)
        ones = _mm512_add_epi64(ones, _mm512_popcnt_epi64(_mm512_loadu_si512(row + j)));
    if (j < width) {
        __m512i rest = _mm512_maskz_loadu_epi8(~(__mmask64)0 >> (LANE - (width - j)), row + j);
        ones = _mm512_add_epi64(ones, _mm512_popcnt_epi64(rest));
    }
    return (size_t)_mm512_reduce_add_epi64(ones);
}

AVX512 size_t add_bits_avx512(ADD_PARAMETERS)
{
    return add_lines(ADD_ARGUMENTS, ones_by_vectors);
}
#endif
