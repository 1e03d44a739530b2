/* From an instruction to the operator that device/time.h prices. */
#include "tools/timeline/cost.h"
#include "npu/compile/plan.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_layout.h"

static bool is_linear(const bt_pkg_inst *i) { return bt_pkg_is_npu_linear(i) || i->op == BT_PKG_LINEAR_F16; }

/* What crosses again because the chip cannot hold it. */
static uint64_t spilled(const bt_pkg *p, uint32_t program, const bt_pkg_inst *i, uint64_t ctx)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    bt_on_chip_op op;
    if (!h->layout.on_chip_bytes ||
        !bt_plan_on_chip_op(&op, h, bt_pkg_tensors(p), &bt_pkg_programs(p)[program], i, (uint32_t)ctx))
        return 0;
    const uint32_t order = bt_pkg_is_npu_linear(i) ? bt_pkg_order_of(i) : BT_PKG_ORDER_NONE;
    const bt_on_chip_plan plan =
        order == BT_PKG_ORDER_NONE
            ? bt_on_chip_best(&op, h->layout.on_chip_bytes)
            : bt_on_chip_in_order(&op, h->layout.on_chip_bytes,
                                  order == BT_PKG_ORDER_WEIGHTS ? BT_ON_CHIP_WEIGHTS_STAY
                                                                : BT_ON_CHIP_INPUTS_STAY);
    return bt_on_chip_spilled(&plan);
}

static uint64_t linear(const bt_profile *on, const bt_pkg *p, uint32_t program, const bt_pkg_inst *i,
                       uint64_t rows, const tool_cost_chunk *c)
{
    const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i->tensor];
    const uint32_t inputs = i->site == BT_PKG_NONE ? 16 : bt_pkg_sites(p)[i->site].bits;
    const bt_time_matrix m = {
        .rows = rows,           .inputs = i->in_width, .outputs = i->out_width,
        .weight_bits = t->bits, .input_bits = inputs,  .spill_bytes = spilled(p, program, i, c->ctx)};
    uint64_t ns = bt_time_of_matrix(on, &m);
    if (c->is_first) {
        const uint64_t bytes = (uint64_t)i->in_width * i->out_width * t->bits / 8;
        ns = bt_time_plus(ns, bt_time_of(bytes, on->time.first_weight_bytes_per_us));
        ns = bt_time_plus(ns, on->time.first_launch_ns);
    }
    return ns;
}

/* Of one slice: its rows by the columns that they see. */
static uint64_t attention(const bt_profile *on, const bt_pkg *p, uint32_t program, const bt_pkg_inst *i,
                          uint64_t rows, const tool_cost_chunk *c)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_slice s = bt_pkg_layout_slice(&h->layout, (uint32_t)rows, h->heads, i->arg);
    const uint64_t fixed = bt_pkg_programs(p)[program].ctx, first = c->pos + s.row;
    const uint32_t group = h->heads / h->kv_heads;
    const bt_time_attention a = {
        .rows = s.rows,
        .pairs = fixed ? s.rows * fixed : s.rows * first + (uint64_t)s.rows * (s.rows + 1) / 2,
        .ctx = fixed ? fixed : first + s.rows,
        .heads = s.heads,
        .kv_heads = (s.head + s.heads - 1) / group - s.head / group + 1,
        .head_dim = h->head_dim,
        .kv_elem_bits = 16,
    };
    return bt_time_plus(bt_time_of_attention(on, &a),
                        bt_time_of(spilled(p, program, i, c->ctx), bt_time_activation_rate(&on->time)));
}

static uint64_t instruction(const bt_profile *on, const bt_pkg *p, uint32_t program, const bt_pkg_inst *i,
                            const tool_cost_chunk *c)
{
    const uint64_t rows = i->out_rows ? bt_pkg_programs(p)[program].out : c->rows;
    if (i->op == BT_PKG_SESSION) return i->params;
    if (is_linear(i)) return linear(on, p, program, i, rows, c);
    if (bt_pkg_is_attention(i)) return attention(on, p, program, i, rows, c);
    const uint64_t in1 = i->in1 == BT_PKG_NOWHERE ? 0 : i->in_stride;
    const uint64_t bytes = rows * ((uint64_t)i->in_stride + in1 + i->out_stride);
    return bt_time_of(bytes, bt_time_activation_rate(&on->time));
}

uint64_t tool_cost_of_stage(const tool_cost_engines *e, const bt_pkg *p, uint32_t program,
                            const bt_stage *stage, const tool_cost_chunk *c)
{
    const bt_pkg_inst *code = bt_pkg_code(p, program) + stage->first;
    uint64_t ns = stage->is_npu ? e->npu->time.dispatch_ns : 0;
    for (uint32_t n = 0; n < stage->insts; n++)
        ns = bt_time_plus(ns, instruction(stage->is_npu ? e->npu : e->companion, p, program, &code[n], c));
    return ns;
}

uint64_t tool_cost_of_sync(const tool_cost_engines *e, bool is_npu)
{
    return is_npu ? e->npu->time.sync_ns : e->companion->time.sync_ns;
}
