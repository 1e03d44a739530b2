/* The integer operators against double precision: the acceptance checks of their formulas, on the plain
 * variant (test_int_ops_bits.c holds the others to its bits). */
#include "int_ops_kit.h"

static void exp_on_negative_values_agrees_with_exp(void **state)
{
    (void)state;
    double worst = 0;
    for (int64_t a = 0; a >= -INT32_MAX; a -= a > -100000 ? 7 : 99991) {
        const double error = fabs(ldexp(bt_int_exp((int32_t)a), -31) - exp(ldexp((double)a, -26)));
        if (error > worst) worst = error;
    }
    printf("greatest error of exp: 2^%.2f\n", log2(worst));
    assert_true(worst < 0x1p-22);
    assert_int_equal(bt_int_exp(0), INT32_MAX);
    assert_int_equal(bt_int_exp(-INT32_MAX), 0);
}

static void one_over_one_plus_agrees_with_division(void **state)
{
    (void)state;
    double worst = 0;
    for (int64_t a = 0; a <= INT32_MAX; a += 50021) {
        const double error =
            fabs(ldexp(bt_int_one_over_one_plus((int32_t)a), -31) - 1 / (1 + ldexp((double)a, -31)));
        if (error > worst) worst = error;
    }
    printf("greatest error of 1 / (1 + x): 2^%.2f\n", log2(worst));
    assert_true(worst < 0x1p-28);
}

static void isqrt_is_the_floor_of_the_root(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t v = ((uint64_t)rnd() << 32 | rnd()) >> rnd_below(64);
        if (i < 64) v = UINT64_C(1) << i;
        if (i >= 64 && i < 128) v = (UINT64_C(1) << (i - 64)) - 1;
        if (i == 128) v = UINT64_MAX;
        const uint64_t r = bt_int_isqrt(v);
        assert_true(r * r <= v);
        assert_true(r == UINT32_MAX || (r + 1) * (r + 1) > v);
    }
}

/* AC-i4: 10,000 rows, constant ones and zeros among them. */
static void rmsnorm_is_within_a_millionth_of_double_precision(void **state)
{
    (void)state;
    enum { K_MAX = 64, ROWS = 10000 };
    double worst = 0;
    for (int row = 0; row < ROWS; row++) {
        const size_t k = 1 + rnd_below(K_MAX);
        const int32_t limit = 1 << (1 + rnd_below(30)), limit_w = 1 << 28;
        int32_t x[K_MAX], wq[K_MAX], y[K_MAX], one = rnd_whole(limit - 1);
        double w[K_MAX], sum = 0;
        const double unit_y = ldexp(1, -(int)rnd_below(16)), eps = row % 3 ? ldexp(limit, -10) : 0;
        const unsigned f = 12;
        for (size_t i = 0; i < k; i++) {
            x[i] = row % 7 == 0 ? one : row % 7 == 1 ? 0 : rnd_whole(limit - 1);
            sum += (double)x[i] * x[i];
            wq[i] = rnd_whole(limit_w);
            w[i] = ldexp(wq[i], -(int)f) / sqrt((double)k) * unit_y; /* the weight that wq stands for */
        }
        const uint64_t keps = (uint64_t)llround((double)k * eps);
        ref_kernels()->int_rmsnorm32(y, k, x, k, wq, 0, f, keps, 1, k);
        const double rms = sqrt((sum + (double)keps) / (double)k);
        for (size_t i = 0; i < k; i++) {
            double want = rms > 0 ? x[i] / rms * w[i] / unit_y : 0;
            want = fmin(fmax(want, -BT_INT_MAX32), BT_INT_MAX32);
            const double error = fabs(y[i] - want);
            assert_true(error <= 0.500001 + 2.5e-7 * fabs(want));
            if (fabs(want) > 1000 && error / fabs(want) > worst) worst = error / fabs(want);
        }
    }
    printf("greatest relative error of rmsnorm over %d rows: %.2g\n", ROWS, worst);
    assert_true(worst < 0.5e-3 + 2.5e-7); /* half a unit of a thousand */
}

