#ifndef PF_ENGINE_BACKEND_H
#define PF_ENGINE_BACKEND_H
#include "base/pool.h"
#include "prefill-node/engine.h"

/* What a back end of pf_engine provides. engine.c owns the thread pool and has checked the view. */
typedef struct pf_engine_backend {
    const char *name;
    uint32_t kv_elem_bytes[2];              /* what it takes; the first is the default, 0: no second */
    /* config has ctx_tokens and kv_elem_bytes resolved. pool outlives the state. */
    bt_err (*load)(void **ret, const bt_model *m, const pf_engine_config *config, bt_pool *pool,
                   bt_fault *fault);
    bt_err (*prefill)(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);
    bt_msg_work (*work)(const void *state);
    void (*describe)(const void *state, bt_node_about *ret);  /* all but the name; ret is zero */
    const char *(*isa)(const void *state);
    void (*free)(void *state);              /* NULL is fine */
} pf_engine_backend;

extern const pf_engine_backend pf_engine_npu, pf_engine_host, pf_engine_reference;
#endif
