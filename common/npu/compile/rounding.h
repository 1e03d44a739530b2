#ifndef BT_NPU_ROUNDING_H
#define BT_NPU_ROUNDING_H
#include <stdbool.h>
#include "base/err.h"
#include "base/pool.h"
#include "npu/compile/fold.h"

/* Rounding and packing of one matrix.
 *
 *   scale[n] = max over k of |w[n][k]| / L, L = 127 or 7 (one rounding); per tensor: the maximum over all n. A row (or
 *     matrix) of zeros has scale 1.
 *   q[n][k]  = clamp(rint(w[n][k] / scale[n]), -L, L), nearest even; or as GPTQ rounds (npu/compile/gptq.h) with the
 *            same scales
 * The bytes depend on no pool. */
typedef struct bt_rounding_in {
    bt_fold *fold;
    uint32_t layer;
    bt_weight weight;
    unsigned bits; /* 8 or 4 */
    bool per_tensor;
    const float *x, *xq;
    size_t samples;     /* [samples, k]: inputs and what quantisation makes of them, to measure output_error */
    const double *mean; /* [k]: the input's, for `correction`; NULL: that is zero */
    const float *gptq;  /* [k, k] of bt_gptq_prepare; NULL: round to nearest */
    bt_pool *pool;
} bt_rounding_in;

typedef struct bt_rounding {
    size_t n, k;
    uint8_t *panels;
    size_t panels_bytes; /* int_kernels.h */
    float *scale;
    size_t scales;      /* [n], or [1] */
    int32_t *colsum;    /* [16 * panels] */
    float *correction;  /* [n]: minus what rounding adds to the mean output, sum over k of (w' - w) mean, ascending */
    float weight_error; /* relative RMS */
    float output_error; /* relative RMS of the quantised linear over the samples; NaN without */
} bt_rounding;
/* BT_EFORMAT naming the weight where one is not finite; BT_ENOMEM. */
bt_err bt_rounding_make(bt_rounding *ret, const bt_rounding_in *in, bt_fault *fault);
void bt_rounding_done(bt_rounding *w); /* zeros are fine */
#endif
