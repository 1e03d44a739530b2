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

/* Calibration: a text runs through the folded float model, and the inputs of all linears are measured. The text is cut
 * into windows of BT_CALIB_WINDOW ids, each of which begins at position 0. A rest below 16 ids is dropped.
 *
 * All figures are the same on every machine, with any number of threads and under any isa. */
enum { BT_CALIB_WINDOW = 512, BT_CALIB_SAMPLES = 8, BT_CALIB_BINS = 1 << 16 };

typedef struct bt_calib_site { /* figures of the input rows of one site */
    size_t k;
    uint64_t count; /* values seen */
    float max;      /* greatest magnitude, exact */
    double square;  /* sum of squares */
    uint32_t *hist; /* [2][BT_CALIB_BINS]: how many values have these upper 16 of the magnitude's 31 bits; [1]: negative
                       ones */
    float *column_max;  /* [k]: greatest magnitude of a column */
    float *column_end;  /* [2][k]: a column's lowest value, at most 0; then its highest, at least 0 */
    double *column_sum; /* [k]: sums over `sum_rows` rows: all but each window's first, whose massive activations would
                           outweigh all others */
    uint64_t sum_rows;
    float *sample; /* [samples, k]: rows spread evenly over the text, at most BT_CALIB_SAMPLES */
    size_t samples;
} bt_calib_site;

typedef struct bt_calib_stats {
    bt_calib_site *site; /* [sites], by bt_pkg_site_index */
    size_t sites;
    /* The others hold greatest magnitudes. */
    float *out_max; /* by bt_pkg_tensor_index: of each linear's output, for q and k also after qk_norm and rope; 0 for
                       the output matrix */
    float *attention_max; /* [layers]: of the attention's output before R2 */
    float residual_max;   /* of the residual stream, as rotated */
    float *op_max; /* [graph ops] of bt_graph_build with the fold's rotations: of what each operator reads and writes.
                      Operators of the logits do not run: theirs is that of the head's input. NULL: not asked for */
    size_t tokens; /* of the text that ran */
} bt_calib_stats;

typedef struct bt_calib bt_calib;
/* m, fold, kernels and pool (may be NULL) are borrowed. Each run reads the fold layer by layer, and holds one layer's
 * weights in 2 bytes each. progress: NULL, or called on the caller's thread during each run; done grows to total. */
bt_err bt_calib_new(bt_calib **ret, const bt_model *m, bt_fold *fold, const bt_kernels *kernels, bt_pool *pool,
                    void (*progress)(void *ud, uint64_t done, uint64_t total), void *progress_ud, bt_fault *fault);
void bt_calib_free(bt_calib *c); /* NULL is fine */
/* Every bt_calib_measure after this call fills op_max. BT_ENOMEM. */
bt_err bt_calib_watch_ops(bt_calib *c, bt_fault *fault);
/* Every bt_calib_measure after this call hands on the figures of the inputs of each expert, when it is done with a
 * layer: site->count / k rows chose the expert. They have k, count, max, hist, column_max and column_end; the rest is
 * NULL or 0. A site's own figures are those of its layer's experts together. BT_ENOMEM. */
typedef void bt_calib_expert_fn(void *ud, uint32_t layer, uint32_t kind, uint32_t expert, const bt_calib_site *site);
bt_err bt_calib_watch_experts(bt_calib *c, bt_calib_expert_fn *fn, void *ud, bt_fault *fault);
/* Runs ids through the model; blocks. *ret is valid until the next call on c. BT_EARG: fewer than 16 ids. BT_EFORMAT:
 * an input is not finite, or f16 cannot hold a folded weight. BT_ENOMEM. */
bt_err bt_calib_measure(const bt_calib_stats **ret, bt_calib *c, const int32_t *ids, size_t n, bt_fault *fault);
/* The same run, but a reader gets the rows instead of figures, on the caller's thread. Each layer makes these calls:
 * `before`; then, window after window, `rows` with x[t, k] of each of its sites; then `after`. The head's input comes
 * with the last layer. before and after may be NULL; an error that they return ends the run. Inside `after`
 * the fold may be used. */
typedef struct bt_calib_reader {
    bt_err (*before)(void *ud, uint32_t layer, bt_fault *fault);
    void (*rows)(void *ud, uint32_t site, const float *x, size_t t, size_t k);
    bt_err (*after)(void *ud, uint32_t layer, bt_fault *fault);
    /* NULL, or called instead of `rows`, after each operator of the layer: in is the operator's first input, out its
       output. The window's tokens stand at positions 0, 1 ..; kv holds the layer's K and V so far. */
    void (*steps)(void *ud, const bt_step *step, const float *in, const float *out, size_t rows, const bt_kv_view *kv);
    void *ud;
} bt_calib_reader;
bt_err bt_calib_read(bt_calib *c, const int32_t *ids, size_t n, const bt_calib_reader *reader, bt_fault *fault);

/* The smallest magnitude that p percent of the values do not exceed, rounded up to the edge of its bin (by at most 2^-8
 * of itself), but not above the maximum; p = 100: the maximum. */
float bt_calib_percentile(const bt_calib_site *s, double p);

/* The range [*lo, *hi], *lo <= 0 <= *hi, that holds p percent of the values: at most (100 - p) / 2 percent lie below
 * it, and at most as many above. Ends are rounded as bt_calib_percentile rounds. p = 100: lowest and highest value. */
void bt_calib_range(float *lo, float *hi, const bt_calib_site *s, double p);

/* The text that ships with the project: English prose, UTF-8, *ret_len bytes; never freed. */
const char *bt_calib_text(size_t *ret_len);
#endif
