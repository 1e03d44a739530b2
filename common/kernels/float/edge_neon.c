/* The kernels of edge.h for NEON: edge_body.h over simd_neon.h. edge_avx2.c says what conversions mean. */
#include "kernels/variant.h"

#if defined(__aarch64__)
#include "kernels/simd_neon.h"

BT_INLINE unsigned v16_beyond(v16 x, int32_t low, int32_t high)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    unsigned all = 0;
    for (int i = 0; i < 4; i++) {
        const int32x4_t q = vcvtnq_s32_f32(x.v[i]);
        const uint32x4_t over = vorrq_u32(vcgtq_s32(q, vdupq_n_s32(high)), vcltq_s32(q, vdupq_n_s32(low)));
        all |= vaddvq_u32(vandq_u32(over, vld1q_u32(bit))) << 4 * i;
    }
    return all;
}
/* The first or the last eight lanes as integers clamped to the range of s16. */
BT_INLINE int16x8_t v16_half_s16(v16 x, int last)
{
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(x.v[2 * last])), vcvtnq_s32_f32(x.v[2 * last + 1]));
}
BT_INLINE int beyond_s16(int16x8_t a, int16x8_t b, int16_t low, int16_t high)
{
    return vmaxvq_s16(vmaxq_s16(a, b)) > high || vminvq_s16(vminq_s16(a, b)) < low;
}
BT_INLINE v16_s8 v16_to_s8_in(v16 x, bt_int_range range, int *over)
{
    const int16x8_t zero = vdupq_n_s16(range.zero), a = vqaddq_s16(v16_half_s16(x, 0), zero),
                    b = vqaddq_s16(v16_half_s16(x, 1), zero);
    *over = beyond_s16(a, b, range.least, 127);
    return vmaxq_s8(vqmovn_high_s16(vqmovn_s16(a), b), vdupq_n_s8((int8_t)range.least));
}
BT_INLINE int v16_store_planes(int8_t *hi, int8_t *lo, v16 x)
{
    const int16x8_t limit = vdupq_n_s16(BT_INT_MAX16), low = vdupq_n_s16(-BT_INT_MAX16),
                    half = vdupq_n_s16(128);
    const int16x8_t a = v16_half_s16(x, 0), b = v16_half_s16(x, 1);
    const int16x8_t qa = vmaxq_s16(vminq_s16(a, limit), low), qb = vmaxq_s16(vminq_s16(b, limit), low);
    vst1q_s8(hi, vshrn_high_n_s16(vshrn_n_s16(vaddq_s16(qa, half), 8), vaddq_s16(qb, half), 8));
    vst1q_s8(lo, vmovn_high_s16(vmovn_s16(qa), qb));
    return beyond_s16(a, b, -BT_INT_MAX16, BT_INT_MAX16);
}

BT_INLINE v16 v16_from_s8(const int8_t *p) { return v16_load_s8(p); }
BT_INLINE v16 v16_from_s32(const int32_t *p)
{
#define F(i) vcvtq_f32_s32(vld1q_s32(p + 4 * (i)))
    return V16_EACH(F);
#undef F
}
/* A double holds these integers exactly, so only the conversion to float rounds. */
BT_INLINE float32x4_t floats_of(int64x2_t a, int64x2_t b)
{
    return vcvt_high_f32_f64(vcvt_f32_f64(vcvtq_f64_s64(a)), vcvtq_f64_s64(b));
}
BT_INLINE float32x4_t planes4(const int32_t *hi, const int32_t *lo)
{
    const int32x4_t h = vld1q_s32(hi), l = vld1q_s32(lo);
    return floats_of(vaddw_s32(vshll_n_s32(vget_low_s32(h), 8), vget_low_s32(l)),
                     vaddw_high_s32(vshll_high_n_s32(h, 8), l));
}
BT_INLINE v16 v16_from_planes(const int32_t *hi, const int32_t *lo)
{
#define F(i) planes4(hi + 4 * (i), lo + 4 * (i))
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_from_s64(const int64_t *p)
{
#define F(i) floats_of(vld1q_s64(p + 4 * (i)), vld1q_s64(p + 4 * (i) + 2))
    return V16_EACH(F);
#undef F
}

/* Butterflies of lengths 1 and 2 in four lanes. */
BT_INLINE float32x4_t butterflies4(float32x4_t x)
{
    static const uint32_t odd[4] = {0, 1u << 31, 0, 1u << 31}, last[4] = {0, 0, 1u << 31, 1u << 31};
    const uint32x4_t b = veorq_u32(vreinterpretq_u32_f32(vtrn2q_f32(x, x)), vld1q_u32(odd));
    x = vaddq_f32(vtrn1q_f32(x, x), vreinterpretq_f32_u32(b));
    const float32x4_t front = vcombine_f32(vget_low_f32(x), vget_low_f32(x)),
                      back = vcombine_f32(vget_high_f32(x), vget_high_f32(x));
    return vaddq_f32(front, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(back), vld1q_u32(last))));
}
/* Lengths 1, 2, 4 and 8. */
BT_INLINE v16 v16_butterflies(v16 x)
{
    const float32x4_t a = butterflies4(x.v[0]), b = butterflies4(x.v[1]), c = butterflies4(x.v[2]),
                      d = butterflies4(x.v[3]);
    const float32x4_t ab = vaddq_f32(a, b), am = vsubq_f32(a, b), cd = vaddq_f32(c, d), cm = vsubq_f32(c, d);
    return (v16){{vaddq_f32(ab, cd), vaddq_f32(am, cm), vsubq_f32(ab, cd), vsubq_f32(am, cm)}};
}

#include "kernels/float/edge_body.h"
#include "kernels/float/kvstore_body.h"
#endif
