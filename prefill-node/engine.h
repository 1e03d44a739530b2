#ifndef PF_ENGINE_H
#define PF_ENGINE_H
#include "model/model.h"
#include "node/node_setup.h"

/* What the prefill node computes with: one interface, one implementation for each `--engine`.
 *   "npu"        the integer NPU: a package, compiled on first use (package.h); f16 or int8 KV
 *   "host"       the float programs of common/npu, f16 weights, f16 or int8 KV
 *   "reference"  the plain FP32 oracle of common/ref, whole prompt at once, f32 KV; ignores isa and
 *                shape_policy
 * An engine owns its threads, weights and arenas. One call at a time. */
typedef struct pf_engine pf_engine;

extern const char *const pf_engine_names[];                 /* values of --engine; the first is the default */
#define PF_ENGINE_OPT(config, field) \
    { .group = "Model", .name = "engine", .value = "NAME", BT_OPT_AT(config, field), .type = BT_OPT_CHOICE, .def = "npu", \
      .choices = pf_engine_names, .help = "what computes prompts: the integer NPU, f16 kernels, or the plain FP32 oracle" }

typedef struct pf_engine_config {
    const char *engine;                     /* NULL: the first of pf_engine_names */
    const char *isa;                        /* bt_kernels_select; NULL: the best */
    bt_obtain_want want;                   /* host: only shape_policy counts */
    bool for_perplexity;                    /* recipes whose numbers depend on the chunk are allowed */
    uint32_t kv_elem_bytes;                 /* 2 f16, 1 int8 (kernels/kv_view.h); 0: the engine's first, 2, or 4 for the reference */
    size_t threads;                         /* 0: as many as cores */
    size_t ctx_tokens;                      /* longest prompt, at most the model's context; 0: that, or what kv_memory_bytes holds */
    uint64_t kv_memory_bytes;               /* where ctx_tokens is 0, it is cut to whole 64 tokens of KV in so much memory; 0: no cut */
    void (*progress)(void *ud, const char *stage, uint64_t done, uint64_t total);   /* while compiling; NULL: silent */
    void *progress_ud;
} pf_engine_config;

/* m is borrowed and outlives the engine. BT_EARG names an unknown engine, isa or policy, or a form of KV that the engine lacks. */
bt_err pf_engine_new(pf_engine **ret, const bt_model *m, const pf_engine_config *config, bt_fault *fault);
void   pf_engine_free(pf_engine *e);        /* NULL is fine */

const char *pf_engine_name(const pf_engine *e);             /* one of pf_engine_names */
const char *pf_engine_isa(const pf_engine *e);              /* "avx2"; "ref" for the reference */
uint32_t pf_engine_kv_elem_bytes(const pf_engine *e);       /* 1, 2 or 4: what the views must have */
size_t   pf_engine_ctx_tokens(const pf_engine *e);

/* As bt_prefill_run, with kv->elem_bytes = pf_engine_kv_elem_bytes. The reference's hooks come when all
 * is computed. BT_EARG for a view of another shape. */
bt_err pf_engine_prefill(pf_engine *e, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                         const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);
bt_msg_work pf_engine_work(const pf_engine *e);             /* of all calls, and the compilations of pf_engine_new */
bt_node_about pf_engine_describe(const pf_engine *e);
#endif
