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

/* What the executor's files share. Read them in this order; each calls only those before it. Which bytes an
 * instruction touches and which run as one stands in npu/pkg (areas.h, fuse.h).
 *   int_linear.c    a linear layer in integers: loops over rows and panels
 *   exec_job.c      one run: where things lie, row-wise steps, the shadow
 *   exec_group.c    a group of linears over one input, on all threads
 *   exec_border.c   values that cross between floats and integers
 *   exec_float.c    what an instruction of the NPU in floats writes is rounded
 *   exec_linear.c   LINEAR: integer sums to floats, and what is fused with that
 *   exec_dynamic.c  QUANTISE and LINEAR of the recipe llm-int8
 *   exec_sparse.c   ATTENTION of a package that attends sparsely
 *   int_exec.c      the INT_ instructions
 *   exec.c          the companion's instructions, and the walk
 *   exec_steps.c    a run in steps, by several executors in turn
 * int_linear.c and int_exec.c are the NPU's and hold no float arithmetic. */

typedef struct bt_exec_dynamic bt_exec_dynamic;
typedef struct bt_exec_sparse bt_exec_sparse;

struct bt_exec {
    const bt_pkg *pkg;
    const bt_pkg_header *header;
    bt_companion companion;
    bt_companion_rotations rotations;
    float *ones;          /* [dim]: the weight of a norm that was folded away */
    const uint8_t *embed; /* rows of embed_row_bytes */
    size_t embed_row_bytes;
    uint8_t *found;           /* [max_seq, panels of ffn]: shadow entries of each row of a tile (exec_linear.c) */
    int32_t *ids;             /* [max_seq]: token ids of a job */
    bt_companion_seq *seq;    /* [max_seq]: sequences of a job */
    bt_overflow **overflow;   /* [max_seq]: each sequence's check for numbers out of range */
    const char *unpackable;   /* why several prompts cannot share a run; NULL: they can */
    uint32_t *last;           /* [max_seq]: rows of a job whose logits are wanted */
    bt_exec_dynamic *dynamic; /* of the recipe llm-int8; else NULL */
    bt_exec_sparse *sparse;   /* of packages with sparse attention; else NULL */
    void *prepared;           /* inputs of the linear that runs now (npu/run/int_linear.h) */
    uint32_t session;         /* the session that a device would have mapped now */
    bt_exec_stats stats;
    atomic_uint_least64_t shadow_entries; /* becomes part of stats; several threads count */
};

/* ---- exec_job.c: one run ---- */

typedef struct bt_exec_job {
    bt_exec *x;
    const bt_pkg_program *program;
    const bt_pkg_inst *inst; /* [program->insts] */
    const bt_fuse *fuse;     /* [program->insts] */
    const bt_exec_io *io;
    uint8_t *arena;
    const int32_t *ids;     /* of all rows of the run */
    bt_companion_rows seqs; /* the program's batch, padding with valid 0 */
    size_t seq_out;         /* rows of OUT of each sequence */
    size_t rows, out;       /* rows of SEQ and of OUT of all sequences, padding too */
    size_t real, real_out;  /* those of them that are real */
    const uint32_t *last;   /* [out] of a packed run: the row of SEQ that each row of OUT is made of; else NULL */
} bt_exec_job;
/* seq, overflow [row.batch] and ids [row.batch * io.rows]: lists that it fills and the job reads. */
bt_exec_job bt_exec_job_of(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena, const bt_exec_io *io,
                           bt_companion_seq *seq, bt_overflow **overflow, int32_t *ids);

