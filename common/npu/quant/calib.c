/* Runs the float model on a text, layer by layer, and measures what its operators read and write. */
#include "npu/quant/calib.h"
#include "base/num.h"
#include "graph/walk.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = BT_CALIB_WINDOW,
    PAGE_TOKENS = 256,
    PAGES = WINDOW / PAGE_TOKENS,
    MIN_TOKENS = 16,
    ALIGN = 64
};

/* A window of the text. Its residual stream stays in its arena from layer to layer. */
typedef struct window {
    const int32_t *ids;
    size_t first, count; /* tokens before it, and in it */
    bt_program *program;
    void *arena;
    float *tensor_max; /* [graph tensors]: greatest magnitude in each */
} window;

struct bt_calib {
    const bt_model *m;
    const bt_kernels *kernels;
    bt_pool *pool;
    bt_weights_source source;
    bt_weights *weights; /* by layer */
    bt_graph *graph;
    bt_walk *walk;
    uint8_t *page[PAGES];
    bt_kv_view kv; /* of the window that runs */
    float *head;   /* [WINDOW, dim]: the head's input */
    bt_calib_stats stats;
    void (*progress)(void *ud, uint64_t done, uint64_t total);
    void *progress_ud;
    /* of one run */
    const bt_calib_reader *reader; /* NULL: figures are taken */
    window *window;
    size_t windows, total; /* tokens of all windows */
    /* Experts: figures of those of the layer that runs, [2][experts], of the inputs of gate and up, then of
     * down */
    bt_calib_expert_fn *expert_fn;
    void *expert_ud;
    bt_calib_site *expert;
    uint32_t *begin; /* [experts + 1]: which rows of the window are each expert's, by the last ROUTE */
    const window *now;
    size_t layer, step_begin, step_end; /* of the program that runs */
};

static bt_companion_rotation companion_of(const bt_hadamard *h)
{
    return (bt_companion_rotation){h->base, h->log2, h->base > 1 ? h->h : NULL, h->sign, h->scale};
}

static bt_err make_pages(bt_calib *c, bt_fault *fault)
{
    const bt_hparams *hp = &c->m->hp;
    const size_t head = (size_t)hp->head_dim * 2, token = head * hp->kv_heads, plane = token * PAGE_TOKENS;
    c->kv = (bt_kv_view){
        .page = c->page,      .page_tokens = PAGE_TOKENS, .tokens_capacity = WINDOW, .layer_bytes = 2 * plane,
        .plane_bytes = plane, .token_bytes = token,       .head_bytes = head,        .elem_bytes = 2,
        .layers = hp->layers, .kv_heads = hp->kv_heads,   .head_dim = hp->head_dim};
    for (size_t i = 0; i < PAGES; i++)
        if (!(c->page[i] = malloc(2 * plane * hp->layers)))
            return bt_fail(fault, BT_ENOMEM, "out of memory for the KV pages of the calibration, %zu MiB",
                           PAGES * 2 * plane * hp->layers >> 20);
    return BT_OK;
}

static bt_err make_stats(bt_calib *c, bt_fault *fault)
{
    const bt_hparams *hp = &c->m->hp;
    bt_calib_stats *s = &c->stats;
    s->sites = (size_t)hp->layers * BT_PKG_LAYER_SITES + 1;
    s->site = calloc(s->sites, sizeof *s->site);
    s->out_max = calloc((size_t)hp->layers * BT_PKG_LAYER_TENSORS + 2, sizeof *s->out_max);
    s->attention_max = calloc(hp->layers, sizeof *s->attention_max);
    c->head = malloc((size_t)WINDOW * hp->dim * sizeof *c->head);
    bool made = s->site && s->out_max && s->attention_max && c->head;
    size_t bytes = 0; /* nearly all of it */
    for (size_t i = 0; made && i < s->sites; i++) {
        bt_calib_site *site = &s->site[i];
        const uint32_t kind = i + 1 == s->sites ? BT_SITE_HEAD : i % BT_PKG_LAYER_SITES;
        site->k = bt_pkg_site_width(kind, hp->dim, hp->heads * hp->head_dim, hp->ffn);
        bytes += BT_CALIB_SAMPLES * site->k * sizeof *site->sample;
        site->hist = calloc(2 * BT_CALIB_BINS, sizeof *site->hist);
        site->column_max = calloc(site->k, sizeof *site->column_max);
        site->column_end = calloc(2 * site->k, sizeof *site->column_end);
        site->column_sum = calloc(site->k, sizeof *site->column_sum);
        site->sample = calloc(BT_CALIB_SAMPLES * site->k, sizeof *site->sample);
        made = site->hist && site->column_max && site->column_end && site->column_sum && site->sample;
    }
    return made ? BT_OK
                : bt_fail(fault, BT_ENOMEM, "out of memory for the figures of the calibration after %zu MiB",
                          bytes >> 20);
}

