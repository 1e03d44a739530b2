/* Translates an instruction into the operator that device/time.h prices. */
#include "npu/price/stage_cost.h"
#include "device/sparse.h"
#include "npu/lower/plan.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/pkg/pkg_ops.h"

static bool is_npu(const bt_pkg_inst *i) { return i->unit != BT_PKG_COMPANION; }
static uint32_t kv_bits(const bt_stage_engines *e) { return e->kv_elem_bits ? e->kv_elem_bits : 16; }

static uint64_t rows_of(const bt_pkg *p, uint32_t program, const bt_pkg_inst *i, const bt_stage_chunk *c)
{
    return bt_pkg_rows_at(i, c->rows, bt_pkg_programs(p)[program].out);
}

/* ---- linears ---- */

/* Stored bytes of so many outputs of a matrix. */
static uint64_t stored_bytes(const bt_time_matrix *m, uint64_t outputs)
{
    return m->weight_bytes ? bt_time_scale(m->weight_bytes, outputs, m->outputs)
                           : bt_time_scale(m->inputs * outputs, m->weight_bits, 8);
}

/* EXPERTS as one product. Rows choose as many experts as they can, alike, as in the forecast of a step
 * (bt_price_step_at): the weights of these are read, and each computes the rows of its program that holds its
 * share. */
static void by_expert(bt_time_matrix *m, const bt_pkg *p, const bt_stage_chunk *c)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint64_t chosen = bt_time_experts(h->experts, m->rows);
    const uint64_t bytes = stored_bytes(m, m->outputs);
    m->rows = chosen * bt_pkg_expert_rows((uint32_t)c->rows, (uint32_t)((m->rows + chosen - 1) / chosen));
    m->weight_bytes = bt_time_times(bytes, chosen);
}

static bt_time_matrix matrix(const bt_pkg *p, uint32_t program, const bt_pkg_inst *i, uint64_t rows,
                             const bt_stage_chunk *c)
{
    const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i->tensor];
    const uint32_t inputs = i->site == BT_PKG_NONE ? 16 : bt_pkg_sites(p)[i->site].bits;
    bt_time_matrix m = {.rows = rows,
                        .inputs = i->in_width,
                        .outputs = i->out_width,
                        .weight_bits = t->palette_run ? 8 : t->bits,
                        .input_bits = inputs,
                        .group = t->group,
                        .weight_bytes =
                            t->palette_run ? bt_time_palette_bytes(i->in_width, i->out_width, t->bits) : 0,
                        .spill_bytes = bt_plan_spilled(p, program, i, (uint32_t)c->ctx)};
    if (bt_pkg_is_experts(i)) by_expert(&m, p, c);
    return m;
}

/* ns of the first use of so many outputs of m on an engine. */
static uint64_t first_use(const bt_profile *on, const bt_time_matrix *m, uint64_t outputs)
{
    if (!outputs) return 0;
    return bt_time_plus(bt_time_of(stored_bytes(m, outputs), on->time.first_weight_bytes_per_us),
                        on->time.first_launch_ns);
}

static void linear(bt_stage_inst *r, const bt_profile *on, const bt_pkg *p, uint32_t program,
                   const bt_pkg_inst *i, const bt_stage_chunk *c)
{
    const bt_time_matrix m = matrix(p, program, i, rows_of(p, program, i, c), c);
    r->ns = bt_time_of_matrix(on, &m);
    r->first_ns = first_use(on, &m, m.outputs);
    r->spill_ns = bt_time_of(m.spill_bytes, bt_time_activation_rate(&on->time));
    r->ops = bt_time_times(2 * m.rows, bt_time_times(m.inputs, m.outputs));
    r->bytes = bt_time_plus(stored_bytes(&m, m.outputs),
                            bt_time_times(m.rows, bt_time_scale(m.inputs + m.outputs, m.input_bits, 8)));
    r->bytes = bt_time_plus(r->bytes, m.spill_bytes);
}

