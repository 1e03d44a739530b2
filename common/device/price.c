/* Programs are summed once into lines over pairs and positions, because attention is linear in both. */
#include "device/price.h"
#include "base/wide.h"

#include <inttypes.h>
#include <string.h>

enum { FRACTION = 32 };

static uint64_t plus(uint64_t a, uint64_t b) { return bt_time_plus(a, b); }
static uint64_t times(uint64_t a, uint64_t b) { return bt_time_times(a, b); }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
/* Among how many devices KV is divided. kv_heads 0: not known. */
static uint32_t kv_share(const bt_profile_time *t, uint32_t kv_heads)
{
    return kv_heads && kv_heads < bt_profile_devices(t) ? kv_heads : bt_profile_devices(t);
}

bt_err bt_price_need_time(const bt_profile *profile, bt_fault *fault)
{
    if (profile->time.is_given) return BT_OK;
    return bt_fail(
        fault, BT_EARG,
        "profile '%s' has no time, so nothing on it can be priced; 'baton profiles' lists those that "
        "have one",
        profile->name);
}

bt_err bt_price_begin(bt_price *ret, const bt_profile *profile, bt_fault *fault)
{
    const bt_err e = bt_price_need_time(profile, fault);
    if (e == BT_OK) *ret = (bt_price){.profile = *profile};
    return e;
}

/* A matrix of a program, `count` times. */
typedef struct op {
    bt_time_matrix matrix;
    bool is_row_split; /* in a group of devices: its inputs are divided, not its outputs */
    uint32_t count;
} op;

/* The part of one device in a group. */
static bt_time_matrix part_of(const op *o, uint32_t devices)
{
    bt_time_matrix m = o->matrix;
    uint64_t *divided = o->is_row_split ? &m.inputs : &m.outputs;
    *divided = (*divided + devices - 1) / devices;
    m.weight_bytes = (m.weight_bytes + devices - 1) / devices;
    return m;
}

static uint64_t stored_bytes(const bt_time_matrix *m)
{
    return m->weight_bytes ? m->weight_bytes : times(m->inputs, bt_time_scale(m->outputs, m->weight_bits, 8));
}

static uint64_t add_op(bt_price_program *g, const bt_profile *p, const op *o)
{
    const bt_time_matrix m = part_of(o, bt_profile_devices(&p->time));
    const uint64_t sum = o->is_row_split ? bt_time_all_reduce(&p->time, 2 * times(m.rows, m.outputs)) : 0,
                   ns = plus(bt_time_of_matrix(p, &m), sum);
    g->all_reduce_ns = plus(g->all_reduce_ns, times(sum, o->count));
    g->launch_ns = plus(g->launch_ns, times(p->time.op_launch_ns, o->count));
    const uint64_t bytes =
        plus(stored_bytes(&o->matrix),
             times(m.rows, bt_time_scale(o->matrix.inputs + o->matrix.outputs, m.input_bits, 8)));
    g->ops.fixed =
        plus(g->ops.fixed, times(times(2 * m.rows, times(o->matrix.inputs, o->matrix.outputs)), o->count));
    g->bytes.fixed = plus(g->bytes.fixed, times(bytes, o->count));
    return times(ns, o->count);
}

/* By 2^FRACTION, of all layers. */
static uint64_t slope(uint64_t n, uint64_t per_us, uint32_t layers)
{
    return bt_time_scale(times(n, (uint64_t)layers * 1000), UINT64_C(1) << FRACTION, per_us);
}

static void add_attention(bt_price_program *g, const bt_profile *p, const bt_dims *s,
                          const bt_price_recipe *r)
{
    const bt_profile_time *t = &p->time;
    const uint64_t heads = (s->heads + bt_profile_devices(t) - 1) / bt_profile_devices(t);
    const uint64_t kv = (uint64_t)2 * s->kv_heads * s->head_dim * r->kv_elem_bits / 8;
    const uint64_t ops = (uint64_t)4 * s->heads * s->head_dim;
    g->ctx = r->ctx;
    g->compute.pair = slope(4 * heads * s->head_dim, bt_time_rate(t, g->rows, 16, 16), s->layers);
    const uint32_t held = kv_share(t, s->kv_heads);
    g->memory.position = slope((kv + held - 1) / held, bt_time_activation_rate(t), s->layers);
    g->scores.pair = t->score_elements_per_us ? slope(heads, t->score_elements_per_us, s->layers) : 0;
    g->ops.pair = times(ops * s->layers, UINT64_C(1) << FRACTION);
    g->bytes.position = times(kv * s->layers, UINT64_C(1) << FRACTION);
    g->compute.fixed = plus(g->compute.fixed, times(t->op_launch_ns, s->layers));
    g->launch_ns = plus(g->launch_ns, times(t->op_launch_ns, s->layers));
}

