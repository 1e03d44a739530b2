/* The searches of AWQ, row by row of a matrix. Each row's errors are kept apart, so that their sum has one
 * order.
 */
#include "npu/quant/awq.h"
#include "base/num.h"
#include "npu/quant/grid.h"
#include "npu/quant/rounding_code.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, TILE = BT_ROUNDING_TILE, RATIOS = BT_AWQ_RATIOS, CLIPS = BT_AWQ_CLIPS };

typedef struct job {
    const bt_awq_matrix *m;
    const bt_awq_input *in;
    size_t n, k, run; /* inputs that share a step */
    bt_gptq_grid grid;
    const float *scale; /* [RATIOS][k] */
    double *error;      /* [n][RATIOS] */
    uint8_t *clip;      /* [n][k / run] */
    atomic_bool failed, is_bad;
} job;

/* ---- inputs ---- */

static size_t blocks_of(const bt_awq_input *in) { return (in->tokens + LANES - 1) / LANES; }

bt_err bt_awq_input_new(bt_awq_input *ret, size_t k, bt_fault *fault)
{
    bt_awq_input in = {.k = k};
    in.magnitude = calloc(k, sizeof *in.magnitude);
    in.x = calloc(k * BT_AWQ_TOKENS, sizeof *in.x);
    if (!in.magnitude || !in.x) {
        bt_awq_input_done(&in);
        return bt_fail(fault, BT_ENOMEM, "out of memory for AWQ over %zu inputs", k);
    }
    *ret = in;
    return BT_OK;
}

void bt_awq_input_done(bt_awq_input *in)
{
    free(in->magnitude);
    free(in->x);
    *in = (bt_awq_input){0};
}

void bt_awq_input_add(bt_awq_input *in, const float *x, size_t t, size_t at, size_t total)
{
    for (size_t row = 1; row < t; row++) {
        const float *v = x + row * in->k;
        for (size_t i = 0; i < in->k; i++) in->magnitude[i] += (double)fabsf(v[i]);
        in->rows++;
        if (in->tokens == BT_AWQ_TOKENS || at + row < (2 * in->tokens + 1) * total / (2 * BT_AWQ_TOKENS))
            continue;
        float *to = in->x + in->tokens / LANES * in->k * LANES + in->tokens % LANES;
        for (size_t i = 0; i < in->k; i++) to[i * LANES] = v[i];
        in->tokens++;
    }
}

void bt_awq_input_scale(bt_awq_input *in, const float *s)
{
    for (size_t b = 0; b < blocks_of(in); b++)
        for (size_t i = 0; i < in->k; i++)
            for (size_t t = 0; t < LANES; t++) in->x[(b * in->k + i) * LANES + t] /= s[i];
}

/* ---- scales ---- */

/* The 20th root, by Newton's method from above. */
static double root20(double x)
{
    int exponent;
    if (!(x > 0)) return 0;
    (void)frexp(x, &exponent);
    double y = ldexp(1, (exponent + (exponent > 0 ? RATIOS - 1 : 0)) / RATIOS);
    for (double next;; y = next) { /* NOLINT(cert-flp30-c): it ends by its own rule */
        const double y2 = y * y, y4 = y2 * y2, y16 = y4 * y4 * (y4 * y4);
        next = (19 * y + x / (y16 * y2 * y)) / 20;
        if (!(next < y)) return y;
    }
}

void bt_awq_scales(float *s, const bt_awq_input *in, unsigned ratio)
{
    double most = 0, least = INFINITY;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < in->k; i++) {
            const double root = root20(in->magnitude[i] / (double)(in->rows ? in->rows : 1));
            double v = 1;
            for (unsigned r = 0; r < ratio; r++) v *= root;
            v = v > 1e-4 ? v : 1e-4;
            most = v > most ? v : most;
            least = v < least ? v : least;
            if (pass) s[i] = (float)(v / sqrt(most * least));
        }
}

unsigned bt_awq_best(const double error[BT_AWQ_RATIOS])
{
    unsigned best = 0;
    for (unsigned r = 1; r < RATIOS; r++)
        if (error[r] < error[best]) best = r;
    return best;
}

/* ---- a matrix ---- */

/* d[k] = the row v[k] rounded, minus v[k]. max: the row's greatest magnitude. */
static void round_off(const job *j, float *d, const float *v, float max)
{
    const bt_gptq_grid *g = &j->grid;
    const float unit = max > 0 ? max / (j->m->group ? BT_GRID_UNITS : g->most) : 1;
    for (size_t i = 0; i < j->k; i += j->run) {
        float scale = unit, offset = 0;
        if (j->m->group) {
            const bt_grid_group of = bt_grid_clipped(v + i, unit, 0, g, j->run);
            scale = (float)of.step * unit;
            offset = (float)of.offset * unit;
        }
        bt_rounding_loops()->off(d + i, v + i, scale, offset, g->least, g->most, j->run);
    }
}

/* Adds row n's squared errors at each ratio. work: [2, k], the row and its scaled copy; off: [RATIOS, k],
 * errors of weights. */
