/* One pass: histograms, a small heap that puts arrivals in order, and a set of the blocks that came. */
#include "trace/stats.h"
#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bt_err bt_trace_stats_begin(bt_trace_stats *s, bt_fault *fault)
{
    *s = (bt_trace_stats){.least_block = 1, .most_block = UINT32_MAX, .bins = {.width_us = 1000}};
    bt_trace_hist *const hists[] = {&s->input, &s->output, &s->gap_us, &s->ttft_us, &s->total_us};
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < sizeof hists / sizeof *hists; i++)
        e = bt_trace_hist_begin(hists[i], fault);
    if (e == BT_OK && !(s->heap = malloc((BT_TRACE_STATS_WINDOW + 1) * sizeof *s->heap)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the arrivals of a trace");
    if (e < 0) bt_trace_stats_done(s);
    return e;
}

void bt_trace_stats_done(bt_trace_stats *s)
{
    bt_trace_hist *const hists[] = {&s->input, &s->output, &s->gap_us, &s->ttft_us, &s->total_us};
    for (size_t i = 0; i < sizeof hists / sizeof *hists; i++) bt_trace_hist_done(hists[i]);
    bt_trace_map_done(&s->seen);
    bt_trace_map_done(&s->talks);
    free(s->heap);
    s->heap = NULL;
}

/* ---- gaps ---------------------------------------------------------------------------------------- */

static void push(bt_trace_stats *s, int64_t at)
{
    size_t i = s->heap_len++;
    while (i > 0 && s->heap[(i - 1) / 2] > at) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = at;
}

static int64_t pop(bt_trace_stats *s)
{
    const int64_t least = s->heap[0], last = s->heap[--s->heap_len];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < s->heap_len; i = c) {
        if (c + 1 < s->heap_len && s->heap[c + 1] < s->heap[c]) c++;
        if (s->heap[c] >= last) break;
        s->heap[i] = s->heap[c];
    }
    s->heap[i] = last;
    return least;
}

static void note_gap(bt_trace_stats *s, int64_t at)
{
    int64_t gap = at - s->gap_from_us;
    if (s->has_gap_from && gap < 0) {
        s->out_of_order++;
        gap = 0;
        at = s->gap_from_us;
    }
    if (s->has_gap_from) {
        bt_trace_hist_add(&s->gap_us, (uint64_t)gap);
        s->gap_sum += (double)gap;
        s->gap_squares += (double)gap * (double)gap;
    }
    s->has_gap_from = true;
    s->gap_from_us = at;
}

static void note_arrival(bt_trace_stats *s, int64_t at)
{
    if (s->arrivals == 0 || at < s->first_us) s->first_us = at;
    if (s->arrivals == 0 || at > s->last_us) s->last_us = at;
    s->arrivals++;
    push(s, at);
    if (s->heap_len > BT_TRACE_STATS_WINDOW) note_gap(s, pop(s));
}

void bt_trace_stats_end(bt_trace_stats *s)
{
    while (s->heap_len) note_gap(s, pop(s));
}

/* ---- over time ----------------------------------------------------------------------------------- */

static struct bt_trace_bin *bin_of(bt_trace_bins *b, int64_t at_us)
{
    if (at_us < 0) at_us = 0;
    while (at_us / b->width_us >= BT_TRACE_STATS_BINS) {
        for (size_t i = 0; i < BT_TRACE_STATS_BINS; i++) {
            const struct bt_trace_bin from = b->bin[i];
            struct bt_trace_bin *to = &b->bin[i / 2];
            if (i % 2 == 0) *to = (struct bt_trace_bin){0};
            to->requests += from.requests;
            to->input_tokens += from.input_tokens;
            to->output_tokens += from.output_tokens;
            to->blocks += from.blocks;
            to->hit_blocks += from.hit_blocks;
        }
        memset(b->bin + BT_TRACE_STATS_BINS / 2, 0, sizeof b->bin / 2);
        b->len = (b->len + 1) / 2;
        b->width_us *= 2;
    }
    const size_t i = (size_t)(at_us / b->width_us);
    if (i >= b->len) b->len = i + 1;
    return &b->bin[i];
}

/* ---- prefixes ------------------------------------------------------------------------------------ */

