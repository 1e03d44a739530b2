/* The integer matrix product for AVX2. maddubs multiplies unsigned by signed bytes: |x| by w where x >= 0,
 * and |x| by ~w where x < 0. As -w = ~w + 1, the sum over those x of |x| is missing, which is the same for
 * all outputs: the sums start from it. ~w is one of the cheapest instructions, where the instruction that
 * negates costs as much as a product. Two products are within [-2 * 128 * 128, 2 * 128 * 127] and cannot
 * saturate. */
#include "kernels/int_variant.h"

#if defined(__AVX2__)
#include "kernels/int_simd.h"

#define INT_MATMUL  bt_int_matmul_avx2
#define TILE_ROWS   3
#define TILE_PANELS 2
#define VECS        2

typedef __m256i vec;
typedef struct inputs {
    _Alignas(32) int32_t size[BLOCK_ROWS][BLOCK_K4],
        minus[BLOCK_ROWS][BLOCK_K4]; /* |x|; all ones where x < 0 */
    int32_t below[BLOCK_ROWS];       /* the sum of |x| where x < 0 */
} inputs;
typedef struct group {
    __m256i size, minus;
} group;

INT_INLINE __m256i prepare32(__m256i x, __m256i *minus)
{
    *minus = _mm256_cmpgt_epi8(_mm256_setzero_si256(), x);
    return _mm256_abs_epi8(x);
}
INT_INLINE void int_prepare(inputs *in, size_t row, const int8_t *x, size_t n)
{
    __m256i sum = _mm256_setzero_si256(), minus;
    size_t k = 0;
    for (; k + 8 <= n; k += 8) {
        const __m256i size = prepare32(_mm256_loadu_si256((const void *)(x + 4 * k)), &minus);
        _mm256_storeu_si256((void *)(in->size[row] + k), size);
        _mm256_storeu_si256((void *)(in->minus[row] + k), minus);
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_and_si256(size, minus), _mm256_setzero_si256()));
    }
    for (; k < n; k++) {
        int32_t four;
        memcpy(&four, x + 4 * k, sizeof four);
        const __m256i size = prepare32(_mm256_castsi128_si256(_mm_cvtsi32_si128(four)), &minus);
        in->size[row][k] = _mm256_cvtsi256_si32(size);
        in->minus[row][k] = _mm256_cvtsi256_si32(minus);
        const __m256i low = _mm256_setr_epi32(-1, 0, 0, 0, 0, 0, 0, 0), only = _mm256_and_si256(size, low);
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_and_si256(only, minus), _mm256_setzero_si256()));
    }
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    in->below[row] = _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

INT_INLINE group int_group(const inputs *in, size_t row, size_t k)
{
    return (group){_mm256_set1_epi32(in->size[row][k]), _mm256_set1_epi32(in->minus[row][k])};
}
/* The barriers keep one product after the other, each with its weights straight from memory: 12 sums leave
 * four registers for all else. */
INT_INLINE vec int_dot(vec sum, group g, const int8_t *w)
{
    const __m256i v = _mm256_xor_si256(g.minus, _mm256_load_si256((const void *)w));
    __m256i y = _mm256_madd_epi16(_mm256_maddubs_epi16(g.size, v), _mm256_set1_epi16(1));
    __asm__("" : "+x"(y));
    return _mm256_add_epi32(sum, y);
}
#define INT_PIN(w) __asm__("" : "+r"(w))

/* Each chunk of K misses its own part. */
INT_INLINE vec int_start(const inputs *in, size_t row, const int32_t *colsum)
{
    (void)colsum;
    return _mm256_set1_epi32(in->below[row]);
}
INT_INLINE vec int_resume(const inputs *in, size_t row, const int32_t *acc)
{
    return _mm256_add_epi32(_mm256_set1_epi32(in->below[row]), _mm256_loadu_si256((const void *)acc));
}
INT_INLINE void int_store(int32_t *acc, vec sum) { _mm256_storeu_si256((void *)acc, sum); }

#include "kernels/int_matmul_body.h"
#endif
