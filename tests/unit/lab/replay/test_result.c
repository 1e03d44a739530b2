/* Figures of a run against figures made by hand. */
#include "lab/replay/result.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tool_replay_result begin(size_t n)
{
    tool_replay_result r;
    assert_int_equal(tool_replay_result_begin(&r, n, NULL), BT_OK);
    return r;
}

/* Due at `due` ms, sent `late` later, first text `wait` after it was due, then `tokens` of `each` ms. */
static tool_replay_record one(int64_t due, int64_t late, int64_t wait, uint32_t tokens, int64_t each)
{
    return (tool_replay_record){.node = TOOL_REPLAY_NOBODY,
                                .want_prompt = 10,
                                .prompt_tokens = 10,
                                .want_output = tokens,
                                .completion_tokens = tokens,
                                .due_us = due * 1000,
                                .sent_us = (due + late) * 1000,
                                .first_us = (due + wait) * 1000,
                                .last_us = (due + wait + (tokens - 1) * each) * 1000,
                                .end_us = (due + wait + (tokens - 1) * each) * 1000,
                                .queue_us = -1,
                                .exposed_us = -1};
}

static tool_replay_figures figures(const tool_replay_result *r, const tool_replay_slo *slo)
{
    tool_replay_figures f;
    assert_int_equal(tool_replay_figures_of(&f, r, slo, NULL), BT_OK);
    return f;
}

#define near(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static void latency_counts_from_when_a_request_should_have_been_sent(void **state)
{
    (void)state;
    const tool_replay_record r = one(1000, 400, 500, 11, 20); /* sent 400 ms late: what waits for it waits 500
                                                               */
    assert_int_equal(tool_replay_ttft_us(&r), 500000);
    assert_int_equal(tool_replay_tpot_us(&r), 20000);
    assert_int_equal(tool_replay_e2e_us(&r), 700000);
    assert_int_equal(tool_replay_late_us(&r), 400000);
}

static void one_token_has_no_time_between_tokens_and_none_no_first(void **state)
{
    (void)state;
    tool_replay_record r = one(0, 0, 5, 1, 0);
    assert_int_equal(tool_replay_tpot_us(&r), -1);
    r.first_us = r.end_us = -1;
    assert_int_equal(tool_replay_ttft_us(&r), -1);
    assert_int_equal(tool_replay_e2e_us(&r), -1);
}

static void percentiles_are_those_of_sorted_values(void **state)
{
    (void)state;
    double v[1001];
    for (int i = 0; i <= 1000; i++) v[(i * 379) % 1001] = i;
    const tool_replay_spread s = tool_replay_spread_of(v, 1001);
    near(s.mean, 500);
    near(s.p50, 500);
    near(s.p90, 900);
    near(s.p99, 990);
    near(s.p999, 999);
    near(s.max, 1000);
    assert_int_equal(tool_replay_spread_of(v, 0).n, 0);
}

static void a_percentile_of_few_values_is_the_nearest_rank(void **state)
{
    (void)state;
    double v[20], one_value = 7;
    for (int i = 0; i < 20; i++) v[i] = 20 - i;
    tool_replay_spread s = tool_replay_spread_of(v, 20); /* at least 99 % of 20 are 20 */
    near(s.p50, 10);
    near(s.p90, 18);
    near(s.p99, 20);
    near(s.p999, 20);
    s = tool_replay_spread_of(v, 15);
    near(s.p50, 8);
    near(s.p90, 14);
    s = tool_replay_spread_of(&one_value, 1);
    near(s.p50, 7);
    near(s.p999, 7);
}

