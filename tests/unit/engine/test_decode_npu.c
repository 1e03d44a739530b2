/* The engine npu behind the door to decoding: which batch serves how many rows, what it says of itself, and
 * what it refuses. That no bit depends on the batch is asked in test_decode_batch.c. */
#include "base/hash.h"
#include "engine/decode.h"
#include "engine/decode_batches.h"
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ROW(batch, seq, ctx) "{\"batch_size\":" #batch ",\"seq_len\":" #seq ",\"ctx_len\":" #ctx "}"
static const char rows[] =
    "[" ROW(1, 16, 1024) "," ROW(1, 1, 1024) "," ROW(4, 1, 64) "," ROW(4, 1, 128) "," ROW(16, 1, 256) "]";

/* ---- the rule ---- */

static void the_smallest_batch_that_holds_the_rest_takes_it(void **state)
{
    (void)state;
    bt_decode_batch of[] = {{1, 1024}, {4, 128}, {16, 256}};
    const bt_decode_batches b = {of, 3, 1024};
    size_t end[40];
    static const size_t left[] = {1, 2, 4, 5, 16, 17, 40}, batch[] = {1, 4, 4, 16, 16, 16, 16};
    for (size_t i = 0; i < 40; i++) end[i] = 10 + i;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        assert_int_equal(bt_decode_batches_next(&b, end, left[i])->batch, batch[i]);
    end[1] = 129; /* too long for four together */
    assert_int_equal(bt_decode_batches_next(&b, end, 2)->batch, 16);
    assert_int_equal(bt_decode_batches_next(&b, end, 1)->batch, 1);
    end[15] = 257; /* and for sixteen: no more than those before it are looked at */
    assert_int_equal(bt_decode_batches_next(&b, end, 15)->batch, 16);
    assert_int_equal(bt_decode_batches_next(&b, end, 16)->batch, 1);
    end[1] = 128;
    assert_int_equal(bt_decode_batches_next(&b, end, 16)->batch, 4);
    end[0] = 1024;
    assert_int_equal(bt_decode_batches_next(&b, end, 40)->batch, 1);
}

static void a_table_is_made_of_the_rows_of_one_token(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    static const struct {
        const char *policy;
        bt_decode_batch of[3];
        size_t count, ctx;
    } cases[] = {{rows, {{1, 1024}, {4, 128}, {16, 256}}, 3, 1024},
                 {"chunk:16+tail:1", {{1, 1024}}, 1, 1024},
                 {"[" ROW(1, 16, 1024) "," ROW(4, 1, 64) "]", {{4, 64}}, 1, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_fault f = {""};
        bt_decode_batches b = {0};
        bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, cases[i].policy, 1024);
        if (bt_decode_batches_of(&b, pkg, &f) < 0) fail_msg("%s", f.text);
        assert_int_equal(b.count, cases[i].count);
        assert_int_equal(b.ctx_tokens, cases[i].ctx);
        for (size_t k = 0; k < b.count; k++) {
            assert_int_equal(b.of[k].batch, cases[i].of[k].batch);
            assert_int_equal(b.of[k].ctx, cases[i].of[k].ctx);
        }
        assert_int_equal(bt_decode_check_package(pkg, b.ctx_tokens, &f), BT_OK);
        assert_int_equal(bt_decode_check_package(pkg, b.ctx_tokens + 1, &f), BT_EARG);
        assert_non_null(strstr(f.text, "--ctx-size"));
        bt_decode_batches_done(&b);
        bt_pkg_close(pkg);
    }
    engine_kit_done(&kit);
}

/* ---- the engine ---- */

static bt_decode *engine_new(const bt_model *m, const bt_pkg *pkg, size_t rows_max)
{
    bt_fault f = {""};
    bt_decode *d = NULL;
    const bt_decode_config c = {.engine = "npu", .pkg = pkg, .rows_max = rows_max};
    if (bt_decode_new(&d, m, &c, &f) < 0) fail_msg("%s", f.text);
    return d;
}

/* Rows computed, padding too, by a step of n sequences that are all at pos. */
static uint64_t rows_of(bt_decode *d, const bt_kv_view *kv, size_t n, size_t pos)
{
    bt_decode_seq seq[20];
    const int32_t token = 1;
    const uint64_t before = bt_decode_work(d).rows;
    for (size_t i = 0; i < n; i++)
        seq[i] = (bt_decode_seq){.kv = &kv[i], .pos = pos, .tokens = &token, .count = 1, .out = 0};
    assert_int_equal(bt_decode_step(d, seq, n, NULL, NULL, NULL), BT_OK);
    return bt_decode_work(d).rows - before;
}