static bt_err note_blocks(bt_trace_stats *s, uint64_t *ret_hits, const bt_trace_row *row, bt_fault *fault)
{
    uint64_t hits = 0;
    while (hits < row->hash_len && bt_trace_map_find(&s->seen, row->hash_ids[hits])) hits++;
    for (size_t i = (size_t)hits; i < row->hash_len && !s->is_over_limit; i++) {
        const bt_err e = bt_trace_map_put(&s->seen, row->hash_ids[i], 1, fault);
        if (e == BT_ELIMIT) s->is_over_limit = true;
        else if (e < 0) return e;
    }
    const uint64_t n = row->hash_len, least = (row->input_tokens + n - 1) / n;
    if (least > s->least_block) s->least_block = least;
    if (n > 1 && (row->input_tokens - 1) / (n - 1) < s->most_block)
        s->most_block = (row->input_tokens - 1) / (n - 1);
    s->hashed++;
    s->blocks += n;
    s->hit_blocks += hits;
    *ret_hits = hits;
    return BT_OK;
}

static bt_err note_session(bt_trace_stats *s, const char *session, bt_fault *fault)
{
    const uint64_t id = bt_hash64(session, strlen(session));
    s->turns++;
    if (bt_trace_map_find(&s->talks, id)) return BT_OK;
    const bt_err e = bt_trace_map_put(&s->talks, id, 1, fault);
    if (e == BT_ELIMIT) s->is_over_limit = true;
    else if (e < 0) return e;
    else s->sessions++;
    return BT_OK;
}

bt_err bt_trace_stats_add(bt_trace_stats *s, const bt_trace_row *row, bt_fault *fault)
{
    uint64_t hits = 0;
    bt_err e = row->hash_len ? note_blocks(s, &hits, row, fault) : BT_OK;
    if (e == BT_OK && row->session) e = note_session(s, row->session, fault);
    if (e < 0) return e;
    s->requests++;
    s->failed += row->is_failed;
    s->delays += row->has_delay;
    bt_trace_hist_add(&s->input, row->input_tokens);
    if (row->has_output) bt_trace_hist_add(&s->output, row->output_tokens);
    if (row->block_tokens) s->block_tokens = row->block_tokens;
    if (row->captured) {
        const bt_trace_captured *c = row->captured;
        s->outcome[c->outcome]++;
        if (c->time_us[BT_TRACE_TTFT] >= 0)
            bt_trace_hist_add(&s->ttft_us, (uint64_t)c->time_us[BT_TRACE_TTFT]);
        if (c->time_us[BT_TRACE_TOTAL] >= 0)
            bt_trace_hist_add(&s->total_us, (uint64_t)c->time_us[BT_TRACE_TOTAL]);
    }
    if (!row->has_arrival) return BT_OK;
    note_arrival(s, row->arrival_us);
    struct bt_trace_bin *b = bin_of(&s->bins, row->arrival_us);
    b->requests++;
    b->input_tokens += row->input_tokens;
    b->output_tokens += row->output_tokens;
    b->blocks += row->hash_len;
    b->hit_blocks += hits;
    return BT_OK;
}

double bt_trace_stats_span_s(const bt_trace_stats *s)
{
    return s->arrivals ? (double)(s->last_us - s->first_us) / 1e6 : 0;
}

double bt_trace_stats_gap_cv(const bt_trace_stats *s)
{
    const double n = (double)s->gap_us.n, mean = n > 0 ? s->gap_sum / n : 0;
    if (n < 2 || mean <= 0) return -1;
    const double variance = s->gap_squares / n - mean * mean;
    return variance > 0 ? sqrt(variance) / mean : 0;
}

double bt_trace_stats_hit_ratio(const bt_trace_stats *s)
{
    return s->blocks && !s->is_over_limit ? (double)s->hit_blocks / (double)s->blocks : -1;
}

uint32_t bt_trace_stats_block(const bt_trace_stats *s)
{
    if (s->block_tokens || !s->hashed) return s->block_tokens;
    if (s->least_block > s->most_block) return 0;
    if (s->least_block == s->most_block) return (uint32_t)s->least_block;
    uint64_t two = 1;
    while (two < s->least_block) two *= 2;
    return two <= s->most_block && two * 2 > s->most_block ? (uint32_t)two : 0;
}
