/* The one description of a decoder-only transformer, operator by operator, and the check that it is well
 * formed. */
#include "graph/graph.h"
#include "base/num.h"

#include <stdlib.h>

enum { TENSORS_PER_LAYER = 16, OPS_PER_LAYER = 25, TENSORS_OUTSIDE = 5, OPS_OUTSIDE = 6 };

static const bt_formula ROWS_SEQ = {1, {1, 1, 0, 0}};
static const bt_formula ROWS_OUT = {1, {1, 0, 0, 1}};
static const bt_formula ROWS_CTX = {1, {1, 0, 1, 0}};

bt_err bt_formula_eval(uint64_t *ret, bt_formula f, const bt_bind *b, bt_fault *fault)
{
    uint64_t v = f.coef;
    for (int s = 0; s < BT_SYM_COUNT; s++)
        for (uint8_t i = 0; i < f.exp[s]; i++)
            if (__builtin_mul_overflow(v, b->value[s], &v))
                return bt_fail(fault, BT_ELIMIT, "a size formula does not fit 64 bits");
    *ret = v;
    return BT_OK;
}

#define INFO(NAME, name, inputs, in_place, weight, by_head, shape, beside, class, price, run) \
    [BT_OP_##NAME] = {#name, \
                      inputs, \
                      in_place, \
                      weight, \
                      by_head, \
                      BT_SHAPE_##shape, \
                      BT_BESIDE_##beside, \
                      BT_CLASS_##class, \
                      BT_PRICED_##price, \
                      weight},
const bt_op_info bt_op_infos[BT_OP_KINDS] = {BT_OP_LIST(INFO, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP)};

const char *bt_op_name(bt_op_kind k) { return (unsigned)k < BT_OP_KINDS ? bt_op_infos[k].name : "?"; }

#define CLASS_NAME(NAME, name) [BT_CLASS_##NAME] = #name,
const char *bt_op_class_name(bt_op_class c)
{
    static const char *const names[BT_OP_CLASSES] = {[BT_CLASS_EDGE] = "edge", BT_OP_CLASS_LIST(CLASS_NAME)};
    return names[c];
}

/* ---- building ---- */

typedef struct builder {
    bt_graph *g;
    uint32_t layer;
} builder;

static uint32_t tensor(builder *b, const char *name, bt_tensor_kind kind, bt_formula rows, uint32_t width)
{
    b->g->tensor[b->g->tensors] = (bt_tensor){name, kind, b->layer, rows, width};
    return (uint32_t)b->g->tensors++;
}

static bt_op *op(builder *b, bt_op_kind kind, bt_weight weight, uint32_t in0, uint32_t in1, uint32_t out)
{
    bt_op *o = &b->g->op[b->g->ops++];
    *o = (bt_op){.kind = kind, .layer = b->layer, .weight = weight, .in = {in0, in1}, .out = out};
    return o;
}

static uint32_t norm(builder *b, const char *name, bt_weight weight, uint32_t in)
{
    const bt_tensor *t = &b->g->tensor[in];
    const uint32_t out = tensor(b, name, BT_TENSOR_ACT, t->rows, t->width);
    const bool by_mean = bt_arch_of(b->g->hp.arch)->norm == BT_ARCH_MEAN;
    op(b, by_mean ? BT_OP_LAYERNORM : BT_OP_RMSNORM, weight, in, BT_GRAPH_NO_TENSOR, out);
    return out;
}

static void linear_to(builder *b, bt_weight weight, uint32_t in, uint32_t out)
{
    const bt_tensor *t = b->g->tensor;
    bt_op *o = op(b, BT_OP_LINEAR, weight, in, BT_GRAPH_NO_TENSOR, out);
    o->macs = t[out].rows;
    o->macs.coef = (uint64_t)t[in].width * t[out].width;
}

static uint32_t linear(builder *b, const char *name, bt_weight weight, uint32_t in, uint32_t width)
{
    const uint32_t out = tensor(b, name, BT_TENSOR_ACT, b->g->tensor[in].rows, width);
    linear_to(b, weight, in, out);
    return out;
}

