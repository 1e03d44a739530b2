/* Lowering for --npu-ops all: the residual stream in s32, the outputs of linears in s16, and between them the
 * integer operators. Floats are left to the embedding, the KV rows and the logits. */
#include "npu/compile/lower_int.h"

typedef struct shape {
    uint32_t in_width, in_bytes, out_width, out_bytes;
} shape; /* bytes: of an element */

static const bt_op *op_at(const bt_lower_build *b, size_t at) { return &b->in->graph->op[at]; }
static uint32_t width_of(const bt_lower_build *b, uint32_t tensor)
{
    return b->in->graph->tensor[tensor].width;
}
static uint64_t value_of(const bt_lower_build *b, uint32_t tensor) { return b->tensor_value[tensor]; }
static uint32_t tensor_index(const bt_lower_build *b, const bt_op *o, bt_weight w)
{
    return bt_pkg_tensor_index(b->in->graph->hp.layers, o->layer, w);
}

static bt_pkg_inst *emit(bt_lower_build *b, bt_pkg_op op, size_t at, uint64_t in0, uint64_t out, shape s)
{
    bt_pkg_inst *i = bt_lower_build_emit(b, op, op >= BT_PKG_LINEAR ? BT_PKG_NPU : BT_PKG_COMPANION, at);
    i->in0 = in0;
    i->out = out;
    i->in_width = s.in_width;
    i->in_stride = bt_lower_build_stride(b, s.in_width, s.in_bytes);
    i->out_width = s.out_width;
    i->out_stride = out == BT_PKG_NOWHERE ? s.out_width * s.out_bytes
                                          : bt_lower_build_stride(b, s.out_width, s.out_bytes);
    return i;
}

/* The residual stream is in f32 rows until the first norm wants it. */
static void lower_norm(bt_lower_build *b, size_t at, bool *is_integer)
{
    const bt_op *o = op_at(b, at);
    const uint32_t x = o->in[0], dim = width_of(b, x);
    if (!*is_integer) {
        const uint64_t floats = value_of(b, x);
        bt_pkg_inst *i =
            emit(b, BT_PKG_QUANTISE32, at, floats, bt_lower_build_renew(b, x, 4), (shape){dim, 4, dim, 4});
        i->layer = UINT32_MAX;
        *is_integer = true;
    }
    const uint64_t in0 = value_of(b, x);
    bt_pkg_inst *i =
        emit(b, BT_PKG_INT_RMSNORM, at, in0, bt_lower_build_renew(b, o->out, 4), (shape){dim, 4, dim, 4});
    if (!b->in->has_norm_weight || b->in->has_norm_weight[at]) i->tensor = tensor_index(b, o, o->weight);
    i->site = bt_pkg_site_index(b->in->graph->hp.layers, o->layer, bt_pkg_site_after(o->weight));
    i->params = b->in->params[at];
}

/* s16 -> s32 in units of the o site, rotated (arg 2) or not. */
static uint64_t lower_rotate(bt_lower_build *b, size_t at, uint32_t tensor, uint32_t arg)
{
    const uint32_t width = width_of(b, tensor);
    const uint64_t in0 = value_of(b, tensor), out = bt_lower_build_renew(b, tensor, 4);
    bt_pkg_inst *i = emit(b, BT_PKG_INT_ROTATE, at, in0, out, (shape){width, 2, width, 4});
    i->site = bt_pkg_site_index(b->in->graph->hp.layers, op_at(b, at)->layer, BT_SITE_O);
    i->arg = arg;
    i->params = b->in->params[at];
    return out;
}

static void lower_linears(bt_lower_build *b, size_t first, size_t group, bool has_r2)
{
    const bt_op *o = op_at(b, first);
    const uint32_t k = width_of(b, o->in[0]);
    const uint64_t wide =
        o->weight == BT_WEIGHT_O && !has_r2 ? lower_rotate(b, first, o->in[0], 0) : value_of(b, o->in[0]);
    const bt_lower_planes p =
        bt_lower_build_planes(b, BT_PKG_INT_SPLIT, BT_PKG_NPU, first, wide, bt_lower_build_stride(b, k, 4));
    for (size_t j = 0; j < group; j++, o++) {
        const uint32_t n = width_of(b, o->out);
        const bool is_head = o->weight == BT_WEIGHT_OUTPUT;
        const uint64_t out = is_head ? BT_PKG_NOWHERE : bt_lower_build_renew(b, o->out, 2);
        bt_pkg_inst *i = emit(b, is_head ? BT_PKG_LINEAR : BT_PKG_INT_LINEAR, first + j, p.hi, out,
                              (shape){k, 1, n, is_head ? 4 : 2});
        i->in_stride = p.stride;
        if (j == 0) i->group = (uint8_t)group;
        i->tensor = tensor_index(b, o, o->weight);
        i->site = p.site;
        i->in1 = p.lo;
        i->aux = p.shadow;
        i->macs_per_row = (uint64_t)k * n;
        if (is_head) bt_lower_build_split_output(b);
    }
}

