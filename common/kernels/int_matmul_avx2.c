/* The integer matrix product for AVX2. maddubs takes unsigned by signed bytes: |x| and sign(w, x). Its sums of two
 * products are at most 2 * 128 * 127 and cannot saturate. */
#include "kernels/int_variant.h"

#if defined(__AVX2__)
#include <immintrin.h>

#define INT_VARIANT(name) name##_avx2
#define INT_INLINE        static inline __attribute__((always_inline, unused))
#define TILE_ROWS         6
#define TILE_PANELS       1

typedef struct sums {
    __m256i a, b;
} sums;

INT_INLINE sums int_zero(void) { return (sums){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
INT_INLINE __m256i dot8(__m256i sum, __m256i x, __m256i abs_x, const int8_t *w)
{
    const __m256i v = _mm256_sign_epi8(_mm256_load_si256((const void *)w), x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(abs_x, v), _mm256_set1_epi16(1)));
}
INT_INLINE sums int_dot(sums sum, int32_t x, const int8_t *w)
{
    const __m256i v = _mm256_set1_epi32(x), abs_v = _mm256_abs_epi8(v);
    return (sums){dot8(sum.a, v, abs_v, w), dot8(sum.b, v, abs_v, w + 32)};
}
INT_INLINE void int_store(int32_t *p, sums sum, const int32_t *colsum)
{
    (void)colsum;
    _mm256_storeu_si256((void *)p, sum.a), _mm256_storeu_si256((void *)(p + 8), sum.b);
}

#include "kernels/int_matmul_body.h"
#endif
