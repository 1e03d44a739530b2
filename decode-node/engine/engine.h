#ifndef DC_ENGINE_H
#define DC_ENGINE_H
#include <stdatomic.h>
#include <stdint.h>
#include "base/pool.h"
#include "kernels/kv_view.h"
#include "model/model.h"

/* What the decode node computes with: seq = 1 graphs over a batch of rows, ctx left symbolic. One interface, one
 * folder for each `--engine`:
 *   "host"       weights as f16, int8 or FP4, KV as f16 or int8, the kernels of common/kernels
 *   "reference"  the plain FP32 oracle of common/ref, f32 KV; ignores isa, weights and kv
 * A back end is one row of function pointers (backend.h): load weights, plan, step, free. It sees KV only through
 * bt_kv_view. Between calls an engine remembers nothing of a sequence.
 *
 * A row is one token at one position. A sequence may bring several rows to one step: tokens replayed after a
 * hand-over, or drafts to be verified. Every row is computed as if it were alone.
 *
 * Numbers (host): rule of order. The KV rows and logits of a row depend on its sequence and on the form of weights
 * and KV, on nothing else: not on the other rows of the step, paging, threads or instruction set. */
typedef struct dc_engine dc_engine;

enum { DC_ENGINE_MAX_ROWS = 512 };          /* of one step, whatever rows_max says */
/* The batch that a step of so many rows (1 or more) is planned for: 1, 2, 4, 8, then steps of 8. */
static inline size_t dc_engine_bucket(size_t rows)
{
    return rows <= 2 ? rows : rows <= 4 ? 4 : (rows + 7) / 8 * 8;
}

typedef struct dc_engine_config {
    const char *engine;                     /* NULL: "host" */
    const char *isa;                        /* bt_kernels_select; NULL: the best */
    const char *weights;                    /* host: one of dc_engine_forms (host/weights.h); NULL: the first */
    uint32_t kv_elem_bytes;                 /* host: 2 f16, 1 int8 (kernels/kv_view.h); 0: 2 */
    bt_pool *pool;                          /* borrowed, outlives the engine; NULL: one thread */
    size_t rows_max;                        /* of one step, 1 .. DC_ENGINE_MAX_ROWS; 0: 1 */
    size_t ctx_tokens;                      /* longest sequence, at most the model's context; 0: that, or what kv_memory_bytes holds */
    uint64_t kv_memory_bytes;               /* where ctx_tokens is 0, it is cut to whole 64 tokens of KV in so much memory; 0: no cut */
    void (*progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);  /* while converting weights; NULL: silent */
    void *progress_ud;
} dc_engine_config;
extern const char *const dc_engine_forms[];     /* values of --weights in the order of bt_form, NULL at the end; the first is the default */

/* m is borrowed and outlives the engine. BT_EARG names an unknown engine, isa, form of weights or KV. */
bt_err dc_engine_new(dc_engine **ret, const bt_model *m, const dc_engine_config *config, bt_fault *fault);
void   dc_engine_free(dc_engine *e);        /* NULL is fine */

const char *dc_engine_name(const dc_engine *e);             /* "host", "reference" */
const char *dc_engine_isa(const dc_engine *e);              /* "avx2"; "ref" for the reference */
const char *dc_engine_weights(const dc_engine *e);          /* "f16", "int8", "fp4"; "f32" for the reference */
uint32_t dc_engine_kv_elem_bytes(const dc_engine *e);       /* 1, 2 or 4: what the views must have */
size_t   dc_engine_ctx_tokens(const dc_engine *e);
size_t   dc_engine_vocab(const dc_engine *e);
size_t   dc_engine_rows_max(const dc_engine *e);

/* What one sequence brings to a step. */
typedef struct dc_engine_seq {
    const bt_kv_view *kv;                   /* positions [0, pos) are stored; room for pos + count */
    size_t pos;
    const int32_t *tokens;                  /* [count], run at positions pos .. pos + count - 1 */
    uint32_t count;                         /* 1.. */
    uint32_t out;                           /* logits are wanted of the last `out` rows, 0 .. count */
} dc_engine_seq;

/* One step of n sequences that share no page that is written. Stores K and V of exactly the rows that were brought;
 * logits[sum of out, V] f32, in the order of the rows (NULL where none is wanted). BT_EARG: a token outside the
 * vocabulary, a view of another shape, more rows than rows_max; BT_ELIMIT: a position >= ctx_tokens or beyond the
 * view; nothing is computed then. BT_ECANCEL: *cancel became true (NULL: never looked at), some rows may have been
 * written. No allocation. One call at a time. */
bt_err dc_engine_step(dc_engine *e, const dc_engine_seq *seq, size_t n, const atomic_bool *cancel, float *logits,
                      bt_fault *fault);

typedef struct dc_engine_stats {
    uint64_t steps, rows;
    uint64_t kv_bytes_written;              /* exactly 2 * layers * kv_heads * bytes of a head, for each row; counted where they are stored */
    uint64_t weight_bytes;                  /* that one step reads, the rows of the embedding not counted; 0: the reference does not tell */
} dc_engine_stats;
dc_engine_stats dc_engine_stats_of(const dc_engine *e);
#endif
