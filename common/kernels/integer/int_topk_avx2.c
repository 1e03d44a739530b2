/* bt_int_topk for AVX2: int_topk_body.h over 8 lanes. */
#include "kernels/variant.h"

#if defined(__AVX2__)
#include <immintrin.h>

#define TOPK bt_int_topk_avx2
enum { LANES = 8 };
typedef __m256i lanes;

/* lanes_of[mask]: the numbers of the lanes whose bits the mask has, ascending, one byte each. */
#define LANE(m, i) \
    ((uint64_t)((m) >> (i)&1) * (i) << 8 * __builtin_popcount((unsigned)(m) & ((1u << (i)) - 1)))
#define LANES_OF(m) \
    (LANE(m, 0) | LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7))
#define LANES_OF4(m)  LANES_OF(m), LANES_OF((m) + 1), LANES_OF((m) + 2), LANES_OF((m) + 3)
#define LANES_OF16(m) LANES_OF4(m), LANES_OF4((m) + 4), LANES_OF4((m) + 8), LANES_OF4((m) + 12)
#define LANES_OF64(m) LANES_OF16(m), LANES_OF16((m) + 16), LANES_OF16((m) + 32), LANES_OF16((m) + 48)
static const uint64_t lanes_of[256] = {LANES_OF64(0), LANES_OF64(64), LANES_OF64(128), LANES_OF64(192)};

static inline lanes lanes_set1(int32_t x) { return _mm256_set1_epi32(x); }
static inline lanes lanes_from(int32_t from)
{
    return _mm256_add_epi32(_mm256_set1_epi32(from), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline lanes lanes_load(const int32_t *p) { return _mm256_loadu_si256((const void *)p); }
static inline void lanes_store(int32_t *p, lanes x) { _mm256_storeu_si256((void *)p, x); }
static inline lanes lanes_shifted(const int32_t *p, const uint8_t *shift)
{
    return _mm256_sllv_epi32(lanes_load(p), _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)shift)));
}
static inline unsigned lanes_above(lanes x, lanes y)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(x, y)));
}
static inline lanes lanes_count_above(lanes count, lanes x, lanes y)
{
    return _mm256_sub_epi32(count, _mm256_cmpgt_epi32(x, y));
}
static inline size_t keep(void *to, lanes x, unsigned mask)
{
    const lanes from = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)&lanes_of[mask]));
    _mm256_storeu_si256(to, _mm256_permutevar8x32_epi32(x, from));
    return (size_t)__builtin_popcount(mask);
}

#include "kernels/integer/int_topk_body.h"
#endif
