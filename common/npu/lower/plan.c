/* A package's layout, applied to its programs. */
#include "npu/lower/plan.h"
#include "device/layout.h"
#include "model/weight.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_layout.h"

#include <string.h>

static uint64_t rows_of(const bt_pkg_program *g, const bt_pkg_inst *i) { return bt_pkg_rows_of(i, g); }
static uint64_t round_up(uint64_t n, uint64_t to) { return to ? (n + to - 1) / to * to : n; }
static uint64_t pieces(uint64_t n, uint64_t of) { return of ? (n + of - 1) / of : n; }

/* Bytes of an element that the instruction writes: in the arena, and on the chip, where floats of the NPU
 * have 2. */
static uint32_t out_bytes(const bt_pkg_inst *i) { return bt_pkg_form_bytes(bt_pkg_op_info_of(i->op)->out); }
static uint32_t chip_out_bytes(const bt_pkg_inst *i) { return bt_pkg_writes_float16(i) ? 2 : out_bytes(i); }
static uint64_t chip_in_stride(const bt_pkg_layout *l, const bt_pkg_inst *i)
{
    return bt_pkg_reads_float16(i) ? bt_pkg_layout_stride(l, i->in_width, 2) : i->in_stride;
}
static uint64_t chip_out_stride(const bt_pkg_layout *l, const bt_pkg_inst *i)
{
    return chip_out_bytes(i) < out_bytes(i) ? bt_pkg_layout_stride(l, i->out_width, chip_out_bytes(i))
                                            : i->out_stride;
}

uint64_t bt_plan_device_bytes(const bt_pkg_layout *l, const bt_pkg_program *program, const bt_pkg_inst *i)
{
    return rows_of(program, i) * chip_out_stride(l, i);
}

bt_plan_macs bt_plan_macs_of(const bt_pkg_program *program, const bt_pkg_inst *inst, const bt_pkg_site *sites)
{
    bt_plan_macs m = {0};
    for (uint32_t n = 0; n < program->insts; n++) {
        const bt_pkg_inst *i = &inst[n];
        const uint64_t macs = rows_of(program, i) * i->macs_per_row;
        if (!macs || i->unit == BT_PKG_COMPANION) continue;
        *(i->unit == BT_PKG_NPU_FLOAT ? &m.floats : sites[i->site].bits == 16 ? &m.int16 : &m.int8) += macs;
    }
    return m;
}

/* ---- padding ---- */

uint64_t bt_plan_row_padding(const bt_pkg_program *program, const bt_pkg_inst *inst,
                             const bt_pkg_place *place)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < program->places; n++) {
        const bt_pkg_inst *i = &inst[place[n].first_inst];
        const bool is_lo = bt_areas_makes_planes(i) && i->in1 == place[n].offset;
        if (i->out != place[n].offset && !is_lo) continue;
        bytes += rows_of(program, i) * (i->out_stride - (uint64_t)i->out_width * out_bytes(i));
    }
    return bytes;
}

uint64_t bt_plan_tile_padding(const bt_pkg_layout *l, const bt_pkg_program *program, const bt_pkg_inst *inst)
{
    uint64_t macs = 0;
    for (uint32_t n = 0; n < program->insts; n++)
        if (bt_pkg_is_npu_linear(&inst[n]))
            macs +=
                bt_pkg_layout_tile_macs(l, rows_of(program, &inst[n]), inst[n].out_width, inst[n].in_width);
    return macs;
}

/* ---- the KV state ---- */

bt_err bt_plan_state_of(bt_plan_state *ret, const bt_pkg_header *h, uint32_t ctx, bt_fault *fault)
{
    enum { F16_BYTES = 2 };
    bt_plan_state s = {.dim = {2 * (uint64_t)h->layers, h->kv_heads, ctx, h->head_dim}};
    bt_err e = bt_layout_state(s.rounded, &s.payload_bytes, false, 0, s.dim, 4, F16_BYTES, fault);
    if (e == BT_OK)
        e = bt_layout_state(s.rounded, &s.bytes, h->layout.state_pow2 != 0, h->layout.state_multiple, s.dim,
                            4, F16_BYTES, fault);
    if (e == BT_OK) *ret = s;
    return e;
}

