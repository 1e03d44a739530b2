/* The choices that there are, those that go, and the best. */
#include "lab/plan/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

typedef struct world {
    bt_profile prefill, companion, decode;
    tool_plan_want want;
    tool_plan_load load;
    tool_plan_result result;
} world;

static void begin(world *w, const char *prefill, const char *decode, const char *shape)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(bt_profile_load(&w->prefill, prefill, NULL), BT_OK);
    assert_int_equal(bt_profile_load(&w->decode, decode, NULL), BT_OK);
    w->load.has_arrivals = true;
    for (uint32_t i = 0; i < 200; i++) {
        const tool_plan_request r = {i * INT64_C(20000000), 1 + i * 37 % 1900, 20 + i % 50};
        assert_int_equal(tool_plan_load_add(&w->load, &r, NULL), BT_OK);
    }
    assert_int_equal(tool_plan_load_end(&w->load, 2048, 1, NULL), BT_OK);
    w->want = (tool_plan_want){.prefill = &w->prefill,
                               .decode = &w->decode,
                               .dims = bt_dims_find(shape),
                               .link = {.bits_per_us = 10000},
                               .decode_form = tool_plan_float_form(0),
                               .slots = 32,
                               .ctx_tokens = 2048,
                               .arenas = 8,
                               .limits = {-1, -1, -1}};
    if (w->prefill.time.companion[0]) {
        assert_int_equal(bt_profile_load(&w->companion, w->prefill.time.companion, NULL), BT_OK);
        w->want.companion = &w->companion;
    }
}

static void make(world *w)
{
    bt_fault f = {""};
    tool_plan_result_done(&w->result);
    if (tool_plan_make(&w->result, &w->want, &w->load, true, &f) < 0) fail_msg("%s", f.text);
}

static void end(world *w)
{
    tool_plan_load_done(&w->load);
    tool_plan_result_done(&w->result);
}

static size_t count(const world *w, const char *policy, const char *recipe, const char *kv, int schedule)
{
    size_t n = 0;
    for (size_t i = 0; i < w->result.choices; i++) {
        const tool_plan_choice *c = &w->result.choice[i];
        n += (!policy || !strcmp(c->policy, policy)) && (!recipe || !strcmp(c->form.name, recipe)) &&
             (!kv || !strcmp(c->kv->name, kv)) && (schedule < 0 || (int)c->schedule == schedule);
    }
    return n;
}

static void every_dimension_is_compared(void **state)
{
    (void)state;
    world w;
    begin(&w, "hexagon-v75", "adreno-750", "llama-3.2-1b");
    make(&w);
    assert_true(w.result.priced >= 8 * 4 * 2 * 3);
    assert_true(w.result.choices < w.result.priced);
    assert_true(count(&w, NULL, "w8a8", "f16", -1) && count(&w, NULL, "w4a8", "int8", -1) &&
                count(&w, NULL, NULL, NULL, BT_SCHEDULE_SERIAL) &&
                count(&w, NULL, NULL, NULL, BT_SCHEDULE_OOO));
    assert_int_equal(w.result.alones, 8);
    assert_true(w.result.has_usual);
    end(&w);
}

/* The weights of an 8B model fill several sessions of hexagon-v75: no node runs chunks of them beside each
 * other. */
static void programs_of_several_sessions_have_program_order_alone(void **state)
{
    (void)state;
    static const char *const one[] = {"chunk:256"}, *const recipe[] = {"w8a8"};
    static const int fifo[] = {BT_SCHEDULE_FIFO};
    bt_fault f = {""};
    world w;
    begin(&w, "hexagon-v75", "adreno-750", "llama-3.1-8b");
    w.want.policy = one;
    w.want.recipe = recipe;
    w.want.policies = w.want.recipes = 1;
    make(&w);
    assert_true(w.result.choice[0].sessions > 1);
    assert_int_equal(count(&w, NULL, NULL, NULL, BT_SCHEDULE_SERIAL), w.result.choices);
    assert_int_equal(w.result.refusals, 0);
    tool_plan_result_done(&w.result);
    w.want.schedule = fifo;
    w.want.schedules = 1;
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "runs in program order alone"));
    end(&w);
}

static void what_is_kept_is_dominated_by_nothing(void **state)
{
    (void)state;
    world w;
    begin(&w, "hexagon-v75", "adreno-750", "llama-3.2-1b");
    make(&w);
    for (size_t i = 0; i < w.result.choices; i++)
        for (size_t k = 0; k < w.result.choices; k++)
            assert_false(tool_plan_dominates(&w.result.choice[k], &w.result.choice[i]));
    /* and the best by anything is among them */
    tool_plan_choice worse = w.result.choice[0];
    worse.programs++;
    assert_true(tool_plan_dominates(&w.result.choice[0], &worse));
    assert_false(tool_plan_dominates(&worse, &w.result.choice[0]));
    worse.form.weight_bits = 16;
    assert_false(tool_plan_dominates(&w.result.choice[0], &worse));
    end(&w);
}

