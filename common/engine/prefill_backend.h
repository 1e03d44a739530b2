#ifndef BT_ENGINE_PREFILL_BACKEND_H
#define BT_ENGINE_PREFILL_BACKEND_H
#include "engine/needs.h"
#include "engine/prefill.h"

/* The facts and functions of an engine behind prefill.h. prefill.c has the thread pool and has checked the view. */
typedef struct bt_prefill_backend {
    bt_engine_facts facts;
    /* Adds what it takes beside KV and logits to *n, whose ctx_tokens is resolved; of want threads is, too. NULL: it
     * does not tell. */
    bt_err (*needs)(bt_needs *n, const bt_model *m, const bt_needs_want *want, bt_fault *fault);
    /* config has pool, ctx_tokens and kv_elem_bytes resolved. */
    bt_err (*load)(void **ret, const bt_model *m, const bt_prefill_config *config, bt_fault *fault);
    bt_err (*run)(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                  const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);
    /* NULL: one prompt at a time. Prompts whose result is BT_OK; 1 .. batch_max of them. */
    void (*run_batch)(void *state, bt_prefill_seq *seq, size_t prompts);
    size_t (*batch_max)(const void *state);
    size_t (*packed_rows)(const void *state); /* NULL: none */
    bt_report_work (*work)(const void *state);
    bt_report_engine (*about)(const void *state);
    const char *(*isa)(const void *state);
    const bt_pkg *(*pkg)(const void *state); /* NULL: it runs none */
    void (*free)(void *state);               /* NULL is fine */
} bt_prefill_backend;

/* The engines, in the order in which options name them: bt_prefill_NAME in a file of its own, and a row here. */
#define BT_PREFILL_ROWS(ROW) \
    ROW(npu) \
    ROW(host) \
    ROW(reference)
#define BT_PREFILL_ROW(name) extern const bt_prefill_backend bt_prefill_##name;
BT_PREFILL_ROWS(BT_PREFILL_ROW)
extern const bt_prefill_backend *const bt_prefill_rows[];          /* rows.c; NULL at the end */
const bt_prefill_backend *bt_prefill_backend_of(const char *name); /* NULL: the default; returns NULL: there is none */
#endif
