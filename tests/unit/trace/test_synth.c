/* A drawn trace is like the fitted one: lengths, gaps, how much comes again; and the same for the same seed.
 */
#include "trace/synth.h"
#include "trace/reblock.h"
#include "trace/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

enum { ROWS = 4000, BLOCK = 512, MAX_BLOCKS = 64 };

/* A trace of users who come back: each turn repeats the one before and adds to it; bursts of three. */
typedef struct world {
    uint64_t hash[500][MAX_BLOCKS], next;
    size_t len[500];
    bt_trace_draw draw;
    int64_t at_us;
} world;

static bt_trace_row next_row(world *w, size_t i)
{
    const size_t user = (size_t)(bt_trace_draw_uniform(&w->draw) * 500),
                 add = 1 + (size_t)(bt_trace_draw_uniform(&w->draw) * 6);
    if (w->len[user] + add > MAX_BLOCKS) w->len[user] = 0;
    for (size_t k = 0; k < add; k++) w->hash[user][w->len[user]++] = w->next++;
    w->at_us += i % 3 ? 1000 : (int64_t)bt_trace_draw_gamma(&w->draw, 1, 3e6);
    return (bt_trace_row){.line = i + 1,
                          .has_arrival = true,
                          .arrival_us = w->at_us,
                          .has_output = true,
                          .input_tokens = (uint32_t)(w->len[user] * BLOCK - add),
                          .output_tokens = (uint32_t)(10 * add),
                          .hash_ids = w->hash[user],
                          .hash_len = w->len[user]};
}

static bt_synth *fit(bt_trace_stats *s)
{
    world *w = calloc(1, sizeof *w);
    bt_synth *model = NULL;
    assert_non_null(w);
    w->draw.seed = 3;
    assert_int_equal(bt_trace_stats_begin(s, NULL), BT_OK);
    assert_int_equal(bt_synth_new(&model, NULL), BT_OK);
    for (size_t i = 0; i < ROWS; i++) {
        const bt_trace_row r = next_row(w, i);
        assert_int_equal(bt_synth_fit(model, &r, NULL), BT_OK);
        assert_int_equal(bt_trace_stats_add(s, &r, NULL), BT_OK);
    }
    bt_trace_stats_end(s);
    free(w);
    return model;
}

static uint64_t draw(bt_trace_stats *s, bt_synth *model, uint64_t seed, const bt_synth_gaps *gaps, size_t n)
{
    uint64_t sum = 0;
    bool is_end = false;
    assert_int_equal(bt_trace_stats_begin(s, NULL), BT_OK);
    assert_int_equal(bt_synth_start(model, seed, gaps, NULL), BT_OK);
    for (size_t i = 0; i < n && !is_end; i++) {
        bt_trace_row r;
        assert_int_equal(bt_synth_draw(&r, &is_end, model, NULL), BT_OK);
        if (is_end) break;
        assert_int_equal((r.input_tokens + BLOCK - 1) / BLOCK, r.hash_len);
        sum = sum * 31 + (uint64_t)r.arrival_us + r.input_tokens +
              (r.hash_len ? r.hash_ids[r.hash_len - 1] : 0);
        assert_int_equal(bt_trace_stats_add(s, &r, NULL), BT_OK);
    }
    bt_trace_stats_end(s);
    return sum;
}

static bool is_near(double a, double b, double share) { return fabs(a - b) <= share * fabs(b); }

static void ten_times_as_many_are_like_those_of_the_trace(void **state)
{
    (void)state;
    bt_trace_stats of, s;
    bt_synth *model = fit(&of);
    (void)draw(&s, model, 1, &(bt_synth_gaps){0}, 10 * ROWS);
    assert_int_equal(s.requests, 10 * ROWS);
    assert_true(is_near(bt_trace_hist_mean(&s.input), bt_trace_hist_mean(&of.input), 0.02));
    assert_true(is_near(bt_trace_hist_mean(&s.output), bt_trace_hist_mean(&of.output), 0.02));
    assert_true(is_near((double)bt_trace_hist_at(&s.input, 0.9), (double)bt_trace_hist_at(&of.input, 0.9),
                        0.05));
    assert_true(is_near(bt_trace_hist_mean(&s.gap_us), bt_trace_hist_mean(&of.gap_us), 0.05));
    assert_true(is_near(bt_trace_stats_gap_cv(&s), bt_trace_stats_gap_cv(&of), 0.05));
    assert_true(bt_trace_stats_hit_ratio(&of) > 0.8);
    assert_true(is_near(bt_trace_stats_hit_ratio(&s), bt_trace_stats_hit_ratio(&of), 0.02));
    bt_synth_free(model);
    bt_trace_stats_done(&of);
    bt_trace_stats_done(&s);
}

static void a_seed_draws_the_same_and_another_one_not(void **state)
{
    (void)state;
    uint64_t sum[3];
    for (int i = 0; i < 3; i++) {
        bt_trace_stats of, s;
        bt_synth *model = fit(&of);
        sum[i] = draw(&s, model, i == 2 ? 8 : 7, &(bt_synth_gaps){0}, 1000);
        bt_synth_free(model);
        bt_trace_stats_done(&of);
        bt_trace_stats_done(&s);
    }
    assert_true(sum[0] == sum[1]);
    assert_true(sum[0] != sum[2]);
}

