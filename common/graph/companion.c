/* The row-wise FP32 operators that the float executor and the NPU's companion share. */
#include "graph/companion.h"

/* The order of bt_edge_rotate_fn: signs, butterflies, base matrix, scale. */
void bt_companion_rotate_rows(float *x, size_t ldx, size_t t, size_t blocks, const bt_companion_rotation *r, float *scratch)
{
    const size_t run = (size_t)1 << r->log2, e = bt_companion_rotation_elems(r);
    for (size_t i = 0; i < t * blocks; i++) {
        float *v = x + i / blocks * ldx + i % blocks * e;
        for (size_t k = 0; k < e; k++) scratch[k] = r->sign && r->sign[k] < 0 ? -v[k] : v[k];
        for (size_t len = 1; len < run; len *= 2)
            for (size_t k = 0; k < e; k++) {
                if (k & len) continue;
                const float a = scratch[k], b = scratch[k + len];
                scratch[k] = a + b;
                scratch[k + len] = a - b;
            }
        for (size_t c = 0; c < r->base; c++)
            for (size_t j = 0; j < run; j++) {
                float sum = r->base > 1 && r->h_base[c * r->base] < 0 ? -scratch[j] : scratch[j];
                for (size_t b = 1; b < r->base; b++)
                    sum = r->h_base[c * r->base + b] < 0 ? sum - scratch[b * run + j] : sum + scratch[b * run + j];
                v[c * run + j] = sum * r->scale;
            }
    }
}
