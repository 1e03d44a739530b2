/* The effects of a file of rows on a package: prefill and decode rows, batches and contexts beside each
 * other, weights once. Compiled packages, with and without the rows in question. */
#include "model/weight.h"
#include "npu/compile/compile.h"
#include "npu/lower/plan.h"
#include "npu/pkg/pkg.h"
#include "npu/run/exec.h"
#include "tests/helpers/model/engine_kit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 1024, CALIB = 128, LIST = 8192 };

typedef struct world {
    engine_kit kit;
    int32_t calib[CALIB];
    char path[64], list[64];
} world;

static int begin(void **state)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->kit = engine_kit_model("llama");
    strcpy(w->path, "/tmp/test_rows.XXXXXX");
    strcpy(w->list, "/tmp/test_rows.XXXXXX");
    close(mkstemp(w->path));
    close(mkstemp(w->list));
    engine_kit_ids(w->calib, CALIB, w->kit.model, 61);
    *state = w;
    return 0;
}

static int end(void **state)
{
    world *w = *state;
    unlink(w->path);
    unlink(w->list);
    engine_kit_done(&w->kit);
    free(w);
    return 0;
}

/* Rows of each batch, seq and ctx that the zero-ended lists name. */
static char *rows_of(char ret[LIST], const int *batch, const int *seq, const int *ctx)
{
    size_t at = (size_t)snprintf(ret, LIST, "[");
    for (const int *b = batch; *b; b++)
        for (const int *s = seq; *s; s++)
            for (const int *c = ctx; *c; c++)
                at += (size_t)snprintf(ret + at, LIST - at,
                                       "%s{\"batch_size\":%d,\"seq_len\":%d,\"ctx_len\":%d}",
                                       at > 1 ? "," : "", *b, *s, *c);
    assert_true(at + 2 < LIST);
    strcat(ret, "]");
    return ret;
}

static bt_err compile(bt_pkg **ret, const world *w, const char *rows, const char *fields, uint32_t npu_ops,
                      bt_fault *fault)
{
    char json[1024], policy[96];
    bt_profile p;
    FILE *f = fopen(w->list, "w");
    assert_non_null(f);
    assert_true(fputs(rows, f) >= 0 && fclose(f) == 0);
    snprintf(policy, sizeof policy, "rows:%s", w->list);
    const int n =
        snprintf(json, sizeof json,
                 "{\"name\":\"mine\",\"title\":\"Mine\",\"operators\":{\"linear\":[\"int8\",\"int16\"],"
                 "\"others\":[\"int16\"]}%s%s}",
                 fields[0] ? "," : "", fields);
    bt_err e = bt_profile_parse(&p, json, (size_t)n, fault);
    bt_compile_options o = {.shape_policy = policy, .profile = &p,         .npu_ops = npu_ops,
                            .ctx_tokens = CTX,      .calib_ids = w->calib, .calib_len = CALIB};
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8", NULL), BT_OK);
    if (e == BT_OK) e = bt_compile(w->path, w->kit.model, &o, NULL, fault);
    return e < 0 ? e : bt_pkg_open(ret, w->path, fault);
}

static bt_pkg *made(const world *w, const char *rows, const char *fields, uint32_t npu_ops)
{
    bt_pkg *p = NULL;
    bt_fault f = {""};
    if (compile(&p, w, rows, fields, npu_ops, &f) < 0) fail_msg("%s", f.text);
    return p;
}

static uint64_t file_bytes(const bt_pkg *p) { return bt_pkg_header_of(p)->file_bytes; }

/* The panels of the tensor in this slot, as row `row`'s program with logits names them. */
static const void *panels_of(const bt_pkg *p, uint32_t row, uint32_t tensor)
{
    const uint32_t program = bt_pkg_rows(p)[row].program[BT_PKG_OUT_LAST];
    const bt_pkg_inst *i = bt_pkg_code(p, program);
    for (uint32_t n = 0; n < bt_pkg_programs(p)[program].insts; n++)
        if ((i[n].op == BT_PKG_LINEAR || i[n].op == BT_PKG_INT_LINEAR) && i[n].tensor == tensor)
            return bt_pkg_const_at(p, bt_pkg_tensors(p)[i[n].tensor].panels);
    return NULL;
}