bt_err bt_calib_new(bt_calib **ret, const bt_model *m, bt_fold *fold, const bt_kernels *kernels,
                    bt_pool *pool, void (*progress)(void *ud, uint64_t done, uint64_t total),
                    void *progress_ud, bt_fault *fault)
{
    const bt_companion_rotations r = {companion_of(bt_fold_r1(fold)), companion_of(bt_fold_r2(fold)),
                                      companion_of(bt_fold_r4(fold))};
    const bt_graph_options go = bt_fold_graph(fold);
    bt_calib *c = calloc(1, sizeof *c);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory calibrating");
    c->m = m;
    c->kernels = kernels;
    c->pool = pool;
    c->progress = progress;
    c->progress_ud = progress_ud;
    c->source = bt_fold_source(fold);
    const bt_weights_options o = {.ctx_tokens = WINDOW, .source = &c->source, .by_layer = true};
    bt_err e = bt_weights_open(&c->weights, m, &o, pool, fault);
    if (e == BT_OK) e = bt_graph_build(&c->graph, &m->hp, &go, fault);
    const bt_walk_config wc = {.weights = c->weights, .rotations = &r, .kernels = kernels, .pool = pool,
                               .sequences_max = 1};
    if (e == BT_OK) e = bt_walk_new(&c->walk, &wc, fault);
    if (e == BT_OK) e = make_pages(c, fault);
    if (e == BT_OK) e = make_stats(c, fault);
    if (e < 0) bt_calib_free(c);
    else *ret = c;
    return e;
}

void bt_calib_free(bt_calib *c)
{
    if (!c) return;
    bt_walk_free(c->walk);
    bt_graph_free(c->graph);
    bt_weights_free(c->weights);
    for (size_t i = 0; i < PAGES; i++) free(c->page[i]);
    for (size_t i = 0; c->stats.site && i < c->stats.sites; i++) {
        free(c->stats.site[i].hist);
        free(c->stats.site[i].column_max);
        free(c->stats.site[i].column_end);
        free(c->stats.site[i].column_sum);
        free(c->stats.site[i].sample);
    }
    for (size_t i = 0; c->expert && i < 2 * (size_t)c->m->hp.experts; i++) {
        free(c->expert[i].hist);
        free(c->expert[i].column_max);
        free(c->expert[i].column_end);
    }
    free(c->expert);
    free(c->begin);
    free(c->stats.site);
    free(c->stats.out_max);
    free(c->stats.attention_max);
    free(c->stats.op_max);
    free(c->head);
    free(c);
}

/* The bits of |x|. They compare as magnitudes do, and those of a NaN are above all. */
static uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void raise_to(float *max, const float *x, size_t count)
{
    uint32_t worst = magnitude(*max);
    for (size_t i = 0; i < count; i++) {
        const uint32_t v = magnitude(x[i]);
        worst = v > worst ? v : worst;
    }
    *max = from_bits(worst);
}

/* Adds a row to a site's histogram, sums and ends. */
static void add_row(bt_calib_site *s, const float *v)
{
    double square = 0;
    for (size_t i = 0; i < s->k; i++) {
        s->hist[(signbit(v[i]) ? BT_CALIB_BINS : 0) + (magnitude(v[i]) >> 15)]++;
        square += (double)v[i] * v[i];
        s->column_max[i] = magnitude(v[i]) > magnitude(s->column_max[i]) ? fabsf(v[i]) : s->column_max[i];
    }
    s->square += square;
    for (size_t i = 0; i < s->k; i++) {
        s->column_end[i] = v[i] < s->column_end[i] ? v[i] : s->column_end[i];
        s->column_end[s->k + i] = v[i] > s->column_end[s->k + i] ? v[i] : s->column_end[s->k + i];
    }
    s->count += s->k;
}

