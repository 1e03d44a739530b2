/* Prices under a schedule. The state of the beginning that all prompts share is kept at each chunk, and a
 * prompt's end is played from there. */
#include "npu/price/schedule_price.h"

#include <stdlib.h>
#include <string.h>

enum { RANGE_STEPS = 64, MAX_LASTS = BT_SHAPES_MAX * (RANGE_STEPS + 1) };

/* A layer of a chunk is stored. */
typedef struct arrival {
    uint64_t ns;
    uint32_t chunk, layer;
} arrival;

/* A state of the run: all chunks before `first` have ended, and no stage was taken since. */
typedef struct moment {
    bt_schedule_run run;
    bt_link_queue wire; /* of a prompt whose window layers send none of the rows stored so far */
    size_t stored;      /* layers that were stored */
} moment;

/* The played result of a prompt of k filled chunks and a last one. */
typedef struct entry {
    const bt_pkg_row *row; /* of the last chunk; NULL: not played yet */
    bt_schedule_result result;
    uint64_t ops, bytes, term_ns[BT_TERMS];
    size_t first;     /* the moment that it was played from */
    arrival *arrival; /* [arrivals], owned: since then */
    size_t arrivals;
} entry;

enum { ROWS_OF_ENTRY = 2 }; /* a last chunk may end on either side of a context's end */

struct bt_schedule_price {
    bt_schedule_price_config c;
    const bt_shapes *shapes;
    bt_price_pkg_stages stages;
    size_t layers, chunks;         /* chunks: filled chunks of the longest prompt */
    size_t *begin;                 /* [chunks + 1]: position behind k filled chunks */
    uint64_t *ns, *last_ns;        /* [chunks][stages] of filled chunks; [stages] of the last chunk */
    size_t last;                   /* index of the last chunk in last_ns */
    uint64_t *rows, *ops, *bytes;  /* [chunks + 1]: sums over the first k chunks */
    uint64_t (*term_ns)[BT_TERMS]; /* likewise */
    bt_schedule_result *divided;   /* [chunks + 1]: busy times of the first k chunks under BT_STAGE_SPLIT */
    bt_stage_memo memo;            /* for BT_STAGE_SPLIT */
    bt_stage *of_chunk;            /* [stages]: scratch, for BT_STAGE_SPLIT */
    moment *moment; /* [chunks + 1]: the run when its `first` has reached k; [0 .. known] are set */
    size_t known;
    moment begun;                       /* the beginning, as far as it is played */
    size_t lasts, last_rows[MAX_LASTS]; /* last_rows: possible rows of a last chunk, ascending */
    entry *at;                          /* [chunks + 1][lasts][ROWS_OF_ENTRY] */
    arrival *stored;                    /* [chunks + window + 1][layers]: of the beginning */
    uint64_t (*sent_ns)[2];             /* [chunks + 1]: scratch, time of a layer on the link by its class */
};

/* ---- the price of a chunk ---- */

static bool has_overlap(const bt_schedule_price *t)
{
    return t->c.policy == BT_SCHEDULE_FIFO || t->c.policy == BT_SCHEDULE_OOO;
}
static size_t window_of(const bt_schedule_price *t) { return has_overlap(t) ? t->c.window : 1; }

static void add_piece(void *ud, const bt_stage_piece *piece)
{
    bt_schedule_result *r = ud;
    for (int k = 0; k < BT_SCHEDULE_ENGINES; k++)
        r->busy_ns[k] = bt_time_plus(r->busy_ns[k], piece->busy_ns[k]);
}

