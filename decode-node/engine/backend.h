#ifndef DC_ENGINE_BACKEND_H
#define DC_ENGINE_BACKEND_H
#include "base/pool.h"
#include "decode-node/engine/engine.h"

/* What a back end of dc_engine provides: one folder with one such row. engine.c has checked every token, position
 * and view before step is called. */
typedef struct dc_engine_backend {
    const char *name;
    uint32_t kv_elem_bytes[2];              /* what it takes; the first is the default, 0: no second */
    /* config has ctx_tokens, rows_max and kv_elem_bytes resolved. */
    bt_err (*load)(void **ret, const bt_model *m, const dc_engine_config *config, bt_fault *fault);
    bt_err (*step)(void *state, const dc_engine_seq *seq, size_t n, const atomic_bool *cancel, float *logits, bt_fault *fault);
    const char *(*isa)(const void *state);
    const char *(*weights)(const void *state);
    uint64_t (*weight_bytes)(const void *state);
    uint64_t (*kv_bytes_written)(const void *state);    /* counted where rows are stored, since load */
    void (*free)(void *state);              /* NULL is fine */
} dc_engine_backend;

extern const dc_engine_backend dc_engine_host, dc_engine_reference;
#endif
