/* The integer operators for NEON, four values at once; the rest of a row goes through the scalar formula. */
#include "kernels/int_ops.h"

#if defined(__aarch64__)
#include "kernels/integer/int_ops_neon.h"

#include <string.h>

static uint32_t all_bits(const int32_t *x, size_t k)
{
    int32x4_t all = vdupq_n_s32(0);
    size_t i = 0;
    for (; i + 4 <= k; i += 4) all = vorrq_s32(all, vabsq_s32(vld1q_s32(x + i)));
    uint32_t lane[4], total = 0;
    vst1q_u32(lane, vreinterpretq_u32_s32(all));
    for (int j = 0; j < 4; j++) total |= lane[j];
    for (; i < k; i++) total |= (uint32_t)(x[i] < 0 ? -x[i] : x[i]);
    return total;
}

static uint64_t sum_of_squares(const int32_t *x, size_t k, unsigned g)
{
    const int32x4_t down = vdupq_n_s32(-(int)g);
    int64x2_t sum = vdupq_n_s64(0);
    size_t i = 0;
    for (; i + 4 <= k; i += 4) {
        const int32x4_t v = vshlq_s32(vld1q_s32(x + i), down);
        sum = vmlal_high_s32(vmlal_s32(sum, vget_low_s32(v), vget_low_s32(v)), v, v);
    }
    uint64_t total = (uint64_t)vaddvq_s64(sum);
    for (; i < k; i++) total += (uint64_t)((int64_t)(x[i] >> g) * (x[i] >> g));
    return total;
}

void bt_int_rmsnorm32_neon(int32_t *y, size_t ldy, const int32_t *x, size_t ldx, const int32_t *wq,
                           int32_t w1, unsigned f, uint64_t keps, size_t t, size_t k)
{
    const v4_mul out = v4_mul_of(w1, 30 + f);
    for (; t > 0; t--, x += ldx, y += ldy) {
        const unsigned g = int_norm_bits(all_bits(x, k));
        const int_rsqrt r = int_rsqrt_of((keps >> 2 * g) + sum_of_squares(x, k, g), g);
        const v4_mul in = v4_mul_of(r.i, r.shift);
        size_t i = 0;
        for (; i + 4 <= k; i += 4) {
            const int32x4_t w = wq ? vld1q_s32(wq + i) : vdupq_n_s32(w1),
                            v = v4_scale_fits(vld1q_s32(x + i), in);
            vst1q_s32(y + i, v4_scale_by(v, w, out.down, -BT_INT_MAX32, BT_INT_MAX32));
        }
        for (; i < k; i++) y[i] = (int32_t)int_clamp(int_norm_at(x[i], r, wq ? wq[i] : w1, f), BT_INT_MAX32);
    }
}

/* (a * c + b * s) / 2^15 of eight, half up, clamped. */
static inline int16x8_t rope8(int16x8_t a, int16x8_t c, int16x8_t b, int16x8_t s)
{
    const int32x4_t first = vmlal_s16(vmull_s16(vget_low_s16(a), vget_low_s16(c)), vget_low_s16(b),
                                      vget_low_s16(s)),
                    last = vmlal_high_s16(vmull_high_s16(a, c), b, s);
    return vmovn_high_s32(vmovn_s32(v4_clamp(vrshrq_n_s32(first, 15), BT_INT_MAX16)),
                          v4_clamp(vrshrq_n_s32(last, 15), BT_INT_MAX16));
}

/* Pairs (i, i + half). */
static void rope_split(int16_t *x, size_t half, const int16_t *cos, const int16_t *sin)
{
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const int16x8_t a = vld1q_s16(x + i), b = vld1q_s16(x + half + i), c = vld1q_s16(cos + i),
                        s = vld1q_s16(sin + i);
        vst1q_s16(x + i, rope8(a, c, b, vnegq_s16(s)));
        vst1q_s16(x + half + i, rope8(a, s, b, c));
    }
    for (; i < half; i++) {
        const int16_t a = x[i], b = x[half + i];
        x[i] = int_rope_at(a, cos[i], b, -sin[i]);
        x[half + i] = int_rope_at(a, sin[i], b, cos[i]);
    }
}

