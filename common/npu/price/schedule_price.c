/* The times of all stages are computed once; each entry of the table is then the full schedule of one prompt.
 */
#include "npu/price/schedule_price.h"
#include "npu/pkg/pkg_shapes.h"

#include <stdlib.h>
#include <string.h>

enum { DENSE = 32, RANGE_STEPS = 64, MAX_LASTS = BT_SHAPES_MAX * (RANGE_STEPS + 1) };

struct bt_schedule_price {
    bt_shapes shapes;
    size_t tokens;
    size_t chunks; /* the longest prompt: filled ones, before the last */
    size_t *begin; /* [chunks + 1]: where the chunk behind k filled ones begins */
    size_t lasts, samples;
    size_t last_rows[MAX_LASTS]; /* of a last chunk, ascending */
    size_t *k;                   /* [samples]: filled chunks, ascending */
    bt_schedule_result *at;      /* [samples * lasts]; makespan 0: no such chunk there */
};

typedef struct build {
    const bt_schedule_price_config *c;
    bt_schedule_price *t;
    const bt_pkg_row **row; /* [chunks]: of the k-th filled one */
    size_t stages;
    bt_stage *stage;
    bt_schedule_stage *as_stage, *other;
    uint64_t *ns; /* [chunks + 1][stages]; the last one's is rewritten for each entry */
    bt_stage_memo memo;
    bt_schedule_result *sum; /* under BT_STAGE_SPLIT [chunks + 1]: of the chunks before */
} build;

/* ---- which prompts there are ---- */

static int ascending(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static void list_lasts(bt_schedule_price *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->shapes.shapes; i++) {
        const bt_shape *s = &t->shapes.shape[i];
        const size_t steps = s->seq_min == s->seq ? 0 : RANGE_STEPS;
        for (size_t k = 0; k <= steps; k++)
            t->last_rows[n++] = steps ? s->seq_min + (s->seq - s->seq_min) * k / steps : s->seq;
    }
    qsort(t->last_rows, n, sizeof *t->last_rows, ascending);
    for (size_t i = 0; i < n; i++)
        if (!i || t->last_rows[i] != t->last_rows[i - 1]) t->last_rows[t->lasts++] = t->last_rows[i];
}

/* The filled chunks of the longest prompt. */
static bt_err list_chunks(build *b, bt_fault *fault)
{
    bt_schedule_price *t = b->t;
    for (size_t begin = 0;;) {
        const bt_shapes_chunk c = bt_shapes_next(&t->shapes, t->tokens, begin);
        if (begin + c.valid == t->tokens) break;
        begin += c.valid;
        t->chunks++;
    }
    t->begin = calloc(t->chunks + 1, sizeof *t->begin);
    b->row = calloc(t->chunks + 1, sizeof *b->row);
    if (!t->begin || !b->row) return bt_fail(fault, BT_ENOMEM, "a table of %zu chunks", t->chunks);
    for (size_t k = 0; k < t->chunks; k++) {
        const bt_shapes_chunk c = bt_shapes_next(&t->shapes, t->tokens, t->begin[k]);
        const bt_err e = bt_pkg_find_row(&b->row[k], b->c->pkg, 1, c.rows, t->begin[k] + c.valid, fault);
        if (e < 0) return e;
        t->begin[k + 1] = t->begin[k] + c.valid;
    }
    return BT_OK;
}

/* Programs change between chunk k and the next. */
static bool is_edge(const build *b, size_t k) { return k + 1 < b->t->chunks && b->row[k] != b->row[k + 1]; }

static bt_err list_samples(build *b, bt_fault *fault)
{
    bt_schedule_price *t = b->t;
    t->k = calloc(t->chunks + 1, sizeof *t->k);
    if (!t->k) return bt_fail(fault, BT_ENOMEM, "a table of %zu chunks", t->chunks);
    size_t next = 0;
    for (size_t k = 0; k <= t->chunks; k++) {
        if (k < next && k != t->chunks && !is_edge(b, k) && !(k && is_edge(b, k - 1))) continue;
        t->k[t->samples++] = k;
        next = k + (k > DENSE ? k / DENSE : 1);
    }
    t->at = calloc(t->samples * t->lasts, sizeof *t->at);
    return t->at ? BT_OK : bt_fail(fault, BT_ENOMEM, "a table of %zu prompts", t->samples * t->lasts);
}

/* ---- what each takes ---- */

