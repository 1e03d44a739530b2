/* Device profiles: the built-in ones are whole and say where each value comes from; what is not a profile
 * is refused by name. */
#include "device/profile.h"
#include "base/buf.h"
#include "base/file.h"

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
    static const char *const names[] = {"ane-a17-pro",
                                        "ane-m1-max",
                                        "ane-m1",
                                        "ane-m2-ultra",
                                        "ane-m4",
                                        "ane-m5",
                                        "cloud-ai-100-pro",
                                        "cloud-ai-100-ultra",
                                        "cloud-ai-100",
                                        "hexagon-v73",
                                        "hexagon-v75-int8",
                                        "hexagon-v75-powerserve",
                                        "hexagon-v75-vendor",
                                        "hexagon-v75",
                                        "hexagon-v79-aihub",
                                        "hexagon-v79",
                                        "hexagon-v81",
                                        "hexagon-x-elite",
                                        "host",
                                        "intel-npu3720",
                                        "npu4",
                                        "tpu-v4",
                                        "tpu-v5e",
                                        "tpu-v6e",
                                        "xdna2",
                                        NULL};
    static const char *const companions[] = {
        "a100",          "adreno-750", "b200",     "h100",         "h200", "m2-ultra-gpu",
        "m3-max-14-gpu", "m3-max-gpu", "rtx-4090", "rtx-pro-6000", NULL};
    size_t npus = 0, others = 0;
    for (size_t i = 0; bt_profile_name(i); i++) {
        const bt_profile p = profile(bt_profile_name(i));
        const char *want = p.companion ? companions[others++] : names[npus++];
        assert_non_null(want);
        assert_string_equal(p.name, want);
        assert_non_null(bt_profile_json(i));
    }
    assert_true(!names[npus] && !companions[others]);
    assert_null(bt_profile_json(npus + others));
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
    assert_int_equal(a.op[BT_OP_LINEAR], BT_PROFILE_INT8 | BT_PROFILE_LUT | BT_PROFILE_FLOAT16);
    assert_int_equal(a.op[BT_OP_ATTENTION], BT_PROFILE_FLOAT16);
    assert_int_equal(t.op[BT_OP_LINEAR], BT_PROFILE_INT8 | BT_PROFILE_BFLOAT16);
    assert_int_equal(t.op[BT_OP_ROTATE], BT_PROFILE_BFLOAT16);
    assert_int_equal(t.tile_rows, 256);
    assert_int_equal(profile("tpu-v4").on_chip_bytes, 16777216);
    assert_int_equal(profile("hexagon-v73").map_window_bytes, 2147483648);
    assert_int_equal(h.boundary_bytes_per_us, 40000);
    assert_true(!host.boundary_bytes_per_us && !host.convert_elements_per_us && !host.min_cluster_macs);
    assert_true(host.range_shapes);
    assert_true(!host.tile_rows && !host.on_chip_bytes && !host.map_window_bytes && !host.memory_bytes &&
                !host.last_axis_align_bytes);
    assert_true(!host.max_shapes && !host.state_pow2 && !host.state_multiple && !host.max_rows &&
                !host.query_slice_rows);
    for (int k = 0; k < BT_OP_KINDS; k++) {
        const uint8_t want = bt_op_infos[k].class == BT_CLASS_EDGE     ? 0
                             : bt_op_infos[k].class == BT_CLASS_LINEAR ? 39
                                                                       : 3;
        assert_int_equal(host.op[k], want);
    }
}

