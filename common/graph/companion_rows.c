/* Row-wise operators and their passes: one function for each, over a block of rows; a pass takes blocks through all of
 * its steps. */
#include "graph/companion_private.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A block's widest rows fit the second cache beside what else is there; each thread gets several blocks. */
enum { MAX_STEPS = 8, BLOCK_BYTES = 64 * 1024, SHARES = 4 };

typedef struct step step;
/* x and y: where the block's rows of the step's input and output begin. */
typedef void step_fn(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch);
struct step {
    step_fn *fn;
    float *y;
    const float *x, *w; /* w: a second operand: norm weight, v, what is selected from */
    size_t k;           /* width of x and y */
    bt_companion_area area[BT_COMPANION_MAX_AREAS];
    size_t areas;
    bool is_fresh;               /* y is made of other things than what stood there */
    bool x_in_block, y_in_block; /* instead of in memory */
    bt_companion_rows r;
    float number; /* eps, pad */
    size_t heads, d, dims, layer;
    const float *cos, *sin;
    int neox;
    const int32_t *ids;
    bt_companion_row_fn *row;
    const bt_companion_rotation *rotation;
    bt_companion_step_fn *call;
    void *ud;
    const void *what; /* call's, or the table of embed */
};

struct bt_companion_pass {
    const bt_companion *c;
    bool is_open, has_block;
    step step[MAX_STEPS];
    size_t steps, t, width, elems; /* rows; the widest; elements of all steps */
    bt_pool_range blocks;
};

bt_companion_pass *bt_companion_pass_new(void) { return calloc(1, sizeof(bt_companion_pass)); }
void bt_companion_pass_free(bt_companion_pass *p) { free(p); }
size_t bt_companion_pass_scratch_bytes(void) { return BLOCK_BYTES; }

static void pass_part(void *ud, size_t part, size_t parts)
{
    bt_companion_pass *p = ud;
    uint8_t *scratch = bt_companion_scratch(p->c, part);
    float *block = (float *)(void *)(scratch + p->c->scratch_bytes - BLOCK_BYTES);
    size_t r0, r1;
    (void)parts;
    while (bt_pool_range_take(&p->blocks, &r0, &r1))
        for (size_t i = 0; i < p->steps; i++) {
            const step *s = &p->step[i];
            float *y = s->y_in_block ? block : s->y ? s->y + r0 * s->k : NULL;
            const float *x = s->x_in_block ? block : s->x ? s->x + r0 * s->k : NULL;
            s->fn(p->c, s, y, x, r0, r1 - r0, scratch);
        }
}

static size_t rows_of_a_block(const bt_companion_pass *p) { return BLOCK_BYTES / (p->width * sizeof(float)); }

void bt_companion_flush(const bt_companion *c)
{
    bt_companion_pass *p = c->pass;
    if (!p->steps) return;
    bt_pool *pool = bt_companion_pool_for(c, p->elems);
    const size_t fit = rows_of_a_block(p), share = p->t / (SHARES * bt_pool_threads(pool));
    p->c = c;
    bt_pool_range_init(&p->blocks, p->t, fit < share ? fit : share);
    bt_pool_run(pool, pass_part, p);
    p->steps = 0;
    p->has_block = false;
}

void bt_companion_begin(const bt_companion *c) { c->pass->is_open = true; }
void bt_companion_end(const bt_companion *c)
{
    bt_companion_flush(c);
    c->pass->is_open = false;
}

/* May b's step run on some rows before a's has run on others? */
static bool is_apart(const bt_companion_area *a, const bt_companion_area *b, size_t t)
{
    const uintptr_t p = (uintptr_t)a->at, q = (uintptr_t)b->at;
    if (!p || !q || (!a->is_written && !b->is_written) || (p == q && a->stride == b->stride)) return true;
    return p + t * a->stride <= q || q + t * b->stride <= p;
}

static bool is_row_local(const bt_companion_pass *p, const step *s)
{
    for (size_t i = 0; i < p->steps; i++)
        for (size_t a = 0; a < p->step[i].areas; a++)
            for (size_t b = 0; b < s->areas; b++)
                if (!is_apart(&p->step[i].area[a], &s->area[b], p->t)) return false;
    return true;
}

