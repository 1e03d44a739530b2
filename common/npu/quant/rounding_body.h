/* The loops of rounding, over one row each. BT_ROUNDING_CODE, defined by the includer, names the table that this file
 * defines. */
#include "npu/quant/rounding_code.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* Bits of magnitudes compare as the magnitudes do, and those of a NaN are above all. */
static float row_max(const float *w, size_t k)
{
    uint32_t worst = 0;
    for (size_t i = 0; i < k; i++) {
        uint32_t bits;
        memcpy(&bits, &w[i], sizeof bits);
        bits &= 0x7fffffff;
        worst = bits > worst ? bits : worst;
    }
    float max;
    memcpy(&max, &worst, sizeof max);
    return isfinite(max) ? max : INFINITY;
}

static void round_row(int8_t *restrict q, const float *restrict w, float scale, size_t k, float limit)
{
    for (size_t i = 0; i < k; i++) {
        float v = round_even(w[i] / scale);
        v = v > limit ? limit : v < -limit ? -limit : v;
        q[i] = (int8_t)v;
    }
}

static bt_rounding_row compare(float *restrict rounded, const int8_t *restrict q, const float *restrict w,
                               const double *restrict mean, float scale, size_t k)
{
    int32_t sum = 0;
    for (size_t i = 0; i < k; i++) {
        sum += q[i];
        rounded[i] = (float)q[i] * scale;
    }
    bt_rounding_row r = {.sum = sum};
    for (size_t i = 0; i < k; i++) { /* three chains in the order of i, which hide each other's latency */
        const double d = (double)rounded[i] - w[i];
        r.apart += d * d;
        r.square += (double)w[i] * w[i];
        if (mean) r.drift += d * mean[i];
    }
    return r;
}

/* Vectors as wide as the machine's: compilers break up a loop over an array of 16 sums. */
#if defined(__AVX2__)
enum { WIDTH = 8 };
#else
enum { WIDTH = 4 };
#endif
typedef float vec __attribute__((vector_size(WIDTH * sizeof(float)), aligned(4), may_alias));

/* Both dot products, w . x and wq . xq, in 16 lanes. */
static double output_apart(const float *w, const float *wq, const float *x, const float *xq, size_t k, double *should)
{
    vec sum[2][LANES / WIDTH] = {0};
    float a[LANES], b[LANES];
    size_t i = 0;
    for (; i + LANES <= k; i += LANES)
        for (size_t v = 0; v < LANES / WIDTH; v++) {
            const size_t at = i + v * WIDTH;
            sum[0][v] += *(const vec *)(w + at) * *(const vec *)(x + at);
            sum[1][v] += *(const vec *)(wq + at) * *(const vec *)(xq + at);
        }
    memcpy(a, sum[0], sizeof a);
    memcpy(b, sum[1], sizeof b);
    for (size_t j = 0; i + j < k; j++) {
        a[j] += w[i + j] * x[i + j];
        b[j] += wq[i + j] * xq[i + j];
    }
    double ya = 0, yb = 0;
    for (size_t j = 0; j < LANES; j++) {
        ya += (double)a[j];
        yb += (double)b[j];
    }
    *should = ya;
    return yb - ya;
}

static void off(float *restrict d, const float *restrict w, float scale, float offset, float least, float most,
                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = round_even((w[i] - offset) / scale);
        v = v > most ? most : v < least ? least : v;
        d[i] = v * scale + offset - w[i];
    }
}

static void squares(double *error, const float *d, size_t ldd, const float *x, size_t stride, size_t blocks,
                    size_t count)
{
    enum { TILE = BT_ROUNDING_TILE };
    for (size_t b = 0; b < blocks; b++, x += stride) {
        vec sum[TILE][LANES / WIDTH] = {0};
        float lane[TILE][LANES];
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < TILE; c++)
                for (size_t v = 0; v < LANES / WIDTH; v++)
                    sum[c][v] += d[c * ldd + i] * *(const vec *)(x + i * LANES + v * WIDTH);
        memcpy(lane, sum, sizeof lane);
        for (size_t c = 0; c < TILE; c++)
            for (size_t t = 0; t < LANES; t++) error[c] += (double)lane[c][t] * (double)lane[c][t];
    }
}

const bt_rounding_code BT_ROUNDING_CODE = {row_max, round_row, compare, output_apart, off, squares};