static op shape_op(uint64_t rows, uint64_t in, uint64_t out, uint32_t count, const bt_price_recipe *r)
{
    const uint64_t permille = r->weight_bytes_permille ? r->weight_bytes_permille : r->weight_bits * 125;
    return (op){
        .matrix = {rows, in, out, r->weight_bits, r->input_bits, r->group,
                   bt_time_scale(in * out, permille, 1000), 0, false},
        .count = count,
    };
}

/* One graph has it all. The first program that is added says what a prompt's first use costs. */
static bt_err add_program(bt_price *p, uint32_t rows, const bt_dims *s, const bt_price_recipe *r,
                          bt_fault *fault)
{
    const bt_profile_time *t = &p->profile.time;
    bt_dims_matrix m[BT_DIMS_MATRICES];
    bt_price_program g = {.rows = rows, .compute.fixed = t->dispatch_ns, .launch_ns = t->dispatch_ns};
    uint64_t weights = 0, ops = 0;
    const size_t matrices = bt_dims_matrices(m, s);
    if (p->programs == BT_PRICE_MAX_PROGRAMS)
        return bt_fail(fault, BT_ELIMIT, "more than %d programs to price", BT_PRICE_MAX_PROGRAMS);
    if (!rows || (p->programs && rows <= p->program[p->programs - 1].rows))
        return bt_fail(fault, BT_EARG, "a program of %u rows; each needs more than the one before",
                       (unsigned)rows);
    for (size_t k = 0; k < matrices; k++) {
        op o = shape_op(rows, m[k].inputs, m[k].outputs, s->layers, r);
        o.is_row_split = m[k].is_row_split;
        g.compute.fixed = plus(g.compute.fixed, add_op(&g, &p->profile, &o));
        weights = plus(weights, times(stored_bytes(&o.matrix), o.count));
        ops += o.count;
    }
    add_attention(&g, &p->profile, s, r);
    if (!p->programs) {
        p->first_launch_ns = times(ops, t->first_launch_ns);
        p->first_ns = plus(p->first_launch_ns,
                           bt_time_of(weights / bt_profile_devices(t), t->first_weight_bytes_per_us));
    }
    p->program[p->programs++] = g;
    return BT_OK;
}

bt_err bt_price_of_dims(bt_price *ret, const bt_profile *profile, const bt_dims *s, const bt_price_recipe *r,
                        const uint32_t *program_rows, size_t n, bt_fault *fault)
{
    bt_price p;
    bt_price_program last = {.rows = 1};
    const op head = shape_op(1, s->hidden, s->vocab, 1, r);
    bt_err e = bt_price_begin(&p, profile, fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) e = add_program(&p, program_rows[i], s, r, fault);
    if (e < 0) return e;
    p.layers = s->layers;
    p.windowed = s->windowed;
    p.window = s->window;
    p.last_ns = add_op(&last, profile, &head);
    p.last_ops = last.ops.fixed;
    p.last_bytes = last.bytes.fixed;
    *ret = p;
    return BT_OK;
}

static uint64_t at(const bt_price_line *l, uint64_t pairs, uint64_t positions)
{
    const bt_wide lines = bt_wide_add(bt_wide_mul(l->pair, pairs), bt_wide_mul(l->position, positions));
    return bt_wide_clamp(bt_wide_add(bt_wide_of(l->fixed), bt_wide_right(lines, FRACTION)), INT64_MAX);
}

/* `all` and `window` are of all layers, as if each were of that class. `windowed` layers take their part of
 * `window`, the others theirs of `all`. rest: layers - 1 rounds up, 0 rounds down. */
static uint64_t by_class(uint64_t all, uint64_t window, uint32_t windowed, uint32_t layers, uint32_t rest)
{
    const bt_wide sum = bt_wide_add(bt_wide_mul(all, layers - windowed), bt_wide_mul(window, windowed));
    return bt_wide_low(bt_wide_div(bt_wide_add(sum, bt_wide_of(rest)), layers));
}

/* Columns of a program that is static in them; 0: of no such program. With a window as many as its rows see
 * together. */
static uint64_t columns_of(const bt_price_program *g, uint64_t first, uint64_t window)
{
    uint64_t ctx = g->ctx;
    while (ctx && ctx < first + g->rows) ctx *= 2;
    return window && window + g->rows - 1 < ctx ? window + g->rows - 1 : ctx;
}

/* The fixed time of a chunk is in `compute`. Attention takes the longer of its two lines, computing and
 * reading. */
