/* The reports of compile and inspect on a package, against the file that a helper wrote. */
#include "tools/package_view.h"
#include "npu/compile/compile.h"
#include "npu/pkg/pkg_private.h"
#include "npu/pkg/recipe.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/tiny_pkg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct room {
    uint8_t *bytes;
    bt_pkg *pkg;
} room;

static room open_room(const tiny_pkg *kind)
{
    room r = {0};
    size_t len;
    bt_fault f = {""};
    r.bytes = tiny_pkg_bytes(&len, kind);
    if (bt_pkg_from_bytes(&r.pkg, r.bytes, len, NULL, true, NULL, &f) < 0) fail_msg("%s", f.text);
    return r;
}

static void close_room(room *r)
{
    bt_pkg_close(r->pkg);
    free(r->bytes);
}

static json_int_t integer(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) fail_msg("%s is no integer", key);
    return json_integer_value(v);
}

static void json_has_a_row_for_each_shape_and_a_tensor_for_each_weight(void **state)
{
    (void)state;
    const tiny_pkg kinds[] = {{.seqs = {4, 8}},
                              {.rotate = true, .bits = 4},
                              {.ops_all = true, .seqs = {1, 3, 8}},
                              {.laid_out = true, .seqs = {3}},
                              {.laid_out = true, .ops_all = true, .seqs = {7}}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        room r = open_room(&kinds[k]);
        const bt_pkg_header *h = bt_pkg_header_of(r.pkg);
        json_t *j = tool_package_json(r.pkg);
        assert_non_null(j);
        const json_t *rows = json_object_get(j, "specializations"), *tensors = json_object_get(j, "tensors");
        assert_int_equal(json_array_size(rows), h->rows.count);
        for (uint32_t i = 0; i < h->rows.count; i++) {
            const json_t *row = json_array_get(rows, i);
            assert_int_equal(integer(row, "seq"), bt_pkg_rows(r.pkg)[i].seq);
            assert_int_equal(integer(row, "ctx"), bt_pkg_rows(r.pkg)[i].ctx);
            assert_true(integer(row, "arena_bytes") > 0);
            assert_true(integer(json_object_get(json_object_get(row, "programs"), "last"), "instructions") >
                        0);
        }
        size_t present = 0;
        for (uint32_t i = 0; i < h->tensors.count; i++) present += bt_pkg_tensors(r.pkg)[i].n > 0;
        assert_int_equal(json_array_size(tensors), present);
        assert_int_equal(integer(j, "weights_bytes"), h->weights_bytes);
        assert_int_equal(integer(json_array_get(json_object_get(j, "sites"), 0), "zero_point"), 0);
        assert_string_equal(json_string_value(json_object_get(j, "npu_ops")),
                            kinds[k].ops_all ? "all" : "linear");
        json_decref(j);
        close_room(&r);
    }
}

static void ranges_cover_every_channel(void **state)
{
    (void)state;
    room r = open_room(&(tiny_pkg){.ops_all = true});
    const bt_pkg_tensor *q = &bt_pkg_tensors(r.pkg)[1]; /* the q of layer 0 */
    const tool_package_range scale = tool_package_scales(r.pkg, q), mult = tool_package_mults(r.pkg, q),
                             shift = tool_package_shifts(r.pkg, q);
    char name[TOOL_PACKAGE_NAME_BYTES];
    assert_string_equal(tool_package_tensor_name(name, q), "layer 0 q");
    assert_true(scale.count == q->n && mult.count == q->n && shift.count == q->n);
    const float *s = bt_pkg_const_at(r.pkg, q->wscale);
    for (uint32_t i = 0; i < q->n; i++) assert_true((double)s[i] >= scale.lo && (double)s[i] <= scale.hi);
    assert_int_equal(tool_package_mults(r.pkg, &bt_pkg_tensors(r.pkg)[0]).count, 0); /* a norm has none */
    close_room(&r);
}