static void watch_rows(bt_calib *c, uint32_t index, const float *x, size_t t)
{
    bt_calib_site *s = &c->stats.site[index];
    if (c->reader) {
        c->reader->rows(c->reader->ud, index, x, t, s->k);
        return;
    }
    for (size_t row = 0; row < t; row++) {
        const float *v = x + row * s->k;
        add_row(s, v);
        for (size_t i = 0; row > 0 && i < s->k; i++) s->column_sum[i] += (double)v[i];
        if (s->samples < BT_CALIB_SAMPLES &&
            c->now->first + row == (2 * s->samples + 1) * c->total / (2 * BT_CALIB_SAMPLES))
            memcpy(s->sample + s->samples++ * s->k, v, s->k * sizeof *v);
    }
    s->sum_rows += t - 1;
}

/* Notes which rows of the window are each expert's: rows are gathered by expert. */
static void watch_routes(bt_calib *c, const bt_step *step, const float *routes, size_t rows)
{
    const bt_hparams *hp = &c->m->hp;
    memset(c->begin, 0, ((size_t)hp->experts + 1) * sizeof *c->begin);
    for (size_t r = 0; r < rows; r++) {
        const uint32_t *number = (const uint32_t *)(const void *)(routes + r * step->out_width);
        for (uint32_t i = 0; i < hp->experts_used; i++) c->begin[number[i] + 1]++;
    }
    for (uint32_t e = 0; e < hp->experts; e++) c->begin[e + 1] += c->begin[e];
}

static void watch_experts(bt_calib *c, uint32_t kind, const float *x)
{
    bt_calib_site *of = c->expert + (kind == BT_SITE_DOWN ? c->m->hp.experts : 0);
    for (uint32_t e = 0; e < c->m->hp.experts; e++)
        for (uint32_t r = c->begin[e]; r < c->begin[e + 1]; r++) add_row(&of[e], x + r * of[e].k);
}

static void watch_linear(bt_calib *c, const bt_step *step, const float *in, const float *out, size_t rows)
{
    const uint32_t layers = c->m->hp.layers;
    const bt_weight first = bt_arch_is_gated(c->m->hp.arch) ? BT_WEIGHT_GATE : BT_WEIGHT_UP;
    if (step->weight == BT_WEIGHT_Q || step->weight == BT_WEIGHT_O || step->weight == first ||
        step->weight == BT_WEIGHT_DOWN) {
        const uint32_t kind = bt_pkg_site_of(step->weight);
        watch_rows(c, bt_pkg_site_index(layers, step->layer, kind), in, rows);
        if (step->kind == BT_OP_EXPERTS && c->expert && !c->reader) watch_experts(c, kind, in);
    }
    if (!c->reader)
        raise_to(&c->stats.out_max[bt_pkg_tensor_index(layers, step->layer, step->weight)], out,
                 rows * step->out_width);
}

bt_err bt_calib_watch_ops(bt_calib *c, bt_fault *fault)
{
    free(c->stats.op_max);
    c->stats.op_max = calloc(c->graph->ops, sizeof *c->stats.op_max);
    return c->stats.op_max ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory watching operators");
}

bt_err bt_calib_watch_experts(bt_calib *c, bt_calib_expert_fn *fn, void *ud, bt_fault *fault)
{
    const bt_hparams *hp = &c->m->hp;
    bool made = true;
    c->expert_fn = fn;
    c->expert_ud = ud;
    if (!hp->experts || c->expert) return BT_OK;
    c->begin = calloc((size_t)hp->experts + 1, sizeof *c->begin);
    c->expert = calloc(2 * (size_t)hp->experts, sizeof *c->expert);
    for (size_t i = 0; made && c->expert && i < 2 * (size_t)hp->experts; i++) {
        bt_calib_site *s = &c->expert[i];
        s->k = i < hp->experts ? hp->dim : hp->ffn;
        s->hist = calloc(2 * BT_CALIB_BINS, sizeof *s->hist);
        s->column_max = calloc(s->k, sizeof *s->column_max);
        s->column_end = calloc(2 * s->k, sizeof *s->column_end);
        made = s->hist && s->column_max && s->column_end;
    }
    return made && c->begin && c->expert
               ? BT_OK
               : bt_fail(fault, BT_ENOMEM, "out of memory for the figures of %u experts", hp->experts);
}