static void do_step(const bt_companion *c, const step *s, size_t t)
{
    bt_companion_pass *p = c->pass;
    if (p->steps == MAX_STEPS || p->t != t || !is_row_local(p, s)) bt_companion_flush(c);
    if (!p->steps) p->t = t, p->width = 1, p->elems = 0;
    p->step[p->steps++] = *s;
    p->elems += t * s->k;
    if (s->k > p->width) p->width = s->k;
    if (!p->is_open) bt_companion_flush(c);
}

void bt_companion_drop(const bt_companion *c, const void *x)
{
    bt_companion_pass *p = c->pass;
    size_t i = 0;
    while (i < p->steps && (p->step[i].y != x || !p->step[i].is_fresh)) i++;
    if (i == p->steps || p->has_block || !rows_of_a_block(p)) return;
    for (size_t n = i; n < p->steps; n++)
        if (p->step[n].w == x) return; /* read at other rows, or beside them */
    p->has_block = p->step[i].y_in_block = true;
    for (i++; i < p->steps; i++) {
        p->step[i].x_in_block = p->step[i].x == x;
        p->step[i].y_in_block = p->step[i].y == x;
    }
}

/* Steps with one operand, or with an input and an output. */
static bt_companion_area read_area(const void *at, size_t k) { return (bt_companion_area){at, k * sizeof(float), false}; }
static bt_companion_area written_area(const void *at, size_t k) { return (bt_companion_area){at, k * sizeof(float), true}; }

/* ---- by row ---- */

static void embed_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    (void)c, (void)x, (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, y += s->k) {
        if (r % s->r.rows < s->r.seq[r / s->r.rows].valid) s->row(y, s->what, (size_t)s->ids[r]);
        else
            for (size_t i = 0; i < s->k; i++) y[i] = s->number;
    }
}

void bt_companion_embed(const bt_companion *c, const bt_companion_rows *r, float *y, size_t width,
                        const int32_t *ids, bt_companion_row_fn *row, const void *table, float pad)
{
    const step s = {.fn = embed_rows, .is_fresh = true, .r = *r, .y = y, .k = width, .number = pad, .ids = ids, .row = row, .what = table,
                    .area = {written_area(y, width)}, .areas = 1};
    do_step(c, &s, r->batch * r->rows);
}

/* heads: norms in a row. */
static void rmsnorm_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    (void)r0, (void)scratch;
    c->kernels->rmsnorm(y, s->d, x, s->d, s->w, s->number, n * s->heads, s->d);
}

void bt_companion_rmsnorm(const bt_companion *c, float *y, const float *x, const float *w, float eps,
                          size_t t, size_t k)
{
    const step s = {.fn = rmsnorm_rows, .is_fresh = y != x, .y = y, .x = x, .w = w, .number = eps, .k = k, .heads = 1, .d = k,
                    .area = {read_area(x, k), written_area(y, k)}, .areas = 2};
    do_step(c, &s, t);
}

void bt_companion_qk_norm(const bt_companion *c, float *x, const float *w, float eps, size_t t, size_t heads, size_t d)
{
    const step s = {.fn = rmsnorm_rows, .y = x, .x = x, .w = w, .number = eps, .k = heads * d, .heads = heads, .d = d,
                    .area = {written_area(x, heads * d)}, .areas = 1};
    do_step(c, &s, t);
}

static void add_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    (void)r0, (void)scratch;
    c->kernels->add(y, x, n * s->k);
}

void bt_companion_add(const bt_companion *c, float *restrict y, const float *restrict x, size_t t, size_t k)
{
    const step s = {.fn = add_rows, .y = y, .x = x, .k = k, .area = {read_area(x, k), written_area(y, k)}, .areas = 2};
    do_step(c, &s, t);
}

static void silu_mul_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    (void)r0, (void)scratch;
    c->kernels->silu_mul(y, y, x, n * s->k);
}

void bt_companion_silu_mul(const bt_companion *c, float *gate, const float *up, size_t t, size_t k)
{
    const step s = {.fn = silu_mul_rows, .y = gate, .x = up, .k = k, .area = {read_area(up, k), written_area(gate, k)}, .areas = 2};
    do_step(c, &s, t);
}