/* Inputs and weights of linears, what all other operators take, and what rotations do. */
static void built_in_profiles_take_these_operators(void **state)
{
    (void)state;
    enum { I8 = BT_PROFILE_INT8, I16 = BT_PROFILE_INT16, I4 = BT_PROFILE_INT4, LUT = BT_PROFILE_LUT };
    enum { F16 = BT_PROFILE_FLOAT16, BF16 = BT_PROFILE_BFLOAT16 };
    static const struct {
        const char *begins;
        uint8_t linear, others, rotate;
    } want[] = {
        {"ane-", I8 | LUT | F16, F16, F16},
        {"cloud-ai-100", I8 | F16, F16, F16},
        {"hexagon-", I8 | I16 | I4, I8 | I16, I16},
        {"host", I8 | I16 | I4 | LUT, I8 | I16, I8 | I16},
        {"intel-npu3720", I8 | F16, F16, F16},
        {"npu4", I8 | F16, F16, F16},
        {"tpu-", I8 | BF16, BF16, BF16},
        {"xdna2", I8 | BF16, BF16, BF16},
    };
    size_t npus = 0;
    for (size_t i = 0; bt_profile_name(i); i++) {
        const bt_profile p = profile(bt_profile_name(i));
        size_t w = 0;
        if (p.companion) { /* what it has is not asked of it */
            for (int k = 0; k < BT_OP_KINDS; k++) assert_int_equal(p.op[k], 0);
            continue;
        }
        while (w < sizeof want / sizeof *want && strncmp(p.name, want[w].begins, strlen(want[w].begins)) != 0)
            w++;
        assert_true(w < sizeof want / sizeof *want);
        /* llm.npu: beside the linears one class */
        const bool is_int8 = !strcmp(p.name, "hexagon-v75-int8");
        npus++;
        for (int k = 0; k < BT_OP_KINDS; k++) {
            const bool is_asked = bt_op_infos[k].class != BT_CLASS_EDGE;
            const bool is_linear = bt_op_infos[k].class == BT_CLASS_LINEAR;
            const uint8_t all = is_linear           ? want[w].linear
                                : k == BT_OP_ROTATE ? want[w].rotate
                                                    : want[w].others;
            const uint8_t int8 = is_linear || bt_op_infos[k].class == BT_CLASS_ACTIVATION ? I8 : 0;
            assert_int_equal(p.op[k], !is_asked ? 0 : is_int8 ? int8 : all);
        }
    }
    assert_int_equal(npus, 25);
}

/* Whatever order they stand in. */
static void others_are_the_classes_that_the_file_does_not_name(void **state)
{
    (void)state;
    static const char json[] =
        "{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"others\":[\"int8\",\"int16\"],"
        "\"rotation\":[\"int16\"]}}";
    bt_profile p;
    assert_int_equal(bt_profile_parse(&p, json, sizeof json - 1, NULL), BT_OK);
    for (int k = 0; k < BT_OP_KINDS; k++)
        assert_int_equal(p.op[k], bt_op_infos[k].class == BT_CLASS_EDGE ? 0
                                  : k == BT_OP_ROTATE                   ? BT_PROFILE_INT16
                                                                        : BT_PROFILE_INT8 | BT_PROFILE_INT16);
}

static void the_page_lists_every_operator_and_class_that_a_profile_may_have(void **state)
{
    (void)state;
    bt_buf page;
    bt_buf_init(&page, 1 << 20);
    assert_int_equal(bt_file_read(&page, "docs/profiles.md", NULL), BT_OK); /* tests run in the repository's
                                                                               root */
    const char *table = strstr(bt_buf_text(&page), "\n| class | operators |");
    assert_non_null(table);
    for (int k = 0; k < BT_OP_KINDS; k++) {
        char want[64];
        if (bt_op_infos[k].class == BT_CLASS_EDGE) continue;
        snprintf(want, sizeof want, "\n| `%s` |", bt_op_class_name(bt_op_infos[k].class));
        const char *row = strstr(table, want);
        snprintf(want, sizeof want, "`%s`", bt_op_infos[k].name);
        const char *listed = row ? strstr(strstr(row, "` |") + 3, want) : NULL;
        if (!listed || listed > strchr(row + 1, '\n')) fail_msg("docs/profiles.md does not list %s", want);
    }
    bt_buf_done(&page);
}

