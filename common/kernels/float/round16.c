/* Rounds to 16-bit floats: to f16 by the kernels' conversions, to bf16 by integer arithmetic on the bits. */
#include "kernels/round16.h"

#include <string.h>

enum { BLOCK = 512 };

const char *bt_round16_name(bt_round16 form)
{
    static const char *const names[BT_ROUND16_FORMS] = {"none", "float16", "bfloat16"};
    return (unsigned)form < BT_ROUND16_FORMS ? names[form] : "?";
}

static void round_f16(const bt_kernels *kernels, float *y, const float *x, size_t count)
{
    uint16_t half[BLOCK];
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < BLOCK ? count - i : BLOCK;
        kernels->f32_to_f16(half, x + i, n);
        kernels->f16_to_f32(y + i, half, n);
    }
}

static void round_bf16(float *y, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t u;
        memcpy(&u, x + i, sizeof u);
        const uint32_t is_nan = (u & 0x7fffffff) > 0x7f800000;
        u = is_nan ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
        u &= 0xffff0000;
        memcpy(y + i, &u, sizeof u);
    }
}

void bt_round16_rows(const bt_kernels *kernels, bt_round16 form, float *y, size_t ldy, const float *x,
                     size_t ldx, size_t t, size_t k)
{
    if (ldy == k && ldx == k) k *= t, t = t > 0; /* rows without gaps: one row */
    for (size_t r = 0; r < t; r++, y += ldy, x += ldx) {
        if (form == BT_ROUND16_BF16) round_bf16(y, x, k);
        else round_f16(kernels, y, x, k);
    }
}