/* ---- the chip ---- */

static void linear_op(bt_on_chip_op *ret, const bt_pkg_layout *l, const bt_pkg_inst *i, uint32_t bits,
                      uint64_t rows)
{
    const uint64_t band_rows = l->tile_rows ? l->tile_rows : 1, k = round_up(i->in_width, l->tile_cols),
                   unit_rows = l->tile_input_rows ? l->tile_input_rows : 1;
    ret->bands = pieces(i->out_width, band_rows);
    ret->band_bytes = (band_rows * k * bits + 7) / 8;
    ret->units = pieces(rows, unit_rows);
    ret->unit_bytes = unit_rows * chip_in_stride(l, i) * (i->in1 == BT_PKG_NOWHERE ? 1 : 2);
    ret->output_bytes = unit_rows * band_rows * chip_out_bytes(i);
}

static void attention_op(bt_on_chip_op *ret, const bt_pkg_header *h, const bt_pkg_inst *i, uint64_t rows,
                         uint32_t ctx)
{
    const bt_pkg_program all = {.seq = (uint32_t)rows, .ctx = ctx};
    const uint32_t columns = bt_pkg_columns(h, &all, i->layer);
    const bt_pkg_slice s = bt_pkg_layout_slice(&h->layout, (uint32_t)rows, h->heads, i->arg);
    const uint32_t group = h->heads / h->kv_heads;
    const uint64_t kv_heads = (s.head + s.heads - 1) / group - s.head / group + 1;
    ret->bands = columns;
    ret->band_bytes = 2 * 2 * kv_heads * h->head_dim;
    ret->units = s.rows;
    ret->unit_bytes = ret->output_bytes = (uint64_t)s.heads * h->head_dim * chip_out_bytes(i);
    ret->is_sum = true;
}

/* Adds tables: a rotation's matrix and signs stay like weights; cosines and sines of 16 bits come with each
 * row. */
static void add_tables(bt_on_chip_op *op, const bt_pkg_header *h, const bt_pkg_inst *i)
{
    const bt_pkg_rotation *r = i->arg == BT_ROTATION_R4 ? &h->r4 : &h->r2;
    const uint8_t beside = bt_pkg_op_info_of(i->op)->beside;
    if (beside == BT_BESIDE_POSITIONS) op->unit_bytes += 2 * sizeof(int16_t) * (h->rope_dims / 2);
    if (beside == BT_BESIDE_ROTATION && i->arg)
        op->band_bytes +=
            (uint64_t)r->base * r->base + (r->sign == BT_PKG_NONE ? 0 : (uint64_t)r->base << r->log2);
}

bool bt_plan_on_chip_op(bt_on_chip_op *ret, const bt_pkg_header *h, const bt_pkg_tensor *tensors,
                        const bt_pkg_program *program, const bt_pkg_inst *i, uint32_t ctx)
{
    const uint64_t rows = rows_of(program, i);
    if (i->unit == BT_PKG_COMPANION) return false;
    *ret = (bt_on_chip_op){.bands = 1, .units = rows};
    if (bt_pkg_is_npu_linear(i)) {
        linear_op(ret, &h->layout, i, tensors[i->tensor].bits, rows);
    } else if (bt_pkg_is_attention(i)) {
        attention_op(ret, h, i, rows, ctx);
    } else {
        const bool makes = bt_areas_makes_planes(i), has_in1 = i->in1 != BT_PKG_NOWHERE;
        if (i->tensor != BT_PKG_NONE && tensors[i->tensor].bits == 32)
            ret->band_bytes = tensors[i->tensor].n * (i->unit == BT_PKG_NPU ? sizeof(int32_t) : 2);
        const bool as_read = chip_in_stride(&h->layout, i) == i->in_stride;
        const uint64_t in0_bytes = as_read ? bt_areas_in0_stride(i) : chip_in_stride(&h->layout, i),
                       in1_bytes = !has_in1           ? 0
                                   : makes || as_read ? bt_areas_in1_stride(i)
                                                      : chip_in_stride(&h->layout, i);
        ret->unit_bytes = in0_bytes + (makes ? 0 : in1_bytes);
        ret->output_bytes = chip_out_stride(&h->layout, i) + (makes ? in1_bytes : 0);
        add_tables(ret, h, i);
    }
    return true;
}

