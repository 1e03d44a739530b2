/* Batches: several sequences in one run of a compiled program. Each has the bytes that it has alone, whatever
 * its neighbours are, however it is cut, and whatever lies in padding. */
#include "base/file.h"
#include "engine/prefill.h"
#include "npu/compile/compile.h"
#include "npu/run/exec.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 256, PAGE = 16, CALIB = 128, SEQS = 4, ROWS = 16, MOST = 64 };

/* Two rows as a Cloud AI 100 has them, and batches of both. */
static const char rows[] =
    "[{\"batch_size\":1,\"seq_len\":16,\"ctx_len\":256},{\"batch_size\":1,\"seq_len\":1,\"ctx_len\":256},"
    "{\"batch_size\":1,\"seq_len\":64,\"ctx_len\":256},{\"batch_size\":4,\"seq_len\":16,\"ctx_len\":256},"
    "{\"batch_size\":4,\"seq_len\":64,\"ctx_len\":256},{\"batch_size\":4,\"seq_len\":1,\"ctx_len\":128},"
    "{\"batch_size\":4,\"seq_len\":1,\"ctx_len\":256},{\"batch_size\":16,\"seq_len\":1,\"ctx_len\":256}]";

typedef struct world {
    engine_kit kit;
    int32_t calib[CALIB], ids[SEQS][MOST];
    size_t vocab;
    bt_pkg *pkg;
    bt_exec *exec;
    uint8_t *arena;
} world;

/* The operators of the device: integers, or (fields that begin with '@') linears of 8 bits and all else in
 * float16. */
static const char integers[] = "\"linear\":[\"int8\",\"int16\"],\"others\":[\"int16\"]",
                  floats[] = "\"linear\":[\"int8\",\"float16\"],\"others\":[\"float16\"]";

static bt_pkg *package(const world *w, const char *recipe, uint32_t npu_ops, const char *fields)
{
    char path[] = "/tmp/baton-batch-XXXXXX", list[] = "/tmp/baton-rows-XXXXXX", policy[64], json[1024];
    bt_profile profile;
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    const int fd = mkstemp(path), ld = mkstemp(list);
    assert_true(fd >= 0 && ld >= 0);
    assert_int_equal(write(ld, rows, sizeof rows - 1), sizeof rows - 1);
    close(fd);
    close(ld);
    snprintf(policy, sizeof policy, "rows:%s", list);
    const bool is_float = fields[0] == '@';
    fields += is_float;
    const int n = snprintf(json, sizeof json, "{\"name\":\"mine\",\"title\":\"Mine\",\"operators\":{%s}%s%s}",
                           is_float ? floats : integers, fields[0] ? "," : "", fields);
    if (bt_profile_parse(&profile, json, (size_t)n, &f) < 0) fail_msg("%s", f.text);
    bt_compile_options o = {.shape_policy = policy, .npu_ops = npu_ops, .ctx_tokens = CTX,
                            .calib_ids = w->calib,  .calib_len = CALIB, .profile = &profile};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    if (bt_compile(path, w->kit.model, &o, NULL, &f) != BT_OK || bt_pkg_open(&pkg, path, &f) != BT_OK)
        fail_msg("%s: %s", recipe, f.text);
    unlink(path);
    unlink(list);
    return pkg;
}

static world begin(const char *arch, const char *recipe, uint32_t npu_ops, const char *fields, bt_pool *pool)
{
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.calib, CALIB, w.kit.model, 31);
    for (uint32_t s = 0; s < SEQS; s++) engine_kit_ids(w.ids[s], MOST, w.kit.model, 40 + s);
    w.vocab = w.kit.model->hp.vocab;
    w.pkg = package(&w, recipe, npu_ops, fields);
    /* with all operators on the NPU nothing but a KV row's store is the companion's */
    if (npu_ops == BT_PKG_OPS_ALL) assert_int_equal(bt_pkg_header_of(w.pkg)->fallbacks.count, 0);
    assert_int_equal(bt_exec_new(&w.exec, w.pkg, bt_kernels_select(NULL), pool, NULL), BT_OK);
    const size_t bytes = (size_t)bt_pkg_header_of(w.pkg)->arena_bytes;
    w.arena = engine_kit_alloc(bytes);
    memset(w.arena, 0xff, bytes); /* NaN wherever nothing is written */
    return w;
}

static void end(world *w)
{
    bt_exec_free(w->exec);
    free(w->arena);
    bt_pkg_close(w->pkg);
    engine_kit_done(&w->kit);
}