/* AC-g4 */
static void rmsnorm_is_the_first_half_of_a_layernorm_of_x_and_minus_x(void **state)
{
    (void)state;
    enum { K = 100 };
    for (int trial = 0; trial < 100; trial++) {
        int32_t x[K], y[K];
        double both[2 * K], mean = 0, var = 0;
        const double eps = 1e-5 * 65536.0 * 65536.0; /* x in units of 2^-16 */
        for (size_t i = 0; i < K; i++) {
            x[i] = trial == 0 ? 12345 : rnd_whole(1 << 20);
            both[i] = x[i], both[K + i] = -both[i];
        }
        for (size_t i = 0; i < 2 * K; i++) mean += both[i] / (2 * K);
        for (size_t i = 0; i < 2 * K; i++) var += (both[i] - mean) * (both[i] - mean) / (2 * K);
        const double unit = 1.0 / 4096;
        const int32_t w1 = (int32_t)llround(sqrt(K) / unit * 4096);
        ref_kernels()->int_rmsnorm32(y, K, x, K, NULL, w1, 12, (uint64_t)llround(K * eps), 1, K);
        for (size_t i = 0; i < K; i++)
            assert_true(fabs(y[i] * unit - (both[i] - mean) / sqrt(var + eps)) < 1e-3);
    }
}

static void headnorm_gives_each_head_unit_rms(void **state)
{
    (void)state;
    enum { D = 64, HEADS = 3 };
    int16_t x[HEADS * D];
    int32_t wq[D];
    const double unit = 8.0 / BT_INT_MAX16;
    for (size_t i = 0; i < D; i++) wq[i] = (int32_t)llround(8.0 / unit * 1024);
    for (size_t i = 0; i < HEADS * D; i++) x[i] = (int16_t)(i < D ? 77 : i < 2 * D ? 0 : rnd_whole(3000));
    ref_kernels()->int_headnorm16(x, HEADS * D, HEADS, wq, 10, 64, 1, D);
    for (size_t h = 0; h < HEADS; h++) {
        double sum = 0;
        for (size_t i = 0; i < D; i++) sum += x[h * D + i] * unit * x[h * D + i] * unit;
        if (h == 1) assert_true(sum == 0);
        else assert_true(fabs(sqrt(sum / D) - 1) < 2e-3);
    }
}

static void rope_turns_each_pair_by_its_angle(void **state)
{
    (void)state;
    enum { D = 48, R = 40, HEADS = 2 };
    int16_t x[HEADS * D], y[HEADS * D], c[R / 2], s[R / 2];
    for (size_t i = 0; i < R / 2; i++) {
        c[i] = (int16_t)fmin(32767, rint(cos((double)i) * 32768));
        s[i] = (int16_t)fmin(32767, rint(sin((double)i) * 32768));
    }
    for (size_t i = 0; i < HEADS * D; i++) x[i] = (int16_t)rnd_whole(23000);
    for (int neox = 0; neox < 2; neox++) {
        memcpy(y, x, sizeof y);
        ref_kernels()->int_rope16(y, HEADS, D, R, c, s, neox);
        for (size_t h = 0; h < HEADS; h++) {
            for (size_t i = 0; i < R / 2; i++) {
                const size_t a = h * D + (neox ? i : 2 * i), b = h * D + (neox ? i + R / 2 : 2 * i + 1);
                assert_true(fabs(y[a] - (x[a] * cos((double)i) - x[b] * sin((double)i))) < 2.5);
                assert_true(fabs(y[b] - (x[a] * sin((double)i) + x[b] * cos((double)i))) < 2.5);
            }
            assert_memory_equal(y + h * D + R, x + h * D + R, (D - R) * sizeof *y);
        }
    }
}

