/* Several prompts through the prefill door at once: each has the KV, logits and hooks that it has alone; they
 * share runs where that computes no more rows. */
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 256, PAGE = 16, PROMPTS = 6, EVENTS = 4096 };

static bt_pkg *package(const bt_model *m, const char *rows)
{
    char list[] = "/tmp/baton-rows-XXXXXX", policy[64];
    const int fd = mkstemp(list);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, rows, strlen(rows)), strlen(rows));
    close(fd);
    snprintf(policy, sizeof policy, "rows:%s", list);
    const npu_kit_options o = {.policy = policy, .ctx_tokens = CTX};
    bt_pkg *pkg = npu_kit_package(m, &o);
    unlink(list);
    return pkg;
}

/* The arguments of the hooks, of all prompts in the order of the calls. */
typedef struct told {
    size_t prompt, layer, begin, count;
} told;
typedef struct log {
    told event[EVENTS];
    size_t events;
    atomic_bool cancel;
    size_t cancel_at; /* events of prompt 0 until it is cancelled; 0: never */
} log;
typedef struct hook {
    log *log;
    size_t prompt;
} hook;

static void on_kv(void *ud, uint32_t layer, size_t begin, size_t count)
{
    const hook *h = ud;
    assert_true(h->log->events < EVENTS);
    h->log->event[h->log->events++] = (told){h->prompt, layer, begin, count};
    if (h->prompt == 0 && h->log->cancel_at && --h->log->cancel_at == 0) atomic_store(&h->log->cancel, true);
}

typedef struct world {
    engine_kit kit;
    bt_pkg *pkg;
    bt_prefill *p;
    int32_t ids[PROMPTS][CTX];
    bt_kv_view kv[PROMPTS];
    float *logits[PROMPTS];
    hook hook[PROMPTS];
    bt_prefill_hooks hooks[PROMPTS];
    bt_prefill_seq seq[PROMPTS];
    log log;
} world;

static world *begin(const char *rows, bt_pool *pool)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->kit = engine_kit_model("qwen2");
    w->pkg = package(w->kit.model, rows);
    w->p = npu_kit_engine(w->kit.model, w->pkg, CTX, NULL, pool, 2);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        engine_kit_ids(w->ids[i], CTX, w->kit.model, 50 + i);
        w->kv[i] = engine_kit_pages(w->kit.model, CTX, PAGE, 2);
        w->logits[i] = engine_kit_floats(w->kit.model->hp.vocab);
        w->hook[i] = (hook){&w->log, i};
        w->hooks[i] =
            (bt_prefill_hooks){.on_kv = on_kv, .ud = &w->hook[i], .cancel = i ? NULL : &w->log.cancel};
        w->seq[i] = (bt_prefill_seq){.kv = &w->kv[i], .ids = w->ids[i], .hooks = &w->hooks[i],
                                     .logits = w->logits[i]};
    }
    return w;
}

static void end(world *w)
{
    for (size_t i = 0; i < PROMPTS; i++) {
        engine_kit_pages_free(&w->kv[i]);
        free(w->logits[i]);
    }
    bt_prefill_free(w->p);
    bt_pkg_close(w->pkg);
    engine_kit_done(&w->kit);
    free(w);
}

/* Prompt i, which ended: the bytes it has alone, and nothing behind them; its hooks told every row of every
 * layer once, without a gap. */
