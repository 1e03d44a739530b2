#ifndef BT_NPU_FOLD_H
#define BT_NPU_FOLD_H
#include <stdbool.h>
#include "base/err.h"
#include "base/pool.h"
#include "graph/graph.h"
#include "model/model.h"
#include "model/weights.h"
#include "npu/quant/hadamard.h"

/* The weights of a model as the package wants them: the same function of the tokens, with inputs that are kinder to
 * integers.
 *
 *   R1  the residual stream is rotated. Norm weights g are folded into what reads them, W' = W diag(g) R1^T for q, k,
 *       v, gate, up, output, and are then ones; what is added to the stream is rotated, W' = R1 W for o, down. The
 *       embedding stays as it is: its rows are rotated at run time. Without R1 norm weights stay vectors.
 *   R2  each head of the attention's output is rotated at run time: W' = W R2^T head by head for o. v stays, so KV rows
 *       do too.
 *   R4  the input of down, silu(gate) * up, is rotated at run time: W' = W R4^T for down. It is not smoothed then.
 *   s   smoothing of a site's input, x' = x / s, W' = W diag(s): the norm before it becomes g / s (1 / s with R1); for
 *       down, row n of up is divided by s[n]. Not for o.
 *
 * Biases of q, k, v are not changed. The same bits on every machine, with any kernels and pool. */
typedef struct bt_fold bt_fold;
/* rotations: of bt_rotation, those that are wanted. R1 or R2 for which there is no matrix of that size is off; R4 is
 * refused, BT_EARG. m, kernels and pool (may be NULL) are borrowed. */
bt_err bt_fold_new(bt_fold **ret, const bt_model *m, unsigned rotations, const bt_kernels *kernels, bt_pool *pool,
                   bt_fault *fault);
void bt_fold_free(bt_fold *f);                   /* NULL is fine */
const bt_hadamard *bt_fold_r1(const bt_fold *f); /* base 0: off */
const bt_hadamard *bt_fold_r2(const bt_fold *f);
const bt_hadamard *bt_fold_r4(const bt_fold *f);
/* The graph of these weights. */
bt_graph_options bt_fold_graph(const bt_fold *f);
/* Smooth the input of a site (bt_pkg_site_index) by s[k], borrowed, each > 0; NULL: no more. */
void bt_fold_smooth(bt_fold *f, uint32_t site, const float *s);
/* Whether a norm's weights are other than ones. */
bool bt_fold_has_norm(const bt_fold *f, uint32_t layer, bt_weight w);

/* Choose a matrix or a norm vector; from then on rows may be read, from any thread: y[k] = row n. A vector is row 0.
 * BT_ENOMEM. */
bt_err bt_fold_begin(bt_fold *f, uint32_t layer, bt_weight w, bt_fault *fault);
void bt_fold_row(const bt_fold *f, float *y, size_t n);
size_t bt_fold_rows(const bt_fold *f); /* of what was chosen */
size_t bt_fold_width(const bt_fold *f);
/* The same as a source for bt_weights_open. */
bt_weights_source bt_fold_source(bt_fold *f);
#endif