static void head_wise(builder *b, bt_op_kind kind, bt_weight weight, uint32_t t, uint32_t heads)
{
    op(b, kind, weight, t, BT_GRAPH_NO_TENSOR, t)->heads = heads;
}

/* The norms of q and k, by head or by row. */
static void qk_norms(builder *b, uint32_t q, uint32_t k)
{
    const bt_hparams *hp = &b->g->hp;
    const bool by_row = bt_arch_of(hp->arch)->qk_norm == BT_ARCH_ROWS;
    head_wise(b, BT_OP_QK_NORM, BT_WEIGHT_Q_NORM, q, by_row ? 1 : hp->heads);
    head_wise(b, BT_OP_QK_NORM, BT_WEIGHT_K_NORM, k, by_row ? 1 : hp->kv_heads);
}

static void rotate(builder *b, bt_rotation by, uint32_t t, uint32_t blocks)
{
    head_wise(b, BT_OP_ROTATE, BT_WEIGHT_NONE, t, blocks);
    b->g->op[b->g->ops - 1].rotation = by;
}

static uint32_t attention(builder *b, uint32_t q, uint32_t kv)
{
    const uint32_t width = b->g->tensor[q].width;
    const uint32_t out = tensor(b, "a", BT_TENSOR_ACT, ROWS_SEQ, width);
    op(b, BT_OP_ATTENTION, BT_WEIGHT_NONE, q, kv, out)->macs = (bt_formula){2ull * width, {1, 1, 1, 0}};
    return out;
}

/* The input of a layer's block, and the way of its output to the residual stream: block(norm(x)),
 * norm(block(x)), or a norm on both sides. */
static uint32_t block_begin(builder *b, const char *name, bt_weight weight, uint32_t x)
{
    return bt_arch_of(b->g->hp.arch)->norms == BT_ARCH_AFTER ? x : norm(b, name, weight, x);
}

static void block_end(builder *b, const char *name, bt_weight weight, bt_weight post, uint32_t x,
                      uint32_t out)
{
    const bt_arch_norms norms = bt_arch_of(b->g->hp.arch)->norms;
    if (norms != BT_ARCH_BEFORE) out = norm(b, name, norms == BT_ARCH_BOTH ? post : weight, out);
    op(b, BT_OP_ADD, BT_WEIGHT_NONE, x, out, x);
}

/* An operator over a row for each expert that a row of `in` chose. */
static uint32_t by_expert(builder *b, bt_op_kind kind, const char *name, bt_weight weight, uint32_t in,
                          uint32_t routes, uint32_t width)
{
    const uint32_t out = tensor(b, name, BT_TENSOR_ACT, ROWS_SEQ, width);
    bt_tensor *t = b->g->tensor;
    t[out].rows.coef = b->g->hp.experts_used;
    bt_op *o = op(b, kind, weight, in, routes, out);
    if (weight == BT_WEIGHT_NONE) return out;
    o->macs = t[out].rows;
    o->macs.coef *= (uint64_t)t[in].width * width;
    return out;
}

/* The operator of gate and up. */
static bt_op_kind gating_of(bt_arch a)
{
    const bt_arch_ffn by = bt_arch_of(a)->ffn;
    return by == BT_ARCH_GEGLU ? BT_OP_GELU_MUL : by == BT_ARCH_CLAMP ? BT_OP_CLAMP_MUL : BT_OP_SILU_MUL;
}

