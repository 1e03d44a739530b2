/* Attention over pages as the engines call it: decoding, chunks and mixed steps, f16 and int8, against
 * softmax in double precision and against the plain kernel, one row at a time, bit for bit. Numbers AC-f
 * are those of docs/testing.md. */
#include "graph/companion.h"
#include "base/rng.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
    HEADS = 6,
    KV_HEADS = 2,
    GROUP = 3,
    D = 32,
    WIDTH = HEADS * D,
    KV_WIDTH = KV_HEADS * D,
    LAYERS = 2,
    LAYER = 1,
    SEED = 5
};
static const float scale = 0.4f; /* sharper than 1 / sqrt(D): errors of scores count */
static bt_attn_rule rule = {.scale = 0.4f};

static uint64_t seed, draws; /* seed: of the test that runs */
static float unit(void) { return (float)bt_rng_uniform(seed, draws++) * 2 - 1; }
static size_t below(size_t n) { return (size_t)(bt_rng_u64(seed, draws++) % n); }
static void *taken(size_t bytes)
{
    void *p = malloc(bytes);
    assert_non_null(p);
    return p;
}

/* One sequence: K and V as they were, and pages of exactly their bytes in which every byte that was not
 * stored is 0xff: NaN. */
typedef struct sequence {
    bt_kv_view kv;
    uint8_t **page;
    size_t tokens, pages, page_bytes;
    float *k, *v;
} sequence;

/* `spare` pages stand behind the last token. */
static sequence sequence_new(size_t tokens, size_t page_tokens, uint32_t elem_bytes, size_t spare)
{
    sequence s = {.tokens = tokens, .pages = (tokens + page_tokens - 1) / page_tokens + spare};
    const size_t head = bt_kv_head_bytes(elem_bytes, D);
    s.kv = (bt_kv_view){.page_tokens = page_tokens,
                        .tokens_capacity = s.pages * page_tokens,
                        .layer_bytes = 2 * page_tokens * KV_HEADS * head,
                        .plane_bytes = page_tokens * KV_HEADS * head,
                        .token_bytes = KV_HEADS * head,
                        .head_bytes = head,
                        .elem_bytes = elem_bytes,
                        .layers = LAYERS,
                        .kv_heads = KV_HEADS,
                        .head_dim = D};
    s.page_bytes = LAYERS * s.kv.layer_bytes;
    s.page = taken(s.pages * sizeof *s.page);
    for (size_t i = 0; i < s.pages; i++) memset(s.page[i] = taken(s.page_bytes), 0xff, s.page_bytes);
    s.kv.page = s.page;
    s.k = taken(tokens * KV_WIDTH * sizeof *s.k);
    s.v = taken(tokens * KV_WIDTH * sizeof *s.v);
    for (size_t i = 0; i < tokens * KV_WIDTH; i++) s.k[i] = unit(), s.v[i] = unit();
    bt_kernels_select("ref")->kv_store(&s.kv, LAYER, 0, tokens, s.k, s.v, KV_WIDTH);
    return s;
}

static void sequence_free(sequence *s)
{
    for (size_t i = 0; i < s->pages; i++) free(s->page[i]);
    free(s->page), free(s->k), free(s->v);
}

/* The same rows in other physical pages. */
static void permute(sequence *s)
{
    uint8_t **to = taken(s->pages * sizeof *to);
    for (size_t i = 0; i < s->pages; i++) memset(to[i] = taken(s->page_bytes), 0xff, s->page_bytes);
    for (size_t i = s->pages; i > 1; i--) {
        const size_t j = below(i);
        uint8_t *t = to[i - 1];
        to[i - 1] = to[j];
        to[j] = t;
    }
    for (size_t i = 0; i < s->pages; i++) {
        memcpy(to[i], s->page[i], s->page_bytes);
        free(s->page[i]);
    }
    free(s->page);
    s->kv.page = s->page = to;
}

/* A call: the last rows[i] positions of each sequence. */
typedef struct call {
    sequence *s;
    size_t n, rows_sum;
    const size_t *rows;
    float *q, *want;
} call;

static void plain(const call *c, float *out)
{
    const bt_kernels *ref = bt_kernels_select("ref");
    void *scratch = taken(bt_attn_scratch_bytes(D));
    size_t at = 0;
    for (size_t i = 0; i < c->n; i++)
        for (size_t r = 0; r < c->rows[i]; r++, at += WIDTH)
            ref->attn(out + at, WIDTH, c->q + at, WIDTH, &c->s[i].kv, LAYER, 1,
                      c->s[i].tokens - c->rows[i] + r, HEADS, 0, HEADS, &rule, scratch);
    free(scratch);
}