static void a_step_is_padded_to_its_batches(void **state)
{
    (void)state;
    enum { N = 20 };
    engine_kit kit = engine_kit_model("qwen3");
    bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_ALL, rows, 1024);
    bt_decode *d = engine_new(kit.model, pkg, N);
    bt_kv_view kv[N];
    for (size_t i = 0; i < N; i++) kv[i] = engine_kit_pages(kit.model, 300, 64, 2);
    static const size_t n[] = {1, 2, 4, 5, 16, 17, 20}, near[] = {1, 4, 4, 16, 16, 17, 20},
                        far[] = {1, 16, 16, 16, 16, 17, 32};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        assert_int_equal(rows_of(d, kv, n[i], 127), near[i]);
        assert_int_equal(rows_of(d, kv, n[i], 128), far[i]); /* behind the context of four */
        assert_int_equal(rows_of(d, kv, n[i], 256), n[i]);   /* and of sixteen: one by one */
    }
    const bt_report_work w = bt_decode_work(d);
    assert_true(w.npu_macs > 0 && w.companion_macs == 0); /* of real rows */
    for (size_t i = 0; i < N; i++) engine_kit_pages_free(&kv[i]);
    bt_decode_free(d);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void it_tells_its_package_and_what_a_step_reads(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("qwen2");
    const bt_hparams *hp = &kit.model->hp;
    bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a16", BT_PKG_OPS_LINEAR, "chunk:16+tail:1", 1024);
    bt_decode *d = engine_new(kit.model, pkg, 1), *host = NULL;
    char digest[BT_HASH_HEX_CHARS], name[64];
    snprintf(name, sizeof name, "package=%s", bt_hash_hex(digest, bt_pkg_header_of(pkg)->digest));
    assert_string_equal(bt_decode_name(d), "npu");
    assert_string_equal(bt_decode_weights(d), name);
    assert_string_equal(bt_decode_quant(d), bt_pkg_header_of(pkg)->recipe);
    assert_ptr_equal(bt_decode_shared_package(d), pkg);
    assert_null(bt_decode_shared_weights(d));
    assert_int_equal(bt_decode_kv_elem_bytes(d), 2);

    /* a byte a weight, in panels of 16 outputs; scales, sums and biases are some dozen bytes an output */
    const uint64_t qkv = (hp->heads + 2 * hp->kv_heads) * hp->head_dim, o = hp->heads * hp->head_dim,
                   ffn = (hp->ffn + 15) / 16 * 16,
                   weights =
                       hp->layers * (qkv * hp->dim + o * hp->dim + 2 * ffn * hp->dim + hp->dim * hp->ffn) +
                       (uint64_t)hp->vocab * hp->dim,
                   outputs = hp->layers * (qkv + 2 * ffn + 2 * hp->dim) + hp->vocab;
    const uint64_t bytes = bt_decode_stats_of(d).weight_bytes;
    assert_true(bytes >= weights && bytes <= weights + 16 * outputs + 4 * hp->dim);

    assert_int_equal(bt_decode_new(&host, kit.model, &(bt_decode_config){.engine = "host"}, NULL), BT_OK);
    assert_null(bt_decode_shared_package(host));
    assert_non_null(bt_decode_shared_weights(host));
    assert_int_equal(bt_decode_work(host).rows, 0);
    bt_decode_free(host);
    bt_decode_free(d);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void nothing_is_made(void *ud, const char *what, uint64_t done, uint64_t total)
{
    (void)ud, (void)done, (void)total;
    fail_msg("%s", what);
}

static void a_package_that_cannot_decode_is_refused_with_what_to_do(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama"), other = engine_kit_model("qwen2");
    bt_pkg *prompts = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, "chunk:16", 1024),
           *few = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR,
                                   "[" ROW(1, 16, 512) "," ROW(4, 1, 64) "]", 512),
           *dynamic =
               npu_kit_compiled(kit.model, "w8a8:llm-int8", BT_PKG_OPS_LINEAR, "chunk:16+tail:1", 1024);
    const struct {
        const bt_model *m;
        bt_decode_config c;
        const char *says;
    } cases[] = {
        {kit.model, {.engine = "npu", .pkg = prompts}, "--shape-policy chunk:256+tail:1, or rows:FILE"},
        {kit.model, {.engine = "npu", .pkg = prompts}, "(shape policy chunk:16)"},
        /* before it is compiled */
        {kit.model, {.engine = "npu", .progress = nothing_is_made}, "(shape policy chunk:256+tail)"},
        {kit.model,
         {.engine = "npu", .progress = nothing_is_made, .want.shape_policy = "max-pad"},
         "(shape policy max-pad) has no program for one token"},
        {kit.model, {.engine = "npu", .pkg = few}, "the package has 512"},
        {kit.model, {.engine = "npu", .pkg = few, .ctx_tokens = 65}, "a context of 64 at most"},
        {kit.model, {.engine = "npu", .pkg = dynamic}, "llm-int8"},
        {other.model, {.engine = "npu", .pkg = few, .ctx_tokens = 64}, "model"},
        {kit.model, {.engine = "npu", .pkg = few, .ctx_tokens = 64, .isa = "mmx"}, "mmx"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_fault f = {""};
        bt_decode *d = NULL;
        assert_int_equal(bt_decode_new(&d, cases[i].m, &cases[i].c, &f), BT_EARG);
        if (!strstr(f.text, cases[i].says)) fail_msg("'%s' does not say '%s'", f.text, cases[i].says);
        assert_null(d);
    }
    bt_pkg_close(prompts);
    bt_pkg_close(few);
    bt_pkg_close(dynamic);
    engine_kit_done(&other);
    engine_kit_done(&kit);
}

