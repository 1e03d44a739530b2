/* The integer kernels around the product for NEON: unpacking weights of 4 bits, palettes and groups, joining
 * planes, the shadow, requantisation. */
#include "kernels/variant.h"

#if defined(__aarch64__)
#include "kernels/integer/int_simd.h"

void bt_int_unpack4_neon(int8_t *restrict to, const uint8_t *restrict wp4, size_t k4, size_t p0, size_t p1)
{
    const uint8_t *from = wp4 + p0 * k4 * 32;
    for (size_t i = 0; i < 2 * (p1 - p0) * k4; i++, from += 16, to += 32) {
        const int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(from));
        const int8x16_t even = vshrq_n_s8(vshlq_n_s8(v, 4), 4), odd = vshrq_n_s8(v, 4);
        vst1q_s8(to, vzip1q_s8(even, odd)), vst1q_s8(to + 16, vzip2q_s8(even, odd));
    }
}

/* 16 indices of 6 bits, four of each of four outputs. low: their low four bits; upper[first + i]: a byte of
 * output i with the upper two bits of its four indices. */
INT_INLINE uint8x16_t index16(uint8x16_t low, uint8x16_t upper, uint8_t first)
{
    static const uint8_t four[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const int8_t down[16] = {0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6};
    const uint8x16_t v = vqtbl1q_u8(upper, vaddq_u8(vld1q_u8(four), vdupq_n_u8(first)));
    return vorrq_u8(low, vshlq_n_u8(vandq_u8(vshlq_u8(v, vld1q_s8(down)), vdupq_n_u8(3)), 4));
}

void bt_int_palette_neon(int8_t *restrict to, const uint8_t *restrict wp, unsigned bits,
                         const int8_t *restrict palettes, size_t k4, size_t run4, size_t p0, size_t p1)
{
    const size_t runs = k4 / run4;
    const uint8_t *from = wp + p0 * k4 * 8 * bits;
    for (size_t r = p0 * runs; r < p1 * runs; r++) {
        int8x16x4_t table = {{vdupq_n_s8(0)}};
        for (size_t i = 0; i < 4 && 16 * i < (size_t)1 << bits; i++)
            table.val[i] = vld1q_s8(palettes + (r << bits) + 16 * i);
        for (size_t k = 0; k < run4; k++, from += 8 * bits, to += 64)
            for (uint8_t i = 0; i < 2; i++) {
                const uint8x16_t v = vld1q_u8(from + 16 * i);
                const uint8x16_t even = vandq_u8(v, vdupq_n_u8(15)), odd = vshrq_n_u8(v, 4);
                uint8x16_t at[2] = {vzip1q_u8(even, odd), vzip2q_u8(even, odd)};
                for (uint8_t h = 0; h < 2; h++) {
                    if (bits == 6) at[h] = index16(at[h], vld1q_u8(from + 32), (uint8_t)(8 * i + 4 * h));
                    vst1q_s8(to + 32 * i + 16 * h,
                             bits == 6 ? vqtbl4q_s8(table, at[h]) : vqtbl1q_s8(table.val[0], at[h]));
                }
            }
    }
}

/* Splits 16 weights, four of each of four outputs, into planes. step, offset: [2], for 8 weights each. */
INT_INLINE void planes16(int8_t *low, int8_t *high, int8x16_t w, const int16x8_t *step,
                         const int16x8_t *offset)
{
    int8x8_t h8[2], l8[2];
    const int16x8_t wide[2] = {vmovl_s8(vget_low_s8(w)), vmovl_high_s8(w)};
    for (size_t i = 0; i < 2; i++) {
        const int16x8_t v = vmlaq_s16(offset[i], wide[i], step[i]);
        const int16x8_t h = vshrq_n_s16(vaddq_s16(v, vdupq_n_s16(64)), 7);
        h8[i] = vmovn_s16(h);
        l8[i] = vmovn_s16(vsubq_s16(v, vshlq_n_s16(h, 7)));
    }
    vst1q_s8(high, vcombine_s8(h8[0], h8[1]));
    vst1q_s8(low, vcombine_s8(l8[0], l8[1]));
}

/* Repeats each of 16 words four times. */
INT_INLINE void spread16(int16x8_t to[8], const int16_t *from)
{
    for (size_t i = 0; i < 8; i++)
        to[i] = vcombine_s16(vld1_dup_s16(from + 2 * i), vld1_dup_s16(from + 2 * i + 1));
}

void bt_int_planes_neon(int8_t *restrict low, int8_t *restrict high, const uint8_t *restrict wp,
                        unsigned bits, const bt_int_group *restrict groups, size_t k4, size_t group4,
                        size_t p0, size_t p1)
{
    const size_t count = k4 / group4;
    const uint8_t *from = wp + p0 * k4 * (bits == 4 ? 32 : 64);
    for (const bt_int_group *g = groups + p0 * count; g < groups + p1 * count; g++) {
        int16x8_t step[8], offset[8];
        spread16(step, g->step);
        spread16(offset, g->offset);
        for (size_t k = 0; k < group4; k++)
            for (size_t j = 0; j < 4; j++, from += 16, low += 16, high += 16) {
                const int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(from));
                if (bits == 8) {
                    planes16(low, high, v, step + 2 * j, offset + 2 * j);
                    continue;
                }
                const int8x16_t even = vshrq_n_s8(vshlq_n_s8(v, 4), 4), odd = vshrq_n_s8(v, 4);
                planes16(low, high, vzip1q_s8(even, odd), step + 2 * j, offset + 2 * j);
                j++, low += 16, high += 16;
                planes16(low, high, vzip2q_s8(even, odd), step + 2 * j, offset + 2 * j);
            }
    }
}

