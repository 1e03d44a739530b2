/* The instructions that tests/emulated/simd.h writes out itself, against Intel's description of each, lane by
 * lane: conversions at their edges, masks that touch no other byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { LANES = 16 };
static const float some[LANES] = {0,        -0.0f,   1.5f,     2.5f,     -2.5f,      65504,
                                  65519.9f, 65520,   0x1p-24f, 0x1p-25f, 0x1.8p-25f, 2147483520.0f,
                                  -0x1p31f, 0x1p31f, -1e30f,   3.14159f};

static __m512 load(const float x[LANES]) { return _mm512_loadu_ps(x); }

/* A page that ends where nothing may be touched; ret: n floats before that end. */
static float *before_the_end(size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
    return (float *)(void *)(p + page) - n;
}

static void masked_loads_and_stores_touch_active_lanes_only(void **state)
{
    (void)state;
    for (size_t n = 0; n <= LANES; n++) {
        const __mmask16 mask = (__mmask16)((1u << n) - 1);
        float *p = before_the_end(n), got[LANES];
        memcpy(p, some, n * sizeof *p);
        _mm512_storeu_ps(got, _mm512_maskz_loadu_ps(mask, p));
        for (size_t i = 0; i < LANES; i++) assert_memory_equal(&got[i], i < n ? &some[i] : &some[0], 4);
        memset(p, 0, n * sizeof *p);
        _mm512_mask_storeu_ps(p, mask, load(some));
        assert_memory_equal(p, some, n * sizeof *p);
    }
    float all[LANES];
    memset(all, 0x5a, sizeof all);
    _mm512_mask_storeu_ps(all, 0x8421, load(some));
    for (size_t i = 0; i < LANES; i++) {
        const uint32_t kept = 0x5a5a5a5a;
        assert_memory_equal(&all[i], 0x8421 >> i & 1 ? (const void *)&some[i] : &kept, 4);
    }
}

static void lanes_move_as_described(void **state)
{
    (void)state;
    float low[LANES], high[LANES], halves[LANES], mixed[LANES], other[LANES];
    for (size_t i = 0; i < LANES; i++) other[i] = 100 + (float)i;
    _mm512_storeu_ps(low, _mm512_moveldup_ps(load(some)));
    _mm512_storeu_ps(high, _mm512_movehdup_ps(load(some)));
    _mm256_storeu_ps(halves, _mm512_extractf32x8_ps(load(some), 1));
    _mm256_storeu_ps(halves + 8, _mm512_extractf32x8_ps(load(some), 0));
    _mm512_storeu_ps(mixed, _mm512_shuffle_f32x4(load(some), load(other), 0xd8)); /* 3, 1 of the second; 2, 0
                                                                                   */
    for (size_t i = 0; i < LANES; i++) {
        assert_memory_equal(&low[i], &some[i & ~(size_t)1], 4);
        assert_memory_equal(&high[i], &some[i | 1], 4);
        assert_memory_equal(&halves[i], &some[(i + 8) % LANES], 4);
        const size_t quarter[4] = {0, 2, 1, 3};
        const size_t from = 4 * quarter[i / 4] + i % 4;
        assert_memory_equal(&mixed[i], i < 8 ? &some[from] : &other[from], 4);
    }
    const float first = _mm512_cvtss_f32(load(other));
    assert_true(first == 100);
}

