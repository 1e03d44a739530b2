/* Integer attention in NEON: K tiles become s16 with positions side by side, V tiles as they lie, once for a
 * block of queries. Queries and weights are taken in two halves of 8 bits, so that sums stay in s32 within a
 * tile; across tiles they are s64. */
#include "kernels/int_ops.h"

#if defined(__aarch64__)
#include "kernels/int_ops_attn.h"
#include "kernels/int_ops_neon.h"

#include <string.h>

typedef struct attn {
    const bt_kv_view *kv;
    size_t layer, g, d, d16, ldz;
    int32_t *z;
    int16_t *e, *tile, *q, *row;
    int64_t *acc;
} attn;

/* Row of position j as s16, zero from d to d16; zeros from position n on. */
static void load_row(const attn *a, int16_t *row, int is_v, size_t j, size_t n, int shift)
{
    if (j >= n) {
        memset(row, 0, a->d16 * sizeof *row);
        return;
    }
    const uint8_t *from = bt_kv_view_row(a->kv, a->layer, is_v, j, a->g);
    if (a->kv->elem_bytes == 1)
        bt_int_from_q8_neon(row, (const int8_t *)from, *(const uint16_t *)(const void *)(from + a->d), a->d,
                            shift);
    else bt_int_from_f16_neon(row, (const void *)from, a->d, shift);
}

/* tile as [D16][KEYS] */
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

/* tile as [KEYS][D16] */
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

/* z of one query for 32 positions of the tile: sums of |half q| * |k| over D <= 256 stay below 2^31. */
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
    for (int c = 0; c < 4; c++) { /* 256 h is a multiple of 2^log2: only l is rounded */
        vst1q_s32(z + 8 * c, vaddq_s32(vshlq_s32(h[c].first, up), vrshlq_s32(l[c].first, down)));
        vst1q_s32(z + 8 * c + 4, vaddq_s32(vshlq_s32(h[c].last, up), vrshlq_s32(l[c].last, down)));
    }
}

static void add64(int64_t *acc, int32x4_t hi, int32x4_t lo)
{
    const int64x2_t first = vaddw_s32(vshll_n_s32(vget_low_s32(hi), 8), vget_low_s32(lo)),
                    last = vaddw_high_s32(vshll_high_n_s32(hi, 8), lo);
    vst1q_s64(acc, vaddq_s64(vld1q_s64(acc), first));
    vst1q_s64(acc + 2, vaddq_s64(vld1q_s64(acc + 2), last));
}

/* acc of one query += its weights of the tile times V, 16 elements */
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

/* Queries [first, first + count) of the call: row first / group, head first % group, and so on. */
static void block(const attn *a, int16_t *out, size_t ldo, const int16_t *q, size_t ldq, size_t group,
                  size_t first, size_t count, size_t pos0, const bt_int_attention_params *p)
{
    const size_t n = pos0 + (first + count - 1) / group + 1,
                 tiles = (n + INT_ATTN_KEYS - 1) / INT_ATTN_KEYS * INT_ATTN_KEYS;
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
    for (size_t j = 0; j < tiles; j += INT_ATTN_KEYS) {
        load_k(a, j, n, p->k_shift);
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < INT_ATTN_KEYS; c += 32)
                scores32(a->z + i * a->ldz + j + c, a->q + i * a->d16, low + i * a->d16, a->tile + c, a->d16,
                         log2);
    }
    uint64_t sum[INT_ATTN_ROWS];
    for (size_t i = 0; i < count; i++) {
        const size_t visible = pos0 + (first + i) / group + 1;
        sum[i] = bt_int_softmax16_neon(a->e + i * a->ldz, a->z + i * a->ldz, visible, p->logit);
        memset(a->e + i * a->ldz + visible, 0, (tiles - visible) * sizeof *a->e);
    }
    memset(a->acc, 0, count * a->d16 * sizeof *a->acc);
    for (size_t j = 0; j < tiles; j += INT_ATTN_KEYS) {
        load_v(a, j, n, p->v_shift);
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < a->d16; c += 16)
                weigh16(a->acc + i * a->d16 + c, a->e + i * a->ldz + j, a->tile + c, a->d16);
    }
    for (size_t i = 0; i < count; i++) {
        int16_t *to = out + (first + i) / group * ldo + (a->g * group + (first + i) % group) * a->d;
        const uint64_t inv = (UINT64_C(1) << 63) / sum[i];
        for (size_t c = 0; c < a->d; c++) to[c] = int_attn_out(a->acc[i * a->d16 + c], inv, p->out);
    }
}

void bt_int_attention16_neon(int16_t *out, size_t ldo, const int16_t *q, size_t ldq, const bt_kv_view *kv,
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
        block(&a, out, ldo, q, ldq, group, i, t * group - i < INT_ATTN_ROWS ? t * group - i : INT_ATTN_ROWS,
              pos0, p);
}
#endif