/* Two sums of a plane, as s64. */
INT_INLINE int64x2_t plane2(bt_int_plane_sums p, size_t i)
{
    const int64x2_t hi = vmovl_s32(vld1_s32(p.hi + i));
    return p.lo ? vaddw_s32(vshlq_n_s64(hi, 8), vld1_s32(p.lo + i)) : hi;
}

void bt_int_join_neon(int64_t *restrict v, bt_int_plane_sums high, bt_int_plane_sums low, size_t n)
{
    for (size_t i = 0; i < n; i += 2)
        vst1q_s64(v + i,
                  vaddq_s64(vld1q_s64(v + i), vaddq_s64(vshlq_n_s64(plane2(high, i), 7), plane2(low, i))));
}

void bt_int_shadow_neon(int64_t *restrict acc, const bt_int_shadow *shadow, size_t count,
                        const int8_t *restrict wp, size_t k4, size_t p0, size_t p1)
{
    for (size_t p = p0; p < p1; p++, acc += 16) {
        int64x2_t sum[8];
        for (size_t j = 0; j < 8; j++) sum[j] = vld1q_s64(acc + 2 * j);
        for (size_t i = 0; i < count; i++) {
            const int8_t *w = wp + (p * k4 + shadow[i].k / 4) * 64;
            const int32x4_t up = vdupq_n_s32((int)(24 - shadow[i].k % 4 * 8)); /* its byte to the top */
            for (size_t h = 0; h < 4; h++) {
                const int32x4_t v = vshlq_s32(vreinterpretq_s32_s8(vld1q_s8(w + 16 * h)), up);
                const int32x4_t y = vmulq_n_s32(vshrq_n_s32(v, 24), shadow[i].r);
                sum[2 * h] = vaddw_s32(sum[2 * h], vget_low_s32(y));
                sum[2 * h + 1] = vaddw_high_s32(sum[2 * h + 1], y);
            }
        }
        for (size_t j = 0; j < 8; j++) vst1q_s64(acc + 2 * j, sum[j]);
    }
}

static int16_t requant1(int64_t v, int32_t m, uint8_t s, int16_t limit)
{
    const int64_t y = bt_int_scale1(v, m, s);
    return (int16_t)(y < -limit ? -limit : y > limit ? limit : y);
}

/* Stores four results, clamped to [-limit, limit]. Results outside s32 saturate first. */
INT_INLINE void store4(int16_t *y, int64x2_t a, int64x2_t b, int16_t limit)
{
    const int32x4_t v = vqmovn_high_s64(vqmovn_s64(a), b);
    vst1_s16(y, vqmovn_s32(vmaxq_s32(vminq_s32(v, vdupq_n_s32(limit)), vdupq_n_s32(-limit))));
}
/* Four shifts to the right, which the instruction takes as negative shifts to the left. */
INT_INLINE void shifts4(int64x2_t ret[2], const uint8_t *s)
{
    ret[0] = (int64x2_t){-(int64_t)s[0], -(int64_t)s[1]};
    ret[1] = (int64x2_t){-(int64_t)s[2], -(int64_t)s[3]};
}