/* Pairs (2i, 2i + 1): the loads separate a and b, and the stores join them. */
static void rope_adjacent(int16_t *x, size_t half, const int16_t *cos, const int16_t *sin)
{
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const int16x8x2_t v = vld2q_s16(x + 2 * i);
        const int16x8_t c = vld1q_s16(cos + i), s = vld1q_s16(sin + i);
        const int16x8x2_t y = {{rope8(v.val[0], c, v.val[1], vnegq_s16(s)), rope8(v.val[0], s, v.val[1], c)}};
        vst2q_s16(x + 2 * i, y);
    }
    for (; i < half; i++) {
        const int16_t a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = int_rope_at(a, cos[i], b, -sin[i]);
        x[2 * i + 1] = int_rope_at(a, sin[i], b, cos[i]);
    }
}

void bt_int_rope16_neon(int16_t *x, size_t heads, size_t d, size_t r, const int16_t *cos, const int16_t *sin,
                        int neox)
{
    for (; heads > 0; heads--, x += d) {
        if (neox) rope_split(x, r / 2, cos, sin);
        else rope_adjacent(x, r / 2, cos, sin);
    }
}

static int32_t greatest(const int32_t *z, size_t n)
{
    int32x4_t m = vdupq_n_s32(INT32_MIN);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) m = vmaxq_s32(m, vld1q_s32(z + i));
    int32_t max = vmaxvq_s32(m);
    for (; i < n; i++) max = z[i] > max ? z[i] : max;
    return max;
}

uint64_t bt_int_softmax16_neon(int16_t *restrict e, const int32_t *restrict z, size_t n, bt_int_mul mul)
{
    const int32_t max = greatest(z, n);
    const v4_mul m = v4_mul_of(mul.m, mul.s);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i += 4) {
        const size_t left = n - i < 4 ? n - i : 4;
        int32_t in[4] = {max, max, max, max};
        int16_t out[4];
        memcpy(in, z + i, left * sizeof *in);
        const int32x4_t x = v4_exp(v4_scale(vsubq_s32(vld1q_s32(in), vdupq_n_s32(max)), m, -INT32_MAX, 0));
        vst1_s16(out, vqmovn_s32(vrshrq_n_s32(x, 16)));
        for (size_t j = 0; j < left; j++) sum += (uint64_t)out[j];
        memcpy(e + i, out, left * sizeof *out);
    }
    return sum;
}

/* g * sigmoid * u of two lanes: w of bt_int_silu_mul16_fn. */
static inline int64x2_t silu2(int32x2_t g, int32x2_t sigmoid, int32x2_t u)
{
    const int64x2_t h = vrshrq_n_s64(vmull_s32(g, sigmoid), 16); /* fits s32 */
    return vrshrq_n_s64(vmull_s32(vmovn_s64(h), u), 15);
}

void bt_int_silu_mul16_neon(int32_t *restrict y, const int16_t *restrict g, const int16_t *restrict u,
                            size_t count, bt_int_mul gate, bt_int_mul out)
{
    const v4_mul in = v4_mul_of(gate.m, gate.s), to = v4_mul_of(out.m, out.s);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const int32x4_t a = vmovl_s16(vld1_s16(g + i)), b = vmovl_s16(vld1_s16(u + i));
        const int32x4_t e = v4_exp(vnegq_s32(v4_scale(vabsq_s32(a), in, 0, INT32_MAX))),
                        p = v4_one_over_one_plus(e);
        const int32x4_t sigmoid = vbslq_s32(vcltzq_s32(a), v4_mulh(p, e), p);
        const int64x2_t first = silu2(vget_low_s32(a), vget_low_s32(sigmoid), vget_low_s32(b)),
                        last = silu2(vget_high_s32(a), vget_high_s32(sigmoid), vget_high_s32(b));
        vst1q_s32(y + i, v4_scale(v4_join(first, last), to, -BT_INT_MAX32, BT_INT_MAX32));
    }
    for (; i < count; i++) y[i] = int_silu_mul(g[i], u[i], gate, out);
}

void bt_int_add32_neon(int32_t *restrict x, const int16_t *restrict y, size_t count, bt_int_mul mul)
{
    const v4_mul m = v4_mul_of(mul.m, mul.s);
    const int32x2_t by = vdup_n_s32(m.m);
    const int64_t limit = BT_INT_MAX_RESIDUAL;
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const int32x4_t v = vld1q_s32(x + i), w = vmovl_s16(vld1_s16(y + i));
        const int64x2_t a = vaddw_s32(vrshlq_s64(vmull_s32(vget_low_s32(w), by), m.down), vget_low_s32(v)),
                        b = vaddw_high_s32(vrshlq_s64(vmull_s32(vget_high_s32(w), by), m.down), v);
        vst1q_s32(x + i, v4_join(v4_clamp64(a, -limit, limit), v4_clamp64(b, -limit, limit)));
    }
    for (; i < count; i++) x[i] = (int32_t)int_clamp(x[i] + int_scale(y[i], mul), BT_INT_MAX_RESIDUAL);
}

