/* Attention of a call's sequences: which thread computes which part, so that none waits while another has a
 * long sequence left. The kernels alone decide the arithmetic and its order. */
#include "graph/companion_private.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHOLE_ROWS = 32,     /* a run of at most this many rows is not cut into blocks of rows */
    BLOCK_PAIRS = 48,    /* a block has at least this many (row, head) pairs, which share copies of K and V */
    DIRECT_WORK = 32768, /* with fewer products of q and K, waking a thread costs more than it gives */
    PIECES = 16,         /* pieces of a thread's share: at the end, threads wait for a part of one */
    PART_ROWS = 8,       /* there is room for the spans of this many rows over the longest context */
};

/* Rows at rising positions of one sequence. */
typedef struct attn_run {
    const bt_kv_view *kv;
    size_t pos0, rows, row;     /* row: the first one in q and out */
    size_t unit;                /* the first of its units; kv heads are innermost, */
    size_t step;                /* so many in each, but for the last */
    size_t pieces, piece_spans; /* pieces 1: computed as a whole, or by blocks of rows */
    float *part;                /* [kv_heads, rows * group, spans], where pieces > 1 */
} attn_run;

struct bt_companion_spans {
    attn_run *run;
    size_t runs_max;
    float *part;
    size_t part_floats;
    atomic_uint *left; /* [runs_max, kv_heads]: pieces that are not there yet, at the first head of a unit */
};

static size_t runs_max(const bt_companion_sizes *z) { return z->runs ? z->runs : 1; }

size_t bt_companion_spans_part_floats(const bt_companion_sizes *z)
{
    const size_t spans = z->ctx_tokens / BT_ATTN_SPAN + 1, runs = runs_max(z);
    return (runs < PART_ROWS ? runs : PART_ROWS) * z->heads * spans * bt_attn_part_floats(z->head_dim);
}

bt_companion_spans *bt_companion_spans_new(const bt_companion_sizes *z)
{
    bt_companion_spans *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->runs_max = runs_max(z);
    s->part_floats = bt_companion_spans_part_floats(z);
    s->run = calloc(s->runs_max, sizeof *s->run);
    s->left = calloc(s->runs_max * z->kv_heads, sizeof *s->left);
    s->part = malloc(s->part_floats * sizeof *s->part);
    if (s->run && s->left && s->part) return s;
    bt_companion_spans_free(s);
    return NULL;
}

void bt_companion_spans_free(bt_companion_spans *s)
{
    if (!s) return;
    free(s->run);
    free((void *)s->left);
    free(s->part);
    free(s);
}

typedef struct attn_job {
    const bt_companion *c;
    float *out;
    const float *q;
    size_t layer, heads, kv_heads, d, ld;
    size_t h0, h1; /* query heads that are wanted */
    const bt_attn_rule *rule;
    size_t runs, units, block_rows;
    bt_pool_range left; /* units */
} attn_job;

static size_t visible(const attn_run *r) { return r->pos0 + r->rows; }
static size_t spans_of(const attn_run *r) { return (visible(r) + BT_ATTN_SPAN - 1) / BT_ATTN_SPAN; }
/* The first span that any row sees, and how many positions the rows see together. */
static size_t first_span(const attn_job *j, const attn_run *r)
{
    return bt_attn_begin(j->rule, r->pos0) / BT_ATTN_SPAN;
}
static size_t seen(const attn_job *j, const attn_run *r)
{
    return visible(r) - bt_attn_begin(j->rule, r->pos0);
}
static size_t blocks_of(const attn_run *r, size_t block_rows)
{
    return r->rows <= WHOLE_ROWS ? 1 : (r->rows + block_rows - 1) / block_rows;
}

static size_t steps_of(const attn_job *j, const attn_run *r) { return (j->kv_heads + r->step - 1) / r->step; }

static void whole(const attn_job *j, const attn_run *r, size_t first, size_t rows, size_t g0, size_t g1,
                  void *scratch)
{
    const size_t group = j->heads / j->kv_heads, at = (r->row + first) * j->ld;
    const size_t h0 = g0 * group > j->h0 ? g0 * group : j->h0, h1 = g1 * group < j->h1 ? g1 * group : j->h1;
    if (h0 >= h1) return;
    j->c->kernels->attn(j->out + at, j->ld, j->q + at, j->ld, r->kv, j->layer, rows, r->pos0 + first,
                        j->heads, h0, h1, j->rule, scratch);
}

