/* One function for each FP32 operator, all of the same shape: a job, a part of it for a thread, a call into a
 * kernel. */
#include "graph/companion_private.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, DIRECT_ELEMS = 16384 };

bt_err bt_companion_init(bt_companion *ret, const bt_kernels *kernels, bt_pool *pool, const bt_companion_sizes *sizes,
                         bt_fault *fault)
{
    size_t bytes = bt_attn_scratch_bytes(sizes->head_dim);
    if (bytes < sizes->rotate_elems * sizeof(float)) bytes = sizes->rotate_elems * sizeof(float);
    if (bytes < sizes->scratch_bytes) bytes = sizes->scratch_bytes;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    bt_companion c = {.kernels = kernels, .pool = pool, .scratch_bytes = bytes};
    c.scratch = aligned_alloc(ALIGN, bt_pool_threads(pool) * bytes);
    c.spans = c.scratch ? bt_companion_spans_new(sizes) : NULL;
    if (!c.spans) {
        bt_companion_done(&c);
        return bt_fail(fault, BT_ENOMEM, "%zu bytes of scratch for each thread", bytes);
    }
    *ret = c;
    return BT_OK;
}

void bt_companion_done(bt_companion *c)
{
    free(c->scratch);
    bt_companion_spans_free(c->spans);
}

bt_pool *bt_companion_pool_for(const bt_companion *c, size_t elems)
{
    return elems < DIRECT_ELEMS ? NULL : c->pool;
}

/* ---- by rows ---- */

typedef struct rows_job {
    const bt_companion *c;
    const bt_companion_rows *r;
    float *y;
    const float *x, *w; /* w: second operand: norm weight, what is added, up */
    size_t t, k;
    float number; /* eps, pad */
    const int32_t *ids;
    bt_companion_row_fn *row;
    const void *table;
    const bt_companion_rotation *rotation;
    size_t heads, layer; /* heads: blocks of a rotation too */
} rows_job;

static void over_rows(const rows_job *j, bt_pool_fn *fn, size_t width)
{
    bt_pool_run(bt_companion_pool_for(j->c, j->t * width), fn, (void *)j);
}

static void embed_part(void *ud, size_t part, size_t parts)
{
    const rows_job *j = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->t, 1, part, parts);
    for (size_t r = r0; r < r1; r++) {
        float *y = j->y + r * j->k;
        if (r % j->r->rows < j->r->seq[r / j->r->rows].valid) j->row(y, j->table, (size_t)j->ids[r]);
        else
            for (size_t i = 0; i < j->k; i++) y[i] = j->number;
    }
}

void bt_companion_embed(const bt_companion *c, const bt_companion_rows *r, float *y, size_t width,
                        const int32_t *ids, bt_companion_row_fn *row, const void *table, float pad)
{
    const rows_job j = {.c = c,
                        .r = r,
                        .y = y,
                        .t = r->batch * r->rows,
                        .k = width,
                        .number = pad,
                        .ids = ids,
                        .row = row,
                        .table = table};
    over_rows(&j, embed_part, width);
}

static void rmsnorm_part(void *ud, size_t part, size_t parts)
{
    const rows_job *j = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->t, 1, part, parts);
    if (r0 < r1)
        j->c->kernels->rmsnorm(j->y + r0 * j->k, j->k, j->x + r0 * j->k, j->k, j->w, j->number, r1 - r0,
                               j->k);
}

void bt_companion_rmsnorm(const bt_companion *c, float *y, const float *x, const float *w, float eps,
                          size_t t, size_t k)
{
    const rows_job j = {.c = c, .y = y, .x = x, .w = w, .number = eps, .t = t, .k = k};
    over_rows(&j, rmsnorm_part, k);
}

static void add_part(void *ud, size_t part, size_t parts)
{
    const rows_job *j = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->t, 1, part, parts);
    j->c->kernels->add(j->y + r0 * j->k, j->w + r0 * j->k, (r1 - r0) * j->k);
}

void bt_companion_add(const bt_companion *c, float *restrict y, const float *restrict x, size_t t, size_t k)
{
    const rows_job j = {.c = c, .y = y, .w = x, .t = t, .k = k};
    over_rows(&j, add_part, k);
}

static void silu_mul_part(void *ud, size_t part, size_t parts)
{
    const rows_job *j = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->t, 1, part, parts);
    float *gate = j->y + r0 * j->k;
    j->c->kernels->silu_mul(gate, gate, j->w + r0 * j->k, (r1 - r0) * j->k);
}

void bt_companion_silu_mul(const bt_companion *c, float *gate, const float *up, size_t t, size_t k)
{
    const rows_job j = {.c = c, .y = gate, .w = up, .t = t, .k = k};
    over_rows(&j, silu_mul_part, k);
}

static void rotate_part(void *ud, size_t part, size_t parts)
{
    const rows_job *j = ud;
    size_t r0, r1;
    const bt_companion_rotation *r = j->rotation;
    bt_pool_slice(&r0, &r1, j->t, 1, part, parts);
    j->c->kernels->rotate(j->y + r0 * j->k, j->k, r1 - r0, j->heads, r->h_base, r->base, r->log2, r->sign,
                          r->scale, bt_companion_scratch(j->c, part));
}

