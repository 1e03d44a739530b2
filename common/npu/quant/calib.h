#ifndef BT_NPU_CALIB_H
#define BT_NPU_CALIB_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "graph/bind.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "npu/quant/fold.h"

/* Calibration: a text runs through the folded float model, and the input of every linear is watched. Text is cut into
 * windows of BT_CALIB_WINDOW ids, each from position 0; a rest below 16 ids is dropped unless it is all there is.
 *
 * All figures are the same on every machine, with any number of threads and under any isa. */
enum { BT_CALIB_WINDOW = 512, BT_CALIB_SAMPLES = 8, BT_CALIB_BINS = 1 << 16 };

typedef struct bt_calib_site { /* of the rows of one site, by bt_pkg_site_index */
    size_t k;
    uint64_t count;    /* values seen */
    float max;         /* greatest magnitude, exact */
    double square;     /* sum of squares */
    uint32_t *hist;    /* [2][BT_CALIB_BINS]: values by the upper 16 bits of their magnitude; negative ones in [1] */
    float *column_max; /* [k]: greatest magnitude */
    float *column_end; /* [2][k]: lowest value, at most 0; then highest, at least 0 */
    double *column_sum;
    uint64_t sum_rows; /* [k]: over the rows but each window's first, whose massive activations would outweigh all
                          others */
    float *sample;
    size_t samples; /* [samples, k]: rows spread evenly over the text */
} bt_calib_site;

typedef struct bt_calib_stats {
    bt_calib_site *site;
    size_t sites;
    float *out_max; /* by bt_pkg_tensor_index: greatest magnitude of each linear's output, after qk_norm and rope for q
                       and k; not of the output matrix (0) */
    float *attention_max; /* [layers]: of the attention's output before R2 */
    float residual_max;   /* of the residual stream, as rotated */
    float *op_max; /* [graph ops] (bt_graph_build with the fold's rotations): of what each operator reads and writes;
                      logits are not run. NULL: not asked for */
    size_t tokens;
} bt_calib_stats;

typedef struct bt_calib bt_calib;
/* fold is borrowed: each run reads it layer by layer, 2 bytes for each weight of the one at hand. pool may be NULL.
 * progress: NULL, or called on the caller's thread, by each run, from nothing to all of it. */
bt_err bt_calib_new(bt_calib **ret, const bt_model *m, bt_fold *fold, const bt_kernels *kernels, bt_pool *pool,
                    void (*progress)(void *ud, uint64_t done, uint64_t total), void *progress_ud, bt_fault *fault);
void bt_calib_free(bt_calib *c); /* NULL is fine */
/* Asks for op_max, from the next bt_calib_measure on. BT_ENOMEM. */
bt_err bt_calib_watch_ops(bt_calib *c, bt_fault *fault);
/* Runs ids through the model. BT_EFORMAT: a value that is not finite, a folded weight that f16 cannot hold. The result
 * lives as long as c, until the next call. */
bt_err bt_calib_measure(const bt_calib_stats **ret, bt_calib *c, const int32_t *ids, size_t n, bt_fault *fault);
/* The same run, but the rows go to the caller, on its thread: x[t, k] of each site of a layer, window after window,
 * between `before` and `after` that layer; the head's input comes with the last one's. Inside `after` the fold may be
 * used. before and after may be NULL. */
typedef struct bt_calib_reader {
    bt_err (*before)(void *ud, uint32_t layer, bt_fault *fault);
    void (*rows)(void *ud, uint32_t site, const float *x, size_t t, size_t k);
    bt_err (*after)(void *ud, uint32_t layer, bt_fault *fault);
    /* NULL, or what goes to the caller instead of rows: each operator of the layer, with what it first read and what it
       wrote; the window's tokens stand at positions from 0, and kv holds their K and V of the layer so far */
    void (*steps)(void *ud, const bt_step *step, const float *in, const float *out, size_t rows, const bt_kv_view *kv);
    void *ud;
} bt_calib_reader;
bt_err bt_calib_read(bt_calib *c, const int32_t *ids, size_t n, const bt_calib_reader *reader, bt_fault *fault);

/* The smallest magnitude that p percent of the values do not exceed, rounded up to the edge of its bin (2^-8 of it) but
 * not beyond the maximum; p = 100: the maximum. */
float bt_calib_percentile(const bt_calib_site *s, double p);

/* The range that p percent of the values do not leave, with half of the others at most on either side: ends as a
 * percentile of magnitudes is rounded, *lo <= 0 <= *hi; p = 100: lowest and highest value. */
void bt_calib_range(float *lo, float *hi, const bt_calib_site *s, double p);

/* The text that ships with the project: English prose, UTF-8. The caller makes tokens of it. */
const char *bt_calib_text(size_t *ret_len);
#endif