/* The feed-forward block of experts, in as wide as out. */
static uint32_t experts(builder *b, uint32_t f, const bt_graph_options *opt)
{
    const bt_hparams *hp = &b->g->hp;
    const uint32_t r = tensor(b, "r", BT_TENSOR_ACT, ROWS_SEQ, bt_graph_route_width(hp));
    bt_op *route = op(b, BT_OP_ROUTE, BT_WEIGHT_ROUTER, f, BT_GRAPH_NO_TENSOR, r);
    route->macs = ROWS_SEQ;
    route->macs.coef = (uint64_t)hp->dim * hp->experts;
    const uint32_t e = by_expert(b, BT_OP_GATHER_ROWS, "e", BT_WEIGHT_NONE, f, r, hp->dim);
    const uint32_t gate = by_expert(b, BT_OP_EXPERTS, "gate", BT_WEIGHT_GATE, e, r, hp->ffn);
    const uint32_t up = by_expert(b, BT_OP_EXPERTS, "up", BT_WEIGHT_UP, e, r, hp->ffn);
    op(b, gating_of(hp->arch), BT_WEIGHT_NONE, gate, up, gate);
    if (opt->rotate_ffn) rotate(b, BT_ROTATION_R4, gate, 1);
    const uint32_t y = by_expert(b, BT_OP_EXPERTS, "y", BT_WEIGHT_DOWN, gate, r, hp->dim);
    const uint32_t d = tensor(b, "d", BT_TENSOR_ACT, ROWS_SEQ, hp->dim);
    op(b, BT_OP_MIX_ROWS, BT_WEIGHT_NONE, y, r, d);
    return d;
}

static uint32_t feed_forward(builder *b, uint32_t f, const bt_graph_options *opt)
{
    const bt_hparams *hp = &b->g->hp;
    if (hp->experts) return experts(b, f, opt);
    const bool is_gated = bt_arch_is_gated(hp->arch);
    const uint32_t gate = is_gated ? linear(b, "gate", BT_WEIGHT_GATE, f, hp->ffn) : BT_GRAPH_NO_TENSOR;
    const uint32_t up = linear(b, "up", BT_WEIGHT_UP, f, hp->ffn), m = is_gated ? gate : up;
    if (!is_gated) op(b, BT_OP_GELU, BT_WEIGHT_NONE, up, BT_GRAPH_NO_TENSOR, up);
    else op(b, gating_of(hp->arch), BT_WEIGHT_NONE, gate, up, gate);
    if (opt->rotate_ffn) rotate(b, BT_ROTATION_R4, m, 1);
    return linear(b, "d", BT_WEIGHT_DOWN, m, hp->dim);
}

static void layer(builder *b, uint32_t x, const bt_graph_options *opt)
{
    const bt_hparams *hp = &b->g->hp;
    const bool is_turned = bt_arch_of(hp->arch)->qk_norm == BT_ARCH_TURNED;
    const uint32_t q_width = hp->heads * hp->head_dim, kv_width = hp->kv_heads * hp->head_dim;

    const uint32_t n = block_begin(b, "n", BT_WEIGHT_ATTN_NORM, x);
    const uint32_t q = linear(b, "q", BT_WEIGHT_Q, n, q_width);
    const uint32_t k = linear(b, "k", BT_WEIGHT_K, n, kv_width);
    const uint32_t v = linear(b, "v", BT_WEIGHT_V, n, kv_width);
    if (hp->qk_norm && !is_turned) qk_norms(b, q, k);
    if (bt_arch_rotates(hp->arch, b->layer)) {
        head_wise(b, BT_OP_ROPE, BT_WEIGHT_NONE, q, hp->heads);
        head_wise(b, BT_OP_ROPE, BT_WEIGHT_NONE, k, hp->kv_heads);
    }
    if (is_turned) qk_norms(b, q, k);
    const uint32_t kv = tensor(b, "kv", BT_TENSOR_KV, ROWS_CTX, 2 * kv_width);
    op(b, BT_OP_KV_STORE, BT_WEIGHT_NONE, k, v, kv);
    const uint32_t a = attention(b, q, kv);
    if (opt->rotate_attention) rotate(b, BT_ROTATION_R2, a, hp->heads);
    const uint32_t o = linear(b, "o", BT_WEIGHT_O, a, hp->dim);
    block_end(b, "n", BT_WEIGHT_ATTN_NORM, BT_WEIGHT_ATTN_POST_NORM, x, o);

    const uint32_t f = block_begin(b, "f", BT_WEIGHT_FFN_NORM, x);
    block_end(b, "f", BT_WEIGHT_FFN_NORM, BT_WEIGHT_FFN_POST_NORM, x, feed_forward(b, f, opt));
}

