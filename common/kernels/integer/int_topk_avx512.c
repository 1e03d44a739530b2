/* bt_int_topk for AVX-512: int_topk_body.h over 16 lanes. */
#include "kernels/variant.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#define TOPK bt_int_topk_avx512
enum { LANES = 16 };
typedef __m512i lanes;

static inline lanes lanes_set1(int32_t x) { return _mm512_set1_epi32(x); }
static inline lanes lanes_from(int32_t from)
{
    return _mm512_add_epi32(lanes_set1(from),
                            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
static inline lanes lanes_load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void lanes_store(int32_t *p, lanes x) { _mm512_storeu_si512(p, x); }
static inline lanes lanes_shifted(const int32_t *p, const uint8_t *shift)
{
    return _mm512_sllv_epi32(lanes_load(p), _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)shift)));
}
static inline unsigned lanes_above(lanes x, lanes y) { return _mm512_cmpgt_epi32_mask(x, y); }
static inline lanes lanes_count_above(lanes count, lanes x, lanes y)
{
    return _mm512_mask_add_epi32(count, _mm512_cmpgt_epi32_mask(x, y), count, lanes_set1(1));
}
/* Compresses in a register, because compressing into memory takes ten times as long on Zen 4. */
static inline size_t keep(void *to, lanes x, unsigned mask)
{
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)mask, x));
    return (size_t)__builtin_popcount(mask);
}

#include "kernels/integer/int_topk_body.h"
#endif
