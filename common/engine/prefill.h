#ifndef BT_ENGINE_PREFILL_H
#define BT_ENGINE_PREFILL_H
#include <stdatomic.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "model/packed.h"
#include "npu/run/exec.h"
#include "npu/pkg/shapes.h"
#include "engine/programs.h"

/* The prefill engine: cuts a prompt into compiled shapes, runs them one after the other, and tells its owner
 * as soon as a chunk's KV rows of a layer exist, so that they can leave while later layers and chunks are
 * computed.
 *
 * The programs are those of a package, run by npu/run/exec.h, or, with `--engine host`, the float executor's
 * over packed weights (graph/host.h). That is known to prefill.c alone: every caller sees only shapes, KV
 * rows and logits.
 *
 * Numbers: KV bytes and logits do not depend on the policy, the chunks' edges, threads or instruction set. */
typedef struct bt_prefill bt_prefill;

typedef struct bt_prefill_options {
    size_t ctx_tokens;                      /* longest prompt; 1 .. the ctx_tokens of packed, or of the package */
    const char *shape_policy;               /* npu/pkg/shapes.h; NULL: the default. Not looked at with a package: its rows are the shapes */
} bt_prefill_options;

/* packed, kernels and pool are borrowed and outlive the engine; pool may be NULL. Compiles every program. */
bt_err bt_prefill_new(bt_prefill **ret, const bt_packed *packed, const bt_kernels *kernels, bt_pool *pool,
                      const bt_prefill_options *options, bt_fault *fault);
/* The same over a package; compiles nothing. */
bt_err bt_prefill_new_npu(bt_prefill **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_pool *pool,
                          const bt_prefill_options *options, bt_fault *fault);
void   bt_prefill_free(bt_prefill *p);      /* NULL is fine */

typedef struct bt_prefill_hooks {
    /* K and V rows of positions [token_begin, token_begin + token_count) of `layer` are final. On the
     * caller's thread, between operators: be brief. Chunks ascend; within a chunk layers ascend. NULL: not
     * wanted. */
    void (*on_kv)(void *ud, uint32_t layer, size_t token_begin, size_t token_count);
    void *ud;
    const atomic_bool *cancel;              /* looked at between layers; NULL: never */
} bt_prefill_hooks;

typedef enum bt_prefill_out { BT_PREFILL_LAST, BT_PREFILL_ALL } bt_prefill_out;

/* Compute positions [pos0, pos0 + n) of one sequence whose positions [0, pos0) are already stored in kv.
 * ids[n], n >= 1, pos0 + n <= ctx_tokens, ids inside the vocabulary. kv: f16 or int8, room for pos0 + n tokens; no
 * other row is written. logits: LAST [V], the last position's; ALL [n, V]. hooks may be NULL.
 * BT_EARG: the contract; BT_ELIMIT: too long, with both numbers; BT_ECANCEL: rows may have been written.
 * No allocation. One run at a time; the caller's thread takes part in computing. */
bt_err bt_prefill_run(bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);

typedef struct bt_prefill_stats {
    uint64_t compilations;                  /* programs compiled so far: constant once warm; 0 with a package */
    uint64_t runs, chunks, tokens, rows;    /* rows = tokens + padding */
    bt_exec_stats npu;                      /* with a package; else zeros */
} bt_prefill_stats;
bt_prefill_stats bt_prefill_stats_of(const bt_prefill *p);
#endif