static bt_price_sum chunk_with(const bt_price_program *g, uint64_t first, uint64_t window)
{
    const uint64_t ctx = columns_of(g, first, window),
                   positions = ctx ? ctx : bt_time_positions(first, g->rows, window),
                   pairs = ctx ? g->rows * ctx : bt_time_pairs(first, g->rows, window);
    const uint64_t compute = at(&g->compute, pairs, 0),
                   memory = plus(g->compute.fixed, at(&g->memory, 0, positions));
    bt_price_sum s = {.ns = plus(most(compute, memory), at(&g->scores, pairs, 0)),
                      .ops = at(&g->ops, pairs, positions), .bytes = at(&g->bytes, pairs, positions),
                      .chunks = 1};
    s.term_ns[BT_TERM_FIXED] = g->launch_ns;
    s.term_ns[BT_TERM_ALL_REDUCE] = g->all_reduce_ns;
    s.term_ns[BT_TERM_PRODUCTS] = g->compute.fixed - g->launch_ns - g->all_reduce_ns;
    s.term_ns[BT_TERM_ATTENTION] = s.ns - g->compute.fixed;
    return s;
}

static bt_price_sum chunk(const bt_price *p, uint32_t i, uint64_t first)
{
    bt_price_sum s = chunk_with(&p->program[i], first, 0);
    if (!p->windowed) return s;
    const bt_price_sum w = chunk_with(&p->program[i], first, p->window);
    const uint64_t before = s.ns;
    s.ns = by_class(s.ns, w.ns, p->windowed, p->layers, p->layers - 1);
    s.ops = by_class(s.ops, w.ops, p->windowed, p->layers, 0);
    s.bytes = by_class(s.bytes, w.bytes, p->windowed, p->layers, 0);
    s.term_ns[BT_TERM_ATTENTION] -= before - s.ns;
    return s;
}

uint64_t bt_price_chunk_ns(const bt_price *p, uint32_t i, uint64_t first) { return chunk(p, i, first).ns; }

void bt_price_sum_add(bt_price_sum *sum, const bt_price_sum *more)
{
    sum->ns = plus(sum->ns, more->ns);
    sum->ops = plus(sum->ops, more->ops);
    sum->bytes = plus(sum->bytes, more->bytes);
    sum->chunks += more->chunks;
    for (int k = 0; k < BT_TERMS; k++) sum->term_ns[k] = plus(sum->term_ns[k], more->term_ns[k]);
    for (int k = 0; k < BT_PRICE_PARTS; k++) sum->part_ns[k] = plus(sum->part_ns[k], more->part_ns[k]);
    sum->spill_ns = plus(sum->spill_ns, more->spill_ns);
    sum->first_ns = plus(sum->first_ns, more->first_ns);
    sum->lead_ns = plus(sum->lead_ns, more->lead_ns);
    sum->tail_ns = plus(sum->tail_ns, more->tail_ns);
}

void bt_price_batch_add(bt_price_batch *s, uint64_t first, uint64_t rows, uint64_t window)
{
    s->prompts++;
    s->rows = plus(s->rows, rows);
    s->pairs = plus(s->pairs, bt_time_pairs(first, rows, 0));
    s->window_pairs = plus(s->window_pairs, bt_time_pairs(first, rows, window));
    s->end = plus(first, rows);
    s->positions = plus(s->positions, s->end);
    s->window_positions = plus(s->window_positions, bt_time_positions(first, rows, window));
    s->most = most(s->most, s->end);
}

bt_price_sum bt_price_prompt(const bt_price *p, uint64_t tokens)
{
    bt_price_sum s = {0};
    if (!tokens) return s;
    s.ns = plus(p->first_ns, p->last_ns);
    s.term_ns[BT_TERM_FIXED] = p->first_launch_ns;
    s.term_ns[BT_TERM_PRODUCTS] = s.ns - p->first_launch_ns;
    s.ops = p->last_ops;
    s.bytes = p->last_bytes;
    uint32_t i = p->programs - 1;
    for (uint64_t first = 0; first < tokens; first += p->program[i].rows) {
        while (i && p->program[i - 1].rows >= tokens - first) i--;
        const bt_price_sum c = chunk(p, i, first);
        bt_price_sum_add(&s, &c);
    }
    return s;
}

