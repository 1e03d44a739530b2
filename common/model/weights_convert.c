/* Fills the image: every weight from the file's own values, on all threads, the same bytes however many there
 * are. Blocks of the file that a form can hold as they are keep their codes and scales; other values are
 * rounded by the rules of weights.h. */
#include "model/weights_private.h"
#include "base/num.h"
#include "kernels/kernels.h"
#include "model/gguf.h"
#include "model/quant.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL_ROWS = 16 };

/* ---- panels on all threads ---- */

/* fn is called once for each panel of 16 outputs of a matrix, those of an expert behind those of the one
 * before; scratch[16 * dim[0]] is its own for the call. Where it gives false for any, the others still run,
 * and the result is BT_EFORMAT "tensor 'NAME': refusal". */
typedef bool panel_fn(void *ud, size_t panel, float *scratch);

typedef struct split_job {
    panel_fn *fn;
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

static bt_err split(const bt_gguf_tensor *t, panel_fn *fn, void *ud, const char *refusal, bt_pool *pool,
                    bt_fault *fault)
{
    bt_err e = BT_OK;
    const size_t parts = bt_pool_threads(pool);
    split_job j = {.fn = fn, .ud = ud, .panels = bt_matmul_panels(t->dim[1]) * t->dim[2],
                   .stride = PANEL_ROWS * t->dim[0]};
    j.scratch = calloc(parts * j.stride, sizeof *j.scratch);
    j.is_bad = calloc(parts, 1);
    if (!j.scratch || !j.is_bad) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory converting weights");
        goto out;
    }
    bt_pool_run(pool, split_part, &j);
    if (memchr(j.is_bad, 1, parts)) e = bt_fail(fault, BT_EFORMAT, "tensor '%s': %s", t->name, refusal);
out:
    free(j.scratch);
    free(j.is_bad);
    return e;
}

/* The tensor's rows of a panel: *ret_row is the first. */
static size_t rows_of(size_t *ret_row, const bt_gguf_tensor *t, size_t panel)
{
    const size_t n = t->dim[1], each = bt_matmul_panels(n), at = panel % each * PANEL_ROWS;
    *ret_row = panel / each * n + at;
    return n - at < PANEL_ROWS ? n - at : PANEL_ROWS;
}

/* ---- f16, and vectors ---- */

