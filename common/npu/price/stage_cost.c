/* From an instruction to the operator that device/time.h prices. */
#include "npu/price/stage_cost.h"
#include "npu/lower/plan.h"
#include "npu/price/price_pkg.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_layout.h"

static bool is_linear(const bt_pkg_inst *i) { return bt_pkg_is_npu_linear(i) || i->op == BT_PKG_LINEAR_F16; }

static bt_time_matrix matrix(const bt_pkg *p, uint32_t program, const bt_pkg_inst *i, uint64_t rows,
                             const bt_stage_chunk *c)
{
    const bt_pkg_tensor *t = &bt_pkg_tensors(p)[i->tensor];
    const uint32_t inputs = i->site == BT_PKG_NONE ? 16 : bt_pkg_sites(p)[i->site].bits;
    return (bt_time_matrix){.rows = rows,
                            .inputs = i->in_width,
                            .outputs = i->out_width,
                            .weight_bits = t->bits,
                            .input_bits = inputs,
                            .group = t->group,
                            .spill_bytes = bt_plan_spilled(p, program, i, (uint32_t)c->ctx)};
}

/* What the first use of so many outputs of m costs this engine. */
static uint64_t first_use(const bt_profile *on, const bt_time_matrix *m, uint64_t outputs)
{
    if (!outputs) return 0;
    return bt_time_plus(bt_time_of(m->inputs * outputs * m->weight_bits / 8,
                                   on->time.first_weight_bytes_per_us),
                        on->time.first_launch_ns);
}

static uint64_t linear(const bt_profile *on, const bt_pkg *p, uint32_t program, const bt_pkg_inst *i,
                       uint64_t rows, const bt_stage_chunk *c)
{
    const bt_time_matrix m = matrix(p, program, i, rows, c);
    const uint64_t ns = bt_time_of_matrix(on, &m);
    return c->is_first ? bt_time_plus(ns, first_use(on, &m, m.outputs)) : ns;
}

/* Of one slice, its first rows, densely: by the columns that they see. */
static uint64_t dense(const bt_profile *on, const bt_pkg *p, const bt_pkg_slice *s, uint64_t first,
                      uint64_t fixed)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t group = h->heads / h->kv_heads;
    const bt_time_attention a = {
        .rows = s->rows,
        .pairs = fixed ? s->rows * fixed : s->rows * first + (uint64_t)s->rows * (s->rows + 1) / 2,
        .ctx = fixed ? fixed : first + s->rows,
        .heads = s->heads,
        .kv_heads = (s->head + s->heads - 1) / group - s->head / group + 1,
        .head_dim = h->head_dim,
        .kv_elem_bits = 16,
    };
    return bt_time_of_attention(on, &a);
}

/* The heads of a slice. Where the heads of a group share a choice, those that are in it. */
static void slice_of(bt_sparse *s, const bt_pkg_slice *at)
{
    const uint32_t group = s->heads / s->kv_heads,
                   kv_heads = (at->head + at->heads - 1) / group - at->head / group + 1;
    s->is_group = s->is_group && at->heads % group == 0;
    s->heads = at->heads;
    s->kv_heads = kv_heads;
    for (uint32_t i = 0; i < at->heads; i++) s->ppm[i] = s->ppm[at->head + i];
}

/* One slice. other_ns: what the engine beside does in it. */
static uint64_t attention(uint64_t *other_ns, const bt_stage_engines *e, bool is_npu, const bt_pkg *p,
                          uint32_t program, const bt_pkg_inst *i, uint64_t rows, const bt_stage_chunk *c)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_profile *on = is_npu ? e->npu : e->companion;
    const uint64_t fixed = bt_pkg_programs(p)[program].ctx;
    bt_sparse s = bt_price_pkg_sparse(p, i->layer, 16);
    bt_pkg_slice at = bt_pkg_layout_slice(&h->layout, (uint32_t)rows, h->heads, i->arg);
    const uint64_t first = c->pos + at.row, all = at.rows,
                   before = s.heads ? bt_sparse_dense(&s, first, all) : all;
    uint64_t ns =
        bt_time_of(bt_plan_spilled(p, program, i, (uint32_t)c->ctx), bt_time_activation_rate(&on->time));
    at.rows = (uint32_t)before;
    if (before) ns = bt_time_plus(ns, dense(on, p, &at, first, fixed));
    else ns = bt_time_plus(ns, on->time.op_launch_ns);
    if (before == all) return ns;
    const bt_sparse_engines engines = {e->npu, e->companion,
                                       is_npu ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION};
    slice_of(&s, &at);
    const bt_sparse_cost cost = bt_sparse_layer(&s, &engines, first + before, all - before, fixed, NULL);
    *other_ns = bt_time_plus(*other_ns, cost.busy_ns[is_npu ? BT_SCHEDULE_COMPANION : BT_SCHEDULE_NPU]);
    return bt_time_plus(ns, cost.ns);
}

