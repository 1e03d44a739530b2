/* The k greatest in AVX2. A few numbers say between which two the least of the k greatest will lie; one pass
 * keeps what lies there, and the least is found among those by halving. That it lies elsewhere costs time,
 * not truth. */
#include "kernels/int_ops_variants.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <stdbool.h>

enum { MOST = 1 << 30, SAMPLES = 48, MARGIN = 5, SHORT = 192 };

/* The lanes of a mask's bits, ascending, a byte each. */
#define LANE(m, i) \
    ((uint64_t)((m) >> (i)&1) * (i) << 8 * __builtin_popcount((unsigned)(m) & ((1u << (i)) - 1)))
#define LANES(m) \
    (LANE(m, 0) | LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7))
#define LANES4(m)  LANES(m), LANES((m) + 1), LANES((m) + 2), LANES((m) + 3)
#define LANES16(m) LANES4(m), LANES4((m) + 4), LANES4((m) + 8), LANES4((m) + 12)
#define LANES64(m) LANES16(m), LANES16((m) + 16), LANES16((m) + 32), LANES16((m) + 48)
static const uint64_t lanes_of[256] = {LANES64(0), LANES64(64), LANES64(128), LANES64(192)};

/* The lanes of v that the mask has go to `to`, one behind the other; 8 are written. Returns how many. */
static inline size_t keep(void *to, __m256i v, unsigned mask)
{
    const __m256i lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)&lanes_of[mask]));
    _mm256_storeu_si256(to, _mm256_permutevar8x32_epi32(v, lanes));
    return (size_t)__builtin_popcount(mask);
}

static inline unsigned bits(__m256i v) { return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(v)); }
/* Of the first n lanes. */
static inline unsigned first(size_t n) { return n < 8 ? (1u << n) - 1 : 255; }

static inline __m256i load(const int32_t *p, size_t n)
{
    if (n >= 8) return _mm256_loadu_si256((const void *)p);
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_epi32(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane));
}

/* How many of v[n] are above x. */
static size_t above(const int32_t *v, size_t n, int32_t x)
{
    const __m256i y = _mm256_set1_epi32(x);
    __m256i sum = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        sum = _mm256_sub_epi32(sum, _mm256_cmpgt_epi32(_mm256_loadu_si256((const void *)(v + i)), y));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    size_t count = (size_t)_mm_cvtsi128_si32(s) + (size_t)_mm_extract_epi32(s, 1);
    for (; i < n; i++) count += v[i] > x;
    return count;
}

/* v[i] = score[i] << shift[i], in place. */
static void shift_all(int32_t *v, const uint8_t *shift, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i by = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(shift + i)));
        _mm256_storeu_si256((void *)(v + i),
                            _mm256_sllv_epi32(_mm256_loadu_si256((const void *)(v + i)), by));
    }
    for (; i < n; i++) v[i] *= 1 << shift[i];
}

/* Two numbers between which the k-th greatest of v[n] probably lies. */
static void guess(int32_t *low, int32_t *high, const int32_t *v, size_t n, size_t k)
{
    int32_t s[SAMPLES]; /* falling */
    for (size_t i = 0; i < SAMPLES; i++) {
        const int32_t x = v[i * n / SAMPLES];
        size_t j = i;
        for (; j > 0 && s[j - 1] < x; j--) s[j] = s[j - 1];
        s[j] = x;
    }
    const size_t rank = k * SAMPLES / n;
    *high = rank > MARGIN ? s[rank - MARGIN] : MOST;
    *low = rank + MARGIN < SAMPLES ? s[rank + MARGIN] : -MOST;
}

/* Of v[n] those in [low, high] to `to`. Returns how many; *greater: how many are above high. */
static size_t between(int32_t *to, size_t *greater, const int32_t *v, size_t n, int32_t low, int32_t high)
{
    const __m256i l = _mm256_set1_epi32(low), h = _mm256_set1_epi32(high);
    size_t kept = 0;
    *greater = 0;
    for (size_t i = 0; i < n; i += 8) {
        const __m256i x = load(v + i, n - i);
        const unsigned up = bits(_mm256_cmpgt_epi32(x, h)), down = bits(_mm256_cmpgt_epi32(l, x)),
                       all = first(n - i);
        *greater += (size_t)__builtin_popcount(up & all);
        kept += keep(to + kept, x, ~(up | down) & all);
    }
    return kept;
}

/* The k-th greatest of v[n], which lies in [low, high]. */
static int32_t halve(const int32_t *v, size_t n, size_t k, int32_t low, int32_t high)
{
    while (low < high) {
        const int32_t middle = (int32_t)(((int64_t)low + high + 1) >> 1);
        if (above(v, n, middle - 1) >= k) low = middle;
        else high = middle - 1;
    }
    return low;
}

static int32_t least_of(const int32_t *v, size_t n, size_t k, int32_t *scratch)
{
    int32_t low = -MOST, high = MOST;
    if (n > SHORT) {
        size_t greater;
        guess(&low, &high, v, n, k);
        const size_t kept = between(scratch, &greater, v, n, low, high);
        if (greater < k && k - greater <= kept) return halve(scratch, kept, k - greater, low, high);
        if (greater >= k) low = high + 1, high = MOST;
        else high = low - 1, low = -MOST;
    }
    return halve(v, n, k, low, high);
}

void bt_int_topk_avx2(uint32_t *restrict at, size_t k, int32_t *restrict score, const uint8_t *restrict shift,
                      size_t n, int32_t *restrict scratch)
{
    const __m256i step = _mm256_set1_epi32(8);
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    shift_all(score, shift, n);
    const int32_t least = least_of(score, n, k, scratch);
    size_t equal = k - above(score, n, least), count = 0;
    const __m256i l = _mm256_set1_epi32(least);
    for (size_t i = 0; i < n; i += 8, lane = _mm256_add_epi32(lane, step)) {
        const __m256i x = load(score + i, n - i);
        unsigned take = bits(_mm256_cmpgt_epi32(x, l)) & first(n - i);
        for (unsigned same = bits(_mm256_cmpeq_epi32(x, l)) & first(n - i); same && equal; same &= same - 1) {
            take |= same & -same;
            equal--;
        }
        count += keep(at + count, lane, take);
    }
}
#endif
