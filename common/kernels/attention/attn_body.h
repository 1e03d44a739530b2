/* Attention over v16; included by attn_<isa>.c after its simd header and its packing. No include guard.
 *
 * (row, head) pairs that read the same kv head share f32 copies of each block of 64 positions. They go in tiles of up
 * to 6 pairs: first the scores of all pairs, a product with K transposed, and their weights; then the sums of values of
 * all pairs, a product with V. The result of a pair does not depend on which pairs share the block. Names: z scores, p
 * weights exp(z - m), m, c, l, acc and M, L, A (here tm, tl, total) as in kernels.h. */

enum { TILE = 6 };

/* Unrolls a loop down a block by four: so few turns that the CPU predicts the last branch. */
#if defined(__clang__)
#define BT_UNROLL4_FOR _Pragma("unroll 4") for
#else
#define BT_UNROLL4_FOR _Pragma("GCC unroll 4") for
#endif

/* OF(N, M) with N = n pairs and M vectors for each pair: as many chains at once as registers hold. */
#define BT_BY_TILE(n, OF) \
    switch (n) { \
    case 1: OF(1, 4); break; \
    case 2: OF(2, BT_V16_REGS == 1 ? 4 : 2); break; \
    case 3: OF(3, BT_V16_REGS == 1 ? 4 : 2); break; \
    case 4: OF(4, BT_V16_REGS == 1 ? 4 : 1); break; \
    case 5: OF(5, BT_V16_REGS == 1 ? 4 : 1); break; \
    default: OF(6, BT_V16_REGS == 1 ? 4 : 1); break; \
    }

typedef struct query {
    const float *q;
    size_t row, head, begin, visible; /* it sees positions [begin, visible) */
    float m, c;                       /* of the span; c scales what the span summed before this block */
    float tm, tl;                     /* of all spans so far */
} query;

/* The rows that are fetched before they are needed (below: "fetching ahead"). */
typedef struct ahead {
    const uint8_t *at, *stop; /* bytes left of rows that lie together */
    size_t begin, from, end;  /* positions of the block to fetch; from: the next */
    int is_v;
    size_t due, price; /* work since the last line was fetched; work between two lines */
} ahead;

typedef struct job {
    const bt_kv_view *kv;
    size_t layer, g, dp; /* kv head; padded head_dim */
    size_t g0, g1, each; /* kv heads [g0, g1) go together; query has `each` pairs of g0, then of g0 + 1 and so on */
    float scale, cap;
    const float *sinks;                 /* of each query head; NULL: none */
    float *block, *acc, *total, *p, *l; /* scratch, see attn_scratch.h; l: 16 lanes of each pair */
    const uint8_t *row[BT_ATTN_BLOCK];  /* the K row of each position of the block */
    float key_scale[BT_ATTN_BLOCK];     /* int8: the scales of K of the block's positions */
    float value_scale[BT_ATTN_BLOCK];   /* int8: the scales of V */
    ahead ahead;
    size_t count; /* pairs in query, rows ascending within a kv head */
    query query[BT_ATTN_PAIRS];
} job;

/* How many of `left` pairs the next tile takes: no tile of six is followed by one of one or two. */
BT_INLINE size_t tile_of(size_t left) { return left == 7 || left == 8 ? 4 : left < TILE ? left : TILE; }

/* The K (or V) row of head g at position `at`. *count becomes how many of the *count positions from `at` on lie in its
 * page, token_bytes apart. */
BT_INLINE const uint8_t *rows_at(const job *j, int is_v, size_t at, size_t g, size_t *count)
{
    const size_t left = j->kv->page_tokens - (at & (j->kv->page_tokens - 1)); /* a power of two */
    if (*count > left) *count = left;
    return bt_kv_view_row(j->kv, j->layer, is_v, at, g);
}

/* ---- fetching ahead ----
 * While a block is computed, K and V of the next block are prefetched, one cache line at a time and evenly: a core
 * drops prefetches beyond the twenty or so that it can have open, so a burst brings few lines; and memory would idle
 * between bursts. Work is counted in operations on vectors of 16, such as a product or a conversion. */

