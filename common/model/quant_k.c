/* The K types: super-blocks of 256 elements whose sub-blocks of 16 or 32 have quantised scales of their own.
 * Every expression keeps ggml's order of operations, because equal bits are the contract. */
#include "model/quant_k.h"

/* scales[16] (low nibble scale, high nibble minimum), qs[64], d, dmin.
 * qs in two halves of 32 bytes; within a half, bits 2g..2g+1 of byte l are element 32 g + l. */
void bt_quant_q2_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 84) {
        const uint8_t *sc = x, *qs = x + 16;
        const float d = bt_quant_half(x + 80), dmin = bt_quant_half(x + 82);
        for (int sub = 0; sub < 16; sub++) {
            const float dl = d * (float)(sc[sub] & 15), ml = dmin * (float)(sc[sub] >> 4);
            const uint8_t *q = qs + 32 * (sub / 8) + 16 * (sub & 1);
            const int shift = 2 * (sub / 2 % 4);
            for (int l = 0; l < 16; l++) *y++ = dl * (float)(q[l] >> shift & 3) - ml;
        }
    }
}

/* hmask[32], qs[64] as above, scales[12], d. The third bit of element 32 g + l of half h is bit 4 h + g of
 * hmask[l]; where it is clear, 4 is taken off. Scales of 6 bits less 32: low nibbles in bytes 0..7 (first
 * low, then high halves), high pairs in 8..11. */
void bt_quant_q3_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 110) {
        const uint8_t *hmask = x, *qs = x + 32, *sc = x + 96;
        const float d = bt_quant_half(x + 108);
        for (int sub = 0; sub < 16; sub++) {
            const int low = sub < 8 ? sc[sub] & 15 : sc[sub - 8] >> 4;
            const int high = sc[8 + sub % 4] >> (2 * (sub / 4)) & 3;
            const float dl = d * (float)((low | high << 4) - 32);
            const uint8_t *q = qs + 32 * (sub / 8) + 16 * (sub & 1), *h = hmask + 16 * (sub & 1);
            const int shift = 2 * (sub / 2 % 4), bit = sub / 2;
            for (int l = 0; l < 16; l++) *y++ = dl * (float)((q[l] >> shift & 3) - (h[l] >> bit & 1 ? 0 : 4));
        }
    }
}

/* Scale and minimum j of the 12 bytes that Q4_K and Q5_K share: 6 bits each; 0..3 whole in bytes j and j +
 * 4, 4..7 as nibbles in byte j + 4 with their upper bits on top of bytes j - 4 and j. */
static void scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* d, dmin, scales[12], qs[128]: sub-blocks of 32; the pair (2 i, 2 i + 1) is the low and high nibbles of 32
 * bytes. */
void bt_quant_q4_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 144) {
        const float d = bt_quant_half(x), dmin = bt_quant_half(x + 2);
        for (int sub = 0; sub < 8; sub++) {
            int scale, min;
            scale_min(x + 4, sub, &scale, &min);
            const float d1 = d * (float)scale, m1 = dmin * (float)min;
            const uint8_t *q = x + 16 + 32 * (sub / 2);
            const int shift = 4 * (sub & 1);
            for (int l = 0; l < 32; l++) *y++ = d1 * (float)(q[l] >> shift & 15) - m1;
        }
    }
}

/* d, dmin, scales[12], qh[32], qs[128]: as Q4_K, with the fifth bit of sub-block i in bit i of qh. */
void bt_quant_q5_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 176) {
        const float d = bt_quant_half(x), dmin = bt_quant_half(x + 2);
        for (int sub = 0; sub < 8; sub++) {
            int scale, min;
            scale_min(x + 4, sub, &scale, &min);
            const float d1 = d * (float)scale, m1 = dmin * (float)min;
            const uint8_t *qh = x + 16, *q = x + 48 + 32 * (sub / 2);
            const int shift = 4 * (sub & 1);
            for (int l = 0; l < 32; l++)
                *y++ = d1 * (float)((q[l] >> shift & 15) + (qh[l] >> sub & 1 ? 16 : 0)) - m1;
        }
    }
}

/* ql[128], qh[64], scales[16] s8, d. In each half of 128 elements, group g of 32: the nibble (low for g < 2)
 * of ql[32 (g & 1) + l], with bits 2g..2g+1 of qh[l] above it, less 32; a scale for each 16. */
void bt_quant_q6_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 210) {
        const float d = bt_quant_half(x + 208);
        for (int g8 = 0; g8 < 8; g8++) {
            const int half = g8 / 4, g = g8 % 4;
            const uint8_t *ql = x + 64 * half + 32 * (g & 1), *qh = x + 128 + 32 * half,
                          *sc = x + 192 + 2 * g8;
            for (int l = 0; l < 32; l++) {
                const int q = ((ql[l] >> (g < 2 ? 0 : 4) & 15) | (qh[l] >> (2 * g) & 3) << 4) - 32;
                *y++ = d * (float)(int8_t)sc[l / 16] * (float)q;
            }
        }
    }
}