/* A prompt by the prefill engine, its answer by this one over the same open package: the same as all of it as
 * a prompt, across the edge of a context. */
static void both_engines_of_a_package_make_the_same_rows(void **state)
{
    (void)state;
    enum { PROMPT = 50, ALL = 140 };
    static const uint32_t ops[] = {BT_PKG_OPS_LINEAR, BT_PKG_OPS_ALL};
    engine_kit kit = engine_kit_model("llama");
    const size_t vocab = kit.model->hp.vocab;
    int32_t ids[ALL];
    engine_kit_ids(ids, ALL, kit.model, 77);
    for (size_t k = 0; k < 2; k++)
        for (uint32_t elem = 1; elem <= 2; elem++) {
            bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", ops[k], rows, 1024);
            bt_prefill *p = npu_kit_engine(kit.model, pkg, 1024, NULL, NULL, elem);
            bt_decode *d = NULL;
            const bt_decode_config c = {.engine = "npu", .pkg = pkg, .kv_elem_bytes = elem};
            assert_int_equal(bt_decode_new(&d, kit.model, &c, NULL), BT_OK);
            bt_kv_view whole = engine_kit_pages(kit.model, ALL, 64, elem),
                       parts = engine_kit_pages(kit.model, ALL, 16, elem);
            float *expected = engine_kit_floats(ALL * vocab), *logits = engine_kit_floats(vocab);
            assert_int_equal(bt_prefill_run(p, &whole, ids, ALL, 0, NULL, expected, BT_PREFILL_ALL, NULL),
                             BT_OK);
            assert_int_equal(bt_prefill_run(p, &parts, ids, PROMPT, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                             BT_OK);
            for (size_t pos = PROMPT; pos < ALL; pos++) {
                const bt_decode_seq seq = {.kv = &parts, .pos = pos, .tokens = &ids[pos], .count = 1,
                                           .out = 1};
                assert_int_equal(bt_decode_step(d, &seq, 1, NULL, logits, NULL), BT_OK);
                assert_memory_equal(logits, expected + pos * vocab, vocab * sizeof *logits);
            }
            assert_true(engine_kit_hash(&whole, ALL) == engine_kit_hash(&parts, ALL));
            free(expected);
            free(logits);
            engine_kit_pages_free(&whole);
            engine_kit_pages_free(&parts);
            bt_decode_free(d);
            bt_prefill_free(p);
            bt_pkg_close(pkg);
        }
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_batch_that_holds_the_rest_takes_it),
        cmocka_unit_test(a_table_is_made_of_the_rows_of_one_token),
        cmocka_unit_test(a_step_is_padded_to_its_batches),
        cmocka_unit_test(it_tells_its_package_and_what_a_step_reads),
        cmocka_unit_test(a_package_that_cannot_decode_is_refused_with_what_to_do),
        cmocka_unit_test(both_engines_of_a_package_make_the_same_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