bt_price_model bt_price_model_of(const bt_dims *s, const bt_price_recipe *r)
{
    bt_dims_matrix m[BT_DIMS_MATRICES];
    const uint64_t body = bt_dims_body(s), head = bt_dims_head(s);
    const uint64_t permille = r->weight_bytes_permille ? r->weight_bytes_permille : r->weight_bits * 125;
    const uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    const size_t matrices = bt_dims_matrices(m, s);
    uint64_t split = 0, split_inputs = 0;
    for (size_t i = 0; i < matrices; i++)
        if (m[i].is_row_split) split += s->layers, split_inputs += (uint64_t)m[i].inputs * s->layers;
    return (bt_price_model){
        .body_weights = body,
        .head_weights = head,
        .weight_bytes = bt_time_scale(body + head, permille, 1000),
        .head_bytes = bt_time_scale(head, permille, 1000),
        .idle_bytes = bt_time_scale(bt_dims_idle(s), permille, 1000),
        .expert_bytes = bt_time_scale(bt_dims_used(s), permille, 1000),
        .kv_bytes = bt_dims_kv_bytes(s, r->kv_elem_bits),
        /* of 16 bits each: two norms that add what came before, each reads two rows and writes two; rotary
         * positions and KV that is stored; the activation */
        .norm_bytes = (uint64_t)16 * s->hidden * s->layers,
        .gate_bytes = 2 * (2 * (q + kv) + 4 * kv + (uint64_t)s->ffn_matrices * s->ffn) * s->layers,
        .split_matrices = split,
        .split_inputs = split_inputs,
        .operators = (uint32_t)(matrices + 1) * s->layers + 1,
        .layers = s->layers,
        .hidden = s->hidden,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = s->head_dim,
        .window = s->window,
        .windowed = s->windowed,
        .weight_bits = r->weight_bits,
        .input_bits = r->input_bits,
        .is_float = r->is_float,
    };
}

/* int8 has a scale for each 32 weights, FP4 an offset too; NVFP4 an FP8 scale for each 16. */
static const bt_price_form forms[BT_PRICE_FORMS] = {
    {"f16", {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16, .weight_bytes_permille = 2000}},
    {"int8", {.weight_bits = 8, .input_bits = 16, .kv_elem_bits = 16, .weight_bytes_permille = 1062}},
    {"fp4", {.weight_bits = 4, .input_bits = 16, .kv_elem_bits = 16, .weight_bytes_permille = 625}},
    {"fp8",
     {.weight_bits = 8, .input_bits = 8, .kv_elem_bits = 16, .weight_bytes_permille = 1000,
      .is_float = true}},
    {"nvfp4",
     {.weight_bits = 4, .input_bits = 4, .kv_elem_bits = 16, .weight_bytes_permille = 563, .is_float = true}},
};
/* int8 rows have a scale of 2 bytes a head (kernels/kv_view.h). */
static const bt_price_kv kv_rows[BT_PRICE_KVS] = {
    {"f16", 2, 0, false}, {"int8", 1, 2, false}, {"fp8", 1, 0, true}};
const char *const bt_price_form_names[] = {"f16", "int8", "fp4", "fp8", "nvfp4", NULL};
const char *const bt_price_kv_names[] = {"f16", "int8", "fp8", NULL};

const bt_price_form *bt_price_form_at(size_t i) { return i < BT_PRICE_FORMS ? &forms[i] : NULL; }
const bt_price_kv *bt_price_kv_at(size_t i) { return i < BT_PRICE_KVS ? &kv_rows[i] : NULL; }

const bt_price_form *bt_price_form_find(const char *name)
{
    for (size_t i = 0; i < BT_PRICE_FORMS; i++)
        if (!strcmp(forms[i].name, name)) return &forms[i];
    return NULL;
}

const bt_price_kv *bt_price_kv_find(const char *name)
{
    for (size_t i = 0; i < BT_PRICE_KVS; i++)
        if (!strcmp(kv_rows[i].name, name)) return &kv_rows[i];
    return NULL;
}

uint64_t bt_price_kv_bytes(const bt_price_kv *kv, const bt_dims *s)
{
    return (uint64_t)2 * s->layers * s->kv_heads * ((uint64_t)s->head_dim * kv->elem_bytes + kv->head_bytes);
}

bt_err bt_price_check_forms(const bt_profile *p, const bt_price_form *weights, const bt_price_kv *kv,
                            bt_fault *fault)
{
    const bt_profile_time *t = &p->time;
    const bool is_fp4 = weights && weights->recipe.is_float && weights->recipe.input_bits == 4;
    const bool is_fp8 = weights && weights->recipe.is_float && !is_fp4;
    if ((!is_fp4 || t->fp4_permille) && (!(is_fp8 || (kv && kv->is_fp8)) || t->fp8_permille)) return BT_OK;
    return bt_fail(fault, BT_EARG, "'%s' does not compute in %s: its profile has no '%s'", p->name,
                   is_fp4 && !t->fp4_permille ? "NVFP4" : "FP8",
                   is_fp4 && !t->fp4_permille ? "fp4_permille" : "fp8_permille");
}

