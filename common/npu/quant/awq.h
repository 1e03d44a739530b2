#ifndef BT_NPU_AWQ_H
#define BT_NPU_AWQ_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "npu/quant/fold.h"

/* AWQ (arXiv 2306.00978 and its code, mit-han-lab/llm-awq): weights of inputs that are large are rounded more
 * finely, because they are multiplied by a scale before, and their input is divided by it.
 *
 *   scale   s = max(m^r, 1e-4) / sqrt(greatest * least), m[k] the mean |x| of an input, r = 0, 1/20, ... 19/20: the one
 *           with the least sum of squares of (Q(W diag(s)) diag(1/s) - W) x over the tokens and all outputs of the
 *           matrices that read the input, the lower r of equals. (The code looks at the output of attention and of the
 *           whole feed-forward network; here it is the linears', as in the paper.)
 *   clip    behind the scales, each run of weights that shares a step is cut to +-(1 - c/20) of its greatest magnitude,
 *           c = 0 .. 9: the one whose own part of the output is least far off, the lower c of equals. Not of q and k
 *
 * Q rounds to nearest on the grid that spans what it is given (npu/quant/grid.h). Plain operations in one order, no
 * libm: the same bits on every machine, with any pool. */
enum { BT_AWQ_TOKENS = 128, BT_AWQ_RATIOS = 20, BT_AWQ_CLIPS = 10 };

/* Rows of one input, as the calibration makes them. */
typedef struct bt_awq_input {
    size_t k, tokens, rows; /* tokens: of those kept, at most BT_AWQ_TOKENS; rows: of all that were added */
    double *magnitude;      /* [k]: sums of |x| over all rows */
    float *x;               /* [tokens / 16 rounded up][k][16], zeros past the last */
} bt_awq_input;
bt_err bt_awq_input_new(bt_awq_input *ret, size_t k, bt_fault *fault);
void bt_awq_input_done(bt_awq_input *in); /* zeros are fine */
/* Rows x[t, k] of a text of `total`, the first of which stands at `at`: all count for the mean, and of them those
 * evenly spread over the text are kept. */
void bt_awq_input_add(bt_awq_input *in, const float *x, size_t t, size_t at, size_t total);

typedef struct bt_awq_matrix {
    bt_fold *fold;
    uint32_t layer;
    bt_weight weight;
    unsigned bits; /* 8 or 4 */
    size_t group;  /* inputs that share a step and an offset; 0: a channel has a step */
    bt_pool *pool;
} bt_awq_matrix;

/* error[r] += the sum of squares at each ratio, for the matrix as it is folded. BT_EFORMAT: a weight is not finite;
 * BT_ENOMEM. */
bt_err bt_awq_errors(double error[BT_AWQ_RATIOS], const bt_awq_matrix *m, const bt_awq_input *in, bt_fault *fault);
unsigned bt_awq_best(const double error[BT_AWQ_RATIOS]);
/* s[k] at a ratio. */
void bt_awq_scales(float *s, const bt_awq_input *in, unsigned ratio);
/* The inputs divided by s[k]. */
void bt_awq_input_scale(bt_awq_input *in, const float *s);
/* clip[n, k / group] of the matrix as it is folded, scaled, and inputs that are too. As bt_awq_errors. */
bt_err bt_awq_clips(uint8_t *clip, const bt_awq_matrix *m, const bt_awq_input *in, bt_fault *fault);
#endif
