/* AVX-512, AVX512-VNNI and AVX-VNNI on a machine without them: SIMDe, and what SIMDe 0.7.4 lacks of what the kernels
 * use. Put before a kernel's file by the compiler's -include (make test-emulated): the names of the instructions become
 * SIMDe's functions, then the guards say that the instructions are there. SIMDe comes first, or it would take the
 * guards for the machine's. With -mfma: else it multiplies and adds in two steps.
 *
 * Each of the lacking ones is written out over single lanes, after Intel's Intrinsics Guide; masked loads and stores
 * touch active lanes only. test_simd.c holds them. */
#ifndef TESTS_EMULATED_SIMD_H
#define TESTS_EMULATED_SIMD_H
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EMULATED static inline __attribute__((unused))

EMULATED simde__m512 emulated_maskz_loadu_ps(simde__mmask16 mask, const void *p)
{
    float lane[16] = {0};
    for (size_t i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(&lane[i], (const char *)p + 4 * i, 4);
    return simde_mm512_loadu_ps(lane);
}

EMULATED void emulated_mask_storeu_ps(void *p, simde__mmask16 mask, simde__m512 x)
{
    float lane[16];
    simde_mm512_storeu_ps(lane, x);
    for (size_t i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((char *)p + 4 * i, &lane[i], 4);
}

EMULATED float emulated_cvtss_f32(simde__m512 x)
{
    float lane[16];
    simde_mm512_storeu_ps(lane, x);
    return lane[0];
}

EMULATED simde__m512 emulated_movedup_ps(simde__m512 x, size_t odd)
{
    float lane[16];
    simde_mm512_storeu_ps(lane, x);
    for (size_t i = 0; i < 16; i += 2) lane[i] = lane[i + 1] = lane[i + odd];
    return simde_mm512_loadu_ps(lane);
}

EMULATED simde__m512 emulated_cvtepi32_ps(simde__m512i x)
{
    int32_t in[16];
    float out[16];
    simde_mm512_storeu_si512(in, x);
    for (size_t i = 0; i < 16; i++) out[i] = (float)in[i]; /* to nearest even, as the mode is */
    return simde_mm512_loadu_ps(out);
}

EMULATED simde__m512d emulated_cvtepi32_pd(simde__m256i x)
{
    int32_t in[8];
    double out[8];
    simde_mm256_storeu_si256(in, x);
    for (size_t i = 0; i < 8; i++) out[i] = in[i];
    return simde_mm512_loadu_pd(out);
}

EMULATED simde__m256 emulated_cvtepi64_ps(simde__m512i x)
{
    int64_t in[8];
    float out[8];
    simde_mm512_storeu_si512(in, x);
    for (size_t i = 0; i < 8; i++) out[i] = (float)in[i];
    return simde_mm256_loadu_ps(out);
}

EMULATED simde__m512i emulated_cvtepi8_epi32(simde__m128i x)
{
    int8_t in[16];
    int32_t out[16];
    simde_mm_storeu_si128(in, x);
    for (size_t i = 0; i < 16; i++) out[i] = in[i];
    return simde_mm512_loadu_si512(out);
}

EMULATED simde__m512i emulated_cvtepu8_epi32(simde__m128i x)
{
    uint8_t in[16];
    int32_t out[16];
    simde_mm_storeu_si128(in, x);
    for (size_t i = 0; i < 16; i++) out[i] = in[i];
    return simde_mm512_loadu_si512(out);
}

EMULATED simde__m256 emulated_cvtpd_ps(simde__m512d x)
{
    double in[8];
    float out[8];
    simde_mm512_storeu_pd(in, x);
    for (size_t i = 0; i < 8; i++) out[i] = (float)in[i];
    return simde_mm256_loadu_ps(out);
}

EMULATED simde__m512 emulated_cvtph_ps(simde__m256i x)
{
    uint16_t in[16];
    float out[16];
    simde_mm256_storeu_si256(in, x);
    for (size_t i = 0; i < 16; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(in + i))));
    return simde_mm512_loadu_ps(out);
}