bt_err bt_graph_build(bt_graph **ret, const bt_hparams *hp, const bt_graph_options *options, bt_fault *fault)
{
    const bt_graph_options opt = options ? *options : (bt_graph_options){0};
    bt_err e;
    bt_graph *g = calloc(1, sizeof *g);
    if (!g) return bt_fail(fault, BT_ENOMEM, "out of memory building a graph");
    g->hp = *hp;
    g->tensor = calloc((size_t)hp->layers * TENSORS_PER_LAYER + TENSORS_OUTSIDE, sizeof *g->tensor);
    g->op = calloc((size_t)hp->layers * OPS_PER_LAYER + OPS_OUTSIDE, sizeof *g->op);
    if (!g->tensor || !g->op) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory building a graph");
        goto out;
    }

    builder b = {g, BT_GRAPH_NO_LAYER};
    const uint32_t ids = tensor(&b, "ids", BT_TENSOR_IDS, ROWS_SEQ, 1);
    const uint32_t x = tensor(&b, "x", BT_TENSOR_ACT, ROWS_SEQ, hp->dim);
    op(&b, BT_OP_EMBED, BT_WEIGHT_EMBED, ids, BT_GRAPH_NO_TENSOR, x);
    if (opt.rotate_embed) rotate(&b, BT_ROTATION_R1, x, 1);
    for (uint32_t l = 0; l < hp->layers; l++) {
        b.layer = l;
        layer(&b, x, &opt);
    }
    b.layer = BT_GRAPH_NO_LAYER;
    g->op_tail = g->ops;
    const uint32_t s = tensor(&b, "s", BT_TENSOR_ACT, ROWS_OUT, hp->dim);
    op(&b, BT_OP_SELECT_ROWS, BT_WEIGHT_NONE, x, BT_GRAPH_NO_TENSOR, s);
    const uint32_t sn = norm(&b, "sn", BT_WEIGHT_OUT_NORM, s);
    const uint32_t logits = tensor(&b, "logits", BT_TENSOR_LOGITS, ROWS_OUT, hp->vocab);
    linear_to(&b, BT_WEIGHT_OUTPUT, sn, logits);
    if (hp->logit_cap > 0) op(&b, BT_OP_SOFT_CAP, BT_WEIGHT_NONE, logits, BT_GRAPH_NO_TENSOR, logits);

    if ((e = bt_graph_check(g, fault)) < 0) goto out;
    *ret = g;
    g = NULL;
out:
    bt_graph_free(g);
    return e;
}

void bt_graph_free(bt_graph *g)
{
    if (!g) return;
    free(g->tensor);
    free(g->op);
    free(g);
}

/* ---- checking ---- */

/* The shape of a weight's map: k inputs to n outputs; a norm has n = k. */
static void weight_shape(const bt_hparams *hp, bt_weight w, uint32_t *n, uint32_t *k)
{
    const uint32_t q = hp->heads * hp->head_dim, kv = hp->kv_heads * hp->head_dim;
    *n = *k = 0;
    switch (w) {
    case BT_WEIGHT_NONE:
    case BT_WEIGHT_SINKS: break; /* attention's, no operator's weight */
    case BT_WEIGHT_EMBED:
        *n = hp->dim;
        *k = 1;
        break;
    case BT_WEIGHT_ATTN_NORM:
    case BT_WEIGHT_FFN_NORM:
    case BT_WEIGHT_ATTN_POST_NORM:
    case BT_WEIGHT_FFN_POST_NORM:
    case BT_WEIGHT_OUT_NORM: *n = *k = hp->dim; break;
    case BT_WEIGHT_Q_NORM: *n = *k = q; break;
    case BT_WEIGHT_K_NORM: *n = *k = kv; break;
    case BT_WEIGHT_Q:
        *n = q;
        *k = hp->dim;
        break;
    case BT_WEIGHT_K:
    case BT_WEIGHT_V:
        *n = kv;
        *k = hp->dim;
        break;
    case BT_WEIGHT_O:
        *n = hp->dim;
        *k = q;
        break;
    case BT_WEIGHT_GATE:
    case BT_WEIGHT_UP:
        *n = hp->ffn;
        *k = hp->dim;
        break;
    case BT_WEIGHT_DOWN:
        *n = hp->dim;
        *k = hp->ffn;
        break;
    case BT_WEIGHT_OUTPUT:
        *n = hp->vocab;
        *k = hp->dim;
        break;
    case BT_WEIGHT_ROUTER:
        *n = bt_graph_route_width(hp);
        *k = hp->dim;
        break;
    }
}