static call call_new(sequence *s, size_t n, const size_t *rows)
{
    call c = {.s = s, .n = n, .rows = rows};
    for (size_t i = 0; i < n; i++) c.rows_sum += rows[i];
    c.q = taken(c.rows_sum * WIDTH * sizeof *c.q);
    c.want = taken(c.rows_sum * WIDTH * sizeof *c.want);
    for (size_t i = 0; i < c.rows_sum * WIDTH; i++) c.q[i] = unit();
    plain(&c, c.want);
    return c;
}

static void call_free(call *c) { free(c->q), free(c->want); }

/* One row for each entry, as decoding brings them. */
static void run_rows(const bt_companion *c, const call *what, float *out)
{
    bt_companion_seq *seq = taken(what->rows_sum * sizeof *seq);
    size_t at = 0;
    for (size_t i = 0; i < what->n; i++)
        for (size_t r = 0; r < what->rows[i]; r++)
            seq[at++] = (bt_companion_seq){&what->s[i].kv, what->s[i].tokens - what->rows[i] + r, 1};
    const bt_companion_rows rows = {.seq = seq, .batch = what->rows_sum, .rows = 1};
    bt_companion_attention(c, &rows, out, what->q, LAYER, HEADS, KV_HEADS, D, &rule);
    free(seq);
}

/* One run for each entry, padded to the longest, as a prompt's chunks come; padding must become zeros. */
static void run_chunks(const bt_companion *c, const call *what, float *out)
{
    size_t most = 2, at = 0;
    for (size_t i = 0; i < what->n; i++) most = what->rows[i] > most ? what->rows[i] : most;
    bt_companion_seq *seq = taken(what->n * sizeof *seq);
    float *q = taken(what->n * most * WIDTH * sizeof *q), *padded = taken(what->n * most * WIDTH * sizeof *q);
    memset(q, 0xff, what->n * most * WIDTH * sizeof *q);
    memset(padded, 0xff, what->n * most * WIDTH * sizeof *q);
    for (size_t i = 0; i < what->n; at += what->rows[i++]) {
        seq[i] = (bt_companion_seq){&what->s[i].kv, what->s[i].tokens - what->rows[i], what->rows[i]};
        memcpy(q + i * most * WIDTH, what->q + at * WIDTH, what->rows[i] * WIDTH * sizeof *q);
    }
    const bt_companion_rows rows = {.seq = seq, .batch = what->n, .rows = most};
    bt_companion_attention(c, &rows, padded, q, LAYER, HEADS, KV_HEADS, D, &rule);
    at = 0;
    for (size_t i = 0; i < what->n; at += what->rows[i++]) {
        const float *from = padded + i * most * WIDTH;
        memcpy(out + at * WIDTH, from, what->rows[i] * WIDTH * sizeof *q);
        for (size_t e = what->rows[i] * WIDTH; e < most * WIDTH; e++) assert_true(from[e] == 0);
    }
    free(seq), free(q), free(padded);
}

static bt_companion companion(const bt_kernels *kernels, bt_pool *pool, size_t runs, size_t ctx_tokens)
{
    bt_companion c;
    const bt_companion_sizes z = {.heads = HEADS, .kv_heads = KV_HEADS, .head_dim = D, .runs = runs,
                                  .ctx_tokens = ctx_tokens};
    assert_int_equal(bt_companion_init(&c, kernels, pool, &z, NULL), BT_OK);
    return c;
}

static void check_one(const bt_companion *c, const call *what)
{
    float *out = taken(what->rows_sum * WIDTH * sizeof *out);
    void (*const ways[])(const bt_companion *, const call *, float *) = {run_rows, run_chunks};
    for (size_t w = 0; w < 2; w++) {
        memset(out, 0xff, what->rows_sum * WIDTH * sizeof *out);
        ways[w](c, what, out);
        assert_memory_equal(out, what->want, what->rows_sum * WIDTH * sizeof *out);
    }
    free(out);
}

