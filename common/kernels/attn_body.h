/* Attention over v16; included by attn_avx2.c and attn_avx512.c after their simd header. No include guard.
 *
 * (row, head) pairs that read the same kv head go together over one f32 copy of each block of 64 positions; what
 * each pair computes does not depend on which others share the block. Rows are padded by zeros
 * to whole v16: that can change only the sign of a score of zero, whose exp is 1 either way. */

typedef struct query {
    const float *q; /* where it comes from */
    float *out;
    size_t visible;
    float m, l, c; /* of the span; c = scale of what the span held before this block */
    float tm, tl;  /* of the whole */
} query;

typedef struct job {
    const bt_kv_view *kv;
    size_t layer, g, dp; /* kv head; padded head_dim */
    float scale;
    float *block, *q, *acc, *total, *p; /* scratch, see attn_scratch.h */
    size_t count;
    query query[BT_ATTN_PAIRS];
} job;

BT_INLINE float exp_one(float x) { return v16_first(v16_exp(v16_set1(x))); }

BT_INLINE void load_row8(float *y, const int8_t *row, size_t d)
{
    uint16_t bits;
    memcpy(&bits, row + d, sizeof bits);
    const v16 s = v16_set1(_cvtsh_ss(bits));
    size_t i = 0;
    for (; i + 16 <= d; i += 16) v16_store(y + i, v16_mul(v16_load_s8(row + i), s));
    if (i < d) {
        int8_t tail[16] = {0};
        memcpy(tail, row + i, d - i);
        v16_store(y + i, v16_mul(v16_load_s8(tail), s));
    }
}

BT_INLINE void load_row(float *y, const uint8_t *row, size_t d, uint32_t elem_bytes)
{
    const float *f = (const void *)row;
    const uint16_t *h = (const void *)row;
    size_t i = 0;
    if (elem_bytes == 1) {
        load_row8(y, (const void *)row, d);
        return;
    }
    for (; i + 16 <= d; i += 16) v16_store(y + i, elem_bytes == 4 ? v16_load(f + i) : v16_load_f16(h + i));
    if (i < d) {
        uint16_t tail[16] = {0};
        if (elem_bytes == 2) memcpy(tail, h + i, (d - i) * sizeof *h);
        v16_store(y + i, elem_bytes == 4 ? v16_load_n(f + i, d - i) : v16_load_f16(tail));
    }
}

/* Positions [begin, begin + count) of K or V into j->block, then zero rows up to a multiple of 4. */
static void load_block(const job *j, int is_v, size_t begin, size_t count)
{
    const bt_kv_view *kv = j->kv;
    size_t i = 0;
    while (i < count) { /* one run for each page */
        const size_t left = kv->page_tokens - (begin + i) % kv->page_tokens;
        const size_t end = count - i < left ? count : i + left;
        const uint8_t *row = bt_kv_view_row(kv, j->layer, is_v, begin + i, j->g);
        for (; i < end; i++, row += kv->token_bytes)
            load_row(j->block + i * j->dp, row, kv->head_dim, kv->elem_bytes);
    }
    for (; i % 4; i++)
        for (size_t e = 0; e < j->dp; e += 16) v16_store(j->block + i * j->dp + e, v16_zero());
}

/* z[] of one query over `count` positions of the K block; -inf beyond them, whose exp is +0. */
static void score_block(const job *j, size_t index, query *s, size_t count)
{
    (void)s;
    const float *q = j->q + index * j->dp;
    float *z = j->p + index * BT_ATTN_BLOCK;
    const __m128 scale = _mm_set1_ps(j->scale);
    const size_t dp = j->dp;
    for (size_t i = 0; i < count; i += 4) {
        const float *k = j->block + i * dp;
        v16 l[4];
        __m256 half[4];
        BT_UNROLL for (size_t r = 0; r < 4; r++) l[r] = v16_zero();
        for (size_t e = 0; e < dp; e += 16) {
            const v16 qe = v16_load(q + e);
            BT_UNROLL for (size_t r = 0; r < 4; r++) l[r] = v16_fma(qe, v16_load(k + r * dp + e), l[r]);
        }
        BT_UNROLL for (size_t r = 0; r < 4; r++) half[r] = v16_fold(l[r]);
        _mm_storeu_ps(z + i, _mm_mul_ps(v8_sum4(half), scale));
    }
    for (size_t i = count; i < BT_ATTN_BLOCK; i++) z[i] = -__builtin_inff();
}