static void integers_become_floats_rounded_once(void **state)
{
    (void)state;
    static const int32_t whole[LANES] = {0, 1, -1, 16777217, -16777217, 16777219, INT32_MAX, INT32_MIN,
                                         7, 8, 9,  10,       11,        12,       13,        -14};
    static const int64_t large[8] = {0,        -1,       INT64_MAX, INT64_MIN, (INT64_C(1) << 40) + 65537,
                                     16777217, 33554435, -5};
    static const double precise[8] = {0,        -0.0,    1e300, 0x1.000001p0, 0x1.0000010000001p0,
                                      0x1p-150, -1e-310, 3.5};
    float f[LANES], of_large[8], of_double[8];
    double d[8];
    int8_t small[LANES];
    int32_t wide[LANES], wide_u[LANES];
    _mm512_storeu_ps(f, _mm512_cvtepi32_ps(_mm512_loadu_si512(whole)));
    _mm512_storeu_pd(d, _mm512_cvtepi32_pd(_mm256_loadu_si256((const void *)whole)));
    _mm256_storeu_ps(of_large, _mm512_cvtepi64_ps(_mm512_loadu_si512(large)));
    _mm256_storeu_ps(of_double, _mm512_cvtpd_ps(_mm512_loadu_pd(precise)));
    for (int i = 0; i < LANES; i++) small[i] = (int8_t)(i * 17 - 128);
    _mm512_storeu_si512(wide, _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)small)));
    _mm512_storeu_si512(wide_u, _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)small)));
    for (size_t i = 0; i < LANES; i++) {
        assert_true(f[i] == (float)whole[i]);
        assert_int_equal(wide[i], small[i]);
        assert_int_equal(wide_u[i], (uint8_t)small[i]);
        if (i >= 8) continue;
        assert_true(d[i] == whole[i]);
        assert_true(of_large[i] == (float)large[i]);
        const float once = (float)precise[i];
        assert_memory_equal(&of_double[i], &once, 4);
    }
}

static void floats_become_integers_and_halves_to_nearest_even(void **state)
{
    (void)state;
    static const int32_t rounded[LANES] = {0, 0, 2, 2,          -2,        65504,     65520,     65520,
                                           0, 0, 0, 2147483520, INT32_MIN, INT32_MIN, INT32_MIN, 3};
    static const uint16_t half[LANES] = {0,      0x8000, 0x3e00, 0x4100, 0xc100, 0x7bff, 0x7bff, 0x7c00,
                                         0x0001, 0x0000, 0x0001, 0x7c00, 0xfc00, 0x7c00, 0xfc00, 0x4248};
    int32_t got[LANES];
    uint16_t h[LANES];
    float back[LANES];
    _mm512_storeu_si512(got, _mm512_cvtps_epi32(load(some)));
    _mm256_storeu_si256((void *)h, _mm512_cvtps_ph(load(some), _MM_FROUND_TO_NEAREST_INT));
    _mm512_storeu_ps(back, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)half)));
    for (size_t i = 0; i < LANES; i++) {
        assert_int_equal(got[i], rounded[i]);
        assert_int_equal(h[i], half[i]);
    }
    assert_true(back[2] == 1.5f && back[5] == 65504 && isinf(back[7]) && back[8] == 0x1p-24f &&
                back[15] == 3.140625f);
}

/* Four products of an unsigned and a signed byte each, added to 32 bits without saturation. */
static void dpbusd_adds_four_products(void **state)
{
    (void)state;
    uint8_t x[64];
    int8_t w[64];
    int32_t sum[16], got[16], got256[8];
    for (int i = 0; i < 64; i++) x[i] = (uint8_t)(i * 37 + 200), w[i] = (int8_t)(i * 91 - 128);
    for (int i = 0; i < 16; i++) sum[i] = i % 2 ? INT32_MAX - i : -1000 * i;
    const __m512i s = _mm512_loadu_si512(sum);
    _mm512_storeu_si512(got, _mm512_dpbusd_epi32(s, _mm512_loadu_si512(x), _mm512_loadu_si512(w)));
    _mm256_storeu_si256((void *)got256, _mm256_dpbusd_avx_epi32(_mm256_loadu_si256((const void *)sum),
                                                                _mm256_loadu_si256((const void *)x),
                                                                _mm256_loadu_si256((const void *)w)));
    for (int i = 0; i < 16; i++) {
        uint32_t want = (uint32_t)sum[i];
        for (int k = 4 * i; k < 4 * i + 4; k++) want += (uint32_t)(x[k] * w[k]);
        assert_int_equal((uint32_t)got[i], want);
        if (i < 8) assert_int_equal((uint32_t)got256[i], want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masked_loads_and_stores_touch_active_lanes_only),
        cmocka_unit_test(lanes_move_as_described),
        cmocka_unit_test(integers_become_floats_rounded_once),
        cmocka_unit_test(floats_become_integers_and_halves_to_nearest_even),
        cmocka_unit_test(dpbusd_adds_four_products),
    };
    return cmocka_run_group_tests_name("simd", tests, NULL, NULL);
}
