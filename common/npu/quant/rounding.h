#ifndef BT_NPU_ROUNDING_H
#define BT_NPU_ROUNDING_H
#include <stdbool.h>
#include "base/err.h"
#include "base/pool.h"
#include "kernels/int_kernels.h"
#include "npu/quant/fold.h"

/* Rounding and packing of one matrix.
 *
 *   scale[n] = max over k of |w[n][k]| / L, L = 127 or 7 (one rounding); per tensor: the maximum over all n. A row (or
 *     matrix) of zeros has scale 1.
 *   q[n][k]  = clamp(rint(w[n][k] / scale[n]), -L, L), nearest even; or as GPTQ rounds (npu/quant/gptq.h) with the
 *            same scales
 * With palettes q is made with 8 bits, and each takes its entry in the palette of its panel and run.
 * Grids are those of npu/quant/grid.h, of a group by its search; or with clips, of what they leave.
 * The bytes depend on no pool. */
typedef struct bt_rounding_in {
    bt_fold *fold;
    uint32_t layer;
    bt_weight weight;
    unsigned bits; /* 8 or 4 */
    bool per_tensor;
    size_t group;          /* 0: none; divides k; not per tensor */
    unsigned palette_bits; /* 4 or 6, with bits 8 and without groups; 0: none */
    size_t palette_run;    /* inputs that share a palette; divides k */
    const uint8_t *clip;   /* [n, k / group] of bt_awq_clips, or [n]; NULL: none; not per tensor */
    const float *x, *xq;
    size_t samples;        /* [samples, k]: inputs and what quantisation makes of them, to measure output_error */
    const double *mean;    /* [k]: the input's, for `correction`; NULL: that is zero */
    const float *gptq;     /* [k, k] of bt_gptq_prepare; NULL: round to nearest */
    const uint32_t *order; /* [k] of that too, or NULL */
    bt_pool *pool;
} bt_rounding_in;

typedef struct bt_rounding {
    size_t n, k;
    uint8_t *panels;
    size_t panels_bytes; /* int_kernels.h */
    float *scale;
    size_t scales;        /* [n], or [1]; with groups the units */
    bt_int_group *groups; /* with groups; else NULL */
    size_t groups_bytes;
    int8_t *palettes; /* with palettes: [panels][k / palette_run][2^palette_bits]; else NULL */
    size_t palettes_bytes;
    int32_t *colsum; /* [colsums][16 * panels]: of weights; with groups of low planes, then of high ones */
    size_t colsums;
    float *correction;  /* [n]: minus what rounding adds to the mean output, sum over k of (w' - w) mean, ascending */
    float weight_error; /* relative RMS */
    float output_error; /* relative RMS of the quantised linear over the samples; NaN without */
} bt_rounding;
/* The counts and sizes of what bt_rounding_make makes of a matrix [n, k], without making it. Only bits, groups and
 * palettes of *in are looked at. BT_ELIMIT. */
bt_err bt_rounding_sizes(bt_rounding *ret, const bt_rounding_in *in, size_t n, size_t k, bt_fault *fault);
/* BT_EFORMAT naming the weight where one is not finite; BT_ENOMEM. */
bt_err bt_rounding_make(bt_rounding *ret, const bt_rounding_in *in, bt_fault *fault);
void bt_rounding_done(bt_rounding *w); /* zeros are fine */
#endif
