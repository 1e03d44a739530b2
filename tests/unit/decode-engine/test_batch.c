/* Batch invariance of the host engine: whatever shares a step with a row, however its sequence is paged, in how many rows it is brought and
 * after whatever drafts, its logits and its KV bytes are those of the sequence run alone, row by row. */
#include "decode-node/engine/engine.h"
#include "tests/helpers/engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SEQS = 64, LONGEST = 300, ROWS_MAX = 40, RUN_MAX = 9 };

typedef struct form { const char *arch, *weights; uint32_t kv_elem_bytes; } form;

static uint32_t next(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* ---- pages: one block of memory for all sequences, handed out in random order ---- */

typedef struct paging { bt_kv_view view[SEQS]; uint8_t **table, *bytes; size_t len; } paging;

static paging paging_new(const bt_model *m, const size_t *tokens, size_t seqs, size_t page_tokens, uint32_t elem_bytes, uint64_t *seed)
{
    paging p = {0};
    bt_kv_view v = {.page_tokens = page_tokens, .elem_bytes = elem_bytes, .layers = m->hp.layers, .kv_heads = m->hp.kv_heads,
                    .head_dim = m->hp.head_dim};
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
    memset(p.bytes, 0xff, p.len);           /* rows that nobody stored are NaN */
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
    size_t len[SEQS], vocab;
    int32_t ids[SEQS][LONGEST];
    float *logits[SEQS];                    /* [len, V] */
    uint64_t hash[SEQS];
} solo;

static dc_engine *engine_new(const solo *s, const form *f, const char *isa, bt_pool *pool, size_t rows_max)
{
    bt_fault fault = {""};
    dc_engine *e = NULL;
    const dc_engine_config c = {.isa = isa, .weights = f->weights, .kv_elem_bytes = f->kv_elem_bytes, .pool = pool, .rows_max = rows_max};
    if (dc_engine_new(&e, s->kit.model, &c, &fault) < 0) fail_msg("%s", fault.text);
    return e;
}

static solo *solo_new(const form *f, const char *isa, size_t seqs, uint64_t seed)
{
    solo *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->kit = engine_kit_model(f->arch);
    s->vocab = s->kit.model->hp.vocab;
    for (size_t i = 0; i < seqs; i++) s->len[i] = i == 0 ? 1 : i == 1 ? LONGEST : 1 + next(&seed, LONGEST);
    dc_engine *e = engine_new(s, f, isa, NULL, 1);
    paging p = paging_new(s->kit.model, s->len, seqs, 64, f->kv_elem_bytes, &seed);
    for (size_t i = 0; i < seqs; i++) {
        engine_kit_ids(s->ids[i], s->len[i], s->kit.model, (uint32_t)i + 7);
        s->logits[i] = engine_kit_floats(s->len[i] * s->vocab);
        for (size_t pos = 0; pos < s->len[i]; pos++) {
            const dc_engine_seq one = {&p.view[i], pos, &s->ids[i][pos], 1, 1};
            assert_int_equal(dc_engine_step(e, &one, 1, NULL, s->logits[i] + pos * s->vocab, NULL), BT_OK);
        }
        s->hash[i] = engine_kit_hash(&p.view[i], s->len[i]);
    }
    paging_free(&p);
    dc_engine_free(e);
    return s;
}

static void solo_free(solo *s)
{
    for (size_t i = 0; i < SEQS; i++) free(s->logits[i]);
    engine_kit_done(&s->kit);
    free(s);
}

/* ---- the same sequences together ---- */

typedef struct brought { size_t seq, pos, count, right; int32_t tokens[RUN_MAX]; } brought;  /* right: rows before the first wrong draft */

/* A run of rows of one sequence: mostly one, sometimes a replay, sometimes drafts of which the last ones are wrong. */
static brought bring(const solo *s, size_t seq, size_t pos, size_t room, uint64_t *seed)
{
    const size_t left = s->len[seq] - pos, most = room < left ? room : left;
    brought b = {.seq = seq, .pos = pos, .count = 1};
    if (next(seed, 3) == 0) b.count = 1 + next(seed, (uint32_t)(most < RUN_MAX ? most : RUN_MAX));
    b.right = next(seed, 2) ? b.count : 1 + next(seed, (uint32_t)b.count);
    for (size_t i = 0; i < b.count; i++) b.tokens[i] = (int32_t)((uint32_t)(s->ids[seq][pos + i] + (i >= b.right)) % s->vocab);
    return b;
}

/* Every sequence comes to its end; who is in a step is drawn anew each time. */
static void run_together(const solo *s, size_t seqs, const form *f, const char *isa, bt_pool *pool, size_t page_tokens, uint64_t seed)
{
    size_t pos[SEQS] = {0}, done = 0;
    dc_engine *e = engine_new(s, f, isa, pool, ROWS_MAX);
    paging p = paging_new(s->kit.model, s->len, seqs, page_tokens, f->kv_elem_bytes, &seed);
    float *logits = engine_kit_floats(ROWS_MAX * s->vocab);
    while (done < seqs) {
        dc_engine_seq item[ROWS_MAX];
        brought b[ROWS_MAX];
        size_t n = 0, rows = 0, at = 0;
        const size_t want = 1 + next(&seed, ROWS_MAX), from = next(&seed, (uint32_t)seqs), skip = 1 + next(&seed, 3);
        for (size_t k = 0; k < seqs && rows < want; k += skip) {
            const size_t i = (from + k) % seqs;
            if (pos[i] == s->len[i]) continue;
            b[n] = bring(s, i, pos[i], want - rows, &seed);
            item[n] = (dc_engine_seq){&p.view[i], pos[i], b[n].tokens, (uint32_t)b[n].count, next(&seed, (uint32_t)b[n].count + 1)};
            rows += b[n++].count;
        }
        assert_int_equal(dc_engine_step(e, item, n, NULL, logits, NULL), BT_OK);
        for (size_t i = 0; i < n; i++) {
            for (size_t j = b[i].count - item[i].out; j < b[i].count; j++, at++)
                if (j < b[i].right)
                    assert_memory_equal(logits + at * s->vocab, s->logits[b[i].seq] + (b[i].pos + j) * s->vocab, s->vocab * sizeof *logits);
            pos[b[i].seq] += b[i].right;
            done += pos[b[i].seq] == s->len[b[i].seq];
        }
    }
    for (size_t i = 0; i < seqs; i++) assert_true(engine_kit_hash(&p.view[i], s->len[i]) == s->hash[i]);
    free(logits);
    paging_free(&p);
    dc_engine_free(e);
}

static const form forms[] = {{"qwen3", "f16", 2}, {"llama", "f16", 1}};

static void sixty_four_sequences_together_have_the_bits_of_each_alone(void **state)
{
    (void)state;
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        print_message("%s, weights %s, KV of %u bytes, seed %zu\n", forms[i].arch, forms[i].weights, forms[i].kv_elem_bytes, i + 1);
        solo *s = solo_new(&forms[i], NULL, SEQS, i + 1);
        run_together(s, SEQS, &forms[i], NULL, pool, i % 2 ? 16 : 64, i + 100);
        solo_free(s);
    }
    bt_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_four_sequences_together_have_the_bits_of_each_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
