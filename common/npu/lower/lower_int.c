/* Lowering of the operators that run in integers, each as its row of INTEGERS says (graph/op_list.h): the
 * residual stream in s32, the outputs of linears in s16, inputs of linears in s32 of their site. */
#include "npu/lower/lower_int.h"
#include "npu/lower/lower_form.h"

static uint32_t width_of(const bt_lower_build *b, uint32_t tensor)
{
    return b->in->graph->tensor[tensor].width;
}

/* One instruction for graph operator `at`: of tensors x and y to `to`, which is x where it works in place.
 * Both inputs have one stride, in place that of y. */
static bt_pkg_inst *lower_to(bt_lower_build *b, size_t at, bt_pkg_op op, uint32_t x, uint32_t y, uint32_t to)
{
    const bt_pkg_op_info *r = bt_pkg_op_info_of(op);
    const bool has_y = r->in1 != BT_PKG_FORM_NONE;
    const bt_pkg_form from = (bt_pkg_form)(has_y ? r->in1 : r->in0);
    const uint64_t in0 = r->in_place ? bt_lower_form_in_place(b, at, to, (bt_pkg_form)r->in0)
                                     : bt_lower_form_read(b, at, x, (bt_pkg_form)r->in0),
                   in1 = has_y ? bt_lower_form_read(b, at, y, (bt_pkg_form)r->in1) : BT_PKG_NOWHERE,
                   out = r->in_place ? in0 : bt_lower_form_write(b, to, (bt_pkg_form)r->out);
    bt_pkg_inst *i = bt_lower_build_emit(b, op, BT_PKG_NPU, at);
    i->in0 = in0;
    i->in1 = in1;
    i->out = out;
    i->in_width = width_of(b, x);
    i->in_stride = bt_lower_build_stride(b, i->in_width, bt_pkg_form_bytes(from));
    i->out_width = width_of(b, to);
    i->out_stride = bt_lower_build_stride(b, i->out_width, bt_pkg_form_bytes(r->out));
    if (r->site == BT_PKG_SITE_SITE) i->site = bt_lower_form_site(b, at, to);
    if (r->params != BT_PKG_PARAMS_NONE) i->params = b->in->params[at];
    return i;
}

/* What attention wrote and nothing rotates changes its unit alone, to that of the o site: a rotation by
 * nothing. */
uint64_t bt_lower_int_site(bt_lower_build *b, size_t first)
{
    const uint32_t input = b->in->graph->op[first].in[0];
    return bt_lower_form_of(b, input) == BT_PKG_FORM_S16
               ? lower_to(b, first, BT_PKG_INT_ROTATE, input, BT_GRAPH_NO_TENSOR, input)->out
               : bt_lower_form_read(b, first, input, BT_PKG_FORM_WIDE);
}

void bt_lower_int(bt_lower_build *b, size_t at)
{
    const bt_op *o = &b->in->graph->op[at];
    bt_pkg_inst *i = lower_to(b, at, bt_pkg_op_in_integers(o->kind), o->in[0], o->in[1], o->out);
    bt_lower_build_names(b, i, at);
    if (bt_pkg_is_attention(i)) bt_lower_build_split_attention(b);
}
