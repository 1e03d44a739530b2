/* Fitting is remembering; drawing is choosing rows and growing a tree by copying its paths. */
#include "trace/synth.h"
#include "trace/map.h"

#include <math.h>
#include <stdlib.h>

enum { LOOK_FAR = 1024, US = 1000000 };

typedef struct known { /* a row of the trace */
    int64_t gap_us;
    uint32_t input, output, blocks, match, lag;
} known;

typedef struct made {   /* a request that was drawn: blocks [0, match) are those of `from` */
    uint64_t first_new; /* the id of block `match` */
    uint32_t from, match, blocks;
} made;

struct bt_synth {
    known *row;
    size_t row_len, row_cap;
    bt_trace_map last; /* block to the row that had it last */
    bool has_times;
    int64_t last_us, gaps_us;
    uint64_t out_of_order, shortened;
    bt_synth_gaps gaps;
    bt_trace_draw draw;
    size_t at; /* the row to draw next, in a run */
    made *made;
    size_t made_len, made_cap;
    uint64_t ids; /* given so far */
    uint64_t *hash;
    size_t hash_cap;
    double now_us;
    size_t window;
    double *gap; /* of the window, in seconds */
    size_t gap_len, gap_at;
};

bt_err bt_synth_new(bt_synth **ret, bt_fault *fault)
{
    *ret = calloc(1, sizeof **ret);
    return *ret ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for a model of a trace");
}

void bt_synth_free(bt_synth *s)
{
    if (!s) return;
    free(s->row);
    free(s->made);
    free(s->hash);
    free(s->gap);
    bt_trace_map_done(&s->last);
    free(s);
}

uint64_t bt_synth_shortened(const bt_synth *s) { return s->shortened; }
uint64_t bt_synth_out_of_order(const bt_synth *s) { return s->out_of_order; }

/* ---- fitting ------------------------------------------------------------------------------------- */

static bt_err room_for_row(bt_synth *s, bt_fault *fault)
{
    if (s->row_len < s->row_cap) return BT_OK;
    if (s->row_len == BT_SYNTH_MAX_ROWS)
        return bt_fail(fault, BT_ELIMIT, "more than %d requests to fit; cut the trace first",
                       BT_SYNTH_MAX_ROWS);
    const size_t cap = s->row_cap ? s->row_cap * 2 : 4096;
    known *more = reallocarray(s->row, cap, sizeof *more);
    if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu requests", cap);
    s->row = more;
    s->row_cap = cap;
    return BT_OK;
}

bt_err bt_synth_fit(bt_synth *s, const bt_trace_row *row, bt_fault *fault)
{
    bt_err e = room_for_row(s, fault);
    if (e < 0) return e;
    if (!row->has_output)
        return bt_fail(fault, BT_EARG, "line %llu: the trace does not say how long the answer was",
                       (unsigned long long)row->line);
    if (row->has_delay || (s->row_len && s->has_times != row->has_arrival))
        return bt_fail(fault, BT_EARG,
                       "line %llu: a request has no time of its own, and others have one: requests cannot be "
                       "drawn from both",
                       (unsigned long long)row->line);
    known k = {.input = row->input_tokens, .output = row->output_tokens, .blocks = (uint32_t)row->hash_len};
    for (const uint64_t *had;
         k.match < row->hash_len && (had = bt_trace_map_find(&s->last, row->hash_ids[k.match])); k.match++)
        k.lag = (uint32_t)(s->row_len - *had);
    for (size_t i = 0; i < row->hash_len; i++)
        if ((e = bt_trace_map_put(&s->last, row->hash_ids[i], s->row_len, fault)) < 0) return e;
    if (row->has_arrival) {
        if (s->has_times) k.gap_us = row->arrival_us - s->last_us;
        if (k.gap_us < 0) {
            s->out_of_order++;
            k.gap_us = 0;
        } else s->last_us = row->arrival_us;
        s->has_times = true;
        s->gaps_us += k.gap_us;
    }
    s->row[s->row_len++] = k;
    return BT_OK;
}

/* ---- gaps ---------------------------------------------------------------------------------------- */

static double draw_family(bt_trace_draw *d, const bt_trace_rate *w)
{
    return w->family == BT_TRACE_WEIBULL ? bt_trace_draw_weibull(d, w->shape, 1)
                                         : bt_trace_draw_gamma(d, w->shape, 1);
}

/* The gaps of the next window that has any; false: there is none. */
static bt_err fill_window(bool *is_end, bt_synth *s, bt_fault *fault)
{
    for (; s->window < s->gaps.window_len; s->window++) {
        const bt_trace_rate *w = &s->gaps.windows[s->window];
        const double width = w->end_s - w->start_s, n = ceil(w->rate * width);
        if (w->family == BT_TRACE_NO_GAPS || !(n >= 1)) continue;
        if (n > BT_SYNTH_MAX_DRAWS)
            return bt_fail(fault, BT_ELIMIT, "%g requests in the window at %g s; at most %d", n, w->start_s,
                           BT_SYNTH_MAX_DRAWS);
        double *gap = reallocarray(s->gap, (size_t)n, sizeof *gap), sum = 0;
        if (!gap) return bt_fail(fault, BT_ENOMEM, "out of memory for %g gaps", n);
        s->gap = gap;
        s->gap_len = (size_t)n;
        s->gap_at = 0;
        for (size_t i = 0; i < s->gap_len; i++) sum += gap[i] = draw_family(&s->draw, w);
        for (size_t i = 0; i < s->gap_len; i++) gap[i] *= sum > 0 ? width / sum : 0;
        s->now_us = w->start_s * US;
        s->window++;
        *is_end = false;
        return BT_OK;
    }
    *is_end = true;
    return BT_OK;
}

