/* The reference engine. Read run_layer from top to bottom: it is one transformer layer as published. The
 * matrix product is the one place with a shape chosen for speed; it is still the plain sum over inputs in
 * ascending order. */
#include "ref/ref.h"
#include "model/gguf.h"

#include "base/num.h"
#include "model/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PANEL = 8,   /* outputs that lie together in memory, so that a row of them is a vector */
    GROUP = 4,   /* rows that share one reading of the weights */
    BLOCK = 128, /* rows worked on at a time; bounds the scratch memory */
};

/* A matrix of n outputs and k inputs, as panels: w[(p * k + i) * PANEL + j] = weight of output PANEL p + j
 * and input i. */
typedef struct matrix {
    size_t n, k;
    float *w;
} matrix;

typedef struct ref_layer {
    float *attn_norm, *ffn_norm, *attn_post, *ffn_post, *q_norm, *k_norm; /* NULL where the architecture has
                                                                             none */
    float *bq, *bk, *bv, *bo, *b_gate, *b_up, *b_down, *b_router; /* of experts one behind the other */
    float *sinks;                                                 /* [H], or NULL */
    matrix wq, wk, wv, wo, gate, up, down;
    float *router;                     /* [experts, D]; NULL: there are none */
    matrix *gate_of, *up_of, *down_of; /* [experts], in place of gate, up and down */
} ref_layer;

struct bt_ref {
    const bt_model *m;
    bt_pool *pool;
    ref_layer *layer;
    float *out_norm;
    matrix output;
    float *cosines, *sines; /* [ctx, rope_dims / 2] */
};

struct bt_ref_kv {
    size_t tokens, width, layers; /* width = G E */
    float *rows;                  /* [L][K|V][tokens][width] */
};

/* Scratch of one call. */
typedef struct work {
    bt_ref *r;
    bt_ref_kv *kv;
    size_t pos0;
    float *x;                       /* [n, D], the residual stream of the whole prompt */
    float *h, *q, *att, *gate, *up; /* [BLOCK, ...] */
    float *mix;                     /* [BLOCK, D], of experts */
    float *scores;                  /* [parts, ctx] */
    const atomic_bool *cancel;
} work;

/* ---- loading ---- */

static float *take(size_t a, size_t b)
{
    size_t bytes;
    if (!bt_mul_size(&bytes, a, b) || !bt_mul_size(&bytes, bytes, sizeof(float))) return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

static bt_err check_finite(const float *x, size_t n, const char *name, bt_fault *fault)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return bt_fail(fault, BT_EFORMAT, "tensor '%s' holds a value that is not finite", name);
    return BT_OK;
}

static bt_err load_vector(float **ret, const bt_gguf_tensor *t, bt_fault *fault)
{
    if (!t) return BT_OK;
    *ret = take(t->dim[0], t->rows);
    if (!*ret) return bt_fail(fault, BT_ENOMEM, "out of memory for tensor '%s'", t->name);
    for (size_t n = 0; n < t->rows; n++) bt_model_row_f32(*ret + n * t->dim[0], t, n);
    return check_finite(*ret, t->dim[0] * t->rows, t->name, fault);
}

typedef struct load_job {
    matrix *m;
    const bt_gguf_tensor *t;
    size_t first;
    float *rows;
    atomic_bool bad;
} load_job;

static void load_panels(void *ud, size_t part, size_t parts)
{
    load_job *job = ud;
    matrix *m = job->m;
    float *row = job->rows + part * m->k;
    size_t begin, end;
    bt_pool_slice(&begin, &end, m->n, PANEL, part, parts);
    for (size_t n = begin; n < end; n++) {
        bt_model_row_f32(row, job->t, job->first + n);
        if (check_finite(row, m->k, job->t->name, NULL) < 0) atomic_store(&job->bad, true);
        float *w = m->w + n / PANEL * m->k * PANEL + n % PANEL;
        for (size_t i = 0; i < m->k; i++) w[i * PANEL] = row[i];
    }
}

