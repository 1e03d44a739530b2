/* Row kernels: bits of every variant against ref, ref against the C library in double precision. */
#include "tests/unit/kernels/variants.h"

#include <math.h>

static const size_t counts[] = {1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 172, 576};

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static void rmsnorm_equals_ref_and_works_in_place(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(counts); i++)
        for (size_t t = 1; t <= 3; t++) {
            const size_t k = counts[i], ld = k + i % 3, count = (t - 1) * ld + k;
            float *x = floats_rnd(count, 1e15f), *w = floats_rnd(k, 10), *want = floats_copy(x, count);
            float *y = floats_copy(x, count), *same = floats_copy(x, count);
            ref_kernels()->rmsnorm(want, ld, x, ld, w, 1e-5f, t, k);
            v->rmsnorm(y, ld, x, ld, w, 1e-5f, t, k);
            v->rmsnorm(same, ld, same, ld, w, 1e-5f, t, k);
            assert_memory_equal(y, want, count * sizeof *y);
            assert_memory_equal(same, want, count * sizeof *y);
            free(x), free(w), free(want), free(y), free(same);
        }
}

static void layernorm_equals_ref_and_works_in_place(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(counts); i++)
        for (size_t t = 1; t <= 3; t++) {
            const size_t k = counts[i], ld = k + i % 3, count = (t - 1) * ld + k;
            float *x = floats_rnd(count, 1e15f), *w = floats_rnd(2 * k, 10), *want = floats_copy(x, count);
            float *y = floats_copy(x, count), *same = floats_copy(x, count);
            ref_kernels()->layernorm(want, ld, x, ld, w, 1e-5f, t, k);
            v->layernorm(y, ld, x, ld, w, 1e-5f, t, k);
            v->layernorm(same, ld, same, ld, w, 1e-5f, t, k);
            assert_memory_equal(y, want, count * sizeof *y);
            assert_memory_equal(same, want, count * sizeof *y);
            free(x), free(w), free(want), free(y), free(same);
        }
}

static void pointwise_functions_equal_ref_over_the_whole_range(void **state)
{
    enum { N = 4001 };
    const bt_kernels *v = variant_of(state);
    static float x[N], y[N], want[N];
    for (uint32_t u = 0, i = 0; u < 0x7f800000; u += 1013) {
        x[i++] = from_bits(u | (rnd() & 0x80000000));
        if (i < N) continue;
        i = 0;
        v->gelu_mul(y, x, x, N);
        ref_kernels()->gelu_mul(want, x, x, N);
        assert_memory_equal(y, want, sizeof y);
        v->gelu(y, x, N);
        ref_kernels()->gelu(want, x, N);
        assert_memory_equal(y, want, sizeof y);
        v->clamp_mul(y, x, x, N);
        ref_kernels()->clamp_mul(want, x, x, N);
        assert_memory_equal(y, want, sizeof y);
        memcpy(y, x, sizeof y), memcpy(want, x, sizeof want);
        v->soft_cap(y, 30, N);
        ref_kernels()->soft_cap(want, 30, N);
        assert_memory_equal(y, want, sizeof y);
    }
}

static void dots_equal_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(counts); i++)
        for (size_t n = 1; n <= 9; n++) {
            const size_t k = counts[i];
            float *x = floats_rnd(k, 300), *w = floats_rnd(n * k, 300), *want = floats_rnd(n, 1),
                  *y = floats_rnd(n, 1);
            ref_kernels()->dots(want, x, w, n, k);
            v->dots(y, x, w, n, k);
            assert_memory_equal(y, want, n * sizeof *y);
            free(x), free(w), free(want), free(y);
        }
}

