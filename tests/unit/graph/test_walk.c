/* The float executor: padding, batch, hooks, cancelling, and what it refuses. */
#include "graph/walk.h"
#include "tests/helpers/model/engine_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 1024 };

typedef struct world {
    engine_kit kit;
    bt_weights *weights;
    bt_graph *graph;
    bt_walk *walk;
    bt_pool *pool;
} world;

static world begin(const char *arch, size_t threads)
{
    world w = {.kit = engine_kit_model(arch)};
    const bt_weights_options o = {.ctx_tokens = CTX};
    if (threads > 1) assert_int_equal(bt_pool_new(&w.pool, threads, NULL), BT_OK);
    assert_int_equal(bt_weights_open(&w.weights, w.kit.model, &o, w.pool, NULL), BT_OK);
    assert_int_equal(bt_graph_build(&w.graph, &w.kit.model->hp, NULL, NULL), BT_OK);
    const bt_walk_config c = {.weights = w.weights, .kernels = bt_kernels_select(NULL), .pool = w.pool,
                              .sequences_max = 3};
    assert_int_equal(bt_walk_new(&w.walk, &c, NULL), BT_OK);
    return w;
}

static void end(world *w)
{
    bt_walk_free(w->walk);
    bt_graph_free(w->graph);
    bt_weights_free(w->weights);
    bt_pool_free(w->pool);
    engine_kit_done(&w->kit);
}

/* Run one program for `batch` sequences over an arena full of NaN. */
static bt_err run(world *w, size_t batch, size_t seq, size_t out, const bt_walk_io *what, bt_fault *fault)
{
    bt_walk_io bound = *what, *io = &bound;
    bt_program *p;
    io->sequences = io->bucket = batch;
    assert_int_equal(bt_bind_program(&p, w->graph, batch, seq, out, 0, NULL), BT_OK);
    void *arena = engine_kit_alloc(p->arena.fixed);
    memset(arena, 0xff, p->arena.fixed);
    const bt_err e = bt_walk_run(w->walk, p, arena, io, fault);
    free(arena);
    bt_bind_free(p);
    return e;
}

static float *floats(size_t n)
{
    float *f = malloc(n * sizeof *f);
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) f[i] = NAN;
    return f;
}

static void nothing_in_padding_changes_a_bit(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    static const float pads[] = {0, 1e30f, -3, INFINITY, NAN};
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a], 2);
        const size_t V = w.kit.model->hp.vocab, valid = 21;
        int32_t ids[64];
        engine_kit_ids(ids, 64, w.kit.model, 3);
        float *plain = floats(valid * V), *padded = floats(valid * V);
        bt_kv_view kv = engine_kit_pages(w.kit.model, 64, 16, 2);
        bt_companion_seq seq = {&kv, 0, valid};
        bt_walk_io io = {.ids = ids, .seq = &seq, .logits = plain};
        assert_int_equal(run(&w, 1, valid, valid, &io, NULL), BT_OK);
        const uint64_t hash = engine_kit_hash(&kv, valid);
        for (size_t i = 0; i < valid * V; i++) assert_true(isfinite(plain[i]));
        for (size_t i = 0; i < sizeof pads / sizeof *pads; i++)
            for (size_t rows = 32; rows <= 64; rows += 32) {
                bt_kv_view other = engine_kit_pages(w.kit.model, 64, 16, 2);
                for (size_t t = valid; t < 64; t++) ids[t] = i % 2 ? INT32_MAX : -1;
                seq.kv = &other;
                io.logits = padded;
                io.pad = pads[i];
                assert_int_equal(run(&w, 1, rows, rows, &io, NULL), BT_OK);
                assert_memory_equal(plain, padded, valid * V * sizeof *plain);
                assert_true(engine_kit_hash(&other, valid) == hash);
                assert_true(engine_kit_untouched(&other, valid, 64));
                assert_int_equal(run(&w, 1, rows, 1, &io, NULL), BT_OK);
                assert_memory_equal(plain + (valid - 1) * V, padded, V * sizeof *plain);
                engine_kit_pages_free(&other);
            }
        free(plain);
        free(padded);
        engine_kit_pages_free(&kv);
        end(&w);
    }
}

