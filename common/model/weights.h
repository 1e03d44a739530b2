#ifndef BT_MODEL_WEIGHTS_H
#define BT_MODEL_WEIGHTS_H
#include "base/pool.h"
#include "base/progress.h"
#include "kernels/forms.h"
#include "model/model.h"
#include "model/weight.h"

/* The weights of a model in one of the forms of kernels/forms.h: the float executor reads them (graph/walk.h); the
 * reference engine has a store of its own. The weights are converted once and kept in the user's cache, as a file that
 * is mapped: a node starts in the time of reading that file, and processes share one copy.
 *
 * The form of a matrix, by --weights and by its type in the file:
 *   f16    F16, each value rounded to nearest even
 *   int8   Q8_0: INT8 in the file's blocks, exact. Others: INT8 with one scale a channel
 *   fp4    Q4_0, Q4_1: FP4 with the file's codes, exact (m = -8 d for Q4_0). Q8_0: INT8 in the file's blocks, exact.
 *          The output matrix of a file that spends more than 5 bits a weight on it: INT8 in blocks of 32. Others: FP4.
 *          A matrix with a scale or minimum that f16 cannot hold (8 d > 65504 for Q4_0): INT8 in blocks of 32, which is
 *          exact for Q4_0. MXFP4: MX with the file's codes, exact
 * Exact: bt_form_value equals the file's own f32 value. Otherwise each channel or block has:
 *   INT8   d = max |w| / 127 as f16, the next one up where 127 d < max |w|;  q = rint(w / d)
 *   FP4    d = (max - min) / 15 as f16, m = min as f16;  q = clamp(rint((w - m) / d), 0, 15);  d = 0: q = 0
 * The embedding stays in the model's file and is read row by row; biases, norms and rotary tables are f32. The same
 * file gives the same bytes on any machine and with any number of threads.
 *
 * The cache (base/cache.h) has one file for a model and form, in the folder `weights`. Every byte of it is compared
 * with its hash once for each state of the file (base/checked.h); a file that is damaged, of another version or of
 * another model is made anew. */
typedef struct bt_weights bt_weights;
extern const char *const bt_weights_forms[]; /* values of --weights in the order of bt_form, of which MX is no value,
                                                and NULL at the end; the first is the default */

/* Values to take in place of the file's, with the file's shapes: how folded weights reach the float kernels. `begin` is
 * called on the caller's thread before a matrix or a norm vector is read; then `row`, from any thread, fills y[k] with
 * row n of it (a vector is row 0). Biases and rotary tables stay the file's. */
typedef struct bt_weights_source {
    bt_err (*begin)(void *ud, uint32_t layer, bt_weight w, bt_fault *fault);
    void (*row)(void *ud, float *y, size_t n);
    void *ud;
} bt_weights_source;

typedef struct bt_weights_options {
    const char *form;  /* one of bt_weights_forms; NULL: the first */
    size_t ctx_tokens; /* positions in the rotary tables; 1 .. BT_MODEL_MAX_CTX */
    /* NULL: the user's cache, for BT_WEIGHTS_CACHE_LEAST_BYTES and more; "": no cache, convert into memory */
    const char *cache_dir;
    const bt_weights_source *source; /* NULL: the file. With one: form f16, in memory, whatever cache_dir says */
    bool by_layer; /* with a source, which then outlives the weights: memory for one layer, which bt_weights_hold fills;
                      there is no output matrix (NULL) */
    bt_progress_fn *progress; /* while converting, or while another process converts; NULL: silent */
    void *progress_ud;
} bt_weights_options;
enum { BT_WEIGHTS_CACHE_LEAST_BYTES = 8 << 20 }; /* converting less is faster than looking for a file */

/* Maps the cache's file, or converts and keeps it: several processes at once convert it once. Where the cache cannot be
 * written, or another process takes ten minutes to convert, the weights stay in memory. m outlives the result; pool
 * (NULL: one thread) is used only inside the call. BT_EARG: an unknown form, a context of no length, a source with
 * another form than f16; BT_EFORMAT naming a tensor with a value that is not finite or beyond the form; BT_ELIMIT:
 * more than the address space; BT_ENOMEM. */