static void fp8_and_nvfp4_are_choices_of_devices_that_compute_in_them(void **state)
{
    (void)state;
    static const char *const fp8[] = {"fp8"}, *const forms[] = {"f16", "nvfp4"};
    bt_fault f = {""};
    world w;
    begin(&w, "a100", "a100", "llama-3.1-8b");
    w.prefill.time.fp8_permille = w.prefill.time.fp4_permille = 2000;
    make(&w); /* the KV is read by the device that decodes, which has no FP8 */
    assert_true(count(&w, NULL, "fp8", NULL, -1) && count(&w, NULL, "nvfp4", NULL, -1));
    assert_int_equal(count(&w, NULL, NULL, "fp8", -1), 0);
    w.decode.time.fp8_permille = 2000;
    make(&w);
    assert_true(count(&w, NULL, "fp8", "fp8", -1));
    assert_true(w.result.choice[0].is_allowed);
    w.prefill.time.fp8_permille = w.prefill.time.fp4_permille = 0;
    make(&w);
    assert_int_equal(count(&w, NULL, "fp8", NULL, -1) + count(&w, NULL, NULL, "fp8", -1), 0);
    assert_int_equal(w.result.refusals, 0);
    w.want.recipe = forms; /* one that was asked for is refused in words */
    w.want.recipes = 2;
    make(&w);
    assert_int_equal(w.result.refusals, 4);
    assert_string_equal(w.result.refused[0].why,
                        "'a100' does not compute in NVFP4: its profile has no 'fp4_permille'");
    w.want.recipes = 0;
    w.want.kv = fp8;
    w.want.kvs = 1;
    tool_plan_result_done(&w.result);
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, &f), BT_EARG);
    assert_non_null(strstr(f.text, "does not compute in FP8"));
    w.want.kvs = 0;
    w.decode.time.fp8_permille = 0;
    w.want.decode_form = tool_plan_float_form(3);
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, &f), BT_EARG);
    end(&w);
}

/* A prompt of 1,000 tokens and more is computed for as long whatever its weights are read from. */
static void fewer_bits_that_gain_no_time_are_never_best(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16"};
    world w;
    begin(&w, "a100", "a100", "llama-3.1-8b");
    tool_plan_load_done(&w.load);
    w.load = (tool_plan_load){.has_arrivals = true};
    for (uint32_t i = 0; i < 20; i++) {
        const tool_plan_request one = {i * INT64_C(20000000), 1000 + i * 37, 20};
        assert_int_equal(tool_plan_load_add(&w.load, &one, NULL), BT_OK);
    }
    assert_int_equal(tool_plan_load_end(&w.load, 2048, 1, NULL), BT_OK);
    w.want.kv = kv;
    w.want.kvs = 1;
    for (int any = 0; any < 2; any++) {
        w.want.any_bits = any;
        make(&w);
        const tool_plan_choice *best = &w.result.choice[0];
        assert_string_equal(best->form.name, "f16");
        size_t idle = 0;
        for (size_t i = 1; i < w.result.choices; i++) {
            const tool_plan_choice *c = &w.result.choice[i];
            if (strcmp(c->policy, best->policy) || !strcmp(c->form.name, "f16")) continue;
            assert_true(c->gains_no_time && c->f.e2e_ns <= best->f.e2e_ns);
            idle++;
        }
        assert_int_equal(idle, 2);
    }
    w.want.by = TOOL_PLAN_BY_MEMORY; /* what is asked for is what they gain */
    make(&w);
    assert_string_equal(w.result.choice[0].form.name, "fp4");
    end(&w);
}

static void the_best_has_least_of_what_is_asked(void **state)
{
    (void)state;
    world w;
    begin(&w, "hexagon-v75", "adreno-750", "smollm2-135m");
    for (int by = 0; by < TOOL_PLAN_BYS; by++) {
        if (by == TOOL_PLAN_BY_JOULES) continue;
        w.want.by = (tool_plan_by)by;
        make(&w);
        const tool_plan_choice *best = &w.result.choice[0];
        assert_true(best->is_allowed);
        assert_false(best->f.is_overloaded);
        for (size_t i = 1; i < w.result.choices; i++)
            if (w.result.choice[i].is_allowed && !w.result.choice[i].f.is_overloaded)
                assert_true(tool_plan_value(best, w.want.by) <=
                            tool_plan_value(&w.result.choice[i], w.want.by));
    }
    end(&w);
}

static void fewer_bits_are_best_only_where_they_were_asked_for(void **state)
{
    (void)state;
    static const char *const w4[] = {"w4a8", "w8a8"};
    world w;
    begin(&w, "hexagon-v75", "adreno-750", "llama-3.2-1b");
    w.want.by = TOOL_PLAN_BY_MEMORY;
    make(&w);
    assert_int_equal(w.result.choice[0].form.weight_bits, 8);
    assert_string_equal(w.result.choice[0].kv->name, "f16");
    w.want.any_bits = true;
    make(&w);
    assert_int_equal(w.result.choice[0].form.weight_bits, 4);
    assert_string_equal(w.result.choice[0].kv->name, "int8");
    w.want.any_bits = false;
    w.want.recipe = w4;
    w.want.recipes = 2;
    make(&w);
    assert_int_equal(w.result.choice[0].form.weight_bits, 4);
    assert_string_equal(w.result.choice[0].kv->name, "f16");
    end(&w);
}

