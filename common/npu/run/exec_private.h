#ifndef BT_NPU_EXEC_PRIVATE_H
#define BT_NPU_EXEC_PRIVATE_H
#include "graph/companion.h"
#include "graph/estimate.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/recipe.h"
#include "npu/run/exec.h"
#include "npu/pkg/fuse.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/run/int_linear.h"

/* The declarations that the executor's files share. Read them in this order; each calls only those before it. npu/pkg
 * says which bytes an instruction touches (areas.h) and which instructions run as one (fuse.h).
 *
 *   int_linear.c    a linear in integers: loops over rows and panels
 *   exec_job.c      one run: its rows and memory, row-wise steps, the shadow
 *   exec_group.c    a group of linears over one input, on all threads
 *   exec_border.c   conversions between floats and integers
 *   exec_float.c    rounding of what the NPU writes in floats
 *   exec_linear.c   LINEAR: integer sums to floats, and what is fused with that
 *   exec_dynamic.c  QUANTISE and LINEAR of the recipe llm-int8
 *   exec_sparse.c   ATTENTION of a package with sparse attention
 *   int_exec.c      the INT_ instructions
 *   exec.c          the companion's instructions, and the walk over a program
 *   exec_steps.c    a run in steps, by several executors in turn
 *
 * int_linear.c and int_exec.c are the NPU's part and hold no float arithmetic. */

/* Where the rows that GATHER_ROWS copied came from: of experts alone, else NULLs. Copies [begin[e], begin[e + 1]) are
 * expert e's; row and expert name those of each copy. */
typedef struct bt_exec_routed {
    uint32_t *begin;        /* [experts + 1] */
    uint32_t *row, *expert; /* [max_seq * experts_used] */
} bt_exec_routed;

typedef struct bt_exec_dynamic bt_exec_dynamic;
typedef struct bt_exec_sparse bt_exec_sparse;

struct bt_exec {
    const bt_pkg *pkg;
    const bt_pkg_header *header;
    bt_companion companion;
    bt_companion_rotations rotations;
    float *ones;          /* [dim] ones: the weight of a norm that was folded away */
    const uint8_t *embed; /* the embedding: rows of embed_row_bytes */
    size_t embed_row_bytes;
    uint8_t *found;        /* [max_seq, panels of ffn]: counts of shadow entries of each row and tile (exec_linear.c) */
    int32_t *ids;          /* [max_seq]: token ids of a job */
    bt_companion_seq *seq; /* [max_seq]: sequences of a job */
    bt_overflow **overflow;   /* [max_seq]: each sequence's check for numbers out of range */
    const char *unpackable;   /* why sequences cannot be packed; NULL: they can */
    uint32_t *last;           /* [max_seq]: rows of a job whose logits are wanted */
    bt_exec_dynamic *dynamic; /* for the recipe llm-int8; else NULL */
    bt_exec_sparse *sparse;   /* for sparse attention; else NULL */
    void *prepared;           /* prepared inputs of the running linear (npu/run/int_linear.h) */
    bt_exec_routed routed;
    uint32_t session; /* the session that a device would have mapped now */
    bt_exec_stats stats;
    atomic_uint_least64_t shadow_entries; /* added to stats; several threads count */
};

/* ---- exec_job.c: one run ---- */

typedef struct bt_exec_job {
    bt_exec *x;
    const bt_pkg_program *program;
    const bt_pkg_inst *inst; /* [program->insts] */
    const bt_fuse *fuse;     /* [program->insts] */
    const bt_exec_io *io;
    uint8_t *arena;
    const int32_t *ids;     /* token ids of all rows of the run */
    bt_companion_rows seqs; /* the program's sequences; those of padding have valid 0 */
    size_t seq_out;         /* rows of OUT of each sequence */
    size_t rows, out;       /* rows of SEQ and of OUT of all sequences, padding included */
    size_t real, real_out;  /* real rows among them */
    const uint32_t *last;   /* packed run: [out]: the row of SEQ of which each row of OUT is made; else NULL */
    bt_exec_routed routed;
} bt_exec_job;
/* max_seq rows of a package with experts. BT_ENOMEM. done: zeros are fine. */
bt_err bt_exec_routed_new(bt_exec_routed *ret, const bt_pkg_header *h, bt_fault *fault);
void bt_exec_routed_done(bt_exec_routed *r);
/* Makes the job of a run. Fills the lists seq [row.batch], overflow [row.batch] and ids [row.batch * io.rows], which
 * the job reads. */
