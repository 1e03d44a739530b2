#ifndef BT_GRAPH_COMPANION_H
#define BT_GRAPH_COMPANION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "kernels/finite.h"
#include "kernels/forms.h"
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "kernels/round16.h"
#include "model/model.h"

/* The FP32 operators of a graph as functions over plain pointers: the float executor (graph/walk.h) and the NPU's
 * companion (npu/run/exec.h) are made of them. Each is one call into the kernels table, split over the pool's threads
 * by output panels, heads or rows, never inside a sum; little work stays on the caller's thread. Only bt_companion_init
 * allocates, and no function decides a shape. Bits depend on no batch, padding, thread or instruction set (the rule of
 * order, docs/numerics.md). */

/* A Hadamard rotation of blocks of E = base << log2 elements, as bt_edge_rotate_fn computes it. Pointers are
 * borrowed. */
typedef struct bt_companion_rotation {
    uint32_t base, log2;  /* base 0: no rotation */
    const int8_t *h_base; /* [base, base]; NULL where base is 1 */
    const int8_t *sign;   /* [E], or NULL */
    float scale;
} bt_companion_rotation;
/* The rotations of a model, by bt_rotation; base 0: none. */
typedef struct bt_companion_rotations {
    bt_companion_rotation r1, r2, r4;
} bt_companion_rotations;
/* by: a bt_rotation. */
const bt_companion_rotation *bt_companion_rotation_by(const bt_companion_rotations *r, uint32_t by);
/* The elements of the largest rotation. */
size_t bt_companion_rotations_max_elems(const bt_companion_rotations *r);
static inline size_t bt_companion_rotation_elems(const bt_companion_rotation *r) { return (size_t)r->base << r->log2; }

typedef struct bt_companion_spans bt_companion_spans;
typedef struct bt_companion_pass bt_companion_pass;
typedef struct bt_companion {
    const bt_kernels *kernels;
    bt_pool *pool; /* NULL: one thread */
    uint8_t *scratch;
    size_t scratch_bytes;      /* for each thread, 64-byte aligned; free for any use between calls */
    bt_companion_spans *spans; /* for threads that share a sequence's attention (companion_attn.c) */
    bt_companion_pass *pass;   /* row-wise steps that wait (companion_pass.c) */
    uint32_t row_align_bytes;  /* rows of matrices begin at multiples of this power of two; 0: one behind the other */
} bt_companion;
/* The sizes for which the companion takes memory. They decide what is fast, never what is possible. */
typedef struct bt_companion_sizes {
    size_t heads, kv_heads, head_dim;
    size_t runs;          /* the usual number of sequences in one call of attention, as in decoding */
    size_t ctx_tokens;    /* the longest of them */
    size_t rotate_elems;  /* the largest rotation */
    size_t scratch_bytes; /* the least scratch of each thread, as the owner needs it */
} bt_companion_sizes;
/* The bytes that bt_companion_init takes for a pool of `threads` threads. */
uint64_t bt_companion_bytes(const bt_companion_sizes *sizes, size_t threads);
/* kernels and pool are borrowed. BT_ENOMEM. */
bt_err bt_companion_init(bt_companion *ret, const bt_kernels *kernels, bt_pool *pool, const bt_companion_sizes *sizes,
                         bt_fault *fault);
void bt_companion_done(bt_companion *c); /* zeros are fine */
/* The thread's own scratch. */
static inline void *bt_companion_scratch(const bt_companion *c, size_t part)
{
    return c->scratch + part * c->scratch_bytes;
}
/* The pool where the number of elements to write makes waking threads worthwhile, else NULL: the caller's thread alone.
 */
enum { BT_COMPANION_DIRECT_ELEMS = 16384 };
static inline bt_pool *bt_companion_pool_for(const bt_companion *c, size_t elems)
{
    return elems < BT_COMPANION_DIRECT_ELEMS ? NULL : c->pool;
}

/* The rows of one run: `batch` sequences of `rows` rows each, of which the first `valid` are real and the
 * others padding. */
typedef struct bt_companion_seq {
    const bt_kv_view *kv; /* f16 or int8; [0, pos0) are stored; room for [pos0, pos0 + valid) */
    size_t pos0, valid;   /* valid <= rows; 0: all rows are padding, and kv is not looked at */
} bt_companion_seq;
typedef struct bt_companion_rows {
    const bt_companion_seq *seq;
    size_t batch, rows;
    /* [batch]: kv_store notes here the rows of each sequence that KV cannot hold, and stores them all the same.
     * Sequences may share one; NULL, for all or for one: no check */
    bt_overflow *const *overflow;
} bt_companion_rows;

/* Elements from one row of `width` to the next: width, or more where the owner set row_align_bytes. */
static inline size_t bt_companion_ld(const bt_companion *c, size_t width)
{
    const size_t align = c->row_align_bytes > sizeof(float) ? c->row_align_bytes / sizeof(float) : 1;
    return (width + align - 1) & ~(align - 1);
}