static void goodput_is_what_keeps_every_limit(void **state)
{
    (void)state;
    tool_replay_result r = begin(5);
    tool_replay_slo slo;
    assert_int_equal(tool_replay_slo_read(&slo, "ttft:500ms,tpot:50ms", NULL), BT_OK);
    tool_replay_record all[] = {one(0, 0, 100, 11, 20), one(0, 0, 501, 11, 20), one(0, 0, 100, 11, 51),
                                one(0, 0, 500, 1, 0), one(0, 0, 100, 11, 20)};
    all[4].kind = tool_replay_result_kind(&r, "queue_full");
    for (int i = 0; i < 5; i++) tool_replay_result_add(&r, &all[i]);
    const tool_replay_figures f = figures(&r, &slo);
    assert_true(f.requests == 5 && f.completed == 4 && f.failed == 1 && f.good == 2);
    near(f.seconds, 0.701);
    near(f.goodput_per_s, 2 / 0.701);
    near(f.output_per_s, 34 / 0.701);
    assert_int_equal(figures(&r, NULL).good, 4);
    assert_string_equal(r.kind[1], "queue_full");
    assert_int_equal(r.kind_count[1], 1);
    tool_replay_result_done(&r);
}

static void limits_are_read_with_their_units_and_others_refused(void **state)
{
    (void)state;
    tool_replay_slo s;
    assert_int_equal(tool_replay_slo_read(&s, "e2e:2s,tpot:750us", NULL), BT_OK);
    assert_true(s.ttft_us == -1 && s.e2e_us == 2000000 && s.tpot_us == 750);
    static const char *const wrong[] = {"",        "ttft",      "ttft:",     "ttft:5",  "ttft:ms",
                                        "itl:5ms", "ttft:5ms,", "ttft:-5ms", "ttft:5m", "ttft:1e99s"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tool_replay_slo_read(&s, wrong[i], NULL), BT_EARG);
}

static tool_replay_record paced(int64_t due, int64_t wait, uint32_t tokens, int64_t late_ms,
                                int64_t prompt_late_ms)
{
    tool_replay_record r = one(due, 0, wait, tokens, 10);
    r.paced_us = 100000;
    r.pace_late_us = late_ms * 1000;
    r.prompt_late_us = prompt_late_ms * 1000;
    return r;
}

/* The second came while the first was in flight: each waited for both late prompts. The third came alone. */
static void late_work_moves_its_own_request_and_those_behind_it(void **state)
{
    (void)state;
    tool_replay_result r = begin(3);
    const tool_replay_record all[] = {paced(0, 100, 11, 7, 2), paced(50, 200, 6, 10, 5),
                                      paced(5000, 100, 1, 4, 4)};
    for (size_t i = 0; i < 3; i++) tool_replay_result_add(&r, &all[i]);
    const tool_replay_figures f = figures(&r, NULL);
    near(f.paced_s, 0.3);
    near(f.pace_late_s, 0.021);
    near(f.moved.ttft.mean_ms, ((2 + 5) + (2 + 5) + 4) / 3.0); /* the second began before the first's token
                                                                  came */
    near(f.moved.tpot.mean_ms, (5 / 10.0 + 5 / 5.0) / 2);
    near(f.moved.e2e.mean_ms, (7 + 5 + 7 + 5 + 4) / 3.0);
    near(f.moved.ttft.worst_ms, 7);
    near(f.moved.tpot.worst_ms, 1);
    near(f.moved.e2e.worst_ms, 12);
    tool_replay_result_done(&r);
}

static void a_generator_that_is_late_busy_or_out_of_streams_says_so(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        tool_replay_result r = begin(100);
        for (int i = 0; i < 100; i++) {
            const tool_replay_record o = one(i * 10, way == 1 ? 30 : 1, 100, 11, 20);
            tool_replay_result_add(&r, &o);
        }
        r.cpu_us = way == 2 ? r.end_us * 95 / 100 : r.end_us / 10;
        r.hit_streams_limit = way == 3;
        const tool_replay_figures f = figures(&r, NULL);
        assert_int_equal(f.is_bottleneck, way > 0);
        static const char *const words[] = {"", "30.0 ms late", "95 % of a core", "--streams"};
        assert_non_null(strstr(f.bottleneck, words[way]));
        tool_replay_result_done(&r);
    }
}

