#ifndef BT_KERNELS_FORMS_H
#define BT_KERNELS_FORMS_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The forms in which decoding keeps the weights of a linear, and the products over them. The products have the contract
 * of bt_matmul_fn (kernels.h): outputs in panels of 16, x[T, ldx] and y[T, ldy] f32, ldx >= K, ldy >= N, T >= 1; only
 * panels [p0, p1) are computed; y overlaps nothing; bias is added last (NULL: nothing added).
 *
 *   F16   bt_matmul_fn over f16 panels (kernels.h).
 *   INT8  groups of G inputs, G = 32 (the blocks of a file's Q8_0) or G = K (one scale for each output):
 *         w[n][k] = d[n][g] * q[n][k], q in [-128, 127], d a finite f16.
 *   FP4   E0M4 (Transformer-Lite, arXiv 2403.20041), groups of 32 inputs: w[n][k] = d[n][g] * q[n][k] + m[n][g], q in
 *         [0, 15], d and m finite f16. A code q is decoded to the float h with bits 0x3F800000 | (q << 19). h is 1 +
 *         q / 16, so w = 16 d h + (m - 16 d).
 *   MX    MXFP4 of the Open Compute Project's microscaling formats, as a file has it: E2M1 codes and one E8M0 scale for
 *         32 inputs. w[n][k] = d[n][g] * q[n][k], q in {0, 1, 2, 3, 4, 6, 8, 12} and these negated (twice the code's
 *         number; both codes of zero are +0), d = 2^(e - 128) for a byte e. So w is exact wherever it is finite.
 *         e = 255, a NaN in that standard, is 2^127, as ggml reads it; a weight that is not finite is refused when a
 *         file is converted.
 *
 * Panel p of a matrix begins at wp + p * bt_form_panel_bytes(form, G, K), and holds its groups one after the other; MX
 * holds the codes of all groups, then their scales. The last group may have fewer inputs, K - G * (groups - 1), but
 * takes the full bytes, padded with zero codes. A group is
 *   INT8  d of the 16 outputs as f16, then q[G inputs][16 outputs] int8               (32 + 16 G bytes)
 *   FP4   d, then m of the 16 outputs as f16, then 4 x 64 bytes of codes              (320 bytes, 5.0 bits a weight)
 *         64 bytes hold 8 inputs: input i (0..7) of output j is in byte 16 (j / 4) + 8 (i / 2 % 2) + 2 (j % 4) + i % 2,
 *         i < 4 in its low four bits.
 *   MX    4 x 64 bytes of codes as FP4's, a code's sign in its highest bit; e of the 16 outputs (272 bytes, 4.25 bits a
 *         weight)
 * Outputs past N have d = m = 0, or e = 0, and zero codes. wp is 64-byte aligned, and panel bytes of INT8, FP4 and MX
 * are rounded up to a multiple of 64, so that each panel is aligned too.
 *
 * Orders of each output and row, the same at every T, number of threads and instruction set:
 *   INT8  for each group ascending: s = fma chain in ascending k of (float)q * x, from +0; acc = fma(d, s, acc), acc
 *         from +0
 *   MX    as INT8
 *   FP4   for each group ascending: s = fma chain in ascending k of h * x, from +0; xs = chain of adds of x in
 *         ascending k, from +0; acc = fma(16 d, s, acc), then acc = fma(m - 16 d, xs, acc), acc from +0.
 *         16 d and m - 16 d are f32, one rounding each */
typedef enum bt_form { BT_FORM_F16 = 0, BT_FORM_INT8, BT_FORM_FP4, BT_FORM_MX } bt_form;
/* For kernels: bytes 2 and 3 of the float q, for the codes 0 to 7 from the lowest byte on. Codes 8 to 15 have the same
 * bytes, but for the second of them, BT_MX_SECOND_NEG. */
#define BT_MX_FIRST      0x4000c08040008000
#define BT_MX_SECOND     0x4141404040403f00
#define BT_MX_SECOND_NEG ((long long)0xc1c1c0c0c0c0bf00)
/* q of a code, and d of an e; files' rows are read by them too. */
static inline int bt_mx_q(unsigned code)
{
    static const int8_t q[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return q[code & 15];
}
static inline float bt_mx_d(uint8_t e)
{
    const uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;
    float d;
    memcpy(&d, &bits, sizeof d);
    return d;
}
enum { BT_FORM_GROUP = 32 }; /* inputs in a group of FP4 and MX, and of INT8 in a file's blocks */

/* Bytes of one panel of 16 outputs with K inputs. group is G; F16, FP4 and MX do not read it. */
size_t bt_form_panel_bytes(bt_form form, size_t group, size_t k);

typedef void bt_matmul8_fn(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t group,
                           size_t p0, size_t p1);
/* xs: the sums of x over groups, made by bt_fp4_sums_fn. */
typedef void bt_matmul4_fn(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                           size_t p1, const float *restrict xs);
typedef void bt_matmul_mx_fn(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                             const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                             size_t p1);
/* Fills xs[T][ceil(K / 32)], the xs of the orders above, which serve all matrices over one x. The array takes
 * bt_form_fp4_sums_bytes, a multiple of 64. */
typedef void bt_fp4_sums_fn(float *restrict xs, const float *restrict x, size_t ldx, size_t t, size_t k);
size_t bt_form_fp4_sums_bytes(size_t t, size_t k);

/* Write group g of output n, inputs [g * G, g * G + count), 1 <= count <= G; panels start as zeroed memory. */
void bt_form_int8_put(uint8_t *wp, size_t group, size_t k, size_t n, size_t g, uint16_t d, const int8_t *q,
                      size_t count);
void bt_form_fp4_put(uint8_t *wp, size_t k, size_t n, size_t g, uint16_t d, uint16_t m, const uint8_t *q, size_t count);
void bt_form_mx_put(uint8_t *wp, size_t k, size_t n, size_t g, uint8_t e, const uint8_t *q, size_t count);
/* The weight of input `at` of output n, read from its panel and rounded to f32. */
float bt_form_value(const uint8_t *wp, bt_form form, size_t group, size_t k, size_t n, size_t at);
#endif
