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

/* The NPU: a flat loop over the instructions of a program of a package. Integer instructions run in int_exec.c and the
 * int_* kernels, the companion's in graph/companion.h. A run allocates nothing, decides no shape and never looks ahead.
 * Which instructions run as one was found when the package was opened (npu/pkg/fuse.h). exec_private.h says in which
 * order the executor's files are best read.
 *
 * Sequences: a program of (batch, seq, ctx) has batch * seq rows; sequence b has rows [b * seq, (b + 1) * seq). Each
 * has its own KV view and positions. Row-wise steps go over all rows at once, rotary embedding, KV and attention
 * sequence by sequence.
 *
 * Packed: bt_exec_run_packed puts sequences of any lengths one behind the other into the rows of a program for one
 * sequence. Such a program's attention must be the companion's, which goes sequence by sequence whatever lies where.
 *
 * Padding: of a sequence's rows the first `valid` are real. The others are padding, and so are all rows of the
 * sequences from io.seqs on: they enter filled with `pad`, and row-wise steps compute them like any row, but they have
 * no position, and are not stored or attended to. No step mixes rows.
 *
 * Numbers: integers are exact; the companion, and the NPU in floats, keep the rule of order (docs/numerics.md). KV
 * bytes and logits depend on no batch, seq, ctx, chunk edge, padding, thread or instruction set. The recipe llm-int8 is
 * the exception: its numbers depend on the chunk, and it runs one sequence at a time. */
typedef struct bt_exec bt_exec;
/* All arguments are borrowed and outlive the executor. pool may be NULL. One run at a time. BT_EVERSION: made for other
 * kernels or operators; BT_EARG: a recipe that this version does not know; BT_EFORMAT: a recipe that does not fit the
 * tensors; BT_ENOMEM. */
bt_err bt_exec_new(bt_exec **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_pool *pool, bt_fault *fault);
void bt_exec_free(bt_exec *x); /* NULL is fine */

typedef struct bt_exec_seq { /* one sequence's part of a run */
    const int32_t *ids;      /* [valid] */
    const bt_kv_view *kv;    /* f16 or int8; [0, pos0) are stored; room for [pos0, pos0 + valid) */
    size_t pos0, valid;      /* pos0: the first position; 1 <= valid <= io.rows */
    bt_overflow *overflow;   /* where rows are noted that KV cannot hold, and inputs of integer operators that are not
                                finite; entries may share one. NULL: not looked at */
} bt_exec_seq;
typedef struct bt_exec_io {
    /* [seqs], 1 <= seqs <= row.batch. No position of a view is in two of them; but entries may go on where one before
       them ends, in the same view (drafts: several rows of a sequence in a program of seq 1) */
    const bt_exec_seq *seq;
    size_t seqs;
    size_t rows;   /* of each sequence: row.seq_min <= rows <= row.seq */
    float *logits; /* LAST: [seqs, V]; ALL: row r of sequence b at b * rows + r, room up to the last real row, what
                      is padding's in between is written too; NONE: may be NULL */
    float pad;     /* any value, NaN too: it reaches nothing; 0 in normal use */
    void (*on_kv)(void *ud, uint32_t layer); /* all sequences' rows of `layer` are stored; ascending; may be NULL */
    void *ud;
    bool is_dense; /* attention is dense, whatever the package does with prompts: for rows of generated tokens */
    const atomic_bool *cancel; /* looked at where a layer begins; NULL: never */
} bt_exec_io;

/* Runs the program that `row` has for `out`. arena: the program's arena_bytes, 64-byte aligned. BT_EARG: io
 * does not fit the row or the package; nothing was done. BT_ECANCEL: rows of KV may have been written. */
bt_err bt_exec_run(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena, const bt_exec_io *io,
                   bt_fault *fault);

/* Runs any number of sequences in io.rows rows of a program of batch 1: each takes as many rows as it has tokens, and
 * the rows behind the last are padding. ends[io.seqs]: whose last row gives logits, [how many those are, V]. */
bt_err bt_exec_run_packed(bt_exec *x, const bt_pkg_row *row, void *arena, const bt_exec_io *io, const bool *ends,
                          bt_fault *fault);
/* NULL: the package's programs can be run packed; else why not. */
const char *bt_exec_unpackable(const bt_exec *x);

/* Counted exactly, over all runs. */
typedef struct bt_exec_stats {
    /* of the NPU's: with 16-bit inputs, and in floats; the others have 8-bit inputs */
    uint64_t npu_int16_macs, npu_float_macs;
    uint64_t npu_macs, companion_macs; /* of real rows; attention: each pair of positions for q . k and p . v */
    uint64_t tile_padding_macs; /* of linears, what whole tiles add to all rows, padding too (npu/pkg/pkg_layout.h) */
    uint64_t shadow_entries;    /* values beyond a clip that were added back; llm-int8: values that the companion
                                   multiplied */
    uint64_t masked_macs; /* of the NPU's attention over columns that a program's static context has beyond what a real
                             row sees: counted as attention's are, and never computed */
    uint64_t sparse_rows, dense_rows; /* of a package that attends sparsely: prompts' rows that do, and those that stand
                                         too far in front */
    uint64_t batch_padding_rows;      /* rows of sequences that a batch has room for and that were not there */
    /* sessions that a device would have mapped in place of another, beginning with the first mapped; and their cost */
    uint64_t session_switches, session_switch_ns;
    uint64_t kv_bytes; /* of rows stored: 2 * kv_heads * bytes of a head, for each row and layer */
} bt_exec_stats;
bt_exec_stats bt_exec_stats_of(const bt_exec *x);

/* What sparse attention takes of an executor, over sequences of ctx_tokens: the bytes of its keys, and in *ret_thread
 * of each thread's scratch. Both grow with ctx_tokens. 0: dense. */
uint64_t bt_exec_sparse_bytes(uint64_t *ret_thread, const bt_attention *a, size_t heads, size_t kv_heads,
                              size_t head_dim, size_t ctx_tokens);
#endif
