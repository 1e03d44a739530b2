/* The row-wise operators: each describes itself as a step of a pass, and computes any block of its rows. */
#include "graph/companion_private.h"
#include "model/weight.h"

#include <string.h>

typedef bt_companion_pass_step step;

/* Rows of k floats, read or written. */
static bt_companion_area read_area(const bt_companion *c, const void *at, size_t k)
{
    return (bt_companion_area){at, bt_companion_ld(c, k) * sizeof(float), false};
}
static bt_companion_area written_area(const bt_companion *c, const void *at, size_t k)
{
    return (bt_companion_area){at, bt_companion_ld(c, k) * sizeof(float), true};
}

/* ---- by row ---- */

static void embed_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                       void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    (void)x, (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, y += ld) {
        const bool is_real = r % s->r.rows < s->r.seq[r / s->r.rows].valid;
        if (is_real) s->row(y, s->what, (size_t)s->ids[r]);
        for (size_t i = 0; is_real && s->scale != 1 && i < s->k; i++) y[i] *= s->scale;
        for (size_t i = 0; !is_real && i < s->k; i++) y[i] = s->number;
    }
}

void bt_companion_embed(const bt_companion *c, const bt_companion_rows *r, float *y, size_t width,
                        const int32_t *ids, bt_companion_row_fn *row, const void *table, float scale,
                        float pad)
{
    const step s = {.fn = embed_rows,
                    .is_fresh = true,
                    .r = *r,
                    .y = y,
                    .k = width,
                    .number = pad,
                    .scale = scale,
                    .ids = ids,
                    .row = row,
                    .what = table,
                    .area = {written_area(c, y, width)},
                    .areas = 1};
    bt_companion_pass_add(c, &s, r->batch * r->rows);
}

/* heads: norms in a row; d: elements of each. */
static void norm_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                      void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    (void)r0, (void)scratch;
    if (s->heads == 1) s->norm(y, ld, x, ld, s->w, s->number, n, s->d);
    else if (ld == s->k) s->norm(y, s->d, x, s->d, s->w, s->number, n * s->heads, s->d);
    else
        for (size_t i = 0; i < n; i++)
            s->norm(y + i * ld, s->d, x + i * ld, s->d, s->w, s->number, s->heads, s->d);
}

void bt_companion_norm(const bt_companion *c, bt_companion_norm_fn *fn, float *y, const float *x,
                       const float *w, float eps, size_t t, size_t k)
{
    const step s = {.fn = norm_rows,
                    .norm = fn,
                    .is_fresh = y != x,
                    .y = y,
                    .x = x,
                    .w = w,
                    .number = eps,
                    .k = k,
                    .heads = 1,
                    .d = k,
                    .area = {read_area(c, x, k), written_area(c, y, k)},
                    .areas = 2};
    bt_companion_pass_add(c, &s, t);
}

void bt_companion_qk_norm(const bt_companion *c, float *x, const float *w, float eps, size_t t, size_t heads,
                          size_t d)
{
    const step s = {.fn = norm_rows, .norm = c->kernels->rmsnorm,
                    .y = x,          .x = x,
                    .w = w,          .number = eps,
                    .k = heads * d,  .heads = heads,
                    .d = d,          .area = {written_area(c, x, heads * d)},
                    .areas = 1};
    bt_companion_pass_add(c, &s, t);
}

/* n rows of k as so many runs without a gap: all rows as one where they lie one behind the other. Returns the
 * elements of a run. */
static size_t runs_of(const bt_companion *c, size_t *runs, size_t n, size_t k)
{
    const bool is_whole = bt_companion_ld(c, k) == k;
    *runs = is_whole ? 1 : n;
    return is_whole ? n * k : k;
}

static void add_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                     void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    size_t runs;
    const size_t elems = runs_of(c, &runs, n, s->k);
    (void)r0, (void)scratch;
    for (size_t i = 0; i < runs && s->scale == 1; i++) c->kernels->add(y + i * ld, x + i * ld, elems);
    for (size_t i = 0; i < runs && s->scale != 1; i++)
        c->kernels->add_scaled(y + i * ld, x + i * ld, s->scale, elems);
}

void bt_companion_add(const bt_companion *c, float *restrict y, const float *restrict x, float scale,
                      size_t t, size_t k)
{
    const step s = {.fn = add_rows, .y = y,         .x = x,
                    .k = k,         .scale = scale, .area = {read_area(c, x, k), written_area(c, y, k)},
                    .areas = 2};
    bt_companion_pass_add(c, &s, t);
}

