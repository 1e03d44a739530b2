#ifndef BT_REF_REF_H
#define BT_REF_REF_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "model/model.h"

/* The reference engine: the oracle for all other engines. It takes every weight as its exact f32 value, computes in
 * FP32 (sums of norms and softmax in double) with libm, takes the whole prompt at once, caches only K and V, and shares
 * no kernel with the other engines. It is written to be read next to the published definition of the models.
 *
 * Each number is computed by an order that depends on its own row alone (inputs ascending, positions
 * ascending), so cutting a prompt into several calls, or using more threads, gives the same bits. It does not
 * follow the rule of order of the fast engines, on purpose: agreeing with it is evidence, not construction.
 *
 * Letters   L layers, D dim, V vocabulary, G kv heads, E head_dim; as in model.h. */
typedef struct bt_ref bt_ref;

/* Reads every weight into memory: 4 bytes a parameter. m and pool are borrowed and must outlive the engine. The pool
 * only divides outputs between threads and may be NULL (the calling thread alone). BT_ENOMEM; BT_EFORMAT naming a
 * tensor with a value that is not finite. */
bt_err bt_ref_new(bt_ref **ret, const bt_model *m, bt_pool *pool, bt_fault *fault);
void bt_ref_free(bt_ref *r); /* NULL is fine */

/* K and V of one sequence, f32: room for ctx_tokens positions (1..hp.ctx, else BT_ELIMIT with both numbers).
 */
typedef struct bt_ref_kv bt_ref_kv;
bt_err bt_ref_kv_new(bt_ref_kv **ret, const bt_ref *r, size_t ctx_tokens, bt_fault *fault);
void bt_ref_kv_free(bt_ref_kv *kv); /* NULL is fine */
/* The row [G, E] of one position: K after rotary embedding, or V. Rows of following positions follow it
 * directly. The owner may read and write rows (to take them from or give them to pages). layer < L, token <
 * room. */
float *bt_ref_kv_row(bt_ref_kv *kv, size_t layer, bool is_v, size_t token);

/* Runs ids[n] at positions pos0 .. pos0 + n - 1: reads the rows before pos0, which the caller or earlier calls filled,
 * and writes these n. logits: [n, V] where all_logits, else [1, V] of the last position; NULL: not wanted. cancel (may
 * be NULL) is looked at between blocks of work. After BT_ECANCEL the n rows must not be used. n >= 1; BT_ELIMIT where
 * pos0 + n passes the room; BT_EARG for an id outside the vocabulary; BT_ENOMEM. Memory for the call is taken at its
 * start: about 4 n D bytes, and a fixed part. One call at a time for each engine. */
bt_err bt_ref_forward(bt_ref *r, bt_ref_kv *kv, const int32_t *ids, size_t n, size_t pos0, float *logits,
                      bool all_logits, const atomic_bool *cancel, bt_fault *fault);
#endif