typedef struct f16_job {
    const bt_weights_source *source; /* NULL: the tensor's own rows */
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

static void read_row(float *y, const bt_weights_source *source, const bt_gguf_tensor *t, size_t n)
{
    if (source) source->row(source->ud, y, n);
    else bt_model_row_f32(y, t, n);
}

static bool f16_panel(void *ud, size_t panel, float *rows)
{
    const f16_job *j = ud;
    const size_t k = j->tensor->dim[0];
    size_t first;
    const size_t count = rows_of(&first, j->tensor, panel);
    for (size_t r = 0; r < count; r++) read_row(rows + r * k, j->source, j->tensor, first + r);
    bt_matmul_pack(j->panels, rows, panel * PANEL_ROWS, count, k);
    return !has_nonfinite_f16(j->panels + panel * PANEL_ROWS * k, PANEL_ROWS * k);
}

bt_err bt_weights_f16(uint16_t *panels, const bt_gguf_tensor *t, const bt_weights_source *source,
                      bt_pool *pool, bt_fault *fault)
{
    f16_job j = {.source = source, .tensor = t, .panels = panels};
    return split(t, f16_panel, &j, "a weight is beyond the range of f16 (65504)", pool, fault);
}

static bt_err convert_vector(float *v, const bt_gguf_tensor *t, const bt_weights_source *source,
                             bt_fault *fault)
{
    for (size_t n = 0; n < t->rows; n++) read_row(v + n * t->dim[0], source, t, n);
    for (size_t i = 0; i < t->dim[0] * t->rows; i++)
        if (!isfinite(v[i]))
            return bt_fail(fault, BT_EFORMAT, "tensor '%s': element %zu is not finite", t->name, i);
    return BT_OK;
}

/* ---- int8 and fp4 ---- */

typedef struct job {
    const bt_weights_item *item;
    uint8_t *panels;
    atomic_bool overflowed; /* a scale or minimum is beyond f16 */
} job;

static bool is_finite_f16(uint16_t h) { return (h & 0x7c00) != 0x7c00; }

/* The 32 codes of a Q4 block: input i in the low four bits of byte i, input 16 + i in the high ones. */
static void nibbles(uint8_t q[BT_FORM_GROUP], const uint8_t *bytes)
{
    for (int i = 0; i < 16; i++) {
        q[i] = bytes[i] & 15;
        q[16 + i] = bytes[i] >> 4;
    }
}

/* ---- exact: one block of the file to one group; false where a number of it is not finite ---- */

static bool put_q8_0(job *j, size_t n, size_t g, const uint8_t *block)
{
    const uint16_t d = bt_get16(block);
    bt_form_int8_put(j->panels, BT_FORM_GROUP, j->item->tensor->dim[0], n, g, d, (const int8_t *)(block + 2),
                     BT_FORM_GROUP);
    return is_finite_f16(d);
}

static bool put_q4_0(job *j, size_t n, size_t g, const uint8_t *block)
{
    const size_t k = j->item->tensor->dim[0];
    const uint16_t d = bt_get16(block), m = bt_f32_to_f16_1(-8.0f * bt_f16_to_f32_1(d));
    uint8_t q[BT_FORM_GROUP];
    int8_t centred[BT_FORM_GROUP];
    if (!is_finite_f16(d)) return false;
    nibbles(q, block + 2);
    if (j->item->form == BT_FORM_FP4) {
        if (!is_finite_f16(m)) atomic_store(&j->overflowed, true);
        bt_form_fp4_put(j->panels, k, n, g, d, m, q, BT_FORM_GROUP);
    } else {
        for (int i = 0; i < BT_FORM_GROUP; i++) centred[i] = (int8_t)(q[i] - 8);
        bt_form_int8_put(j->panels, BT_FORM_GROUP, k, n, g, d, centred, BT_FORM_GROUP);
    }
    return true;
}

static bool put_q4_1(job *j, size_t n, size_t g, const uint8_t *block)
{
    const uint16_t d = bt_get16(block), m = bt_get16(block + 2);
    uint8_t q[BT_FORM_GROUP];
    nibbles(q, block + 4);
    bt_form_fp4_put(j->panels, j->item->tensor->dim[0], n, g, d, m, q, BT_FORM_GROUP);
    return is_finite_f16(d) && is_finite_f16(m);
}

static bool put_mxfp4(job *j, size_t n, size_t g, const uint8_t *block)
{
    const size_t k = j->item->tensor->dim[0];
    uint8_t q[BT_FORM_GROUP];
    float w[BT_FORM_GROUP];
    bool is_finite = true;
    nibbles(q, block + 1);
    bt_form_mx_put(j->panels, k, n, g, *block, q, BT_FORM_GROUP);
    if (*block < 253) return true; /* 12 * 2^124 is finite */
    bt_quant_to_f32(w, block, bt_quant_find(BT_QUANT_MXFP4), BT_FORM_GROUP);
    for (size_t i = 0; i < BT_FORM_GROUP; i++) is_finite &= isfinite(w[i]) != 0;
    return is_finite;
}

/* ---- rounded: one group from its values; false where one is not finite ---- */

static bool put_int8(job *j, size_t n, size_t g, const float *w, size_t count, int8_t *q)
{
    float most = 0.0f;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(w[i])) return false;
        most = fmaxf(most, fabsf(w[i]));
    }
    uint16_t d16 = bt_f32_to_f16_1(most / 127.0f);
    if (bt_f16_to_f32_1(d16) * 127.0f < most) d16++;
    if (!is_finite_f16(d16)) atomic_store(&j->overflowed, true);
    const float d = bt_f16_to_f32_1(d16);
    for (size_t i = 0; i < count; i++)
        q[i] = d > 0.0f ? (int8_t)fminf(fmaxf(rintf(w[i] / d), -127.0f), 127.0f) : 0;
    bt_form_int8_put(j->panels, j->item->group, j->item->tensor->dim[0], n, g, d16, q, count);
    return true;
}

static bool put_fp4(job *j, size_t n, size_t g, const float *w, size_t count)
{
    float low = w[0], high = w[0];
    uint8_t q[BT_FORM_GROUP];
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(w[i])) return false;
        low = fminf(low, w[i]);
        high = fmaxf(high, w[i]);
    }
    const uint16_t d16 = bt_f32_to_f16_1((high - low) / 15.0f), m16 = bt_f32_to_f16_1(low);
    if (!is_finite_f16(d16) || !is_finite_f16(m16)) atomic_store(&j->overflowed, true);
    const float d = bt_f16_to_f32_1(d16), m = bt_f16_to_f32_1(m16);
    for (size_t i = 0; i < count; i++)
        q[i] = d > 0.0f ? (uint8_t)fminf(fmaxf(rintf((w[i] - m) / d), 0.0f), 15.0f) : 0;
    bt_form_fp4_put(j->panels, j->item->tensor->dim[0], n, g, d16, m16, q, count);
    return true;
}

/* ---- matrices ---- */

typedef bool put_block(job *j, size_t n, size_t g, const uint8_t *block);

/* How a block of the file becomes a group as it is. */
static put_block *exact_put(size_t *ret_block_bytes, const bt_weights_item *i)
{
    *ret_block_bytes = bt_quant_find(i->tensor->type)->block_bytes;
    switch (i->tensor->type) {
    case BT_QUANT_Q8_0: return put_q8_0;
    case BT_QUANT_Q4_0: return put_q4_0;
    case BT_QUANT_MXFP4: return put_mxfp4;
    default: return put_q4_1;
    }
}

