/* The walk that hands the operands of a program's steps to the operators of the companion. The program alone
 * decides what a step computes. */
#include "graph/walk.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)BT_COMPANION_MAX_GROUP >= (int)BT_BIND_MAX_GROUP, "a group of linears runs as one");

struct bt_walk {
    const bt_weights *weights;
    const bt_model *model;
    bt_companion companion;
    bt_companion_rotations rotations;
    float attn_scale, embed_scale, add_scale;
    size_t fp4_rows_max; /* rows that FP4 matrices have scratch for; SIZE_MAX: there are none */
    uint64_t kv_bytes;   /* of all rows stored */
    uint64_t more_bytes; /* bt_walk_more_bytes */
    /* Experts of a layer: the places of their copies, as ROUTE leaves them, and the matrices that have any.
     */
    uint32_t *begin;             /* [experts + 1] */
    bt_companion_matrix *expert; /* [BT_BIND_MAX_GROUP * experts] */
};

/* State that the steps of one run share. */
typedef struct run {
    bt_walk *w;
    const bt_program *prog;
    const bt_walk_io *io;
    uint8_t *arena;
    const bt_weights_layer *layer; /* of the step at hand */
    size_t ends;                   /* sequences that give logits */
} run;

/* The scratch of a thread for the widest input of an FP4 matrix. */
static size_t scratch_bytes(const bt_weights *w, size_t rows)
{
    const bt_model *m = bt_weights_model(w);
    size_t most = 0;
    uint32_t layer = 0;
    for (bt_weight which = BT_WEIGHT_NONE; (which = bt_weight_next(m, &layer, which));) {
        if (!bt_weight_is_matrix(which) || bt_weights_matrix_of(w, layer, which)->form != BT_FORM_FP4)
            continue;
        const bt_weights_matrix *a = bt_weights_matrix_of(w, layer, which);
        const size_t copies = a->experts > 1 ? rows * m->hp.experts_used : rows;
        const size_t bytes = bt_form_fp4_sums_bytes(copies, a->k);
        if (bytes > most) most = bytes;
    }
    return most;
}

bt_err bt_walk_new(bt_walk **ret, const bt_walk_config *config, bt_fault *fault)
{
    bt_walk *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "out of memory making an executor");
    w->weights = config->weights;
    w->model = bt_weights_model(w->weights);
    if (config->rotations) w->rotations = *config->rotations;
    const bt_hparams *hp = &w->model->hp;
    const bt_companion_sizes sizes = {.heads = hp->heads,
                                      .kv_heads = hp->kv_heads,
                                      .head_dim = hp->head_dim,
                                      .runs = config->sequences_max,
                                      .ctx_tokens = config->ctx_tokens ? config->ctx_tokens
                                                                       : bt_weights_ctx_tokens(w->weights),
                                      .rotate_elems = bt_companion_rotations_max_elems(&w->rotations),
                                      .scratch_bytes = scratch_bytes(w->weights, config->sequences_max)};
    const bt_err e = bt_companion_init(&w->companion, config->kernels, config->pool, &sizes, fault);
    if (e == BT_OK && hp->experts) {
        w->begin = calloc((size_t)hp->experts + 1, sizeof *w->begin);
        w->expert = calloc((size_t)hp->experts * BT_BIND_MAX_GROUP, sizeof *w->expert);
    }
    if (e < 0 || (hp->experts && (!w->begin || !w->expert))) {
        bt_walk_free(w);
        return e < 0 ? e : bt_fail(fault, BT_ENOMEM, "out of memory for %u experts", hp->experts);
    }
    w->fp4_rows_max = sizes.scratch_bytes ? config->sequences_max : SIZE_MAX;
    w->attn_scale = bt_hparams_scores(hp);
    w->embed_scale = bt_hparams_embed(hp);
    w->add_scale = bt_hparams_add(hp);
    *ret = w;
    return BT_OK;
}