static void a_batch_gives_each_sequence_its_solo_bits(void **state)
{
    (void)state;
    world w = begin("qwen3", 2);
    const size_t V = w.kit.model->hp.vocab;
    const size_t length[3] = {1, 19, 300};
    bt_kv_view kv[3], solo_kv;
    bt_companion_seq seq[3];
    int32_t ids[300], last[3];
    float *logits = floats(3 * V), *solo = floats(V);
    for (size_t b = 0; b < 3; b++) {
        kv[b] = engine_kit_pages(w.kit.model, 320, 64, 2);
        engine_kit_ids(ids, 300, w.kit.model, (uint32_t)b);
        last[b] = ids[299];
        const bt_companion_seq s = {&kv[b], 0, length[b]};
        const bt_walk_io io = {.ids = ids, .seq = &s};
        assert_int_equal(run(&w, 1, length[b], 0, &io, NULL), BT_OK);
        seq[b] = (bt_companion_seq){&kv[b], length[b], 1};
    }
    const bt_walk_io all = {.ids = last, .seq = seq, .logits = logits};
    assert_int_equal(run(&w, 3, 1, 1, &all, NULL), BT_OK);
    for (size_t b = 0; b < 3; b++) {
        solo_kv = engine_kit_pages(w.kit.model, 320, 16, 2);
        engine_kit_ids(ids, 300, w.kit.model, (uint32_t)b);
        bt_companion_seq s = {&solo_kv, 0, length[b]};
        bt_walk_io io = {.ids = ids, .seq = &s};
        assert_int_equal(run(&w, 1, length[b], 0, &io, NULL), BT_OK);
        s = (bt_companion_seq){&solo_kv, length[b], 1};
        io = (bt_walk_io){.ids = &last[b], .seq = &s, .logits = solo};
        assert_int_equal(run(&w, 1, 1, 1, &io, NULL), BT_OK);
        assert_memory_equal(solo, logits + b * V, V * sizeof *solo);
        assert_true(engine_kit_hash(&solo_kv, length[b] + 1) == engine_kit_hash(&kv[b], length[b] + 1));
        engine_kit_pages_free(&solo_kv);
    }
    for (size_t b = 0; b < 3; b++) engine_kit_pages_free(&kv[b]);
    free(logits);
    free(solo);
    end(&w);
}

typedef struct watcher {
    const bt_kv_view *kv;
    uint32_t next, cancel_at;
    size_t tokens;
    atomic_bool cancel;
} watcher;

static void layer_stored(void *ud, uint32_t layer)
{
    watcher *s = ud;
    assert_int_equal(layer, s->next++);
    /* This layer's rows are there, and no later layer's are. */
    for (uint32_t l = 0; l < s->kv->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++) {
            const uint8_t *row = bt_kv_view_row(s->kv, l, is_v, s->tokens - 1, 0);
            assert_int_equal(row[0] == 0xff && row[1] == 0xff, l > layer);
        }
    if (layer == s->cancel_at) atomic_store(&s->cancel, true);
}

static void tells_of_each_layer_once_and_stops_between_layers(void **state)
{
    (void)state;
    world w = begin("llama", 1);
    int32_t ids[20];
    engine_kit_ids(ids, 20, w.kit.model, 5);
    float *logits = floats(w.kit.model->hp.vocab);
    for (uint32_t cancel_at = 0; cancel_at < 4; cancel_at++) {
        bt_kv_view kv = engine_kit_pages(w.kit.model, 20, 4, 2);
        watcher s = {.kv = &kv, .tokens = 20, .cancel_at = cancel_at};
        const bt_companion_seq seq = {&kv, 0, 20};
        const bt_walk_io io = {.ids = ids,     .seq = &seq,        .logits = logits, .on_kv = layer_stored,
                               .on_kv_ud = &s, .cancel = &s.cancel};
        assert_int_equal(run(&w, 1, 20, 1, &io, NULL), cancel_at < 3 ? BT_ECANCEL : BT_OK);
        assert_int_equal(s.next, cancel_at < 3 ? cancel_at + 1 : 3);
        engine_kit_pages_free(&kv);
    }
    free(logits);
    end(&w);
}

typedef struct looker {
    const world *w;
    size_t linears, others;
} looker;

/* The rows that a linear step is told to have read and written fit its weight: output 0 of row 0, in the
 * kernels' order. */
