/* K and V rows into their pages as plain loops, the specification. */
#include "kernels/variant.h"
#include "kernels/f16.h"

/* Whole numbers up to 127 are the integers that are left when 1.5 * 2^23 is added and taken off again. */
static int8_t nearest8(float x)
{
    const float v = x > -127.0f ? x < 127.0f ? x : 127.0f : -127.0f, big = 0x1.8p+23f;
    return (int8_t)(v + big - big);
}

static void store_row8(int8_t *row, const float *x, size_t d)
{
    float top = 0;
    for (size_t i = 0; i < d; i++) {
        const float size = x[i] < 0 ? -x[i] : x[i];
        if (size > top) top = size;
    }
    const float exact = top / 127.0f;
    const uint16_t bits = f16_from_f32(exact < 65504.0f ? exact : 65504.0f);
    const float s = f16_to_f32(bits);
    for (size_t i = 0; i < d; i++) row[i] = s > 0 ? nearest8(x[i] / s) : 0;
    memcpy(row + d, &bits, sizeof bits);
}

static void store_row(const bt_kv_view *kv, uint8_t *row, const float *x)
{
    const size_t d = kv->head_dim;
    if (kv->elem_bytes == 4) {
        memcpy(row, x, d * sizeof *x);
        return;
    }
    if (kv->elem_bytes == 1) {
        store_row8((void *)row, x, d);
        return;
    }
    uint16_t *y = (void *)row;
    for (size_t i = 0; i < d; i++) y[i] = f16_from_f32(x[i]);
}

void bt_kv_store_ref(const bt_kv_view *kv, size_t layer, size_t pos0, size_t t, const float *k,
                     const float *v, size_t ld)
{
    const size_t d = kv->head_dim;
    for (size_t row = 0; row < t; row++)
        for (size_t g = 0; g < kv->kv_heads; g++) {
            store_row(kv, bt_kv_view_row(kv, layer, 0, pos0 + row, g), k + row * ld + g * d);
            store_row(kv, bt_kv_view_row(kv, layer, 1, pos0 + row, g), v + row * ld + g * d);
        }
}
