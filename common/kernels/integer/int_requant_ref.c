/* Requantise as plain loops over 128-bit arithmetic, the specification. */
#include "base/wide.h"
#include "kernels/variant.h"

int64_t bt_int_scale1(int64_t v, int32_t m, unsigned s)
{
    bt_wide y = bt_wide_mul_signed(v, m);
    if (s) y = bt_wide_right_signed(bt_wide_add(y, bt_wide_left(bt_wide_of(1), s - 1)), s);
    return bt_wide_clamp_signed(y);
}

static int16_t clamp(int64_t y, int16_t limit)
{
    return (int16_t)(y < -limit ? -limit : y > limit ? limit : y);
}

void bt_int_requant32_ref(int16_t *restrict y, size_t ldy, const int32_t *restrict acc, size_t ldacc,
                          const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                          size_t n)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < n; i++) {
            const int64_t v = acc[row * ldacc + i] + (bias ? bias[i] : 0);
            y[row * ldy + i] = clamp(bt_int_scale1(v, m[i], s[i]), limit);
        }
}

void bt_int_requant64_ref(int16_t *restrict y, size_t ldy, const int64_t *restrict acc, size_t ldacc,
                          const int64_t *bias, const int32_t *m, const uint8_t *s, int16_t limit, size_t t,
                          size_t n)
{
    for (size_t row = 0; row < t; row++)
        for (size_t i = 0; i < n; i++) {
            const int64_t v = acc[row * ldacc + i] + (bias ? bias[i] : 0);
            y[row * ldy + i] = clamp(bt_int_scale1(v, m[i], s[i]), limit);
        }
}
