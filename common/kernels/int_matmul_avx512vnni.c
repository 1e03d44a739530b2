/* The integer matrix product for AVX-512 VNNI. dpbusd multiplies unsigned by signed bytes and adds four
 * products to each sum, modulo 2^32: inputs go in as x + 128, and the sums start from -128 * colsum. */
#include "kernels/int_variant.h"

#if defined(__AVX512VNNI__)
#include "kernels/int_simd.h"

#define INT_MATMUL  bt_int_matmul_avx512vnni
#define TILE_ROWS   6
#define TILE_PANELS 4
#define VECS        1

typedef __m512i vec, group;

#include "kernels/int_vnni_body.h"

INT_INLINE group int_group(const inputs *in, size_t row, size_t k)
{
    return _mm512_set1_epi32(in->x[row][k]);
}
INT_INLINE vec int_dot(vec sum, group x, const int8_t *w)
{
    return _mm512_dpbusd_epi32(sum, x, _mm512_load_si512(w));
}
#define INT_PIN(w) ((void)(w))

INT_INLINE vec int_start(const inputs *in, size_t row, const int32_t *colsum)
{
    (void)in, (void)row;
    return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(_mm512_loadu_si512(colsum), 7));
}
INT_INLINE vec int_resume(const inputs *in, size_t row, const int32_t *acc)
{
    (void)in, (void)row;
    return _mm512_loadu_si512(acc);
}
INT_INLINE void int_store(int32_t *acc, vec sum) { _mm512_storeu_si512(acc, sum); }

#include "kernels/int_matmul_body.h"
#endif