/* A program has one step for each operator, in the graph's order. The KV store has no `out`:
 * its tensor gets the greatest magnitude that it was given so far. */
static void watch_op(bt_calib *c, const bt_step *step, const float *out, size_t count)
{
    const window *w = c->now;
    float *most = &c->stats.op_max[step - w->program->step], *made = &w->tensor_max[step->out];
    for (int i = 0; i < 2; i++)
        if (step->in[i] != BT_GRAPH_NO_TENSOR) raise_to(most, &w->tensor_max[step->in[i]], 1);
    *made = 0;
    if (step->kind == BT_OP_ROUTE) return; /* routes are no values */
    if (out) raise_to(made, out, count);
    else *made = *most;
    raise_to(most, made, 1);
}

/* The tail, which only logits need, does not run. Its operators get the magnitude of the head's input; the
 * last norm, which reads the residual stream, gets the greater of both. */
static void watch_tail(bt_calib *c)
{
    const bt_graph *g = c->graph;
    const float head = c->stats.site[c->stats.sites - 1].max;
    float *most = c->stats.op_max;
    for (size_t i = g->op_tail; i < g->ops; i++) {
        most[i] = head;
        if (!bt_op_is_linear(&g->op[i])) raise_to(&most[i], &most[g->op_tail - 1], 1);
    }
}

static void tell_progress(const bt_calib *c, const bt_step *step, size_t rows)
{
    const size_t steps = c->step_end - c->step_begin,
                 at = (size_t)(step - c->now->program->step) + 1 - c->step_begin, layers = c->m->hp.layers;
    c->progress(c->progress_ud, (c->layer * c->total + c->now->first) * steps + rows * at,
                layers * c->total * steps);
}

static void watch(void *ud, const bt_step *step, const float *in, const float *out, size_t rows)
{
    bt_calib *c = ud;
    const bt_hparams *hp = &c->m->hp;
    const size_t count = rows * step->out_width;
    const char *name = step->out == BT_GRAPH_NO_TENSOR ? "" : c->graph->tensor[step->out].name;
    if (c->progress) tell_progress(c, step, rows);
    if (c->reader && c->reader->steps) {
        c->reader->steps(c->reader->ud, step, in, out, rows, &c->kv);
        return;
    }
    if (step->kind == BT_OP_ROUTE && c->expert) watch_routes(c, step, out, rows);
    if (bt_op_infos[step->kind].price == BT_PRICED_MATRIX) watch_linear(c, step, in, out, rows);
    if ((size_t)(step - c->now->program->step) + 1 == c->graph->op_tail) {
        const bool by_mean = bt_arch_of(hp->arch)->norm == BT_ARCH_MEAN;
        (by_mean ? c->kernels->layernorm
                 : c->kernels->rmsnorm)(c->head, hp->dim, out, hp->dim,
                                        bt_weights_vector_of(c->weights, 0, BT_WEIGHT_OUT_NORM), hp->rms_eps,
                                        rows, hp->dim);
        watch_rows(c, bt_pkg_site_index(hp->layers, 0, BT_SITE_HEAD), c->head, rows);
    }
    if (!c->reader && c->stats.op_max) watch_op(c, step, out, count);
    if (c->reader || !out) return;
    if (step->kind == BT_OP_ATTENTION) raise_to(&c->stats.attention_max[step->layer], out, count);
    if (bt_op_infos[step->kind].shape == BT_SHAPE_HEADS)
        raise_to(&c->stats.out_max[bt_pkg_tensor_index(hp->layers, step->layer,
                                                       name[0] == 'q' ? BT_WEIGHT_Q : BT_WEIGHT_K)],
                 out, count);
    if (step->kind == BT_OP_ADD || step->kind == BT_OP_EMBED || step->rotation == BT_ROTATION_R1)
        raise_to(&c->stats.residual_max, out, count);
}

