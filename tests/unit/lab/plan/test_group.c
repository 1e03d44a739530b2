/* Groups that a smaller one of the same device beats. */
#include "lab/plan/group.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bt_profile profile(const char *name)
{
    bt_profile p;
    bt_fault f = {""};
    if (bt_profile_load(&p, name, &f) < 0) fail_msg("%s: %s", name, f.text);
    return p;
}

/* h100 in groups of 2, 4 and 8; n 0: alone. */
static bt_profile group_of(uint32_t n)
{
    bt_profile p = profile("h100");
    p.time.sizes = 3;
    for (uint32_t i = 0; i < 3; i++) p.time.group_size[i] = 2u << i;
    p.time.devices = n;
    if (n) snprintf(p.name, sizeof p.name, "h100x%u", n);
    return p;
}

static tool_plan_group_load load_of(const bt_price_model *m)
{
    return (tool_plan_group_load){
        .model = m,  .models = 1,    .prefills = true, .decodes = true, .shortest = 16,
        .mean = 100, .longest = 400, .batch = 8,       .ctx = 500,      .kv_bytes = m->kv_bytes * 8 * 500};
}

static void a_small_model_needs_no_group(void **state)
{
    (void)state;
    const bt_price_model m = bt_price_model_of(bt_dims_find("smollm2-135m"), &bt_price_form_at(0)->recipe);
    const bt_profile four = group_of(4);
    tool_plan_group_load load = load_of(&m);
    char text[TOOL_PLAN_GROUP_BYTES];
    bt_profile less;
    assert_true(tool_plan_group_beaten(&less, &four, &load));
    assert_string_equal(less.name, "h100");
    assert_int_equal(less.time.devices, 0);
    assert_string_equal(tool_plan_group_text(text, &less, &four),
                        "h100 is as fast as h100x4 at every prompt and step of this load");
    load.kv_bytes = UINT64_C(400) << 30; /* what none holds none does better */
    assert_false(tool_plan_group_beaten(&less, &four, &load));
    assert_false(tool_plan_group_beaten(&less, &(bt_profile){.name = "h100"}, &load));
    const bt_profile one = group_of(0);
    assert_false(tool_plan_group_beaten(&less, &one, &load));
}

static void a_large_model_is_worth_its_group(void **state)
{
    (void)state;
    const bt_price_model m = bt_price_model_of(bt_dims_find("llama-3.1-70b"), &bt_price_form_at(0)->recipe);
    const bt_profile eight = group_of(8);
    tool_plan_group_load load = load_of(&m);
    bt_profile less;
    load.shortest = load.mean = load.longest = 4096;
    assert_false(tool_plan_group_beaten(&less, &eight, &load));
}

/* The forms of two models stand for two forms that are far apart. */
static void a_group_is_beaten_only_where_it_is_so_in_each_form_of_weights(void **state)
{
    (void)state;
    const bt_dims *d[] = {bt_dims_find("smollm2-135m"), bt_dims_find("llama-3.1-70b")};
    const bt_price_model m[] = {bt_price_model_of(d[0], &bt_price_form_at(0)->recipe),
                                bt_price_model_of(d[1], &bt_price_form_find("fp4")->recipe)};
    const bt_profile four = group_of(4);
    tool_plan_group_load load = load_of(m);
    bt_profile less;
    assert_true(tool_plan_group_beaten(&less, &four, &load));
    load.models = 2;
    assert_false(tool_plan_group_beaten(&less, &four, &load));
    load.model = &m[1];
    load.models = 1;
    assert_false(tool_plan_group_beaten(&less, &four, &load));
}

/* Whatever the model, what is left is beaten by nothing smaller, and a group that is beaten is so at every
 * step. */
static void what_takes_the_place_of_a_group_is_beaten_by_none(void **state)
{
    (void)state;
    static const char *const models[] = {"smollm2-135m", "qwen2.5-0.5b",  "llama-3.2-1b",
                                         "llama-3.1-8b", "qwen3-30b-a3b", "llama-3.1-70b"};
    size_t groups = 0, beaten = 0;
    uint64_t drawn = 0;
    for (size_t i = 0; i == 0 || bt_profile_name(i - 1); i++) {
        const bt_profile one = i ? profile(bt_profile_name(i - 1)) : group_of(0);
        for (uint32_t k = 0; k < one.time.sizes; k++)
            for (size_t j = 0; j < sizeof models / sizeof *models; j++) {
                const bt_price_model m =
                    bt_price_model_of(bt_dims_find(models[j]), &bt_price_form_at(0)->recipe);
                tool_plan_group_load load = load_of(&m);
                bt_profile p = one, less, none;
                p.time.devices = one.time.group_size[k];
                load.longest += bt_rng_u64(43, drawn++) % 4000;
                load.batch = 1 + (uint32_t)(bt_rng_u64(43, drawn++) % 64);
                groups++;
                if (!tool_plan_group_beaten(&less, &p, &load)) continue;
                beaten++;
                assert_true(less.time.devices < p.time.devices);
                assert_false(tool_plan_group_beaten(&none, &less, &load));
                const bt_price_step token = bt_price_decode_step(1, load.ctx, 0);
                assert_true(bt_price_step_of(&less, &m, &token).ns <= bt_price_step_of(&p, &m, &token).ns);
            }
    }
    assert_true(groups >= 18 && beaten && beaten < groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_model_needs_no_group),
        cmocka_unit_test(a_large_model_is_worth_its_group),
        cmocka_unit_test(a_group_is_beaten_only_where_it_is_so_in_each_form_of_weights),
        cmocka_unit_test(what_takes_the_place_of_a_group_is_beaten_by_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
