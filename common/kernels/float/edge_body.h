/* The kernels of edge.h over v16; included by edge_<isa>.c after its simd header and its conversions (edge_avx2.c says
 * what they mean). No include guard. */

BT_INLINE v16 quantise(v16 x, v16 inv)
{
    /* max and min give their second operand where the first is a NaN */
    const v16 v = v16_max(v16_mul(x, inv), v16_set1(-(float)BT_EDGE_LIMIT));
    return v16_min(v, v16_set1(BT_EDGE_LIMIT));
}

/* Lists what the clamp to [low, high] takes away from inputs i .. i + 15, and returns how many entries it made. */
BT_INLINE uint32_t list_shadow(bt_int_shadow *list, v16 v, int32_t low, int32_t high, size_t i)
{
    int32_t q[16];
    uint32_t count = 0;
    v16_store_s32(q, v);
    for (unsigned left = v16_beyond(v, low, high); left; left &= left - 1) {
        const unsigned j = (unsigned)__builtin_ctz(left);
        list[count++] = (bt_int_shadow){(uint32_t)i + j, q[j] < low ? q[j] - low : q[j] - high};
    }
    return count;
}

void BT_VARIANT(bt_edge_quantise8)(int8_t *restrict y, size_t ldy, const float *restrict x, size_t ldx, float inv,
                                   bt_int_range range, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    const v16 by = v16_set1(inv);
    for (size_t row = 0; row < t; row++, y += ldy, x += ldx) {
        bt_int_shadow *list = shadow ? shadow + row * k : NULL;
        uint32_t beyond = 0;
        size_t i = 0;
        for (; i < k; i += 16) { /* ldy holds whole sixteens */
            const size_t n = k - i < 16 ? k - i : 16;
            const v16 v = quantise(v16_load_n(x + i, n), by);
            int over;
            v16_s8_store(y + i, v16_to_s8_in(v, range, &over));
            if (over && list) beyond += list_shadow(list + beyond, v, range.least - range.zero, 127 - range.zero, i);
        }
        memset(y + k, 0, ldy - k);
        if (list) count[row] = beyond;
    }
}

void BT_VARIANT(bt_edge_quantise16)(int8_t *restrict hi, int8_t *restrict lo, size_t ldy, const float *restrict x,
                                    size_t ldx, float inv, size_t t, size_t k, bt_int_shadow *shadow, uint32_t *count)
{
    const v16 by = v16_set1(inv);
    for (size_t row = 0; row < t; row++, hi += ldy, lo += ldy, x += ldx) {
        bt_int_shadow *list = shadow ? shadow + row * k : NULL;
        uint32_t beyond = 0;
        size_t i = 0;
        for (; i < k; i += 16) {
            const size_t n = k - i < 16 ? k - i : 16;
            const v16 v = quantise(v16_load_n(x + i, n), by);
            const int over = v16_store_planes(hi + i, lo + i, v);
            if (over && list) beyond += list_shadow(list + beyond, v, -BT_INT_MAX16, BT_INT_MAX16, i);
        }
        memset(hi + i, 0, ldy - i), memset(lo + i, 0, ldy - i);
        if (list) count[row] = beyond;
    }
}

/* Integers clamped to [-127, 127]; *over: whether any was beyond. */
BT_INLINE v16_s8 v16_to_s8(v16 x, int *over) { return v16_to_s8_in(x, BT_INT_SYMMETRIC, over); }

/* Quantises a row with the unit s; writes whole sixteens to q. Returns the row's error. */
BT_INLINE float estimate_row(int8_t *q, const float *x, float s, float inv, size_t k)
{
    const v16 by = v16_set1(inv), unit = v16_set1(s);
    v16 sum = v16_zero();
    int over;
    for (size_t i = 0; i < k; i += 16) {
        const v16 v = v16_load_n(x + i, k - i < 16 ? k - i : 16);
        v16_s8_store(q + i, v16_to_s8(quantise(v, by), &over));
        const v16 r = v16_fnma(v16_from_s8(q + i), unit, v);
        sum = v16_fma(r, r, sum);
    }
    return v8_sum(v16_fold(sum));
}

