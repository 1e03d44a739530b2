/* The integer operators for AVX2, eight values at once; the rest of a row goes through the scalar formula. */
#include "kernels/int_ops.h"

#if defined(__AVX2__)
#include "kernels/integer/int_ops_avx2.h"

#include <string.h>

static uint32_t all_bits(const int32_t *x, size_t k)
{
    __m256i all = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= k; i += 8) all = _mm256_or_si256(all, _mm256_abs_epi32(v8_load(x + i)));
    uint32_t lane[8], total = 0;
    _mm256_storeu_si256((void *)lane, all);
    for (int j = 0; j < 8; j++) total |= lane[j];
    for (; i < k; i++) total |= (uint32_t)(x[i] < 0 ? -x[i] : x[i]);
    return total;
}

static uint64_t sum_of_squares(const int32_t *x, size_t k, unsigned g)
{
    const __m128i down = _mm_cvtsi32_si128((int)g);
    __m256i sum = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        const __m256i v = _mm256_sra_epi32(v8_load(x + i), down), odd = v8_odd(v);
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(_mm256_mul_epi32(v, v), _mm256_mul_epi32(odd, odd)));
    }
    uint64_t lane[4], total = 0;
    _mm256_storeu_si256((void *)lane, sum);
    for (; i < k; i++) total += (uint64_t)((int64_t)(x[i] >> g) * (x[i] >> g));
    return total + lane[0] + lane[1] + lane[2] + lane[3];
}

void bt_int_rmsnorm32_avx2(int32_t *y, size_t ldy, const int32_t *x, size_t ldx, const int32_t *wq,
                           int32_t w1, unsigned f, uint64_t keps, size_t t, size_t k)
{
    const v8_mul out = v8_mul_of(w1, 30 + f);
    for (; t > 0; t--, x += ldx, y += ldy) {
        const unsigned g = int_norm_bits(all_bits(x, k));
        const int_rsqrt r = int_rsqrt_of((keps >> 2 * g) + sum_of_squares(x, k, g), g);
        const v8_mul in = v8_mul_of(r.i, r.shift);
        size_t i = 0;
        for (; i + 8 <= k; i += 8) {
            const __m256i w = wq ? v8_load(wq + i) : v8_set(w1);
            v8_store(y + i, v8_scale_by(v8_scale_fits(v8_load(x + i), in), w, v8_odd(w), out, -BT_INT_MAX32,
                                        BT_INT_MAX32));
        }
        for (; i < k; i++) y[i] = (int32_t)int_clamp(int_norm_at(x[i], r, wq ? wq[i] : w1, f), BT_INT_MAX32);
    }
}

/* Pairs (i, i + half): interleaves a and b, then multiplies by (c, -s) and (s, c). */
static void rope_split(int16_t *x, size_t half, const int16_t *cos, const int16_t *sin)
{
    const __m256i round = v8_set(1 << 14);
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const __m128i a8 = _mm_loadu_si128((const void *)(x + i)),
                      b8 = _mm_loadu_si128((const void *)(x + half + i));
        const __m128i c8 = _mm_loadu_si128((const void *)(cos + i)),
                      s8 = _mm_loadu_si128((const void *)(sin + i));
        const __m128i n8 = _mm_sub_epi16(_mm_setzero_si128(), s8);
        const __m256i ab = _mm256_set_m128i(_mm_unpackhi_epi16(a8, b8), _mm_unpacklo_epi16(a8, b8));
        const __m256i cn = _mm256_set_m128i(_mm_unpackhi_epi16(c8, n8), _mm_unpacklo_epi16(c8, n8));
        const __m256i sc = _mm256_set_m128i(_mm_unpackhi_epi16(s8, c8), _mm_unpacklo_epi16(s8, c8));
        const __m256i a = _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(ab, cn), round), 15);
        const __m256i b = _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(ab, sc), round), 15);
        _mm_storeu_si128((void *)(x + i), v8_narrow(v8_clamp(a, BT_INT_MAX16)));
        _mm_storeu_si128((void *)(x + half + i), v8_narrow(v8_clamp(b, BT_INT_MAX16)));
    }
    for (; i < half; i++) {
        const int16_t a = x[i], b = x[half + i];
        x[i] = int_rope_at(a, cos[i], b, -sin[i]);
        x[half + i] = int_rope_at(a, sin[i], b, cos[i]);
    }
}

