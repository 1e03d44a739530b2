/* What of a graph goes to which side. The graph has 2 layers of 16 operators; counts and sums are by hand. */
#include "npu/compile/offload.h"

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

static bt_offload *offload(const bt_graph *g, const char *profile, const char *recipe, uint32_t npu_ops)
{
    bt_offload *p;
    bt_profile pr;
    bt_recipe r;
    bt_fault f;
    assert_int_equal(bt_profile_load(&pr, profile, NULL), BT_OK);
    assert_int_equal(bt_recipe_parse(&r, recipe, NULL), BT_OK);
    if (bt_offload_new(&p, g, &pr, &r, npu_ops, 1000, &f) < 0) fail_msg("%s", f.text);
    return p;
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
        const bool edge = bt_profile_is_move(g->op[v].kind) ||
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
    bt_offload *p = offload(g, "tpu-v5e", "w8a8", BT_PKG_OPS_ALL);
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

    p = offload(g, "tpu-v5e", "w8a8:a16=down+head", BT_PKG_OPS_LINEAR);
    assert_int_equal(p->fallbacks, 2);
    assert_int_equal(count(p, g, BT_OP_LINEAR), 6 * L);
    assert_int_equal(bt_offload_require(p->fallback, p->fallbacks, &f), BT_EARG);
    assert_string_equal(
        f.text,
        "would not run on the NPU: linear 2 x in 2 layers (16-bit inputs at down), linear 1 x outside layers "
        "(16-bit inputs at head)");
    bt_offload_free(p);

    p = offload(g, "npu4", "w4a8", BT_PKG_OPS_LINEAR);
    assert_int_equal(count(p, g, BT_OP_LINEAR), 0);
    assert_int_equal(p->clusters, 0);
    assert_int_equal(p->fallbacks, 1);
    assert_string_equal(p->fallback[0].why, "4-bit weights");
    assert_int_equal(p->fallback[0].count, 7 * L + 1);
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
    assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_ALL, 1000, NULL), BT_OK);
    assert_int_equal(p->npu_ops, BT_PKG_OPS_ALL);
    assert_int_equal(p->fallbacks, 1);
    assert_string_equal(p->fallback[0].op, "silu_mul");
    assert_string_equal(p->fallback[0].why, "16-bit values");
    assert_true(p->fallback[0].count == L && p->fallback[0].layers == L);
    for (size_t v = 0; v < g->ops; v++) {
        const bt_op *o = &g->op[v];
        const bool edge =
            bt_profile_is_move(o->kind) || (o->kind == BT_OP_ROTATE && o->layer == BT_GRAPH_NO_LAYER);
        assert_int_equal(p->on_npu[v], !edge && o->kind != BT_OP_SILU_MUL);
    }
    bt_offload_free(p);
    pr.output_bits = 8;
    assert_int_equal(bt_offload_new(&p, g, &pr, &r, BT_PKG_OPS_ALL, 1000, NULL), BT_OK);
    assert_int_equal(p->fallbacks, 1);
    assert_string_equal(fallback(p, "rotate")->why, "8-bit values");
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
    assert_true(bt_offload_linear(why, &host, &r, BT_SITE_DOWN, 131071));
    assert_string_equal(why, "");
    assert_false(bt_offload_linear(why, &host, &r, BT_SITE_DOWN, 131072));
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
        cmocka_unit_test(one_missing_operator_costs_no_other),
        cmocka_unit_test(the_accumulator_bounds_the_inputs),
        cmocka_unit_test(a_long_list_of_fallbacks_is_cut_with_its_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
