#ifndef BT_NPU_EXEC_H
#define BT_NPU_EXEC_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "kernels/finite.h"
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg.h"

/* The NPU: a loop over the instructions of a program of a package. Integer instructions run in int_exec.c and the int_*
 * kernels, the companion's in graph/companion.h. A run allocates nothing, decides no shape and never looks ahead. The
 * instructions that run as one were found when the package was opened (npu/pkg/fuse.h). exec_private.h gives the order
 * in which to read the executor's files.
 *
 * Sequences: a program of (batch, seq, ctx) has batch * seq rows; sequence b has rows [b * seq, (b + 1) * seq). Each
 * sequence has its own KV view and positions. Row-wise steps go over all rows at once; rotary embedding, KV and
 * attention go sequence by sequence.
 *
 * Packed runs: bt_exec_run_packed puts sequences of any lengths one behind the other into the rows of a program for one
 * sequence. Attention of such a program must be the companion's, because the companion attends sequence by sequence,
 * wherever the rows lie.
 *
 * Padding: the first `valid` rows of a sequence are real. Its other rows are padding, and so are all rows of the
 * sequences from io.seqs on. Padding rows enter filled with `pad`, and row-wise steps compute them like any row. They
 * have no position, and are neither stored nor attended to. No step mixes rows.
 *
 * Numbers: integers are exact; the companion, and the NPU in floats, keep the rule of order (docs/numerics.md). KV
 * bytes and logits depend on no batch, seq, ctx, chunk edge, padding, thread or instruction set. The recipe llm-int8 is
 * the exception: its numbers depend on the chunk, and it runs one sequence at a time. */
typedef struct bt_exec bt_exec;
/* All arguments are borrowed and outlive the executor; pool may be NULL. One run at a time. BT_EVERSION: the package
 * was made for other kernels or operators; BT_EARG: a recipe that this version does not know; BT_EFORMAT: a recipe that
 * does not fit the tensors; BT_ENOMEM. */
bt_err bt_exec_new(bt_exec **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_pool *pool, bt_fault *fault);
void bt_exec_free(bt_exec *x); /* NULL is fine */

typedef struct bt_exec_seq { /* one sequence's part of a run */
    const int32_t *ids;      /* [valid]: token ids */
    const bt_kv_view *kv;    /* f16 or int8; [0, pos0) are stored; room for [pos0, pos0 + valid) */
    size_t pos0, valid;      /* the first position, and how many; 1 <= valid <= io.rows */
    bt_overflow *overflow;   /* notes rows that KV cannot hold, and inputs of integer operators that are not finite.
                                Several entries may share one. NULL: nothing is noted */
} bt_exec_seq;
typedef struct bt_exec_io {
    /* [seqs], 1 <= seqs <= row.batch. No position of a view is in two entries. An entry may go on in the view of an
       earlier one, where that ends (drafts: several rows of a sequence in a program of seq 1) */
    const bt_exec_seq *seq;
    size_t seqs;
    size_t rows;   /* rows of each sequence: row.seq_min <= rows <= row.seq */
    float *logits; /* V values a row. LAST: [seqs, V]. ALL: row r of sequence b at b * rows + r, with room up to the
                      last real row; padding in between is written too. NONE: may be NULL */
    float pad;     /* value of padding rows, 0 in normal use; any value, NaN too, because it reaches no result */
    void (*on_kv)(void *ud, uint32_t layer); /* called when all sequences' rows of `layer` are stored, layers ascending;
                                                may be NULL */
    void *ud;
    bool is_dense; /* attends densely, whatever the package does with prompts: for rows of generated tokens */
    const atomic_bool *cancel; /* checked at the begin of each layer; NULL: never */
} bt_exec_io;

/* Runs the program that `row` has for `out`. arena: the program's arena_bytes, 64-byte aligned. BT_EARG: io does not
 * fit the row or the package, and nothing was done. BT_ECANCEL: rows of KV may have been written. */
bt_err bt_exec_run(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena, const bt_exec_io *io,
                   bt_fault *fault);

/* Runs any number of sequences in io.rows rows of a program of batch 1. Each sequence takes as many rows as it has
 * tokens; the rows behind the last are padding. ends[io.seqs]: true: the sequence's last row gives logits. io.logits:
 * [number of true ends, V]. */
bt_err bt_exec_run_packed(bt_exec *x, const bt_pkg_row *row, void *arena, const bt_exec_io *io, const bool *ends,
                          bt_fault *fault);
/* NULL: the package's programs can be run packed; else the reason why not, in words. */
const char *bt_exec_unpackable(const bt_exec *x);

/* Exact counts over all runs. */
typedef struct bt_exec_stats {
    /* part of npu_macs: with 16-bit inputs, and in floats; the rest has 8-bit inputs */
    uint64_t npu_int16_macs, npu_float_macs;
    uint64_t npu_macs, companion_macs; /* of real rows; attention: each pair of positions for q . k and for p . v */
    uint64_t tile_padding_macs; /* what whole tiles add to linears, over all rows with padding (npu/pkg/pkg_layout.h) */
    uint64_t shadow_entries; /* values beyond a clip that were added back; llm-int8: that were multiplied in floats */
    uint64_t masked_macs; /* multiply-accumulates of the NPU's attention over columns of a static context beyond those
                             that a real row sees; counted as attention's are, never computed */
    uint64_t sparse_rows, dense_rows; /* of a package with sparse attention: rows of prompts that attend sparsely, and
                                         rows below its first sparse position */
    uint64_t batch_padding_rows;      /* rows of a batch's sequences that were not there */
    /* rows of experts over all layers, and what their programs have more than these (bt_pkg_expert_rows), which a
       device computes and this executor does not */
    uint64_t expert_rows, expert_padding_rows;
    /* sessions that a device would have mapped in place of another, the first mapping included; and their cost */
    uint64_t session_switches, session_switch_ns;
    uint64_t kv_bytes; /* of stored rows: 2 * kv_heads * bytes of a head, for each row and layer */
} bt_exec_stats;
bt_exec_stats bt_exec_stats_of(const bt_exec *x);

/* Memory of sparse attention in an executor, for sequences of ctx_tokens: returns the bytes of its keys; *ret_thread:
 * the bytes of each thread's scratch. Both grow with ctx_tokens. 0: attention is dense. */
uint64_t bt_exec_sparse_bytes(uint64_t *ret_thread, const bt_attention *a, size_t heads, size_t kv_heads,
                              size_t head_dim, size_t ctx_tokens);
#endif
