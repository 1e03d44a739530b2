/* The side that each operator of a graph goes to. The graph has 2 layers of 16 operators; counts and sums are
 * by hand. */
#include "npu/lower/offload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { L = 2, DIM = 32, FFN = 44, HEADS = 2, GROUPS = 1, E = 16, V = 50 };
static const bt_hparams hp = {.arch = BT_ARCH_LLAMA, .layers = L,        .dim = DIM,    .ffn = FFN,
                              .heads = HEADS,        .kv_heads = GROUPS, .head_dim = E, .vocab = V};

static bt_graph *graph(void)
{
    static const bt_graph_options rotated = {.rotate_embed = true, .rotate_attention = true};
    bt_graph *g;
    assert_int_equal(bt_graph_build(&g, &hp, &rotated, NULL), BT_OK);
    return g;
}

static bt_offload *offload_measured(const bt_graph *g, const char *profile, const char *recipe,
                                    uint32_t npu_ops, uint8_t of_profile, const float *op_max)
{
    bt_offload *p;
    bt_profile pr;
    bt_recipe r;
    bt_fault f;
    assert_int_equal(bt_profile_load(&pr, profile, NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, recipe, NULL), BT_OK);
    for (int k = 0; k < BT_OP_KINDS; k++) pr.op[k] &= of_profile;
    if (bt_offload_new(&p, g, &pr, &r, npu_ops, 1000, op_max, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static bt_offload *offload(const bt_graph *g, const char *profile, const char *recipe, uint32_t npu_ops)
{
    return offload_measured(g, profile, recipe, npu_ops, UINT8_MAX, NULL);
}

/* As if the device had no floats. */
static bt_offload *offload_integers(const bt_graph *g, const char *profile, const char *recipe,
                                    uint32_t npu_ops)
{
    return offload_measured(g, profile, recipe, npu_ops, (uint8_t)~BT_PROFILE_FLOATS, NULL);
}

static size_t count(const bt_offload *p, const bt_graph *g, bt_op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < g->ops; i++) n += g->op[i].kind == kind && p->on_npu[i];
    return n;
}

static void linear_asks_for_the_linears_only(void **state)
{
    (void)state;
    bt_graph *g = graph();
    static const char *const profiles[] = {"host", "hexagon-v75", "ane-m4", "tpu-v5e", "cloud-ai-100"};
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        bt_offload *p = offload(g, profiles[i], "w8a8", BT_PKG_OPS_LINEAR);
        for (size_t v = 0; v < g->ops; v++) {
            assert_int_equal(p->on_npu[v], g->op[v].kind == BT_OP_LINEAR);
            assert_int_equal(p->cluster[v] != 0, p->on_npu[v]);
        }
        assert_int_equal(p->fallbacks, 0);
        assert_int_equal(bt_offload_require(p->fallback, p->fallbacks, NULL), BT_OK);
        bt_offload_free(p);
    }
    bt_graph_free(g);
}

static void all_takes_everything_but_moves(void **state)
{
    (void)state;
    bt_graph *g = graph();
    bt_offload *p = offload(g, "host", "w8a8", BT_PKG_OPS_ALL);
    for (size_t v = 0; v < g->ops; v++) {
        const bool edge = bt_op_infos[g->op[v].kind].class == BT_CLASS_EDGE ||
                          (g->op[v].kind == BT_OP_ROTATE && g->op[v].layer == BT_GRAPH_NO_LAYER);
        assert_int_equal(p->on_npu[v], !edge);
    }
    assert_int_equal(count(p, g, BT_OP_ROTATE), L);
    assert_int_equal(p->fallbacks, 0);
    assert_int_equal(p->npu_ops, BT_PKG_OPS_ALL);
    /* KV is stored by the companion between rope and attention, so a layer cannot be one cluster. */
    assert_true(p->clusters > L && p->clusters < 8 * L);
    bt_offload_free(p);
    bt_graph_free(g);
}

static const bt_pkg_fallback *fallback(const bt_offload *p, const char *op)
{
    for (size_t i = 0; i < p->fallbacks; i++)
        if (!strcmp(p->fallback[i].op, op)) return &p->fallback[i];
    fail_msg("no fallback of %s", op);
    return NULL;
}

static void what_a_profile_lacks_is_listed_with_reason_and_macs(void **state) /* AC-n2 */
{
    (void)state;
    bt_graph *g = graph();
    bt_fault f;
    bt_offload *p = offload_integers(g, "tpu-v5e", "w8a8", BT_PKG_OPS_ALL);
    assert_int_equal(p->fallbacks, 6);
    assert_int_equal(p->npu_ops, BT_PKG_OPS_LINEAR); /* nothing else is left */
    for (size_t i = 0; i < p->fallbacks; i++) assert_int_equal(p->fallback[i].layers, L);
    assert_int_equal(count(p, g, BT_OP_LINEAR), 7 * L + 1);
    assert_int_equal(fallback(p, "rmsnorm")->count, 2 * L + 1);
    assert_int_equal(fallback(p, "rope")->count, 2 * L);
    assert_int_equal(fallback(p, "attention")->count, L);
    assert_int_equal(fallback(p, "attention")->macs_per_row, (uint64_t)L * 2 * HEADS * E * 1000);
    assert_int_equal(fallback(p, "add")->count, 2 * L);
    assert_int_equal(fallback(p, "silu_mul")->count, L);
    assert_int_equal(fallback(p, "rotate")->count, L);
    assert_string_equal(fallback(p, "rotate")->why, "not in profile tpu-v5e");
    assert_int_equal(bt_offload_require(p->fallback, p->fallbacks, &f), BT_EARG);
    assert_non_null(strstr(f.text, "rmsnorm 5 x in 2 layers (not in profile tpu-v5e)"));
    bt_offload_free(p);

    p = offload_integers(g, "tpu-v5e", "w8a8:a16=down+head", BT_PKG_OPS_LINEAR);
    assert_int_equal(p->fallbacks, 2);
    assert_int_equal(count(p, g, BT_OP_LINEAR), 6 * L);
    assert_int_equal(bt_offload_require(p->fallback, p->fallbacks, &f), BT_EARG);
    assert_string_equal(
        f.text,
        "would not run on the NPU: linear 2 x in 2 layers (16-bit inputs at down), linear 1 x outside layers "
        "(16-bit inputs at head)");
    bt_offload_free(p);

    p = offload_integers(g, "npu4", "w4a8", BT_PKG_OPS_LINEAR);
    assert_int_equal(count(p, g, BT_OP_LINEAR), 0);
    assert_int_equal(p->clusters, 0);
    assert_int_equal(p->fallbacks, 1);
    assert_string_equal(p->fallback[0].why, "4-bit weights");
    assert_int_equal(p->fallback[0].count, 7 * L + 1);
    bt_offload_free(p);
    bt_graph_free(g);
}

/* A device with floats runs in them what it has not in the recipe's integers, and nothing falls back. */
static void what_integers_cannot_have_runs_in_floats(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        bt_round16 form;
    } of[] = {{"tpu-v5e", BT_ROUND16_BF16},
              {"ane-m1", BT_ROUND16_F16},
              {"cloud-ai-100-pro", BT_ROUND16_F16},
              {"intel-npu3720", BT_ROUND16_F16}};
    bt_graph *g = graph();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        bt_offload *p = offload(g, of[i].profile, "w8a8:a16=down", BT_PKG_OPS_ALL);
        for (size_t v = 0; v < g->ops; v++) {
            const bt_op *o = &g->op[v];
            const bool edge = bt_op_infos[o->kind].class == BT_CLASS_EDGE ||
                              (o->kind == BT_OP_ROTATE && o->layer == BT_GRAPH_NO_LAYER),
                       in8 = o->kind == BT_OP_LINEAR && o->weight != BT_WEIGHT_DOWN;
            assert_int_equal(p->on_npu[v], edge ? BT_PKG_COMPANION : in8 ? BT_PKG_NPU : BT_PKG_NPU_FLOAT);
            assert_int_equal(p->cluster[v] != 0, !edge);
        }
        assert_int_equal(p->fallbacks, 0);
        assert_int_equal(p->float_form, of[i].form);
        assert_int_equal(p->npu_ops, BT_PKG_OPS_LINEAR); /* no integers but the linears' */
        bt_offload_free(p);
        /* asked for nothing but linears of 8 bits */
        p = offload(g, of[i].profile, "w8a8", BT_PKG_OPS_LINEAR);
        assert_int_equal(p->float_form, BT_ROUND16_NONE);
        bt_offload_free(p);
    }
    bt_graph_free(g);
}