/* Finds the next rows that lie together. false: all rows are fetched. */
static int ask_rows(job *j)
{
    const bt_kv_view *kv = j->kv;
    ahead *a = &j->ahead;
    if (a->from == a->end && !a->is_v) a->from = a->begin, a->is_v = 1;
    if (a->from == a->end) {
        a->price = SIZE_MAX;
        return 0;
    }
    const size_t bytes = (j->g1 - j->g0) * kv->head_bytes;
    size_t rows = a->end - a->from;
    const uint8_t *row = rows_at(j, a->is_v, a->from, j->g0, &rows);
    if (bytes < kv->token_bytes) rows = 1;
    a->at = row - (uintptr_t)row % 64;
    a->stop = row + rows * bytes;
    a->from += rows;
    return 1;
}

/* Notes that so much work was done, and fetches the lines that are due. */
BT_INLINE void ask(job *j, size_t work)
{
    ahead *a = &j->ahead;
    for (a->due += work; a->due >= a->price; a->due -= a->price) {
        if (a->at >= a->stop && !ask_rows(j)) return;
        v16_prefetch_far(a->at);
        a->at += 64;
    }
}

/* Starts fetching the block at b, up to position `end`. */
static void look_ahead(job *j, size_t b, size_t end)
{
    const size_t count = end <= b ? 0 : end - b < BT_ATTN_BLOCK ? end - b : BT_ATTN_BLOCK, heads = j->g1 - j->g0;
    /* a head's work: transpose keys, multiply them, weigh, multiply values; each tile converts what it multiplies */
    const size_t tiles = (j->each + 3) / 4, work = heads * (8 * j->dp * (1 + j->each + tiles) + 80 * j->each);
    const size_t lines = 2 * count * (heads * j->kv->head_bytes + 63) / 64 + 1;
    j->ahead = (ahead){.begin = b, .from = b, .end = b + count, .price = work / lines ? work / lines : 1};
}
#include "kernels/attention/attn_copy_body.h"
#include "kernels/attention/attn_few_body.h"

BT_INLINE float exp_one(float x) { return v16_first(v16_exp(v16_set1(x))); }

/* The query sees positions [b + unseen_of, b + seen_of) of [b, b + count). */
BT_INLINE size_t seen_of(const query *s, size_t b, size_t count)
{
    return s->visible <= b ? 0 : s->visible - b < count ? s->visible - b : count;
}
BT_INLINE size_t unseen_of(const query *s, size_t b) { return s->begin <= b ? 0 : s->begin - b; }

/* z of N pairs for M panels of positions; elem_bytes < 4: panels are packed. */
BT_INLINE void score_tile(job *j, size_t i, size_t panel, const size_t N, const size_t M, const uint32_t elem_bytes)
{
    const size_t d = j->kv->head_dim, dp = j->dp;
    const float *k = j->block + panel * PANEL * dp, *q[TILE];
    float *z = j->p + i * BT_ATTN_BLOCK + panel * PANEL;
    const v16 scale = v16_set1(j->scale);
    v16 a[TILE][4], s[4];
    BT_UNROLL_FOR(size_t m = 0; m < M; m++)
        s[m] = elem_bytes == 1 ? v16_load(j->key_scale + (panel + m) * PANEL) : scale;
    BT_UNROLL_FOR(size_t n = 0; n < N; n++) {
        q[n] = j->query[i + n].q;
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_zero();
    }
    for (size_t from = 0, to; from < d; from = to) {
        to = d - from < 16 ? d : from + 16;
        BT_UNROLL4_FOR(size_t e = from; e < to; e++) {
            BT_UNROLL_FOR(size_t m = 0; m < M; m++) {
                const v16 x = key_of(k + m * PANEL * dp, dp, e, s[m], elem_bytes);
                BT_UNROLL_FOR(size_t n = 0; n < N; n++) a[n][m] = v16_fma(v16_broadcast(q[n] + e), x, a[n][m]);
            }
        }
        ask(j, 16 * (N + 1) * M);
    }
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) v16_store(z + n * BT_ATTN_BLOCK + m * PANEL, v16_mul(a[n][m], scale));
}

BT_INLINE void score_pairs(job *j, size_t i, size_t panels, const size_t N, const size_t M, const uint32_t elem_bytes)
{
    size_t panel = 0;
    for (; panel + M <= panels; panel += M) score_tile(j, i, panel, N, M, elem_bytes);
    for (; panel < panels; panel++) score_tile(j, i, panel, N, 1, elem_bytes);
}

/* z of n pairs from i on. */
BT_INLINE void score_of(job *j, size_t i, size_t n, size_t panels, const uint32_t elem_bytes)
{
#define OF(N, M) score_pairs(j, i, panels, N, M, elem_bytes)
    BT_BY_TILE(n, OF)
#undef OF
}

