#ifndef BT_NPU_AWQ_H
#define BT_NPU_AWQ_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "npu/quant/fold.h"

/* AWQ (arXiv 2306.00978 and its code, mit-han-lab/llm-awq): weights that multiply large inputs are rounded more finely.
 * These weights are multiplied by a scale before rounding, and their input is divided by the same scale.
 *
 *   scale   s[k] = v[k] / sqrt(max v * min v), v[k] = max(m[k]^r, 1e-4), m[k] the mean |x| of input k. The ratio r is
 *           the one of 0, 1/20, ... 19/20 with the least sum of squares of (Q(W diag(s)) diag(1/s) - W) x, over the
 *           tokens and over all outputs of the matrices that read the input; the lower r among equals. (The paper
 *           compares outputs of linears, as here; its code compares those of attention and of the whole feed-forward
 *           network.)
 *   clip    after scaling, each run of weights that shares a step is cut to +-(1 - c/20) of its greatest magnitude. c
 *           is the one of 0 .. 9 whose part of the output has the least squared error; the lower c among equals. The
 *           compiler does not clip q and k.
 *
 * Q rounds to nearest on the grid that spans its weights (npu/quant/grid.h). Plain operations in one order, no libm:
 * the same bits on every machine, with any pool. */
enum { BT_AWQ_TOKENS = 128, BT_AWQ_RATIOS = 20, BT_AWQ_CLIPS = 10 };

/* Figures and samples of the rows x[k] that matrices read, as the calibration makes them. */
typedef struct bt_awq_input {
    size_t k, tokens, rows; /* tokens: rows kept in x, at most BT_AWQ_TOKENS; rows: those counted in magnitude */
    double *magnitude;      /* [k]: sums of |x| over `rows` rows */
    float *x;               /* [tokens / 16 rounded up][k][16]: 16 tokens side by side, zeros past the last */
} bt_awq_input;
bt_err bt_awq_input_new(bt_awq_input *ret, size_t k, bt_fault *fault);
void bt_awq_input_done(bt_awq_input *in); /* zeros are fine */
/* Adds one window's rows x[t, k], which begin at row `at` of a text of `total` rows. All but the window's first row
 * count in magnitude (bt_calib_site says why). Rows that spread evenly over the text are kept in x. */
void bt_awq_input_add(bt_awq_input *in, const float *x, size_t t, size_t at, size_t total);

typedef struct bt_awq_matrix {
    bt_fold *fold;
    uint32_t layer;
    bt_weight weight;
    unsigned bits; /* 8 or 4 */
    size_t group;  /* inputs that share a step and an offset; 0: an output has one step */
    bt_pool *pool;
} bt_awq_matrix;

/* error[i] += the sum of squares at ratio i / BT_AWQ_RATIOS, for the matrix as it is folded. BT_EFORMAT: a weight is
 * not finite; BT_ENOMEM. */
bt_err bt_awq_errors(double error[BT_AWQ_RATIOS], const bt_awq_matrix *m, const bt_awq_input *in, bt_fault *fault);
/* The i of the least error, the lower among equals. */
unsigned bt_awq_best(const double error[BT_AWQ_RATIOS]);
/* Fills s[k] for the ratio r = ratio / BT_AWQ_RATIOS. */
void bt_awq_scales(float *s, const bt_awq_input *in, unsigned ratio);
/* Divides the kept rows by s[k]. */
void bt_awq_input_scale(bt_awq_input *in, const float *s);
/* Fills clip[n, k / group] (group 0: [n]) with each run's c. Before, the fold smooths the matrix by s, and
 * bt_awq_input_scale divides the rows by s. Errors as bt_awq_errors. */
bt_err bt_awq_clips(uint8_t *clip, const bt_awq_matrix *m, const bt_awq_input *in, bt_fault *fault);
#endif