static void check_prompt(world *w, size_t i)
{
    const size_t n = w->seq[i].n, bytes = w->kit.model->hp.vocab * sizeof(float);
    bt_kv_view kv = engine_kit_pages(w->kit.model, CTX, PAGE, w->kv[i].elem_bytes);
    float *logits = engine_kit_floats(w->kit.model->hp.vocab);
    assert_int_equal(w->seq[i].result, BT_OK);
    assert_int_equal(bt_prefill_run(w->p, &kv, w->ids[i], w->seq[i].pos0 + n, 0, NULL, logits,
                                    BT_PREFILL_LAST, NULL),
                     BT_OK);
    assert_true(engine_kit_hash(&kv, w->seq[i].pos0 + n) == engine_kit_hash(&w->kv[i], w->seq[i].pos0 + n));
    assert_true(engine_kit_untouched(&w->kv[i], w->seq[i].pos0 + n, CTX));
    assert_memory_equal(logits, w->logits[i], bytes);
    for (uint32_t l = 0; l < w->kit.model->hp.layers; l++) {
        size_t at = w->seq[i].pos0;
        for (size_t e = 0; e < w->log.events; e++) {
            const told *t = &w->log.event[e];
            if (t->prompt != i || t->layer != l) continue;
            assert_int_equal(t->begin, at);
            at += t->count;
        }
        assert_int_equal(at, w->seq[i].pos0 + n);
    }
    free(logits);
    engine_kit_pages_free(&kv);
}

/* All prompts of these lengths at once. The one in the middle goes on where an earlier prompt ended. */
static void check_batch(world *w, const size_t length[PROMPTS])
{
    const size_t first = length[3] / 2;
    for (size_t i = 0; i < PROMPTS; i++) w->seq[i].n = length[i];
    if (first)
        assert_int_equal(bt_prefill_run(w->p, &w->kv[3], w->ids[3], first, 0, NULL, w->logits[3],
                                        BT_PREFILL_LAST, NULL),
                         BT_OK);
    w->seq[3].pos0 = first;
    w->seq[3].ids += first;
    w->seq[3].n -= first;
    bt_prefill_run_batch(w->p, w->seq, PROMPTS);
    for (size_t i = 0; i < PROMPTS; i++) check_prompt(w, i);
}

#define ROW(batch, seq, ctx) "{\"batch_size\":" #batch ",\"seq_len\":" #seq ",\"ctx_len\":" #ctx "}"
static const char both[] = "[" ROW(1, 16, 256) "," ROW(1, 64, 256) "," ROW(4, 16, 256) "," ROW(
    4, 64, 128) "," ROW(2, 64, 256) "," ROW(8, 1, 256) "]";

static void prompts_of_a_batch_have_the_bytes_of_prompts_alone(void **state)
{
    (void)state;
    static const size_t lengths[][PROMPTS] = {{64, 64, 64, 64, 64, 64},
                                              {1, 2, 3, 4, 5, 6},
                                              {200, 30, 64, 250, 17, 129},
                                              {16, 16, 16, 16, 250, 250}};
    bt_pool *pool = NULL;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        world *w = begin(both, k % 2 ? pool : NULL);
        assert_int_equal(bt_prefill_batch_max(w->p), 4);
        check_batch(w, lengths[k]);
        end(w);
    }
    bt_pool_free(pool);
}

/* How many prompts the first run had: their hooks of layer 0 come before any of layer 1. */
static size_t first_run(const world *w)
{
    size_t n = 0;
    while (n < w->log.events && w->log.event[n].layer == 0) n++;
    return n;
}

static void they_share_a_run_where_that_computes_no_more_rows(void **state)
{
    (void)state;
    static const struct {
        const char *rows;
        size_t prompts, length[4], in_run, computed, padding;
    } of[] = {
        {both, 4, {64, 64, 64, 60}, 4, 256, 0},
        {both, 4, {10, 9, 8, 7}, 4, 64, 0},
        {both, 2, {64, 64}, 2, 128, 0},
        {both, 3, {64, 64, 64}, 1, 192, 0}, /* one alone, then two; a batch of 4 would compute 256 */
        {both, 2, {64, 10}, 1, 80, 0},      /* each in its own length */
        {both, 1, {64}, 1, 64, 0},
        {"[" ROW(1, 64, 256) "]", 3, {64, 64, 64}, 1, 192, 0},
        /* no other batch: one prompt leaves its places empty, three share them */
        {"[" ROW(4, 16, 256) "," ROW(4, 1, 256) "]", 1, {20}, 1, 128, 96},
        {"[" ROW(4, 16, 256) "," ROW(4, 1, 256) "]", 3, {16, 16, 5}, 3, 64, 16},
    };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        world *w = begin(of[k].rows, NULL);
        for (size_t i = 0; i < of[k].prompts; i++) w->seq[i].n = of[k].length[i];
        bt_prefill_run_batch(w->p, w->seq, of[k].prompts);
        assert_int_equal(first_run(w), of[k].in_run);
        assert_int_equal(bt_prefill_work(w->p).rows, of[k].computed);
        assert_int_equal(bt_prefill_work(w->p).batch_padding_rows, of[k].padding);
        for (size_t i = 0; i < of[k].prompts; i++) check_prompt(w, i);
        end(w);
    }
}

