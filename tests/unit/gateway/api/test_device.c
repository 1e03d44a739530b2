/* The object `device` of an answer: what is known is a number, what has no source is null. */
#include "gateway/api/device.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const bt_msg_device npu = {.profile = "hexagon-v75",
                                  .stack = "llm.npu\xff",
                                  .companion = "adreno-750",
                                  .link = "10,50us",
                                  .pace_milli = 4000,
                                  .first_use_ns = 7000000,
                                  .compile_ns = 8000000,
                                  .schedule = "ooo",
                                  .has_errors = true,
                                  .error = {{2, 90, 310, 17, -12}, {2, 60, 200, 14, 5}, {1, 350, 0, 0, 0}},
                                  .region = {{1, 8}, {1, 1}, {1, 600}, {0, 0}},
                                  .devices = 1},
                           gpu = {.profile = "a100",
                                  .stack = "TensorRT-LLM",
                                  .pace_milli = 4000,
                                  .has_errors = true,
                                  .error = {{0, 0, 0, 0, 0}, {2, 47, 120, 9, 3}, {0, 0, 0, 0, 0}},
                                  .region = {{0, 0}, {0, 0}, {1, 600}, {1, 2}},
                                  .devices = 4};

static gw_device_facts facts(void)
{
    return (gw_device_facts){
        .prefill_on = &npu,
        .decode_on = &gpu,
        .prefill = {.ns = 20000000, .ideal_ns = 5000000, .nj = 1500000000, .energy = 1, .paced_us = 80000,
                    .late_us = 100},
        .decode = {.ns = 10000000, .ideal_ns = 4000000, .nj = 500000000, .energy = 2, .steps = 5,
                   .paced_us = 40000, .late_us = 1100},
        .prompt = {.transfer_ns = 3000000, .exposed_ns = 1000000, .npu_ns = 6000000, .edges_ns = 500000,
                   .sync_ns = 250000, .session_ns = 125000, .spill_ns = 60000, .parts_len = 2,
                   .parts = {{"rmsnorm", 1000000}, {"attention", 2000000}}, .npu_bubble_ns = 3250000,
                   .companion_bubble_ns = 6125000},
        .first_ns = 12000000,
        .prompt_tokens = 500,
        .answer_tokens = 200,
        .transfer_ns = 6000000,
        .exposed_ns = 2000000,
        .has_host_prefill = true,
        .has_host_kv = true,
        .has_host_decode = true,
        .host_prefill_us = 90000,
        .host_exposed_us = 2500,
        .host_decode_us = 70000,
    };
}

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) fail_msg("%s is no number", key);
    return json_number_value(v);
}
#define IS(key, want)            assert_float_equal(number(o, key), want, 1e-9)
#define IS_OF(object, key, want) assert_float_equal(number(object, key), want, 1e-9)
#define IS_NULL(key)             assert_true(json_is_null(json_object_get(o, key)))

static void times_energy_and_bubbles_are_those_of_both_nodes(void **state)
{
    (void)state;
    const gw_device_facts f = facts();
    json_t *o = gw_device_tell(&f);
    assert_string_equal(json_string_value(json_object_get(o, "profile")), "hexagon-v75");
    assert_string_equal(json_string_value(json_object_get(o, "companion")), "adreno-750");
    assert_string_equal(json_string_value(json_object_get(o, "decode_profile")), "a100");
    assert_string_equal(json_string_value(json_object_get(o, "link")), "10,50us");
    assert_string_equal(json_string_value(json_object_get(o, "schedule")), "ooo");
    IS("ttft_ms", 12);
    IS("prefill_ms", 20); /* some of it was run again */
    IS("transfer_ms", 6);
    IS("exposed_transfer_ms", 2);
    IS("decode_ms", 10);
    IS("tpot_ms", 2);
    IS("joules", 2);
    assert_true(json_is_true(json_object_get(o, "joules_of_tdp")));
    IS("utilisation", 0.25);
    IS("decode_utilisation", 0.4);
    IS("npu_ms", 6);
    IS("npu_bubble_ms", 3.25);
    IS("companion_bubble_ms", 6.125);
    IS("first_use_ms", 7);
    IS("compile_ms", 8);
    assert_int_equal(json_array_size(json_object_get(o, "companion_ops")), 2);
    IS("pace", 4);
    IS("paced_ms", 120);
    IS("late_ms", 1.2); /* 1 % */
    IS("prefill_late_ms", 0.1);
    assert_true(json_is_false(json_object_get(o, "is_late")));
    const json_t *host = json_object_get(o, "host");
    assert_float_equal(number(host, "prefill_ms"), 90, 1e-9);
    assert_float_equal(number(host, "exposed_transfer_ms"), 2.5, 1e-9);
    assert_float_equal(number(host, "decode_ms"), 70, 1e-9);
    json_decref(o);
}