/* n rows of the tensor from its row `first` on. */
static bt_err load_rows(matrix *m, bt_ref *r, const bt_gguf_tensor *t, size_t first, size_t n,
                        bt_fault *fault)
{
    m->n = n;
    m->k = t->dim[0];
    m->w = take((m->n + PANEL - 1) / PANEL * PANEL, m->k);
    load_job job = {.m = m, .t = t, .first = first,
                    .rows = malloc(bt_pool_threads(r->pool) * m->k * sizeof(float))};
    bt_err e = BT_OK;
    if (!m->w || !job.rows) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for tensor '%s' (%zu bytes as f32)", t->name,
                    m->n * m->k * sizeof(float));
        goto out;
    }
    bt_pool_run(r->pool, load_panels, &job);
    if (atomic_load(&job.bad))
        e = bt_fail(fault, BT_EFORMAT, "tensor '%s' holds a value that is not finite", t->name);
out:
    free(job.rows);
    return e;
}

static bt_err load_matrix(matrix *m, bt_ref *r, const bt_gguf_tensor *t, bt_fault *fault)
{
    return load_rows(m, r, t, 0, t->rows, fault);
}

static bt_err load_experts(ref_layer *x, bt_ref *r, const bt_layer_tensors *t, bt_fault *fault)
{
    const size_t experts = r->m->hp.experts;
    struct {
        matrix **ret;
        const bt_gguf_tensor *t;
    } of[] = {{&x->gate_of, t->w_gate}, {&x->up_of, t->w_up}, {&x->down_of, t->w_down}};
    bt_err e = load_vector(&x->router, t->router, fault);
    for (size_t i = 0; e == BT_OK && i < sizeof of / sizeof *of; i++) {
        *of[i].ret = calloc(experts, sizeof **of[i].ret);
        if (!*of[i].ret) e = bt_fail(fault, BT_ENOMEM, "out of memory for %zu experts", experts);
        for (size_t k = 0; e == BT_OK && k < experts; k++)
            e = load_rows(&(*of[i].ret)[k], r, of[i].t, k * of[i].t->dim[1], of[i].t->dim[1], fault);
    }
    return e;
}

static bt_err load_layer(ref_layer *x, bt_ref *r, const bt_layer_tensors *t, bt_fault *fault)
{
    struct {
        float **ret;
        const bt_gguf_tensor *t;
    } vectors[] = {
        {&x->attn_norm, t->attn_norm},
        {&x->ffn_norm, t->ffn_norm},
        {&x->attn_post, t->attn_post_norm},
        {&x->ffn_post, t->ffn_post_norm},
        {&x->q_norm, t->q_norm},
        {&x->k_norm, t->k_norm},
        {&x->bq, t->bq},
        {&x->bk, t->bk},
        {&x->bv, t->bv},
        {&x->bo, t->bo},
        {&x->b_up, t->b_up},
        {&x->b_down, t->b_down},
        {&x->b_gate, t->b_gate},
        {&x->b_router, t->b_router},
        {&x->sinks, t->sinks},
    };
    struct {
        matrix *m;
        const bt_gguf_tensor *t;
    } matrices[] = {
        {&x->wq, t->wq},       {&x->wk, t->wk},   {&x->wv, t->wv},       {&x->wo, t->wo},
        {&x->gate, t->w_gate}, {&x->up, t->w_up}, {&x->down, t->w_down},
    };
    enum { SHARED = 4 }; /* matrices that are no experts' */
    const size_t loaded = t->router ? SHARED : sizeof matrices / sizeof *matrices;
    bt_err e = t->router ? load_experts(x, r, t, fault) : BT_OK;
    for (size_t i = 0; e == BT_OK && i < sizeof vectors / sizeof *vectors; i++)
        e = load_vector(vectors[i].ret, vectors[i].t, fault);
    for (size_t i = 0; e == BT_OK && i < loaded; i++)
        if (matrices[i].t) e = load_matrix(matrices[i].m, r, matrices[i].t, fault);
    return e;
}