/* Llama-1B on an iPhone 15 Pro, as executorch's issue 8439 lists them. */
static void a17_pro_refuses_the_five_published_pairs(void **state)
{
    (void)state;
    static const uint32_t want[][2] = {{128, 1024}, {32, 512}, {64, 512}, {128, 512}, {1, 2048}};
    const bt_profile p = profile("ane-a17-pro");
    assert_int_equal(p.refused_shapes, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(p.refused_shape[i].seq, want[i][0]);
        assert_int_equal(p.refused_shape[i].ctx, want[i][1]);
    }
}

static void what_is_left_out_is_no_limit(void **state)
{
    (void)state;
    static const char json[] = "{\"name\":\"x\",\"title\":\"X\",\"operators\":{}}";
    bt_profile p;
    assert_int_equal(bt_profile_parse(&p, json, sizeof json - 1, NULL), BT_OK);
    assert_int_equal(p.output_bits, 16);
    assert_int_equal(p.input_zero_points, BT_PROFILE_ZERO_ALLOWED);
    assert_true(p.range_shapes);
    assert_true(!p.tile_rows && !p.on_chip_bytes && !p.max_shapes && !p.op[BT_OP_LINEAR]);
}

#define WITH(field) "{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"int8\"]}," field "}"

/* The result stays untouched. */
static void is_refused(const char *json, const char *words)
{
    bt_profile p = {.tile_rows = 77};
    bt_fault f = {""};
    const size_t len = strlen(json);
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, json, len);
    const bt_err e = bt_profile_parse(&p, exact, len, &f);
    if (e != BT_EFORMAT || !strstr(f.text, words)) fail_msg("%s: %d '%s'", json, (int)e, f.text);
    assert_int_equal(p.tile_rows, 77);
    free(exact);
}

