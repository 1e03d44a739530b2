/* Batch invariance of the engines host and npu: whatever shares a step with a row, however its sequence is
 * paged, in how many rows it is brought and after whatever drafts, its logits and its KV bytes are those of
 * the sequence run alone: on the host row by row; on the NPU as a prompt of the prefill engine, in one run.
 */
#include "engine/decode.h"
#include "engine/prefill.h"
#include "model/weights.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"
#include "tests/helpers/slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SEQS = 64, LONGEST = 300, ROWS_MAX = 40, RUN_MAX = 9 };

typedef struct form {
    const char *arch, *weights;
    uint32_t kv_elem_bytes;
    const char *recipe; /* of an npu; NULL: host */
    uint32_t npu_ops;
    const char *policy; /* of an npu */
} form;

/* Programs of one token for one sequence only; and for 1, 4 and 16, in several contexts. */
static const char alone[] = "chunk:16+tail:1";
static const char batches[] =
    "[{\"batch_size\":1,\"seq_len\":16,\"ctx_len\":1024},{\"batch_size\":1,\"seq_len\":1,\"ctx_len\":128},"
    "{\"batch_size\":1,\"seq_len\":1,\"ctx_len\":1024},{\"batch_size\":4,\"seq_len\":1,\"ctx_len\":128},"
    "{\"batch_size\":4,\"seq_len\":1,\"ctx_len\":256},{\"batch_size\":16,\"seq_len\":1,\"ctx_len\":128},"
    "{\"batch_size\":16,\"seq_len\":1,\"ctx_len\":512}]";
static const form npu_forms[] = {
    {"qwen3", NULL, 2, "w8a8", BT_PKG_OPS_LINEAR, batches},
    {"llama", NULL, 1, "w8a16", BT_PKG_OPS_ALL, batches},
    {"qwen2", NULL, 2, "w4a8:no-gptq,shadow=channel", BT_PKG_OPS_ALL, batches},
    {"llama", NULL, 1, "w8a8", BT_PKG_OPS_LINEAR, alone},
};
enum { NPU_FORMS = sizeof npu_forms / sizeof *npu_forms };