static void run(const world *w, size_t batch, size_t seq, const bt_exec_seq *s, size_t seqs, bt_pkg_out out,
                float *logits, float pad)
{
    const bt_pkg_row *row = NULL;
    bt_fault f = {""};
    if (bt_pkg_find_row(&row, w->pkg, batch, seq, CTX, &f) < 0) fail_msg("%s", f.text);
    const bt_exec_io io = {.seq = s, .seqs = seqs, .rows = seq, .logits = logits, .pad = pad};
    if (bt_exec_run(w->exec, row, out, w->arena, &io, &f) < 0) fail_msg("%s", f.text);
}

/* The first n tokens of sequence s alone, in rows of `seq`: its KV and each position's logits. */
static uint64_t alone(const world *w, size_t s, size_t n, size_t seq, float *logits)
{
    bt_kv_view kv = engine_kit_pages(w->kit.model, CTX, PAGE, 2);
    for (size_t at = 0; at < n; at += seq) {
        const size_t valid = n - at < seq ? n - at : seq;
        const bt_exec_seq one = {.ids = w->ids[s] + at, .kv = &kv, .pos0 = at, .valid = valid};
        run(w, 1, seq, &one, 1, BT_PKG_OUT_ALL, logits + at * w->vocab, 0);
    }
    const uint64_t hash = engine_kit_hash(&kv, n);
    engine_kit_pages_free(&kv);
    return hash;
}

/* Sequences of unlike lengths, begun at unlike positions, the last of the batch not there: for each the KV
 * and logits that it has alone. */
static void check_batch(const world *w, bt_pkg_out out)
{
    static const size_t first[SEQS - 1] = {0, 7, 33}, valid[SEQS - 1] = {16, 5, 1};
    static const float pads[] = {0, NAN, INFINITY, -3e30f};
    float *want = engine_kit_floats(MOST * w->vocab), *logits = engine_kit_floats(SEQS * ROWS * w->vocab);
    for (size_t p = 0; p < sizeof pads / sizeof *pads; p++) {
        bt_kv_view kv[SEQS - 1];
        bt_exec_seq seq[SEQS - 1];
        for (size_t s = 0; s < SEQS - 1; s++) {
            kv[s] = engine_kit_pages(w->kit.model, CTX, PAGE, 2);
            seq[s] =
                (bt_exec_seq){.ids = w->ids[s] + first[s], .kv = &kv[s], .pos0 = first[s], .valid = valid[s]};
            for (size_t at = 0; at < first[s]; at++) {
                const bt_exec_seq one = {.ids = w->ids[s] + at, .kv = &kv[s], .pos0 = at, .valid = 1};
                run(w, 1, 16, &one, 1, BT_PKG_OUT_NONE, NULL, 0);
            }
        }
        run(w, SEQS, ROWS, seq, SEQS - 1, out, logits, pads[p]);
        for (size_t s = 0; s < SEQS - 1; s++) {
            const size_t n = first[s] + valid[s];
            assert_true(alone(w, s, n, 64, want) == engine_kit_hash(&kv[s], n));
            assert_true(engine_kit_untouched(&kv[s], n, CTX));
            if (out == BT_PKG_OUT_LAST)
                assert_memory_equal(logits + s * w->vocab, want + (n - 1) * w->vocab,
                                    w->vocab * sizeof *want);
            else
                assert_memory_equal(logits + s * ROWS * w->vocab, want + first[s] * w->vocab,
                                    valid[s] * w->vocab * sizeof *want);
            engine_kit_pages_free(&kv[s]);
        }
    }
    free(want);
    free(logits);
}

static void each_sequence_of_a_batch_has_the_bits_it_has_alone_whatever_padding_holds(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *recipe;
        uint32_t npu_ops;
        const char *fields;
    } of[] = {
        {"llama", "w8a8", BT_PKG_OPS_LINEAR, ""},
        {"qwen2", "w8a16:no-rotate", BT_PKG_OPS_LINEAR, ""},
        {"qwen3", "w4a8:no-gptq,shadow=value", BT_PKG_OPS_LINEAR, "\"last_axis_align_bytes\":256"},
        {"qwen2", "w8a8", BT_PKG_OPS_ALL, ""},
        {"qwen3", "w8a16:no-rotate", BT_PKG_OPS_ALL,
         "\"query_slice_rows\":24,\"attention_heads_max\":2,\"output_parts\":3,\"static_ctx\":true"},
        {"llama", "w8a8", BT_PKG_OPS_ALL, "@"},
        {"llama", "w8a8/1=w4a16/head=w8a16", BT_PKG_OPS_ALL, "@"},
        {"qwen3", "w8a16:no-rotate", BT_PKG_OPS_ALL,
         "@\"query_slice_rows\":24,\"attention_heads_max\":2,\"output_parts\":3"},
    };
    bt_pool *pool = NULL;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        world w = begin(of[i].arch, of[i].recipe, of[i].npu_ops, of[i].fields, i % 2 ? pool : NULL);
        check_batch(&w, BT_PKG_OUT_LAST);
        check_batch(&w, BT_PKG_OUT_ALL);
        end(&w);
    }
    bt_pool_free(pool);
}

