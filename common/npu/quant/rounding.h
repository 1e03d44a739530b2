#ifndef BT_NPU_ROUNDING_H
#define BT_NPU_ROUNDING_H
#include <stdbool.h>
#include "base/err.h"
#include "base/pool.h"
#include "kernels/int_kernels.h"
#include "npu/quant/fold.h"

/* Rounding and packing of one matrix w[n, k], as bt_fold gives it.
 *
 *   scale[n] = max over k of |w[n][k]| / L, L = 127 (8 bits) or 7 (4 bits), one rounding; per tensor: the maximum over
 *              all n. A row (or matrix) of zeros has scale 1.
 *   q[n][k]  = clamp(rint(w[n][k] / scale[n]), -L, L), nearest even; or what GPTQ rounds to (npu/quant/gptq.h), with
 *              the same scales
 * With palettes, q is made with 8 bits, and each q is then replaced by its entry in the palette of its panel and run
 * (npu/quant/palette.h). With groups, bt_grid_search chooses each group's grid. With clips, the scale or the group's
 * grid spans what the clip leaves (npu/quant/grid.h). The bytes do not depend on the pool. */
typedef struct bt_rounding_in {
    bt_fold *fold;
    uint32_t layer;
    bt_weight weight;
    size_t expert, experts; /* one of so many matrices of the weight; experts 0: it is one matrix. Expert 0 comes first:
                               the others stand on its bt_fold_begin */
    unsigned bits;          /* 8 or 4 */
    bool per_tensor;
    size_t group;          /* inputs in a group, divides k; 0: no groups; not per tensor */
    unsigned palette_bits; /* 4 or 6, with bits 8 and without groups; 0: none */
    size_t palette_run;    /* inputs that share a palette; divides k */
    const uint8_t *clip;   /* [n, k / group] of bt_awq_clips, or [n]; NULL: none; not per tensor */
    const float *x, *xq;
    size_t samples;        /* [samples, k]: x inputs, xq their dequantised values; measure output_error */
    const double *mean;    /* [k]: mean input, for `correction`; NULL: correction is zero */
    const float *gptq;     /* [k, k] of bt_gptq_prepare; NULL: round to nearest */
    const uint32_t *order; /* [k] of bt_gptq_prepare, or NULL */
    bt_pool *pool;
} bt_rounding_in;

typedef struct bt_rounding {
    size_t n, k;
    uint8_t *panels;
    size_t panels_bytes; /* panels as in int_kernels.h */
    float *scale;
    size_t scales;        /* entries of scale: n, or 1 per tensor; with groups scale holds the units of rows */
    bt_int_group *groups; /* [panels][k / group]; NULL: no groups */
    size_t groups_bytes;
    int8_t *palettes; /* [panels][k / palette_run][2^palette_bits]; NULL: no palettes */
    size_t palettes_bytes;
    int32_t *colsum; /* [colsums][16 * panels]: sums of each output's weights; with groups of its low plane, then of its
                        high one */
    size_t colsums;
    float *correction;  /* [n]: minus the sum over ascending k of (w' - w) * mean: undoes what rounding adds to the mean
                           output */
    float weight_error; /* relative RMS over all weights */
    float output_error; /* relative RMS of the outputs over the samples; NaN without samples */
} bt_rounding;
/* The counts and sizes that bt_rounding_make would give a matrix [n, k]; its pointers are NULL. Reads only bits,
 * per_tensor, groups and palettes of *in. BT_ELIMIT: the matrix does not fit memory. */
bt_err bt_rounding_sizes(bt_rounding *ret, const bt_rounding_in *in, size_t n, size_t k, bt_fault *fault);
/* Rounds and packs weight `weight` of layer `layer`. bt_rounding_done frees *ret. BT_EFORMAT, naming the weight: a
 * value is not finite; BT_ENOMEM, BT_ELIMIT, and the errors of bt_fold_begin. */
bt_err bt_rounding_make(bt_rounding *ret, const bt_rounding_in *in, bt_fault *fault);
void bt_rounding_done(bt_rounding *w); /* zeros are fine */
#endif
