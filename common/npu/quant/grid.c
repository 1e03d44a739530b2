/* Grids of weights: the choice of a group's grid, and rounding to a grid. */
#include "npu/quant/grid.h"
#include "npu/quant/rounding_code.h"

#include <math.h>

/* CLIPS: how many ranges of a group are tried, each narrower than the last by 1 / CLIP_STEPS of the whole. */
enum { LANES = 16, CLIPS = 16, CLIP_STEPS = 40 };

void bt_grid_round(int8_t *q, const float *w, float scale, float offset, const bt_gptq_grid *grid, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = round_even((w[i] - offset) / scale);
        v = v > grid->most ? grid->most : v < grid->least ? grid->least : v;
        q[i] = (int8_t)v;
    }
}

static float squared_error(const float *w, float scale, float offset, const bt_gptq_grid *grid, size_t n)
{
    const float least = grid->least, most = grid->most;
    float lane[LANES] = {0}, sum = 0;
    for (size_t i = 0; i < n; i += LANES) /* a group is a multiple of 16 inputs */
        for (size_t j = 0; j < LANES; j++) {
            float v = round_even((w[i + j] - offset) / scale);
            v = v > most ? most : v < least ? least : v;
            v = w[i + j] - (v * scale + offset);
            lane[j] += v * v;
        }
    for (size_t j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

/* The grid of a range of this width around sum / 2, both in the row's units. */
static bt_grid_group span(float width, float sum, const bt_gptq_grid *grid)
{
    float s = round_even(width / (grid->most - grid->least));
    s = s < 1 ? 1 : s;
    float o = round_even(sum / 2 - s * (grid->least + grid->most) / 2);
    const float highest = BT_INT_GROUP_MAX - s * grid->most, lowest = -BT_INT_GROUP_MAX - s * grid->least;
    o = o > highest ? highest : o < lowest ? lowest : o;
    return (bt_grid_group){(int16_t)s, (int16_t)o};
}

static void range_of(float *lo, float *hi, const float *w, size_t n)
{
    *lo = *hi = w[0];
    for (size_t i = 1; i < n; i++) {
        *lo = w[i] < *lo ? w[i] : *lo;
        *hi = w[i] > *hi ? w[i] : *hi;
    }
}

bt_grid_group bt_grid_search(const float *w, float unit, const bt_gptq_grid *grid, size_t n)
{
    bt_grid_group best = {1, 0};
    float lo, hi, least = INFINITY;
    range_of(&lo, &hi, w, n);
    lo /= unit, hi /= unit;
    for (int clip = 0; clip < CLIPS; clip++) {
        const float cut = (hi - lo) * (float)clip / (2 * CLIP_STEPS);
        const bt_grid_group g = span(hi - lo - 2 * cut, lo + hi, grid);
        const float error = squared_error(w, (float)g.step * unit, (float)g.offset * unit, grid, n);
        if (error >= least) continue;
        least = error;
        best = g;
    }
    return best;
}

bt_grid_group bt_grid_clipped(const float *w, float unit, unsigned clip, const bt_gptq_grid *grid, size_t n)
{
    float lo, hi;
    range_of(&lo, &hi, w, n);
    const float most = (hi > -lo ? hi : -lo) * bt_grid_keep(clip);
    lo = lo < -most ? -most : lo;
    hi = hi > most ? most : hi;
    lo /= unit, hi /= unit;
    return span(hi - lo, lo + hi, grid);
}