void BT_VARIANT(bt_edge_estimate8)(int8_t *restrict y, size_t ldy, uint8_t *restrict shift, const float *restrict x,
                                   size_t ldx, float scale, size_t t, size_t k)
{
    const size_t bytes = (k + 15) / 16 * 16;
    const float inv = 1 / scale;
    int8_t q[3][256];
    for (size_t row = 0; row < t; row++, y += ldy, x += ldx) {
        const float error[3] = {estimate_row(q[0], x, scale * 0.5f, inv * 2, k), estimate_row(q[1], x, scale, inv, k),
                                estimate_row(q[2], x, scale * 2, inv * 0.5f, k)};
        int e = error[1] < error[0];
        if (error[2] < error[e]) e = 2;
        shift[row] = (uint8_t)e;
        memcpy(y, q[e], bytes);
        memset(y + bytes, 0, ldy - bytes);
    }
}

BT_INLINE void scale_store(float *y, v16 v, const float *scale, const float *bias, size_t n, bt_edge_then then)
{
    v = v16_mul(v, v16_load_n(scale, n));
    if (bias) v = v16_add(v, v16_load_n(bias, n));
    if (then == BT_EDGE_ADD) v = v16_add(v, v16_load_n(y, n));
    if (then == BT_EDGE_SILU_MUL) v = v16_silu_mul(v16_load_n(y, n), v);
    v16_store_n(y, v, n);
}

/* Calls f with `then` as a constant. */
#define EACH_THEN(then, f, ...) \
    do { \
        if ((then) == BT_EDGE_STORE) f(__VA_ARGS__, BT_EDGE_STORE); \
        else if ((then) == BT_EDGE_ADD) f(__VA_ARGS__, BT_EDGE_ADD); \
        else f(__VA_ARGS__, BT_EDGE_SILU_MUL); \
    } while (0)

BT_INLINE void scale8(float *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc, const float *scale,
                      const float *bias, size_t t, size_t n, bt_edge_then then)
{
    for (size_t row = 0; row < t; row++, y += ldy, acc += ldacc) {
        size_t i = 0;
        for (; i + 16 <= n; i += 16)
            scale_store(y + i, v16_from_s32(acc + i), scale + i, bias ? bias + i : NULL, 16, then);
        if (i == n) continue;
        int32_t tail[16] = {0};
        memcpy(tail, acc + i, (n - i) * sizeof *acc);
        scale_store(y + i, v16_from_s32(tail), scale + i, bias ? bias + i : NULL, n - i, then);
    }
}

void BT_VARIANT(bt_edge_scale8)(float *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                                const float *scale, const float *bias, size_t t, size_t n, bt_edge_then then)
{
    EACH_THEN(then, scale8, y, ldy, acc, ldacc, scale, bias, t, n);
}

BT_INLINE void scale16(float *restrict y, size_t ldy, const int32_t *restrict hi, const int32_t *restrict lo,
                       size_t ldacc, const float *scale, const float *bias, size_t t, size_t n, bt_edge_then then)
{
    for (size_t row = 0; row < t; row++, y += ldy, hi += ldacc, lo += ldacc) {
        size_t i = 0;
        for (; i + 16 <= n; i += 16)
            scale_store(y + i, v16_from_planes(hi + i, lo + i), scale + i, bias ? bias + i : NULL, 16, then);
        if (i == n) continue;
        int32_t tail[2][16] = {{0}};
        memcpy(tail[0], hi + i, (n - i) * sizeof *hi);
        memcpy(tail[1], lo + i, (n - i) * sizeof *lo);
        scale_store(y + i, v16_from_planes(tail[0], tail[1]), scale + i, bias ? bias + i : NULL, n - i, then);
    }
}

void BT_VARIANT(bt_edge_scale16)(float *restrict y, size_t ldy, const int32_t *restrict hi, const int32_t *restrict lo,
                                 size_t ldacc, const float *scale, const float *bias, size_t t, size_t n,
                                 bt_edge_then then)
{
    EACH_THEN(then, scale16, y, ldy, hi, lo, ldacc, scale, bias, t, n);
}

