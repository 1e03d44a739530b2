#ifndef DC_EXEC_H
#define DC_EXEC_H
#include "decode-node/engine/engine.h"
#include "decode-node/engine/host/weights.h"
#include "kernels/kernels.h"

/* The batched executor of the host back end: the model's graph bound to seq = 1 with batch and ctx left symbols, walked once for all
 * rows of a step. A row is a sequence of one row to the companion, so that nothing mixes rows; rows whose logits nobody wants
 * end before the last norm. One plan and one arena serve every batch: offsets are the plan's formulas at the step's bucket. */
typedef struct dc_exec dc_exec;

/* All borrowed, and outlive the executor. rows_max: of one step; ctx_tokens: the longest sequence that attention
 * makes room for (graph/companion.h). BT_ELIMIT, BT_ENOMEM. */
bt_err dc_exec_new(dc_exec **ret, const dc_weights *weights, const bt_kernels *kernels, bt_pool *pool, size_t rows_max,
                   size_t ctx_tokens, bt_fault *fault);
void   dc_exec_free(dc_exec *x);            /* NULL is fine */
/* As dc_engine_step, which has checked everything. Does not allocate. */
bt_err dc_exec_step(dc_exec *x, const dc_engine_seq *seq, size_t n, const atomic_bool *cancel, float *logits, bt_fault *fault);
uint64_t dc_exec_kv_bytes(const dc_exec *x);    /* of all rows stored so far */
#endif