void bt_companion_rotate(const bt_companion *c, float *x, size_t t, size_t blocks,
                         const bt_companion_rotation *rotation)
{
    const rows_job j = {.c = c,
                        .y = x,
                        .t = t,
                        .k = blocks * bt_companion_rotation_elems(rotation),
                        .heads = blocks,
                        .rotation = rotation};
    over_rows(&j, rotate_part, j.k);
}

static void select_part(void *ud, size_t part, size_t parts)
{
    const rows_job *j = ud;
    const bool is_all = j->t == j->r->batch * j->r->rows;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->t, 1, part, parts);
    for (size_t r = r0; r < r1; r++) {
        const size_t from = is_all ? r : r * j->r->rows + j->r->seq[r].valid - 1;
        memcpy(j->y + r * j->k, j->x + from * j->k, j->k * sizeof *j->y);
    }
}

void bt_companion_select_rows(const bt_companion *c, const bt_companion_rows *r, size_t out, void *y,
                              const void *x, size_t k)
{
    const rows_job j = {.c = c, .r = r, .y = y, .x = x, .t = r->batch * out, .k = k};
    over_rows(&j, select_part, k);
}

/* ---- by position ---- */

typedef struct rope_job {
    const bt_companion *c;
    const bt_companion_rows *r;
    float *x;
    size_t heads, d, dims;
    const float *cos, *sin;
    int neox;
} rope_job;

static void rope_part(void *ud, size_t part, size_t parts)
{
    const rope_job *j = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->r->batch * j->r->rows, 1, part, parts);
    for (size_t r = r0; r < r1; r++) {
        const bt_companion_seq *s = &j->r->seq[r / j->r->rows];
        const size_t row = r % j->r->rows, at = (s->pos0 + row) * (j->dims / 2);
        if (row < s->valid)
            j->c->kernels->rope(j->x + r * j->heads * j->d, j->heads, j->d, j->dims, j->cos + at, j->sin + at,
                                j->neox);
    }
}

void bt_companion_rope(const bt_companion *c, const bt_companion_rows *r, float *x, size_t heads, size_t d,
                       size_t dims, const float *cos, const float *sin, int neox)
{
    rope_job j = {c, r, x, heads, d, dims, cos, sin, neox};
    bt_pool_run(bt_companion_pool_for(c, r->batch * r->rows * heads * d), rope_part, &j);
}

static void kv_store_part(void *ud, size_t part, size_t parts)
{
    const rows_job *j = ud;
    const size_t rows = j->r->rows;
    size_t begin, end;
    bt_pool_slice(&begin, &end, j->t, 1, part, parts);
    for (size_t r = begin, next; r < end; r = next) {
        const bt_companion_seq *s = &j->r->seq[r / rows];
        const size_t first = r % rows, left = rows - first;
        next = left < end - r ? r + left : end;
        const size_t last = first + (next - r), real = last < s->valid ? last : s->valid;
        if (first < real)
            bt_kv_store(s->kv, j->layer, s->pos0 + first, real - first, j->x + r * j->k, j->w + r * j->k, j->k);
    }
}

void bt_companion_kv_store(const bt_companion *c, const bt_companion_rows *r, size_t layer, const float *k,
                           const float *v, size_t width)
{
    const rows_job j = {.c = c, .r = r, .x = k, .w = v, .t = r->batch * r->rows, .k = width, .layer = layer};
    over_rows(&j, kv_store_part, width);
}

/* ---- linears ---- */

typedef struct linear_job {
    const bt_companion *c;
    const bt_companion_matrix *m;
    const float *x;
    size_t group, t, k;
} linear_job;

static void panels_of(const linear_job *j, const bt_companion_matrix *m, size_t p0, size_t p1, void *scratch)
{
    const bt_kernels *kernels = j->c->kernels;
    switch (m->form) {
    case BT_FORM_F16: kernels->matmul(m->y, m->n, j->x, j->k, m->panels, m->bias, j->t, m->n, j->k, p0, p1); break;
    case BT_FORM_INT8: kernels->matmul8(m->y, m->n, j->x, j->k, m->panels, m->bias, j->t, m->n, j->k, m->group, p0, p1); break;
    case BT_FORM_FP4: kernels->matmul4(m->y, m->n, j->x, j->k, m->panels, m->bias, j->t, m->n, j->k, p0, p1, scratch); break;
    }
}

/* The panels of all matrices are one range, split over the parts. */
static void linear_part(void *ud, size_t part, size_t parts)
{
    const linear_job *j = ud;
    size_t total = 0, p0, p1;
    for (size_t g = 0; g < j->group; g++) total += bt_matmul_panels(j->m[g].n);
    bt_pool_slice(&p0, &p1, total, 1, part, parts);
    for (size_t g = 0; g < j->group && p1 > 0; g++) {
        const bt_companion_matrix *m = &j->m[g];
        const size_t panels = bt_matmul_panels(m->n), end = p1 < panels ? p1 : panels;
        if (p0 < end) panels_of(j, m, p0, end, bt_companion_scratch(j->c, part));
        p0 = p0 > panels ? p0 - panels : 0;
        p1 = p1 > panels ? p1 - panels : 0;
    }
}

void bt_companion_linear(const bt_companion *c, const bt_companion_matrix *m, size_t group, const float *x,
                         size_t t, size_t k)
{
    linear_job j = {.c = c, .m = m, .x = x, .group = group, .t = t, .k = k};
    bt_pool_run(c->pool, linear_part, &j);
}
