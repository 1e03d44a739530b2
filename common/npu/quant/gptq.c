/* GPTQ's matrix U, in double. U is upper triangular with inverse(H) = U^T U, so U is the inverse of V, V
 * upper triangular with H = V V^T. With rows and columns counted backwards V is a plain Cholesky factor L.
 * Hence: make L, then its inverse M (lower triangular), then U[i][j] = M[k-1-i][k-1-j]. */
#include "npu/quant/gptq.h"
#include "base/num.h"
#include "npu/quant/gptq_code.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const bt_gptq_code *code(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &bt_gptq_avx2;
#endif
    return &bt_gptq_ref;
}

void bt_gptq_add(float *h, const float *x, size_t t, size_t k, bt_pool *pool)
{
    bt_gptq_add_job j = {h, x, t, k};
    bt_pool_run(pool, code()->add, &j);
}

typedef struct input {
    float square;
    uint32_t at;
} input;

static int later(const void *a, const void *b)
{
    const input *x = a, *y = b;
    if (x->square != y->square) return x->square < y->square ? 1 : -1;
    return x->at < y->at ? -1 : 1;
}

/* Fills order, and brings the lower triangle of h into it. */
static bt_err sort(float *h, uint32_t *order, size_t k, bt_fault *fault)
{
    input *in = malloc(k * sizeof *in);
    float *sorted = malloc(k * k * sizeof *sorted);
    const bool made = in && sorted;
    for (size_t i = 0; made && i < k; i++) in[i] = (input){h[i * k + i], (uint32_t)i};
    if (made) qsort(in, k, sizeof *in, later);
    for (size_t i = 0; made && i < k; i++) {
        order[i] = in[i].at;
        for (size_t n = 0; n <= i; n++) {
            const size_t a = order[i], b = order[n];
            sorted[i * k + n] = a > b ? h[a * k + b] : h[b * k + a];
        }
    }
    for (size_t i = 0; made && i < k; i++) memcpy(h + i * k, sorted + i * k, (i + 1) * sizeof *h);
    free(in);
    free(sorted);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for GPTQ over %zu inputs", k);
}

/* The block's own columns, of which each needs those before it. */
static void factor_end(const bt_gptq_factor_job *j, const bt_gptq_code *c)
{
    const size_t k = j->k;
    for (size_t i = j->begin; i < j->end; i++) {
        double *row = j->l + i * k;
        for (size_t n = j->begin; n < i; n++)
            row[n] = (row[n] - c->dot(row, j->l + n * k, n)) / j->l[n * k + n];
        const double d = row[i] - c->dot(row, row, i);
        row[i] = sqrt(d > 0 ? d : 1e-30);
    }
}

static const double *inverse_at(const bt_gptq_factor_job *j, size_t row, size_t column)
{
    return j->m + column / BT_GPTQ_STRIP * BT_GPTQ_STRIP * j->k + row * BT_GPTQ_STRIP +
           column % BT_GPTQ_STRIP;
}

bt_err bt_gptq_prepare(float *h, uint32_t *order, size_t k, bt_pool *pool, bt_fault *fault)
{
    const bt_gptq_code *c = code();
    bt_err e = order ? sort(h, order, k, fault) : BT_OK;
    double mean = 0;
    size_t bytes;
    bt_gptq_factor_job j = {.k = k};
    if (e < 0) return e;
    if (bt_mul_size(&bytes, k + BT_GPTQ_STRIP, k) && bt_mul_size(&bytes, bytes, sizeof *j.l)) {
        j.l = malloc(k * k * sizeof *j.l);
        j.m = calloc((k + BT_GPTQ_STRIP - 1) / BT_GPTQ_STRIP * BT_GPTQ_STRIP * k, sizeof *j.m);
    }
    if (!j.l || !j.m) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for GPTQ over %zu inputs", k);
        goto out;
    }
    for (size_t i = 0; i < k; i++) mean += (double)h[i * k + i] / (double)k;
    for (size_t i = 0; i < k; i++)
        for (size_t n = 0; n <= i; n++) /* backwards: (k-1-i, k-1-n) lies in the upper triangle,
                                           so its mirror is read */
            j.l[i * k + n] = h[(k - 1 - n) * k + k - 1 - i];
    for (size_t i = 0; i < k; i++) {
        const double d = j.l[i * k + i];
        j.l[i * k + i] = (d > 0 ? d : 1) + 0.01 * mean;
    }
    for (j.begin = 0; j.begin < k; j.begin = j.end) {
        j.end = k - j.begin < BT_GPTQ_ROWS ? k : j.begin + BT_GPTQ_ROWS;
        bt_pool_run(pool, c->factor, &j);
        factor_end(&j, c);
    }
    bt_pool_run(pool, c->invert, &j);
    for (size_t i = 0; i < k; i++) {
        const size_t row = k - 1 - i;
        const double d = *inverse_at(&j, row, row);
        const int is_dead = !(h[i * k + i] > 0);
        for (size_t n = i + 1; n < k; n++) h[i * k + n] = (float)(*inverse_at(&j, row, k - 1 - n) / d);
        h[i * k + i] = is_dead ? 0 : 1;
    }
out:
    free(j.l);
    free(j.m);
    return e;
}

void bt_gptq_round(int8_t *q, float *w, const bt_gptq_grid *grid, size_t rows, size_t k,
                   const uint32_t *order, const float *u)
{
    code()->round(q, w, grid, rows, k, order, u);
}
