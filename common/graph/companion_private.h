#ifndef BT_GRAPH_COMPANION_PRIVATE_H
#define BT_GRAPH_COMPANION_PRIVATE_H
#include "graph/companion.h"

/* The declarations that the companion's files share. Read them in this order; each calls only those before it:
 *   companion_pass.c     passes: row-wise steps that wait, and how they run as one
 *   companion_rows.c     the row-wise operators: each describes itself as a step
 *   companion_linear.c   linears
 *   companion_experts.c  routes of rows to experts
 *   companion_attn.c     attention
 *   companion.c          makes and frees what the others need */

/* ---- companion_pass.c ---- */

/* A row-wise operator over some rows. fn computes rows [r0, r0 + n); x and y are where row r0 of the step's
 * input and output begins, in memory or in the thread's block (NULL where the step has none). scratch: the
 * thread's. */
typedef struct bt_companion_pass_step bt_companion_pass_step;
typedef void bt_companion_pass_fn(const bt_companion *c, const bt_companion_pass_step *s, float *y, const float *x,
                                  size_t r0, size_t n, void *scratch);
struct bt_companion_pass_step {
    /* For the pass. */
    bt_companion_pass_fn *fn;
    float *y; /* [rows, k], as x; NULL: none */
    const float *x;
    size_t k;                                       /* width of x and y */
    const float *w;                                 /* a second operand: norm weight, v, the rows to select from */
    bt_companion_area area[BT_COMPANION_MAX_AREAS]; /* all rows that the step reads or writes */
    size_t areas;
    bool is_fresh;               /* y does not depend on its old content */
    bool x_in_block, y_in_block; /* the pass's own: x, y are not in memory (bt_companion_drop) */
    /* For the operator, which uses some of these. */
    bt_companion_rows r;
    float number; /* eps, pad */
    float scale;  /* of embed and add */
    size_t heads, d, dims, layer;
    bt_round16 form;
    const float *cos, *sin;
    int neox;
    const int32_t *ids;
    bt_companion_row_fn *row;
    bt_companion_gate_fn *gate;
    bt_companion_norm_fn *norm;
    bt_companion_point_fn *point;
    const bt_companion_rotation *rotation;
    bt_companion_step_fn *call;
    void *ud;
    const void *what; /* call's, or the table of embed */
};
/* Notes a step over t rows; outside a pass it runs at once. Copies *s. */
void bt_companion_pass_add(const bt_companion *c, const bt_companion_pass_step *s, size_t t);

/* Each thread's scratch ends with the memory for a block of a pass. NULL: no memory. */
bt_companion_pass *bt_companion_pass_new(void);
void bt_companion_pass_free(bt_companion_pass *p); /* NULL is fine */
size_t bt_companion_pass_scratch_bytes(void);

/* ---- companion_attn.c ---- */

/* NULL: no memory. */
size_t bt_companion_spans_part_floats(const bt_companion_sizes *sizes); /* of its memory */
bt_companion_spans *bt_companion_spans_new(const bt_companion_sizes *sizes);
void bt_companion_spans_free(bt_companion_spans *s); /* NULL is fine */
#endif
