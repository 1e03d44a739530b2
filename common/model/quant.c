/* The table of tensor types, and the types with blocks of 32 or single elements. Blocks of 256: quant_k.c.
 * Every expression keeps ggml's order of operations, because equal bits are the contract. */
#include "model/quant.h"

#include "base/num.h"
#include "model/quant_k.h"

#include <stdio.h>
#include <string.h>

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
    for (size_t i = 0; i < n; i++) y[i] = bt_quant_half(x + 2 * i);
}

static void row_bf16(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = f32_of((uint32_t)bt_get16(x + 2 * i) << 16);
}

/* d, 32 x s8 */
static void row_q8_0(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 34, y += 32) {
        const float d = bt_quant_half(x);
        for (int j = 0; j < 32; j++) y[j] = (float)(int8_t)x[2 + j] * d;
    }
}

/* d, 16 bytes: element j in the low nibble of byte j, element 16 + j in the high one; so in the four types
 * below */
static void row_q4_0(float *restrict y, const uint8_t *restrict x, size_t n)
{
    for (size_t b = 0; b < n / 32; b++, x += 18, y += 32) {
        const float d = bt_quant_half(x);
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
        const float d = bt_quant_half(x), m = bt_quant_half(x + 2);
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
        const float d = bt_quant_half(x);
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
        const float d = bt_quant_half(x), m = bt_quant_half(x + 2);
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
        const float d = bt_quant_half(x);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)level[x[2 + j] & 15];
            y[j + 16] = d * (float)level[x[2 + j] >> 4];
        }
    }
}

typedef struct quant_row {
    bt_quant_info info;
    bt_quant_row_fn *to_f32;
} quant_row;

/* info must stay the first member: bt_quant_to_f32 is handed &row.info back. */
static const quant_row table[] = {
    {{"F32", BT_QUANT_F32, 1, 4}, row_f32},
    {{"F16", BT_QUANT_F16, 1, 2}, row_f16},
    {{"BF16", BT_QUANT_BF16, 1, 2}, row_bf16},
    {{"Q8_0", BT_QUANT_Q8_0, 32, 34}, row_q8_0},
    {{"Q4_0", BT_QUANT_Q4_0, 32, 18}, row_q4_0},
    {{"Q4_1", BT_QUANT_Q4_1, 32, 20}, row_q4_1},
    {{"Q5_0", BT_QUANT_Q5_0, 32, 22}, row_q5_0},
    {{"Q5_1", BT_QUANT_Q5_1, 32, 24}, row_q5_1},
    {{"Q2_K", BT_QUANT_Q2_K, 256, 84}, bt_quant_q2_k},
    {{"Q3_K", BT_QUANT_Q3_K, 256, 110}, bt_quant_q3_k},
    {{"Q4_K", BT_QUANT_Q4_K, 256, 144}, bt_quant_q4_k},
    {{"Q5_K", BT_QUANT_Q5_K, 256, 176}, bt_quant_q5_k},
    {{"Q6_K", BT_QUANT_Q6_K, 256, 210}, bt_quant_q6_k},
    {{"IQ4_NL", BT_QUANT_IQ4_NL, 32, 18}, row_iq4_nl},
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
        {28, "F64"},    {29, "IQ1_M"},   {34, "TQ1_0"}, {35, "TQ2_0"}, {39, "MXFP4"},
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