bt_exec_job bt_exec_job_of(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena, const bt_exec_io *io,
                           bt_companion_seq *seq, bt_overflow **overflow, int32_t *ids);

/* Makes the job of a packed run: every row is a sequence of its own, and rows of one prompt follow each other
 * (graph/companion.h). */
bt_exec_job bt_exec_job_packed(bt_exec *x, const bt_pkg_row *row, void *arena, const bt_exec_io *io, const bool *ends);

static inline const void *bt_exec_const(const bt_exec *x, uint32_t index) { return bt_pkg_const_at(x->pkg, index); }
static inline const bt_pkg_tensor *bt_exec_tensor(const bt_exec *x, const bt_pkg_inst *i)
{
    return &bt_pkg_tensors(x->pkg)[i->tensor];
}
static inline const bt_pkg_site *bt_exec_site(const bt_exec *x, const bt_pkg_inst *i)
{
    return &bt_pkg_sites(x->pkg)[i->site];
}
static inline const bt_fuse *bt_exec_fuse(const bt_exec_job *j, const bt_pkg_inst *i) { return &j->fuse[i - j->inst]; }
/* The address of an offset in the arena; NULL for BT_PKG_NOWHERE. */
static inline void *bt_exec_at(const bt_exec_job *j, uint64_t offset)
{
    return offset == BT_PKG_NOWHERE ? NULL : j->arena + offset;
}
/* Rows that an instruction computes; the real ones among them. */
static inline size_t bt_exec_real_rows(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return bt_pkg_rows_at(i, j->real, j->real_out);
}
/* Padding chooses no expert, so rows by expert are all real. */
static inline size_t bt_exec_rows(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return bt_pkg_is_by_expert(i) ? bt_exec_real_rows(j, i) : bt_pkg_rows_at(i, j->rows, j->out);
}
/* Whether row r of the instruction is real. */
static inline bool bt_exec_is_real(const bt_exec_job *j, const bt_pkg_inst *i, size_t r)
{
    const size_t rows = i->out_rows ? j->seq_out : j->seqs.rows;
    return bt_pkg_is_by_expert(i) || (i->out_rows && j->last) || r % rows < j->seqs.seq[r / rows].valid;
}
/* Elements of elem_bytes from one row to the next, in the instruction's inputs and in its outputs. */
static inline size_t bt_exec_ld_in(const bt_pkg_inst *i, size_t elem_bytes) { return i->in_stride / elem_bytes; }
static inline size_t bt_exec_ld_out(const bt_pkg_inst *i, size_t elem_bytes) { return i->out_stride / elem_bytes; }
/* The outputs that a linear computes: all of its matrix, or its part of the output matrix. */
static inline bt_pkg_part bt_exec_linear_part(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return bt_pkg_layout_part(&j->x->header->layout, bt_exec_tensor(j->x, i)->n, bt_pkg_part_of(i));
}
/* Where a linear with float outputs writes them, and how many rows it computes. The caller's logits end with the last
 * real row. */
static inline bool bt_exec_is_logits(const bt_pkg_inst *i) { return i->out == BT_PKG_NOWHERE; }
static inline float *bt_exec_linear_out(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return bt_exec_is_logits(i) ? j->io->logits + bt_exec_linear_part(j, i).first : bt_exec_at(j, i->out);
}
static inline size_t bt_exec_linear_rows(const bt_exec_job *j, const bt_pkg_inst *i)
{
    if (!bt_exec_is_logits(i) || j->last) return bt_exec_rows(j, i);
    const size_t last = j->io->seqs - 1, valid = j->seqs.seq[last].valid;
    return last * j->seq_out + (j->seq_out < valid ? j->seq_out : valid);
}

