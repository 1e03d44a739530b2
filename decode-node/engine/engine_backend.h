#ifndef DC_ENGINE_BACKEND_H
#define DC_ENGINE_BACKEND_H
#include "base/pool.h"
#include "decode-node/engine/engine.h"

/* What a back end of dc_engine provides. engine.c owns the thread pool and has checked token, position and
 * view. */
typedef struct dc_engine_backend {
    const char *name;
    uint32_t kv_elem_bytes;
    /* config has ctx_tokens resolved. pool outlives the state. */
    bt_err (*load)(void **ret, const bt_model *m, const dc_engine_config *config, bt_pool *pool,
                   bt_fault *fault);
    bt_err (*step)(void *state, const bt_kv_view *kv, int32_t token, size_t pos, const atomic_bool *cancel,
                   float *logits, bt_fault *fault);
    const char *(*isa)(const void *state);
    void (*free)(void *state);              /* NULL is fine */
} dc_engine_backend;

extern const dc_engine_backend dc_engine_host, dc_engine_reference;
#endif
