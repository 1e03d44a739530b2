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

bool bt_weight_is_matrix(bt_weight w) { return w >= BT_WEIGHT_Q; }

const bt_gguf_tensor *bt_weight_tensor(const bt_model *m, uint32_t layer, bt_weight w)
{
    const bt_layer_tensors *t = layer < m->hp.layers ? &m->layer[layer] : &m->layer[0];
    switch (w) {
    case BT_WEIGHT_NONE: return NULL;
    case BT_WEIGHT_EMBED: return m->embed;
    case BT_WEIGHT_OUT_NORM: return m->out_norm;
    case BT_WEIGHT_OUTPUT: return m->output;
    case BT_WEIGHT_ATTN_NORM: return t->attn_norm;
    case BT_WEIGHT_FFN_NORM: return t->ffn_norm;
    case BT_WEIGHT_Q_NORM: return t->q_norm;
    case BT_WEIGHT_K_NORM: return t->k_norm;
    case BT_WEIGHT_Q: return t->wq;
    case BT_WEIGHT_K: return t->wk;
    case BT_WEIGHT_V: return t->wv;
    case BT_WEIGHT_O: return t->wo;
    case BT_WEIGHT_GATE: return t->w_gate;
    case BT_WEIGHT_UP: return t->w_up;
    case BT_WEIGHT_DOWN: return t->w_down;
    }
    return NULL;
}

const bt_gguf_tensor *bt_weight_bias(const bt_model *m, uint32_t layer, bt_weight w)
{
    if (layer >= m->hp.layers) return NULL;
    return w == BT_WEIGHT_Q   ? m->layer[layer].bq
           : w == BT_WEIGHT_K ? m->layer[layer].bk
           : w == BT_WEIGHT_V ? m->layer[layer].bv
                              : NULL;
}

bt_weight bt_weight_next(const bt_model *m, uint32_t *layer, bt_weight w)
{
    do {
        if (w < BT_WEIGHT_OUTPUT) {
            w++;
        } else {
            w = BT_WEIGHT_ATTN_NORM;
            if (++*layer >= m->hp.layers) return BT_WEIGHT_NONE;
        }
    } while (w == BT_WEIGHT_EMBED || !bt_weight_tensor(m, *layer, w) ||
             (*layer > 0 && (w == BT_WEIGHT_OUT_NORM || w == BT_WEIGHT_OUTPUT)));
    return w;
}

/* ---- the pieces ---- */

typedef struct split_job {
    bt_packed_panel_fn *fn;
    void *ud;
    float *scratch; /* [parts][PANEL_ROWS * k] */
    size_t panels, stride;
    uint8_t *is_bad; /* [parts] */
} split_job;

static void split_part(void *ud, size_t part, size_t parts)
{
    const split_job *j = ud;
    size_t p0, p1;
    bt_pool_slice(&p0, &p1, j->panels, 1, part, parts);
    for (size_t p = p0; p < p1; p++)
        if (!j->fn(j->ud, p, j->scratch + part * j->stride)) j->is_bad[part] = 1;
}

bt_err bt_packed_split(const bt_gguf_tensor *t, bt_packed_panel_fn *fn, void *ud, const char *refusal, bt_pool *pool, bt_fault *fault)
{
    bt_err e = BT_OK;
    const size_t parts = bt_pool_threads(pool);
    split_job j = {.fn = fn, .ud = ud, .panels = bt_matmul_panels(t->dim[1]), .stride = PANEL_ROWS * t->dim[0]};
    j.scratch = calloc(parts * j.stride, sizeof *j.scratch);
    j.is_bad = calloc(parts, 1);
    if (!j.scratch || !j.is_bad) {
        e = bt_fail(fault, BT_ENOMEM, "packing weights");
        goto out;
    }
    bt_pool_run(pool, split_part, &j);
    if (memchr(j.is_bad, 1, parts)) e = bt_fail(fault, BT_EFORMAT, "tensor '%s': %s", t->name, refusal);
out:
    free(j.scratch);
    free(j.is_bad);
    return e;
}

typedef struct f16_job {
    const bt_packed_source *source; /* NULL: the tensor's own rows */
    const bt_gguf_tensor *tensor;
    uint16_t *panels;
} f16_job;

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