/* The one add of the last layer that reaches 40,000 and what reads it are too large for f16, not for bf16. */
static void values_beyond_32768_stay_with_the_companion_where_floats_are_f16(void **state)
{
    (void)state;
    bt_graph *g = graph();
    float max[64] = {0};
    size_t add = 0;
    bt_fault f;
    assert_true(g->ops <= sizeof max / sizeof *max);
    for (size_t v = 0; v < g->ops; v++)
        if (g->op[v].kind == BT_OP_ADD) add = v;
    for (size_t v = 0; v < g->ops; v++) max[v] = 32768;
    max[add] = 40000.25f;
    max[g->ops - 2] = 39000;
    assert_int_equal(g->op[g->ops - 2].kind, BT_OP_RMSNORM);
    bt_offload *p = offload_measured(g, "ane-m4", "w8a8", BT_PKG_OPS_ALL, UINT8_MAX, max);
    for (size_t v = 0; v < g->ops; v++)
        if (g->op[v].kind == BT_OP_ADD || g->op[v].kind == BT_OP_RMSNORM)
            assert_int_equal(p->on_npu[v], v == add || v == g->ops - 2 ? BT_PKG_COMPANION : BT_PKG_NPU_FLOAT);
    assert_int_equal(p->fallbacks, 2);
    assert_int_equal(fallback(p, "add")->count, 1);
    assert_string_equal(fallback(p, "add")->why,
                        "values up to 40000 in the calibration, float16 runs up to 32768");
    assert_string_equal(fallback(p, "rmsnorm")->why,
                        "values up to 39000 in the calibration, float16 runs up to 32768");
    assert_int_equal(bt_offload_require(p->fallback, p->fallbacks, &f), BT_EARG);
    assert_non_null(strstr(f.text, "add 1 x in 1 layer (values up to 40000"));
    bt_offload_free(p);
    for (size_t v = 0; v < g->ops; v++) max[v] = NAN; /* what is no number is too large */
    p = offload_measured(g, "ane-m4", "w8a8", BT_PKG_OPS_ALL, UINT8_MAX, max);
    assert_int_equal(p->float_form, BT_ROUND16_NONE);
    bt_offload_free(p);
    p = offload_measured(g, "tpu-v4", "w8a8", BT_PKG_OPS_ALL, UINT8_MAX, max);
    assert_int_equal(p->fallbacks, 0);
    bt_offload_free(p);
    bt_graph_free(g);
}