/* Such rows are rare, so `then` is not made a constant. */
void BT_VARIANT(bt_edge_scale64)(float *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                                 const float *scale, const float *bias, size_t t, size_t n, bt_edge_then then)
{
    for (size_t row = 0; row < t; row++, y += ldy, acc += ldacc) {
        size_t i = 0;
        for (; i + 16 <= n; i += 16)
            scale_store(y + i, v16_from_s64(acc + i), scale + i, bias ? bias + i : NULL, 16, then);
        if (i == n) continue;
        int64_t tail[16] = {0};
        memcpy(tail, acc + i, (n - i) * sizeof *acc);
        scale_store(y + i, v16_from_s64(tail), scale + i, bias ? bias + i : NULL, n - i, then);
    }
}

/* ---- rotate ---- */

/* Signs, then butterflies of lengths 1 to 8 inside each vector, then of 16 and more between vectors. a - b and a + -b
 * have the same bits. */
static void butterflies(float *x, size_t elems, size_t len, const int8_t *sign)
{
    for (size_t i = 0; i < elems; i += 16) {
        v16 v = v16_load(x + i);
        if (sign) v = v16_mul(v, v16_from_s8(sign + i));
        v16_store(x + i, v16_butterflies(v));
    }
    for (size_t step = 16; step < len; step *= 2)
        for (size_t i = 0; i < elems; i += 2 * step)
            for (size_t j = i; j < i + step; j += 16) {
                const v16 a = v16_load(x + j), b = v16_load(x + j + step);
                v16_store(x + j, v16_add(a, b)), v16_store(x + j + step, v16_sub(a, b));
            }
}

/* The same for len < 16. */
static void butterflies_short(float *x, size_t elems, size_t len, const int8_t *sign)
{
    if (sign)
        for (size_t i = 0; i < elems; i++) x[i] *= sign[i];
    for (size_t step = 1; step < len; step *= 2)
        for (size_t i = 0; i < elems; i += 2 * step)
            for (size_t j = i; j < i + step; j++) {
                const float a = x[j], b = x[j + step];
                x[j] = a + b, x[j + step] = a - b;
            }
}

/* y = H_base x over the base's index, for elements j .. j + n - 1; four results at a time. */
BT_INLINE void base_columns(float *y, const float *x, const int8_t *h, size_t base, size_t len, size_t j, size_t n)
{
    for (size_t c = 0; c < base; c += 4) {
        const size_t rows = base - c < 4 ? base - c : 4;
        v16 sum[4] = {v16_zero(), v16_zero(), v16_zero(), v16_zero()};
        for (size_t b = 0; b < base; b++) {
            const v16 v = v16_load_n(x + b * len + j, n), minus = v16_neg(v);
            for (size_t r = 0; r < rows; r++) {
                const v16 term = h[(c + r) * base + b] > 0 ? v : minus;
                sum[r] = b ? v16_add(sum[r], term) : term;
            }
        }
        for (size_t r = 0; r < rows; r++) v16_store_n(y + (c + r) * len + j, sum[r], n);
    }
}

void BT_VARIANT(bt_edge_rotate)(float *x, size_t ldx, size_t t, size_t blocks, const int8_t *h_base, uint32_t base,
                                uint32_t log2, const int8_t *sign, float scale, float *scratch)
{
    const size_t len = (size_t)1 << log2, elems = base * len;
    const v16 by = v16_set1(scale);
    for (size_t row = 0; row < t; row++)
        for (size_t b = 0; b < blocks; b++) {
            float *y = x + row * ldx + b * elems;
            const float *from = y;
            if (len >= 16) butterflies(y, elems, len, sign);
            else butterflies_short(y, elems, len, sign);
            if (base > 1) {
                for (size_t j = 0; j < len; j += 16)
                    base_columns(scratch, y, h_base, base, len, j, len - j < 16 ? len - j : 16);
                from = scratch;
            }
            for (size_t i = 0; i < elems; i += 16) {
                const size_t n = elems - i < 16 ? elems - i : 16;
                v16_store_n(y + i, v16_mul(v16_load_n(from + i, n), by), n);
            }
        }
}