static void placement_counts_every_instruction_once(void **state)
{
    (void)state;
    room r = open_room(&(tiny_pkg){.seqs = {4, 8}});
    tool_package_place place[TOOL_PACKAGE_MAX_PLACES];
    const uint32_t largest = tool_package_largest(r.pkg);
    const bt_pkg_program *g = &bt_pkg_programs(r.pkg)[largest];
    uint64_t count = 0, macs = 0, sum = 0;
    assert_int_equal(g->seq, 8);
    const size_t n = tool_package_placement(place, r.pkg);
    for (size_t i = 0; i < n; i++) {
        count += place[i].count;
        macs += place[i].macs_per_row;
    }
    assert_int_equal(count, g->insts);
    const bt_pkg_inst *inst = bt_pkg_code(r.pkg, largest);
    for (uint32_t i = 0; i < g->insts; i++) sum += inst[i].macs_per_row;
    assert_int_equal(macs, sum);
    assert_true(tool_package_values_bytes(r.pkg, largest) >= g->arena_bytes);
    close_room(&r);
}

/* The linears of the file's programs as clusters of one, then of a group. */
static void clusters_have_their_work_and_what_crosses_their_boundary(void **state)
{
    (void)state;
    enum { SEQ = 8, DIM = 16, Q = 16, KV = 8 };
    for (int grouped = 0; grouped < 2; grouped++) {
        room r = open_room(&(tiny_pkg){.seqs = {4, SEQ}});
        const bt_pkg_program *g = &bt_pkg_programs(r.pkg)[tool_package_largest(r.pkg)];
        bt_pkg_inst *inst = (bt_pkg_inst *)(uintptr_t)bt_pkg_const_at(r.pkg, g->code); /* the room's own bytes
                                                                                        */
        uint32_t n = 0, clusters = 0;
        while (inst[n].op != BT_PKG_LINEAR) n++;
        for (uint32_t i = 0; i < 3; i++) inst[n + i].cluster = grouped ? 1 : i + 1;
        clusters = grouped ? 1 : 3;
        ((bt_pkg_program *)(uintptr_t)g)->clusters = clusters;
        tool_package_cluster *c = NULL;
        assert_int_equal(tool_package_clusters(&c, r.pkg), clusters);
        assert_string_equal(c[0].first, "linear");
        assert_true(c[0].first_layer == 0 && c[0].last_layer == 0 && c[0].id == 1);
        assert_int_equal(c[0].in_bytes, SEQ * 64); /* planes: rows of a multiple of 64 bytes; each cluster
                                                      reads them */
        assert_int_equal(c[0].instructions, grouped ? 3 : 1);
        assert_int_equal(c[0].macs, SEQ * DIM * (grouped ? Q + KV + KV : Q));
        assert_int_equal(c[0].out_bytes, SEQ * 4 * (grouped ? Q + KV + KV : Q));
        if (!grouped) assert_true(c[2].in_bytes == SEQ * 64 && c[2].out_bytes == SEQ * 4 * KV);
        free(c);
        close_room(&r);
    }
}

static void sharing_programs_never_takes_more(void **state)
{
    (void)state;
    room r = open_room(&(tiny_pkg){.seqs = {4, 8}});
    bt_sharing s;
    assert_int_equal(tool_package_sharing(&s, r.pkg, NULL), BT_OK);
    assert_int_equal(s.chunks, TOOL_PACKAGE_SHARING_TOKENS / 8);
    assert_true(s.shared_bytes < s.naive_bytes);
    close_room(&r);
}

/* A layout with little on the chip, given to a package that was made without one. */
static room open_laid_out(void)
{
    room r = {0};
    size_t len;
    bt_fault f = {""};
    r.bytes = tiny_pkg_bytes(&len, &(tiny_pkg){.ops_all = true, .seqs = {8}});
    bt_pkg_header *h = (void *)r.bytes;
    const bt_pkg_const *c = (const void *)(r.bytes + h->consts.offset);
    const bt_pkg_program *g = (const void *)(r.bytes + h->programs.offset);
    h->layout = (bt_pkg_layout){.on_chip_bytes = 1024, .tile_rows = 32, .tile_cols = 32, .tile_input_rows = 5,
                                .state_multiple = 32};
    for (uint32_t p = 0; p < h->programs.count; p++) {
        bt_pkg_inst *inst = (void *)(r.bytes + c[g[p].code].offset);
        for (uint32_t i = 0; i < g[p].insts; i++)
            if (inst[i].op == BT_PKG_LINEAR || inst[i].op == BT_PKG_INT_LINEAR)
                inst[i].arg = BT_PKG_ORDER_INPUTS;
    }
    tiny_pkg_repair(r.bytes, len);
    if (bt_pkg_from_bytes(&r.pkg, r.bytes, len, NULL, true, NULL, &f) < 0) fail_msg("%s", f.text);
    return r;
}

