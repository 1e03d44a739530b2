/* Rounds and packs a matrix panel by panel: each thread reads, rounds and packs rows, and measures the error.
 */
#include "npu/quant/rounding.h"
#include "base/num.h"
#include "kernels/int_kernels.h"
#include "kernels/kernels.h"
#include "npu/quant/grid.h"
#include "npu/quant/palette.h"
#include "npu/quant/rounding_code.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 16, ALIGN = 64 };

typedef struct job {
    const bt_rounding_in *in;
    bt_rounding *out;
    float limit;
    size_t first; /* the matrix's first row in the fold */
    atomic_bool failed, is_bad;
    float *max;                    /* [n]: greatest magnitude of a row */
    double *weight[2], *output[2]; /* [n]: sums of squares, [0] of the errors, [1] of the exact values */
} job;

static void measure_row(const job *j, size_t n, const float *w, const float *wq)
{
    const size_t k = j->out->k;
    for (size_t s = 0; s < j->in->samples; s++) {
        double y;
        const double d = bt_rounding_loops()->apart(w, wq, j->in->x + s * k, j->in->xq + s * k, k, &y);
        j->output[0][n] += d * d;
        j->output[1][n] += y * y;
    }
}

static void max_part(void *ud, size_t part, size_t parts)
{
    job *j = ud;
    size_t n0, n1;
    bt_pool_slice(&n0, &n1, j->out->n, PANEL, part, parts);
    float *row = malloc(j->out->k * sizeof *row);
    if (!row) {
        atomic_store(&j->failed, true);
        return;
    }
    for (size_t n = n0; n < n1; n++) {
        bt_fold_row(j->in->fold, row, j->first + n);
        j->max[n] = bt_rounding_loops()->max(row, j->out->k);
    }
    free(row);
}

/* Chooses the grids of rows, from n0, a panel's first, on: fills scale and offset, [count][groups]. False: a
 * weight is not finite. */
static bool choose_scales(job *j, float *scale, float *offset, const bt_gptq_grid *grid, const float *rows,
                          size_t n0, size_t count)
{
    bt_rounding *o = j->out;
    const size_t k = o->k, groups = k / grid->group;
    const float limit = j->in->group ? BT_GRID_UNITS : grid->most;
    for (size_t r = 0; r < count; r++) {
        const float max = j->in->per_tensor ? j->max[0] : bt_rounding_loops()->max(rows + r * k, k);
        const float unit = max / limit > 0 ? max / limit : 1;
        if (!isfinite(max)) return false;
        const uint8_t *clip = j->in->clip ? j->in->clip + (n0 + r) * groups : NULL;
        scale[r * groups] = clip && !j->in->group ? unit * bt_grid_keep(*clip) : unit;
        if (!j->in->per_tensor) o->scale[n0 + r] = scale[r * groups];
        for (size_t g = 0; j->in->group && g < groups; g++) {
            const float *w = rows + r * k + g * grid->group;
            const bt_grid_group of = clip ? bt_grid_clipped(w, unit, clip[g], grid, grid->group)
                                          : bt_grid_search(w, unit, grid, grid->group);
            bt_int_group *to = &o->groups[(n0 + r) / PANEL * groups + g];
            to->step[r % PANEL] = of.step;
            to->offset[r % PANEL] = of.offset;
            scale[r * groups + g] = unit * of.step;
            offset[r * groups + g] = unit * of.offset;
        }
    }
    return true;
}

/* Brings a row's inputs into order; order NULL: leaves them as they are. */
static void gather(float *to, const float *from, const uint32_t *order, size_t k)
{
    for (size_t i = 0; i < k; i++) to[i] = from[order ? order[i] : i];
}

