/* The object `time` of a profile: what is built in is whole and has its sources; what contradicts itself is
 * refused. */
#include "device/profile.h"

#include <jansson.h>
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

static void every_value_of_time_has_a_source_with_its_tag(void **state)
{
    (void)state;
    size_t with_time = 0;
    for (size_t i = 0; bt_profile_json(i); i++) {
        const char *name;
        json_t *value, *root = json_loads(bt_profile_json(i), 0, NULL);
        json_t *time = json_object_get(root, "time");
        json_object_foreach(time, name, value) {
            if (!strcmp(name, "sources") || !strcmp(name, "calibration")) continue;
            const char *s = json_string_value(json_object_get(json_object_get(time, "sources"), name));
            if (!s || !strchr("PSDMvmc", s[0]) || s[1] != ':') fail_msg("%s: %s", bt_profile_name(i), name);
        }
        with_time += time != NULL;
        json_decref(root);
    }
    assert_true(with_time >= 25);
}

static void known_figures_of_the_devices_that_decode(void **state)
{
    (void)state;
    /* From vendors' pages: dense FP16 in 10^6 operations, and 10^6 bytes, a second by
     * 10^-6 */
    static const struct {
        const char *name;
        uint64_t ops, bytes;
    } want[] = {{"h100", 989430000, 3350000},       {"a100", 311870000, 2039000},
                {"rtx-4090", 165160000, 1008000},   {"m3-max-gpu", 14200000, 400000},
                {"m2-ultra-gpu", 27200000, 800000}, {"adreno-750", 2800000, 68000}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const bt_profile p = profile(want[i].name);
        assert_true(p.time.is_given && p.companion);
        assert_int_equal(p.time.f16_ops_per_us, want[i].ops);
        assert_int_equal(p.time.memory_bytes_per_us, want[i].bytes);
    }
    assert_int_equal(profile("h100x4").time.devices, 4);
    assert_int_equal(profile("h100x4").time.f16_ops_per_us, profile("h100").time.f16_ops_per_us);
    assert_false(profile("host").time.is_given);
}

static void what_one_stack_costs_an_operator_is_the_same_on_both_of_its_devices(void **state)
{
    (void)state;
    const bt_profile a = profile("hexagon-v75-powerserve"), b = profile("hexagon-v79");
    assert_string_equal(a.time.stack, b.time.stack);
    assert_int_equal(a.time.op_launch_ns, b.time.op_launch_ns);
    assert_int_equal(a.time.decode_op_ns, b.time.decode_op_ns);
}

static void what_the_arrays_of_a_tpu_reach_is_its_peak(void **state)
{
    (void)state;
    static const char *const names[] = {"tpu-v4", "tpu-v5e", "tpu-v6e"};
    for (int i = 0; i < 3; i++) {
        const bt_profile_time t = profile(names[i]).time;
        const uint64_t ops = 2 * (uint64_t)t.array_rows * t.array_cols * t.arrays * t.clock_khz / 1000;
        assert_true(ops <= t.f16_ops_per_us && ops >= t.f16_ops_per_us / 100 * 99);
    }
}

#define TIME(fields) "{\"name\":\"x\",\"title\":\"X\",\"operators\":{},\"time\":{" fields "}}"
#define GROUP        ",\"devices\":2,\"interconnect_bytes_per_us\":5"
#define BASE         "\"stack\":\"s\",\"f16_ops_per_us\":1000,\"memory_bytes_per_us\":100"