/* Stores floor(v * m / 2^s + 1/2) of four s32, clamped. |v * m| < 2^62, and the shift rounds without
 * overflow. */
INT_INLINE void requant4(int16_t *y, int32x4_t v, const int32_t *m, const uint8_t *s, int16_t limit)
{
    const int32x4_t by = vld1q_s32(m);
    int64x2_t down[2];
    shifts4(down, s);
    store4(y, vrshlq_s64(vmull_s32(vget_low_s32(v), vget_low_s32(by)), down[0]),
           vrshlq_s64(vmull_high_s32(v, by), down[1]), limit);
}

void bt_int_requant32_neon(int16_t *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                           const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                           size_t n)
{
    for (size_t row = 0; row < t; row++, y += ldy, acc += ldacc) {
        size_t i = 0;
        for (; i + 4 <= n; i += 4) {
            int32x4_t v = vld1q_s32(acc + i);
            if (bias) {
                const int64x2_t a = vaddw_s32(vld1q_s64(bias + i), vget_low_s32(v)),
                                b = vaddw_high_s32(vld1q_s64(bias + i + 2), v);
                v = vmovn_high_s64(vmovn_s64(a), b);
                /* whether the sum equals its low half, sign extended: fits s32 */
                const uint64x2_t same =
                    vandq_u64(vceqq_s64(vmovl_s32(vget_low_s32(v)), a), vceqq_s64(vmovl_high_s32(v), b));
                if (!(vgetq_lane_u64(same, 0) & vgetq_lane_u64(same, 1))) {
                    for (size_t j = i; j < i + 4; j++) y[j] = requant1(acc[j] + bias[j], m[j], s[j], limit);
                    continue;
                }
            }
            requant4(y + i, v, m + i, s + i, limit);
        }
        for (; i < n; i++) y[i] = requant1(acc[i] + (bias ? bias[i] : 0), m[i], s[i], limit);
    }
}

/* floor(v * m / 2^s + 1/2) of two |v| < 2^62 and s >= 33, with v = 2^32 * high + low; down = -s. The added
 * half is a multiple of 2^32, so the bits of low * m below 2^32 cannot change the result. */
INT_INLINE int64x2_t scale_wide(int64x2_t v, int32x2_t m, int64x2_t down)
{
    const int64x2_t high = vmull_s32(vshrn_n_s64(v, 32), m);
    const uint64x2_t low = vmull_u32(vmovn_u64(vreinterpretq_u64_s64(v)), vreinterpret_u32_s32(m));
    const int64x2_t sum = vaddq_s64(high, vreinterpretq_s64_u64(vshrq_n_u64(low, 32)));
    return vrshlq_s64(sum, vaddq_s64(down, vdupq_n_s64(32)));
}

void bt_int_requant64_neon(int16_t *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                           const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                           size_t n)
{
    for (size_t row = 0; row < t; row++, y += ldy, acc += ldacc) {
        size_t i = 0;
        for (; i + 4 <= n; i += 4) {
            if (s[i] <= 32 || s[i + 1] <= 32 || s[i + 2] <= 32 || s[i + 3] <= 32) {
                for (size_t j = i; j < i + 4; j++)
                    y[j] = requant1(acc[j] + (bias ? bias[j] : 0), m[j], s[j], limit);
                continue;
            }
            const int32x4_t by = vld1q_s32(m + i);
            int64x2_t a = vld1q_s64(acc + i), b = vld1q_s64(acc + i + 2), down[2];
            shifts4(down, s + i);
            if (bias) a = vaddq_s64(a, vld1q_s64(bias + i)), b = vaddq_s64(b, vld1q_s64(bias + i + 2));
            store4(y + i, scale_wide(a, vget_low_s32(by), down[0]), scale_wide(b, vget_high_s32(by), down[1]),
                   limit);
        }
        for (; i < n; i++) y[i] = requant1(acc[i] + (bias ? bias[i] : 0), m[i], s[i], limit);
    }
}
#endif
