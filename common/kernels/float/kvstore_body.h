/* bt_kv_store over v16; included by edge_<isa>.c after edge_body.h, whose conversions it uses. No include guard. */

BT_INLINE void store_f16(uint8_t *row, const float *x, size_t d)
{
    size_t i = 0;
    for (; i + 16 <= d; i += 16) v16_store_f16((void *)(row + 2 * i), v16_load(x + i));
    if (i == d) return;
    uint16_t tail[16];
    v16_store_f16(tail, v16_load_n(x + i, d - i));
    memcpy(row + 2 * i, tail, (d - i) * sizeof *tail);
}

/* The greatest magnitude of x[d]; NaN do not count. A max takes its second operand where zeros differ in sign, so zeros
 * give +0. */
BT_INLINE float top_of(const float *x, size_t d)
{
    v16 top = v16_zero();
    for (size_t i = 0; i < d; i += 16) {
        const v16 v = v16_load_n(x + i, d - i < 16 ? d - i : 16);
        top = v16_max(v16_max(v, v16_neg(v)), top);
    }
    return v8_max(v16_fold_max(top));
}

/* The integers of x / by, clamped to [-127, 127]. */
BT_INLINE v16_s8 divided(v16 x, v16 by)
{
    int over;
    return v16_to_s8(v16_min(v16_max(v16_div(x, by), v16_set1(-127)), v16_set1(127)), &over);
}

static void store_s8(uint8_t *row, const float *x, size_t d)
{
    const float exact = top_of(x, d) / 127.0f;
    const uint16_t bits = v1_to_f16(exact < 65504.0f ? exact : 65504.0f);
    const float s = v1_from_f16(bits);
    const v16 by = v16_set1(s);
    size_t i = 0;
    memcpy(row + d, &bits, sizeof bits);
    if (!(s > 0)) {
        memset(row, 0, d);
        return;
    }
    for (; i + 16 <= d; i += 16) v16_s8_store((int8_t *)row + i, divided(v16_load(x + i), by));
    if (i == d) return;
    int8_t tail[16];
    v16_s8_store(tail, divided(v16_load_n(x + i, d - i), by));
    memcpy(row + i, tail, d - i);
}

BT_INLINE void store_rows(const bt_kv_view *kv, size_t layer, int is_v, size_t pos, const float *x)
{
    const size_t d = kv->head_dim;
    uint8_t *row = bt_kv_view_row(kv, layer, is_v, pos, 0);
    for (size_t g = 0; g < kv->kv_heads; g++, row += kv->head_bytes, x += d) {
        if (kv->elem_bytes == 2) store_f16(row, x, d);
        else if (kv->elem_bytes == 1) store_s8(row, x, d);
        else memcpy(row, x, d * sizeof *x);
    }
}

void BT_VARIANT(bt_kv_store)(const bt_kv_view *kv, size_t layer, size_t pos0, size_t t, const float *k, const float *v,
                             size_t ld)
{
    for (size_t row = 0; row < t; row++, k += ld, v += ld) {
        store_rows(kv, layer, 0, pos0 + row, k);
        store_rows(kv, layer, 1, pos0 + row, v);
    }
}
