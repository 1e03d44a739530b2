#ifndef BT_NPU_GPTQ_H
#define BT_NPU_GPTQ_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"

/* GPTQ (arXiv 2210.17323, after IST-DASLab's gptq.py): the weights of a row are rounded input by input. The error of
 * each is spread over the inputs that are still to come, so that the product with the calibration's rows stays close.
 *
 *   H = sum of x x^T over the calibration's rows x (gptq.py takes 2/n of it; the factor cancels)
 *   damping: 0.01 of H's mean diagonal is added to its diagonal; blocks of 128 inputs
 *   scales are chosen before, from the weights as they are (gptq.py's static groups)
 *
 * Plain C in one order: the same bits on every machine, with any pool. */
enum { BT_GPTQ_BLOCK = 128, BT_GPTQ_MANY = 128 };

/* h[k, k]: on entry H, of which the lower triangle is read (bt_gptq_add). On return what bt_gptq_round reads of the
 * upper triangle U, inverse(H) = U^T U: row i holds U[i][j] / U[i][i] for j > i. Its diagonal is 1, or 0 for a dead
 * input, which is one that is always zero: the weights of a dead input become the value of the grid nearest to zero.
 * order[k]: NULL: inputs are rounded as they come. Otherwise order is filled (act-order) with the inputs by descending
 * sum of squares, the earlier first among equals, and h is returned in this order. BT_ENOMEM. */
bt_err bt_gptq_prepare(float *h, uint32_t *order, size_t k, bt_pool *pool, bt_fault *fault);
/* Adds x^T x of rows x[t, k] to the lower triangle of h[k, k]. */
void bt_gptq_add(float *h, const float *x, size_t t, size_t k, bt_pool *pool);
/* The values to which weights are rounded: scale * q + offset, least <= q <= most, with a scale and an offset for each
 * group of a row's inputs. Groups are made of inputs in their own order, whatever order they are rounded in. */
typedef struct bt_gptq_grid {
    const float *scale, *offset; /* [rows, k / group]; offset NULL: zeros */
    size_t group;                /* inputs in a group; k: a row is one group */
    float least, most;
} bt_gptq_grid;
/* Rounds w[rows, k], which is overwritten, to q[rows, k]; rows <= BT_GPTQ_MANY. Each call reads u once. u: h as
 * bt_gptq_prepare returns it. order: NULL, or that of bt_gptq_prepare: the inputs of w then stand in this order, the
 * inputs of q in their own. Any thread. */
void bt_gptq_round(int8_t *q, float *w, const bt_gptq_grid *grid, size_t rows, size_t k, const uint32_t *order,
                   const float *u);
#endif