/* Every kernel, 1 to 4 threads, much room and none: always the bits of the plain kernel, row by row. */
static void check_bits(const call *what)
{
    for (size_t threads = 1; threads <= 4; threads++) {
        bt_pool *pool = NULL;
        assert_int_equal(bt_pool_new(&pool, threads, NULL), BT_OK);
        for (size_t k = 0; k < bt_kernels_table_len; k++) {
            const bool is_ref = k + 1 == bt_kernels_table_len;
            if (!rows_usable(&bt_kernels_table[k]) || (is_ref && threads != 3))
                continue; /* the plain kernels are slow */
            for (int tight = 0; tight < 2; tight++) {
                bt_companion c = companion(&bt_kernels_table[k], pool, tight ? 1 : 64, tight ? 0 : 4096);
                check_one(&c, what);
                bt_companion_done(&c);
            }
        }
        bt_pool_free(pool);
    }
}

/* The greatest distance to dense attention in doubles over K and V as they were before rounding. */
static double distance(const call *c)
{
    double worst = 0, *z = taken(20000 * sizeof *z);
    const float *q = c->q, *got = c->want;
    for (size_t i = 0; i < c->n; i++)
        for (size_t r = 0; r < c->rows[i]; r++, q += WIDTH, got += WIDTH)
            for (size_t h = 0; h < HEADS; h++) {
                const size_t visible = c->s[i].tokens - c->rows[i] + r + 1, g = h / GROUP * D;
                double sum = 0;
                for (size_t t = 0; t < visible; t++) {
                    double dot = 0;
                    for (size_t e = 0; e < D; e++)
                        dot += (double)q[h * D + e] * (double)c->s[i].k[t * KV_WIDTH + g + e];
                    sum += z[t] = exp(dot * (double)scale);
                }
                for (size_t e = 0; e < D; e++) {
                    double v = 0;
                    for (size_t t = 0; t < visible; t++) v += z[t] * (double)c->s[i].v[t * KV_WIDTH + g + e];
                    worst = fmax(worst, fabs(v / sum - (double)got[h * D + e]));
                }
            }
    free(z);
    return worst;
}

static const struct {
    const char *name;
    size_t tokens[4], rows[4];
} shapes[] = {
    {"decode", {1, 17, 128, 1000}, {1, 1, 1, 1}},
    {"chunks", {17, 128, 1000, 300}, {17, 17, 17, 17}},
    {"mixed", {1, 17, 128, 1000}, {1, 5, 40, 2}},
    {"edges of pages and spans", {64, 256, 512, 513}, {1, 1, 2, 1}},
};

/* AC-f1, AC-f2, AC-f3 */
static void pages_of_any_size_in_any_place_agree_with_dense_attention_and_change_no_bit(void **state)
{
    (void)state;
    static const size_t page_sizes[] = {16, 64};
    seed = SEED, draws = 0;
    for (uint32_t elem_bytes = 1; elem_bytes <= 2; elem_bytes++)
        for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
            for (size_t p = 0; p < 2; p++) {
                sequence s[4];
                for (size_t i = 0; i < 4; i++)
                    s[i] = sequence_new(shapes[n].tokens[i], page_sizes[p], elem_bytes, i % 2);
                call c = call_new(s, 4, shapes[n].rows);
                for (size_t i = 0; i < c.rows_sum * WIDTH; i++) assert_true(isfinite(c.want[i]));
                const double off = distance(&c);
                print_message("seed %d, %s, %s, pages of %zu: off by at most %.6f\n", SEED,
                              elem_bytes == 2 ? "f16" : "int8", shapes[n].name, page_sizes[p], off);
                assert_true(off <= (elem_bytes == 2 ? 1e-3 : 1.5e-2));
                for (size_t i = 0; i < 4; i++) permute(&s[i]);
                check_bits(&c);
                call_free(&c);
                for (size_t i = 0; i < 4; i++) sequence_free(&s[i]);
            }
}

/* AC-f2: the page ends where the sequence does, and the shortest sequence there is. */
static void a_sequence_may_end_with_its_page_and_may_be_one_token(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 16, 32, 64, 256, 768}, one = 1;
    seed = SEED + 1, draws = 0;
    for (uint32_t elem_bytes = 1; elem_bytes <= 2; elem_bytes++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            sequence s = sequence_new(lengths[i], 16, elem_bytes, 0);
            call c = call_new(&s, 1, &one);
            assert_true(distance(&c) <= (elem_bytes == 2 ? 1e-3 : 1.5e-2));
            check_bits(&c);
            call_free(&c);
            sequence_free(&s);
        }
}

