#ifndef BT_KERNELS_EDGE_REPAIR_H
#define BT_KERNELS_EDGE_REPAIR_H
#include "kernels/int_kernels.h"

/* Repair of saturated outputs, for devices whose linears give 8 bits: an output that was requantised to +-127 may stand
 * for anything beyond, so the companion computes that one dot product again, in FP32 (llm.npu does the same).
 *
 * A linear output of 8 bits q is stored as s16, q * BT_EDGE_REPAIR_STEPS, in units `unit` = its scale /
 * BT_EDGE_REPAIR_STEPS; a repaired one is finer than q and reaches four times as far. */
enum { BT_EDGE_REPAIR_STEPS = 64 };

typedef struct bt_edge_repair { /* one matrix and its input; the layouts of int_kernels.h */
    const int8_t *hi, *lo;
    size_t ld; /* planes; lo NULL: 8 bits */
    const uint32_t *shadow_count;
    const bt_int_shadow *shadow; /* [rows], [rows, k]; NULL: none */
    const uint8_t *panels;
    size_t k;
    unsigned bits;
    const int8_t *palettes; /* of `palette_run` inputs each; NULL: none */
    size_t palette_run;
    const bt_int_group *groups; /* of `group` inputs each; NULL: none */
    size_t group;
    int zero;                   /* of the planes: what stands for 0 */
    const float *oscale, *bias; /* [n]; bias NULL: none */
    float unit;
} bt_edge_repair;

/* Output n of row t in FP32: the dot product of the dequantised input and weights, as 16 interleaved lanes over k with
 * a fixed tree, each product and sum rounded, the shadow's terms in their order after it; times oscale, plus bias. */
float bt_edge_repair_dot(const bt_edge_repair *r, size_t t, size_t n);
/* y[T, ldy] s16 holding q of outputs n0 .. n0 + n - 1 of rows t0 ..: each becomes q * STEPS, or where |q| is 127 the
 * repaired value in units of `unit`, nearest even, within [-32639, 32639]. Returns how many were repaired. */
size_t bt_edge_repair_rows(int16_t *y, size_t ldy, const bt_edge_repair *r, size_t t0, size_t t, size_t n0, size_t n);
#endif