static void limits_come_before_the_objective(void **state)
{
    (void)state;
    world w;
    begin(&w, "hexagon-v75", "adreno-750", "llama-3.2-1b");
    w.want.by = TOOL_PLAN_BY_PROGRAMS;
    make(&w);
    const tool_plan_choice few = w.result.choice[0];
    w.want.has_limits = true;
    w.want.limits.ttft_us = 600000;
    make(&w);
    assert_true(w.result.choice[0].f.kept > 0);
    assert_true(w.result.choice[0].programs > few.programs);
    for (size_t i = 1; i < w.result.choices; i++)
        if (w.result.choice[i].is_allowed && !w.result.choice[i].f.is_overloaded)
            assert_true(w.result.choice[0].f.kept >= w.result.choice[i].f.kept);
    end(&w);
}

static void what_a_profile_refuses_is_listed_with_its_reason(void **state)
{
    (void)state;
    world w;
    begin(&w, "tpu-v5e", "h100", "llama-3.2-1b");
    make(&w);
    assert_int_equal(count(&w, NULL, "w8a16", NULL, -1), 0);
    size_t found = 0;
    for (size_t i = 0; i < w.result.refusals; i++)
        found += !strcmp(w.result.refused[i].what, "every policy, w8a16") &&
                 strstr(w.result.refused[i].why, "16-bit inputs") != NULL;
    assert_int_equal(found, 1);
    w.prefill.max_rows = 256;
    make(&w);
    assert_int_equal(count(&w, "chunk:512", NULL, NULL, -1), 0);
    for (size_t i = found = 0; i < w.result.refusals; i++)
        found += !strcmp(w.result.refused[i].what, "chunk:512") &&
                 strstr(w.result.refused[i].why, "max_rows") != NULL;
    assert_int_equal(found, 1);
    end(&w);
}

static void a_pair_that_cannot_hold_the_model_is_refused_with_numbers(void **state)
{
    (void)state;
    world w;
    bt_fault f = {""};
    begin(&w, "h100x4", "rtx-4090", "llama-2-70b");
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "25769803776 bytes of memory; 137426370560 bytes of weights"));
    end(&w);
    begin(&w, "hexagon-v75", "h100x4", "llama-2-70b");
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "hexagon-v75 has 25769803776"));
    end(&w);
    begin(&w, "tpu-v5e", "h100x4", "llama-2-70b");
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "tpu-v5e has 17200000000"));
    end(&w);
}

static void wrong_names_are_errors(void **state)
{
    (void)state;
    static const char *const bad[] = {"nonsense"};
    world w;
    begin(&w, "hexagon-v75", "adreno-750", "smollm2-135m");
    w.want.kv = bad, w.want.kvs = 1;
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, NULL), BT_EARG);
    w.want.kvs = 0, w.want.recipe = bad, w.want.recipes = 1;
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, NULL), BT_EARG);
    w.want.recipes = 0, w.want.policy = bad, w.want.policies = 1;
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, NULL), BT_EARG);
    w.want.policies = 0, w.want.by = TOOL_PLAN_BY_JOULES;
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, NULL), BT_EARG);
    end(&w);
    begin(&w, "a100", "h100", "llama-3.2-1b");
    w.want.policy = bad, w.want.policies = 1;
    assert_int_equal(tool_plan_make(&w.result, &w.want, &w.load, false, NULL), BT_EARG);
    end(&w);
}

static void two_plans_are_the_same_to_the_last_bit(void **state)
{
    (void)state;
    world a, b;
    begin(&a, "hexagon-v75", "adreno-750", "smollm2-135m");
    begin(&b, "hexagon-v75", "adreno-750", "smollm2-135m");
    make(&a);
    make(&b);
    assert_int_equal(a.result.choices, b.result.choices);
    for (size_t i = 0; i < a.result.choices; i++) {
        assert_string_equal(a.result.choice[i].policy, b.result.choice[i].policy);
        assert_true(a.result.choice[i].f.e2e_ns == b.result.choice[i].f.e2e_ns);
    }
    end(&a);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dimension_is_compared),
        cmocka_unit_test(programs_of_several_sessions_have_program_order_alone),
        cmocka_unit_test(what_is_kept_is_dominated_by_nothing),
        cmocka_unit_test(fp8_and_nvfp4_are_choices_of_devices_that_compute_in_them),
        cmocka_unit_test(fewer_bits_that_gain_no_time_are_never_best),
        cmocka_unit_test(the_best_has_least_of_what_is_asked),
        cmocka_unit_test(fewer_bits_are_best_only_where_they_were_asked_for),
        cmocka_unit_test(limits_come_before_the_objective),
        cmocka_unit_test(what_a_profile_refuses_is_listed_with_its_reason),
        cmocka_unit_test(a_pair_that_cannot_hold_the_model_is_refused_with_numbers),
        cmocka_unit_test(wrong_names_are_errors),
        cmocka_unit_test(two_plans_are_the_same_to_the_last_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