static void step_done(void *ud, const bt_step *step, const float *in, const float *out, size_t rows)
{
    looker *l = ud;
    if (step->kind != BT_OP_LINEAR) {
        l->others++;
        return;
    }
    const bt_weights_matrix *m = bt_weights_matrix_of(l->w->weights, step->layer, step->weight);
    assert_true(in && rows == (out ? 20 : 1) && step->in_width[0] == m->k && step->out_width == m->n);
    float sum = 0;
    const uint16_t *panels = (const void *)m->panels;
    for (size_t k = 0; k < m->k; k++) sum = fmaf(bt_f16_to_f32_1(panels[k * 16]), in[k], sum);
    if (out) assert_true(out[0] == (m->bias ? m->bias[0] + sum : sum));
    l->linears++;
}

static void shows_each_step_to_an_observer(void **state)
{
    (void)state;
    world w = begin("qwen2", 2);
    int32_t ids[20];
    engine_kit_ids(ids, 20, w.kit.model, 5);
    float *logits = floats(w.kit.model->hp.vocab);
    bt_kv_view kv = engine_kit_pages(w.kit.model, 20, 4, 2);
    looker l = {.w = &w};
    const bt_companion_seq seq = {&kv, 0, 20};
    const bt_walk_io io = {.ids = ids, .seq = &seq, .logits = logits, .on_step = step_done, .on_step_ud = &l};
    assert_int_equal(run(&w, 1, 20, 1, &io, NULL), BT_OK);
    assert_int_equal(l.linears, 3 * 7 + 1);
    assert_int_equal(l.linears + l.others, w.graph->ops);
    engine_kit_pages_free(&kv);
    free(logits);
    end(&w);
}

/* One program whose batch is open: any number of rows in any bucket, logits of some. */
static void an_open_batch_gives_each_row_its_solo_bits_and_logits_to_those_that_want_some(void **state)
{
    (void)state;
    enum { ROWS = 3, BEFORE = 5 };
    world w = begin("llama", 2);
    const size_t V = w.kit.model->hp.vocab;
    const uint32_t wanted[] = {0, 2}, beyond[] = {0, 3};
    bt_program *open, *bound, *two;
    bt_kv_view kv[ROWS], solo_kv[ROWS];
    bt_companion_seq seq[ROWS], solo_seq[ROWS];
    int32_t ids[ROWS], before[BEFORE];
    float *logits = floats(2 * V), *solo = floats(ROWS * V);
    engine_kit_ids(ids, ROWS, w.kit.model, 8);
    for (uint32_t b = 0; b < ROWS; b++) { /* sequences of 5, 4, 3 rows, and the next one alone */
        const size_t pos = BEFORE - b;
        engine_kit_ids(before, BEFORE, w.kit.model, 30 + b);
        kv[b] = engine_kit_pages(w.kit.model, 8, 4, 2);
        solo_kv[b] = engine_kit_pages(w.kit.model, 8, 4, 2);
        for (int i = 0; i < 2; i++) {
            const bt_companion_seq s = {i ? &solo_kv[b] : &kv[b], 0, pos};
            assert_int_equal(run(&w, 1, pos, 0, &(bt_walk_io){.ids = before, .seq = &s}, NULL), BT_OK);
        }
        seq[b] = (bt_companion_seq){&kv[b], pos, 1};
        solo_seq[b] = (bt_companion_seq){&solo_kv[b], pos, 1};
        const bt_walk_io alone = {.ids = &ids[b], .seq = &solo_seq[b], .logits = solo + b * V};
        assert_int_equal(run(&w, 1, 1, 1, &alone, NULL), BT_OK);
    }
    assert_int_equal(bt_bind_program(&open, w.graph, 0, 1, 1, 0, NULL), BT_OK);
    assert_int_equal(bt_bind_program(&bound, w.graph, 1, 1, 1, 0, NULL), BT_OK);
    assert_int_equal(bt_bind_program(&two, w.graph, 0, 2, 1, 0, NULL), BT_OK);
    for (size_t bucket = ROWS; bucket <= 4; bucket++) {
        size_t bytes;
        assert_int_equal(bt_bind_arena_bytes(&bytes, two, bucket, NULL), BT_OK);
        void *arena = engine_kit_alloc(bytes);
        memset(arena, 0xff, bytes);
        const uint64_t stored = bt_walk_kv_bytes(w.walk);
        bt_walk_io io = {.ids = ids,       .seq = seq,      .sequences = ROWS, .bucket = bucket,
                         .wanted = wanted, .wanted_len = 2, .logits = logits};
        assert_int_equal(bt_walk_run(w.walk, open, arena, &io, NULL), BT_OK);
        for (size_t i = 0; i < 2; i++)
            assert_memory_equal(solo + wanted[i] * V, logits + i * V, V * sizeof *solo);
        for (size_t b = 0; b < ROWS; b++)
            assert_true(engine_kit_hash(&kv[b], BEFORE - b + 1) ==
                        engine_kit_hash(&solo_kv[b], BEFORE - b + 1));
        assert_int_equal(bt_walk_kv_bytes(w.walk) - stored,
                         ROWS * w.kit.model->hp.layers * 2 * kv[0].token_bytes);
        io.wanted_len = 0; /* rows only */
        io.logits = NULL;
        assert_int_equal(bt_walk_run(w.walk, open, arena, &io, NULL), BT_OK);
        io.bucket = ROWS - 1;
        assert_int_equal(bt_walk_run(w.walk, open, arena, &io, NULL), BT_EARG);
        io.bucket = ROWS;
        assert_int_equal(bt_walk_run(w.walk, bound, arena, &io, NULL), BT_EARG);
        assert_int_equal(bt_walk_run(w.walk, two, arena, &io, NULL), BT_EARG); /* two rows a sequence */
        io.logits = logits;
        io.wanted = beyond;
        io.wanted_len = 2;
        assert_int_equal(bt_walk_run(w.walk, open, arena, &io, NULL), BT_EARG);
        io.wanted_len = ROWS + 1;
        assert_int_equal(bt_walk_run(w.walk, open, arena, &io, NULL), BT_EARG);
        free(arena);
    }
    bt_bind_free(open);
    bt_bind_free(bound);
    bt_bind_free(two);
    for (size_t b = 0; b < ROWS; b++) {
        engine_kit_pages_free(&kv[b]);
        engine_kit_pages_free(&solo_kv[b]);
    }
    free(logits);
    free(solo);
    end(&w);
}

