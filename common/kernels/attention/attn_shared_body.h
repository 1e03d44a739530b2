/* bt_attn_some for more pairs than a tile has, or with take; included by attn_body.h after attn_some_body.h, whose
 * struct `some` holds the span. No include guard.
 *
 * It goes span by span. Scores and weights have pairs in the lanes, so that a key is read as it lies. The sums of
 * values have elements in the lanes. The list's last positions, which not all rows take, go pair by pair. */

enum {
    MOST_PAIRS = BT_ATTN_SHARED_PAIRS,
    VECTORS = MOST_PAIRS / 16,
    BLOCKS = BT_ATTN_SPAN / BT_ATTN_BLOCK,
    KEYS = 16 /* scored at once */
};

typedef struct shared {
    some s;
    size_t pairs, lanes;     /* lanes: pairs rounded up to whole vectors */
    float *q, *k;            /* queries [lanes / 16, dp, 16], 16 pairs side by side; keys as floats [KEYS, dp] */
    float *p, *v;            /* weights [positions, MOST_PAIRS]; values in panels of 16 elements, each [SPAN, 16] */
    int32_t bit[MOST_PAIRS]; /* the bit of take for the pair's row; all bits in lanes without a pair and without take */
    bool has[MOST_PAIRS];    /* whether the pair took a position of an earlier span */
    unsigned any[BLOCKS];    /* bit r: row r takes a position of the block */
    float m[MOST_PAIRS], l[MOST_PAIRS], tm[MOST_PAIRS], tl[MOST_PAIRS], c[BLOCKS][MOST_PAIRS];
} shared;

/* Copies the queries to q, and fills bit. */
static void shared_queries(shared *t)
{
    const size_t d = t->s.j->kv->head_dim;
    memset(t->q, 0, t->lanes * t->s.j->dp * sizeof *t->q);
    for (size_t i = 0; i < t->lanes; i++) {
        float *to = t->q + i / 16 * 16 * t->s.j->dp + i % 16;
        t->bit[i] = i < t->pairs && t->s.list->take ? 1 << i / t->s.list->width : -1;
        for (size_t e = 0; e < d && i < t->pairs; e++) to[e * 16] = t->s.j->query[i].q[e];
    }
}

/* Copies keys [from, from + n) of the span as floats; the last key fills the missing ones. Prefetches their V. */
static void shared_keys(const shared *t, size_t from, size_t n)
{
    const bt_kv_view *kv = t->s.j->kv;
    const size_t dp = t->s.j->dp;
    for (size_t i = 0; i < KEYS; i++) {
        const uint8_t *row = t->s.key[from + (i < n ? i : n - 1)];
        fetch(row + kv->plane_bytes, kv->head_bytes);
        widen(t->k + i * dp, 1, row, kv);
    }
}

/* z of N keys from key k on, for M vectors of pairs from pair i on. */
BT_INLINE void shared_score_tile(const shared *t, float *z, size_t k, size_t i, const size_t N, const size_t M)
{
    const size_t d = t->s.j->kv->head_dim, dp = t->s.j->dp;
    const float *q = t->q + i * dp, *key = t->k + k * dp;
    const v16 scale = v16_set1(t->s.j->scale);
    v16 a[KEYS][VECTORS];
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_zero();
    for (size_t e = 0; e < d; e++) {
        v16 y[KEYS];
        BT_UNROLL_FOR(size_t n = 0; n < N; n++) y[n] = v16_set1(key[n * dp + e]);
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) {
            const v16 x = v16_load(q + (m * dp + e) * 16);
            BT_UNROLL_FOR(size_t n = 0; n < N; n++) a[n][m] = v16_fma(x, y[n], a[n][m]);
        }
    }
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++)
            v16_store(z + (k + n) * MOST_PAIRS + i + 16 * m, v16_mul(a[n][m], scale));
}

