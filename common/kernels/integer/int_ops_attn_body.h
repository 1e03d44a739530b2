/* Integer attention with SIMD: a block of queries over K and V tiles, each tile converted once. Included by
 * int_ops_attn_<isa>.c, which defines before it
 *   INT_ATTN_OF(name)   the instruction set's symbol of an integer operator
 *   INT_ATTN_STEP       the elements of a tile from one column to the next
 * and after it the four functions that are declared here. No include guard. */
#include "kernels/integer/int_ops_attn.h"

#include <string.h>

typedef struct attn {
    const bt_kv_view *kv;
    size_t layer, g, d, d16, ldz;
    int32_t *z;
    int16_t *e, *tile, *q, *row;
    int64_t *acc;
} attn;

/* load_k and load_v convert positions [j0, j0 + KEYS) to a tile, zeros from position n on, in the order that scores32
 * and weigh16 read. */
static void load_k(const attn *a, size_t j0, size_t n, int shift);
static void load_v(const attn *a, size_t j0, size_t n, int shift);
static void scores32(int32_t *z, const int16_t *hi, const int16_t *lo, const int16_t *tile, size_t d16, unsigned log2);
static void weigh16(int64_t *acc, const int16_t *e, const int16_t *tile, size_t d16);

/* Converts the row of position j to s16, elements [0, d); all d16 are zeros from position n on. */
static void load_row(const attn *a, int16_t *row, int is_v, size_t j, size_t n, int shift)
{
    if (j >= n) {
        memset(row, 0, a->d16 * sizeof *row);
        return;
    }
    const uint8_t *from = bt_kv_view_row(a->kv, a->layer, is_v, j, a->g);
    const uint16_t *scale = (const void *)(from + a->d); /* of an int8 row */
    if (a->kv->elem_bytes == 1) INT_ATTN_OF(bt_int_from_q8)(row, (const int8_t *)from, *scale, a->d, shift);
    else INT_ATTN_OF(bt_int_from_f16)(row, (const void *)from, a->d, shift);
}

/* Queries [first, first + count) of the call; query i is row i / group and head i % group. */
static void block(const attn *a, int16_t *out, size_t ldo, const int16_t *q, size_t ldq, size_t group, size_t first,
                  size_t count, size_t pos0, const bt_int_attention_params *p)
{
    const size_t n = pos0 + (first + count - 1) / group + 1,
                 tiles = (n + INT_ATTN_KEYS - 1) / INT_ATTN_KEYS * INT_ATTN_KEYS,
                 begin = int_attn_begin(p, pos0 + first / group) / INT_ATTN_KEYS * INT_ATTN_KEYS;
    const unsigned log2 = int_attn_log2(a->d);
    int16_t *low = a->q + INT_ATTN_ROWS * a->d16;
    for (size_t i = 0; i < count; i++) {
        const int16_t *from = q + (first + i) / group * ldq + (a->g * group + (first + i) % group) * a->d;
        for (size_t c = 0; c < a->d; c++) {
            const int hi = (from[c] + 128) >> 8;
            a->q[i * a->d16 + c] = (int16_t)hi;
            low[i * a->d16 + c] = (int16_t)(from[c] - 256 * hi);
        }
    }
    for (size_t j = begin; j < tiles; j += INT_ATTN_KEYS) {
        load_k(a, j, n, p->k_shift);
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < INT_ATTN_KEYS; c += 32)
                scores32(a->z + i * a->ldz + j + c, a->q + i * a->d16, low + i * a->d16, a->tile + INT_ATTN_STEP * c,
                         a->d16, log2);
    }
    uint64_t sum[INT_ATTN_ROWS];
    for (size_t i = 0; i < count; i++) {
        const size_t visible = pos0 + (first + i) / group + 1, from = int_attn_begin(p, visible - 1);
        int16_t *e = a->e + i * a->ldz;
        sum[i] = INT_ATTN_OF(bt_int_softmax16)(e + from, a->z + i * a->ldz + from, visible - from, p->logit);
        memset(e + begin, 0, (from - begin) * sizeof *e);
        memset(e + visible, 0, (tiles - visible) * sizeof *e);
    }
    memset(a->acc, 0, count * a->d16 * sizeof *a->acc);
    for (size_t j = begin; j < tiles; j += INT_ATTN_KEYS) {
        load_v(a, j, n, p->v_shift);
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < a->d16; c += 16)
                weigh16(a->acc + i * a->d16 + c, a->e + i * a->ldz + j, a->tile + INT_ATTN_STEP * c, a->d16);
    }
    for (size_t i = 0; i < count; i++) {
        int16_t *to = out + (first + i) / group * ldo + (a->g * group + (first + i) % group) * a->d;
        const uint64_t inv = (UINT64_C(1) << 63) / sum[i];
        for (size_t c = 0; c < a->d; c++) to[c] = int_attn_out(a->acc[i * a->d16 + c], inv, p->out);
    }
}

void INT_ATTN_OF(bt_int_attention16)(int16_t *out, size_t ldo, const int16_t *q, size_t ldq, const bt_kv_view *kv,
                                     size_t layer, size_t t, size_t pos0, size_t heads, size_t g,
                                     const bt_int_attention_params *p, void *scratch)
{
    uint8_t *s = scratch;
    const size_t group = heads / kv->kv_heads, d = kv->head_dim;
    const int_attn_scratch plan = int_attn_scratch_plan(d, pos0 + t);
    const attn a = {.kv = kv,
                    .layer = layer,
                    .g = g,
                    .d = d,
                    .d16 = (d + 15) / 16 * 16,
                    .ldz = plan.ldz,
                    .z = (void *)(s + plan.z),
                    .e = (void *)(s + plan.e),
                    .tile = (void *)(s + plan.tile),
                    .q = (void *)(s + plan.q),
                    .row = (void *)(s + plan.row),
                    .acc = (void *)(s + plan.acc)};
    memset(a.q, 0, 2 * INT_ATTN_ROWS * a.d16 * sizeof *a.q);
    memset(a.row, 0, 8 * a.d16 * sizeof *a.row);
    for (size_t i = 0; i < t * group; i += INT_ATTN_ROWS)
        block(&a, out, ldo, q, ldq, group, i, t * group - i < INT_ATTN_ROWS ? t * group - i : INT_ATTN_ROWS, pos0, p);
}