/* Row r of a matrix begins at r * bt_companion_ld(width); bytes between rows are never read or written. t counts the
 * rows of all sequences together, padding too. */

/* ---- passes ----
 * Outside a pass every function does its work at once. Between begin and end, the row-wise ones (embed,
 * norm, qk_norm, rope, kv_store, add, gated, point, round, select_rows, rotate, step) only note it. flush does what
 * was noted; linear, attention and end call it too. Then every thread takes blocks of a few rows through all
 * noted steps: what one step hands to the next stays in that thread's caches, and threads are woken once.
 * Bits are the same either way. A step that cannot wait with the others makes them run first: it has another
 * number of rows, or it touches memory that another one needs for other rows. All that steps point to (seq too) stays
 * as it is until then. */
void bt_companion_begin(const bt_companion *c);
void bt_companion_flush(const bt_companion *c);
void bt_companion_end(const bt_companion *c);
/* Says that nothing after the noted steps reads the rows at x, which may then stay in a thread's scratch and never be
 * written. */
void bt_companion_drop(const bt_companion *c, const void *x);

/* A row-wise step of the owner's own: fn computes rows [r0, r0 + n) of t. x: [t, width], or NULL; fn gets the address
 * of row r0, which may lie in a thread's scratch. width without x: the width of the widest rows that fn touches. area:
 * all memory that fn reads or writes, x too: row r is the `stride` bytes from at + r * stride (at NULL: none). scratch:
 * the thread's. */
enum { BT_COMPANION_MAX_AREAS = 6 };
typedef struct bt_companion_area {
    const void *at;
    size_t stride;
    bool is_written;
} bt_companion_area;
typedef void bt_companion_step_fn(void *ud, const void *what, const float *x, size_t r0, size_t n, void *scratch);
void bt_companion_step(const bt_companion *c, size_t t, size_t width, const float *x, const bt_companion_area *area,
                       size_t areas, bt_companion_step_fn *fn, void *ud, const void *what);

/* y[batch * rows, width] = row ids[..] by row(y, table, id), times scale; padding is filled with pad. ids[batch,
 * rows]. */
typedef void bt_companion_row_fn(float *y, const void *table, size_t id);
void bt_companion_embed(const bt_companion *c, const bt_companion_rows *r, float *y, size_t width, const int32_t *ids,
                        bt_companion_row_fn *row, const void *table, float scale, float pad);
/* y = fn(x, w) for t rows of k; fn: a kernel (kernels/kernels.h: rmsnorm, layernorm), y may be x. */
typedef bt_rmsnorm_fn bt_companion_norm_fn;
void bt_companion_norm(const bt_companion *c, bt_companion_norm_fn *fn, float *y, const float *x, const float *w,
                       float eps, size_t t, size_t k);
/* rmsnorm(x) * w in place for each of `heads` heads of d in t rows. */
void bt_companion_qk_norm(const bt_companion *c, float *x, const float *w, float eps, size_t t, size_t heads, size_t d);
/* x[batch * rows, heads * d] in place; cos, sin [positions, dims / 2] of every position; padding stays as it is. */
void bt_companion_rope(const bt_companion *c, const bt_companion_rows *r, float *x, size_t heads, size_t d, size_t dims,
                       const float *cos, const float *sin, int neox);
/* k, v [batch * rows, width]: rows of real tokens, rounded to the views' elements. */
void bt_companion_kv_store(const bt_companion *c, const bt_companion_rows *r, size_t layer, const float *k,
                           const float *v, size_t width);
/* The rule of a layer's attention; scale: of q . k; sinks: the layer's, [heads], or NULL. */
static inline bt_attn_rule bt_companion_rule(const bt_rules *r, float scale, const float *sinks, uint32_t layer)
{
    return (bt_attn_rule){.scale = scale, .window = bt_rules_window(r, layer), .cap = r->score_cap, .sinks = sinks};
}
/* out, q [batch * rows, heads * d]; rows of padding become zeros. Where rows = 1, entries one behind the other with the
 * same kv and rising positions (drafts, replayed tokens) go over K and V together; every row is still computed as if it
 * were alone. Three ways of sharing the work among threads, by the size of the call:
 *   little work                  the caller's thread
 *   runs of up to 32 rows        (decoding, and mixed steps) by sequence and kv head, and where that leaves threads
 *                                idle also at fixed spans of 256 positions, merged in ascending order (kernels.h)
 *   longer runs                  (chunks of a prompt) by blocks of rows and kv head */
void bt_companion_attention(const bt_companion *c, const bt_companion_rows *r, float *out, const float *q, size_t layer,
                            size_t heads, size_t kv_heads, size_t d, const bt_attn_rule *rule);
/* The same for query heads [h0, h1) alone; the places of other heads in out stay as they are. */
void bt_companion_attention_heads(const bt_companion *c, const bt_companion_rows *r, float *out, const float *q,
                                  size_t layer, size_t h0, size_t h1, size_t heads, size_t kv_heads, size_t d,
                                  const bt_attn_rule *rule);
