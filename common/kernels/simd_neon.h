#ifndef BT_KERNELS_SIMD_NEON_H
#define BT_KERNELS_SIMD_NEON_H
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* v16 as four NEON registers of AArch64, with the names and meanings of simd_avx2.h. 32 registers of 4 lanes hold as
 * many sums at once as AVX2's 16 of 8. min and max are written as the comparison that x86 makes, so that NaN and zeros
 * of two signs give the same bits. */
#define BT_VARIANT(name) name##_neon
#define BT_V16_REGS      4
#define BT_INLINE        static inline __attribute__((always_inline, unused))
#define BT_NOINLINE      static __attribute__((noinline))

typedef struct v16 {
    float32x4_t v[4];
} v16;

#define V16_EACH(f) ((v16){{f(0), f(1), f(2), f(3)}})

BT_INLINE v16 v16_set1(float x)
{
    const float32x4_t v = vdupq_n_f32(x);
    return (v16){{v, v, v, v}};
}
BT_INLINE v16 v16_zero(void) { return v16_set1(0); }
BT_INLINE v16 v16_broadcast(const float *p) { return v16_set1(*p); }
BT_INLINE float v16_first(v16 x) { return vgetq_lane_f32(x.v[0], 0); }
BT_INLINE v16 v16_load(const float *p)
{
#define F(i) vld1q_f32(p + 4 * (i))
    return V16_EACH(F);
#undef F
}
BT_INLINE void v16_store(float *p, v16 x)
{
    vst1q_f32(p, x.v[0]), vst1q_f32(p + 4, x.v[1]), vst1q_f32(p + 8, x.v[2]), vst1q_f32(p + 12, x.v[3]);
}
BT_INLINE v16 v16_add(v16 x, v16 y)
{
#define F(i) vaddq_f32(x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_sub(v16 x, v16 y)
{
#define F(i) vsubq_f32(x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_mul(v16 x, v16 y)
{
#define F(i) vmulq_f32(x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_div(v16 x, v16 y)
{
#define F(i) vdivq_f32(x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
/* y unless x < y, or x > y */
BT_INLINE v16 v16_min(v16 x, v16 y)
{
#define F(i) vbslq_f32(vcltq_f32(x.v[i], y.v[i]), x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_max(v16 x, v16 y)
{
#define F(i) vbslq_f32(vcgtq_f32(x.v[i], y.v[i]), x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
/* x * y + z and z - x * y, one rounding */
BT_INLINE v16 v16_fma(v16 x, v16 y, v16 z)
{
#define F(i) vfmaq_f32(z.v[i], x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_fnma(v16 x, v16 y, v16 z)
{
#define F(i) vfmsq_f32(z.v[i], x.v[i], y.v[i])
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_neg(v16 x)
{
#define F(i) vnegq_f32(x.v[i])
    return V16_EACH(F);
#undef F
}
/* x where y >= z, else +0 */
BT_INLINE v16 v16_where_ge(v16 x, v16 y, v16 z)
{
#define F(i) vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x.v[i]), vcgeq_f32(y.v[i], z.v[i])))
    return V16_EACH(F);
#undef F
}
/* Whether x >= y in any lane. */
BT_INLINE int v16_any_ge(v16 x, v16 y)
{
    const uint32x4_t a = vorrq_u32(vcgeq_f32(x.v[0], y.v[0]), vcgeq_f32(x.v[1], y.v[1])),
                     b = vorrq_u32(vcgeq_f32(x.v[2], y.v[2]), vcgeq_f32(x.v[3], y.v[3]));
    return vmaxvq_u32(vorrq_u32(a, b)) != 0;
}
/* x in lanes with bits & lane[i] != 0, else -inf */
BT_INLINE v16 v16_where_bits(v16 x, int bits, const int32_t *lane)
{
    const int32x4_t all = vdupq_n_s32(bits);
    const float32x4_t none = vdupq_n_f32(-__builtin_inff());
#define F(i) vbslq_f32(vtstq_s32(all, vld1q_s32(lane + 4 * i)), x.v[i], none)
    return V16_EACH(F);
#undef F
}
/* The float with the bits (bits of x + add) << shift. */
BT_INLINE v16 v16_bits_add_shift(v16 x, int add, int shift)
{
    const int32x4_t k = vdupq_n_s32(add), by = vdupq_n_s32(shift);
#define F(i) vreinterpretq_f32_s32(vshlq_s32(vaddq_s32(vreinterpretq_s32_f32(x.v[i]), k), by))
    return V16_EACH(F);
#undef F
}

BT_INLINE v16 v16_load_n(const float *p, size_t n)
{
    float some[16] = {0};
    if (n == 16) return v16_load(p);
    memcpy(some, p, n * sizeof *p);
    return v16_load(some);
}
BT_INLINE void v16_store_n(float *p, v16 x, size_t n)
{
    float some[16];
    if (n == 16) {
        v16_store(p, x);
        return;
    }
    v16_store(some, x);
    memcpy(p, some, n * sizeof *p);
}

BT_INLINE void v16_store_s32(int32_t *p, v16 x)
{
    for (int i = 0; i < 4; i++) vst1q_s32(p + 4 * i, vcvtnq_s32_f32(x.v[i]));
}
BT_INLINE unsigned v16_bits_within(v16 x, v16 low, v16 high)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    unsigned all = 0;
    for (int i = 0; i < 4; i++) {
        const uint32x4_t in = vandq_u32(vcgeq_f32(x.v[i], low.v[i]), vcleq_f32(x.v[i], high.v[i]));
        all |= vaddvq_u32(vandq_u32(in, vld1q_u32(bit))) << 4 * i;
    }
    return all;
}

/* ---- f16, by the instructions that convert it ---- */
BT_INLINE float32x4_t v4_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
BT_INLINE v16 v16_load_f16(const uint16_t *p)
{
#define F(i) v4_load_f16(p + 4 * (i))
    return V16_EACH(F);
#undef F
}
BT_INLINE void v16_store_f16(uint16_t *p, v16 x)
{
    for (int i = 0; i < 4; i++) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.v[i])));
}
BT_INLINE float v1_from_f16(uint16_t h) { return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0); }
BT_INLINE uint16_t v1_to_f16(float x) { return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(x))), 0); }
BT_INLINE float v1_sqrt(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }

