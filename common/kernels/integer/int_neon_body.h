/* The integer matrix product for AArch64; included by int_matmul_neon.c, int_matmul_dotprod.c and int_matmul_i8mm.c
 * after their vec4_dot. Products are of signed bytes, so inputs are not changed and sums start from 0; wide inputs are
 * two planes. A panel's 16 outputs are four registers of sums: 3 rows by 2 panels take 24 of 32. No include guard. */
#define TILE_ROWS   3
#define TILE_PANELS 2
#define VECS        4

typedef int32x4_t vec;
typedef int8x16_t group;

INT_INLINE void fill_record(uint8_t *to, const int8_t *from, size_t n) { memcpy(to, from, n); }
#include "kernels/integer/int_planes_body.h"

INT_INLINE group int_group(const uint8_t *x, size_t k)
{
    int32_t four;
    memcpy(&four, x + 4 * k, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
INT_INLINE vec int_dot(vec sum, group x, const int8_t *w, int is_copy)
{
    (void)is_copy;
    return vec4_dot(sum, x, vld1q_s8(w));
}
INT_INLINE vec int_extra(vec sum, group x, int16_t times, const int8_t *w, int is_copy)
{
    return vmlaq_n_s32(sum, int_dot(vdupq_n_s32(0), x, w, is_copy), times);
}
INT_INLINE vec int_start(const uint8_t *x, size_t n, const int32_t *colsum)
{
    (void)x, (void)n, (void)colsum;
    return vdupq_n_s32(0);
}
INT_INLINE vec int_resume(const uint8_t *x, size_t n, const int32_t *acc)
{
    (void)x, (void)n;
    return vld1q_s32(acc);
}
INT_INLINE void int_store(int32_t *acc, vec sum) { vst1q_s32(acc, sum); }

#define INT_PRODUCT product
#include "kernels/integer/int_matmul_body.h"
