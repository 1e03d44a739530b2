#ifndef BT_NPU_UNITS_H
#define BT_NPU_UNITS_H
#include <stdbool.h>
#include "graph/graph.h"
#include "kernels/int_ops.h"
#include "npu/quant/calib.h"
#include "npu/pkg/pkg_ops.h"
#include "npu/pkg/recipe.h"

/* The units of integer operators (--npu-ops all) and the multipliers between them, from calibration figures. They are
 * chosen at compile time, in doubles. "max" is the greatest magnitude of the calibration, 1 where it was 0.
 *
 *   residual stream   s32, residual_scale = max * 4 / 1073741823
 *   linear outputs    s16, out_scale = max * 2 / 32639; max of q and k: before and after norm and rope
 *                     where the profile has 8-bit outputs: requantised to [-127, 127] in units of max / 127, then
 *                     stored as s16 in units of out_scale = max / 127 / BT_EDGE_REPAIR_STEPS, so that repaired outputs
 *                     (edge_repair.h) find room
 *   K and V           rows of the cache as s16, in units of the finest power of two that holds max * 2
 *   attention         s16, like a linear output of 16 bits
 *   linear inputs     s32, in units of their site's scale
 * The factors 4 and 2 are headroom for other texts. */
typedef struct bt_units_in {
    const bt_hparams *hp;
    const bt_calib_stats *stats;
    const bt_pkg_site *site;     /* [sites] */
    const bt_pkg_tensor *tensor; /* [tensors]; bt_units_op reads norm_q and norm_shift */
    float r2_scale;              /* of the rotation R2 before o; 1 without R2 */
    uint32_t output_bits;        /* 16 or 8 */
    const bt_pkg_expert *down;   /* bt_units_op: the expert whose input of down a product becomes; NULL: the site's */
} bt_units_in;

/* The multiplier m / 2^s nearest to x >= 0: m in [2^30, 2^31), s in [0, 62]. Below 2^-33 it is 0, above the range the
 * greatest. */
bt_int_mul bt_units_mul(double x);
float bt_units_residual_scale(const bt_units_in *in);
/* The output scale of q, k, v, o, gate, up or down. */
float bt_units_out_scale(const bt_units_in *in, uint32_t layer, bt_weight w);
float bt_units_attention_scale(const bt_units_in *in, uint32_t layer);
/* The requantisation of a linear's n outputs. Fills multiplier, shift and bias, each [16 * bt_int_panels(n)]. oscale[n]
 * = site scale * weight scale; float_bias[n], or NULL: zeros. */
void bt_units_linear(int32_t *multiplier, uint8_t *shift, int64_t *bias, const bt_units_in *in, uint32_t layer,
                     bt_weight w, const float *oscale, const float *float_bias, size_t n);
/* Fills wq[n] of bt_int_rmsnorm32_fn for a norm's weights, and returns its f (int_ops.h). */
unsigned bt_units_norm(int32_t *wq, const bt_units_in *in, uint32_t layer, bt_weight w, const float *weight, size_t n);
/* bt_units_op fills the parameters that operator `op` of the graph reads; false: it reads none, as bt_units_has_op
 * says. A norm whose tensor has no norm_q was folded away: its one weight w1 is m[0]. The o linear of a graph without
 * R2 has the parameters of the change of units before it. */
bool bt_units_has_op(const bt_graph *g, size_t op);
bool bt_units_op(bt_pkg_int_params *ret, const bt_units_in *in, const bt_graph *g, size_t op);
#endif