bt_err bt_ref_new(bt_ref **ret, const bt_model *m, bt_pool *pool, bt_fault *fault)
{
    const bt_hparams *hp = &m->hp;
    bt_err e = BT_OK;
    bt_ref *r = calloc(1, sizeof *r);
    if (!r) return bt_fail(fault, BT_ENOMEM, "out of memory for the reference engine");
    r->m = m;
    r->pool = pool;
    r->layer = calloc(hp->layers, sizeof *r->layer);
    const size_t tables = bt_hparams_rope_tables(hp), angles = (size_t)hp->ctx * (hp->rope_dims / 2);
    r->cosines = take(tables * hp->ctx, hp->rope_dims / 2);
    r->sines = take(tables * hp->ctx, hp->rope_dims / 2);
    if (!r->layer || !r->cosines || !r->sines) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the reference engine");
        goto out;
    }
    for (size_t t = 0; t < tables; t++)
        bt_model_rope_table(r->cosines + t * angles, r->sines + t * angles, m, t, hp->ctx);
    for (uint32_t i = 0; e == BT_OK && i < hp->layers; i++)
        e = load_layer(&r->layer[i], r, &m->layer[i], fault);
    if (e == BT_OK) e = load_vector(&r->out_norm, m->out_norm, fault);
    if (e == BT_OK) e = load_matrix(&r->output, r, m->output, fault);
out:
    if (e < 0) bt_ref_free(r);
    else *ret = r;
    return e;
}

void bt_ref_free(bt_ref *r)
{
    if (!r) return;
    for (uint32_t i = 0; r->layer && i < r->m->hp.layers; i++) {
        ref_layer *x = &r->layer[i];
        float *const all[] = {x->bo,       x->b_up,   x->b_down,   x->attn_norm, x->ffn_norm, x->attn_post,
                              x->ffn_post, x->q_norm, x->k_norm,   x->bq,        x->bk,       x->bv,
                              x->wq.w,     x->wk.w,   x->wv.w,     x->wo.w,      x->gate.w,   x->up.w,
                              x->down.w,   x->b_gate, x->b_router, x->sinks};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
        matrix *const of[] = {x->gate_of, x->up_of, x->down_of};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
            for (size_t n = 0; of[k] && n < r->m->hp.experts; n++) free(of[k][n].w);
            free(of[k]);
        }
        free(x->router);
    }
    free(r->layer);
    free(r->out_norm);
    free(r->output.w);
    free(r->cosines);
    free(r->sines);
    free(r);
}

/* ---- K and V ---- */

bt_err bt_ref_kv_new(bt_ref_kv **ret, const bt_ref *r, size_t ctx_tokens, bt_fault *fault)
{
    const bt_hparams *hp = &r->m->hp;
    if (ctx_tokens == 0 || ctx_tokens > hp->ctx)
        return bt_fail(fault, BT_ELIMIT, "room for %zu tokens asked; the model has a context of %u",
                       ctx_tokens, hp->ctx);
    bt_ref_kv *kv = calloc(1, sizeof *kv);
    size_t elems = 0;
    if (kv) {
        kv->tokens = ctx_tokens;
        kv->layers = hp->layers;
        kv->width = (size_t)hp->kv_heads * hp->head_dim;
        if (bt_mul_size(&elems, kv->width, ctx_tokens) && bt_mul_size(&elems, elems, 2 * kv->layers))
            kv->rows = calloc(elems, sizeof *kv->rows);
    }
    if (!kv || !kv->rows) {
        bt_ref_kv_free(kv);
        return bt_fail(fault, BT_ENOMEM, "out of memory for K and V of %zu tokens", ctx_tokens);
    }
    *ret = kv;
    return BT_OK;
}

void bt_ref_kv_free(bt_ref_kv *kv)
{
    if (kv) free(kv->rows);
    free(kv);
}

float *bt_ref_kv_row(bt_ref_kv *kv, size_t layer, bool is_v, size_t token)
{
    return kv->rows + ((layer * 2 + is_v) * kv->tokens + token) * kv->width;
}

