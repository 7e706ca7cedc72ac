/* Types and macros of all kernels. Reports are little-endian, at any address. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "interface.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernels need a little-endian processor: they read the integers of reports in place"
#endif

#define UNALIGNED __attribute__((aligned(1), may_alias))
typedef uint16_t UNALIGNED u16;
typedef uint32_t UNALIGNED u32;
typedef uint64_t UNALIGNED u64;

#if defined(__x86_64__) && defined(__GNUC__)
#define X86
#endif

#define INLINE static inline __attribute__((always_inline))

#ifdef X86
/* The instructions of this processor that kernels ask for. Some builds of Clang lack `__builtin_cpu_supports`. */
struct processor {
    int sse42, avx2, avx512;
};
struct processor processor(void);
#endif

/* One library serves every processor. It uses wider instructions if the processor has them. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
