#ifndef BT_NPU_OFFLOAD_H
#define BT_NPU_OFFLOAD_H
#include <stdbool.h>
#include "base/err.h"
#include "device/profile.h"
#include "graph/graph.h"
#include "kernels/round16.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

/* Which operators of a graph run on the NPU of a profile.
 *
 *   npu_ops linear    the linears are asked of it, lm_head too
 *   npu_ops all       every operator that profiles may have (graph/op_list.h: asked)
 *
 * Embedding (with its rotation), KV store and row selection move rows at the graph's edges: they are never asked and
 * never a fallback. What is asked but not in the profile, or not with the bits that the recipe wants, goes to the
 * companion and is listed. A linear needs its site's input bits, and int4 for 4-bit weights; the others need what
 * linears requantise to (profile.output_bits), and rope tables of at most 1 (model/rope.h: hp.rope.magnitude). Each
 * operator is placed by itself: one that is missing costs no other.
 *
 * An operator that the NPU cannot run in integers runs there in floats, where the profile has it in float16 or
 * bfloat16. An operator whose values reached beyond BT_OFFLOAD_FLOAT16_MAX in the calibration, half of what f16 holds,
 * does not run in float16: it goes to the companion and is listed with the greatest value of its kind of operator.
 *
 * The NPU takes operators in clusters (clusters.h), which are merged while that lowers the profile's costs. A cluster
 * with less work than min_cluster_macs goes to the companion and is listed; then the others are merged again, until
 * nothing changes. All this is decided from the graph at BT_OFFLOAD_ROWS rows, so that one placement holds for every
 * shape. */
enum {
    BT_OFFLOAD_ROWS = 256,          /* rows and positions that clusters are measured at, whatever a package's shapes */
    BT_OFFLOAD_MAX_FALLBACKS = 256, /* no graph has more kinds of operators times reasons */
    BT_OFFLOAD_FLOAT16_MAX = 32768,
};
typedef struct bt_offload {
    uint32_t npu_ops;      /* what runs: BT_PKG_OPS_ALL where anything but linears is on the NPU in integers */
    bt_round16 float_form; /* of what runs on the NPU in floats; NONE: nothing */
    uint8_t *on_npu;       /* [ops] bt_pkg_unit: 0 the companion, else the NPU, in integers or in floats */
    uint32_t *cluster;     /* [ops] as bt_clusters_find; 0 where on_npu is 0 */
    size_t ops, clusters;
    bt_pkg_fallback fallback[BT_OFFLOAD_MAX_FALLBACKS]; /* macs_per_row: attention at ctx_tokens positions */
    size_t fallbacks;
    uint32_t last_layer[BT_OFFLOAD_MAX_FALLBACKS]; /* of the last operator counted in each */
} bt_offload;
/* ctx_tokens >= 1. op_max: [graph ops] or NULL, the greatest value in the calibration that each operator reads or
 * writes; NULL: no value is known, so none is too large for floats. BT_ENOMEM, BT_ELIMIT. */
bt_err bt_offload_new(bt_offload **ret, const bt_graph *g, const bt_profile *profile, const bt_recipe *recipe,
                      uint32_t npu_ops, size_t ctx_tokens, const float *op_max, bt_fault *fault);
void bt_offload_free(bt_offload *p); /* NULL is fine */

/* Whether the NPU may run the linears of a site, with k inputs, in integers. False: why[96] says why not, in a few
 * words. */
bool bt_offload_linear(char *why, const bt_profile *profile, const bt_recipe_layer *recipe, bt_site_kind site,
                       size_t k);

/* "rope 60 x in 30 layers (not in profile my-board)". */
enum { BT_OFFLOAD_FALLBACK_BYTES = 192 };
void bt_offload_fallback_text(char *ret, size_t room, const bt_pkg_fallback *f);
/* --require-npu: BT_OK without fallbacks; else BT_EARG with the list of their texts, as many as there is room for. */
bt_err bt_offload_require(const bt_pkg_fallback *list, size_t n, bt_fault *fault);
#endif
