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

/* x - mean of n <= 16 elements, +0 in the other lanes. */
BT_INLINE v16 apart_from(v16 mean, const float *x, size_t n)
{
    if (n == 16) return v16_sub(v16_load(x), mean);
    float d[16];
    v16_store(d, v16_sub(v16_load_n(x, n), mean));
    return v16_load_n(d, n);
}

void BT_VARIANT(bt_layernorm)(float *y, size_t ldy, const float *x, size_t ldx, const float *w, float eps, size_t t,
                              size_t k)
{
    for (size_t row = 0; row < t; row++, x += ldx, y += ldy) {
        v16 once = v16_zero(), twice = v16_zero();
        for (size_t i = 0; i < k; i += 16) once = v16_add(once, v16_load_n(x + i, k - i < 16 ? k - i : 16));
        const v16 mean = v16_set1(v8_sum(v16_fold(once)) / (float)k);
        for (size_t i = 0; i < k; i += 16) {
            const v16 d = apart_from(mean, x + i, k - i < 16 ? k - i : 16);
            twice = v16_fma(d, d, twice);
        }
        const v16 scale = v16_set1(1.0f / v1_sqrt(v8_sum(v16_fold(twice)) / (float)k + eps));
        for (size_t i = 0; i < k; i += 16) {
            const size_t n = k - i < 16 ? k - i : 16;
            const v16 d = v16_mul(v16_sub(v16_load_n(x + i, n), mean), scale);
            v16_store_n(y + i, v16_fma(d, v16_load_n(w + i, n), v16_load_n(w + k + i, n)), n);
        }
    }
}

/* Four rows at once, for as many chains of fma. A missing lane adds +0 to a sum that is never -0. */
void BT_VARIANT(bt_dots)(float *restrict y, const float *restrict x, const float *restrict w, size_t n, size_t k)
{
    for (size_t j = 0; j < n; j += 4) {
        const float *row[4];
        v16 l[4];
        for (size_t r = 0; r < 4; r++) {
            row[r] = w + (j + r < n ? j + r : j) * k;
            l[r] = v16_zero();
        }
        size_t i = 0;
        for (; i + 16 <= k; i += 16) {
            const v16 v = v16_load(x + i);
            for (int r = 0; r < 4; r++) l[r] = v16_fma(v, v16_load(row[r] + i), l[r]);
        }
        if (i < k) {
            const v16 v = v16_load_n(x + i, k - i);
            for (int r = 0; r < 4; r++) l[r] = v16_fma(v, v16_load_n(row[r] + i, k - i), l[r]);
        }
        for (size_t r = 0; r < 4 && j + r < n; r++) y[j + r] = v8_sum(v16_fold(l[r]));
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

void BT_VARIANT(bt_add_scaled)(float *restrict y, const float *restrict x, float scale, size_t count)
{
    const v16 by = v16_set1(scale);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) v16_store(y + i, v16_fma(by, v16_load(x + i), v16_load(y + i)));
    if (i < count) {
        const size_t n = count - i;
        v16_store_n(y + i, v16_fma(by, v16_load_n(x + i, n), v16_load_n(y + i, n)), n);
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

void BT_VARIANT(bt_gelu)(float *y, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        const size_t n = count - i < 16 ? count - i : 16;
        v16_store_n(y + i, v16_gelu(v16_load_n(x + i, n)), n);
    }
}

void BT_VARIANT(bt_gelu_mul)(float *y, const float *g, const float *u, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        const size_t n = count - i < 16 ? count - i : 16;
        v16_store_n(y + i, v16_mul(v16_gelu(v16_load_n(g + i, n)), v16_load_n(u + i, n)), n);
    }
}

void BT_VARIANT(bt_clamp_mul)(float *y, const float *g, const float *u, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        const size_t n = count - i < 16 ? count - i : 16;
        v16_store_n(y + i, v16_clamp_mul(v16_load_n(g + i, n), v16_load_n(u + i, n)), n);
    }
}

