/* The integer operators as plain loops, the specification: the formulas of int_ops.h; and its scalar
 * functions and sizes. */
#include "kernels/int_ops.h"
#include "kernels/integer/int_ops_attn.h"
#include "kernels/integer/int_ops_math.h"
#include "kernels/variant.h"

#include <string.h>

int32_t bt_int_exp(int32_t a) { return int_exp(a); }
int32_t bt_int_one_over_one_plus(int32_t a) { return int_one_over_one_plus(a); }

/* Finds one bit of the root at a time. */
uint32_t bt_int_isqrt(uint64_t v)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 62; bit; bit >>= 2) {
        const uint64_t try = root + bit;
        root >>= 1;
        if (v >= try) v -= try, root += bit;
    }
    return (uint32_t)root;
}

size_t bt_int_attention_scratch_bytes(size_t head_dim, size_t tokens)
{
    const int_attn_scratch s = int_attn_scratch_plan(head_dim, tokens);
    return s.bytes;
}

void bt_int_rmsnorm32_ref(int32_t *y, size_t ldy, const int32_t *x, size_t ldx, const int32_t *wq, int32_t w1,
                          unsigned f, uint64_t keps, size_t t, size_t k)
{
    for (; t > 0; t--, x += ldx, y += ldy) {
        uint32_t all = 0;
        for (size_t i = 0; i < k; i++) all |= (uint32_t)(x[i] < 0 ? -x[i] : x[i]);
        const unsigned g = int_norm_bits(all);
        uint64_t v = keps >> 2 * g;
        for (size_t i = 0; i < k; i++) v += (uint64_t)((int64_t)(x[i] >> g) * (x[i] >> g));
        const int_rsqrt r = int_rsqrt_of(v, g);
        for (size_t i = 0; i < k; i++)
            y[i] = (int32_t)int_clamp(int_norm_at(x[i], r, wq ? wq[i] : w1, f), BT_INT_MAX32);
    }
}

void bt_int_headnorm16_ref(int16_t *x, size_t ldx, size_t heads, const int32_t *wq, unsigned f, uint64_t keps,
                           size_t t, size_t d)
{
    for (; t > 0; t--, x += ldx)
        for (int16_t *h = x; h < x + heads * d; h += d) {
            uint64_t v = keps;
            for (size_t i = 0; i < d; i++) v += (uint64_t)((int32_t)h[i] * h[i]);
            const int_rsqrt r = int_rsqrt_of(v, 0);
            for (size_t i = 0; i < d; i++)
                h[i] = (int16_t)int_clamp(int_norm_at(h[i], r, wq[i], f), BT_INT_MAX16);
        }
}

void bt_int_rope16_ref(int16_t *x, size_t heads, size_t d, size_t r, const int16_t *cos, const int16_t *sin,
                       int neox)
{
    for (; heads > 0; heads--, x += d)
        for (size_t i = 0; i < r / 2; i++) {
            int16_t *pa = x + (neox ? i : 2 * i), *pb = x + (neox ? i + r / 2 : 2 * i + 1);
            const int16_t a = *pa, b = *pb;
            *pa = int_rope_at(a, cos[i], b, -sin[i]);
            *pb = int_rope_at(a, sin[i], b, cos[i]);
        }
}

uint64_t bt_int_softmax16_ref(int16_t *restrict e, const int32_t *restrict z, size_t n, bt_int_mul mul)
{
    int32_t max = INT32_MIN;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) max = z[i] > max ? z[i] : max;
    for (size_t i = 0; i < n; i++) {
        const int64_t a = int_scale((int64_t)z[i] - max, mul);
        const int32_t x = int_exp(a < -INT32_MAX ? -INT32_MAX : (int32_t)a);
        const int32_t p = (int32_t)(((int64_t)x + (1 << 15)) >> 16);
        e[i] = (int16_t)(p > 32767 ? 32767 : p);
        sum += (uint64_t)e[i];
    }
    return sum;
}

void bt_int_silu_mul16_ref(int32_t *restrict y, const int16_t *restrict g, const int16_t *restrict u,
                           size_t count, bt_int_mul gate, bt_int_mul out)
{
    for (size_t i = 0; i < count; i++) y[i] = int_silu_mul(g[i], u[i], gate, out);
}

