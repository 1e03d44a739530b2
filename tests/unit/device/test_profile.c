/* Device profiles: the built-in ones are whole and say where each value comes from; what is not a profile
 * is refused by name. */
#include "device/profile.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static bt_profile profile(const char *name)
{
    bt_profile p;
    bt_fault f = {""};
    if (bt_profile_load(&p, name, &f) < 0) fail_msg("%s: %s", name ? name : "NULL", f.text);
    return p;
}

static void every_device_of_the_list_is_built_in(void **state)
{
    (void)state;
    static const char *const names[] = {
        "ane-m1",        "ane-m4", "cloud-ai-100", "hexagon-v73", "hexagon-v75", "hexagon-v79", "host",
        "intel-npu3720", "npu4",   "tpu-v4",       "tpu-v5e",     "tpu-v6e",     NULL};
    for (size_t i = 0; names[i]; i++) {
        assert_string_equal(bt_profile_name(i), names[i]);
        assert_string_equal(profile(names[i]).name, names[i]);
    }
    assert_null(bt_profile_name(12));
    assert_null(bt_profile_json(12));
    assert_string_equal(profile(NULL).name, "host");
}

static void every_value_has_a_source_with_its_tag(void **state)
{
    (void)state;
    for (size_t i = 0; bt_profile_json(i); i++) {
        const char *name;
        json_t *value, *root = json_loads(bt_profile_json(i), 0, NULL);
        assert_non_null(root);
        json_object_foreach(root, name, value) {
            if (!strcmp(name, "name") || !strcmp(name, "title") || !strcmp(name, "sources")) continue;
            const char *source = json_string_value(json_object_get(json_object_get(root, "sources"), name));
            if (!source || !strchr("PSDMvmc", source[0]) || source[1] != ':')
                fail_msg("%s: the source of %s", bt_profile_name(i), name);
        }
        json_decref(root);
    }
}

static void known_figures(void **state)
{
    (void)state;
    const bt_profile h = profile("hexagon-v75"), a = profile("ane-m4"), t = profile("tpu-v6e"),
                     host = profile("host");
    assert_int_equal(h.tile_rows, 32);
    assert_int_equal(h.tile_cols, 32);
    assert_int_equal(h.on_chip_bytes, 8388608);
    assert_int_equal(h.map_window_bytes, 3758096384);
    assert_int_equal(h.op[BT_OP_LINEAR], BT_PROFILE_INT8 | BT_PROFILE_INT16 | BT_PROFILE_INT4);
    assert_int_equal(h.op[BT_OP_ROTATE], BT_PROFILE_INT16);
    assert_false(h.range_shapes);
    assert_int_equal(a.max_shapes, 128);
    assert_int_equal(a.last_axis_align_bytes, 64);
    assert_true(a.state_pow2 && a.range_shapes);
    assert_int_equal(a.state_multiple, 32);
    assert_int_equal(a.op[BT_OP_LINEAR], BT_PROFILE_INT8);
    assert_int_equal(a.op[BT_OP_ATTENTION], 0);
    assert_int_equal(t.tile_rows, 256);
    assert_int_equal(profile("tpu-v4").on_chip_bytes, 16777216);
    assert_int_equal(profile("hexagon-v73").map_window_bytes, 2147483648);
    assert_int_equal(h.launch_ns, 355000);
    assert_int_equal(h.boundary_bytes_per_us, 40000);
    assert_int_equal(a.launch_ns, 95000);
    assert_int_equal(profile("ane-m1").launch_ns, 230000);
    assert_true(!host.launch_ns && !host.boundary_bytes_per_us && !host.convert_elements_per_us &&
                !host.min_cluster_macs);
    assert_true(host.range_shapes);
    assert_true(!host.tile_rows && !host.on_chip_bytes && !host.map_window_bytes && !host.memory_bytes &&
                !host.last_axis_align_bytes);
    assert_true(!host.max_shapes && !host.state_pow2 && !host.state_multiple && !host.max_rows &&
                !host.query_slice_rows);
    for (int k = 0; k < BT_OP_KINDS; k++) {
        const uint8_t want = bt_profile_is_move((bt_op_kind)k) ? 0 : k == BT_OP_LINEAR ? 7 : 3;
        assert_int_equal(host.op[k], want);
    }
}

static void what_is_left_out_is_no_limit(void **state)
{
    (void)state;
    static const char json[] = "{\"name\":\"x\",\"title\":\"X\",\"operators\":{}}";
    bt_profile p;
    assert_int_equal(bt_profile_parse(&p, json, sizeof json - 1, NULL), BT_OK);
    assert_int_equal(p.output_bits, 16);
    assert_true(p.range_shapes);
    assert_true(!p.tile_rows && !p.on_chip_bytes && !p.max_shapes && !p.op[BT_OP_LINEAR]);
}

#define WITH(field) "{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"int8\"]}," field "}"