static void a_batch_whose_context_is_too_short_is_not_used(void **state)
{
    (void)state;
    world *w = begin("[" ROW(1, 64, 256) "," ROW(2, 64, 64) "]", NULL);
    w->seq[0].n = w->seq[1].n = 200;
    bt_prefill_run_batch(w->p, w->seq, 2);
    assert_int_equal(first_run(w), 2); /* the first 64 tokens of both; the others one prompt after the other
                                        */
    for (size_t i = 0; i < 2; i++) check_prompt(w, i);
    end(w);
}

static void one_that_fails_or_is_cancelled_changes_nothing_for_the_others(void **state)
{
    (void)state;
    world *w = begin(both, NULL);
    for (size_t i = 0; i < PROMPTS; i++) w->seq[i].n = 130;
    w->seq[1].n = 0;
    w->seq[2].n = CTX + 1;
    w->ids[4][129] = -1;
    w->log.cancel_at = 1; /* within its first run */
    bt_prefill_run_batch(w->p, w->seq, PROMPTS);
    assert_int_equal(w->seq[0].result, BT_ECANCEL);
    assert_int_equal(w->seq[1].result, BT_EARG);
    assert_int_equal(w->seq[2].result, BT_EARG);
    assert_non_null(strstr(w->seq[2].fault.text, "257"));
    assert_int_equal(w->seq[4].result, BT_EARG);
    assert_true(engine_kit_untouched(&w->kv[4], 0, CTX));
    check_prompt(w, 3);
    check_prompt(w, 5);
    for (size_t e = 0; e < w->log.events; e++)
        assert_true(w->log.event[e].prompt || w->log.event[e].begin < 64);
    end(w);
}

/* ---- packed ---- */

static const char one[] = "[" ROW(1, 16, 256) "," ROW(1, 64, 256) "," ROW(1, 128, 256) "," ROW(8, 1, 256) "]";

/* A world whose prompts are packed: by a package without batches, or by the host. */
static world *begin_packed(bool is_npu, bt_pool *pool, const char *isa, uint32_t kv_elem_bytes)
{
    world *w = begin(one, pool);
    bt_prefill_free(w->p);
    w->p = npu_kit_engine(w->kit.model, is_npu ? w->pkg : NULL, CTX, isa, pool, kv_elem_bytes);
    for (size_t i = 0; i < PROMPTS; i++) {
        engine_kit_pages_free(&w->kv[i]);
        w->kv[i] = engine_kit_pages(w->kit.model, CTX, PAGE, kv_elem_bytes);
    }
    return w;
}

static const size_t lengths[][PROMPTS] = {{20, 20, 20, 20, 20, 20},
                                          {1, 2, 3, 4, 5, 6},
                                          {64, 64, 64, 64, 64, 64},
                                          {200, 30, 64, 250, 17, 129},
                                          {130, 1, 1, 1, 1, 256}};

static void packed_prompts_have_the_bytes_of_prompts_alone(void **state)
{
    (void)state;
    bt_pool *pool = NULL;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    for (int is_npu = 0; is_npu < 2; is_npu++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            world *w = begin_packed(is_npu, k % 2 ? pool : NULL, NULL, k == 3 ? 1 : 2);
            assert_int_equal(bt_prefill_packed_rows(w->p), is_npu ? 128 : 256);
            check_batch(w, lengths[k]);
            end(w);
        }
    bt_pool_free(pool);
}