/* Notes a value of x[k] that is not finite: floats of row r, of which the instruction makes integers. entry[count]: the
 * quantiser's list of values beyond its clamp, which contains every value that is not finite; NULL: all of x is
 * checked. Padding is not checked. */
void bt_exec_job_look(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, const float *x, size_t k,
                      const bt_int_shadow *entry, uint32_t count);

/* The rows and heads of attention that the instruction covers, cut to the rows of this run; rows 0: none. */
bt_pkg_slice bt_exec_job_slice(const bt_exec_job *j, const bt_pkg_inst *i);
/* The rows of a slice that belong to sequence b: rows [row, row + rows) of the run. The first `real` of them are real;
 * pos: the position of the first. rows 0: none. */
typedef struct bt_exec_part {
    size_t row, rows, real, pos;
} bt_exec_part;
bt_exec_part bt_exec_job_part(const bt_exec_job *j, const bt_pkg_slice *s, size_t b);
/* A slice's multiply-accumulates: a real row sees all positions up to its own, each once for q . k and once for p . v
 * (p: the softmax). Columns of a static context beyond that are counted as masked_macs, where the NPU attends. */
uint64_t bt_exec_job_attention_macs(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *s);

/* The expert of row r of rows by expert; else 0. *ret_rows: how many of rows [r, r + n) are of that expert. */
uint32_t bt_exec_job_expert(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, size_t n, size_t *ret_rows);
/* The numbers with which row r of a site's input becomes integers, those of its expert where it has one. *ret_rows: how
 * many of rows [r, r + n) share them. */
typedef struct bt_exec_scale {
    float scale, inv_scale;
} bt_exec_scale;
bt_int_range bt_exec_job_range(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, size_t n, size_t *ret_rows);
bt_exec_scale bt_exec_job_scale(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, size_t n, size_t *ret_rows);

/* Counts multiply-accumulates of real rows for the instruction's unit and its kind of inputs. */
void bt_exec_count_macs(bt_exec_job *j, const bt_pkg_inst *i, uint64_t macs);
/* Counts those of a linear's rows, `real` of them real, and for the NPU what whole tiles add to all of them. */
void bt_exec_count_linear(bt_exec_job *j, const bt_pkg_inst *i, size_t rows, size_t real);

/* Adds a row-wise instruction as a step of the companion's pass (graph/companion.h), which calls fn(j, i, x, ..) over
 * blocks of its rows. x: the instruction's f32 input; NULL: fn finds its operands itself. */
void bt_exec_job_step(bt_exec_job *j, const bt_pkg_inst *i, const float *x, bt_companion_step_fn *fn);

/* The shadow that i makes or reads: count[rows], entry[rows, in_width]; NULLs: there is none. */
typedef struct bt_exec_shadow {
    uint32_t *count;
    bt_int_shadow *entry;
} bt_exec_shadow;
bt_exec_shadow bt_exec_job_shadow(const bt_exec_job *j, const bt_pkg_inst *i);
/* For rows [r0, r0 + n) of a shadow that was just made: drops the columns that the site does not keep, and counts the
 * entries left in real rows. */
void bt_exec_job_shadow_made(bt_exec_job *j, const bt_pkg_inst *i, const bt_exec_shadow *s, size_t r0, size_t n);

/* ---- exec_group.c: a group of linears over one input ---- */

