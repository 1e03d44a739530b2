#ifndef BT_NPU_UNITS_H
#define BT_NPU_UNITS_H
#include <stdbool.h>
#include "graph/graph.h"
#include "kernels/int_ops.h"
#include "npu/quant/calib.h"
#include "npu/pkg/pkg_ops.h"
#include "npu/pkg/recipe.h"

/* From calibration figures to the units and multipliers of --npu-ops all, at compile time and in doubles. Everything is
 * static:
 *
 *   residual stream   s32, residual_scale = greatest magnitude of the calibration * HEADROOM32 / 1073741823
 *   linear outputs    s16, out_scale = greatest magnitude (q and k: before and after norm and rope) * HEADROOM16 /
 *                     32639 where the profile has 8-bit outputs: requantised to [-127, 127] in units of greatest
 *                     magnitude / 127 and stored as s16 in units of out_scale, 1 / BT_EDGE_REPAIR_STEPS of that, so
 *                     that repaired ones (edge_repair.h) find room
 *   K and V           the f16 rows of the cache as s16 in the finest power of two that holds greatest magnitude *
 *                     HEADROOM16
 *   attention         s16, like a linear output
 *   linear inputs     s32 in units of their site's scale
 * What was 0 all over the calibration counts as 1. */
typedef struct bt_units_in {
    const bt_hparams *hp;
    const bt_calib_stats *stats;
    const bt_pkg_site *site;     /* [sites] */
    const bt_pkg_tensor *tensor; /* [tensors]; bt_units_op reads norm_q and norm_shift */
    float r2_scale;              /* of the rotation before o; 1 without */
    uint32_t output_bits;        /* 16 or 8 */
} bt_units_in;

/* The multiplier nearest to x >= 0: m in [2^30, 2^31), s in [0, 62]; 0 below 2^-33, the greatest above. */
bt_int_mul bt_units_mul(double x);
float bt_units_residual_scale(const bt_units_in *in);
/* The output scale of q, k, v, o, gate, up or down. */
float bt_units_out_scale(const bt_units_in *in, uint32_t layer, bt_weight w);
float bt_units_attention_scale(const bt_units_in *in, uint32_t layer);
/* The linear's requantisation: multiplier[wide], shift[wide] and bias[wide], wide = n in whole panels; oscale[n] = site
 * scale * weight scale, float_bias[n] or NULL: zeros. */
void bt_units_linear(int32_t *multiplier, uint8_t *shift, int64_t *bias, const bt_units_in *in, uint32_t layer,
                     bt_weight w, const float *oscale, const float *float_bias, size_t n);
/* wq[n] and f of int_ops.h for a norm's weights; returns f. */
unsigned bt_units_norm(int32_t *wq, const bt_units_in *in, uint32_t layer, bt_weight w, const float *weight, size_t n);
/* What operator `op` of the graph reads; false: nothing. A norm whose tensor has no norm_q was folded away: it takes w1
 * from here. The o linear of a graph without R2 has the parameters of the change of units before it. */
bool bt_units_has_op(const bt_graph *g, size_t op); /* whether it reads anything */
bool bt_units_op(bt_pkg_int_params *ret, const bt_units_in *in, const bt_graph *g, size_t op);
#endif
