#ifndef BT_NPU_SITES_H
#define BT_NPU_SITES_H
#include "base/err.h"
#include "npu/quant/calib.h"
#include "npu/quant/fold.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

/* Chooses how the inputs of linears are quantised, from calibration figures. A site is an input that linears share. */

/* Fills site[sites] with what model and recipe say without a calibration: layer, kind, bits, asymmetric, shadow, k. hot
 * is BT_PKG_NONE, the rest zeros. */
void bt_sites_plan(bt_pkg_site *site, size_t sites, const bt_hparams *hp, const bt_recipe *recipe);
/* Fills site[stats->sites] completely, except for hot, which stays BT_PKG_NONE.
 *
 * Clip: the percentile of magnitudes that the recipe names. clip=auto: p99.99; with shadow=value the first of p99.99,
 * p99.9, p99.5 that is at most 5 times the RMS of the values within it, or p99.5. Long tails, as the inputs of o and
 * down have them, then do not set the step; the shadow keeps the values beyond the clip.
 *
 * Symmetric: scale = clip / 127 (8 bits) or clip / 32639 (16 bits). Asymmetric, 8 bits: each side has its own clip
 * (bt_calib_range), lo <= 0 <= hi, and clip=auto compares half of hi - lo with the RMS:
 *   scale = (hi - lo) / 255,  zero = rint(-128 - lo / scale) within [-128, 127], so that 0 is a whole number of steps
 * With a shadow, scale is at least 4 max / BT_EDGE_LIMIT, so that values up to 4 times the calibration's maximum are
 * not cut. A scale that would be 0 is 1.
 *
 * pruned, with shadow=channel: the floor(prune * (layers + 1)) least important layers, later ones first among equals. A
 * layer's importance is the greatest max / clip of its sites; the head counts as one more layer. */
void bt_sites_choose(bt_pkg_site *site, const bt_calib_stats *stats, const bt_recipe *recipe);
/* Fills an expert's numbers from the figures of its rows (bt_calib_expert_fn), by the rules of a site. */
void bt_sites_expert(bt_pkg_expert *ret, uint32_t layer, uint32_t kind, const bt_calib_site *stats,
                     const bt_recipe *recipe);
/* Gives the experts [experts] that fewer than BT_PKG_EXPERT_ROWS rows chose the numbers of their site. */
void bt_sites_rare(bt_pkg_expert *expert, size_t experts, const bt_pkg_site *site);
/* The percentile that clips inputs of `bits` bits, with clip=auto the first that is tried; 100: the maximum. */
double bt_sites_percentile(const bt_recipe_layer *recipe, unsigned bits);
/* Fills hot[k]: 1 where a column of the calibration exceeds the clip, or the range that an asymmetric site holds.
 * Returns how many are 1. */
size_t bt_sites_hot(uint8_t *hot, const bt_pkg_site *site, const bt_calib_site *stats);
/* xq[t, k] = the values that the NPU's linear computes with for x[t, k]: quantised, shadow included, times the scale.
 * hot[k] of bt_sites_hot is read with shadow=channel only; NULL: no column is hot. */
void bt_sites_quantise(float *xq, const float *x, size_t t, const bt_pkg_site *site, const uint8_t *hot);

/* SmoothQuant (arXiv 2211.10438): s[k] of one site, by the greatest magnitude of each column of its inputs (stats) and
 * of the weights that read it (w_max[k]): s = max|x|^alpha / max|w|^(1 - alpha), at least 1e-5; 1 where either is 0. */
void bt_sites_smooth(float *s, const bt_calib_site *stats, const float *w_max, double alpha);
#endif
