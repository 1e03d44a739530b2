/* Units of an integer layer, and the multipliers between them. A compiler's work, so floats are allowed. */
#include "npu/quant/units.h"
#include "kernels/edge_repair.h"

#include <math.h>
#include <string.h>

/* Other texts reach further than the calibration's: s16 keeps one bit for them, s32 has room for two. */
static const double HEADROOM16 = 2, HEADROOM32 = 4;

bt_int_mul bt_units_mul(double x)
{
    int e;
    int64_t m = llround(ldexp(frexp(x, &e), 31)); /* in [2^30, 2^31] */
    if (m >> 31) m >>= 1, e++;
    if (m == 0 || e < -32) return (bt_int_mul){0, 0};
    if (e < -31) return (bt_int_mul){1 << 30, 62};
    if (e > 31) return (bt_int_mul){INT32_MAX, 0};
    return (bt_int_mul){(int32_t)m, (uint32_t)(31 - e)};
}

static double reach(float max) { return max > 0 ? max : 1; }

float bt_units_residual_scale(const bt_units_in *in)
{
    return (float)(reach(in->stats->residual_max) * HEADROOM32 / BT_INT_MAX_RESIDUAL);
}

static double out_max(const bt_units_in *in, uint32_t layer, bt_weight w)
{
    return reach(in->stats->out_max[bt_pkg_tensor_index(in->hp->layers, layer, w)]);
}

float bt_units_out_scale(const bt_units_in *in, uint32_t layer, bt_weight w)
{
    if (in->output_bits == 8) return (float)(out_max(in, layer, w) / 127 / BT_EDGE_REPAIR_STEPS);
    return (float)(out_max(in, layer, w) * HEADROOM16 / BT_INT_MAX16);
}

static double attention_unit(const bt_units_in *in, uint32_t layer)
{
    return reach(in->stats->attention_max[layer]) * HEADROOM16 / BT_INT_MAX16;
}

float bt_units_attention_scale(const bt_units_in *in, uint32_t layer)
{
    return (float)attention_unit(in, layer);
}

/* The greatest shift at which max * HEADROOM16 fits s16, within the shifts of bt_int_from_f16_fn. */
static int shift_of(double max)
{
    const int s = (int)floor(log2(BT_INT_MAX16 / (max * HEADROOM16)));
    return s < -16 ? -16 : s > 30 ? 30 : s;
}

static double site_scale(const bt_units_in *in, uint32_t layer, bt_site_kind kind)
{
    return in->site[bt_pkg_site_index(in->hp->layers, layer, kind)].scale;
}

void bt_units_linear(int32_t *multiplier, uint8_t *shift, int64_t *bias, const bt_units_in *in,
                     uint32_t layer, bt_weight w, const float *oscale, const float *float_bias, size_t n)
{
    const double unit =
        (double)bt_units_out_scale(in, layer, w) * (in->output_bits == 8 ? BT_EDGE_REPAIR_STEPS : 1);
    const double limit = ldexp(1, 60);
    for (size_t i = 0; i < 16 * bt_int_panels(n); i++) {
        bt_int_mul m = bt_units_mul(i < n ? oscale[i] / unit : 0);
        if (m.m == 0)
            m = (bt_int_mul){1 << 30, 62}; /* requantisation has no 0; this rounds sums below 2^31 to 0 */
        if (m.s == 0) m = (bt_int_mul){INT32_MAX, 1};
        multiplier[i] = m.m;
        shift[i] = (uint8_t)m.s;
        bias[i] =
            i < n && float_bias ? llround(fmin(fmax((double)float_bias[i] / oscale[i], -limit), limit)) : 0;
    }
}

/* The unit of a norm's output, its width and the unit of its input. */
typedef struct norm {
    double unit, in_unit;
    size_t k;
} norm;
static norm norm_of(const bt_units_in *in, uint32_t layer, bt_weight w)
{
    const bt_hparams *hp = in->hp;
    if (w == BT_WEIGHT_Q_NORM || w == BT_WEIGHT_K_NORM) {
        const double unit = bt_units_out_scale(in, layer, w == BT_WEIGHT_Q_NORM ? BT_WEIGHT_Q : BT_WEIGHT_K);
        return (norm){unit, unit, hp->head_dim};
    }
    const bt_site_kind kind = (bt_site_kind)bt_pkg_site_after(w);
    return (norm){site_scale(in, layer, kind), bt_units_residual_scale(in), hp->dim};
}

