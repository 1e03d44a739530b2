/* The integer matrix product for AVX-VNNI. dpbusd multiplies unsigned by signed bytes and adds four products
 * to each sum, modulo 2^32: inputs go in as x + 128, and the sums start from -128 * colsum. */
#include "kernels/int_variant.h"

#if defined(__AVXVNNI__)
#include "kernels/int_simd.h"

#define INT_MATMUL  bt_int_matmul_avxvnni
#define TILE_ROWS   3
#define TILE_PANELS 2
#define VECS        2

typedef __m256i vec, group;

#include "kernels/int_vnni_body.h"

INT_INLINE group int_group(const inputs *in, size_t row, size_t k)
{
    return _mm256_set1_epi32(in->x[row][k]);
}
INT_INLINE vec int_dot(vec sum, group x, const int8_t *w)
{
    return _mm256_dpbusd_avx_epi32(sum, x, _mm256_load_si256((const void *)w));
}
#define INT_PIN(w) ((void)(w))

INT_INLINE vec int_start(const inputs *in, size_t row, const int32_t *colsum)
{
    (void)in, (void)row;
    const __m256i all = _mm256_slli_epi32(_mm256_loadu_si256((const void *)colsum), 7);
    return _mm256_sub_epi32(_mm256_setzero_si256(), all);
}
INT_INLINE vec int_resume(const inputs *in, size_t row, const int32_t *acc)
{
    (void)in, (void)row;
    return _mm256_loadu_si256((const void *)acc);
}
INT_INLINE void int_store(int32_t *acc, vec sum) { _mm256_storeu_si256((void *)acc, sum); }

#include "kernels/int_matmul_body.h"
#endif