static void gaps_are_counted_in_rows_of_half_a_doubling_and_columns_that_widen(void **state)
{
    (void)state;
    tool_replay_result r = begin(1);
    static const struct {
        int64_t gap_us;
        int row;
    } c[] = {{0, 0}, {64, 0}, {90, 0}, {91, 1}, {127, 1}, {128, 2}, {1000000, 27}, {INT64_C(1) << 40, 39}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const uint32_t before = r.heat.count[0][c[i].row];
        tool_replay_result_gap(&r, 0, c[i].gap_us);
        if (r.heat.count[0][c[i].row] != before + 1)
            fail_msg("gap %lld is not in row %d", (long long)c[i].gap_us, c[i].row);
    }
    assert_int_equal(r.heat.width_us, 100000);
    tool_replay_result_gap(&r, 60 * 1000000, 64); /* 240 columns of 100 ms are 24 s */
    assert_int_equal(r.heat.width_us, 400000);
    assert_int_equal(r.heat.columns, 151);
    assert_int_equal(r.heat.count[0][0], 3);
    assert_int_equal(r.heat.count[150][0], 1);
    assert_int_equal(r.itl_us.n, 9);
    tool_replay_result_done(&r);
}

static void tables_of_failures_nodes_and_samples_have_an_end(void **state)
{
    (void)state;
    tool_replay_result r = begin(1);
    char name[24];
    for (int i = 0; i < 500; i++) {
        (void)snprintf(name, sizeof name, "kind-%d", i);
        const uint8_t k = tool_replay_result_kind(&r, name);
        assert_true(k > 0 && k < TOOL_REPLAY_MAX_KINDS);
        assert_int_equal(tool_replay_result_node(&r, name, "decode"), i);
    }
    assert_int_equal(tool_replay_result_kind(&r, "kind-3"), 4);
    assert_string_equal(r.kind[TOOL_REPLAY_MAX_KINDS - 1], "other");
    assert_int_equal(r.nodes, 500);
    assert_int_equal(r.tracks, TOOL_REPLAY_TRACKS); /* later nodes have none */
    assert_int_equal(r.node[63].track, 63);
    assert_int_equal(r.node[64].track, TOOL_REPLAY_NOBODY);
    for (int i = 500; i < TOOL_REPLAY_MAX_NODES + 5; i++)
        assert_int_equal(tool_replay_result_node_of(&r, "more", "decode", "kind-5"),
                         i < TOOL_REPLAY_MAX_NODES ? i : TOOL_REPLAY_MAX_NODES);
    assert_int_equal(r.track[5].nodes, 1 + TOOL_REPLAY_MAX_NODES - 500);
    const int64_t every = r.sample_every_us;
    for (int i = 0; i < 3 * TOOL_REPLAY_MAX_SAMPLES; i++) tool_replay_result_sample(&r)->at_us = i;
    assert_true(r.samples <= TOOL_REPLAY_MAX_SAMPLES && r.sample_every_us > every);
    for (size_t i = 1; i < r.samples; i++) assert_true(r.sample[i].at_us > r.sample[i - 1].at_us);
    tool_replay_result_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency_counts_from_when_a_request_should_have_been_sent),
        cmocka_unit_test(one_token_has_no_time_between_tokens_and_none_no_first),
        cmocka_unit_test(percentiles_are_those_of_sorted_values),
        cmocka_unit_test(a_percentile_of_few_values_is_the_nearest_rank),
        cmocka_unit_test(goodput_is_what_keeps_every_limit),
        cmocka_unit_test(limits_are_read_with_their_units_and_others_refused),
        cmocka_unit_test(late_work_moves_its_own_request_and_those_behind_it),
        cmocka_unit_test(a_generator_that_is_late_busy_or_out_of_streams_says_so),
        cmocka_unit_test(gaps_are_counted_in_rows_of_half_a_doubling_and_columns_that_widen),
        cmocka_unit_test(tables_of_failures_nodes_and_samples_have_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
