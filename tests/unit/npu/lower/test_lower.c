/* Programs of the NPU: every operator once, quantisation once for each input, memory that fits, work counted.
 */
#include "npu/lower/lower.h"
#include "device/profile.h"
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
    const bt_graph_options o = {.rotate_embed = w.recipe.r1, .rotate_attention = w.recipe.r2};
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
            assert_int_equal(n->in1 != BT_PKG_NOWHERE, w->recipe.usual.input_bits[kind] == 16);
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

/* Every operator that may be is on the NPU but those of `kind`. */
static bt_err lower_without(bt_lowered *ret, world *w, bt_op_kind kind, const uint32_t *cluster)
{
    static const uint32_t params[256] = {0};
    for (size_t i = 0; i < w->graph->ops; i++) {
        const bt_op *o = &w->graph->op[i];
        w->on_npu[i] = o->kind != BT_OP_EMBED && o->kind != BT_OP_KV_STORE && o->kind != BT_OP_SELECT_ROWS &&
                       o->kind != kind && (o->kind != BT_OP_ROTATE || o->layer != BT_GRAPH_NO_LAYER);
    }
    const bt_lower_in in = {.graph = w->graph,
                            .on_npu = w->on_npu,
                            .cluster = cluster,
                            .recipe = &w->recipe,
                            .params = params,
                            .seq = 16,
                            .out = 1};
    return bt_lower(ret, &in, NULL);
}

static size_t conversions(const bt_lowered *l)
{
    return count(l, BT_PKG_QUANTISE16) + count(l, BT_PKG_QUANTISE32) + count(l, BT_PKG_DEQUANTISE16) +
           count(l, BT_PKG_DEQUANTISE32);
}

static void values_are_converted_where_the_readers_side_differs_and_only_there(void **state)
{
    (void)state;
    enum { L = 3 };
    static const struct {
        bt_op_kind without;
        size_t n[4]; /* quantise16, quantise32, dequantise16, dequantise32 */
    } want[] = {
        {BT_OP_KINDS, {0, 1, 2 * L, 0}},          /* what is embedded; k and v for the cache */
        {BT_OP_ROPE, {L, 1, 0, 0}},               /* q, for attention */
        {BT_OP_ATTENTION, {L, 1, 3 * L, 0}},      /* q, k and v; its output for the rotation */
        {BT_OP_ROTATE, {0, 1, 3 * L, 0}},         /* also attention's output; planes are made from floats */
        {BT_OP_SILU_MUL, {0, 1, 2 * L, 0}},       /* gate and up leave as floats */
        {BT_OP_ADD, {0, 1 + 2 * L, 2 * L, 0}},    /* the stream for each norm; the floats beside it stay */
        {BT_OP_RMSNORM, {0, 1, 2 * L, 2 * L}},    /* into the stream before the first addition; for each norm
                                                     behind */
        {BT_OP_LINEAR, {6 * L, 1, L, 4 * L + 1}}, /* every output but v; k; every input */
    };
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        static const bt_pkg_op ops[] = {BT_PKG_QUANTISE16, BT_PKG_QUANTISE32, BT_PKG_DEQUANTISE16,
                                        BT_PKG_DEQUANTISE32};
        world w = lower(&shapes[0], "w8a8", 16, 1, false);
        bt_lower_done(&w.l);
        assert_int_equal(lower_without(&w.l, &w, want[k].without, NULL), BT_OK);
        for (size_t o = 0; o < 4; o++) {
            const size_t has = count(&w.l, ops[o]);
            if (has != want[k].n[o])
                fail_msg("without %s: %zu x %s, not %zu", k ? bt_op_name(want[k].without) : "nothing", has,
                         bt_pkg_op_name(ops[o]), want[k].n[o]);
        }
        assert_int_equal(conversions(&w.l), want[k].n[0] + want[k].n[1] + want[k].n[2] + want[k].n[3]);
        end(&w);
    }
}

static void check_clusters_lie_together(const bt_lowered *l)
{
    uint32_t before = 0, highest = 0;
    for (size_t i = 0; i < l->insts; i++) {
        const uint32_t c = l->inst[i].cluster;
        assert_int_equal(c != 0, l->inst[i].unit == BT_PKG_NPU);
        assert_true(c == 0 || c == before || c == highest + 1);
        if (c > highest) highest = c;
        before = c;
    }
    assert_int_equal(l->program.clusters, highest);
}

