/* Attention's product with V for few (row, head) pairs, as decoding has them. V rows are converted in registers, once
 * for up to 6 pairs; attn_body.h makes f32 copies instead, which pays for many pairs. The order is the same, and so are
 * the bits. Included by attn_body.h. No include guard. */

/* M vectors of acc of N pairs, from element e on: times c, then one fma chain over the block's `count` positions. */
BT_INLINE void few_tile(job *j, size_t first, size_t count, size_t e, const size_t N, const size_t M,
                        const uint32_t elem_bytes)
{
    const size_t d = j->dp, offset = j->kv->plane_bytes + e * elem_bytes;
    const float *p = j->p + first * BT_ATTN_BLOCK;
    float *acc = j->acc + first * d + e;
    v16 a[TILE][4];
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++)
            a[n][m] = v16_mul(v16_load(acc + n * d + 16 * m), v16_set1(j->query[first + n].c));
    for (size_t from = 0, to; from < count; from = to) {
        to = count - from < 4 ? count : from + 4;
        BT_UNROLL4_FOR(size_t k = from; k < to; k++) {
            const uint8_t *row = j->row[k] + offset;
            const v16 scale = elem_bytes == 1 ? v16_broadcast(j->value_scale + k) : v16_zero();
            BT_UNROLL_FOR(size_t m = 0; m < M; m++) {
                const v16 x = load_elems(row, 16 * m, scale, elem_bytes);
                BT_UNROLL_FOR(size_t n = 0; n < N; n++)
                    a[n][m] = v16_fma(v16_broadcast(p + n * BT_ATTN_BLOCK + k), x, a[n][m]);
            }
        }
        ask(j, 4 * (N + 1) * M);
    }
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) v16_store(acc + n * d + 16 * m, a[n][m]);
}

/* acc of N pairs, M vectors at once. */
BT_INLINE void few_rows(job *j, size_t first, size_t count, const size_t N, const size_t M, const uint32_t elem_bytes)
{
    size_t e = 0;
    for (; e + 16 * M <= j->dp; e += 16 * M) few_tile(j, first, count, e, N, M, elem_bytes);
    for (; e < j->dp; e += 16) few_tile(j, first, count, e, N, 1, elem_bytes);
}

BT_INLINE void few_values_of(job *j, size_t i, size_t end, size_t count, const uint32_t elem_bytes)
{
    for (size_t n; i < end; i += n) {
        n = tile_of(end - i);
#define OF(N, M) few_rows(j, i, count, N, M, elem_bytes)
        BT_BY_TILE(n, OF)
#undef OF
    }
}

/* Whether this file's way serves the block [b, b + count): few pairs, all of which see all of it, with heads of whole
 * vectors of f16 or int8. */
static int is_few(const job *j, size_t b, size_t count)
{
    return j->each <= BT_ATTN_FEW_PAIRS && j->dp == j->kv->head_dim && j->kv->elem_bytes < 4 &&
           j->query[0].visible >= b + count && j->query[j->each - 1].begin <= b;
}

static void few_values(job *j, size_t first, size_t end, size_t count)
{
    if (j->kv->elem_bytes == 1) few_values_of(j, first, end, count, 1);
    else few_values_of(j, first, end, count, 2);
}