/* AC-i3 */
static void softmax_sums_to_one_at_any_length_and_is_close_to_double_precision(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 64, 1024, 4096};
    static int32_t z[4096];
    static int16_t e[4096];
    const double unit = 0x1p-16;
    for (size_t l = 0; l < COUNT(lengths); l++)
        for (int spread = 0; spread < 5; spread++) {
            const size_t n = lengths[l];
            double max = -1e300, total = 0, sum = 0, distance = 0;
            for (size_t i = 0; i < n; i++) {
                double normal = -6;
                for (int j = 0; j < 12; j++) normal += rnd_unit() / 2 + 0.5;
                z[i] = (int32_t)lrint(normal * spread / unit);
                max = fmax(max, z[i] * unit);
            }
            const uint64_t s = ref_kernels()->int_softmax16(e, z, n, mul_of(unit * 0x1p26));
            for (size_t i = 0; i < n; i++) total += exp(z[i] * unit - max);
            for (size_t i = 0; i < n; i++) {
                const double p = e[i] / (double)s;
                sum += p;
                distance += fabs(p - exp(z[i] * unit - max) / total);
                if (spread == 0) assert_int_equal(e[i], e[0]);
            }
            assert_true(fabs(sum - 1) <= 1e-9);
            assert_true(distance < 0.016);
            if (n == 1) assert_int_equal(s, e[0]);
            if (n == 4096) printf("4096 keys, sd %d: L1 distance %.2g\n", spread, distance);
        }
    assert_int_equal(ref_kernels()->int_softmax16(e, z, 0, mul_of(1)), 0);
}

static void silu_mul_and_gelu_agree_with_double_precision(void **state)
{
    (void)state;
    double worst_gelu = 0;
    for (int trial = 0; trial < 20; trial++) {
        const double g_max = ldexp(1 + rnd_unit() / 2, trial % 8), u_max = ldexp(1, trial % 5),
                     g_unit = g_max / BT_INT_MAX16;
        const double u_unit = u_max / BT_INT_MAX16, y_unit = g_max * u_max / BT_INT_MAX16;
        for (int32_t v = -BT_INT_MAX16; v <= BT_INT_MAX16; v += 61) {
            const int16_t g = (int16_t)v, u = (int16_t)rnd_whole(BT_INT_MAX16);
            int32_t y;
            const double x = g * g_unit;
            ref_kernels()->int_silu_mul16(&y, &g, &u, 1, mul_of(g_unit * 0x1p26),
                                          mul_of(g_unit * u_unit / y_unit));
            assert_true(fabs(y - x / (1 + exp(-x)) * (u * u_unit) / y_unit) < 0.51);
            ref_kernels()->int_gelu16(&y, &g, 1, mul_of(g_unit * 0x1p28),
                                      mul_of(g_unit / (g_max / BT_INT_MAX16)));
            const double gelu = x / 2 * (1 + erf(x / sqrt(2.0))), unit = g_max / BT_INT_MAX16;
            worst_gelu = fmax(worst_gelu, fabs(y * unit - gelu) - 0.51 * unit);
            const double by_tanh = x / 2 * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
            ref_kernels()->int_gelu_mul16(&y, &g, &u, 1, mul_of(g_unit * 0x1p28),
                                          mul_of(g_unit * u_unit / y_unit));
            assert_true(fabs(y - by_tanh * (u * u_unit) / y_unit) < 0.51);
        }
    }
    printf("gelu: within %.2g of the erf form\n", worst_gelu);
    assert_true(worst_gelu < 5e-4);
}