bt_err bt_price_check_memory(const bt_profile *p, const bt_price_model *m, const char *name, bt_fault *fault)
{
    const uint64_t has = times(p->memory_bytes, bt_profile_devices(&p->time)),
                   weights = plus(m->weight_bytes, m->idle_bytes);
    if (!has || weights <= has) return BT_OK;
    return bt_fail(fault, BT_ELIMIT,
                   "'%s' has %" PRIu64 " bytes of memory, and the weights of '%.40s' are %" PRIu64
                   "; a smaller form of weights or a larger device would do",
                   p->name, has, name ? name : "the model", weights);
}

uint64_t bt_price_kv_held(const bt_profile_time *t, uint32_t kv_heads, uint64_t kv_bytes)
{
    return bt_time_scale(kv_bytes, bt_profile_devices(t), kv_share(t, kv_heads));
}

static uint64_t part(uint64_t n, uint32_t devices) { return devices > 1 ? n / devices : n; }

/* Unpacking weights of 4 bits is work, not waiting. */
static void set_bytes(bt_price_weights *w, const bt_price_steps *f, uint64_t bytes)
{
    w->bytes = part(bytes, f->devices);
    w->read_ns = bt_time_of(w->bytes, f->decode_rate);
    if (f->model.weight_bits == 4 && !f->model.is_float)
        w->unpack_ns = bt_time_of(w->bytes, f->time.int4_bytes_per_us);
}

static bt_price_weights weights_of(const bt_price_steps *f, uint64_t weights, uint64_t bytes)
{
    const bt_price_model *m = &f->model;
    const uint64_t peak = m->is_float ? bt_time_float_peak(&f->time, m->input_bits)
                                      : bt_time_peak(&f->time, m->input_bits, m->weight_bits);
    bt_price_weights w = {.row = bt_time_unit_of(&f->time, 2 * weights, peak, f->devices)};
    set_bytes(&w, f, bytes);
    return w;
}

/* Each tile of a matrix goes through all inputs, one after the other. */
static uint64_t inputs_ns(const bt_price_steps *f, uint64_t matrices)
{
    const bt_price_model *m = &f->model;
    const uint64_t whole = matrices > m->split_matrices ? matrices - m->split_matrices : 0;
    return bt_time_scale(plus(times(whole, m->hidden), part(m->split_inputs, f->devices)), f->time.input_ps,
                         1000);
}

/* A step pays it whatever its rows; launches that attention has of its own are not in it. */
static uint64_t fixed_ns(const bt_price_steps *f)
{
    const bt_profile_time *t = &f->time;
    const bt_price_model *m = &f->model;
    const uint64_t attention = m->layers < m->operators ? m->layers : m->operators,
                   launched = (uint64_t)t->layer_matrices * m->layers + 1,
                   linears = t->layer_matrices ? launched : m->operators - attention,
                   launch_ns = t->linear_launch_ns ? t->linear_launch_ns : t->decode_op_ns,
                   more_ns = m->input_bits <= 8 ? t->quantize_launch_ns : 0,
                   ns =
                       plus(plus(t->dispatch_ns, times(linears, launch_ns + more_ns)), inputs_ns(f, linears));
    return f->has_attention ? ns : plus(ns, times(attention, t->decode_op_ns));
}

bt_price_steps bt_price_steps_of(const bt_profile *p, const bt_price_model *m)
{
    const bt_profile_time *t = &p->time;
    bt_price_steps f = {.time = *t,
                        .model = *m,
                        .has_small = p->companion,
                        .devices = bt_profile_devices(t),
                        .kv_devices = kv_share(t, m->kv_heads),
                        .decode_rate = bt_time_decode_rate(t)};
    const bt_profile_attention *k =
        bt_time_step_attention(t, m->head_dim, m->kv_heads ? m->heads / m->kv_heads : 1);
    const uint64_t ops = (uint64_t)4 * m->layers * m->heads * m->head_dim, peak = bt_time_peak(t, 16, 16);
    f.has_attention = k != NULL;
    if (k) f.attention = *k;
    f.kv_rate = f.attention.kv_bytes_per_us;
    f.body = weights_of(&f, m->body_weights, m->weight_bytes - m->head_bytes);
    f.head = weights_of(&f, m->head_weights, m->head_bytes);
    f.pair = bt_time_unit_of(t, ops, peak, f.devices);
    if (f.attention.peak_permille)
        f.pair.rate = most(1, bt_time_scale(t->f16_ops_per_us, f.attention.peak_permille, 1000));
    f.fixed_ns = fixed_ns(&f);
    return f;
}

