/* Row kernels over v16; included by rows_<isa>.c after its simd header and its rope. No include guard. */

BT_INLINE float sum_of_squares(const float *x, size_t k)
{
    v16 l = v16_zero();
    size_t i = 0;
    for (; i + 16 <= k; i += 16) {
        const v16 v = v16_load(x + i);
        l = v16_fma(v, v, l);
    }
    if (i < k) { /* missing lanes add +0, which changes no sum: a sum of squares is never -0 */
        const v16 v = v16_load_n(x + i, k - i);
        l = v16_fma(v, v, l);
    }
    return v8_sum(v16_fold(l));
}

void BT_VARIANT(bt_rmsnorm)(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                            size_t k)
{
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        const v16 scale = v16_set1(1.0f / v1_sqrt(sum_of_squares(x, k) / (float)k + eps));
        size_t i = 0;
        for (; i + 16 <= k; i += 16) v16_store(y + i, v16_mul(v16_mul(v16_load(x + i), scale), v16_load(w + i)));
        if (i < k) {
            const size_t n = k - i;
            v16_store_n(y + i, v16_mul(v16_mul(v16_load_n(x + i, n), scale), v16_load_n(w + i, n)), n);
        }
    }
}

void BT_VARIANT(bt_add)(float *restrict y, const float *restrict x, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) v16_store(y + i, v16_add(v16_load(x + i), v16_load(y + i)));
    if (i < count) {
        const size_t n = count - i;
        v16_store_n(y + i, v16_add(v16_load_n(x + i, n), v16_load_n(y + i, n)), n);
    }
}

void BT_VARIANT(bt_silu_mul)(float *y, const float *g, const float *u, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) v16_store(y + i, v16_silu_mul(v16_load(g + i), v16_load(u + i)));
    if (i < count) {
        const size_t n = count - i;
        v16_store_n(y + i, v16_silu_mul(v16_load_n(g + i, n), v16_load_n(u + i, n)), n);
    }
}

void BT_VARIANT(bt_rope)(float *x, size_t heads, size_t d, size_t r, const float *cos, const float *sin, int neox)
{
    for (size_t h = 0; h < heads; h++, x += d) {
        if (neox) rope_split(x, r / 2, cos, sin);
        else rope_adjacent(x, r / 2, cos, sin);
    }
}

void BT_VARIANT(bt_f32_to_f16)(uint16_t *restrict y, const float *restrict x, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) v16_store_f16(y + i, v16_load(x + i));
    if (i < count) {
        uint16_t tail[16];
        v16_store_f16(tail, v16_load_n(x + i, count - i));
        memcpy(y + i, tail, (count - i) * sizeof *y);
    }
}

void BT_VARIANT(bt_f16_to_f32)(float *restrict y, const uint16_t *restrict x, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) v16_store(y + i, v16_load_f16(x + i));
    if (i < count) {
        uint16_t tail[16] = {0};
        memcpy(tail, x + i, (count - i) * sizeof *x);
        v16_store_n(y + i, v16_load_f16(tail), count - i);
    }
}