/* Its sums lie in scratch that was made for so many rows. */
/* Layer after layer over one arena, with another window's layers in between, as the compiler calibrates. */
static void a_program_in_parts_has_the_bits_of_the_whole(void **state)
{
    (void)state;
    world w = begin("qwen3", 2);
    const size_t V = w.kit.model->hp.vocab;
    int32_t ids[24];
    engine_kit_ids(ids, 24, w.kit.model, 5);
    bt_kv_view whole = engine_kit_pages(w.kit.model, 12, 16, 2), cut[2];
    float *logits = floats(V), *parts = floats(2 * V);
    const bt_companion_seq seq = {&whole, 0, 12};
    bt_program *p;
    void *arena[2];
    assert_int_equal(bt_bind_program(&p, w.graph, 1, 12, 1, 0, NULL), BT_OK);
    for (int i = 0; i < 2; i++) {
        cut[i] = engine_kit_pages(w.kit.model, 12, 16, 2);
        arena[i] = engine_kit_alloc(p->arena.fixed);
        memset(arena[i], 0xff, p->arena.fixed);
    }
    for (size_t at = 0, next; at < p->steps; at = next) {
        for (next = at; next < p->steps && p->step[next].layer == p->step[at].layer;) next++;
        for (int i = 0; i < 2; i++) {
            const bt_companion_seq part = {&cut[i], 0, 12};
            const bt_walk_io io = {.ids = ids + 12 * i, .seq = &part,     .sequences = 1,         .bucket = 1,
                                   .step_begin = at,    .step_end = next, .logits = parts + i * V};
            assert_int_equal(bt_walk_run(w.walk, p, arena[i], &io, NULL), BT_OK);
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(&w, 1, 12, 1, &(bt_walk_io){.ids = ids + 12 * i, .seq = &seq, .logits = logits},
                             NULL),
                         BT_OK);
        assert_memory_equal(logits, parts + i * V, V * sizeof *logits);
        assert_true(engine_kit_hash(&whole, 12) == engine_kit_hash(&cut[i], 12));
    }
    bt_fault f;
    bt_walk_io beyond = {.ids = ids,      .seq = &seq, .sequences = 1, .bucket = 1, .step_end = p->steps + 1,
                         .logits = logits};
    assert_int_equal(bt_walk_run(w.walk, p, arena[0], &beyond, &f), BT_EARG);
    beyond.step_begin = 2, beyond.step_end = 1;
    assert_int_equal(bt_walk_run(w.walk, p, arena[0], &beyond, &f), BT_EARG);
    assert_non_null(strstr(f.text, "steps 2 to 1 of a program of"));
    for (int i = 0; i < 2; i++) {
        engine_kit_pages_free(&cut[i]);
        free(arena[i]);
    }
    engine_kit_pages_free(&whole);
    bt_bind_free(p);
    free(logits);
    free(parts);
    end(&w);
}