static uint32_t next(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* ---- pages: one block of memory for all sequences, handed out in random order ---- */

typedef struct paging {
    bt_kv_view view[SEQS];
    uint8_t **table, *bytes;
    size_t len;
} paging;

static paging paging_new(const bt_model *m, const size_t *tokens, size_t seqs, size_t page_tokens,
                         uint32_t elem_bytes, uint64_t *seed)
{
    paging p = {0};
    bt_kv_view v = {.page_tokens = page_tokens, .elem_bytes = elem_bytes, .layers = m->hp.layers,
                    .kv_heads = m->hp.kv_heads, .head_dim = m->hp.head_dim};
    v.head_bytes = bt_kv_head_bytes(elem_bytes, v.head_dim);
    v.token_bytes = v.head_bytes * v.kv_heads;
    v.plane_bytes = v.token_bytes * page_tokens;
    v.layer_bytes = 2 * v.plane_bytes;
    size_t pages = 0, page_bytes = v.layer_bytes * v.layers;
    for (size_t i = 0; i < seqs; i++) pages += (tokens[i] + page_tokens - 1) / page_tokens;
    p.len = pages * page_bytes;
    p.bytes = malloc(p.len);
    p.table = calloc(pages, sizeof *p.table);
    assert_true(p.bytes && p.table);
    memset(p.bytes, 0xff, p.len); /* rows that nobody stored are NaN */
    for (size_t i = 0; i < pages; i++) p.table[i] = p.bytes + i * page_bytes;
    for (size_t i = pages; i > 1; i--) {
        const size_t j = next(seed, (uint32_t)i);
        uint8_t *const swap = p.table[i - 1];
        p.table[i - 1] = p.table[j];
        p.table[j] = swap;
    }
    for (size_t i = 0, at = 0; i < seqs; i++) {
        const size_t n = (tokens[i] + page_tokens - 1) / page_tokens;
        v.page = p.table + at;
        v.tokens_capacity = n * page_tokens;
        p.view[i] = v;
        at += n;
    }
    return p;
}

static void paging_free(paging *p)
{
    free(p->table);
    free(p->bytes);
}

/* ---- what every row is worth alone ---- */

typedef struct solo {
    engine_kit kit;
    bt_pkg *pkg; /* NULL: host */
    size_t len[SEQS], vocab;
    int32_t ids[SEQS][LONGEST];
    float *logits[SEQS]; /* [len, V] */
    uint64_t hash[SEQS];
} solo;

static bt_decode *engine_new(const solo *s, const form *f, const char *isa, bt_pool *pool, size_t rows_max)
{
    bt_fault fault = {""};
    bt_decode *e = NULL;
    const bt_decode_config c = {
        .engine = f->recipe ? "npu" : NULL, .pkg = s->pkg, .isa = isa,          .weights = f->weights,
        .kv_elem_bytes = f->kv_elem_bytes,  .pool = pool,  .rows_max = rows_max};
    if (bt_decode_new(&e, s->kit.model, &c, &fault) < 0) fail_msg("%s", fault.text);
    return e;
}

static void model_open(solo *s, const form *f)
{
    s->kit = engine_kit_model(f->arch);
    if (f->recipe)
        s->pkg = npu_kit_compiled(s->kit.model, f->recipe, f->npu_ops, f->policy, s->kit.model->hp.ctx);
}

static void model_close(solo *s)
{
    bt_pkg_close(s->pkg);
    engine_kit_done(&s->kit);
}

static void run_alone(const solo *s, const form *f, bt_decode *e, bt_prefill *whole, const bt_kv_view *kv,
                      size_t i)
{
    bt_fault fault = {""};
    if (f->recipe) {
        if (bt_prefill_run(whole, kv, s->ids[i], s->len[i], 0, NULL, s->logits[i], BT_PREFILL_ALL, &fault) <
            0)
            fail_msg("%s", fault.text);
        return;
    }
    for (size_t pos = 0; pos < s->len[i]; pos++) {
        const bt_decode_seq one = {.kv = kv, .pos = pos, .tokens = &s->ids[i][pos], .count = 1, .out = 1};
        assert_int_equal(bt_decode_step(e, &one, 1, NULL, s->logits[i] + pos * s->vocab, NULL), BT_OK);
    }
}

/* Sequence i has 1 to so many tokens. Where rows are slow most are short, and every eighth as long as it may
 * be. */
static uint32_t longest_of(size_t i, size_t longest)
{
    return (uint32_t)(slow_run() && i % 8 != 1 ? (longest + 7) / 8 : longest);
}

static solo *solo_new(const form *f, const char *isa, size_t seqs, size_t longest, uint64_t seed)
{
    solo *s = calloc(1, sizeof *s);
    assert_non_null(s);
    model_open(s, f);
    s->vocab = s->kit.model->hp.vocab;
    for (size_t i = 0; i < seqs; i++)
        s->len[i] = i == 0 ? 1 : i == 1 ? longest : 1 + next(&seed, longest_of(i, longest));
    bt_decode *e = engine_new(s, f, isa, NULL, 1);
    bt_prefill *whole =
        f->recipe ? npu_kit_engine(s->kit.model, s->pkg, longest, isa, NULL, f->kv_elem_bytes) : NULL;
    paging p = paging_new(s->kit.model, s->len, seqs, 64, f->kv_elem_bytes, &seed);
    for (size_t i = 0; i < seqs; i++) {
        engine_kit_ids(s->ids[i], s->len[i], s->kit.model, (uint32_t)i + 7);
        s->logits[i] = engine_kit_floats(s->len[i] * s->vocab);
        run_alone(s, f, e, whole, &p.view[i], i);
        s->hash[i] = engine_kit_hash(&p.view[i], s->len[i]);
    }
    paging_free(&p);
    bt_prefill_free(whole);
    bt_decode_free(e);
    return s;
}

static void solo_free(solo *s)
{
    for (size_t i = 0; i < SEQS; i++) free(s->logits[i]);
    model_close(s);
    free(s);
}

/* ---- the same sequences together ---- */

typedef struct brought {
    size_t seq, pos, count, right;
    int32_t tokens[RUN_MAX];
} brought; /* right: rows before the first wrong draft */

/* A run of rows of one sequence: mostly one, sometimes a replay, sometimes drafts of which the last ones
 * are wrong. */
static brought bring(const solo *s, size_t seq, size_t pos, size_t room, uint64_t *seed)
{
    const size_t left = s->len[seq] - pos, most = room < left ? room : left;
    brought b = {.seq = seq, .pos = pos, .count = 1};
    if (next(seed, 3) == 0) b.count = 1 + next(seed, (uint32_t)(most < RUN_MAX ? most : RUN_MAX));
    b.right = next(seed, 2) ? b.count : 1 + next(seed, (uint32_t)b.count);
    for (size_t i = 0; i < b.count; i++)
        b.tokens[i] = (int32_t)((uint32_t)(s->ids[seq][pos + i] + (i >= b.right)) % s->vocab);
    return b;
}

/* Every sequence comes to its end; who is in a step is drawn anew each time. */
static void run_batch(const solo *s, size_t seqs, const form *f, const char *isa, bt_pool *pool,
                      size_t page_tokens, uint64_t seed)
{
    size_t pos[SEQS] = {0}, done = 0;
    bt_decode *e = engine_new(s, f, isa, pool, ROWS_MAX);
    paging p = paging_new(s->kit.model, s->len, seqs, page_tokens, f->kv_elem_bytes, &seed);
    float *logits = engine_kit_floats(ROWS_MAX * s->vocab);
    while (done < seqs) {
        bt_decode_seq item[ROWS_MAX];
        brought b[ROWS_MAX];
        size_t n = 0, rows = 0, at = 0;
        const size_t want = 1 + next(&seed, ROWS_MAX), from = next(&seed, (uint32_t)seqs),
                     skip = 1 + next(&seed, 3);
        for (size_t k = 0; k < seqs && rows < want; k += skip) {
            const size_t i = (from + k) % seqs;
            if (pos[i] == s->len[i]) continue;
            b[n] = bring(s, i, pos[i], want - rows, &seed);
            item[n] =
                (bt_decode_seq){.kv = &p.view[i], .pos = pos[i], .tokens = b[n].tokens,
                                .count = (uint32_t)b[n].count, .out = next(&seed, (uint32_t)b[n].count + 1)};
            rows += b[n++].count;
        }
        assert_int_equal(bt_decode_step(e, item, n, NULL, logits, NULL), BT_OK);
        for (size_t i = 0; i < n; i++) {
            for (size_t j = b[i].count - item[i].out; j < b[i].count; j++, at++)
                if (j < b[i].right)
                    assert_memory_equal(logits + at * s->vocab,
                                        s->logits[b[i].seq] + (b[i].pos + j) * s->vocab,
                                        s->vocab * sizeof *logits);
            pos[b[i].seq] += b[i].right;
            done += pos[b[i].seq] == s->len[b[i].seq];
        }
    }
    for (size_t i = 0; i < seqs; i++) assert_true(engine_kit_hash(&p.view[i], s->len[i]) == s->hash[i]);
    free(logits);
    paging_free(&p);
    bt_decode_free(e);
}

static const char *const archs[] = {"qwen3", "llama", "qwen2"};

static void sixty_four_sequences_together_have_the_bits_of_each_alone(void **state)
{
    (void)state;
    bt_pool *pool;
    uint64_t seed = 1;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    for (int w = 0; bt_weights_forms[w]; w++)
        for (uint32_t kv = 1; kv <= 2; kv++, seed++) {
            const form f = {archs[seed % 3], bt_weights_forms[w], kv, NULL, 0, NULL};
            print_message("%s, weights %s, KV of %u bytes, seed %u\n", f.arch, f.weights, kv, (unsigned)seed);
            solo *s = solo_new(&f, NULL, SEQS, LONGEST, seed);
            run_batch(s, SEQS, &f, NULL, pool, kv == 1 ? 16 : 64, seed + 100);
            solo_free(s);
        }
    for (size_t i = 0; i < NPU_FORMS; i++, seed++) {
        const form *f = &npu_forms[i];
        print_message("%s, npu %s, KV of %u bytes, seed %u\n", f->arch, f->recipe, f->kv_elem_bytes,
                      (unsigned)seed);
        solo *s = solo_new(f, NULL, SEQS, LONGEST, seed);
        run_batch(s, SEQS, f, NULL, pool, f->kv_elem_bytes == 1 ? 16 : 64, seed + 100);
        solo_free(s);
    }
    bt_pool_free(pool);
}

static void by_every_instruction_set(const form *f, uint64_t seed)
{
    solo *s = solo_new(f, "ref", 6, 30, seed);
    for (size_t k = 0; k < bt_kernels_table_len; k++)
        for (size_t threads = 1; threads <= 3 && rows_usable(&bt_kernels_table[k]); threads++) {
            bt_pool *pool;
            print_message("%s, %s, KV of %u bytes, %s, %zu threads, seed %u\n", f->arch,
                          f->recipe ? f->recipe : f->weights, f->kv_elem_bytes, bt_kernels_table[k].isa,
                          threads, (unsigned)seed);
            assert_int_equal(bt_pool_new(&pool, threads, NULL), BT_OK);
            run_batch(s, 6, f, bt_kernels_table[k].isa, pool, threads == 2 ? 16 : 64, seed + threads);
            bt_pool_free(pool);
        }
    solo_free(s);
}

/* Alone by the plain kernels on one thread; together by every other. */
static void instruction_sets_and_threads_change_no_bit_of_a_batch(void **state)
{
    (void)state;
    uint64_t seed = 1000;
    for (int w = 0; bt_weights_forms[w]; w++)
        for (uint32_t kv = 1; kv <= 2; kv++, seed++) {
            const form f = {archs[seed % 3], bt_weights_forms[w], kv, NULL, 0, NULL};
            by_every_instruction_set(&f, seed);
        }
    for (size_t i = 0; i < NPU_FORMS; i++) by_every_instruction_set(&npu_forms[i], seed++);
}

/* ---- AC-k3: a row costs its own bytes and touches no other ---- */

static bool is_row_of(const bt_kv_view *v, const bt_decode_seq *s, const uint8_t *byte)
{
    for (size_t l = 0; l < v->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = s->pos; t < s->pos + s->count; t++)
                for (size_t g = 0; g < v->kv_heads; g++) {
                    const uint8_t *row = bt_kv_view_row(v, l, is_v, t, g);
                    if (byte >= row && byte < row + v->head_bytes) return true;
                }
    return false;
}

static void a_step_writes_the_rows_it_was_brought_and_no_other_byte(void **state)
{
    (void)state;
    enum { N = 5, STEPS = 12 };
    static const form forms[] = {{"qwen3", "f16", 1, NULL, 0, NULL},
                                 {"qwen3", "f16", 2, NULL, 0, NULL},
                                 {"qwen3", NULL, 1, "w8a8", BT_PKG_OPS_ALL, batches},
                                 {"qwen3", NULL, 2, "w8a8", BT_PKG_OPS_LINEAR, alone}};
    const size_t len[N] = {40, 17, 64, 33, 50};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        uint64_t seed = 5 + k;
        const form f = forms[k];
        solo s = {.pkg = NULL};
        model_open(&s, &f);
        const bt_hparams *hp = &s.kit.model->hp;
        bt_decode *e = engine_new(&s, &f, NULL, NULL, ROWS_MAX);
        paging p = paging_new(s.kit.model, len, N, 16, f.kv_elem_bytes, &seed);
        uint8_t *before = malloc(p.len);
        size_t pos[N] = {0};
        int32_t ids[RUN_MAX];
        assert_non_null(before);
        engine_kit_ids(ids, RUN_MAX, s.kit.model, 3);
        for (size_t step = 0; step < STEPS; step++) {
            bt_decode_seq item[N];
            size_t n = 0, rows = 0;
            for (size_t i = step % 3; i < N; i += 1 + step % 2) {
                const uint32_t count = 1 + next(&seed, 3);
                if (pos[i] + count > len[i]) continue;
                item[n++] = (bt_decode_seq){.kv = &p.view[i], .pos = pos[i], .tokens = ids, .count = count};
                pos[i] += count;
                rows += count;
            }
            const bt_decode_stats old = bt_decode_stats_of(e);
            memcpy(before, p.bytes, p.len);
            assert_int_equal(bt_decode_step(e, item, n, NULL, NULL, NULL), BT_OK);
            size_t changed = 0, bytes = rows * 2 * hp->layers * hp->kv_heads *
                                        bt_kv_head_bytes(f.kv_elem_bytes, hp->head_dim);
            for (size_t b = 0; b < p.len; b++) {
                if (before[b] == p.bytes[b]) continue;
                size_t i = 0;
                while (i < n && !is_row_of(item[i].kv, &item[i], p.bytes + b)) i++;
                assert_true(i < n);
                changed++;
            }
            assert_true(changed <= bytes && changed > bytes * 9 / 10); /* a byte may come out as it was */
            const bt_decode_stats now = bt_decode_stats_of(e);
            assert_int_equal(now.kv_bytes_written - old.kv_bytes_written, bytes);
            assert_int_equal(now.rows - old.rows, rows);
            assert_int_equal(now.steps - old.steps, 1);
        }
        free(before);
        paging_free(&p);
        bt_decode_free(e);
        model_close(&s);
    }
}

