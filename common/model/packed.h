#ifndef BT_MODEL_PACKED_H
#define BT_MODEL_PACKED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "model/model.h"

/* The weights of a model in the form the float kernels read, made once when a node starts: matrices as f16
 * panels (kernels.h), biases, norm weights and rotary tables as f32. Storage F16, accumulation and
 * activations FP32. The embedding is not copied: its rows are read exactly from the file
 * (bt_model_row_f32); a tied output is packed as a matrix of its own. The same file gives the same bytes
 * on any machine and with any number of threads. */

/* A weight is named by (layer, which), never by a pointer, so that graphs are data. For EMBED, OUT_NORM and
 * OUTPUT, which belong to no layer, the layer is not looked at. */
typedef enum bt_weight {
    BT_WEIGHT_NONE = 0,
    BT_WEIGHT_EMBED,                                            /* [V, D], read from the file */
    BT_WEIGHT_ATTN_NORM, BT_WEIGHT_FFN_NORM, BT_WEIGHT_OUT_NORM,    /* [D] */
    BT_WEIGHT_Q_NORM, BT_WEIGHT_K_NORM,                         /* [E], qwen3 */
    BT_WEIGHT_Q, BT_WEIGHT_K, BT_WEIGHT_V,                      /* [H*E, D], [G*E, D] twice; biases in qwen2 */
    BT_WEIGHT_O,                                                /* [D, H*E] */
    BT_WEIGHT_GATE, BT_WEIGHT_UP, BT_WEIGHT_DOWN,               /* [F, D], [F, D], [D, F] */
    BT_WEIGHT_OUTPUT,                                           /* [V, D] */
} bt_weight;
const char *bt_weight_name(bt_weight w);                        /* "attn_norm", "q", ...; never NULL */
bool bt_weight_is_matrix(bt_weight w);
/* The file's tensor of a weight and its bias; NULL where the architecture has none. */
const bt_gguf_tensor *bt_weight_tensor(const bt_model *m, uint32_t layer, bt_weight w);
const bt_gguf_tensor *bt_weight_bias(const bt_model *m, uint32_t layer, bt_weight w);
/* Walks all weights of a model but the embedding, each once, in one order: layer 0, its weights and those of no layer, then the next layers.
 * Begin with *layer = 0 and BT_WEIGHT_NONE; the end is BT_WEIGHT_NONE. */
bt_weight bt_weight_next(const bt_model *m, uint32_t *layer, bt_weight w);

typedef struct bt_packed_matrix {
    const uint16_t *panels;                 /* bt_matmul_packed_elems(n, k) of them, 64-byte aligned */
    const float *bias;                      /* [n], or NULL */
    size_t n, k;
} bt_packed_matrix;

/* Values to pack in place of the file's, with the file's shapes: how folded weights reach the float kernels. `begin` comes on the caller's
 * thread before a matrix or a norm vector is read, `row` after it from any thread: y[k] = row n of it (a vector is row 0). Biases and
 * rotary tables stay the file's. */
typedef struct bt_packed_source {
    bt_err (*begin)(void *ud, uint32_t layer, bt_weight w, bt_fault *fault);
    void   (*row)(void *ud, float *y, size_t n);
    void *ud;
} bt_packed_source;

typedef struct bt_packed_options {
    size_t ctx_tokens;                      /* positions in the rotary tables; 1 .. BT_MODEL_MAX_CTX */
    /* Called on the caller's thread after each matrix, with done rising to total; NULL: silent. */
    void (*progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ud;
    const bt_packed_source *source;         /* NULL: the file */
} bt_packed_options;

typedef struct bt_packed bt_packed;
/* Needs 2 bytes for each matrix weight. m must outlive the result; pool (NULL: one thread) is used only
 * inside the call. BT_EFORMAT naming the tensor where a weight is not finite as f16; BT_ENOMEM; BT_EARG. */
bt_err bt_packed_new(bt_packed **ret, const bt_model *m, const bt_packed_options *options, bt_pool *pool,
                     bt_fault *fault);
void   bt_packed_free(bt_packed *p);        /* NULL is fine */

/* All safe from any thread. w must exist in the architecture (the graph only names those). */
const bt_packed_matrix *bt_packed_matrix_of(const bt_packed *p, uint32_t layer, bt_weight w);
const float *bt_packed_vector_of(const bt_packed *p, uint32_t layer, bt_weight w);      /* norms */
const float *bt_packed_rope_cos(const bt_packed *p, size_t pos);                        /* [rope_dims / 2] */
const float *bt_packed_rope_sin(const bt_packed *p, size_t pos);
const bt_model *bt_packed_model(const bt_packed *p);
size_t bt_packed_ctx_tokens(const bt_packed *p);
size_t bt_packed_bytes(const bt_packed *p);

/* ---- the pieces, for whoever keeps weights in a form or place of its own ---- */
/* Calls fn once for each panel of 16 outputs of a matrix, on the pool's threads; scratch[16 * dim[0]] is its own for the call. Where fn gives false
 * for any, the others still run, and the result is BT_EFORMAT "tensor 'NAME': refusal". BT_ENOMEM. */
typedef bool bt_packed_panel_fn(void *ud, size_t panel, float *scratch);
bt_err bt_packed_split(const bt_gguf_tensor *t, bt_packed_panel_fn *fn, void *ud, const char *refusal, bt_pool *pool, bt_fault *fault);
/* A matrix as f16 panels, into zeroed memory; source, which has begun, may be NULL. BT_EFORMAT as bt_packed_new. */
bt_err bt_packed_f16(uint16_t *panels, const bt_gguf_tensor *t, const bt_packed_source *source, bt_pool *pool, bt_fault *fault);
/* v[dim[0]] = the only row of a tensor. BT_EFORMAT naming it where an element is not finite. */
bt_err bt_packed_vector(float *v, const bt_gguf_tensor *t, const bt_packed_source *source, bt_fault *fault);
#endif
