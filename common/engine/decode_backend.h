#ifndef BT_ENGINE_DECODE_BACKEND_H
#define BT_ENGINE_DECODE_BACKEND_H
#include "engine/decode.h"
#include "engine/needs.h"

/* The facts and functions of an engine behind decode.h. decode.c has checked every token, position and view before step
 * is called. */
typedef struct bt_decode_backend {
    bt_engine_facts facts;
    /* Adds what it takes beside KV and logits to *n, whose ctx_tokens is resolved; of want threads and rows are, too.
     * Not asked where the engine of prompts runs the same package. NULL: it does not tell. */
    bt_err (*needs)(bt_needs *n, const bt_model *m, const bt_needs_want *want, bt_fault *fault);
    /* config has ctx_tokens, rows_max and kv_elem_bytes resolved. */
    bt_err (*load)(void **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault);
    /* any: for sequences without an overflow of their own */
    bt_err (*step)(void *state, const bt_decode_seq *seq, size_t n, bt_overflow *any, const atomic_bool *cancel,
                   float *logits, bt_fault *fault);
    const char *(*isa)(const void *state);
    const char *(*weights)(const void *state);              /* the name of their form */
    const char *(*quant)(const void *state);                /* for people; NULL: as weights */
    const bt_weights *(*shared_weights)(const void *state); /* NULL: it has none */
    const bt_pkg *(*shared_package)(const void *state);     /* NULL: it has none */
    uint64_t (*weight_bytes)(const void *state);
    uint64_t (*more_bytes)(const void *state);       /* of weights, read beyond these by all steps; NULL: none */
    uint64_t (*kv_bytes_written)(const void *state); /* counted where rows are stored, since load */
    bt_report_work (*work)(const void *state);       /* NULL: it counts none */
    void (*free)(void *state);                       /* NULL is fine */
} bt_decode_backend;

/* The engines, in the order in which options name them: bt_decode_NAME in a file of its own, and a row here. */
#define BT_DECODE_ROWS(ROW) \
    ROW(npu) \
    ROW(host) \
    ROW(reference)
#define BT_DECODE_ROW(name) extern const bt_decode_backend bt_decode_##name;
BT_DECODE_ROWS(BT_DECODE_ROW)
extern const bt_decode_backend *const bt_decode_rows[];          /* rows.c; NULL at the end */
const bt_decode_backend *bt_decode_backend_of(const char *name); /* NULL: the default; returns NULL: there is none */
#endif