static void sums_and_products_equal_ref_and_work_in_place(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(counts); i++) {
        const size_t n = counts[i], bytes = n * sizeof(float);
        float *a = floats_rnd(n, 300), *b = floats_rnd(n, 300);
        float *want = floats_copy(b, n), *y = floats_copy(b, n);
        ref_kernels()->add(want, a, n);
        v->add(y, a, n);
        assert_memory_equal(y, want, bytes);
        ref_kernels()->add_scaled(want, a, 0.22f, n);
        v->add_scaled(y, a, 0.22f, n);
        assert_memory_equal(y, want, bytes);
        ref_kernels()->silu_mul(want, a, b, n);
        v->silu_mul(y, a, b, n);
        assert_memory_equal(y, want, bytes);
        memcpy(y, b, bytes);
        v->silu_mul(y, a, y, n);
        assert_memory_equal(y, want, bytes);
        memcpy(y, a, bytes);
        v->silu_mul(y, y, b, n);
        assert_memory_equal(y, want, bytes);
        ref_kernels()->clamp_mul(want, a, b, n);
        v->clamp_mul(y, a, b, n);
        assert_memory_equal(y, want, bytes);
        memcpy(y, b, bytes);
        v->clamp_mul(y, a, y, n);
        assert_memory_equal(y, want, bytes);
        memcpy(y, a, bytes);
        v->clamp_mul(y, y, b, n);
        assert_memory_equal(y, want, bytes);
        free(a), free(b), free(want), free(y);
    }
}

static void exp_inside_silu_equals_ref_over_the_whole_range(void **state)
{
    enum { N = 4096 };
    const bt_kernels *v = variant_of(state);
    static float g[N], one[N], y[N], want[N];
    for (size_t i = 0; i < N; i++) one[i] = 1;
    for (uint32_t u = 0, i = 0; u < 0x7f800000; u += 1013) {
        g[i++] = from_bits(u | (rnd() & 0x80000000));
        if (i < N) continue;
        i = 0;
        v->silu_mul(y, g, one, N);
        ref_kernels()->silu_mul(want, g, one, N);
        assert_memory_equal(y, want, sizeof y);
    }
}

static void rope_equals_ref_for_both_pairings(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t d = 2; d <= 80; d += 2)
        for (size_t r = 2; r <= d; r += d < 24 ? 2 : 14)
            for (int neox = 0; neox < 2; neox++) {
                const size_t n = 3 * d;
                float *x = floats_rnd(n, 1e6f), *want = floats_copy(x, n);
                float *cos = floats_rnd(r / 2, 1), *sin = floats_rnd(r / 2, 1);
                ref_kernels()->rope(want, 3, d, r, cos, sin, neox);
                v->rope(x, 3, d, r, cos, sin, neox);
                assert_memory_equal(x, want, n * sizeof *x);
                free(x), free(want), free(cos), free(sin);
            }
}

static void f16_conversions_equal_ref_for_every_half_and_around_each_tie(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t one = (uint16_t)h;
        float f, g;
        v->f16_to_f32(&f, &one, 1);
        ref_kernels()->f16_to_f32(&g, &one, 1);
        assert_int_equal(to_bits(f), to_bits(g));
        float x[9];
        uint16_t y[9], want[9];
        for (uint32_t i = 0; i < 9; i++) x[i] = from_bits(to_bits(f) + (i / 3) * 0x800 + i % 3 - 1);
        v->f32_to_f16(y, x, 9);
        ref_kernels()->f32_to_f16(want, x, 9);
        assert_memory_equal(y, want, sizeof y);
    }
    for (size_t i = 0; i < COUNT(counts); i++) {
        const size_t n = counts[i];
        float *x = floats_rnd(n, 1e6f), *back = floats_new(n), *want_back = floats_new(n);
        uint16_t *y = bytes_new(n * sizeof *y, 2), *want = bytes_new(n * sizeof *y, 2);
        v->f32_to_f16(y, x, n);
        ref_kernels()->f32_to_f16(want, x, n);
        assert_memory_equal(y, want, n * sizeof *y);
        v->f16_to_f32(back, y, n);
        ref_kernels()->f16_to_f32(want_back, y, n);
        assert_memory_equal(back, want_back, n * sizeof *back);
        free(x), free(back), free(want_back), free(y), free(want);
    }
}

