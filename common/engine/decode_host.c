/* The host: the model's graph bound to seq = 1 with batch and ctx left symbols, walked once for all rows of a
 * step. Each row is a sequence of one row to the walk, so that nothing mixes rows. One plan and one arena
 * serve every batch: offsets are the plan's formulas at the step's bucket. */
#include "engine/decode_backend.h"
#include "engine/limits.h"
#include "graph/walk.h"

#include <stdlib.h>

typedef struct host_state {
    bt_weights *weights;
    const bt_kernels *kernels;
    bt_graph *graph;
    bt_program *program;
    bt_walk *walk;
    uint8_t *arena;
    bt_companion_seq *row; /* [rows_max], those of this step */
    int32_t *ids;
    bt_overflow **overflow; /* [rows_max] */
    uint32_t *wanted;       /* [rows_max], rows whose logits are wanted, ascending */
} host_state;

static void host_free(void *state)
{
    host_state *s = state;
    if (!s) return;
    bt_walk_free(s->walk);
    bt_bind_free(s->program);
    bt_graph_free(s->graph);
    bt_weights_free(s->weights);
    free(s->arena);
    free(s->row);
    free(s->ids);
    free(s->wanted);
    free(s->overflow);
    free(s);
}

static bt_err host_needs(bt_needs *n, const bt_model *m, const bt_needs_want *w, bt_fault *fault)
{
    size_t arena = 0;
    bt_graph *graph = NULL;
    bt_program *program = NULL;
    bt_err e = bt_weights_bytes(&n->form[w->weights], m, w->weights, false, fault);
    if (e == BT_OK) e = bt_graph_build(&graph, &m->hp, NULL, fault);
    if (e == BT_OK) e = bt_bind_program(&program, graph, 0, 1, 1, 0, fault);
    if (e == BT_OK) e = bt_bind_arena_bytes(&arena, program, bt_decode_bucket(w->rows), fault);
    if (e == BT_OK) {
        const size_t copies = m->hp.experts ? m->hp.experts_used : 1,
                     sums =
                         w->weights == BT_FORM_FP4 ? bt_form_fp4_sums_bytes(w->rows * copies, m->hp.ffn) : 0;
        n->part[BT_NEEDS_WORK] += arena + bt_limits_rope_bytes(&m->hp, n->ctx_tokens) +
                                  bt_limits_companion_bytes(&m->hp, w->rows, n->ctx_tokens, sums, w->threads);
    }
    bt_bind_free(program);
    bt_graph_free(graph);
    return e;
}

static bt_err open_all(host_state *s, const bt_model *m, const bt_decode_config *c, bt_fault *fault)
{
    const bt_weights_options o = {.form = c->weights, .ctx_tokens = c->ctx_tokens, .progress = c->progress,
                                  .progress_ud = c->progress_ud};
    size_t bytes;
    bt_err e = bt_weights_open(&s->weights, m, &o, c->pool, fault);
    if (e == BT_OK) e = bt_graph_build(&s->graph, &m->hp, NULL, fault);
    if (e == BT_OK) e = bt_bind_program(&s->program, s->graph, 0, 1, 1, 0, fault);
    if (e == BT_OK) e = bt_bind_arena_bytes(&bytes, s->program, bt_decode_bucket(c->rows_max), fault);
    if (e != BT_OK) return e;
    const bt_walk_config wc = {.weights = s->weights, .kernels = s->kernels, .pool = c->pool,
                               .sequences_max = c->rows_max, .ctx_tokens = c->ctx_tokens};
    if ((e = bt_walk_new(&s->walk, &wc, fault)) < 0) return e;
    s->arena = aligned_alloc(BT_PLACE_ALIGN, bytes);
    s->row = calloc(c->rows_max, sizeof *s->row);
    s->ids = calloc(c->rows_max, sizeof *s->ids);
    s->wanted = calloc(c->rows_max, sizeof *s->wanted);
    s->overflow = calloc(c->rows_max, sizeof *s->overflow);
    if (s->arena && s->row && s->ids && s->wanted && s->overflow) return BT_OK;
    return bt_fail(fault, BT_ENOMEM, "out of memory for an arena of %zu bytes for %zu rows", bytes,
                   c->rows_max);
}

static bt_err host_load(void **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault)
{
    const bt_kernels *kernels = NULL;
    bt_err e = bt_limits_kernels(&kernels, config->isa, fault);
    if (e < 0) return e;
    host_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory making an engine");
    s->kernels = kernels;
    e = open_all(s, m, config, fault);
    if (e < 0) host_free(s);
    else *ret = s;
    return e;
}

static bt_err host_step(void *state, const bt_decode_seq *seq, size_t n, bt_overflow *any,
                        const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    host_state *s = state;
    size_t rows = 0, wanted = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < seq[i].count; j++) {
            if (j + seq[i].out >= seq[i].count) s->wanted[wanted++] = (uint32_t)rows;
            s->ids[rows] = seq[i].tokens[j];
            s->overflow[rows] = seq[i].overflow ? seq[i].overflow : any;
            s->row[rows++] = (bt_companion_seq){seq[i].kv, seq[i].pos + j, 1};
        }
    if (!rows) return BT_OK;
    const bt_walk_io io = {.ids = s->ids,
                           .seq = s->row,
                           .overflow = s->overflow,
                           .sequences = rows,
                           .bucket = bt_decode_bucket(rows),
                           .wanted = s->wanted,
                           .wanted_len = wanted,
                           .logits = logits,
                           .cancel = cancel};
    return bt_walk_run(s->walk, s->program, s->arena, &io, fault);
}

static const char *host_isa(const void *state) { return ((const host_state *)state)->kernels->isa; }
static const char *host_weights(const void *state)
{
    return bt_weights_form(((const host_state *)state)->weights);
}
static const bt_weights *host_shared(const void *state) { return ((const host_state *)state)->weights; }
static uint64_t host_weight_bytes(const void *state)
{
    return bt_weights_step_bytes(((const host_state *)state)->weights);
}
static uint64_t host_more_bytes(const void *state)
{
    return bt_walk_more_bytes(((const host_state *)state)->walk);
}
static uint64_t host_kv_bytes(const void *state)
{
    return bt_walk_kv_bytes(((const host_state *)state)->walk);
}

const bt_decode_backend bt_decode_host = {
    .facts = {.name = "host", .kv_elem_bytes = {2, 1}, .has_weights = true, .mixes = 1u << BT_FORM_F16},
    .needs = host_needs,
    .load = host_load,
    .step = host_step,
    .isa = host_isa,
    .weights = host_weights,
    .shared_weights = host_shared,
    .weight_bytes = host_weight_bytes,
    .more_bytes = host_more_bytes,
    .kv_bytes_written = host_kv_bytes,
    .free = host_free,
};
