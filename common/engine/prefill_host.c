/* The host: the float executor over f16 weights, with a program for every shape. */
#include "engine/chunks.h"
#include "engine/host_shapes.h"
#include "engine/limits.h"
#include "engine/prefill_backend.h"
#include "engine/prefill_batches.h"
#include "graph/walk.h"

#include <stdlib.h>
#include <string.h>

enum {
    ATTENTION_ROWS = 64
}; /* of a short chunk, for which attention makes room to share spans among threads */

typedef struct host_state {
    bt_weights *own_weights; /* NULL: the caller's are used */
    const bt_kernels *kernels;
    bt_graph *graph;
    bt_host_shapes *table;
    bt_walk *walk;
    bt_chunks chunks;
    bt_prefill_batches batches;
    bt_program *packed; /* rows of any sequences, each a sequence of its own, as decoding has them */
    int32_t *ids;       /* [longest seq], as the lists of a packed run's rows: */
    bt_companion_seq *row;
    bt_overflow **overflow;
    uint32_t *last; /* those whose logits are wanted */
    float *logits;  /* [batches.most, V] */
    uint64_t rows;
} host_state;

static void host_free(void *state)
{
    host_state *s = state;
    if (!s) return;
    bt_walk_free(s->walk);
    bt_host_shapes_free(s->table);
    bt_graph_free(s->graph);
    bt_chunks_done(&s->chunks);
    bt_prefill_batches_done(&s->batches);
    bt_bind_free(s->packed);
    free(s->row);
    free(s->overflow);
    free(s->last);
    free(s->logits);
    bt_weights_free(s->own_weights);
    free(s->ids);
    free(s);
}

static bt_err host_needs(bt_needs *n, const bt_model *m, const bt_needs_want *w, bt_fault *fault)
{
    bt_shapes shapes;
    bt_graph *graph = NULL;
    bt_host_shapes *table = NULL;
    bt_err e = bt_shapes_parse(&shapes, w->want->shape_policy, n->ctx_tokens, fault);
    if (e == BT_OK) e = bt_weights_bytes(&n->form[BT_FORM_F16], m, BT_FORM_F16, false, fault);
    if (e == BT_OK) e = bt_graph_build(&graph, &m->hp, NULL, fault);
    if (e == BT_OK) e = bt_host_shapes_new(&table, graph, &shapes, n->ctx_tokens, fault);
    if (e == BT_OK)
        n->part[BT_NEEDS_WORK] +=
            table->arena_bytes + bt_limits_rope_bytes(&m->hp, n->ctx_tokens) +
            bt_limits_companion_bytes(&m->hp, ATTENTION_ROWS, n->ctx_tokens, 0, w->threads);
    bt_host_shapes_free(table);
    bt_graph_free(graph);
    return e;
}

static bool is_shareable(const bt_weights *w, const bt_model *m, size_t ctx_tokens)
{
    return w && bt_weights_model(w) == m && strcmp(bt_weights_form(w), "f16") == 0 &&
           bt_weights_ctx_tokens(w) >= ctx_tokens;
}

/* Program and lists of packed runs; *arena_bytes is raised to what they need. */
static bt_err make_room(host_state *s, size_t *arena_bytes, bt_fault *fault)
{
    const size_t rows = s->table->row[s->table->rows - 1].seq;
    size_t bytes;
    bt_err e = bt_prefill_batches_init(&s->batches, &s->chunks.shapes, true, fault);
    if (e == BT_OK) e = bt_bind_program(&s->packed, s->graph, 0, 1, 1, 0, fault);
    if (e == BT_OK) e = bt_bind_arena_bytes(&bytes, s->packed, rows, fault);
    if (e != BT_OK) return e;
    if (bytes > *arena_bytes) *arena_bytes = bytes;
    s->ids = calloc(rows, sizeof *s->ids);
    s->row = calloc(rows, sizeof *s->row);
    s->overflow = calloc(rows, sizeof *s->overflow);
    s->last = calloc(s->batches.most, sizeof *s->last);
    s->logits = calloc(s->batches.most, s->chunks.vocab * sizeof *s->logits);
    return s->ids && s->row && s->overflow && s->last && s->logits
               ? BT_OK
               : bt_fail(fault, BT_ENOMEM, "out of memory making a prefill engine");
}

static bt_err open_all(host_state *s, const bt_model *m, const bt_prefill_config *c, bt_fault *fault)
{
    const bt_weights *weights = c->weights;
    const bt_weights_options o = {.form = "f16", .ctx_tokens = c->ctx_tokens, .progress = c->progress,
                                  .progress_ud = c->progress_ud};
    /* before the long part */
    bt_err e = bt_shapes_parse(&s->chunks.shapes, c->want.shape_policy, c->ctx_tokens, fault);
    if (e < 0) return e;
    s->chunks.shapes.all = s->chunks.shapes.shapes; /* it knows no batches */
    for (size_t i = 0; i < s->chunks.shapes.all; i++) s->chunks.shapes.shape[i].batch = 1;
    if (!is_shareable(weights, m, c->ctx_tokens)) {
        if ((e = bt_weights_open(&s->own_weights, m, &o, c->pool, fault)) < 0) return e;
        weights = s->own_weights;
    }
    const bt_walk_config wc = {.weights = weights, .kernels = s->kernels, .pool = c->pool,
                               .sequences_max = ATTENTION_ROWS, .ctx_tokens = c->ctx_tokens};
    if ((e = bt_graph_build(&s->graph, &m->hp, NULL, fault)) < 0) return e;
    if ((e = bt_host_shapes_new(&s->table, s->graph, &s->chunks.shapes, c->ctx_tokens, fault)) < 0) return e;
    if ((e = bt_walk_new(&s->walk, &wc, fault)) < 0) return e;
    size_t arena_bytes = s->table->arena_bytes;
    e = make_room(s, &arena_bytes, fault);
    return e < 0 ? e : bt_chunks_map(&s->chunks, arena_bytes, fault);
}