bt_err bt_weights_open(bt_weights **ret, const bt_model *m, const bt_weights_options *options, bt_pool *pool,
                       bt_fault *fault);
void bt_weights_free(bt_weights *w); /* NULL is fine */
/* The bytes of all weights in a form, as file or in memory; by_layer: of one layer, as bt_weights_hold has it. The
 * model's data may be missing (bt_model_open_head). A matrix that FP4 cannot hold makes the real weights larger.
 * BT_ELIMIT, BT_ENOMEM. */
bt_err bt_weights_bytes(uint64_t *ret, const bt_model *m, bt_form form, bool by_layer, bt_fault *fault);
/* The part of these bytes that a step of decoding with one row reads. The same errors. */
bt_err bt_weights_bytes_of_step(uint64_t *ret, const bt_model *m, bt_form form, bt_fault *fault);
/* For weights by layer: reads the weights of this layer in place of those of the layer before. Errors as in
 * bt_weights_open. */
bt_err bt_weights_hold(bt_weights *w, uint32_t layer, bt_pool *pool, bt_fault *fault);
/* Converts and keeps the weights where the cache has no file of them yet, so that a process that opens them later
 * starts at once. An existing file is not checked; bt_weights_open does that. Nothing happens where the weights would
 * stay in memory. Errors as in bt_weights_open. */
bt_err bt_weights_keep(const bt_model *m, const bt_weights_options *options, bt_pool *pool, bt_fault *fault);

typedef struct bt_weights_matrix {
    bt_form form;
    size_t group;          /* INT8: 32 or k; FP4, MX: 32; F16: 0 */
    const uint8_t *panels; /* 64-byte aligned */
    const float *bias;     /* [n], of experts [experts, n]; the router, no matrix, has its own here too; or NULL */
    size_t n, k;
    size_t experts, expert_bytes; /* 1 and 0; or so many matrices, expert_bytes of panels from one to the next */
} bt_weights_matrix;
/* The weights of one layer by name: a matrix or a norm's vector; a weight that the architecture lacks is zero. */
typedef struct bt_weights_layer {
    struct {
        bt_weights_matrix matrix;
        const float *vector;
    } is[BT_WEIGHT_COUNT];
} bt_weights_layer;
/* All are safe from any thread. A layer that the model does not have, such as BT_GRAPH_NO_LAYER, stands for the weights
 * of no layer. */
const bt_weights_layer *bt_weights_of_layer(const bt_weights *w, uint32_t layer);
const bt_weights_matrix *bt_weights_matrix_of(const bt_weights *w, uint32_t layer, bt_weight which);
const float *bt_weights_vector_of(const bt_weights *w, uint32_t layer, bt_weight which); /* norms */
/* A layer's rotary table, [ctx_tokens][rope_dims / 2] (bt_model_rope_table). */
const float *bt_weights_rope_cos(const bt_weights *w, uint32_t layer);
const float *bt_weights_rope_sin(const bt_weights *w, uint32_t layer);
const bt_model *bt_weights_model(const bt_weights *w);
const char *bt_weights_form(const bt_weights *w); /* as asked for */
size_t bt_weights_ctx_tokens(const bt_weights *w);
uint64_t bt_weights_step_bytes(const bt_weights *w); /* panels and vectors that a step of one row reads */
bool bt_weights_is_mapped(const bt_weights *w);      /* from the cache */

/* One matrix as f16 panels (kernels.h), into zeroed memory for bt_matmul_packed_elems of them: the tensor's own rows,
 * or those of a source that has begun. BT_EFORMAT naming the tensor where a value is beyond f16; BT_ENOMEM. */
bt_err bt_weights_f16(uint16_t *panels, const bt_gguf_tensor *t, const bt_weights_source *source, bt_pool *pool,
                      bt_fault *fault);
#endif
