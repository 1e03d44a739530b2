#ifndef DC_LOCAL_H
#define DC_LOCAL_H
#include <stdatomic.h>
#include "base/pool.h"
#include "kernels/kv_view.h"
#include "model/model.h"
#include "node/node_setup.h"

/* The prefill engine of a decode node that prefills itself: the same executor over the same package as a prefill node's, so a prompt's KV
 * rows and logits are the same bits wherever, and in whatever pieces, it is computed.
 *   "npu"   the integer NPU: a package, compiled on first use (npu/compile/obtain.h)
 *   "host"  the float programs of common/npu, f16 weights
 * It computes on the node's own threads, between decode steps. One call at a time. */
typedef struct dc_local dc_local;

extern const char *const dc_local_names[];                  /* the first is the default */

typedef struct dc_local_config {
    const char *engine;                     /* NULL: the first of dc_local_names */
    const char *isa;                        /* bt_kernels_select; NULL: the best */
    bt_obtain_want want;                   /* host: only shape_policy counts */
    size_t ctx_tokens;                      /* longest prompt, 1 .. the model's context */
    bt_pool *pool;                          /* borrowed, outlives it; NULL: one thread */
    void (*progress)(void *ud, const char *stage, uint64_t done, uint64_t total);   /* while compiling; NULL: silent */
    void *progress_ud;
} dc_local_config;

/* m is borrowed and outlives it. BT_EARG names an unknown engine, isa or policy. */
bt_err dc_local_new(dc_local **ret, const bt_model *m, const dc_local_config *config, bt_fault *fault);
void   dc_local_free(dc_local *l);          /* NULL is fine */

/* Rows [pos0, pos0 + n) of a prompt whose rows [0, pos0) are in place; as bt_prefill_run. logits[V]: of the last of them. */
bt_err dc_local_run(dc_local *l, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0, const atomic_bool *cancel, float *logits,
                    bt_fault *fault);
bt_msg_work dc_local_work(const dc_local *l);               /* of all calls, and the compilations of dc_local_new */
size_t dc_local_ctx_tokens(const dc_local *l);
bt_node_about dc_local_describe(const dc_local *l);
#endif