static void both_rows_of_a_cloud_ai_100_are_in_the_table_and_no_other(void **state)
{
    const world *w = *state;
    char rows[LIST];
    bt_pkg *p =
        made(w, rows_of(rows, (int[]){1, 0}, (int[]){32, 1, 0}, (int[]){128, 0}), "", BT_PKG_OPS_LINEAR);
    const bt_pkg_row *r = bt_pkg_rows(p);
    bt_fault f = {""};
    assert_int_equal(bt_pkg_header_of(p)->rows.count, 2);
    assert_true(r[0].seq == 1 && r[1].seq == 32 && r[0].ctx == 128 && r[1].ctx == 128);
    assert_int_equal(bt_pkg_header_of(p)->max_seq, 32);
    assert_int_equal(bt_pkg_find_row(&r, p, 1, 1, 128, NULL), BT_OK);
    assert_int_equal(bt_pkg_find_row(&r, p, 1, 16, 16, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the nearest has batch 1, seq 1, ctx 128"));
    assert_int_equal(bt_pkg_find_row(&r, p, 1, 32, 129, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the nearest has batch 1, seq 32, ctx 128"));
    assert_int_equal(bt_pkg_find_row(&r, p, 4, 1, 1, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the nearest has batch 1, seq 1, ctx 128"));
    bt_pkg_close(p);
}

static void prefill_and_decode_merge_into_one_package_with_weights_once(void **state)
{
    const world *w = *state;
    static const int batches[] = {1, 0}, contexts[] = {512, 0};
    char rows[LIST];
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        bt_pkg *prefill = made(w, rows_of(rows, batches, (int[]){32, 0}, contexts), "", ops),
               *both = made(w, rows_of(rows, batches, (int[]){32, 1, 0}, contexts), "", ops);
        print_message("prefill alone %" PRIu64 ", with decode %" PRIu64 " bytes\n", file_bytes(prefill),
                      file_bytes(both));
        assert_true((double)file_bytes(both) <= 1.02 * (double)file_bytes(prefill));
        assert_int_equal(bt_pkg_header_of(both)->weights_bytes, bt_pkg_header_of(prefill)->weights_bytes);
        for (uint32_t t = 0; t < bt_pkg_header_of(both)->tensors.count; t++)
            assert_ptr_equal(panels_of(both, 0, t), panels_of(both, 1, t));
        assert_non_null(panels_of(both, 0, bt_pkg_tensor_index(3, 1, BT_WEIGHT_DOWN)));
        bt_pkg_close(prefill);
        bt_pkg_close(both);
    }
}

/* Adds all constants of a package; returns how many of them were new. changed: of this one the first byte is
 * another. */
static uint32_t add_all(bt_pkg_writer *to, const bt_pkg *p, uint32_t changed, uint32_t *known)
{
    const bt_pkg_const *c = bt_pkg_consts(p);
    const uint32_t before = *known;
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->consts.count; i++) {
        uint8_t *bytes = malloc(c[i].bytes ? c[i].bytes : 1);
        assert_non_null(bytes);
        memcpy(bytes, bt_pkg_const_at(p, i), c[i].bytes);
        if (i == changed) bytes[0] ^= 1;
        const uint32_t at = bt_pkg_writer_const(to, (bt_pkg_const_kind)c[i].kind, bytes, c[i].bytes);
        assert_true(at <= *known);
        if (c[i].kind == BT_PKG_CONST_WEIGHT && i != changed && before) assert_true(at < before);
        *known += at == *known;
        free(bytes);
    }
    return *known - before;
}

/* The functions as they are compiled, each on its own, then merged by the writer. */
static void a_changed_byte_of_one_function_stores_that_tensor_twice_and_no_other(void **state)
{
    const world *w = *state;
    static const int batches[] = {1, 0}, contexts[] = {512, 0};
    char rows[LIST], path[] = "/tmp/test_rows_merged.XXXXXX";
    close(mkstemp(path));
    bt_pkg *prefill = made(w, rows_of(rows, batches, (int[]){32, 0}, contexts), "", BT_PKG_OPS_ALL),
           *decode = made(w, rows_of(rows, batches, (int[]){1, 0}, contexts), "", BT_PKG_OPS_ALL);
    const uint32_t down = bt_pkg_tensors(decode)[bt_pkg_tensor_index(3, 1, BT_WEIGHT_DOWN)].panels;
    uint32_t added[2];
    for (int k = 0; k < 2; k++) {
        bt_pkg_writer *to = NULL;
        uint32_t known = 0;
        assert_int_equal(bt_pkg_writer_new(&to, path, NULL), BT_OK);
        assert_int_equal(add_all(to, prefill, BT_PKG_NONE, &known), bt_pkg_header_of(prefill)->consts.count);
        added[k] = add_all(to, decode, k ? down : BT_PKG_NONE, &known);
        bt_pkg_writer_free(to);
    }
    /* what decoding adds is code and plans; the changed matrix is one constant more */
    assert_in_range(added[0], 1, 6);
    assert_int_equal(added[1], added[0] + 1);
    unlink(path);
    bt_pkg_close(prefill);
    bt_pkg_close(decode);
}

/* A program is a list of the bodies of its layers, so that what rows add does not grow with the layers: the
 * same bytes for this model of 3 layers as for one of 30, where they are far below the 2 % of AC-a2. */
static void five_contexts_and_three_batches_add_bodies_and_nothing_else(void **state)
{
    const world *w = *state;
    enum { MOST_BYTES = 48 * 1024, OF_A_CONTEXT = 32 + 3 * 64 + 64 };
    static const int one[] = {1, 0}, three[] = {1, 4, 16, 0}, last[] = {1024, 0},
                     five[] = {64, 128, 256, 512, 1024, 0}, seqs[] = {32, 1, 0};
    char rows[LIST];
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        bt_pkg *p[3] = {made(w, rows_of(rows, one, seqs, last), "\"static_ctx\":true", ops),
                        made(w, rows_of(rows, one, seqs, five), "\"static_ctx\":true", ops),
                        made(w, rows_of(rows, three, seqs, five), "\"static_ctx\":true", ops)};
        print_message("2 rows %" PRIu64 ", 10 rows %" PRIu64 ", 30 rows %" PRIu64 " bytes\n",
                      file_bytes(p[0]), file_bytes(p[1]), file_bytes(p[2]));
        assert_int_equal(bt_pkg_header_of(p[2])->rows.count, 30);
        assert_int_equal(bt_pkg_header_of(p[2])->weights_bytes, bt_pkg_header_of(p[0])->weights_bytes);
        assert_true(file_bytes(p[1]) - file_bytes(p[0]) <= 8 * OF_A_CONTEXT);
        assert_true(file_bytes(p[2]) - file_bytes(p[0]) <= MOST_BYTES);
        for (uint32_t i = 0; i < 30; i++)
            assert_int_equal(bt_pkg_programs(p[2])[bt_pkg_rows(p[2])[i].program[0]].ctx,
                             bt_pkg_rows(p[2])[i].ctx);
        for (size_t i = 0; i < 3; i++) bt_pkg_close(p[i]);
    }
}

static void a_profile_bounds_rows_and_states_of_a_batch(void **state)
{
    const world *w = *state;
    static const int batches[] = {1, 8, 0}, seqs[] = {32, 1, 0}, contexts[] = {512, 0};
    char rows[LIST];
    bt_fault f = {""};
    bt_pkg *p = NULL, *small = NULL;
    rows_of(rows, batches, seqs, contexts);
    assert_int_equal(compile(&p, w, rows, "\"max_rows\":128", BT_PKG_OPS_LINEAR, &f), BT_EARG);
    assert_non_null(strstr(
        f.text, "256 rows (batch 8 times seq 32), profile mine allows 128 (max_rows): at most batch 4"));
    p = made(w, rows, "\"max_rows\":256", BT_PKG_OPS_LINEAR);
    assert_int_equal(bt_pkg_header_of(p)->max_seq, 256);
    bt_pkg_close(p);
    assert_int_equal(compile(&p, w, rows, "\"max_shapes\":3", BT_PKG_OPS_LINEAR, &f), BT_EARG);
    assert_non_null(strstr(f.text, "has 4 shapes"));
    /* attention on the NPU: its device holds the KV state of each sequence of the largest batch */
    p = made(w, rows, "\"memory_bytes\":1073741824", BT_PKG_OPS_ALL);
    small =
        made(w, rows_of(rows, (int[]){1, 0}, seqs, contexts), "\"memory_bytes\":1073741824", BT_PKG_OPS_ALL);
    const bt_hparams *hp = &w->kit.model->hp;
    const uint64_t state_bytes = 2 * 2 * (uint64_t)hp->layers * hp->kv_heads * hp->head_dim * CTX;
    const uint64_t arenas = bt_pkg_header_of(p)->arena_bytes - bt_pkg_header_of(small)->arena_bytes;
    assert_true(bt_pkg_sessions(p)[0].mapped_bytes - bt_pkg_sessions(small)[0].mapped_bytes ==
                7 * state_bytes + arenas);
    bt_pkg_close(p);
    bt_pkg_close(small);
}

/* The line of attention in the program of row `row`. */
static bt_on_chip_plan attention_of(const bt_pkg *p, uint32_t row)
{
    bt_plan_line line[BT_PLAN_MAX_LINES];
    bt_on_chip_plan total;
    const size_t n = bt_plan_on_chip(line, &total, p, bt_pkg_rows(p)[row].program[BT_PKG_OUT_LAST], 512);
    for (size_t i = 0; i < n; i++)
        if (line[i].op == BT_PKG_INT_ATTENTION) return line[i].plan;
    fail_msg("no attention on the NPU");
    return line[0].plan;
}

static void a_batch_moves_the_kv_of_each_of_its_sequences(void **state)
{
    const world *w = *state;
    char rows[LIST];
    rows_of(rows, (int[]){1, 4, 0}, (int[]){32, 0}, (int[]){512, 0});
    bt_pkg *p = made(w, rows, "\"on_chip_bytes\":65536", BT_PKG_OPS_ALL);
    const bt_on_chip_plan one = attention_of(p, 0), four = attention_of(p, 1);
    const uint64_t kv = 2 * 2 * 512 * (uint64_t)w->kit.model->hp.kv_heads * w->kit.model->hp.head_dim;
    assert_true(one.weights.resident + one.weights.streamed == kv);
    assert_true(four.weights.resident + four.weights.streamed == 4 * kv);
    assert_true(four.input.resident + four.input.streamed == 4 * (one.input.resident + one.input.streamed));
    assert_true(four.weights.spilled == 4 * one.weights.spilled && four.overflow == 4 * one.overflow);
    bt_pkg_close(p);
}

static void a_refused_shape_has_no_row_in_any_batch(void **state)
{
    const world *w = *state;
    char rows[LIST];
    bt_fault f = {""};
    rows_of(rows, (int[]){1, 4, 0}, (int[]){32, 1, 0}, (int[]){256, 512, 0});
    bt_pkg *p = made(w, rows, "\"static_ctx\":true,\"refused_shapes\":[[1,256]]", BT_PKG_OPS_LINEAR);
    const bt_pkg_row *r = NULL;
    assert_int_equal(bt_pkg_header_of(p)->rows.count, 6);
    assert_int_equal(bt_pkg_find_decode_row(&r, p, 1, 100, NULL), BT_OK);
    assert_true(r->batch == 1 && r->ctx == 512);
    assert_int_equal(bt_pkg_find_row(&r, p, 4, 1, 513, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "batch 4, seq 1, ctx 512"));
    bt_pkg_close(p);
    p = made(w, rows, "\"static_ctx\":true,\"refused_shapes\":[[1,256],[1,512]]", BT_PKG_OPS_LINEAR);
    assert_int_equal(bt_pkg_header_of(p)->rows.count, 4);
    assert_int_equal(bt_pkg_find_decode_row(&r, p, 1, 100, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "no decode row"));
    bt_pkg_close(p);
}

/* Slices of one row and one head: 18 instructions a row in this model, in three programs a shape. */
static void more_instructions_than_a_package_holds_are_refused_with_what_makes_fewer(void **state)
{
    const world *w = *state;
    char list[LIST];
    int batch[17] = {0};
    bt_pkg *p = NULL;
    bt_fault f = {""};
    for (int i = 0; i < 16; i++) batch[i] = 19 + i;
    rows_of(list, batch, (const int[]){100, 0}, (const int[]){512, 0});
    assert_int_equal(compile(&p, w, list, "\"query_slice_rows\":1,\"attention_heads_max\":1", BT_PKG_OPS_ALL,
                             &f),
                     BT_ELIMIT);
    if (!strstr(f.text, "more than 2097152 instructions and places") ||
        !strstr(f.text, "(query_slice_rows 1, attention_heads_max 1)"))
        fail_msg("%s", f.text);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_rows_of_a_cloud_ai_100_are_in_the_table_and_no_other, begin,
                                        end),
        cmocka_unit_test_setup_teardown(prefill_and_decode_merge_into_one_package_with_weights_once, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_changed_byte_of_one_function_stores_that_tensor_twice_and_no_other,
                                        begin, end),
        cmocka_unit_test_setup_teardown(five_contexts_and_three_batches_add_bodies_and_nothing_else, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_profile_bounds_rows_and_states_of_a_batch, begin, end),
        cmocka_unit_test_setup_teardown(a_batch_moves_the_kv_of_each_of_its_sequences, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_shape_has_no_row_in_any_batch, begin, end),
        cmocka_unit_test_setup_teardown(
            more_instructions_than_a_package_holds_are_refused_with_what_makes_fewer, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