static const char *error_text(const json_t *o, const char *kind)
{
    return json_string_value(json_object_get(json_object_get(json_object_get(o, "error"), kind), "text"));
}

/* A first token is the prompt's device's, a later one the other's, energy is of both. */
static void errors_are_those_of_the_device_that_makes_the_figure(void **state)
{
    (void)state;
    gw_device_facts f = facts();
    json_t *o = gw_device_tell(&f), *ttft = json_object_get(json_object_get(o, "error"), "ttft");
    assert_string_equal(error_text(o, "ttft"), "+- 9 %");
    assert_string_equal(error_text(o, "tpot"), "+- 5 % (outside: context, group)");
    assert_string_equal(error_text(o, "joules"), "bound");
    IS_OF(ttft, "worst_permille", 310);
    IS_OF(ttft, "bias_permille", -12);
    IS_OF(ttft, "rows", 17);
    json_decref(o);
    bt_msg_device old = gpu; /* a node that does not say */
    old.has_errors = false;
    f.decode_on = &old;
    o = gw_device_tell(&f);
    assert_string_equal(error_text(o, "ttft"), "+- 9 %");
    assert_true(json_is_null(json_object_get(json_object_get(o, "error"), "tpot")));
    assert_true(json_is_null(json_object_get(json_object_get(o, "error"), "joules")));
    json_decref(o);
}

static void more_than_one_percent_is_late(void **state)
{
    (void)state;
    gw_device_facts f = facts();
    f.decode.late_us++;
    json_t *o = gw_device_tell(&f);
    assert_true(json_is_true(json_object_get(o, "is_late")));
    json_decref(o);
}

static void what_no_source_says_is_null(void **state)
{
    (void)state;
    gw_device_facts f = facts();
    bt_msg_device quiet = npu;
    f.prefill.energy = 0;
    quiet.link[0] = 0;
    quiet.pace_milli = 0;
    f.prefill_on = &quiet;
    f.decode = (bt_msg_device_work){0};
    bt_msg_device still = gpu;
    still.pace_milli = 0;
    f.decode_on = &still;
    f.has_host_decode = false;
    json_t *o = gw_device_tell(&f);
    IS("ttft_ms", 12);
    IS_NULL("joules");
    IS_NULL("link");
    IS_NULL("transfer_ms");
    IS_NULL("exposed_transfer_ms");
    IS_NULL("decode_profile");
    IS_NULL("decode_ms");
    IS_NULL("tpot_ms");
    IS_NULL("decode_utilisation");
    IS_NULL("pace");
    IS_NULL("paced_ms");
    IS_NULL("is_late");
    assert_true(json_is_null(json_object_get(json_object_get(o, "host"), "decode_ms")));
    json_decref(o);
}

static void nodes_without_devices_have_no_object(void **state)
{
    (void)state;
    const gw_device_facts f = {.has_host_prefill = true, .host_prefill_us = 5};
    json_t *o = gw_device_tell(&f);
    assert_true(json_is_null(o));
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_energy_and_bubbles_are_those_of_both_nodes),
        cmocka_unit_test(errors_are_those_of_the_device_that_makes_the_figure),
        cmocka_unit_test(more_than_one_percent_is_late),
        cmocka_unit_test(what_no_source_says_is_null),
        cmocka_unit_test(nodes_without_devices_have_no_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
