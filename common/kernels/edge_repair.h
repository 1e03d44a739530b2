#ifndef BT_KERNELS_EDGE_REPAIR_H
#define BT_KERNELS_EDGE_REPAIR_H
#include "kernels/int_kernels.h"

/* Repair of saturated outputs, for devices whose linears give 8 bits. An output that was requantised to +-127 may stand
 * for any greater value, so the companion computes its dot product again, in FP32, as llm.npu does.
 *
 * An output q of 8 bits is stored as s16, q * BT_EDGE_REPAIR_STEPS, in the unit scale of q / BT_EDGE_REPAIR_STEPS. In
 * this unit a repaired output is finer than q, and can be four times as large (32639 / 64 = 510). */
enum { BT_EDGE_REPAIR_STEPS = 64 };

typedef struct bt_edge_repair { /* one matrix and its input; the layouts of int_kernels.h */
    const int8_t *hi, *lo;
    size_t ld; /* input planes [rows, ld]; lo NULL: 8 bits */
    const uint32_t *shadow_count;
    const bt_int_shadow *shadow; /* [rows, k], shadow_count [rows]; NULL: none */
    const uint8_t *panels;
    size_t k;
    unsigned bits;
    const int8_t *palettes; /* each shared by `palette_run` inputs; NULL: none */
    size_t palette_run;
    const bt_int_group *groups; /* of `group` inputs each; NULL: none */
    size_t group;
    int zero;                   /* the value of the planes that stands for 0 */
    const float *oscale, *bias; /* [n]: input scale * weight scale; bias NULL: none */
    float unit;                 /* of repaired outputs */
} bt_edge_repair;

/* Output n of row t in FP32: the dot product of inputs and weights, then the shadow's terms in their order; times
 * oscale[n], plus bias[n]. The dot product is the tree of kernels.h over 16 interleaved lanes of k; every product and
 * sum rounds. */
float bt_edge_repair_dot(const bt_edge_repair *r, size_t t, size_t n);
/* y[t, ldy] s16 holds q of outputs n0 .. n0 + n - 1 of rows t0 .. t0 + t - 1. Each becomes q * BT_EDGE_REPAIR_STEPS,
 * or, where |q| is 127, the repaired value in units of `unit`, nearest even, within [-32639, 32639]. Returns how many
 * were repaired. */
size_t bt_edge_repair_rows(int16_t *y, size_t ldy, const bt_edge_repair *r, size_t t0, size_t t, size_t n0, size_t n);
#endif