/* bt_rounding_code.compare of a row with groups; sum stays 0 (sum_weights makes it). */
static bt_rounding_row compare_groups(float *rounded, const int8_t *q, const float *w, const double *mean,
                                      const bt_gptq_grid *grid, size_t row, size_t k)
{
    bt_rounding_row r = {.sum = 0};
    for (size_t i = 0; i < k; i++) {
        const size_t g = (row * k + i) / grid->group;
        rounded[i] = (float)q[i] * grid->scale[g] + grid->offset[g];
        const double d = (double)rounded[i] - w[i];
        r.apart += d * d;
        r.square += (double)w[i] * w[i];
        r.drift += mean ? d * mean[i] : 0;
    }
    return r;
}

/* Fills colsum of row n with groups: the sum of the low plane, then of the high one (int_kernels.h). */
static void sum_weights(const bt_rounding *o, const int8_t *q, size_t n, size_t group)
{
    int32_t sum = 0, high = 0;
    for (size_t i = 0; i < o->k; i++) {
        const bt_int_group *g = o->groups ? &o->groups[n / PANEL * (o->k / group) + i / group] : NULL;
        const int v = g ? q[i] * g->step[n % PANEL] + g->offset[n % PANEL] : q[i];
        sum += v;
        if (g) high += bt_int_plane_high(v);
    }
    o->colsum[n] = sum - 128 * high;
    if (o->groups) o->colsum[PANEL * bt_int_panels(o->n) + n] = high;
}

/* Replaces the weights q[count, k] of a panel by their palette entries, fills index[count, k], and packs it.
 */
static void palettise(const job *j, int8_t *q, uint8_t *index, size_t n0, size_t count)
{
    bt_rounding *o = j->out;
    const size_t k = o->k, run = j->in->palette_run, many = (size_t)1 << j->in->palette_bits;
    int8_t *entry = o->palettes + n0 / PANEL * (k / run) * many;
    for (size_t first = 0; first < k; first += run, entry += many) {
        uint32_t counts[BT_PALETTE_VALUES] = {0};
        bt_palette p;
        for (size_t r = 0; r < count; r++)
            for (size_t i = first; i < first + run; i++) counts[q[r * k + i] + 127]++;
        bt_palette_make(&p, counts, j->in->palette_bits);
        memcpy(entry, p.entry, many);
        for (size_t r = 0; r < count; r++)
            for (size_t i = first; i < first + run; i++) {
                index[r * k + i] = p.index[q[r * k + i] + 127];
                q[r * k + i] = p.entry[index[r * k + i]];
            }
        for (size_t r = count; r < PANEL; r++) o->colsum[n0 + r] += (int32_t)run * entry[0];
    }
    bt_int_pack_indices(o->panels, index, n0, count, k, j->in->palette_bits);
}

/* Scratch of one part of make_part. */
typedef struct workspace {
    float *rows, *rounded; /* [rows, k] */
    float *scale, *offset; /* [rows, groups] */
    int8_t *q;             /* [rows, k] */
    uint8_t *index;        /* [PANEL, k] with palettes */
} workspace;

static void pack_panel(job *j, size_t n0, size_t count, const bt_gptq_grid *grid, const workspace *s)
{
    bt_rounding *o = j->out;
    const size_t k = o->k;
    float *rounded = s->rounded;
    if (j->in->palette_bits) palettise(j, s->q, s->index, n0, count);
    else bt_int_pack(o->panels, s->q, n0, count, k, j->in->bits);
    for (size_t r = 0; r < count; r++) {
        const size_t n = n0 + r;
        const float *row = s->rows + r * k;
        const int8_t *q = s->q + r * k;
        bt_rounding_row made;
        if (j->in->group) {
            made = compare_groups(rounded, q, row, j->in->mean, grid, r, k);
            sum_weights(o, q, n, grid->group);
        } else {
            made = bt_rounding_loops()->compare(rounded, q, row, j->in->mean, s->scale[r], k);
            o->colsum[n] = made.sum;
        }
        o->correction[n] = (float)-made.drift;
        j->weight[0][n] = made.apart;
        j->weight[1][n] = made.square;
        measure_row(j, n, row, rounded);
    }
}

