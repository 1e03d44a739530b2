#ifndef BT_NPU_EXEC_PRIVATE_H
#define BT_NPU_EXEC_PRIVATE_H
#include "graph/companion.h"
#include "npu/run/exec.h"
#include "npu/run/int_linear.h"
#include "npu/pkg/recipe.h"

typedef struct bt_exec_dynamic bt_exec_dynamic;

/* What the files of the executor share. */
struct bt_exec {
    const bt_pkg *pkg;
    const bt_pkg_header *header;
    bt_companion companion;
    bt_companion_rotation r1, r2;
    bt_recipe recipe;
    float *ones;                            /* [dim]: the weight of a norm that was folded away */
    const uint8_t *embed;                   /* rows of embed_row_bytes */
    size_t embed_row_bytes;
    uint8_t *found;                         /* [max_seq, panels of ffn]: shadow entries of a tile's row, where tiles are quantised at once */
    bt_exec_dynamic *dynamic;               /* recipe llm-int8; else NULL */
    void *prepared;                         /* inputs of the linear that runs (npu/run/int_linear.h) */
    bt_exec_stats stats;
    atomic_uint_least64_t shadow_entries;   /* of stats: threads count them */
};

/* One run: the program, its rows and memory. */
typedef struct bt_exec_job {
    bt_exec *x;
    const bt_pkg_program *program;
    const bt_exec_io *io;
    uint8_t *arena;
    size_t rows, out;                       /* rows of SEQ and of OUT, padding too */
    bt_companion_seq seq;
    const bt_pkg_inst *end;                 /* of the program's instructions */
} bt_exec_job;

static inline void *bt_exec_at(const bt_exec_job *j, uint64_t offset) { return offset == BT_PKG_NOWHERE ? NULL : j->arena + offset; }
static inline const void *bt_exec_const(const bt_exec *x, uint32_t index) { return bt_pkg_const_at(x->pkg, index); }
/* Rows that an instruction computes, and how many of them are real. */
static inline size_t bt_exec_rows(const bt_exec_job *j, const bt_pkg_inst *i) { return i->out_rows ? j->out : j->rows; }
static inline size_t bt_exec_real_rows(const bt_exec_job *j, const bt_pkg_inst *i)
{
    const size_t rows = bt_exec_rows(j, i);
    return rows < j->io->valid ? rows : j->io->valid;
}

/* Row-wise instructions are noted as steps of the companion's pass (graph/companion.h) and run with their neighbours: what an instruction
 * reads and writes, all of it. */
typedef struct bt_exec_areas { bt_companion_area area[BT_COMPANION_MAX_AREAS]; size_t count; } bt_exec_areas;
bt_exec_areas bt_exec_areas_of(const bt_exec_job *j, const bt_pkg_inst *i);
/* Does no instruction behind `last` read what is at `offset` now? */
bool   bt_exec_is_dead(const bt_exec_job *j, const bt_pkg_inst *last, uint64_t offset);

/* exec_linear.c: QUANTISE; a group of LINEARs, and what behind it is done with it (returns how many instructions that are); scratch of one
 * thread. */
void   bt_exec_quantise(bt_exec_job *j, const bt_pkg_inst *i);
size_t bt_exec_linear(bt_exec_job *j, const bt_pkg_inst *i);
size_t bt_exec_linear_scratch_bytes(const bt_pkg *pkg);
size_t bt_exec_linear_prepared_bytes(const bt_pkg *pkg);
/* exec_linear.c: a group of linears over one input. begin: the input and the matrices that the instructions name, `rows` of them, and
 * their MACs counted; the caller gives each matrix its ud. run: all tiles, on all threads. */
typedef struct bt_exec_group {
    const bt_companion *companion;
    void *prepared;
    const bt_int_linear_epilogue *epilogue;
    bt_int_linear_matrix m[BT_PKG_MAX_GROUP];
    bt_int_linear_input in;
    size_t group;
    bool paired;                            /* npu/run/int_linear.h: set between begin and run, where the epilogue wants it */
} bt_exec_group;
void   bt_exec_group_begin(bt_exec_group *ret, bt_exec_job *j, const bt_pkg_inst *i, size_t rows, const bt_int_linear_epilogue *then);
void   bt_exec_group_run(const bt_exec_group *group);
/* Counts and entries of a shadow, as QUANTISE and INT_SPLIT lay them out for the program's rows; NULL where
 * there is none. */
void   bt_exec_shadow_of(const bt_exec_job *j, const bt_pkg_inst *i, uint32_t **count, bt_int_shadow **shadow);
/* The shadow that QUANTISE or INT_SPLIT `i` made of rows [r0, r0 + n), from count and shadow on: columns that are not hot go where the site says
 * so, and what is left of real rows is counted. */
void   bt_exec_finish_shadow(bt_exec_job *j, const bt_pkg_inst *i, uint32_t *count, bt_int_shadow *shadow, size_t r0, size_t n);

/* exec_dynamic.c: the same with the recipe llm-int8, with memory of its own. */
bt_err bt_exec_dynamic_new(bt_exec_dynamic **ret, const bt_pkg *pkg, bt_fault *fault);
void   bt_exec_dynamic_free(bt_exec_dynamic *d);    /* NULL is fine */
void   bt_exec_dynamic_quantise(bt_exec_job *j, const bt_pkg_inst *i);
void   bt_exec_dynamic_linear(bt_exec_job *j, const bt_pkg_inst *i);

/* exec_border.c: the companion's steps between f32 and the integers of npu_ops all. */
void   bt_exec_quantise32(bt_exec_job *j, const bt_pkg_inst *i);
void   bt_exec_dequantise16(bt_exec_job *j, const bt_pkg_inst *i);

/* int_exec.c: the INT_ instructions; scratch of one thread. */
void   bt_int_exec_run(bt_exec_job *j, const bt_pkg_inst *i);
size_t bt_int_exec_scratch_bytes(const bt_pkg *pkg);
#endif