void BT_VARIANT(bt_soft_cap)(float *y, float cap, size_t count)
{
    const v16 by = v16_set1(cap);
    for (size_t i = 0; i < count; i += 16) {
        const size_t n = count - i < 16 ? count - i : 16;
        v16_store_n(y + i, v16_mul(v16_tanh(v16_div(v16_load_n(y + i, n), by)), by), n);
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

/* ---- logits ---- */
/* z[0 .. n), n <= 16; the other lanes are as if no id had them. */
BT_INLINE v16 logits_load_n(const float *z, size_t n)
{
    float some[16];
    if (n == 16) return v16_load(z);
    v16_store(some, v16_set1(-__builtin_inff()));
    memcpy(some, z, n * sizeof *z);
    return v16_load(some);
}

/* The least is the greatest of -z, negated. A number times +0 is a zero, where it is finite. */
void BT_VARIANT(bt_logit_range)(float ret[2], const float *z, size_t n)
{
    const v16 none = v16_zero();
    v16 high = v16_set1(*z), low = v16_neg(high), odd[2] = {none, none};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const v16 x = v16_load(z + i), y = v16_load(z + i + 16);
        high = v16_max(high, v16_max(x, y));
        low = v16_max(low, v16_max(v16_neg(x), v16_neg(y)));
        odd[0] = v16_fma(x, none, odd[0]), odd[1] = v16_fma(y, none, odd[1]);
    }
    for (; i < n; i += 16) {
        float some[16];
        v16_store(some, v16_set1(*z));
        memcpy(some, z + i, (n - i < 16 ? n - i : 16) * sizeof *z);
        const v16 x = v16_load(some);
        high = v16_max(high, x), low = v16_max(low, v16_neg(x)), odd[0] = v16_fma(x, none, odd[0]);
    }
    const bool finite = v16_bits_within(v16_add(odd[0], odd[1]), none, none) == 0xffff;
    ret[0] = finite ? 0.0f - v8_max(v16_fold_max(low)) : __builtin_nanf("");
    ret[1] = finite ? v8_max(v16_fold_max(high)) + 0.0f : __builtin_nanf("");
}

/* Vectors of which no id counts add +0, which changes no sum. */
float BT_VARIANT(bt_logit_sum)(const float *z, size_t n, float z0, float temperature, float least)
{
    const v16 top = v16_set1(z0), t = v16_set1(temperature), from = v16_set1(least);
    v16 sum = v16_zero();
    for (size_t i = 0; i < n; i += 16) {
        const v16 x = logits_load_n(z + i, n - i < 16 ? n - i : 16);
        if (!v16_any_ge(x, from)) continue;
        sum = v16_add(sum, v16_where_ge(v16_exp(v16_div(v16_sub(x, top), t)), x, from));
    }
    return v8_sum(v16_fold(sum));
}

typedef struct logit_bounds {
    v16 z0, top, least, scale, bins, most;
} logit_bounds;

BT_INLINE void logit_bins(int32_t *bin, int32_t *mass, v16 z, const logit_bounds *b)
{
    const v16 x = v16_min(v16_max(v16_mul(v16_sub(b->top, z), b->scale), v16_zero()), b->most);
    v16_store_s32(bin, v16_where_ge(v16_sub(b->bins, x), z, b->least));
    if (mass) v16_store_s32(mass, v16_mul(v16_exp(v16_sub(z, b->z0)), v16_set1(0x1p30f)));
}

void BT_VARIANT(bt_logit_bins)(int32_t *restrict bin, int32_t *restrict mass, const float *restrict z, size_t n,
                               float z0, float top, float least, float scale, float bins)
{
    const logit_bounds b = {v16_set1(z0),    v16_set1(top),  v16_set1(least),
                            v16_set1(scale), v16_set1(bins), v16_set1(bins - 1.0f)};
    size_t i = 0;
    if (mass)
        for (; i + 16 <= n; i += 16) logit_bins(bin + i, mass + i, v16_load(z + i), &b);
    else
        for (; i + 16 <= n; i += 16) logit_bins(bin + i, NULL, v16_load(z + i), &b);
    if (i < n) {
        int32_t some[2][16];
        logit_bins(some[0], some[1], logits_load_n(z + i, n - i), &b);
        memcpy(bin + i, some[0], (n - i) * sizeof *bin);
        if (mass) memcpy(mass + i, some[1], (n - i) * sizeof *mass);
    }
}

size_t BT_VARIANT(bt_logit_list)(uint32_t *restrict at, const float *restrict z, size_t n, float low, float high)
{
    const v16 from = v16_set1(low), to = v16_set1(high);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 16)
        for (unsigned in = v16_bits_within(logits_load_n(z + i, n - i < 16 ? n - i : 16), from, to); in; in &= in - 1)
            at[count++] = (uint32_t)(i + (unsigned)__builtin_ctz(in));
    return count;
}
