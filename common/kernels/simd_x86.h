#ifndef BT_KERNELS_SIMD_X86_H
#define BT_KERNELS_SIMD_X86_H
/* Functions that AVX2 and AVX-512 share; included at the end of simd_avx2.h and simd_avx512.h. */
#include "kernels/simd_any.h"

/* Prefetches of any address, valid or not. far: into the second cache, not the first. */
BT_INLINE void v16_prefetch(const void *p) { _mm_prefetch(p, _MM_HINT_T0); }
BT_INLINE void v16_prefetch_far(const void *p) { _mm_prefetch(p, _MM_HINT_T1); }

BT_INLINE float v1_sqrt(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
BT_INLINE float v1_from_f16(uint16_t h) { return _cvtsh_ss(h); }
BT_INLINE uint16_t v1_to_f16(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

/* 16 integers of 8 bits */
typedef __m128i v16_s8;
BT_INLINE void v16_s8_store(int8_t *p, v16_s8 x) { _mm_storeu_si128((void *)p, x); }

typedef __m256 v8;
BT_INLINE v8 v8_zero(void) { return _mm256_setzero_ps(); }
BT_INLINE void v8_store(float *p, v8 x) { _mm256_storeu_ps(p, x); }

/* The other steps of the tree of kernels.h, after v16_fold: 8 lanes to one. */
BT_INLINE float v8_sum(__m256 x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
BT_INLINE float v8_max(__m256 x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* v8_sum of four vectors at once: the sums of x[0..3] in lanes 0..3. */
BT_INLINE __m128 v8_sum4(const __m256 x[4])
{
    /* l[j] += l[j+4]: the low half holds the first of the pair, the high half the second */
    const __m256 ac = _mm256_add_ps(_mm256_permute2f128_ps(x[0], x[2], 0x20), _mm256_permute2f128_ps(x[0], x[2], 0x31));
    const __m256 bd = _mm256_add_ps(_mm256_permute2f128_ps(x[1], x[3], 0x20), _mm256_permute2f128_ps(x[1], x[3], 0x31));
    /* l[j] += l[j+2]: a0 a1 b0 b1 | c0 c1 d0 d1 */
    const __m256 s = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xee));
    /* l[0] += l[1] */
    const __m128 lo = _mm256_castps256_ps128(s), hi = _mm256_extractf128_ps(s, 1);
    return _mm_add_ps(_mm_shuffle_ps(lo, hi, 0x88), _mm_shuffle_ps(lo, hi, 0xdd));
}
/* sum[i] + x[i][0] + x[i][1] ... + x[i][7], in this order: transposes 8 x 8, then adds columns. */
BT_INLINE v8 v8_add_columns(v8 sum, const float *const x[8])
{
    __m256 a[8], b[8];
    BT_UNROLL_FOR(size_t i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(x[i]);
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    BT_UNROLL_FOR(size_t i = 0; i < 4; i++) sum = _mm256_add_ps(sum, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    BT_UNROLL_FOR(size_t i = 0; i < 4; i++) sum = _mm256_add_ps(sum, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    return sum;
}
#endif
