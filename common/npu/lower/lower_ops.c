/* Lowering, operator by operator: each on the NPU, in integers or floats, or on the companion, as its own
 * placement says. Tensors are in the form that their readers want (lower_form.h). */
#include "npu/lower/lower_ops.h"
#include "npu/lower/lower_form.h"
#include "npu/lower/lower_int.h"

/* One instruction in floats: of the companion over f32 rows, or of the NPU over its own. */
static void lower_floats(bt_lower_build *b, size_t at)
{
    const bt_lower_in *in = b->in;
    const bt_graph *g = in->graph;
    const bt_op *o = &g->op[at];
    const bt_pkg_unit unit = in->on_npu[at] == BT_PKG_NPU_FLOAT ? BT_PKG_NPU_FLOAT : BT_PKG_COMPANION;
    /* rows are moved as they are */
    const bt_pkg_form form = bt_op_infos[o->kind].shape == BT_SHAPE_SELECT ? bt_lower_form_of(b, o->in[0])
                             : unit == BT_PKG_COMPANION                    ? BT_PKG_FORM_F32
                                                                           : BT_PKG_FORM_FLOAT16;
    const bool in_place = o->in[0] == o->out;
    const uint64_t in0 =
        in_place ? bt_lower_form_in_place(b, at, o->in[0], form) : bt_lower_form_read(b, at, o->in[0], form);
    const uint64_t in1 = bt_lower_form_read(b, at, o->in[1], form);
    const uint64_t out = in_place ? in0 : bt_lower_form_write(b, o->out, form);
    bt_pkg_inst *i = bt_lower_build_emit(b, bt_pkg_op_in_floats(o->kind), unit, at);
    i->in0 = in0;
    i->in1 = in1;
    i->out = out;
    i->in_width = in0 == BT_PKG_NOWHERE ? 0 : g->tensor[o->in[0]].width;
    i->in_stride = bt_lower_build_stride(b, i->in_width, 4);
    i->out_width = out == BT_PKG_NOWHERE ? 0 : g->tensor[o->out].width;
    i->out_stride = bt_lower_build_stride(b, i->out_width, 4);
    bt_lower_build_names(b, i, at);
    if (bt_pkg_is_attention(i) && in->on_npu[at]) bt_lower_build_split_attention(b);
}

/* ---- linears ---- */

/* Whether an operator of the NPU other than a linear reads this tensor as operator `at` writes it: before
 * another one writes it in place. */
static bool is_read_as_integers(const bt_lower_build *b, size_t at, uint32_t tensor)
{
    const bt_op *o = b->in->graph->op;
    for (size_t i = at + 1; i < b->ops && o[i].layer == o[at].layer; i++) {
        const bool reads = o[i].in[0] == tensor || o[i].in[1] == tensor;
        if (reads && b->in->on_npu[i] == BT_PKG_NPU && o[i].kind != BT_OP_LINEAR) return true;
        if (o[i].out == tensor) return false;
    }
    return false;
}

/* Operands of a group on the NPU. */
static bt_lower_planes planes_of(bt_lower_build *b, size_t first)
{
    const bt_op *o = &b->in->graph->op[first];
    const uint32_t stride = bt_lower_build_stride(b, b->in->graph->tensor[o->in[0]].width, 4);
    const bt_pkg_form form = bt_lower_form_of(b, o->in[0]);
    if (form == BT_PKG_FORM_F32 || form == BT_PKG_FORM_FLOAT16)
        return bt_lower_build_planes(b, BT_PKG_QUANTISE,
                                     form == BT_PKG_FORM_F32 ? BT_PKG_COMPANION : BT_PKG_NPU_FLOAT, first,
                                     bt_lower_form_read(b, first, o->in[0], form), stride);
    return bt_lower_build_planes(b, BT_PKG_INT_SPLIT, BT_PKG_NPU, first, bt_lower_int_site(b, first), stride);
}

static void lower_linears(bt_lower_build *b, size_t first, size_t group)
{
    const bt_graph *g = b->in->graph;
    const bt_op *o = &g->op[first];
    const bt_pkg_unit unit = (bt_pkg_unit)b->in->on_npu[first];
    const bool in_integers = unit == BT_PKG_NPU, is_narrow = b->in->narrow_outputs && b->in->params;
    const bt_pkg_form floats = unit == BT_PKG_NPU_FLOAT ? BT_PKG_FORM_FLOAT16 : BT_PKG_FORM_F32;
    const uint32_t k = g->tensor[o->in[0]].width;
    bool as_integers = false; /* one group has one kind of output */
    for (size_t j = 0; j < group; j++)
        as_integers = as_integers || (in_integers && ((is_narrow && o[j].weight != BT_WEIGHT_OUTPUT) ||
                                                      is_read_as_integers(b, first + j, o[j].out)));
    const bt_pkg_op op = !in_integers ? BT_PKG_LINEAR_F16 : as_integers ? BT_PKG_INT_LINEAR : BT_PKG_LINEAR;
    const bt_pkg_form form = as_integers ? BT_PKG_FORM_S16 : floats;
    const bt_lower_planes p =
        in_integers ? planes_of(b, first)
                    : (bt_lower_planes){.hi = bt_lower_form_read(b, first, o->in[0], floats),
                                        .lo = BT_PKG_NOWHERE, .shadow = BT_PKG_NOWHERE, .site = BT_PKG_NONE,
                                        .stride = bt_lower_build_stride(b, k, 4)};
    for (size_t j = 0; j < group; j++, o++) {
        const uint64_t out = bt_lower_form_write(b, o->out, form);
        bt_pkg_inst *i = bt_lower_build_emit(b, op, unit, first + j);
        if (j == 0) i->group = (uint8_t)group;
        i->tensor = bt_pkg_tensor_index(g->hp.layers, o->layer, o->weight);
        i->site = p.site;
        i->in0 = p.hi;
        i->in1 = p.lo;
        i->aux = p.shadow;
        i->out = out;
        i->in_width = k;
        i->out_width = g->tensor[o->out].width;
        i->in_stride = p.stride;
        i->out_stride = out == BT_PKG_NOWHERE ? 4 * i->out_width
                                              : bt_lower_build_stride(b, i->out_width, as_integers ? 2 : 4);
        i->macs_per_row = (uint64_t)k * i->out_width;
        if (unit != BT_PKG_COMPANION && o->weight == BT_WEIGHT_OUTPUT) bt_lower_build_split_output(b);
    }
}

void bt_lower_ops(bt_lower_build *b)
{
    for (size_t i = 0; i < b->ops;) {
        const size_t group = b->in->graph->op[i].kind == BT_OP_LINEAR ? bt_lower_build_group(b, i) : 0;
        if (group) lower_linears(b, i, group);
        else if (b->in->on_npu[i] == BT_PKG_NPU && b->in->params) bt_lower_int(b, i);
        else lower_floats(b, i);
        i += group ? group : 1;
    }
}