void bt_walk_free(bt_walk *w)
{
    if (!w) return;
    bt_companion_done(&w->companion);
    free(w->begin);
    free(w->expert);
    free(w);
}

uint64_t bt_walk_kv_bytes(const bt_walk *w) { return w->kv_bytes; }
uint64_t bt_walk_more_bytes(const bt_walk *w) { return w->more_bytes; }

/* ---- steps ---- */

/* NULL for what is not in the arena. */
static float *at(const run *r, bt_extent offset)
{
    return bt_bind_is_nowhere(offset) ? NULL
                                      : (float *)(void *)(r->arena + bt_extent_at(offset, r->io->bucket));
}

static void embed_row(float *y, const void *table, size_t id) { bt_model_row_f32(y, table, id); }

static const bt_companion_rotation *rotation_of(const bt_walk *w, const bt_step *s)
{
    return bt_companion_rotation_by(&w->rotations, s->rotation);
}

/* The operands of the operators below: the step's tensors, where they are in the arena, and t rows of its
 * output. */
typedef struct operands {
    const bt_companion *c;
    const bt_hparams *hp;
    bt_companion_rows rows;
    float *out;
    const float *in0, *in1;
    size_t t, width;
} operands;

static void run_embed(const run *r, const bt_step *s, const operands *o)
{
    (void)s;
    bt_companion_embed(o->c, &o->rows, o->out, o->width, r->io->ids, embed_row, r->w->model->embed,
                       r->w->embed_scale, r->io->pad);
}

static const float *vector_of(const run *r, const bt_step *s) { return r->layer->is[s->weight].vector; }

/* A group of linear steps over one input of t rows. Logits leave the arena: real rows only. */
static void run_linear(const run *r, const bt_step *s, const operands *o)
{
    bt_companion_matrix m[BT_BIND_MAX_GROUP];
    const size_t k = s->in_width[0];
    for (uint32_t g = 0; g < s->group; g++) {
        const bt_weights_matrix *a = &r->layer->is[s[g].weight].matrix;
        float *y = bt_bind_is_nowhere(s[g].out_at) ? r->io->logits : at(r, s[g].out_at);
        m[g] = (bt_companion_matrix){.y = y,    .panels = a->panels, .bias = a->bias,
                                     .n = a->n, .form = a->form,     .group = a->group};
    }
    if (!bt_bind_is_nowhere(s->out_at) || s->rows == 1) {
        bt_companion_linear(o->c, m, s->group, o->in0, o->t, k);
        return;
    }
    for (size_t b = 0; b < r->io->sequences; b++) {
        m[0].y = r->io->logits + b * s->rows * s->out_width;
        bt_companion_linear(o->c, m, 1, o->in0 + b * s->rows * k, r->io->seq[b].valid, k);
    }
}

static void run_soft_cap(const run *r, const bt_step *s, const operands *o)
{
    const size_t sequences = s->rows == 1 ? 1 : r->io->sequences;
    for (size_t b = 0; b < sequences; b++)
        bt_companion_soft_cap(o->c, r->io->logits + b * s->rows * o->width, o->hp->logit_cap,
                              s->rows == 1 ? o->t : r->io->seq[b].valid, o->width);
}

static void run_qk_norm(const run *r, const bt_step *s, const operands *o)
{
    bt_companion_qk_norm(o->c, o->out, vector_of(r, s), o->hp->rms_eps, o->t, s->heads, o->width / s->heads);
}

static void run_rope(const run *r, const bt_step *s, const operands *o)
{
    const bt_weights *w = r->w->weights;
    bt_companion_rope(o->c, &o->rows, o->out, s->heads, o->hp->head_dim, o->hp->rope_dims,
                      bt_weights_rope_cos(w, s->layer), bt_weights_rope_sin(w, s->layer), o->hp->rope_neox);
}

