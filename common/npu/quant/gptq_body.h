/* The loops of GPTQ. BT_GPTQ_CODE, defined by the includer, names the table that this file defines. */
#include "npu/quant/gptq_code.h"

#include <math.h>

enum { LANES = 16, ROWS = 16, TOKENS = 4, STRIP = 32 };

static void add_part(void *ud, size_t part, size_t parts)
{
    const bt_gptq_add_job *j = ud;
    for (size_t i = part; i < j->k; i += parts) { /* row i has i + 1 columns: in turn, so that parts are equal */
        float *h = j->h + i * j->k;
        size_t t = 0;
        for (; t + TOKENS <= j->t; t += TOKENS) {
            const float *x = j->x + t * j->k, *x1 = x + j->k, *x2 = x1 + j->k, *x3 = x2 + j->k;
            const float a = x[i], b = x1[i], c = x2[i], d = x3[i];
            for (size_t n = 0; n <= i; n++) h[n] += (a * x[n] + b * x1[n]) + (c * x2[n] + d * x3[n]);
        }
        for (; t < j->t; t++) {
            const float *x = j->x + t * j->k;
            for (size_t n = 0; n <= i; n++) h[n] += x[i] * x[n];
        }
    }
}

static double dot(const double *a, const double *b, size_t count)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += a[i + j] * b[i + j];
    for (size_t j = 0; i + j < count; j++) lane[j] += a[i + j] * b[i + j];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

/* A row needs the rows before it, and no other of the block. Each of those is read once for all rows of the part. */
static void factor_part(void *ud, size_t part, size_t parts)
{
    const bt_gptq_factor_job *j = ud;
    const size_t k = j->k;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->end - j->begin, 1, part, parts);
    for (size_t c = 0; c < j->begin; c++)
        for (size_t r = j->begin + r0; r < j->begin + r1; r++)
            j->l[r * k + c] = (j->l[r * k + c] - dot(j->l + r * k, j->l + c * k, c)) / j->l[c * k + c];
}

/* sum[c] -= the sum over p of l[p] m[p, c], in order of p, for the columns of a strip; m has k columns. */
static void take_rows(double sum[STRIP], const double *l, const double *m, size_t k, size_t rows, size_t columns)
{
    if (columns == STRIP)
        for (size_t p = 0; p < rows; p++)
            for (size_t c = 0; c < STRIP; c++) sum[c] -= l[p] * m[p * k + c];
    else
        for (size_t p = 0; p < rows; p++)
            for (size_t c = 0; c < columns; c++) sum[c] -= l[p] * m[p * k + c];
}

/* A part makes whole columns of m, the inverse of the lower triangle l: no column needs another. A strip of them stays
 * in the cache. Elements above the diagonal are 0. */
static void invert_part(void *ud, size_t part, size_t parts)
{
    const bt_gptq_factor_job *j = ud;
    const size_t k = j->k;
    size_t begin, end;
    bt_pool_slice(&begin, &end, k, 1, part, parts);
    for (size_t c0 = begin; c0 < end; c0 += STRIP) {
        const size_t columns = end - c0 < STRIP ? end - c0 : STRIP;
        for (size_t r = c0; r < k; r++) {
            double sum[STRIP] = {0}, *m = j->m + r * k + c0;
            const double *l = j->l + r * k;
            take_rows(sum, l + c0, j->m + c0 * k + c0, k, r - c0, columns);
            for (size_t c = 0; c < columns && c0 + c < r; c++) m[c] = sum[c] / l[r];
            if (r - c0 < columns) m[r - c0] = 1 / l[r];
        }
    }
}

static void round_rows(int8_t *q, float *w, const bt_gptq_grid *grid, size_t rows, size_t k, const uint32_t *order,
                       const float *u)
{
    float error[ROWS][BT_GPTQ_BLOCK];
    for (size_t i0 = 0; i0 < k; i0 += BT_GPTQ_BLOCK) {
        const size_t i1 = k - i0 < BT_GPTQ_BLOCK ? k : i0 + BT_GPTQ_BLOCK;
        for (size_t r = 0; r < rows; r++)
            for (size_t i = i0; i < i1; i++) {
                const size_t at = order ? order[i] : i;
                const size_t g = (r * k + at) / grid->group;
                const float *ui = u + i * k, s = grid->scale[g], o = grid->offset ? grid->offset[g] : 0;
                /* a dead input (ui[i] = 0): its weight becomes the value of the grid nearest to zero */
                float *wr = w + r * k, v = rintf(((ui[i] > 0 ? wr[i] : 0) - o) / s);
                v = v > grid->most ? grid->most : v < grid->least ? grid->least : v;
                q[r * k + at] = (int8_t)v;
                const float err = ui[i] > 0 ? wr[i] - (v * s + o) : 0;
                error[r][i - i0] = err;
                for (size_t c = i + 1; c < i1; c++) wr[c] -= err * ui[c];
            }
        for (size_t i = i0; i < i1; i++)
            for (size_t r = 0; r < rows; r++) {
                const float err = error[r][i - i0], *ui = u + i * k;
                float *wr = w + r * k;
                for (size_t c = i1; c < k; c++) wr[c] -= err * ui[c];
            }
    }
}

const bt_gptq_code BT_GPTQ_CODE = {add_part, factor_part, invert_part, dot, round_rows};
