/* The compiler's additions for --npu-ops all: requantised outputs of linears, norms in integers, and
 * multipliers between units. */
#include "npu/compile/compile_private.h"
#include "npu/quant/units.h"

#include <stdlib.h>

static bt_units_in units_in(const bt_compile_job *j)
{
    const bt_hadamard *r2 = bt_fold_r2(j->fold);
    return (bt_units_in){.hp = &j->m->hp,
                         .stats = j->stats,
                         .site = j->site,
                         .tensor = j->tensor,
                         .r2_scale = r2->base ? r2->scale : 1,
                         .output_bits = j->profile.output_bits == 8 ? 8 : 16};
}

/* Takes the inputs' zero point off the biases, in exact whole numbers. */
static void take_zero(int64_t *bias_q, const bt_pkg_tensor *t, int zero, const int32_t *colsum)
{
    const size_t wide = 16 * bt_int_panels(t->n);
    for (size_t n = 0; n < wide; n++)
        bias_q[n] -= zero * (colsum[n] + (t->group ? 128 * (int64_t)colsum[wide + n] : 0));
}

bt_err bt_compile_int_matrix(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, const float *oscale,
                             const float *bias, const int32_t *colsum, bt_fault *fault)
{
    if (j->npu_ops != BT_PKG_OPS_ALL || t->weight == BT_WEIGHT_OUTPUT) return BT_OK;
    const bt_units_in in = units_in(j);
    const bt_weight w = (bt_weight)t->weight;
    const size_t each = 16 * bt_int_panels(t->n), matrices = bt_compile_matrices_of(j, w),
                 wide = each * matrices, sums = (t->group ? 2 : 1) * each;
    const bt_pkg_site *site = &j->site[t->site];
    const bt_pkg_expert *expert = bt_compile_experts_of(j, layer, site->kind);
    int32_t *mult = j->is_sketch ? NULL : calloc(wide, sizeof *mult);
    uint8_t *shift = j->is_sketch ? NULL : calloc(wide, 1);
    int64_t *bias_q = j->is_sketch ? NULL : calloc(wide, sizeof *bias_q);
    const bool made = j->is_sketch || (mult && shift && bias_q);
    if (made && !j->is_sketch) {
        for (size_t m = 0, at = 0; m < matrices; m++, at += each) {
            bt_units_linear(mult + at, shift + at, bias_q + at, &in, layer, w, oscale + at,
                            bias ? bias + m * t->n : NULL, t->n);
            take_zero(bias_q + at, t, expert ? expert[m].zero : site->zero, colsum + m * sums);
        }
        t->out_scale = bt_units_out_scale(&in, layer, w);
    }
    if (made) {
        t->mult = bt_compile_const(j, BT_PKG_CONST_SCALE, mult, wide, sizeof *mult);
        t->shift = bt_compile_const(j, BT_PKG_CONST_SCALE, shift, wide, 1);
        if (t->bias != BT_PKG_NONE || site->asymmetric)
            t->bias_q = bt_compile_const(j, BT_PKG_CONST_VECTOR, bias_q, wide, sizeof *bias_q);
        t->out_bits = in.output_bits;
    }
    free(mult);
    free(shift);
    free(bias_q);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory requantising %u outputs", t->n);
}

void bt_compile_int_f16(const bt_compile_job *j, bt_pkg_tensor *t)
{
    if (j->npu_ops != BT_PKG_OPS_ALL || t->weight == BT_WEIGHT_OUTPUT || j->is_sketch) return;
    const bt_units_in in = units_in(j);
    t->out_scale = bt_units_out_scale(&in, t->layer, (bt_weight)t->weight);
}

static bool is_in_integers(const bt_compile_job *j, uint32_t layer, bt_op_kind kind)
{
    for (size_t i = 0; i < j->graph->ops; i++)
        if (j->graph->op[i].kind == kind && j->graph->op[i].layer == layer)
            return j->offload->on_npu[i] == BT_PKG_NPU;
    return false;
}

/* Attention's output needs a unit of its own (a16_scale) where attention and the operator behind it, the
 * rotation or the o linear, are on different sides. */
void bt_compile_int_site(const bt_compile_job *j, bt_pkg_site *s)
{
    if (j->npu_ops != BT_PKG_OPS_ALL || s->kind != BT_SITE_O || j->is_sketch) return;
    const bt_units_in in = units_in(j);
    const bool then = bt_graph_rotates(j->graph, BT_ROTATION_R2)
                          ? is_in_integers(j, s->layer, BT_OP_ROTATE)
                          : bt_compile_job_unit(j, s->layer, BT_WEIGHT_O) == BT_PKG_NPU;
    const bool integers = is_in_integers(j, s->layer, BT_OP_ATTENTION);
    const bool converts = bt_graph_rotates(j->graph, BT_ROTATION_R2) ? integers != then : integers && !then;
    if (converts) s->a16_scale = bt_units_attention_scale(&in, s->layer);
}

bt_err bt_compile_int_vector(bt_compile_job *j, bt_pkg_tensor *t, uint32_t layer, const float *weight,
                             bt_fault *fault)
{
    if (j->npu_ops != BT_PKG_OPS_ALL || bt_compile_job_unit(j, layer, (bt_weight)t->weight) != BT_PKG_NPU)
        return BT_OK;
    const bt_units_in in = units_in(j);
    int32_t *wq = malloc(t->n * sizeof *wq);
    if (!wq) return bt_fail(fault, BT_ENOMEM, "out of memory for a norm of %u weights", t->n);
    if (!j->is_sketch)
        t->norm_shift = (int32_t)bt_units_norm(wq, &in, layer, (bt_weight)t->weight, weight, t->n);
    t->norm_q = bt_compile_const(j, BT_PKG_CONST_VECTOR, wq, t->n, sizeof *wq);
    free(wq);
    return BT_OK;
}

bt_err bt_compile_int_params(bt_compile_job *j, bt_fault *fault)
{
    if (j->npu_ops != BT_PKG_OPS_ALL) return BT_OK;
    bt_units_in in = units_in(j);
    const bt_graph *g = j->graph;
    if (!(j->params = malloc(g->ops * sizeof *j->params)))
        return bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
    bt_pkg_int_params *p = calloc(g->hp.experts ? g->hp.experts : 1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory compiling a package");
    for (size_t i = 0; i < g->ops; i++) {
        const bool is_by_expert = bt_graph_is_by_expert(g, g->op[i].out);
        const size_t count = is_by_expert ? g->hp.experts : 1;
        j->params[i] = BT_PKG_NONE;
        if (j->offload->on_npu[i] != BT_PKG_NPU || !bt_units_has_op(g, i)) continue;
        for (size_t n = 0; n < count && !j->is_sketch; n++) { /* it has parameters */
            const bt_pkg_expert *of = bt_compile_experts_of(j, g->op[i].layer, BT_SITE_DOWN);
            in.down = is_by_expert ? &of[n] : NULL;
            (void)bt_units_op(&p[n], &in, g, i);
        }
        j->params[i] = bt_compile_const(j, BT_PKG_CONST_TABLE, p, count, sizeof *p);
    }
    free(p);
    if (!j->is_sketch) j->header.residual_scale = bt_units_residual_scale(&in);
    return BT_OK;
}