static uint64_t digest_of(const world *w, size_t i) { return engine_kit_hash(&w->kv[i], w->seq[i].n); }

/* The prompts beside it, their order and the kernels are no prompt's concern. */
static void order_and_kernels_change_no_bit_of_packed_prompts(void **state)
{
    (void)state;
    static const size_t orders[][PROMPTS] = {{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {3, 0, 5, 1, 4, 2}};
    for (int is_npu = 0; is_npu < 2; is_npu++) {
        uint64_t want[PROMPTS] = {0};
        for (size_t k = 0; k < bt_kernels_table_len; k++)
            for (size_t o = 0; o < 3 && rows_usable(&bt_kernels_table[k]); o++) {
                world *w = begin_packed(is_npu, NULL, bt_kernels_table[k].isa, 2);
                bt_prefill_seq seq[PROMPTS];
                for (size_t i = 0; i < PROMPTS; i++) w->seq[i].n = 3 + 11 * i;
                for (size_t i = 0; i < PROMPTS; i++) seq[i] = w->seq[orders[o][i]];
                bt_prefill_run_batch(w->p, seq, PROMPTS);
                for (size_t i = 0; i < PROMPTS; i++) {
                    assert_int_equal(seq[i].result, BT_OK);
                    if (!want[i]) want[i] = digest_of(w, i);
                    assert_true(digest_of(w, i) == want[i]);
                }
                end(w);
            }
    }
}

/* Prompt 0 row by row from 20 on, as a decode step brings its rows; of those only the last two want logits.
 */
static void rows_of_one_sequence_behind_each_other_have_the_bytes_of_its_prompt(void **state)
{
    (void)state;
    for (int is_npu = 0; is_npu < 2; is_npu++) {
        world *w = begin_packed(is_npu, NULL, NULL, 2);
        const size_t vocab = w->kit.model->hp.vocab;
        bt_overflow overflow = {0};
        bt_prefill_seq seq[4] = {w->seq[0], w->seq[0], w->seq[0], w->seq[1]};
        float *want = engine_kit_floats(vocab), *before = engine_kit_floats(vocab);
        seq[0].n = 22, seq[0].logits = NULL;
        seq[1].pos0 = 22, seq[1].ids += 22, seq[1].n = 1, seq[1].logits = w->logits[4];
        seq[2].pos0 = 23, seq[2].ids += 23, seq[2].n = 1;
        for (size_t i = 0; i < 3; i++) seq[i].overflow = &overflow;
        seq[3].n = 40;
        bt_prefill_run_batch(w->p, seq, 4);
        for (size_t i = 0; i < 4; i++) assert_int_equal(seq[i].result, BT_OK);
        assert_false(bt_overflow_get(NULL, &overflow));
        const uint64_t digest = engine_kit_hash(&w->kv[0], 24);
        assert_int_equal(
            bt_prefill_run(w->p, &w->kv[0], w->ids[0], 23, 0, NULL, before, BT_PREFILL_LAST, NULL), BT_OK);
        assert_int_equal(bt_prefill_run(w->p, &w->kv[0], w->ids[0], 24, 0, NULL, want, BT_PREFILL_LAST, NULL),
                         BT_OK);
        assert_memory_equal(before, w->logits[4], vocab * sizeof(float));
        assert_memory_equal(want, w->logits[0], vocab * sizeof(float));
        assert_true(engine_kit_hash(&w->kv[0], 24) == digest);
        seq[0].logits = NULL; /* one alone, without */
        bt_prefill_run_batch(w->p, seq, 1);
        assert_int_equal(seq[0].result, BT_OK);
        free(want);
        free(before);
        end(w);
    }
}

static void packed_prompts_fill_the_rows_of_a_chunk(void **state)
{
    (void)state;
    static const struct {
        size_t prompts, length[PROMPTS], in_run, computed;
    } of[] = {
        {6, {20, 20, 20, 20, 20, 20}, 6, 128}, /* 120 in one chunk; alone 6 x 64 */
        {3, {5, 5, 6}, 3, 16},
        {4, {60, 60, 60, 60}, 3, 256}, /* two and the beginning of the third; its rest and the fourth */
        {2, {1, 1}, 2, 16},
        {1, {20}, 1, 64},
        {2, {200, 10}, 1, 256}, /* the first chunk is full; its rest goes with the next */
    };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        world *w = begin_packed(true, NULL, NULL, 2);
        for (size_t i = 0; i < of[k].prompts; i++) w->seq[i].n = of[k].length[i];
        bt_prefill_run_batch(w->p, w->seq, of[k].prompts);
        assert_int_equal(first_run(w), of[k].in_run);
        assert_int_equal(bt_prefill_work(w->p).rows, of[k].computed);
        for (size_t i = 0; i < of[k].prompts; i++) check_prompt(w, i);
        end(w);
    }
}