static uint64_t cost_ns(const void *ud, size_t chunk, size_t stage)
{
    const build *b = ud;
    return b->ns[chunk * b->stages + stage];
}

static void add_piece(void *ud, const bt_stage_piece *piece)
{
    bt_schedule_result *r = ud;
    for (int k = 0; k < BT_SCHEDULE_ENGINES; k++)
        r->busy_ns[k] = bt_time_plus(r->busy_ns[k], piece->busy_ns[k]);
    r->makespan_ns = bt_time_plus(r->makespan_ns, piece->ns);
}

/* Chunk k, as it stands in the schedule: into ns, or onto the sum of those before. */
static bt_err price_chunk(build *b, size_t k, const bt_pkg_row *row, uint32_t program, size_t rows,
                          bt_fault *fault)
{
    const bt_stage_chunk c = {.pos = b->t->begin[k], .rows = rows, .ctx = row->ctx, .is_first = !k};
    const size_t n = bt_stages_of(b->stage, b->other, b->stages, b->c->pkg, program);
    if (n > b->stages || memcmp(b->other, b->as_stage, n * sizeof *b->other) != 0)
        return bt_fail(fault, BT_EARG, "the stages of a chunk of %zu rows are not those of the last chunk",
                       rows);
    memset(&b->ns[k * b->stages], 0, b->stages * sizeof *b->ns);
    if (b->c->policy != BT_STAGE_SPLIT) {
        bt_stage_engines engines = b->c->engines;
        engines.overlap = b->c->policy != BT_SCHEDULE_SERIAL;
        bt_stage_costs(&b->ns[k * b->stages], &engines, b->c->pkg, program, b->stage, n, &c);
        return BT_OK;
    }
    b->sum[k + 1] = b->sum[k];
    for (size_t j = 0; j < n; j++) {
        const uint64_t wait = bt_stage_sync(&b->c->engines, b->stage, j);
        const bt_stage_piece sync = {
            .busy_ns = {b->stage[j].is_npu ? wait : 0, b->stage[j].is_npu ? 0 : wait}, .ns = wait};
        add_piece(&b->sum[k + 1], &sync);
        bt_stage_cost_split(&b->memo, &b->c->engines, b->c->pkg, program, &b->stage[j], &c, add_piece,
                            &b->sum[k + 1]);
    }
    return BT_OK;
}

/* The prompt of k filled chunks and a last one of so many rows. A shape that is not there leaves the entry
 * empty. */
static bt_err price_entry(build *b, size_t k, size_t rows, bt_schedule_result *ret, bt_fault *fault)
{
    const bt_schedule_price *t = b->t;
    const size_t end = t->begin[k] + rows < t->tokens ? t->begin[k] + rows : t->tokens;
    const bt_pkg_row *row;
    if (bt_pkg_find_row(&row, b->c->pkg, 1, rows, end, NULL) < 0) return BT_OK;
    bt_err e = price_chunk(b, k, row, row->program[BT_PKG_OUT_LAST], rows, fault);
    if (e < 0) return e;
    if (b->c->policy == BT_STAGE_SPLIT) {
        *ret = b->sum[k + 1];
        return BT_OK;
    }
    const bt_schedule_plan plan = {.policy = (bt_schedule_policy)b->c->policy,
                                   .stage = b->as_stage,
                                   .stages = b->stages,
                                   .chunks = k + 1,
                                   .window = b->c->window,
                                   .cost_ns = cost_ns,
                                   .ud = b};
    return bt_schedule_model(&plan, NULL, NULL, ret, fault);
}

static bt_err fill(build *b, bt_fault *fault)
{
    bt_schedule_price *t = b->t;
    bt_err e = BT_OK;
    for (size_t i = 0, k = 0; e == BT_OK && i < t->samples; i++) {
        for (; e == BT_OK && k < t->k[i]; k++)
            e = price_chunk(b, k, b->row[k], b->row[k]->program[BT_PKG_OUT_NONE],
                            t->begin[k + 1] - t->begin[k], fault);
        for (size_t l = 0; e == BT_OK && l < t->lasts; l++)
            e = price_entry(b, t->k[i], t->last_rows[l], &t->at[i * t->lasts + l], fault);
    }
    return e;
}