static void a_wrong_unit_range_or_pair_of_fields_is_told_what_would_do(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {WITH("\"on_chip_kib\":8192"), "did you mean 'on_chip_bytes', in bytes?"},
        {WITH("\"query_slice\":64"), "did you mean 'query_slice_rows', in rows?"},
        {WITH("\"tile_row\":32"), "did you mean 'tile_rows'"},
        {WITH("\"operatros\":{}"), "did you mean 'operators'?"},
        {WITH("\"colour\":1"), "docs/profiles.md"},
        {WITH("\"query_slice_rows\":0"),
         "is 0, and must be a whole number of rows from 1 to 1048576; the nearest is 1"},
        {WITH("\"max_rows\":1048577"), "the nearest is 1048576"},
        {WITH("\"max_rows\":64.5"),
         "is 64.5, and must be a whole number of rows from 1 to 1048576; the nearest is 64"},
        {WITH("\"on_chip_bytes\":\"8 MiB\""),
         "is the text '8 MiB', and must be a whole number of bytes from 1024 to "
         "1125899906842624; the nearest is 8388608"},
        {WITH("\"memory_bytes\":\"16gb\""), "the nearest is 16000000000"},
        {WITH("\"memory_bytes\":\"9 furlongs\""), "is the text '9 furlongs'"},
        {WITH("\"memory_bytes\":true"), "is true, and must be"},
        {WITH("\"min_cluster_macs\":\"4 GB\""), "from 1 to 1125899906842624"},
        {WITH("\"min_cluster_macs\":\"512\""), "is the text '512', and must be a whole number"},
        {WITH("\"min_cluster_macs\":\"512\""), "the nearest is 512"},
        {WITH("\"max_rows\":1e30"), "the nearest is 1048576"},
        {WITH("\"max_rows\":-0.5"), "the nearest is 1"},
        {WITH("\"state_pow2\":1"), "'state_pow2': is 1, and must be true or false"},
        {WITH("\"range_shapes\":\"no\""), "is the text 'no', and must be true or false"},
        {WITH("\"last_axis_align_bytes\":48"), "the nearest are 32 and 64"},
        {WITH("\"tile_cols\":32"), "field 'tile_cols': 32, and there is no 'tile_rows'; give both or none"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{},\"companion\":true,\"output_bits\":8}",
         "field 'output_bits': is of NPUs"},
        {WITH("\"memory_bytes\":null"), "is something else"},
        {WITH("\"map_window_bytes\":8192,\"memory_bytes\":4096"),
         "'map_window_bytes': 8192 is more than 'memory_bytes' has, 4096"},
        {WITH("\"on_chip_bytes\":8192,\"memory_bytes\":4096"),
         "'on_chip_bytes': 8192 is more than 'memory_bytes'"},
        {WITH("\"state_pow2\":true,\"state_multiple\":48"), "must be a power of two: 32 or 64"},
        {WITH("\"companion\":true"), "'linear': a companion runs what the NPU leaves"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{},\"companion\":true,\"max_shapes\":3}",
         "field 'max_shapes'"},
        {WITH("\"refused_shapes\":[]"), "a list of 1 to 64 pairs [seq, ctx]"},
        {WITH("\"refused_shapes\":{}"), "a list of 1 to 64 pairs [seq, ctx]"},
        {WITH("\"refused_shapes\":[[1,512],[32]]"),
         "pair 2: is no pair of numbers, and must be [seq, ctx] in tokens, 1 <= seq <= ctx <= 1048576"},
        {WITH("\"refused_shapes\":[[32,16]]"), "pair 1: is [32, 16], and must be"},
        {WITH("\"refused_shapes\":[[0,16]]"), "pair 1"},
        {WITH("\"refused_shapes\":[[1,1048577]]"), "pair 1"},
        {WITH("\"refused_shapes\":[[1,4294967297]]"), "pair 1"},
        {WITH("\"refused_shapes\":[[1,512],[1,512]]"), "[1, 512] twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) is_refused(bad[i][0], bad[i][1]);
}

static void refuses_what_is_no_profile_and_names_the_field(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "line 1"},
        {"{\n\"name\": }", "line 2"},
        {"[]", "must be a JSON object"},
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
        {WITH("\"last_axis_align_bytes\":48"), "'last_axis_align_bytes': 48 is no power of two"},
        {WITH("\"output_parts\":65"), "'output_parts'"},
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
        {WITH("\"input_zero_points\":\"always\""),
         "'input_zero_points': is the text 'always', and must be 'none', 'allowed' or 'wanted'"},
        {WITH("\"input_zero_points\":true"), "is true, and must be 'none'"},
        {WITH("\"launch_ns\":1000"), "'launch_ns' is no field of a profile; 'op_launch_ns' of 'time' is"},
        {WITH("\"session_switch_ns\":1000000001"),
         "'session_switch_ns': is 1000000001, and must be a whole number of ns from 1 to 1000000000"},
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
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"others\":[\"int8\",\"int4\"]}}", "'others'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"other\":[\"int8\"]}}", "did you mean 'others'?"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":\"int8\"}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"int4\"]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"int8\",\"int8\"]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"fp16\"]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"sum\":[\"int8\",\"int4\"]}}", "'sum'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"linear\":[\"float16\",\"int4\"]}}", "'linear'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"sum\":[\"float32\"]}}", "'float16' or 'bfloat16'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"rotary\":[\"float16\"],\"sum\":[\"bfloat16\"]}}",
         "'rotary' takes 'float16' and 'sum' 'bfloat16'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"silu_mul\":[\"int8\"]}}",
         "'silu_mul' is an operator; its class is 'activation'"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"norms\":[\"int8\"]}}", "did you mean 'norm'?"},
        {"{\"name\":\"x\",\"title\":\"X\",\"operators\":{\"edge\":[\"int8\"]}}", "'edge'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) is_refused(bad[i][0], bad[i][1]);
    bt_profile p;
    assert_int_equal(bt_profile_parse(&p, "", BT_PROFILE_MAX_BYTES + 1, NULL), BT_ELIMIT);
}

