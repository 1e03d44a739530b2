/* Row kernels for NEON: rows_body.h over simd_neon.h, and rope. */
#include "kernels/variant.h"

#if defined(__aarch64__)
#include "kernels/simd_neon.h"

/* a' = fma(a, cos, -(b sin)), b' = fma(a, sin, b cos) */
BT_INLINE float32x4_t rope_a(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t s)
{
    return vfmaq_f32(vnegq_f32(vmulq_f32(b, s)), a, c);
}
BT_INLINE float32x4_t rope_b(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t s)
{
    return vfmaq_f32(vmulq_f32(b, c), a, s);
}
BT_INLINE void rope_pair(float *pa, float *pb, float cos, float sin)
{
    const float32x4_t a = vdupq_n_f32(*pa), b = vdupq_n_f32(*pb), c = vdupq_n_f32(cos), s = vdupq_n_f32(sin);
    *pa = vgetq_lane_f32(rope_a(a, b, c, s), 0);
    *pb = vgetq_lane_f32(rope_b(a, b, c, s), 0);
}

/* Pairs (i, i + half). */
BT_INLINE void rope_split(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + half + i), c = vld1q_f32(cos + i),
                          s = vld1q_f32(sin + i);
        vst1q_f32(x + i, rope_a(a, b, c, s));
        vst1q_f32(x + half + i, rope_b(a, b, c, s));
    }
    for (; i < half; i++) rope_pair(x + i, x + half + i, cos[i], sin[i]);
}

/* Pairs (2i, 2i + 1): the loads separate a and b, and the stores join them. */
BT_INLINE void rope_adjacent(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const float32x4x2_t v = vld2q_f32(x + 2 * i);
        const float32x4_t c = vld1q_f32(cos + i), s = vld1q_f32(sin + i);
        const float32x4x2_t y = {{rope_a(v.val[0], v.val[1], c, s), rope_b(v.val[0], v.val[1], c, s)}};
        vst2q_f32(x + 2 * i, y);
    }
    for (; i < half; i++) rope_pair(x + 2 * i, x + 2 * i + 1, cos[i], sin[i]);
}

#include "kernels/float/rows_body.h"
#endif
