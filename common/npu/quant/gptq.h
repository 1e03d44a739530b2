#ifndef BT_NPU_GPTQ_H
#define BT_NPU_GPTQ_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"

/* GPTQ: weights rounded one input after the other, the error of each spread over the inputs that are still to come, so
 * that the product with the calibration's rows stays close (IST-DASLab's gptq.py: H = 2/n sum x x^T, damping 0.01 of
 * the mean diagonal, blocks of 128; scales are chosen before, from the weights as they are: its static groups). Plain C
 * in one order: the same bits on every machine, with any pool. */
enum { BT_GPTQ_BLOCK = 128 };

/* h[k, k]: on entry sums of x x^T over all rows (the lower triangle is read), on return the upper triangle U of
 * inverse(H) = U^T U as bt_gptq_round reads it: row i holds U[i][j] / U[i][i] for j > i. An input that is always zero
 * is dead: its weights become the nearest to zero. BT_ENOMEM.
 * order[k]: NULL: inputs are rounded as they come. Else it is filled (act-order): the greatest sums of squares first,
 * of equal ones the earlier, and U is of the inputs in that order. */
bt_err bt_gptq_prepare(float *h, uint32_t *order, size_t k, bt_pool *pool, bt_fault *fault);
/* h += x^T x over t rows, the lower triangle. */
void bt_gptq_add(float *h, const float *x, size_t t, size_t k, bt_pool *pool);
/* What weights are rounded to: scale * q + offset, least <= q <= most; of each group of inputs of a row, which are
 * counted in their own order. */
typedef struct bt_gptq_grid {
    const float *scale, *offset; /* [rows, k / group]; offset NULL: zeros */
    size_t group;                /* k: one of a row */
    float least, most;
} bt_gptq_grid;
/* q[rows, k] from w[rows, k], which is used up. rows <= 16. order: NULL, or prepare's; the inputs of w then stand in
 * it, those of q in their own. Any thread. */
void bt_gptq_round(int8_t *q, float *w, const bt_gptq_grid *grid, size_t rows, size_t k, const uint32_t *order,
                   const float *u);
#endif
