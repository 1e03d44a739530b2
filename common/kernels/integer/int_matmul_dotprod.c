/* The integer matrix product for AArch64 with dotprod. SDOT adds four products of signed bytes to a sum. */
#include "kernels/variant.h"

#if defined(__ARM_FEATURE_DOTPROD)
enum { CHUNK_K4 = 160, EXTRAS_HERE = 1 };
#include "kernels/integer/int_extras.h"

/* Adds to each lane of sum the products of four bytes. */
INT_INLINE int32x4_t vec4_dot(int32x4_t sum, int8x16_t x, int8x16_t w) { return vdotq_s32(sum, x, w); }

#include "kernels/integer/int_neon_body.h"

void bt_int_prepare_dotprod(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x,
                            bool *is_left)
{
    prepare(to, r0, r1, x, is_left);
}

void bt_int_matmul_dotprod(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                           size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                           size_t p1, void *restrict scratch)
{
    product(hi, ldacc, x, x->memory, row, t, wp, colsum, p0, p1, scratch);
    if (x->is_wide) product(lo, ldacc, x, x->memory + plane_bytes(x), row, t, wp, colsum, p0, p1, scratch);
}
#endif
