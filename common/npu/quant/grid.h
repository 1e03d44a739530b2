#ifndef BT_NPU_GRID_H
#define BT_NPU_GRID_H
#include "kernels/int_kernels.h"
#include "npu/quant/gptq.h"

/* Which grid the weights of a row lie on, a run of them that shares a step after the other.
 *
 *   without groups   a row's scale = greatest magnitude / L, L = 127 or 7
 *   with groups      the row's unit = greatest magnitude / BT_GRID_UNITS; a group has a step and an offset in units of
 *                    it (int_kernels.h), with the middle of its range in the middle of the grid
 * A clip c (npu/quant/awq.h) leaves 1 - c/20 of the run's greatest magnitude. */
enum { BT_GRID_UNITS = 16000, BT_GRID_CLIP_STEPS = 20 };

typedef struct bt_grid_group {
    int16_t step, offset;
} bt_grid_group;

/* Takes, among 16 ranges about the middle of the weights w[n], from all of it to 15/40 less, the one with the least
 * squared error of rounding to nearest; the widest where some are equal. unit: the row's. n is a multiple of 16. */
bt_grid_group bt_grid_search(const float *w, float unit, const bt_gptq_grid *grid, size_t n);
/* The grid that spans what a clip leaves of w[n]. */
bt_grid_group bt_grid_clipped(const float *w, float unit, unsigned clip, const bt_gptq_grid *grid, size_t n);
/* Rounded to nearest on one grid. */
void bt_grid_round(int8_t *q, const float *w, float scale, float offset, const bt_gptq_grid *grid, size_t n);
static inline float bt_grid_keep(unsigned clip) { return 1 - (float)clip / BT_GRID_CLIP_STEPS; }
#endif
