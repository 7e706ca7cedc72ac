/* Rows of bits with AVX2. */

#define LANE 32
#include "lines.h"

#ifdef X86
__attribute__((target("avx2,popcnt"))) size_t add_bits_avx2(ADD_PARAMETERS)
{
    return add_lines(ADD_ARGUMENTS, ones_by_words);
}
#endif
