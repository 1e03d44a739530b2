/* Packing of weights: one mapping holds every panel, vector and table, each 64-byte aligned. */
#include "model/packed.h"
#include "base/num.h"
#include "kernels/kernels.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WEIGHTS = BT_WEIGHT_OUTPUT + 1, ALIGN = 64, PANEL_ROWS = 16 };

typedef struct slot { /* one weight of one layer: a matrix or a vector */
    bt_packed_matrix matrix;
    const float *vector;
    const bt_gguf_tensor *tensor, *bias; /* where it comes from; NULL: the architecture has none */
} slot;

struct bt_packed {
    const bt_model *model;
    slot *slots; /* [layers][WEIGHTS]; weights of no layer in layer 0 */
    uint8_t *base;
    size_t bytes, used, ctx_tokens;
    float *rope_cos, *rope_sin;
};

const char *bt_weight_name(bt_weight w)
{
    static const char *const names[WEIGHTS] = {
        "-", "embed", "attn_norm", "ffn_norm", "out_norm", "q_norm", "k_norm", "q",
        "k", "v",     "o",         "gate",     "up",       "down",   "output",
    };
    return (unsigned)w < WEIGHTS ? names[w] : "?";
}

static slot *slot_of(const bt_packed *p, uint32_t layer, bt_weight w)
{
    const bool is_layers_own = w != BT_WEIGHT_EMBED && w != BT_WEIGHT_OUT_NORM && w != BT_WEIGHT_OUTPUT;
    return &p->slots[is_layers_own ? (size_t)layer * WEIGHTS + w : w];
}

static bool is_matrix(bt_weight w) { return w >= BT_WEIGHT_Q; }

static void name_tensors(bt_packed *p)
{
    const bt_model *m = p->model;
    for (uint32_t l = 0; l < m->hp.layers; l++) {
        const bt_layer_tensors *t = &m->layer[l];
        const struct {
            bt_weight w;
            const bt_gguf_tensor *tensor, *bias;
        } from[] = {
            {BT_WEIGHT_ATTN_NORM, t->attn_norm, NULL},
            {BT_WEIGHT_FFN_NORM, t->ffn_norm, NULL},
            {BT_WEIGHT_Q_NORM, t->q_norm, NULL},
            {BT_WEIGHT_K_NORM, t->k_norm, NULL},
            {BT_WEIGHT_Q, t->wq, t->bq},
            {BT_WEIGHT_K, t->wk, t->bk},
            {BT_WEIGHT_V, t->wv, t->bv},
            {BT_WEIGHT_O, t->wo, NULL},
            {BT_WEIGHT_GATE, t->w_gate, NULL},
            {BT_WEIGHT_UP, t->w_up, NULL},
            {BT_WEIGHT_DOWN, t->w_down, NULL},
        };
        for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
            slot *s = slot_of(p, l, from[i].w);
            s->tensor = from[i].tensor;
            s->bias = from[i].bias;
        }
    }
    slot_of(p, 0, BT_WEIGHT_OUT_NORM)->tensor = m->out_norm;
    slot_of(p, 0, BT_WEIGHT_OUTPUT)->tensor = m->output;
}

/* Add room for count elements to *bytes; false on overflow. */
static bool reserve(size_t *bytes, size_t count, size_t elem_bytes)
{
    size_t n;
    if (!bt_mul_size(&n, count, elem_bytes) || !bt_add_size(&n, n, ALIGN - 1)) return false;
    return bt_add_size(bytes, *bytes, n & ~(size_t)(ALIGN - 1));
}