static void score(job *j, size_t i, size_t n, size_t panels, int is_packed)
{
    if (is_packed && j->kv->elem_bytes == 1) score_of(j, i, n, panels, 1);
    else if (is_packed && j->kv->elem_bytes == 2) score_of(j, i, n, panels, 2);
    else score_of(j, i, n, panels, 4);
}

/* The greatest of z[0 .. seen), where a NaN counts as +inf: min gives its second operand if the first is a NaN.
 * Elements of the last vector past `seen` become -inf, whose exp is +0. */
BT_INLINE float greatest(float *z, size_t seen)
{
    static const float limit[32] = {
        [0] = __builtin_inff(),   [1] = __builtin_inff(),   [2] = __builtin_inff(),   [3] = __builtin_inff(),
        [4] = __builtin_inff(),   [5] = __builtin_inff(),   [6] = __builtin_inff(),   [7] = __builtin_inff(),
        [8] = __builtin_inff(),   [9] = __builtin_inff(),   [10] = __builtin_inff(),  [11] = __builtin_inff(),
        [12] = __builtin_inff(),  [13] = __builtin_inff(),  [14] = __builtin_inff(),  [15] = __builtin_inff(),
        [16] = -__builtin_inff(), [17] = -__builtin_inff(), [18] = -__builtin_inff(), [19] = -__builtin_inff(),
        [20] = -__builtin_inff(), [21] = -__builtin_inff(), [22] = -__builtin_inff(), [23] = -__builtin_inff(),
        [24] = -__builtin_inff(), [25] = -__builtin_inff(), [26] = -__builtin_inff(), [27] = -__builtin_inff(),
        [28] = -__builtin_inff(), [29] = -__builtin_inff(), [30] = -__builtin_inff(), [31] = -__builtin_inff()};
    const size_t last = (seen - 1) / 16 * 16;
    v16 top = v16_min(v16_load(z + last), v16_load(limit + 16 - (seen - last)));
    v16_store(z + last, top);
    const v16 inf = v16_load(limit);
    for (size_t i = 0; i < last; i += 16) top = v16_max(top, v16_min(v16_load(z + i), inf));
    return v8_max(v16_fold_max(top));
}

/* z[n] = tanh(z / cap) * cap, in whole vectors. */
static void cap_scores(float *z, size_t n, float cap)
{
    const v16 by = v16_set1(cap);
    for (size_t e = 0; e < n; e += 16) v16_store(z + e, v16_mul(v16_tanh(v16_div(v16_load(z + e), by)), by));
}

/* Makes p of z in place, and m, c and l, for n pairs from i on. */
static void weigh(job *j, size_t i, size_t n, size_t b, size_t count)
{
    float c[16] = {0};
    for (size_t r = 0; r < n; r++) {
        query *s = &j->query[i + r];
        float *z = j->p + (i + r) * BT_ATTN_BLOCK;
        if (j->cap > 0) cap_scores(z, seen_of(s, b, count), j->cap);
        for (size_t e = 0; e < unseen_of(s, b); e++) z[e] = -__builtin_inff(); /* its weight is +0 */
        const float top = greatest(z, seen_of(s, b, count)), m = top > s->m ? top : s->m;
        c[r] = s->m - m;
        s->m = m;
    }
    v16_store(c, v16_exp(v16_load(c)));
    for (size_t r = 0; r < n; r++) {
        query *s = &j->query[i + r];
        const size_t seen = seen_of(s, b, count);
        const v16 m = v16_set1(s->m);
        float *z = j->p + (i + r) * BT_ATTN_BLOCK, *lanes = j->l + (i + r) * 16;
        v16 l = v16_mul(v16_load(lanes), v16_set1(c[r]));
        for (size_t e = 0; e < seen; e += 16) {
            const v16 p = v16_exp(v16_sub(v16_load(z + e), m));
            v16_store(z + e, p);
            l = v16_add(l, p);
        }
        v16_store(lanes, l);
        s->c = c[r];
    }
}

/* M vectors of acc of N pairs, from element e on: times c if scales, then one fma chain over positions [from, to) of
 * the block. */