/* z of the KEYS keys in t->k for all pairs; as many chains at once as registers hold. */
static void shared_score(const shared *t, float *z)
{
    enum { WIDE = BT_V16_REGS == 1 ? 8 : 2, NARROW = BT_V16_REGS == 1 ? 8 : 4 };
    if (t->lanes == MOST_PAIRS) {
        for (size_t k = 0; k < KEYS; k += WIDE) shared_score_tile(t, z, k, 0, WIDE, VECTORS);
        return;
    }
    for (size_t i = 0; i < t->lanes; i += 16)
        for (size_t k = 0; k < KEYS; k += NARROW) shared_score_tile(t, z, k, i, NARROW, 1);
}

/* Fills p with z of all pairs; a NaN becomes +inf, and positions that a pair does not take become -inf. Fills any. */
static void shared_scores(shared *t)
{
    const bt_attn_list *list = t->s.list;
    const v16 inf = v16_set1(__builtin_inff());
    for (size_t from = 0, n; from < t->s.n; from += n) {
        n = t->s.n - from < KEYS ? t->s.n - from : KEYS;
        shared_keys(t, from, n);
        shared_score(t, t->p + from * MOST_PAIRS);
        for (size_t k = from; k < from + n; k++)
            for (size_t i = 0; i < t->lanes; i += 16) {
                float *p = t->p + k * MOST_PAIRS + i;
                const v16 z = v16_min(v16_load(p), inf);
                v16_store(p, list->take ? v16_where_bits(z, list->take[t->s.from + k], t->bit + i) : z);
            }
    }
    for (size_t i = 0; i < t->pairs; i++)
        for (size_t k = takes_here(&t->s, i); k < t->s.n; k++) t->p[k * MOST_PAIRS + i] = -__builtin_inff();
    memset(t->any, 0, sizeof t->any);
    for (size_t b = 0; list->take && b < t->s.blocks; b++)
        for (size_t k = t->s.first[b]; k < t->s.first[b + 1]; k++) t->any[b] |= list->take[t->s.from + k];
}

/* Whether pair i takes a position of the span's blocks [b, end). */
BT_INLINE bool takes_any(const shared *t, size_t i, size_t b, size_t end)
{
    unsigned any = 0;
    if (!t->s.list->take) return b < end && t->s.first[b] < takes_here(&t->s, i);
    for (; b < end; b++) any |= t->any[b];
    return any >> (i / t->s.list->width) & 1;
}

/* Makes m, c, p and l of pairs [i, i + 16). */
static void shared_weigh(shared *t, size_t i)
{
    v16 m = v16_set1(-__builtin_inff()), lane[16];
    for (size_t e = 0; e < 16; e++) lane[e] = v16_zero();
    for (size_t b = 0; b < t->s.blocks; b++) {
        v16 top = m;
        for (size_t k = t->s.first[b]; k < t->s.first[b + 1]; k++)
            top = v16_max(v16_load(t->p + k * MOST_PAIRS + i), top);
        float base[16];
        v16_store(t->c[b] + i, v16_exp(v16_sub(m, top)));
        v16_store(base, top);
        m = top;
        for (size_t r = i; r < i + 16 && r < t->pairs; r++) /* skip blocks of which a pair takes nothing */
            if (!takes_any(t, r, b, b + 1)) {
                t->c[b][r] = 1;
                if (!takes_any(t, r, 0, b)) base[r - i] = 0;
            }
        const v16 c = v16_load(t->c[b] + i), from = v16_load(base);
        for (size_t e = 0; e < 16; e++) lane[e] = v16_mul(lane[e], c);
        for (size_t k = t->s.first[b]; k < t->s.first[b + 1]; k++) {
            const v16 p = v16_exp(v16_sub(v16_load(t->p + k * MOST_PAIRS + i), from));
            v16_store(t->p + k * MOST_PAIRS + i, p);
            lane[t->s.at[k] % 16] = v16_add(lane[t->s.at[k] % 16], p);
        }
    }
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t e = 0; e < half; e++) lane[e] = v16_add(lane[e], lane[e + half]);
    v16_store(t->m + i, m);
    v16_store(t->l + i, lane[0]);
}