static void chunks_of_a_batch_are_the_whole_of_it(void **state)
{
    (void)state;
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        world w = begin("llama", "w8a8", ops, "", NULL);
        float *logits[2] = {engine_kit_floats(SEQS * w.vocab), engine_kit_floats(SEQS * w.vocab)};
        uint64_t hash[2][SEQS];
        for (size_t i = 0; i < 2; i++) {
            const size_t seq = i ? 64 : 16;
            bt_kv_view kv[SEQS];
            for (size_t s = 0; s < SEQS; s++) kv[s] = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
            for (size_t at = 0; at < MOST; at += seq) {
                bt_exec_seq part[SEQS];
                for (size_t s = 0; s < SEQS; s++)
                    part[s] = (bt_exec_seq){.ids = w.ids[s] + at, .kv = &kv[s], .pos0 = at, .valid = seq};
                run(&w, SEQS, seq, part, SEQS, at + seq == MOST ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE,
                    logits[i], 0);
            }
            for (size_t s = 0; s < SEQS; s++) {
                hash[i][s] = engine_kit_hash(&kv[s], MOST);
                engine_kit_pages_free(&kv[s]);
            }
        }
        assert_memory_equal(hash[0], hash[1], sizeof hash[0]);
        assert_memory_equal(logits[0], logits[1], SEQS * w.vocab * sizeof(float));
        free(logits[0]);
        free(logits[1]);
        end(&w);
    }
}

/* 16 rows of seq 1: sequences, and of one of them three tokens at once (drafts); four rows are padding. */
static void decode_rows_have_the_bits_of_rows_alone_drafts_too(void **state)
{
    (void)state;
    enum { USED = 12, DRAFTS = 3, LONG = 40 };
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        world w = begin("qwen2", "w8a8", ops, "", NULL);
        float *want = engine_kit_floats(MOST * w.vocab), *logits = engine_kit_floats(USED * w.vocab);
        bt_kv_view kv[USED];
        bt_exec_seq seq[USED];
        const bt_pkg_row *row = NULL;
        for (size_t b = 0; b < USED; b++) kv[b] = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
        for (size_t b = 0; b < USED; b++) {
            const bool is_draft = b >= USED - DRAFTS;
            const size_t view = is_draft ? USED - DRAFTS : b, s = view % SEQS,
                         first = is_draft ? LONG : 3 * b, pos = first + (is_draft ? b - view : 0);
            seq[b] = (bt_exec_seq){.ids = w.ids[s] + pos, .kv = &kv[view], .pos0 = pos, .valid = 1};
            const bt_exec_seq before = {.ids = w.ids[s], .kv = &kv[view], .valid = first};
            if (first && b == view) run(&w, 1, 64, &before, 1, BT_PKG_OUT_NONE, NULL, 0);
        }
        assert_int_equal(bt_pkg_find_decode_row(&row, w.pkg, USED, LONG + DRAFTS, NULL), BT_OK);
        assert_true(row->batch == 16 && row->seq == 1);
        const uint64_t rows_before = bt_exec_stats_of(w.exec).batch_padding_rows;
        run(&w, 16, 1, seq, USED, BT_PKG_OUT_LAST, logits, NAN);
        assert_int_equal(bt_exec_stats_of(w.exec).batch_padding_rows - rows_before, 16 - USED);
        for (size_t b = 0; b < USED; b++) {
            const size_t view = b < USED - DRAFTS ? b : USED - DRAFTS, s = view % SEQS, n = seq[b].pos0 + 1;
            const uint64_t hash = alone(&w, s, n, 1, want); /* the row of one sequence and one token */
            assert_memory_equal(logits + b * w.vocab, want + (n - 1) * w.vocab, w.vocab * sizeof *want);
            assert_true(hash == engine_kit_hash(&kv[view], n));
            if (b < USED - DRAFTS || b == USED - 1) assert_true(engine_kit_untouched(&kv[view], n, CTX));
        }
        for (size_t b = 0; b < USED; b++) engine_kit_pages_free(&kv[b]);
        free(want);
        free(logits);
        end(&w);
    }
}

