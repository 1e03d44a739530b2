/* Rounding and packing, panel by panel: each thread reads rows, rounds them, packs them and measures what
 * that cost. */
#include "npu/compile/rounding.h"
#include "base/num.h"
#include "kernels/int_kernels.h"
#include "kernels/kernels.h"
#include "npu/compile/gptq.h"
#include "npu/compile/rounding_code.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 16, ALIGN = 64 };

typedef struct job {
    const bt_rounding_in *in;
    bt_rounding *out;
    float limit;
    atomic_bool failed, is_bad;
    float *max;                    /* [n]: greatest magnitude of a row */
    double *weight[2], *output[2]; /* [n]: squares of the error and of what should be */
} job;

static const bt_rounding_code *code(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &bt_rounding_avx2;
#endif
    return &bt_rounding_ref;
}

static void measure_row(const job *j, size_t n, const float *w, const float *wq)
{
    const size_t k = j->out->k;
    for (size_t s = 0; s < j->in->samples; s++) {
        double y;
        const double d = code()->apart(w, wq, j->in->x + s * k, j->in->xq + s * k, k, &y);
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
        bt_fold_row(j->in->fold, row, n);
        j->max[n] = code()->max(row, j->out->k);
    }
    free(row);
}

/* One panel: rows [n0, n0 + count). work: 2 * PANEL * k floats. */
static void make_panel(job *j, size_t n0, size_t count, float *work, int8_t *q)
{
    bt_rounding *o = j->out;
    const size_t k = o->k;
    float *rows = work, *rounded = work + PANEL * k, scale[PANEL];
    for (size_t r = 0; r < count; r++) {
        const size_t n = n0 + r;
        bt_fold_row(j->in->fold, rows + r * k, n);
        const float max = j->in->per_tensor ? j->max[0] : code()->max(rows + r * k, k);
        if (!isfinite(max)) {
            atomic_store(&j->is_bad, true);
            return;
        }
        scale[r] = max / j->limit > 0 ? max / j->limit : 1;
        if (!j->in->per_tensor) o->scale[n] = scale[r];
    }
    if (j->in->gptq) {
        memcpy(rounded, rows, count * k * sizeof *rows);
        bt_gptq_round(q, rounded, scale, count, k, j->in->gptq, j->limit);
    } else {
        for (size_t r = 0; r < count; r++) code()->round(q + r * k, rows + r * k, scale[r], k, j->limit);
    }
    bt_int_pack(o->panels, q, n0, count, k, j->in->bits);
    for (size_t r = 0; r < count; r++) {
        const size_t n = n0 + r;
        const bt_rounding_row made =
            code()->compare(rounded, q + r * k, rows + r * k, j->in->mean, scale[r], k);
        o->colsum[n] = made.sum;
        o->correction[n] = (float)-made.drift;
        j->weight[0][n] = made.apart;
        j->weight[1][n] = made.square;
        measure_row(j, n, rows + r * k, rounded);
    }
}

static void make_part(void *ud, size_t part, size_t parts)
{
    job *j = ud;
    const size_t k = j->out->k, n = j->out->n;
    size_t n0, n1;
    bt_pool_slice(&n0, &n1, n, PANEL, part, parts);
    float *work = malloc(2 * PANEL * k * sizeof *work);
    int8_t *q = malloc(PANEL * k);
    if (!work || !q) atomic_store(&j->failed, true);
    for (; work && q && n0 < n1; n0 += PANEL) make_panel(j, n0, n - n0 < PANEL ? n - n0 : PANEL, work, q);
    free(work);
    free(q);
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

static bt_err allocate(bt_rounding *w, job *j, bt_fault *fault)
{
    const size_t panels = bt_int_panels(w->n);
    size_t bytes;
    w->scales = j->in->per_tensor ? 1 : w->n;
    if (!bt_mul_size(&w->panels_bytes, panels, bt_int_panel_bytes(w->k, j->in->bits)) ||
        !bt_add_size(&bytes, w->panels_bytes, ALIGN - 1))
        return bt_fail(fault, BT_ELIMIT, "a matrix of %zu x %zu does not fit memory", w->n, w->k);
    w->panels = aligned_alloc(ALIGN, bytes / ALIGN * ALIGN);
    w->scale = calloc(w->scales, sizeof *w->scale);
    w->colsum = calloc(panels * PANEL, sizeof *w->colsum);
    w->correction = calloc(w->n, sizeof *w->correction);
    j->max = calloc(w->n, sizeof *j->max);
    bool made = w->panels && w->scale && w->colsum && w->correction && j->max;
    for (int i = 0; i < 2; i++) {
        j->weight[i] = calloc(w->n, sizeof *j->weight[i]);
        j->output[i] = calloc(w->n, sizeof *j->output[i]);
        made = made && j->weight[i] && j->output[i];
    }
    if (!made) return bt_fail(fault, BT_ENOMEM, "packing %zu x %zu weights", w->n, w->k);
    memset(w->panels, 0, w->panels_bytes);
    return BT_OK;
}

bt_err bt_rounding_make(bt_rounding *ret, const bt_rounding_in *in, bt_fault *fault)
{
    bt_rounding w = {0};
    job j = {.in = in, .out = &w, .limit = in->bits == 4 ? 7 : 127};
    bt_err e = bt_fold_begin(in->fold, in->layer, in->weight, fault);
    if (e < 0) return e;
    w.n = bt_fold_rows(in->fold);
    w.k = bt_fold_width(in->fold);
    if ((e = allocate(&w, &j, fault)) < 0) goto out;
    if (in->per_tensor) {
        bt_pool_run(in->pool, max_part, &j);
        for (size_t n = 1; n < w.n; n++) j.max[0] = j.max[n] > j.max[0] ? j.max[n] : j.max[0];
        w.scale[0] = j.max[0] / j.limit > 0 ? j.max[0] / j.limit : 1;
    }
    bt_pool_run(in->pool, make_part, &j);
    if (atomic_load(&j.failed)) e = bt_fail(fault, BT_ENOMEM, "packing %zu x %zu weights", w.n, w.k);
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
    free(w->colsum);
    free(w->correction);
}
