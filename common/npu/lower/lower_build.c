/* The list of instructions that lowering builds: values, groups of linears, quantised inputs. */
#include "npu/lower/lower_build.h"
#include "npu/pkg/pkg_layout.h"

#include <assert.h>
#include <string.h>

size_t bt_lower_build_rows(const bt_lower_build *b, uint8_t out_rows)
{
    const bt_pkg_inst i = {.out_rows = out_rows};
    return (size_t)bt_pkg_rows_at(&i, b->in->seq, b->in->out);
}

static const bt_pkg_layout *layout_of(const bt_lower_build *b)
{
    static const bt_pkg_layout none;
    return b->in->layout ? b->in->layout : &none;
}

uint32_t bt_lower_build_stride(const bt_lower_build *b, uint64_t elems, uint32_t elem_bytes)
{
    return bt_pkg_layout_stride(layout_of(b), elems, elem_bytes);
}

/* ---- slices and parts ---- */

uint64_t bt_lower_build_slices(const bt_lower_build *b)
{
    return bt_pkg_layout_slices(layout_of(b), (uint32_t)b->in->seq, b->in->graph->hp.heads);
}

uint32_t bt_lower_build_parts(const bt_lower_build *b)
{
    return bt_pkg_layout_parts(layout_of(b), b->in->graph->hp.vocab);
}

void bt_lower_build_split_attention(bt_lower_build *b)
{
    const uint32_t slices = (uint32_t)bt_lower_build_slices(b);
    const bt_pkg_inst whole = b->inst[b->insts - 1];
    if (slices == 1) return;
    assert(b->insts - 1 + slices <= b->insts_cap);
    b->insts--;
    for (uint32_t n = 1; n <= slices; n++) {
        b->inst[b->insts] = whole;
        b->inst[b->insts++].arg = n;
    }
}

void bt_lower_build_split_output(bt_lower_build *b)
{
    const uint32_t parts = bt_lower_build_parts(b);
    const bt_pkg_inst whole = b->inst[b->insts - 1];
    if (parts == 1) return;
    assert(b->insts - 1 + parts <= b->insts_cap);
    b->insts--;
    for (uint32_t n = 1; n <= parts; n++) {
        bt_pkg_inst *i = &b->inst[b->insts++];
        *i = whole;
        i->arg = n << 8;
        i->out_width = bt_pkg_layout_part(layout_of(b), whole.out_width, n).n;
        i->macs_per_row = (uint64_t)i->in_width * i->out_width;
    }
}

/* ---- values and instructions ---- */

uint32_t bt_lower_build_value(bt_lower_build *b, uint32_t name, uint8_t out_rows, uint32_t stride)
{
    assert(b->values < b->values_cap);
    b->value[b->values] = (bt_lower_value){.name = name, .out_rows = out_rows, .stride = stride};
    return (uint32_t)b->values++;
}

uint8_t bt_lower_build_out_rows(const bt_lower_build *b, uint32_t tensor)
{
    const bt_graph *g = b->in->graph;
    if (bt_graph_is_by_expert(g, tensor)) return (uint8_t)(1 + g->hp.experts_used);
    return g->tensor[tensor].rows.exp[BT_SYM_OUT] != 0;
}

bt_pkg_inst *bt_lower_build_emit(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op)
{
    const bt_op *o = &b->in->graph->op[graph_op];
    assert(b->insts < b->insts_cap);
    bt_pkg_inst *i = &b->inst[b->insts++];
    *i = (bt_pkg_inst){.op = (uint8_t)op,
                       .unit = (uint8_t)unit,
                       .group = 1,
                       .out_rows = bt_lower_build_out_rows(b, o->out),
                       .layer = o->layer,
                       .tensor = BT_PKG_NONE,
                       .site = BT_PKG_NONE,
                       .in0 = BT_PKG_NOWHERE,
                       .in1 = BT_PKG_NOWHERE,
                       .out = BT_PKG_NOWHERE,
                       .aux = BT_PKG_NOWHERE};
    if (unit != BT_PKG_COMPANION && b->in->cluster) i->cluster = b->in->cluster[graph_op];
    return i;
}

void bt_lower_build_names(const bt_lower_build *b, bt_pkg_inst *i, size_t at)
{
    const bt_graph *g = b->in->graph;
    const bt_op *o = &g->op[at];
    const bt_pkg_tensor_rule rule = (bt_pkg_tensor_rule)bt_pkg_op_info_of(i->op)->tensor;
    const bool is_there = rule != BT_PKG_TENSOR_NORM || !b->in->has_norm_weight || b->in->has_norm_weight[at];
    if (rule != BT_PKG_TENSOR_NONE && is_there)
        i->tensor = bt_pkg_tensor_index(g->hp.layers, o->layer,
                                        rule == BT_PKG_TENSOR_SCALED ? bt_graph_added(g, at) : o->weight);
    i->arg = o->rotation ? o->rotation : o->heads;
}

static uint32_t name_of(const char *name)
{
    for (uint32_t v = 1; v < BT_PKG_VALUE_OTHER; v++)
        if (!strcmp(bt_pkg_value_name(v), name)) return v;
    return BT_PKG_VALUE_OTHER;
}

uint32_t bt_lower_build_name(const bt_lower_build *b, uint32_t tensor)
{
    return name_of(b->in->graph->tensor[tensor].name);
}

size_t bt_lower_build_group(const bt_lower_build *b, size_t i)
{
    const bt_op *o = b->in->graph->op;
    size_t n = 1;
    while (n < BT_PKG_MAX_GROUP && i + n < b->ops && o[i + n].kind == o[i].kind &&
           o[i + n].in[0] == o[i].in[0] && b->in->on_npu[i] == b->in->on_npu[i + n])
        n++;
    return n;
}

bt_lower_planes bt_lower_build_planes(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op,
                                      uint64_t input, uint32_t input_stride)
{
    const bt_lower_in *in = b->in;
    const bt_op *o = &in->graph->op[graph_op];
    const uint32_t kind = bt_pkg_site_of(o->weight), k = in->graph->tensor[o->in[0]].width;
    const uint8_t rows = bt_lower_build_out_rows(b, o->in[0]);
    const bool is_wide = bt_recipe_of(in->recipe, o->layer, (bt_site_kind)kind)->input_bits[kind] == 16;
    if (b->planes_input == input) return b->planes;
    bt_lower_planes p = {.lo = BT_PKG_NOWHERE, .shadow = BT_PKG_NOWHERE,
                         .stride = bt_pkg_layout_plane_stride(layout_of(b), k),
                         .site = bt_pkg_site_index(in->graph->hp.layers, o->layer, kind)};
    p.hi = bt_lower_build_value(b, BT_PKG_VALUE_PLANES, rows, p.stride);
    if (is_wide) p.lo = bt_lower_build_value(b, BT_PKG_VALUE_LO, rows, p.stride);
    if (in->recipe->shadow != BT_SHADOW_OFF && !(in->pruned && in->pruned[p.site])) {
        p.shadow = bt_lower_build_value(b, BT_PKG_VALUE_SHADOW, rows, k);
        b->value[p.shadow].is_shadow = true;
    }
    bt_pkg_inst *i = bt_lower_build_emit(b, op, unit, graph_op);
    i->out_rows = rows;
    i->site = p.site;
    i->in0 = input;
    i->out = p.hi;
    i->in1 = p.lo;
    i->aux = p.shadow;
    i->in_width = i->out_width = k;
    i->in_stride = input_stride;
    i->out_stride = p.stride;
    b->planes_input = input;
    b->planes = p;
    return p;
}