/* p[] from z[], and m and c of the query. Apart from score_block, so that the stores of z are long done. */
static void weigh_block(const job *j, size_t index, query *s, size_t count)
{
    (void)count;
    float *z = j->p + index * BT_ATTN_BLOCK;
    v16 top = v16_load(z);
    for (size_t i = 16; i < BT_ATTN_BLOCK; i += 16) top = v16_max(top, v16_load(z + i));
    const float bm = v8_max(v16_fold_max(top)), m = bm > s->m ? bm : s->m;
    s->c = s->m == m ? 1 : exp_one(s->m - m);
    s->m = m;
    for (size_t i = 0; i < BT_ATTN_BLOCK; i += 16)
        v16_store(z + i, v16_exp(v16_sub(v16_load(z + i), v16_set1(m))));
}

/* acc = acc * c, then one fma chain over the block, for N vectors of the row; returns the sum of p on the
 * way. */
BT_INLINE float value_tile(float *acc, const float *v, const float *p, float c, size_t count, size_t dp,
                           const size_t N)
{
    float sum = 0;
    v16 a[4];
    BT_UNROLL for (size_t r = 0; r < N; r++) a[r] = v16_mul(v16_load(acc + 16 * r), v16_set1(c));
    for (size_t i = 0; i < count; i++, v += dp) {
        const v16 pi = v16_set1(p[i]);
        sum += p[i];
        BT_UNROLL for (size_t r = 0; r < N; r++) a[r] = v16_fma(pi, v16_load(v + 16 * r), a[r]);
    }
    BT_UNROLL for (size_t r = 0; r < N; r++) v16_store(acc + 16 * r, a[r]);
    return sum;
}

static void value_block(const job *j, size_t index, query *s, size_t count)
{
    const float *p = j->p + index * BT_ATTN_BLOCK, *v = j->block;
    float *acc = j->acc + index * j->dp;
    float sum = 0;
    size_t e = 0;
    for (; e + 64 <= j->dp; e += 64) sum = value_tile(acc + e, v + e, p, s->c, count, j->dp, 4);
    switch ((j->dp - e) / 16) {
    case 3: sum = value_tile(acc + e, v + e, p, s->c, count, j->dp, 3); break;
    case 2: sum = value_tile(acc + e, v + e, p, s->c, count, j->dp, 2); break;
    case 1: sum = value_tile(acc + e, v + e, p, s->c, count, j->dp, 1); break;
    default: break;
    }
    s->l = s->l * s->c + sum;
}

/* One span more into the whole; the first is taken as it is. */
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

static void begin_job(const job *j)
{
    const size_t d = j->kv->head_dim;
    for (size_t i = 0; i < j->count; i++) {
        float *q = j->q + i * j->dp;
        memcpy(q, j->query[i].q, d * sizeof *q);
        memset(q + d, 0, (j->dp - d) * sizeof *q);
    }
}

static void divide(float *out, const float *total, float l, size_t d)
{
    const v16 by = v16_set1(l);
    size_t e = 0;
    for (; e + 16 <= d; e += 16) v16_store(out + e, v16_div(v16_load(total + e), by));
    if (e < d) v16_store_n(out + e, v16_div(v16_load(total + e), by), d - e);
}

#include "kernels/attn_few_body.h"

/* One step for each query that sees into the block at b. */
static void each_query(job *j, void step(const job *, size_t, query *, size_t), size_t b, size_t count)
{
    for (size_t i = 0; i < j->count; i++) {
        query *s = &j->query[i];
        const size_t seen = s->visible <= b ? 0 : s->visible - b < count ? s->visible - b : count;
        if (seen) step(j, i, s, seen);
    }
}

/* (m, l, acc) of every query for the span at `span`; rows ascend, so the last one sees most. */
static void run_span(job *j, size_t span)
{
    const size_t visible = j->query[j->count - 1].visible;
    const size_t end = visible - span < BT_ATTN_SPAN ? visible : span + BT_ATTN_SPAN;
    memset(j->acc, 0, j->count * j->dp * sizeof *j->acc);
    for (size_t i = 0; i < j->count; i++) j->query[i].m = -__builtin_inff(), j->query[i].l = 0;
    for (size_t b = span; b < end; b += BT_ATTN_BLOCK) {
        const size_t count = end - b < BT_ATTN_BLOCK ? end - b : BT_ATTN_BLOCK;
        if (is_few(j, b, count)) {
            few_block(j, b, count);
            continue;
        }
        load_block(j, 0, b, count);
        each_query(j, score_block, b, count);
        each_query(j, weigh_block, b, count);
        load_block(j, 1, b, count);
        each_query(j, value_block, b, count);
    }
}