static void ref_f16_is_the_nearest_half_and_ties_go_to_even(void **state)
{
    (void)state;
    assert_int_equal(bt_f32_to_f16_1(1.0f), 0x3c00);
    assert_int_equal(bt_f32_to_f16_1(-2.0f), 0xc000);
    assert_int_equal(bt_f32_to_f16_1(65519.996f), 0x7bff);
    assert_int_equal(bt_f32_to_f16_1(65520.0f), 0x7c00);
    assert_int_equal(bt_f32_to_f16_1(0x1p-25f), 0);
    for (uint16_t h = 0; h < 0x7bff; h++) {
        const int e = h >> 10, m = h & 0x3ff;
        const double x = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        const float f = bt_f16_to_f32_1(h), next = bt_f16_to_f32_1((uint16_t)(h + 1)), tie = (f + next) / 2;
        assert_true((double)f == x);
        assert_true((double)bt_f16_to_f32_1(h | 0x8000) == -x);
        assert_int_equal(bt_f32_to_f16_1(f), h);
        assert_int_equal(bt_f32_to_f16_1(nextafterf(tie, 0)), h);
        assert_int_equal(bt_f32_to_f16_1(tie), h + (h & 1));
        assert_int_equal(bt_f32_to_f16_1(-tie), (h + (h & 1)) | 0x8000);
        assert_int_equal(bt_f32_to_f16_1(nextafterf(tie, 1e9f)), h + 1);
    }
}

static void ref_exp_agrees_with_double_exp(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t u = 0; u <= to_bits(88.0f); u += 499)
        for (int negative = 0; negative < 2; negative++) {
            const float x = from_bits(u | (negative ? 0x80000000 : 0));
            if (x < -87.0f) continue;
            const double want = exp((double)x), error = fabs(bt_exp1(x) - want) / want;
            if (error > worst) worst = error;
        }
    printf("greatest relative error of exp: 2^%.2f\n", log2(worst));
    assert_true(worst < 0x1p-23);
    assert_int_equal(to_bits(bt_exp1(-87.01f)), 0);
    assert_int_equal(to_bits(bt_exp1(-INFINITY)), 0);
    assert_true(bt_exp1(0.0f) == 1.0f && bt_exp1(-0.0f) == 1.0f);
    assert_true(bt_exp1(1000.0f) == bt_exp1(88.0f));
}

static void ref_tanh_agrees_with_double_tanh(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t u = to_bits(1e-30f); u <= to_bits(100.0f); u += 499)
        for (int negative = 0; negative < 2; negative++) {
            const float x = from_bits(u | (negative ? 0x80000000 : 0));
            const double want = tanh((double)x), error = fabs(bt_tanh1(x) - want) / fabs(want);
            if (error > worst) worst = error;
        }
    printf("greatest relative error of tanh: 2^%.2f\n", log2(worst));
    assert_true(worst < 0x1p-22);
    assert_true(bt_tanh1(0.0f) == 0.0f && bt_tanh1(INFINITY) == 1.0f && bt_tanh1(-INFINITY) == -1.0f);
    assert_true(bt_tanh1(10.0f) == 1.0f && bt_tanh1(-10.0f) == -1.0f);
    assert_true(isnan(bt_tanh1(NAN)));
}

