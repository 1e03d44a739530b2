/* Statistics against sums written out here, and against a plain sort. */
#include "trace/stats.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static bt_trace_row row(int64_t arrival_us, uint32_t input, const uint64_t *hash, size_t n)
{
    return (bt_trace_row){.has_arrival = true, .arrival_us = arrival_us, .input_tokens = input,
                          .output_tokens = 1,  .has_output = true,       .hash_ids = hash,
                          .hash_len = n};
}

static void blocks_hit_where_all_before_them_came_before(void **state)
{
    (void)state;
    static const uint64_t a[] = {1, 2, 3}, b[] = {1, 2, 9}, c[] = {7, 2, 3}, d[] = {1, 2, 9, 10};
    bt_trace_stats s;
    assert_int_equal(bt_trace_stats_begin(&s, NULL), BT_OK);
    const bt_trace_row rows[] = {row(0, 40, a, 3), row(1, 48, b, 3), row(2, 33, c, 3), row(3, 49, d, 4)};
    for (size_t i = 0; i < 4; i++) assert_int_equal(bt_trace_stats_add(&s, &rows[i], NULL), BT_OK);
    bt_trace_stats_end(&s);
    assert_int_equal(s.blocks, 13);
    assert_int_equal(s.hit_blocks, 0 + 2 + 0 + 3); /* 2, 3 behind a new 7 are another text */
    assert_true(bt_trace_stats_hit_ratio(&s) == 5.0 / 13);
    assert_int_equal(bt_trace_stats_block(&s), 16); /* ceil(n / 16) is 3, 3, 3, 4; of no other size */
    bt_trace_stats_done(&s);
}

static void gaps_are_between_sorted_arrivals(void **state)
{
    (void)state;
    static const int64_t at[] = {0, 10, 40, 30, 100}; /* gaps 10, 20, 10, 60 */
    bt_trace_stats s;
    assert_int_equal(bt_trace_stats_begin(&s, NULL), BT_OK);
    for (size_t i = 0; i < 5; i++) {
        const bt_trace_row r = row(at[i], 1, NULL, 0);
        assert_int_equal(bt_trace_stats_add(&s, &r, NULL), BT_OK);
    }
    bt_trace_stats_end(&s);
    assert_int_equal(s.out_of_order, 0);
    assert_true(fabs(bt_trace_stats_gap_cv(&s) - sqrt(425) / 25) < 1e-12); /* squares 225 + 25 + 225 + 1225
                                                                              over 4 */
    assert_int_equal(bt_trace_hist_at(&s.gap_us, 0.5), 10);
    assert_true(bt_trace_stats_hit_ratio(&s) == -1);
    bt_trace_stats_done(&s);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void percentiles_are_those_of_a_sort_to_a_thousandth(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint64_t v[N];
    bt_trace_hist h;
    assert_int_equal(bt_trace_hist_begin(&h, NULL), BT_OK);
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        v[i] = bt_rng_u64(5, i) >> (bt_rng_u64(6, i) % 60);
        bt_trace_hist_add(&h, v[i]);
        sum += (double)v[i];
    }
    qsort(v, N, sizeof *v, by_value);
    for (int p = 0; p <= 1000; p++) {
        const double share = p / 1000.0;
        const size_t rank = (size_t)ceil(N * share);
        const uint64_t want = v[rank ? rank - 1 : 0], got = bt_trace_hist_at(&h, share);
        if (want < 1 << 18) assert_int_equal(got, want);
        else assert_true(got <= want && (double)(want - got) <= (double)want / 1024);
    }
    assert_int_equal(bt_trace_hist_at(&h, 1), v[N - 1]);
    assert_int_equal(h.least, v[0]);
    assert_true(bt_trace_hist_mean(&h) == sum / N);
    bt_trace_hist_done(&h);
}

static void bins_hold_every_request_however_long_the_trace(void **state)
{
    (void)state;
    bt_trace_stats s;
    assert_int_equal(bt_trace_stats_begin(&s, NULL), BT_OK);
    for (int64_t i = 0; i < 10000; i++) {
        const bt_trace_row r = row(i * 1234567, 3, NULL, 0);
        assert_int_equal(bt_trace_stats_add(&s, &r, NULL), BT_OK);
    }
    uint64_t requests = 0, tokens = 0;
    for (size_t i = 0; i < s.bins.len; i++) {
        requests += s.bins.bin[i].requests;
        tokens += s.bins.bin[i].input_tokens;
    }
    assert_int_equal(requests, 10000);
    assert_int_equal(tokens, 30000);
    assert_true(s.bins.len > BT_TRACE_STATS_BINS / 2 && s.bins.len <= BT_TRACE_STATS_BINS);
    assert_int_equal(s.bins.len, 9999ll * 1234567 / s.bins.width_us + 1);
    bt_trace_stats_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_hit_where_all_before_them_came_before),
        cmocka_unit_test(gaps_are_between_sorted_arrivals),
        cmocka_unit_test(percentiles_are_those_of_a_sort_to_a_thousandth),
        cmocka_unit_test(bins_hold_every_request_however_long_the_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
