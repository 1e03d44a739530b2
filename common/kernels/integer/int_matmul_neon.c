/* The integer matrix product for NEON without dotprod. Bytes are multiplied into 16 bits, where the sum of
 * two products fits (|x| <= 128, |w| <= 127). So neighbours are added in 16 bits, and then pairs of
 * these sums in 32. */
#include "kernels/variant.h"

#if defined(__aarch64__)
enum { CHUNK_K4 = 160, EXTRAS_HERE = 1 };
#include "kernels/integer/int_extras.h"

/* Adds to each lane of sum the products of four bytes. */
INT_INLINE int32x4_t vec4_dot(int32x4_t sum, int8x16_t x, int8x16_t w)
{
    const int16x8_t first = vmull_s8(vget_low_s8(x), vget_low_s8(w)), last = vmull_high_s8(x, w);
    return vpadalq_s16(sum, vpaddq_s16(first, last));
}

#include "kernels/integer/int_neon_body.h"

void bt_int_prepare_neon(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x, bool *is_left)
{
    prepare(to, r0, r1, x, is_left);
}

void bt_int_matmul_neon(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                        size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                        size_t p1, void *restrict scratch)
{
    product(hi, ldacc, x, x->memory, row, t, wp, colsum, p0, p1, scratch);
    if (x->is_wide) product(lo, ldacc, x, x->memory + plane_bytes(x), row, t, wp, colsum, p0, p1, scratch);
}
#endif
