/* The border between floats and the NPU's integers: bits of every variant against ref; ref against the
 * definitions in double precision, and rotations against the dense product with matrices made here. */
#include "tests/unit/kernels/variants.h"

#include <math.h>

static const size_t widths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 576};

/* Inputs of a quantiser: plain ones, ties, the ends of the clamp, and what is no number. */
static float rnd_input(float scale)
{
    switch (rnd_below(16)) {
    case 0: return ((float)rnd_below(300) - 149.5f) * scale;
    case 1: return (rnd() % 2 ? 127.5f : -127.5f) * scale;
    case 2: return (rnd() % 2 ? 32639.5f : -32640.0f) * scale;
    case 3: return rnd_any(1e30f);
    case 4: return (rnd() % 2 ? 8388607.0f : -8388608.0f) * scale;
    case 5: return rnd() % 2 ? INFINITY : -INFINITY;
    case 6: return NAN;
    case 7: return rnd_unit() * 1000 * scale;
    case 8: return rnd_unit() * 40000 * scale;
    default: return rnd_unit() * 127 * scale;
    }
}

static float *inputs_new(size_t count, float scale)
{
    float *x = floats_new(count);
    for (size_t i = 0; i < count; i++) x[i] = rnd_input(scale);
    return x;
}

/* q of edge.h. */
static long quantised(float x, float inv)
{
    const float v = x * inv;
    if (!(v > -8388607.0f)) return -8388607;
    if (v > 8388607.0f) return 8388607;
    const double d = v, down = floor(d);
    if (d - down != 0.5) return (long)floor(d + 0.5);
    return (long)down + ((long)down & 1);
}

/* Symmetric, or with any zero point. */
static bt_int_range any_range(void)
{
    return rnd_below(3) ? bt_int_asymmetric((int)rnd_below(256) - 128) : BT_INT_SYMMETRIC;
}

static void quantise8_case(const bt_kernels *v, size_t t, size_t k, int with_shadow)
{
    const bt_int_range range = any_range();
    const size_t ldx = k + rnd_below(3), ldy = (k + 15) / 16 * 16 + 16 * rnd_below(5),
                 count = (t - 1) * ldx + k;
    const float inv = 7.9f;
    float *x = inputs_new(count, 1 / inv);
    int8_t *y = bytes_new(t * ldy, 1);
    bt_int_shadow *list = with_shadow ? bytes_new(t * k * sizeof *list, 4) : NULL;
    uint32_t *beyond = with_shadow ? bytes_new(t * sizeof *beyond, 4) : NULL;
    v->quantise8(y, ldy, x, ldx, inv, range, t, k, list, beyond);
    for (size_t row = 0; row < t; row++) {
        size_t at = row * k;
        for (size_t i = 0; i < ldy; i++) {
            const long q = i < k ? quantised(x[row * ldx + i], inv) + range.zero : 0;
            const long want = q < range.least ? range.least : q > 127 ? 127 : q;
            assert_int_equal(y[row * ldy + i], want);
            if (!list || q == want) continue;
            assert_int_equal(list[at].k, i);
            assert_int_equal(list[at].r, q - want);
            at++;
        }
        if (list) assert_int_equal(beyond[row], at - row * k);
    }
    free(x), free(y), free(list), free(beyond);
}

static void quantise16_case(const bt_kernels *v, size_t t, size_t k, int with_shadow)
{
    const size_t ldx = k + rnd_below(3), ldy = (k + 15) / 16 * 16 + 16 * rnd_below(5),
                 count = (t - 1) * ldx + k;
    const float inv = 130.1f;
    float *x = inputs_new(count, 1 / inv);
    int8_t *hi = bytes_new(t * ldy, 1), *lo = bytes_new(t * ldy, 1);
    bt_int_shadow *list = with_shadow ? bytes_new(t * k * sizeof *list, 8) : NULL;
    uint32_t *beyond = with_shadow ? bytes_new(t * sizeof *beyond, 4) : NULL;
    v->quantise16(hi, lo, ldy, x, ldx, inv, t, k, list, beyond);
    for (size_t row = 0; row < t; row++) {
        size_t at = row * k;
        for (size_t i = 0; i < ldy; i++) {
            const long q = i < k ? quantised(x[row * ldx + i], inv) : 0, end = BT_INT_MAX16;
            const long want = q < -end ? -end : q > end ? end : q;
            assert_int_equal(256 * hi[row * ldy + i] + lo[row * ldy + i], want);
            if (i >= k) assert_true(hi[row * ldy + i] == 0 && lo[row * ldy + i] == 0);
            if (q == want || !list) continue;
            assert_int_equal(list[at].k, i);
            assert_int_equal(list[at].r, q - want);
            at++;
        }
        if (list) assert_int_equal(beyond[row], at - row * k);
    }
    free(x), free(hi), free(lo), free(list), free(beyond);
}

