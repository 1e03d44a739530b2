/* The loops of GPTQ. BT_GPTQ_CODE, defined by the includer, names the table that this file defines. */
#include "npu/quant/gptq_code.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 16,
    TOKENS = 4,
    SQUARE = 64,  /* rows, columns and tokens of x^T x that are added together */
    WIDE = 4,     /* doubles of a vector */
    TILE = LANES, /* columns of the factor that are made together */
    DEPTH = 256,  /* elements of a row that stay in the cache while the tile reads them */
    STRIP = BT_GPTQ_STRIP,
    BAND = 64, /* rows of the inverse that are made together */
    SLAB = 64  /* columns that take the errors of a block while its part of U stays in the cache */
};

/* Vectors that the compiler splits where the machine has shorter ones: each element is a sum of its own. */
typedef double vec_d __attribute__((vector_size(WIDE * sizeof(double)), aligned(8), may_alias));
typedef float vec_f __attribute__((vector_size(2 * WIDE * sizeof(float)), aligned(4), may_alias));

/* h[n0 .. n1 - 1] of row i takes the products of t tokens: four at a time, then each of the others. */
static void add_row(const bt_gptq_add_job *j, size_t i, size_t n0, size_t n1)
{
    float *h = j->h + i * j->k;
    size_t t = 0;
    for (; t + TOKENS <= j->t; t += TOKENS) {
        const float *x = j->x + t * j->k, *x1 = x + j->k, *x2 = x1 + j->k, *x3 = x2 + j->k;
        const float a = x[i], b = x1[i], c = x2[i], d = x3[i];
        for (size_t n = n0; n < n1; n++) h[n] += (a * x[n] + b * x1[n]) + (c * x2[n] + d * x3[n]);
    }
    for (; t < j->t; t++) {
        const float *x = j->x + t * j->k;
        for (size_t n = n0; n < n1; n++) h[n] += x[i] * x[n];
    }
}

/* add_row of four rows and 2 vectors of columns; xi and xn hold `tokens` of them, a multiple of TOKENS. */
static void add_four(float *h, size_t k, float xi[][SQUARE], float xn[][SQUARE], size_t tokens)
{
    vec_f s[4][2];
    for (size_t r = 0; r < 4; r++)
        for (size_t v = 0; v < 2; v++) s[r][v] = ((const vec_f *)(h + r * k))[v];
    for (size_t t = 0; t < tokens; t += TOKENS)
        for (size_t v = 0; v < 2; v++) {
            const vec_f a = ((const vec_f *)xn[t])[v], b = ((const vec_f *)xn[t + 1])[v];
            const vec_f c = ((const vec_f *)xn[t + 2])[v], d = ((const vec_f *)xn[t + 3])[v];
            for (size_t r = 0; r < 4; r++)
                s[r][v] += (xi[t][r] * a + xi[t + 1][r] * b) + (xi[t + 2][r] * c + xi[t + 3][r] * d);
        }
    for (size_t r = 0; r < 4; r++)
        for (size_t v = 0; v < 2; v++) ((vec_f *)(h + r * k))[v] = s[r][v];
}

static void take_columns(float to[][SQUARE], const float *x, size_t k, size_t tokens)
{
    for (size_t t = 0; t < tokens; t++) memcpy(to[t], x + t * k, sizeof to[t]);
}

/* The rows i0 .. i0 + SQUARE - 1 of h and the columns before them, in squares that take SQUARE tokens at a time: a
 * square of h is then read and written once for so many. */
static void add_band(const bt_gptq_add_job *j, size_t i0)
{
    enum { SPAN = 2 * sizeof(vec_f) / sizeof(float) };
    const size_t k = j->k, whole = j->t - j->t % TOKENS;
    float xi[SQUARE][SQUARE], xn[SQUARE][SQUARE];
    for (size_t t = 0; t < whole; t += SQUARE) {
        const size_t tokens = whole - t < SQUARE ? whole - t : SQUARE;
        take_columns(xi, j->x + t * k + i0, k, tokens);
        for (size_t n0 = 0; n0 < i0; n0 += SQUARE) {
            take_columns(xn, j->x + t * k + n0, k, tokens);
            for (size_t i = 0; i < SQUARE; i += 4)
                for (size_t n = 0; n < SQUARE; n += SPAN)
                    add_four(j->h + (i0 + i) * k + n0 + n, k, (float(*)[SQUARE])(xi[0] + i),
                             (float(*)[SQUARE])(xn[0] + n), tokens);
        }
    }
    for (size_t t = whole; t < j->t; t++)
        for (size_t i = i0; i < i0 + SQUARE; i++)
            for (size_t n = 0; n < i0; n++) j->h[i * k + n] += j->x[t * k + i] * j->x[t * k + n];
    for (size_t i = i0; i < i0 + SQUARE; i++) add_row(j, i, i0, i + 1);
}

