/* bt_attn_some for up to TILE (row, head) pairs; included by attn_body.h, whose tiles and copies it uses. No include
 * guard.
 *
 * It goes span by span. Keys are copied 16 at once into panels, and a pair's scores follow one another in z. Then come
 * greatest scores, weights and their sums, block by block. Then the values are read where they lie, by all pairs
 * together as far as all take them. */

typedef struct some {
    job *j;
    const bt_attn_list *list;
    size_t from, n, blocks;                         /* the span's first entry of the list; its positions; its blocks
                                                       that have any */
    size_t first[BT_ATTN_SPAN / BT_ATTN_BLOCK + 1]; /* each block's first position, counted in the span; then n */
    const uint32_t *at;                             /* [n] */
    const uint8_t *key[BT_ATTN_SPAN];               /* K row of each position */
    float z[TILE][BT_ATTN_SPAN + 16];               /* scores; then weights */
    float c[TILE][16];                              /* a block's factor for the sums of the blocks before it */
} some;

/* How many positions pair i takes (with take: may take): of the list; of the span. */
static size_t takes(const bt_attn_list *list, size_t i)
{
    return list->take ? list->count : list->count - (list->rows - 1 - i / list->width);
}
static size_t takes_here(const some *s, size_t i)
{
    const size_t n = takes(s->list, i);
    return n <= s->from ? 0 : n - s->from < s->n ? n - s->from : s->n;
}

/* Begins the span of list->at[from]: counts its positions and blocks, and finds their K rows. */
static void some_begin(some *s, size_t from)
{
    const bt_kv_view *kv = s->j->kv;
    const unsigned page_log2 = (unsigned)__builtin_ctzll(kv->page_tokens);
    const size_t in_page = kv->page_tokens - 1, fixed = s->j->layer * kv->layer_bytes + s->j->g * kv->head_bytes,
                 left = s->list->count - from;
    const uint32_t *at = s->list->at + from, span = at[0] / BT_ATTN_SPAN;
    uint32_t block = UINT32_MAX;
    s->at = at, s->from = from;
    s->n = s->blocks = 0;
    for (; s->n < left && at[s->n] / BT_ATTN_SPAN == span; s->n++) {
        const uint32_t pos = at[s->n];
        if (pos / BT_ATTN_BLOCK != block) block = pos / BT_ATTN_BLOCK, s->first[s->blocks++] = s->n;
        s->key[s->n] = kv->page[pos >> page_log2] + fixed + (pos & in_page) * kv->token_bytes;
        fetch(s->key[s->n], kv->head_bytes);
    }
    s->first[s->blocks] = s->n;
}

/* Copies K of positions [from, from + n) of the span to panels, n <= 64, and prefetches their V. */
static void some_keys(const some *s, size_t from, size_t n)
{
    job *j = s->j;
    const bt_kv_view *kv = j->kv;
    for (size_t i = 0; i < n; i += PANEL) {
        const uint8_t *row[PANEL];
        for (size_t r = 0; r < PANEL; r++) { /* the last position fills the missing ones */
            row[r] = s->key[from + (i + r < n ? i + r : n - 1)];
            fetch(row[r] + kv->plane_bytes, kv->head_bytes);
            if (kv->elem_bytes == 1) j->key_scale[i + r] = head_scale(row[r], kv->head_dim);
        }
        pack_panel(j->block + i * j->dp, row, kv->head_dim, kv->elem_bytes);
    }
}

/* z of all pairs for the positions of the span; a NaN becomes +inf. */
static void some_scores(some *s, size_t pairs)
{
    job *j = s->j;
    const v16 inf = v16_set1(__builtin_inff());
    for (size_t from = 0, n; from < s->n; from += n) {
        n = s->n - from < BT_ATTN_BLOCK ? s->n - from : BT_ATTN_BLOCK;
        some_keys(s, from, n);
        score(j, 0, pairs, (n + PANEL - 1) / PANEL, 1);
        for (size_t p = 0; p < pairs; p++)
            for (size_t i = 0; i < n; i += 16)
                v16_store(s->z[p] + from + i, v16_min(v16_load(j->p + p * BT_ATTN_BLOCK + i), inf));
    }
    for (size_t p = 0; p < pairs; p++) /* the last block is read in whole vectors */
        v16_store(s->z[p] + s->n, v16_zero());
}

/* Makes a pair's weights, c and l over the span's first n positions. Returns its m. */
static float some_weigh(some *s, size_t pair, size_t n, float *l)
{
    float m = -__builtin_inff(), block[BT_ATTN_BLOCK + 16], p[BT_ATTN_SPAN + 16], *z = s->z[pair], *c = s->c[pair];
    float lane[16] = {0};
    memset(c, 0, sizeof s->c[pair]); /* exponents: a block without a position scales by exp(0) = 1 */
    for (size_t b = 0; b < s->blocks && s->first[b] < n; b++) {
        const size_t first = s->first[b], count = (s->first[b + 1] < n ? s->first[b + 1] : n) - first;
        for (size_t i = 0; i < count; i += 16) v16_store(block + i, v16_load(z + first + i));
        const float top = greatest(block, count), now = top > m ? top : m;
        c[b] = m - now;
        m = now;
        /* past its end a block writes into the next one's place, which is written later, or into padding */
        for (size_t i = 0; i < count; i += 16)
            v16_store(p + first + i, v16_sub(v16_load(z + first + i), v16_set1(now)));
    }
    v16_store(c, v16_exp(v16_load(c)));
    for (size_t i = 0; i < n; i += 16) v16_store(z + i, v16_exp(v16_load(p + i)));
    for (size_t b = 0; b < s->blocks && s->first[b] < n; b++) {
        const size_t end = s->first[b + 1] < n ? s->first[b + 1] : n;
        if (c[b] != 1) v16_store(lane, v16_mul(v16_load(lane), v16_set1(c[b])));
        for (size_t i = s->first[b]; i < end; i++) lane[s->at[i] % 16] += z[i];
    }
    *l = v8_sum(v16_fold(v16_load(lane)));
    return m;
}

