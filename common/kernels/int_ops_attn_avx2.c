/* Integer attention in AVX2: K and V tiles become s16 in the order that multiply-add of pairs wants, once for
 * a block of queries. Queries and weights are taken in two halves of 8 bits, so that sums stay in s32
 * within a tile; across tiles they are s64. */
#include "kernels/int_ops.h"

#if defined(__AVX2__)
#include "kernels/int_ops_attn.h"
#include "kernels/int_ops_avx2.h"

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
        bt_int_from_q8_avx2(row, (const int8_t *)from, *(const uint16_t *)(const void *)(from + a->d), a->d,
                            shift);
    else bt_int_from_f16_avx2(row, (const void *)from, a->d, shift);
}

/* 8 x 8 values of 4 bytes, row i at from + i * ld, to column i at to + j * ldt. */
static void transpose8(int32_t *to, size_t ldt, const int32_t *from, size_t ld)
{
    __m256i r[8], p[8];
    for (int i = 0; i < 8; i++) r[i] = v8_load(from + (size_t)i * ld);
    for (int i = 0; i < 4; i++) {
        p[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        p[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_unpacklo_epi64(p[4 * i], p[4 * i + 2]);
        r[4 * i + 1] = _mm256_unpackhi_epi64(p[4 * i], p[4 * i + 2]);
        r[4 * i + 2] = _mm256_unpacklo_epi64(p[4 * i + 1], p[4 * i + 3]);
        r[4 * i + 3] = _mm256_unpackhi_epi64(p[4 * i + 1], p[4 * i + 3]);
    }
    for (size_t i = 0; i < 4; i++) {
        v8_store(to + i * ldt, _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
        v8_store(to + (i + 4) * ldt, _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
    }
}

/* tile as [D16 / 2][KEYS] pairs of elements */
static void load_k(const attn *a, size_t j0, size_t n, int shift)
{
    for (size_t j = 0; j < INT_ATTN_KEYS; j += 8) {
        for (size_t i = 0; i < 8; i++) load_row(a, a->row + i * a->d16, 0, j0 + j + i, n, shift);
        for (size_t i = 0; i < a->d16 / 2; i += 8)
            transpose8((int32_t *)(void *)a->tile + i * INT_ATTN_KEYS + j, INT_ATTN_KEYS,
                       (const int32_t *)(void *)a->row + i, a->d16 / 2);
    }
}

/* tile as [KEYS / 2][D16] pairs of positions */
static void load_v(const attn *a, size_t j0, size_t n, int shift)
{
    int16_t *to = a->tile;
    for (size_t j = 0; j < INT_ATTN_KEYS; j += 2, to += 2 * a->d16) {
        load_row(a, a->row, 1, j0 + j, n, shift);
        load_row(a, a->row + a->d16, 1, j0 + j + 1, n, shift);
        for (size_t i = 0; i < a->d16; i += 8) {
            const __m128i x = _mm_loadu_si128((const void *)(a->row + i)),
                          y = _mm_loadu_si128((const void *)(a->row + a->d16 + i));
            _mm_storeu_si128((void *)(to + 2 * i), _mm_unpacklo_epi16(x, y));
            _mm_storeu_si128((void *)(to + 2 * i + 8), _mm_unpackhi_epi16(x, y));
        }
    }
}

static __m256i pair(const int16_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v8_set(v);
}

/* z of one query for 32 positions of the tile: sums of |half q| * |k| over D <= 256 stay below 2^31. */
static void scores32(int32_t *z, const int16_t *hi, const int16_t *lo, const int16_t *tile, size_t d16,
                     unsigned log2)
{
    __m256i h[4], l[4];
    for (int c = 0; c < 4; c++) h[c] = l[c] = _mm256_setzero_si256();
    for (size_t i = 0; i < d16; i += 2, tile += 2 * INT_ATTN_KEYS) {
        const __m256i qh = pair(hi + i), ql = pair(lo + i);
        for (int c = 0; c < 4; c++) {
            const __m256i k = v8_load((const void *)(tile + 16 * c));
            h[c] = _mm256_add_epi32(h[c], _mm256_madd_epi16(k, qh));
            l[c] = _mm256_add_epi32(l[c], _mm256_madd_epi16(k, ql));
        }
    }
    const __m256i half = v8_set(log2 ? 1 << (log2 - 1) : 0);
    const __m128i down = _mm_cvtsi32_si128((int)log2), up = _mm_cvtsi32_si128(8 - (int)log2);
    for (int c = 0; c < 4; c++) /* 256 h is a multiple of 2^log2: only l is rounded */
        v8_store(z + 8 * c, _mm256_add_epi32(_mm256_sll_epi32(h[c], up),
                                             _mm256_sra_epi32(_mm256_add_epi32(l[c], half), down)));
}

V8 widen_lo(__m256i x) { return _mm256_cvtepi32_epi64(_mm256_castsi256_si128(x)); }
V8 widen_hi(__m256i x) { return _mm256_cvtepi32_epi64(_mm256_extracti128_si256(x, 1)); }
static void add64(int64_t *acc, __m256i hi, __m256i lo)
{
    __m256i *p = (void *)acc;
    const __m256i first = _mm256_add_epi64(_mm256_slli_epi64(widen_lo(hi), 8), widen_lo(lo));
    const __m256i last = _mm256_add_epi64(_mm256_slli_epi64(widen_hi(hi), 8), widen_hi(lo));
    _mm256_storeu_si256(p, _mm256_add_epi64(_mm256_loadu_si256(p), first));
    _mm256_storeu_si256(p + 1, _mm256_add_epi64(_mm256_loadu_si256(p + 1), last));
}

/* acc of one query += its weights of the tile times V, 16 elements */
static void weigh16(int64_t *acc, const int16_t *e, const int16_t *tile, size_t d16)
{
    __m256i h[2], l[2];
    for (int c = 0; c < 2; c++) h[c] = l[c] = _mm256_setzero_si256();
    for (size_t j = 0; j < INT_ATTN_KEYS; j += 2, tile += 2 * d16) {
        const __m256i both = pair(e + j), eh = _mm256_srli_epi16(both, 8),
                      el = _mm256_and_si256(both, _mm256_set1_epi16(255));
        for (int c = 0; c < 2; c++) {
            const __m256i v = v8_load((const void *)(tile + 16 * c));
            h[c] = _mm256_add_epi32(h[c], _mm256_madd_epi16(v, eh));
            l[c] = _mm256_add_epi32(l[c], _mm256_madd_epi16(v, el));
        }
    }
    for (int c = 0; c < 2; c++) add64(acc + 8 * c, h[c], l[c]);
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
                scores32(a->z + i * a->ldz + j + c, a->q + i * a->d16, low + i * a->d16, a->tile + 2 * c,
                         a->d16, log2);
    }
    uint64_t sum[INT_ATTN_ROWS];
    for (size_t i = 0; i < count; i++) {
        const size_t visible = pos0 + (first + i) / group + 1;
        sum[i] = bt_int_softmax16_avx2(a->e + i * a->ldz, a->z + i * a->ldz, visible, p->logit);
        memset(a->e + i * a->ldz + visible, 0, (tiles - visible) * sizeof *a->e);
    }
    memset(a->acc, 0, count * a->d16 * sizeof *a->acc);
    for (size_t j = 0; j < tiles; j += INT_ATTN_KEYS) {
        load_v(a, j, n, p->v_shift);
        for (size_t i = 0; i < count; i++)
            for (size_t c = 0; c < a->d16; c += 16)
                weigh16(a->acc + i * a->d16 + c, a->e + i * a->ldz + j, a->tile + 2 * c, a->d16);
    }
    for (size_t i = 0; i < count; i++) {
        int16_t *to = out + (first + i) / group * ldo + (a->g * group + (first + i) % group) * a->d;
        const uint64_t inv = (UINT64_C(1) << 63) / sum[i];
        for (size_t c = 0; c < a->d; c++) to[c] = int_attn_out(a->acc[i * a->d16 + c], inv, p->out);
    }
}

void bt_int_attention16_avx2(int16_t *out, size_t ldo, const int16_t *q, size_t ldq, const bt_kv_view *kv,
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