/* Products or attention of a step as they add up: what classes take that compute for longer than they read,
 * and the bytes of the others. A class whose two times are equal counts as computing: so no time falls when
 * one of the two grows. */
typedef struct classes {
    const bt_price_steps *of;
    uint64_t ns, bytes;
} classes;

/* A profile may say which share of the shorter of the two the longer does not hide. more_bytes: of weights
 * besides, which few rows do not read. */
static void add_products(classes *c, const bt_price_weights *w, uint64_t rows, uint64_t more_bytes)
{
    const bt_price_steps *f = c->of;
    bt_price_weights all = *w;
    if (more_bytes) set_bytes(&all, f, plus(f->model.weight_bytes - f->model.head_bytes, more_bytes));
    const uint64_t compute = most(all.unpack_ns, bt_time_of_units(&f->time, &w->row, rows, rows));
    const bool is_computing = compute >= all.read_ns;
    const uint64_t lesser = is_computing ? all.read_ns : compute;
    if (is_computing) c->ns = plus(c->ns, compute);
    else c->bytes = plus(c->bytes, all.bytes);
    if (f->time.unhidden_permille)
        c->ns = plus(c->ns, bt_time_scale(lesser, f->time.unhidden_permille, 1000));
}

/* The time of pairs at a share of the peak that goes by rows. A short sequence beside a long one makes none
 * of its pairs faster: the rows that count are as many as the pairs would fill in sequences like the longest,
 * and a row more takes at least what the rows before it do. So nothing that comes to a step makes it faster,
 * and where all are alike all rows count. longest: rows and pairs of it; pairs 0: all are alike. */
static uint64_t by_longest(const bt_price_steps *f, uint64_t pairs, uint64_t rows, uint64_t longest_rows,
                           uint64_t longest_pairs)
{
    const bt_profile_time *t = &f->time;
    const bool is_alike = !longest_pairs || times(pairs, longest_rows) == times(longest_pairs, rows);
    if (is_alike || f->pair.rate || !pairs) return bt_time_of_units(t, &f->pair, pairs, rows);
    const uint64_t filled = bt_time_scale(longest_rows, pairs, longest_pairs),
                   count = filled < rows ? filled : rows,
                   before = bt_time_scale(longest_pairs, count - 1, longest_rows);
    const uint64_t ns = bt_time_of_units(t, &f->pair, pairs, count);
    return count > 1 ? most(ns, bt_time_of_units(t, &f->pair, before < pairs ? before : pairs - 1, count - 1))
                     : ns;
}

/* Few heads do not fill a device: one of the longest sequence is read at its own rate, or in parts that cost
 * something to join. The length is the mean of what its rows see. read_ns: of all heads together. */
static uint64_t few_heads_ns(const bt_price_steps *f, const bt_price_seen *n, uint64_t rows, uint64_t read_ns)
{
    const bt_price_model *m = &f->model;
    const bt_profile_attention *k = &f->attention;
    if (!k->head_bytes_per_us) return 0;
    const uint64_t longest = n->longest_pairs ? n->longest_pairs / n->longest_rows : n->pairs / rows,
                   head = times(m->kv_bytes / most(1, m->kv_heads), longest),
                   whole = longest > k->least_positions ? bt_time_of(head, k->head_bytes_per_us) : 0,
                   parts = plus(read_ns, times(m->layers, k->join_ns));
    return k->join_ns && parts < whole ? parts : whole;
}

/* Softmax of a GPU; devices with programs have it in decode_op_ns. */
static uint64_t scores_ns(const bt_price_steps *f, uint64_t pairs)
{
    const uint64_t per_us = f->has_small ? f->time.score_elements_per_us : 0,
                   scores = part(times(pairs, (uint64_t)f->model.layers * f->model.heads), f->devices);
    return per_us ? bt_time_of(scores, per_us) : 0;
}