static void error_row(job *j, size_t n, float *work, float *off)
{
    const size_t k = j->k;
    const bt_rounding_code *code = bt_rounding_loops();
    bt_fold_row(j->m->fold, work, n);
    if (!isfinite(code->max(work, k))) {
        atomic_store(&j->is_bad, true);
        return;
    }
    float *scaled = work + k;
    for (size_t r = 0; r < RATIOS; r++) {
        const float *s = j->scale + r * k;
        float *d = off + r * k;
        for (size_t i = 0; i < k; i++) scaled[i] = work[i] * s[i];
        round_off(j, d, scaled, code->max(scaled, k));
        for (size_t i = 0; i < k; i++) d[i] /= s[i];
    }
    for (size_t r = 0; r < RATIOS; r += TILE)
        code->squares(j->error + n * RATIOS + r, off + r * k, k, j->in->x, k * LANES, blocks_of(j->in), k);
}

/* Chooses the clips of row n. w: [k]; off: [TILE, run], errors of weights. */
static void clip_row(job *j, size_t n, float *w, float *off)
{
    const size_t k = j->k, run = j->run;
    const bt_rounding_code *code = bt_rounding_loops();
    const bt_gptq_grid *g = &j->grid;
    bt_fold_row(j->m->fold, w, n);
    const float max = code->max(w, k), unit = max > 0 ? max / (j->m->group ? BT_GRID_UNITS : g->most) : 1;
    if (!isfinite(max)) {
        atomic_store(&j->is_bad, true);
        return;
    }
    for (size_t i = 0; i < k; i += run) {
        double error[CLIPS + TILE] = {0};
        for (size_t c = 0; c < CLIPS; c += TILE) {
            for (size_t t = 0; t < TILE; t++) {
                const unsigned clip = (unsigned)(c + t);
                float scale = unit * bt_grid_keep(clip), offset = 0;
                if (j->m->group) {
                    const bt_grid_group of = bt_grid_clipped(w + i, unit, clip, g, run);
                    scale = (float)of.step * unit;
                    offset = (float)of.offset * unit;
                }
                code->off(off + t * run, w + i, scale, offset, g->least, g->most, run);
            }
            code->squares(error + c, off, run, j->in->x + i * LANES, k * LANES, blocks_of(j->in), run);
        }
        unsigned best = 0;
        for (unsigned c = 1; c < CLIPS; c++)
            if (error[c] < error[best]) best = c;
        j->clip[n * (k / run) + i / run] = (uint8_t)best;
    }
}

static void part(void *ud, size_t part, size_t parts)
{
    job *j = ud;
    size_t n0, n1;
    bt_pool_slice(&n0, &n1, j->n, 1, part, parts);
    float *work = malloc((RATIOS + 2) * j->k * sizeof *work);
    if (!work) atomic_store(&j->failed, true);
    for (; work && n0 < n1; n0++) {
        if (j->clip) clip_row(j, n0, work, work + 2 * j->k);
        else error_row(j, n0, work, work + 2 * j->k);
    }
    free(work);
}

static bt_err run(job *j, const bt_awq_matrix *m, const bt_awq_input *in, bt_fault *fault)
{
    j->m = m;
    j->in = in;
    j->k = in->k;
    j->run = m->group ? m->group : in->k;
    j->grid.most = m->bits == 4 ? 7 : 127;
    j->grid.least = m->bits == 4 && m->group ? -8 : -j->grid.most;
    bt_pool_run(m->pool, part, j);
    if (atomic_load(&j->failed))
        return bt_fail(fault, BT_ENOMEM, "out of memory for AWQ over %zu inputs", in->k);
    if (atomic_load(&j->is_bad))
        return bt_fail(fault, BT_EFORMAT, "layer %u: a weight of %s is not finite", m->layer,
                       bt_weight_name(m->weight));
    return BT_OK;
}

bt_err bt_awq_errors(double error[BT_AWQ_RATIOS], const bt_awq_matrix *m, const bt_awq_input *in,
                     bt_fault *fault)
{
    bt_err e = bt_fold_begin(m->fold, m->layer, m->weight, fault);
    if (e < 0) return e;
    job j = {.n = bt_fold_rows(m->fold)};
    float *scale = malloc(RATIOS * in->k * sizeof *scale);
    j.error = calloc(j.n * RATIOS, sizeof *j.error);
    j.scale = scale;
    if (!scale || !j.error) e = bt_fail(fault, BT_ENOMEM, "out of memory for AWQ over %zu inputs", in->k);
    for (unsigned r = 0; e == BT_OK && r < RATIOS; r++) bt_awq_scales(scale + r * in->k, in, r);
    if (e == BT_OK) e = run(&j, m, in, fault);
    for (size_t n = 0; e == BT_OK && n < j.n; n++)
        for (size_t r = 0; r < RATIOS; r++) error[r] += j.error[n * RATIOS + r];
    free(scale);
    free(j.error);
    return e;
}

bt_err bt_awq_clips(uint8_t *clip, const bt_awq_matrix *m, const bt_awq_input *in, bt_fault *fault)
{
    const bt_err e = bt_fold_begin(m->fold, m->layer, m->weight, fault);
    if (e < 0) return e;
    job j = {.n = bt_fold_rows(m->fold), .clip = clip};
    return run(&j, m, in, fault);
}