/* Without norms the stream becomes integers between the o linear and the first addition, which are one
 * cluster: the conversion moves in front of it. */
static void a_conversion_inside_a_cluster_moves_in_front_of_it(void **state)
{
    (void)state;
    world w = lower(&shapes[0], "w8a8", 16, 1, false);
    uint32_t cluster[256] = {0};
    bt_lowered apart;
    assert_int_equal(lower_without(&apart, &w, BT_OP_RMSNORM, NULL), BT_OK);
    size_t at = 0, parts = 0;
    for (size_t i = 0; i < w.graph->ops; i++) { /* the companion's operators begin a new one */
        if (!w.on_npu[i]) parts++;
        cluster[i] = w.on_npu[i] ? (uint32_t)parts : 0;
    }
    while (apart.inst[at].op != BT_PKG_QUANTISE32) at++;
    assert_int_equal(apart.inst[at - 1].unit, BT_PKG_NPU);
    assert_int_equal(apart.inst[at + 1].op, BT_PKG_INT_ADD);
    bt_lower_done(&w.l);
    assert_int_equal(lower_without(&w.l, &w, BT_OP_RMSNORM, cluster), BT_OK);
    check_clusters_lie_together(&w.l);
    assert_int_equal(w.l.insts, apart.insts);
    for (at = 0; w.l.inst[at].op != BT_PKG_QUANTISE32;) at++;
    assert_int_equal(w.l.inst[at - 1].op, BT_PKG_KV_STORE);
    assert_int_equal(w.l.inst[at + 1].op, BT_PKG_INT_ATTENTION);
    assert_int_equal(w.l.program.clusters, 3 * 3 + 1); /* a layer: q to rope; attention to add; gate to add */
    bt_lower_done(&apart);
    end(&w);
}

static void a_cluster_that_cannot_lie_together_is_cut(void **state)
{
    (void)state;
    world w = lower(&shapes[0], "w8a8", 16, 1, false);
    uint32_t cluster[256];
    for (size_t i = 0; i < 256; i++)
        cluster[i] = w.on_npu[i] ? 1 : 0; /* all linears: each waits for the companion */
    const bt_lower_in in = {.graph = w.graph,    .on_npu = w.on_npu, .cluster = cluster,
                            .recipe = &w.recipe, .seq = 16,          .out = 1};
    bt_lowered whole;
    assert_int_equal(bt_lower(&whole, &in, NULL), BT_OK);
    check_clusters_lie_together(&whole);
    assert_int_equal(whole.program.clusters, 4 * 3 + 1); /* q, k, v; o; gate, up; down */
    for (size_t i = 0; i < w.l.insts; i++) assert_int_equal(whole.inst[i].op, w.l.inst[i].op);
    bt_lower_done(&whole);
    end(&w);
}

