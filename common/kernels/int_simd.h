#ifndef BT_KERNELS_INT_SIMD_H
#define BT_KERNELS_INT_SIMD_H
/* What the integer kernels for x86 share. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INT_INLINE static inline __attribute__((always_inline, unused))

/* Loops over sums have constant bounds; they must become registers even at -O2. */
#if defined(__clang__)
#define INT_UNROLL _Pragma("unroll")
#else
#define INT_UNROLL _Pragma("GCC unroll 16")
#endif

/* A block of the product's inputs. */
enum {
    BLOCK_ROWS = 24,
    BLOCK_K4 = 160, /* groups of four inputs */
};
#endif
