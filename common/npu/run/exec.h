#ifndef BT_NPU_EXEC_H
#define BT_NPU_EXEC_H
#include <stdatomic.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "npu/pkg/pkg.h"

/* The NPU: a flat loop over the instructions of a program of a package. Integer instructions run in
 * int_exec.c and the int_* kernels, the companion's in graph/companion.h; this file only walks. It allocates
 * nothing and decides no shape.
 *
 * Padding: a program has seq rows, the first `valid` are real and the rest stand on the right with position
 * -1. They are computed like any row by row-wise steps, but not rotated by position, stored or attended
 * with; no step mixes rows. They enter as rows filled with `pad`.
 *
 * Numbers: integers are exact; the companion keeps the rule of order. KV bytes and logits depend on no seq,
 * ctx, chunk edge, padding, thread or instruction set (a recipe with llm-int8 excepted). */
typedef struct bt_exec bt_exec;
/* All borrowed, and outlive it. pool may be NULL. One run at a time. */
bt_err bt_exec_new(bt_exec **ret, const bt_pkg *pkg, const bt_kernels *kernels, bt_pool *pool, bt_fault *fault);
void   bt_exec_free(bt_exec *x);            /* NULL is fine */

typedef struct bt_exec_io {
    const int32_t *ids;                     /* [valid] */
    const bt_kv_view *kv;                   /* f16 or int8; [0, pos0) are stored; room for [pos0, pos0 + valid) */
    size_t pos0, valid, rows;               /* pos0: cache_index; 1 <= valid <= rows; row.seq_min <= rows <= row.seq */
    float *logits;                          /* [V], [valid, V], or NULL, as the program gives */
    float pad;                              /* any value, NaN too: it reaches nothing; 0 in normal use */
    void (*on_kv)(void *ud, uint32_t layer);        /* rows of `layer` are stored; layers ascending; may be NULL */
    void *ud;
    const atomic_bool *cancel;              /* looked at before each layer; NULL: never */
} bt_exec_io;

/* arena: prog->arena_bytes bytes, 64-byte aligned. Errors as bt_host_run. */
bt_err bt_exec_run(bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena, const bt_exec_io *io, bt_fault *fault);

/* Counted exactly, over all runs. */
typedef struct bt_exec_stats {
    uint64_t kv_bytes_written;              /* 2 * L * G heads (bt_kv_head_bytes) for each real row */
    uint64_t npu_macs, companion_macs;      /* of real rows, without padding; attention counts the pairs it computes, as q . k and p . v */
    uint64_t shadow_entries;                /* values beyond a clip that were added back; llm-int8: values that the companion multiplied */
} bt_exec_stats;
bt_exec_stats bt_exec_stats_of(const bt_exec *x);
#endif