static void quantise_all(const bt_kernels *v)
{
    for (int again = 0; again < 20; again++)
        for (size_t i = 0; i < COUNT(widths); i++) {
            quantise8_case(v, 1 + rnd_below(3), widths[i], again % 2);
            quantise16_case(v, 1 + rnd_below(3), widths[i], again % 2);
        }
}
static void quantise_rounds_to_even_clamps_and_lists_the_rest(void **state)
{
    quantise_all(variant_of(state));
}
static void ref_quantise_rounds_to_even_clamps_and_lists_the_rest(void **state)
{
    (void)state;
    quantise_all(ref_kernels());
}

static void quantise_equals_ref_over_all_magnitudes(void **state)
{
    const bt_kernels *v = variant_of(state);
    enum { N = 4096 };
    static float x[N];
    static int8_t y[2][N], lo[2][N];
    static bt_int_shadow list[2][N];
    for (int again = 0; again < 100; again++) {
        for (size_t i = 0; i < N; i++) {
            const uint32_t bits = rnd();
            memcpy(&x[i], &bits, sizeof bits);
        }
        const float inv = ldexpf(1 + rnd_unit() / 2, (int)rnd_below(100) - 50);
        const bt_int_range range = any_range();
        uint32_t count[2];
        v->quantise8(y[0], N, x, N, inv, range, 1, N, list[0], &count[0]);
        ref_kernels()->quantise8(y[1], N, x, N, inv, range, 1, N, list[1], &count[1]);
        assert_memory_equal(y[0], y[1], N);
        assert_int_equal(count[0], count[1]);
        assert_memory_equal(list[0], list[1], count[0] * sizeof **list);
        v->quantise16(y[0], lo[0], N, x, N, inv, 1, N, list[0], &count[0]);
        ref_kernels()->quantise16(y[1], lo[1], N, x, N, inv, 1, N, list[1], &count[1]);
        assert_int_equal(count[0], count[1]);
        assert_memory_equal(list[0], list[1], count[0] * sizeof **list);
        assert_memory_equal(y[0], y[1], N);
        assert_memory_equal(lo[0], lo[1], N);
    }
}

/* (float)a * scale + bias, each step rounded once; a in s64, at most 2^53. y: what stood there. */
static float scaled(int64_t a, float scale, const float *bias, float y, bt_edge_then then)
{
    const volatile float f = (float)(double)a, product = f * scale;
    const volatile float v = bias ? product + *bias : product;
    if (then == BT_EDGE_STORE) return v;
    if (then == BT_EDGE_ADD) return v + y;
    const volatile float below = 1.0f + bt_exp1(-y), silu = y / below;
    return silu * v;
}

/* Scales big enough that every rounding shows; with SILU_MUL small enough that nothing becomes a NaN. */
static float *scales_new(size_t n, bt_edge_then then)
{
    return floats_rnd(n, then == BT_EDGE_SILU_MUL ? 1e3f : 1e10f);
}