static void one_missing_operator_costs_no_other(void **state)
{
    (void)state;
    bt_graph *g = graph();
    bt_profile pr;
    bt_recipe r;
    bt_offload *p;
    assert_int_equal(bt_profile_load(&pr, "hexagon-v75", NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, "w8a16", NULL), BT_OK);
    pr.op[BT_OP_SILU_MUL] = BT_PROFILE_INT8;
    assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_ALL, 1000, NULL, NULL), BT_OK);
    assert_int_equal(p->npu_ops, BT_PKG_OPS_ALL);
    assert_int_equal(p->fallbacks, 1);
    assert_string_equal(p->fallback[0].op, "silu_mul");
    assert_string_equal(p->fallback[0].why, "16-bit values");
    assert_true(p->fallback[0].count == L && p->fallback[0].layers == L);
    for (size_t v = 0; v < g->ops; v++) {
        const bt_op *o = &g->op[v];
        const bool edge = bt_op_infos[o->kind].class == BT_CLASS_EDGE ||
                          (o->kind == BT_OP_ROTATE && o->layer == BT_GRAPH_NO_LAYER);
        assert_int_equal(p->on_npu[v], !edge && o->kind != BT_OP_SILU_MUL);
    }
    bt_offload_free(p);
    pr.output_bits = 8;
    assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_ALL, 1000, NULL, NULL), BT_OK);
    assert_int_equal(p->fallbacks, 1);
    assert_string_equal(fallback(p, "rotate")->why, "8-bit values");
    bt_offload_free(p);
    bt_graph_free(g);
}

/* ---- clusters of the graph itself ---- */

enum { OPS = 64 };

/* A path from operator a to b, over tensors: by who writes what is read, or was read before it is written. */
static void find_paths(unsigned char way[OPS][OPS], const bt_graph *g)
{
    memset(way, 0, OPS * OPS);
    for (size_t b = 0; b < g->ops; b++)
        for (size_t a = 0; a < b; a++) {
            const bt_op *x = &g->op[a], *y = &g->op[b];
            for (int i = 0; i < 2; i++) {
                if (y->in[i] != BT_GRAPH_NO_TENSOR && y->in[i] == x->out) way[a][b] = 1;
                if (x->in[i] != BT_GRAPH_NO_TENSOR && x->in[i] == y->out) way[a][b] = 1;
            }
            if (x->out == y->out) way[a][b] = 1;
        }
    for (size_t k = 0; k < g->ops; k++)
        for (size_t a = 0; a < g->ops; a++)
            for (size_t b = 0; way[a][k] && b < g->ops; b++) way[a][b] |= way[k][b];
}