unsigned bt_units_norm(int32_t *wq, const bt_units_in *in, uint32_t layer, bt_weight w, const float *weight,
                       size_t n)
{
    const norm to = norm_of(in, layer, w);
    const double factor = sqrt((double)to.k) / to.unit;
    double max = 0;
    for (size_t i = 0; i < n; i++) max = fmax(max, fabs((double)weight[i]) * factor);
    unsigned f = 0;
    while (f < 32 && max * ldexp(1, (int)f + 1) < 0x1p30) f++;
    for (size_t i = 0; i < n; i++)
        wq[i] = (int32_t)llround(fmin(fmax((double)weight[i] * factor * ldexp(1, (int)f), -INT32_MAX),
                                      INT32_MAX));
    return f;
}

static void set(bt_pkg_int_params *p, int i, double x)
{
    const bt_int_mul m = bt_units_mul(x);
    p->m[i] = m.m;
    p->s[i] = (uint8_t)m.s;
}

static void set_norm(bt_pkg_int_params *p, const bt_units_in *in, const bt_op *o)
{
    const norm of = norm_of(in, o->layer, o->weight);
    const bt_pkg_tensor *t = &in->tensor[bt_pkg_tensor_index(in->hp->layers, o->layer, o->weight)];
    const float one = 1;
    if (t->norm_q == BT_PKG_NONE)
        p->s[0] = (uint8_t)bt_units_norm(&p->m[0], in, o->layer, o->weight, &one, 1);
    else p->s[0] = (uint8_t)t->norm_shift;
    p->eps = llround(fmin((double)of.k * (double)in->hp->rms_eps / (of.in_unit * of.in_unit), ldexp(1, 61)));
}

static void set_attention(bt_pkg_int_params *p, const bt_units_in *in, uint32_t layer)
{
    const size_t d = in->hp->head_dim;
    const double own = (double)in->hp->times.scores;
    size_t products = 1;
    while (products < d) products *= 2;
    p->k_shift = shift_of(out_max(in, layer, BT_WEIGHT_K));
    p->v_shift = shift_of(out_max(in, layer, BT_WEIGHT_V));
    const double sums =
        (double)bt_units_out_scale(in, layer, BT_WEIGHT_Q) * ldexp(1, 26 - p->k_shift) * (double)products;
    set(p, 0, own > 0 ? sums * own : sums / sqrt((double)d));
    set(p, 1, ldexp(1, -p->v_shift) / attention_unit(in, layer));
}

/* From s16 of attention's output to s32 of the o site. */
static void set_turn(bt_pkg_int_params *p, const bt_units_in *in, uint32_t layer, double scale)
{
    set(p, 0, attention_unit(in, layer) * scale / site_scale(in, layer, BT_SITE_O));
}

static void set_gated(bt_pkg_int_params *p, const bt_units_in *in, const bt_op *o)
{
    const uint32_t layer = o->layer;
    const double gate = bt_units_out_scale(in, layer, BT_WEIGHT_GATE),
                 up = bt_units_out_scale(in, layer, BT_WEIGHT_UP);
    set(p, 0, gate * (o->kind == BT_OP_GELU_MUL ? 0x1p28 : 0x1p26));
    set(p, 1, gate * up / (in->down ? (double)in->down->scale : site_scale(in, layer, BT_SITE_DOWN)));
}

static bt_pkg_params_rule rule_of(const bt_op *o)
{
    return (bt_pkg_params_rule)bt_pkg_op_info_of(bt_pkg_op_in_integers(o->kind))->params;
}

static bool is_turned_later(const bt_graph *g, const bt_op *o)
{
    return o->weight == BT_WEIGHT_O && !bt_graph_rotates(g, BT_ROTATION_R2);
}

bool bt_units_has_op(const bt_graph *g, size_t op)
{
    const bt_op *o = &g->op[op];
    if (rule_of(o) == BT_PKG_PARAMS_TURN) return o->rotation == BT_ROTATION_R2;
    return rule_of(o) != BT_PKG_PARAMS_NONE || is_turned_later(g, o);
}

bool bt_units_op(bt_pkg_int_params *ret, const bt_units_in *in, const bt_graph *g, size_t op)
{
    const bt_op *o = &g->op[op];
    bt_pkg_int_params p = {0};
    if (!bt_units_has_op(g, op)) return false;
    switch (rule_of(o)) {
    case BT_PKG_PARAMS_NONE: set_turn(&p, in, o->layer, 1); break;
    case BT_PKG_PARAMS_NORM: set_norm(&p, in, o); break;
    case BT_PKG_PARAMS_SCORES: set_attention(&p, in, o->layer); break;
    case BT_PKG_PARAMS_SUM:
        set(&p, 0,
            (double)bt_hparams_add(in->hp) * (double)bt_units_out_scale(in, o->layer, bt_graph_added(g, op)) /
                (double)bt_units_residual_scale(in));
        break;
    case BT_PKG_PARAMS_GATED: set_gated(&p, in, o); break;
    case BT_PKG_PARAMS_TURN: set_turn(&p, in, o->layer, (double)in->r2_scale); break;
    }
    *ret = p;
    return true;
}