static void shared_copy(shared *t)
{
    const bt_kv_view *kv = t->s.j->kv;
    for (size_t k = 0; k < t->s.n; k++) widen(t->v + k * 16, BT_ATTN_SPAN, t->s.key[k] + kv->plane_bytes, kv);
}

/* M vectors of acc of N pairs, from element e on, over positions [from, to) of the span. */
BT_INLINE void shared_tile(const shared *t, size_t i, size_t e, size_t from, size_t to, const size_t N, const size_t M)
{
    const size_t d = t->s.j->dp;
    float *acc = t->s.j->acc + i * d + e;
    v16 a[TILE][4];
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_load(acc + n * d + 16 * m);
    for (size_t b = 0; b < t->s.blocks && t->s.first[b] < to; b++) {
        const size_t first = t->s.first[b], last = t->s.first[b + 1] < to ? t->s.first[b + 1] : to;
        if (first >= from)
            BT_UNROLL_FOR(size_t n = 0; n < N; n++)
                BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_mul(a[n][m], v16_set1(t->c[b][i + n]));
        for (size_t k = first > from ? first : from; k < last; k++) {
            v16 x[4];
            BT_UNROLL_FOR(size_t m = 0; m < M; m++) x[m] = v16_load(t->v + ((e + 16 * m) * BT_ATTN_SPAN + k * 16));
            BT_UNROLL_FOR(size_t n = 0; n < N; n++) {
                const v16 y = v16_set1(t->p[k * MOST_PAIRS + i + n]);
                BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_fma(y, x[m], a[n][m]);
            }
        }
    }
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) v16_store(acc + n * d + 16 * m, a[n][m]);
}

BT_INLINE void shared_pairs(const shared *t, size_t i, size_t from, size_t to, const size_t N, const size_t M)
{
    size_t e = 0;
    for (; e + 16 * M <= t->s.j->dp; e += 16 * M) shared_tile(t, i, e, from, to, N, M);
    for (; e < t->s.j->dp; e += 16) shared_tile(t, i, e, from, to, N, 1);
}

/* acc of pair i, from the positions that it takes alone. */
static void shared_alone(const shared *t, size_t i)
{
    const bt_attn_list *list = t->s.list;
    for (size_t e = 0; e < t->s.j->dp; e += 16) {
        v16 a = v16_zero();
        for (size_t b = 0; b < t->s.blocks; b++) {
            a = v16_mul(a, v16_set1(t->c[b][i]));
            for (size_t k = t->s.first[b]; k < t->s.first[b + 1]; k++)
                if (list->take[t->s.from + k] >> (i / list->width) & 1)
                    a = v16_fma(v16_set1(t->p[k * MOST_PAIRS + i]), v16_load(t->v + e * BT_ATTN_SPAN + k * 16), a);
        }
        v16_store(t->s.j->acc + i * t->s.j->dp + e, a);
    }
}

/* Whether weights of +0 certainly changed nothing: every element of acc is finite and none is 0, whose sign they may
 * change. */
static bool shared_is_sure(const float *acc, size_t d)
{
    v16 sum = v16_zero(), least = v16_set1(1);
    size_t e = 0;
    for (; e + 16 <= d; e += 16) {
        const v16 x = v16_load(acc + e);
        sum = v16_add(sum, v16_sub(x, x));
        least = v16_min(least, v16_max(x, v16_neg(x)));
    }
    for (; e < d; e++)
        if (acc[e] == 0 || acc[e] - acc[e] != 0) return false;
    return v8_sum(v16_fold(sum)) == 0 && v8_max(v16_fold_max(v16_neg(least))) < 0;
}