static size_t op_of(const bt_graph *g, bt_op_kind kind, bt_weight weight, uint32_t layer)
{
    size_t i = 0;
    while (g->op[i].kind != kind || g->op[i].layer != layer || (weight && g->op[i].weight != weight)) i++;
    return i;
}

/* gate (A) feeds silu_mul (B, the companion) and the companion feeds down and its addition (D), which also
 * adds to the stream of the first addition (C, in A's cluster): merged, it would wait for itself. However
 * dear a launch is. */
static void what_r4_rotates_stays_in_floats(void **state)
{
    (void)state;
    static const bt_graph_options options = {.rotate_attention = true, .rotate_ffn = true};
    bt_graph *g;
    assert_int_equal(bt_graph_build(&g, &hp, &options, NULL), BT_OK);
    bt_offload *p = offload_integers(g, "host", "w8a8:r4", BT_PKG_OPS_ALL);
    for (size_t i = 0; i < g->ops; i++) {
        const bool is_turned = g->op[i].kind == BT_OP_SILU_MUL || g->op[i].rotation == BT_ROTATION_R4;
        if (bt_op_infos[g->op[i].kind].class != BT_CLASS_EDGE)
            assert_int_equal(p->on_npu[i], is_turned ? BT_PKG_COMPANION : BT_PKG_NPU);
    }
    assert_int_equal(p->fallbacks, 2);
    for (size_t i = 0; i < 2; i++) assert_string_equal(p->fallback[i].why, "r4 rotates floats");
    bt_offload_free(p);
    bt_graph_free(g);
}

static void a_diamond_in_a_model_is_two_clusters(void **state) /* AC-n1 */
{
    (void)state;
    bt_graph *g = graph();
    bt_profile pr;
    bt_recipe r;
    bt_offload *p;
    assert_int_equal(bt_profile_load(&pr, NULL, NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, "w8a8", NULL), BT_OK);
    pr.op[BT_OP_SILU_MUL] = 0;
    pr.time.op_launch_ns = 1000000000;
    assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_ALL, 100, NULL, NULL), BT_OK);
    for (uint32_t l = 0; l < L; l++) {
        const size_t c = op_of(g, BT_OP_ADD, BT_WEIGHT_NONE, l),
                     a = op_of(g, BT_OP_LINEAR, BT_WEIGHT_GATE, l),
                     b = op_of(g, BT_OP_SILU_MUL, BT_WEIGHT_NONE, l),
                     d = op_of(g, BT_OP_LINEAR, BT_WEIGHT_DOWN, l);
        assert_int_equal(g->op[d + 1].kind, BT_OP_ADD);
        assert_int_equal(g->op[d + 1].in[0], g->op[c].out);
        assert_true(p->cluster[a] && p->cluster[a] == p->cluster[c]);
        assert_int_equal(p->cluster[b], 0);
        assert_true(p->cluster[d] && p->cluster[d] == p->cluster[d + 1]);
        assert_int_not_equal(p->cluster[d], p->cluster[a]);
    }
    bt_offload_free(p);
    bt_graph_free(g);
}

static void clusters_of_every_subset_of_operators_are_convex_and_as_few_as_merging_makes_them(void **state)
{
    (void)state;
    static const bt_op_kind kinds[] = {BT_OP_LINEAR, BT_OP_RMSNORM,  BT_OP_ROPE,  BT_OP_ATTENTION,
                                       BT_OP_ADD,    BT_OP_SILU_MUL, BT_OP_ROTATE};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    static unsigned char way[OPS][OPS];
    bt_graph *g = graph();
    size_t fewer = 0;
    assert_true(g->ops <= OPS);
    find_paths(way, g);
    for (unsigned subset = 0; subset < 1 << KINDS; subset++) {
        size_t clusters[2] = {0};
        for (int dear = 0; dear < 2; dear++) {
            bt_profile pr;
            bt_recipe r;
            bt_offload *p;
            assert_int_equal(bt_profile_load(&pr, NULL, NULL), BT_OK);
            assert_int_equal(bt_recipe_parse(&r, "w8a8", NULL), BT_OK);
            for (int k = 0; k < KINDS; k++)
                if (!(subset >> k & 1)) pr.op[kinds[k]] = 0;
            pr.time.op_launch_ns = dear ? 1 : 0;
            assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_ALL, 100, NULL, NULL), BT_OK);
            for (size_t a = 0; a < g->ops; a++)
                for (size_t x = 0; x < g->ops; x++)
                    for (size_t b = 0; b < g->ops && p->cluster[a] && p->cluster[x] != p->cluster[a]; b++)
                        assert_false(p->cluster[b] == p->cluster[a] && way[a][x] && way[x][b]);
            clusters[dear] = p->clusters;
            bt_offload_free(p);
        }
        assert_true(clusters[1] <= clusters[0]);
        fewer += clusters[1] < clusters[0];
    }
    assert_true(fewer > 16);
    bt_graph_free(g);
}