static bool convert_panel(void *ud, size_t panel, float *scratch)
{
    job *j = ud;
    const bt_weights_item *i = j->item;
    const size_t k = i->tensor->dim[0];
    size_t block_bytes = 0, first;
    const size_t count = rows_of(&first, i->tensor, panel);
    put_block *exact = i->is_exact ? exact_put(&block_bytes, i) : NULL;
    int8_t *codes = (int8_t *)(scratch + k); /* the second row: the first holds the values */
    bool ok = true;
    for (size_t r = 0; r < count; r++) {
        const uint8_t *row = i->tensor->data + (first + r) * i->tensor->row_bytes;
        const size_t n = panel * PANEL_ROWS + r;
        if (!exact) bt_model_row_f32(scratch, i->tensor, first + r);
        for (size_t g = 0; g * i->group < k; g++) {
            const size_t at = g * i->group, some = k - at < i->group ? k - at : i->group;
            if (exact) ok &= exact(j, n, g, row + g * block_bytes);
            else if (i->form == BT_FORM_INT8) ok &= put_int8(j, n, g, scratch + at, some, codes);
            else ok &= put_fp4(j, n, g, scratch + at, some);
        }
    }
    return ok;
}

/* *ret_overflowed: the form cannot hold the matrix. */
static bt_err convert_matrix(bool *ret_overflowed, uint8_t *panels, const bt_weights_item *i,
                             const bt_weights_source *source, bt_pool *pool, bt_fault *fault)
{
    if (i->form == BT_FORM_F16)
        return bt_weights_f16((uint16_t *)(void *)panels, i->tensor, source, pool, fault);
    job j = {.item = i, .panels = panels};
    const bt_err e = split(i->tensor, convert_panel, &j, "a weight is not finite", pool, fault);
    if (e < 0 || !j.overflowed) return e;
    if (i->form == BT_FORM_INT8)
        return bt_fail(fault, BT_EFORMAT, "tensor '%s': a weight is beyond 127 times the range of f16",
                       i->tensor->name);
    *ret_overflowed = true;
    return BT_OK;
}

static bt_err convert_item(bool *ret_overflowed, uint8_t *image, const bt_weights_item *i,
                           const bt_weights_source *source, bt_pool *pool, bt_fault *fault)
{
    float *vector = (float *)(void *)(image + i->at), *bias = (float *)(void *)(image + i->bias_at);
    bt_err e = source ? source->begin(source->ud, i->layer, i->which, fault) : BT_OK;
    if (e < 0) return e;
    e = bt_weight_is_matrix(i->which) ? convert_matrix(ret_overflowed, image + i->at, i, source, pool, fault)
                                      : convert_vector(vector, i->tensor, source, fault);
    return e == BT_OK && i->bias ? convert_vector(bias, i->bias, NULL, fault) : e;
}

bt_err bt_weights_convert(bt_weights_item **ret_overflowed, uint8_t *image, bt_weights_plan *p,
                          const bt_weights_options *o, const char *what, bt_pool *pool, bt_fault *fault)
{
    *ret_overflowed = NULL;
    for (size_t n = 0; n < p->count && !*ret_overflowed; n++) {
        bt_weights_item *i = &p->item[n];
        bool overflowed = false;
        const bt_err e = convert_item(&overflowed, image, i, o->source, pool, fault);
        if (e != BT_OK) return e;
        if (overflowed) *ret_overflowed = i;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an item of the plan */
        else if (o->progress) o->progress(o->progress_ud, what, i->at + i->bytes, p->bytes);
    }
    return BT_OK;
}

bt_err bt_weights_convert_common(uint8_t *image, const bt_weights_plan *p, const bt_weights_source *source,
                                 bt_fault *fault)
{
    bt_err e = BT_OK;
    bool overflowed; /* not in f16 */
    for (size_t n = 0; e == BT_OK && n < p->count; n++)
        if (p->item[n].which == BT_WEIGHT_OUT_NORM)
            e = convert_item(&overflowed, image, &p->item[n], source, NULL, fault);
    return e;
}

bt_err bt_weights_convert_layer(uint8_t *image, const bt_weights_plan *p, uint32_t layer,
                                const bt_weights_source *source, bt_pool *pool, bt_fault *fault)
{
    bt_err e = BT_OK;
    bool overflowed; /* not in f16 */
    for (size_t n = 0; e == BT_OK && n < p->count; n++)
        if (p->item[n].layer == layer && bt_weight_is_layers(p->item[n].which)) {
            const bt_gguf_tensor *t = p->item[n].tensor;
            e = convert_item(&overflowed, image, &p->item[n], source, pool, fault);
            bt_gguf_let_go(p->model->file, t->data, t->bytes);
        }
    return e;
}
