#ifndef BT_NPU_FOLD_H
#define BT_NPU_FOLD_H
#include <stdbool.h>
#include "base/err.h"
#include "base/pool.h"
#include "graph/graph.h"
#include "model/model.h"
#include "model/weights.h"
#include "npu/quant/hadamard.h"

/* The weights of a model as the package holds them: rotated and smoothed. The model computes the same function, but the
 * inputs of its linears lose less when they become integers.
 *
 *   R1  rotates the residual stream. Norm weights g are folded into the matrices that read the norm's output, W' = W
 *       diag(g) R1^T for q, k, v, gate, up, router, output, and become ones. Matrices whose output is added to the
 *       stream are rotated, W' = R1 W for o, down. The embedding is not changed: its rows are rotated at run time.
 *       Without R1 norm weights stay vectors.
 *   R2  rotates each head of the attention's output, at run time: W' = W R2^T head by head for o. v is not changed, and
 *       so KV rows are not either.
 *   R4  rotates the input of down, silu(gate) * up, at run time: W' = W R4^T for down. This input is not smoothed then.
 *   s   smooths a site's input, x' = x / s, W' = W diag(s): the norm before the site becomes g / s (1 / s with R1). For
 *       down, row n of up is divided by s[n]. o is not smoothed. The router reads x' too. Experts share the s of
 *       their layer's site.
 *
 * A norm by mean and variance stays as it is: R1 turns no mean into a mean, and its bias goes past its weights. R1 is
 * off, and no input behind such a norm is smoothed; nor is that of down where it is no product with up.
 *
 * Where norms stand behind the blocks of a layer (model/arch.h), R1 is off. Where none stands before them, inputs of q,
 * k, v, gate and up, which are the residual stream itself, are not smoothed.
 *
 * Biases are not changed; where o and down have them, whose output is the stream's, R1 is off. The same bits on every
 * machine, with any kernels and pool. */
typedef struct bt_fold bt_fold;
/* Whether R1 can be folded into such a model: norms by the root of the mean square, before the blocks alone, no biases
 * behind them, and a Hadamard matrix as large as the stream is wide. */
bool bt_fold_can_r1(const bt_hparams *hp);
/* rotations: the wanted bits of bt_rotation. R1 is off where bt_fold_can_r1 says no, R2 where no matrix has its size
 * (npu/quant/hadamard.h); R4 is refused there, BT_EARG. BT_ENOMEM. m, kernels and pool (may be NULL) are borrowed. */
bt_err bt_fold_new(bt_fold **ret, const bt_model *m, unsigned rotations, const bt_kernels *kernels, bt_pool *pool,
                   bt_fault *fault);
void bt_fold_free(bt_fold *f);                   /* NULL is fine */
const bt_hadamard *bt_fold_r1(const bt_fold *f); /* base 0: off */
const bt_hadamard *bt_fold_r2(const bt_fold *f);
const bt_hadamard *bt_fold_r4(const bt_fold *f);
/* The options of the graph that these weights belong to: which rotations run in it. */
bt_graph_options bt_fold_graph(const bt_fold *f);
/* Whether the input of a site of this kind (bt_site_kind) may be smoothed. */
bool bt_fold_smooths(const bt_fold *f, uint32_t kind);
/* Smooth the input of a site (bt_pkg_site_index) by s[k], borrowed, each > 0; NULL ends it. */
void bt_fold_smooth(bt_fold *f, uint32_t site, const float *s);
/* Whether the norm w has weights of its own; false: its weights are all ones. */
bool bt_fold_has_norm(const bt_fold *f, uint32_t layer, bt_weight w);

/* bt_fold_begin chooses a matrix or a norm vector. bt_fold_row then reads row n to y[k], on any thread; a vector is row
 * 0. BT_EARG: the architecture has no such weight; BT_ENOMEM. */
bt_err bt_fold_begin(bt_fold *f, uint32_t layer, bt_weight w, bt_fault *fault);
void bt_fold_row(const bt_fold *f, float *y, size_t n);
size_t bt_fold_rows(const bt_fold *f); /* of the chosen matrix; of experts, of all their matrices */
size_t bt_fold_width(const bt_fold *f);
/* The folded weights as a source for bt_weights_open. */
bt_weights_source bt_fold_source(bt_fold *f);
#endif