/* Sequences have one row each, or several, which take at least what one row does. */
static void add_attention_class(classes *c, const bt_price_seen *n, uint64_t all_rows, uint64_t sequences,
                                bool is_single)
{
    const bt_price_steps *f = c->of;
    const bt_price_model *m = &f->model;
    const bt_profile_attention *k = &f->attention;
    if (!all_rows) return;
    const bool is_gathered = sequences > 1 && m->heads > m->kv_heads && m->kv_heads > f->kv_devices;
    const uint32_t more_rows = is_single ? 0 : k->half_rows;
    const uint64_t row_ns = (k->row_launch_ns ? k->row_launch_ns : k->launch_ns) +
                            (uint64_t)(is_gathered ? k->gather_ns : 0),
                   launch_ns = is_single ? row_ns : k->launch_ns;
    const uint64_t rows = plus(all_rows, times(sequences, more_rows)),
                   pairs = plus(n->pairs, times(n->positions, more_rows)),
                   least = times(sequences, k->least_positions),
                   positions = most(least, plus(n->positions, times(sequences, k->kv_half_positions))),
                   bytes = part(times(m->kv_bytes, positions), f->kv_devices),
                   product = more_rows ? bt_time_of_units(&f->time, &f->pair, pairs, rows)
                                       : by_longest(f, pairs, rows, n->longest_rows, n->longest_pairs),
                   compute = plus(product, scores_ns(f, pairs)),
                   read = bt_time_of(bytes, f->kv_rate ? f->kv_rate : f->decode_rate);
    if (f->kv_rate) {
        const uint64_t ns = plus(times(m->layers, launch_ns), most(compute, read)),
                       row = plus(times(m->layers, row_ns), most(read, few_heads_ns(f, n, all_rows, read)));
        c->ns = plus(c->ns, most(ns, row));
        return;
    }
    c->ns = plus(c->ns, times(m->layers, launch_ns));
    if (compute >= read) c->ns = plus(c->ns, compute);
    else c->bytes = plus(c->bytes, bytes);
}

/* Attention where every layer sees so much. bytes: of products, which the step waits for too. */
static uint64_t attention_ns(const bt_price_steps *f, const bt_price_step *s, const bt_price_seen *n,
                             uint64_t bytes)
{
    classes c = {.of = f, .bytes = bytes};
    const bt_price_seen ones = {.pairs = n->single_positions, .positions = n->single_positions,
                                .longest_rows = 1, .longest_pairs = n->single_longest},
                        several = {.pairs = n->pairs - n->single_positions,
                                   .positions = n->positions - n->single_positions,
                                   .longest_rows = n->longest_rows, .longest_pairs = n->longest_pairs};
    add_attention_class(&c, &ones, s->single_rows, s->single_rows, true);
    add_attention_class(&c, &several, s->rows - s->single_rows, s->sequences - s->single_rows, false);
    return plus(c.ns, bt_time_of(c.bytes, f->decode_rate));
}

/* As classes of layers see it: rest as by_class. */
static uint64_t of_layers(const bt_price_model *m, uint64_t all, uint64_t window, uint32_t rest)
{
    return m->windowed ? by_class(all, window, m->windowed, m->layers, rest) : all;
}

/* Norms, sums, rotary positions and activations of a GPU. */
static uint64_t small_ns(const bt_price_steps *f, uint64_t rows)
{
    const bt_profile_time *t = &f->time;
    const bt_price_model *m = &f->model;
    return most(times(m->layers, t->small_launch_ns),
                bt_time_of(times(rows, m->norm_bytes + part(m->gate_bytes, f->devices)),
                           bt_time_activation_rate(t)));
}

bt_price_sum bt_price_step_at(const bt_price_steps *f, const bt_price_step *s)
{
    const bt_profile_time *t = &f->time;
    const bt_price_model *m = &f->model;
    const uint64_t experts = s->rows && m->idle_bytes ? times(s->rows - 1, m->expert_bytes) : 0,
                   more_bytes = bt_time_experts(m->idle_bytes, experts),
                   rows = plus(s->single_rows, bt_time_program_rows(t, s->rows - s->single_rows)),
                   pair_ops = (uint64_t)4 * m->layers * m->heads * m->head_dim,
                   held = bt_price_kv_held(t, m->kv_heads, m->kv_bytes);
    classes c = {.of = f};
    bt_price_sum r = {.chunks = 1};
    r.ops = plus(plus(times(2 * m->body_weights, s->rows), times(2 * m->head_weights, s->logits)),
                 of_layers(m, times(s->all.pairs, pair_ops), times(s->window.pairs, pair_ops), 0));
    r.bytes = plus(plus(m->weight_bytes - (s->logits ? 0 : m->head_bytes), more_bytes),
                   of_layers(m, times(held, s->all.positions), times(held, s->window.positions), 0));
    add_products(&c, &f->body, bt_time_rows(t, rows, m->input_bits), more_bytes);
    if (s->logits) add_products(&c, &f->head, bt_time_rows(t, s->logits, m->input_bits), 0);
    const uint64_t all_ns = attention_ns(f, s, &s->all, c.bytes),
                   window_ns = m->windowed ? attention_ns(f, s, &s->window, c.bytes) : 0;
    r.ns = plus(c.ns, of_layers(m, all_ns, window_ns, m->layers - 1));
    const uint64_t products = plus(c.ns, c.bytes ? bt_time_of(c.bytes, f->decode_rate) : 0);
    r.term_ns[BT_TERM_PRODUCTS] = products;
    r.term_ns[BT_TERM_ATTENTION] = r.ns - products;
    r.term_ns[BT_TERM_FIXED] = plus(f->fixed_ns, times(s->sequences, t->sequence_ns));
    if (f->has_small) {
        r.term_ns[BT_TERM_FIXED] = plus(r.term_ns[BT_TERM_FIXED], small_ns(f, s->rows));
        r.bytes = plus(r.bytes, times(s->rows, times(f->devices, m->norm_bytes) + m->gate_bytes));
    }
    r.ns = plus(r.ns, r.term_ns[BT_TERM_FIXED]);
    if (f->devices < 2) return r;
    const uint64_t sums =
        times(2 * (uint64_t)m->layers, bt_time_all_reduce(t, times(2 * s->rows, m->hidden)));
    r.term_ns[BT_TERM_ALL_REDUCE] = sums;
    r.ns = plus(r.ns, sums);
    return r;
}