static void gated_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                       void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    size_t runs;
    const size_t elems = runs_of(c, &runs, n, s->k);
    (void)r0, (void)scratch;
    for (size_t i = 0; i < runs; i++) s->gate(y + i * ld, y + i * ld, x + i * ld, elems);
}

void bt_companion_gated(const bt_companion *c, bt_companion_gate_fn *fn, float *gate, const float *up,
                        size_t t, size_t k)
{
    const step s = {.fn = gated_rows, .gate = fn, .y = gate,
                    .x = up,          .k = k,     .area = {read_area(c, up, k), written_area(c, gate, k)},
                    .areas = 2};
    bt_companion_pass_add(c, &s, t);
}

static void point_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                       void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    size_t runs;
    const size_t elems = runs_of(c, &runs, n, s->k);
    (void)x, (void)r0, (void)scratch;
    for (size_t i = 0; i < runs; i++) s->point(y + i * ld, y + i * ld, elems);
}

void bt_companion_point(const bt_companion *c, bt_companion_point_fn *fn, float *y, size_t t, size_t k)
{
    const step s = {.fn = point_rows, .point = fn, .y = y, .k = k, .area = {written_area(c, y, k)},
                    .areas = 1};
    bt_companion_pass_add(c, &s, t);
}

typedef struct capped {
    const bt_kernels *kernels;
    float *y, cap;
    size_t elems;
} capped;

static void cap_part(void *ud, size_t part, size_t parts)
{
    const capped *a = ud;
    size_t begin, end;
    bt_pool_slice(&begin, &end, a->elems, 16, part, parts);
    a->kernels->soft_cap(a->y + begin, a->cap, end - begin);
}

void bt_companion_soft_cap(const bt_companion *c, float *y, float cap, size_t t, size_t k)
{
    capped a = {c->kernels, y, cap, t * k};
    bt_companion_flush(c);
    bt_pool_run(c->pool, cap_part, &a);
}

static void round_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                       void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    (void)r0, (void)scratch;
    bt_round16_rows(c->kernels, s->form, y, ld, x, ld, n, s->k);
}

void bt_companion_round(const bt_companion *c, bt_round16 form, float *y, const float *x, size_t t, size_t k)
{
    const step s = {.fn = round_rows,
                    .is_fresh = y != x,
                    .y = y,
                    .x = x,
                    .k = k,
                    .form = form,
                    .area = {read_area(c, x, k), written_area(c, y, k)},
                    .areas = 2};
    bt_companion_pass_add(c, &s, t);
}

const bt_companion_rotation *bt_companion_rotation_by(const bt_companion_rotations *r, uint32_t by)
{
    return by == BT_ROTATION_R1 ? &r->r1 : by == BT_ROTATION_R2 ? &r->r2 : &r->r4;
}

size_t bt_companion_rotations_max_elems(const bt_companion_rotations *r)
{
    const size_t e[] = {bt_companion_rotation_elems(&r->r1), bt_companion_rotation_elems(&r->r2),
                        bt_companion_rotation_elems(&r->r4)};
    size_t most = 0;
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) most = e[i] > most ? e[i] : most;
    return most;
}

static void rotate_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                        void *scratch)
{
    const bt_companion_rotation *r = s->rotation;
    (void)x, (void)r0;
    c->kernels->rotate(y, bt_companion_ld(c, s->k), n, s->heads, r->h_base, r->base, r->log2, r->sign,
                       r->scale, scratch);
}

void bt_companion_rotate(const bt_companion *c, float *x, size_t t, size_t blocks,
                         const bt_companion_rotation *rotation)
{
    const size_t k = blocks * bt_companion_rotation_elems(rotation);
    const step s = {.fn = rotate_rows,
                    .y = x,
                    .k = k,
                    .heads = blocks,
                    .rotation = rotation,
                    .area = {written_area(c, x, k)},
                    .areas = 1};
    bt_companion_pass_add(c, &s, t);
}

/* heads: rows of output that a sequence has. Where it is 1, row r of the output is not made from row r of
 * the input. Then the step has fewer rows than those before it, so that no pass holds both; where every
 * sequence has one row, it is the same row after all. */
static void select_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                        void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    (void)x, (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, y += ld) {
        const size_t valid = s->heads > 1 ? 0 : s->r.seq[r].valid;
        const size_t from = s->heads > 1 ? r : r * s->r.rows + (valid ? valid - 1 : 0);
        memcpy(y, s->w + from * ld, s->k * sizeof *y);
    }
}