static void rotate_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    const bt_companion_rotation *r = s->rotation;
    (void)x, (void)r0;
    c->kernels->rotate(y, s->k, n, s->heads, r->h_base, r->base, r->log2, r->sign, r->scale, scratch);
}

void bt_companion_rotate(const bt_companion *c, float *x, size_t t, size_t blocks,
                         const bt_companion_rotation *rotation)
{
    const size_t k = blocks * bt_companion_rotation_elems(rotation);
    const step s = {.fn = rotate_rows, .y = x, .k = k, .heads = blocks, .rotation = rotation, .area = {written_area(x, k)}, .areas = 1};
    do_step(c, &s, t);
}

/* Not its own rows where one is chosen of many; then its t is not that of the steps before, and it stands alone. */
static void select_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    (void)c, (void)x, (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, y += s->k) {
        const size_t from = s->heads > 1 ? r : r * s->r.rows + s->r.seq[r].valid - 1;
        memcpy(y, s->w + from * s->k, s->k * sizeof *y);
    }
}

void bt_companion_select_rows(const bt_companion *c, const bt_companion_rows *r, size_t out, void *y,
                              const void *x, size_t k)
{
    const step s = {.fn = select_rows, .is_fresh = true, .r = *r, .y = y, .w = x, .k = k, .heads = out,
                    .area = {read_area(x, k), written_area(y, k)}, .areas = 2};
    do_step(c, &s, r->batch * out);
}

/* ---- by position ---- */

static void rope_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    (void)x, (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, y += s->k) {
        const bt_companion_seq *seq = &s->r.seq[r / s->r.rows];
        const size_t row = r % s->r.rows, at = (seq->pos0 + row) * (s->dims / 2);
        if (row < seq->valid) c->kernels->rope(y, s->heads, s->d, s->dims, s->cos + at, s->sin + at, s->neox);
    }
}

void bt_companion_rope(const bt_companion *c, const bt_companion_rows *r, float *x, size_t heads, size_t d,
                       size_t dims, const float *cos, const float *sin, int neox)
{
    const step s = {.fn = rope_rows, .r = *r, .y = x, .k = heads * d, .heads = heads, .d = d, .dims = dims, .cos = cos,
                    .sin = sin, .neox = neox, .area = {written_area(x, heads * d)}, .areas = 1};
    do_step(c, &s, r->batch * r->rows);
}

static void kv_store_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    const size_t rows = s->r.rows, end = r0 + n;
    (void)y, (void)scratch;
    for (size_t r = r0, next; r < end; r = next) {
        const bt_companion_seq *seq = &s->r.seq[r / rows];
        const size_t first = r % rows, left = rows - first;
        next = left < end - r ? r + left : end;
        const size_t last = first + (next - r), real = last < seq->valid ? last : seq->valid;
        if (first < real)
            c->kernels->kv_store(seq->kv, s->layer, seq->pos0 + first, real - first, x + (r - r0) * s->k, s->w + r * s->k, s->k);
    }
}

void bt_companion_kv_store(const bt_companion *c, const bt_companion_rows *r, size_t layer, const float *k,
                           const float *v, size_t width)
{
    const step s = {.fn = kv_store_rows, .r = *r, .x = k, .w = v, .k = width, .layer = layer,
                    .area = {read_area(k, width), read_area(v, width)}, .areas = 2};
    do_step(c, &s, r->batch * r->rows);
}

/* ---- the owner's own ---- */

static void call_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n, void *scratch)
{
    (void)c, (void)y;
    s->call(s->ud, s->what, x, r0, n, scratch);
}

void bt_companion_step(const bt_companion *c, size_t t, size_t width, const float *x, const bt_companion_area *area, size_t areas,
                       bt_companion_step_fn *fn, void *ud, const void *what)
{
    step s = {.fn = call_rows, .x = x, .k = width, .areas = areas, .call = fn, .ud = ud, .what = what};
    memcpy(s.area, area, areas * sizeof *area);
    do_step(c, &s, t);
}