/* q or k, s16 in place. */
static void lower_heads(bt_lower_build *b, size_t at, bt_pkg_op op)
{
    const bt_op *o = op_at(b, at);
    const uint32_t width = width_of(b, o->out);
    bt_pkg_inst *i = emit(b, op, at, value_of(b, o->out), value_of(b, o->out), (shape){width, 2, width, 2});
    i->arg = o->heads;
    if (op == BT_PKG_INT_ROPE) return;
    i->tensor = tensor_index(b, o, o->weight);
    i->params = b->in->params[at];
}

static void lower_kv_store(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    const uint32_t width = width_of(b, o->in[0]);
    uint64_t floats[2];
    for (int v = 0; v < 2; v++) {
        floats[v] = bt_lower_build_value(b, v ? BT_PKG_VALUE_VF : BT_PKG_VALUE_KF, b->in->seq,
                                         bt_lower_build_stride(b, width, 4));
        bt_pkg_inst *i =
            emit(b, BT_PKG_DEQUANTISE16, at, value_of(b, o->in[v]), floats[v], (shape){width, 2, width, 4});
        i->tensor = tensor_index(b, o, v ? BT_WEIGHT_V : BT_WEIGHT_K);
    }
    bt_pkg_inst *i = emit(b, BT_PKG_KV_STORE, at, floats[0], BT_PKG_NOWHERE, (shape){width, 4, 0, 0});
    i->in1 = floats[1];
}

static void lower_add(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    const uint32_t dim = width_of(b, o->out);
    bt_pkg_inst *i =
        emit(b, BT_PKG_INT_ADD, at, value_of(b, o->out), value_of(b, o->out), (shape){dim, 2, dim, 4});
    i->in1 = value_of(b, o->in[1]);
    i->tensor = tensor_index(b, o, bt_graph_added(b->in->graph, at));
    i->params = b->in->params[at];
}

static void lower_silu(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    const uint32_t ffn = width_of(b, o->out);
    const uint64_t gate = value_of(b, o->in[0]), up = value_of(b, o->in[1]);
    bt_pkg_inst *i =
        emit(b, BT_PKG_INT_SILU_MUL, at, gate, bt_lower_build_renew(b, o->out, 4), (shape){ffn, 2, ffn, 4});
    i->in1 = up;
    i->site = bt_pkg_site_index(b->in->graph->hp.layers, o->layer, BT_SITE_DOWN);
    i->params = b->in->params[at];
}

static void lower_op(bt_lower_build *b, size_t at, bool *is_integer)
{
    const bt_op *o = op_at(b, at);
    switch (o->kind) {
    case BT_OP_EMBED: bt_lower_build_companion(b, at); break;
    case BT_OP_ROTATE:
        if (o->layer == BT_GRAPH_NO_LAYER) bt_lower_build_companion(b, at);
        else (void)lower_rotate(b, at, o->out, 2);
        break;
    case BT_OP_RMSNORM: lower_norm(b, at, is_integer); break;
    case BT_OP_QK_NORM: lower_heads(b, at, BT_PKG_INT_QK_NORM); break;
    case BT_OP_ROPE: lower_heads(b, at, BT_PKG_INT_ROPE); break;
    case BT_OP_KV_STORE: lower_kv_store(b, at); break;
    case BT_OP_ATTENTION: {
        const uint32_t width = width_of(b, o->out);
        const uint64_t q = value_of(b, o->in[0]);
        emit(b, BT_PKG_INT_ATTENTION, at, q, bt_lower_build_renew(b, o->out, 2), (shape){width, 2, width, 2})
            ->params = b->in->params[at];
        bt_lower_build_split_attention(b);
        break;
    }
    case BT_OP_ADD: lower_add(b, at); break;
    case BT_OP_SILU_MUL: lower_silu(b, at); break;
    case BT_OP_SELECT_ROWS: {
        const uint32_t dim = width_of(b, o->out);
        const uint64_t x = value_of(b, o->in[0]);
        emit(b, BT_PKG_SELECT_ROWS, at, x, bt_lower_build_renew(b, o->out, 4), (shape){dim, 4, dim, 4});
        break;
    }
    case BT_OP_LINEAR: /* in groups */
    case BT_OP_KINDS: break;
    }
}

static bool always_companion(const bt_op *o)
{
    return o->kind == BT_OP_EMBED || o->kind == BT_OP_KV_STORE || o->kind == BT_OP_SELECT_ROWS ||
           (o->kind == BT_OP_ROTATE && o->layer == BT_GRAPH_NO_LAYER);
}

bt_err bt_lower_int(bt_lower_build *b, bt_fault *fault)
{
    const bool has_r2 = bt_graph_rotates_attention(b->in->graph);
    bool is_integer = false; /* the residual stream */
    for (size_t i = 0; i < b->ops; i++) {
        const bt_op *o = op_at(b, i);
        if (!b->in->on_npu[i] && !always_companion(o))
            return bt_fail(fault, BT_EARG, "npu operators 'all': %s is not on the NPU", bt_op_name(o->kind));
    }
    for (size_t i = 0; i < b->ops;) {
        const size_t group = op_at(b, i)->kind == BT_OP_LINEAR ? bt_lower_build_group(b, i) : 0;
        if (group) lower_linears(b, i, group, has_r2);
        else lower_op(b, i, &is_integer);
        i += group ? group : 1;
    }
    return BT_OK;
}
