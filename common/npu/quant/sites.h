#ifndef BT_NPU_SITES_H
#define BT_NPU_SITES_H
#include "base/err.h"
#include "npu/quant/calib.h"
#include "npu/quant/fold.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

/* From calibration figures to quantisation parameters of inputs. */

/* What model and recipe alone say of site[sites]: layer, kind, bits, asymmetric, shadow, k; hot NONE, the rest zeros.
 */
void bt_sites_plan(bt_pkg_site *site, size_t sites, const bt_hparams *hp, const bt_recipe *recipe);
/* clip=auto: p99.99; with shadow=value the first of p99.99, p99.9, p99.5 that is at most 5 times the RMS of the values
 * within it, or the last: the step of an input with long tails (those of o and down) is then not set by them, and what
 * lies beyond is whole all the same.
 *
 * An asymmetric input of 8 bits has the clip on either side (bt_calib_range), lo <= 0 <= hi:
 *   scale = (hi - lo) / 255,  zero = rint(-128 - lo / scale) within [-128, 127], so that 0 is a whole number of steps
 * auto then takes half of hi - lo for the clip.
 *
 * site[stats->sites], everything but `hot`, which stays NONE: what bt_sites_plan has, scale = clip / 127 or / 32639 (1
 * where the clip is 0), with a shadow at least 4 max / BT_EDGE_LIMIT, so that values beyond the calibration keep whole;
 * pruned.
 * shadow=channel: a layer's importance is the greatest max / clip of its sites; the head counts as one layer more; the
 * floor(prune * (layers + 1)) least important are pruned, later ones first among equals. */
void bt_sites_choose(bt_pkg_site *site, const bt_calib_stats *stats, const bt_recipe *recipe);
/* The percentile that clips inputs of so many bits, of auto the first that is tried; 100: the maximum. */
double bt_sites_percentile(const bt_recipe_layer *recipe, unsigned bits);
/* hot[k]: 1 where a column of the calibration goes beyond the clip, or beyond what the asymmetric site holds. Returns
 * how many. */
size_t bt_sites_hot(uint8_t *hot, const bt_pkg_site *site, const bt_calib_site *stats);
/* xq[t, k] = what the NPU's linear takes x[t, k] for: quantised, shadow included (hot NULL but with shadow=channel),
 * times the scale. */
void bt_sites_quantise(float *xq, const float *x, size_t t, const bt_pkg_site *site, const uint8_t *hot);

/* SmoothQuant: s[k] of one site for weights whose greatest magnitudes by column are w_max[k]:
 * s = max|x|^alpha / max|w|^(1 - alpha), at least 1e-5; 1 where either is 0. */
void bt_sites_smooth(float *s, const bt_calib_site *stats, const float *w_max, double alpha);
#endif
