/* Attention for NEON: attn_body.h over simd_neon.h. */
#include "kernels/variant.h"

#if defined(__aarch64__)
#include "kernels/attention/attn_scratch.h"
#include "kernels/simd_neon.h"

/* ---- elements of 16 rows, transposed into a packed panel (attn_copy_body.h) ---- */

/* 8 x 8 elements of 16 bits in place: row i becomes column i. */
BT_INLINE void transpose8_u16(uint16x8_t x[8])
{
    uint32x4_t a[8];
    uint64x2_t b[8];
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 2) {
        a[i] = vreinterpretq_u32_u16(vtrn1q_u16(x[i], x[i + 1]));
        a[i + 1] = vreinterpretq_u32_u16(vtrn2q_u16(x[i], x[i + 1]));
    }
    BT_UNROLL_FOR(size_t i = 0; i < 8; i += 4)
        BT_UNROLL_FOR(size_t j = i; j < i + 2; j++) {
            b[j] = vreinterpretq_u64_u32(vtrn1q_u32(a[j], a[j + 2]));
            b[j + 2] = vreinterpretq_u64_u32(vtrn2q_u32(a[j], a[j + 2]));
        }
    BT_UNROLL_FOR(size_t i = 0; i < 4; i++) {
        x[i] = vreinterpretq_u16_u64(vtrn1q_u64(b[i], b[i + 4]));
        x[i + 4] = vreinterpretq_u16_u64(vtrn2q_u64(b[i], b[i + 4]));
    }
}

/* Elements [e, e + 8) of 16 rows of f16. */
BT_INLINE void pack_f16(uint8_t *to, const uint8_t *const row[16], size_t e)
{
    BT_UNROLL_FOR(size_t h = 0; h < 2; h++) {
        uint16x8_t x[8];
        BT_UNROLL_FOR(size_t i = 0; i < 8; i++) x[i] = vreinterpretq_u16_u8(vld1q_u8(row[8 * h + i] + 2 * e));
        transpose8_u16(x);
        BT_UNROLL_FOR(size_t i = 0; i < 8; i++)
            vst1q_u8(to + 32 * (e + i) + 16 * h, vreinterpretq_u8_u16(x[i]));
    }
}

/* Elements [e, e + 16) of 16 rows of int8. Two neighbouring rows are transposed together, as elements of 16
 * bits.
 */
BT_INLINE void pack_int8(uint8_t *to, const uint8_t *const row[16], size_t dp, size_t e)
{
    BT_UNROLL_FOR(size_t h = 0; h < 2; h++) {
        /* even[i]: elements e .. e + 7 of rows 2i and 2i + 1, interleaved; odd[i]: e + 8 .. e + 15 */
        uint8x16_t even[4], odd[4];
        uint32x4_t a[8];
        BT_UNROLL_FOR(size_t i = 0; i < 4; i++) {
            const uint8x16_t x = vld1q_u8(row[8 * h + 2 * i] + e), y = vld1q_u8(row[8 * h + 2 * i + 1] + e);
            even[i] = vzip1q_u8(x, y), odd[i] = vzip2q_u8(x, y);
        }
        BT_UNROLL_FOR(size_t half = 0; half < 2; half++) {
            const uint8x16_t *p = half ? odd : even;
            BT_UNROLL_FOR(size_t i = 0; i < 4; i += 2) {
                const uint16x8_t x = vreinterpretq_u16_u8(p[i]), y = vreinterpretq_u16_u8(p[i + 1]);
                a[i] = vreinterpretq_u32_u16(vzip1q_u16(x, y)),
                a[i + 1] = vreinterpretq_u32_u16(vzip2q_u16(x, y));
            }
            uint8_t *at = to + 8 * (h * dp + e + 8 * half);
            vst1q_u8(at, vreinterpretq_u8_u32(vzip1q_u32(a[0], a[2])));
            vst1q_u8(at + 16, vreinterpretq_u8_u32(vzip2q_u32(a[0], a[2])));
            vst1q_u8(at + 32, vreinterpretq_u8_u32(vzip1q_u32(a[1], a[3])));
            vst1q_u8(at + 48, vreinterpretq_u8_u32(vzip2q_u32(a[1], a[3])));
        }
    }
}

/* Elements [e, e + 4) of 16 rows of floats. */
BT_INLINE void pack_f32(float *to, const uint8_t *const row[16], size_t e)
{
    for (size_t i = 0; i < 16; i += 4) {
        float32x4_t x[4];
        BT_UNROLL_FOR(size_t r = 0; r < 4; r++) x[r] = vld1q_f32((const float *)(const void *)row[i + r] + e);
        const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(x[0], x[1])),
                          b = vreinterpretq_f64_f32(vtrn2q_f32(x[0], x[1])),
                          c = vreinterpretq_f64_f32(vtrn1q_f32(x[2], x[3])),
                          d = vreinterpretq_f64_f32(vtrn2q_f32(x[2], x[3]));
        vst1q_f32(to + e * 16 + i, vreinterpretq_f32_f64(vtrn1q_f64(a, c)));
        vst1q_f32(to + (e + 1) * 16 + i, vreinterpretq_f32_f64(vtrn1q_f64(b, d)));
        vst1q_f32(to + (e + 2) * 16 + i, vreinterpretq_f32_f64(vtrn2q_f64(a, c)));
        vst1q_f32(to + (e + 3) * 16 + i, vreinterpretq_f32_f64(vtrn2q_f64(b, d)));
    }
}

#include "kernels/attention/attn_body.h"
#endif