/* Rows [n0, n0 + count): the panels that fit the workspace. */
static void make_panels(job *j, size_t n0, size_t count, const workspace *s)
{
    const size_t k = j->out->k, group = j->in->group ? j->in->group : k, groups = k / group;
    const bt_gptq_grid grid = {.scale = s->scale, .offset = s->offset, .group = group,
                               .least = j->in->group && j->in->bits == 4 ? -8 : -j->limit, .most = j->limit};
    for (size_t r = 0; r < count; r++) bt_fold_row(j->in->fold, s->rows + r * k, j->first + n0 + r);
    if (!choose_scales(j, s->scale, s->offset, &grid, s->rows, n0, count)) {
        atomic_store(&j->is_bad, true);
        return;
    }
    if (j->in->gptq) {
        for (size_t r = 0; r < count; r++) gather(s->rounded + r * k, s->rows + r * k, j->in->order, k);
        bt_gptq_round(s->q, s->rounded, &grid, count, k, j->in->order, j->in->gptq);
    } else if (j->in->group) {
        for (size_t g = 0; g < count * groups; g++)
            bt_grid_round(s->q + g * group, s->rows + g * group, s->scale[g], s->offset[g], &grid, group);
    } else {
        for (size_t r = 0; r < count; r++)
            bt_rounding_loops()->round(s->q + r * k, s->rows + r * k, s->scale[r], k, j->limit);
    }
    for (size_t r = 0; r < count; r += PANEL) {
        const workspace of = {
            .rows = s->rows + r * k,          .rounded = s->rounded, .scale = s->scale + r * groups,
            .offset = s->offset + r * groups, .q = s->q + r * k,     .index = s->index};
        bt_gptq_grid at = grid;
        at.scale = of.scale;
        at.offset = of.offset;
        pack_panel(j, n0 + r, count - r < PANEL ? count - r : PANEL, &at, &of);
    }
}

static void make_part(void *ud, size_t part, size_t parts)
{
    job *j = ud;
    const size_t k = j->out->k, n = j->out->n, groups = j->in->group ? k / j->in->group : 1;
    const size_t rows = j->in->gptq ? BT_GPTQ_MANY : PANEL;
    size_t n0, n1;
    bt_pool_slice(&n0, &n1, n, PANEL, part, parts);
    float *work = calloc(2 * rows * (k + groups), sizeof *work);
    const workspace s = {.rows = work,
                         .rounded = work + rows * k,
                         .scale = work + 2 * rows * k,
                         .offset = work + rows * (2 * k + groups),
                         .q = malloc(rows * k),
                         .index = j->in->palette_bits ? malloc(PANEL * k) : NULL};
    const bool made = work && s.q && (s.index || !j->in->palette_bits);
    if (!made) atomic_store(&j->failed, true);
    for (; made && n0 < n1; n0 += rows) make_panels(j, n0, n1 - n0 < rows ? n1 - n0 : rows, &s);
    free(work);
    free(s.q);
    free(s.index);
}

static float ratio(const double *apart, const double *should, size_t n)
{
    double a = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        a += apart[i];
        s += should[i];
    }
    return s > 0 ? (float)sqrt(a / s) : 0;
}

bt_err bt_rounding_sizes(bt_rounding *ret, const bt_rounding_in *in, size_t n, size_t k, bt_fault *fault)
{
    const size_t panels = bt_int_panels(n);
    bt_rounding w = {.n = n, .k = k, .scales = in->per_tensor ? 1 : n, .colsums = in->group ? 2 : 1};
    if (!bt_mul_size(&w.panels_bytes, panels,
                     bt_int_panel_bytes(k, in->palette_bits ? in->palette_bits : in->bits)))
        return bt_fail(fault, BT_ELIMIT, "a matrix of %zu x %zu does not fit memory", n, k);
    if (in->group) w.groups_bytes = panels * (k / in->group) * sizeof *w.groups;
    if (in->palette_bits) w.palettes_bytes = (panels * (k / in->palette_run)) << in->palette_bits;
    *ret = w;
    return BT_OK;
}