static bt_err host_load(void **ret, const bt_model *m, const bt_prefill_config *c, bt_fault *fault)
{
    const bt_kernels *kernels = NULL;
    bt_err e = bt_limits_kernels(&kernels, c->isa, fault);
    if (e < 0) return e;
    host_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory making a prefill engine");
    s->kernels = kernels;
    s->chunks.vocab = m->hp.vocab;
    e = open_all(s, m, c, fault);
    if (e < 0) host_free(s);
    else *ret = s;
    return e;
}

static bt_err run_chunk(void *ud, const bt_chunk *c, bt_fault *fault)
{
    host_state *s = ud;
    const bt_host_shape *row;
    const bt_err e = bt_host_shapes_find(&row, s->table, c->rows, c->pos + c->valid, fault);
    if (e < 0) return e;
    memcpy(s->ids, c->ids, c->valid * sizeof *s->ids);
    memset(s->ids + c->valid, 0xff, (row->seq - c->valid) * sizeof *s->ids); /* -1: no token */
    s->rows += row->seq;
    bt_chunk told = *c;
    const bt_companion_seq seq = {.kv = c->kv, .pos0 = c->pos, .valid = c->valid};
    const bt_walk_io io = {
        .ids = s->ids,
        .seq = &seq,
        .overflow = &told.overflow,
        .sequences = 1,
        .bucket = 1,
        .logits = c->logits,
        .on_kv = bt_chunk_has_on_kv(c) ? bt_chunk_on_kv : NULL,
        .on_kv_ud = &told,
        .cancel = bt_chunk_cancel(c),
    };
    return bt_walk_run(s->walk, row->program[c->out], s->chunks.arena, &io, fault);
}

static bt_err host_run(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                       const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    host_state *s = state;
    return bt_chunks_run(&s->chunks, kv, ids, n, pos0, hooks, logits, out, run_chunk, s, fault);
}

/* ---- several prompts ---- */

static bt_err run_packed(host_state *s, const bt_chunk *chunk, size_t chunks, bt_fault *fault)
{
    size_t rows = 0, ends = 0;
    for (size_t i = 0; i < chunks; i++) {
        for (size_t k = 0; k < chunk[i].valid; k++, rows++) {
            s->ids[rows] = chunk[i].ids[k];
            s->row[rows] = (bt_companion_seq){chunk[i].kv, chunk[i].pos + k, 1};
            s->overflow[rows] = chunk[i].overflow;
        }
        if (chunk[i].out == BT_PKG_OUT_LAST) s->last[ends++] = (uint32_t)rows - 1;
    }
    s->rows += rows;
    bt_prefill_batches_list told = {chunk, chunks};
    const bt_walk_io io = {.ids = s->ids,
                           .seq = s->row,
                           .overflow = s->overflow,
                           .sequences = rows,
                           .bucket = s->table->row[s->table->rows - 1].seq,
                           .wanted = s->last,
                           .wanted_len = ends,
                           .logits = s->logits,
                           .on_kv = bt_prefill_batches_on_kv,
                           .on_kv_ud = &told};
    const bt_err e = bt_walk_run(s->walk, s->packed, s->chunks.arena, &io, fault);
    const float *logits = s->logits;
    for (size_t i = 0; e == BT_OK && i < chunks; i++)
        if (chunk[i].out == BT_PKG_OUT_LAST) {
            memcpy(chunk[i].logits, logits, s->chunks.vocab * sizeof *logits);
            logits += s->chunks.vocab;
        }
    return e;
}

static bt_err run_chunks(void *ud, size_t batch, size_t rows, const bt_chunk *chunk, size_t chunks,
                         bt_fault *fault)
{
    (void)batch, (void)rows; /* there is one; those of a packed run are as many as it has tokens */
    return chunks == 1 ? run_chunk(ud, chunk, fault) : run_packed(ud, chunk, chunks, fault);
}

static void host_run_batch(void *state, bt_prefill_seq *seq, size_t prompts)
{
    host_state *s = state;
    bt_prefill_batches_run(&s->batches, &s->chunks.shapes, seq, prompts, run_chunks, s);
}

static size_t host_batch_max(const void *state) { return ((const host_state *)state)->batches.most; }

static size_t host_packed_rows(const void *state)
{
    const host_state *s = state;
    return bt_prefill_batches_packed_rows(&s->batches, &s->chunks.shapes);
}

static bt_report_work host_work(const void *state)
{
    const host_state *s = state;
    return (bt_report_work){.rows = s->rows, .compilations = s->table->compilations};
}

static bt_report_engine host_about(const void *state)
{
    return (bt_report_engine){.quant = "f16", .shape_policy = ((const host_state *)state)->chunks.shapes.text,
                              .profile = "", .weights = "f16"};
}

static const char *host_isa(const void *state) { return ((const host_state *)state)->kernels->isa; }

const bt_prefill_backend bt_prefill_host = {
    .facts = {.name = "host", .kv_elem_bytes = {2, 1}, .has_weights = true, .has_chunks = true},
    .needs = host_needs,
    .load = host_load,
    .run = host_run,
    .run_batch = host_run_batch,
    .batch_max = host_batch_max,
    .packed_rows = host_packed_rows,
    .work = host_work,
    .about = host_about,
    .isa = host_isa,
    .free = host_free,
};
