/* Rows of q and K on their way to the integer estimate. */
#include "graph/estimate.h"

#include <string.h>

/* Rows that lie in scratch, which has room for one more. */
static void quantise(const bt_estimate *e, int8_t *y, uint8_t *shift, float *x, float scale, size_t t)
{
    const bt_companion_rotation *r = &e->rotation;
    const size_t ld = bt_estimate_ld(e->head_dim);
    e->kernels->rotate(x, ld, t, 1, r->h_base, r->base, r->log2, r->sign, r->scale,
                       x + BT_ESTIMATE_ROWS * ld);
    e->kernels->estimate8(y, ld, shift, x, ld, scale, t, e->head_dim);
}

void bt_estimate_sum(float *q, const float *x, size_t head_dim, size_t n)
{
    memcpy(q, x, head_dim * sizeof *q);
    for (size_t i = 1; i < n; i++)
        for (size_t e = 0; e < head_dim; e++) q[e] += x[i * head_dim + e];
}

void bt_estimate_rows(const bt_estimate *e, int8_t *y, uint8_t *shift, const float *x, size_t ldx,
                      float scale, size_t t, void *scratch)
{
    const size_t ld = bt_estimate_ld(e->head_dim);
    float *row = scratch;
    for (size_t at = 0, n; at < t; at += n) {
        n = t - at < BT_ESTIMATE_ROWS ? t - at : BT_ESTIMATE_ROWS;
        for (size_t i = 0; i < n; i++) memcpy(row + i * ld, x + (at + i) * ldx, e->head_dim * sizeof *row);
        quantise(e, y + at * ld, shift + at, row, scale, n);
    }
}

/* An element of int8 is q * s, exactly (kernels/kv_view.h). */
static void read_int8(float *to, const uint8_t *row, size_t d)
{
    uint16_t bits;
    memcpy(&bits, row + d, sizeof bits);
    const float s = bt_f16_to_f32_1(bits);
    for (size_t i = 0; i < d; i++) to[i] = (float)(int8_t)row[i] * s;
}

void bt_estimate_keys(const bt_estimate *e, int8_t *y, uint8_t *shift, const bt_kv_view *kv, size_t layer,
                      size_t g, size_t first, float scale, size_t t, void *scratch)
{
    const size_t d = e->head_dim, ld = bt_estimate_ld(d);
    float *x = scratch;
    for (size_t i = 0; i < t; i++) {
        const uint8_t *row = bt_kv_view_row(kv, layer, 0, first + i, g);
        if (kv->elem_bytes == 1) read_int8(x + i * ld, row, d);
        else e->kernels->f16_to_f32(x + i * ld, (const uint16_t *)(const void *)row, d);
    }
    quantise(e, y, shift, x, scale, t);
}