/* A packed run: every row is a sequence of its own, those of one prompt one behind the other (graph/companion.h). */
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
/* NULL for BT_PKG_NOWHERE. */
static inline void *bt_exec_at(const bt_exec_job *j, uint64_t offset)
{
    return offset == BT_PKG_NOWHERE ? NULL : j->arena + offset;
}
/* Rows that an instruction computes, and how many of them are real. */
static inline size_t bt_exec_rows(const bt_exec_job *j, const bt_pkg_inst *i) { return i->out_rows ? j->out : j->rows; }
static inline size_t bt_exec_real_rows(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return i->out_rows ? j->real_out : j->real;
}
/* Whether row r of the instruction is real. */
static inline bool bt_exec_is_real(const bt_exec_job *j, const bt_pkg_inst *i, size_t r)
{
    const size_t rows = i->out_rows ? j->seq_out : j->seqs.rows;
    return (i->out_rows && j->last) || r % rows < j->seqs.seq[r / rows].valid;
}
/* Elements of elem_bytes from one row to the next, in what the instruction reads and in what it writes. */
static inline size_t bt_exec_ld_in(const bt_pkg_inst *i, size_t elem_bytes) { return i->in_stride / elem_bytes; }
static inline size_t bt_exec_ld_out(const bt_pkg_inst *i, size_t elem_bytes) { return i->out_stride / elem_bytes; }
/* The outputs of a linear's matrix that it computes: all, or its part of the output matrix. */
static inline bt_pkg_part bt_exec_linear_part(const bt_exec_job *j, const bt_pkg_inst *i)
{
    return bt_pkg_layout_part(&j->x->header->layout, bt_exec_tensor(j->x, i)->n, bt_pkg_part_of(i));
}
/* Where the outputs of a linear with float outputs go, and which rows it computes. The caller's logits end with the
 * last real row. */
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

/* Notes that a value of x[k], floats of row r that the instruction makes integers of, is not finite. entry[count]: what
 * a quantiser lists is all beyond its clamp, and so what is not finite; NULL: every value is looked at. Padding is not
 * looked at. */
void bt_exec_job_look(const bt_exec_job *j, const bt_pkg_inst *i, size_t r, const float *x, size_t k,
                      const bt_int_shadow *entry, uint32_t count);

/* The rows and heads of attention that the instruction covers, as many rows as this run has; rows 0: none of them. */
bt_pkg_slice bt_exec_job_slice(const bt_exec_job *j, const bt_pkg_inst *i);
/* A slice's rows of sequence b: rows [row, row + rows) of the run, of which the first `real` are real; the first one's
 * position is pos. rows 0: none. */
typedef struct bt_exec_part {
    size_t row, rows, real, pos;
} bt_exec_part;
bt_exec_part bt_exec_job_part(const bt_exec_job *j, const bt_pkg_slice *s, size_t b);
/* A slice's multiply-accumulates: a real row sees all positions up to its own, each once for q . k and once for p . v
 * (p: the softmax). What a static context has beyond that is counted as masked, where the NPU attends. */
uint64_t bt_exec_job_attention_macs(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *s);

/* Counts multiply-accumulates of real rows, for the unit of the instruction and its kind of inputs. */
void bt_exec_count_macs(bt_exec_job *j, const bt_pkg_inst *i, uint64_t macs);
/* Those of a linear, and what whole tiles add to all its rows where it is the NPU's. */
void bt_exec_count_linear(bt_exec_job *j, const bt_pkg_inst *i);

/* A row-wise instruction becomes a step of the companion's pass (graph/companion.h): fn(j, i, x, ..) over
 * blocks of its rows. x: its input where that is f32; else NULL, and fn finds its operands itself. */
void bt_exec_job_step(bt_exec_job *j, const bt_pkg_inst *i, const float *x, bt_companion_step_fn *fn);

/* The shadow beside the planes that i makes or reads: count[rows], entry[rows, in_width]; NULLs where there
 * is none. */
typedef struct bt_exec_shadow {
    uint32_t *count;
    bt_int_shadow *entry;
} bt_exec_shadow;
bt_exec_shadow bt_exec_job_shadow(const bt_exec_job *j, const bt_pkg_inst *i);
/* For rows [r0, r0 + n) of a shadow that was just made: drops the columns that the site does not keep, and
 * counts what is left of real rows. */