static json_int_t sum_of(const json_t *line, const char *what)
{
    static const char *const operands[] = {"weights", "input", "output"};
    json_int_t sum = 0;
    for (int i = 0; i < 3; i++) sum += integer(json_object_get(line, operands[i]), what);
    return sum * integer(line, "count");
}

static void the_plan_adds_up_operator_by_operator(void **state)
{
    (void)state;
    room r = open_laid_out();
    json_t *j = tool_package_json(r.pkg);
    assert_non_null(j);
    const json_t *state_32 = json_array_get(json_object_get(j, "kv_state"), 0), *line;
    assert_int_equal(integer(state_32, "payload_bytes"), 4 * 1 * integer(state_32, "ctx") * 8 * 2);
    assert_int_equal(integer(state_32, "bytes"), 4 * 1 * integer(state_32, "ctx") * 32 * 2);
    json_int_t resident = 0, streamed = 0, spilled = 0, npu = 0;
    size_t i, inputs_stay = 0;
    json_array_foreach(json_object_get(j, "on_chip"), i, line) {
        resident += sum_of(line, "resident");
        streamed += sum_of(line, "streamed");
        spilled += sum_of(line, "spilled") + integer(line, "count") * integer(line, "overflow");
        npu += integer(line, "count");
        inputs_stay += strstr(json_string_value(json_object_get(line, "op")), "linear") != NULL &&
                       strcmp(json_string_value(json_object_get(line, "order")), "inputs_stay") == 0;
    }
    assert_int_equal(integer(j, "on_chip_bytes"), 1024);
    assert_int_equal(integer(j, "resident_bytes"), resident);
    assert_int_equal(integer(j, "streamed_bytes"), streamed);
    assert_int_equal(integer(j, "spill_bytes"), spilled);
    assert_true(resident > 0 && streamed > 0 && spilled > 0);
    assert_int_equal(inputs_stay, 8); /* the package says so: seven matrices of a layer, and the output matrix
                                       */
    json_int_t should = 0;
    size_t places;
    const json_t *place;
    json_array_foreach(json_object_get(j, "placement"), places, place)
        if (strcmp(json_string_value(json_object_get(place, "unit")), "npu") == 0)
            should += integer(place, "count");
    assert_int_equal(npu, should);
    /* q, k, v, o of 16 x 16, 8 x 16, 8 x 16, 16 x 16; gate, up, down of 24 and 16; one row of 20 x 16: tiles
     * of 32 x 32 outputs and inputs, 8 rows as 10, 1 row as 5 */
    const json_t *last =
        json_object_get(json_object_get(json_array_get(json_object_get(j, "specializations"), 0), "programs"),
                        "last");
    assert_int_equal(integer(last, "tile_padding_macs"),
                     2 * (7 * 10 * 32 * 32 - 8 * (2 * 16 * 16 + 2 * 8 * 16 + 3 * 24 * 16)) + 5 * 32 * 32 -
                         20 * 16);
    json_decref(j);
    close_room(&r);
}

