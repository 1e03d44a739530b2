#ifndef BT_ENGINE_PREFILL_BACKEND_H
#define BT_ENGINE_PREFILL_BACKEND_H
#include "engine/prefill.h"

/* What an engine behind prefill.h provides. prefill.c has the thread pool and has checked the view. */
typedef struct bt_prefill_backend {
    uint32_t kv_elem_bytes[2]; /* what it takes; the first is the default, 0: no second */
    /* config has pool, ctx_tokens and kv_elem_bytes resolved. */
    bt_err (*load)(void **ret, const bt_model *m, const bt_prefill_config *config, bt_fault *fault);
    bt_err (*run)(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                  const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);
    /* NULL: one prompt at a time. Prompts whose result is BT_OK; 1 .. together_max of them. */
    void (*run_together)(void *state, bt_prefill_seq *seq, size_t prompts);
    size_t (*together_max)(const void *state);
    size_t (*packed_rows)(const void *state); /* NULL: none */
    bt_report_work (*work)(const void *state);
    bt_report_engine (*about)(const void *state);
    const char *(*isa)(const void *state);
    const bt_pkg *(*pkg)(const void *state); /* NULL: it runs none */
    void (*free)(void *state);               /* NULL is fine */
} bt_prefill_backend;

extern const bt_prefill_backend bt_prefill_npu, bt_prefill_host, bt_prefill_reference;
#endif
