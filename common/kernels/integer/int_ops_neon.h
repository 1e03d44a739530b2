#ifndef BT_KERNELS_INT_OPS_NEON_H
#define BT_KERNELS_INT_OPS_NEON_H
#include <arm_neon.h>
#include "kernels/integer/int_ops_math.h"
#include "kernels/variant.h"

/* int_ops_math.h in four lanes of s32. Products of s64 are made in two halves, for the first and the last two lanes.
 * NEON has a shift that rounds half up. */
#define V4 static inline __attribute__((always_inline, unused)) int32x4_t

V4 v4_within(int32x4_t x, int32_t low, int32_t high)
{
    return vmaxq_s32(vminq_s32(x, vdupq_n_s32(high)), vdupq_n_s32(low));
}
V4 v4_clamp(int32x4_t x, int32_t limit) { return v4_within(x, -limit, limit); }

/* A multiplier m / 2^s, with rounding half up; down = -s. */
typedef struct v4_mul {
    int32_t m;
    int64x2_t down;
} v4_mul;
static inline v4_mul v4_mul_of(int32_t m, unsigned s) { return (v4_mul){m, vdupq_n_s64(-(int64_t)s)}; }
static inline int64x2_t v4_clamp64(int64x2_t x, int64_t lo, int64_t hi)
{
    const int64x2_t l = vdupq_n_s64(lo), h = vdupq_n_s64(hi);
    x = vbslq_s64(vcgtq_s64(x, h), h, x);
    return vbslq_s64(vcgtq_s64(l, x), l, x);
}
V4 v4_join(int64x2_t a, int64x2_t b) { return vmovn_high_s64(vmovn_s64(a), b); }
/* scale(v, m) clamped to [lo, hi], with m for each lane. */
V4 v4_scale_by(int32x4_t v, int32x4_t m, int64x2_t down, int64_t lo, int64_t hi)
{
    const int64x2_t a = vrshlq_s64(vmull_s32(vget_low_s32(v), vget_low_s32(m)), down),
                    b = vrshlq_s64(vmull_high_s32(v, m), down);
    return v4_join(v4_clamp64(a, lo, hi), v4_clamp64(b, lo, hi));
}
V4 v4_scale(int32x4_t v, v4_mul m, int64_t lo, int64_t hi) { return v4_scale_by(v, vdupq_n_s32(m.m), m.down, lo, hi); }
/* scale(v, m) where the result is known to fit s32. */
V4 v4_scale_fits(int32x4_t v, v4_mul m)
{
    const int32x4_t by = vdupq_n_s32(m.m);
    return v4_join(vrshlq_s64(vmull_s32(vget_low_s32(v), vget_low_s32(by)), m.down),
                   vrshlq_s64(vmull_high_s32(v, by), m.down));
}