/* ---- arithmetic ---- */

/* Four floats that are added and multiplied as four floats; the compiler picks the instructions. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* y[g][j] = sum over i of x[g][i] * w[i][j], i ascending. `rows` is a constant at every call, so the loops
 * over g unroll and the sums stay in registers. */
static inline __attribute__((always_inline)) void panel_times_rows(float *restrict y, size_t ldy,
                                                                   const float *restrict x, size_t ldx,
                                                                   const float *restrict w, size_t k,
                                                                   size_t outputs, const int rows)
{
    four low[GROUP] = {0}, high[GROUP] = {0};
    for (size_t i = 0; i < k; i++) {
        const four a = *(const four *)(w + i * PANEL), b = *(const four *)(w + i * PANEL + 4);
        for (int g = 0; g < rows; g++) {
            low[g] += x[(size_t)g * ldx + i] * a;
            high[g] += x[(size_t)g * ldx + i] * b;
        }
    }
    for (int g = 0; g < rows; g++)
        for (size_t j = 0; j < outputs; j++) y[(size_t)g * ldy + j] = j < 4 ? low[g][j] : high[g][j - 4];
}

typedef struct product {
    float *y;
    size_t ldy;
    const float *x;
    size_t rows;
    const matrix *m;
    const float *bias;
} product;

static void product_part(void *ud, size_t part, size_t parts)
{
    const product *j = ud;
    const matrix *m = j->m;
    size_t begin, end;
    bt_pool_slice(&begin, &end, m->n, PANEL, part, parts);
    for (size_t n = begin; n < end; n += PANEL) {
        const float *w = m->w + n * m->k;
        const size_t outputs = m->n - n < PANEL ? m->n - n : PANEL;
        size_t t = 0;
        for (; t + GROUP <= j->rows; t += GROUP)
            panel_times_rows(j->y + t * j->ldy + n, j->ldy, j->x + t * m->k, m->k, w, m->k, outputs, GROUP);
        for (; t < j->rows; t++)
            panel_times_rows(j->y + t * j->ldy + n, j->ldy, j->x + t * m->k, m->k, w, m->k, outputs, 1);
        for (t = 0; j->bias && t < j->rows; t++)
            for (size_t o = 0; o < outputs; o++) j->y[t * j->ldy + n + o] += j->bias[n + o];
    }
}

/* y[rows, ldy] = x[rows, K] times the matrix, plus bias (NULL: none) */
static void multiply(const bt_ref *r, float *y, size_t ldy, const float *x, size_t rows, const matrix *m,
                     const float *bias)
{
    product job = {y, ldy, x, rows, m, bias};
    bt_pool_run(r->pool, product_part, &job);
}

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    const float scale = (float)(1.0 / sqrt(sum / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

/* The norm of a row of the residual stream; one by mean and variance has its n biases behind its n weights.
 */
static void norm_row(const bt_hparams *hp, float *y, const float *x, const float *w)
{
    const size_t n = hp->dim;
    double mean = 0, square = 0;
    if (bt_arch_of(hp->arch)->norm == BT_ARCH_RMS) {
        rms_norm(y, x, w, n, hp->rms_eps);
        return;
    }
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double scale = 1.0 / sqrt(square / (double)n + (double)hp->rms_eps);
    for (size_t i = 0; i < n; i++) y[i] = (float)(((double)x[i] - mean) * scale) * w[i] + w[n + i];
}

static float gelu(float x)
{
    const double v = (double)x;
    return (float)(0.5 * v * (1.0 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v))));
}

/* The product of gate and up that down reads. */
static float gated(bt_arch_ffn ffn, float g, float u)
{
    if (ffn == BT_ARCH_GEGLU) return gelu(g) * u;
    if (ffn != BT_ARCH_CLAMP) return g / (1.0f + expf(-g)) * u;
    const float a = fminf(g, 7.0f), b = fmaxf(-7.0f, fminf(u, 7.0f));
    return a / (1.0f + expf(-1.702f * a)) * (b + 1.0f);
}

