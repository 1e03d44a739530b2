/* Blocks of K and V for few (row, head) pairs, as decoding has them: rows are converted in registers, once for up to 4 pairs, where
 * attn_body.h makes an f32 copy that pays for many. Included by attn_body.h; the same orders, and so the same bits. No include guard. */

enum { FEW_PAIRS = 8, FEW_AT_ONCE = 4 };

/* The block at hand: rows of K (those of V stand plane_bytes behind), and their scales where elements are int8. */
typedef struct rows {
    const uint8_t *row[BT_ATTN_BLOCK], *next[BT_ATTN_BLOCK];    /* next: what to fetch ahead, the block behind */
    float k_scale[BT_ATTN_BLOCK], v_scale[BT_ATTN_BLOCK];
} rows;

static void find_rows(const uint8_t **row, const job *j, size_t begin, size_t count)
{
    const bt_kv_view *kv = j->kv;
    for (size_t i = 0; i < count;) { /* one run for each page */
        const size_t left = kv->page_tokens - (begin + i) % kv->page_tokens;
        const size_t end = count - i < left ? count : i + left;
        const uint8_t *at = bt_kv_view_row(kv, j->layer, 0, begin + i, j->g);
        for (; i < end; i++, at += kv->token_bytes) row[i] = at;
    }
}

BT_INLINE float head_scale(const uint8_t *row, size_t d)
{
    uint16_t bits;
    memcpy(&bits, row + d, sizeof bits);
    return _cvtsh_ss(bits);
}

/* Rows of `count` positions from b, and of the block behind as far as `end`. */
static void begin_rows(rows *r, const job *j, size_t b, size_t count, size_t end)
{
    const size_t behind = b + count < end ? end - b - count : 0, d = j->kv->head_dim;
    find_rows(r->row, j, b, count);
    for (size_t i = count; i < BT_ATTN_BLOCK; i++) r->row[i] = r->row[count - 1];
    find_rows(r->next, j, b + count, behind < BT_ATTN_BLOCK ? behind : BT_ATTN_BLOCK);
    for (size_t i = behind; i < BT_ATTN_BLOCK; i++) r->next[i] = r->row[i];
    for (size_t i = 0; j->kv->elem_bytes == 1 && i < BT_ATTN_BLOCK; i++) r->k_scale[i] = head_scale(r->row[i], d);
}

BT_INLINE void fetch(const uint8_t *row, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)(row + i), _MM_HINT_T0);
}

BT_INLINE v16 load_elems(const uint8_t *row, size_t e, const float *scale, const uint32_t elem_bytes)
{
    if (elem_bytes == 1) return v16_mul(v16_load_s8((const int8_t *)row + e), v16_set1(*scale));
    if (elem_bytes == 2) return v16_load_f16((const uint16_t *)(const void *)row + e);
    return v16_load((const float *)(const void *)row + e);
}

/* z of N pairs from `first` on, as score_block makes them. V of the block is fetched meanwhile. */
BT_INLINE void few_scores(const job *j, const rows *r, size_t first, size_t count, const size_t N, const uint32_t elem_bytes)
{
    const size_t d = j->dp;
    const float *q = j->q + first * d;
    float *z = j->p + first * BT_ATTN_BLOCK;
    const __m128 scale = _mm_set1_ps(j->scale);
    for (size_t i = 0; i < count; i += 4) {
        __m256 half[FEW_AT_ONCE][4];
        BT_UNROLL for (size_t k = 0; k < 4; k++) {
            const uint8_t *row = r->row[i + k];
            v16 l[FEW_AT_ONCE];
            if (first == 0) fetch(row + j->kv->plane_bytes, j->kv->head_bytes);
            BT_UNROLL for (size_t n = 0; n < N; n++) l[n] = v16_zero();
            for (size_t e = 0; e < d; e += 16) {
                const v16 x = load_elems(row, e, &r->k_scale[i + k], elem_bytes);
                BT_UNROLL for (size_t n = 0; n < N; n++) l[n] = v16_fma(v16_load(q + n * d + e), x, l[n]);
            }
            BT_UNROLL for (size_t n = 0; n < N; n++) half[n][k] = v16_fold(l[n]);
        }
        BT_UNROLL for (size_t n = 0; n < N; n++) _mm_storeu_ps(z + n * BT_ATTN_BLOCK + i, _mm_mul_ps(v8_sum4(half[n]), scale));
    }
    for (size_t n = 0; n < N; n++)
        for (size_t i = count; i < BT_ATTN_BLOCK; i++) z[n * BT_ATTN_BLOCK + i] = -__builtin_inff();
}