static void moves_are_never_the_npus_and_integers_need_parameters(void **state)
{
    (void)state;
    world w = lower(&shapes[0], "w8a8", 16, 1, false);
    bt_lowered none = {0};
    bt_lower_in in = {.graph = w.graph, .on_npu = w.on_npu, .recipe = &w.recipe, .seq = 16, .out = 1};
    for (size_t i = 0; i < w.graph->ops; i++) {
        if (w.graph->op[i].kind == BT_OP_LINEAR || w.graph->op[i].kind == BT_OP_ATTENTION) continue;
        w.on_npu[i] = 1;
        assert_int_equal(bt_lower(&none, &in, NULL), BT_EARG);
        w.on_npu[i] = 0;
    }
    assert_null(none.inst);
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

/* One layer of every operator in integers, 16-bit inputs, 3 rows and one row of logits: bytes of each
 * instruction's row by hand. Planes of 32 and 48 elements take 64 bytes each. */
static void bytes_moved_are_those_of_all_rows_that_are_read_and_written(void **state)
{
    (void)state;
    enum { S = 3, X = 4 * 32, PLANES = 2 * 64, Q = 2 * 32, K = 2 * 16, KF = 4 * 16, G = 2 * 48, D = 4 * 48 };
    static const bt_hparams hp = {
        .arch = BT_ARCH_LLAMA, .layers = 1,    .dim = 32,   .ffn = 48,      .heads = 2,
        .kv_heads = 1,         .head_dim = 16, .vocab = 40, .rope_dims = 16};
    static const uint64_t layer[] = {
        X,     /* embed */
        X + X, /* to s32 */
        X + X,
        X + PLANES, /* norm, split */
        PLANES + Q,
        2 * (PLANES + K), /* q, k and v */
        Q + Q,
        K + K, /* rope */
        2 * (K + KF),
        2 * KF + 4 * 16, /* k and v to floats, to KV in f16 */
        Q + Q,
        Q + X,
        X + PLANES, /* attention, change of units, split */
        PLANES + Q,
        X + Q + X, /* o, added to the row that is read and written */
        X + X,
        X + PLANES, /* norm, split */
        2 * (PLANES + G),
        G + G + D, /* gate and up, their product */
        D + PLANES,
        PLANES + Q,
        X + Q + X /* split, down, added */
    };
    static const uint64_t tail[] = {X + X, X + X, X + PLANES, PLANES + 4 * 40}; /* row, norm, split, head */
    uint64_t should = 0;
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) should += S * layer[i];
    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++) should += tail[i];
    world w = {0};
    uint32_t params[64] = {0};
    assert_int_equal(bt_recipe_parse(&w.recipe, "w8a16:no-rotate", NULL), BT_OK);
    assert_int_equal(bt_graph_build(&w.graph, &hp, NULL, NULL), BT_OK);
    assert_true(w.graph->ops <= sizeof params / sizeof *params);
    for (size_t i = 0; i < w.graph->ops; i++)
        w.on_npu[i] = bt_op_infos[w.graph->op[i].kind].class != BT_CLASS_EDGE;
    const bt_lower_in in = {.graph = w.graph, .on_npu = w.on_npu, .recipe = &w.recipe,
                            .params = params, .seq = S,           .out = 1};
    assert_int_equal(bt_lower(&w.l, &in, NULL), BT_OK);
    assert_int_equal(count(&w.l, BT_PKG_INT_ADD), 2);
    assert_int_equal(count(&w.l, BT_PKG_INT_SPLIT), 5);
    assert_int_equal(w.l.program.activation_bytes_moved, should);
    end(&w);
}

/* The same in 16-bit floats: each value has 2 bytes an element, whoever reads it; the embedding's row is f32.
 */
static void bytes_moved_of_floats_are_those_of_two_bytes_an_element(void **state)
{
    (void)state;
    enum { S = 3, X = 4 * 32, H = 2 * 32, K = 2 * 16, G = 2 * 48 };
    static const bt_hparams hp = {
        .arch = BT_ARCH_LLAMA, .layers = 1,    .dim = 32,   .ffn = 48,      .heads = 2,
        .kv_heads = 1,         .head_dim = 16, .vocab = 40, .rope_dims = 16};
    static const uint64_t layer[] = {
        X,     /* embed */
        X + H, /* rounded */
        H + H, /* norm */
        H + H,
        2 * (H + K), /* q, k and v */
        H + H,
        K + K,          /* rope */
        2 * K + 4 * 16, /* k and v to KV in f16 */
        H + H,
        H + H, /* attention, o */
        3 * H, /* added to the row that is read and written */
        H + H,
        2 * (H + G), /* norm, gate and up */
        3 * G,
        G + H,
        3 * H /* their product, down, added */
    };
    static const uint64_t tail[] = {H + H, H + H, H + 2 * 40}; /* row, norm, head */
    uint64_t should = 0;
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) should += S * layer[i];
    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++) should += tail[i];
    world w = {0};
    assert_int_equal(bt_recipe_parse(&w.recipe, "w8a16:no-rotate", NULL), BT_OK);
    assert_int_equal(bt_graph_build(&w.graph, &hp, NULL, NULL), BT_OK);
    for (size_t i = 0; i < w.graph->ops; i++)
        w.on_npu[i] =
            bt_op_infos[w.graph->op[i].kind].class == BT_CLASS_EDGE ? BT_PKG_COMPANION : BT_PKG_NPU_FLOAT;
    const bt_lower_in in = {.graph = w.graph, .on_npu = w.on_npu, .recipe = &w.recipe, .seq = S, .out = 1};
    assert_int_equal(bt_lower(&w.l, &in, NULL), BT_OK);
    assert_int_equal(count(&w.l, BT_PKG_ROUND16), 1);
    assert_int_equal(w.l.program.activation_bytes_moved, should);
    end(&w);
}