/* One piece of a run and of kv heads [g0, g1); whoever brings the last one merges them all. */
static void piece(const attn_job *j, size_t index, size_t n, size_t g0, size_t g1, void *scratch)
{
    const attn_run *r = &j->c->spans->run[index];
    const size_t ld = j->ld, group = j->heads / j->kv_heads, spans = spans_of(r);
    const size_t s0 = first_span(j, r) + n * r->piece_spans,
                 s1 = s0 + r->piece_spans < spans ? s0 + r->piece_spans : spans;
    j->c->kernels->attn_span(r->part, spans, j->q + r->row * ld, ld, r->kv, j->layer, r->rows, r->pos0,
                             j->heads, g0, g1, s0, s1, j->rule, scratch);
    if (atomic_fetch_sub_explicit(&j->c->spans->left[index * j->kv_heads + g0], 1, memory_order_acq_rel) != 1)
        return;
    for (size_t g = g0; g < g1; g++) {
        bt_attn_rule rule = *j->rule;
        if (rule.sinks) rule.sinks += g * group;
        j->c->kernels->attn_merge(j->out + r->row * ld + g * group * j->d, ld,
                                  r->part + g * r->rows * group * spans * bt_attn_part_floats(j->d), spans,
                                  r->rows, r->pos0, group, j->d, &rule);
    }
}

/* Units are taken by whoever is free, from the last to the first: the causal blocks of a chunk cost more
 * towards its end. */
static void attention_part(void *ud, size_t part, size_t parts)
{
    attn_job *j = ud;
    (void)parts;
    const attn_run *run = j->c->spans->run;
    void *scratch = bt_companion_scratch(j->c, part);
    size_t i = j->runs - 1;
    for (size_t taken, end; bt_pool_range_take(&j->left, &taken, &end);) {
        const size_t u = j->units - 1 - taken;
        while (u < run[i].unit) i--;
        const attn_run *r = &run[i];
        const size_t steps = steps_of(j, r), n = (u - r->unit) / steps, g0 = (u - r->unit) % steps * r->step,
                     g1 = g0 + r->step < j->kv_heads ? g0 + r->step : j->kv_heads;
        if (r->pieces > 1) {
            piece(j, i, n, g0, g1, scratch);
            continue;
        }
        const size_t rows = blocks_of(r, j->block_rows) == 1 ? r->rows : j->block_rows, first = n * rows;
        whole(j, r, first, first + rows < r->rows ? rows : r->rows - first, g0, g1, scratch);
    }
}

/* The run that begins with entry b, and how many entries it takes. */
static size_t next_run(attn_run *ret, const bt_companion_rows *r, size_t b)
{
    const bt_companion_seq *s = r->seq + b;
    size_t n = 1;
    *ret = (attn_run){.kv = s->kv, .pos0 = s->pos0, .rows = s->valid, .row = b * r->rows, .pieces = 1};
    if (r->rows > 1) return 1;
    while (b + n < r->batch && s[n].valid && s[n].kv == s->kv && s[n].pos0 == s->pos0 + n) n++;
    ret->rows = n;
    return n;
}

/* Whether several kv heads go over the run's KV at once. */
static bool are_few(const attn_job *j, const attn_run *r)
{
    return r->rows * (j->heads / j->kv_heads) <= BT_ATTN_FEW_PAIRS;
}

/* Runs of few rows that are longer than a piece may be are cut at fixed positions, while there is room for
 * the parts. */
static void plan_pieces(attn_job *j, size_t work)
{
    const size_t threads = bt_pool_threads(j->c->pool);
    float *part = j->c->spans->part, *end = part + j->c->spans->part_floats;
    const bool is_whole = j->h1 - j->h0 == j->heads;
    for (size_t i = 0; i < j->runs && threads > 1 && is_whole; i++) {
        attn_run *r = &j->c->spans->run[i];
        const size_t all = spans_of(r), spans = all - first_span(j, r),
                     heads = are_few(j, r) ? j->kv_heads : 1;
        const size_t cost = r->rows * seen(j, r) * heads;
        const size_t limit = work / ((heads > 1 ? PIECES / 2 : PIECES) * threads);
        const size_t floats = r->rows * j->heads * all * bt_attn_part_floats(j->d);
        if (r->rows > WHOLE_ROWS || spans == 1 || cost <= limit || floats > (size_t)(end - part)) continue;
        const size_t pieces = limit ? (cost + limit - 1) / limit : spans;
        r->piece_spans = pieces < spans ? (spans + pieces - 1) / pieces : 1;
        r->pieces = (spans + r->piece_spans - 1) / r->piece_spans;
        r->part = part;
        part += floats;
    }
}