/* Whether two linears of one program are planned alike. */
static bool is_alike(const bt_pkg_inst *a, const bt_pkg_inst *b, const bt_pkg_tensor *tensors)
{
    return a->op == b->op && a->unit == b->unit && a->out_rows == b->out_rows && a->in_width == b->in_width &&
           a->out_width == b->out_width && a->in_stride == b->in_stride && a->out_stride == b->out_stride &&
           (a->in1 == BT_PKG_NOWHERE) == (b->in1 == BT_PKG_NOWHERE) &&
           tensors[a->tensor].bits == tensors[b->tensor].bits;
}

void bt_plan_set_orders(bt_pkg_inst *inst, const bt_pkg_header *h, const bt_pkg_tensor *tensors,
                        const bt_pkg_program *program)
{
    enum {
        KEPT = 8
    }; /* layers repeat: some linears of each kind are asked first, the others are like them */
    const bt_pkg_inst *kept[KEPT];
    size_t count = 0;
    bt_on_chip_op op;
    for (uint32_t n = 0; n < program->insts && h->layout.on_chip_bytes; n++) {
        size_t k = 0;
        if (!bt_pkg_is_npu_linear(&inst[n])) continue;
        while (k < count && !is_alike(kept[k], &inst[n], tensors)) k++;
        if (k < count) {
            inst[n].arg |= bt_pkg_order_of(kept[k]);
            continue;
        }
        if (!bt_plan_on_chip_op(&op, h, tensors, program, &inst[n], 0)) continue;
        const bool is_first = bt_on_chip_best(&op, h->layout.on_chip_bytes).order == BT_ON_CHIP_WEIGHTS_STAY;
        inst[n].arg |= is_first ? BT_PKG_ORDER_WEIGHTS : BT_PKG_ORDER_INPUTS;
        if (count < KEPT) kept[count++] = &inst[n];
    }
}

static void add_share(bt_on_chip_share *sum, const bt_on_chip_share *s)
{
    sum->resident += s->resident;
    sum->streamed += s->streamed;
    sum->spilled = sum->spilled > INT64_MAX - s->spilled ? INT64_MAX : sum->spilled + s->spilled;
}

static bool is_same_plan(const bt_on_chip_plan *a, const bt_on_chip_plan *b)
{
    return a->order == b->order && a->blocks == b->blocks && a->overflow == b->overflow &&
           memcmp(&a->weights, &b->weights, sizeof a->weights) == 0 &&
           memcmp(&a->input, &b->input, sizeof a->input) == 0 &&
           memcmp(&a->output, &b->output, sizeof a->output) == 0;
}

static void add_line(bt_plan_line *lines, size_t *n, const bt_plan_line *l)
{
    size_t k = 0;
    while (k < *n &&
           (lines[k].op != l->op || lines[k].weight != l->weight || !is_same_plan(&lines[k].plan, &l->plan)))
        k++;
    if (k < *n) lines[k].count++;
    else if (k < BT_PLAN_MAX_LINES) lines[(*n)++] = *l;
}

/* The batch of a program, from the first row that names it. */
static uint32_t batch_of(const bt_pkg *p, uint32_t program)
{
    const bt_pkg_row *r = bt_pkg_rows(p);
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->rows.count; i++)
        for (int o = 0; o < BT_PKG_OUTS; o++)
            if (r[i].program[o] == program) return r[i].batch;
    return 1;
}

/* Cuts attention of a batch to one sequence, because each attends to K and V of its own. Returns how many
 * sequences the slice has. */
