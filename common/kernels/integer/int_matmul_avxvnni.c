/* The integer matrix product for AVX-VNNI. dpbusd adds four products of unsigned by signed bytes to each sum,
 * modulo 2^32. Inputs are given as x + 128, so sums start from -128 * colsum. */
#include "kernels/variant.h"

#if defined(__AVXVNNI__)
#define TILE_ROWS   3
#define TILE_PANELS 2
#define VECS        2

enum { CHUNK_K4 = 160, EXTRAS_HERE = 1 };
#include "kernels/integer/int_extras.h"

typedef __m256i vec, group;

#include "kernels/integer/int_vnni_body.h"

INT_INLINE group int_group(const uint8_t *x, size_t k) { return _mm256_set1_epi32(four_of(x, k)); }
INT_INLINE vec int_dot(vec sum, group x, const int8_t *w, int is_copy)
{
    (void)is_copy;
    return _mm256_dpbusd_avx_epi32(sum, x, _mm256_load_si256((const void *)w));
}
INT_INLINE vec int_extra(vec sum, group x, int16_t times, const int8_t *w, int is_copy)
{
    const group one = int_dot(_mm256_setzero_si256(), x, w, is_copy);
    return _mm256_add_epi32(sum, _mm256_mullo_epi32(one, _mm256_set1_epi32(times)));
}

INT_INLINE vec int_start(const uint8_t *x, size_t n, const int32_t *colsum)
{
    (void)x, (void)n;
    const __m256i all = _mm256_slli_epi32(_mm256_loadu_si256((const void *)colsum), 7);
    return _mm256_sub_epi32(_mm256_setzero_si256(), all);
}
INT_INLINE vec int_resume(const uint8_t *x, size_t n, const int32_t *acc)
{
    (void)x, (void)n;
    return _mm256_loadu_si256((const void *)acc);
}
INT_INLINE void int_store(int32_t *acc, vec sum) { _mm256_storeu_si256((void *)acc, sum); }

#define INT_PRODUCT product
#include "kernels/integer/int_matmul_body.h"

void bt_int_prepare_avxvnni(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x,
                            bool *is_left)
{
    prepare(to, r0, r1, x, is_left);
}

void bt_int_matmul_avxvnni(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                           size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                           size_t p1, void *restrict scratch)
{
    product(hi, ldacc, x, x->memory, row, t, wp, colsum, p0, p1, scratch);
    if (x->is_wide) product(lo, ldacc, x, x->memory + plane_bytes(x), row, t, wp, colsum, p0, p1, scratch);
}
#endif
