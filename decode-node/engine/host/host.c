/* The host back end: weights in the form that was asked for, and the executor over them. */
#include "decode-node/engine/backend.h"
#include "decode-node/engine/host/exec.h"

#include <stdlib.h>

typedef struct host_state {
    dc_weights *weights;
    const bt_kernels *kernels;
    dc_exec *exec;
} host_state;

static void host_free(void *state)
{
    host_state *s = state;
    if (!s) return;
    dc_exec_free(s->exec);
    dc_weights_free(s->weights);
    free(s);
}

static bt_err host_load(void **ret, const bt_model *m, const dc_engine_config *config, bt_fault *fault)
{
    const dc_weights_options o = {.form = config->weights, .ctx_tokens = config->ctx_tokens, .progress = config->progress,
                                  .progress_ud = config->progress_ud};
    const bt_kernels *kernels = bt_kernels_select(config->isa);
    if (!kernels) return bt_fail(fault, BT_EARG, "isa '%s' is unknown or not of this machine: %s", config->isa, bt_kernels_names());
    bt_err e;
    host_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "making an engine");
    s->kernels = kernels;
    if ((e = dc_weights_open(&s->weights, m, &o, config->pool, fault)) < 0) goto out;
    if ((e = dc_exec_new(&s->exec, s->weights, kernels, config->pool, config->rows_max, config->ctx_tokens, fault)) < 0) goto out;
    *ret = s;
    s = NULL;
out:
    host_free(s);
    return e;
}

static bt_err host_step(void *state, const dc_engine_seq *seq, size_t n, const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    return dc_exec_step(((host_state *)state)->exec, seq, n, cancel, logits, fault);
}

static const char *host_isa(const void *state) { return ((const host_state *)state)->kernels->isa; }
static const char *host_weights(const void *state) { return dc_weights_form(((const host_state *)state)->weights); }
static uint64_t host_weight_bytes(const void *state) { return dc_weights_step_bytes(((const host_state *)state)->weights); }
static uint64_t host_kv_bytes(const void *state) { return dc_exec_kv_bytes(((const host_state *)state)->exec); }

const dc_engine_backend dc_engine_host = {
    .name = "host", .kv_elem_bytes = {2, 1}, .load = host_load, .step = host_step, .isa = host_isa,
    .weights = host_weights, .weight_bytes = host_weight_bytes, .kv_bytes_written = host_kv_bytes, .free = host_free,
};
