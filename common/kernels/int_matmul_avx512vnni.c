/* The integer matrix product for AVX-512 VNNI: dpbusd takes unsigned by signed bytes and adds four products to each sum,
 * modulo 2^32. Inputs go in as x + 128, and 128 * colsum comes off at the end. */
#include "kernels/int_variant.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

#define INT_VARIANT(name) name##_avx512vnni
#define INT_INLINE        static inline __attribute__((always_inline, unused))
#define TILE_ROWS         6
#define TILE_PANELS       4

typedef __m512i sums;

INT_INLINE sums int_zero(void) { return _mm512_setzero_si512(); }
INT_INLINE sums int_dot(sums sum, int32_t x, const int8_t *w)
{
    const __m512i v = _mm512_xor_si512(_mm512_set1_epi32(x), _mm512_set1_epi8(-128));
    return _mm512_dpbusd_epi32(sum, v, _mm512_load_si512(w));
}
INT_INLINE void int_store(int32_t *p, sums sum, const int32_t *colsum)
{
    _mm512_storeu_si512(p, _mm512_sub_epi32(sum, _mm512_slli_epi32(_mm512_loadu_si512(colsum), 7)));
}

#include "kernels/int_matmul_body.h"
#endif