static bool is_global(const bt_hparams *hp, size_t layer)
{
    return !hp->window || (hp->global_every && layer % hp->global_every == hp->global_every - 1);
}

/* Norm of one row's heads, or of the row, and rotary embedding, in place, in this order or the other; some
 * layers have no rotary embedding. */
static void rotate_heads(const bt_ref *r, size_t layer, float *x, size_t heads, const float *norm, size_t pos)
{
    const bt_hparams *hp = &r->m->hp;
    const size_t every = bt_arch_of(hp->arch)->unrotated,
                 half = every && layer % every == every - 1 ? 0 : hp->rope_dims / 2,
                 stride = hp->rope_dims / 2;
    const bool is_local = hp->window_rope_base > 0 && !is_global(hp, layer);
    const size_t at = ((is_local ? hp->ctx : 0) + pos) * stride;
    const float *c = r->cosines + at, *s = r->sines + at;
    const bt_arch_qk_norm by = bt_arch_of(hp->arch)->qk_norm;
    if (norm && by == BT_ARCH_ROWS) rms_norm(x, x, norm, heads * hp->head_dim, hp->rms_eps);
    for (size_t h = 0; h < heads; h++, x += hp->head_dim) {
        if (norm && by == BT_ARCH_HEADS) rms_norm(x, x, norm, hp->head_dim, hp->rms_eps);
        for (size_t i = 0; i < half; i++) {
            float *a = hp->rope_neox ? &x[i] : &x[2 * i], *b = hp->rope_neox ? &x[i + half] : &x[2 * i + 1];
            const float a0 = *a, b0 = *b;
            *a = a0 * c[i] - b0 * s[i];
            *b = a0 * s[i] + b0 * c[i];
        }
        if (norm && by == BT_ARCH_TURNED) rms_norm(x, x, norm, hp->head_dim, hp->rms_eps);
    }
}

/* Sixteen running sums, so that the compiler can use vectors; then their sum. */
static float dot(const float *restrict a, const float *restrict b, size_t n)
{
    float lane[16] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) lane[l] += a[i + (size_t)l] * b[i + (size_t)l];
    for (; i < n; i++) lane[i % 16] += a[i] * b[i];
    for (int l = 0; l < 16; l++) sum += lane[l];
    return sum;
}

/* The soft cap of a score or a logit; cap 0: none. */
static float capped(float x, float cap) { return cap > 0 ? tanhf(x / cap) * cap : x; }

typedef struct attend_job {
    work *w;
    size_t layer, first, rows;
} attend_job;

/* Softmax attention of query heads; each part takes some heads of every row. */
static void attend_part(void *ud, size_t part, size_t parts)
{
    const attend_job *job = ud;
    const work *w = job->w;
    const bt_hparams *hp = &w->r->m->hp;
    const size_t e_dim = hp->head_dim, width = w->kv->width, q_width = hp->heads * e_dim;
    const float own = hp->times.scores, scale = own > 0 ? own : (float)(1.0 / sqrt((double)e_dim));
    float *score = w->scores + part * w->kv->tokens;
    size_t begin, end;
    bt_pool_slice(&begin, &end, hp->heads, 1, part, parts);
    for (size_t h = begin; h < end; h++) {
        const size_t g = h / (hp->heads / hp->kv_heads);
        const float *keys = bt_ref_kv_row(w->kv, job->layer, false, 0) + g * e_dim;
        const float *values = bt_ref_kv_row(w->kv, job->layer, true, 0) + g * e_dim;
        for (size_t t = 0; t < job->rows; t++) {
            const size_t seen = w->pos0 + job->first + t + 1,
                         from = is_global(hp, job->layer) || seen <= hp->window ? 0 : seen - hp->window;
            const float *q = w->q + t * q_width + h * e_dim;
            float *restrict out = w->att + t * q_width + h * e_dim;
            const float *sink = w->r->layer[job->layer].sinks;
            float max = sink ? sink[h] : -INFINITY;
            double sum = 0;
            for (size_t p = from; p < seen; p++) {
                score[p] = capped(dot(q, keys + p * width, e_dim) * scale, hp->score_cap);
                if (score[p] > max) max = score[p];
            }
            for (size_t p = from; p < seen; p++) {
                score[p] = expf(score[p] - max);
                sum += (double)score[p];
            }
            if (sink) sum += exp((double)(sink[h] - max));
            memset(out, 0, e_dim * sizeof *out);
            for (size_t p = from; p < seen; p++) {
                const float *restrict v = values + p * width;
                for (size_t d = 0; d < e_dim; d++) out[d] += score[p] * v[d];
            }
            for (size_t d = 0; d < e_dim; d++) out[d] = (float)((double)out[d] / sum);
        }
    }
}

