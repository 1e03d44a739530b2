#ifndef BT_KERNELS_F16_H
#define BT_KERNELS_F16_H
#include <stdint.h>
#include <string.h>

/* Conversions to and from IEEE binary16: the same bits as VCVTPS2PH (nearest even) and VCVTPH2PS, NaN included. */

static inline uint16_t f16_from_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const uint32_t sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 65536 and above */
    if (u < 0x38800000) {                                  /* below 2^-14: subnormal, or zero */
        float f;
        memcpy(&f, &u, sizeof f);
        f += 0.5f; /* the last bit of 0.5f is 2^-24, as of a subnormal f16: this sum rounds */
        memcpy(&u, &f, sizeof u);
        return (uint16_t)(sign | (u - 0x3f000000));
    }
    u += 0xfff + (u >> 13 & 1) - 0x38000000; /* adds half a unit, ties to even, and changes the exponent's bias */
    return (uint16_t)(sign | u >> 13);
}

static inline float f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, mant = h & 0x3ff, exponent = h >> 10 & 31;
    uint32_t u;
    float f;
    if (exponent == 0) {
        f = (float)mant * 0x1p-24f;
        memcpy(&u, &f, sizeof u);
    } else if (exponent == 31) u = 0x7f800000 | mant << 13 | (mant ? 0x400000u : 0);
    else u = ((uint32_t)(h & 0x7fff) << 13) + 0x38000000;
    u |= sign;
    memcpy(&f, &u, sizeof f);
    return f;
}
#endif