static void thirty_two_sequences_have_the_bits_that_each_has_alone(void **state)
{
    (void)state;
    enum { N = 32 };
    seed = SEED + 2, draws = 0;
    for (uint32_t elem_bytes = 1; elem_bytes <= 2; elem_bytes++) {
        sequence s[N];
        size_t rows[N];
        for (size_t i = 0; i < N; i++) {
            rows[i] = i % 5 ? 1 : 1 + below(8); /* drafts and replayed tokens among them */
            s[i] = sequence_new(rows[i] + below(i % 8 ? 200 : 1500), 16, elem_bytes, 0);
        }
        call c = call_new(s, N, rows);
        check_bits(&c);
        bt_pool *pool;
        assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
        bt_companion x = companion(bt_kernels_select(NULL), pool, 64, 2048);
        size_t at = 0;
        for (size_t i = 0; i < N; at += rows[i++] * WIDTH) {
            call alone = {.s = &s[i],       .n = 1,        .rows_sum = rows[i],
                          .rows = &rows[i], .q = c.q + at, .want = c.want + at};
            check_one(&x, &alone);
        }
        bt_companion_done(&x);
        bt_pool_free(pool);
        call_free(&c);
        for (size_t i = 0; i < N; i++) sequence_free(&s[i]);
    }
}

static void a_long_sequence_among_short_ones_is_shared_at_spans(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 1, 6, 40, 1};
    seed = SEED + 3, draws = 0;
    for (uint32_t elem_bytes = 1; elem_bytes <= 2; elem_bytes++) {
        sequence s[5] = {sequence_new(10, 64, elem_bytes, 0), sequence_new(6000, 64, elem_bytes, 0),
                         sequence_new(700, 64, elem_bytes, 0), sequence_new(600, 64, elem_bytes, 0),
                         sequence_new(3, 64, elem_bytes, 0)};
        call c = call_new(s, 5, rows);
        check_bits(&c);
        call_free(&c);
        for (size_t i = 0; i < 5; i++) sequence_free(&s[i]);
    }
}

static void rows_of_batches_of_one_are_stored_as_they_would_be_alone(void **state)
{
    (void)state;
    enum { N = 90 }; /* enough for threads to be asked */
    seed = SEED + 4, draws = 0;
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    bt_companion c = companion(bt_kernels_select(NULL), pool, 64, 64);
    for (uint32_t elem_bytes = 1; elem_bytes <= 2; elem_bytes++) {
        sequence s[N];
        bt_companion_seq seq[N];
        float *k = taken(N * 3 * KV_WIDTH * sizeof *k), *v = taken(N * 3 * KV_WIDTH * sizeof *v);
        for (size_t i = 0; i < N * 3 * KV_WIDTH; i++) k[i] = unit(), v[i] = unit();
        for (size_t rows = 1; rows <= 3; rows += 2) {
            for (size_t i = 0; i < N; i++) {
                s[i] = sequence_new(20, 16, elem_bytes, 0);
                seq[i] = (bt_companion_seq){&s[i].kv, 5 + i % 12, 1 + i % rows};
            }
            const bt_companion_rows r = {.seq = seq, .batch = N, .rows = rows};
            bt_companion_kv_store(&c, &r, LAYER, k, v, KV_WIDTH);
            for (size_t i = 0; i < N; i++) {
                sequence want = sequence_new(20, 16, elem_bytes, 0);
                bt_kernels_select("ref")->kv_store(&want.kv, LAYER, 0, 20, s[i].k, s[i].v, KV_WIDTH);
                bt_kernels_select("ref")->kv_store(&want.kv, LAYER, seq[i].pos0, seq[i].valid,
                                                   k + i * rows * KV_WIDTH, v + i * rows * KV_WIDTH,
                                                   KV_WIDTH);
                for (size_t p = 0; p < want.pages; p++)
                    assert_memory_equal(want.page[p], s[i].page[p], want.page_bytes);
                sequence_free(&want);
                sequence_free(&s[i]);
            }
        }
        free(k), free(v);
    }
    bt_companion_done(&c);
    bt_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_any_size_in_any_place_agree_with_dense_attention_and_change_no_bit),
        cmocka_unit_test(a_sequence_may_end_with_its_page_and_may_be_one_token),
        cmocka_unit_test(thirty_two_sequences_have_the_bits_that_each_has_alone),
        cmocka_unit_test(a_long_sequence_among_short_ones_is_shared_at_spans),
        cmocka_unit_test(rows_of_batches_of_one_are_stored_as_they_would_be_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