static void add_part(void *ud, size_t part, size_t parts)
{
    const bt_gptq_add_job *j = ud;
    const size_t bands = j->k / SQUARE; /* in turn, the longest first, so that parts are equal */
    for (size_t b = part; b < bands; b += parts) add_band(j, (bands - 1 - b) * SQUARE);
    for (size_t i = bands * SQUARE + part; i < j->k; i += parts) add_row(j, i, 0, i + 1);
}

/* lane[r][0][0 .. LANES - 1] += a[r][i] * b[i] for three rows a (k apart), where lane i % LANES takes element i. */
static void dot_three(double lane[][TILE][LANES], const double *a, const double *b, size_t k, size_t count)
{
    enum { PARTS = LANES / WIDE };
    vec_d s[3][PARTS];
    for (size_t p = 0; p < PARTS; p++)
        for (size_t r = 0; r < 3; r++) s[r][p] = *(const vec_d *)(lane[r][0] + p * WIDE);
    for (size_t i = 0; i < count; i += LANES)
        for (size_t p = 0; p < PARTS; p++) {
            const vec_d y = *(const vec_d *)(b + i + p * WIDE);
            s[0][p] += *(const vec_d *)(a + i + p * WIDE) * y;
            s[1][p] += *(const vec_d *)(a + k + i + p * WIDE) * y;
            s[2][p] += *(const vec_d *)(a + 2 * k + i + p * WIDE) * y;
        }
    for (size_t p = 0; p < PARTS; p++)
        for (size_t r = 0; r < 3; r++) *(vec_d *)(lane[r][0] + p * WIDE) = s[r][p];
}

static void dot_one(double lane[LANES], const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += a[i + j] * b[i + j];
}

static double sum_of(double lane[LANES])
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

static double dot(const double *a, const double *b, size_t count)
{
    double lane[LANES] = {0};
    const size_t whole = count - count % LANES;
    dot_one(lane, a, b, whole);
    for (size_t j = 0; whole + j < count; j++) lane[j] += a[whole + j] * b[whole + j];
    return sum_of(lane);
}

/* Columns c0 .. c0 + TILE - 1 of `rows` rows from r0 on: the products with all columns before c0, then those inside the
 * tile, so that each element is one dot product in the lanes of dot(). */
static void factor_tile(double *l, size_t k, size_t r0, size_t rows, size_t c0)
{
    double lane[BT_GPTQ_ROWS][TILE][LANES], y[TILE][DEPTH];
    memset(lane, 0, sizeof lane);
    for (size_t i = 0; i < c0; i += DEPTH) {
        const size_t count = c0 - i < DEPTH ? c0 - i : DEPTH;
        size_t r = 0;
        for (size_t c = 0; c < TILE; c++) memcpy(y[c], l + (c0 + c) * k + i, count * sizeof **y);
        for (; r + 3 <= rows; r += 3)
            for (size_t c = 0; c < TILE; c++)
                dot_three((double(*)[TILE][LANES])lane[r][c], l + (r0 + r) * k + i, y[c], k, count);
        for (; r < rows; r++)
            for (size_t c = 0; c < TILE; c++) dot_one(lane[r][c], l + (r0 + r) * k + i, y[c], count);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < TILE; c++) {
            double *x = l + (r0 + r) * k + c0;
            const double *row = l + (c0 + c) * k + c0;
            for (size_t j = 0; j < c; j++) lane[r][c][j] += x[j] * row[j];
            x[c] = (x[c] - sum_of(lane[r][c])) / row[c];
        }
}

/* A row needs the rows before it, and no other of the block. */
static void factor_part(void *ud, size_t part, size_t parts)
{
    const bt_gptq_factor_job *j = ud;
    size_t r0, r1;
    bt_pool_slice(&r0, &r1, j->end - j->begin, 1, part, parts);
    for (size_t c = 0; c < j->begin && r0 < r1; c += TILE) factor_tile(j->l, j->k, j->begin + r0, r1 - r0, c);
}

/* sum[r][c] -= the sum over p of l[r, p] m[p, c], in order of p, for two rows and WIDE * 4 columns. */
static void take_two(double sum[][STRIP], const double *l, const double *m, size_t k, size_t count)
{
    enum { PARTS = 4 };
    vec_d s[2][PARTS];
    for (size_t p = 0; p < PARTS; p++)
        for (size_t r = 0; r < 2; r++) s[r][p] = *(const vec_d *)(sum[r] + p * WIDE);
    for (size_t i = 0; i < count; i++)
        for (size_t p = 0; p < PARTS; p++) {
            const vec_d y = *(const vec_d *)(m + i * STRIP + p * WIDE);
            s[0][p] -= l[i] * y;
            s[1][p] -= l[k + i] * y;
        }
    for (size_t p = 0; p < PARTS; p++)
        for (size_t r = 0; r < 2; r++) *(vec_d *)(sum[r] + p * WIDE) = s[r][p];
}

