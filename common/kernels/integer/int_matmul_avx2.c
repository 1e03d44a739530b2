/* The integer matrix product for AVX2. maddubs multiplies unsigned by signed bytes and adds two products in
 * 16 bits, where sums saturate. Weights are given as w + 128, at most 255, so sums start from -128 times the
 * sum of the row's inputs. No sum saturates if every two neighbouring inputs add up to [-128, 128], as inputs
 * of different signs always do. In the few other pairs preparation reduces one input; what it took away
 * becomes an extra (int_extras.h), as a short shadow does. (Multiplying |x| by w or -w would need no extras,
 * but a fourth instruction where this needs three.) */
#include "kernels/cores.h"
#include "kernels/variant.h"

#if defined(__AVX2__)
enum { CHUNK_K4 = 160, EXTRAS_HERE = 7, PAIR_MAX = 128 };
#include "kernels/integer/int_extras.h"
#include "kernels/integer/int_wide_avx2.h"

#define TILE_ROWS   3
#define TILE_PANELS 2
#define VECS        2
#define COPY_ROWS   bt_cores_now.copy_rows

typedef __m256i vec, group;

/* ---- preparation ---- */

/* The sums of 16 pairs of inputs; *beyond: by how much each sum leaves [-PAIR_MAX, PAIR_MAX]. */
INT_INLINE __m256i pairs_of(__m256i x, __m256i *beyond)
{
    const __m256i sum = _mm256_maddubs_epi16(_mm256_set1_epi8(1), x);
    const __m256i fits =
        _mm256_max_epi16(_mm256_min_epi16(sum, _mm256_set1_epi16(PAIR_MAX)), _mm256_set1_epi16(-PAIR_MAX));
    *beyond = _mm256_sub_epi16(sum, fits);
    return sum;
}

/* Reduces the first input of each of the group's two pairs by what its sum is beyond; both inputs of such a
 * pair have the sum's sign. Returns the group of what was taken. */
static int32_t cut(uint8_t *x)
{
    int8_t four[4], taken[4] = {0};
    int32_t away;
    memcpy(four, x, 4);
    for (int i = 0; i < 4; i += 2) {
        const int sum = four[i] + four[i + 1], fits = sum > PAIR_MAX    ? PAIR_MAX
                                                      : sum < -PAIR_MAX ? -PAIR_MAX
                                                                        : sum;
        taken[i] = (int8_t)(sum - fits);
        four[i] = (int8_t)(four[i] - taken[i]);
    }
    memcpy(x, four, 4);
    memcpy(&away, taken, 4);
    return away;
}

static void prepare_record(uint8_t *to, extra *more, const int8_t *x, size_t n)
{
    const __m256i one = _mm256_set1_epi16(1);
    beside b = {0};
    __m256i sum = _mm256_setzero_si256(), beyond;
    for (size_t k = 0, left; k < n; k += 8) {
        __m256i v;
        left = n - k;
        if (left >= 8) {
            v = _mm256_loadu_si256((const void *)(x + 4 * k));
            _mm256_storeu_si256((void *)(to + 4 * k), v);
        } else {
            int32_t last[8] = {0};
            memcpy(last, x + 4 * k, 4 * left);
            memcpy(to + 4 * k, last, 4 * left);
            v = _mm256_loadu_si256((const void *)last);
        }
        const __m256i pairs = pairs_of(v, &beyond);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, one));
        if (_mm256_testz_si256(beyond, beyond)) continue;
        const __m256i none = _mm256_cmpeq_epi32(beyond, _mm256_setzero_si256());
        for (uint32_t groups = ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(none)) & 255; groups;
             groups &= groups - 1) {
            const uint32_t at = (uint32_t)k + (uint32_t)__builtin_ctz(groups);
            extra_put(&b, more, (extra){(uint16_t)at, 1, cut(to + 4 * at)});
        }
    }
    int32_t lanes[8];
    _mm256_storeu_si256((void *)lanes, sum);
    for (int i = 0; i < 8; i++) b.start -= 128 * lanes[i];
    memcpy(to + 4 * n, &b, sizeof b);
}

