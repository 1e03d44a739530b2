/* The specialization table: which rows exist, what a look-up gives, what it refuses. */
#include "npu/programs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const bt_hparams hp = {.arch = BT_ARCH_LLAMA,
                              .layers = 2,
                              .dim = 32,
                              .ffn = 44,
                              .heads = 2,
                              .kv_heads = 1,
                              .head_dim = 16,
                              .vocab = 50};

static bt_programs *table(bt_graph **graph, const char *policy, size_t ctx)
{
    bt_plan_policy p;
    bt_programs *t = NULL;
    assert_int_equal(bt_plan_parse(&p, policy, NULL), BT_OK);
    assert_int_equal(bt_graph_build(graph, &hp, NULL, NULL), BT_OK);
    assert_int_equal(bt_programs_new(&t, *graph, p, ctx, NULL), BT_OK);
    return t;
}

static void rows_are_shapes_times_context_buckets(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        size_t ctx, rows;
    } cases[] = {
        {"chunk:256+tail", 8192, 5 * 5},
        {"chunk:256+tail", 512, 5},
        {"chunk:256+tail", 100, 4},
        {"chunk:256+tail", 1000, 5 * 2},
        {"chunk:1024", 4096, 3},
        {"chunk:1024", 600, 1},
        {"whole", 100, 7},
        {"chunk:16+tail", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_graph *g;
        bt_programs *t = table(&g, cases[i].policy, cases[i].ctx);
        assert_int_equal(t->rows, cases[i].rows);
        assert_int_equal(t->compilations, 3 * cases[i].rows);
        for (size_t r = 0; r < t->rows; r++)
            for (int out = 0; out < BT_PROGRAMS_OUTS; out++) {
                const bt_program *p = t->row[r].program[out];
                assert_int_equal(p->seq, t->row[r].seq);
                assert_int_equal(p->ctx, t->row[r].ctx);
                assert_int_equal(p->out, out == 2 ? p->seq : (size_t)out);
                assert_true(p->arena_bytes <= t->arena_bytes);
            }
        bt_programs_free(t);
        bt_graph_free(g);
    }
}

static void finds_the_smallest_bucket_that_holds_the_end(void **state)
{
    (void)state;
    static const size_t end_ctx[][2] = {{1, 512}, {512, 512}, {513, 1024}, {1025, 2048}, {3000, 3000}};
    bt_graph *g;
    bt_programs *t = table(&g, NULL, 3000);
    for (size_t i = 0; i < sizeof end_ctx / sizeof *end_ctx; i++) {
        const bt_programs_row *row = NULL;
        assert_int_equal(bt_programs_find(&row, t, 64, end_ctx[i][0], NULL), BT_OK);
        assert_int_equal(row->seq, 64);
        assert_int_equal(row->ctx, end_ctx[i][1]);
    }
    bt_programs_free(t);
    bt_graph_free(g);
}

static void refuses_a_shape_outside_the_table_and_names_the_nearest(void **state)
{
    (void)state;
    bt_fault f;
    bt_graph *g;
    bt_programs *t = table(&g, NULL, 3000);
    const uint64_t compiled = t->compilations;
    const bt_programs_row *row = NULL;
    assert_int_equal(bt_programs_find(&row, t, 65, 700, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "seq 128, ctx 1024"));
    assert_int_equal(bt_programs_find(&row, t, 257, 257, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "seq 256, ctx 3000"));
    assert_int_equal(bt_programs_find(&row, t, 16, 3001, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "ctx 3000"));
    assert_null(row);
    assert_int_equal(t->compilations, compiled);
    bt_programs_free(t);
    bt_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_shapes_times_context_buckets),
        cmocka_unit_test(finds_the_smallest_bucket_that_holds_the_end),
        cmocka_unit_test(refuses_a_shape_outside_the_table_and_names_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