/* h of bt_int_gelu16_fn. */
static int64_t gelu(int16_t x, bt_int_mul in)
{
    const int64_t wide = int_scale(x < 0 ? -x : x, in);
    const int32_t c = wide > INT32_MAX ? INT32_MAX : (int32_t)wide, q = int_mulh(int_mulh(c, c), c);
    const int64_t a = int_round_shift((int64_t)c * INT_GELU_1 + (int64_t)q * INT_GELU_3, 30);
    const int32_t p = int_sigmoid(a > INT32_MAX ? INT32_MAX : (int32_t)a, x < 0);
    return int_round_shift((int64_t)x * p, 16);
}

void bt_int_gelu16_ref(int32_t *restrict y, const int16_t *restrict x, size_t count, bt_int_mul in,
                       bt_int_mul out)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (int32_t)int_clamp(int_round_shift(gelu(x[i], in) * out.m, out.s + 15), BT_INT_MAX32);
}

void bt_int_gelu_mul16_ref(int32_t *restrict y, const int16_t *restrict g, const int16_t *restrict u,
                           size_t count, bt_int_mul gate, bt_int_mul out)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (int32_t)int_clamp(int_scale(int_round_shift(gelu(g[i], gate) * u[i], 15), out), BT_INT_MAX32);
}

void bt_int_add32_ref(int32_t *restrict x, const int16_t *restrict y, size_t count, bt_int_mul mul)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (int32_t)int_clamp(x[i] + int_scale(y[i], mul), BT_INT_MAX_RESIDUAL);
}

void bt_int_split8_ref(int8_t *restrict y, size_t ldy, const int32_t *restrict x, size_t ldx,
                       bt_int_range range, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        uint32_t n = 0;
        for (size_t i = 0; i < k; i++) {
            const int32_t q = x[i] + range.zero, v = q < range.least ? range.least : q > 127 ? 127 : q;
            y[i] = (int8_t)v;
            if (shadow && v != q) shadow[row * k + n++] = (bt_int_shadow){(uint32_t)i, q - v};
        }
        memset(y + k, 0, ldy - k);
        if (shadow) count[row] = n;
    }
}

void bt_int_split16_ref(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const int32_t *restrict x,
                        size_t ldx, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    for (size_t row = 0; row < t; row++, x += ldx, hi += ldy, lo += ldy) {
        uint32_t n = 0;
        for (size_t i = 0; i < k; i++) {
            const int32_t v = (int32_t)int_clamp(x[i], BT_INT_MAX16), h = (v + 128) >> 8;
            if (shadow && v != x[i]) shadow[row * k + n++] = (bt_int_shadow){(uint32_t)i, x[i] - v};
            hi[i] = (int8_t)h;
            lo[i] = (int8_t)(v - 256 * h);
        }
        memset(hi + k, 0, ldy - k);
        memset(lo + k, 0, ldy - k);
        if (shadow) count[row] = n;
    }
}

/* Rotates one block r[base, inner] in place: butterflies, then base. column: scratch of base values. */
static void rotate_block(int32_t *r, const int8_t *h_base, size_t base, size_t inner, int32_t *column)
{
    for (size_t len = 1; len < inner; len *= 2)
        for (size_t i = 0; i < base * inner; i += 2 * len)
            for (size_t j = i; j < i + len; j++) {
                const int32_t a = r[j], b = r[j + len];
                r[j] = a + b;
                r[j + len] = a - b;
            }
    for (size_t j = 0; base > 1 && j < inner; j++) {
        for (size_t c = 0; c < base; c++) {
            column[c] = 0;
            for (size_t b = 0; b < base; b++) column[c] += h_base[c * base + b] * r[b * inner + j];
        }
        for (size_t c = 0; c < base; c++) r[c * inner + j] = column[c];
    }
}

