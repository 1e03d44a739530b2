/* Instructions become operators of device/price.h one by one; attention is the one that depends on the
 * position, so it is handed over apart. */
#include "npu/price/price_pkg.h"
#include "npu/lower/plan.h"
#include "npu/lower/stages.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/pkg/pkg_shapes.h"

#include <stdlib.h>
#include <string.h>

static bool is_npu(const bt_pkg_inst *i) { return i->unit != BT_PKG_COMPANION; }

/* The part that an instruction belongs to. */
static uint8_t part_of(const bt_pkg_inst *i)
{
    static const uint8_t kinds[] = {
        [BT_PKG_EMBED] = BT_OP_EMBED,
        [BT_PKG_ROTATE] = BT_OP_ROTATE,
        [BT_PKG_RMSNORM] = BT_OP_RMSNORM,
        [BT_PKG_LINEAR_F16] = BT_OP_LINEAR,
        [BT_PKG_QK_NORM] = BT_OP_QK_NORM,
        [BT_PKG_ROPE] = BT_OP_ROPE,
        [BT_PKG_KV_STORE] = BT_OP_KV_STORE,
        [BT_PKG_ATTENTION] = BT_OP_ATTENTION,
        [BT_PKG_ADD] = BT_OP_ADD,
        [BT_PKG_SILU_MUL] = BT_OP_SILU_MUL,
        [BT_PKG_SELECT_ROWS] = BT_OP_SELECT_ROWS,
    };
    if (i->op == BT_PKG_SESSION) return BT_PRICE_PKG_SESSIONS;
    if (is_npu(i)) return BT_PRICE_PKG_NPU;
    return i->op < sizeof kinds ? kinds[i->op] : BT_PRICE_PKG_EDGES;
}

static bt_price_op op_of(const bt_pkg *p, uint32_t program, const bt_pkg_inst *i)
{
    const bt_pkg_program *g = &bt_pkg_programs(p)[program];
    const uint64_t rows = i->out_rows ? g->out : g->seq;
    bt_price_op op = {.count = 1, .part = part_of(i), .is_companion = !is_npu(i)};
    if (i->op == BT_PKG_SESSION) {
        op.fixed_ns = i->params;
    } else if (bt_pkg_is_npu_linear(i) || i->op == BT_PKG_LINEAR_F16) {
        const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i->tensor];
        const bool has_16_bits = i->op == BT_PKG_LINEAR_F16 || i->in1 != BT_PKG_NOWHERE;
        op.matrix = (bt_time_matrix){
            .rows = rows,
            .inputs = i->in_width,
            .outputs = i->out_width,
            .weight_bits = t->palette_run ? 8 : t->bits,
            .input_bits = has_16_bits ? 16 : 8,
            .group = t->group,
            .weight_bytes = t->palette_run ? bt_time_palette_bytes(i->in_width, i->out_width, t->bits) : 0,
            .spill_bytes = is_npu(i) ? bt_plan_spilled(p, program, i, 0) : 0,
        };
    } else {
        op.bytes = rows * ((uint64_t)i->in_stride + i->out_stride);
    }
    return op;
}

static void add_shares(uint64_t *sum, const bt_pkg_head *head, uint32_t heads)
{
    uint32_t share[BT_HEADS_MAX];
    for (uint32_t i = 0; i < heads; i++) { /* descending */
        uint32_t k = i;
        for (; k && share[k - 1] < head[i].ppm; k--) share[k] = share[k - 1];
        share[k] = head[i].ppm;
    }
    for (uint32_t i = 0; i < heads; i++) sum[i] += share[i];
}

bt_sparse bt_price_pkg_sparse(const bt_pkg *p, uint32_t layer, uint32_t kv_elem_bits)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_attention a = bt_attention_of(h);
    bt_sparse s = {.heads = 0};
    uint64_t sum[BT_HEADS_MAX] = {0};
    if (!h->sparse_ppm) return s;
    const bt_pkg_head *head = bt_pkg_const_at(p, h->sparse_heads);
    s = (bt_sparse){.heads = h->heads,          .kv_heads = h->kv_heads,
                    .head_dim = h->head_dim,    .kv_elem_bits = kv_elem_bits,
                    .dense_rows = a.dense_rows, .rows = a.rows,
                    .is_group = a.is_group};
    for (uint32_t l = 0; l < h->layers && layer == UINT32_MAX; l++)
        add_shares(sum, head + (size_t)l * h->heads, h->heads);
    for (uint32_t i = 0; i < h->heads; i++)
        s.ppm[i] =
            layer == UINT32_MAX ? (uint32_t)(sum[i] / h->layers) : head[(size_t)layer * h->heads + i].ppm;
    return s;
}

static bt_price_op dispatches(uint32_t count)
{
    return (bt_price_op){.count = count, .is_dispatch = true, .part = BT_PRICE_PKG_NPU};
}

static bt_price_op waits(uint32_t count, const bt_price *price)
{
    return (bt_price_op){.count = count,
                         .fixed_ns = bt_time_sync(&price->profile.time, &price->companion.time),
                         .part = BT_PRICE_PKG_SYNC};
}