/* Prices a chunk under BT_STAGE_SPLIT. Both engines are busy in a stage; their times are added to *busy. */
static void price_divided(bt_schedule_price *t, uint64_t *ns, bt_schedule_result *busy,
                          const bt_price_pkg_chunk *c)
{
    const bt_pkg *p = bt_price_pkg_of(t->c.price);
    const bt_stage_engines *e = bt_price_pkg_engines(t->c.price);
    const bt_stage_chunk at = {.pos = c->pos, .rows = c->rows, .ctx = c->ctx, .is_first = c->is_first};
    const size_t n = bt_stages_of(t->of_chunk, NULL, t->stages.count, p, c->program);
    memset(ns, 0, t->stages.count * sizeof *ns);
    for (size_t j = 0; j < n; j++) {
        const bt_stage *stage = &t->of_chunk[j];
        const uint64_t wait = bt_stage_sync(e, t->of_chunk, j);
        const bt_stage_piece sync = {.busy_ns = {stage->is_npu ? wait : 0, stage->is_npu ? 0 : wait},
                                     .ns = wait};
        add_piece(busy, &sync);
        ns[j] =
            bt_time_plus(wait, bt_stage_cost_split(&t->memo, e, p, c->program, stage, &at, add_piece, busy));
    }
}

static bt_err price_chunk(bt_schedule_price *t, uint64_t *ns, bt_schedule_result *busy,
                          const bt_price_pkg_chunk *c, bt_fault *fault)
{
    if (t->c.policy != BT_STAGE_SPLIT) return bt_price_pkg_stage_ns(ns, t->c.price, c, has_overlap(t), fault);
    price_divided(t, ns, busy, c);
    return BT_OK;
}

static bt_err price_full(bt_schedule_price *t, size_t k, bt_fault *fault)
{
    bt_price_pkg_chunk c;
    bt_err e = bt_price_pkg_cut(&c, t->c.price, 0, t->begin[k], t->c.tokens, fault);
    t->divided[k + 1] = t->divided[k];
    if (e == BT_OK) e = price_chunk(t, &t->ns[k * t->stages.count], &t->divided[k + 1], &c, fault);
    if (e < 0) return e;
    const bt_price_sum sum = bt_price_pkg_sum(t->c.price, &c);
    t->begin[k + 1] = t->begin[k] + c.valid;
    t->rows[k + 1] = t->rows[k] + c.rows;
    t->ops[k + 1] = bt_time_plus(t->ops[k], sum.ops);
    t->bytes[k + 1] = bt_time_plus(t->bytes[k], sum.bytes);
    for (int i = 0; i < BT_TERMS; i++) t->term_ns[k + 1][i] = bt_time_plus(t->term_ns[k][i], sum.term_ns[i]);
    return BT_OK;
}

static uint64_t cost_ns(const void *ud, size_t chunk, size_t stage)
{
    const bt_schedule_price *t = ud;
    return chunk == t->last ? t->last_ns[stage] : t->ns[chunk * t->stages.count + stage];
}

/* ---- lifetime ---- */

static int ascending(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static void list_lasts(bt_schedule_price *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->shapes->shapes; i++) {
        const bt_shape *s = &t->shapes->shape[i];
        const size_t steps = s->seq_min == s->seq ? 0 : RANGE_STEPS;
        for (size_t k = 0; k <= steps; k++)
            t->last_rows[n++] = steps ? s->seq_min + (s->seq - s->seq_min) * k / steps : s->seq;
    }
    qsort(t->last_rows, n, sizeof *t->last_rows, ascending);
    for (size_t i = 0; i < n; i++)
        if (!i || t->last_rows[i] != t->last_rows[i - 1]) t->last_rows[t->lasts++] = t->last_rows[i];
}

static void count_chunks(bt_schedule_price *t)
{
    for (size_t begin = 0;;) {
        const bt_shapes_chunk c = bt_shapes_next(t->shapes, t->c.tokens, begin);
        if (begin + c.valid == t->c.tokens) return;
        begin += c.valid;
        t->chunks++;
    }
}