void bt_int_rotate16_ref(int32_t *restrict y, size_t ldy, const int16_t *restrict x, size_t ldx, size_t t,
                         size_t blocks, const int8_t *h_base, uint32_t base, uint32_t log2,
                         const int8_t *sign, bt_int_mul mul, int32_t *restrict scratch)
{
    const size_t inner = (size_t)1 << log2, e = (base ? base : 1) * inner;
    for (; t > 0; t--, x += ldx, y += ldy)
        for (size_t i = 0; i < blocks * e; i += e) {
            for (size_t j = 0; j < e; j++) y[i + j] = base && sign ? x[i + j] * sign[j] : x[i + j];
            if (base) rotate_block(y + i, h_base, base, inner, scratch);
            for (size_t j = 0; j < e; j++)
                y[i + j] = (int32_t)int_clamp(int_scale(y[i + j], mul), BT_INT_MAX32);
        }
}

void bt_int_from_f16_ref(int16_t *restrict y, const uint16_t *restrict x, size_t count, int shift)
{
    for (size_t i = 0; i < count; i++) y[i] = int_from_f16(x[i], shift);
}

void bt_int_from_q8_ref(int16_t *restrict y, const int8_t *restrict q, uint16_t s, size_t count, int shift)
{
    const int_q8 by = int_q8_of(s, shift);
    for (size_t i = 0; i < count; i++) y[i] = int_from_q8(q[i], by);
}

static void load_row(int16_t *row, const bt_kv_view *kv, size_t layer, int is_v, size_t token, size_t g,
                     int shift)
{
    const uint8_t *from = bt_kv_view_row(kv, layer, is_v, token, g);
    const size_t d = kv->head_dim;
    if (kv->elem_bytes == 1)
        bt_int_from_q8_ref(row, (const int8_t *)from, *(const uint16_t *)(const void *)(from + d), d, shift);
    else bt_int_from_f16_ref(row, (const void *)from, d, shift);
}

/* Attention of one (row, query head) pair over n positions from `begin` on. */
static void attend_one(int16_t *out, const int16_t *q, const bt_kv_view *kv, size_t layer, size_t g,
                       size_t begin, size_t n, const bt_int_attention_params *p, uint8_t *scratch,
                       const int_attn_scratch *plan)
{
    const size_t d = kv->head_dim;
    int32_t *z = (void *)(scratch + plan->z);
    int16_t *e = (void *)(scratch + plan->e), *row = (void *)(scratch + plan->row);
    int64_t *acc = (void *)(scratch + plan->acc);
    for (size_t j = 0; j < n; j++) {
        int64_t sum = 0;
        load_row(row, kv, layer, 0, begin + j, g, p->k_shift);
        for (size_t i = 0; i < d; i++) sum += (int32_t)q[i] * row[i];
        z[j] = (int32_t)int_round_shift(sum, int_attn_log2(d));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): n > 0, and the largest of the n counts */
    const uint64_t inv = (UINT64_C(1) << 63) / bt_int_softmax16_ref(e, z, n, p->logit);
    memset(acc, 0, d * sizeof *acc);
    for (size_t j = 0; j < n; j++) {
        load_row(row, kv, layer, 1, begin + j, g, p->v_shift);
        for (size_t i = 0; i < d; i++) acc[i] += (int32_t)e[j] * row[i];
    }
    for (size_t i = 0; i < d; i++) out[i] = int_attn_out(acc[i], inv, p->out);
}

void bt_int_attention16_ref(int16_t *out, size_t ldo, const int16_t *q, size_t ldq, const bt_kv_view *kv,
                            size_t layer, size_t t, size_t pos0, size_t heads, size_t g,
                            const bt_int_attention_params *p, void *scratch)
{
    const size_t d = kv->head_dim, group = heads / kv->kv_heads;
    const int_attn_scratch plan = int_attn_scratch_plan(d, pos0 + t);
    for (size_t row = 0; row < t; row++) {
        const size_t begin = int_attn_begin(p, pos0 + row), seen = pos0 + row + 1 - begin;
        for (size_t h = g * group; h < (g + 1) * group; h++)
            attend_one(out + row * ldo + h * d, q + row * ldq + h * d, kv, layer, g, begin, seen, p, scratch,
                       &plan);
    }
}