static void a_decode_row_is_the_smallest_that_holds_all_and_a_missing_row_names_the_nearest(void **state)
{
    (void)state;
    static const struct {
        size_t seqs, end, batch, ctx;
    } want[] = {{1, 1, 1, 256},   {1, 256, 1, 256}, {2, 5, 4, 128},    {4, 128, 4, 128},
                {4, 129, 4, 256}, {5, 9, 16, 256},  {16, 256, 16, 256}};
    world w = begin("llama", "w8a8", BT_PKG_OPS_LINEAR, "", NULL);
    const bt_pkg_row *row = NULL;
    bt_fault f = {""};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(bt_pkg_find_decode_row(&row, w.pkg, want[i].seqs, want[i].end, NULL), BT_OK);
        assert_true(row->seq == 1 && row->batch == want[i].batch && row->ctx == want[i].ctx);
    }
    const bt_pkg_row *const before = row;
    assert_int_equal(bt_pkg_find_decode_row(&row, w.pkg, 17, 9, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "17 sequences, ctx 9; the nearest has batch 16, seq 1, ctx 256"));
    assert_int_equal(bt_pkg_find_decode_row(&row, w.pkg, 3, 257, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "batch 4, seq 1, ctx 256"));
    /* the table of the file and nothing else */
    assert_int_equal(bt_pkg_find_row(&row, w.pkg, 2, 16, 16, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "batch 2, seq 16, ctx 16; the nearest has batch 1, seq 16, ctx 256"));
    assert_int_equal(bt_pkg_find_row(&row, w.pkg, 16, 2, 16, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the nearest has batch 16, seq 1, ctx 256"));
    assert_int_equal(bt_pkg_find_row(&row, w.pkg, 4, 64, 300, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the nearest has batch 4, seq 64, ctx 256"));
    assert_ptr_equal(row, before);
    end(&w);
}

static void a_run_takes_no_more_sequences_than_its_batch_and_llm_int8_one(void **state)
{
    (void)state;
    world w = begin("llama", "w8a8", BT_PKG_OPS_LINEAR, "", NULL);
    bt_kv_view kv = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
    float *logits = engine_kit_floats(w.vocab);
    const bt_pkg_row *row = NULL;
    bt_exec_seq seq[SEQS + 1];
    for (size_t s = 0; s <= SEQS; s++) seq[s] = (bt_exec_seq){.ids = w.ids[0], .kv = &kv, .valid = 1};
    assert_int_equal(bt_pkg_find_row(&row, w.pkg, SEQS, 16, CTX, NULL), BT_OK);
    bt_exec_io io = {.seq = seq, .seqs = SEQS + 1, .rows = 16, .logits = logits};
    assert_int_equal(bt_exec_run(w.exec, row, BT_PKG_OUT_NONE, w.arena, &io, NULL), BT_EARG);
    io.seqs = 0;
    assert_int_equal(bt_exec_run(w.exec, row, BT_PKG_OUT_NONE, w.arena, &io, NULL), BT_EARG);
    io.seqs = 2;
    seq[1].valid = 17; /* each is looked at */
    assert_int_equal(bt_exec_run(w.exec, row, BT_PKG_OUT_NONE, w.arena, &io, NULL), BT_EARG);
    assert_true(engine_kit_untouched(&kv, 0, CTX));
    bt_fault f = {""};
    bt_compile_options o = {.shape_policy = NULL, .ctx_tokens = CTX, .calib_ids = w.calib,
                            .calib_len = CALIB};
    char list[] = "/tmp/baton-rows-XXXXXX", policy[64];
    const int ld = mkstemp(list);
    assert_int_equal(write(ld, rows, sizeof rows - 1), sizeof rows - 1);
    close(ld);
    snprintf(policy, sizeof policy, "rows:%s", list);
    o.shape_policy = policy;
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8:llm-int8", NULL), BT_OK);
    assert_int_equal(bt_compile("/tmp/baton-never", w.kit.model, &o, NULL, &f), BT_EARG);
    assert_true(strstr(f.text, "batch 4") && strstr(f.text, "llm-int8"));
    unlink(list);
    free(logits);
    engine_kit_pages_free(&kv);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sequence_of_a_batch_has_the_bits_it_has_alone_whatever_padding_holds),
        cmocka_unit_test(chunks_of_a_batch_are_the_whole_of_it),
        cmocka_unit_test(decode_rows_have_the_bits_of_rows_alone_drafts_too),
        cmocka_unit_test(a_decode_row_is_the_smallest_that_holds_all_and_a_missing_row_names_the_nearest),
        cmocka_unit_test(a_run_takes_no_more_sequences_than_its_batch_and_llm_int8_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
