/* The forms in which a tensor lies, and the conversions between the companion and the NPU. */
#include "npu/lower/lower_form.h"

#include <assert.h>

static bool is_float(bt_pkg_form f) { return f == BT_PKG_FORM_F32 || f == BT_PKG_FORM_FLOAT16; }

bt_pkg_form bt_lower_form_of(const bt_lower_build *b, uint32_t tensor) { return b->tensor[tensor].written; }

static bool is_in_arena(const bt_lower_build *b, uint32_t tensor)
{
    return tensor != BT_GRAPH_NO_TENSOR && b->in->graph->tensor[tensor].kind == BT_TENSOR_ACT;
}

static uint64_t renew(bt_lower_build *b, uint32_t tensor, bt_pkg_form form, uint32_t name)
{
    const uint32_t stride =
        bt_lower_build_stride(b, b->in->graph->tensor[tensor].width, bt_pkg_form_bytes(form));
    const uint32_t value = bt_lower_build_value(b, name, bt_lower_build_out_rows(b, tensor), stride);
    b->value[value].is_float16 = form == BT_PKG_FORM_FLOAT16;
    return b->tensor[tensor].value[form] = value;
}

static void forget(bt_lower_build *b, uint32_t tensor, bt_pkg_form but)
{
    for (int f = 0; f < BT_PKG_FORMS; f++)
        if (f != (int)but) b->tensor[tensor].value[f] = BT_PKG_NONE;
    b->tensor[tensor].written = but;
}

uint64_t bt_lower_form_write(bt_lower_build *b, uint32_t tensor, bt_pkg_form form)
{
    if (!is_in_arena(b, tensor)) return BT_PKG_NOWHERE;
    forget(b, tensor, form);
    return renew(b, tensor, form, bt_lower_build_name(b, tensor));
}

uint64_t bt_lower_form_in_place(bt_lower_build *b, size_t at, uint32_t tensor, bt_pkg_form form)
{
    const uint64_t value = bt_lower_form_read(b, at, tensor, form);
    if (value != BT_PKG_NOWHERE) {
        forget(b, tensor, form);
        b->tensor[tensor].value[form] = (uint32_t)value;
    }
    if (value == b->planes_input) b->planes_input = BT_PKG_NOWHERE;
    return value;
}

/* ---- conversions ---- */

/* The linear that wrote the tensor first, whose output scale is the unit of the s16. NULL: attention's
 * output. */
static const bt_op *linear_of(const bt_lower_build *b, uint32_t tensor)
{
    const bt_graph *g = b->in->graph;
    size_t i = 0;
    while (g->op[i].out != tensor) i++;
    return bt_op_is_linear(&g->op[i]) ? &g->op[i] : NULL;
}

uint32_t bt_lower_form_site(const bt_lower_build *b, size_t at, uint32_t tensor)
{
    const bt_op *reader = bt_graph_reader(b->in->graph, tensor, at);
    assert(reader);
    return bt_pkg_site_index(b->in->graph->hp.layers, reader->layer, bt_pkg_site_of(reader->weight));
}

static void set_unit(const bt_lower_build *b, bt_pkg_inst *i, uint32_t tensor)
{
    const uint32_t layers = b->in->graph->hp.layers;
    const bt_op *linear = linear_of(b, tensor);
    if (linear) i->tensor = bt_pkg_tensor_index(layers, linear->layer, linear->weight);
    else i->site = bt_pkg_site_index(layers, i->layer, BT_SITE_O);
}

static bt_pkg_op conversion(bt_pkg_form from, bt_pkg_form to)
{
    if (is_float(from) && is_float(to)) return BT_PKG_ROUND16;
    if (is_float(from)) return to == BT_PKG_FORM_S16 ? BT_PKG_QUANTISE16 : BT_PKG_QUANTISE32;
    return from == BT_PKG_FORM_S16 ? BT_PKG_DEQUANTISE16 : BT_PKG_DEQUANTISE32;
}

/* In the memory plan, k and v in floats have other names than k and v in integers. */
static uint32_t name_of(const bt_lower_build *b, uint32_t tensor, bt_pkg_form to)
{
    const uint32_t name = bt_lower_build_name(b, tensor);
    if (is_float(to) && name == BT_PKG_VALUE_K) return BT_PKG_VALUE_KF;
    return is_float(to) && name == BT_PKG_VALUE_V ? BT_PKG_VALUE_VF : name;
}

static uint64_t convert(bt_lower_build *b, size_t at, uint32_t tensor, bt_pkg_form from, bt_pkg_form to)
{
    const bt_pkg_op op = conversion(from, to);
    const bool on_npu = from == BT_PKG_FORM_FLOAT16 || to == BT_PKG_FORM_FLOAT16;
    const uint32_t width = b->in->graph->tensor[tensor].width;
    const uint64_t in0 = b->tensor[tensor].value[from];
    const uint64_t out = renew(b, tensor, to, name_of(b, tensor, to));
    /* A conversion before the first layer belongs to no layer. */
    const bool is_before = !b->insts || b->inst[b->insts - 1].layer == BT_GRAPH_NO_LAYER;
    bt_pkg_inst *i = bt_lower_build_emit(b, op, on_npu ? BT_PKG_NPU_FLOAT : BT_PKG_COMPANION, at);
    i->out_rows = bt_lower_build_out_rows(b, tensor);
    i->in0 = in0;
    i->out = out;
    i->in_width = i->out_width = width;
    i->in_stride = bt_lower_build_stride(b, width, bt_pkg_form_bytes(from));
    i->out_stride = bt_lower_build_stride(b, width, bt_pkg_form_bytes(to));
    if (op == BT_PKG_QUANTISE32 && is_before) i->layer = BT_GRAPH_NO_LAYER;
    if (from == BT_PKG_FORM_S16 || to == BT_PKG_FORM_S16) set_unit(b, i, tensor);
    if (from == BT_PKG_FORM_WIDE) i->site = bt_lower_form_site(b, at, tensor);
    return out;
}

uint64_t bt_lower_form_read(bt_lower_build *b, size_t at, uint32_t tensor, bt_pkg_form form)
{
    if (!is_in_arena(b, tensor)) return BT_PKG_NOWHERE;
    const bt_lower_tensor *t = &b->tensor[tensor];
    const bool has_f32 = t->value[BT_PKG_FORM_F32] != BT_PKG_NONE,
               has_float16 = t->value[BT_PKG_FORM_FLOAT16] != BT_PKG_NONE;
    if (t->value[form] != BT_PKG_NONE) return t->value[form];
    if (form == BT_PKG_FORM_F32 && t->written == BT_PKG_FORM_FLOAT16) return t->value[BT_PKG_FORM_FLOAT16];
    assert(t->value[t->written] != BT_PKG_NONE);
    /* An integer form is never made from another one, only from floats. */
    const bt_pkg_form from = has_f32 ? BT_PKG_FORM_F32 : has_float16 ? BT_PKG_FORM_FLOAT16 : t->written;
    assert((is_float(from) != is_float(form) || form == BT_PKG_FORM_FLOAT16) && form != BT_PKG_FORM_WIDE);
    return convert(b, at, tensor, from, form);
}
