/* The description of a model: operators, formulas, and what the check refuses. */
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bt_hparams shape(bt_arch arch)
{
    return (bt_hparams){.arch = arch,
                        .layers = 2,
                        .dim = 96,
                        .ffn = 172,
                        .heads = 6,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .vocab = 384,
                        .ctx = 1024,
                        .rope_dims = 16,
                        .rope_base = 10000,
                        .rope_scale = 1,
                        .rms_eps = 1e-5f,
                        .qk_norm = arch == BT_ARCH_QWEN3,
                        .qkv_bias = arch == BT_ARCH_QWEN2};
}

static bt_graph *build(bt_arch arch)
{
    const bt_hparams hp = shape(arch);
    bt_graph *g = NULL;
    assert_int_equal(bt_graph_build(&g, &hp, NULL, NULL), BT_OK);
    return g;
}

static size_t count(const bt_graph *g, bt_op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < g->ops; i++) n += g->op[i].kind == kind;
    return n;
}

static void one_description_serves_three_architectures(void **state)
{
    (void)state;
    for (int arch = BT_ARCH_LLAMA; arch <= BT_ARCH_QWEN3; arch++) {
        bt_graph *g = build((bt_arch)arch);
        assert_int_equal(count(g, BT_OP_LINEAR), 2 * 7 + 1);
        assert_int_equal(count(g, BT_OP_ATTENTION), 2);
        assert_int_equal(count(g, BT_OP_KV_STORE), 2);
        assert_int_equal(count(g, BT_OP_QK_NORM), arch == BT_ARCH_QWEN3 ? 4 : 0);
        assert_int_equal(count(g, BT_OP_RMSNORM), 2 * 2 + 1);
        assert_int_equal(g->op[g->op_tail].kind, BT_OP_SELECT_ROWS);
        assert_int_equal(g->ops - g->op_tail, 3);
        bt_graph_free(g);
    }
}

static void macs_are_the_sum_of_matrices_and_attention(void **state)
{
    (void)state;
    bt_graph *g = build(BT_ARCH_LLAMA);
    const uint64_t seq = 100, ctx = 512;
    const uint64_t layer = 96 * 96 + 2 * 96 * 32 + 96 * 96 + 3 * 96 * 172; /* q, k v, o, ffn */
    const bt_bind b = {.value = {1, seq, ctx, 1}};
    uint64_t macs = 0;
    assert_int_equal(bt_graph_macs(&macs, g, &b, NULL), BT_OK);
    assert_int_equal(macs, 2 * (seq * layer + seq * ctx * 2 * 96) + 96 * 384);
    bt_graph_free(g);
}

static void only_kv_depends_on_ctx(void **state)
{
    (void)state;
    bt_graph *g = build(BT_ARCH_QWEN2);
    for (size_t t = 0; t < g->tensors; t++)
        assert_int_equal(g->tensor[t].rows.exp[BT_SYM_CTX] != 0, g->tensor[t].kind == BT_TENSOR_KV);
    bt_graph_free(g);
}

static void refuses_shapes_that_do_not_fit(void **state)
{
    (void)state;
    bt_fault f;
    bt_graph *g = build(BT_ARCH_LLAMA);
    for (size_t i = 0; i < g->ops; i++) {
        if (g->op[i].kind != BT_OP_LINEAR && g->op[i].kind != BT_OP_ATTENTION) continue;
        g->tensor[g->op[i].out].width++;
        assert_int_equal(bt_graph_check(g, &f), BT_EARG);
        assert_non_null(strstr(f.text, "shapes"));
        g->tensor[g->op[i].out].width--;
    }
    assert_int_equal(bt_graph_check(g, &f), BT_OK);
    bt_graph_free(g);
}