/* Pairs (2i, 2i + 1): a and b lie interleaved. */
static void rope_adjacent(int16_t *x, size_t half, const int16_t *cos, const int16_t *sin)
{
    const __m256i round = v8_set(1 << 14);
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const __m128i c8 = _mm_loadu_si128((const void *)(cos + i)),
                      s8 = _mm_loadu_si128((const void *)(sin + i));
        const __m128i n8 = _mm_sub_epi16(_mm_setzero_si128(), s8);
        const __m256i ab = v8_load((const void *)(x + 2 * i));
        const __m256i cn = _mm256_set_m128i(_mm_unpackhi_epi16(c8, n8), _mm_unpacklo_epi16(c8, n8));
        const __m256i sc = _mm256_set_m128i(_mm_unpackhi_epi16(s8, c8), _mm_unpacklo_epi16(s8, c8));
        const __m256i a =
            v8_clamp(_mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(ab, cn), round), 15), BT_INT_MAX16);
        const __m256i b =
            v8_clamp(_mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(ab, sc), round), 15), BT_INT_MAX16);
        v8_store((void *)(x + 2 * i), _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa));
    }
    for (; i < half; i++) {
        const int16_t a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = int_rope_at(a, cos[i], b, -sin[i]);
        x[2 * i + 1] = int_rope_at(a, sin[i], b, cos[i]);
    }
}

void bt_int_rope16_avx2(int16_t *x, size_t heads, size_t d, size_t r, const int16_t *cos, const int16_t *sin,
                        int neox)
{
    for (; heads > 0; heads--, x += d) {
        if (neox) rope_split(x, r / 2, cos, sin);
        else rope_adjacent(x, r / 2, cos, sin);
    }
}

static int32_t greatest(const int32_t *z, size_t n)
{
    __m256i m = v8_set(INT32_MIN);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) m = _mm256_max_epi32(m, v8_load(z + i));
    int32_t lane[8], max = INT32_MIN;
    v8_store(lane, m);
    for (int j = 0; j < 8; j++) max = lane[j] > max ? lane[j] : max;
    for (; i < n; i++) max = z[i] > max ? z[i] : max;
    return max;
}

uint64_t bt_int_softmax16_avx2(int16_t *restrict e, const int32_t *restrict z, size_t n, bt_int_mul mul)
{
    const int32_t max = greatest(z, n);
    const v8_mul m = v8_mul_of(mul.m, mul.s);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i += 8) {
        int32_t in[8], out[8];
        const size_t left = n - i < 8 ? n - i : 8;
        if (left < 8) {
            for (size_t j = 0; j < 8; j++) in[j] = j < left ? z[i + j] : max;
        }
        const __m256i d = _mm256_sub_epi32(left < 8 ? v8_load(in) : v8_load(z + i), v8_set(max));
        const __m256i x = v8_exp(v8_scale(d, m, -INT32_MAX, 0));
        const __m256i p =
            _mm256_min_epi32(_mm256_srli_epi32(_mm256_add_epi32(x, v8_set(1 << 15)), 16), v8_set(32767));
        if (left == 8) _mm_storeu_si128((void *)(e + i), v8_narrow(p));
        v8_store(out, p);
        for (size_t j = 0; j < left; j++) sum += (uint64_t)out[j];
        for (size_t j = 0; left < 8 && j < left; j++) e[i + j] = (int16_t)out[j];
    }
    return sum;
}

void bt_int_silu_mul16_avx2(int32_t *restrict y, const int16_t *restrict g, const int16_t *restrict u,
                            size_t count, bt_int_mul gate, bt_int_mul out)
{
    const v8_mul in = v8_mul_of(gate.m, gate.s), to = v8_mul_of(out.m, out.s), h16 = v8_mul_of(0, 16),
                 w15 = v8_mul_of(0, 15);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256i a = v8_load16(g + i), b = v8_load16(u + i);
        const __m256i c = v8_scale(_mm256_abs_epi32(a), in, 0, INT32_MAX);
        const __m256i e = v8_exp(_mm256_sub_epi32(_mm256_setzero_si256(), c)), p = v8_one_over_one_plus(e);
        const __m256i sigmoid = _mm256_blendv_epi8(p, v8_mulh(p, e), _mm256_srai_epi32(a, 31));
        const __m256i h_even = v8_round(_mm256_mul_epi32(a, sigmoid), h16);
        const __m256i h_odd = v8_round(_mm256_mul_epi32(v8_odd(a), v8_odd(sigmoid)), h16);
        const __m256i w_even = v8_round(_mm256_mul_epi32(h_even, b), w15),
                      w_odd = v8_round(_mm256_mul_epi32(h_odd, v8_odd(b)), w15);
        v8_store(y + i, v8_scale(v8_join(w_even, w_odd), to, -BT_INT_MAX32, BT_INT_MAX32));
    }
    for (; i < count; i++) y[i] = int_silu_mul(g[i], u[i], gate, out);
}