static void add_and_split_keep_every_unit(void **state)
{
    (void)state;
    int32_t x[3] = {100, BT_INT_MAX_RESIDUAL - 1, -BT_INT_MAX_RESIDUAL};
    const int16_t y[3] = {-5, 300, -1};
    ref_kernels()->int_add32(x, y, 3, mul_of(0.5)); /* -2.5 -> -2 */
    assert_int_equal(x[0], 98);
    assert_int_equal(x[1], BT_INT_MAX_RESIDUAL);
    assert_int_equal(x[2], -BT_INT_MAX_RESIDUAL); /* -0.5 -> 0 */
    int32_t wide[100];
    int8_t q[128], hi[128], lo[128];
    bt_int_shadow shadow[100];
    uint32_t count;
    for (size_t i = 0; i < 100; i++) wide[i] = i % 9 ? rnd_whole(127) : rnd_whole(BT_INT_MAX32);
    ref_kernels()->int_split8(q, 128, wide, 100, BT_INT_SYMMETRIC, 1, 100, shadow, &count);
    int32_t back[100];
    for (size_t i = 0; i < 100; i++) back[i] = q[i];
    for (uint32_t i = 0; i < count; i++) {
        assert_true(shadow[i].r != 0 && (i == 0 || shadow[i].k > shadow[i - 1].k));
        back[shadow[i].k] += shadow[i].r;
    }
    assert_memory_equal(back, wide, sizeof wide);
    ref_kernels()->int_split16(hi, lo, 128, wide, 100, 1, 100, shadow, &count);
    for (size_t i = 0; i < 128; i++) {
        const int32_t v = i < 100 ? wide[i] : 0;
        assert_int_equal(256 * hi[i] + lo[i], v > BT_INT_MAX16    ? BT_INT_MAX16
                                              : v < -BT_INT_MAX16 ? -BT_INT_MAX16
                                                                  : v);
        if (i < 100) back[i] = 256 * hi[i] + lo[i];
    }
    for (uint32_t i = 0; i < count; i++) back[shadow[i].k] += shadow[i].r;
    assert_memory_equal(back, wide, sizeof wide);
}

static void rotate_equals_the_dense_product(void **state)
{
    (void)state;
    static const int8_t h12[4] = {1, 1, 1, -1};
    for (uint32_t base = 0; base <= 2; base++)
        for (uint32_t log2 = 0; log2 <= 6; log2++) {
            const size_t inner = (size_t)1 << log2, e = (base ? base : 1) * inner, n = 3 * e;
            int16_t *x = wholes16(2 * n, BT_INT_MAX16);
            int32_t *y = bytes_new(2 * n * sizeof *y, 4), *scratch = bytes_new(e * sizeof *scratch, 4);
            int8_t *sign = bytes_new(e, 1);
            for (size_t i = 0; i < e; i++) sign[i] = rnd() & 1 ? 1 : -1;
            const bt_int_mul mul = mul_of(0.37 / sqrt((double)e));
            ref_kernels()->int_rotate16(y, n, x, n, 2, 3, base == 2 ? h12 : NULL, base, log2, sign, mul,
                                        scratch);
            for (size_t i = 0; i < 2 * n; i++) {
                double sum = 0;
                const size_t block = i / e * e, a = i % e;
                for (size_t j = 0; j < e; j++) {
                    const int odd = __builtin_popcountll((a % inner) & (j % inner)) & 1;
                    const int h = base == 2 ? h12[a / inner * 2 + j / inner] : 1;
                    if (base) sum += sign[j] * x[block + j] * h * (odd ? -1 : 1);
                    else if (a == j) sum = x[block + j];
                }
                assert_true(fabs(y[i] - sum * value_of(mul)) <= 0.5001);
            }
            free(x), free(y), free(scratch), free(sign);
        }
}

static void from_f16_rounds_every_half_half_up(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++)
        for (int shift = -16; shift <= 30; shift += 1 + (int)rnd_below(5)) {
            const uint16_t bits = (uint16_t)h;
            int16_t y;
            ref_kernels()->int_from_f16(&y, &bits, 1, shift);
            double want = floor(ldexp((double)f16_to_f32(bits), shift) + 0.5);
            if ((h & 0x7c00) == 0x7c00) want = h & 0x8000 ? -BT_INT_MAX16 : BT_INT_MAX16;
            assert_int_equal(y, (int)fmin(fmax(want, -BT_INT_MAX16), BT_INT_MAX16));
        }
}