/* ---- attention ---- */

/* The sparse attention of a layer, with each head's share. heads 0: the package attends densely. */
static bt_sparse sparse_of(const bt_pkg *p, uint32_t layer, uint32_t kv_elem_bits)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_attention a = bt_attention_of(h);
    bt_sparse s = {.heads = 0};
    if (!h->sparse_ppm) return s;
    const bt_pkg_head *head = bt_pkg_const_at(p, h->sparse_heads);
    s = (bt_sparse){.heads = h->heads,          .kv_heads = h->kv_heads,
                    .head_dim = h->head_dim,    .kv_elem_bits = kv_elem_bits,
                    .dense_rows = a.dense_rows, .rows = a.rows,
                    .is_group = a.is_group};
    for (uint32_t i = 0; i < h->heads; i++) s.ppm[i] = head[(size_t)layer * h->heads + i].ppm;
    return s;
}

static uint32_t kv_heads(const bt_pkg_header *h, const bt_pkg_slice *s)
{
    const uint32_t group = h->heads / h->kv_heads;
    return (s->head + s->heads - 1) / group - s->head / group + 1;
}

/* The attention of a slice over the rows of several prompts: the slice's share of all pairs, and all
 * positions. */
static bt_time_attention together(const bt_pkg_slice *s, const bt_stage_chunk *c, uint64_t fixed,
                                  uint64_t window)
{
    const bt_price_batch *all = c->batch;
    const uint64_t padding = all->rows < c->rows ? c->rows - all->rows : 0,
                   seen = bt_time_plus(window ? all->window_pairs : all->pairs,
                                       bt_time_pairs(all->end, padding, window)),
                   read = bt_time_plus(window ? all->window_positions : all->positions, padding),
                   pairs = fixed ? bt_time_times(c->rows, fixed) : seen,
                   ctx = fixed ? bt_time_times(all->prompts, fixed) : read;
    return (bt_time_attention){.rows = s->rows, .pairs = bt_time_scale(pairs, s->rows, c->rows), .ctx = ctx};
}

/* Adds the dense attention of a slice's s->rows rows. fixed: columns of a static context; 0: the columns that
 * each row sees. */
static void dense(bt_stage_inst *r, const bt_stage_engines *e, const bt_profile *on, const bt_pkg_header *h,
                  const bt_pkg_slice *s, const bt_stage_chunk *c, uint64_t fixed, uint64_t window)
{
    const uint64_t first = c->pos + s->row;
    bt_time_attention a = {
        .rows = s->rows,
        .pairs = fixed ? s->rows * fixed : bt_time_pairs(first, s->rows, window),
        .ctx = fixed ? fixed : bt_time_positions(first, s->rows, window),
    };
    if (c->batch) a = together(s, c, fixed, window);
    a.heads = s->heads;
    a.kv_heads = kv_heads(h, s);
    a.head_dim = h->head_dim;
    a.kv_elem_bits = kv_bits(e);
    r->ns = bt_time_plus(r->ns, bt_time_of_attention(on, &a));
    r->ops = bt_time_plus(r->ops, bt_time_times(a.pairs, (uint64_t)4 * a.heads * a.head_dim));
    r->bytes = bt_time_plus(r->bytes,
                            bt_time_times(a.ctx, (uint64_t)2 * a.kv_heads * a.head_dim * a.kv_elem_bits / 8));
}

/* Cuts a layer's sparse attention to the heads of a slice. Heads share a choice only where the slice has
 * whole groups. */
static void slice_of(bt_sparse *s, const bt_pkg_header *h, const bt_pkg_slice *at)
{
    s->is_group = s->is_group && at->heads % (h->heads / h->kv_heads) == 0;
    s->heads = at->heads;
    s->kv_heads = kv_heads(h, at);
    for (uint32_t i = 0; i < at->heads; i++) s->ppm[i] = s->ppm[at->head + i];
}

