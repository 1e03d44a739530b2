#ifndef DC_WEIGHTS_H
#define DC_WEIGHTS_H
#include "base/pool.h"
#include "kernels/forms.h"
#include "model/model.h"
#include "model/packed.h"

/* The weights of the host back end in one of the forms of kernels/forms.h, converted once and kept in the user's cache:
 * a file that is mapped, so that a node starts in the time that reading it takes, and processes share one copy.
 *
 * What becomes of a matrix, by --weights and by its type in the file:
 *   f16    F16, each value rounded to nearest even
 *   int8   Q8_0: INT8 in the file's blocks, exact. Others: INT8 with one scale a channel
 *   fp4    Q4_0, Q4_1: FP4 with the file's codes, exact (m = -8 d for Q4_0). Q8_0: INT8 in the file's blocks, exact. The output
 *          matrix of a file that spends more than 5 bits a weight on it: INT8 in blocks of 32. Others: FP4. A matrix with a
 *          scale or minimum that f16 cannot hold (8 d > 65504 for Q4_0): INT8 in blocks of 32, which is exact for Q4_0
 * Exact: bt_form_value equals the file's own f32 value. Otherwise of each channel or block:
 *   INT8   d = max |w| / 127 as f16, the next one up where 127 d < max |w|;  q = rint(w / d)
 *   FP4    d = (max - min) / 15 as f16, m = min as f16;  q = clamp(rint((w - m) / d), 0, 15);  d = 0: q = 0
 * The embedding stays in the model's file and is read row by row; biases, norms and rotary tables are f32. The same file gives
 * the same bytes on any machine and with any number of threads.
 *
 * The cache (base/cache.h) has one file for a model and form, in the folder `weights`. Every byte of it is compared with its hash when it
 * is opened; a file that is damaged, of another version or of another model is made anew. */
typedef struct dc_weights dc_weights;

typedef struct dc_weights_options {
    const char *form;                       /* one of dc_engine_forms; NULL: the first */
    size_t ctx_tokens;                      /* positions in the rotary tables */
    const char *cache_dir;                  /* NULL: the user's, for DC_WEIGHTS_CACHE_LEAST_BYTES and more; "" : none, convert into memory */
    void (*progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ud;
} dc_weights_options;
#define DC_WEIGHTS_CACHE_BYTES (UINT64_C(16) << 30)    /* the folder holds at most that, past the newest file */
enum { DC_WEIGHTS_CACHE_LEAST_BYTES = 8 << 20 };        /* less is converted faster than it is looked for */

/* Maps the cache's file, or converts and keeps it: several processes at once convert it once. Where the cache cannot be written, or another
 * process takes ten minutes to convert, the weights stay in memory. m outlives the result; pool (NULL: one thread) is used only inside
 * the call. BT_EARG: an unknown form; BT_EFORMAT naming a tensor with a value that is not finite or beyond the form; BT_ENOMEM. */
bt_err dc_weights_open(dc_weights **ret, const bt_model *m, const dc_weights_options *options, bt_pool *pool, bt_fault *fault);
void   dc_weights_free(dc_weights *w);      /* NULL is fine */

typedef struct dc_matrix {
    bt_form form;
    size_t group;                           /* INT8: 32 or k; FP4: 32; F16: 0 */
    const uint8_t *panels;                  /* 64-byte aligned */
    const float *bias;                      /* [n], or NULL */
    size_t n, k;
} dc_matrix;
/* All safe from any thread. */
const dc_matrix *dc_weights_matrix(const dc_weights *w, uint32_t layer, bt_weight which);
const float *dc_weights_vector(const dc_weights *w, uint32_t layer, bt_weight which);       /* norms */
const float *dc_weights_rope_cos(const dc_weights *w);      /* [ctx_tokens][rope_dims / 2] */
const float *dc_weights_rope_sin(const dc_weights *w);
const bt_model *dc_weights_model(const dc_weights *w);
const char *dc_weights_form(const dc_weights *w);           /* as asked for */
uint64_t dc_weights_step_bytes(const dc_weights *w);        /* panels and vectors that one step reads */
bool dc_weights_is_mapped(const dc_weights *w);             /* from the cache */
#endif