static void little_work_goes_to_the_companion_and_says_so(void **state)
{
    (void)state;
    bt_graph *g = graph();
    bt_profile pr;
    bt_recipe r;
    bt_offload *p;
    const uint64_t kv = (uint64_t)BT_OFFLOAD_ROWS * DIM * GROUPS * E;
    assert_int_equal(bt_profile_load(&pr, NULL, NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, "w8a8", NULL), BT_OK);
    pr.min_cluster_macs = kv + 1;
    /* q, k and v apart: k and v are too little; the head is one row */
    assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_LINEAR, 1000, NULL, NULL), BT_OK);
    for (size_t v = 0; v < g->ops; v++) {
        const bt_op *o = &g->op[v];
        const bool small =
            o->weight == BT_WEIGHT_K || o->weight == BT_WEIGHT_V || o->weight == BT_WEIGHT_OUTPUT;
        assert_int_equal(p->on_npu[v], o->kind == BT_OP_LINEAR && !small);
        assert_int_equal(p->cluster[v] != 0, p->on_npu[v]);
    }
    char why[96];
    assert_int_equal(p->fallbacks, 2);
    snprintf(why, sizeof why, "less work than a launch is worth: %llu MACs, wanted %llu",
             (unsigned long long)kv, (unsigned long long)kv + 1);
    assert_string_equal(p->fallback[0].why, why);
    assert_true(p->fallback[0].count == 2 * L && p->fallback[0].layers == L);
    assert_true(p->fallback[1].count == 1 && p->fallback[1].layers == 0);
    assert_int_equal(p->clusters, 5 * L);
    bt_offload_free(p);
    /* together they are enough; the head still is not */
    pr.convert_elements_per_us = 100;
    assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_LINEAR, 1000, NULL, NULL), BT_OK);
    assert_int_equal(p->clusters, 4 * L);
    assert_int_equal(p->fallbacks, 1);
    bt_offload_free(p);
    bt_graph_free(g);
}

static void the_accumulator_bounds_the_inputs(void **state)
{
    (void)state;
    bt_profile host;
    bt_recipe r;
    char why[96];
    assert_int_equal(bt_profile_load(&host, NULL, NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, NULL, NULL), BT_OK);
    assert_true(bt_offload_linear(why, &host, &r.usual, BT_SITE_DOWN, 131071));
    assert_string_equal(why, "");
    assert_false(bt_offload_linear(why, &host, &r.usual, BT_SITE_DOWN, 131072));
    assert_non_null(strstr(why, "131072"));
}

static void a_long_list_of_fallbacks_is_cut_with_its_count(void **state)
{
    (void)state;
    bt_pkg_fallback many[20] = {0};
    bt_fault f;
    for (int i = 0; i < 20; i++) {
        snprintf(many[i].op, sizeof many[i].op, "op%d", i);
        snprintf(many[i].why, sizeof many[i].why, "the profile has none of it");
        many[i].count = 1;
    }
    for (size_t n = 1; n <= 20; n++) {
        char more[32];
        size_t named = 0;
        assert_int_equal(bt_offload_require(many, n, &f), BT_EARG);
        for (const char *c = f.text; (c = strstr(c, " x outside layers (")) != NULL; c++) named++;
        snprintf(more, sizeof more, "%zu more", n - named);
        assert_true(named >= 1 && (named == n || strstr(f.text, more)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_asks_for_the_linears_only),
        cmocka_unit_test(all_takes_everything_but_moves),
        cmocka_unit_test(what_a_profile_lacks_is_listed_with_reason_and_macs),
        cmocka_unit_test(what_integers_cannot_have_runs_in_floats),
        cmocka_unit_test(values_beyond_32768_stay_with_the_companion_where_floats_are_f16),
        cmocka_unit_test(one_missing_operator_costs_no_other),
        cmocka_unit_test(what_r4_rotates_stays_in_floats),
        cmocka_unit_test(a_diamond_in_a_model_is_two_clusters),
        cmocka_unit_test(clusters_of_every_subset_of_operators_are_convex_and_as_few_as_merging_makes_them),
        cmocka_unit_test(little_work_goes_to_the_companion_and_says_so),
        cmocka_unit_test(the_accumulator_bounds_the_inputs),
        cmocka_unit_test(a_long_list_of_fallbacks_is_cut_with_its_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