static void *take(bt_packed *p, size_t count, size_t elem_bytes)
{
    void *at = p->base + p->used;
    p->used += (count * elem_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return at;
}

static bt_err map_all(bt_packed *p, bt_fault *fault)
{
    const size_t count = (size_t)p->model->hp.layers * WEIGHTS;
    const size_t half = p->model->hp.rope_dims / 2;
    size_t bytes = 0, table;
    bool fits = bt_mul_size(&table, p->ctx_tokens, half);
    fits = fits && reserve(&bytes, table, 4) && reserve(&bytes, table, 4);
    for (size_t i = 0; fits && i < count; i++) {
        const slot *s = &p->slots[i];
        if (!s->tensor) continue;
        fits = is_matrix((bt_weight)(i % WEIGHTS))
                   ? reserve(&bytes, bt_matmul_packed_elems(s->tensor->dim[1], s->tensor->dim[0]), 2)
                   : reserve(&bytes, s->tensor->dim[0], 4);
        if (s->bias) fits = fits && reserve(&bytes, s->bias->dim[0], 4);
    }
    if (!fits)
        return bt_fail(fault, BT_ELIMIT, "weights of '%s' do not fit the address space", p->model->name);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return bt_fail(fault, BT_ENOMEM, "%zu bytes for packed weights: %s", bytes, strerror(errno));
    (void)madvise(base, bytes, MADV_HUGEPAGE); /* fewer TLB misses; without it only slower */
    p->base = base;
    p->bytes = bytes;
    p->rope_cos = take(p, table, 4);
    p->rope_sin = take(p, table, 4);
    return BT_OK;
}

typedef struct pack_job {
    const bt_packed_source *source; /* NULL: the tensor's own rows */
    const bt_gguf_tensor *tensor;
    uint16_t *panels;
    float *rows; /* [parts][PANEL_ROWS * k] */
    size_t rows_stride, n, k;
    uint8_t *is_bad; /* [parts] */
} pack_job;

static bool has_nonfinite_f16(const uint16_t *v, size_t count)
{
    uint16_t worst = 0;
    for (size_t i = 0; i < count; i++) {
        const uint16_t magnitude = v[i] & 0x7fff;
        worst = magnitude > worst ? magnitude : worst;
    }
    return worst >= 0x7c00;
}

static void read_row(float *y, const bt_packed_source *source, const bt_gguf_tensor *t, size_t n)
{
    if (source) source->row(source->ud, y, n);
    else bt_model_row_f32(y, t, n);
}

static void pack_part(void *ud, size_t part, size_t parts)
{
    const pack_job *j = ud;
    float *rows = j->rows + part * j->rows_stride;
    size_t p0, p1;
    bt_pool_slice(&p0, &p1, bt_matmul_panels(j->n), 1, part, parts);
    for (size_t p = p0; p < p1; p++) {
        const size_t n0 = p * PANEL_ROWS, count = j->n - n0 < PANEL_ROWS ? j->n - n0 : PANEL_ROWS;
        for (size_t r = 0; r < count; r++) read_row(rows + r * j->k, j->source, j->tensor, n0 + r);
        bt_matmul_pack(j->panels, rows, n0, count, j->k);
        if (has_nonfinite_f16(j->panels + p * PANEL_ROWS * j->k, PANEL_ROWS * j->k)) j->is_bad[part] = 1;
    }
}

static bt_err copy_vector(const float **ret, bt_packed *p, const bt_packed_source *source,
                          const bt_gguf_tensor *t, bt_fault *fault)
{
    float *v = take(p, t->dim[0], 4);
    read_row(v, source, t, 0);
    for (size_t i = 0; i < t->dim[0]; i++)
        if (!isfinite(v[i]))
            return bt_fail(fault, BT_EFORMAT, "tensor '%s': element %zu is not finite", t->name, i);
    *ret = v;
    return BT_OK;
}

static bt_err pack_matrix(bt_packed *p, slot *s, pack_job *job, bt_pool *pool, bt_fault *fault)
{
    const size_t parts = bt_pool_threads(pool);
    job->tensor = s->tensor;
    job->k = s->tensor->dim[0];
    job->n = s->tensor->dim[1];
    job->panels = take(p, bt_matmul_packed_elems(job->n, job->k), 2);
    bt_pool_run(pool, pack_part, job);
    for (size_t i = 0; i < parts; i++)
        if (job->is_bad[i])
            return bt_fail(fault, BT_EFORMAT, "tensor '%s': a weight is beyond the range of f16 (65504)",
                           s->tensor->name);
    s->matrix = (bt_packed_matrix){.panels = job->panels, .n = job->n, .k = job->k};
    return s->bias ? copy_vector(&s->matrix.bias, p, NULL, s->bias, fault) : BT_OK;
}

static bt_err pack_all(bt_packed *p, const bt_packed_options *o, bt_pool *pool, bt_fault *fault)
{
    const size_t count = (size_t)p->model->hp.layers * WEIGHTS, parts = bt_pool_threads(pool);
    bt_err e = BT_OK;
    uint64_t done = 0, total = 0;
    size_t widest = 0;
    for (size_t i = 0; i < count; i++) {
        const bt_gguf_tensor *t = p->slots[i].tensor;
        if (!t || !is_matrix((bt_weight)(i % WEIGHTS))) continue;
        total += bt_matmul_packed_elems(t->dim[1], t->dim[0]) * 2;
        if (t->dim[0] > widest) widest = t->dim[0];
    }
    pack_job job = {.source = o->source, .rows_stride = PANEL_ROWS * widest};
    job.rows = calloc(parts * job.rows_stride, sizeof *job.rows);
    job.is_bad = calloc(parts, 1);
    if (!job.rows || !job.is_bad) {
        e = bt_fail(fault, BT_ENOMEM, "packing weights");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        slot *s = &p->slots[i];
        const bt_weight w = (bt_weight)(i % WEIGHTS);
        if (!s->tensor) continue;
        if (o->source && (e = o->source->begin(o->source->ud, (uint32_t)(i / WEIGHTS), w, fault)) < 0) goto out;
        if (!is_matrix(w)) {
            if ((e = copy_vector(&s->vector, p, o->source, s->tensor, fault)) < 0) goto out;
            continue;
        }
        if ((e = pack_matrix(p, s, &job, pool, fault)) < 0) goto out;
        done += bt_matmul_packed_elems(s->matrix.n, s->matrix.k) * 2;
        if (o->progress) o->progress(o->progress_ud, done, total);
    }
out:
    free(job.rows);
    free(job.is_bad);
    return e;
}

bt_err bt_packed_new(bt_packed **ret, const bt_model *m, const bt_packed_options *options, bt_pool *pool,
                     bt_fault *fault)
{
    if (options->ctx_tokens < 1 || options->ctx_tokens > BT_MODEL_MAX_CTX)
        return bt_fail(fault, BT_EARG, "context of %zu tokens: 1 to %d", options->ctx_tokens,
                       BT_MODEL_MAX_CTX);
    bt_err e;
    bt_packed *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "packing weights");
    p->model = m;
    p->ctx_tokens = options->ctx_tokens;
    p->slots = calloc((size_t)m->hp.layers * WEIGHTS, sizeof *p->slots);
    if (!p->slots) {
        e = bt_fail(fault, BT_ENOMEM, "packing weights");
        goto out;
    }
    name_tensors(p);
    if ((e = map_all(p, fault)) < 0) goto out;
    bt_model_rope_table(p->rope_cos, p->rope_sin, m, p->ctx_tokens);
    if ((e = pack_all(p, options, pool, fault)) < 0) goto out;
    *ret = p;
    p = NULL;
out:
    bt_packed_free(p);
    return e;
}

void bt_packed_free(bt_packed *p)
{
    if (!p) return;
    if (p->base) (void)munmap(p->base, p->bytes);
    free(p->slots);
    free(p);
}

const bt_packed_matrix *bt_packed_matrix_of(const bt_packed *p, uint32_t layer, bt_weight w)
{
    return &slot_of(p, layer, w)->matrix;
}

const float *bt_packed_vector_of(const bt_packed *p, uint32_t layer, bt_weight w)
{
    return slot_of(p, layer, w)->vector;
}

const float *bt_packed_rope_cos(const bt_packed *p, size_t pos)
{
    return p->rope_cos + pos * (p->model->hp.rope_dims / 2);
}

const float *bt_packed_rope_sin(const bt_packed *p, size_t pos)
{
    return p->rope_sin + pos * (p->model->hp.rope_dims / 2);
}

const bt_model *bt_packed_model(const bt_packed *p) { return p->model; }
size_t bt_packed_ctx_tokens(const bt_packed *p) { return p->ctx_tokens; }
size_t bt_packed_bytes(const bt_packed *p) { return p->bytes; }