typedef struct bt_exec_group {
    const bt_int_linear_epilogue *epilogue;
    bt_int_linear_matrix m[BT_PKG_MAX_GROUP];
    bt_int_linear_input in;
    size_t group, first;
    bool paired; /* as in npu/run/int_linear.h */
} bt_exec_group;
/* How many groups the instructions from i on are: the experts, or 1. */
static inline uint32_t bt_exec_groups(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return bt_pkg_is_experts(i) ? j->x->header->experts : 1;
}
/* An expert's part of a constant, of so many bytes; the whole of one that is no expert's. NULL: there is none. */
static inline const void *bt_exec_const_of(const bt_exec *x, uint32_t index, uint32_t expert, size_t bytes)
{
    const uint8_t *at = bt_exec_const(x, index);
    return at ? at + expert * bytes : NULL;
}
/* begin: takes the input and the matrices that the instructions from i on name, and counts their multiply-accumulates.
 * EXPERTS: those of one expert, and its rows, which begin at row `first` of the instruction; false: it has none. Then
 * the caller sets each matrix's ud, and paired where the epilogue needs it. run: computes all tiles, on all threads. */
bool bt_exec_group_begin(bt_exec_group *ret, bt_exec_job *j, const bt_pkg_inst *i, uint32_t expert,
                         const bt_int_linear_epilogue *epilogue);
void bt_exec_group_run(const bt_exec_job *j, const bt_exec_group *group);
/* Enough for any group of the package: scratch bytes of one thread; bytes of prepared inputs. */
size_t bt_exec_group_scratch_bytes(const bt_pkg *pkg);
size_t bt_exec_group_prepared_bytes(const bt_pkg *pkg);

/* ---- exec_border.c ---- */

void bt_exec_border_quantise(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_quantise32(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_dequantise16(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_quantise16(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_dequantise32(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_float.c ---- */

/* Rounds what an instruction on NPU_FLOAT has written, or will write as a step of the companion's pass; a group of
 * linears as a whole. Other instructions: does nothing. */
void bt_exec_float_round(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_linear.c ---- */

/* Runs a group of LINEARs or of EXPERTS and what is fused with it. Returns how many instructions these are. */
size_t bt_exec_linear(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_dynamic.c ---- */

/* QUANTISE keeps the scales of its rows and the columns that it takes out, for the LINEARs behind it. */
bt_err bt_exec_dynamic_new(bt_exec_dynamic **ret, const bt_pkg *pkg, bt_fault *fault);
void bt_exec_dynamic_free(bt_exec_dynamic *d); /* NULL is fine */
void bt_exec_dynamic_quantise(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_dynamic_linear(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_sparse.c ---- */

bt_err bt_exec_sparse_new(bt_exec_sparse **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_fault *fault);
void bt_exec_sparse_free(bt_exec_sparse *s); /* NULL is fine */
/* Whether rows [pos, pos + rows) of a sequence can be run without the rows before them. BT_EARG: they cannot, because a
 * row before pos makes their choice. */
bt_err bt_exec_sparse_check(const bt_exec_sparse *s, size_t pos, size_t rows, bt_fault *fault);
/* Attends for the rows of a slice that attend sparsely, of one sequence with the KV kv, zeroes the padding behind them,
 * and counts both. Returns how many rows before them attend densely, which is left to the caller. Where no row is
 * sparse, returns the number of real rows, and padding is left to the caller too. */
size_t bt_exec_sparse_rows(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *slice, const bt_exec_part *p,
                           const bt_kv_view *kv);

/* ---- int_exec.c ---- */

void bt_int_exec_run(bt_exec_job *j, const bt_pkg_inst *i);
size_t bt_int_exec_scratch_bytes(const bt_pkg *pkg); /* bytes of one thread */

/* ---- exec.c ---- */

/* Checks that a call's io fits the row and the package. */
bt_err bt_exec_check(const bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, const bt_exec_io *io, bt_fault *fault);
/* Runs one instruction and those that run as one with it, within a pass of the companion. Returns how many were
 * done. */
size_t bt_exec_inst(bt_exec_job *j, const bt_pkg_inst *i);
/* Runs all of j's instructions. BT_ECANCEL. */
bt_err bt_exec_walk(bt_exec_job *j, bt_fault *fault);
#endif