static void an_unknown_name_is_told_its_nearest_and_a_path_is_read(void **state)
{
    (void)state;
    bt_profile p;
    bt_fault f;
    assert_int_equal(bt_profile_load(&p, "hexagon-v76", &f), BT_EARG);
    assert_non_null(strstr(f.text, "did you mean 'hexagon-v73'?"));
    assert_int_equal(bt_profile_load(&p, "toaster", &f), BT_EARG);
    assert_null(strstr(f.text, "did you mean"));
    assert_non_null(strstr(f.text, "'baton profiles' lists them"));
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

#define STACKED \
    "{\"name\":\"x\",\"title\":\"X\",\"operators\":{},\"stacks\":{\"fast\":{\"dispatch_ns\":5,\"idle_mw\":" \
    "null}}," \
    "\"time\":{\"stack\":\"slow\",\"f16_ops_per_us\":1000,\"memory_bytes_per_us\":100,\"dispatch_ns\":9," \
    "\"idle_mw\":3,\"interconnect_bytes_per_us\":7,\"group_sizes\":[2,4]}}"

static void a_name_asks_for_a_group_and_a_stack(void **state)
{
    char path[] = "/tmp/profile_XXXXXX.json", device[64];
    const int fd = mkstemps(path, 5);
    bt_profile p;
    bt_fault f = {""};
    (void)state;
    assert_true(fd >= 0 && write(fd, STACKED, sizeof STACKED - 1) == (ssize_t)(sizeof STACKED - 1));
    (void)close(fd);
    static const struct {
        const char *asks, *name, *stack;
        uint32_t devices, dispatch_ns, idle_mw;
    } good[] = {{"", "x", "slow", 0, 9, 3},      {"x1", "x", "slow", 0, 9, 3},
                {"x4", "xx4", "slow", 4, 9, 3},  {"@fast", "x@fast", "fast", 0, 5, 0},
                {"@slow", "x", "slow", 0, 9, 3}, {"x2@fast", "xx2@fast", "fast", 2, 5, 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)snprintf(device, sizeof device, "%s%s", path, good[i].asks);
        if (bt_profile_load(&p, device, &f) < 0) fail_msg("%s: %s", good[i].asks, f.text);
        assert_string_equal(p.name, good[i].name);
        assert_string_equal(p.time.stack, good[i].stack);
        assert_int_equal(p.time.devices, good[i].devices);
        assert_int_equal(p.time.dispatch_ns, good[i].dispatch_ns);
        assert_int_equal(p.time.idle_mw, good[i].idle_mw);
        assert_true(bt_profile_has_stack(&p, "fast") && bt_profile_has_stack(&p, "slow"));
        assert_false(bt_profile_has_stack(&p, "x"));
    }
    static const char *const bad[][2] = {{"x3", "no group of 3 devices; it has groups of 2, 4"},
                                         {"@quick", "has no stack 'quick'; it has slow, fast"},
                                         {"x3@quick", "has no stack 'quick'"},
                                         {"@", "no profile"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(device, sizeof device, "%s%s", path, bad[i][0]);
        const bt_err e = bt_profile_load(&p, device, &f);
        if (e >= 0 || (i < 3 && !strstr(f.text, bad[i][1])))
            fail_msg("%s: %d '%s'", bad[i][0], (int)e, f.text);
    }
    (void)unlink(path);
    assert_int_equal(bt_profile_load(&p, "host@x", &f), BT_EARG);
    assert_non_null(strstr(f.text, "no time"));
    assert_int_equal(bt_profile_load(&p, "m2-ultra-gpux2", &f), BT_EARG);
    assert_non_null(strstr(f.text, "no groups of devices"));
}

static void stacks_that_contradict_the_profile_are_refused(void **state)
{
    (void)state;
#define STACKS(time, of) "{\"name\":\"x\",\"title\":\"X\",\"operators\":{}" time ",\"stacks\":" of "}"
#define SLOW             ",\"time\":{\"stack\":\"slow\",\"f16_ops_per_us\":1000,\"memory_bytes_per_us\":9}"
#define PADDED \
    ",\"time\":{\"stack\":\"slow\",\"f16_ops_per_us\":1000,\"memory_bytes_per_us\":9,\"program_rows\":[32]}"
    static const char *const bad[][2] = {
        {STACKS("", "{\"a\":{}}"), "beside 'time'"},
        {STACKS(SLOW, "3"), "must be an object of at most 8"},
        {STACKS(SLOW, "{\"slow\":{}}"), "is the stack of 'time' too"},
        {STACKS(SLOW, "{\"A b\":{}}"), "small letters"},
        {STACKS(SLOW, "{\"a\":{\"stack\":\"b\"}}"), "the name that the object has"},
        {STACKS(SLOW, "{\"a\":{\"decode_bytes_per_us\":101}}"),
         "'a': field 'decode_bytes_per_us': 101 is more"},
        {STACKS(SLOW, "{\"a\":{\"f16_ops_per_us\":null}}"), "'f16_ops_per_us' is missing"},
        {STACKS(SLOW, "{\"a\":{\"heat\":1}}"), "'heat' is no field of 'time'"},
        {STACKS(SLOW, "{\"a\":{},\"b\":{\"program_rows\":[32]}}"),
         "field 'stacks', 'b', 'program_rows': is of servers"},
        {STACKS(PADDED, "{\"a\":{\"program_rows\":null}}"), "field 'time', 'program_rows': is of servers"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_profile p;
        bt_fault f = {""};
        const bt_err e = bt_profile_parse(&p, bad[i][0], strlen(bad[i][0]), &f);
        if (e != BT_EFORMAT || !strstr(f.text, bad[i][1])) fail_msg("%s: %d '%s'", bad[i][0], (int)e, f.text);
    }
}

static void a_group_has_smaller_ones_under_the_same_stack(void **state)
{
    (void)state;
    bt_profile eight, less;
    assert_int_equal(bt_profile_load(&eight, "h100x4", NULL), BT_OK);
    eight.time.sizes = 3;
    for (uint32_t i = 0; i < 3; i++) eight.time.group_size[i] = 2u << i;
    eight.time.devices = 8;
    snprintf(eight.name, sizeof eight.name, "h100x8");
    assert_true(bt_profile_group(&less, &eight, 4));
    assert_string_equal(less.name, "h100x4");
    assert_int_equal(less.time.devices, 4);
    assert_true(bt_profile_group(&less, &less, 1));
    assert_string_equal(less.name, "h100");
    assert_int_equal(less.time.devices, 0);
    assert_false(bt_profile_group(&less, &eight, 8));
    assert_false(bt_profile_group(&less, &eight, 3));
    snprintf(eight.name, sizeof eight.name, "./x8/boardx8@trtllm"); /* as of a file */
    assert_true(bt_profile_group(&less, &eight, 2));
    assert_string_equal(less.name, "./x8/boardx2@trtllm");
    snprintf(eight.name, sizeof eight.name, "boardx8@x8go");
    assert_true(bt_profile_group(&less, &eight, 2));
    assert_string_equal(less.name, "boardx2@x8go");
    assert_int_equal(bt_profile_load(&eight, "h100", NULL), BT_OK);
    assert_false(bt_profile_group(&less, &eight, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_has_smaller_ones_under_the_same_stack),
        cmocka_unit_test(a_name_asks_for_a_group_and_a_stack),
        cmocka_unit_test(stacks_that_contradict_the_profile_are_refused),
        cmocka_unit_test(every_device_of_the_list_is_built_in),
        cmocka_unit_test(every_value_has_a_source_with_its_tag),
        cmocka_unit_test(known_figures),
        cmocka_unit_test(built_in_profiles_take_these_operators),
        cmocka_unit_test(others_are_the_classes_that_the_file_does_not_name),
        cmocka_unit_test(the_page_lists_every_operator_and_class_that_a_profile_may_have),
        cmocka_unit_test(a17_pro_refuses_the_five_published_pairs),
        cmocka_unit_test(what_is_left_out_is_no_limit),
        cmocka_unit_test(refuses_what_is_no_profile_and_names_the_field),
        cmocka_unit_test(a_wrong_unit_range_or_pair_of_fields_is_told_what_would_do),
        cmocka_unit_test(an_unknown_name_is_told_its_nearest_and_a_path_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