static void scale_then(const bt_kernels *v, bt_edge_then then)
{
    for (size_t i = 0; i < COUNT(widths); i++)
        for (size_t t = 1; t <= 3; t++)
            for (int with_bias = 0; with_bias < 2; with_bias++) {
                const size_t n = widths[i], ld = n + rnd_below(3), ldy = n + rnd_below(3),
                             count = (t - 1) * ld + n;
                const size_t bytes = ((t - 1) * ldy + n) * sizeof(float);
                int32_t *hi = bytes_new(count * sizeof *hi, 4), *lo = bytes_new(count * sizeof *lo, 4);
                int64_t *acc = bytes_new(count * sizeof *acc, 8);
                float *scale = scales_new(n, then), *bias = with_bias ? scales_new(n, then) : NULL;
                float *from = floats_rnd((t - 1) * ldy + n, 100), *y = floats_copy(from, (t - 1) * ldy + n);
                float *want = floats_copy(from, (t - 1) * ldy + n);
                for (size_t j = 0; j < count; j++) {
                    hi[j] = (int32_t)rnd() >> rnd_below(32), lo[j] = (int32_t)rnd() >> rnd_below(32);
                    if (rnd() % 16 == 0) hi[j] = rnd() % 2 ? INT32_MIN : INT32_MAX;
                    if (rnd() % 16 == 0) lo[j] = rnd() % 2 ? INT32_MIN : (1 << 24) + 1;
                    acc[j] = (int64_t)((uint64_t)rnd() << 32 | rnd()) >> (11 + rnd_below(53));
                    if (rnd() % 16 == 0) acc[j] = rnd() % 2 ? ((int64_t)1 << 53) - 1 : 1 - ((int64_t)1 << 53);
                }
#define EACH(value) \
    for (size_t row = 0; row < t; row++) \
        for (size_t j = 0, at = row * ld; j < n; j++, at++) \
    want[row * ldy + j] = scaled(value, scale[j], bias ? bias + j : NULL, from[row * ldy + j], then)
                EACH(hi[at]);
                v->scale8(y, ldy, hi, ld, scale, bias, t, n, then);
                assert_memory_equal(y, want, bytes);
                memcpy(y, from, bytes);
                EACH(256 * (int64_t)hi[at] + lo[at]);
                v->scale16(y, ldy, hi, lo, ld, scale, bias, t, n, then);
                assert_memory_equal(y, want, bytes);
                memcpy(y, from, bytes);
                EACH(acc[at]);
                v->scale64(y, ldy, acc, ld, scale, bias, t, n, then);
                assert_memory_equal(y, want, bytes);
                free(hi), free(lo), free(acc), free(scale), free(bias), free(from), free(y), free(want);
            }
}
static void scale_all(const bt_kernels *v)
{
    scale_then(v, BT_EDGE_STORE);
    scale_then(v, BT_EDGE_ADD);
    scale_then(v, BT_EDGE_SILU_MUL);
}
static void scale_rounds_the_conversion_the_product_and_the_sum(void **state)
{
    scale_all(variant_of(state));
}
static void ref_scale_rounds_the_conversion_the_product_and_the_sum(void **state)
{
    (void)state;
    scale_all(ref_kernels());
}

/* ---- rotations ---- */

/* Is a a square modulo the prime q? 1, -1, or 0 for a = 0. */
static int legendre(int a, int q)
{
    if (a % q == 0) return 0;
    for (int i = 1; i < q; i++)
        if (i * i % q == (a % q + q) % q) return 1;
    return -1;
}

/* Paley's matrices: of order q + 1 for a prime q = 3 mod 4 (not symmetric), of 2 (q + 1) for q = 1 mod 4. */
static int8_t *hadamard_new(size_t base)
{
    const int q = base == 20 ? 19 : (int)base / 2 - 1, m = q + 1;
    int8_t *h = bytes_new(base * base, 1);
    if (base == 1) return h[0] = 1, h;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            const int conference = i == 0 ? j != 0 : j == 0 ? (base == 20 ? -1 : 1) : legendre(i - j, q);
            if (base == 20) {
                h[i * 20 + j] = (int8_t)(conference + (i == j));
                continue;
            }
            for (int a = 0; a < 2; a++)
                for (int b = 0; b < 2; b++)
                    h[(2 * i + a) * (int)base + 2 * j + b] =
                        (int8_t)(conference * (a && b ? -1 : 1) + (i == j) * (a || b ? -1 : 1));
        }
    return h;
}

/* Elements (r, c) of H_base (x) S_2^log2. */
static int dense(const int8_t *h, size_t base, size_t log2, size_t r, size_t c)
{
    const size_t mask = ((size_t)1 << log2) - 1;
    const int sylvester = __builtin_popcountll(r & c & mask) % 2 ? -1 : 1;
    return h[(r >> log2) * base + (c >> log2)] * sylvester;
}

static int8_t *signs_new(size_t count)
{
    int8_t *s = bytes_new(count, 1);
    for (size_t i = 0; i < count; i++) s[i] = rnd() % 2 ? 1 : -1;
    return s;
}

/* Small whole numbers make every sum exact, in any order. */
static void rotation_equals_dense(const bt_kernels *v, size_t base, size_t log2)
{
    const size_t n = base << log2, blocks = n <= 64 ? 3 : 1, t = n <= 64 ? 2 : 1, ld = blocks * n + 5;
    const size_t count = (t - 1) * ld + blocks * n;
    int8_t *h = hadamard_new(base), *sign = signs_new(n);
    float *x = floats_new(count), *y = floats_new(count), *scratch = floats_new(n);
    for (size_t i = 0; i < count; i++) y[i] = x[i] = (float)rnd_below(17) - 8;
    v->rotate(y, ld, t, blocks, h, (uint32_t)base, (uint32_t)log2, sign, 0.5f, scratch);
    for (size_t row = 0; row < t; row++)
        for (size_t b = 0; b < blocks; b++)
            for (size_t r = 0; r < n; r++) {
                const size_t at = row * ld + b * n;
                int want = 0;
                for (size_t c = 0; c < n; c++) want += dense(h, base, log2, r, c) * sign[c] * (int)x[at + c];
                assert_true(y[at + r] == (float)want * 0.5f);
            }
    free(h), free(sign), free(x), free(y), free(scratch);
}