static bt_err next_arrival(bool *is_end, bt_synth *s, const known *k, bt_fault *fault)
{
    const bt_synth_gaps *g = &s->gaps;
    *is_end = false;
    if (g->window_len) {
        if (s->gap_at == s->gap_len) {
            const bt_err e = fill_window(is_end, s, fault);
            if (e < 0 || *is_end) return e;
        }
        s->now_us += s->gap[s->gap_at++] * US;
    } else if (s->made_len == 0) {
        s->now_us = 0;
    } else if (g->cv > 0) {
        s->now_us += US * bt_trace_draw_gamma(&s->draw, 1 / (g->cv * g->cv), g->cv * g->cv / g->rate);
    } else {
        const double mean_us = s->row_len > 1 ? (double)s->gaps_us / (double)(s->row_len - 1) : 0;
        s->now_us += (double)k->gap_us * (g->rate > 0 ? US / g->rate / mean_us : 1);
    }
    return BT_OK;
}

/* ---- drawing ------------------------------------------------------------------------------------- */

bt_err bt_synth_start(bt_synth *s, uint64_t seed, const bt_synth_gaps *gaps, bt_fault *fault)
{
    s->gaps = *gaps;
    s->draw = (bt_trace_draw){.seed = seed};
    if (s->row_len == 0) return bt_fail(fault, BT_EARG, "the trace has no request to draw from");
    const bool has_gaps = s->has_times && s->gaps_us > 0;
    if (gaps->cv > 0 && gaps->rate <= 0) {
        if (!has_gaps) return bt_fail(fault, BT_EARG, "the trace has no times: give --rate");
        s->gaps.rate = (double)(s->row_len - 1) * US / (double)s->gaps_us;
    }
    if (!gaps->window_len && gaps->cv <= 0 && !has_gaps) {
        if (gaps->rate <= 0) return bt_fail(fault, BT_EARG, "the trace has no times: give --rate or --rates");
        s->gaps.cv = 1;
    }
    bt_trace_map_done(&s->last);
    return BT_OK;
}

/* The row to draw: the next of the run, or any. Where a run goes over the end of the trace, its first gap is
 * no gap. */
static const known *choose(bt_synth *s)
{
    if (s->made_len == 0 || bt_trace_draw_uniform(&s->draw) * BT_SYNTH_RUN < 1)
        s->at = (size_t)(bt_trace_draw_uniform(&s->draw) * (double)s->row_len);
    if (s->at >= s->row_len) s->at = 0;
    if (s->at == 0 && s->row_len > 1)
        s->at = 1 + (size_t)(bt_trace_draw_uniform(&s->draw) * (double)(s->row_len - 1));
    return &s->row[s->at++];
}

/* Finds the request whose first blocks are taken over, and their number. */
static void find_source(made *m, bt_synth *s, const known *k)
{
    m->match = k->match;
    if (m->match == 0) return;
    if (s->made_len == 0) {
        m->match = 0;
        s->shortened++;
        return;
    }
    const size_t lag = k->lag < s->made_len ? k->lag : s->made_len, from = s->made_len - lag;
    size_t best = from;
    for (size_t i = 0; i < LOOK_FAR && s->made[best].blocks < m->match; i++) {
        const size_t older = from - i;
        if (i <= from && s->made[older].blocks > s->made[best].blocks) best = older;
        if (from + i < s->made_len && s->made[from + i].blocks > s->made[best].blocks) best = from + i;
    }
    m->from = (uint32_t)best;
    if (s->made[best].blocks < m->match) {
        m->match = s->made[best].blocks;
        s->shortened++;
    }
}

static uint64_t id_of(const bt_synth *s, size_t request, uint32_t block)
{
    while (block < s->made[request].match) request = s->made[request].from;
    return s->made[request].first_new + (block - s->made[request].match);
}

static bt_err room_for_made(bt_synth *s, size_t blocks, bt_fault *fault)
{
    if (s->made_len == s->made_cap) {
        const size_t cap = s->made_cap ? s->made_cap * 2 : 4096;
        made *more = s->made_len < BT_SYNTH_MAX_DRAWS ? reallocarray(s->made, cap, sizeof *more) : NULL;
        if (!more)
            return bt_fail(fault, BT_ENOMEM,
                           "no room for more than %zu drawn requests; at most %d are allowed", s->made_len,
                           BT_SYNTH_MAX_DRAWS);
        s->made = more;
        s->made_cap = cap;
    }
    if (blocks <= s->hash_cap) return BT_OK;
    uint64_t *more = reallocarray(s->hash, blocks, sizeof *more);
    if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu hashes", blocks);
    s->hash = more;
    s->hash_cap = blocks;
    return BT_OK;
}

bt_err bt_synth_draw(bt_trace_row *ret, bool *is_end, bt_synth *s, bt_fault *fault)
{
    const known *k = choose(s);
    bt_err e = next_arrival(is_end, s, k, fault);
    if (e < 0 || *is_end || (e = room_for_made(s, k->blocks, fault)) < 0) return e;
    made m = {.first_new = s->ids, .blocks = k->blocks};
    find_source(&m, s, k);
    s->ids += m.blocks - m.match;
    s->made[s->made_len++] = m;
    for (uint32_t i = 0; i < m.blocks; i++) s->hash[i] = id_of(s, s->made_len - 1, i);
    *ret =
        (bt_trace_row){.line = s->made_len,      .has_arrival = true,        .arrival_us = llround(s->now_us),
                       .input_tokens = k->input, .output_tokens = k->output, .has_output = true,
                       .hash_ids = s->hash,      .hash_len = m.blocks};
    return BT_OK;
}