static bt_err make_room(bt_schedule_price *t, bt_fault *fault)
{
    const size_t all = t->chunks + 1;
    t->begin = calloc(all, sizeof *t->begin);
    t->rows = calloc(all, sizeof *t->rows);
    t->ops = calloc(all, sizeof *t->ops);
    t->bytes = calloc(all, sizeof *t->bytes);
    t->term_ns = calloc(all, sizeof *t->term_ns);
    t->divided = calloc(all, sizeof *t->divided);
    t->moment = calloc(all, sizeof *t->moment);
    t->ns = calloc(all * t->stages.count, sizeof *t->ns);
    t->last_ns = calloc(t->stages.count, sizeof *t->last_ns);
    t->of_chunk = calloc(t->stages.count, sizeof *t->of_chunk);
    t->at = calloc(all * t->lasts * ROWS_OF_ENTRY, sizeof *t->at);
    t->stored = calloc((all + window_of(t)) * t->layers, sizeof *t->stored);
    t->sent_ns = calloc(all, sizeof *t->sent_ns);
    if (t->begin && t->rows && t->ops && t->bytes && t->term_ns && t->divided && t->moment && t->ns &&
        t->last_ns && t->of_chunk && t->at && t->stored && t->sent_ns)
        return BT_OK;
    return bt_fail(fault, BT_ENOMEM, "out of memory for a table of %zu chunks", t->chunks);
}

bt_err bt_schedule_price_new(bt_schedule_price **ret, const bt_schedule_price_config *config, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(bt_price_pkg_of(config->price));
    if (!config->tokens || config->tokens > h->ctx_tokens)
        return bt_fail(fault, BT_ELIMIT, "prices of up to %zu tokens: 1 to %u, the package's context",
                       config->tokens, h->ctx_tokens);
    bt_schedule_price *t = calloc(1, sizeof *t);
    if (!t) return bt_fail(fault, BT_ENOMEM, "out of memory for a table of prices");
    t->c = *config;
    t->shapes = bt_price_pkg_shapes(config->price);
    t->stages = bt_price_pkg_stages_of(config->price);
    t->layers = h->layers;
    t->last = SIZE_MAX;
    list_lasts(t);
    count_chunks(t);
    bt_err e = make_room(t, fault);
    for (size_t k = 0; e == BT_OK && k < t->chunks; k++) e = price_full(t, k, fault);
    const bt_schedule_plan plan = {.policy = has_overlap(t) ? (bt_schedule_policy)config->policy
                                                            : BT_SCHEDULE_SERIAL,
                                   .stage = t->stages.as_stage,
                                   .stages = t->stages.count,
                                   .chunks = t->chunks + window_of(t) + 1, /* more than can begin, so the
                                                                              beginning has no last chunk */
                                   .window = window_of(t),
                                   .cost_ns = cost_ns,
                                   .ud = t};
    if (e == BT_OK) e = bt_schedule_run_begin(&t->begun.run, &plan, fault);
    if (e == BT_OK) {
        t->moment[0] = t->begun;
        *ret = t;
    } else {
        bt_schedule_price_free(t);
    }
    return e;
}

void bt_schedule_price_free(bt_schedule_price *t)
{
    if (!t) return;
    for (size_t i = 0; t->at && i < (t->chunks + 1) * t->lasts * ROWS_OF_ENTRY; i++) free(t->at[i].arrival);
    free(t->begin);
    free(t->rows);
    free(t->ops);
    free(t->term_ns);
    free(t->bytes);
    free(t->divided);
    free(t->moment);
    free(t->ns);
    free(t->last_ns);
    free(t->of_chunk);
    free(t->at);
    free(t->stored);
    free(t->sent_ns);
    free(t);
}

/* ---- the beginning ---- */

static bool stores(const bt_schedule_price *t, const bt_schedule_span *s)
{
    return t->stages.stage[s->task.stage].stores < t->layers;
}

static arrival arrival_of(const bt_schedule_price *t, const bt_schedule_span *s)
{
    return (arrival){s->end_ns, (uint32_t)s->task.chunk, t->stages.stage[s->task.stage].stores};
}

