/* Row kernels over v16; included by rows_avx2.c and rows_avx512.c after their simd header. No include guard.
 */

BT_INLINE float sum_of_squares(const float *x, size_t k)
{
    v16 l = v16_zero();
    size_t i = 0;
    for (; i + 16 <= k; i += 16) {
        const v16 v = v16_load(x + i);
        l = v16_fma(v, v, l);
    }
    if (i < k) { /* the missing lanes add +0 to sums that are never -0 */
        const v16 v = v16_load_n(x + i, k - i);
        l = v16_fma(v, v, l);
    }
    return v8_sum(v16_fold(l));
}

void BT_VARIANT(bt_rmsnorm)(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                            size_t k)
{
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        const __m128 mean = _mm_set_ss(sum_of_squares(x, k) / (float)k + eps);
        const v16 scale = v16_set1(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(mean)));
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

/* One pair: a' = fma(a, cos, -(b sin)), b' = fma(a, sin, b cos), in the scalar registers of the same
 * instructions. */
BT_INLINE void rope_pair(float *pa, float *pb, float cos, float sin)
{
    const __m128 a = _mm_set_ss(*pa), b = _mm_set_ss(*pb), c = _mm_set_ss(cos), s = _mm_set_ss(sin);
    *pa = _mm_cvtss_f32(_mm_fmsub_ss(a, c, _mm_mul_ss(b, s)));
    *pb = _mm_cvtss_f32(_mm_fmadd_ss(a, s, _mm_mul_ss(b, c)));
}

/* Pairs (i, i + half): two plain streams. */
BT_INLINE void rope_split(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i);
        const __m256 c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
    }
    for (; i < half; i++) rope_pair(x + i, x + half + i, cos[i], sin[i]);
}

/* Pairs (2i, 2i + 1): even lanes make a * cos - b * sin, odd lanes a * sin + b * cos; negating a product is
 * exact. */
BT_INLINE void rope_adjacent(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const __m256 v = _mm256_loadu_ps(x + 2 * i);
        const __m128 c = _mm_loadu_ps(cos + i), s = _mm_loadu_ps(sin + i);
        const __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
        const __m256 sc = _mm256_permute_ps(cs, 0xb1);
        const __m256 bx = _mm256_mul_ps(_mm256_movehdup_ps(v), sc);
        _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, bx));
    }
    for (; i < half; i++) rope_pair(x + 2 * i, x + 2 * i + 1, cos[i], sin[i]);
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
