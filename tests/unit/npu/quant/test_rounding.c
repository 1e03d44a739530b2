/* Rounding and packing: against the formula written out; zero rows, per tensor, threads; what GPTQ saves. */
#include "npu/quant/rounding.h"
#include "base/rng.h"
#include "kernels/int_kernels.h"
#include "npu/quant/gptq.h"
#include "npu/quant/rounding_code.h"
#include "tests/helpers/model/engine_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bt_rounding make(bt_fold *f, uint32_t layer, bt_weight w, unsigned bits, bool per_tensor,
                        bt_pool *pool)
{
    const bt_rounding_in in = {.fold = f,    .layer = layer,           .weight = w,
                               .bits = bits, .per_tensor = per_tensor, .pool = pool};
    bt_rounding made;
    assert_int_equal(bt_rounding_make(&made, &in, NULL), BT_OK);
    return made;
}

static float row_max(const float *w, size_t k)
{
    float max = 0;
    for (size_t i = 0; i < k; i++) max = fmaxf(max, fabsf(w[i]));
    return max;
}

static void every_weight_is_rounded_to_the_nearest_even(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("qwen2");
    bt_fold *f;
    assert_int_equal(bt_fold_new(&f, kit.model, BT_ROTATION_R1 | BT_ROTATION_R2, bt_kernels_select(NULL),
                                 NULL, NULL),
                     BT_OK);
    for (unsigned bits = 4; bits <= 8; bits += 4)
        for (int per_tensor = 0; per_tensor < 2; per_tensor++) {
            bt_rounding w = make(f, 1, BT_WEIGHT_DOWN, bits, per_tensor, NULL);
            const float limit = bits == 4 ? 7 : 127;
            float row[172], whole = 0;
            double apart = 0, square = 0;
            assert_int_equal(w.n, 96);
            assert_int_equal(w.k, 172);
            assert_int_equal(w.scales, per_tensor ? 1 : 96);
            for (size_t n = 0; n < w.n; n++) {
                bt_fold_row(f, row, n);
                whole = fmaxf(whole, row_max(row, w.k));
            }
            for (size_t n = 0; n < w.n; n++) {
                bt_fold_row(f, row, n);
                const float scale = (per_tensor ? whole : row_max(row, w.k)) / limit;
                int32_t sum = 0;
                assert_true(w.scale[per_tensor ? 0 : n] == scale);
                for (size_t k = 0; k < w.k; k++) {
                    const float q = fmaxf(-limit, fminf(limit, nearbyintf(row[k] / scale)));
                    assert_int_equal(bt_int_packed_at(w.panels, n, k, w.k, bits), (int)q);
                    sum += (int)q;
                    apart += ((double)q * scale - row[k]) * ((double)q * scale - row[k]);
                    square += (double)row[k] * row[k];
                }
                assert_int_equal(w.colsum[n], sum);
            }
            assert_true(fabs(w.weight_error / sqrt(apart / square) - 1) < 1e-4);
            assert_true(isnan(w.output_error));
            bt_rounding_done(&w);
        }
    bt_fold_free(f);
    engine_kit_done(&kit);
}

static double group_error(const float *w, float scale, float offset, int least, int most, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double q = nearbyint(((double)w[i] - offset) / scale),
                     d = w[i] - (scale * fmax(least, fmin(most, q)) + offset);
        sum += d * d;
    }
    return sum;
}