static void a_packed_prompt_that_fails_or_is_cancelled_changes_nothing_for_the_others(void **state)
{
    (void)state;
    for (int is_npu = 0; is_npu < 2; is_npu++) {
        world *w = begin_packed(is_npu, NULL, NULL, 2);
        for (size_t i = 0; i < PROMPTS; i++) w->seq[i].n = 130;
        w->seq[1].n = 0;
        w->ids[4][129] = -1;
        w->seq[0].n = 250;
        w->seq[0].ids = w->ids[0];
        w->log.cancel_at = 1; /* within its first run */
        bt_prefill_run_batch(w->p, w->seq, PROMPTS);
        assert_int_equal(w->seq[0].result, is_npu ? BT_ECANCEL : BT_OK); /* the host computes it in one run */
        assert_int_equal(w->seq[1].result, BT_EARG);
        assert_int_equal(w->seq[4].result, BT_EARG);
        assert_true(engine_kit_untouched(&w->kv[4], 0, CTX));
        check_prompt(w, 2);
        check_prompt(w, 3);
        check_prompt(w, 5);
        end(w);
    }
}

/* Attention of the NPU's over one sequence, or sparse: such programs are not packed, and the prompts run
 * alone. */
static void programs_that_know_one_sequence_are_not_packed(void **state)
{
    (void)state;
    for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
        world *w = begin(one, NULL);
        bt_prefill_free(w->p);
        bt_pkg_close(w->pkg);
        w->pkg = is_sparse ? npu_kit_sparse(w->kit.model, "sparse:0.5", "chunk:64+tail", CTX)
                           : npu_kit_compiled(w->kit.model, "w8a8", BT_PKG_OPS_ALL, "chunk:64+tail", CTX);
        w->p = npu_kit_engine(w->kit.model, w->pkg, CTX, NULL, NULL, 2);
        assert_int_equal(bt_prefill_packed_rows(w->p), 0);
        assert_int_equal(bt_prefill_batch_max(w->p), 1);
        for (size_t i = 0; i < PROMPTS; i++) w->seq[i].n = 20 + 7 * i;
        bt_prefill_run_batch(w->p, w->seq, PROMPTS);
        for (size_t i = 0; i < PROMPTS; i++) check_prompt(w, i);
        end(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_of_a_batch_have_the_bytes_of_prompts_alone),
        cmocka_unit_test(they_share_a_run_where_that_computes_no_more_rows),
        cmocka_unit_test(a_batch_whose_context_is_too_short_is_not_used),
        cmocka_unit_test(one_that_fails_or_is_cancelled_changes_nothing_for_the_others),
        cmocka_unit_test(packed_prompts_have_the_bytes_of_prompts_alone),
        cmocka_unit_test(order_and_kernels_change_no_bit_of_packed_prompts),
        cmocka_unit_test(rows_of_one_sequence_behind_each_other_have_the_bytes_of_its_prompt),
        cmocka_unit_test(packed_prompts_fill_the_rows_of_a_chunk),
        cmocka_unit_test(a_packed_prompt_that_fails_or_is_cancelled_changes_nothing_for_the_others),
        cmocka_unit_test(programs_that_know_one_sequence_are_not_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
