/* The integer matrix product for AVX-VNNI: dpbusd takes unsigned by signed bytes and adds four products to each sum,
 * modulo 2^32. Inputs go in as x + 128, and 128 * colsum comes off at the end. */
#include "kernels/int_variant.h"

#if defined(__AVXVNNI__)
#include <immintrin.h>

#define INT_VARIANT(name) name##_avxvnni
#define INT_INLINE        static inline __attribute__((always_inline, unused))
#define TILE_ROWS         6
#define TILE_PANELS       1

typedef struct sums {
    __m256i a, b;
} sums;

INT_INLINE sums int_zero(void) { return (sums){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
INT_INLINE sums int_dot(sums sum, int32_t x, const int8_t *w)
{
    const __m256i v = _mm256_xor_si256(_mm256_set1_epi32(x), _mm256_set1_epi8(-128));
    return (sums){_mm256_dpbusd_avx_epi32(sum.a, v, _mm256_load_si256((const void *)w)),
                  _mm256_dpbusd_avx_epi32(sum.b, v, _mm256_load_si256((const void *)(w + 32)))};
}
INT_INLINE __m256i less_128(__m256i sum, const int32_t *colsum)
{
    return _mm256_sub_epi32(sum, _mm256_slli_epi32(_mm256_loadu_si256((const void *)colsum), 7));
}
INT_INLINE void int_store(int32_t *p, sums sum, const int32_t *colsum)
{
    _mm256_storeu_si256((void *)p, less_128(sum.a, colsum));
    _mm256_storeu_si256((void *)(p + 8), less_128(sum.b, colsum + 8));
}

#include "kernels/int_matmul_body.h"
#endif