/* Plays the beginning on until its first `first` chunks have ended. */
static void play_to(bt_schedule_price *t, size_t first)
{
    bt_schedule_span s;
    t->last = SIZE_MAX;
    while (t->known < first && bt_schedule_run_next(&t->begun.run, &s)) {
        if (stores(t, &s)) {
            const arrival a = t->stored[t->begun.stored++] = arrival_of(t, &s);
            const bt_link_rows sent = {.all = t->begin[a.chunk + 1] - t->begin[a.chunk]};
            const uint64_t rows = bt_link_layer_rows(&t->c.kv, &sent, a.layer);
            if (rows && t->c.link.bits_per_us)
                (void)bt_link_message(&t->begun.wire, &t->c.link, a.ns,
                                      bt_time_times(t->c.kv.layer_bytes, rows));
        }
        while (t->known < t->begun.run.schedule.first && t->known < t->chunks)
            t->moment[++t->known] = t->begun;
    }
}

/* ---- an entry ---- */

static bt_err play_entry(entry *e, bt_schedule_price *t, size_t k, bt_fault *fault)
{
    const size_t window = window_of(t);
    bt_schedule_span s;
    e->first = k + 1 > window ? k + 1 - window : 0;
    e->arrivals = 0;
    if (!e->arrival) e->arrival = calloc((k + 1 - e->first) * t->layers, sizeof *e->arrival);
    if (!e->arrival) return bt_fail(fault, BT_ENOMEM, "out of memory for a price");
    play_to(t, e->first);
    moment m = t->moment[e->first];
    m.run.schedule.plan.chunks = k + 1;
    t->last = k;
    while (bt_schedule_run_next(&m.run, &s))
        if (stores(t, &s)) e->arrival[e->arrivals++] = arrival_of(t, &s);
    e->result = m.run.sum;
    return BT_OK;
}

/* Finds or plays the entry of k filled chunks and a last one of last_rows[l] rows, with the programs of this
 * row. */
static bt_err entry_of(const entry **ret, bt_schedule_price *t, size_t k, size_t l, const bt_pkg_row *row,
                       bt_fault *fault)
{
    entry *e = &t->at[(k * t->lasts + l) * ROWS_OF_ENTRY];
    if (e->row && e->row != row) e++;
    *ret = e;
    if (e->row == row) return BT_OK;
    const bt_price_pkg_chunk c = {
        .pos = t->begin[k], .rows = t->last_rows[l], .program = row->program[BT_PKG_OUT_LAST],
        .ctx = row->ctx,    .is_first = !k,          .is_last = true};
    bt_schedule_result divided = t->divided[k];
    bt_err played = price_chunk(t, t->last_ns, &divided, &c, fault);
    if (played == BT_OK) played = play_entry(e, t, k, fault);
    if (played < 0) return played;
    const bt_price_sum sum = bt_price_pkg_sum(t->c.price, &c);
    if (t->c.policy == BT_STAGE_SPLIT) memcpy(e->result.busy_ns, divided.busy_ns, sizeof divided.busy_ns);
    e->ops = bt_time_plus(t->ops[k], sum.ops);
    e->bytes = bt_time_plus(t->bytes[k], sum.bytes);
    for (int i = 0; i < BT_TERMS; i++) e->term_ns[i] = bt_time_plus(t->term_ns[k][i], sum.term_ns[i]);
    e->row = row;
    return BT_OK;
}

/* ---- a price ---- */

/* The index of the last of list[n] that is at most v; 0: there is none. */
static size_t below(const size_t *list, size_t n, size_t v)
{
    size_t lo = 0;
    for (size_t hi = n; hi - lo > 1;) {
        const size_t mid = lo + (hi - lo) / 2;
        if (list[mid] <= v) lo = mid;
        else hi = mid;
    }
    return lo;
}

/* Fills t->sent_ns of chunks [from, k] of a prompt of so many tokens. */
static void price_link(bt_schedule_price *t, size_t from, size_t k, uint64_t tokens)
{
    for (size_t i = from; i <= k; i++) {
        const bt_link_rows sent =
            bt_link_rows_of(&t->c.kv, t->begin[i], i < k ? t->begin[i + 1] : tokens, tokens);
        const uint64_t rows[2] = {sent.all, sent.window}, bytes = t->c.kv.layer_bytes;
        for (int w = 0; w < 2; w++)
            t->sent_ns[i][w] = rows[w] ? bt_link_ns(&t->c.link, bt_time_times(bytes, rows[w])) : 0;
    }
}

