/* Programs are summed once into lines over pairs and positions, because attention is linear in both. */
#include "device/price.h"
#include "base/wide.h"

#include <inttypes.h>

enum { FRACTION = 32 };

static uint64_t plus(uint64_t a, uint64_t b) { return bt_time_plus(a, b); }
static uint64_t times(uint64_t a, uint64_t b) { return bt_time_times(a, b); }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint32_t share(const bt_profile_time *t) { return t->devices ? t->devices : 1; }

bt_err bt_price_begin(bt_price *ret, const bt_profile *profile, bt_fault *fault)
{
    if (!profile->time.is_given)
        return bt_fail(
            fault, BT_EARG,
            "profile '%s' has no time, so nothing on it can be priced; 'baton profiles' lists those "
            "that have one",
            profile->name);
    *ret = (bt_price){.profile = *profile, .companion = *profile};
    return BT_OK;
}

/* Its part of a group's device. */
static bt_time_matrix part_of(const bt_price_op *op, uint32_t devices)
{
    bt_time_matrix m = op->matrix;
    uint64_t *divided = op->is_row_split ? &m.inputs : &m.outputs;
    *divided = (*divided + devices - 1) / devices;
    m.weight_bytes = (m.weight_bytes + devices - 1) / devices;
    m.spill_bytes = (m.spill_bytes + devices - 1) / devices;
    return m;
}

static uint64_t stored_bytes(const bt_time_matrix *m)
{
    return m->weight_bytes ? m->weight_bytes : times(m->inputs, bt_time_scale(m->outputs, m->weight_bits, 8));
}

static uint64_t add_op(bt_price_program *g, const bt_profile *p, const bt_price_op *op)
{
    const bt_profile_time *t = &p->time;
    uint64_t ns, bytes = op->bytes;
    if (op->matrix.inputs) {
        const bt_time_matrix m = part_of(op, share(t));
        ns = bt_time_of_matrix(p, &m);
        if (op->is_row_split) ns = plus(ns, bt_time_all_reduce(t, 2 * times(m.rows, m.outputs)));
        bytes = plus(stored_bytes(&op->matrix),
                     times(m.rows, bt_time_scale(op->matrix.inputs + op->matrix.outputs, m.input_bits, 8)));
        bytes = plus(bytes, m.spill_bytes);
        g->spill_ns =
            plus(g->spill_ns, times(bt_time_of(m.spill_bytes, bt_time_activation_rate(t)), op->count));
        g->ops.fixed =
            plus(g->ops.fixed,
                 times(times(2 * m.rows, times(op->matrix.inputs, op->matrix.outputs)), op->count));
    } else if (op->is_dispatch) {
        ns = t->dispatch_ns;
    } else if (op->fixed_ns) {
        ns = op->fixed_ns;
    } else {
        ns = bt_time_of(op->bytes, bt_time_activation_rate(t)); /* in the launch of the matrices around it */
    }
    ns = times(ns, op->count);
    g->bytes.fixed = plus(g->bytes.fixed, times(bytes, op->count));
    g->part_ns[op->part] = plus(g->part_ns[op->part], ns);
    return ns;
}

/* By 2^FRACTION, of all layers. */
static uint64_t slope(uint64_t n, uint64_t per_us, uint32_t layers)
{
    return bt_time_scale(times(n, (uint64_t)layers * 1000), UINT64_C(1) << FRACTION, per_us);
}

static void add_attention(bt_price_program *g, const bt_profile *p, const bt_price_attention *a)
{
    const bt_profile_time *t = &p->time;
    const uint64_t heads = (a->heads + share(t) - 1) / share(t);
    const uint64_t kv = (uint64_t)2 * a->kv_heads * a->head_dim * a->kv_elem_bits / 8;
    const uint64_t ops = (uint64_t)4 * a->heads * a->head_dim;
    g->ctx = a->ctx;
    g->compute.pair = slope(4 * heads * a->head_dim, bt_time_rate(t, g->rows, 16, 16), a->layers);
    g->memory.position = slope((kv + share(t) - 1) / share(t), bt_time_activation_rate(t), a->layers);
    g->scores.pair = t->score_elements_per_us ? slope(heads, t->score_elements_per_us, a->layers) : 0;
    g->ops.pair = times(ops * a->layers, UINT64_C(1) << FRACTION);
    g->bytes.position = times(kv * a->layers, UINT64_C(1) << FRACTION);
    g->compute.fixed = plus(g->compute.fixed, times(t->op_launch_ns, a->layers));
    g->attention_part = a->part;
    g->part_ns[a->part] = plus(g->part_ns[a->part], times(t->op_launch_ns, a->layers));
}

