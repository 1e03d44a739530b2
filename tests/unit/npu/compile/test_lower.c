/* Programs of the NPU: every operator once, quantisation once for each input, memory that fits, work counted.
 */
#include "npu/compile/lower.h"
#include "graph/bind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const bt_hparams shapes[] = {
    {.arch = BT_ARCH_LLAMA, .layers = 3, .dim = 96, .ffn = 172, .heads = 6, .kv_heads = 2, .head_dim = 16,
     .vocab = 384},
    {.arch = BT_ARCH_QWEN3, .layers = 2, .dim = 40, .ffn = 7, .heads = 2, .kv_heads = 1, .head_dim = 20,
     .vocab = 33, .qk_norm = true},
};
static const char *const recipes[] = {"w8a8", "w8a16", "w8a8:shadow=off,no-rotate", "w4a8:a16=down+head"};
static const size_t outs[] = {0, 1, 2}; /* 2: all */

typedef struct world {
    bt_graph *graph;
    bt_recipe recipe;
    uint8_t on_npu[256];
    size_t seq, out;
    bt_lowered l;
} world;

static world lower(const bt_hparams *hp, const char *recipe, size_t seq, size_t out, bool fall_back)
{
    world w = {.seq = seq, .out = out == 2 ? seq : out};
    assert_int_equal(bt_recipe_parse(&w.recipe, recipe, NULL), BT_OK);
    const bt_graph_options o = {w.recipe.r1, w.recipe.r2};
    assert_int_equal(bt_graph_build(&w.graph, hp, &o, NULL), BT_OK);
    assert_true(w.graph->ops <= sizeof w.on_npu);
    for (size_t i = 0; i < w.graph->ops; i++) {
        const bt_op *op = &w.graph->op[i];
        w.on_npu[i] = op->kind == BT_OP_LINEAR && !(fall_back && op->weight == BT_WEIGHT_UP);
    }
    const bt_lower_in in = {.graph = w.graph, .on_npu = w.on_npu, .recipe = &w.recipe, .seq = seq,
                            .out = w.out};
    assert_int_equal(bt_lower(&w.l, &in, NULL), BT_OK);
    return w;
}

static void end(world *w)
{
    bt_lower_done(&w->l);
    bt_graph_free(w->graph);
}

static void for_each(void (*check)(const world *w))
{
    for (size_t h = 0; h < sizeof shapes / sizeof *shapes; h++)
        for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
            for (size_t o = 0; o < 3; o++)
                for (size_t seq = 1; seq <= 48; seq += 47) {
                    world w = lower(&shapes[h], recipes[r], seq, outs[o], r == 1);
                    check(&w);
                    end(&w);
                }
}

static size_t count(const bt_lowered *l, bt_pkg_op op)
{
    size_t n = 0;
    for (size_t i = 0; i < l->insts; i++) n += l->inst[i].op == op;
    return n;
}

static void check_counts(const world *w)
{
    const size_t layers = w->graph->hp.layers, ops = w->out ? w->graph->ops : w->graph->op_tail;
    const size_t linears = count(&w->l, BT_PKG_LINEAR) + count(&w->l, BT_PKG_LINEAR_F16);
    assert_int_equal(linears, 7 * layers + (w->out != 0));
    assert_int_equal(count(&w->l, BT_PKG_QUANTISE), 4 * layers + (w->out != 0));
    assert_int_equal(w->l.insts, ops + count(&w->l, BT_PKG_QUANTISE));
    assert_int_equal(count(&w->l, BT_PKG_ROTATE), (w->recipe.r1 ? 1 : 0) + (w->recipe.r2 ? layers : 0));
    const bt_bind b = {.value = {1, w->seq, 0, w->out}}; /* no context: attention counts nothing */
    uint64_t macs = 0;
    assert_int_equal(bt_graph_macs(&macs, w->graph, &b, NULL), BT_OK);
    assert_int_equal(w->l.program.npu_macs + w->l.program.companion_macs, macs);
    assert_int_equal(w->l.program.companion_macs != 0, count(&w->l, BT_PKG_LINEAR_F16) != 0);
    assert_true(w->l.program.activation_bytes_moved > 0);
}

static void every_operator_becomes_one_instruction_and_every_input_is_quantised_once(void **state)
{
    (void)state;
    for_each(check_counts);
}

static const bt_pkg_place *place_of(const bt_lowered *l, uint64_t offset, size_t at)
{
    for (size_t p = 0; p < l->places; p++)
        if (l->place[p].offset == offset && l->place[p].first_inst <= at && at <= l->place[p].last_inst)
            return &l->place[p];
    return NULL;
}

static void check_operand(const world *w, uint64_t offset, size_t at, uint64_t bytes)
{
    if (offset == BT_PKG_NOWHERE) return;
    const bt_pkg_place *p = place_of(&w->l, offset, at);
    assert_non_null(p);
    assert_true(p->bytes >= bytes);
}

