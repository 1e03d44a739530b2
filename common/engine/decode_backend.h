#ifndef BT_ENGINE_DECODE_BACKEND_H
#define BT_ENGINE_DECODE_BACKEND_H
#include "engine/decode.h"

/* What an engine behind decode.h provides. decode.c has checked every token, position
 * and view before step is called. */
typedef struct bt_decode_backend {
    uint32_t kv_elem_bytes[2]; /* what it takes; the first is the default, 0: no second */
    /* config has ctx_tokens, rows_max and kv_elem_bytes resolved. */
    bt_err (*load)(void **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault);
    /* any: of sequences without an overflow of their own */
    bt_err (*step)(void *state, const bt_decode_seq *seq, size_t n, bt_overflow *any, const atomic_bool *cancel,
                   float *logits, bt_fault *fault);
    const char *(*isa)(const void *state);
    const char *(*weights)(const void *state);              /* the name of their form */
    const char *(*quant)(const void *state);                /* for people; NULL: as weights */
    const bt_weights *(*shared_weights)(const void *state); /* NULL: it has none */
    const bt_pkg *(*shared_package)(const void *state);     /* NULL: it has none */
    uint64_t (*weight_bytes)(const void *state);
    uint64_t (*kv_bytes_written)(const void *state); /* counted where rows are stored, since load */
    bt_report_work (*work)(const void *state);       /* NULL: it counts none */
    void (*free)(void *state);                       /* NULL is fine */
} bt_decode_backend;

extern const bt_decode_backend bt_decode_npu, bt_decode_host, bt_decode_reference;
#endif