/* acc of all pairs: together over the positions that all may take, then each pair over the rest. With take, a value
 * that a pair does not take gets the weight +0. This leaves the value out, unless the value is not finite or the sum is
 * -0; then acc is made again, alone. */
static void shared_values(shared *t)
{
    const size_t all = takes_here(&t->s, 0), dp = t->s.j->dp; /* pair 0 takes fewest */
    memset(t->s.j->acc, 0, t->pairs * dp * sizeof *t->s.j->acc);
    for (size_t i = 0, n; i < t->pairs; i += n) {
        n = tile_of(t->pairs - i);
#define OF(N, M) shared_pairs(t, i, 0, all, N, M)
        BT_BY_TILE(n, OF)
#undef OF
    }
    for (size_t i = 0; i < t->pairs; i++) {
        if (takes_here(&t->s, i) > all) shared_pairs(t, i, all, takes_here(&t->s, i), 1, 4);
        if (t->s.list->take && takes_any(t, i, 0, t->s.blocks) &&
            !shared_is_sure(t->s.j->acc + i * dp, t->s.j->kv->head_dim))
            shared_alone(t, i);
    }
}

static void shared_merge(shared *t)
{
    job *j = t->s.j;
    for (size_t i = 0; i < t->pairs; i++) {
        if (!takes_any(t, i, 0, t->s.blocks)) continue;
        merge(&t->tm[i], &t->tl[i], j->total + i * j->dp, t->m[i], t->l[i], j->acc + i * j->dp, j->dp, !t->has[i]);
        t->has[i] = true;
    }
}

static void some_together(job *j, float *out, size_t ldo, const bt_attn_list *list)
{
    const size_t d = j->kv->head_dim, pairs = list->rows * list->width;
    shared t;
    t.s.j = j;
    t.s.list = list;
    memset(t.has, 0, sizeof t.has);
    t.pairs = pairs, t.lanes = (pairs + 15) / 16 * 16;
    t.q = j->block, t.k = j->block + MOST_PAIRS * j->dp;
    j->total = j->acc + MOST_PAIRS * j->dp; /* fewer pairs than attn's leave room for the values */
    t.v = j->total + MOST_PAIRS * j->dp;
    t.p = j->p;
    shared_queries(&t);
    for (size_t a = 0; a < list->count; a += t.s.n) {
        some_begin(&t.s, a);
        shared_scores(&t);
        for (size_t i = 0; i < t.lanes; i += 16) shared_weigh(&t, i);
        shared_copy(&t);
        shared_values(&t);
        shared_merge(&t);
    }
    for (size_t i = 0; i < pairs; i++)
        divide(out + i / list->width * ldo + i % list->width * d, j->total + i * j->dp, t.tm[i], t.tl[i], d);
}

_Static_assert(MOST_PAIRS + KEYS <= BT_ATTN_BLOCK, "queries and keys have room");
_Static_assert(2 * MOST_PAIRS + BT_ATTN_SPAN <= 2 * BT_ATTN_PAIRS, "pairs and values have room");
_Static_assert(MOST_PAIRS *BT_ATTN_SPAN <= BT_ATTN_PAIRS * BT_ATTN_BLOCK, "weights have room");
_Static_assert(BT_ATTN_SPAN % KEYS == 0, "scores of a span's last keys are within it");

void BT_VARIANT(bt_attn_some)(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                              size_t g, const bt_attn_list *list, float scale, void *scratch)
{
    const size_t pairs = list->rows * list->width;
    job j;
    begin_job(&j, kv, layer, &(bt_attn_rule){.scale = scale}, scratch);
    j.g = g;
    for (size_t i = 0; i < pairs; i++) j.query[i].q = q + i / list->width * ldq + i % list->width * kv->head_dim;
    if (pairs <= TILE && !list->take) some_few(&j, out, ldo, list);
    else some_together(&j, out, ldo, list);
}
