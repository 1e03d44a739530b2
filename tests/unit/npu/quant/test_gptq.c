/* GPTQ's loops give the same bits for every instruction set, and those of plain loops at every edge of a
 * tile. */
#include "npu/quant/gptq_code.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const size_t sizes[] = {1, 15, 16, 33, 64, 65, 129, 200, 321};

/* Sixteen sums, element i in sum i % 16, then halves. */
static double plain_dot(const double *a, const double *b, size_t count)
{
    double lane[16] = {0};
    for (size_t i = 0; i < count; i++) lane[i % 16] += a[i] * b[i];
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

/* Four tokens at a time, then each of the others; what lies above the diagonal stays as it is. */
static void plain_add(const bt_gptq_add_job *j)
{
    for (size_t i = 0; i < j->k; i++)
        for (size_t n = 0; n <= i; n++) {
            float *h = j->h + i * j->k + n;
            size_t t = 0;
            for (; t + 4 <= j->t; t += 4) {
                float of[4];
                for (size_t p = 0; p < 4; p++) of[p] = j->x[(t + p) * j->k + i] * j->x[(t + p) * j->k + n];
                *h += (of[0] + of[1]) + (of[2] + of[3]);
            }
            for (; t < j->t; t++) *h += j->x[t * j->k + i] * j->x[t * j->k + n];
        }
}

static void plain_factor(const bt_gptq_factor_job *j)
{
    for (size_t c = 0; c < j->begin; c++)
        for (size_t r = j->begin; r < j->end; r++)
            j->l[r * j->k + c] =
                (j->l[r * j->k + c] - plain_dot(j->l + r * j->k, j->l + c * j->k, c)) / j->l[c * j->k + c];
}

static double *at(const bt_gptq_factor_job *j, size_t r, size_t c)
{
    return j->m + c / BT_GPTQ_STRIP * BT_GPTQ_STRIP * j->k + r * BT_GPTQ_STRIP + c % BT_GPTQ_STRIP;
}

static void plain_invert(const bt_gptq_factor_job *j)
{
    for (size_t c = 0; c < j->k; c++)
        for (size_t r = c; r < j->k; r++) {
            double sum = 0;
            for (size_t p = c; p < r; p++) sum -= j->l[r * j->k + p] * *at(j, p, c);
            *at(j, r, c) = (r == c ? 1 : sum) / j->l[r * j->k + r];
        }
}

static void plain_round(int8_t *q, float *w, const bt_gptq_grid *grid, size_t rows, size_t k, const float *u)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < k; i++) {
            const float s = grid->scale[(r * k + i) / grid->group], v = rintf(w[r * k + i] / s);
            q[r * k + i] = (int8_t)fminf(fmaxf(v, grid->least), grid->most);
            const float error = w[r * k + i] - (float)q[r * k + i] * s;
            for (size_t c = i + 1; c < k; c++) w[r * k + c] -= error * u[i * k + c];
        }
}

/* The outcome of one set of loops; code NULL: the plain ones. */
typedef struct outcome {
    float *h, *w;
    double *l, *m;
    int8_t *q;
} outcome;
enum { T = 2 * 64 + 7, ROWS = BT_GPTQ_MANY - 3 };

static size_t strips(size_t k) { return (k + BT_GPTQ_STRIP - 1) / BT_GPTQ_STRIP * BT_GPTQ_STRIP; }

static outcome run(const bt_gptq_code *code, size_t k, size_t group)
{
    outcome o = {.h = calloc(k * k, sizeof *o.h), .w = malloc(ROWS * k * sizeof *o.w), .q = malloc(ROWS * k),
                 .l = malloc(k * k * sizeof *o.l), .m = calloc(strips(k) * k, sizeof *o.m)};
    float *x = malloc(T * k * sizeof *x), *u = malloc(k * k * sizeof *u),
          *scale = malloc(ROWS * k * sizeof *scale);
    assert_true(o.h && o.w && o.q && o.l && o.m && x && u && scale);
    for (size_t i = 0; i < T * k; i++) x[i] = (float)(bt_rng_uniform(1, i) - 0.5);
    for (size_t i = 0; i < k * k; i++) u[i] = i % (k + 1) ? (float)(bt_rng_uniform(2, i) - 0.5) / 8 : 1;
    for (size_t i = 0; i < k * k; i++) o.l[i] = bt_rng_uniform(3, i) / 4 + (i % (k + 1) == 0);
    for (size_t i = 0; i < ROWS * k; i++) o.w[i] = (float)(bt_rng_uniform(4, i) - 0.5);
    for (size_t i = 0; i < ROWS * k; i++) scale[i] = 0.01f + 0.001f * (float)(i % 7);
    const size_t begin = (k - 1) / BT_GPTQ_ROWS * BT_GPTQ_ROWS;
    bt_gptq_add_job add = {o.h, x, T, k};
    bt_gptq_factor_job job = {o.l, o.m, k, begin, k};
    const bt_gptq_grid grid = {scale, NULL, group, -127, 127};
    if (code) {
        for (size_t part = 0; part < 3; part++) code->add(&add, part, 3);
        for (size_t part = 0; part < 3; part++) code->factor(&job, part, 3);
        for (size_t part = 0; part < 3; part++) code->invert(&job, part, 3);
        code->round(o.q, o.w, &grid, ROWS, k, NULL, u);
    } else {
        plain_add(&add);
        plain_factor(&job);
        plain_invert(&job);
        plain_round(o.q, o.w, &grid, ROWS, k, u);
    }
    free(x);
    free(u);
    free(scale);
    return o;
}

static void done(outcome o)
{
    free(o.h);
    free(o.w);
    free(o.l);
    free(o.m);
    free(o.q);
}

static void same(const outcome *a, const outcome *b, size_t k)
{
    assert_memory_equal(a->h, b->h, k * k * sizeof *a->h);
    assert_memory_equal(a->l, b->l, k * k * sizeof *a->l);
    assert_memory_equal(a->m, b->m, strips(k) * k * sizeof *a->m);
    assert_memory_equal(a->q, b->q, ROWS * k);
    assert_memory_equal(a->w, b->w, ROWS * k * sizeof *a->w);
}

static void tiles_give_the_bits_of_plain_loops(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t k = sizes[s], group = k % 3 == 0 ? k / 3 : k;
        outcome tiled = run(&bt_gptq_ref, k, group), plain = run(NULL, k, group);
        same(&tiled, &plain, k);
        done(tiled);
        done(plain);
    }
}

static void variants_give_the_same_bits(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        puts("skipped: gptq avx2: not of this machine");
        skip();
    }
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t k = sizes[s];
        outcome ref = run(&bt_gptq_ref, k, k), avx2 = run(&bt_gptq_avx2, k, k);
        same(&ref, &avx2, k);
        done(ref);
        done(avx2);
    }
#else
    puts("skipped: gptq avx2: not of this machine");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_give_the_bits_of_plain_loops),
                                       cmocka_unit_test(variants_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