/* y = scale x + y */
void bt_companion_add(const bt_companion *c, float *restrict y, const float *restrict x, float scale, size_t t,
                      size_t k);
/* gate = fn(gate) * up, element by element; fn: a kernel, y may be g (kernels/kernels.h: silu_mul). */
typedef void bt_companion_gate_fn(float *y, const float *g, const float *u, size_t count);
void bt_companion_gated(const bt_companion *c, bt_companion_gate_fn *fn, float *gate, const float *up, size_t t,
                        size_t k);
/* y = fn(y), element by element; fn: a kernel (kernels/kernels.h: gelu). */
typedef void bt_companion_point_fn(float *y, const float *x, size_t count);
void bt_companion_point(const bt_companion *c, bt_companion_point_fn *fn, float *y, size_t t, size_t k);
/* y[t, k] = tanh(y / cap) * cap: logits, whose rows have no gaps and belong to no pass. */
void bt_companion_soft_cap(const bt_companion *c, float *y, float cap, size_t t, size_t k);
/* y = x, rounded to 16-bit floats (kernels/round16.h); y may be x. */
void bt_companion_round(const bt_companion *c, bt_round16 form, float *y, const float *x, size_t t, size_t k);
/* y[batch * out] = the last real row of each sequence (out 1), or all rows (out = rows); elements of 4
 * bytes. */
void bt_companion_select_rows(const bt_companion *c, const bt_companion_rows *r, size_t out, void *y, const void *x,
                              size_t k);
/* Rotates each of `blocks` blocks of each of t rows, in place. */
void bt_companion_rotate(const bt_companion *c, float *x, size_t t, size_t blocks,
                         const bt_companion_rotation *rotation);

/* Linears over one input x[t, k]: y[t, n] = x * w + bias. Each matrix has the form of its own weights
 * (kernels/forms.h); FP4 needs bt_form_fp4_sums_bytes(t, k) of each thread's scratch. */
enum { BT_COMPANION_MAX_GROUP = 4 };
typedef struct bt_companion_matrix {
    float *y;
    const void *panels; /* 64-byte aligned */
    const float *bias;  /* [n], or NULL */
    size_t n;
    bt_form form;       /* 0: F16 */
    size_t group;       /* INT8: inputs that share a scale */
    size_t ld;          /* elements from one row of y to the next; 0: bt_companion_ld(n) */
    size_t first, rows; /* the rows of x and y that it is for, [first, first + rows); rows 0: all t */
} bt_companion_matrix;
void bt_companion_linear(const bt_companion *c, const bt_companion_matrix *m, size_t group, const float *x, size_t t,
                         size_t k);

/* ---- experts ----
 * A row chooses `used` of `experts` experts: those with the greatest scores, among equal ones the lower number; a score
 * that is NaN counts as less than all others. Its routes are 3 * used + experts numbers of 4 bytes:
 *   number[used]    uint32, the chosen experts, ascending; BT_COMPANION_NO_EXPERT in rows of padding
 *   place[used]     uint32, where the row's copy for that expert lies: copies are ordered by expert, then by row
 *   weight[used]    f32, exp(score - greatest) / sum: a softmax over the chosen ones, which is that over all of them
 *                   divided by its sum over the chosen ones; sum: of the chosen, in the order of their numbers
 *   score[experts]  f32, dot(x, router's row), plus its bias where there is one
 * No expert that no row chose is read, and a row's numbers depend on no other row. */
enum { BT_COMPANION_NO_EXPERT = UINT32_MAX };
typedef struct bt_companion_routes {
    float *at; /* [t] rows of routes */
    size_t experts, used;
    uint32_t *begin; /* [experts + 1]: copies [begin[e], begin[e + 1]) are of expert e */
} bt_companion_routes;
/* Routes rows x[batch * rows, k] by router[experts, k] and bias[experts] (NULL: none): fills r->at and r->begin. */
void bt_companion_route(const bt_companion *c, const bt_companion_rows *rows, const bt_companion_routes *r,
                        const float *x, const float *router, const float *bias, size_t k);
/* y[t * used, k]: the copies of x[t, k]. */
void bt_companion_gather(const bt_companion *c, const bt_companion_routes *r, float *y, const float *x, size_t t,
                         size_t k);
/* row, expert: of each copy, begin[experts] of them: the row that it is of, and its expert. */
void bt_companion_routes_of(uint32_t *row, uint32_t *expert, const bt_companion *c, const bt_companion_routes *r,
                            size_t t);
/* y[t, k] = the sum of weight * copy over a row's copies x[t * used, k] by fma in ascending order of experts, from +0;
 * +0 for padding. */
void bt_companion_mix(const bt_companion *c, const bt_companion_routes *r, float *y, const float *x, size_t t,
                      size_t k);
#endif
