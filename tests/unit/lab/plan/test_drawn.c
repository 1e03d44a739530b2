/* Draws of a plan against what a hand computes, and what they say of choices that are nearly alike. */
#include "lab/plan/drawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

typedef struct world {
    bt_profile prefill, decode;
    tool_plan_load load;
    tool_plan_want want;
    tool_plan_result result;
} world;

static bt_profile device(const char *name)
{
    bt_profile p;
    bt_fault f = {""};
    if (bt_profile_load(&p, name, &f) < 0) fail_msg("%s: %s", name, f.text);
    memset(&p.time.calibration, 0, sizeof p.time.calibration);
    return p;
}

/* All terms are off by one of these, each as often. */
static void calibrate(bt_profile *p, const int32_t *residuals, uint32_t n)
{
    bt_calibration *c = &p->time.calibration;
    (void)snprintf(c->on, sizeof c->on, "rows of a test");
    c->rows = 40, c->shapes = 3, c->has_prefill = c->has_decode = 1;
    c->error[BT_FIGURE_TTFT].median_permille = c->error[BT_FIGURE_TTFT].worst_permille = 100;
    c->error[BT_FIGURE_TTFT].rows = 20;
    for (int k = 0; k < BT_TERMS; k++) {
        c->residuals[k] = n;
        memcpy(c->residual[k], residuals, n * sizeof *residuals);
    }
}

static world begin(const char *prefill, const char *decode, uint32_t draws)
{
    world w = {.prefill = device(prefill), .decode = device(decode)};
    w.load.has_arrivals = true;
    for (uint32_t i = 0; i < 40; i++) {
        const tool_plan_request r = {.arrival_us = (int64_t)i * 900000, .input = 50 + i * 37 % 900,
                                     .output = 1 + i * 13 % 60};
        assert_int_equal(tool_plan_load_add(&w.load, &r, NULL), BT_OK);
    }
    assert_int_equal(tool_plan_load_end(&w.load, 1024, 1, NULL), BT_OK);
    w.want = (tool_plan_want){.dims = bt_dims_find("llama-3.2-1b"),
                              .link = {.bits_per_us = 1000},
                              .decode_form = tool_plan_float_form(0),
                              .slots = 32,
                              .ctx_tokens = 1024,
                              .arenas = 2,
                              .npu_ops = BT_PKG_OPS_LINEAR,
                              .limits = {-1, -1, -1},
                              .draws = draws,
                              .seed = 5};
    return w;
}

static void make(world *w, bool is_colocated)
{
    bt_fault f = {""};
    w->want.prefill = &w->prefill;
    w->want.decode = &w->decode;
    if (tool_plan_make(&w->result, &w->want, &w->load, is_colocated, &f) < 0) fail_msg("%s", f.text);
}

static void done(world *w)
{
    tool_plan_result_done(&w->result);
    tool_plan_load_done(&w->load);
}

static void is_near(double a, double b)
{
    if (fabs(a - b) > 1e-9 * (fabs(a) + fabs(b)) + 1e-9) fail_msg("%.12g instead of %.12g", a, b);
}

static void devices_that_take_what_is_priced_give_the_same_figures(void **state)
{
    (void)state;
    static const int32_t none[] = {0};
    static const char *const pairs[][2] = {{"hexagon-v75", "adreno-750"}, {"a100", "h100"}};
    for (size_t i = 0; i < 2; i++) {
        world w = begin(pairs[i][0], pairs[i][1], 3);
        calibrate(&w.prefill, none, 1);
        calibrate(&w.decode, none, 1);
        w.want.limits = (tool_plan_limits){300000, 70000, 4000000};
        w.want.has_limits = true;
        make(&w, true);
        for (size_t k = 0; k < w.result.choices + w.result.alones; k++) {
            const bool is_alone = k >= w.result.choices;
            const tool_plan_choice *c =
                is_alone ? &w.result.alone[k - w.result.choices] : &w.result.choice[k];
            const tool_plan_figures f = tool_plan_drawn(&c->f, &w.want, 0, is_alone);
            is_near(f.prefill_ns, c->f.prefill_ns);
            is_near(f.wait_ns, c->f.wait_ns);
            is_near(f.tpot_ns, c->f.tpot_ns);
            is_near(f.e2e_ns, c->f.e2e_ns);
            is_near(f.decode_busy, c->f.decode_busy);
            if (fabs(f.kept - c->f.kept) > 1e-6) fail_msg("%g of %g kept", f.kept, c->f.kept);
            if (fabs(f.joules - c->f.joules) > 1e-6 * c->f.joules + 1e-9)
                fail_msg("%g J instead of %g", f.joules, c->f.joules);
        }
        assert_int_equal(w.result.choice[0].wins, 3);
        assert_false(w.result.choice[0].is_tie);
        done(&w);
    }
}