static void run_kv_store(const run *r, const bt_step *s, const operands *o)
{
    const bt_companion_rows *rows = &o->rows;
    bt_companion_kv_store(o->c, rows, s->layer, o->in0, o->in1, s->in_width[0]);
    for (size_t b = 0; b < rows->batch; b++)
        r->w->kv_bytes += 2 * rows->seq[b].valid * rows->seq[b].kv->kv_heads * rows->seq[b].kv->head_bytes;
}

static void run_attention(const run *r, const bt_step *s, const operands *o)
{
    const bt_attn_rule rule =
        bt_companion_rule(&o->hp->rules, r->w->attn_scale, r->layer->is[BT_WEIGHT_SINKS].vector, s->layer);
    bt_companion_attention(o->c, &o->rows, o->out, o->in0, s->layer, o->hp->heads, o->hp->kv_heads,
                           o->hp->head_dim, &rule);
}

static void run_add(const run *r, const bt_step *s, const operands *o)
{
    (void)s;
    bt_companion_add(o->c, o->out, o->in1, r->w->add_scale, o->t, o->width);
}

/* The rows whose logits are wanted. */
static void run_select_rows(const run *r, const bt_step *s, const operands *o)
{
    const size_t width = o->width;
    if (!r->io->wanted) {
        bt_companion_select_rows(o->c, &o->rows, s->rows, o->out, o->in0, width);
        return;
    }
    bt_companion_flush(o->c);
    for (size_t i = 0; i < r->ends; i++)
        memcpy(o->out + i * width, o->in0 + r->io->wanted[i] * width, width * sizeof *o->out);
}

static void run_rotate(const run *r, const bt_step *s, const operands *o)
{
    bt_companion_rotate(o->c, o->out, o->t, s->heads, rotation_of(r->w, s));
}

/* ---- experts ---- */

static bt_companion_routes routes_of(const run *r, float *at)
{
    const bt_hparams *hp = &r->w->model->hp;
    return (bt_companion_routes){.at = at, .experts = hp->experts, .used = hp->experts_used,
                                 .begin = r->w->begin};
}

static void run_route(const run *r, const bt_step *s, const operands *o)
{
    const bt_companion_routes routes = routes_of(r, o->out);
    bt_companion_route(o->c, &o->rows, &routes, o->in0, vector_of(r, s), r->layer->is[s->weight].matrix.bias,
                       s->in_width[0]);
}

static void run_gather_rows(const run *r, const bt_step *s, const operands *o)
{
    const bt_companion_routes routes = routes_of(r, at(r, s->in_at[1]));
    bt_companion_gather(o->c, &routes, o->out, o->in0, o->t / routes.used, o->width);
}

static void run_mix_rows(const run *r, const bt_step *s, const operands *o)
{
    const bt_companion_routes routes = routes_of(r, at(r, s->in_at[1]));
    bt_companion_mix(o->c, &routes, o->out, o->in0, o->t, o->width);
}

/* A group of steps over one input: the matrices of the experts that have rows, as linears of these rows. */
static void run_experts(const run *r, const bt_step *s, const operands *o)
{
    bt_walk *w = r->w;
    const uint32_t *begin = w->begin;
    const size_t used = o->hp->experts_used;
    size_t n = 0;
    for (uint32_t g = 0; g < s->group; g++) {
        const bt_weights_matrix *a = &r->layer->is[s[g].weight].matrix;
        const size_t before = n;
        for (size_t e = 0; e < a->experts; e++) {
            if (begin[e] == begin[e + 1]) continue;
            w->expert[n++] = (bt_companion_matrix){.y = at(r, s[g].out_at),
                                                   .panels = a->panels + e * a->expert_bytes,
                                                   .bias = a->bias ? a->bias + e * a->n : NULL,
                                                   .n = a->n,
                                                   .form = a->form,
                                                   .group = a->group,
                                                   .first = begin[e],
                                                   .rows = begin[e + 1] - begin[e]};
        }
        if (n - before > used) w->more_bytes += (n - before - used) * a->expert_bytes;
    }
    if (n) bt_companion_linear(o->c, w->expert, n, o->in0, begin[o->hp->experts], s->in_width[0]);
}