/* ---- integers of 8 bits ---- */
BT_INLINE v16 v16_of_s16(int16x8_t a, int16x8_t b)
{
    return (v16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), vcvtq_f32_s32(vmovl_high_s16(a)),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))), vcvtq_f32_s32(vmovl_high_s16(b))}};
}
BT_INLINE v16 v16_load_s8(const int8_t *p)
{
    const int8x16_t x = vld1q_s8(p);
    return v16_of_s16(vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
}
BT_INLINE v16 v16_load_s8x8(const int8_t *a, const int8_t *b)
{
    return v16_of_s16(vmovl_s8(vld1_s8(a)), vmovl_s8(vld1_s8(b)));
}
typedef int8x16_t v16_s8;
BT_INLINE void v16_s8_store(int8_t *p, v16_s8 x) { vst1q_s8(p, x); }

/* ---- FP4, as in simd_avx2.h; a shift, an AND and an OR make the bytes of 16 codes ---- */
typedef struct v16_codes {
    uint8x16_t v[4];
} v16_codes;

BT_INLINE v16_codes v16_codes_load(const uint8_t *p)
{
    return (v16_codes){{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
/* (x & 0x78) | 0x80 */
BT_INLINE uint8x16_t v16_fp4_bytes(uint8x16_t x) { return vorrq_u8(vandq_u8(x, vdupq_n_u8(0x78)), vdupq_n_u8(0x80)); }
BT_INLINE v16_codes v16_codes_low(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = v16_fp4_bytes(vshlq_n_u8(x.v[i], 3));
    return x;
}
BT_INLINE v16_codes v16_codes_high(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = v16_fp4_bytes(vshrq_n_u8(x.v[i], 1));
    return x;
}
BT_INLINE v16_codes v16_words_low(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = vzip1q_u8(x.v[i], vdupq_n_u8(0x3f));
    return x;
}
BT_INLINE v16_codes v16_words_high(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = vzip2q_u8(x.v[i], vdupq_n_u8(0x3f));
    return x;
}
BT_INLINE v16 v16_even(v16_codes x)
{
#define F(i) vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u8(x.v[i]), 16))
    return V16_EACH(F);
#undef F
}
BT_INLINE v16 v16_odd(v16_codes x)
{
#define F(i) vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u8(x.v[i]), vdupq_n_u32(0xffff0000)))
    return V16_EACH(F);
#undef F
}

/* ---- MX, as in simd_avx2.h ---- */
BT_INLINE v16_codes v16_nibbles_low(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = vandq_u8(x.v[i], vdupq_n_u8(15));
    return x;
}
BT_INLINE v16_codes v16_nibbles_high(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = vshrq_n_u8(x.v[i], 4);
    return x;
}
BT_INLINE uint8x16_t v16_mx_bytes(uint8x16_t x, long long low, long long high)
{
    const uint64x2_t table = vcombine_u64(vcreate_u64((uint64_t)low), vcreate_u64((uint64_t)high));
    return vqtbl1q_u8(vreinterpretq_u8_u64(table), x);
}
BT_INLINE uint8x16_t v16_mx_first(uint8x16_t x) { return v16_mx_bytes(x, BT_MX_FIRST, BT_MX_FIRST); }
BT_INLINE uint8x16_t v16_mx_second(uint8x16_t x) { return v16_mx_bytes(x, BT_MX_SECOND, BT_MX_SECOND_NEG); }
BT_INLINE v16_codes v16_mx_low(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = vzip1q_u8(v16_mx_first(x.v[i]), v16_mx_second(x.v[i]));
    return x;
}
BT_INLINE v16_codes v16_mx_high(v16_codes x)
{
    for (int i = 0; i < 4; i++) x.v[i] = vzip2q_u8(v16_mx_first(x.v[i]), v16_mx_second(x.v[i]));
    return x;
}
BT_INLINE float32x4_t v4_of_e8m0(uint16x4_t e16)
{
    const uint32x4_t e = vmovl_u16(e16), one = vdupq_n_u32(1);
    const uint32x4_t small = vmulq_u32(vdupq_n_u32(0x00200000), vaddq_u32(e, one)); /* of 0 and 1 */
    return vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, one), vshlq_n_u32(vsubq_u32(e, one), 23), small));
}
BT_INLINE v16 v16_load_e8m0(const uint8_t *p)
{
    const uint8x16_t e = vld1q_u8(p);
    const uint16x8_t a = vmovl_u8(vget_low_u8(e)), b = vmovl_high_u8(e);
    return (v16){{v4_of_e8m0(vget_low_u16(a)), v4_of_e8m0(vget_high_u16(a)), v4_of_e8m0(vget_low_u16(b)),
                  v4_of_e8m0(vget_high_u16(b))}};
}

/* ---- the tree of dot ---- */
typedef struct v8 {
    float32x4_t a, b;
} v8;
BT_INLINE v8 v8_zero(void) { return (v8){vdupq_n_f32(0), vdupq_n_f32(0)}; }
BT_INLINE void v8_store(float *p, v8 x) { vst1q_f32(p, x.a), vst1q_f32(p + 4, x.b); }
BT_INLINE v8 v16_fold(v16 x) { return (v8){vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3])}; }
BT_INLINE float32x4_t v4_max(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
BT_INLINE v8 v16_fold_max(v16 x) { return (v8){v4_max(x.v[0], x.v[2]), v4_max(x.v[1], x.v[3])}; }
BT_INLINE float v8_sum(v8 x)
{
    const float32x4_t s = vaddq_f32(x.a, x.b);
    const float32x2_t h = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
BT_INLINE float v8_max(v8 x)
{
    const float32x4_t s = v4_max(x.a, x.b), h = v4_max(s, vextq_f32(s, s, 2)), l = v4_max(h, vextq_f32(h, h, 1));
    return vgetq_lane_f32(l, 0);
}
/* sum[i] + x[i][from] + x[i][from + 1] + x[i][from + 2] + x[i][from + 3], in this order: transposes 4 x 4, then adds
 * columns. */
BT_INLINE float32x4_t v4_add_columns(float32x4_t sum, const float *const x[4], size_t from)
{
    const float32x4_t a = vld1q_f32(x[0] + from), b = vld1q_f32(x[1] + from), c = vld1q_f32(x[2] + from),
                      d = vld1q_f32(x[3] + from);
    const float64x2_t ab0 = vreinterpretq_f64_f32(vtrn1q_f32(a, b)), ab1 = vreinterpretq_f64_f32(vtrn2q_f32(a, b)),
                      cd0 = vreinterpretq_f64_f32(vtrn1q_f32(c, d)), cd1 = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
    sum = vaddq_f32(sum, vreinterpretq_f32_f64(vtrn1q_f64(ab0, cd0)));
    sum = vaddq_f32(sum, vreinterpretq_f32_f64(vtrn1q_f64(ab1, cd1)));
    sum = vaddq_f32(sum, vreinterpretq_f32_f64(vtrn2q_f64(ab0, cd0)));
    return vaddq_f32(sum, vreinterpretq_f32_f64(vtrn2q_f64(ab1, cd1)));
}
/* sum[i] + x[i][0] + x[i][1] ... + x[i][7], in this order. */
BT_INLINE v8 v8_add_columns(v8 sum, const float *const x[8])
{
    sum.a = v4_add_columns(v4_add_columns(sum.a, x, 0), x, 4);
    sum.b = v4_add_columns(v4_add_columns(sum.b, x + 4, 0), x + 4, 4);
    return sum;
}

/* Prefetches of any address, valid or not. far: into the second cache, not the first. */
BT_INLINE void v16_prefetch(const void *p) { __builtin_prefetch(p); }
BT_INLINE void v16_prefetch_far(const void *p) { __builtin_prefetch(p, 0, 2); }

#include "kernels/simd_any.h"
#endif