/* The wait of a queue by hand, with prompts that take twice as long. */
static double waits(const world *w, const tool_plan_choice *c, double factor)
{
    double free_ns = 0, wait = 0;
    bt_price_recipe r = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16,
                         .weight_bytes_permille = 2000};
    const bt_price_model m = bt_price_model_of(w->want.dims, &r);
    assert_string_equal(c->policy, "whole");
    for (size_t i = 0; i < w->load.n; i++) {
        const bt_price_step s = bt_price_prefill_step(0, w->load.at[i].input, 0);
        const double at = (double)w->load.at[i].arrival_us * 1e3,
                     took = factor * (double)bt_price_step_of(&w->prefill, &m, &s).ns,
                     start = free_ns > at ? free_ns : at;
        free_ns = start + took;
        wait += start - at;
    }
    return wait / (double)w->load.n;
}

static void twice_as_slow_devices_have_twice_the_times_and_the_queue_of_that(void **state)
{
    (void)state;
    static const int32_t twice[] = {1000};
    static const char *const policy[] = {"whole"}, *const form[] = {"f16"}, *const kv[] = {"f16"};
    world w = begin("adreno-750", "adreno-750", 2);
    calibrate(&w.prefill, twice, 1);
    calibrate(&w.decode, twice, 1);
    w.want.policy = policy, w.want.policies = 1;
    w.want.recipe = form, w.want.recipes = 1;
    w.want.kv = kv, w.want.kvs = 1;
    make(&w, false);
    const tool_plan_choice *c = &w.result.choice[0];
    const tool_plan_figures f = tool_plan_drawn(&c->f, &w.want, 1, false);
    is_near(f.prefill_ns, 2 * c->f.prefill_ns);
    is_near(f.tpot_ns, 2 * c->f.tpot_ns);
    is_near(f.prefill_busy, 2 * c->f.prefill_busy);
    const double once = waits(&w, c, 1), more = waits(&w, c, 2);
    assert_true(more > 2 * once && more > 0);
    if (fabs(c->f.wait_ns - once) > 1e-3 * more) fail_msg("waits %g instead of %g", c->f.wait_ns, once);
    if (fabs(f.wait_ns - more) > 1e-3 * more) fail_msg("waits %g instead of %g", f.wait_ns, more);
    is_near(f.e2e_ns - f.wait_ns, 2 * (c->f.e2e_ns - c->f.wait_ns) - c->f.exposed_ns);
    is_near(c->band[TOOL_PLAN_BAND_TTFT].low, f.prefill_ns);
    is_near(c->band[TOOL_PLAN_BAND_TPOT].high, f.tpot_ns);
    done(&w);
}

static void draws_are_those_of_their_seed(void **state)
{
    (void)state;
    world a = begin("hexagon-v75", "adreno-750", 100), b = begin("hexagon-v75", "adreno-750", 100),
          other = begin("hexagon-v75", "adreno-750", 100);
    other.want.seed = 6;
    make(&a, false);
    make(&b, false);
    make(&other, false);
    assert_int_equal(a.result.choices, b.result.choices);
    for (size_t i = 0; i < a.result.choices; i++) {
        assert_int_equal(a.result.choice[i].wins, b.result.choice[i].wins);
        assert_memory_equal(a.result.choice[i].band, b.result.choice[i].band, sizeof b.result.choice[i].band);
    }
    assert_memory_not_equal(a.result.choice[0].band, other.result.choice[0].band,
                            sizeof a.result.choice[0].band);
    done(&a);
    done(&b);
    done(&other);
}

