#ifndef BT_MODEL_QUANT_H
#define BT_MODEL_QUANT_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Tensor types of ggml and their exact meaning as f32 (ggml-common.h, ggml-quants.c: dequantize_row_*): the
 * same float operations in the same order, so the same bits. */
/* ggml type numbers */
typedef enum bt_quant {
    BT_QUANT_F32 = 0,
    BT_QUANT_F16 = 1,
    BT_QUANT_Q4_0 = 2,
    BT_QUANT_Q4_1 = 3,
    BT_QUANT_Q5_0 = 6,
    BT_QUANT_Q5_1 = 7,
    BT_QUANT_Q8_0 = 8,
    BT_QUANT_Q2_K = 10,
    BT_QUANT_Q3_K = 11,
    BT_QUANT_Q4_K = 12,
    BT_QUANT_Q5_K = 13,
    BT_QUANT_Q6_K = 14,
    BT_QUANT_IQ4_NL = 20,
    BT_QUANT_BF16 = 30,
    BT_QUANT_MXFP4 = 39,
} bt_quant;

typedef struct bt_quant_info {
    const char *name;
    uint32_t type;
    uint32_t block_elems, block_bytes;
} bt_quant_info;

/* NULL for a type that this build does not read. bt_quant_type_name names such types too ("Q8_1", "type 77"). */
const bt_quant_info *bt_quant_find(uint32_t type);
const char *bt_quant_type_name(uint32_t type);
/* y[elems] = values of the blocks at x; elems is a multiple of the type's block_elems. */
void bt_quant_to_f32(float *restrict y, const uint8_t *restrict x, const bt_quant_info *type, size_t elems);
#endif