/* The instruction equals int_mulh except for -2^31 times -2^31, which does not occur. */
V4 v4_mulh(int32x4_t a, int32x4_t b) { return vqrdmulhq_s32(a, b); }
V4 v4_rdp(int32x4_t a, int e)
{
    const int32x4_t rest = vandq_s32(a, vdupq_n_s32((1 << e) - 1));
    const int32x4_t limit = vsubq_s32(vdupq_n_s32(((1 << e) - 1) >> 1), vshrq_n_s32(a, 31));
    return vsubq_s32(vshlq_s32(a, vdupq_n_s32(-e)), vreinterpretq_s32_u32(vcgtq_s32(rest, limit)));
}
V4 v4_exp(int32x4_t a)
{
    static const int32_t step[7] = INT_EXP_STEPS;
    const int32x4_t m = vsubq_s32(vandq_s32(a, vdupq_n_s32((1 << 24) - 1)), vdupq_n_s32(1 << 24));
    const int32x4_t rest = vsubq_s32(m, a), x = vaddq_s32(vshlq_n_s32(m, 5), vdupq_n_s32(1 << 28)), x2 = v4_mulh(x, x);
    const int32x4_t high = vaddq_s32(v4_rdp(v4_mulh(x2, x2), 2), v4_mulh(x2, x));
    const int32x4_t poly = vaddq_s32(x, v4_rdp(vaddq_s32(v4_mulh(high, vdupq_n_s32(INT_THIRD)), x2), 1));
    int32x4_t e = vaddq_s32(vdupq_n_s32(INT_EXP_EIGHTH), v4_mulh(vdupq_n_s32(INT_EXP_EIGHTH), poly));
    for (int i = 0; i < 7; i++)
        e = vbslq_s32(vtstq_s32(rest, vdupq_n_s32(1 << (24 + i))), v4_mulh(e, vdupq_n_s32(step[i])), e);
    return vbslq_s32(vceqzq_s32(a), vdupq_n_s32(INT32_MAX), e);
}
V4 v4_one_over_one_plus(int32x4_t a)
{
    /* (a + 2^31) / 2 as an unsigned number below 2^31 */
    const uint32x4_t sum = vaddq_u32(vreinterpretq_u32_s32(a), vdupq_n_u32(UINT32_C(1) << 31));
    const int32x4_t half = vreinterpretq_s32_u32(vshrq_n_u32(sum, 1));
    int32x4_t x = vsubq_s32(vdupq_n_s32(INT_48_17), v4_mulh(half, vdupq_n_s32(INT_32_17)));
    for (int i = 0; i < 3; i++) {
        const int32x4_t rest = vsubq_s32(vdupq_n_s32(1 << 29), v4_mulh(half, x));
        x = vaddq_s32(x, vshlq_n_s32(v4_mulh(x, rest), 2));
    }
    return vbslq_s32(vcgtq_s32(x, vdupq_n_s32((1 << 30) - 1)), vdupq_n_s32(INT32_MAX), vshlq_n_s32(x, 1));
}

/* int_from_f16 of four. */
V4 v4_from_f16(const uint16_t *p, int shift)
{
    const int32x4_t h = vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p))), zero = vdupq_n_s32(0);
    const int32x4_t e = vandq_s32(vshrq_n_s32(h, 10), vdupq_n_s32(31)), sign = vshrq_n_s32(vshlq_n_s32(h, 16), 31);
    const int32x4_t normal = vreinterpretq_s32_u32(vcgtq_s32(e, zero));
    const int32x4_t mant = vorrq_s32(vandq_s32(h, vdupq_n_s32(0x3ff)), vandq_s32(normal, vdupq_n_s32(0x400)));
    const int32x4_t up = vaddq_s32(vmaxq_s32(e, vdupq_n_s32(1)), vdupq_n_s32(shift - 25));
    const int32x4_t left = vminq_s32(vmaxq_s32(up, zero), vdupq_n_s32(16));
    const int32x4_t down = vmaxq_s32(vminq_s32(up, zero), vdupq_n_s32(-30));
    int32x4_t v = vshlq_s32(mant, left);
    v = vbslq_s32(vceqq_s32(e, vdupq_n_s32(31)), vdupq_n_s32(1 << 26), v);
    v = vsubq_s32(veorq_s32(v, sign), sign);
    return v4_clamp(vrshlq_s32(v, down), BT_INT_MAX16);
}
/* int_from_q8 of eight. */
static inline int16x8_t v8_from_q8(const int8_t *p, int_q8 s)
{
    const int16x8_t q = vmovl_s8(vld1_s8(p));
    const int32x4_t by = vdupq_n_s32(s.mant * (1 << s.up)), down = vdupq_n_s32(-(int)s.down);
    const int32x4_t a = vrshlq_s32(vmulq_s32(vmovl_s16(vget_low_s16(q)), by), down),
                    b = vrshlq_s32(vmulq_s32(vmovl_high_s16(q), by), down);
    return vmovn_high_s32(vmovn_s32(v4_clamp(a, BT_INT_MAX16)), v4_clamp(b, BT_INT_MAX16));
}
#endif