bt_price_sum bt_price_step_of(const bt_profile *p, const bt_price_model *m, const bt_price_step *s)
{
    const bt_price_steps f = bt_price_steps_of(p, m);
    return bt_price_step_at(&f, s);
}

/* Where all of a step's sequences are alike, one of them is the longest. */
static bt_price_seen with_longest(const bt_price_step *s, const bt_price_seen *seen)
{
    bt_price_seen n = *seen;
    if (!n.single_longest && s->single_rows && n.single_positions)
        n.single_longest = (n.single_positions - 1) / s->single_rows + 1;
    if (n.longest_pairs || s->rows == s->single_rows) return n;
    n.longest_rows = s->rows - s->single_rows;
    n.longest_pairs = n.pairs - n.single_positions;
    return n;
}

static bt_price_seen sum_of(bt_price_seen a, bt_price_seen b)
{
    const bool is_b =
        b.longest_pairs && times(b.longest_pairs, a.longest_rows) >= times(a.longest_pairs, b.longest_rows);
    return (bt_price_seen){.pairs = plus(a.pairs, b.pairs),
                           .positions = plus(a.positions, b.positions),
                           .single_positions = plus(a.single_positions, b.single_positions),
                           .single_longest = most(a.single_longest, b.single_longest),
                           .longest_rows = is_b ? b.longest_rows : a.longest_rows,
                           .longest_pairs = is_b ? b.longest_pairs : a.longest_pairs};
}

void bt_price_step_add(bt_price_step *step, const bt_price_step *more)
{
    step->all = sum_of(with_longest(step, &step->all), with_longest(more, &more->all));
    step->window = sum_of(with_longest(step, &step->window), with_longest(more, &more->window));
    step->rows = plus(step->rows, more->rows);
    step->logits = plus(step->logits, more->logits);
    step->sequences = plus(step->sequences, more->sequences);
    step->single_rows = plus(step->single_rows, more->single_rows);
}

uint64_t bt_price_first_use(const bt_profile *p, const bt_price_model *m)
{
    const bt_profile_time *t = &p->time;
    return plus(times(m->operators, t->first_launch_ns),
                bt_time_of(m->weight_bytes / bt_profile_devices(t), t->first_weight_bytes_per_us));
}

static bt_price_seen seen_of(uint64_t first, uint64_t rows, uint64_t window)
{
    bt_price_seen n = {.pairs = bt_time_pairs(first, rows, window),
                       .positions = bt_time_positions(first, rows, window)};
    if (rows == 1) n.single_positions = n.positions;
    return n;
}

static bt_price_seen singles_of(uint64_t batch, uint64_t ctx)
{
    const uint64_t positions = times(batch, ctx);
    return (bt_price_seen){.pairs = positions, .positions = positions, .single_positions = positions};
}

bt_price_step bt_price_decode_step(uint64_t batch, uint64_t ctx, uint64_t window)
{
    return (bt_price_step){.rows = batch,
                           .logits = batch,
                           .sequences = batch,
                           .single_rows = batch,
                           .all = singles_of(batch, ctx),
                           .window = singles_of(batch, window && window < ctx ? window : ctx)};
}

bt_price_step bt_price_prefill_step(uint64_t first, uint64_t rows, uint64_t window)
{
    return (bt_price_step){.rows = rows,
                           .logits = 1,
                           .sequences = 1,
                           .single_rows = rows == 1,
                           .all = seen_of(first, rows, 0),
                           .window = seen_of(first, rows, window)};
}
