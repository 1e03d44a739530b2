/* The kernels of edge.h, bt_edge_estimate8 and bt_kv_store as plain loops, the specification. */
#include "kernels/variant.h"
#include "kernels/f16.h"

#include <math.h>
#include <string.h>

static int32_t quantise(float x, float inv)
{
    const float limit = BT_EDGE_LIMIT;
    float v = x * inv;
    v = v > -limit ? v : -limit;
    v = v < limit ? v : limit;
    return (int32_t)rintf(v);
}

static int32_t clamp(int32_t q, int32_t limit) { return q < -limit ? -limit : q > limit ? limit : q; }

void bt_edge_quantise8_ref(int8_t *restrict y, size_t ldy, const float *restrict x, size_t ldx, float inv,
                           bt_int_range range, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    for (size_t row = 0; row < t; row++, y += ldy, x += ldx) {
        uint32_t beyond = 0;
        for (size_t i = 0; i < k; i++) {
            const int32_t q = quantise(x[i], inv) + range.zero;
            y[i] = (int8_t)(q < range.least ? range.least : q > 127 ? 127 : q);
            if (shadow && q != y[i]) shadow[row * k + beyond++] = (bt_int_shadow){(uint32_t)i, q - y[i]};
        }
        memset(y + k, 0, ldy - k);
        if (shadow) count[row] = beyond;
    }
}

void bt_edge_quantise16_ref(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const float *restrict x,
                            size_t ldx, float inv, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    for (size_t row = 0; row < t; row++, hi += ldy, lo += ldy, x += ldx) {
        uint32_t beyond = 0;
        for (size_t i = 0; i < k; i++) {
            const int32_t whole = quantise(x[i], inv), q = clamp(whole, BT_INT_MAX16);
            if (shadow && whole != q) shadow[row * k + beyond++] = (bt_int_shadow){(uint32_t)i, whole - q};
            /* q + 32768 is not negative, and the low byte of 32768 is 0 */
            lo[i] = (int8_t)(((q + 32768 + 128) & 255) - 128);
            hi[i] = (int8_t)((q - lo[i]) / 256);
        }
        memset(hi + k, 0, ldy - k), memset(lo + k, 0, ldy - k);
        if (shadow) count[row] = beyond;
    }
}

/* Quantises a row to q[k] with the unit s. Returns the row's error. */
static float quantise_error(int8_t *q, const float *x, float s, float inv, size_t k)
{
    float r[256];
    for (size_t i = 0; i < k; i++) {
        q[i] = (int8_t)clamp(quantise(x[i], inv), 127);
        r[i] = fmaf(-(float)q[i], s, x[i]);
    }
    return bt_dot_ref(r, r, k);
}

void bt_edge_estimate8_ref(int8_t *restrict y, size_t ldy, uint8_t *restrict shift, const float *restrict x,
                           size_t ldx, float scale, size_t t, size_t k)
{
    const float inv = 1 / scale;
    int8_t q[256];
    for (size_t row = 0; row < t; row++, y += ldy, x += ldx) {
        float least = quantise_error(y, x, scale * 0.5f, inv * 2, k);
        shift[row] = 0;
        for (int e = 1; e < 3; e++) {
            const float error =
                quantise_error(q, x, e == 1 ? scale : scale * 2, e == 1 ? inv : inv * 0.5f, k);
            if (!(error < least)) continue;
            least = error;
            shift[row] = (uint8_t)e;
            memcpy(y, q, k);
        }
        memset(y + k, 0, ldy - k);
    }
}

static void then_do(float *y, float v, bt_edge_then then)
{
    if (then == BT_EDGE_STORE) *y = v;
    else if (then == BT_EDGE_ADD) bt_add_ref(y, &v, 1);
    else bt_silu_mul_ref(y, y, &v, 1);
}

void bt_edge_scale8_ref(float *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                        const float *scale, const float *bias, size_t t, size_t n, bt_edge_then then)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < n; i++) {
            const float v = (float)acc[row * ldacc + i] * scale[i];
            then_do(y + row * ldy + i, bias ? v + bias[i] : v, then);
        }
}