static uint64_t part_sequences(bt_on_chip_op *op, const bt_pkg_header *h, const bt_pkg_program *g,
                               const bt_pkg_inst *i, uint32_t batch)
{
    if (batch < 2 || !bt_pkg_is_attention(i)) return 1;
    const bt_pkg_slice s = bt_pkg_layout_slice(&h->layout, g->seq, h->heads, i->arg);
    const uint32_t seq = g->seq / batch, sequences = (s.row + s.rows - 1) / seq - s.row / seq + 1;
    op->units = pieces(s.rows, sequences);
    return sequences;
}

static void repeat_share(bt_on_chip_share *s, uint64_t times)
{
    s->resident *= times;
    s->streamed *= times;
    s->spilled = s->spilled > INT64_MAX / times ? INT64_MAX : s->spilled * times;
}

/* Multiplies a plan: the same operator `times` times, one after the other. */
static void repeat_plan(bt_on_chip_plan *q, uint64_t times)
{
    repeat_share(&q->weights, times);
    repeat_share(&q->input, times);
    repeat_share(&q->output, times);
    q->blocks *= times;
    q->overflow = q->overflow > INT64_MAX / times ? INT64_MAX : q->overflow * times;
}

/* The plan of a linear in the package's loop order, of others in the order that moves least. */
static bt_on_chip_plan in_its_order(const bt_on_chip_op *op, uint64_t capacity, const bt_pkg_inst *i)
{
    const uint32_t order = bt_pkg_is_npu_linear(i) ? bt_pkg_order_of(i) : BT_PKG_ORDER_NONE;
    if (order == BT_PKG_ORDER_NONE) return bt_on_chip_best(op, capacity);
    return bt_on_chip_in_order(op, capacity,
                               order == BT_PKG_ORDER_WEIGHTS ? BT_ON_CHIP_WEIGHTS_STAY
                                                             : BT_ON_CHIP_INPUTS_STAY);
}

uint64_t bt_plan_spilled(const bt_pkg *p, uint32_t program, const bt_pkg_inst *i, uint32_t ctx)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint64_t capacity = h->layout.on_chip_bytes;
    bt_on_chip_op op;
    if (!capacity || !bt_plan_on_chip_op(&op, h, bt_pkg_tensors(p), &bt_pkg_programs(p)[program], i, ctx))
        return 0;
    const bt_on_chip_plan plan = in_its_order(&op, capacity, i);
    return bt_on_chip_spilled(&plan);
}

size_t bt_plan_on_chip(bt_plan_line ret[BT_PLAN_MAX_LINES], bt_on_chip_plan *total, const bt_pkg *p,
                       uint32_t program, uint32_t ctx)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[program];
    const bt_pkg_tensor *tensors = bt_pkg_tensors(p);
    const bt_pkg_inst *inst = bt_pkg_code(p, program);
    const uint64_t capacity = h->layout.on_chip_bytes;
    const uint32_t batch = batch_of(p, program);
    size_t lines = 0;
    memset(total, 0, sizeof *total);
    for (uint32_t n = 0; n < g->insts; n++) {
        const bt_pkg_inst *i = &inst[n];
        bt_on_chip_op op;
        if (!bt_plan_on_chip_op(&op, h, tensors, g, i, ctx)) continue;
        const uint64_t sequences = part_sequences(&op, h, g, i, batch);
        bt_plan_line l;
        memset(&l, 0, sizeof l); /* compared byte by byte */
        l.op = i->op;
        l.weight = i->tensor == BT_PKG_NONE ? BT_PKG_NONE : tensors[i->tensor].weight;
        l.count = 1;
        l.plan = in_its_order(&op, capacity, i);
        repeat_plan(&l.plan, sequences);
        add_share(&total->weights, &l.plan.weights);
        add_share(&total->input, &l.plan.input);
        add_share(&total->output, &l.plan.output);
        total->overflow =
            total->overflow > INT64_MAX - l.plan.overflow ? INT64_MAX : total->overflow + l.plan.overflow;
        add_line(ret, &lines, &l);
    }
    return lines;
}