/* ---- the model ---- */

/* h = what a block of the layer reads: norm(x), or x where norms stand behind the blocks. */
static void read_rows(work *w, const float *x, const float *norm, size_t rows)
{
    const bt_hparams *hp = &w->r->m->hp;
    const size_t d = hp->dim;
    if (bt_arch_of(hp->arch)->norms == BT_ARCH_AFTER) memcpy(w->h, x, rows * d * sizeof *x);
    else
        for (size_t t = 0; t < rows; t++) norm_row(hp, w->h + t * d, x + t * d, norm);
}

/* x += h, or norm(h), times the multiplier. post: the norm behind a block that has one before it too. */
static void add_rows(work *w, float *x, const float *norm, const float *post, size_t rows)
{
    const bt_hparams *hp = &w->r->m->hp;
    const size_t d = hp->dim;
    const float by = hp->times.add > 0 ? hp->times.add : 1;
    if (bt_arch_of(hp->arch)->norms != BT_ARCH_BEFORE)
        for (size_t t = 0; t < rows; t++) norm_row(hp, w->h + t * d, w->h + t * d, post ? post : norm);
    for (size_t i = 0; i < rows * d; i++) x[i] += by * w->h[i];
}

/* K and V of rows first .. first + rows - 1 into the cache. Done for the whole prompt before any of it
 * attends. */
static void store_kv(work *w, size_t layer, size_t first, size_t rows)
{
    const bt_ref *r = w->r;
    const bt_hparams *hp = &r->m->hp;
    const ref_layer *l = &r->layer[layer];
    const size_t d = hp->dim, at = w->pos0 + first;
    float *k = bt_ref_kv_row(w->kv, layer, false, at), *v = bt_ref_kv_row(w->kv, layer, true, at);
    read_rows(w, w->x + first * d, l->attn_norm, rows);
    multiply(r, k, w->kv->width, w->h, rows, &l->wk, l->bk);
    multiply(r, v, w->kv->width, w->h, rows, &l->wv, l->bv);
    for (size_t t = 0; t < rows; t++)
        rotate_heads(r, layer, k + t * w->kv->width, hp->kv_heads, l->k_norm, at + t);
}

/* down(act(gate(h)) * up(h)), with the layer's matrices, or those of an expert. */
static void feed_forward(work *w, float *y, const float *h, size_t rows, const ref_layer *l, size_t expert)
{
    const bt_hparams *hp = &w->r->m->hp;
    const size_t ffn = hp->ffn, dim = hp->dim;
    const matrix *gate = l->gate_of ? &l->gate_of[expert] : &l->gate,
                 *up = l->up_of ? &l->up_of[expert] : &l->up,
                 *down = l->down_of ? &l->down_of[expert] : &l->down;
    multiply(w->r, w->gate, ffn, h, rows, gate, l->b_gate ? l->b_gate + expert * ffn : NULL);
    multiply(w->r, w->up, ffn, h, rows, up, l->b_up ? l->b_up + expert * ffn : NULL);
    for (size_t i = 0; i < rows * ffn; i++)
        w->gate[i] = gated(bt_arch_of(hp->arch)->ffn, w->gate[i], w->up[i]);
    multiply(w->r, y, dim, w->gate, rows, down, l->b_down ? l->b_down + expert * dim : NULL);
}

