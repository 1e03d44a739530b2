/* Lowering of the operators that run in integers: the residual stream in s32, the outputs of linears in s16,
 * inputs of linears in s32 of their site. */
#include "npu/lower/lower_int.h"
#include "npu/lower/lower_form.h"

#include <assert.h>

typedef struct shape {
    uint32_t in_width, in_bytes, out_width, out_bytes;
} shape; /* bytes: of an element */

static const bt_op *op_at(const bt_lower_build *b, size_t at) { return &b->in->graph->op[at]; }
static uint32_t width_of(const bt_lower_build *b, uint32_t tensor)
{
    return b->in->graph->tensor[tensor].width;
}
static uint32_t tensor_index(const bt_lower_build *b, const bt_op *o, bt_weight w)
{
    return bt_pkg_tensor_index(b->in->graph->hp.layers, o->layer, w);
}

static bt_pkg_inst *emit(bt_lower_build *b, bt_pkg_op op, size_t at, uint64_t in0, uint64_t out, shape s)
{
    bt_pkg_inst *i = bt_lower_build_emit(b, op, BT_PKG_NPU, at);
    i->in0 = in0;
    i->out = out;
    i->in_width = s.in_width;
    i->in_stride = bt_lower_build_stride(b, s.in_width, s.in_bytes);
    i->out_width = s.out_width;
    i->out_stride = bt_lower_build_stride(b, s.out_width, s.out_bytes);
    return i;
}

static void lower_norm(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    const uint32_t dim = width_of(b, o->in[0]);
    const uint64_t in0 = bt_lower_form_read(b, at, o->in[0], BT_LOWER_RESIDUAL);
    const uint64_t out = bt_lower_form_write(b, o->out, BT_LOWER_WIDE);
    bt_pkg_inst *i = emit(b, BT_PKG_INT_RMSNORM, at, in0, out, (shape){dim, 4, dim, 4});
    if (!b->in->has_norm_weight || b->in->has_norm_weight[at]) i->tensor = tensor_index(b, o, o->weight);
    i->site = bt_pkg_site_index(b->in->graph->hp.layers, o->layer, bt_pkg_site_after(o->weight));
    i->params = b->in->params[at];
}

/* s16 -> s32 in units of the o site, rotated (arg 2) or not. */
static uint64_t lower_rotate(bt_lower_build *b, size_t at, uint32_t tensor, uint32_t arg)
{
    const uint32_t width = width_of(b, tensor);
    const uint64_t in0 = bt_lower_form_read(b, at, tensor, BT_LOWER_S16),
                   out = bt_lower_form_write(b, tensor, BT_LOWER_WIDE);
    bt_pkg_inst *i = emit(b, BT_PKG_INT_ROTATE, at, in0, out, (shape){width, 2, width, 4});
    i->site = bt_pkg_site_index(b->in->graph->hp.layers, op_at(b, at)->layer, BT_SITE_O);
    i->arg = arg;
    i->params = b->in->params[at];
    return out;
}

uint64_t bt_lower_int_site(bt_lower_build *b, size_t first)
{
    const uint32_t input = op_at(b, first)->in[0];
    return bt_lower_form_of(b, input) == BT_LOWER_S16 ? lower_rotate(b, first, input, 0)
                                                      : bt_lower_form_read(b, first, input, BT_LOWER_WIDE);
}

/* q or k, s16 in place. */
static void lower_heads(bt_lower_build *b, size_t at, bt_pkg_op op)
{
    const bt_op *o = op_at(b, at);
    const uint32_t width = width_of(b, o->out);
    const uint64_t x = bt_lower_form_in_place(b, at, o->out, BT_LOWER_S16);
    bt_pkg_inst *i = emit(b, op, at, x, x, (shape){width, 2, width, 2});
    i->arg = o->heads;
    if (op == BT_PKG_INT_ROPE) return;
    i->tensor = tensor_index(b, o, o->weight);
    i->params = b->in->params[at];
}

static void lower_attention(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    const uint32_t width = width_of(b, o->out);
    const uint64_t q = bt_lower_form_read(b, at, o->in[0], BT_LOWER_S16),
                   out = bt_lower_form_write(b, o->out, BT_LOWER_S16);
    emit(b, BT_PKG_INT_ATTENTION, at, q, out, (shape){width, 2, width, 2})->params = b->in->params[at];
    bt_lower_build_split_attention(b);
}

static void lower_add(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    const uint32_t dim = width_of(b, o->out);
    const uint64_t x = bt_lower_form_in_place(b, at, o->out, BT_LOWER_RESIDUAL),
                   y = bt_lower_form_read(b, at, o->in[1], BT_LOWER_S16);
    bt_pkg_inst *i = emit(b, BT_PKG_INT_ADD, at, x, x, (shape){dim, 2, dim, 4});
    i->in1 = y;
    i->tensor = tensor_index(b, o, bt_graph_added(b->in->graph, at));
    i->params = b->in->params[at];
}

static void lower_silu(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    const uint32_t ffn = width_of(b, o->out);
    const uint64_t gate = bt_lower_form_read(b, at, o->in[0], BT_LOWER_S16),
                   up = bt_lower_form_read(b, at, o->in[1], BT_LOWER_S16),
                   out = bt_lower_form_write(b, o->out, BT_LOWER_WIDE);
    bt_pkg_inst *i = emit(b, BT_PKG_INT_SILU_MUL, at, gate, out, (shape){ffn, 2, ffn, 4});
    i->in1 = up;
    i->site = bt_pkg_site_index(b->in->graph->hp.layers, o->layer, BT_SITE_DOWN);
    i->params = b->in->params[at];
}

void bt_lower_int(bt_lower_build *b, size_t at)
{
    const bt_op *o = op_at(b, at);
    switch (o->kind) {
    case BT_OP_RMSNORM: lower_norm(b, at); break;
    case BT_OP_QK_NORM: lower_heads(b, at, BT_PKG_INT_QK_NORM); break;
    case BT_OP_ROPE: lower_heads(b, at, BT_PKG_INT_ROPE); break;
    case BT_OP_ATTENTION: lower_attention(b, at); break;
    case BT_OP_ROTATE: (void)lower_rotate(b, at, o->out, BT_ROTATION_R2); break;
    case BT_OP_ADD: lower_add(b, at); break;
    case BT_OP_SILU_MUL: lower_silu(b, at); break;
    case BT_OP_EMBED:
    case BT_OP_KV_STORE:
    case BT_OP_SELECT_ROWS: /* moves are the companion's */
    case BT_OP_LINEAR:      /* in groups */
    case BT_OP_KINDS: assert(false); break;
    }
}
