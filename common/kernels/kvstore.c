/* Writes K and V rows into their pages, rounded to the deployment's element type. */
#include "kernels/kernels.h"
#include "kernels/f16.h"

static void store_row(const bt_kv_view *kv, uint8_t *row, const float *x)
{
    const size_t d = kv->head_dim;
    if (kv->elem_bytes == 4) {
        memcpy(row, x, d * sizeof *x);
        return;
    }
    uint16_t *y = (void *)row;
    for (size_t i = 0; i < d; i++) y[i] = f16_from_f32(x[i]);
}

void bt_kv_store(const bt_kv_view *kv, size_t layer, size_t pos0, size_t t, const float *k, const float *v,
                 size_t ld)
{
    const size_t d = kv->head_dim;
    for (size_t row = 0; row < t; row++)
        for (size_t g = 0; g < kv->kv_heads; g++) {
            store_row(kv, bt_kv_view_row(kv, layer, 0, pos0 + row, g), k + row * ld + g * d);
            store_row(kv, bt_kv_view_row(kv, layer, 1, pos0 + row, g), v + row * ld + g * d);
        }
}
