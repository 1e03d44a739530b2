/* Attention of more pairs than a tile has that share a list of positions; included by attn_body.h after
 * attn_some_body.h, of which it takes the way through a span. No include guard.
 *
 * A span at a time: scores of all pairs, a product with K's panels; then all that is done by pair goes with pairs in
 * the lanes, a position after the other; then the values, a product again. The last positions of the list, which not
 * all rows see, are every pair's own. */

enum { MOST_PAIRS = BT_ATTN_SHARED_PAIRS, BLOCKS = BT_ATTN_SPAN / BT_ATTN_BLOCK };

typedef struct shared {
    some s;
    size_t pairs, lanes;             /* up to whole vectors */
    float *p, *v;                    /* weights [positions, MOST_PAIRS]; values in panels of 16 elements [SPAN, 16] */
    bool has[MOST_PAIRS], is_finite; /* has: a pair has taken something of the spans before; is_finite: all values are
                                      */
    unsigned any[BLOCKS];            /* of a block's positions: the rows that take one */
    float m[MOST_PAIRS], l[MOST_PAIRS], tm[MOST_PAIRS], tl[MOST_PAIRS], c[BLOCKS][MOST_PAIRS];
} shared;

/* z of all pairs to p; a NaN counts as +inf, what a pair does not take as -inf. */
static void shared_scores(shared *t)
{
    job *j = t->s.j;
    const v16 inf = v16_set1(__builtin_inff());
    for (size_t from = 0, n; from < t->s.n; from += n) {
        n = t->s.n - from < BT_ATTN_BLOCK ? t->s.n - from : BT_ATTN_BLOCK;
        some_keys(&t->s, from, n);
        for (size_t i = 0, tile; i < t->pairs; i += tile) {
            tile = tile_of(t->pairs - i);
            score(j, i, tile, (n + PANEL - 1) / PANEL, 1);
        }
        for (size_t i = 0; i < t->pairs; i++)
            for (size_t k = 0; k < n; k++) t->p[(from + k) * MOST_PAIRS + i] = j->p[i * BT_ATTN_BLOCK + k];
        for (size_t k = from; k < from + n; k++)
            for (size_t i = 0; i < t->lanes; i += 16)
                v16_store(t->p + k * MOST_PAIRS + i, v16_min(v16_load(t->p + k * MOST_PAIRS + i), inf));
    }
    for (size_t i = 0; i < t->pairs; i++)
        for (size_t k = takes_here(&t->s, i); k < t->s.n; k++) t->p[k * MOST_PAIRS + i] = -__builtin_inff();
    const bt_attn_list *list = t->s.list;
    const unsigned all = (1u << list->rows) - 1;
    memset(t->any, 0, sizeof t->any);
    for (size_t b = 0; list->take && b < t->s.blocks; b++)
        for (size_t k = t->s.first[b]; k < t->s.first[b + 1]; k++) {
            const unsigned take = list->take[t->s.from + k];
            t->any[b] |= take;
            for (unsigned not = all & ~take; not ; not &= not -1) {
                float *p = t->p + k * MOST_PAIRS + (size_t)__builtin_ctz(not ) * list->width;
                for (size_t h = 0; h < list->width; h++) p[h] = -__builtin_inff();
            }
        }
}

/* Does pair i take any position of the span's blocks [b, end)? */
static bool takes_any(const shared *t, size_t i, size_t b, size_t end)
{
    unsigned any = 0;
    if (!t->s.list->take) return b < end && t->s.first[b] < takes_here(&t->s, i);
    for (; b < end; b++) any |= t->any[b];
    return any >> (i / t->s.list->width) & 1;
}