/* M vectors of acc of N pairs from pair i and element e on, over positions [from, to) of the span. */
BT_INLINE void some_tile(const some *s, size_t i, size_t e, size_t from, size_t to, const size_t N, const size_t M,
                         const uint32_t elem_bytes)
{
    const size_t d = s->j->kv->head_dim, plane = s->j->kv->plane_bytes, dp = s->j->dp;
    float *acc = s->j->acc + i * dp + e;
    v16 a[TILE][4];
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_load(acc + n * dp + 16 * m);
    for (size_t b = 0; b < s->blocks && s->first[b] < to; b++) {
        const size_t first = s->first[b], last = s->first[b + 1] < to ? s->first[b + 1] : to;
        if (first >= from)
            BT_UNROLL_FOR(size_t n = 0; n < N; n++)
                BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_mul(a[n][m], v16_set1(s->c[i + n][b]));
        for (size_t k = first > from ? first : from; k < last; k++) {
            const uint8_t *row = s->key[k] + plane;
            const v16 scale = v16_set1(elem_bytes == 1 ? head_scale(row, d) : 1);
            v16 x[4];
            BT_UNROLL_FOR(size_t m = 0; m < M; m++) x[m] = load_elems(row, e + 16 * m, scale, elem_bytes);
            BT_UNROLL_FOR(size_t n = 0; n < N; n++) {
                const v16 p = v16_set1(s->z[i + n][k]);
                BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_fma(p, x[m], a[n][m]);
            }
        }
    }
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) v16_store(acc + n * dp + 16 * m, a[n][m]);
}

/* acc of pair i for the last elements of a head that is not made of whole vectors. */
static void some_rest(const some *s, size_t i, size_t e, size_t from, size_t to)
{
    const bt_kv_view *kv = s->j->kv;
    const size_t d = kv->head_dim;
    float *acc = s->j->acc + i * s->j->dp + e;
    v16 a = v16_load(acc);
    for (size_t b = 0; b < s->blocks && s->first[b] < to; b++) {
        if (s->first[b] >= from) a = v16_mul(a, v16_set1(s->c[i][b]));
        for (size_t k = s->first[b] > from ? s->first[b] : from; k < s->first[b + 1] && k < to; k++) {
            const uint8_t *row = s->key[k] + kv->plane_bytes;
            uint8_t tail[64] = {0};
            memcpy(tail, row + e * kv->elem_bytes, (d - e) * kv->elem_bytes);
            const v16 v = kv->elem_bytes == 1   ? load_elems(tail, 0, v16_set1(head_scale(row, d)), 1)
                          : kv->elem_bytes == 2 ? load_elems(tail, 0, v16_zero(), 2)
                                                : load_elems(tail, 0, v16_zero(), 4);
            a = v16_fma(v16_set1(s->z[i][k]), v, a);
        }
    }
    v16_store(acc, a);
}

BT_INLINE void some_pairs(const some *s, size_t i, size_t from, size_t to, const size_t N, const size_t M,
                          const uint32_t elem_bytes)
{
    const size_t d = s->j->kv->head_dim;
    size_t e = 0;
    for (; e + 16 * M <= d; e += 16 * M) some_tile(s, i, e, from, to, N, M, elem_bytes);
    for (; e + 16 <= d; e += 16) some_tile(s, i, e, from, to, N, 1, elem_bytes);
    for (size_t n = 0; e < d && n < N; n++) some_rest(s, i + n, e, from, to);
}

/* acc of n pairs: together over the positions that all take, then each pair over the rest that it takes. */
BT_INLINE void some_values_of(const some *s, size_t n, const uint32_t elem_bytes)
{
    const size_t all = takes_here(s, 0); /* pair 0 takes fewest */
#define OF(N, M) some_pairs(s, 0, 0, all, N, M, elem_bytes)
    BT_BY_TILE(n, OF)
#undef OF
    for (size_t i = 0; i < n; i++)
        if (takes_here(s, i) > all) some_pairs(s, i, all, takes_here(s, i), 1, 4, elem_bytes);
}

static void some_values(const some *s, size_t n)
{
    memset(s->j->acc, 0, n * s->j->dp * sizeof *s->j->acc);
    if (s->j->kv->elem_bytes == 1) some_values_of(s, n, 1);
    else if (s->j->kv->elem_bytes == 2) some_values_of(s, n, 2);
    else some_values_of(s, n, 4);
}

/* rows * width <= TILE; the job's queries are these pairs. */
static void some_few(job *j, float *out, size_t ldo, const bt_attn_list *list)
{
    const size_t pairs = list->rows * list->width;
    float tm[TILE], tl[TILE], m[TILE], l[TILE];
    some s;
    s.j = j, s.list = list;
    for (size_t a = 0; a < list->count; a += s.n) {
        some_begin(&s, a);
        some_scores(&s, pairs);
        for (size_t i = 0; i < pairs; i++) m[i] = some_weigh(&s, i, takes_here(&s, i), &l[i]);
        some_values(&s, pairs);
        for (size_t i = 0; i < pairs; i++)
            if (takes_here(&s, i))
                merge(&tm[i], &tl[i], j->total + i * j->dp, m[i], l[i], j->acc + i * j->dp, j->dp, a == 0);
    }
    for (size_t i = 0; i < pairs; i++)
        divide(out + i / list->width * ldo + i % list->width * j->kv->head_dim, j->total + i * j->dp, tm[i], tl[i],
               j->kv->head_dim);
}