/* run_NAME of operators that differ in their kernels alone. */
#define DEFINE_OWN(name)
#define DEFINE_NORMED(name) \
    static void run_##name(const run *r, const bt_step *s, const operands *o) \
    { \
        bt_companion_norm(o->c, o->c->kernels->name, o->out, o->in0, vector_of(r, s), o->hp->rms_eps, o->t, \
                          o->width); \
    }
#define DEFINE_POINT(name) \
    static void run_##name(const run *r, const bt_step *s, const operands *o) \
    { \
        (void)r, (void)s; \
        bt_companion_point(o->c, o->c->kernels->name, o->out, o->t, o->width); \
    }
#define DEFINE_GATED(name) \
    static void run_##name(const run *r, const bt_step *s, const operands *o) \
    { \
        (void)r, (void)s; \
        bt_companion_gated(o->c, o->c->kernels->name, o->out, o->in1, o->t, o->width); \
    }
#define DEFINE_GATED_FLOATS(name) DEFINE_GATED(name)
#define DEFINE(NAME, name, inputs, in_place, weight, by_head, shape, beside, class, price, run) \
    DEFINE_##run(name)
BT_OP_LIST(DEFINE, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP)

/* t: rows of this step's output. */
static void run_step(const run *r, const bt_step *s, size_t t)
{
    const operands o = {.c = &r->w->companion,
                        .hp = &r->w->model->hp,
                        .rows = {r->io->seq, r->io->sequences, r->prog->seq, r->io->overflow},
                        .out = at(r, s->out_at),
                        .in0 = at(r, s->in_at[0]),
                        .in1 = at(r, s->in_at[1]),
                        .t = t,
                        .width = s->out_width};
    switch (s->kind) {
#define RUN(NAME, name, ...) \
    case BT_OP_##NAME: run_##name(r, s, &o); break;
        BT_OP_LIST(RUN, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP)
    case BT_OP_KINDS: break;
    }
}

/* ---- a run ---- */

static bt_err check_rotations(const bt_walk *w, const bt_program *prog, bt_fault *fault)
{
    for (size_t i = 0; i < prog->steps; i++) {
        const bt_step *s = &prog->step[i];
        if (s->kind == BT_OP_ROTATE &&
            bt_companion_rotation_elems(rotation_of(w, s)) * s->heads != s->out_width)
            return bt_fail(fault, BT_EARG, "a rotation of %zu elements for %u blocks in a row of %zu",
                           bt_companion_rotation_elems(rotation_of(w, s)), s->heads, s->out_width);
    }
    return BT_OK;
}

static bt_err check_sequence(const bt_walk *w, const bt_program *prog, const bt_companion_seq *s,
                             const int32_t *ids, bt_fault *fault)
{
    const bt_hparams *hp = &w->model->hp;
    const bt_kv_view *v = s->kv;
    if (s->valid < 1 || s->valid > prog->seq)
        return bt_fail(fault, BT_EARG, "%zu tokens do not fit a program of %zu rows", s->valid, prog->seq);
    size_t limit = bt_weights_ctx_tokens(w->weights);
    if (prog->ctx && prog->ctx < limit) limit = (size_t)prog->ctx;
    if (v->tokens_capacity < limit) limit = v->tokens_capacity;
    if (s->pos0 > limit || s->valid > limit - s->pos0)
        return bt_fail(fault, BT_EARG,
                       "%zu tokens from position %zu do not fit the %zu positions of the sequence", s->valid,
                       s->pos0, limit);
    if ((v->elem_bytes != 1 && v->elem_bytes != 2) || v->layers != hp->layers ||
        v->kv_heads != hp->kv_heads || v->head_dim != hp->head_dim)
        return bt_fail(fault, BT_EARG,
                       "KV view of %u layers, %u heads of %u, %u bytes each: need %u, %u, %u, 1 or 2",
                       v->layers, v->kv_heads, v->head_dim, v->elem_bytes, hp->layers, hp->kv_heads,
                       hp->head_dim);
    for (size_t i = 0; i < s->valid; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= hp->vocab)
            return bt_fail(fault, BT_EARG, "token id %d at %zu: the vocabulary has %u", ids[i], i, hp->vocab);
    return BT_OK;
}