/* At 8 bits the search gains nothing, and a step is a whole number of the channel's units. */
static void groups_lose_less_than_their_whole_range_would_and_sums_are_of_their_planes(void **state)
{
    (void)state;
    enum { GROUP = 32 };
    engine_kit kit = engine_kit_model("qwen2");
    bt_fold *f;
    assert_int_equal(bt_fold_new(&f, kit.model, BT_ROTATION_R1 | BT_ROTATION_R2, bt_kernels_select(NULL),
                                 NULL, NULL),
                     BT_OK);
    assert_int_equal(bt_fold_begin(f, 1, BT_WEIGHT_UP, NULL), BT_OK);
    for (unsigned bits = 4; bits <= 8; bits += 4) {
        const bt_rounding_in in = {.fold = f, .layer = 1, .weight = BT_WEIGHT_UP, .bits = bits,
                                   .group = GROUP};
        const int least = bits == 4 ? -8 : -127, most = bits == 4 ? 7 : 127;
        bt_rounding w;
        float row[96];
        size_t clipped = 0;
        double chosen = 0, unclipped = 0;
        assert_int_equal(bt_rounding_make(&w, &in, NULL), BT_OK);
        assert_int_equal(w.k, 96);
        assert_int_equal(w.groups_bytes, (w.n + 15) / 16 * 3 * sizeof *w.groups);
        for (size_t n = 0; n < w.n; n++) {
            int32_t sum[2] = {0};
            bt_fold_row(f, row, n);
            assert_true(w.scale[n] == row_max(row, w.k) / 16000);
            for (size_t g = 0; g < 3; g++) {
                const bt_int_group *of = &w.groups[n / 16 * 3 + g];
                const float step = of->step[n % 16] * w.scale[n], offset = of->offset[n % 16] * w.scale[n];
                float lo = row[g * GROUP], hi = lo;
                for (size_t k = g * GROUP; k < (g + 1) * GROUP; k++)
                    lo = fminf(lo, row[k]), hi = fmaxf(hi, row[k]);
                const float whole = (hi - lo) / (float)(most - least), from = lo - whole * (float)least;
                chosen += group_error(row + g * GROUP, step, offset, least, most, GROUP);
                unclipped += group_error(row + g * GROUP, whole, from, least, most, GROUP);
                clipped += step < 0.99f * whole;
                for (size_t k = g * GROUP; k < (g + 1) * GROUP; k++) {
                    const int q = bt_int_packed_at(w.panels, n, k, w.k, bits),
                              v = of->step[n % 16] * q + of->offset[n % 16], high = bt_int_plane_high(v);
                    const double nearest =
                        fmax(least, fmin(most, nearbyint(((double)row[k] - offset) / step)));
                    assert_true(fabs(q - nearest) <= 1 && abs(v) <= BT_INT_GROUP_MAX);
                    sum[0] += v - 128 * high;
                    sum[1] += high;
                }
            }
            assert_int_equal(w.colsum[n], sum[0]);
            assert_int_equal(w.colsum[(w.n + 15) / 16 * 16 + n], sum[1]);
        }
        if (chosen > (bits == 4 ? 0.95 : 1.2) * unclipped)
            fail_msg("%u bits: %g of %g, %zu clipped", bits, chosen, unclipped, clipped);
        assert_true(bits == 8 || clipped > w.n); /* else nothing was searched */
        bt_rounding_done(&w);
    }
    bt_fold_free(f);
    engine_kit_done(&kit);
}

