/* V for few (row, head) pairs, as decoding has them: rows are converted in registers, once for up to 4 pairs, where
 * attn_body.h makes an f32 copy that pays for many. Included by attn_body.h; the same order, and so the same bits.
 * No include guard. */

enum { FEW_PAIRS = 8, FEW_AT_ONCE = 4 };

/* M vectors of acc of N pairs, from element e on: times c, then one fma chain over the block. The first of a block's
 * tiles fetches K of the block behind, as far as `end`. */
BT_INLINE void few_tile(const job *j, size_t first, size_t b, size_t count, size_t end, size_t e, const size_t N,
                        const size_t M, const uint32_t elem_bytes)
{
    const size_t d = j->dp, stride = j->kv->token_bytes, fetched = first == 0 && e == 0 ? j->kv->head_bytes : 0;
    const float *p = j->p + first * BT_ATTN_BLOCK;
    float *acc = j->acc + first * d + e;
    v16 a[FEW_AT_ONCE][4];
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++)
            a[n][m] = v16_mul(v16_load(acc + n * d + 16 * m), v16_set1(j->query[first + n].c));
    for (size_t i = 0, run; i < count; i += run) {
        run = count - i;
        const uint8_t *row = rows_at(j, 1, b + i, &run), *next = row;
        if (b + count + i < end)
            next = rows_at(j, 0, b + count + i, &run); /* full blocks: its pages end where these do */
        for (size_t k = i; k < i + run; k++, row += stride, next += stride) {
            const v16 scale = v16_set1(elem_bytes == 1 ? head_scale(row, d) : 1);
            fetch(next, fetched);
            BT_UNROLL_FOR(size_t m = 0; m < M; m++) {
                const v16 x = load_elems(row, e + 16 * m, scale, elem_bytes);
                BT_UNROLL_FOR(size_t n = 0; n < N; n++)
                    a[n][m] = v16_fma(v16_set1(p[n * BT_ATTN_BLOCK + k]), x, a[n][m]);
            }
        }
    }
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) v16_store(acc + n * d + 16 * m, a[n][m]);
}

/* acc of N pairs. M: as many chains as registers hold and latency wants. */
BT_INLINE void few_rows(job *j, size_t first, size_t b, size_t count, size_t end, const size_t N, const size_t M,
                        const uint32_t elem_bytes)
{
    size_t e = 0;
    for (; e + 16 * M <= j->dp; e += 16 * M) few_tile(j, first, b, count, end, e, N, M, elem_bytes);
    for (; e < j->dp; e += 16) few_tile(j, first, b, count, end, e, N, 1, elem_bytes);
}

BT_INLINE void few_values_of(job *j, size_t b, size_t count, size_t end, const uint32_t elem_bytes)
{
    for (size_t n = 0; n < j->count; n += FEW_AT_ONCE) switch (j->count - n) {
        case 1: few_rows(j, n, b, count, end, 1, 4, elem_bytes); break;
        case 2: few_rows(j, n, b, count, end, 2, BT_V16_REGS == 1 ? 4 : 2, elem_bytes); break;
        case 3: few_rows(j, n, b, count, end, 3, BT_V16_REGS == 1 ? 4 : 2, elem_bytes); break;
        default: few_rows(j, n, b, count, end, 4, BT_V16_REGS == 1 ? 2 : 1, elem_bytes); break;
        }
}

/* Whether every pair sees all `count` positions from b on, and there are few of them, in whole vectors. */
static int is_few(const job *j, size_t b, size_t count)
{
    return j->count <= FEW_PAIRS && j->dp == j->kv->head_dim && j->query[0].visible >= b + count;
}

static void few_values(job *j, size_t b, size_t count, size_t end)
{
    if (j->kv->elem_bytes == 1) few_values_of(j, b, count, end, 1);
    else if (j->kv->elem_bytes == 2) few_values_of(j, b, count, end, 2);
    else few_values_of(j, b, count, end, 4);
}
