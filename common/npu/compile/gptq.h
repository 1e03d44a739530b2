#ifndef BT_NPU_GPTQ_H
#define BT_NPU_GPTQ_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"

/* GPTQ: weights rounded one input after the other, the error of each spread over the inputs that are still to come, so
 * that the product with the calibration's rows stays close (IST-DASLab's gptq.py without reordering: H = 2/n sum x x^T,
 * damping 0.01 of the mean diagonal, blocks of 128). Plain C in one order: the same bits on every machine, with any
 * pool. */
enum { BT_GPTQ_BLOCK = 128 };

/* h[k, k]: on entry sums of x x^T over all rows (the lower triangle is read), on return the upper triangle U of
 * inverse(H) = U^T U as bt_gptq_round reads it: row i holds U[i][j] / U[i][i] for j > i. An input that is always zero
 * is dead: its weights become zero. BT_ENOMEM. */
bt_err bt_gptq_prepare(float *h, size_t k, bt_pool *pool, bt_fault *fault);
/* h += x^T x over t rows, the lower triangle. */
void bt_gptq_add(float *h, const float *x, size_t t, size_t k, bt_pool *pool);
/* q[rows, k] from w[rows, k], which is used up; scale[rows]; |q| <= limit. rows <= 16. Any thread. */
void bt_gptq_round(int8_t *q, float *w, const float *scale, size_t rows, size_t k, const float *u, float limit);
#endif