/* ---- windows ---- */

static void windows_done(bt_calib *c)
{
    for (size_t i = 0; c->window && i < c->windows; i++) {
        bt_bind_free(c->window[i].program);
        free(c->window[i].arena);
        free(c->window[i].tensor_max);
    }
    free(c->window);
    c->window = NULL;
}

static bt_err windows_make(bt_calib *c, const int32_t *ids, size_t n, bt_fault *fault)
{
    bt_err e = BT_OK;
    c->total = n % WINDOW < MIN_TOKENS ? n - n % WINDOW : n;
    c->windows = (c->total + WINDOW - 1) / WINDOW;
    c->window = calloc(c->windows, sizeof *c->window);
    if (!c->window) return bt_fail(fault, BT_ENOMEM, "out of memory calibrating");
    for (size_t i = 0; e == BT_OK && i < c->windows; i++) {
        window *w = &c->window[i];
        w->ids = ids + i * WINDOW;
        w->first = i * WINDOW;
        w->count = c->total - w->first < WINDOW ? c->total - w->first : WINDOW;
        w->tensor_max = calloc(c->graph->tensors, sizeof *w->tensor_max);
        e = bt_bind_program(&w->program, c->graph, 1, w->count, 0, 0, fault);
        if (e == BT_OK && (!w->tensor_max || !(w->arena = aligned_alloc(ALIGN, w->program->arena.fixed))))
            e = bt_fail(fault, BT_ENOMEM, "out of memory for an arena of the calibration, %zu MiB",
                        (size_t)w->program->arena.fixed >> 20);
    }
    return e;
}

/* The steps of a layer. The first layer has the embedding too, the last layer all steps that follow it. */
static void steps_of(size_t *begin, size_t *end, const bt_program *p, uint32_t layer, uint32_t layers)
{
    for (*begin = 0; layer > 0 && p->step[*begin].layer != layer;) ++*begin;
    for (*end = *begin; *end < p->steps && (layer + 1 == layers || p->step[*end].layer != layer + 1);) ++*end;
}

static bt_err run_window(bt_calib *c, const window *w, uint32_t layer, bt_fault *fault)
{
    const bt_companion_seq seq = {&c->kv, 0, w->count};
    bt_walk_io io = {.ids = w->ids, .seq = &seq,      .sequences = 1,
                     .bucket = 1,   .on_step = watch, .on_step_ud = c};
    c->now = w;
    c->layer = layer;
    steps_of(&c->step_begin, &c->step_end, w->program, layer, c->m->hp.layers);
    io.step_begin = c->step_begin;
    io.step_end = c->step_end;
    return bt_walk_run(c->walk, w->program, w->arena, &io, fault);
}

static void clear_ends(bt_calib_site *site)
{
    memset(site->hist, 0, 2 * BT_CALIB_BINS * sizeof *site->hist);
    memset(site->column_max, 0, site->k * sizeof *site->column_max);
    memset(site->column_end, 0, 2 * site->k * sizeof *site->column_end);
    site->count = 0;
    site->square = 0;
}

static void clear(bt_calib_stats *s, uint32_t layers, size_t ops)
{
    for (size_t i = 0; i < s->sites; i++) {
        bt_calib_site *site = &s->site[i];
        clear_ends(site);
        memset(site->column_sum, 0, site->k * sizeof *site->column_sum);
        site->sum_rows = 0;
        site->samples = 0;
    }
    memset(s->out_max, 0, ((size_t)layers * BT_PKG_LAYER_TENSORS + 2) * sizeof *s->out_max);
    memset(s->attention_max, 0, layers * sizeof *s->attention_max);
    s->residual_max = 0;
    if (s->op_max) memset(s->op_max, 0, ops * sizeof *s->op_max);
}

/* Hands on the figures of a layer's experts, and clears them for the next layer. */
static void experts_done(bt_calib *c, uint32_t layer)
{
    const uint32_t experts = c->m->hp.experts;
    for (uint32_t i = 0; c->expert && i < 2 * experts; i++) {
        bt_calib_site *s = &c->expert[i];
        s->max = 0;
        raise_to(&s->max, s->column_max, s->k);
        c->expert_fn(c->expert_ud, layer, i < experts ? BT_SITE_UP : BT_SITE_DOWN, i % experts, s);
        clear_ends(s);
    }
}