/* Contexts of 16 and 32: positions 0 to 15 see 1 to 16 of 16 columns, 16 to 31 see 17 to 32 of 32. */
static void static_contexts_packing_and_switches_are_counted(void **state)
{
    (void)state;
    room flat = open_room(&(tiny_pkg){.seqs = {4, 8}}),
         r = open_room(&(tiny_pkg){.seqs = {4, 8}, .packed = true, .two_sessions = true});
    const uint32_t largest = tool_package_largest(r.pkg);
    const double want[] = {1 - 136.0 / 256, 1 - 392.0 / 512};
    for (uint32_t i = 0; i < 4; i++) {
        const tool_package_bucket b = tool_package_bucket_of(r.pkg, i),
                                  none = tool_package_bucket_of(flat.pkg, i);
        assert_int_equal(b.ctx, i % 2 ? 32 : 16);
        assert_int_equal(b.first, i % 2 ? 16 : 0);
        assert_true(b.masked > want[i % 2] - 1e-12 && b.masked < want[i % 2] + 1e-12);
        assert_true(!none.ctx && none.masked == 0);
    }
    assert_int_equal(tool_package_switches_of(r.pkg, largest).count, 2);
    assert_int_equal(tool_package_switches_of(r.pkg, largest).ns, 2000);
    assert_int_equal(tool_package_switches_of(flat.pkg, tool_package_largest(flat.pkg)).count, 0);
    const tool_package_packing p = tool_package_packing_of(r.pkg);
    assert_int_equal(p.packed, 12);
    assert_true(p.body_bytes > 0 && p.body_bytes < p.bytes && p.bytes < p.unpacked_bytes);
    assert_int_equal(tool_package_packing_of(flat.pkg).packed, 0);
    json_t *j = tool_package_json(r.pkg);
    const json_t *last =
        json_object_get(json_object_get(json_array_get(json_object_get(j, "specializations"), 3), "programs"),
                        "last");
    assert_int_equal(integer(last, "static_ctx"), 32);
    assert_int_equal(integer(last, "session_switches"), 2);
    assert_int_equal(integer(last, "session_switch_ns"), 2000);
    json_decref(j);
    close_room(&flat);
    close_room(&r);
}

/* Experts that a short calibration chose rarely are named with their counts, each once. */
static void experts_of_few_rows_are_named_with_their_counts(void **state)
{
    (void)state;
    enum { TOKENS = 48 };
    char path[] = "/tmp/baton-view-XXXXXX";
    int32_t ids[TOKENS];
    engine_kit kit = engine_kit_model("qwen3moe");
    bt_compile_options with = {.ctx_tokens = 64, .calib_ids = ids, .calib_len = TOKENS,
                               .shape_policy = "chunk:16"};
    bt_pkg *pkg = NULL;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    engine_kit_ids(ids, TOKENS, kit.model, 5);
    assert_int_equal(bt_recipe_parse(&with.recipe, "w8a8:clip=max", NULL), BT_OK);
    assert_int_equal(bt_compile(path, kit.model, &with, NULL, NULL), BT_OK);
    assert_int_equal(bt_pkg_open(&pkg, path, NULL), BT_OK);
    unlink(path);
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    json_t *j = tool_package_json(pkg);
    const json_t *rare = json_object_get(j, "rare_experts");
    size_t at = 0;
    assert_int_equal(integer(j, "experts"), h->experts);
    assert_int_equal(integer(j, "experts_used"), h->experts_used);
    for (uint32_t l = 0; l < h->layers; l++)
        for (uint32_t e = 0; e < h->experts; e++) {
            const bt_pkg_expert *of = bt_pkg_expert_of(pkg, l, BT_SITE_UP, e);
            if (of->rows >= BT_PKG_EXPERT_ROWS) continue;
            const json_t *one = json_array_get(rare, at++);
            assert_int_equal(integer(one, "layer"), l);
            assert_int_equal(integer(one, "expert"), e);
            assert_int_equal(integer(one, "calibration_rows"), of->rows);
        }
    assert_true(at > 0);
    assert_int_equal(json_array_size(rare), at);
    json_decref(j);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_a_row_for_each_shape_and_a_tensor_for_each_weight),
        cmocka_unit_test(ranges_cover_every_channel),
        cmocka_unit_test(placement_counts_every_instruction_once),
        cmocka_unit_test(clusters_have_their_work_and_what_crosses_their_boundary),
        cmocka_unit_test(sharing_programs_never_takes_more),
        cmocka_unit_test(the_plan_adds_up_operator_by_operator),
        cmocka_unit_test(static_contexts_packing_and_switches_are_counted),
        cmocka_unit_test(experts_of_few_rows_are_named_with_their_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