static bt_err check(const bt_walk *w, const bt_program *prog, const bt_walk_io *io, bt_fault *fault)
{
    const size_t n = io->sequences;
    if (n < 1 || io->bucket < n || (prog->batch && (prog->batch != n || io->bucket != n)))
        return bt_fail(fault, BT_EARG, "%zu sequences in memory for %zu, a program of %zu", n, io->bucket,
                       prog->batch);
    if (io->step_end > prog->steps || io->step_begin > io->step_end)
        return bt_fail(fault, BT_EARG, "steps %zu to %zu of a program of %zu", io->step_begin, io->step_end,
                       prog->steps);
    if (prog->out && !io->logits && !(io->wanted && io->wanted_len == 0))
        return bt_fail(fault, BT_EARG, "the program gives logits, and there is no room for them");
    if (io->wanted &&
        (prog->seq != 1 || io->wanted_len > n || (io->wanted_len && io->wanted[io->wanted_len - 1] >= n)))
        return bt_fail(fault, BT_EARG, "logits of %zu of %zu sequences of %zu rows", io->wanted_len, n,
                       prog->seq);
    if (prog->seq > w->fp4_rows_max / n)
        return bt_fail(fault, BT_EARG, "%zu rows of FP4 weights do not fit scratch for %zu", n * prog->seq,
                       w->fp4_rows_max);
    bt_err e = prog->rotates ? check_rotations(w, prog, fault) : BT_OK;
    for (size_t b = 0; e == BT_OK && b < n; b++)
        e = check_sequence(w, prog, &io->seq[b], io->ids + b * prog->seq, fault);
    return e;
}

static void tell(const run *r, const bt_step *s, size_t t)
{
    const bt_walk_io *io = r->io;
    if (io->on_step || (s->kind == BT_OP_KV_STORE && io->on_kv)) bt_companion_flush(&r->w->companion);
    for (uint32_t g = 0; io->on_step && g < s->group; g++)
        io->on_step(io->on_step_ud, &s[g], at(r, s[g].in_at[0]), at(r, s[g].out_at), t);
    if (s->kind == BT_OP_KV_STORE && io->on_kv) io->on_kv(io->on_kv_ud, s->layer);
}

bt_err bt_walk_run(bt_walk *w, const bt_program *prog, void *arena, const bt_walk_io *io, bt_fault *fault)
{
    bt_err e = check(w, prog, io, fault);
    if (e < 0) return e;
    run r = {.w = w,
             .prog = prog,
             .io = io,
             .arena = arena,
             .layer = bt_weights_of_layer(w->weights, BT_GRAPH_NO_LAYER),
             .ends = io->wanted ? io->wanted_len : io->sequences};
    const size_t tail = prog->graph->op_tail, all = r.ends || prog->steps < tail ? prog->steps : tail,
                 steps = io->step_end ? io->step_end : all;
    uint32_t layer_now = BT_GRAPH_NO_LAYER;
    bt_companion_begin(&w->companion);
    for (size_t i = io->step_begin; i < steps; i += prog->step[i].group) {
        const bt_step *s = &prog->step[i];
        if (s->layer != layer_now) {
            layer_now = s->layer;
            r.layer = bt_weights_of_layer(w->weights, layer_now);
            if (io->cancel && atomic_load_explicit(io->cancel, memory_order_relaxed)) {
                e = bt_fail(fault, BT_ECANCEL, "cancelled");
                break;
            }
        }
        const size_t t = (i < tail ? io->sequences : r.ends) * s->rows;
        run_step(&r, s, t);
        tell(&r, s, t);
    }
    bt_companion_end(&w->companion);
    return e;
}