static void refuses_reading_before_writing_and_falling_layers(void **state)
{
    (void)state;
    bt_fault f;
    bt_graph *g = build(BT_ARCH_LLAMA);
    const bt_op first = g->op[0];
    memmove(g->op, g->op + 1, (g->ops - 1) * sizeof *g->op);
    g->ops--;
    assert_int_equal(bt_graph_check(g, &f), BT_EARG);
    assert_non_null(strstr(f.text, "before it is written"));
    memmove(g->op + 1, g->op, g->ops * sizeof *g->op);
    g->op[0] = first;
    g->ops++;
    assert_int_equal(bt_graph_check(g, &f), BT_OK);
    g->op[1].layer = 1;
    assert_int_equal(bt_graph_check(g, &f), BT_EARG);
    assert_non_null(strstr(f.text, "ascend"));
    bt_graph_free(g);
}

static void rotations_stand_where_their_inverses_were_folded(void **state)
{
    (void)state;
    const bt_hparams hp = shape(BT_ARCH_QWEN3);
    for (int i = 0; i < 8; i++) {
        const bt_graph_options o = {.rotate_embed = i & 1, .rotate_attention = i & 2, .rotate_ffn = i & 4};
        bt_graph *g = NULL;
        assert_int_equal(bt_graph_build(&g, &hp, &o, NULL), BT_OK);
        assert_int_equal(count(g, BT_OP_ROTATE),
                         (size_t)(i & 1) + (i & 2 ? hp.layers : 0) + (i & 4 ? hp.layers : 0));
        assert_int_equal(bt_graph_rotates(g, BT_ROTATION_R4), !!(i & 4));
        for (size_t k = 0; k < g->ops; k++) {
            const bt_op *r = &g->op[k];
            if (r->kind != BT_OP_ROTATE) continue;
            assert_int_equal(g->op[k - 1].kind, r->rotation == BT_ROTATION_R1   ? BT_OP_EMBED
                                                : r->rotation == BT_ROTATION_R2 ? BT_OP_ATTENTION
                                                                                : BT_OP_SILU_MUL);
            assert_int_equal(r->layer == BT_GRAPH_NO_LAYER, r->rotation == BT_ROTATION_R1);
            assert_int_equal(g->op[k - 1].out, r->out);
            assert_int_equal(r->in[0], r->out);
            assert_int_equal(r->heads, r->rotation == BT_ROTATION_R2 ? hp.heads : 1);
        }
        bt_graph_free(g);
    }
}

static void refuses_a_formula_beyond_64_bits(void **state)
{
    (void)state;
    const bt_formula f = {1u << 31, {1, 1, 0, 0}};
    const bt_bind fits = {.value = {1u << 16, 1u << 16, 0, 0}}, over = {.value = {1u << 17, 1u << 16, 0, 0}};
    uint64_t v = 7;
    assert_int_equal(bt_formula_eval(&v, f, &over, NULL), BT_ELIMIT);
    assert_int_equal(v, 7);
    assert_int_equal(bt_formula_eval(&v, f, &fits, NULL), BT_OK);
    assert_true(v == 1ull << 63);
}

static void prints_a_line_for_each_operator(void **state)
{
    (void)state;
    bt_graph *g = build(BT_ARCH_QWEN3);
    char *text = NULL;
    size_t len = 0, lines = 0;
    FILE *to = open_memstream(&text, &len);
    assert_non_null(to);
    bt_graph_print(g, to, 2);
    fclose(to);
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) lines++;
    assert_int_equal(lines, g->ops + 1);
    assert_non_null(
        strstr(text, "  1.attention   -          a[B*S, 96] <- q[B*S, 96] kv[B*C, 64]  192*B*S*C macs\n"));
    free(text);
    bt_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_description_serves_three_architectures),
        cmocka_unit_test(macs_are_the_sum_of_matrices_and_attention),
        cmocka_unit_test(only_kv_depends_on_ctx),
        cmocka_unit_test(refuses_shapes_that_do_not_fit),
        cmocka_unit_test(refuses_reading_before_writing_and_falling_layers),
        cmocka_unit_test(rotations_stand_where_their_inverses_were_folded),
        cmocka_unit_test(refuses_a_formula_beyond_64_bits),
        cmocka_unit_test(prints_a_line_for_each_operator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
