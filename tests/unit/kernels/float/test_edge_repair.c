/* AC-c3: an 8-bit output that saturated is computed again in FP32. */
#include "tests/unit/kernels/integer/int_ops_kit.h"

#include "kernels/edge_repair.h"

enum { K = 100, N = 20, T = 3, LD = 128 };

typedef struct layer {
    int8_t w[N * K], hi[T * LD], lo[T * LD];
    uint8_t *panels;
    float oscale[32], bias[N];
    int zero; /* of 8-bit inputs */
    uint32_t count[T];
    bt_int_shadow shadow[T * K];
    double want[T * N]; /* the linear in double precision */
} layer;

static void fill(layer *l, unsigned bits, int is_wide, int has_shadow)
{
    memset(l, 0, sizeof *l);
    l->zero = is_wide ? 0 : rnd_whole(127);
    l->panels = bytes_new(bt_int_panels(N) * bt_int_panel_bytes(K, bits), 64);
    memset(l->panels, 0, bt_int_panels(N) * bt_int_panel_bytes(K, bits));
    for (size_t i = 0; i < N * K; i++) l->w[i] = (int8_t)rnd_whole(bits == 4 ? 7 : 127);
    bt_int_pack(l->panels, l->w, 0, N, K, bits);
    for (size_t n = 0; n < N; n++) l->oscale[n] = 1e-4f * (2 + rnd_unit()), l->bias[n] = rnd_unit();
    for (size_t t = 0; t < T; t++) {
        for (size_t k = 0; k < K; k++) {
            l->hi[t * LD + k] = (int8_t)rnd_whole(127);
            l->lo[t * LD + k] = is_wide ? (int8_t)(rnd() >> 24) : 0;
            if (has_shadow && rnd_below(9) == 0)
                l->shadow[t * K + l->count[t]++] = (bt_int_shadow){(uint32_t)k, rnd_whole(5000)};
        }
        for (size_t n = 0; n < N; n++) {
            int64_t sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += l->w[n * K + k] *
                       (is_wide ? 256 * l->hi[t * LD + k] + l->lo[t * LD + k] : l->hi[t * LD + k] - l->zero);
            for (uint32_t i = 0; i < l->count[t]; i++)
                sum += (int64_t)l->w[n * K + l->shadow[t * K + i].k] * l->shadow[t * K + i].r;
            l->want[t * N + n] = (double)sum * (double)l->oscale[n] + (double)l->bias[n];
        }
    }
}

static bt_edge_repair repair_of(const layer *l, unsigned bits, int is_wide, int has_shadow, float unit)
{
    return (bt_edge_repair){.hi = l->hi,
                            .lo = is_wide ? l->lo : NULL,
                            .ld = LD,
                            .shadow_count = has_shadow ? l->count : NULL,
                            .shadow = has_shadow ? l->shadow : NULL,
                            .panels = l->panels,
                            .k = K,
                            .bits = bits,
                            .zero = l->zero,
                            .oscale = l->oscale,
                            .bias = l->bias,
                            .unit = unit};
}

/* Distance in units of the last place of f16: 2^-10 of the power of two below. */
static double f16_ulps(double a, double b)
{
    int e;
    frexp(b, &e);
    return fabs(a - b) / ldexp(1, e - 11);
}

static void saturated_outputs_become_the_fp32_dot_product_within_an_ulp_of_f16(void **state)
{
    (void)state;
    layer l;
    size_t saturated = 0;
    for (int kind = 0; kind < 8; kind++) {
        const unsigned bits = kind & 1 ? 4 : 8;
        const int is_wide = kind >> 1 & 1, has_shadow = kind >> 2 & !is_wide;
        fill(&l, bits, is_wide, has_shadow);
        double max = 0;
        for (size_t i = 0; i < T * N; i++) max = fmax(max, fabs(l.want[i]));
        /* a calibration that saw less than half */
        const float scale8 = (float)(max / 127 / 2.5), unit = scale8 / BT_EDGE_REPAIR_STEPS;
        const bt_edge_repair r = repair_of(&l, bits, is_wide, has_shadow, unit);
        int16_t y[T * N], q[T * N];
        for (size_t i = 0; i < T * N; i++)
            q[i] = y[i] = (int16_t)fmin(fmax(rint(l.want[i] / (double)scale8), -127), 127);
        size_t expected = 0;
        for (size_t i = 0; i < T * N; i++) expected += abs(q[i]) == 127;
        assert_int_equal(bt_edge_repair_rows(y, N, &r, 0, T, 0, N), expected);
        for (size_t i = 0; i < T * N; i++) {
            if (abs(q[i]) < 127) assert_int_equal(y[i], q[i] * BT_EDGE_REPAIR_STEPS);
            else assert_true(f16_ulps(y[i] * (double)unit, l.want[i]) <= 1);
        }
        saturated += expected;
        free(l.panels);
    }
    printf("%zu of %d outputs saturated\n", saturated, 8 * T * N);
    assert_true(saturated > 50);
}

static void a_part_of_the_rows_and_outputs_is_repaired_alike(void **state)
{
    (void)state;
    layer l;
    fill(&l, 8, 0, 1);
    const bt_edge_repair r = repair_of(&l, 8, 0, 1, 1e-3f);
    int16_t whole[T * N], y[2 * 5];
    for (size_t i = 0; i < T * N; i++) whole[i] = i % 2 ? 127 : -127;
    for (size_t i = 0; i < 2 * 5; i++) y[i] = 127;
    (void)bt_edge_repair_rows(whole, N, &r, 0, T, 0, N);
    assert_int_equal(bt_edge_repair_rows(y, 5, &r, 1, 2, 7, 5), 10);
    for (size_t t = 0; t < 2; t++) assert_memory_equal(y + 5 * t, whole + (1 + t) * N + 7, 5 * sizeof *y);
    free(l.panels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saturated_outputs_become_the_fp32_dot_product_within_an_ulp_of_f16),
        cmocka_unit_test(a_part_of_the_rows_and_outputs_is_repaired_alike),
    };
    printf("seed %llu\n", (unsigned long long)test_rng_state);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
