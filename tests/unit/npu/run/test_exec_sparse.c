/* Sparse attention of prompts: which positions a row keeps depends on its own position alone, so that no
 * chunking, thread, instruction set, page, neighbour or prefix changes a bit; with all positions kept it is
 * dense attention; decoding is dense. */
#include "engine/prefill.h"
#include "npu/pkg/attention.h"
#include "npu/run/exec.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 1024, N = 330, PAGE = 16 };

typedef struct world {
    engine_kit kit;
    const bt_model *m;
    int32_t ids[CTX];
    size_t vocab;
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model(arch)};
    w.m = w.kit.model;
    engine_kit_ids(w.ids, CTX, w.m, 11);
    w.vocab = w.m->hp.vocab;
    return w;
}

static void end(world *w) { engine_kit_done(&w->kit); }

/* KV and all logits of a prompt of n. */
typedef struct run {
    uint64_t hash;
    float *logits;
    bt_report_work work;
} run;

static run run_on(const world *w, const bt_pkg *pkg, const char *isa, bt_pool *pool, uint32_t elem,
                  size_t page, size_t n)
{
    run r = {.logits = engine_kit_floats(n * w->vocab)};
    bt_prefill *p = npu_kit_engine(w->m, pkg, CTX, isa, pool, elem);
    bt_kv_view kv = engine_kit_pages(w->m, CTX, page, elem);
    assert_int_equal(bt_prefill_run(p, &kv, w->ids, n, 0, NULL, r.logits, BT_PREFILL_ALL, NULL), BT_OK);
    assert_true(engine_kit_untouched(&kv, n, CTX));
    r.hash = engine_kit_hash(&kv, n);
    r.work = bt_prefill_work(p);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    return r;
}

static void same(const world *w, const run *a, const run *b, size_t n)
{
    assert_true(a->hash == b->hash);
    assert_memory_equal(a->logits, b->logits, n * w->vocab * sizeof *a->logits);
}

static void no_bit_changes(const char *const attention[3])
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3"}; /* heads of 16 and 24 */
    static const size_t pages[] = {16, 64, 256};
    bt_pool *pool[2] = {NULL, NULL};
    assert_int_equal(bt_pool_new(&pool[1], 2, NULL), BT_OK);
    for (size_t a = 0; a < 3; a++) {
        const char *const policies[] = {"chunk:16",         "chunk:64", "chunk:256",
                                        "chunk:256+tail:1", "pow2",     a ? "range:7-96" : "range:7-100"};
        world w = begin(archs[a]);
        run first[2] = {{0}, {0}};
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            bt_pkg *pkg = npu_kit_sparse(w.m, attention[a], policies[i], CTX);
            for (size_t k = 0; k < bt_kernels_table_len; k++) {
                const bool is_ref = k == bt_kernels_table_len - 1;
                if (!rows_usable(&bt_kernels_table[k]) || (is_ref && i != a + 2)) continue; /* slow */
                for (uint32_t elem = 1; elem <= 2; elem++) {
                    run r = run_on(&w, pkg, bt_kernels_table[k].isa, pool[(i + a) % 2], elem,
                                   pages[(i + k) % 3], N);
                    assert_int_equal(r.work.dense_rows, 37);
                    assert_int_equal(r.work.sparse_rows, N - 37);
                    if (first[elem - 1].logits) {
                        same(&w, &r, &first[elem - 1], N);
                        free(r.logits);
                    } else first[elem - 1] = r;
                }
            }
            bt_pkg_close(pkg);
        }
        free(first[0].logits);
        free(first[1].logits);
        end(&w);
    }
    bt_pool_free(pool[1]);
}

static void chunks_threads_pages_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    no_bit_changes((const char *const[]){"sparse:0.3,dense=37", "sparse:0.3,dense=37",
                                         "sparse:0.3,dense=37"});
}

static void nor_do_they_where_rows_or_heads_share_a_choice(void **state)
{
    (void)state;
    no_bit_changes((const char *const[]){"sparse:0.3,dense=37,group", "sparse:0.3,dense=37,rows=16",
                                         "sparse:0.3,dense=37,rows=8,group"});
}

