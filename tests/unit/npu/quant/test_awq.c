/* AWQ: its searches against the formulas written out in double; what they save; threads. */
#include "npu/quant/awq.h"
#include "base/rng.h"
#include "npu/quant/rounding.h"
#include "tests/helpers/model/engine_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { K = 96, ROWS = 200, GROUP = 32 };

/* Rows of which some inputs are much larger than the others, as hidden states are. */
static void make_rows(float *x)
{
    for (size_t t = 0; t < ROWS; t++)
        for (size_t i = 0; i < K; i++)
            x[t * K + i] = (float)((bt_rng_uniform(1, t * K + i) - 0.5) * (i % 17 == 3 ? 40 : 1));
}

static bt_awq_input input(const float *x)
{
    bt_awq_input in;
    assert_int_equal(bt_awq_input_new(&in, K, NULL), BT_OK);
    bt_awq_input_add(&in, x, ROWS / 2, 0, ROWS);
    bt_awq_input_add(&in, x + ROWS / 2 * K, ROWS / 2, ROWS / 2, ROWS);
    return in;
}

static double kept(const bt_awq_input *in, size_t t, size_t i)
{
    return (double)in->x[(t / 16 * K + i) * 16 + t % 16];
}

typedef struct world {
    engine_kit kit;
    bt_fold *fold;
    bt_pool *pool;
    float *x;
    bt_awq_input in;
} world;