static void take_one(double sum[STRIP], const double *l, const double *m, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < STRIP; c++) sum[c] -= l[i] * m[i * STRIP + c];
}

/* sum[rows, STRIP] -= l[rows, count] m[count, STRIP]; l has rows of k. */
static void take_rows(double sum[][STRIP], const double *l, const double *m, size_t k, size_t rows, size_t count)
{
    size_t r = 0;
    for (; r + 2 <= rows; r += 2)
        for (size_t c = 0; c < STRIP; c += 4 * WIDE)
            take_two((double(*)[STRIP])(sum[r] + c), l + r * k, m + c, k, count);
    for (; r < rows; r++) take_one(sum[r], l + r * k, m, count);
}

/* The columns c0 .. of m, the inverse of the lower triangle l: `m` is their strip, k rows of STRIP elements, and those
 * above the diagonal are 0. No strip needs another. */
static void invert_strip(double *m, const double *l, size_t k, size_t c0)
{
    for (size_t r0 = c0; r0 < k; r0 += BAND) {
        const size_t rows = k - r0 < BAND ? k - r0 : BAND;
        double sum[BAND][STRIP];
        memset(sum, 0, sizeof sum);
        for (size_t p = c0; p < r0; p += BAND) take_rows(sum, l + r0 * k + p, m + p * STRIP, k, rows, BAND);
        for (size_t r = 0; r < rows; r++) {
            const double *row = l + (r0 + r) * k;
            double *to = m + (r0 + r) * STRIP;
            take_one(sum[r], row + r0, m + r0 * STRIP, r);
            for (size_t c = 0; c < STRIP && c0 + c < r0 + r; c++) to[c] = sum[r][c] / row[r0 + r];
            if (r0 + r < c0 + STRIP) to[r0 + r - c0] = 1 / row[r0 + r];
        }
    }
}

static void invert_part(void *ud, size_t part, size_t parts)
{
    const bt_gptq_factor_job *j = ud;
    for (size_t s = part; s * STRIP < j->k; s += parts) /* in turn: the first strips are the longest */
        invert_strip(j->m + s * STRIP * j->k, j->l, j->k, s * STRIP);
}

/* w[r, 0 .. SPAN - 1] -= error[r, inputs] u[inputs, SPAN], input after input, for four rows r of w, k apart. */
static void spread_four(float *w, float error[][BT_GPTQ_BLOCK], float u[][SLAB], size_t inputs, size_t k)
{
    vec_f s[4][2];
    for (size_t r = 0; r < 4; r++)
        for (size_t v = 0; v < 2; v++) s[r][v] = ((const vec_f *)(w + r * k))[v];
    for (size_t i = 0; i < inputs; i++)
        for (size_t v = 0; v < 2; v++) {
            const vec_f y = ((const vec_f *)u[i])[v];
            for (size_t r = 0; r < 4; r++) s[r][v] -= error[r][i] * y;
        }
    for (size_t r = 0; r < 4; r++)
        for (size_t v = 0; v < 2; v++) ((vec_f *)(w + r * k))[v] = s[r][v];
}

/* The columns behind a block take its inputs' errors; a slab of u[inputs, k] is read once for all rows. */
static void spread(float *w, float error[][BT_GPTQ_BLOCK], const float *u, size_t rows, size_t inputs, size_t i1,
                   size_t k)
{
    enum { SPAN = 2 * sizeof(vec_f) / sizeof(float) };
    float slab[BT_GPTQ_BLOCK][SLAB];
    for (size_t c0 = i1; c0 < k; c0 += SLAB) {
        const size_t columns = k - c0 < SLAB ? k - c0 : SLAB, four = columns < SLAB ? 0 : rows - rows % 4;
        for (size_t i = 0; i < inputs; i++)
            for (size_t c = 0; c < columns; c++) slab[i][c] = u[i * k + c0 + c];
        for (size_t r = 0; r < four; r += 4)
            for (size_t c = 0; c < SLAB; c += SPAN)
                spread_four(w + r * k + c0 + c, error + r, (float(*)[SLAB])(slab[0] + c), inputs, k);
        for (size_t r = four; r < rows; r++)
            for (size_t i = 0; i < inputs; i++)
                for (size_t c = 0; c < columns; c++) w[r * k + c0 + c] -= error[r][i] * slab[i][c];
    }
}

static void round_rows(int8_t *q, float *w, const bt_gptq_grid *grid, size_t rows, size_t k, const uint32_t *order,
                       const float *u)
{
    float error[BT_GPTQ_MANY][BT_GPTQ_BLOCK];
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
        spread(w, error, u + i0 * k, rows, i1 - i0, i1, k);
    }
}

const bt_gptq_code BT_GPTQ_CODE = {add_part, factor_part, invert_part, dot, round_rows};
