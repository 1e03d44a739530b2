/* The host back end: packed weights and the programs of common/npu. */
#include "prefill-node/engine_backend.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct host_state {
    bt_packed *packed;
    const bt_kernels *kernels;
    bt_prefill *prefill;
    char shape_policy[sizeof((bt_msg_engine *)0)->shape_policy];
} host_state;

static void host_free(void *state)
{
    host_state *s = state;
    if (!s) return;
    bt_prefill_free(s->prefill);
    bt_packed_free(s->packed);
    free(s);
}

static bt_err host_load(void **ret, const bt_model *m, const pf_engine_config *config, bt_pool *pool,
                        bt_fault *fault)
{
    const bt_packed_options packing = {.ctx_tokens = config->ctx_tokens};
    const bt_prefill_options options = {config->ctx_tokens, config->want.shape_policy};
    const bt_kernels *kernels = bt_kernels_select(config->isa);
    bt_shapes plan;
    if (!kernels)
        return bt_fail(fault, BT_EARG, "isa '%s' is unknown or not of this machine: %s", config->isa,
                       bt_kernels_names());
    bt_err e = bt_shapes_parse(&plan, config->want.shape_policy, config->ctx_tokens, fault); /* before the long part */
    if (e < 0) return e;
    host_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "making an engine");
    s->kernels = kernels;
    snprintf(s->shape_policy, sizeof s->shape_policy, "%s", config->want.shape_policy ? config->want.shape_policy : BT_SHAPES_DEFAULT);
    if ((e = bt_packed_new(&s->packed, m, &packing, pool, fault)) < 0) goto out;
    if ((e = bt_prefill_new(&s->prefill, s->packed, kernels, pool, &options, fault)) < 0) goto out;
    *ret = s;
    s = NULL;
out:
    host_free(s);
    return e;
}

static bt_err host_prefill(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                           const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    host_state *s = state;
    return bt_prefill_run(s->prefill, kv, ids, n, pos0, hooks, logits, out, fault);
}

static bt_msg_work host_work(const void *state) { return bt_node_setup_work(((const host_state *)state)->prefill); }
static void host_describe(const void *state, bt_node_about *ret)
{
    bt_node_setup_about_floats(ret, ((const host_state *)state)->shape_policy);
}
static const char *host_isa(const void *state) { return ((const host_state *)state)->kernels->isa; }

const pf_engine_backend pf_engine_host = {"host",     {2, 1},   host_load, host_prefill,
                                          host_work, host_describe, host_isa, host_free};
