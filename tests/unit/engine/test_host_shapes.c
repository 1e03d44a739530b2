/* The specialization table: which rows exist, what a look-up gives, what it refuses. */
#include "engine/host_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const bt_hparams hp = {.arch = BT_ARCH_LLAMA, .layers = 2,    .dim = 32,  .ffn = 44, .heads = 2,
                              .kv_heads = 1,         .head_dim = 16, .vocab = 50};

static bt_host_shapes *table(bt_graph **graph, const char *policy, size_t ctx)
{
    bt_shapes p;
    bt_host_shapes *t = NULL;
    assert_int_equal(bt_shapes_parse(&p, policy, ctx, NULL), BT_OK);
    assert_int_equal(bt_graph_build(graph, &hp, NULL, NULL), BT_OK);
    assert_int_equal(bt_host_shapes_new(&t, *graph, &p, ctx, NULL), BT_OK);
    return t;
}

static void rows_are_shapes_times_context_buckets(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        size_t ctx, rows;
    } cases[] = {
        {"chunk:256+tail", 8192, 5 * 5}, {"chunk:256+tail", 512, 5}, {"chunk:256+tail", 100, 4},
        {"chunk:256+tail", 1000, 5 * 2}, {"chunk:1024", 4096, 3},    {"chunk:1024", 600, 1},
        {"pow2", 1000, 6 * 2 + 1},       {"max-pad", 1000, 1},       {"range:16-100", 4096, 7},
        {"range:20-32", 4096, 2},        {"range:7-7", 1000, 2},     {"chunk:16+tail", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_graph *g;
        bt_host_shapes *t = table(&g, cases[i].policy, cases[i].ctx);
        assert_int_equal(t->rows, cases[i].rows);
        assert_int_equal(t->compilations, 3 * cases[i].rows);
        for (size_t r = 0; r < t->rows; r++)
            for (int out = 0; out < BT_PKG_OUTS; out++) {
                const bt_program *p = t->row[r].program[out];
                assert_int_equal(p->seq, t->row[r].seq);
                assert_int_equal(p->ctx, t->row[r].ctx);
                assert_int_equal(p->out, out == 2 ? p->seq : (size_t)out);
                assert_true(p->arena.fixed <= t->arena_bytes);
            }
        bt_host_shapes_free(t);
        bt_graph_free(g);
    }
}

static void finds_the_smallest_bucket_that_holds_the_end(void **state)
{
    (void)state;
    static const size_t end_ctx[][2] = {{1, 512}, {512, 512}, {513, 1024}, {1025, 2048}, {3000, 3000}};
    bt_graph *g;
    bt_host_shapes *t = table(&g, NULL, 3000);
    for (size_t i = 0; i < sizeof end_ctx / sizeof *end_ctx; i++) {
        const bt_host_shape *row = NULL;
        assert_int_equal(bt_host_shapes_find(&row, t, 64, end_ctx[i][0], NULL), BT_OK);
        assert_int_equal(row->seq, 64);
        assert_int_equal(row->ctx, end_ctx[i][1]);
    }
    bt_host_shapes_free(t);
    bt_graph_free(g);
}

static void refuses_a_shape_outside_the_table_and_names_the_nearest(void **state)
{
    (void)state;
    bt_fault f;
    bt_graph *g;
    bt_host_shapes *t = table(&g, NULL, 3000);
    const uint64_t compiled = t->compilations;
    const bt_host_shape *row = NULL;
    assert_int_equal(bt_host_shapes_find(&row, t, 65, 700, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "seq 128, ctx 1024"));
    assert_int_equal(bt_host_shapes_find(&row, t, 257, 257, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "seq 256, ctx 3000"));
    assert_int_equal(bt_host_shapes_find(&row, t, 16, 3001, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "ctx 3000"));
    assert_null(row);
    assert_int_equal(t->compilations, compiled);
    bt_host_shapes_free(t);
    bt_graph_free(g);
}

