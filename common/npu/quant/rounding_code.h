#ifndef BT_NPU_ROUNDING_CODE_H
#define BT_NPU_ROUNDING_CODE_H
#include <stddef.h>
#include <stdint.h>

/* Inside rounding: its loops (rounding_body.h), compiled for more than one instruction set. They are sums in
 * the order of the elements and products in named lanes, so every one gives the same bits. */
typedef struct bt_rounding_row {
    int32_t sum;                 /* of the rounded integers */
    double apart, square, drift; /* squares of the errors and of the weights; errors by the inputs' means */
} bt_rounding_row;

typedef struct bt_rounding_code {
    float (*max)(const float *w, size_t k); /* greatest magnitude; infinity where something is not finite */
    void (*round)(int8_t *q, const float *w, float scale, size_t k, float limit);
    /* rounded[k]: what q stands for. mean: NULL for no drift. */
    bt_rounding_row (*compare)(float *rounded, const int8_t *q, const float *w, const double *mean, float scale,
                               size_t k);
    /* w' x' - w x, and *should: w x */
    double (*apart)(const float *w, const float *wq, const float *x, const float *xq, size_t k, double *should);
    /* d[n]: what rounding to nearest on a grid (bt_gptq_grid) makes of w[n], minus w[n] */
    void (*off)(float *d, const float *w, float scale, float offset, float least, float most, size_t n);
    /* error[c] += sum over tokens of (sum over i < count of d[c * ldd + i] * x[i])^2, c < BT_ROUNDING_TILE; the sums
     * ascend in i and in tokens. Input i of a block's 16 tokens: x[block * stride + 16 * i] */
    void (*squares)(double *error, const float *d, size_t ldd, const float *x, size_t stride, size_t blocks,
                    size_t count);
} bt_rounding_code;
enum { BT_ROUNDING_TILE = 4 };
extern const bt_rounding_code bt_rounding_ref;
#if defined(__x86_64__)
extern const bt_rounding_code bt_rounding_avx2;
#endif

/* That of this machine. */
static inline const bt_rounding_code *bt_rounding_loops(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &bt_rounding_avx2;
#endif
    return &bt_rounding_ref;
}

/* To nearest even, for |v| < 2^22. */
static inline float round_even(float v)
{
    const float big = 12582912.0f; /* 1.5 * 2^23 */
    return (v + big) - big;
}
#endif
