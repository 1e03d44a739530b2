/* The host back end: the model's graph bound to seq = 1, run by the float executor. ctx stays a symbol:
 * one program and one small arena serve every length. */
#include "decode-node/engine/backend.h"
#include "graph/host.h"

#include <stdlib.h>

typedef struct host_state {
    bt_packed *packed;
    const bt_kernels *kernels;
    bt_graph *graph;
    bt_program *program;
    bt_host *host;
    void *arena;
} host_state;

static void host_free(void *state)
{
    host_state *s = state;
    if (!s) return;
    bt_host_free(s->host);
    bt_bind_free(s->program);
    bt_graph_free(s->graph);
    bt_packed_free(s->packed);
    free(s->arena);
    free(s);
}

static bt_err host_load(void **ret, const bt_model *m, const dc_engine_config *config, bt_fault *fault)
{
    const bt_packed_options o = {.ctx_tokens = config->ctx_tokens, .progress = config->progress, .progress_ud = config->progress_ud};
    const bt_kernels *kernels = bt_kernels_select(config->isa);
    if (!kernels)
        return bt_fail(fault, BT_EARG, "isa '%s' is unknown or not of this machine: %s", config->isa,
                       bt_kernels_names());
    bt_err e;
    host_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "making an engine");
    s->kernels = kernels;
    if ((e = bt_graph_build(&s->graph, &m->hp, NULL, fault)) < 0) goto out;
    if ((e = bt_bind_program(&s->program, s->graph, 1, 1, 1, 0, fault)) < 0) goto out;
    if (!(s->arena = aligned_alloc(64, s->program->arena_bytes))) {
        e = bt_fail(fault, BT_ENOMEM, "arena of %zu bytes", s->program->arena_bytes);
        goto out;
    }
    if ((e = bt_packed_new(&s->packed, m, &o, config->pool, fault)) < 0) goto out;
    if ((e = bt_host_new(&s->host, s->packed, NULL, kernels, config->pool, fault)) < 0) goto out;
    *ret = s;
    s = NULL;
out:
    host_free(s);
    return e;
}

static bt_err host_step(void *state, const dc_engine_seq *seq, size_t n, const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    host_state *s = state;
    for (size_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < seq[i].count; r++) {
            const bt_host_seq one = {.kv = seq[i].kv, .pos0 = seq[i].pos + r, .valid = 1};
            const bt_host_io io = {.ids = &seq[i].tokens[r], .seq = &one, .logits = logits, .cancel = cancel};
            const bt_err e = bt_host_run(s->host, s->program, s->arena, &io, fault);
            if (e < 0) return e;
            if (r + seq[i].out >= seq[i].count) logits += bt_packed_model(s->packed)->hp.vocab;
        }
    return BT_OK;
}

static const char *host_isa(const void *state) { return ((const host_state *)state)->kernels->isa; }
static const char *host_weights(const void *state) { (void)state; return "f16"; }
static uint64_t host_weight_bytes(const void *state) { return bt_packed_bytes(((const host_state *)state)->packed); }

const dc_engine_backend dc_engine_host = {
    .name = "host", .kv_elem_bytes = {2, 0}, .load = host_load, .step = host_step, .isa = host_isa,
    .weights = host_weights, .weight_bytes = host_weight_bytes, .free = host_free,
};