void bt_int_add32_avx2(int32_t *restrict x, const int16_t *restrict y, size_t count, bt_int_mul mul)
{
    const v8_mul m = v8_mul_of(mul.m, mul.s);
    const __m256i one = _mm256_set1_epi64x(1); /* multiplying by one widens the even lanes to s64 */
    const int64_t limit = BT_INT_MAX_RESIDUAL;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256i v = v8_load(x + i), w = v8_load16(y + i);
        const __m256i even =
            _mm256_add_epi64(_mm256_mul_epi32(v, one), v8_round(_mm256_mul_epi32(w, m.m), m));
        const __m256i odd =
            _mm256_add_epi64(_mm256_mul_epi32(v8_odd(v), one), v8_round(_mm256_mul_epi32(v8_odd(w), m.m), m));
        v8_store(x + i, v8_join(v8_clamp64(even, -limit, limit), v8_clamp64(odd, -limit, limit)));
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

void bt_int_split8_avx2(int8_t *restrict y, size_t ldy, const int32_t *restrict x, size_t ldx,
                        bt_int_range range, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    const int32_t zero = range.zero, low = range.least - zero, high = 127 - zero;
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        bt_int_shadow *list = shadow ? shadow + row * k : NULL;
        uint32_t n = 0;
        size_t i = 0;
        for (; i + 16 <= k; i += 16) {
            const __m256i a = v8_load(x + i), b = v8_load(x + i + 8), ca = v8_within(a, low, high),
                          cb = v8_within(b, low, high), by = v8_set(zero);
            const __m128i p =
                _mm_packs_epi16(v8_narrow(_mm256_add_epi32(ca, by)), v8_narrow(_mm256_add_epi32(cb, by)));
            _mm_storeu_si128((void *)(y + i), p);
            const __m256i gone = _mm256_or_si256(_mm256_xor_si256(a, ca), _mm256_xor_si256(b, cb));
            if (shadow && !_mm256_testz_si256(gone, gone)) n = split_list(list, x, low, high, i, i + 16, n);
        }
        if (shadow) count[row] = split_list(list, x, low, high, i, k, n);
        for (; i < k; i++) y[i] = (int8_t)(zero + (x[i] < low ? low : x[i] > high ? high : x[i]));
        memset(y + k, 0, ldy - k);
    }
}

void bt_int_split16_avx2(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const int32_t *restrict x,
                         size_t ldx, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    for (size_t row = 0; row < t; row++, x += ldx, hi += ldy, lo += ldy) {
        bt_int_shadow *list = shadow ? shadow + row * k : NULL;
        uint32_t n = 0;
        size_t i = 0;
        for (; i + 16 <= k; i += 16) {
            const __m256i wa = v8_load(x + i), wb = v8_load(x + i + 8), a = v8_clamp(wa, BT_INT_MAX16),
                          b = v8_clamp(wb, BT_INT_MAX16);
            const __m256i gone = _mm256_or_si256(_mm256_xor_si256(a, wa), _mm256_xor_si256(b, wb));
            if (shadow && !_mm256_testz_si256(gone, gone))
                n = split_list(list, x, -BT_INT_MAX16, BT_INT_MAX16, i, i + 16, n);
            const __m256i ha = _mm256_srai_epi32(_mm256_add_epi32(a, v8_set(128)), 8);
            const __m256i hb = _mm256_srai_epi32(_mm256_add_epi32(b, v8_set(128)), 8);
            const __m256i la = _mm256_sub_epi32(a, _mm256_slli_epi32(ha, 8)),
                          lb = _mm256_sub_epi32(b, _mm256_slli_epi32(hb, 8));
            _mm_storeu_si128((void *)(hi + i), _mm_packs_epi16(v8_narrow(ha), v8_narrow(hb)));
            _mm_storeu_si128((void *)(lo + i), _mm_packs_epi16(v8_narrow(la), v8_narrow(lb)));
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

void bt_int_from_f16_avx2(int16_t *restrict y, const uint16_t *restrict x, size_t count, int shift)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) _mm_storeu_si128((void *)(y + i), v8_narrow(v8_from_f16(x + i, shift)));
    for (; i < count; i++) y[i] = int_from_f16(x[i], shift);
}

void bt_int_from_q8_avx2(int16_t *restrict y, const int8_t *restrict q, uint16_t s, size_t count, int shift)
{
    const int_q8 by = int_q8_of(s, shift);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) _mm_storeu_si128((void *)(y + i), v8_narrow(v8_from_q8(q + i, by)));
    for (; i < count; i++) y[i] = int_from_q8(q[i], by);
}
#endif