static bool same_rows(bt_formula a, bt_formula b)
{
    bool same = a.coef == b.coef;
    for (int s = 0; s < BT_SYM_COUNT; s++) same = same && a.exp[s] == b.exp[s];
    return same;
}

/* Whether the tensor is of routes. */
static bool is_route(const bt_graph *g, const bt_tensor *t)
{
    return g->hp.experts > 0 && t->kind == BT_TENSOR_ACT && t->width == bt_graph_route_width(&g->hp);
}

/* Whether the tensor has a row for each expert of a row. */
static bool is_by_expert(const bt_graph *g, const bt_tensor *t, bt_formula rows)
{
    rows.coef *= g->hp.experts_used;
    return same_rows(t->rows, rows);
}

static bool shapes_fit(const bt_graph *g, const bt_op *o)
{
    const bt_op_info *info = &bt_op_infos[o->kind];
    const bt_tensor *a = &g->tensor[o->in[0]], *b = info->inputs > 1 ? &g->tensor[o->in[1]] : a;
    const bt_tensor *y = &g->tensor[o->out];
    const bool a_act = a->kind == BT_TENSOR_ACT, y_act = y->kind == BT_TENSOR_ACT;
    uint32_t n, k;
    weight_shape(&g->hp, o->weight, &n, &k);
    if (info->has_weight && (!same_rows(a->rows, y->rows) || a->width != k || y->width != n)) return false;
    switch ((bt_op_shape)info->shape) {
    case BT_SHAPE_IDS: return a->kind == BT_TENSOR_IDS && y_act;
    case BT_SHAPE_NORM: return a_act && y_act;
    case BT_SHAPE_ROWS: return a_act && y_act && same_rows(a->rows, y->rows) && a->width == y->width;
    case BT_SHAPE_MATRIX: return a_act && (y_act || y->kind == BT_TENSOR_LOGITS);
    case BT_SHAPE_HEADS:
        return a_act &&
               (a->width == o->heads * g->hp.head_dim || (o->heads == 1 && o->kind == BT_OP_QK_NORM &&
                                                          bt_arch_of(g->hp.arch)->qk_norm == BT_ARCH_ROWS));
    case BT_SHAPE_STORE:
        return a_act && b->kind == BT_TENSOR_ACT && y->kind == BT_TENSOR_KV && y->layer == o->layer &&
               same_rows(a->rows, ROWS_SEQ) && same_rows(b->rows, ROWS_SEQ) && a->width == b->width &&
               y->width == 2 * a->width;
    case BT_SHAPE_ATTEND:
        return a_act && y_act && b->kind == BT_TENSOR_KV && b->layer == o->layer &&
               same_rows(a->rows, ROWS_SEQ) && same_rows(y->rows, ROWS_SEQ) && a->width == y->width &&
               a->width == g->hp.heads * g->hp.head_dim;
    case BT_SHAPE_PAIR:
        return a_act && b->kind == BT_TENSOR_ACT && same_rows(a->rows, b->rows) && a->width == b->width &&
               a != b;
    case BT_SHAPE_SELECT:
        return a_act && y_act && same_rows(a->rows, ROWS_SEQ) && same_rows(y->rows, ROWS_OUT) &&
               a->width == y->width;
    case BT_SHAPE_LOGITS: return y->kind == BT_TENSOR_LOGITS;
    case BT_SHAPE_BLOCKS: return a_act && o->heads > 0 && a->width % o->heads == 0;
    case BT_SHAPE_ROUTE: return a_act && y_act && g->hp.experts > 0;
    case BT_SHAPE_GATHER:
        return a_act && y_act && is_route(g, b) && same_rows(a->rows, b->rows) &&
               is_by_expert(g, y, b->rows) && a->width == y->width;
    case BT_SHAPE_EXPERTS: return a_act && y_act && is_route(g, b) && is_by_expert(g, a, b->rows);
    case BT_SHAPE_MIX:
        return a_act && y_act && is_route(g, b) && same_rows(y->rows, b->rows) &&
               is_by_expert(g, a, b->rows) && a->width == y->width;
    }
    return false;
}