void bt_edge_scale16_ref(float *restrict y, size_t ldy, const int32_t *restrict hi,
                         const int32_t *restrict lo, size_t ldacc, const float *scale, const float *bias,
                         size_t t, size_t n, bt_edge_then then)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < n; i++) {
            const int64_t a = 256 * (int64_t)hi[row * ldacc + i] + lo[row * ldacc + i];
            const float v = (float)a * scale[i];
            then_do(y + row * ldy + i, bias ? v + bias[i] : v, then);
        }
}

void bt_edge_scale64_ref(float *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                         const float *scale, const float *bias, size_t t, size_t n, bt_edge_then then)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < n; i++) {
            const float v = (float)acc[row * ldacc + i] * scale[i];
            then_do(y + row * ldy + i, bias ? v + bias[i] : v, then);
        }
}

static void rotate_block(float *x, const int8_t *h, size_t base, size_t len, const int8_t *sign, float scale,
                         float *y)
{
    if (sign)
        for (size_t i = 0; i < base * len; i++) x[i] *= sign[i];
    for (size_t step = 1; step < len; step *= 2)
        for (size_t i = 0; i < base * len; i++) {
            if (i & step) continue;
            const float a = x[i], b = x[i + step];
            x[i] = a + b, x[i + step] = a - b;
        }
    if (base > 1) {
        for (size_t c = 0; c < base; c++)
            for (size_t j = 0; j < len; j++) {
                float sum = h[c * base] * x[j];
                for (size_t b = 1; b < base; b++) sum += h[c * base + b] * x[b * len + j];
                y[c * len + j] = sum;
            }
        memcpy(x, y, base * len * sizeof *x);
    }
    for (size_t i = 0; i < base * len; i++) x[i] *= scale;
}

void bt_edge_rotate_ref(float *x, size_t ldx, size_t t, size_t blocks, const int8_t *h_base, uint32_t base,
                        uint32_t log2, const int8_t *sign, float scale, float *scratch)
{
    const size_t len = (size_t)1 << log2;
    for (size_t row = 0; row < t; row++)
        for (size_t b = 0; b < blocks; b++)
            rotate_block(x + row * ldx + b * base * len, h_base, base, len, sign, scale, scratch);
}

/* Adding and subtracting 1.5 * 2^23 rounds to a whole number, ties to even. */
static int8_t nearest8(float x)
{
    const float v = x > -127.0f ? x < 127.0f ? x : 127.0f : -127.0f, big = 0x1.8p+23f;
    return (int8_t)(v + big - big);
}

static void store_row8(int8_t *row, const float *x, size_t d)
{
    float top = 0;
    for (size_t i = 0; i < d; i++) {
        const float size = x[i] < 0 ? -x[i] : x[i];
        if (size > top) top = size;
    }
    const float exact = top / 127.0f;
    const uint16_t bits = f16_from_f32(exact < 65504.0f ? exact : 65504.0f);
    const float s = f16_to_f32(bits);
    for (size_t i = 0; i < d; i++) row[i] = s > 0 ? nearest8(x[i] / s) : 0;
    memcpy(row + d, &bits, sizeof bits);
}

static void store_row(const bt_kv_view *kv, uint8_t *row, const float *x)
{
    const size_t d = kv->head_dim;
    if (kv->elem_bytes == 4) {
        memcpy(row, x, d * sizeof *x);
        return;
    }
    if (kv->elem_bytes == 1) {
        store_row8((void *)row, x, d);
        return;
    }
    uint16_t *y = (void *)row;
    for (size_t i = 0; i < d; i++) y[i] = f16_from_f32(x[i]);
}

void bt_kv_store_ref(const bt_kv_view *kv, size_t layer, size_t pos0, size_t t, const float *k,
                     const float *v, size_t ld)
{
    const size_t d = kv->head_dim;
    for (size_t row = 0; row < t; row++)
        for (size_t g = 0; g < kv->kv_heads; g++) {
            store_row(kv, bt_kv_view_row(kv, layer, 0, pos0 + row, g), k + row * ld + g * d);
            store_row(kv, bt_kv_view_row(kv, layer, 1, pos0 + row, g), v + row * ld + g * d);
        }
}
