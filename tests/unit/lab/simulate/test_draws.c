/* Error bars of clusters, and runs that are repeated with drawn devices. */
#include "lab/simulate/draws.h"
#include "tests/helpers/brain/sim_kit.h"
#include "lab/simulate/load.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { DRAWS = 12, SEED = 1 };

/* All terms are off by one of these, each as often; without any, the profile is a bound. */
static void calibrate(bt_profile *p, const int32_t *residuals, uint32_t n)
{
    bt_calibration *c = &p->time.calibration;
    memset(c, 0, sizeof *c);
    if (!n) return;
    (void)snprintf(c->on, sizeof c->on, "rows of a test");
    c->rows = 40, c->shapes = 3, c->has_prefill = c->has_decode = 1;
    c->error[BT_FIGURE_TTFT].median_permille = c->error[BT_FIGURE_TTFT].worst_permille = 80;
    c->error[BT_FIGURE_TTFT].rows = 20;
    c->region[BT_AXIS_CONTEXT].lo = 1, c->region[BT_AXIS_CONTEXT].hi = 400;
    for (int k = 0; k < BT_TERMS; k++) {
        c->residuals[k] = n;
        memcpy(c->residual[k], residuals, n * sizeof *residuals);
    }
}

typedef struct run {
    tool_simulate_setup setup;
    tool_simulate_bench *bench;
    tool_replay_plan plan;
    tool_simulate_draws draws;
} run;

static run played(const char *prefill, const char *decode, const int32_t *residuals, uint32_t n)
{
    run r = {.bench = NULL};
    tool_replay_synthetic s;
    uint64_t bad;
    const tool_simulate_load l = {.synthetic = &s, .limit = 12,
                                  .how = {.seed = 3, .context_tokens = SIM_KIT_CTX, .speed = 1}};
    sim_kit_setup(&r.setup, prefill, decode);
    r.setup.seed = SEED;
    calibrate(&r.setup.prefill.group[0].profile, residuals, n);
    calibrate(&r.setup.decode.group[0].profile, residuals, n);
    assert_int_equal(tool_replay_synthetic_read(&s, "in:300,out:20,rate:0.05", NULL), BT_OK);
    assert_int_equal(tool_simulate_load_read(&r.plan, &bad, &l, NULL), BT_OK);
    assert_int_equal(tool_simulate_bench_new(&r.bench, &r.setup, NULL), BT_OK);
    assert_int_equal(tool_simulate_draws_play(&r.draws, r.bench, &r.plan, NULL, DRAWS, SEED, NULL), BT_OK);
    return r;
}

static void done(run *r)
{
    tool_simulate_draws_done(&r->draws);
    tool_simulate_bench_free(r->bench);
    tool_replay_plan_done(&r->plan);
}

static tool_replay_figures figures(const run *r)
{
    tool_replay_result result;
    tool_replay_figures f;
    tool_simulate_facts facts;
    assert_int_equal(tool_replay_result_begin(&result, r->plan.len, NULL), BT_OK);
    assert_int_equal(tool_simulate_play(&facts, &result, r->bench, &r->plan, NULL, NULL, NULL), BT_OK);
    assert_int_equal(tool_replay_figures_of(&f, &result, NULL, NULL), BT_OK);
    tool_replay_result_done(&result);
    return f;
}

static void devices_that_take_what_is_priced_change_nothing(void **state)
{
    (void)state;
    static const int32_t none[] = {0};
    static const char *const pairs[][2] = {{"1:h100", "1:h100"}, {"1:hexagon-v75", "1:adreno-750"}};
    for (size_t i = 0; i < 2; i++) {
        run r = played(pairs[i][0], pairs[i][1], none, 1);
        const tool_replay_figures f = figures(&r);
        for (size_t k = 0; k < DRAWS; k++) {
            assert_true(fabs(r.draws.value[TOOL_SIMULATE_DRAWN_TTFT][k] - f.ttft_ms.mean) < 1e-9);
            assert_true(fabs(r.draws.value[TOOL_SIMULATE_DRAWN_TPOT][k] - f.tpot_ms.mean) < 1e-9);
        }
        done(&r);
    }
}

/* Alone in the cluster: nothing waits, and the link and the gateway are as they were. */
static void twice_as_slow_devices_take_twice_as_long_under_any_schedule(void **state)
{
    (void)state;
    static const int32_t twice[] = {1000};
    run r = played("1:hexagon-v75", "1:adreno-750", twice, 1);
    const tool_replay_figures f = figures(&r); /* the bench is as it was before */
    const double ttft = r.draws.value[TOOL_SIMULATE_DRAWN_TTFT][0] / f.ttft_ms.mean,
                 tpot = r.draws.value[TOOL_SIMULATE_DRAWN_TPOT][0] / f.tpot_ms.mean;
    if (ttft < 1.98 || ttft > 2) fail_msg("TTFT %.4f times", ttft);
    if (tpot < 1.98 || tpot > 2) fail_msg("TPOT %.4f times", tpot);
    done(&r);
    tool_simulate_bench *b = NULL;
    r.setup.schedule = BT_SCHEDULE_FIFO;
    r.setup.window = 2;
    assert_int_equal(tool_simulate_bench_new(&b, &r.setup, NULL), BT_OK);
    r.bench = b;
    tool_replay_synthetic s;
    uint64_t bad;
    const tool_simulate_load l = {.synthetic = &s, .limit = 4,
                                  .how = {.seed = 3, .context_tokens = SIM_KIT_CTX, .speed = 1}};
    assert_int_equal(tool_replay_synthetic_read(&s, "in:900,out:2,rate:0.01", NULL), BT_OK);
    assert_int_equal(tool_simulate_load_read(&r.plan, &bad, &l, NULL), BT_OK);
    const double once = figures(&r).ttft_ms.mean;
    tool_simulate_bench_draw(b, true, 0);
    const double drawn = figures(&r).ttft_ms.mean / once;
    if (drawn < 1.97 || drawn > 2.01) fail_msg("TTFT under fifo %.4f times", drawn);
    tool_simulate_bench_free(b);
    tool_replay_plan_done(&r.plan);
}