/* What a program does, but attention; a dispatch for each graph, a wait for each change of engine. */
static size_t ops_of(bt_price_op *op, const bt_price *price, const bt_pkg *p, uint32_t program,
                     bool *attention_is_npu)
{
    const bt_pkg_program *g = &bt_pkg_programs(p)[program];
    const bt_pkg_inst *inst = bt_pkg_code(p, program);
    const bt_price_op changes = waits(bt_stages_changes(p, program), price);
    size_t n = 0;
    op[n++] = dispatches(bt_stages_dispatches(p, program));
    if (changes.count && changes.fixed_ns) op[n++] = changes;
    for (uint32_t k = 0; k < g->insts; k++) {
        const bt_pkg_inst *i = &inst[k];
        if (bt_pkg_is_attention(i)) *attention_is_npu = is_npu(i);
        else if (i->op != BT_PKG_SESSION || i->params) op[n++] = op_of(p, program, i);
    }
    return n;
}

static bt_err add_program(bt_price *price, const bt_pkg *p, const bt_pkg_row *row, uint32_t kv_elem_bits,
                          bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t program = row->program[BT_PKG_OUT_NONE];
    const bt_pkg_program *g = &bt_pkg_programs(p)[program];
    bool attends_on_npu = false;
    bt_price_op *op = calloc((size_t)g->insts + 2, sizeof *op);
    if (!op) return bt_fail(fault, BT_ENOMEM, "pricing a program");
    const size_t n = ops_of(op, price, p, program, &attends_on_npu);
    const bt_sparse sparse = bt_price_pkg_sparse(p, UINT32_MAX, kv_elem_bits);
    const bt_price_attention a = {
        .layers = h->layers,
        .heads = h->heads,
        .kv_heads = h->kv_heads,
        .head_dim = h->head_dim,
        .kv_elem_bits = kv_elem_bits,
        .ctx = g->ctx ? g->ctx : 0,
        .part = attends_on_npu ? BT_PRICE_PKG_NPU : BT_OP_ATTENTION,
        .is_companion = !attends_on_npu,
        .sparse = sparse.heads ? &sparse : NULL,
    };
    const bt_err e = bt_price_add(price, row->seq, op, n, &a, fault);
    free(op);
    return e;
}

/* What the program that makes logits does outside layers, beyond the one that makes none. */
static void add_last(bt_price *price, const bt_pkg *p, const bt_pkg_row *row)
{
    const uint32_t program = row->program[BT_PKG_OUT_LAST];
    const bt_pkg_program *g = &bt_pkg_programs(p)[program];
    const bt_pkg_inst *inst = bt_pkg_code(p, program);
    const uint32_t plain = row->program[BT_PKG_OUT_NONE];
    const uint32_t with = bt_stages_dispatches(p, program), without = bt_stages_dispatches(p, plain);
    const uint32_t turns = bt_stages_changes(p, program), fewer = bt_stages_changes(p, plain);
    const bt_price_op more = dispatches(with > without ? with - without : 0);
    const bt_price_op waited = waits(turns > fewer ? turns - fewer : 0, price);
    bt_price_last(price, &more);
    if (waited.count && waited.fixed_ns) bt_price_last(price, &waited);
    for (uint32_t k = 0; k < g->insts; k++)
        if (inst[k].out_rows && inst[k].op != BT_PKG_SESSION) {
            const bt_price_op op = op_of(p, program, &inst[k]);
            bt_price_last(price, &op);
        }
}

/* The row of the least seq above `than`, with its shortest context. */
static const bt_pkg_row *next_row(const bt_pkg *p, uint32_t than)
{
    const bt_pkg_row *row = bt_pkg_rows(p), *best = NULL;
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->rows.count; i++)
        if (row[i].batch == 1 && row[i].seq > than &&
            (!best || row[i].seq < best->seq || (row[i].seq == best->seq && row[i].ctx < best->ctx)))
            best = &row[i];
    return best;
}

bt_err bt_price_pkg(bt_price *ret, const bt_pkg *p, const bt_profile *profile, uint32_t kv_elem_bits,
                    bt_fault *fault)
{
    const bt_pkg_row *row = NULL, *last = NULL;
    bt_err e = bt_price_begin(ret, profile, fault);
    if (e == BT_OK && profile->time.companion[0]) e = bt_profile_companion(&ret->companion, profile, fault);
    for (uint32_t seq = 0; e == BT_OK && (row = next_row(p, seq)); seq = row->seq) {
        e = add_program(ret, p, row, kv_elem_bits, fault);
        last = row;
    }
    if (e == BT_OK && !last) e = bt_fail(fault, BT_EARG, "the package has no program for one sequence alone");
    if (e == BT_OK) add_last(ret, p, last);
    return e;
}

bt_work_chunk bt_price_pkg_cut(const void *shapes, uint64_t begin, uint64_t end)
{
    const bt_shapes_chunk c = bt_shapes_next(shapes, end, begin);
    return (bt_work_chunk){.rows = c.rows, .valid = c.valid};
}

bt_err bt_price_pkg_prompt(bt_price_pkg_run *ret, const bt_price *price, const bt_pkg *p, const bt_link *link,
                           uint64_t kv_bytes, uint64_t first, uint64_t tokens, bt_fault *fault)
{
    bt_shapes shapes;
    const bt_err e = bt_pkg_shapes(&shapes, p, fault);
    if (e < 0) return e;
    const bt_work_prefill d = {.price = price,
                               .cut = bt_price_pkg_cut,
                               .ud = &shapes,
                               .link = *link,
                               .layers = bt_pkg_header_of(p)->layers,
                               .kv_bytes = kv_bytes};
    const bt_work_prompt prompt = {.first = first, .end = first + tokens, .covered = first};
    const bt_work_run r = bt_work_of_prompt(&d, &prompt);
    *ret = (bt_price_pkg_run){.prefill = r.sum, .transfer_ns = r.transfer_ns, .exposed_ns = r.exposed_ns};
    return BT_OK;
}
