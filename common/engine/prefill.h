#ifndef BT_ENGINE_PREFILL_H
#define BT_ENGINE_PREFILL_H
#include <stdatomic.h>
#include <stdint.h>
#include "base/pool.h"
#include "device/report.h"
#include "device/schedule.h"
#include "engine/names.h"
#include "kernels/finite.h"
#include "kernels/kv_view.h"
#include "model/model.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"

/* The door to computing prompts: one interface for prefill nodes, decode nodes that prefill themselves, commands and
 * benchmarks. Behind it is one engine for each name (prefill_backend.h):
 *   "npu"        the integer NPU: a package, compiled on first use (npu/compile/obtain.h); f16 or int8 KV
 *   "host"       the float executor (graph/walk.h) over f16 weights, which the cache keeps (model/weights.h); f16 or
 *                int8 KV
 *   "reference"  the plain FP32 oracle of common/ref, whole prompt at once, f32 KV; ignores isa and shape_policy
 *
 * npu and host cut a prompt into chunks of static shapes and call a hook as soon as a chunk's rows of a layer are
 * final, so that the rows can leave while later layers and chunks are computed. All programs are made with the engine,
 * none while a prompt waits.
 *
 * Numbers: KV bytes and logits do not depend on the shape policy, the chunks' edges, threads or instruction set, nor on
 * which process computes them (a recipe with llm-int8 excepted, which only `perplexity` may ask for). */
typedef struct bt_prefill bt_prefill;

typedef struct bt_prefill_config {
    const char *engine;          /* one of bt_engine_prefill_names; NULL: the default */
    const char *isa;             /* bt_kernels_select; NULL: the best */
    bt_obtain_want want;         /* npu: which package; host: only shape_policy counts */
    bt_schedule_policy schedule; /* npu: in which order chunks of one prompt run (engine/overlap.h); 0: one by one */
    const bt_pkg *pkg;      /* npu: this open package, whatever want says; borrowed; NULL: the engine opens its own */
    bool is_dense;          /* npu: dense attention, whatever the package says; for comparisons */
    bool for_perplexity;    /* recipes whose numbers depend on the chunk are allowed */
    uint32_t kv_elem_bytes; /* 2 f16, 1 int8 (kernels/kv_view.h); 0: the engine's first, 2, or 4 for the reference */
    bt_pool *pool;  /* borrowed, outlives the engine; NULL: it makes one of `threads` (decode.h: NULL is one thread) */
    size_t threads; /* 0: as many as cores; ignored with a pool */
    const bt_weights *weights; /* host: used where they are f16, of m and long enough, so that nothing is held twice;
                                  borrowed; NULL: its own */
    size_t ctx_tokens; /* longest prompt, at most the model's context; 0: the context, or what kv_memory_bytes holds */
    /* where ctx_tokens is 0, it is cut to the whole 64 tokens whose KV fits this memory; 0: no cut */
    uint64_t kv_memory_bytes;
    bt_progress_fn *progress; /* while compiling, or converting weights; NULL: silent */
    void *progress_ud;
} bt_prefill_config;

/* m is borrowed and outlives the engine. BT_EARG names an unknown engine, isa or policy, or a form of KV that the
 * engine lacks, or a package of another model or of less context; BT_ELIMIT: a context beyond the model's; errors of
 * bt_obtain_open, bt_weights_open. */
bt_err bt_prefill_new(bt_prefill **ret, const bt_model *m, const bt_prefill_config *config, bt_fault *fault);
void bt_prefill_free(bt_prefill *p); /* NULL is fine */

const char *bt_prefill_isa(const bt_prefill *p);        /* "avx2"; "ref" for the reference */
uint32_t bt_prefill_kv_elem_bytes(const bt_prefill *p); /* 1, 2 or 4: what the views must have */
size_t bt_prefill_ctx_tokens(const bt_prefill *p);
/* Calls begin at multiples of this many positions: 1, or the rows that share a choice of sparse attention. */
size_t bt_prefill_grid_rows(const bt_prefill *p);