static void fp4_weights_take_no_more_rows_than_they_have_scratch_for(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    const bt_weights_options o = {.form = "fp4", .ctx_tokens = CTX};
    bt_weights *weights;
    bt_graph *graph;
    bt_walk *walk;
    bt_program *p;
    int32_t ids[3];
    bt_fault f;
    assert_int_equal(bt_weights_open(&weights, kit.model, &o, NULL, NULL), BT_OK);
    const bt_walk_config c = {.weights = weights, .kernels = bt_kernels_select(NULL), .sequences_max = 2};
    assert_int_equal(bt_walk_new(&walk, &c, NULL), BT_OK);
    assert_int_equal(bt_graph_build(&graph, &kit.model->hp, NULL, NULL), BT_OK);
    engine_kit_ids(ids, 3, kit.model, 1);
    bt_kv_view kv = engine_kit_pages(kit.model, 4, 4, 2);
    for (size_t rows = 2; rows <= 3; rows++) {
        const bt_companion_seq seq = {&kv, 0, rows};
        const bt_walk_io io = {.ids = ids, .seq = &seq, .sequences = 1, .bucket = 1};
        assert_int_equal(bt_bind_program(&p, graph, 1, rows, 0, 0, NULL), BT_OK);
        void *arena = engine_kit_alloc(p->arena.fixed);
        assert_int_equal(bt_walk_run(walk, p, arena, &io, &f), rows == 2 ? BT_OK : BT_EARG);
        free(arena);
        bt_bind_free(p);
    }
    assert_non_null(strstr(f.text, "FP4"));
    engine_kit_pages_free(&kv);
    bt_graph_free(graph);
    bt_walk_free(walk);
    bt_weights_free(weights);
    engine_kit_done(&kit);
}

static void refuses_what_breaks_its_contract_and_writes_nothing(void **state)
{
    (void)state;
    world w = begin("llama", 1);
    int32_t ids[4] = {1, 2, 3, 4};
    float *logits = floats(w.kit.model->hp.vocab);
    bt_kv_view kv = engine_kit_pages(w.kit.model, 8, 4, 2), wide = kv, other = kv;
    wide.elem_bytes = 4;
    other.kv_heads++;
    bt_companion_seq seq = {&kv, 0, 4};
    bt_walk_io io = {.ids = ids, .seq = &seq, .logits = logits};
    io.logits = NULL;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    io.logits = logits;
    seq.valid = 0;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    seq.valid = 5;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    seq.valid = 4;
    seq.pos0 = 5;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    seq.pos0 = SIZE_MAX;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    seq.pos0 = 0;
    seq.kv = &wide;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    seq.kv = &other;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    seq.kv = &kv;
    ids[3] = 384;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    ids[3] = -1;
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_EARG);
    ids[3] = 383;
    assert_true(engine_kit_untouched(&kv, 0, 8));
    assert_int_equal(run(&w, 1, 4, 1, &io, NULL), BT_OK);
    free(logits);
    engine_kit_pages_free(&kv);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_in_padding_changes_a_bit),
        cmocka_unit_test(a_batch_gives_each_sequence_its_solo_bits),
        cmocka_unit_test(tells_of_each_layer_once_and_stops_between_layers),
        cmocka_unit_test(shows_each_step_to_an_observer),
        cmocka_unit_test(an_open_batch_gives_each_row_its_solo_bits_and_logits_to_those_that_want_some),
        cmocka_unit_test(a_program_in_parts_has_the_bits_of_the_whole),
        cmocka_unit_test(fp4_weights_take_no_more_rows_than_they_have_scratch_for),
        cmocka_unit_test(refuses_what_breaks_its_contract_and_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