bt_err bt_price_add(bt_price *p, uint32_t rows, const bt_price_op *op, size_t n, const bt_price_attention *a,
                    bt_fault *fault)
{
    const bt_profile_time *t = &p->profile.time;
    bt_price_program g = {.rows = rows};
    uint64_t weights = 0, ops = 0;
    if (p->programs == BT_PRICE_MAX_PROGRAMS)
        return bt_fail(fault, BT_ELIMIT, "more than %d programs to price", BT_PRICE_MAX_PROGRAMS);
    if (!rows || (p->programs && rows <= p->program[p->programs - 1].rows))
        return bt_fail(fault, BT_EARG, "a program of %u rows; each needs more than the one before",
                       (unsigned)rows);
    for (size_t i = 0; i < n; i++) {
        g.compute.fixed =
            plus(g.compute.fixed, add_op(&g, op[i].is_companion ? &p->companion : &p->profile, &op[i]));
        if (op[i].is_companion || !op[i].matrix.inputs) continue;
        weights = plus(weights, times(stored_bytes(&op[i].matrix), op[i].count));
        ops += op[i].count;
    }
    add_attention(&g, a->is_companion ? &p->companion : &p->profile, a);
    if (a->sparse) {
        p->sparse = *a->sparse;
        p->sparse.heads = (a->sparse->heads + share(t) - 1) / share(t);
        p->sparse.kv_heads = (a->sparse->kv_heads + share(t) - 1) / share(t);
        p->sparse_layers = a->layers;
        p->sparse_on_npu = !a->is_companion;
    }
    if (!p->programs)
        p->first_ns = plus(times(ops, t->first_launch_ns),
                           bt_time_of(weights / share(t), t->first_weight_bytes_per_us));
    p->compile_ns = plus(p->compile_ns, t->program_compile_ns);
    p->program[p->programs++] = g;
    return BT_OK;
}

void bt_price_last(bt_price *p, const bt_price_op *op)
{
    bt_price_program g = {.rows = 1};
    p->last_ns = plus(p->last_ns, add_op(&g, op->is_companion ? &p->companion : &p->profile, op));
    p->last_ops = plus(p->last_ops, g.ops.fixed);
    p->last_bytes = plus(p->last_bytes, g.bytes.fixed);
}

static bt_price_op shape_op(uint64_t rows, uint64_t in, uint64_t out, uint32_t count,
                            const bt_price_recipe *r)
{
    const uint64_t permille = r->weight_bytes_permille ? r->weight_bytes_permille : r->weight_bits * 125;
    return (bt_price_op){
        .matrix = {rows, in, out, r->weight_bits, r->input_bits, r->group,
                   bt_time_scale(in * out, permille, 1000), 0, false},
        .count = count,
    };
}

bt_err bt_price_of_dims(bt_price *ret, const bt_profile *profile, const bt_dims *s, const bt_price_recipe *r,
                        const uint32_t *program_rows, size_t n, bt_fault *fault)
{
    bt_price p;
    bt_dims_matrix m[BT_DIMS_MATRICES];
    bt_price_op op[BT_DIMS_MATRICES + 1];
    const size_t matrices = bt_dims_matrices(m, s);
    const bt_price_attention a = {
        .layers = s->layers,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = s->head_dim,
        .kv_elem_bits = r->kv_elem_bits,
        .ctx = r->ctx,
    };
    const bt_price_op head = shape_op(1, s->hidden, s->vocab, 1, r);
    bt_err e = bt_price_begin(&p, profile, fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        for (size_t k = 0; k < matrices; k++) {
            op[k] = shape_op(program_rows[i], m[k].inputs, m[k].outputs, s->layers, r);
            op[k].is_row_split = m[k].is_row_split;
        }
        op[matrices] = (bt_price_op){.is_dispatch = true, .count = 1}; /* one graph has it all */
        e = bt_price_add(&p, program_rows[i], op, matrices + 1, &a, fault);
    }
    if (e == BT_OK) bt_price_last(&p, &head);
    if (e == BT_OK) *ret = p;
    return e;
}

static uint64_t at(const bt_price_line *l, uint64_t pairs, uint64_t positions)
{
    const bt_wide lines = bt_wide_add(bt_wide_mul(l->pair, pairs), bt_wide_mul(l->position, positions));
    return bt_wide_clamp(bt_wide_add(bt_wide_of(l->fixed), bt_wide_right(lines, FRACTION)), INT64_MAX);
}

/* Rows behind `first` see first + 1, first + 2, ... columns. */
static uint64_t pairs_of(uint64_t first, uint64_t rows)
{
    const bt_wide before = bt_wide_mul(rows, first), own = bt_wide_right(bt_wide_mul(rows, rows + 1), 1);
    return bt_wide_clamp(bt_wide_add(before, own), INT64_MAX);
}

