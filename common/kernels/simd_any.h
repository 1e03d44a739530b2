#ifndef BT_KERNELS_SIMD_ANY_H
#define BT_KERNELS_SIMD_ANY_H
/* Functions over v16 that all instruction sets share; included at the end of each simd header. */
#include "kernels/exp.h"

/* Unrolls a loop over sums, whose bounds are constant, so that the sums become registers even at -O2. */
#if defined(__clang__)
#define BT_UNROLL_FOR _Pragma("unroll") for
#else
#define BT_UNROLL_FOR _Pragma("GCC unroll 16") for
#endif

/* bt_exp1 in each lane. */
BT_INLINE v16 v16_exp(v16 x)
{
    const v16 one = v16_set1(1.0f), y = v16_min(x, v16_set1(BT_EXP_HIGH));
    const v16 s = v16_fma(y, v16_set1(BT_EXP_LOG2E), v16_set1(BT_EXP_ROUND));
    const v16 n = v16_sub(s, v16_set1(BT_EXP_ROUND));
    v16 r = v16_fnma(n, v16_set1(BT_EXP_LN2_HI), y);
    r = v16_fnma(n, v16_set1(BT_EXP_LN2_LO), r);
    v16 p = v16_set1(BT_EXP_C6);
    p = v16_fma(p, r, v16_set1(BT_EXP_C5));
    p = v16_fma(p, r, v16_set1(BT_EXP_C4));
    p = v16_fma(p, r, v16_set1(BT_EXP_C3));
    p = v16_fma(p, r, v16_set1(BT_EXP_C2));
    p = v16_fma(p, r, one);
    p = v16_fma(p, r, one);
    return v16_where_ge(v16_mul(p, v16_bits_add_shift(s, 127, 23)), x, v16_set1(BT_EXP_LOW));
}

/* bt_tanh1 in each lane. The bound comes first in min and max, which give their second operand where one is NaN. */
BT_INLINE v16 v16_tanh(v16 x)
{
    const v16 one = v16_set1(1.0f), most = v16_set1(BT_TANH_HIGH);
    const v16 z = v16_max(v16_neg(most), v16_min(most, v16_add(x, x)));
    const v16 s = v16_fma(z, v16_set1(BT_EXP_LOG2E), v16_set1(BT_EXP_ROUND));
    const v16 n = v16_sub(s, v16_set1(BT_EXP_ROUND));
    v16 r = v16_fnma(n, v16_set1(BT_EXP_LN2_HI), z);
    r = v16_fnma(n, v16_set1(BT_EXP_LN2_LO), r);
    v16 c = v16_set1(BT_EXP_C6);
    c = v16_fma(c, r, v16_set1(BT_EXP_C5));
    c = v16_fma(c, r, v16_set1(BT_EXP_C4));
    c = v16_fma(c, r, v16_set1(BT_EXP_C3));
    c = v16_fma(c, r, v16_set1(BT_EXP_C2));
    const v16 power = v16_bits_add_shift(s, 127, 23), q = v16_fma(c, v16_mul(r, r), r);
    const v16 e = v16_fma(power, q, v16_sub(power, one));
    return v16_div(e, v16_add(e, v16_set1(2.0f)));
}

/* gelu(x) in each lane, in the order of bt_gelu_fn. */
BT_INLINE v16 v16_gelu(v16 x)
{
    const v16 a = v16_mul(x, v16_fma(v16_mul(x, x), v16_set1(BT_GELU_CUBE), v16_set1(BT_GELU_ONCE)));
    return v16_div(x, v16_add(v16_set1(1.0f), v16_exp(v16_neg(a))));
}

/* In the order of bt_clamp_mul_fn. The bound comes first in min and max, as in v16_tanh. */
BT_INLINE v16 v16_clamp_mul(v16 g, v16 u)
{
    const v16 one = v16_set1(1.0f), limit = v16_set1(BT_CLAMP_LIMIT), a = v16_min(limit, g);
    const v16 b = v16_max(v16_neg(limit), v16_min(limit, u));
    const v16 e = v16_exp(v16_neg(v16_mul(a, v16_set1(BT_CLAMP_GAIN))));
    return v16_mul(v16_div(a, v16_add(one, e)), v16_add(b, one));
}

/* silu(g) * u in each lane, in the order of bt_silu_mul_fn. */
BT_INLINE v16 v16_silu_mul(v16 g, v16 u)
{
    return v16_mul(v16_div(g, v16_add(v16_set1(1.0f), v16_exp(v16_neg(g)))), u);
}
#endif