/* Rows of KV of 8 bits ask for less of every term, so the common error cancels, however large it is. */
static void choices_on_one_pair_are_told_apart_and_a_pair_from_a_nearly_equal_device_is_not(void **state)
{
    (void)state;
    world w = begin("adreno-750", "adreno-750", 200);
    static const int32_t wide[] = {-300, -100, 0, 100, 300};
    static const char *const policy[] = {"whole"}, *const form[] = {"f16"}, *const kv[] = {"f16", "int8"};
    w.want.policy = policy, w.want.policies = 1;
    w.want.recipe = form, w.want.recipes = 1;
    w.want.kv = kv, w.want.kvs = 2;
    w.want.by = TOOL_PLAN_BY_TTFT;
    calibrate(&w.prefill, wide, 5);
    calibrate(&w.decode, wide, 5);
    make(&w, true);
    const tool_plan_choice *best = &w.result.choice[0];
    assert_int_equal(w.result.choices, 2);
    assert_int_equal(best->wins, 200);
    for (size_t i = 1; i < w.result.choices; i++) {
        assert_false(w.result.choice[i].is_tie);
        assert_true(tool_plan_beats(best, &w.result.choice[i], false, &w.want) > .99);
    }
    /* the same devices under another name are drawn by themselves */
    world two = begin("adreno-750", "adreno-750", 200);
    (void)snprintf(two.prefill.title, sizeof two.prefill.title, "another one");
    calibrate(&two.prefill, wide, 5);
    calibrate(&two.decode, wide, 5);
    two.want.policy = policy, two.want.policies = 1;
    two.want.recipe = form, two.want.recipes = 1;
    two.want.kv = kv, two.want.kvs = 2;
    two.want.by = TOOL_PLAN_BY_TTFT;
    make(&two, true);
    const double together = tool_plan_beats(&w.result.choice[0], &w.result.alone[0], true, &w.want),
                 apart = tool_plan_beats(&two.result.choice[0], &two.result.alone[0], true, &two.want);
    assert_true(together > .99);
    assert_true(apart < together);
    done(&w);
    done(&two);
}

static void ties_have_nine_tenths_of_the_wins_with_the_best(void **state)
{
    (void)state;
    static const int32_t wide[] = {-600, -300, 0, 800, 1500};
    world w = begin("hexagon-v75", "adreno-750", 400);
    calibrate(&w.prefill, wide, 5);
    calibrate(&w.decode, wide, 5);
    w.want.by = TOOL_PLAN_BY_TTFT;
    make(&w, false);
    uint32_t wins = w.result.choice[0].wins, ties = 0, least = UINT32_MAX, all = 0;
    for (size_t i = 0; i < w.result.choices; i++) {
        const tool_plan_choice *c = &w.result.choice[i];
        all += c->wins;
        if (!c->is_tie) continue;
        assert_true(i > 0);
        ties++;
        wins += c->wins;
        if (c->wins < least) least = c->wins;
    }
    assert_true(all <= 400);
    assert_int_equal(ties > 0, w.result.choice[0].wins < 360);
    assert_true(wins >= 360);
    if (ties) assert_true(wins - least < 360); /* none too many */
    done(&w);
}

/* Without a sanitizer it takes some 30 ms. */
static void a_hundred_draws_of_all_choices_take_under_a_second(void **state)
{
    (void)state;
    struct timespec t0, t1;
    world w = begin("hexagon-v75", "adreno-750", 100);
    static const int schedules[] = {BT_SCHEDULE_SERIAL, BT_SCHEDULE_FIFO, BT_SCHEDULE_OOO};
    w.want.schedule = schedules, w.want.schedules = 3;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    make(&w, true);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    const double s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
    print_message("%zu choices in %.3f s of the processor\n", w.result.priced, s);
    assert_true(w.result.priced >= 180);
#ifndef __SANITIZE_ADDRESS__
    assert_true(s < 1);
#endif
    done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_that_take_what_is_priced_give_the_same_figures),
        cmocka_unit_test(twice_as_slow_devices_have_twice_the_times_and_the_queue_of_that),
        cmocka_unit_test(draws_are_those_of_their_seed),
        cmocka_unit_test(choices_on_one_pair_are_told_apart_and_a_pair_from_a_nearly_equal_device_is_not),
        cmocka_unit_test(ties_have_nine_tenths_of_the_wins_with_the_best),
        cmocka_unit_test(a_hundred_draws_of_all_choices_take_under_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