static void send(bt_link_queue *q, const bt_schedule_price *t, const arrival *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t ns = t->sent_ns[a[i].chunk][!bt_link_sends_all(&t->c.kv, a[i].layer)];
        if (ns) (void)bt_link_pass(q, a[i].ns, ns);
    }
}

/* Begins at the last moment until which window layers had stored nothing that this prompt sends of them. */
static uint64_t exposed_ns(const entry *e, bt_schedule_price *t, size_t k, uint64_t tokens)
{
    const bt_link_kv *kv = &t->c.kv;
    const size_t under_way = window_of(t) - 1;
    size_t from = e->first;
    if (!t->c.link.bits_per_us) return 0;
    while (kv->window && from && bt_link_rows_of(kv, 0, t->begin[from + under_way], tokens).window) from--;
    bt_link_queue q = t->moment[from].wire;
    price_link(t, from, k, tokens);
    send(&q, t, t->stored + t->moment[from].stored, t->moment[e->first].stored - t->moment[from].stored);
    send(&q, t, e->arrival, e->arrivals);
    return bt_link_exposed_ns(&q, e->result.makespan_ns);
}

static bt_schedule_priced price_entry(const entry *e, bt_schedule_price *t, size_t k, uint64_t tokens)
{
    bt_schedule_priced p = {.result = e->result, .ops = e->ops, .bytes = e->bytes,
                            .exposed_ns = exposed_ns(e, t, k, tokens)};
    memcpy(p.term_ns, e->term_ns, sizeof p.term_ns);
    return p;
}

static uint64_t line(uint64_t a, uint64_t b, size_t at, size_t of)
{
    return b >= a ? a + bt_time_scale(b - a, at, of) : a - bt_time_scale(a - b, at, of);
}

static bt_schedule_priced between(const bt_schedule_priced *a, const bt_schedule_priced *b, size_t at,
                                  size_t of)
{
    bt_schedule_priced r = {.result.makespan_ns = line(a->result.makespan_ns, b->result.makespan_ns, at, of),
                            .exposed_ns = line(a->exposed_ns, b->exposed_ns, at, of),
                            .ops = line(a->ops, b->ops, at, of), .bytes = line(a->bytes, b->bytes, at, of)};
    for (int k = 0; k < BT_SCHEDULE_ENGINES; k++)
        r.result.busy_ns[k] = line(a->result.busy_ns[k], b->result.busy_ns[k], at, of);
    for (int k = 0; k < BT_TERMS; k++) r.term_ns[k] = line(a->term_ns[k], b->term_ns[k], at, of);
    return r;
}

bt_err bt_schedule_price_of(bt_schedule_priced *ret, bt_schedule_price *t, size_t tokens, bt_fault *fault)
{
    const size_t k = below(t->begin, t->chunks + 1, tokens - 1);
    const bt_shapes_chunk c = bt_shapes_next(t->shapes, tokens, t->begin[k]);
    const size_t l = below(t->last_rows, t->lasts, c.rows);
    const bt_pkg_row *row;
    const entry *a, *b;
    bt_err e = bt_pkg_find_row(&row, bt_price_pkg_of(t->c.price), 1, c.rows, tokens, fault);
    if (e == BT_OK) e = entry_of(&a, t, k, l, row, fault);
    if (e != BT_OK) return e;
    bt_schedule_priced p = price_entry(a, t, k, tokens);
    if (t->last_rows[l] != c.rows) {
        if ((e = entry_of(&b, t, k, l + 1, row, fault)) != BT_OK) return e;
        const bt_schedule_priced next = price_entry(b, t, k, tokens);
        p = between(&p, &next, c.rows - t->last_rows[l], t->last_rows[l + 1] - t->last_rows[l]);
    }
    p.rows = t->rows[k] + c.rows;
    p.chunks = k + 1;
    *ret = p;
    return BT_OK;
}