static void ref_rows_agree_with_double_precision(void **state)
{
    (void)state;
    enum { K = 100 };
    float x[K], w[K], y[K], u[K], c[K / 2], s[K / 2];
    double sum = 0;
    for (size_t i = 0; i < K; i++) x[i] = rnd_unit() * 9, w[i] = rnd_unit(), u[i] = rnd_unit();
    for (size_t i = 0; i < K; i++) sum += (double)x[i] * x[i];
    ref_kernels()->rmsnorm(y, K, x, K, w, 1e-5f, 1, K);
    for (size_t i = 0; i < K; i++)
        assert_true(fabs(y[i] - x[i] / sqrt(sum / K + 1e-5) * w[i]) <= 1e-6 * fabs((double)y[i]));
    double mean = 0, variance = 0;
    for (size_t i = 0; i < K; i++) mean += (double)x[i] / K;
    for (size_t i = 0; i < K; i++) variance += (x[i] - mean) * (x[i] - mean) / K;
    float both[2 * K];
    memcpy(both, w, sizeof w), memcpy(both + K, u, sizeof u);
    ref_kernels()->layernorm(y, K, x, K, both, 1e-5f, 1, K);
    for (size_t i = 0; i < K; i++)
        assert_true(fabs(y[i] - ((x[i] - mean) / sqrt(variance + 1e-5) * w[i] + u[i])) <= 2e-6);
    ref_kernels()->gelu(y, x, K);
    for (size_t i = 0; i < K; i++) {
        const double z = (double)x[i],
                     want = z / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * z * z * z)));
        assert_true(fabs(y[i] - want) <= 1e-6 * fabs(want) + 1e-9);
    }
    ref_kernels()->silu_mul(y, x, u, K);
    for (size_t i = 0; i < K; i++)
        assert_true(fabs(y[i] - x[i] / (1 + exp(-(double)x[i])) * u[i]) <= 1e-6 * fabs((double)y[i]));
    for (size_t i = 0; i < K; i++) u[i] = rnd_unit() * 12;
    ref_kernels()->clamp_mul(y, x, u, K);
    for (size_t i = 0; i < K; i++) {
        const double a = fmin(x[i], 7), want = a / (1 + exp(-1.702 * a)) * (fmax(-7, fmin(u[i], 7)) + 1);
        assert_true(fabs(y[i] - want) <= 2e-6 * fabs(want) + 1e-9);
    }
    for (size_t i = 0; i < K / 2; i++) c[i] = cosf((float)i), s[i] = sinf((float)i);
    for (int neox = 0; neox < 2; neox++) {
        memcpy(y, x, sizeof y);
        ref_kernels()->rope(y, 1, K, 80, c, s, neox);
        for (size_t i = 0; i < 40; i++) { /* a turn of the plane: angle i */
            const size_t a = neox ? i : 2 * i, b = neox ? i + 40 : 2 * i + 1;
            assert_true(fabs(y[a] - (x[a] * cos((double)i) - x[b] * sin((double)i))) < 1e-5);
            assert_true(fabs(y[b] - (x[a] * sin((double)i) + x[b] * cos((double)i))) < 1e-5);
        }
        assert_memory_equal(y + 80, x + 80, 20 * sizeof *y);
    }
}

int main(void)
{
    const struct CMUnitTest once[] = {
        cmocka_unit_test(ref_f16_is_the_nearest_half_and_ties_go_to_even),
        cmocka_unit_test(ref_exp_agrees_with_double_exp),
        cmocka_unit_test(ref_tanh_agrees_with_double_tanh),
        cmocka_unit_test(ref_rows_agree_with_double_precision),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_equals_ref_and_works_in_place),
        cmocka_unit_test(layernorm_equals_ref_and_works_in_place),
        cmocka_unit_test(pointwise_functions_equal_ref_over_the_whole_range),
        cmocka_unit_test(dots_equal_ref),
        cmocka_unit_test(sums_and_products_equal_ref_and_work_in_place),
        cmocka_unit_test(exp_inside_silu_equals_ref_over_the_whole_range),
        cmocka_unit_test(rope_equals_ref_for_both_pairings),
        cmocka_unit_test(f16_conversions_equal_ref_for_every_half_and_around_each_tie),
    };
    return RUN_VARIANTS(tests, once);
}