/* Two clusters of one device have the same draws, so the one that is faster is so in all of them. */
static void clusters_of_one_device_are_compared_draw_by_draw(void **state)
{
    (void)state;
    run one = played("1:a100", "1:a100", NULL, 0), again = played("1:a100", "1:a100", NULL, 0),
        npu = played("1:a100", "1:adreno-750", NULL, 0);
    double least = INFINITY, most = 0;
    for (size_t k = 0; k < DRAWS; k++) {
        const double ttft = one.draws.value[TOOL_SIMULATE_DRAWN_TTFT][k];
        assert_true(ttft <= again.draws.value[TOOL_SIMULATE_DRAWN_TTFT][k] &&
                    ttft >= again.draws.value[TOOL_SIMULATE_DRAWN_TTFT][k]);
        assert_true(one.draws.value[TOOL_SIMULATE_DRAWN_TPOT][k] <
                    npu.draws.value[TOOL_SIMULATE_DRAWN_TPOT][k]);
        least = fmin(least, ttft);
        most = fmax(most, ttft);
    }
    assert_true(most > 1.2 * least);
    assert_true(one.draws.low[TOOL_SIMULATE_DRAWN_TTFT] >= least);
    assert_true(one.draws.high[TOOL_SIMULATE_DRAWN_TTFT] <= most);
    json_t *o = tool_simulate_draws_json(&one.draws, false), *values = json_object_get(o, "values");
    assert_int_equal(json_array_size(json_object_get(values, "ttft_ms")), DRAWS);
    assert_null(json_object_get(values, "joules"));
    json_decref(o);
    done(&one);
    done(&again);
    done(&npu);
}

static void the_error_is_of_the_side_that_a_figure_is_made_on_and_of_the_loads_region(void **state)
{
    (void)state;
    tool_simulate_setup s;
    static const int32_t some[] = {-50, 50};
    sim_kit_setup(&s, "1:h100", "1:h100");
    calibrate(&s.prefill.group[0].profile, some, 2);
    calibrate(&s.decode.group[0].profile, NULL, 0);
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TTFT, NULL, NULL).median_permille, 80);
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TPOT, NULL, NULL).standing, BT_STANDING_BOUND);
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_JOULES, NULL, NULL).standing, BT_STANDING_BOUND);
    s.is_colocated = true; /* then each node does both */
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TTFT, NULL, NULL).standing, BT_STANDING_BOUND);
    s.is_colocated = false;
    tool_replay_item item[2] = {{.prompt_tokens = 300}, {.prompt_tokens = 500}};
    const tool_replay_plan plan = {.item = item, .len = 2};
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TTFT, &plan, NULL).outside, 1u << BT_AXIS_CONTEXT);
    item[1].prompt_tokens = 400;
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TTFT, &plan, NULL).outside, 0);
}

static void the_rows_of_a_prompt_are_those_of_its_chunk_and_of_a_mixed_step(void **state)
{
    (void)state;
    tool_simulate_setup s;
    static const int32_t some[] = {-50, 50};
    tool_replay_item item = {.prompt_tokens = 400, .output_tokens = 1};
    const tool_replay_plan plan = {.item = &item, .len = 1};
    const tool_replay_result result = {.most_streams = 8};
    sim_kit_setup(&s, "1:h100", "1:h100");
    bt_profile *const devices[] = {&s.prefill.group[0].profile, &s.decode.group[0].profile};
    for (size_t i = 0; i < 2; i++) {
        calibrate(devices[i], some, 2);
        devices[i]->time.calibration.region[BT_AXIS_CONTEXT].hi = 4096;
        devices[i]->time.calibration.region[BT_AXIS_ROWS].lo = 1;
        devices[i]->time.calibration.region[BT_AXIS_ROWS].hi = 130;
    }
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TTFT, &plan, &result).outside, 1u << BT_AXIS_ROWS);
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TPOT, &plan, &result).outside, 0);
    s.shape_policy = "chunk:128+tail";
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TTFT, &plan, &result).outside, 0);
    s.is_colocated = true; /* 128 rows of a piece, and those of four streams on each node */
    s.cluster.chunk_tokens = 128;
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TTFT, &plan, &result).outside, 1u << BT_AXIS_ROWS);
    s.cluster.chunk_tokens = 126;
    assert_int_equal(tool_simulate_error(&s, BT_FIGURE_TPOT, &plan, &result).outside, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_that_take_what_is_priced_change_nothing),
        cmocka_unit_test(twice_as_slow_devices_take_twice_as_long_under_any_schedule),
        cmocka_unit_test(clusters_of_one_device_are_compared_draw_by_draw),
        cmocka_unit_test(the_error_is_of_the_side_that_a_figure_is_made_on_and_of_the_loads_region),
        cmocka_unit_test(the_rows_of_a_prompt_are_those_of_its_chunk_and_of_a_mixed_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