/* Columns of a program that is static in them; 0: of no such program. */
static uint64_t columns_of(const bt_price_program *g, uint64_t first)
{
    uint64_t ctx = g->ctx;
    while (ctx && ctx < first + g->rows) ctx *= 2;
    return ctx;
}

/* What the first `rows` rows of a chunk see. */
static void look(const bt_price_program *g, uint64_t first, uint64_t rows, uint64_t *pairs,
                 uint64_t *positions)
{
    const uint64_t ctx = columns_of(g, first);
    *positions = !rows ? 0 : ctx ? ctx : first + rows;
    *pairs = ctx ? rows * ctx : pairs_of(first, rows);
}

uint32_t bt_price_program_for(const bt_price *p, uint64_t rows)
{
    uint32_t i = 0;
    while (i + 1 < p->programs && p->program[i].rows < rows) i++;
    return i;
}

/* The rows of a chunk that choose what they attend to, all layers. */
static bt_sparse_cost sparse_rows(const bt_price *p, const bt_price_program *g, uint64_t first,
                                  uint64_t dense)
{
    const bt_sparse_engines e = {&p->profile, &p->companion,
                                 p->sparse_on_npu ? BT_SCHEDULE_NPU : BT_SCHEDULE_COMPANION};
    bt_sparse_cost c = {0};
    if (dense == g->rows) return c;
    c = bt_sparse_layer(&p->sparse, &e, first + dense, g->rows - dense, columns_of(g, first), NULL);
    c.ns = times(c.ns, p->sparse_layers);
    c.busy_ns[BT_SCHEDULE_NPU] = times(c.busy_ns[BT_SCHEDULE_NPU], p->sparse_layers);
    c.ops = times(c.ops, (uint64_t)p->sparse_layers * share(&p->profile.time));
    c.bytes = times(c.bytes, (uint64_t)p->sparse_layers * share(&p->profile.time));
    return c;
}

/* Rows that see so many pairs and positions densely, beside those that choose. What is fixed stands in
 * `compute`; attention is the longer of its two lines. */
static bt_price_sum seeing(const bt_price_program *g, uint64_t pairs, uint64_t positions,
                           const bt_sparse_cost *sparse)
{
    const uint64_t compute = at(&g->compute, pairs, 0),
                   memory = plus(g->compute.fixed, at(&g->memory, 0, positions));
    return (bt_price_sum){
        .ns = plus(plus(most(compute, memory), at(&g->scores, pairs, 0)), sparse->ns),
        .ops = plus(at(&g->ops, pairs, positions), sparse->ops),
        .bytes = plus(at(&g->bytes, pairs, positions), sparse->bytes),
    };
}

static bt_price_sum chunk(const bt_price *p, const bt_price_program *g, uint64_t first)
{
    const uint64_t dense = p->sparse.heads ? bt_sparse_dense(&p->sparse, first, g->rows) : g->rows;
    const bt_sparse_cost sparse = sparse_rows(p, g, first, dense);
    uint64_t pairs, positions;
    look(g, first, dense, &pairs, &positions);
    return seeing(g, pairs, positions, &sparse);
}

uint64_t bt_price_chunk_ns(const bt_price *p, uint32_t i, uint64_t first)
{
    return chunk(p, &p->program[i], first).ns;
}

uint64_t bt_price_estimate_ns(const bt_price *p, uint32_t i, uint64_t first)
{
    const bt_price_program *g = &p->program[i];
    if (!p->sparse.heads || p->sparse_on_npu) return 0;
    return sparse_rows(p, g, first, bt_sparse_dense(&p->sparse, first, g->rows)).busy_ns[BT_SCHEDULE_NPU];
}

static void add_chunk(bt_price_sum *sum, const bt_price_program *g, const bt_price_sum *c)
{
    uint64_t *attention = &sum->part_ns[g->attention_part];
    sum->ns = plus(sum->ns, c->ns);
    sum->ops = plus(sum->ops, c->ops);
    sum->bytes = plus(sum->bytes, c->bytes);
    for (int k = 0; k < BT_PRICE_PARTS; k++) sum->part_ns[k] = plus(sum->part_ns[k], g->part_ns[k]);
    *attention = plus(*attention, c->ns - g->compute.fixed);
    sum->spill_ns = plus(sum->spill_ns, g->spill_ns);
    sum->chunks++;
}

void bt_price_add_chunk(bt_price_sum *sum, const bt_price *p, uint32_t i, uint64_t first)
{
    const bt_price_sum c = chunk(p, &p->program[i], first);
    add_chunk(sum, &p->program[i], &c);
}

void bt_price_batch_add(bt_price_batch *s, uint64_t first, uint64_t rows)
{
    s->prompts++;
    s->rows = plus(s->rows, rows);
    s->pairs = plus(s->pairs, pairs_of(first, rows));
    s->end = plus(first, rows);
    s->positions = plus(s->positions, s->end);
    s->most = most(s->most, s->end);
}