void bt_companion_select_rows(const bt_companion *c, const bt_companion_rows *r, size_t out, void *y,
                              const void *x, size_t k)
{
    const step s = {.fn = select_rows,
                    .is_fresh = true,
                    .r = *r,
                    .y = y,
                    .w = x,
                    .k = k,
                    .heads = out,
                    .area = {read_area(c, x, k), written_area(c, y, k)},
                    .areas = 2};
    bt_companion_pass_add(c, &s, r->batch * out);
}

/* ---- by position ---- */

static void rope_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                      void *scratch)
{
    const size_t ld = bt_companion_ld(c, s->k);
    (void)x, (void)scratch;
    for (size_t r = r0; r < r0 + n; r++, y += ld) {
        const bt_companion_seq *seq = &s->r.seq[r / s->r.rows];
        const size_t row = r % s->r.rows, at = (seq->pos0 + row) * (s->dims / 2);
        if (row < seq->valid) c->kernels->rope(y, s->heads, s->d, s->dims, s->cos + at, s->sin + at, s->neox);
    }
}

void bt_companion_rope(const bt_companion *c, const bt_companion_rows *r, float *x, size_t heads, size_t d,
                       size_t dims, const float *cos, const float *sin, int neox)
{
    const step s = {.fn = rope_rows,
                    .r = *r,
                    .y = x,
                    .k = heads * d,
                    .heads = heads,
                    .d = d,
                    .dims = dims,
                    .cos = cos,
                    .sin = sin,
                    .neox = neox,
                    .area = {written_area(c, x, heads * d)},
                    .areas = 1};
    bt_companion_pass_add(c, &s, r->batch * r->rows);
}

/* n rows of sequence b, from its row `first` on. */
static void look_at_kv(const step *s, size_t b, size_t first, size_t n, const float *k, const float *v,
                       size_t ld)
{
    if (!s->r.overflow) return;
    const bt_companion_seq *seq = &s->r.seq[b];
    const float limit = bt_finite_kv_limit(seq->kv->elem_bytes);
    bt_overflow_place at = {.layer = (uint32_t)s->layer, .what = BT_OVERFLOW_K};
    bt_overflow_look(s->r.overflow[b], at, seq->pos0 + first, k, ld, n, s->k, limit);
    at.what = BT_OVERFLOW_V;
    bt_overflow_look(s->r.overflow[b], at, seq->pos0 + first, v, ld, n, s->k, limit);
}

static void kv_store_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                          void *scratch)
{
    const size_t rows = s->r.rows, end = r0 + n, ld = bt_companion_ld(c, s->k);
    (void)y, (void)scratch;
    for (size_t r = r0, next; r < end; r = next) {
        const bt_companion_seq *seq = &s->r.seq[r / rows];
        const size_t first = r % rows, left = rows - first;
        next = left < end - r ? r + left : end;
        const size_t last = first + (next - r), real = last < seq->valid ? last : seq->valid;
        if (first >= real) continue;
        look_at_kv(s, r / rows, first, real - first, x + (r - r0) * ld, s->w + r * ld, ld);
        c->kernels->kv_store(seq->kv, s->layer, seq->pos0 + first, real - first, x + (r - r0) * ld,
                             s->w + r * ld, ld);
    }
}

void bt_companion_kv_store(const bt_companion *c, const bt_companion_rows *r, size_t layer, const float *k,
                           const float *v, size_t width)
{
    const step s = {.fn = kv_store_rows,
                    .r = *r,
                    .x = k,
                    .w = v,
                    .k = width,
                    .layer = layer,
                    .area = {read_area(c, k, width), read_area(c, v, width)},
                    .areas = 2};
    bt_companion_pass_add(c, &s, r->batch * r->rows);
}

/* ---- the owner's own ---- */

static void call_rows(const bt_companion *c, const step *s, float *y, const float *x, size_t r0, size_t n,
                      void *scratch)
{
    (void)c, (void)y;
    s->call(s->ud, s->what, x, r0, n, scratch);
}

void bt_companion_step(const bt_companion *c, size_t t, size_t width, const float *x,
                       const bt_companion_area *area, size_t areas, bt_companion_step_fn *fn, void *ud,
                       const void *what)
{
    step s = {.fn = call_rows, .x = x, .k = width, .areas = areas, .call = fn, .ud = ud, .what = what};
    memcpy(s.area, area, areas * sizeof *area);
    bt_companion_pass_add(c, &s, t);
}