static void check_places(const world *w)
{
    const bt_lowered *l = &w->l;
    for (size_t a = 0; a < l->places; a++) {
        assert_int_equal(l->place[a].offset % 64, 0);
        assert_true(l->place[a].offset + l->place[a].bytes <= l->program.arena_bytes);
        for (size_t b = 0; b < a; b++)
            if (l->place[a].first_inst <= l->place[b].last_inst &&
                l->place[b].first_inst <= l->place[a].last_inst)
                assert_true(l->place[a].offset + l->place[a].bytes <= l->place[b].offset ||
                            l->place[b].offset + l->place[b].bytes <= l->place[a].offset);
    }
    for (size_t i = 0; i < l->insts; i++) {
        const bt_pkg_inst *n = &l->inst[i];
        const uint64_t rows = n->out_rows ? w->out : w->seq;
        check_operand(w, n->in0, i, rows * n->in_stride);
        check_operand(w, n->out, i, rows * n->out_stride);
        check_operand(w, n->in1, i, n->op == BT_PKG_QUANTISE ? rows * n->out_stride : rows * n->in_stride);
        check_operand(w, n->aux, i, bt_pkg_shadow_bytes(rows, n->in_width));
        if (n->op == BT_PKG_LINEAR) {
            const size_t kind = n->layer == BT_GRAPH_NO_LAYER ? BT_SITE_HEAD : n->site % BT_PKG_LAYER_SITES;
            assert_int_equal(n->in1 != BT_PKG_NOWHERE, w->recipe.input_bits[kind] == 16);
            assert_int_equal(n->in_stride % 64, 0);
            assert_true(n->in_stride >= n->in_width);
        }
    }
}

static void operands_lie_in_places_that_are_alive_and_do_not_overlap(void **state)
{
    (void)state;
    for_each(check_places);
}

static void groups_share_planes_and_fallbacks_read_floats(void **state)
{
    (void)state;
    world w = lower(&shapes[0], "w8a8", 16, 1, true);
    for (size_t i = 0; i < w.l.insts; i++) {
        const bt_pkg_inst *n = &w.l.inst[i];
        if (n->op == BT_PKG_LINEAR && n->tensor == bt_pkg_tensor_index(3, n->layer, BT_WEIGHT_Q)) {
            assert_int_equal(n[-1].op, BT_PKG_QUANTISE);
            for (int g = 0; g < 3; g++) {
                assert_int_equal(n[g].group, g ? 1 : 3);
                assert_int_equal(n[g].in0, n[-1].out);
                assert_int_equal(n[g].aux, n[-1].aux);
                assert_int_equal(n[g].unit, BT_PKG_NPU);
            }
        }
        if (n->op == BT_PKG_LINEAR_F16) {
            assert_int_equal(n->tensor, bt_pkg_tensor_index(3, n->layer, BT_WEIGHT_UP));
            assert_int_equal(n->site, BT_PKG_NONE);
            assert_int_equal(n->in_stride, 4 * n->in_width);
            assert_int_equal(n->unit, BT_PKG_COMPANION);
            assert_int_equal(n->group, 1);
        }
    }
    assert_int_equal(w.l.inst[w.l.insts - 1].out, BT_PKG_NOWHERE);
    end(&w);
}

static void norms_without_weights_and_clusters_are_passed_on(void **state)
{
    (void)state;
    world w = lower(&shapes[0], "w8a8", 16, 1, false);
    bool has[256] = {false};
    uint32_t cluster[256] = {0};
    for (size_t i = 0; i < w.graph->ops; i++) cluster[i] = w.on_npu[i] ? (uint32_t)i + 1 : 0;
    const bt_lower_in in = {.graph = w.graph,
                            .on_npu = w.on_npu,
                            .cluster = cluster,
                            .recipe = &w.recipe,
                            .has_norm_weight = has,
                            .seq = 16,
                            .out = 1};
    bt_lower_done(&w.l);
    assert_int_equal(bt_lower(&w.l, &in, NULL), BT_OK);
    for (size_t i = 0; i < w.l.insts; i++) {
        if (w.l.inst[i].op == BT_PKG_RMSNORM) assert_int_equal(w.l.inst[i].tensor, BT_PKG_NONE);
        assert_int_equal(w.l.inst[i].cluster != 0, w.l.inst[i].op == BT_PKG_LINEAR);
    }
    assert_int_equal(w.l.program.clusters, 7 * 3 + 1); /* numbered anew, in the order of the program */
    end(&w);
}

static void a_pruned_site_has_no_shadow(void **state)
{
    (void)state;
    world w = lower(&shapes[0], "w8a8", 16, 1, false);
    bool pruned[3 * BT_PKG_LAYER_SITES + 1] = {[BT_PKG_LAYER_SITES + BT_SITE_DOWN] = true};
    const bt_lower_in in = {.graph = w.graph, .on_npu = w.on_npu, .recipe = &w.recipe,
                            .pruned = pruned, .seq = 16,          .out = 1};
    bt_lower_done(&w.l);
    assert_int_equal(bt_lower(&w.l, &in, NULL), BT_OK);
    for (size_t i = 0; i < w.l.insts; i++)
        if (w.l.inst[i].site != BT_PKG_NONE)
            assert_int_equal(w.l.inst[i].aux == BT_PKG_NOWHERE, pruned[w.l.inst[i].site]);
    end(&w);
}

static void refuses_rows_that_make_no_sense_or_do_not_fit(void **state)
{
    (void)state;
    world w = lower(&shapes[0], "w8a8", 16, 1, false);
    bt_lowered none = {0};
    bt_lower_in in = {.graph = w.graph, .on_npu = w.on_npu, .recipe = &w.recipe, .seq = 0, .out = 0};
    assert_int_equal(bt_lower(&none, &in, NULL), BT_EARG);
    in.seq = 16;
    in.out = 3;
    assert_int_equal(bt_lower(&none, &in, NULL), BT_EARG);
    assert_null(none.inst);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_becomes_one_instruction_and_every_input_is_quantised_once),
        cmocka_unit_test(operands_lie_in_places_that_are_alive_and_do_not_overlap),
        cmocka_unit_test(groups_share_planes_and_fallbacks_read_floats),
        cmocka_unit_test(norms_without_weights_and_clusters_are_passed_on),
        cmocka_unit_test(a_pruned_site_has_no_shadow),
        cmocka_unit_test(refuses_rows_that_make_no_sense_or_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