static uint32_t split_list(bt_int_shadow *shadow, const int32_t *x, int32_t low, int32_t high, size_t first,
                           size_t end, uint32_t n)
{
    for (size_t i = first; i < end; i++)
        if (x[i] < low || x[i] > high)
            shadow[n++] = (bt_int_shadow){(uint32_t)i, x[i] < low ? x[i] - low : x[i] - high};
    return n;
}
/* Eight values clamped to [low, high], as s16; *gone becomes nonzero if the clamp took anything away. */
static inline int16x8_t clamped8(const int32_t *x, int32_t low, int32_t high, int32x4_t *gone)
{
    const int32x4_t a = vld1q_s32(x), b = vld1q_s32(x + 4), ca = v4_within(a, low, high),
                    cb = v4_within(b, low, high);
    *gone = vorrq_s32(*gone, vorrq_s32(veorq_s32(a, ca), veorq_s32(b, cb)));
    return vmovn_high_s32(vmovn_s32(ca), cb);
}
static inline int is_any(int32x4_t gone) { return vmaxvq_u32(vreinterpretq_u32_s32(gone)) != 0; }

void bt_int_split8_neon(int8_t *restrict y, size_t ldy, const int32_t *restrict x, size_t ldx,
                        bt_int_range range, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    const int32_t zero = range.zero, low = range.least - zero, high = 127 - zero;
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        bt_int_shadow *list = shadow ? shadow + row * k : NULL;
        uint32_t n = 0;
        size_t i = 0;
        for (; i + 16 <= k; i += 16) {
            int32x4_t gone = vdupq_n_s32(0);
            const int16x8_t by = vdupq_n_s16(range.zero),
                            a = vaddq_s16(clamped8(x + i, low, high, &gone), by),
                            b = vaddq_s16(clamped8(x + i + 8, low, high, &gone), by);
            vst1q_s8(y + i, vmovn_high_s16(vmovn_s16(a), b));
            if (shadow && is_any(gone)) n = split_list(list, x, low, high, i, i + 16, n);
        }
        if (shadow) count[row] = split_list(list, x, low, high, i, k, n);
        for (; i < k; i++) y[i] = (int8_t)(zero + (x[i] < low ? low : x[i] > high ? high : x[i]));
        memset(y + k, 0, ldy - k);
    }
}

void bt_int_split16_neon(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const int32_t *restrict x,
                         size_t ldx, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    for (size_t row = 0; row < t; row++, x += ldx, hi += ldy, lo += ldy) {
        bt_int_shadow *list = shadow ? shadow + row * k : NULL;
        uint32_t n = 0;
        size_t i = 0;
        for (; i + 16 <= k; i += 16) {
            int32x4_t gone = vdupq_n_s32(0);
            const int16x8_t a = clamped8(x + i, -BT_INT_MAX16, BT_INT_MAX16, &gone),
                            b = clamped8(x + i + 8, -BT_INT_MAX16, BT_INT_MAX16, &gone);
            if (shadow && is_any(gone)) n = split_list(list, x, -BT_INT_MAX16, BT_INT_MAX16, i, i + 16, n);
            vst1q_s8(hi + i, vrshrn_high_n_s16(vrshrn_n_s16(a, 8), b, 8));
            vst1q_s8(lo + i, vmovn_high_s16(vmovn_s16(a), b));
        }
        if (shadow) count[row] = split_list(list, x, -BT_INT_MAX16, BT_INT_MAX16, i, k, n);
        for (; i < k; i++) {
            const int32_t v = (int32_t)int_clamp(x[i], BT_INT_MAX16), h = (v + 128) >> 8;
            hi[i] = (int8_t)h;
            lo[i] = (int8_t)(v - 256 * h);
        }
        memset(hi + k, 0, ldy - k);
        memset(lo + k, 0, ldy - k);
    }
}

void bt_int_from_f16_neon(int16_t *restrict y, const uint16_t *restrict x, size_t count, int shift)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4) vst1_s16(y + i, vmovn_s32(v4_from_f16(x + i, shift)));
    for (; i < count; i++) y[i] = int_from_f16(x[i], shift);
}

void bt_int_from_q8_neon(int16_t *restrict y, const int8_t *restrict q, uint16_t s, size_t count, int shift)
{
    const int_q8 by = int_q8_of(s, shift);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) vst1q_s16(y + i, v8_from_q8(q + i, by));
    for (; i < count; i++) y[i] = int_from_q8(q[i], by);
}
#endif