/* A row's experts by falling score, equal scores by rising number. */
static void choose(size_t *chosen, const float *score, size_t experts, size_t used)
{
    for (size_t n = 0; n < used; n++) {
        chosen[n] = SIZE_MAX;
        for (size_t e = 0; e < experts; e++) {
            bool is_taken = false;
            for (size_t i = 0; i < n; i++) is_taken |= chosen[i] == e;
            if (!is_taken && (chosen[n] == SIZE_MAX || score[e] > score[chosen[n]])) chosen[n] = e;
        }
    }
}

/* h = the sum of the outputs of each row's experts, times their shares: a softmax over all scores, divided by
 * the sum of the chosen ones. */
static void run_experts(work *w, const ref_layer *l, size_t rows)
{
    const bt_hparams *hp = &w->r->m->hp;
    const size_t d = hp->dim, used = hp->experts_used;
    size_t chosen[BT_MODEL_MAX_EXPERTS_USED];
    float score[BT_MODEL_MAX_EXPERTS];
    for (size_t t = 0; t < rows; t++) {
        const float *h = w->h + t * d;
        float *sum = w->mix + t * d;
        double all = 0;
        for (size_t e = 0; e < hp->experts; e++)
            score[e] = dot(h, l->router + e * d, d) + (l->b_router ? l->b_router[e] : 0);
        choose(chosen, score, hp->experts, used);
        for (size_t i = 0; i < used; i++) all += exp((double)(score[chosen[i]] - score[chosen[0]]));
        memset(sum, 0, d * sizeof *sum);
        for (size_t e = 0; e < hp->experts; e++)
            for (size_t i = 0; i < used; i++) {
                if (chosen[i] != e) continue;
                const float share = (float)(exp((double)(score[e] - score[chosen[0]])) / all);
                feed_forward(w, w->att, h, 1, l, e);
                for (size_t o = 0; o < d; o++) sum[o] += share * w->att[o];
            }
    }
    memcpy(w->h, w->mix, rows * d * sizeof *w->h);
}

/* x += attention(norm(x)); x += down(silu(gate(norm(x))) * up(norm(x))), for rows first .. first + rows - 1.
 * Norms may stand behind: x += norm(attention(x)). Without a gate: x += down(gelu(up(norm(x)))). */
static void run_layer(work *w, size_t layer, size_t first, size_t rows)
{
    const bt_ref *r = w->r;
    const bt_hparams *hp = &r->m->hp;
    const ref_layer *l = &r->layer[layer];
    const size_t d = hp->dim, q_width = (size_t)hp->heads * hp->head_dim;
    float *x = w->x + first * d;
    read_rows(w, x, l->attn_norm, rows);
    multiply(r, w->q, q_width, w->h, rows, &l->wq, l->bq);
    for (size_t t = 0; t < rows; t++)
        rotate_heads(r, layer, w->q + t * q_width, hp->heads, l->q_norm, w->pos0 + first + t);
    attend_job job = {w, layer, first, rows};
    bt_pool_run(r->pool, attend_part, &job);
    multiply(r, w->h, d, w->att, rows, &l->wo, l->bo);
    add_rows(w, x, l->attn_norm, l->attn_post, rows);

    read_rows(w, x, l->ffn_norm, rows);
    if (hp->experts) run_experts(w, l, rows);
    else if (l->gate.w) feed_forward(w, w->h, w->h, rows, l, 0);
    else {
        multiply(r, w->up, hp->ffn, w->h, rows, &l->up, l->b_up);
        for (size_t i = 0; i < rows * hp->ffn; i++) w->up[i] = gelu(w->up[i]);
        multiply(r, w->h, d, w->up, rows, &l->down, l->b_down);
    }
    add_rows(w, x, l->ffn_norm, l->ffn_post, rows);
}

