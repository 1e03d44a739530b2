/* The table of tensor types: single elements, blocks of 32, and the K types' blocks of 256 with sub-blocks.
 * Every expression keeps ggml's order of operations, because equal bits are the contract. */
#include "model/quant.h"

#include "base/num.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

typedef void row_fn(float *restrict y, const uint8_t *restrict x, size_t n);

/* Two little-endian bytes of IEEE binary16, exactly. */
static float half(const uint8_t *p) { return bt_f16_to_f32_1(bt_get16(p)); }

static float f32_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void row_f32(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = f32_of(bt_get32(x + 4 * i));
}

static void row_f16(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = half(x + 2 * i);
}

static void row_bf16(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = f32_of((uint32_t)bt_get16(x + 2 * i) << 16);
}

/* d, 32 x s8 */
static void row_q8_0(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 34, y += 32) {
        const float d = half(x);
        for (int j = 0; j < 32; j++) y[j] = (float)(int8_t)x[2 + j] * d;
    }
}

/* d, 16 bytes: element j in the low nibble of byte j, element 16 + j in the high one; so in the four types
 * below */
static void row_q4_0(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 18, y += 32) {
        const float d = half(x);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((x[2 + j] & 15) - 8) * d;
            y[j + 16] = (float)((x[2 + j] >> 4) - 8) * d;
        }
    }
}

/* d, m, 16 bytes */
static void row_q4_1(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 20, y += 32) {
        const float d = half(x), m = half(x + 2);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)(x[4 + j] & 15) * d + m;
            y[j + 16] = (float)(x[4 + j] >> 4) * d + m;
        }
    }
}

/* d, 32 fifth bits, 16 bytes */
static void row_q5_0(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 22, y += 32) {
        const float d = half(x);
        const uint32_t high = bt_get32(x + 2);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((int)((x[6 + j] & 15u) | (high >> j & 1) << 4) - 16) * d;
            y[j + 16] = (float)((int)((uint32_t)x[6 + j] >> 4 | (high >> (j + 16) & 1) << 4) - 16) * d;
        }
    }
}

/* d, m, 32 fifth bits, 16 bytes */
static void row_q5_1(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 24, y += 32) {
        const float d = half(x), m = half(x + 2);
        const uint32_t high = bt_get32(x + 4);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((x[8 + j] & 15u) | (high >> j & 1) << 4) * d + m;
            y[j + 16] = (float)((uint32_t)x[8 + j] >> 4 | (high >> (j + 16) & 1) << 4) * d + m;
        }
    }
}

/* d, 16 bytes of indices into a table of 16 uneven levels */
static void row_iq4_nl(float *restrict y, const uint8_t *restrict x, size_t n)
{
    static const int8_t level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
    for (size_t b = 0; b < n / 32; b++, x += 18, y += 32) {
        const float d = half(x);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)level[x[2 + j] & 15];
            y[j + 16] = d * (float)level[x[2 + j] >> 4];
        }
    }
}

/* e, 16 bytes of codes */
static void row_mxfp4(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 17, y += 32) {
        const float d = bt_mx_d(*x);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)bt_mx_q(x[1 + j]) * d;
            y[j + 16] = (float)bt_mx_q(x[1 + j] >> 4) * d;
        }
    }
}

/* ---- K types: super-blocks of 256 elements whose sub-blocks of 16 or 32 have quantised scales of their own
 * ---- */

/* scales[16] (low nibble scale, high nibble minimum), qs[64], d, dmin.
 * qs in two halves of 32 bytes; within a half, bits 2g..2g+1 of byte l are element 32 g + l. */
static void row_q2_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 84) {
        const uint8_t *sc = x, *qs = x + 16;
        const float d = half(x + 80), dmin = half(x + 82);
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
static void row_q3_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 110) {
        const uint8_t *hmask = x, *qs = x + 32, *sc = x + 96;
        const float d = half(x + 108);
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
static void row_q4_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 144) {
        const float d = half(x), dmin = half(x + 2);
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
static void row_q5_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 176) {
        const float d = half(x), dmin = half(x + 2);
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
static void row_q6_k(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 256; b++, x += 210) {
        const float d = half(x + 208);
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

/* ---- the table ---- */

typedef struct quant_row {
    bt_quant_info info;
    row_fn *to_f32;
} quant_row;

/* info must stay the first member: bt_quant_to_f32 is handed &row.info back. */
static const quant_row table[] = {
    {{"F32", BT_QUANT_F32, 1, 4}, row_f32},         {{"F16", BT_QUANT_F16, 1, 2}, row_f16},
    {{"BF16", BT_QUANT_BF16, 1, 2}, row_bf16},      {{"Q8_0", BT_QUANT_Q8_0, 32, 34}, row_q8_0},
    {{"Q4_0", BT_QUANT_Q4_0, 32, 18}, row_q4_0},    {{"Q4_1", BT_QUANT_Q4_1, 32, 20}, row_q4_1},
    {{"Q5_0", BT_QUANT_Q5_0, 32, 22}, row_q5_0},    {{"Q5_1", BT_QUANT_Q5_1, 32, 24}, row_q5_1},
    {{"Q2_K", BT_QUANT_Q2_K, 256, 84}, row_q2_k},   {{"Q3_K", BT_QUANT_Q3_K, 256, 110}, row_q3_k},
    {{"Q4_K", BT_QUANT_Q4_K, 256, 144}, row_q4_k},  {{"Q5_K", BT_QUANT_Q5_K, 256, 176}, row_q5_k},
    {{"Q6_K", BT_QUANT_Q6_K, 256, 210}, row_q6_k},  {{"IQ4_NL", BT_QUANT_IQ4_NL, 32, 18}, row_iq4_nl},
    {{"MXFP4", BT_QUANT_MXFP4, 32, 17}, row_mxfp4},
};

const bt_quant_info *bt_quant_find(uint32_t type)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].info.type == type) return &table[i].info;
    return NULL;
}

const char *bt_quant_type_name(uint32_t type)
{
    /* Types of the format that this build does not read, so that a refusal can name them. */
    static const struct {
        uint32_t type;
        const char *name;
    } others[] = {
        {4, "Q4_2"},    {5, "Q4_3"},     {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"},
        {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},
        {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},   {26, "I32"},   {27, "I64"},
        {28, "F64"},    {29, "IQ1_M"},   {34, "TQ1_0"}, {35, "TQ2_0"},
    };
    static _Thread_local char unknown[24];
    const bt_quant_info *q = bt_quant_find(type);
    if (q) return q->name;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].type == type) return others[i].name;
    snprintf(unknown, sizeof unknown, "type %u", type);
    return unknown;
}

void bt_quant_to_f32(float *restrict y, const uint8_t *restrict x, const bt_quant_info *type, size_t elems)
{
    ((const quant_row *)type)->to_f32(y, x, elems);
}
