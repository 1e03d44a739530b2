/* Inputs prepared as x + 128 in unsigned bytes, for both VNNI variants. Included after their vec and group,
 * before their int_dot. No include guard. */
INT_INLINE void fill_record(uint8_t *to, const int8_t *from, size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256i v = _mm256_loadu_si256((const void *)(from + i));
        _mm256_storeu_si256((void *)(to + i), _mm256_xor_si256(v, _mm256_set1_epi8(-128)));
    }
    for (; i < n; i++) to[i] = (uint8_t)(from[i] + 128);
}
#include "kernels/integer/int_planes_body.h"

INT_INLINE int32_t four_of(const uint8_t *x, size_t k)
{
    int32_t four;
    memcpy(&four, x + 4 * k, sizeof four);
    return four;
}