static world begin(void)
{
    world w = {.kit = engine_kit_model("qwen2"), .x = malloc(ROWS * K * sizeof(float))};
    assert_non_null(w.x);
    make_rows(w.x);
    w.in = input(w.x);
    assert_int_equal(bt_pool_new(&w.pool, 3, NULL), BT_OK);
    assert_int_equal(bt_fold_new(&w.fold, w.kit.model, 0, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    return w;
}

static void end(world *w)
{
    bt_awq_input_done(&w->in);
    bt_fold_free(w->fold);
    bt_pool_free(w->pool);
    free(w->x);
    engine_kit_done(&w->kit);
}

static void a_text_gives_its_means_and_rows_spread_over_it_without_each_windows_first(void **state)
{
    (void)state;
    float *x = malloc(ROWS * K * sizeof *x);
    assert_non_null(x);
    make_rows(x);
    bt_awq_input in = input(x);
    assert_int_equal(in.rows, ROWS - 2);
    assert_int_equal(in.tokens, BT_AWQ_TOKENS);
    size_t from = 0;
    for (size_t t = 0; t < in.tokens; t++, from++) {
        while (from < ROWS && memcmp(&(float){(float)kept(&in, t, 0)}, x + from * K, sizeof(float)) != 0)
            from++;
        assert_true(from < ROWS && from != 0 && from != ROWS / 2);
        for (size_t i = 0; i < K; i++) assert_true(kept(&in, t, i) == (double)x[from * K + i]);
    }
    assert_true(from > ROWS * 9 / 10);
    for (size_t i = 0; i < K; i++) {
        double sum = 0;
        for (size_t t = 1; t < ROWS; t++) sum += t == ROWS / 2 ? 0 : fabs((double)x[t * K + i]);
        assert_true(fabs(in.magnitude[i] / sum - 1) < 1e-12);
    }
    bt_awq_input_done(&in);
    free(x);
}

static void scales_are_powers_of_the_means_about_one(void **state)
{
    (void)state;
    float s[K];
    bt_awq_input in;
    assert_int_equal(bt_awq_input_new(&in, K, NULL), BT_OK);
    in.rows = 3;
    for (size_t i = 0; i < K; i++) in.magnitude[i] = i == 5 ? 0 : 3 * pow(10, 8 * bt_rng_uniform(2, i) - 5);
    for (unsigned r = 0; r < BT_AWQ_RATIOS; r++) {
        double v[K], most = 0, least = INFINITY;
        for (size_t i = 0; i < K; i++) {
            v[i] = fmax(pow(in.magnitude[i] / 3, r / 20.0), 1e-4);
            most = fmax(most, v[i]);
            least = fmin(least, v[i]);
        }
        bt_awq_scales(s, &in, r);
        for (size_t i = 0; i < K; i++) {
            const double want = v[i] / sqrt(most * least);
            if (!(fabs((double)s[i] / want - 1) < 1e-6)) fail_msg("%u: %g of %g", r, (double)s[i], want);
        }
    }
    double error[BT_AWQ_RATIOS];
    for (unsigned r = 0; r < BT_AWQ_RATIOS; r++) error[r] = r == 4 || r == 7 ? 1 : 2;
    assert_int_equal(bt_awq_best(error), 4);
    bt_awq_input_done(&in);
}

/* The error that rounding a row as it is scaled leaves, in double; without groups. */
static double row_error(const float *w, const float *s, const bt_awq_input *in, float limit)
{
    double max = 0, sum = 0;
    for (size_t i = 0; i < K; i++) max = fmax(max, fabs((double)(w[i] * s[i])));
    for (size_t t = 0; t < in->tokens; t++) {
        double y = 0;
        for (size_t i = 0; i < K; i++) {
            const double step = max / limit, q = nearbyint((double)(w[i] * s[i]) / step);
            y += (q * step / s[i] - w[i]) * kept(in, t, i);
        }
        sum += y * y;
    }
    return sum;
}

static void errors_are_those_of_the_output_and_large_inputs_gain_by_a_scale(void **state)
{
    (void)state;
    world w = begin();
    double error[2][BT_AWQ_RATIOS] = {{0}}, want[BT_AWQ_RATIOS] = {0};
    const bt_awq_matrix m = {w.fold, 1, BT_WEIGHT_UP, 4, 0, NULL};
    bt_awq_matrix threads = m;
    float row[K], s[K];
    threads.pool = w.pool;
    assert_int_equal(bt_awq_errors(error[0], &m, &w.in, NULL), BT_OK);
    assert_int_equal(bt_awq_errors(error[1], &threads, &w.in, NULL), BT_OK);
    assert_memory_equal(error[0], error[1], sizeof error[0]);
    for (unsigned r = 0; r < BT_AWQ_RATIOS; r++) {
        bt_awq_scales(s, &w.in, r);
        for (size_t n = 0; n < bt_fold_rows(w.fold); n++) {
            bt_fold_row(w.fold, row, n);
            want[r] += row_error(row, s, &w.in, 7);
        }
        /* a weight half way between two steps may go either way */
        if (!(fabs(error[0][r] / want[r] - 1) < 0.02)) fail_msg("%u: %g of %g", r, error[0][r], want[r]);
    }
    const unsigned best = bt_awq_best(error[0]);
    assert_in_range(best, 1, BT_AWQ_RATIOS - 1);
    if (!(error[0][best] < 0.8 * error[0][0])) fail_msg("%g of %g", error[0][best], error[0][0]);
    end(&w);
}

/* The error of a rounded matrix over the kept rows. */
static double rounded_error(const world *w, size_t group, const uint8_t *clip)
{
    bt_rounding made;
    float *x = calloc(BT_AWQ_TOKENS * K, sizeof *x);
    assert_non_null(x);
    for (size_t t = 0; t < w->in.tokens; t++)
        for (size_t i = 0; i < K; i++) x[t * K + i] = (float)kept(&w->in, t, i);
    const bt_rounding_in in = {.fold = w->fold, .layer = 1,   .weight = BT_WEIGHT_UP,
                               .bits = 4,       .clip = clip, .group = group,
                               .x = x,          .xq = x,      .samples = w->in.tokens};
    assert_int_equal(bt_rounding_make(&made, &in, NULL), BT_OK);
    const double error = (double)made.output_error;
    bt_rounding_done(&made);
    free(x);
    return error;
}

static void clips_lose_less_of_the_output_than_none(void **state)
{
    (void)state;
    world w = begin();
    for (size_t group = 0; group <= GROUP; group += GROUP) {
        const size_t n = w.kit.model->hp.ffn, runs = group ? K / group : 1;
        uint8_t *clip = calloc(n, runs), *again = calloc(n, runs), *none = calloc(n, runs);
        const bt_awq_matrix m = {w.fold, 1, BT_WEIGHT_UP, 4, group, NULL};
        bt_awq_matrix threads = m;
        size_t clipped = 0;
        assert_true(clip && again && none);
        threads.pool = w.pool;
        assert_int_equal(bt_awq_clips(clip, &m, &w.in, NULL), BT_OK);
        assert_int_equal(bt_awq_clips(again, &threads, &w.in, NULL), BT_OK);
        assert_memory_equal(clip, again, n * runs);
        for (size_t i = 0; i < n * runs; i++) {
            assert_true(clip[i] < BT_AWQ_CLIPS);
            clipped += clip[i] > 0;
        }
        assert_true(clipped > n / 4);
        const double with = rounded_error(&w, group, clip), without = rounded_error(&w, group, none);
        if (!(with < 0.97 * without)) fail_msg("groups of %zu: %g, unclipped %g", group, with, without);
        free(clip), free(again), free(none);
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_gives_its_means_and_rows_spread_over_it_without_each_windows_first),
        cmocka_unit_test(scales_are_powers_of_the_means_about_one),
        cmocka_unit_test(errors_are_those_of_the_output_and_large_inputs_gain_by_a_scale),
        cmocka_unit_test(clips_lose_less_of_the_output_than_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