/* Rows that keep few positions attend one by one, or by a few. */
static void nor_do_they_where_few_are_kept(void **state)
{
    (void)state;
    no_bit_changes((const char *const[]){"sparse:0.02,dense=37", "sparse:0.05,dense=37,group",
                                         "sparse:0.02,dense=37,group"});
}

/* The first row of a block attends to what it would keep alone, and so has its bits behind the first layer.
 * Hardly any other row does. */
static void of_a_block_the_first_row_chooses(void **state)
{
    (void)state;
    world w = begin("llama");
    const bt_hparams *hp = &w.m->hp;
    size_t alike[2] = {0, 0}, all[2] = {0, 0};
    bt_kv_view kv[2];
    for (int is_block = 0; is_block < 2; is_block++) {
        bt_pkg *pkg =
            npu_kit_sparse(w.m, is_block ? "sparse:0.3,dense=33,rows=4" : "sparse:0.3,dense=33", NULL, CTX);
        bt_prefill *p = npu_kit_engine(w.m, pkg, CTX, NULL, NULL, 2);
        float *logits = engine_kit_floats(w.vocab);
        kv[is_block] = engine_kit_pages(w.m, CTX, PAGE, 2);
        assert_int_equal(bt_prefill_run(p, &kv[is_block], w.ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                         BT_OK);
        free(logits);
        bt_prefill_free(p);
        bt_pkg_close(pkg);
    }
    for (size_t row = 33; row < N; row++) {
        const bool is_first = row % 4 == 0 || row == 33;
        bool is_same = true;
        for (uint32_t g = 0; g < hp->kv_heads; g++)
            is_same = is_same && !memcmp(bt_kv_view_row(&kv[0], 1, 0, row, g),
                                         bt_kv_view_row(&kv[1], 1, 0, row, g), kv[0].head_bytes);
        all[!is_first]++;
        alike[!is_first] += is_same;
    }
    assert_int_equal(alike[0], all[0]);
    assert_true(alike[1] < all[1] / 10);
    engine_kit_pages_free(&kv[0]), engine_kit_pages_free(&kv[1]);
    end(&w);
}

static double apart(const float *a, const float *b, size_t n)
{
    double diff = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        diff += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(diff / all);
}

static void all_positions_are_dense_attention_and_few_are_near_it(void **state)
{
    (void)state;
    enum { LONG = 900, DENSE = 300 };
    static const struct {
        const char *arch, *choice;
        double most; /* with the least in the place of the greatest: 1.09. Random rows have little in common
                        to share */
    } forms[] = {{"llama", "", 0.35},
                 {"qwen3", "", 0.35},
                 {"llama", ",group", 0.45},
                 {"qwen3", ",rows=16", 0.7},
                 {"llama", ",rows=16,group", 0.9}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        char whole[64], few[64];
        world w = begin(forms[f].arch);
        snprintf(whole, sizeof whole, "sparse:1,dense=0%s", forms[f].choice);
        snprintf(few, sizeof few, "sparse:0.3,dense=%d%s", DENSE, forms[f].choice);
        bt_pkg *dense = npu_kit_sparse(w.m, NULL, NULL, CTX), *all = npu_kit_sparse(w.m, whole, NULL, CTX),
               *some = npu_kit_sparse(w.m, few, NULL, CTX);
        run d = run_on(&w, dense, NULL, NULL, 2, PAGE, LONG), e = run_on(&w, all, NULL, NULL, 2, PAGE, LONG),
            s = run_on(&w, some, NULL, NULL, 2, PAGE, LONG);
        same(&w, &d, &e, LONG);
        assert_int_equal(e.work.sparse_rows, LONG);
        assert_int_equal(d.work.sparse_rows + d.work.dense_rows, 0);
        assert_memory_equal(s.logits, d.logits, DENSE * w.vocab * sizeof *s.logits); /* rows in front are
                                                                                        dense */
        const size_t at = DENSE * w.vocab, count = (LONG - DENSE) * w.vocab;
        const double off = apart(s.logits + at, d.logits + at, count);
        print_message("%s, %s: logits off by %.5f of their size\n", few, forms[f].arch, off);
        assert_true(off > 0 && off < forms[f].most);
        free(d.logits), free(e.logits), free(s.logits);
        bt_pkg_close(dense), bt_pkg_close(all), bt_pkg_close(some);
        end(&w);
    }
}

static void a_prompt_in_two_parts_has_the_bytes_of_the_whole(void **state)
{
    static const char *const attention[] = {"sparse:0.2,dense=40", "sparse:0.2,dense=40,rows=16,group"};
    (void)state;
    for (int f = 0; f < 2; f++) {
        world w = begin("llama");
        bt_pkg *pkg = npu_kit_sparse(w.m, attention[f], "chunk:64+tail", CTX);
        bt_prefill *p = npu_kit_engine(w.m, pkg, CTX, NULL, NULL, 2);
        assert_int_equal(bt_prefill_grid_rows(p), f ? 16 : 1);
        npu_kit_check_cuts(p, w.m, w.ids, N);
        bt_prefill_free(p);
        bt_pkg_close(pkg);
        end(&w);
    }
}

static void prompts_that_share_runs_have_the_bytes_that_each_has_alone(void **state)
{
    (void)state;
    enum { PROMPTS = 3 };
    static const size_t length[PROMPTS] = {20, 61, 100};
    world w = begin("llama");
    bt_pkg *pkg = npu_kit_sparse(w.m, "sparse:0.25,dense=10",
                                 "[{\"batch_size\":1,\"seq_len\":64,\"ctx_len\":256},{\"batch_size\":4,\"seq_"
                                 "len\":32,\"ctx_len\":256}]",
                                 256);
    bt_prefill *p = npu_kit_engine(w.m, pkg, 256, NULL, NULL, 2);
    bt_kv_view kv[2][PROMPTS];
    float *logits[2][PROMPTS];
    bt_prefill_seq seq[PROMPTS];
    for (size_t i = 0; i < PROMPTS; i++) {
        for (int t = 0; t < 2; t++) {
            kv[t][i] = engine_kit_pages(w.m, 256, PAGE, 2);
            logits[t][i] = engine_kit_floats(w.vocab);
        }
        assert_int_equal(bt_prefill_run(p, &kv[0][i], w.ids + 7 * i, length[i], 0, NULL, logits[0][i],
                                        BT_PREFILL_LAST, NULL),
                         BT_OK);
        seq[i] =
            (bt_prefill_seq){.kv = &kv[1][i], .ids = w.ids + 7 * i, .n = length[i], .logits = logits[1][i]};
    }
    assert_true(bt_prefill_batch_max(p) > 1);
    bt_prefill_run_batch(p, seq, PROMPTS);
    for (size_t i = 0; i < PROMPTS; i++) {
        assert_int_equal(seq[i].result, BT_OK);
        assert_true(engine_kit_hash(&kv[1][i], length[i]) == engine_kit_hash(&kv[0][i], length[i]));
        assert_memory_equal(logits[0][i], logits[1][i], w.vocab * sizeof **logits[0]);
        for (int t = 0; t < 2; t++) {
            engine_kit_pages_free(&kv[t][i]);
            free(logits[t][i]);
        }
    }
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    end(&w);
}

/* Row by row: as a prompt's tail, and as decoding asks for it. */
static uint64_t steps(const world *w, const bt_pkg *pkg, bool is_dense, bt_exec_stats *stats)
{
    bt_exec *x;
    const bt_pkg_row *row;
    assert_int_equal(bt_exec_new(&x, pkg, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    assert_int_equal(bt_pkg_find_row(&row, pkg, 1, 1, 100, NULL), BT_OK);
    void *arena = engine_kit_alloc((size_t)bt_pkg_header_of(pkg)->arena_bytes);
    bt_kv_view kv = engine_kit_pages(w->m, 256, PAGE, 2);
    for (size_t i = 0; i < 100; i++) {
        const bt_exec_seq seq = {.ids = &w->ids[i], .kv = &kv, .pos0 = i, .valid = 1};
        const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = 1, .is_dense = is_dense};
        assert_int_equal(bt_exec_run(x, row, BT_PKG_OUT_NONE, arena, &io, NULL), BT_OK);
    }
    const uint64_t hash = engine_kit_hash(&kv, 100);
    *stats = bt_exec_stats_of(x);
    engine_kit_pages_free(&kv);
    free(arena);
    bt_exec_free(x);
    return hash;
}

static void decoding_is_dense(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_pkg *dense = npu_kit_sparse(w.m, NULL, "chunk:64+tail:1", 256),
           *sparse = npu_kit_sparse(w.m, "sparse:0.1,dense=0", "chunk:64+tail:1", 256);
    bt_exec_stats of[3];
    const uint64_t a = steps(&w, dense, false, &of[0]), b = steps(&w, sparse, true, &of[1]),
                   c = steps(&w, sparse, false, &of[2]);
    assert_true(a == b && a != c);
    assert_int_equal(of[0].sparse_rows + of[1].sparse_rows, 0);
    assert_int_equal(of[2].sparse_rows, 100);
    assert_int_equal(of[0].npu_macs, of[1].npu_macs);
    bt_pkg_close(dense);
    bt_pkg_close(sparse);
    end(&w);
}

/* The estimate is the NPU's and takes all that a choosing row sees; exact attention is the companion's and
 * takes what is kept. rows, heads: that share a choice. */
static void count_work(const char *attention, size_t rows, size_t heads)
{
    enum { DENSE = 37 };
    world w = begin("qwen2");
    const bt_hparams *hp = &w.m->hp;
    bt_pkg *dense = npu_kit_sparse(w.m, NULL, "chunk:64", CTX),
           *sparse = npu_kit_sparse(w.m, attention, "chunk:64", CTX);
    const bt_pkg_head *head = bt_pkg_const_at(sparse, bt_pkg_header_of(sparse)->sparse_heads);
    run d = run_on(&w, dense, NULL, NULL, 2, PAGE, N), s = run_on(&w, sparse, NULL, NULL, 2, PAGE, N);
    uint64_t seen = 0, kept = 0, in_front = 0;
    for (uint64_t row = 0; row < N; row++)
        for (uint32_t i = 0; i < hp->layers * hp->heads; i++) {
            const uint64_t block = row - row % rows, first = block < DENSE ? DENSE : block;
            if (row < DENSE) in_front += row + 1;
            else {
                if (row == first && i % heads == 0) seen += row + 1;
                kept += (uint64_t)ceil((double)head[i].ppm * (double)(first + 1) / 1e6) + row - first;
            }
        }
    assert_int_equal(s.work.npu_macs - d.work.npu_macs, seen * hp->head_dim);
    assert_int_equal(s.work.companion_macs, 2 * hp->head_dim * (kept + in_front));
    free(d.logits), free(s.logits);
    bt_pkg_close(dense), bt_pkg_close(sparse);
    end(&w);
}
static void work_is_counted_as_it_is_done(void **state)
{
    (void)state;
    count_work("sparse:0.3,dense=37", 1, 1);
    count_work("sparse:0.3,dense=37,rows=16,group", 16, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_pages_and_instruction_sets_change_no_bit),
        cmocka_unit_test(nor_do_they_where_rows_or_heads_share_a_choice),
        cmocka_unit_test(nor_do_they_where_few_are_kept),
        cmocka_unit_test(of_a_block_the_first_row_chooses),
        cmocka_unit_test(all_positions_are_dense_attention_and_few_are_near_it),
        cmocka_unit_test(a_prompt_in_two_parts_has_the_bytes_of_the_whole),
        cmocka_unit_test(prompts_that_share_runs_have_the_bytes_that_each_has_alone),
        cmocka_unit_test(decoding_is_dense),
        cmocka_unit_test(work_is_counted_as_it_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
