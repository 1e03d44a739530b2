/* Recomputes outputs that 8 bits could not hold, in FP32, on the companion. */
#include "kernels/edge_repair.h"

#include <math.h>

/* The integer that the packed weight (n, k) stands for. */
static int weight(const bt_edge_repair *r, size_t n, size_t k)
{
    if (r->palettes)
        return r->palettes[((n / 16 * (r->k / r->palette_run) + k / r->palette_run) << r->bits) +
                           bt_int_index_at(r->panels, n, k, r->k, r->bits)];
    const int w = bt_int_packed_at(r->panels, n, k, r->k, r->bits);
    if (!r->groups) return w;
    const bt_int_group *g = &r->groups[n / 16 * (r->k / r->group) + k / r->group];
    return w * g->step[n % 16] + g->offset[n % 16];
}

float bt_edge_repair_dot(const bt_edge_repair *r, size_t t, size_t n)
{
    float lane[16] = {0};
    for (size_t i = 0; i < r->k; i++) {
        const int w = weight(r, n, i);
        const int hi = r->hi[t * r->ld + i], x = (r->lo ? 256 * hi + r->lo[t * r->ld + i] : hi) - r->zero;
        lane[i % 16] += (float)x * (float)w;
    }
    for (size_t step = 8; step > 0; step /= 2)
        for (size_t i = 0; i < step; i++) lane[i] += lane[i + step];
    float sum = lane[0];
    for (size_t i = 0; r->shadow && i < r->shadow_count[t]; i++) {
        const bt_int_shadow s = r->shadow[t * r->k + i];
        sum += (float)s.r * (float)weight(r, n, s.k);
    }
    sum *= r->oscale[n];
    return r->bias ? sum + r->bias[n] : sum;
}

size_t bt_edge_repair_rows(int16_t *y, size_t ldy, const bt_edge_repair *r, size_t t0, size_t t, size_t n0,
                           size_t n)
{
    size_t repaired = 0;
    for (size_t row = 0; row < t; row++, y += ldy)
        for (size_t i = 0; i < n; i++) {
            if (y[i] < 127 && y[i] > -127) {
                y[i] = (int16_t)(y[i] * BT_EDGE_REPAIR_STEPS);
                continue;
            }
            float v = bt_edge_repair_dot(r, t0 + row, n0 + i) / r->unit;
            v = v > -BT_INT_MAX16 ? v : -BT_INT_MAX16;
            v = v < BT_INT_MAX16 ? v : BT_INT_MAX16;
            y[i] = (int16_t)rintf(v);
            repaired++;
        }
    return repaired;
}