/* m, c, p and l of pairs [i, i + 16). */
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
        for (size_t r = i; r < i + 16 && r < t->pairs; r++) /* what a pair has nothing of is passed over */
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
    for (size_t k = 0; k < t->s.n; k++) {
        const uint8_t *row = t->s.key[k] + kv->plane_bytes;
        float *to = t->v + k * 16;
        if (kv->elem_bytes == 1) widen_row(to, BT_ATTN_SPAN, row, kv->head_dim, 1);
        else if (kv->elem_bytes == 2) widen_row(to, BT_ATTN_SPAN, row, kv->head_dim, 2);
        else widen_row(to, BT_ATTN_SPAN, row, kv->head_dim, 4);
    }
    v16 sum = v16_zero();
    for (size_t e = 0; t->s.list->take && e < t->s.j->dp; e += 16)
        for (size_t k = 0; k < t->s.n; k++) {
            const v16 v = v16_load(t->v + e * BT_ATTN_SPAN + k * 16);
            sum = v16_add(sum, v16_sub(v, v));
        }
    t->is_finite = v8_sum(v16_fold(sum)) == 0;
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

/* acc of pair i over what it takes, where a value that it does not take is no number, which +0 would not leave out. */
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

/* acc of all pairs: together as far as all take, then each its own way. */
static void shared_values(shared *t)
{
    const size_t all = takes_here(&t->s, 0); /* of all pairs the least */
    memset(t->s.j->acc, 0, t->pairs * t->s.j->dp * sizeof *t->s.j->acc);
    if (t->s.list->take && !t->is_finite) {
        for (size_t i = 0; i < t->pairs; i++) shared_alone(t, i);
        return;
    }
    for (size_t i = 0, n; i < t->pairs; i += n) {
        n = tile_of(t->pairs - i);
        switch (n) {
        case 1: shared_pairs(t, i, 0, all, 1, 4); break;
        case 2: shared_pairs(t, i, 0, all, 2, BT_V16_REGS == 1 ? 4 : 2); break;
        case 3: shared_pairs(t, i, 0, all, 3, BT_V16_REGS == 1 ? 4 : 2); break;
        case 4: shared_pairs(t, i, 0, all, 4, BT_V16_REGS == 1 ? 4 : 1); break;
        case 5: shared_pairs(t, i, 0, all, 5, BT_V16_REGS == 1 ? 4 : 1); break;
        default: shared_pairs(t, i, 0, all, 6, BT_V16_REGS == 1 ? 4 : 1); break;
        }
    }
    for (size_t i = 0; i < t->pairs; i++)
        if (takes_here(&t->s, i) > all) shared_pairs(t, i, all, takes_here(&t->s, i), 1, 4);
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
    j->total = j->acc + MOST_PAIRS * j->dp; /* for fewer pairs than attn's: the values have the rest, */
    t.v = j->total + MOST_PAIRS * j->dp;
    t.p = j->p;
    j->p = j->l;                              /* and a block's scores lie where its lanes of l are not */
    for (size_t k = 0; k < BT_ATTN_SPAN; k++) /* lanes without a pair */
        v16_store(t.p + k * MOST_PAIRS + t.lanes - 16, v16_zero());
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

_Static_assert(2 * MOST_PAIRS + BT_ATTN_SPAN <= 2 * BT_ATTN_PAIRS, "pairs and values have room");
_Static_assert(MOST_PAIRS *BT_ATTN_SPAN <= BT_ATTN_PAIRS * BT_ATTN_BLOCK, "weights have room");
_Static_assert(MOST_PAIRS *BT_ATTN_BLOCK <= BT_ATTN_PAIRS * 16, "a block's scores have room");

void BT_VARIANT(bt_attn_some)(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                              size_t g, const bt_attn_list *list, float scale, void *scratch)
{
    const size_t pairs = list->rows * list->width;
    job j;
    begin_job(&j, kv, layer, scale, scratch);
    j.g = g;
    for (size_t i = 0; i < pairs; i++) j.query[i].q = q + i / list->width * ldq + i % list->width * kv->head_dim;
    if (pairs <= TILE && !list->take) some_few(&j, out, ldo, list);
    else some_together(&j, out, ldo, list);
}
