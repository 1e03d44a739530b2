#ifndef BT_ENGINE_DECODE_H
#define BT_ENGINE_DECODE_H
#include <stdatomic.h>
#include <stdint.h>
#include "base/pool.h"
#include "device/report.h"
#include "engine/names.h"
#include "kernels/finite.h"
#include "kernels/kv_view.h"
#include "model/model.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"

/* The door to decoding: rows of one token, many in a step; for decode nodes, commands and benchmarks. Behind it is one
 * engine for each name (decode_backend.h):
 *   "npu"        the integer NPU: the programs of a package for one token (npu/run/exec.h), KV as f16 or int8. The rows
 *                left of a step go to the smallest batch that holds them, else to the largest, padded; the context is
 *                the smallest compiled one that holds the longest sequence of the batch
 *   "host"       the float executor (graph/walk.h), batch and ctx left symbolic, weights as f16, int8 or FP4, KV as
 *                f16 or int8
 *   "reference"  the plain FP32 oracle of common/ref, f32 KV; ignores isa and weights
 * An engine sees KV only through bt_kv_view. Between calls an engine remembers nothing of a sequence.
 *
 * A row is one token at one position. A sequence may bring several rows to one step: tokens replayed after a
 * hand-over, or drafts to be verified. Every row is computed as if it were alone.
 *
 * Numbers (npu, host): rule of order. The KV rows and logits of a row depend only on its sequence, the package or form
 * of weights, and the form of KV: not on the other rows of the step, paging, threads or instruction set. npu gives the
 * bits of the prefill engine npu with the same package, for the same token at the same position behind the same rows.
 */
typedef struct bt_decode bt_decode;

enum { BT_DECODE_MAX_ROWS = 512 }; /* of one step; the limit of rows_max */
/* The batch for which a step of `rows` rows (1 or more) is planned: 1, 2, 4, 8, then steps of 8. */
static inline size_t bt_decode_bucket(size_t rows) { return rows <= 2 ? rows : rows <= 4 ? 4 : (rows + 7) / 8 * 8; }

typedef struct bt_decode_config {
    const char *engine;     /* one of bt_engine_decode_names; NULL: the default */
    const char *isa;        /* bt_kernels_select; NULL: the best */
    const char *weights;    /* host: one of bt_weights_forms (model/weights.h); NULL: the first */
    bt_obtain_want want;    /* npu: which package, compiled on first use */
    const bt_pkg *pkg;      /* npu: this open package, whatever want says; borrowed; NULL: the engine opens its own */
    uint32_t kv_elem_bytes; /* npu, host: 2 f16, 1 int8 (kernels/kv_view.h); 0: 2 */
    bt_pool *pool;          /* borrowed, outlives the engine; NULL: one thread */
    size_t rows_max;        /* of one step, 1 .. BT_DECODE_MAX_ROWS; 0: 1 */
    size_t ctx_tokens; /* longest sequence, at most the model's context; 0: the context, or what kv_memory_bytes holds
                        */
    /* where ctx_tokens is 0, it is cut to the whole 64 tokens whose KV fits this memory; 0: no cut */
    uint64_t kv_memory_bytes;
    bt_progress_fn *progress; /* while compiling, or converting weights; NULL: silent */
    void *progress_ud;
} bt_decode_config;

/* m is borrowed and outlives the engine. BT_EARG names an unknown engine, isa, form of weights or KV, or says what a
 * package lacks; BT_ELIMIT: a context beyond the model's; errors of bt_weights_open, bt_obtain_open. */
bt_err bt_decode_new(bt_decode **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault);
void bt_decode_free(bt_decode *d); /* NULL is fine */

/* Whether engine npu could decode with the package that `want` asks for, before it is compiled: the policy has rows of
 * one token. A package given as a file is not looked at. BT_EARG says what to ask for; errors of bt_shapes_parse. */
bt_err bt_decode_check_want(const bt_obtain_want *want, const bt_model *m, bt_fault *fault);
/* Whether engine npu can decode sequences of ctx_tokens tokens with this package, of which only the tables may have
 * been read (npu/pkg/pkg.h). BT_EARG says what to compile. */
bt_err bt_decode_check_package(const bt_pkg *pkg, size_t ctx_tokens, bt_fault *fault);

const char *bt_decode_name(const bt_decode *d); /* "npu", "host", "reference" */
const char *bt_decode_isa(const bt_decode *d);  /* "avx2"; "ref" for the reference */
/* As in the exactness class: "package=DIGEST", "f16", "int8", "fp4"; "f32" for the reference. */
const char *bt_decode_weights(const bt_decode *d);
const char *bt_decode_quant(const bt_decode *d);      /* for people: npu: the recipe, "w8a8"; else as above */
uint32_t bt_decode_kv_elem_bytes(const bt_decode *d); /* 1, 2 or 4: what the views must have */
size_t bt_decode_ctx_tokens(const bt_decode *d);
size_t bt_decode_vocab(const bt_decode *d);
size_t bt_decode_rows_max(const bt_decode *d);
/* For a prefill engine of the same name in the same process to share, as long as this engine lives. NULL: only host has
 * weights, only npu a package. */
const bt_weights *bt_decode_shared_weights(const bt_decode *d);
const bt_pkg *bt_decode_shared_package(const bt_decode *d);

/* One sequence's rows in a step. */
typedef struct bt_decode_seq {
    const bt_kv_view *kv; /* positions [0, pos) are stored; room for pos + count */
    size_t pos;
    const int32_t *tokens; /* [count], run at positions pos .. pos + count - 1 */
    uint32_t count;        /* 1.. */
    uint32_t out;          /* logits are wanted of the last `out` rows, 0 .. count */
    bt_overflow *overflow; /* notes the first place where numbers of its rows, or its logits, became infinite or NaN
                              (kernels/finite.h): the rows before that place are good, and so are all others of the
                              step. NULL: the step fails with BT_ERANGE and the place */
} bt_decode_seq;

/* One step of n sequences that share no page that is written. Stores K and V of exactly these rows; logits[sum of out,
 * V] f32, in the order of the rows (NULL where none is wanted). BT_EARG: a token outside the vocabulary, a view of
 * another shape, more rows than rows_max; BT_ELIMIT: a position >= ctx_tokens or beyond the view; nothing is computed
 * then. BT_ECANCEL: *cancel became true (NULL: never looked at), some rows may have been written. BT_ERANGE: as above;
 * all rows are written. npu and host allocate nothing. One call at a time. */
bt_err bt_decode_step(bt_decode *d, const bt_decode_seq *seq, size_t n, const atomic_bool *cancel, float *logits,
                      bt_fault *fault);

typedef struct bt_decode_stats {
    uint64_t steps, rows;
    uint64_t kv_bytes_written; /* exactly 2 * layers * kv_heads * bytes of a head, for each row; counted where they are
                                  stored */
    /* bytes that a step of one row reads (npu: each batch of one), without the rows of the embedding; 0: unknown for
     * the reference */
    uint64_t weight_bytes;
    uint64_t read_bytes; /* bytes of weights that all steps have read; more than steps * weight_bytes where rows of a
                            step chose different experts */
} bt_decode_stats;
bt_decode_stats bt_decode_stats_of(const bt_decode *d);
bt_report_work bt_decode_work(const bt_decode *d); /* of all steps; zeros for engines other than npu */
#endif
