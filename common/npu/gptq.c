/* GPTQ. inverse(H) = U^T U with U upper is the inverse of the factor of H = V V^T, V upper; and that one is a plain Cholesky factor L once rows and
 * columns are counted backwards. So: L, its inverse M (lower), U[i][j] = M[k-1-i][k-1-j]. In double. */
#include "npu/gptq.h"
#include "base/num.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 8, ROWS = 16, TOKENS = 4 };

typedef struct add_job {
    float *h;
    const float *x;
    size_t t, k;
} add_job;

static void add_part(void *ud, size_t part, size_t parts)
{
    const add_job *j = ud;
    for (size_t i = part; i < j->k; i += parts) { /* row i has i + 1 columns: taken in turn */
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

void bt_gptq_add(float *h, const float *x, size_t t, size_t k, bt_pool *pool)
{
    add_job j = {h, x, t, k};
    bt_pool_run(pool, add_part, &j);
}

typedef struct factor_job {
    double *l, *m;      /* [k, k] */
    size_t k, column;
} factor_job;

static double dot(const double *a, const double *b, size_t count)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += a[i + j] * b[i + j];
    for (size_t j = 0; i + j < count; j++) lane[j] += a[i + j] * b[i + j];
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* Column `column` of the Cholesky factor, below the diagonal. */
static void factor_part(void *ud, size_t part, size_t parts)
{
    const factor_job *j = ud;
    const size_t c = j->column, k = j->k;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, k - c - 1, 1, part, parts);
    for (size_t r = c + 1 + r0; r < c + 1 + r1; r++)
        j->l[r * k + c] = (j->l[r * k + c] - dot(j->l + r * k, j->l + c * k, c)) / j->l[c * k + c];
}

/* Columns of the inverse of a lower triangle; each is independent of the others. */
static void invert_part(void *ud, size_t part, size_t parts)
{
    const factor_job *j = ud;
    const size_t k = j->k;
    size_t c0, c1;
    bt_pool_slice(&c0, &c1, k, 1, part, parts);
    for (size_t r = 0; r < k; r++) {
        double *m = j->m + r * k;
        const double *l = j->l + r * k;
        for (size_t p = c0; p < r; p++)
            for (size_t c = c0; c < c1 && c <= p; c++) m[c] -= l[p] * j->m[p * k + c];
        for (size_t c = c0; c < c1 && c < r; c++) m[c] /= l[r];
        if (r >= c0 && r < c1) m[r] = 1 / l[r];
    }
}

bt_err bt_gptq_prepare(float *h, size_t k, bt_pool *pool, bt_fault *fault)
{
    bt_err e = BT_OK;
    double mean = 0;
    size_t bytes;
    factor_job j = {.k = k};
    if (bt_mul_size(&bytes, k, k) && bt_mul_size(&bytes, bytes, sizeof *j.l)) {
        j.l = malloc(bytes);
        j.m = calloc(k * k, sizeof *j.m);
    }
    if (!j.l || !j.m) {
        e = bt_fail(fault, BT_ENOMEM, "GPTQ over %zu inputs", k);
        goto out;
    }
    for (size_t i = 0; i < k; i++) mean += (double)h[i * k + i] / (double)k;
    for (size_t i = 0; i < k; i++)
        for (size_t c = 0; c <= i; c++) /* backwards: (i, c) from (k-1-i, k-1-c), which is in the upper triangle, so from its mirror */
            j.l[i * k + c] = h[(k - 1 - c) * k + k - 1 - i];
    for (size_t i = 0; i < k; i++) {
        const double d = j.l[i * k + i];
        j.l[i * k + i] = (d > 0 ? d : 1) + 0.01 * mean;
    }
    for (j.column = 0; j.column < k; j.column++) {
        double *row = j.l + j.column * k, d = row[j.column] - dot(row, row, j.column);
        row[j.column] = sqrt(d > 0 ? d : 1e-30);
        bt_pool_run(k - j.column > 64 ? pool : NULL, factor_part, &j);
    }
    bt_pool_run(pool, invert_part, &j);
    for (size_t i = 0; i < k; i++) {
        const double *m = j.m + (k - 1 - i) * k;
        const int is_dead = !(h[i * k + i] > 0);
        for (size_t c = i + 1; c < k; c++) h[i * k + c] = (float)(m[k - 1 - c] / m[k - 1 - i]);
        h[i * k + i] = is_dead ? 0 : 1;
    }
out:
    free(j.l);
    free(j.m);
    return e;
}

void bt_gptq_round(int8_t *q, float *w, const float *scale, size_t rows, size_t k, const float *u, float limit)
{
    float error[ROWS][BT_GPTQ_BLOCK];
    for (size_t i0 = 0; i0 < k; i0 += BT_GPTQ_BLOCK) {
        const size_t i1 = k - i0 < BT_GPTQ_BLOCK ? k : i0 + BT_GPTQ_BLOCK;
        for (size_t r = 0; r < rows; r++)
            for (size_t i = i0; i < i1; i++) {
                const float *ui = u + i * k;
                float *wr = w + r * k, v = ui[i] > 0 ? rintf(wr[i] / scale[r]) : 0;
                v = v > limit ? limit : v < -limit ? -limit : v;
                q[r * k + i] = (int8_t)v;
                const float err = ui[i] > 0 ? wr[i] - v * scale[r] : 0;
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