/* ---- refusals ---- */

static void check_refusals(const form *f)
{
    const size_t len[2] = {16, 20};
    uint64_t seed = 1;
    solo s = {.pkg = NULL};
    model_open(&s, f);
    bt_decode *e = engine_new(&s, f, NULL, NULL, 8);
    paging p = paging_new(s.kit.model, len, 2, 16, 2, &seed);
    bt_kv_view narrow = p.view[1], longer = p.view[1];
    const int32_t good[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, above[2] = {1, 384}, below[1] = {-1};
    narrow.head_dim = 8;
    longer.tokens_capacity = 4096; /* more than the engine's context */
    const struct {
        bt_decode_seq second;
        bt_err e;
        const char *says;
    } cases[] = {
        {{.kv = &p.view[1], .pos = 0, .tokens = good, .count = 0, .out = 0}, BT_EARG, "0 tokens"},
        {{.kv = &p.view[1], .pos = 0, .tokens = good, .count = 2, .out = 3}, BT_EARG, "3 of them"},
        {{.kv = &p.view[1], .pos = 0, .tokens = good, .count = 8, .out = 0},
         BT_EARG,
         "9 rows in a step; at most 8"},
        {{.kv = &p.view[1], .pos = 0, .tokens = above, .count = 2, .out = 0}, BT_EARG, "token id 384"},
        {{.kv = &p.view[1], .pos = 0, .tokens = below, .count = 1, .out = 0}, BT_EARG, "token id -1"},
        {{.kv = &narrow, .pos = 0, .tokens = good, .count = 1, .out = 0}, BT_EARG, "heads of 8"},
        {{.kv = &p.view[1], .pos = 31, .tokens = good, .count = 2, .out = 0}, BT_ELIMIT, "the 32 positions"},
        {{.kv = &p.view[1], .pos = SIZE_MAX, .tokens = good, .count = 2, .out = 0},
         BT_ELIMIT,
         "the 32 positions"},
        {{.kv = &longer, .pos = 1023, .tokens = good, .count = 2, .out = 0}, BT_ELIMIT, "the 1024 positions"},
    };
    float *logits = engine_kit_floats(9 * s.kit.model->hp.vocab);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bt_decode_seq both[2] = {{.kv = &p.view[0], .tokens = good, .count = 1, .out = 1},
                                       cases[i].second};
        bt_fault fault = {""};
        assert_int_equal(bt_decode_step(e, both, 2, NULL, logits, &fault), cases[i].e);
        if (!strstr(fault.text, cases[i].says)) fail_msg("'%s' does not say '%s'", fault.text, cases[i].says);
    }
    for (size_t b = 0; b < p.len; b++) assert_int_equal(p.bytes[b], 0xff);
    assert_int_equal(bt_decode_stats_of(e).rows + bt_decode_stats_of(e).kv_bytes_written, 0);

    const bt_decode_seq one = {.kv = &p.view[0], .tokens = good, .count = 8};
    const atomic_bool cancelled = true;
    assert_int_equal(bt_decode_step(e, &one, 1, &cancelled, NULL, NULL), BT_ECANCEL);
    assert_int_equal(bt_decode_step(e, &one, 1, NULL, NULL, NULL), BT_OK); /* no logits wanted: none needed */
    assert_int_equal(bt_decode_step(e, NULL, 0, NULL, NULL, NULL), BT_OK);
    free(logits);
    paging_free(&p);
    bt_decode_free(e);
    model_close(&s);
}