static void assert_same_program(const bt_lowered *a, const bt_lowered *b)
{
    assert_int_equal(a->insts, b->insts);
    assert_int_equal(a->places, b->places);
    assert_memory_equal(a->inst, b->inst, a->insts * sizeof *a->inst);
    assert_memory_equal(a->place, b->place, a->places * sizeof *a->place);
    assert_memory_equal(&a->program, &b->program, sizeof a->program);
}

static void one_draft_makes_the_programs_of_all_rows(void **state)
{
    (void)state;
    static const size_t seqs[] = {1, 16, 24, 48, 100, 256};
    const bt_pkg_layout layout = {.query_slice_rows = 64};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
        for (size_t o = 0; o < 3; o++) {
            world w = lower(&shapes[0], recipes[r], 7, outs[o], true);
            bt_lower_in in = {.graph = w.graph,  .on_npu = w.on_npu, .recipe = &w.recipe,
                              .layout = &layout, .seq = 7,           .out = w.out};
            bt_lower_draft *d = NULL;
            assert_int_equal(bt_lower_draft_new(&d, &in, NULL), BT_OK);
            for (size_t i = 0; i < sizeof seqs / sizeof *seqs; i++) {
                bt_lowered alone, one;
                bt_lower_places places;
                in.seq = seqs[i];
                in.out = outs[o] == 2 ? seqs[i] : outs[o];
                assert_int_equal(bt_lower_draft_serves(d, in.seq, in.out), seqs[i] <= 64);
                assert_false(bt_lower_draft_serves(d, in.seq, !in.out));
                if (seqs[i] > 64) continue; /* in slices */
                assert_int_equal(bt_lower(&alone, &in, NULL), BT_OK);
                assert_int_equal(bt_lower_draft_place(&places, d, in.seq, in.out, NULL), BT_OK);
                assert_int_equal(bt_lower_draft_at(&one, d, &places, NULL), BT_OK);
                assert_same_program(&one, &alone);
                bt_lower_done(&alone);
                bt_lower_done(&one);
                free(places.offset);
            }
            bt_lower_draft_free(d);
            end(&w);
        }
}

/* 48 rows get the places of 16 rows, times three; 24 rows are placed by themselves. */
static void twice_the_rows_have_places_twice_as_far(void **state)
{
    (void)state;
    for (size_t o = 0; o < 3; o += 2) {
        world half = lower(&shapes[0], "w8a8:shadow=off", 24, outs[o], true),
              whole = lower(&shapes[0], "w8a8:shadow=off", 48, outs[o], true);
        assert_int_equal(half.l.places, whole.l.places);
        assert_int_equal(2 * half.l.program.arena_bytes, whole.l.program.arena_bytes);
        for (size_t i = 0; i < half.l.places; i++) {
            assert_int_equal(2 * half.l.place[i].bytes, whole.l.place[i].bytes);
            assert_int_equal(2 * half.l.place[i].offset, whole.l.place[i].offset);
        }
        end(&half);
        end(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_becomes_one_instruction_and_every_input_is_quantised_once),
        cmocka_unit_test(operands_lie_in_places_that_are_alive_and_do_not_overlap),
        cmocka_unit_test(groups_share_planes_and_fallbacks_read_floats),
        cmocka_unit_test(norms_without_weights_and_clusters_are_passed_on),
        cmocka_unit_test(values_are_converted_where_the_readers_side_differs_and_only_there),
        cmocka_unit_test(a_conversion_inside_a_cluster_moves_in_front_of_it),
        cmocka_unit_test(a_cluster_that_cannot_lie_together_is_cut),
        cmocka_unit_test(moves_are_never_the_npus_and_integers_need_parameters),
        cmocka_unit_test(a_pruned_site_has_no_shadow),
        cmocka_unit_test(refuses_rows_that_make_no_sense_or_do_not_fit),
        cmocka_unit_test(bytes_moved_are_those_of_all_rows_that_are_read_and_written),
        cmocka_unit_test(bytes_moved_of_floats_are_those_of_two_bytes_an_element),
        cmocka_unit_test(one_draft_makes_the_programs_of_all_rows),
        cmocka_unit_test(twice_the_rows_have_places_twice_as_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