static bt_err make_room(build *b, bt_fault *fault)
{
    const bt_pkg *p = b->c->pkg;
    const bt_shapes_chunk c = bt_shapes_next(&b->t->shapes, b->t->tokens, b->t->begin[b->t->chunks]);
    const bt_pkg_row *row;
    const bt_err e = bt_pkg_find_row(&row, p, 1, c.rows, b->t->tokens, fault);
    if (e < 0) return e;
    const uint32_t last = row->program[BT_PKG_OUT_LAST];
    b->stages = bt_stages_of(NULL, NULL, 0, p, last);
    b->stage = calloc(b->stages, sizeof *b->stage);
    b->as_stage = calloc(b->stages, sizeof *b->as_stage);
    b->other = calloc(b->stages, sizeof *b->other);
    b->ns = calloc((b->t->chunks + 1) * b->stages, sizeof *b->ns);
    b->sum = calloc(b->t->chunks + 2, sizeof *b->sum);
    if (!b->stage || !b->as_stage || !b->other || !b->ns || !b->sum)
        return bt_fail(fault, BT_ENOMEM, "pricing %zu chunks", b->t->chunks + 1);
    bt_stages_of(b->stage, b->as_stage, b->stages, p, last);
    return BT_OK;
}

bt_err bt_schedule_price_new(bt_schedule_price **ret, const bt_schedule_price_config *config, bt_fault *fault)
{
    const size_t ctx = bt_pkg_header_of(config->pkg)->ctx_tokens;
    bt_err e;
    if (!config->tokens || config->tokens > ctx)
        return bt_fail(fault, BT_ELIMIT, "prices of up to %zu tokens: 1 to %zu, the package's context",
                       config->tokens, ctx);
    build b = {.c = config, .t = calloc(1, sizeof *b.t)};
    if (!b.t) return bt_fail(fault, BT_ENOMEM, "a table of prices");
    b.t->tokens = config->tokens;
    if ((e = bt_pkg_shapes(&b.t->shapes, config->pkg, fault)) < 0) goto out;
    list_lasts(b.t);
    if ((e = list_chunks(&b, fault)) < 0 || (e = list_samples(&b, fault)) < 0) goto out;
    if ((e = make_room(&b, fault)) < 0 || (e = fill(&b, fault)) < 0) goto out;
    *ret = b.t;
    b.t = NULL;
out:
    bt_schedule_price_free(b.t);
    free(b.row);
    free(b.stage);
    free(b.as_stage);
    free(b.other);
    free(b.ns);
    free(b.sum);
    return e;
}

void bt_schedule_price_free(bt_schedule_price *t)
{
    if (!t) return;
    free(t->begin);
    free(t->k);
    free(t->at);
    free(t);
}

/* ---- a price ---- */

/* The last of list[n] that is at most v; the first where none is. */
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

static uint64_t line(uint64_t a, uint64_t b, size_t at, size_t of)
{
    return b >= a ? a + bt_time_scale(b - a, at, of) : a - bt_time_scale(a - b, at, of);
}

/* Between two entries; one that is empty gives way to the other. */
static bt_schedule_result between(const bt_schedule_result *a, const bt_schedule_result *b, size_t at,
                                  size_t of)
{
    if (!at || !b->makespan_ns) return *a;
    if (!a->makespan_ns) return *b;
    bt_schedule_result r = {.makespan_ns = line(a->makespan_ns, b->makespan_ns, at, of)};
    for (int k = 0; k < BT_SCHEDULE_ENGINES; k++) r.busy_ns[k] = line(a->busy_ns[k], b->busy_ns[k], at, of);
    return r;
}

static bt_schedule_result of_last(const bt_schedule_price *t, size_t sample, size_t rows)
{
    const bt_schedule_result *at = &t->at[sample * t->lasts];
    const size_t l = below(t->last_rows, t->lasts, rows), next = l + 1 < t->lasts ? l + 1 : l;
    return between(&at[l], &at[next], rows - t->last_rows[l],
                   next > l ? t->last_rows[next] - t->last_rows[l] : 1);
}

bt_schedule_result bt_schedule_price_of(const bt_schedule_price *t, size_t tokens)
{
    const size_t k = below(t->begin, t->chunks + 1, tokens - 1);
    const size_t rows = bt_shapes_next(&t->shapes, tokens, t->begin[k]).rows;
    const size_t i = below(t->k, t->samples, k), next = i + 1 < t->samples ? i + 1 : i;
    const bt_schedule_result a = of_last(t, i, rows), b = of_last(t, next, rows);
    return between(&a, &b, k - t->k[i], next > i ? t->k[next] - t->k[i] : 1);
}