void bt_exec_job_shadow_made(bt_exec_job *j, const bt_pkg_inst *i, const bt_exec_shadow *s, size_t r0, size_t n);

/* ---- exec_group.c: a group of linears over one input ---- */

typedef struct bt_exec_group {
    const bt_int_linear_epilogue *epilogue;
    bt_int_linear_matrix m[BT_PKG_MAX_GROUP];
    bt_int_linear_input in;
    size_t group;
    bool paired; /* npu/run/int_linear.h */
} bt_exec_group;
/* begin: the input and the matrices that the instructions from i on name; counts their MACs. Then the caller
 * gives each matrix its ud, and sets paired where the epilogue wants it. run: all tiles, on all threads. */
void bt_exec_group_begin(bt_exec_group *ret, bt_exec_job *j, const bt_pkg_inst *i,
                         const bt_int_linear_epilogue *epilogue);
void bt_exec_group_run(const bt_exec_job *j, const bt_exec_group *group);
/* For any group of the package: scratch of one thread; memory for prepared inputs. */
size_t bt_exec_group_scratch_bytes(const bt_pkg *pkg);
size_t bt_exec_group_prepared_bytes(const bt_pkg *pkg);

/* ---- exec_border.c ---- */

void bt_exec_border_quantise(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_quantise32(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_dequantise16(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_quantise16(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_border_dequantise32(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_float.c ---- */

/* Rounds the values that an instruction of the unit NPU_FLOAT has written, or that it is noted to write; a group of
 * linears as a whole. */
void bt_exec_float_round(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_linear.c ---- */

/* Runs a group of LINEARs, and what is fused with it. Returns how many instructions these are. */
size_t bt_exec_linear(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_dynamic.c ---- */

/* A QUANTISE keeps its rows' scales and the columns that it takes out, for the LINEARs behind it. */
bt_err bt_exec_dynamic_new(bt_exec_dynamic **ret, const bt_pkg *pkg, bt_fault *fault);
void bt_exec_dynamic_free(bt_exec_dynamic *d); /* NULL is fine */
void bt_exec_dynamic_quantise(bt_exec_job *j, const bt_pkg_inst *i);
void bt_exec_dynamic_linear(bt_exec_job *j, const bt_pkg_inst *i);

/* ---- exec_sparse.c ---- */

bt_err bt_exec_sparse_new(bt_exec_sparse **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_fault *fault);
void bt_exec_sparse_free(bt_exec_sparse *s); /* NULL is fine */
/* Whether rows [pos, pos + rows) of a sequence can be run without those before. BT_EARG: they cannot. */
bt_err bt_exec_sparse_check(const bt_exec_sparse *s, size_t pos, size_t rows, bt_fault *fault);
/* Attends for those of a slice's rows of one sequence, whose KV is kv, that attend sparsely, with the padding behind
 * them, and counts that. Returns how many rows before them attend densely: all of them where no row is sparse, and then
 * padding is left too. */
size_t bt_exec_sparse_rows(bt_exec_job *j, const bt_pkg_inst *i, const bt_pkg_slice *slice, const bt_exec_part *p,
                           const bt_kv_view *kv);

/* ---- int_exec.c ---- */

void bt_int_exec_run(bt_exec_job *j, const bt_pkg_inst *i);
size_t bt_int_exec_scratch_bytes(const bt_pkg *pkg); /* of one thread */

/* ---- exec.c ---- */

/* Checks that the io of a call fits the row and the package. */
bt_err bt_exec_check(const bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, const bt_exec_io *io, bt_fault *fault);
/* Runs one instruction, and those that run as one with it; returns how many were done. Within a pass of the companion.
 */
size_t bt_exec_inst(bt_exec_job *j, const bt_pkg_inst *i);
/* Runs all of j's instructions. BT_ECANCEL. */
bt_err bt_exec_walk(bt_exec_job *j, bt_fault *fault);
#endif