void bt_int_prepare_avx2(const bt_int_inputs *to, size_t r0, size_t r1, const bt_int_rows *x, bool *is_left)
{
    const size_t k4 = to->k4;
    const int_chunks chunks = int_chunks_of(k4, CHUNK_K4, BESIDE);
    if (to->is_wide) int_wide_prepare(to, r0, r1, x);
    for (size_t row = r0; row < r1; row++) {
        for (size_t c = 0, k = 0; !to->is_wide && c < chunks.count; c++, k += chunks.n) {
            const size_t n = k4 - k < chunks.n ? k4 - k : chunks.n;
            const extras_at at = extras_of(to, &chunks, row, c);
            prepare_record(at.beside - 4 * n, at.more, x->hi + row * x->ld + 4 * k, n);
        }
        is_left[row] = extras_is_left(to, &chunks, row, x, 128);
    }
}

/* ---- product ---- */

INT_INLINE group int_group(const uint8_t *x, size_t k)
{
    int32_t four;
    memcpy(&four, x + 4 * k, sizeof four);
    return _mm256_set1_epi32(four);
}
/* The barriers keep the products in order, each with its weights straight from memory: 12 sums leave four
 * registers for all else. */
INT_INLINE vec int_dot(vec sum, group x, const int8_t *w, int is_copy)
{
    __m256i v = _mm256_load_si256((const void *)w);
    if (!is_copy) v = _mm256_xor_si256(v, _mm256_set1_epi8(-128));
    __m256i y = _mm256_madd_epi16(_mm256_maddubs_epi16(v, x), _mm256_set1_epi16(1));
    __asm__("" : "+x"(y));
    return _mm256_add_epi32(sum, y);
}
#define INT_PIN(w) __asm__("" : "+r"(w))

INT_INLINE void int_copy(int8_t *restrict to, const int8_t *restrict w, size_t n)
{
    for (size_t i = 0; i < 64 * n; i += 32)
        _mm256_store_si256((void *)(to + i), _mm256_xor_si256(_mm256_load_si256((const void *)(w + i)),
                                                              _mm256_set1_epi8(-128)));
}

/* The start of a row's sums is divided over the chunks of K. */
INT_INLINE vec int_start(const uint8_t *x, size_t n, const int32_t *colsum)
{
    int32_t start;
    (void)colsum;
    memcpy(&start, x + 4 * n + offsetof(beside, start), sizeof start);
    return _mm256_set1_epi32(start);
}
INT_INLINE vec int_resume(const uint8_t *x, size_t n, const int32_t *acc)
{
    return _mm256_add_epi32(int_start(x, n, NULL), _mm256_loadu_si256((const void *)acc));
}
INT_INLINE void int_store(int32_t *acc, vec sum) { _mm256_storeu_si256((void *)acc, sum); }

INT_INLINE vec int_extra(vec sum, group x, int16_t times, const int8_t *w, int is_copy)
{
    __m256i v = _mm256_load_si256((const void *)w);
    if (!is_copy) v = _mm256_xor_si256(v, _mm256_set1_epi8(-128));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(v, x), _mm256_set1_epi16(times)));
}

#define INT_PRODUCT product
#include "kernels/integer/int_matmul_body.h"

void bt_int_matmul_avx2(int32_t *restrict hi, int32_t *restrict lo, size_t ldacc, const bt_int_inputs *x,
                        size_t row, size_t t, const int8_t *restrict wp, const int32_t *colsum, size_t p0,
                        size_t p1, void *restrict scratch)
{
    if (x->is_wide) int_wide_product(hi, lo, ldacc, x, row, t, wp, p0, p1, scratch);
    else product(hi, ldacc, x, x->memory, row, t, wp, colsum, p0, p1, scratch);
}
#endif