/* Each layer runs over all windows before the next, so that one layer's weights are in memory at a time. */
static bt_err run(bt_calib *c, const int32_t *ids, size_t n, const bt_calib_reader *r, bt_fault *fault)
{
    if (n < MIN_TOKENS)
        return bt_fail(fault, BT_EARG, "%zu tokens to calibrate with: at least %d are needed", n, MIN_TOKENS);
    bt_err e = windows_make(c, ids, n, fault);
    c->reader = r;
    for (uint32_t l = 0; e == BT_OK && l < c->m->hp.layers; l++) {
        e = bt_weights_hold(c->weights, l, c->pool, fault);
        if (e == BT_OK && r && r->before) e = r->before(r->ud, l, fault);
        for (size_t i = 0; e == BT_OK && i < c->windows; i++) e = run_window(c, &c->window[i], l, fault);
        if (e == BT_OK && !r) experts_done(c, l);
        if (e == BT_OK && r && r->after) e = r->after(r->ud, l, fault);
    }
    windows_done(c);
    return e;
}

bt_err bt_calib_measure(const bt_calib_stats **ret, bt_calib *c, const int32_t *ids, size_t n,
                        bt_fault *fault)
{
    bt_calib_stats *s = &c->stats;
    clear(s, c->m->hp.layers, c->graph->ops);
    const bt_err e = run(c, ids, n, NULL, fault);
    if (e < 0) return e;
    for (size_t i = 0; i < s->sites; i++) {
        s->site[i].max = 0;
        raise_to(&s->site[i].max, s->site[i].column_max, s->site[i].k);
        if (!isfinite(s->site[i].max))
            return bt_fail(fault, BT_EFORMAT, "calibration: the input of %s in layer %zu is not finite",
                           bt_site_kind_name(i + 1 == s->sites ? BT_SITE_HEAD
                                                               : (bt_site_kind)(i % BT_PKG_LAYER_SITES)),
                           i / BT_PKG_LAYER_SITES);
    }
    if (s->op_max) watch_tail(c);
    s->tokens = c->total;
    *ret = s;
    return BT_OK;
}

bt_err bt_calib_read(bt_calib *c, const int32_t *ids, size_t n, const bt_calib_reader *reader,
                     bt_fault *fault)
{
    return run(c, ids, n, reader, fault);
}

float bt_calib_percentile(const bt_calib_site *s, double p)
{
    if (p >= 100) return s->max;
    const double wanted = (double)s->count * p / 100;
    uint64_t seen = 0;
    for (uint32_t bin = 0; bin < BT_CALIB_BINS; bin++) {
        seen += s->hist[bin] + s->hist[BT_CALIB_BINS + bin];
        if ((double)seen < wanted) continue;
        const float edge = from_bits(bin << 15 | 0x7fff);
        return edge < s->max ? edge : s->max;
    }
    return s->max;
}

/* The smallest magnitude on one side of 0 that at most `beyond` values exceed, but not above `most`.
 */
static float end_of(const uint32_t *hist, double beyond, float most)
{
    uint64_t outside = 0;
    for (uint32_t bin = BT_CALIB_BINS; bin-- > 0;) {
        outside += hist[bin];
        if ((double)outside <= beyond) continue;
        const float edge = from_bits(bin << 15 | 0x7fff);
        return edge < most ? edge : most;
    }
    return 0;
}

void bt_calib_range(float *lo, float *hi, const bt_calib_site *s, double p)
{
    const double beyond = (double)s->count * (100 - p) / 200;
    float end[2] = {0, 0};
    for (size_t i = 0; i < s->k; i++) {
        end[0] = -s->column_end[i] > end[0] ? -s->column_end[i] : end[0];
        end[1] = s->column_end[s->k + i] > end[1] ? s->column_end[s->k + i] : end[1];
    }
    *lo = -(p >= 100 ? end[0] : end_of(s->hist + BT_CALIB_BINS, beyond, end[0]));
    *hi = p >= 100 ? end[1] : end_of(s->hist, beyond, end[1]);
}