BT_INLINE void value_tile(const job *j, size_t i, size_t e, size_t from, size_t to, int scales, const size_t N,
                          const size_t M)
{
    const size_t d = j->dp;
    const float *v = j->block + e * BT_ATTN_BLOCK, *p = j->p + i * BT_ATTN_BLOCK;
    float *acc = j->acc + i * d + e;
    v16 a[TILE][4];
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) {
            const v16 was = v16_load(acc + n * d + 16 * m);
            a[n][m] = scales ? v16_mul(was, v16_set1(j->query[i + n].c)) : was;
        }
    BT_UNROLL4_FOR(size_t k = from; k < to; k++) {
        v16 x[4];
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) x[m] = v16_load(v + (m * BT_ATTN_BLOCK + k) * 16);
        BT_UNROLL_FOR(size_t n = 0; n < N; n++) {
            const v16 y = v16_set1(p[n * BT_ATTN_BLOCK + k]);
            BT_UNROLL_FOR(size_t m = 0; m < M; m++) a[n][m] = v16_fma(y, x[m], a[n][m]);
        }
    }
    BT_UNROLL_FOR(size_t n = 0; n < N; n++)
        BT_UNROLL_FOR(size_t m = 0; m < M; m++) v16_store(acc + n * d + 16 * m, a[n][m]);
}

BT_INLINE void value_pairs(const job *j, size_t i, size_t from, size_t to, int scales, const size_t N, const size_t M)
{
    size_t e = 0;
    for (; e + 16 * M <= j->dp; e += 16 * M) value_tile(j, i, e, from, to, scales, N, M);
    for (; e < j->dp; e += 16) value_tile(j, i, e, from, to, scales, N, 1);
}

/* acc of n pairs from i on: each pair over the positions that later rows do not see, together over those that all see,
 * then each pair over the rest that it sees. */
static void add_values(const job *j, size_t i, size_t n, size_t b, size_t count)
{
    const query *s = j->query + i; /* begin and visible ascend */
    const size_t seen = seen_of(s, b, count), begin = unseen_of(s + n - 1, b), from = begin < seen ? begin : seen;
    const int apart = unseen_of(s, b) < from;
    for (size_t r = 0; apart && r < n; r++) {
        const size_t own = unseen_of(s + r, b);
        value_pairs(j, i + r, own < from ? own : from, from, 1, 1, 4);
    }
#define OF(N, M) value_pairs(j, i, from, seen, !apart, N, M)
    BT_BY_TILE(n, OF)
#undef OF
    for (size_t r = 1; r < n; r++) {
        const size_t last = seen_of(s + r, b, count), own = unseen_of(s + r, b);
        if (last > seen) value_pairs(j, i + r, own > seen ? own : seen, last, 0, 1, 4);
    }
}

/* Begins (tm, tl, total) with a head's sink, where there is one; the next span is then not the first. */
BT_INLINE void begin_with_sink(float *tm, float *tl, float *total, const float *sink, size_t dp)
{
    if (!sink) return;
    *tm = *sink, *tl = 1;
    memset(total, 0, dp * sizeof *total);
}

/* Merges (m, l, acc) of a span into (tm, tl, total); the first span is taken as it is. */
static void merge(float *tm, float *tl, float *total, float m, float l, const float *acc, size_t dp, int first)
{
    if (first) {
        *tm = m, *tl = l;
        memcpy(total, acc, dp * sizeof *acc);
        return;
    }
    const float n = m > *tm ? m : *tm, a = exp_one(*tm - n), b = exp_one(m - n);
    const v16 va = v16_set1(a), vb = v16_set1(b);
    *tl = *tl * a + l * b;
    *tm = n;
    for (size_t e = 0; e < dp; e += 16)
        v16_store(total + e, v16_add(v16_mul(v16_load(total + e), va), v16_mul(v16_load(acc + e), vb)));
}

/* out = total / l, or NaN where m, the greatest score, is not finite. */
static void divide(float *out, const float *total, float m, float l, size_t d)
{
    const v16 by = v16_set1(attn_divisor(m, l));
    size_t e = 0;
    for (; e + 16 <= d; e += 16) v16_store(out + e, v16_div(v16_load(total + e), by));
    if (e < d) v16_store_n(out + e, v16_div(v16_load(total + e), by), d - e);
}

/* Positions [b, b + count) of a block for the pairs of kv head g. Rows ascend, so a tile's last pair sees the last
 * positions. */