static void run_job(job *j)
{
    begin_job(j);
    for (size_t span = 0; span < j->query[j->count - 1].visible; span += BT_ATTN_SPAN) {
        run_span(j, span);
        for (size_t i = 0; i < j->count; i++) {
            query *s = &j->query[i];
            if (s->visible > span) merge(&s->tm, &s->tl, j->total + i * j->dp, s->m, s->l, j->acc + i * j->dp, j->dp, span == 0);
        }
    }
    for (size_t i = 0; i < j->count; i++) divide(j->query[i].out, j->total + i * j->dp, j->query[i].tl, j->kv->head_dim);
}

/* The next pairs of a row's heads [h, h + width) of one kv head, from pair `first` of `pairs`. */
static void fill_job(job *j, size_t first, size_t pairs, size_t h, size_t width, const float *q, size_t ldq, size_t pos0)
{
    const size_t left = pairs - first;
    j->count = pairs <= BT_ATTN_PAIRS || left < BT_ATTN_TURN ? left : BT_ATTN_TURN;
    for (size_t i = 0; i < j->count; i++) {
        const size_t row = (first + i) / width, head = h + (first + i) % width;
        j->query[i] = (query){.q = q + row * ldq + head * j->kv->head_dim, .visible = pos0 + row + 1};
    }
}

static job job_of(const bt_kv_view *kv, size_t layer, float scale, void *scratch)
{
    job j = {.kv = kv, .layer = layer, .dp = attn_padded_dim(kv->head_dim), .scale = scale};
    j.block = scratch;
    j.q = j.block + BT_ATTN_BLOCK * j.dp;
    j.acc = j.q + BT_ATTN_PAIRS * j.dp;
    j.total = j.acc + BT_ATTN_PAIRS * j.dp;
    j.p = j.total + BT_ATTN_PAIRS * j.dp;
    return j;
}

void BT_VARIANT(bt_attn)(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv,
                         size_t layer, size_t t, size_t pos0, size_t heads, size_t h0, size_t h1, float scale,
                         void *scratch)
{
    const size_t group = heads / kv->kv_heads;
    job j = job_of(kv, layer, scale, scratch);
    for (size_t h = h0, next; h < h1; h = next) {
        j.g = h / group;
        next = (j.g + 1) * group < h1 ? (j.g + 1) * group : h1;
        const size_t width = next - h, pairs = width * t;
        for (size_t first = 0; first < pairs; first += j.count) {
            fill_job(&j, first, pairs, h, width, q, ldq, pos0);
            for (size_t i = 0; i < j.count; i++)
                j.query[i].out = out + (first + i) / width * ldo + (h + (first + i) % width) * kv->head_dim;
            run_job(&j);
        }
    }
}

void BT_VARIANT(bt_attn_span)(float *part, size_t spans, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                              size_t t, size_t pos0, size_t heads, size_t g, size_t s0, size_t s1, float scale, void *scratch)
{
    const size_t group = heads / kv->kv_heads, pairs = group * t;
    job j = job_of(kv, layer, scale, scratch);
    j.g = g;
    for (size_t first = 0; first < pairs; first += j.count) {
        fill_job(&j, first, pairs, g * group, group, q, ldq, pos0);
        begin_job(&j);
        for (size_t s = s0; s < s1 && s * BT_ATTN_SPAN < j.query[j.count - 1].visible; s++) {
            run_span(&j, s * BT_ATTN_SPAN);
            for (size_t i = 0; i < j.count; i++) {
                float *p = part + ((first + i) * spans + s) * attn_part_floats(kv->head_dim);
                if (j.query[i].visible <= s * BT_ATTN_SPAN) continue;
                p[0] = j.query[i].m, p[1] = j.query[i].l;
                memcpy(p + BT_ATTN_PART_HEAD, j.acc + i * j.dp, j.dp * sizeof *p);
            }
        }
    }
}

void BT_VARIANT(bt_attn_merge)(float *out, size_t ldo, const float *part, size_t spans, size_t t, size_t pos0, size_t group, size_t d)
{
    float total[BT_ATTN_MAX_DIM], tm = 0, tl = 0;
    const size_t dp = attn_padded_dim(d), floats = attn_part_floats(d);
    for (size_t pair = 0; pair < t * group; pair++, part += spans * floats) {
        const size_t row = pair / group, seen = (pos0 + row) / BT_ATTN_SPAN + 1;
        for (size_t s = 0; s < seen; s++)
            merge(&tm, &tl, total, part[s * floats], part[s * floats + 1], part + s * floats + BT_ATTN_PART_HEAD, dp, s == 0);
        divide(out + row * ldo + pair % group * d, total, tl, d);
    }
}