static bool cancelled(const work *w) { return w->cancel && atomic_load(w->cancel); }

static bt_err run_prompt(work *w, const int32_t *ids, size_t n, float *logits, bool all_logits,
                         bt_fault *fault)
{
    const bt_hparams *hp = &w->r->m->hp;
    for (size_t t = 0; t < n; t++) bt_model_row_f32(w->x + t * hp->dim, w->r->m->embed, (size_t)ids[t]);
    for (size_t i = 0; hp->times.embed > 0 && i < n * hp->dim; i++) w->x[i] *= hp->times.embed;
    for (size_t layer = 0; layer < hp->layers; layer++)
        for (int pass = 0; pass < 2; pass++)
            for (size_t first = 0; first < n; first += BLOCK) {
                if (cancelled(w)) return bt_fail(fault, BT_ECANCEL, "cancelled");
                (pass == 0 ? store_kv : run_layer)(w, layer, first, n - first < BLOCK ? n - first : BLOCK);
            }
    for (size_t first = all_logits ? 0 : n - 1; logits && first < n; first += BLOCK) {
        if (cancelled(w)) return bt_fail(fault, BT_ECANCEL, "cancelled");
        const size_t rows = n - first < BLOCK ? n - first : BLOCK;
        for (size_t t = 0; t < rows; t++)
            norm_row(hp, w->h + t * hp->dim, w->x + (first + t) * hp->dim, w->r->out_norm);
        float *z = logits + (all_logits ? first * hp->vocab : 0);
        multiply(w->r, z, hp->vocab, w->h, rows, &w->r->output, NULL);
        for (size_t i = 0; i < rows * hp->vocab; i++) z[i] = capped(z[i], hp->logit_cap);
    }
    return BT_OK;
}

bt_err bt_ref_forward(bt_ref *r, bt_ref_kv *kv, const int32_t *ids, size_t n, size_t pos0, float *logits,
                      bool all_logits, const atomic_bool *cancel, bt_fault *fault)
{
    const bt_hparams *hp = &r->m->hp;
    size_t end;
    if (n == 0) return bt_fail(fault, BT_EARG, "no tokens to run");
    if (!bt_add_size(&end, pos0, n) || end > kv->tokens)
        return bt_fail(fault, BT_ELIMIT, "%zu tokens at position %zu do not fit the room for %zu", n, pos0,
                       kv->tokens);
    for (size_t t = 0; t < n; t++)
        if (ids[t] < 0 || (uint32_t)ids[t] >= hp->vocab)
            return bt_fail(fault, BT_EARG, "token id %d is outside the vocabulary of %u", ids[t], hp->vocab);
    const size_t rows = n < BLOCK ? n : BLOCK, q_width = (size_t)hp->heads * hp->head_dim;
    work w = {.r = r, .kv = kv, .pos0 = pos0, .cancel = cancel};
    w.x = malloc(n * hp->dim * sizeof(float));
    w.h = malloc(rows * hp->dim * sizeof(float));
    w.q = malloc(rows * q_width * sizeof(float));
    w.att = malloc(rows * (q_width > hp->dim ? q_width : hp->dim) * sizeof(float));
    w.mix = malloc((hp->experts ? rows * hp->dim : 1) * sizeof(float));
    w.gate = malloc(rows * hp->ffn * sizeof(float));
    w.up = malloc(rows * hp->ffn * sizeof(float));
    w.scores = malloc(bt_pool_threads(r->pool) * kv->tokens * sizeof(float));
    const bt_err e = w.x && w.h && w.q && w.att && w.mix && w.gate && w.up && w.scores
                         ? run_prompt(&w, ids, n, logits, all_logits, fault)
                         : bt_fail(fault, BT_ENOMEM, "out of memory for a prompt of %zu tokens", n);
    free(w.scores);
    free(w.up);
    free(w.gate);
    free(w.att);
    free(w.mix);
    free(w.q);
    free(w.h);
    free(w.x);
    return e;
}