static bt_err check_op(const bt_graph *g, size_t i, bool *written, bt_fault *fault)
{
    const bt_op *o = &g->op[i];
    const char *name = bt_op_name(o->kind);
    if ((unsigned)o->kind >= BT_OP_KINDS)
        return bt_fail(fault, BT_EARG, "graph op %zu: kind %u is unknown", i, (unsigned)o->kind);
    const bt_op_info *info = &bt_op_infos[o->kind];
    for (unsigned j = 0; j < 2; j++) {
        const bool is_used = j < info->inputs;
        if (is_used ? o->in[j] >= g->tensors : o->in[j] != BT_GRAPH_NO_TENSOR)
            return bt_fail(fault, BT_EARG, "graph op %zu (%s): input %u is missing, or one too many", i, name,
                           j);
        if (is_used && !written[o->in[j]])
            return bt_fail(fault, BT_EARG, "graph op %zu (%s): reads '%s' before it is written", i, name,
                           g->tensor[o->in[j]].name);
    }
    if (o->out >= g->tensors || info->in_place != (o->out == o->in[0]))
        return bt_fail(fault, BT_EARG,
                       "graph op %zu (%s): the output is no tensor of the graph, or not where the input is",
                       i, name);
    if (info->has_weight != (o->weight != BT_WEIGHT_NONE) || info->by_head != (o->heads > 0))
        return bt_fail(fault, BT_EARG, "graph op %zu (%s): a weight or heads are missing, or too many", i,
                       name);
    if ((info->beside == BT_BESIDE_ROTATION) != (o->rotation != 0))
        return bt_fail(fault, BT_EARG, "graph op %zu (%s): rotation %u is missing, or one too many", i, name,
                       o->rotation);
    if (!shapes_fit(g, o))
        return bt_fail(fault, BT_EARG,
                       "graph op %zu (%s): the shapes of inputs, weight and output do not fit each other", i,
                       name);
    written[o->out] = true;
    return BT_OK;
}

bt_err bt_graph_check(const bt_graph *g, bt_fault *fault)
{
    bt_err e = BT_OK;
    uint32_t layer_now = 0;
    bool *written = calloc(g->tensors ? g->tensors : 1, sizeof *written);
    if (!written) return bt_fail(fault, BT_ENOMEM, "out of memory checking a graph");
    for (size_t t = 0; t < g->tensors; t++) written[t] = g->tensor[t].kind == BT_TENSOR_IDS;
    for (size_t i = 0; i < g->ops; i++) {
        if ((e = check_op(g, i, written, fault)) < 0) goto out;
        if (g->op[i].layer == BT_GRAPH_NO_LAYER) continue;
        if (g->op[i].layer < layer_now || g->op[i].layer >= g->hp.layers) {
            e = bt_fail(fault, BT_EARG, "graph op %zu: layers must ascend", i);
            goto out;
        }
        layer_now = g->op[i].layer;
    }
out:
    free(written);
    return e;
}

/* ---- looked at ---- */

