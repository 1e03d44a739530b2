#ifndef BT_KERNELS_ROUND16_H
#define BT_KERNELS_ROUND16_H
#include "kernels/kernels.h"

/* 16-bit floats of the NPU. Values that the device keeps in f16 or bf16 are kept here in f32, rounded to a value of
 * that form. Sums stay FP32, in the orders of kernels.h. Every instruction set gives the same bits, NaN included:
 *   F16    nearest even; above 65,519 in magnitude infinity; subnormals are kept
 *   BF16   the upper 16 bits of f32, nearest even; a NaN stays a NaN */
typedef enum bt_round16 { BT_ROUND16_NONE, BT_ROUND16_F16, BT_ROUND16_BF16, BT_ROUND16_FORMS } bt_round16;
const char *bt_round16_name(bt_round16 form); /* "float16", "bfloat16"; "none" */

/* y[t, ldy] = x[t, ldx] rounded, rows of k; form F16 or BF16. y may be x where ldy == ldx. */
void bt_round16_rows(const bt_kernels *kernels, bt_round16 form, float *y, size_t ldy, const float *x, size_t ldx,
                     size_t t, size_t k);
#endif