void bt_price_add_batch(bt_price_sum *sum, const bt_price *p, uint32_t i, const bt_price_batch *s)
{
    const bt_price_program *g = &p->program[i];
    const bt_sparse_cost none = {0};
    const uint64_t padding = s->rows < g->rows ? g->rows - s->rows : 0;
    uint64_t ctx = g->ctx;
    while (ctx && ctx < most(s->most, s->end + padding)) ctx *= 2;
    const uint64_t pairs = ctx ? times(g->rows, ctx) : plus(s->pairs, pairs_of(s->end, padding)),
                   positions = ctx ? times(s->prompts, ctx) : plus(s->positions, padding);
    const bt_price_sum c = seeing(g, pairs, positions, &none);
    add_chunk(sum, g, &c);
}

bt_price_sum bt_price_prompt(const bt_price *p, uint64_t tokens)
{
    bt_price_sum s = {0};
    if (!tokens) return s;
    s.ns = plus(p->first_ns, p->last_ns);
    s.ops = p->last_ops;
    s.bytes = p->last_bytes;
    uint32_t i = p->programs - 1;
    for (uint64_t first = 0; first < tokens; first += p->program[i].rows) {
        while (i && p->program[i - 1].rows >= tokens - first) i--;
        bt_price_add_chunk(&s, p, i, first);
    }
    return s;
}

bt_price_model bt_price_model_of(const bt_dims *s, const bt_price_recipe *r)
{
    bt_dims_matrix m[BT_DIMS_MATRICES];
    const uint64_t body = bt_dims_body(s), head = bt_dims_head(s);
    const uint64_t permille = r->weight_bytes_permille ? r->weight_bytes_permille : r->weight_bits * 125;
    return (bt_price_model){
        .body_weights = body,
        .head_weights = head,
        .weight_bytes = bt_time_scale(body + head, permille, 1000),
        .kv_bytes = bt_dims_kv_bytes(s, r->kv_elem_bits),
        .operators = (uint32_t)(bt_dims_matrices(m, s) + 1) * s->layers + 1,
        .layers = s->layers,
        .hidden = s->hidden,
        .heads = s->heads,
        .head_dim = s->head_dim,
        .weight_bits = r->weight_bits,
        .input_bits = r->input_bits,
    };
}

bt_err bt_price_check_memory(const bt_profile *p, const bt_price_model *m, const char *name, bt_fault *fault)
{
    const uint64_t has = times(p->memory_bytes, p->time.devices ? p->time.devices : 1);
    if (!has || m->weight_bytes <= has) return BT_OK;
    return bt_fail(fault, BT_ELIMIT,
                   "'%s' has %" PRIu64 " bytes of memory, and the weights of '%.40s' are %" PRIu64
                   "; a smaller form of weights or a larger device would do",
                   p->name, has, name ? name : "the model", m->weight_bytes);
}

bt_price_sum bt_price_step_of(const bt_profile *p, const bt_price_model *m, const bt_price_step *s)
{
    const bt_profile_time *t = &p->time;
    const uint64_t attention = times(s->pairs, (uint64_t)4 * m->layers * m->heads * m->head_dim);
    const uint64_t linear = plus(times(2 * m->body_weights, s->rows), times(2 * m->head_weights, s->logits));
    bt_price_sum r = {.chunks = 1};
    r.ops = plus(linear, attention);
    r.bytes = plus(m->weight_bytes, times(m->kv_bytes, s->positions));
    const uint64_t compute =
        plus(bt_time_of(linear / share(t), bt_time_rate(t, s->rows, m->input_bits, m->weight_bits)),
             bt_time_of(attention / share(t), bt_time_rate(t, s->rows, 16, 16)));
    r.ns = most(compute, bt_time_of(r.bytes / share(t), bt_time_decode_rate(t)));
    r.ns = plus(r.ns, plus(t->dispatch_ns, times(m->operators, t->decode_op_ns)));
    r.ns = plus(r.ns, times(2 * (uint64_t)m->layers, bt_time_all_reduce(t, times(2 * s->rows, m->hidden))));
    return r;
}

uint64_t bt_price_first_use(const bt_profile *p, const bt_price_model *m)
{
    const bt_profile_time *t = &p->time;
    return plus(times(m->operators, t->first_launch_ns),
                bt_time_of(m->weight_bytes / share(t), t->first_weight_bytes_per_us));
}

bt_price_step bt_price_decode_step(uint64_t batch, uint64_t ctx)
{
    return (bt_price_step){batch, batch, times(batch, ctx), times(batch, ctx)};
}

bt_price_step bt_price_prefill_step(uint64_t first, uint64_t rows)
{
    return (bt_price_step){rows, 1, pairs_of(first, rows), plus(first, rows)};
}