bool bt_graph_rotates(const bt_graph *g, bt_rotation by)
{
    for (size_t i = 0; i < g->ops; i++)
        if (g->op[i].rotation == by) return true;
    return false;
}

uint32_t bt_graph_route_width(const bt_hparams *hp) { return 3 * hp->experts_used + hp->experts; }

bt_weight bt_graph_added(const bt_graph *g, size_t at)
{
    const uint32_t added = g->op[at].in[1];
    while (at-- > 0)
        if (g->op[at].kind == BT_OP_LINEAR && g->op[at].out == added) return g->op[at].weight;
    return BT_WEIGHT_NONE;
}

const bt_op *bt_graph_reader(const bt_graph *g, uint32_t tensor, size_t from)
{
    while (from < g->ops && (!bt_op_is_linear(&g->op[from]) || g->op[from].in[0] != tensor)) from++;
    return from < g->ops ? &g->op[from] : NULL;
}

bool bt_graph_is_by_expert(const bt_graph *g, uint32_t tensor)
{
    size_t i = 0;
    if (!g->hp.experts) return false;
    while (i < g->ops && g->op[i].out != tensor) i++;
    const uint8_t shape = i < g->ops ? bt_op_infos[g->op[i].kind].shape : BT_SHAPE_ROWS;
    return shape == BT_SHAPE_GATHER || shape == BT_SHAPE_EXPERTS;
}

/* ---- for people ---- */

static void formula_text(char *ret, size_t cap, bt_formula f)
{
    static const char letters[BT_SYM_COUNT] = {'B', 'S', 'C', 'O'};
    size_t used = 0;
    if (f.coef != 1) used = (size_t)snprintf(ret, cap, "%llu", (unsigned long long)f.coef);
    for (int s = 0; s < BT_SYM_COUNT; s++)
        for (uint8_t i = 0; i < f.exp[s] && used + 2 < cap; i++) {
            if (used) ret[used++] = '*';
            ret[used++] = letters[s];
        }
    ret[used] = 0;
}

static void print_tensor(const bt_graph *g, uint32_t t, FILE *to)
{
    char rows[64];
    if (t == BT_GRAPH_NO_TENSOR) return;
    formula_text(rows, sizeof rows, g->tensor[t].rows);
    fprintf(to, " %s[%s, %u]", g->tensor[t].name, rows, g->tensor[t].width);
}

void bt_graph_print(const bt_graph *g, FILE *to, uint32_t layers)
{
    fprintf(to, "B batch, S seq, C ctx, O rows with logits\n");
    for (size_t i = 0; i < g->ops; i++) {
        const bt_op *o = &g->op[i];
        const bool in_layer = o->layer != BT_GRAPH_NO_LAYER;
        if (in_layer && o->layer >= layers) continue;
        if (in_layer) fprintf(to, "%3u.%-12s", o->layer, bt_op_name(o->kind));
        else fprintf(to, "  -.%-12s", bt_op_name(o->kind));
        fprintf(to, "%-10s", bt_weight_name(o->weight));
        print_tensor(g, o->out, to);
        fprintf(to, " <-");
        print_tensor(g, o->in[0], to);
        print_tensor(g, o->in[1], to);
        if (o->macs.coef) {
            char macs[64];
            formula_text(macs, sizeof macs, o->macs);
            fprintf(to, "  %s macs", macs);
        }
        fprintf(to, "\n");
    }
    if (layers < g->hp.layers) fprintf(to, "and %u layers like these\n", g->hp.layers - layers);
}

bt_err bt_graph_macs(uint64_t *ret, const bt_graph *g, const bt_bind *b, bt_fault *fault)
{
    uint64_t sum = 0, v = 0;
    for (size_t i = 0; i < g->ops; i++) {
        const bt_err e = bt_formula_eval(&v, g->op[i].macs, b, fault);
        if (e < 0) return e;
        if (__builtin_add_overflow(sum, v, &sum))
            return bt_fail(fault, BT_ELIMIT, "multiply-accumulates do not fit 64 bits");
    }
    *ret = sum;
    return BT_OK;
}
