#ifndef BT_KERNELS_INT_SIMD_H
#define BT_KERNELS_INT_SIMD_H
/* Unrolled loops and the layout of prepared inputs, for the integer kernels of all instruction sets. */
#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INT_INLINE static inline __attribute__((always_inline, unused))

/* Unrolls a loop over sums, whose bounds are constant, so that the sums become registers even at -O2. */
#if defined(__clang__)
#define INT_UNROLL_FOR _Pragma("unroll") for
#else
#define INT_UNROLL_FOR _Pragma("GCC unroll 16") for
#endif

/* The layout of prepared inputs of 8 bits, or of one plane of 16 bits. K is cut into `count` chunks of `n` groups of
 * four inputs; the last chunk may be shorter. A chunk has a record for each row, row after row: 4 * n bytes of inputs,
 * then `beside` bytes for the variant. `record` is their sum. */
typedef struct int_chunks {
    size_t n, count, record;
} int_chunks;
INT_INLINE int_chunks int_chunks_of(size_t k4, size_t most, size_t beside)
{
    const size_t count = (k4 + most - 1) / most, n = (k4 + count - 1) / count;
    return (int_chunks){n, (k4 + n - 1) / n, 4 * n + beside};
}
INT_INLINE size_t int_records_bytes(size_t rows, size_t k4, const int_chunks *c, size_t beside)
{
    return rows * (4 * k4 + c->count * beside);
}
#endif