static bool f16_panel(void *ud, size_t panel, float *rows)
{
    const f16_job *j = ud;
    const size_t k = j->tensor->dim[0], n = j->tensor->dim[1], n0 = panel * PANEL_ROWS;
    const size_t count = n - n0 < PANEL_ROWS ? n - n0 : PANEL_ROWS;
    for (size_t r = 0; r < count; r++) read_row(rows + r * k, j->source, j->tensor, n0 + r);
    bt_matmul_pack(j->panels, rows, n0, count, k);
    return !has_nonfinite_f16(j->panels + panel * PANEL_ROWS * k, PANEL_ROWS * k);
}

bt_err bt_packed_f16(uint16_t *panels, const bt_gguf_tensor *t, const bt_packed_source *source, bt_pool *pool, bt_fault *fault)
{
    f16_job j = {.source = source, .tensor = t, .panels = panels};
    return bt_packed_split(t, f16_panel, &j, "a weight is beyond the range of f16 (65504)", pool, fault);
}

bt_err bt_packed_vector(float *v, const bt_gguf_tensor *t, const bt_packed_source *source, bt_fault *fault)
{
    read_row(v, source, t, 0);
    for (size_t i = 0; i < t->dim[0]; i++)
        if (!isfinite(v[i])) return bt_fail(fault, BT_EFORMAT, "tensor '%s': element %zu is not finite", t->name, i);
    return BT_OK;
}

/* ---- the whole ---- */

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
    const bt_model *m = p->model;
    const size_t half = m->hp.rope_dims / 2;
    size_t bytes = 0, table;
    bool fits = bt_mul_size(&table, p->ctx_tokens, half);
    fits = fits && reserve(&bytes, table, 4) && reserve(&bytes, table, 4);
    uint32_t layer = 0;
    for (bt_weight w = 0; (w = bt_weight_next(m, &layer, w)) && fits;) {
        const bt_gguf_tensor *t = bt_weight_tensor(m, layer, w), *bias = bt_weight_bias(m, layer, w);
        fits = bt_weight_is_matrix(w) ? reserve(&bytes, bt_matmul_packed_elems(t->dim[1], t->dim[0]), 2)
                                      : reserve(&bytes, t->dim[0], 4);
        if (bias) fits = fits && reserve(&bytes, bias->dim[0], 4);
    }
    if (!fits)
        return bt_fail(fault, BT_ELIMIT, "weights of '%s' do not fit the address space", m->name);
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

static bt_err take_vector(const float **ret, bt_packed *p, const bt_gguf_tensor *t, const bt_packed_source *source, bt_fault *fault)
{
    float *v = take(p, t->dim[0], 4);
    *ret = v;
    return bt_packed_vector(v, t, source, fault);
}

static bt_err pack_one(bt_packed *p, uint32_t layer, bt_weight w, const bt_packed_source *source, bt_pool *pool, bt_fault *fault)
{
    const bt_gguf_tensor *t = bt_weight_tensor(p->model, layer, w), *bias = bt_weight_bias(p->model, layer, w);
    slot *s = slot_of(p, layer, w);
    bt_err e = source ? source->begin(source->ud, layer, w, fault) : BT_OK;
    if (e < 0) return e;
    if (!bt_weight_is_matrix(w)) return take_vector(&s->vector, p, t, source, fault);
    uint16_t *panels = take(p, bt_matmul_packed_elems(t->dim[1], t->dim[0]), 2);
    s->matrix = (bt_packed_matrix){.panels = panels, .n = t->dim[1], .k = t->dim[0]};
    if ((e = bt_packed_f16(panels, t, source, pool, fault)) < 0) return e;
    return bias ? take_vector(&s->matrix.bias, p, bias, NULL, fault) : BT_OK;
}

static bt_err pack_all(bt_packed *p, const bt_packed_options *o, bt_pool *pool, bt_fault *fault)
{
    bt_err e;
    uint64_t done = 0, total = 0;
    uint32_t layer = 0;
    for (bt_weight w = 0; (w = bt_weight_next(p->model, &layer, w));) {
        const bt_gguf_tensor *t = bt_weight_tensor(p->model, layer, w);
        if (bt_weight_is_matrix(w)) total += bt_matmul_packed_elems(t->dim[1], t->dim[0]) * 2;
    }
    layer = 0;
    for (bt_weight w = 0; (w = bt_weight_next(p->model, &layer, w));) {
        if ((e = pack_one(p, layer, w, o->source, pool, fault)) < 0) return e;
        if (!bt_weight_is_matrix(w)) continue;
        const bt_packed_matrix *m = bt_packed_matrix_of(p, layer, w);
        done += bt_matmul_packed_elems(m->n, m->k) * 2;
        if (o->progress) o->progress(o->progress_ud, done, total);
    }
    return BT_OK;
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