static void a_step_that_is_refused_computes_nothing(void **state)
{
    (void)state;
    check_refusals(&(form){"llama", "f16", 2, NULL, 0, NULL});
    check_refusals(&(form){"llama", NULL, 2, "w8a8", BT_PKG_OPS_LINEAR, batches});
}

static void refuses_sizes_and_forms_it_does_not_have(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const struct {
        bt_decode_config c;
        const char *says;
    } cases[] = {
        {{.kv_elem_bytes = 4}, "no KV of f32"},
        {{.engine = "reference", .kv_elem_bytes = 2}, "no KV of f16"},
        {{.weights = "int3"}, "int3"},
        {{.rows_max = BT_DECODE_MAX_ROWS + 1}, "513 rows"},
        {{.engine = "npu", .kv_elem_bytes = 4}, "no KV of f32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_decode *e = NULL;
        bt_fault fault = {""};
        assert_int_equal(bt_decode_new(&e, kit.model, &cases[i].c, &fault), BT_EARG);
        if (!strstr(fault.text, cases[i].says)) fail_msg("'%s' does not say '%s'", fault.text, cases[i].says);
        assert_null(e);
    }
    engine_kit_done(&kit);
}

static void buckets_are_1_2_4_8_and_then_steps_of_8(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 24, 511, 512},
                        bucket[] = {1, 2, 4, 4, 8, 8, 16, 16, 24, 24, 512, 512};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(bt_decode_bucket(rows[i]), bucket[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_four_sequences_together_have_the_bits_of_each_alone),
        cmocka_unit_test(instruction_sets_and_threads_change_no_bit_of_a_batch),
        cmocka_unit_test(a_step_writes_the_rows_it_was_brought_and_no_other_byte),
        cmocka_unit_test(a_step_that_is_refused_computes_nothing),
        cmocka_unit_test(refuses_sizes_and_forms_it_does_not_have),
        cmocka_unit_test(buckets_are_1_2_4_8_and_then_steps_of_8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
