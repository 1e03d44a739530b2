#ifndef BT_MODEL_QUANT_K_H
#define BT_MODEL_QUANT_K_H
#include <stddef.h>
#include <stdint.h>
#include "base/num.h"
#include "kernels/kernels.h"

/* Inside common/model, below quant.c: the K types (blocks of 256), and the f16 reader that all types share. n is a
 * multiple of 256. */
typedef void bt_quant_row_fn(float *restrict y, const uint8_t *restrict x, size_t n);
bt_quant_row_fn bt_quant_q2_k, bt_quant_q3_k, bt_quant_q4_k, bt_quant_q5_k, bt_quant_q6_k;

/* Two little-endian bytes of IEEE binary16, exactly. */
static inline float bt_quant_half(const uint8_t *p) { return bt_f16_to_f32_1(bt_get16(p)); }
#endif
