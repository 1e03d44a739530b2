/* Integer attention for NEON. K and V tiles become s16 once for a block of queries, K with positions side by
 * side, V as it lies. Queries and weights are split into two halves of 8 bits, so that sums within a tile fit
 * s32; sums over tiles are s64. */
#include "kernels/int_ops.h"

#if defined(__aarch64__)
#include "kernels/integer/int_ops_neon.h"

#define INT_ATTN_OF(name) name##_neon
#define INT_ATTN_STEP     1
#include "kernels/integer/int_ops_attn_body.h"

/* Fills the tile as [D16][KEYS]. */
static void load_k(const attn *a, size_t j0, size_t n, int shift)
{
    for (size_t j = 0; j < INT_ATTN_KEYS; j += 8) {
        for (size_t i = 0; i < 8; i++) load_row(a, a->row + i * a->d16, 0, j0 + j + i, n, shift);
        for (size_t c = 0; c < a->d16; c++) {
            int16_t *to = a->tile + c * INT_ATTN_KEYS + j;
            for (size_t i = 0; i < 8; i++) to[i] = a->row[i * a->d16 + c];
        }
    }
}

/* Fills the tile as [KEYS][D16]. */
static void load_v(const attn *a, size_t j0, size_t n, int shift)
{
    for (size_t j = 0; j < INT_ATTN_KEYS; j++) load_row(a, a->tile + j * a->d16, 1, j0 + j, n, shift);
}

/* Sums of eight lanes, in s32. */
typedef struct sums {
    int32x4_t first, last;
} sums;
static inline sums add_products(sums s, int16x8_t x, int16_t by)
{
    return (sums){vmlal_n_s16(s.first, vget_low_s16(x), by), vmlal_high_n_s16(s.last, x, by)};
}

/* z of one query for 32 positions of the tile. Sums of |half of q| * |k| over D <= 256 stay below 2^31. */
static void scores32(int32_t *z, const int16_t *hi, const int16_t *lo, const int16_t *tile, size_t d16,
                     unsigned log2)
{
    sums h[4], l[4];
    memset(h, 0, sizeof h);
    memset(l, 0, sizeof l);
    for (size_t i = 0; i < d16; i++, tile += INT_ATTN_KEYS)
        for (int c = 0; c < 4; c++) {
            const int16x8_t k = vld1q_s16(tile + 8 * c);
            h[c] = add_products(h[c], k, hi[i]);
            l[c] = add_products(l[c], k, lo[i]);
        }
    const int32x4_t down = vdupq_n_s32(-(int)log2), up = vdupq_n_s32(8 - (int)log2);
    for (int c = 0; c < 4; c++) { /* 256 * h is a multiple of 2^log2, so only l is rounded */
        vst1q_s32(z + 8 * c, vaddq_s32(vshlq_s32(h[c].first, up), vrshlq_s32(l[c].first, down)));
        vst1q_s32(z + 8 * c + 4, vaddq_s32(vshlq_s32(h[c].last, up), vrshlq_s32(l[c].last, down)));
    }
}

/* acc[i] += 256 * hi[i] + lo[i]. */
static void add64(int64_t *acc, int32x4_t hi, int32x4_t lo)
{
    const int64x2_t first = vaddw_s32(vshll_n_s32(vget_low_s32(hi), 8), vget_low_s32(lo)),
                    last = vaddw_high_s32(vshll_high_n_s32(hi, 8), lo);
    vst1q_s64(acc, vaddq_s64(vld1q_s64(acc), first));
    vst1q_s64(acc + 2, vaddq_s64(vld1q_s64(acc + 2), last));
}

/* Adds one query's weights of the tile times V to acc, 16 elements. */
static void weigh16(int64_t *acc, const int16_t *e, const int16_t *tile, size_t d16)
{
    sums h[2], l[2];
    memset(h, 0, sizeof h);
    memset(l, 0, sizeof l);
    for (size_t j = 0; j < INT_ATTN_KEYS; j++, tile += d16)
        for (int c = 0; c < 2; c++) {
            const int16x8_t v = vld1q_s16(tile + 8 * c);
            h[c] = add_products(h[c], v, (int16_t)(e[j] >> 8));
            l[c] = add_products(l[c], v, e[j] & 255);
        }
    for (int c = 0; c < 2; c++) {
        add64(acc + 8 * c, h[c].first, l[c].first);
        add64(acc + 8 * c + 4, h[c].last, l[c].last);
    }
}
#endif