/* The half that `at` names. */
EMULATED simde__m256 emulated_extractf32x8_ps(simde__m512 x, size_t at)
{
    float lane[16];
    simde_mm512_storeu_ps(lane, x);
    return simde_mm256_loadu_ps(lane + 8 * at);
}

/* Quarters: two of x, then two of y, by two bits of `at` each. */
EMULATED simde__m512 emulated_shuffle_f32x4(simde__m512 x, simde__m512 y, unsigned at)
{
    float from[2][16], to[16];
    simde_mm512_storeu_ps(from[0], x);
    simde_mm512_storeu_ps(from[1], y);
    for (size_t i = 0; i < 4; i++) memcpy(to + 4 * i, from[i / 2] + 4 * (at >> 2 * i & 3), 16);
    return simde_mm512_loadu_ps(to);
}

/* `rounding` is the mode's, to nearest even. */
EMULATED simde__m256i emulated_cvtps_ph(simde__m512 x)
{
    float in[16];
    uint16_t out[16];
    simde_mm512_storeu_ps(in, x);
    for (size_t i = 0; i < 16; i += 8)
        _mm_storeu_si128((void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    return simde_mm256_loadu_si256(out);
}

/* To nearest even; what no int32 holds becomes INT32_MIN. */
EMULATED simde__m512i emulated_cvtps_epi32(simde__m512 x)
{
    float in[16];
    int32_t out[16];
    simde_mm512_storeu_ps(in, x);
    for (size_t i = 0; i < 16; i += 8)
        _mm256_storeu_si256((void *)(out + i), _mm256_cvtps_epi32(_mm256_loadu_ps(in + i)));
    return simde_mm512_loadu_si512(out);
}

#define _mm512_maskz_loadu_ps(mask, p)    emulated_maskz_loadu_ps(mask, p)
#define _mm512_mask_storeu_ps(p, mask, x) emulated_mask_storeu_ps(p, mask, x)
#define _mm512_cvtss_f32(x)               emulated_cvtss_f32(x)
#define _mm512_moveldup_ps(x)             emulated_movedup_ps(x, 0)
#define _mm512_movehdup_ps(x)             emulated_movedup_ps(x, 1)
#define _mm512_cvtepi32_ps(x)             emulated_cvtepi32_ps(x)
#define _mm512_cvtepi32_pd(x)             emulated_cvtepi32_pd(x)
#define _mm512_cvtepi64_ps(x)             emulated_cvtepi64_ps(x)
#define _mm512_cvtepi8_epi32(x)           emulated_cvtepi8_epi32(x)
#define _mm512_cvtepu8_epi32(x)           emulated_cvtepu8_epi32(x)
#define _mm512_cvtpd_ps(x)                emulated_cvtpd_ps(x)
#define _mm512_cvtph_ps(x)                emulated_cvtph_ps(x)
#define _mm512_cvtps_epi32(x)             emulated_cvtps_epi32(x)
#undef _mm512_extractf32x8_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_cvtps_ph
#define _mm512_extractf32x8_ps(x, at)    emulated_extractf32x8_ps(x, at)
#define _mm512_shuffle_f32x4(x, y, at)   emulated_shuffle_f32x4(x, y, at)
#define _mm512_cvtps_ph(x, rounding)     emulated_cvtps_ph(x)
#define _mm512_undefined_ps()            simde_mm512_setzero_ps()
#define _mm256_dpbusd_avx_epi32(s, x, y) simde_mm256_dpbusd_epi32(s, x, y)

#define __AVX512F__    1
#define __AVX512BW__   1
#define __AVX512VL__   1
#define __AVX512DQ__   1
#define __AVX512VNNI__ 1
#define __AVXVNNI__    1
#endif
