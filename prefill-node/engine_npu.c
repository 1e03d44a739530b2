/* The NPU back end: a package, and the executor of common/npu over it. */
#include "prefill-node/engine_backend.h"

#include <stdlib.h>

typedef struct npu_state {
    bt_pkg *pkg;
    const bt_kernels *kernels;
    bt_prefill *prefill;
} npu_state;

static void npu_free(void *state)
{
    npu_state *s = state;
    if (!s) return;
    bt_prefill_free(s->prefill);
    bt_pkg_close(s->pkg);
    free(s);
}

static bt_err npu_load(void **ret, const bt_model *m, const pf_engine_config *config, bt_pool *pool, bt_fault *fault)
{
    const bt_obtain_how how = {.ctx_tokens = config->ctx_tokens, .pool = pool, .allow_llm_int8 = config->for_perplexity,
                                .progress = config->progress, .ud = config->progress_ud};
    const bt_prefill_options options = {.ctx_tokens = config->ctx_tokens};
    const bt_kernels *kernels = bt_kernels_select(config->isa);
    if (!kernels)
        return bt_fail(fault, BT_EARG, "isa '%s' is unknown or not of this machine: %s", config->isa, bt_kernels_names());
    npu_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "making an engine");
    s->kernels = kernels;
    bt_err e = bt_obtain_open(&s->pkg, NULL, m, &config->want, &how, fault);
    if (e == BT_OK) e = bt_prefill_new_npu(&s->prefill, s->pkg, kernels, pool, &options, fault);
    if (e < 0) npu_free(s);
    else *ret = s;
    return e;
}

static bt_err npu_prefill(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                          const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    npu_state *s = state;
    return bt_prefill_run(s->prefill, kv, ids, n, pos0, hooks, logits, out, fault);
}

static bt_msg_work npu_work(const void *state) { return bt_node_setup_work(((const npu_state *)state)->prefill); }
static void npu_describe(const void *state, bt_node_about *ret) { bt_node_setup_about_package(ret, ((const npu_state *)state)->pkg); }
static const char *npu_isa(const void *state) { return ((const npu_state *)state)->kernels->isa; }

const pf_engine_backend pf_engine_npu = {"npu", {2, 1}, npu_load, npu_prefill, npu_work, npu_describe, npu_isa, npu_free};