static uint64_t instruction(uint64_t *other_ns, const bt_stage_engines *e, bool is_npu, const bt_pkg *p,
                            uint32_t program, const bt_pkg_inst *i, const bt_stage_chunk *c)
{
    const bt_profile *on = is_npu ? e->npu : e->companion;
    const uint64_t rows = i->out_rows ? bt_pkg_programs(p)[program].out : c->rows;
    if (i->op == BT_PKG_SESSION) return i->params;
    if (is_linear(i)) return linear(on, p, program, i, rows, c);
    if (bt_pkg_is_attention(i)) return attention(other_ns, e, is_npu, p, program, i, rows, c);
    const uint64_t in1 = i->in1 == BT_PKG_NOWHERE ? 0 : i->in_stride;
    const uint64_t bytes = rows * ((uint64_t)i->in_stride + in1 + i->out_stride);
    return bt_time_of(bytes, bt_time_activation_rate(&on->time));
}

static uint64_t stage_cost(uint64_t *other_ns, const bt_stage_engines *e, const bt_pkg *p, uint32_t program,
                           const bt_stage *stage, const bt_stage_chunk *c)
{
    const bt_pkg_inst *code = bt_pkg_code(p, program) + stage->first;
    uint64_t ns = stage->is_dispatch ? e->npu->time.dispatch_ns : 0;
    for (uint32_t n = 0; n < stage->insts; n++)
        ns = bt_time_plus(ns, instruction(other_ns, e, stage->is_npu, p, program, &code[n], c));
    return ns;
}

uint64_t bt_stage_cost(const bt_stage_engines *e, const bt_pkg *p, uint32_t program, const bt_stage *stage,
                       const bt_stage_chunk *c)
{
    uint64_t other_ns = 0;
    return stage_cost(&other_ns, e, p, program, stage, c);
}

uint64_t bt_stage_sync(const bt_stage_engines *e, const bt_stage *stage, size_t j)
{
    if (!j || stage[j].is_npu == stage[j - 1].is_npu) return 0;
    return bt_time_sync(&e->npu->time, &e->companion->time);
}

void bt_stage_costs(uint64_t *ret, const bt_stage_engines *e, const bt_pkg *p, uint32_t program,
                    const bt_stage *stage, size_t n, const bt_stage_chunk *c)
{
    uint64_t owed[BT_SCHEDULE_ENGINES] = {0, 0};
    for (size_t j = 0; j < n; j++) {
        uint64_t *own = &owed[stage[j].is_npu ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION],
                 *other = &owed[stage[j].is_npu ? BT_SCHEDULE_COMPANION : BT_SCHEDULE_NPU];
        ret[j] = bt_time_plus(stage_cost(other, e, p, program, &stage[j], c), bt_stage_sync(e, stage, j));
        if (!e->overlap) continue;
        ret[j] = bt_time_plus(ret[j], *own);
        *own = 0;
    }
}

/* ---- divided linears ---- */

static bool is_same(const bt_time_matrix *a, const bt_time_matrix *b)
{
    return a->rows == b->rows && a->inputs == b->inputs && a->outputs == b->outputs &&
           a->weight_bits == b->weight_bits && a->input_bits == b->input_bits &&
           a->spill_bytes == b->spill_bytes;
}

static const bt_split *solve(bt_stage_memo *memo, const bt_stage_engines *e, const bt_time_matrix *m)
{
    uint32_t k = 0;
    while (k < memo->used && !is_same(&memo->at[k].m, m)) k++;
    if (k == memo->used) { /* the oldest gives its place */
        k = memo->next++ % BT_STAGE_MEMO;
        if (memo->used < BT_STAGE_MEMO) memo->used++;
        memo->at[k].m = *m;
        memo->at[k].split = bt_split_solve(e->npu, e->companion, m);
    }
    memo->ways[memo->at[k].split.way]++;
    return &memo->at[k].split;
}

/* The division was found without first use: where weights lie is decided once. */
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

uint64_t bt_stage_cost_split(bt_stage_memo *memo, const bt_stage_engines *e, const bt_pkg *p,
                             uint32_t program, const bt_stage *stage, const bt_stage_chunk *c,
                             void (*piece)(void *ud, const bt_stage_piece *piece), void *ud)
{
    const bt_pkg_inst *code = bt_pkg_code(p, program) + stage->first;
    const int engine = stage->is_npu ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION;
    const bt_profile *on = stage->is_npu ? e->npu : e->companion;
    bt_stage_piece alone = {.way = stage->is_npu ? BT_SPLIT_NPU : BT_SPLIT_COMPANION};
    uint64_t sum = 0, other_ns = 0;
    alone.ns = stage->is_dispatch ? on->time.dispatch_ns : 0;
    for (uint32_t n = 0; n < stage->insts; n++) {
        bt_stage_piece both = {.way = BT_SPLIT_NPU};
        if (stage->is_npu && is_linear(&code[n])) {
            const uint64_t rows = code[n].out_rows ? bt_pkg_programs(p)[program].out : c->rows;
            const bt_time_matrix m = matrix(p, program, &code[n], rows, c);
            both = divided(memo, e, &m, c->is_first);
        }
        if (both.way == BT_SPLIT_NPU)
            alone.ns =
                bt_time_plus(alone.ns, instruction(&other_ns, e, stage->is_npu, p, program, &code[n], c));
        if (n + 1 < stage->insts && both.way == BT_SPLIT_NPU) continue;
        alone.busy_ns[engine] = alone.ns;
        if (piece && alone.ns) piece(ud, &alone);
        if (piece && both.way != BT_SPLIT_NPU) piece(ud, &both);
        sum = bt_time_plus(sum, bt_time_plus(alone.ns, both.way == BT_SPLIT_NPU ? 0 : both.ns));
        alone.ns = 0;
    }
    return sum;
}