/* M vectors of acc of N pairs, from element e on: times c, then one fma chain over the block. */
BT_INLINE void few_tile(const job *j, const rows *r, size_t first, size_t count, size_t e, const size_t N, const size_t M,
                        const uint32_t elem_bytes)
{
    const size_t d = j->dp, plane = j->kv->plane_bytes;
    const int is_first = first == 0 && e == 0; /* K of the block behind is fetched by the way */
    const float *p = j->p + first * BT_ATTN_BLOCK;
    float *acc = j->acc + first * d + e;
    v16 a[FEW_AT_ONCE][4];
    BT_UNROLL for (size_t n = 0; n < N; n++)
        BT_UNROLL for (size_t m = 0; m < M; m++) a[n][m] = v16_mul(v16_load(acc + n * d + 16 * m), v16_set1(j->query[first + n].c));
    for (size_t i = 0; i < count; i++) {
        const uint8_t *row = r->row[i] + plane;
        if (is_first) fetch(r->next[i], j->kv->head_bytes);
        BT_UNROLL for (size_t m = 0; m < M; m++) {
            const v16 x = load_elems(row, e + 16 * m, &r->v_scale[i], elem_bytes);
            BT_UNROLL for (size_t n = 0; n < N; n++) a[n][m] = v16_fma(v16_set1(p[n * BT_ATTN_BLOCK + i]), x, a[n][m]);
        }
    }
    BT_UNROLL for (size_t n = 0; n < N; n++)
        BT_UNROLL for (size_t m = 0; m < M; m++) v16_store(acc + n * d + 16 * m, a[n][m]);
}

/* l of N pairs; their chains of adds run side by side. */
BT_INLINE void few_sums(job *j, size_t first, size_t count, const size_t N)
{
    const float *p = j->p + first * BT_ATTN_BLOCK;
    query *s = j->query + first;
    float sum[FEW_AT_ONCE] = {0};
    for (size_t i = 0; i < count; i++)
        BT_UNROLL for (size_t n = 0; n < N; n++) sum[n] += p[n * BT_ATTN_BLOCK + i];
    for (size_t n = 0; n < N; n++) s[n].l = s[n].l * s[n].c + sum[n];
}

/* l and acc of N pairs, as value_block makes them. M: as many chains as registers hold and latency wants. */
BT_INLINE void few_values(job *j, const rows *r, size_t first, size_t count, const size_t N, const size_t M,
                          const uint32_t elem_bytes)
{
    size_t e = 0;
    few_sums(j, first, count, N);
    for (; e + 16 * M <= j->dp; e += 16 * M) few_tile(j, r, first, count, e, N, M, elem_bytes);
    for (; e < j->dp; e += 16) few_tile(j, r, first, count, e, N, 1, elem_bytes);
}

BT_INLINE void few_block_of(job *j, rows *r, size_t count, const uint32_t elem_bytes)
{
    for (size_t n = 0; n < j->count; n += FEW_AT_ONCE)
        switch (j->count - n) {
        case 1: few_scores(j, r, n, count, 1, elem_bytes); break;
        case 2: few_scores(j, r, n, count, 2, elem_bytes); break;
        case 3: few_scores(j, r, n, count, 3, elem_bytes); break;
        default: few_scores(j, r, n, count, 4, elem_bytes); break;
        }
    for (size_t n = 0; n < j->count; n++) weigh_block(j, n, &j->query[n], count);
    for (size_t i = 0; elem_bytes == 1 && i < BT_ATTN_BLOCK; i++)
        r->v_scale[i] = head_scale(r->row[i] + j->kv->plane_bytes, j->kv->head_dim);
    for (size_t n = 0; n < j->count; n += FEW_AT_ONCE)
        switch (j->count - n) {
        case 1: few_values(j, r, n, count, 1, 4, elem_bytes); break;
        case 2: few_values(j, r, n, count, 2, BT_V16_REGS == 1 ? 4 : 2, elem_bytes); break;
        case 3: few_values(j, r, n, count, 3, BT_V16_REGS == 1 ? 4 : 2, elem_bytes); break;
        default: few_values(j, r, n, count, 4, BT_V16_REGS == 1 ? 2 : 1, elem_bytes); break;
        }
}

/* Whether every pair sees all `count` positions from b on, and there are few of them, in whole vectors. */
static int is_few(const job *j, size_t b, size_t count)
{
    return j->count <= FEW_PAIRS && j->dp == j->kv->head_dim && j->query[0].visible >= b + count;
}

static void few_block(job *j, size_t b, size_t count)
{
    rows r;
    begin_rows(&r, j, b, count, j->query[j->count - 1].visible);
    if (j->kv->elem_bytes == 1) few_block_of(j, &r, count, 1);
    else if (j->kv->elem_bytes == 2) few_block_of(j, &r, count, 2);
    else few_block_of(j, &r, count, 4);
}