static void a_range_takes_any_number_of_rows_in_it(void **state)
{
    (void)state;
    static const size_t cases[][2] = {{20, 20}, {21, 32},  {32, 32},  {33, 48},
                                      {95, 96}, {97, 100}, {100, 100}};
    bt_graph *g;
    bt_host_shapes *t = table(&g, "range:20-100", 3000);
    const bt_host_shape *row = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(bt_host_shapes_find(&row, t, cases[i][0], 600, NULL), BT_OK);
        assert_int_equal(row->seq, cases[i][1]);
    }
    row = NULL;
    assert_int_equal(bt_host_shapes_find(&row, t, 19, 600, NULL), BT_ELIMIT);
    assert_int_equal(bt_host_shapes_find(&row, t, 101, 600, NULL), BT_ELIMIT);
    assert_int_equal(bt_host_shapes_find(&row, t, 50, 3001, NULL), BT_ELIMIT);
    assert_null(row);
    bt_host_shapes_free(t);
    bt_graph_free(g);
}

static void of_enumerated_pairs_only_those_matched_by_index_exist(void **state) /* AC-g1, AC-a1 */
{
    (void)state;
    static const char json[] = "{\"ids\": [32, 256], \"mask\": [[32, 512], [256, 2048]]}";
    static const struct {
        size_t seq, end;
        const char *nearest;
    } refused[] = {{32, 513, "seq 256, ctx 2048"},
                   {64, 100, "seq 256, ctx 2048"},
                   {16, 100, "seq 32, ctx 512"},
                   {256, 2049, "seq 256, ctx 2048"}};
    bt_graph *g;
    bt_shapes plan;
    bt_host_shapes *t;
    bt_fault f;
    const bt_host_shape *row = NULL;
    assert_int_equal(bt_shapes_parse_bytes(&plan, "enumerated:x", json, sizeof json - 1, 4096, NULL), BT_OK);
    assert_int_equal(bt_graph_build(&g, &hp, NULL, NULL), BT_OK);
    assert_int_equal(bt_host_shapes_new(&t, g, &plan, 4096, NULL), BT_OK);
    assert_int_equal(t->rows, 2);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(bt_host_shapes_find(&row, t, refused[i].seq, refused[i].end, &f), BT_ELIMIT);
        assert_non_null(strstr(f.text, refused[i].nearest));
    }
    assert_null(row);
    assert_int_equal(bt_host_shapes_find(&row, t, 32, 512, NULL), BT_OK);
    assert_int_equal(bt_host_shapes_find(&row, t, 256, 513, NULL), BT_OK);
    bt_host_shapes_free(t);
    bt_graph_free(g);
}

/* Lengths as a chat trace has them: most around a thousand, a long tail; the generator is spelled out, so
 * that the replay is the same everywhere. */
static size_t next_length(uint64_t *rng)
{
    size_t n = 1;
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    n += *rng >> 54;
    if ((*rng >> 40 & 7) == 0) n += (*rng >> 20 & 0xfff) % 3072;
    return n;
}

static void ten_thousand_requests_compile_nothing(void **state) /* AC-b2 */
{
    (void)state;
    static const char *const policies[] = {NULL,        "pow2",    "chunk:512+tail:32",
                                           "chunk:100", "max-pad", "range:16-1024"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        bt_graph *g;
        bt_shapes plan;
        bt_host_shapes *t = table(&g, policies[i], 8192);
        assert_int_equal(bt_shapes_parse(&plan, policies[i], 8192, NULL), BT_OK);
        const uint64_t compiled = t->compilations;
        uint64_t rng = 20231116;
        size_t longest = 0;
        for (int r = 0; r < 10000; r++) {
            const size_t n = next_length(&rng);
            if (n > longest) longest = n;
            for (size_t begin = 0; begin < n;) {
                const bt_shapes_chunk c = bt_shapes_next(&plan, n, begin);
                const bt_host_shape *row;
                assert_int_equal(bt_host_shapes_find(&row, t, c.rows, begin + c.valid, NULL), BT_OK);
                assert_true(row->seq >= c.valid && row->ctx >= begin + c.valid && row->program[0]);
                begin += c.valid;
            }
        }
        assert_true(longest > 3000);
        assert_true(t->compilations == compiled);
        bt_host_shapes_free(t);
        bt_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_shapes_times_context_buckets),
        cmocka_unit_test(finds_the_smallest_bucket_that_holds_the_end),
        cmocka_unit_test(a_range_takes_any_number_of_rows_in_it),
        cmocka_unit_test(of_enumerated_pairs_only_those_matched_by_index_exist),
        cmocka_unit_test(ten_thousand_requests_compile_nothing),
        cmocka_unit_test(refuses_a_shape_outside_the_table_and_names_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