typedef struct bt_prefill_hooks {
    /* K and V rows of positions [token_begin, token_begin + token_count) of `layer` are final. On the caller's thread,
     * between operators: be brief. Chunks ascend; within a chunk layers ascend. The reference reports all rows at its
     * end, or at the end of a piece where it may pause. NULL: not wanted. */
    void (*on_kv)(void *ud, uint32_t layer, size_t token_begin, size_t token_count);
    /* A chunk begins, or is computed. With a schedule other than serial several are under way, and a thread of the
     * engine may call, but never two at a time. Not called for batches of prompts. Be brief. NULL: not wanted. */
    void (*on_chunk)(void *ud, size_t token_begin, size_t token_count, bool is_end);
    void *ud;
    const atomic_bool *cancel; /* looked at between layers; NULL: never */
    /* Looked at between chunks: where so many positions are computed, or more, no further chunk begins, and the call
     * returns BT_EAGAIN when those under way have ended; a later call goes on. Chunks and bytes are those of one call.
     * The reference looks at it every 256 tokens. Batches do not. NULL: never. */
    const atomic_uint *pause;
    size_t *ret_paused; /* BT_EAGAIN: how many positions are computed; where there is a pause */
} bt_prefill_hooks;
/* Whether a chunk that begins at pos, and is not the first of its call, waits for a later one. */
static inline bool bt_prefill_pauses(const bt_prefill_hooks *h, size_t pos)
{
    return h && h->pause && pos >= atomic_load_explicit(h->pause, memory_order_relaxed);
}
static inline bt_err bt_prefill_paused(const bt_prefill_hooks *h, size_t pos, bt_fault *fault)
{
    *h->ret_paused = pos;
    return bt_fail(fault, BT_EAGAIN, "paused at position %zu", pos);
}
static inline void bt_prefill_tell_chunk(const bt_prefill_hooks *h, size_t token_begin, size_t token_count, bool is_end)
{
    if (h && h->on_chunk) h->on_chunk(h->ud, token_begin, token_count, is_end);
}
typedef enum bt_prefill_out { BT_PREFILL_LAST, BT_PREFILL_ALL } bt_prefill_out;

/* Compute positions [pos0, pos0 + n) of one sequence whose positions [0, pos0) are already stored in kv. ids[n], n >=
 * 1, pos0 + n <= ctx_tokens, ids inside the vocabulary. kv: rows of kv_elem_bytes, room for pos0 + n tokens; no other
 * row is written. logits: LAST [V], the last position's; ALL [n, V]. hooks may be NULL. BT_EARG: the contract is
 * broken, pos0 lies off the grid, or the view has another shape; BT_ELIMIT: too long, with both numbers; BT_ECANCEL:
 * hooks->cancel became true; BT_EAGAIN: hooks->pause; BT_ERANGE: numbers became infinite or NaN (kernels/finite.h),
 * with the place. After BT_ECANCEL and BT_ERANGE further rows may have been written; on_kv has seen only finite rows.
 * npu and host allocate nothing. One run at a time; the caller's thread takes part in computing. */
bt_err bt_prefill_run(bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);

/* ---- batches of prompts ----
 * Prompts share runs (prefill_batches.h), each with the bytes that it has alone. npu: in places of their own where the
 * package has shapes for batches (npu/pkg/shapes.h); else packed one behind the other into the rows of one chunk, where
 * its attention is the companion's, dense, and no number depends on the chunk. host: packed. All others compute one
 * prompt after the other.
 *
 * Packed, an entry may go on where an earlier one ends, in the same view, for rows of which several want logits. */
typedef struct bt_prefill_seq {
    const bt_kv_view *kv; /* as in bt_prefill_run; views share no page that is written */
    const int32_t *ids;
    size_t n, pos0;
    const bt_prefill_hooks *hooks; /* cancel: in a batch looked at between runs */
    float *logits;         /* [V], of the last position; NULL: none wanted, only with engines that compute batches */
    bt_overflow *overflow; /* notes where numbers became infinite or NaN, as in bt_decode_seq (engine/decode.h); entries
                              may share one. NULL: result is BT_ERANGE */
    bt_err result;         /* of this prompt, when all have ended: errors of bt_prefill_run */
    bt_fault fault;
} bt_prefill_seq;
size_t bt_prefill_batch_max(const bt_prefill *p);   /* prompts of one run, 1 or more */
size_t bt_prefill_packed_rows(const bt_prefill *p); /* tokens of several prompts that one run packs; 0: it packs none */
/* Computes any number of prompts; a prompt that fails or is cancelled changes nothing for the others. */
void bt_prefill_run_batch(bt_prefill *p, bt_prefill_seq *seq, size_t prompts);

bt_report_work bt_prefill_work(const bt_prefill *p); /* of all runs */
bt_report_engine bt_prefill_about(const bt_prefill *p);
const bt_pkg *bt_prefill_pkg(const bt_prefill *p); /* the package of npu, as long as the engine lives; NULL: no package
                                                    */
#endif