static void attention(bt_stage_inst *r, const bt_stage_engines *e, const bt_profile *on, const bt_pkg *p,
                      uint32_t program, const bt_pkg_inst *i, const bt_stage_chunk *c)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint64_t fixed = bt_pkg_columns(h, &bt_pkg_programs(p)[program], i->layer),
                   spilled = bt_plan_spilled(p, program, i, (uint32_t)c->ctx);
    bt_sparse s = sparse_of(p, i->layer, kv_bits(e));
    bt_pkg_slice at = bt_pkg_layout_slice(&h->layout, (uint32_t)rows_of(p, program, i, c), h->heads, i->arg);
    const uint64_t first = c->pos + at.row, all = at.rows,
                   before = s.heads ? bt_sparse_dense(&s, first, all) : all;
    r->ns = r->spill_ns = bt_time_of(spilled, bt_time_activation_rate(&on->time));
    r->bytes = spilled;
    at.rows = (uint32_t)before;
    if (before) dense(r, e, on, h, &at, c, fixed, bt_pkg_window(h, i->layer));
    else r->ns = bt_time_plus(r->ns, on->time.op_launch_ns);
    if (before == all) return;
    const bt_sparse_engines engines = {e->npu, e->companion,
                                       is_npu(i) ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION};
    slice_of(&s, h, &at);
    const bt_sparse_cost cost = bt_sparse_layer(&s, &engines, first + before, all - before, fixed, NULL);
    r->other_ns = cost.busy_ns[is_npu(i) ? BT_SCHEDULE_COMPANION : BT_SCHEDULE_NPU];
    r->ns = bt_time_plus(r->ns, cost.ns);
    r->ops = bt_time_plus(r->ops, cost.ops);
    r->bytes = bt_time_plus(r->bytes, cost.bytes);
}

/* ---- any instruction ---- */

/* Bytes that an instruction reads and writes for a row. */
static uint64_t moved_bytes(const bt_pkg_inst *i)
{
    const uint64_t in1 = i->in1 == BT_PKG_NOWHERE ? 0 : bt_areas_in1_stride(i);
    return bt_areas_in0_stride(i) + in1 + i->out_stride;
}

bt_stage_inst bt_stage_inst_cost(const bt_stage_engines *e, const bt_pkg *p, uint32_t program,
                                 const bt_pkg_inst *i, const bt_stage_chunk *c)
{
    const bt_profile *on = is_npu(i) ? e->npu : e->companion;
    bt_stage_inst r = {0};
    switch ((bt_op_price)bt_pkg_op_info_of(i->op)->price) {
    case BT_PRICED_MATRIX: linear(&r, on, p, program, i, c); break;
    case BT_PRICED_ATTENTION: attention(&r, e, on, p, program, i, c); break;
    case BT_PRICED_MOVED:
        r.bytes = rows_of(p, program, i, c) * moved_bytes(i);
        r.ns = i->op == BT_PKG_SESSION ? i->params : bt_time_of(r.bytes, bt_time_activation_rate(&on->time));
        break;
    }
    return r;
}

uint64_t bt_stage_sync(const bt_stage_engines *e, const bt_stage *stage, size_t j)
{
    if (!j || stage[j].is_npu == stage[j - 1].is_npu) return 0;
    return bt_time_sync(&e->npu->time, &e->companion->time);
}

/* ---- divided linears ---- */

static bool is_same(const bt_time_matrix *a, const bt_time_matrix *b)
{
    return a->rows == b->rows && a->inputs == b->inputs && a->outputs == b->outputs &&
           a->weight_bits == b->weight_bits && a->input_bits == b->input_bits && a->group == b->group &&
           a->weight_bytes == b->weight_bytes && a->spill_bytes == b->spill_bytes;
}

