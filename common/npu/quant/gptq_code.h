#ifndef BT_NPU_GPTQ_CODE_H
#define BT_NPU_GPTQ_CODE_H
#include "base/pool.h"
#include "npu/quant/gptq.h"

/* Inside GPTQ: the loops of gptq_body.h, compiled for more than one instruction set. All give the same bits, because
 * sums run element by element and dot products in named lanes. */
typedef struct bt_gptq_add_job {
    float *h;
    const float *x;
    size_t t, k;
} bt_gptq_add_job;
enum { BT_GPTQ_STRIP = 64, BT_GPTQ_ROWS = 64 };
typedef struct bt_gptq_factor_job {
    double *l; /* [k, k] */
    double *m; /* [ceil(k / STRIP), k, STRIP]: strips of columns; zeros on entry */
    size_t k, begin, end;
} bt_gptq_factor_job;

typedef struct bt_gptq_code {
    bt_pool_fn *add;             /* bt_gptq_add_job */
    bt_pool_fn *factor, *invert; /* bt_gptq_factor_job: factor makes the columns before `begin`, a multiple of ROWS, of
                                    the rows begin .. end - 1, ROWS at most, of the Cholesky factor l, whose rows before
                                    them are made; invert makes m, the inverse of l */
    double (*dot)(const double *a, const double *b, size_t count);
    void (*round)(int8_t *q, float *w, const bt_gptq_grid *grid, size_t rows, size_t k, const uint32_t *order,
                  const float *u);
} bt_gptq_code;
extern const bt_gptq_code bt_gptq_ref;
#if defined(__x86_64__)
extern const bt_gptq_code bt_gptq_avx2;
#endif
#endif
