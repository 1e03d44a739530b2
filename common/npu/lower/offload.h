#ifndef BT_NPU_OFFLOAD_H
#define BT_NPU_OFFLOAD_H
#include <stdbool.h>
#include "base/err.h"
#include "device/profile.h"
#include "graph/graph.h"
#include "kernels/round16.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

/* The operators of a graph that run on the NPU of a profile.
 *
 *   npu_ops linear    the linears, the output matrix included
 *   npu_ops all       every operator that a profile can name (graph/op_list.h: asked)
 *
 * The profile is asked for each of these operators. Embedding (with its rotation), KV store and row selection move rows
 * at the graph's edges: the profile is not asked, and they are no fallback. An operator that the profile does not have,
 * or not with the bits that the recipe wants, goes to the companion and is listed as a fallback. A linear needs the
 * input bits of its site, and int4 for 4-bit weights. The other operators need the bits to which linears requantise
 * (profile.output_bits), and ropes need tables of at most 1 (model/rope.h: hp.rope.magnitude). Each operator is placed
 * by itself: a missing one moves no other.
 *
 * An operator that the NPU cannot run in integers runs there in floats, where the profile has it in float16 or
 * bfloat16. It does not run in float16 where its values exceeded BT_OFFLOAD_FLOAT16_MAX, half the range of f16, in the
 * calibration: it goes to the companion, and the fallback names the greatest value of its kind of operator.
 *
 * The NPU takes operators in clusters (clusters.h), which are merged while that lowers the profile's costs. A cluster
 * with less work than min_cluster_macs goes to the companion and is listed; then the others are merged again, until
 * nothing changes. All this is decided from the graph at BT_OFFLOAD_ROWS rows, so that one placement holds for every
 * shape. */
enum {
    BT_OFFLOAD_ROWS = 256,          /* rows and positions at which clusters are measured, whatever a package's shapes */
    BT_OFFLOAD_MAX_FALLBACKS = 256, /* above the number of kinds of operators times reasons */
    BT_OFFLOAD_FLOAT16_MAX = 32768,
};
typedef struct bt_offload {
    uint32_t npu_ops;      /* BT_PKG_OPS_ALL: the NPU runs more than linears in integers */
    bt_round16 float_form; /* the floats of the NPU; NONE: it runs nothing in floats */
    uint8_t *on_npu;       /* [ops]: bt_pkg_unit */
    uint32_t *cluster;     /* [ops]: as bt_clusters_find; 0 on the companion */
    size_t ops, clusters;
    bt_pkg_fallback fallback[BT_OFFLOAD_MAX_FALLBACKS]; /* macs_per_row: attention at ctx_tokens positions */
    size_t fallbacks;
    uint32_t last_layer[BT_OFFLOAD_MAX_FALLBACKS]; /* [fallbacks]: layer of the last operator counted */
} bt_offload;
/* ctx_tokens >= 1. op_max: [graph ops], the greatest magnitude in the calibration that each operator reads or writes;
 * NULL: unknown, and none counts as too large. BT_ENOMEM, BT_ELIMIT. */
bt_err bt_offload_new(bt_offload **ret, const bt_graph *g, const bt_profile *profile, const bt_recipe *recipe,
                      uint32_t npu_ops, size_t ctx_tokens, const float *op_max, bt_fault *fault);
void bt_offload_free(bt_offload *p); /* NULL is fine */

/* Whether the NPU may run a site's linears, with k inputs, in integers. False: why[96] gives the reason in a few
 * words. */
bool bt_offload_linear(char *why, const bt_profile *profile, const bt_recipe_layer *recipe, bt_site_kind site,
                       size_t k);

/* Writes a fallback in words: "rope 60 x in 30 layers (not in profile my-board)". */
enum { BT_OFFLOAD_FALLBACK_BYTES = 192 };
void bt_offload_fallback_text(char *ret, size_t room, const bt_pkg_fallback *f);
/* For --require-npu. BT_OK: no fallbacks; BT_EARG lists them, as many as there is room for. */
bt_err bt_offload_require(const bt_pkg_fallback *list, size_t n, bt_fault *fault);
#endif
