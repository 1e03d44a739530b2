/* Attention of a (row, head) that has its list of positions for itself; included by attn_body.h, whose tiles and copies
 * it uses. No include guard.
 *
 * A span at a time: keys go 16 at once into panels, and their scores stand one behind the other; then greatest scores,
 * weights and sums by blocks; then one chain down the values. */

typedef struct some {
    job *j;
    size_t n, blocks;                               /* positions of the span; blocks that hold any */
    size_t first[BT_ATTN_SPAN / BT_ATTN_BLOCK + 1]; /* of each block, and the end */
    const uint32_t *at;
    const uint8_t *key[BT_ATTN_SPAN]; /* K row of each position */
    float z[BT_ATTN_SPAN + 16];       /* scores */
    float p[BT_ATTN_SPAN + 16];       /* weights */
    float c[16];                      /* what a block scales those before it by */
} some;

/* The span's positions of the list at[left]: how many, and where their rows are. */
static void some_begin(some *s, const uint32_t *at, size_t left)
{
    const bt_kv_view *kv = s->j->kv;
    const unsigned page_log2 = (unsigned)__builtin_ctzll(kv->page_tokens);
    const size_t in_page = kv->page_tokens - 1, fixed = s->j->layer * kv->layer_bytes + s->j->g * kv->head_bytes;
    const uint32_t span = at[0] / BT_ATTN_SPAN;
    uint32_t block = UINT32_MAX;
    s->at = at;
    s->n = s->blocks = 0;
    for (; s->n < left && at[s->n] / BT_ATTN_SPAN == span; s->n++) {
        const uint32_t pos = at[s->n];
        if (pos / BT_ATTN_BLOCK != block) block = pos / BT_ATTN_BLOCK, s->first[s->blocks++] = s->n;
        s->key[s->n] = kv->page[pos >> page_log2] + fixed + (pos & in_page) * kv->token_bytes;
    }
    s->first[s->blocks] = s->n;
}

/* Panels of K of positions [from, from + n) of the span, n <= 64; V, which comes later, is fetched on the way. */
static void some_keys(const some *s, size_t from, size_t n)
{
    job *j = s->j;
    const bt_kv_view *kv = j->kv;
    const size_t d = kv->head_dim;
    uint8_t rows[PANEL * BT_ATTN_MAX_DIM * 4] __attribute__((aligned(64)));
    for (size_t i = 0; i < n; i += PANEL) {
        for (size_t r = 0; r < PANEL; r++) { /* the last stands for those that lack */
            const uint8_t *key = s->key[from + (i + r < n ? i + r : n - 1)];
            memcpy(rows + r * kv->head_bytes, key, kv->head_bytes);
            fetch(key + kv->plane_bytes, kv->head_bytes);
            if (kv->elem_bytes == 1) j->key_scale[i + r] = head_scale(key, d);
        }
        pack_panel(j->block + i * j->dp, rows, kv->head_bytes, d, kv->elem_bytes);
    }
}

/* z of all positions of the span; a NaN counts as +inf. */
static void some_scores(some *s)
{
    job *j = s->j;
    const v16 inf = v16_set1(__builtin_inff());
    for (size_t from = 0, n; from < s->n; from += n) {
        n = s->n - from < BT_ATTN_BLOCK ? s->n - from : BT_ATTN_BLOCK;
        some_keys(s, from, n);
        score(j, 0, 1, (n + PANEL - 1) / PANEL, 1);
        for (size_t i = 0; i < n; i += 16) v16_store(s->z + from + i, v16_min(v16_load(j->p + i), inf));
    }
    v16_store(s->z + s->n, v16_zero()); /* the last block is read in whole vectors */
}