static void a_rate_and_a_variation_are_kept(void **state)
{
    (void)state;
    static const bt_synth_gaps gaps[] = {
        {.rate = 50}, {.rate = 20, .cv = 1}, {.rate = 20, .cv = 3}, {.cv = 0.5}};
    for (size_t i = 0; i < 4; i++) {
        bt_trace_stats of, s;
        bt_synth *model = fit(&of);
        (void)draw(&s, model, 1, &gaps[i], 40000);
        const double rate = gaps[i].rate > 0 ? gaps[i].rate : 1e6 / bt_trace_hist_mean(&of.gap_us);
        const double cv = gaps[i].cv > 0 ? gaps[i].cv : bt_trace_stats_gap_cv(&of);
        assert_true(is_near(1e6 / bt_trace_hist_mean(&s.gap_us), rate, 0.06));
        assert_true(is_near(bt_trace_stats_gap_cv(&s), cv, 0.06));
        bt_synth_free(model);
        bt_trace_stats_done(&of);
        bt_trace_stats_done(&s);
    }
}

static void windows_of_rates_are_filled_and_then_it_ends(void **state)
{
    (void)state;
    static const bt_trace_rate w[] = {{0, 600, 2, 3, 0.5, 1, BT_TRACE_WEIBULL},
                                      {600, 1200, 0, 0, 0, 0, BT_TRACE_NO_GAPS},
                                      {1200, 1800, 5, 2, 0.25, 1, BT_TRACE_GAMMA}};
    bt_trace_stats of, s;
    bt_synth *model = fit(&of);
    (void)draw(&s, model, 1, &(bt_synth_gaps){.windows = w, .window_len = 3}, 100000);
    assert_int_equal(s.requests, 1200 + 3000);
    assert_true(s.last_us <= 1800000001 && s.last_us > 1799000000);
    uint64_t quiet = 0;
    for (size_t i = 0; i < s.bins.len; i++) {
        const int64_t from = (int64_t)i * s.bins.width_us;
        if (from > 600000000 && from + s.bins.width_us < 1200000000) quiet += s.bins.bin[i].requests;
    }
    assert_int_equal(quiet, 0);
    bt_synth_free(model);
    bt_trace_stats_done(&of);
    bt_trace_stats_done(&s);
}

static void without_times_a_rate_is_asked_for(void **state)
{
    (void)state;
    bt_synth *model = NULL;
    const bt_trace_row r = {.line = 1, .input_tokens = 5, .output_tokens = 2, .has_output = true};
    assert_int_equal(bt_synth_new(&model, NULL), BT_OK);
    assert_int_equal(bt_synth_start(model, 1, &(bt_synth_gaps){.rate = 1}, NULL), BT_EARG);
    assert_int_equal(bt_synth_fit(model, &r, NULL), BT_OK);
    assert_int_equal(bt_synth_start(model, 1, &(bt_synth_gaps){0}, NULL), BT_EARG);
    assert_int_equal(bt_synth_start(model, 1, &(bt_synth_gaps){.rate = 1}, NULL), BT_OK);
    bt_synth_free(model);
}

static void turns_without_times_are_refused(void **state)
{
    (void)state;
    bt_synth *model = NULL;
    const bt_trace_row rows[] = {
        {.line = 1, .has_arrival = true, .input_tokens = 5, .has_output = true, .session = "s"},
        {.line = 2, .has_delay = true, .delay_us = 5, .input_tokens = 5, .has_output = true, .session = "s"},
        {.line = 3, .input_tokens = 5, .has_output = true},
    };
    assert_int_equal(bt_synth_new(&model, NULL), BT_OK);
    assert_int_equal(bt_synth_fit(model, &rows[0], NULL), BT_OK);
    assert_int_equal(bt_synth_fit(model, &rows[1], NULL), BT_EARG);
    assert_int_equal(bt_synth_fit(model, &rows[2], NULL), BT_EARG);
    assert_int_equal(bt_synth_fit(model, &rows[0], NULL), BT_OK);
    bt_synth_free(model);
}

/* Two prompts that share 3 blocks of 512 share 24 of 64, and 6 of 512 when they are twice as long. */
static void other_blocks_share_what_the_old_ones_shared(void **state)
{
    (void)state;
    static const uint64_t a[] = {1, 2, 3, 4, 5}, b[] = {1, 2, 3, 9, 10};
    static const struct {
        uint32_t to;
        double ratio;
        size_t n, shared;
    } cases[] = {{64, 1, 40, 24}, {512, 2, 10, 6}, {512, 1, 5, 3}, {512, 0.5, 3, 1}, {2048, 1, 2, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t x[64], y[64];
        size_t same = 0;
        bt_trace_reblock(x, cases[i].n, cases[i].to, cases[i].ratio, a, 5, 512);
        bt_trace_reblock(y, cases[i].n, cases[i].to, cases[i].ratio, b, 5, 512);
        while (same < cases[i].n && x[same] == y[same]) same++;
        assert_int_equal(same, cases[i].shared);
        for (size_t k = same; k < cases[i].n; k++) assert_true(x[k] != y[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_times_as_many_are_like_those_of_the_trace),
        cmocka_unit_test(a_seed_draws_the_same_and_another_one_not),
        cmocka_unit_test(a_rate_and_a_variation_are_kept),
        cmocka_unit_test(windows_of_rates_are_filled_and_then_it_ends),
        cmocka_unit_test(without_times_a_rate_is_asked_for),
        cmocka_unit_test(turns_without_times_are_refused),
        cmocka_unit_test(other_blocks_share_what_the_old_ones_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