/* The number of units where up to `step` kv heads of few rows go at once. */
static size_t count_units(attn_job *j, size_t step)
{
    j->units = 0;
    for (size_t i = 0; i < j->runs; i++) {
        attn_run *r = &j->c->spans->run[i];
        r->step = are_few(j, r) ? step : 1;
        r->unit = j->units;
        j->units += (r->pieces > 1 ? r->pieces : blocks_of(r, j->block_rows)) * steps_of(j, r);
    }
    return j->units;
}

/* Chooses how many kv heads go at once, and blocks of rows, so that there are units enough. */
static void plan_units(attn_job *j)
{
    const size_t threads = bt_pool_threads(j->c->pool), group = j->heads / j->kv_heads;
    size_t step = j->kv_heads;
    j->block_rows = group < BT_ATTN_PAIRS ? BT_ATTN_PAIRS / group : 1;
    while (count_units(j, step) < PIECES / 4 * threads && step > 1) step = (step + 1) / 2;
    while (count_units(j, step) < PIECES / 2 * threads && j->block_rows / 2 * group >= BLOCK_PAIRS)
        j->block_rows /= 2;
}

static void attend(attn_job *j, size_t work)
{
    bt_companion_spans *s = j->c->spans;
    const size_t group = j->heads / j->kv_heads;
    if (work * group * j->d < DIRECT_WORK || bt_pool_threads(j->c->pool) == 1) {
        for (size_t i = 0; i < j->runs; i++)
            whole(j, &s->run[i], 0, s->run[i].rows, 0, j->kv_heads, bt_companion_scratch(j->c, 0));
        return;
    }
    plan_pieces(j, work);
    plan_units(j);
    for (size_t i = 0; i < j->runs; i++)
        for (size_t g = 0; g < j->kv_heads; g++)
            atomic_store_explicit(&s->left[i * j->kv_heads + g], (unsigned)s->run[i].pieces,
                                  memory_order_relaxed);
    bt_pool_range_init(&j->left, j->units, 1);
    bt_pool_run(j->c->pool, attention_part, j);
}

void bt_companion_attention_heads(const bt_companion *c, const bt_companion_rows *r, float *out,
                                  const float *q, size_t layer, size_t h0, size_t h1, size_t heads,
                                  size_t kv_heads, size_t d, const bt_attn_rule *rule)
{
    attn_job j = {.c = c,
                  .out = out,
                  .q = q,
                  .layer = layer,
                  .h0 = h0,
                  .h1 = h1,
                  .d = d,
                  .heads = heads,
                  .kv_heads = kv_heads,
                  .rule = rule,
                  .ld = bt_companion_ld(c, heads * d)};
    bt_companion_flush(c);
    for (size_t b = 0; b < r->batch;) {
        size_t work = 0;
        for (j.runs = 0; b < r->batch && j.runs < c->spans->runs_max;) {
            if (!r->seq[b].valid) {
                b++;
                continue;
            }
            attn_run *n = &c->spans->run[j.runs++];
            b += next_run(n, r, b);
            work += n->rows * seen(&j, n) * kv_heads;
        }
        attend(&j, work);
    }
    for (size_t b = 0; b < r->batch; b++) /* padding attends to nothing */
        for (size_t row = r->seq[b].valid; row < r->rows; row++)
            memset(out + (b * r->rows + row) * j.ld + h0 * d, 0, (h1 - h0) * d * sizeof *out);
}

void bt_companion_attention(const bt_companion *c, const bt_companion_rows *r, float *out, const float *q,
                            size_t layer, size_t heads, size_t kv_heads, size_t d, const bt_attn_rule *rule)
{
    bt_companion_attention_heads(c, r, out, q, layer, 0, heads, heads, kv_heads, d, rule);
}
