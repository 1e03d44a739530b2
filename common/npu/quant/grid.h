#ifndef BT_NPU_GRID_H
#define BT_NPU_GRID_H
#include "kernels/int_kernels.h"
#include "npu/quant/gptq.h"

/* The grids that the weights of a row are rounded to. A run is what shares a grid: the row, or a group of its inputs.
 *
 *   without groups   the row's scale = greatest magnitude / L, L = 127 (8 bits) or 7 (4 bits)
 *   with groups      the row's unit = greatest magnitude / BT_GRID_UNITS; a group has a step and an offset, whole
 *                    numbers of this unit (int_kernels.h): the middle of the group's range is the middle of its grid
 * A clip c (npu/quant/awq.h) leaves 1 - c / BT_GRID_CLIP_STEPS of the run's greatest magnitude. */
enum { BT_GRID_UNITS = 16000, BT_GRID_CLIP_STEPS = 20 };

typedef struct bt_grid_group {
    int16_t step, offset;
} bt_grid_group;

/* The grid of the group w[n]. Tries 16 ranges around the middle of the weights' range, from the whole range to one that
 * is 15/40 narrower, and takes the one whose rounding to nearest has the least squared error; the widest among equals.
 * unit: the row's. n is a multiple of 16. */
bt_grid_group bt_grid_search(const float *w, float unit, const bt_gptq_grid *grid, size_t n);
/* The grid that spans what clip c of BT_GRID_CLIP_STEPS leaves of the group w[n]. */
bt_grid_group bt_grid_clipped(const float *w, float unit, unsigned clip, const bt_gptq_grid *grid, size_t n);
/* q[n] = w[n] rounded to nearest, ties to even, on the grid scale * q + offset, clamped to [grid->least, most]. */
void bt_grid_round(int8_t *q, const float *w, float scale, float offset, const bt_gptq_grid *grid, size_t n);
/* The share of the greatest magnitude that a clip leaves. */
static inline float bt_grid_keep(unsigned clip) { return 1 - (float)clip / BT_GRID_CLIP_STEPS; }
#endif