static void refuses_what_is_no_profile_and_names_the_field(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "line 1"},
        {"{\n\"name\": }", "line 2"},
        {"[]", "not an object"},
        {"{}", "'name'"},
        {"{\"name\":\"x\"}", "'title'"},
        {"{\"name\":\"x\",\"title\":\"X\"}", "'operators'"},
        {"{\"name\":\"\",\"title\":\"X\",\"operators\":{}}", "'name'"},
        {"{\"name\":\"a/b\",\"title\":\"X\",\"operators\":{}}", "'name'"},
        {"{\"name\":3,\"title\":\"X\",\"operators\":{}}", "'name'"},
        {"{\"name\":\"x\",\"title\":\"\\u001b[2J\",\"operators\":{}}", "'title'"},
        {"{\"name\":\"x\",\"name\":\"y\",\"title\":\"X\",\"operators\":{}}", "duplicate"},
        {WITH("\"tops\":73"), "'tops'"},
        {WITH("\"\\u001b[2J\":73"), "'?'"},
        {WITH("\"tile_rows\":32"), "'tile_cols'"},
        {WITH("\"tile_rows\":0,\"tile_cols\":32"), "'tile_rows'"},
        {WITH("\"tile_rows\":4097,\"tile_cols\":32"), "'tile_rows'"},
        {WITH("\"tile_rows\":32.0,\"tile_cols\":32"), "'tile_rows'"},
        {WITH("\"on_chip_bytes\":-1"), "'on_chip_bytes'"},
        {WITH("\"on_chip_bytes\":\"8M\""), "'on_chip_bytes'"},
        {WITH("\"map_window_bytes\":9223372036854775807"), "'map_window_bytes'"},
        {WITH("\"map_window_bytes\":9223372036854775808"), "line 1"},
        {WITH("\"range_shapes\":1"), "'range_shapes'"},
        {WITH("\"state_pow2\":null"), "'state_pow2'"},
        {WITH("\"output_bits\":12"), "'output_bits'"},
        {WITH("\"launch_ns\":0"), "'launch_ns'"},
        {WITH("\"launch_ns\":1000000001"), "'launch_ns': a whole number from 1 to 1000000000"},
        {WITH("\"boundary_bytes_per_us\":0.5"), "'boundary_bytes_per_us'"},
        {WITH("\"convert_elements_per_us\":\"1G\""), "'convert_elements_per_us'"},
        {WITH("\"min_cluster_macs\":1125899906842625"), "'min_cluster_macs'"},
        {WITH("\"sources\":[]"), "'sources'"},
        {WITH("\"sources\":{\"max_rows\":\"v: x\"}"), "'max_rows'"},
        {WITH("\"sources\":{\"operators\":1}"), "'operators'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":[]}", "'operators'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"conv\":[\"int8\"]}}", "'conv'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"embed\":[\"int8\"]}}", "'embed'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":\"int8\"}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"int4\"]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"int8\",\"int8\"]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"fp16\"]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"add\":[\"int8\",\"int4\"]}}", "'add'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_profile p = {.tile_rows = 77};
        bt_fault f = {""};
        const size_t len = strlen(bad[i][0]);
        char *exact = malloc(len ? len : 1);
        assert_non_null(exact);
        memcpy(exact, bad[i][0], len);
        const bt_err e = bt_profile_parse(&p, exact, len, &f);
        if (e != BT_EFORMAT || !strstr(f.text, bad[i][1])) fail_msg("%s: %d '%s'", bad[i][0], (int)e, f.text);
        assert_int_equal(p.tile_rows, 77);
        free(exact);
    }
    bt_profile p;
    assert_int_equal(bt_profile_parse(&p, "", BT_PROFILE_MAX_BYTES + 1, NULL), BT_ELIMIT);
}

static void an_unknown_name_lists_all_and_a_path_is_read(void **state)
{
    (void)state;
    bt_profile p;
    bt_fault f;
    assert_int_equal(bt_profile_load(&p, "hexagon", &f), BT_EARG);
    for (size_t i = 0; bt_profile_name(i); i++) assert_non_null(strstr(f.text, bt_profile_name(i)));
    assert_int_equal(bt_profile_load(&p, "no-such-file.json", &f), BT_EIO);
    char path[] = "profile-test-XXXXXX", with_slash[64];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs(WITH("\"max_rows\":512"), file);
    assert_int_equal(fclose(file), 0);
    snprintf(with_slash, sizeof with_slash, "./%s", path);
    assert_int_equal(profile(with_slash).max_rows, 512);
    assert_int_equal(bt_profile_load(&p, path, NULL), BT_EARG);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_of_the_list_is_built_in),
        cmocka_unit_test(every_value_has_a_source_with_its_tag),
        cmocka_unit_test(known_figures),
        cmocka_unit_test(what_is_left_out_is_no_limit),
        cmocka_unit_test(refuses_what_is_no_profile_and_names_the_field),
        cmocka_unit_test(an_unknown_name_lists_all_and_a_path_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