/* The span's m; p and c of every position and block, and l. */
static float some_weigh(some *s, float *l)
{
    float m = -__builtin_inff(), block[BT_ATTN_BLOCK + 16];
    v16 lanes = v16_zero();
    memset(s->c, 0, sizeof s->c);
    for (size_t b = 0; b < s->blocks; b++) {
        const size_t first = s->first[b], n = s->first[b + 1] - first;
        for (size_t i = 0; i < n; i += 16) v16_store(block + i, v16_load(s->z + first + i));
        const float top = greatest(block, n), now = top > m ? top : m;
        s->c[b] = m - now;
        m = now;
        /* what is written past the block's end is the next one's, or nobody's */
        for (size_t i = 0; i < n; i += 16)
            v16_store(s->p + first + i, v16_sub(v16_load(s->z + first + i), v16_set1(now)));
    }
    v16_store(s->c, v16_exp(v16_load(s->c)));
    for (size_t i = 0; i < s->n; i += 16) v16_store(s->p + i, v16_exp(v16_load(s->p + i)));
    for (size_t b = 0; b < s->blocks; b++) {
        float slot[BT_ATTN_BLOCK]; /* of what is left out the weight is +0 */
        for (size_t i = 0; i < BT_ATTN_BLOCK; i += 16) v16_store(slot + i, v16_zero());
        for (size_t i = s->first[b]; i < s->first[b + 1]; i++) slot[s->at[i] % BT_ATTN_BLOCK] = s->p[i];
        lanes = v16_mul(lanes, v16_set1(s->c[b]));
        for (size_t i = 0; i < BT_ATTN_BLOCK; i += 16) lanes = v16_add(lanes, v16_load(slot + i));
    }
    *l = v8_sum(v16_fold(lanes));
    return m;
}

/* M vectors of the span's acc, from element e on. */
BT_INLINE void some_tile(const some *s, size_t e, const size_t M, const uint32_t elem_bytes)
{
    const size_t d = s->j->kv->head_dim, plane = s->j->kv->plane_bytes;
    v16 a[4];
    BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[m] = v16_zero();
    for (size_t b = 0; b < s->blocks; b++) {
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[m] = v16_mul(a[m], v16_set1(s->c[b]));
        for (size_t i = s->first[b]; i < s->first[b + 1]; i++) {
            const uint8_t *row = s->key[i] + plane;
            const v16 scale = v16_set1(elem_bytes == 1 ? head_scale(row, d) : 1), p = v16_set1(s->p[i]);
            BT_UNROLL_FOR(size_t m = 0; m < M; m++)
                a[m] = v16_fma(p, load_elems(row, e + 16 * m, scale, elem_bytes), a[m]);
        }
    }
    BT_UNROLL_FOR(size_t m = 0; m < M; m++) v16_store(s->j->acc + e + 16 * m, a[m]);
}

/* The last elements of a head that is not made of whole vectors. */
static void some_rest(const some *s, size_t e)
{
    const bt_kv_view *kv = s->j->kv;
    const size_t d = kv->head_dim;
    v16 a = v16_zero();
    for (size_t b = 0; b < s->blocks; b++) {
        a = v16_mul(a, v16_set1(s->c[b]));
        for (size_t i = s->first[b]; i < s->first[b + 1]; i++) {
            const uint8_t *row = s->key[i] + kv->plane_bytes;
            uint8_t tail[64] = {0};
            memcpy(tail, row + e * kv->elem_bytes, (d - e) * kv->elem_bytes);
            const v16 v = kv->elem_bytes == 1   ? load_elems(tail, 0, v16_set1(head_scale(row, d)), 1)
                          : kv->elem_bytes == 2 ? load_elems(tail, 0, v16_zero(), 2)
                                                : load_elems(tail, 0, v16_zero(), 4);
            a = v16_fma(v16_set1(s->p[i]), v, a);
        }
    }
    v16_store(s->j->acc + e, a);
}

BT_INLINE void some_values_of(const some *s, const uint32_t elem_bytes)
{
    const size_t d = s->j->kv->head_dim;
    size_t e = 0;
    for (; e + 64 <= d; e += 64) some_tile(s, e, 4, elem_bytes);
    for (; e + 16 <= d; e += 16) some_tile(s, e, 1, elem_bytes);
    if (e < d) some_rest(s, e);
}

static void some_values(const some *s)
{
    if (s->j->kv->elem_bytes == 1) some_values_of(s, 1);
    else if (s->j->kv->elem_bytes == 2) some_values_of(s, 2);
    else some_values_of(s, 4);
}

static void some_alone(job *j, float *out, const bt_attn_list *list)
{
    float tm = 0, tl = 0;
    some s;
    s.j = j;
    for (size_t a = 0; a < list->count; a += s.n) {
        float l;
        some_begin(&s, list->at + a, list->count - a);
        some_scores(&s);
        const float m = some_weigh(&s, &l);
        some_values(&s);
        merge(&tm, &tl, j->total, m, l, j->acc, j->dp, a == 0);
    }
    divide(out, j->total, tm, tl, j->kv->head_dim);
}