static void run_block(job *j, size_t g, size_t b, size_t count)
{
    const int few = is_few(j, b, count);
    size_t end = (g - j->g0 + 1) * j->each, first = end - j->each, n;
    j->g = g;
    while (j->query[first].visible <= b) first++;
    while (j->query[end - 1].begin >= b + count) end--;
    copy_keys(j, b, count, !few);
    for (size_t i = first; i < end; i += n) {
        n = tile_of(end - i);
        score(j, i, n, (seen_of(&j->query[i + n - 1], b, count) + PANEL - 1) / PANEL, few);
        weigh(j, i, n, b, count);
    }
    if (few) {
        few_values(j, first, end, count);
        return;
    }
    copy_values(j, count);
    for (size_t i = first; i < end; i += n) add_values(j, i, n = tile_of(end - i), b, count);
}

/* (m, l, acc) of every query for the span that begins at position `span`; fetches ahead up to position `last`. */
static void run_span(job *j, size_t span, size_t last)
{
    const size_t visible = j->query[j->count - 1].visible;
    const size_t end = visible - span < BT_ATTN_SPAN ? visible : span + BT_ATTN_SPAN;
    const size_t begin = j->query[0].begin / 16 * 16; /* lanes go by the position */
    memset(j->acc, 0, j->count * j->dp * sizeof *j->acc);
    memset(j->l, 0, j->count * 16 * sizeof *j->l);
    for (size_t i = 0; i < j->count; i++) j->query[i].m = -__builtin_inff();
    for (size_t b = begin > span ? begin : span, count; b < end; b += count) {
        const size_t left = BT_ATTN_BLOCK - b % BT_ATTN_BLOCK;
        count = end - b < left ? end - b : left;
        look_ahead(j, b + count, last);
        for (size_t g = j->g0; g < j->g1; g++) run_block(j, g, b, count);
    }
}

static float sum_of(const float *lanes) { return v8_sum(v16_fold(v16_load(lanes))); }

/* Whether the query sees a position of the span that begins at position `span`. */
BT_INLINE int sees(const query *s, size_t span) { return s->visible > span && s->begin < span + BT_ATTN_SPAN; }

static void run_job(job *j, float *out, size_t ldo)
{
    const size_t visible = j->query[j->count - 1].visible, d = j->kv->head_dim;
    for (size_t i = 0; j->sinks && i < j->count; i++) {
        query *s = &j->query[i];
        begin_with_sink(&s->tm, &s->tl, j->total + i * j->dp, j->sinks + s->head, j->dp);
    }
    for (size_t span = j->query[0].begin / BT_ATTN_SPAN * BT_ATTN_SPAN; span < visible; span += BT_ATTN_SPAN) {
        run_span(j, span, visible);
        for (size_t i = 0; i < j->count; i++) {
            query *s = &j->query[i];
            if (sees(s, span))
                merge(&s->tm, &s->tl, j->total + i * j->dp, s->m, sum_of(j->l + 16 * i), j->acc + i * j->dp, j->dp,
                      !j->sinks && span <= s->begin);
        }
    }
    for (size_t i = 0; i < j->count; i++) {
        const query *s = &j->query[i];
        divide(out + s->row * ldo + s->head * d, j->total + i * j->dp, s->tm, s->tl, d);
    }
}

/* How many of `left` kv heads, with `pairs` pairs each, go together. */
static size_t heads_together(size_t pairs, size_t left)
{
    const size_t most = pairs <= BT_ATTN_FEW_PAIRS ? BT_ATTN_PAIRS / pairs : 1;
    return left < most ? left : most;
}

/* Fills the job's queries, for each of its kv heads with the same pairs: of t rows x `width` query heads, pairs from
 * `first` on, up to BT_ATTN_PAIRS. h: the first query head of kv head g0. */
static void fill_job(job *j, size_t first, size_t h, size_t width, const float *q, size_t ldq, size_t t, size_t pos0,
                     const bt_attn_rule *rule)
{
    const size_t left = t * width - first;
    query *s = j->query;
    j->each = left < BT_ATTN_PAIRS ? left : BT_ATTN_PAIRS;
    j->count = j->each * (j->g1 - j->g0);
    for (size_t g = j->g0; g < j->g1; g++, h += width)
        for (size_t i = first; i < first + j->each; i++, s++) {
            *s = (query){.row = i / width, .head = h + i % width};
            s->q = q + s->row * ldq + s->head * j->kv->head_dim;
            s->begin = bt_attn_begin(rule, pos0 + s->row);
            s->visible = pos0 + s->row + 1;
        }
}

