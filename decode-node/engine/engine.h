#ifndef DC_ENGINE_H
#define DC_ENGINE_H
#include <stdatomic.h>
#include <stdint.h>
#include "kernels/kv_view.h"
#include "model/model.h"

/* What the decode node computes with: seq = 1 programs, ctx left symbolic. One interface, one back end for
 * each `--engine`:
 *   "host"       f16 weights, f16 KV, the kernels of common/kernels
 *   "reference"  the plain FP32 oracle of common/ref, f32 KV; ignores isa
 * A back end is one row of function pointers (engine_backend.h): load weights, step, free. It sees KV only
 * through bt_kv_view.
 *
 * Numbers (host): a row made here has the same bits as the same row made by common/npu's float executor,
 * whatever the threads and instruction set. An engine owns its threads, weights and arenas. One call at a
 * time. */
typedef struct dc_engine dc_engine;

typedef struct dc_engine_config {
    const char *engine;                     /* NULL: "host" */
    const char *isa;                        /* bt_kernels_select; NULL: the best */
    size_t threads;                         /* 0: as many as cores */
    size_t ctx_tokens;                      /* longest sequence, at most the model's context; 0: that, or what kv_memory_bytes holds */
    uint64_t kv_memory_bytes;               /* where ctx_tokens is 0, it is cut to whole 64 tokens of KV in so much memory; 0: no cut */
    void (*progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);  /* while packing; NULL: silent */
    void *progress_ud;
} dc_engine_config;

/* m is borrowed and outlives the engine. BT_EARG names an unknown engine or isa. */
bt_err dc_engine_new(dc_engine **ret, const bt_model *m, const dc_engine_config *config, bt_fault *fault);
void   dc_engine_free(dc_engine *e);        /* NULL is fine */

const char *dc_engine_name(const dc_engine *e);             /* "host", "reference" */
const char *dc_engine_isa(const dc_engine *e);              /* "avx2"; "ref" for the reference */
uint32_t dc_engine_kv_elem_bytes(const dc_engine *e);       /* 2 or 4: what the views must have */
size_t   dc_engine_ctx_tokens(const dc_engine *e);
size_t   dc_engine_vocab(const dc_engine *e);

/* Run one token at position pos of a sequence whose positions [0, pos) are stored in kv: stores its K and
 * V rows (exactly those), and writes the logits that follow it, f32 [V]. Between calls an engine remembers
 * nothing of a sequence. BT_EARG: token outside the vocabulary or a view of another shape; BT_ELIMIT: pos
 * >= ctx_tokens or the view's capacity; BT_ECANCEL: *cancel became true (NULL: never looked at), rows of
 * pos may have been written. host: no allocation. */
bt_err dc_engine_step(dc_engine *e, const bt_kv_view *kv, int32_t token, size_t pos, const atomic_bool *cancel,
                      float *logits, bt_fault *fault);
#endif