static void a_wrong_time_is_told_what_would_do(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {TIME("\"f16_ops_per_us\":1000,\"memory_bytes_per_us\":100"), "'stack' is missing"},
        {TIME("\"stack\":\"s\",\"memory_bytes_per_us\":100"), "'f16_ops_per_us' is missing"},
        {TIME("\"stack\":\"s\",\"f16_ops_per_us\":1000"), "'memory_bytes_per_us' is missing"},
        {TIME("\"stack\":\"s\",\"f16_ops_per_us\":0,\"memory_bytes_per_us\":100"), "the nearest is 1"},
        {TIME("\"stack\":\"s\",\"f16_ops_per_us\":1.5,\"memory_bytes_per_us\":100"),
         "is 1.5, and must be a whole number from 1 to"},
        {TIME(BASE ",\"weight_bytes_per_us\":101"), "is more than 'memory_bytes_per_us', 100; at most that"},
        {TIME(BASE ",\"decode_bytes_per_us\":101"), "is more than 'memory_bytes_per_us'"},
        {TIME(BASE ",\"first_weight_bytes_per_us\":101"), "is more than 'memory_bytes_per_us'"},
        {TIME(BASE ",\"shared_bytes_per_us\":101"), "is more than 'memory_bytes_per_us'"},
        {TIME(BASE ",\"op_launch_us\":3"),
         "'op_launch_us' is no field of 'time'; did you mean 'op_launch_ns'?"},
        {TIME(BASE ",\"heat\":3"), "'heat' is no field of 'time'; docs/profiles.md lists them"},
        {TIME(BASE ",\"idle_mw\":0"), "'idle_mw': is 0, and must be a whole number from 1 to 100000000"},
        {TIME(BASE ",\"idle_mw\":\"3 W\""), "'idle_mw': is the text '3 W', and must be a whole number"},
        {TIME(BASE ",\"array_rows\":32"), "all or none"},
        {TIME(BASE ",\"array_rows\":32,\"array_cols\":32,\"arrays\":1,\"clock_khz\":1000"),
         "more than 'f16_ops_per_us'"},
        {TIME(BASE ",\"devices\":4"), "both or none"},
        {TIME(BASE ",\"group_sizes\":[2,4]"), "both or none"},
        {TIME(BASE GROUP ",\"group_sizes\":[4]"), "give one of them"},
        {TIME(BASE ",\"group_sizes\":[4,2]"), "2 to 1024, ascending"},
        {TIME(BASE ",\"group_sizes\":[1]"), "1 to 8 numbers of devices"},
        {TIME(BASE ",\"calibration\":{\"on\":\"x\"}"), "'rows' is missing"},
        {TIME(BASE ",\"devices\":1,\"interconnect_bytes_per_us\":5"), "the nearest is 2"},
        {TIME(BASE ",\"all_reduce\":[[2,8,9]]"), "there is no 'devices' or 'group_sizes'"},
        {TIME(BASE GROUP ",\"all_reduce\":[]"), "1 to 64 lists"},
        {TIME(BASE GROUP ",\"all_reduce\":[[2,8]]"), "[devices, bytes, ns]"},
        {TIME(BASE GROUP ",\"all_reduce\":[[1,8,9]]"), "2 to 1024 devices"},
        {TIME(BASE GROUP ",\"all_reduce\":[[4,8,9],[2,8,9]]"), "ascending"},
        {TIME(BASE GROUP ",\"all_reduce\":[[2,8,9],[2,8,9]]"), "bytes ascending"},
        {TIME(BASE GROUP ",\"all_reduce\":[[2,8,9],[2,16,8]]"), "do not fall with more bytes"},
        {TIME(BASE ",\"efficiency\":[[32,500],[32,600]]"), "rows ascending"},
        {TIME(BASE ",\"efficiency\":[[32,1001]]"), "permille"},
        {TIME(BASE ",\"efficiency\":[[1,5],[32,160],[33,166]]"),
         "33 rows at 166 permille would take less time than 32 rows at 160; at most 165"},
        {TIME(BASE ",\"attention\":[]"), "a list of 1 to 8 objects"},
        {TIME(BASE ",\"attention\":[3]"), "'attention', object 1: must be an object"},
        {TIME(BASE ",\"attention\":[{},{\"half_row\":3}]"),
         "object 2: 'half_row' is no field of it; did you mean 'half_rows'?"},
        {TIME(BASE ",\"attention\":[{\"peak_permille\":1001}]"), "the nearest is 1000"},
        {TIME(BASE ",\"efficiency\":[[1,5],[32,160]],\"attention\":[{\"half_rows\":8}]"),
         "'half_rows': the share of several 'efficiency' goes by rows already"},
        {TIME(BASE ",\"attention\":[{\"kv_bytes_per_us\":101}]"), "is more than 'memory_bytes_per_us', 100"},
        {TIME(BASE ",\"attention\":[{\"launch_ns\":7,\"row_launch_ns\":8}]"), "is more than 'launch_ns', 7"},
        {TIME(BASE ",\"attention\":[{\"launch_ns\":7,\"gather_ns\":8}]"), "'gather_ns': 8 is more than"},
        {TIME(BASE ",\"attention\":[{\"head_bytes_per_us\":7}]"), "give 'kv_bytes_per_us' too"},
        {TIME(BASE ",\"attention\":[{\"join_ns\":7}]"), "give 'head_bytes_per_us' too"},
        {TIME(BASE ",\"tile_rows\":256"), "both or none"},
        {TIME(BASE ",\"tile_int8_permille\":500"), "both or none"},
        {TIME(BASE ",\"tile_rows\":256,\"tile_permille\":1001"), "the nearest is 1000"},
        {TIME(BASE ",\"program_rows\":[]"), "1 to 12 numbers of rows"},
        {TIME(BASE ",\"program_rows\":[64,64]"), "1 to 1048576, ascending"},
        {TIME(BASE ",\"program_rows\":[64]"), "an NPU's programs are those of its packages"},
        {TIME(BASE ",\"efficiency\":[]"), "1 to 15 pairs"},
        {TIME(BASE ",\"group32_permille\":999"), "the nearest is 1000"},
        {TIME(BASE ",\"sources\":{\"idle_mw\":\"P: x\"}"), "a text for each field that is given"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{},\"time\":3}", "an object"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_profile p = {.tile_rows = 77};
        bt_fault f = {""};
        const bt_err e = bt_profile_parse(&p, bad[i][0], strlen(bad[i][0]), &f);
        if (e != BT_EFORMAT || !strstr(f.text, bad[i][1])) fail_msg("%s: %d '%s'", bad[i][0], (int)e, f.text);
        assert_int_equal(p.tile_rows, 77);
    }
    bt_profile ok;
    assert_int_equal(bt_profile_parse(&ok, TIME(BASE), strlen(TIME(BASE)), NULL), BT_OK);
    assert_true(ok.time.is_given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_of_time_has_a_source_with_its_tag),
        cmocka_unit_test(known_figures_of_the_devices_that_decode),
        cmocka_unit_test(what_one_stack_costs_an_operator_is_the_same_on_both_of_its_devices),
        cmocka_unit_test(what_the_arrays_of_a_tpu_reach_is_its_peak),
        cmocka_unit_test(a_wrong_time_is_told_what_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