static void begin_job(job *j, const bt_kv_view *kv, size_t layer, const bt_attn_rule *rule, void *scratch)
{
    j->kv = kv, j->layer = layer, j->scale = rule->scale, j->cap = rule->cap, j->sinks = rule->sinks;
    j->ahead = (ahead){.price = SIZE_MAX};
    j->dp = attn_padded_dim(kv->head_dim);
    j->block = scratch;
    j->acc = j->block + BT_ATTN_BLOCK * j->dp;
    j->total = j->acc + BT_ATTN_PAIRS * j->dp;
    j->p = j->total + BT_ATTN_PAIRS * j->dp;
    j->l = j->p + BT_ATTN_PAIRS * BT_ATTN_BLOCK;
}

void BT_VARIANT(bt_attn)(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                         size_t t, size_t pos0, size_t heads, size_t h0, size_t h1, const bt_attn_rule *rule,
                         void *scratch)
{
    const size_t group = heads / kv->kv_heads;
    job j;
    begin_job(&j, kv, layer, rule, scratch);
    for (size_t h = h0, width; h < h1; h += width * (j.g1 - j.g0)) {
        width = group - h % group < h1 - h ? group - h % group : h1 - h;
        j.g0 = h / group;
        j.g1 = j.g0 + (width == group ? heads_together(t * group, (h1 - h) / group) : 1);
        for (size_t first = 0; first < t * width; first += j.each) {
            fill_job(&j, first, h, width, q, ldq, t, pos0, rule);
            run_job(&j, out, ldo);
        }
    }
}

static void store_part(const job *j, size_t i, float *part)
{
    part[0] = j->query[i].m, part[1] = sum_of(j->l + 16 * i);
    memcpy(part + BT_ATTN_PART_HEAD, j->acc + i * j->dp, j->dp * sizeof *part);
}

void BT_VARIANT(bt_attn_span)(float *part, size_t spans, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                              size_t t, size_t pos0, size_t heads, size_t g0, size_t g1, size_t s0, size_t s1,
                              const bt_attn_rule *rule, void *scratch)
{
    const size_t group = heads / kv->kv_heads, pairs = group * t;
    job j;
    begin_job(&j, kv, layer, rule, scratch);
    for (j.g0 = g0; j.g0 < g1; j.g0 = j.g1) {
        j.g1 = j.g0 + heads_together(pairs, g1 - j.g0);
        for (size_t first = 0; first < pairs; first += j.each) {
            fill_job(&j, first, j.g0 * group, group, q, ldq, t, pos0, rule);
            const size_t visible = j.query[j.count - 1].visible, begin = j.query[0].begin / BT_ATTN_SPAN;
            const size_t end = s1 * BT_ATTN_SPAN < visible ? s1 * BT_ATTN_SPAN : visible;
            for (size_t s = s0 > begin ? s0 : begin; s * BT_ATTN_SPAN < end; s++) {
                run_span(&j, s * BT_ATTN_SPAN, end);
                for (size_t i = 0; i < j.count; i++) {
                    const size_t pair = (j.g0 + i / j.each) * pairs + first + i % j.each;
                    if (sees(&j.query[i], s * BT_ATTN_SPAN))
                        store_part(&j, i, part + (pair * spans + s) * attn_part_floats(kv->head_dim));
                }
            }
        }
    }
}

void BT_VARIANT(bt_attn_merge)(float *out, size_t ldo, const float *part, size_t spans, size_t t, size_t pos0,
                               size_t group, size_t d, const bt_attn_rule *rule)
{
    float total[BT_ATTN_MAX_DIM], tm = 0, tl = 0;
    const size_t dp = attn_padded_dim(d), floats = attn_part_floats(d);
    for (size_t pair = 0; pair < t * group; pair++, part += spans * floats) {
        const size_t row = pair / group, seen = (pos0 + row) / BT_ATTN_SPAN + 1;
        const size_t first = bt_attn_begin(rule, pos0 + row) / BT_ATTN_SPAN;
        begin_with_sink(&tm, &tl, total, rule->sinks ? rule->sinks + pair % group : NULL, dp);
        for (size_t s = first; s < seen; s++)
            merge(&tm, &tl, total, part[s * floats], part[s * floats + 1], part + s * floats + BT_ATTN_PART_HEAD, dp,
                  !rule->sinks && s == first);
        divide(out + row * ldo + pair % group * d, total, tm, tl, d);
    }
}

#include "kernels/attention/attn_some_body.h"
#include "kernels/attention/attn_shared_body.h"