static const bt_split *solve(bt_stage_memo *memo, const bt_stage_engines *e, const bt_time_matrix *m)
{
    uint32_t k = 0;
    while (k < memo->used && !is_same(&memo->at[k].m, m)) k++;
    if (k == memo->used) { /* replaces the oldest */
        k = memo->next++ % BT_STAGE_MEMO;
        if (memo->used < BT_STAGE_MEMO) memo->used++;
        memo->at[k].m = *m;
        memo->at[k].split = bt_split_solve(e->npu, e->companion, m);
    }
    memo->ways[memo->at[k].split.way]++;
    return &memo->at[k].split;
}

/* The piece of a linear that is divided. The division does not depend on first use: where weights lie is
 * decided once. */
static bt_stage_piece divided(bt_stage_memo *memo, const bt_stage_engines *e, const bt_time_matrix *m,
                              bool is_first)
{
    const bt_split *s = solve(memo, e, m);
    const uint64_t beside = s->rows < m->rows ? m->outputs : m->outputs - s->outputs;
    bt_stage_piece piece = {.busy_ns = {s->npu_ns, s->companion_ns}, .way = s->way};
    if (is_first) {
        piece.busy_ns[BT_SCHEDULE_NPU] = bt_time_plus(s->npu_ns, first_use(e->npu, m, s->outputs));
        piece.busy_ns[BT_SCHEDULE_COMPANION] =
            bt_time_plus(s->companion_ns, first_use(e->companion, m, beside));
    }
    piece.ns = s->memory_ns;
    for (int k = 0; k < BT_SCHEDULE_ENGINES; k++)
        if (piece.busy_ns[k] > piece.ns) piece.ns = piece.busy_ns[k];
    piece.ns = bt_time_plus(piece.ns, s->join_ns);
    return piece;
}

/* ns of an instruction on its own engine, with its first use where that is due. */
static uint64_t whole(const bt_stage_engines *e, const bt_pkg *p, uint32_t program, const bt_pkg_inst *i,
                      const bt_stage_chunk *c)
{
    const bt_stage_inst r = bt_stage_inst_cost(e, p, program, i, c);
    return bt_stage_is_first_use(i, c) ? bt_time_plus(r.ns, r.first_ns) : r.ns;
}

uint64_t bt_stage_cost_split(bt_stage_memo *memo, const bt_stage_engines *e, const bt_pkg *p,
                             uint32_t program, const bt_stage *stage, const bt_stage_chunk *c,
                             void (*piece)(void *ud, const bt_stage_piece *piece), void *ud)
{
    const bt_pkg_inst *code = bt_pkg_code(p, program) + stage->first;
    const int engine = stage->is_npu ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION;
    const bt_profile *on = stage->is_npu ? e->npu : e->companion;
    bt_stage_piece alone = {.way = stage->is_npu ? BT_SPLIT_NPU : BT_SPLIT_COMPANION};
    uint64_t sum = 0;
    alone.ns = stage->is_dispatch ? on->time.dispatch_ns : 0;
    for (uint32_t n = 0; n < stage->insts; n++) {
        bt_stage_piece both = {.way = BT_SPLIT_NPU};
        if (stage->is_npu && bt_pkg_is_linear(&code[n])) {
            const bt_time_matrix m = matrix(p, program, &code[n], rows_of(p, program, &code[n], c), c);
            both = divided(memo, e, &m, bt_stage_is_first_use(&code[n], c));
        }
        if (both.way == BT_SPLIT_NPU) alone.ns = bt_time_plus(alone.ns, whole(e, p, program, &code[n], c));
        if (n + 1 < stage->insts && both.way == BT_SPLIT_NPU) continue;
        alone.busy_ns[engine] = alone.ns;
        if (piece && alone.ns) piece(ud, &alone);
        if (piece && both.way != BT_SPLIT_NPU) piece(ud, &both);
        sum = bt_time_plus(sum, bt_time_plus(alone.ns, both.way == BT_SPLIT_NPU ? 0 : both.ns));
        alone.ns = 0;
    }
    return sum;
}