static bt_err allocate(bt_rounding *w, job *j, bt_fault *fault)
{
    const size_t panels = bt_int_panels(w->n);
    size_t bytes;
    if (!bt_add_size(&bytes, w->panels_bytes, ALIGN - 1))
        return bt_fail(fault, BT_ELIMIT, "a matrix of %zu x %zu does not fit memory", w->n, w->k);
    w->panels = aligned_alloc(ALIGN, bytes / ALIGN * ALIGN);
    w->scale = calloc(w->scales, sizeof *w->scale);
    if (j->in->group) w->groups = calloc(1, w->groups_bytes);
    if (j->in->palette_bits) w->palettes = calloc(1, w->palettes_bytes);
    w->colsum = calloc(w->colsums * panels * PANEL, sizeof *w->colsum);
    w->correction = calloc(w->n, sizeof *w->correction);
    j->max = calloc(w->n, sizeof *j->max);
    bool made = w->panels && (w->groups || !j->in->group) && (w->palettes || !j->in->palette_bits) &&
                w->scale && w->colsum && w->correction && j->max;
    for (int i = 0; i < 2; i++) {
        j->weight[i] = calloc(w->n, sizeof *j->weight[i]);
        j->output[i] = calloc(w->n, sizeof *j->output[i]);
        made = made && j->weight[i] && j->output[i];
    }
    if (!made) return bt_fail(fault, BT_ENOMEM, "out of memory packing %zu x %zu weights", w->n, w->k);
    memset(w->panels, 0, w->panels_bytes);
    return BT_OK;
}

bt_err bt_rounding_make(bt_rounding *ret, const bt_rounding_in *in, bt_fault *fault)
{
    bt_rounding w = {0};
    job j = {.in = in, .out = &w, .limit = in->bits == 4 ? 7 : 127};
    bt_err e = in->expert ? BT_OK : bt_fold_begin(in->fold, in->layer, in->weight, fault);
    if (e < 0) return e;
    const size_t rows = bt_fold_rows(in->fold) / (in->experts ? in->experts : 1);
    j.first = in->expert * rows;
    e = bt_rounding_sizes(&w, in, rows, bt_fold_width(in->fold), fault);
    if (e < 0 || (e = allocate(&w, &j, fault)) < 0) goto out;
    if (in->per_tensor) {
        bt_pool_run(in->pool, max_part, &j);
        for (size_t n = 1; n < w.n; n++) j.max[0] = j.max[n] > j.max[0] ? j.max[n] : j.max[0];
        w.scale[0] = j.max[0] / j.limit > 0 ? j.max[0] / j.limit : 1;
    }
    bt_pool_run(in->pool, make_part, &j);
    if (atomic_load(&j.failed))
        e = bt_fail(fault, BT_ENOMEM, "out of memory packing %zu x %zu weights", w.n, w.k);
    else if (atomic_load(&j.is_bad))
        e = bt_fail(fault, BT_EFORMAT, "layer %u: a weight of %s is not finite", in->layer,
                    bt_weight_name(in->weight));
    if (e < 0) goto out;
    w.weight_error = ratio(j.weight[0], j.weight[1], w.n);
    w.output_error = in->samples ? ratio(j.output[0], j.output[1], w.n) : NAN;
    *ret = w;
    w = (bt_rounding){0};
out:
    free(j.max);
    for (int i = 0; i < 2; i++) {
        free(j.weight[i]);
        free(j.output[i]);
    }
    bt_rounding_done(&w);
    return e;
}

void bt_rounding_done(bt_rounding *w)
{
    free(w->panels);
    free(w->scale);
    free(w->groups);
    free(w->palettes);
    free(w->colsum);
    free(w->correction);
}