static void rotation_twice_is_the_identity(const bt_kernels *v, size_t base, size_t log2)
{
    const size_t n = base << log2;
    int8_t *h = hadamard_new(base), *back = bytes_new(base * base, 1), *sign = signs_new(n);
    for (size_t i = 0; i < base * base; i++) back[i] = h[i % base * base + i / base];
    float *x = floats_new(n), *y = floats_new(n), *scratch = floats_new(n);
    for (size_t i = 0; i < n; i++) y[i] = x[i] = (float)rnd_below(17) - 8;
    v->rotate(y, n, 1, 1, h, (uint32_t)base, (uint32_t)log2, NULL, 1, scratch);
    v->rotate(y, n, 1, 1, back, (uint32_t)base, (uint32_t)log2, NULL, 1, scratch);
    for (size_t i = 0; i < n; i++) assert_true(y[i] == (float)n * x[i]);
    for (size_t i = 0; i < n; i++) y[i] = x[i] = rnd_unit();
    const float scale = (float)(1 / sqrt((double)n)); /* orthogonal: lengths stay, and the inverse is the
                                                         transpose */
    double before = 0, after = 0;
    v->rotate(y, n, 1, 1, h, (uint32_t)base, (uint32_t)log2, sign, scale, scratch);
    for (size_t i = 0; i < n; i++) before += (double)x[i] * x[i], after += (double)y[i] * y[i];
    assert_true(fabs(after - before) < 1e-5 * before);
    v->rotate(y, n, 1, 1, back, (uint32_t)base, (uint32_t)log2, NULL, scale, scratch);
    for (size_t i = 0; i < n; i++) assert_true(fabsf(y[i] * sign[i] - x[i]) < 1e-5f);
    free(h), free(back), free(sign), free(x), free(y), free(scratch);
}

static const size_t bases[] = {1, 12, 20, 28, 36};

static void rotate_all(const bt_kernels *v)
{
    for (size_t log2 = 1; log2 <= 12; log2++) {
        rotation_equals_dense(v, 1, log2);
        rotation_twice_is_the_identity(v, 1, log2);
    }
    for (size_t i = 1; i < COUNT(bases); i++)
        for (size_t log2 = 0; log2 <= 6; log2++) {
            rotation_equals_dense(v, bases[i], log2);
            rotation_twice_is_the_identity(v, bases[i], log2);
        }
}
static void rotate_is_the_dense_product_and_its_own_inverse(void **state) { rotate_all(variant_of(state)); }
static void ref_rotate_is_the_dense_product_and_its_own_inverse(void **state)
{
    (void)state;
    rotate_all(ref_kernels());
}

static void rotate_equals_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(bases); i++)
        for (uint32_t log2 = 0; log2 <= 8; log2++)
            for (size_t t = 1; t <= 2; t++) {
                const size_t n = bases[i] << log2, blocks = 1 + rnd_below(3), ld = blocks * n + rnd_below(4);
                const size_t count = (t - 1) * ld + blocks * n;
                int8_t *h = hadamard_new(bases[i]), *sign = rnd() % 4 ? signs_new(n) : NULL;
                float *x = floats_rnd(count, 1e20f), *want = floats_copy(x, count), *scratch = floats_new(n);
                const float scale = rnd_unit();
                ref_kernels()->rotate(want, ld, t, blocks, h, (uint32_t)bases[i], log2, sign, scale, scratch);
                v->rotate(x, ld, t, blocks, h, (uint32_t)bases[i], log2, sign, scale, scratch);
                assert_memory_equal(x, want, count * sizeof *x);
                free(h), free(sign), free(x), free(want), free(scratch);
            }
}

int main(void)
{
    const struct CMUnitTest once[] = {
        cmocka_unit_test(ref_quantise_rounds_to_even_clamps_and_lists_the_rest),
        cmocka_unit_test(ref_scale_rounds_the_conversion_the_product_and_the_sum),
        cmocka_unit_test(ref_rotate_is_the_dense_product_and_its_own_inverse),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantise_rounds_to_even_clamps_and_lists_the_rest),
        cmocka_unit_test(quantise_equals_ref_over_all_magnitudes),
        cmocka_unit_test(scale_rounds_the_conversion_the_product_and_the_sum),
        cmocka_unit_test(rotate_is_the_dense_product_and_its_own_inverse),
        cmocka_unit_test(rotate_equals_ref),
    };
    return RUN_VARIANTS(tests, once);
}
