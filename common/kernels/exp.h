#ifndef BT_KERNELS_EXP_H
#define BT_KERNELS_EXP_H

/* The constants of bt_exp1 and bt_tanh1, for their scalar form (float/rows_ref.c) and their vector form (simd_any.h).
 * Both forms of exp compute:
 *
 *   x  = min(x, HIGH);  the result is +0 unless x >= LOW
 *   s  = fma(x, LOG2E, ROUND)          the low bits of s hold n = rint(x * log2 e), ties to even
 *   n  = s - ROUND                     exact
 *   r  = fma(-n, LN2_HI, x);  r = fma(-n, LN2_LO, r)           |r| <= 0.3466
 *   p  = C6;  p = fma(p, r, C5); ... p = fma(p, r, C2);  p = fma(p, r, 1);  p = fma(p, r, 1)
 *   result = p * 2^n, 2^n made from the bits of s
 *
 * C2 .. C6 minimise the polynomial's greatest relative error on |r| <= 0.3466: 3.1e-9, far below the rounding. The
 * greatest relative error of the result against a double exp, over every float in [-87, 88], is 2^-23.6 (7.8e-8).
 * Arguments above 88 give exp(88), 1.65e38.
 *
 * tanh is (e^2x - 1) / (e^2x + 1), with e^2x - 1 by the steps of exp, so that small arguments keep their bits:
 *
 *   z  = 2 x, taken into [-TANH_HIGH, TANH_HIGH]; a NaN stays
 *   n and r of z as above
 *   c  = C6;  c = fma(c, r, C5); ... c = fma(c, r, C2)
 *   q  = fma(c, r * r, r)                                      e^r - 1
 *   e  = fma(2^n, q, 2^n - 1)                                  e^z - 1
 *   result = e / (e + 2)
 *
 * The greatest relative error against a double tanh is 2^-22. */
#define BT_EXP_HIGH   88.0f
#define BT_EXP_LOW    (-87.0f)
#define BT_EXP_LOG2E  0x1.715476p+0f
#define BT_EXP_ROUND  0x1.8p+23f
#define BT_EXP_LN2_HI 0x1.62e43p-1f
#define BT_EXP_LN2_LO (-0x1.05c61p-29f)
#define BT_EXP_C2     0x1.fffffcp-2f
#define BT_EXP_C3     0x1.555492p-3f
#define BT_EXP_C4     0x1.5558f2p-5f
#define BT_EXP_C5     0x1.1239d6p-7f
#define BT_EXP_C6     0x1.6a2446p-10f
#define BT_TANH_HIGH  20.0f
#endif