/* 5 panels of 43 groups of four, 32 bytes each: no multiple of the 64 bytes that panels are aligned to. */
static void panels_have_exactly_their_bytes_where_these_are_no_multiple_of_their_alignment(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    bt_fold *f;
    s.dim = 80, s.heads = 5, s.kv_heads = 1, s.ffn = 172;
    engine_kit kit = engine_kit_of(&s);
    assert_int_equal(bt_fold_new(&f, kit.model, 0, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    bt_rounding w = make(f, 1, BT_WEIGHT_DOWN, 4, false, NULL);
    assert_int_equal(w.n, 80);
    assert_int_equal(w.k, 172);
    assert_int_equal(w.panels_bytes, 5 * 43 * 32);
    assert_int_equal((uintptr_t)w.panels % 64, 0);
    bt_rounding_done(&w);
    bt_fold_free(f);
    engine_kit_done(&kit);
}

/* The rest of the mean output's error: float sums over k, and the rounding of the correction itself. */
static void the_correction_takes_the_drift_of_the_mean_away(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_fold *f;
    float row[172];
    double mean[172], drift_sum = 0;
    for (size_t k = 0; k < 172; k++) mean[k] = bt_rng_uniform(7, k) - 0.25;
    assert_int_equal(bt_fold_new(&f, kit.model, BT_ROTATION_R1 | BT_ROTATION_R2, bt_kernels_select(NULL),
                                 NULL, NULL),
                     BT_OK);
    const bt_rounding_in in = {.fold = f, .layer = 0, .weight = BT_WEIGHT_DOWN, .bits = 4, .mean = mean};
    bt_rounding w;
    assert_int_equal(bt_rounding_make(&w, &in, NULL), BT_OK);
    for (size_t n = 0; n < w.n; n++) {
        double exact = 0, rounded = 0;
        bt_fold_row(f, row, n);
        for (size_t k = 0; k < w.k; k++) {
            exact += (double)row[k] * mean[k];
            rounded += (double)bt_int_packed_at(w.panels, n, k, w.k, 4) * w.scale[n] * mean[k];
        }
        assert_true(fabs(rounded + (double)w.correction[n] - exact) < 1e-4 * (1 + fabs(exact)));
        drift_sum += fabs(rounded - exact);
    }
    assert_true(drift_sum / (double)w.n > 1e-3); /* there was something to take away */
    bt_rounding_done(&w);
    bt_fold_free(f);
    engine_kit_done(&kit);
}

static void threads_change_no_byte(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_pool *pool;
    bt_fold *f;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    assert_int_equal(bt_fold_new(&f, kit.model, BT_ROTATION_R1 | BT_ROTATION_R2, bt_kernels_select(NULL),
                                 pool, NULL),
                     BT_OK);
    bt_rounding one = make(f, 0, BT_WEIGHT_UP, 8, false, NULL),
                three = make(f, 0, BT_WEIGHT_UP, 8, false, pool);
    assert_memory_equal(one.panels, three.panels, one.panels_bytes);
    assert_memory_equal(one.scale, three.scale, one.scales * sizeof *one.scale);
    assert_true(one.weight_error == three.weight_error);
    bt_rounding_done(&one);
    bt_rounding_done(&three);
    bt_fold_free(f);
    bt_pool_free(pool);
    engine_kit_done(&kit);
}

static void add_matrix(tiny_gguf *w, void *ud)
{
    tiny_gguf_tensor(w, "blk.1.ffn_up.weight", 0, (const uint64_t[]){64, 96}, 2, ud, 64 * 96 * sizeof(float));
}

/* A model whose up matrix of layer 1 holds these values. */
static engine_kit model_with(float *up)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.omit = "blk.1.ffn_up.weight";
    s.extra = add_matrix;
    s.ud = up;
    return engine_kit_of(&s);
}

static void rows_of_zeros_and_tiny_rows_are_zeros_and_what_is_not_finite_is_refused(void **state)
{
    (void)state;
    float *up = calloc(64 * 96, sizeof *up);
    bt_fold *f;
    assert_non_null(up);
    for (size_t i = 0; i < 64; i++) {
        up[5 * 64 + i] = 1e-45f; /* its scale would be 0 */
        up[7 * 64 + i] = 3;      /* constant */
    }
    engine_kit kit = model_with(up);
    assert_int_equal(bt_fold_new(&f, kit.model, 0, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    for (int per_tensor = 0; per_tensor < 2; per_tensor++) {
        bt_rounding w = make(f, 1, BT_WEIGHT_UP, 8, per_tensor, NULL);
        for (size_t k = 0; k < 64; k++) {
            assert_int_equal(bt_int_packed_at(w.panels, 4, k, 64, 8), 0);
            assert_int_equal(bt_int_packed_at(w.panels, 5, k, 64, 8), 0);
            assert_int_equal(bt_int_packed_at(w.panels, 7, k, 64, 8), 127);
        }
        assert_true(per_tensor || (w.scale[4] == 1 && w.scale[5] == 1));
        bt_rounding_done(&w);
    }
    bt_fold_free(f);
    engine_kit_done(&kit);
    up[9 * 64 + 3] = NAN;
    kit = model_with(up);
    assert_int_equal(bt_fold_new(&f, kit.model, 0, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    const bt_rounding_in in = {.fold = f, .layer = 1, .weight = BT_WEIGHT_UP, .bits = 8};
    bt_fault fault = {""};
    bt_rounding w;
    assert_int_equal(bt_rounding_make(&w, &in, &fault), BT_EFORMAT);
    assert_non_null(strstr(fault.text, "up"));
    bt_fold_free(f);
    engine_kit_done(&kit);
    free(up);
}

/* Two blocks of 16 tokens, whose inputs lie among others'. */
static void check_squares(const bt_rounding_code *c, const float *d, size_t k)
{
    enum { STRIDE = 172 * 16 + 16, TILE = BT_ROUNDING_TILE };
    static float x[2 * STRIDE];
    const size_t count = k < TILE ? 1 : k - TILE + 1; /* rows of d overlap: ld 1 */
    double got[TILE] = {0}, want[TILE] = {0};
    for (size_t i = 0; i < 2 * STRIDE; i++) x[i] = (float)(bt_rng_uniform(5, i) - 0.5);
    if (k < TILE) return;
    c->squares(got, d, 1, x, STRIDE, 2, count);
    for (size_t row = 0; row < TILE; row++)
        for (size_t t = 0; t < 32; t++) {
            float y = 0;
            for (size_t i = 0; i < count; i++) y += d[row + i] * x[t / 16 * STRIDE + 16 * i + t % 16];
            want[row] += (double)y * (double)y;
        }
    for (size_t row = 0; row < TILE; row++) assert_true(got[row] == want[row]);
}

static void check_loops(const bt_rounding_code *c, size_t k)
{
    float w[172], wq[172], x[172], xq[172], rounded[172], a[16] = {0}, b[16] = {0}, most = 0;
    double mean[172], apart = 0, square = 0, drift = 0, y, ya = 0, yb = 0;
    int8_t q[172];
    int32_t sum = 0;
    for (size_t i = 0; i < k; i++) {
        w[i] = (float)(bt_rng_uniform(1, i) - 0.5);
        x[i] = (float)(bt_rng_uniform(2, i) - 0.5);
        xq[i] = (float)(bt_rng_uniform(3, i) - 0.5);
        mean[i] = bt_rng_uniform(4, i) - 0.5;
        most = fmaxf(most, fabsf(w[i]));
    }
    const float scale = most / 100; /* so that 90 is a limit */
    assert_true(c->max(w, k) == most);
    c->round(q, w, scale, k, 90);
    const bt_rounding_row got = c->compare(rounded, q, w, mean, scale, k);
    const bt_rounding_row none = c->compare(wq, q, w, NULL, scale, k);
    for (size_t i = 0; i < k; i++) {
        assert_int_equal(q[i], (int)fmaxf(-90, fminf(90, nearbyintf(w[i] / scale))));
        assert_true(rounded[i] == (float)q[i] * scale && wq[i] == rounded[i]);
        const double d = (double)rounded[i] - w[i];
        sum += q[i];
        apart += d * d;
        square += (double)w[i] * w[i];
        drift += d * mean[i];
        a[i % 16] += w[i] * x[i];
        b[i % 16] += wq[i] * xq[i];
    }
    for (size_t i = 0; i < 16; i++) ya += (double)a[i], yb += (double)b[i];
    assert_int_equal(got.sum, sum);
    assert_true(got.apart == apart && got.square == square && got.drift == drift && none.drift == 0);
    assert_true(c->apart(w, wq, x, xq, k, &y) == yb - ya && y == ya);
    c->off(wq, w, scale, scale / 4, -8, 7, k);
    for (size_t i = 0; i < k; i++) {
        const float v = fmaxf(-8, fminf(7, nearbyintf((w[i] - scale / 4) / scale)));
        assert_true(wq[i] == v * scale + scale / 4 - w[i]);
    }
    check_squares(c, wq, k);
    w[k - 1] = -INFINITY;
    assert_true(isinf(c->max(w, k)));
    w[k - 1] = NAN;
    assert_true(isinf(c->max(w, k)));
}

static void loops_of_every_instruction_set_are_the_sums_written_out(void **state)
{
    (void)state;
    for (size_t k = 1; k <= 172; k++) check_loops(&bt_rounding_ref, k);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        for (size_t k = 1; k <= 172; k++) check_loops(&bt_rounding_avx2, k);
#endif
}

/* ---- GPTQ ---- */

enum { K = 100, T = 300 };

/* Rows with strong correlations: a few directions carry most of them, and one input is dead. */
static void make_rows(float *x, uint64_t seed)
{
    for (size_t t = 0; t < T; t++)
        for (size_t k = 0; k < K; k++) {
            double v = 0.2 * (bt_rng_uniform(seed, t * K + k) - 0.5);
            for (size_t d = 0; d < 6; d++)
                v +=
                    (bt_rng_uniform(seed + 1, t * 6 + d) - 0.5) * (bt_rng_uniform(seed + 2, d * K + k) - 0.5);
            x[t * K + k] = k == 17 ? 0 : (float)v;
        }
}

static void the_factor_is_the_inverses(void **state)
{
    (void)state;
    bt_pool *pool;
    float *x = malloc(T * K * sizeof *x), *h = calloc(K * K, sizeof *h), *again = calloc(K * K, sizeof *h);
    double *full = calloc(K * K, sizeof *full), mean = 0;
    assert_true(x && h && again && full);
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    make_rows(x, 5);
    bt_gptq_add(h, x, T, K, pool);
    bt_gptq_add(again, x, T, K, NULL);
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++)
            for (size_t t = 0; t < T; t++) full[i * K + j] += (double)x[t * K + i] * x[t * K + j];
    for (size_t i = 0; i < K; i++) mean += full[i * K + i] / K;
    for (size_t i = 0; i < K; i++) full[i * K + i] += (i == 17) + 0.01 * mean;
    assert_int_equal(bt_gptq_prepare(h, NULL, K, pool, NULL), BT_OK);
    assert_int_equal(bt_gptq_prepare(again, NULL, K, NULL, NULL), BT_OK);
    assert_memory_equal(h, again, K * K * sizeof *h);
    /* H = V V^T with V the inverse of U: so U H U^T = 1, and of rows divided by their diagonal, a
     * diagonal. */
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++) {
            double sum = 0;
            for (size_t a = i; a < K; a++)
                for (size_t b = j; b < K; b++)
                    sum += (a == i ? 1 : (double)h[i * K + a]) * full[a * K + b] *
                           (b == j ? 1 : (double)h[j * K + b]);
            if (i != j) assert_true(fabs(sum) < 1e-4 * sqrt(full[i * K + i] * full[j * K + j]));
        }
    assert_true(h[17 * K + 17] == 0 && h[18 * K + 18] == 1);
    free(x);
    free(h);
    free(again);
    free(full);
    bt_pool_free(pool);
}

static double output_distance(const float *w, const int8_t *q, float scale, const float *x)
{
    double sum = 0;
    for (size_t t = 0; t < T; t++) {
        double y = 0;
        for (size_t k = 0; k < K; k++) y += ((double)q[k] * scale - w[k]) * x[t * K + k];
        sum += y * y;
    }
    return sum;
}

/* AC-j4 */
static void gptq_is_closer_on_the_calibration_than_rounding_to_nearest(void **state)
{
    (void)state;
    enum { LAYERS = 20, ROWS = 16 };
    size_t better = 0;
    float *x = malloc(T * K * sizeof *x), *h = malloc(K * K * sizeof *h);
    assert_true(x && h);
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        float w[ROWS * K], used[ROWS * K], scale[ROWS];
        int8_t q[ROWS * K], nearest[K];
        double gptq = 0, plain = 0;
        make_rows(x, 100 * layer);
        memset(h, 0, K * K * sizeof *h);
        bt_gptq_add(h, x, T, K, NULL);
        assert_int_equal(bt_gptq_prepare(h, NULL, K, NULL, NULL), BT_OK);
        for (size_t i = 0; i < ROWS * K; i++) w[i] = used[i] = (float)(bt_rng_uniform(77 + layer, i) - 0.5);
        for (size_t r = 0; r < ROWS; r++) scale[r] = row_max(w + r * K, K) / 7;
        bt_gptq_round(q, used, &(bt_gptq_grid){scale, NULL, K, -7, 7}, ROWS, K, NULL, h);
        for (size_t r = 0; r < ROWS; r++) {
            for (size_t k = 0; k < K; k++) {
                nearest[k] = (int8_t)nearbyintf(w[r * K + k] / scale[r]);
                assert_true(q[r * K + k] >= -7 && q[r * K + k] <= 7);
            }
            assert_int_equal(q[r * K + 17], 0);
            gptq += output_distance(w + r * K, q + r * K, scale[r], x);
            plain += output_distance(w + r * K, nearest, scale[r], x);
        }
        better += gptq < plain;
    }
    assert_true(better >= LAYERS * 95 / 100);
    free(x);
    free(h);
}

/* The inputs put in that order first, and rounded as they come, give the same integers. */
static void act_order_is_gptq_on_inputs_by_their_squares(void **state)
{
    (void)state;
    enum { ROWS = 3, GROUP = K / 2 };
    float *x = malloc(T * K * sizeof *x), *sorted = malloc(T * K * sizeof *x), *h = calloc(K * K, sizeof *h),
          *plain = calloc(K * K, sizeof *h);
    uint32_t order[K];
    float w[ROWS * K], ordered[ROWS * K], used[ROWS * K], scale[2 * ROWS];
    int8_t q[ROWS * K], want[ROWS * K];
    assert_true(x && sorted && h && plain);
    make_rows(x, 5);
    bt_gptq_add(h, x, T, K, NULL);
    float square[K];
    for (size_t i = 0; i < K; i++) square[i] = h[i * K + i];
    assert_int_equal(bt_gptq_prepare(h, order, K, NULL, NULL), BT_OK);
    size_t moved = 0;
    for (size_t i = 0; i < K; i++) {
        moved += order[i] != i;
        assert_true(!i || square[order[i - 1]] > square[order[i]] ||
                    (square[order[i - 1]] == square[order[i]] && order[i - 1] < order[i]));
        for (size_t t = 0; t < T; t++) sorted[t * K + i] = x[t * K + order[i]];
    }
    assert_true(moved > K / 2);
    bt_gptq_add(plain, sorted, T, K, NULL);
    assert_int_equal(bt_gptq_prepare(plain, NULL, K, NULL, NULL), BT_OK);
    for (size_t i = 0; i < K; i++) assert_memory_equal(h + i * K + i, plain + i * K + i, (K - i) * sizeof *h);
    for (size_t i = 0; i < ROWS * K; i++) w[i] = (float)(bt_rng_uniform(7, i) - 0.5);
    for (size_t i = 0; i < 2 * ROWS; i++) scale[i] = 0.08f;
    for (size_t i = 0; i < ROWS * K; i++) ordered[i] = used[i] = w[i / K * K + order[i % K]];
    const bt_gptq_grid grid = {scale, NULL, GROUP, -7, 7};
    bt_gptq_round(q, ordered, &grid, ROWS, K, order, h);
    bt_gptq_round(want, used, &grid, ROWS, K, NULL, plain);
    for (size_t i = 0; i < ROWS * K; i++) assert_int_equal(q[i / K * K + order[i % K]], want[i]);
    /* scales are those of an input's own place */
    for (size_t i = 1; i < 2 * ROWS; i += 2) scale[i] = 1e6f;
    for (size_t i = 0; i < ROWS * K; i++) ordered[i] = w[i / K * K + order[i % K]];
    bt_gptq_round(q, ordered, &grid, ROWS, K, order, h);
    for (size_t i = 0; i < ROWS * K; i++) assert_true(i % K < GROUP || !q[i]);
    free(x), free(sorted), free(h), free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_is_rounded_to_the_nearest_even),
        cmocka_unit_test(groups_lose_less_than_their_whole_range_would_and_sums_are_of_their_planes),
        cmocka_unit_test(act_order_is_gptq_on_inputs_by_their_squares),
        cmocka_unit_test(panels_have_exactly_their_bytes_where_these_are_no_multiple_of_their_alignment),
        cmocka_unit_test(the_correction_takes_the_drift_of_the_mean_away),
        cmocka_unit_test(threads_change_no_byte),
        cmocka_unit_test(rows_of_zeros_and_tiny_rows_are_zeros_and_what_is_not_finite_is_refused),
        cmocka_unit_test(loops_of_every_instruction_set_are_the_sums_written_out),
        cmocka_unit_test(the_factor_is_the_inverses),
        cmocka_unit_test(gptq_is_closer_on_the_calibration_than_rounding_to_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
