/* Kernels over logits: bits of every variant against ref, ref against the formulas in double. */
#include "tests/unit/kernels/variants.h"

#include <float.h>
#include <math.h>

static const size_t counts[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 255, 256, 257, 300};

/* Logits around 0, with ties, zeros of both signs, and every so often one that is far, or -inf if asked for.
 */
static float *logits_new(size_t n, bool missing)
{
    float *z = floats_new(n);
    for (size_t i = 0; i < n; i++) {
        z[i] = rnd_any(3e38f);
        if (rnd_below(3) == 0) z[i] = (float)(int)(rnd_unit() * 8) * 0.5f;
        if (missing && rnd_below(20) == 0) z[i] = -INFINITY;
    }
    return z;
}

static float highest(const float *z, size_t n)
{
    float high = -FLT_MAX;
    for (size_t i = 0; i < n; i++) high = z[i] > high ? z[i] : high;
    return high;
}

static void range_equals_ref_and_names_no_range_where_a_number_is_not_finite(void **state)
{
    const bt_kernels *v = variant_of(state);
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (size_t c = 0; c < COUNT(counts); c++)
        for (int round = 0; round < 20; round++) {
            const size_t n = counts[c];
            float *z = logits_new(n, false), want[2], got[2];
            if (round == 0) memset(z, 0x80, n * sizeof *z); /* small ones below 0, all equal */
            if (round == 1)
                for (size_t i = 0; i < n; i++) z[i] = -0.0f;
            ref_kernels()->logit_range(want, z, n);
            v->logit_range(got, z, n);
            assert_memory_equal(got, want, sizeof got);
            z[rnd_below(n)] = odd[round % 3];
            v->logit_range(got, z, n);
            assert_true(isnan(got[0]) && isnan(got[1]));
            free(z);
        }
}

static void sums_equal_ref_whatever_counts(void **state)
{
    const bt_kernels *v = variant_of(state);
    static const float temperatures[] = {0.8f, 1.0f, 1e-38f, 100.0f};
    for (size_t c = 0; c < COUNT(counts); c++)
        for (int round = 0; round < 40; round++) {
            const size_t n = counts[c];
            float *z = logits_new(n, true);
            const float z0 = round % 3 ? 4.0f : highest(z, n), t = temperatures[round % 4];
            const float least = round % 5 == 0 ? -FLT_MAX : round % 5 == 1 ? z0 : z[rnd_below(n)];
            const float want = ref_kernels()->logit_sum(z, n, z0, t, least),
                        got = v->logit_sum(z, n, z0, t, least);
            assert_memory_equal(&got, &want, sizeof got);
            free(z);
        }
}

static void bins_and_mass_equal_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    static const float scales[] = {40.0f, 0.0f, 3e-38f, FLT_MAX};
    for (size_t c = 0; c < COUNT(counts); c++)
        for (int round = 0; round < 20; round++) {
            const size_t n = counts[c], bytes = n * sizeof(int32_t);
            float *z = logits_new(n, true);
            const float z0 = highest(z, n), least = round % 3 ? z[rnd_below(n)] : -FLT_MAX;
            const float top = round % 7 ? z0 : 0.25f;
            int32_t *bin = bytes_new(bytes, 4), *mass = bytes_new(bytes, 4), *alone = bytes_new(bytes, 4);
            int32_t *want_bin = bytes_new(bytes, 4), *want_mass = bytes_new(bytes, 4);
            ref_kernels()->logit_bins(want_bin, want_mass, z, n, z0, top, least, scales[round % 4], 1024);
            v->logit_bins(bin, mass, z, n, z0, top, least, scales[round % 4], 1024);
            v->logit_bins(alone, NULL, z, n, z0, top, least, scales[round % 4], 1024);
            assert_memory_equal(bin, want_bin, bytes);
            assert_memory_equal(mass, want_mass, bytes);
            assert_memory_equal(alone, want_bin, bytes);
            free(z), free(bin), free(mass), free(alone), free(want_bin), free(want_mass);
        }
}

static void lists_equal_ref_and_write_no_more_than_they_found(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t c = 0; c < COUNT(counts); c++)
        for (int round = 0; round < 20; round++) {
            const size_t n = counts[c], bytes = n * sizeof(uint32_t);
            float *z = logits_new(n, true);
            const float a = z[rnd_below(n)], b = z[rnd_below(n)],
                        low = round % 4 && a > -FLT_MAX ? a : -FLT_MAX, high = round % 5 ? b : FLT_MAX;
            uint32_t *at = bytes_new(bytes, 4), *want = bytes_new(bytes, 4);
            assert_int_equal(v->logit_list(at, z, n, low, high),
                             ref_kernels()->logit_list(want, z, n, low, high));
            assert_memory_equal(at, want, bytes);
            free(z), free(at), free(want);
        }
}

static void ref_agrees_with_the_formulas_in_double(void **state)
{
    (void)state;
    enum { N = 256 };
    const bt_kernels *k = ref_kernels();
    float z[N], range[2];
    int32_t bin[N], mass[N];
    double sum = 0;
    for (size_t i = 0; i < N; i++) z[i] = rnd_unit() * 12;
    z[77] = 12.5f, z[200] = -12.5f;
    for (size_t i = 0; i < N; i++) sum += z[i] >= -3 ? exp(((double)z[i] - 12.5) / (double)0.8f) : 0;
    k->logit_range(range, z, N);
    assert_true(range[0] == -12.5f && range[1] == 12.5f);
    assert_true(fabs((double)k->logit_sum(z, N, 12.5f, 0.8f, -3) - sum) < 1e-6 * sum);
    k->logit_bins(bin, mass, z, N, 12.5f, 11, -3, 1023 / 20.0f, 1024);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs(mass[i] - exp((double)z[i] - 12.5) * 0x1p30) <= 0.5 + 1e-7 * mass[i]);
        if (z[i] < -3) assert_int_equal(bin[i], 0);
        else assert_true(bin[i] >= 1 && bin[i] <= 1024 && (z[i] < 11 || bin[i] == 1024));
        for (size_t j = 0; j < N; j++)
            if (z[i] >= z[j]) assert_true(bin[i] >= bin[j]);
    }
    assert_int_equal(bin[77], 1024);
    assert_int_equal(mass[77], 1 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(range_equals_ref_and_names_no_range_where_a_number_is_not_finite),
        cmocka_unit_test(sums_equal_ref_whatever_counts),
        cmocka_unit_test(bins_and_mass_equal_ref),
        cmocka_unit_test(lists_equal_ref_and_write_no_more_than_they_found),
    };
    const struct CMUnitTest once[] = {cmocka_unit_test(ref_agrees_with_the_formulas_in_double)};
    return RUN_VARIANTS(tests, once);
}
