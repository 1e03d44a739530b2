#ifndef PF_ENGINE_H
#define PF_ENGINE_H
#include "model/model.h"
#include "npu/prefill.h"
#include "wire/msg.h"

/* What the prefill node computes with: one interface, one implementation for each `--engine`.
 *   "host"       the programs of common/npu, f16 KV
 *   "reference"  the plain FP32 oracle of common/ref, whole prompt at once, f32 KV; ignores isa and
 *                shape_policy
 * An engine owns its threads, packed weights and arenas. One call at a time. */
typedef struct pf_engine pf_engine;

typedef struct pf_engine_config {
    const char *engine;                     /* NULL: "host" */
    const char *isa;                        /* bt_kernels_select; NULL: the best */
    const char *shape_policy;               /* npu/plan.h; NULL: the default */
    size_t threads;                         /* 0: as many as cores */
    size_t ctx_tokens;                      /* longest prompt, at most the model's context; 0: that, or what kv_memory_bytes holds */
    uint64_t kv_memory_bytes;               /* where ctx_tokens is 0, it is cut to whole 64 tokens of KV in so much memory; 0: no cut */
    void (*progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);  /* while packing; NULL: silent */
    void *progress_ud;
} pf_engine_config;

/* m is borrowed and outlives the engine. BT_EARG names an unknown engine, isa or policy. */
bt_err pf_engine_new(pf_engine **ret, const bt_model *m, const pf_engine_config *config, bt_fault *fault);
void   pf_engine_free(pf_engine *e);        /* NULL is fine */

const char *pf_engine_name(const pf_engine *e);             /* "host", "reference" */
const char *pf_engine_isa(const pf_engine *e);              /* "avx2"; "ref" for the reference */
uint32_t pf_engine_kv_elem_bytes(const pf_engine *e);       /* 2 or 4: what the views must have */
size_t   pf_engine_ctx_tokens(const pf_engine *e);

/* As bt_prefill_run, with kv->elem_bytes = pf_engine_kv_elem_bytes. The reference's hooks come when all
 * is computed. BT_EARG for a view of another shape. */
bt_err pf_engine_prefill(pf_engine *e, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                         const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);
bt_msg_work pf_engine_work(const pf_engine *e);             /* of all calls, and the compilations of pf_engine_new */
bt_msg_engine pf_engine_describe(const pf_engine *e);       /* for HELLO */
#endif
