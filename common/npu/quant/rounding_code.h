#ifndef BT_NPU_ROUNDING_CODE_H
#define BT_NPU_ROUNDING_CODE_H
#include <stddef.h>
#include <stdint.h>

/* Inside rounding: the loops of rounding_body.h, compiled for more than one instruction set. All give the same bits,
 * because sums run in the order of the elements and dot products in named lanes. */
typedef struct bt_rounding_row {
    int32_t sum;                 /* of the rounded integers */
    double apart, square, drift; /* sums of the errors' squares, of the weights' squares, of error * mean input */
} bt_rounding_row;

typedef struct bt_rounding_code {
    float (*max)(const float *w, size_t k); /* greatest magnitude; infinity if any is not finite */
    void (*round)(int8_t *q, const float *w, float scale, size_t k, float limit);
    /* rounded[k] = q * scale. mean NULL: drift stays 0. */
    bt_rounding_row (*compare)(float *rounded, const int8_t *q, const float *w, const double *mean, float scale,
                               size_t k);
    /* Returns wq . xq - w . x; *should = w . x. */
    double (*apart)(const float *w, const float *wq, const float *x, const float *xq, size_t k, double *should);
    /* d[n] = w[n] rounded to nearest on a grid (bt_gptq_grid), minus w[n] */
    void (*off)(float *d, const float *w, float scale, float offset, float least, float most, size_t n);
    /* error[c] += sum over tokens of (sum over i < count of d[c * ldd + i] * x[i])^2, c < BT_ROUNDING_TILE, both sums
     * ascending. Tokens come in blocks of 16: input i of a block's tokens begins at x[block * stride + 16 * i]. */
    void (*squares)(double *error, const float *d, size_t ldd, const float *x, size_t stride, size_t blocks,
                    size_t count);
} bt_rounding_code;
enum { BT_ROUNDING_TILE = 4 };
extern const bt_rounding_code bt_rounding_ref;
#if defined(__x86_64__)
extern const bt_rounding_code bt_rounding_avx2;
#endif

/* The loops for this machine. */
static inline const bt_rounding_code *bt_rounding_loops(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &bt_rounding_avx2;
#endif
    return &bt_rounding_ref;
}

/* The whole number nearest to v, ties to even, for |v| < 2^22. */
static inline float round_even(float v)
{
    const float big = 12582912.0f; /* 1.5 * 2^23 */
    return (v + big) - big;
}
#endif