static void from_q8_rounds_every_product_half_up(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++)
        for (int shift = -16; shift <= 30 && (h & 0x7c00) != 0x7c00; shift += 1 + (int)rnd_below(9)) {
            const int8_t q = (int8_t)(h % 7 ? (int)rnd() : h % 2 ? -128 : 1);
            int16_t y;
            ref_kernels()->int_from_q8(&y, &q, (uint16_t)h, 1, shift);
            const double want = floor(ldexp((double)f16_to_f32((uint16_t)h) * q, shift) + 0.5);
            assert_int_equal(y, (int)fmin(fmax(want, -BT_INT_MAX16), BT_INT_MAX16));
        }
}

/* Softmax attention in double precision over the same f16 rows. */
static void attention_is_close_to_double_precision(void **state)
{
    (void)state;
    enum { D = 64, HEADS = 4, G = 2, T = 3, POS0 = 130, N = POS0 + T, WINDOW = 100 };
    int_cache c = int_cache_new(G, D, 16, N, 11, 3.0f);
    int16_t *q = wholes16(T * HEADS * D, 12000), out[T * HEADS * D];
    const double q_unit = 6.0 / BT_INT_MAX16, o_unit = 3.0 / BT_INT_MAX16, scale = 1 / sqrt(D);
    const bt_int_attention_params p = {mul_of(q_unit * 0x1p-13 * 64 * scale * 0x1p26),
                                       mul_of(0x1p-13 / o_unit), 13, 13, WINDOW};
    void *scratch = bytes_new(bt_int_attention_scratch_bytes(D, N), 64);
    for (size_t g = 0; g < G; g++)
        ref_kernels()->int_attention16(out, HEADS * D, q, HEADS * D, &c.view, 1, T, POS0, HEADS, g, &p,
                                       scratch);
    double worst = 0;
    for (size_t t = 0; t < T; t++)
        for (size_t h = 0; h < HEADS; h++) {
            double e[N], total = 0;
            for (size_t j = POS0 + t + 1 - WINDOW; j <= POS0 + t; j++) {
                double z = 0;
                for (size_t i = 0; i < D; i++)
                    z += q[(t * HEADS + h) * D + i] * q_unit *
                         (double)f16_to_f32(int_cache_row(&c, 1, 0, j, h / 2)[i]);
                e[j] = exp(z * scale);
                total += e[j];
            }
            for (size_t i = 0; i < D; i++) {
                double want = 0;
                for (size_t j = POS0 + t + 1 - WINDOW; j <= POS0 + t; j++)
                    want += e[j] / total * (double)f16_to_f32(int_cache_row(&c, 1, 1, j, h / 2)[i]);
                worst = fmax(worst, fabs(out[(t * HEADS + h) * D + i] * o_unit - want));
            }
        }
    printf("attention: greatest error %.2g, values up to 3\n", worst);
    assert_true(worst < 1e-3);
    free(q), free(scratch), int_cache_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_on_negative_values_agrees_with_exp),
        cmocka_unit_test(one_over_one_plus_agrees_with_division),
        cmocka_unit_test(isqrt_is_the_floor_of_the_root),
        cmocka_unit_test(rmsnorm_is_within_a_millionth_of_double_precision),
        cmocka_unit_test(rmsnorm_is_the_first_half_of_a_layernorm_of_x_and_minus_x),
        cmocka_unit_test(headnorm_gives_each_head_unit_rms),
        cmocka_unit_test(rope_turns_each_pair_by_its_angle),
        cmocka_unit_test(softmax_sums_to_one_at_any_length_and_is_close_to_double_precision),
        cmocka_unit_test(silu_mul_and_gelu_agree_with_double_precision),
        cmocka_unit_test(add_and_split_keep_every_unit),
        cmocka_unit_test(rotate_equals_the_dense_product),
        cmocka_unit_test(from_f16_rounds_every_half_half_up),
        cmocka_unit_test(from_q8_rounds_every_product_half_up),
        cmocka_unit_test(attention_is_close_to_double_precision),
    };
    printf("seed %llu\n", (unsigned long long)test_rng_state);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
