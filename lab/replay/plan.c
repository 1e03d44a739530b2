/* From rows of a trace to a schedule: sessions are chained, batches spread, lengths fitted, and nothing of it
 * is silent. */
#include "lab/replay/plan.h"
#include "lab/replay/keys.h"
#include "base/hash.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_US = 20000, LEAST_TICK_US = 100000, TICK_SLACK_US = 10000 };

uint64_t tool_replay_text_hash(uint64_t hash, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

bt_err tool_replay_plan_begin(tool_replay_plan *p, bt_fault *fault)
{
    *p = (tool_replay_plan){.scale = 1};
    return bt_trace_stats_begin(&p->stats, fault);
}

void tool_replay_plan_done(tool_replay_plan *p)
{
    bt_trace_stats_done(&p->stats);
    bt_trace_map_done(&p->talks);
    free(p->item);
    free(p->order);
    free(p->hash);
    free(p->ids);
    free(p->sampling);
    *p = (tool_replay_plan){0};
}

/* Room for `more` behind *len in an array of a limited length. */
static bt_err grow(void **array, size_t *cap, size_t len, size_t more, size_t size, size_t limit,
                   const char *what, bt_fault *fault)
{
    if (more > limit - len)
        return bt_fail(fault, BT_ELIMIT, "more than %zu %s: replay a part of the trace with --limit", limit,
                       what);
    if (len + more <= *cap) return BT_OK;
    size_t n = *cap ? *cap : 1024;
    while (n < len + more) n *= 2;
    void *bigger = reallocarray(*array, n, size);
    if (!bigger) return bt_fail(fault, BT_ENOMEM, "%s", what);
    *array = bigger;
    *cap = n;
    return BT_OK;
}

bt_err tool_replay_plan_add_item(tool_replay_plan *p, const tool_replay_item *item, bt_fault *fault)
{
    void *at = p->item;
    const bt_err e =
        grow(&at, &p->cap, p->len, 1, sizeof *p->item, TOOL_REPLAY_MAX_REQUESTS, "requests", fault);
    p->item = at;
    if (e == BT_OK) p->item[p->len++] = *item;
    return e;
}

static bt_err keep_hashes(tool_replay_plan *p, tool_replay_item *to, const bt_trace_row *row, bt_fault *fault)
{
    void *at = p->hash;
    const bt_err e = grow(&at, &p->hash_cap, p->hash_len, row->hash_len, sizeof *p->hash,
                          TOOL_REPLAY_MAX_HASHES, "block hashes", fault);
    p->hash = at;
    if (e < 0) return e;
    memcpy(p->hash + p->hash_len, row->hash_ids, row->hash_len * sizeof *p->hash);
    to->hash_at = p->hash_len;
    to->hash_len = (uint32_t)row->hash_len;
    p->hash_len += row->hash_len;
    return BT_OK;
}

static bt_err keep_captured(tool_replay_plan *p, tool_replay_item *to, const bt_trace_captured *c,
                            bt_fault *fault)
{
    void *at = p->sampling;
    bt_err e = grow(&at, &p->samplings_cap, p->samplings, 1, sizeof *p->sampling, TOOL_REPLAY_MAX_REQUESTS,
                    "requests", fault);
    p->sampling = at;
    if (e < 0) return e;
    to->sampling = (uint32_t)p->samplings;
    p->sampling[p->samplings++] = c->sampling;
    if (!c->has_text || c->prompt_len == 0) return BT_OK;
    at = p->ids;
    e = grow(&at, &p->ids_cap, p->ids_len, c->prompt_len, sizeof *p->ids, TOOL_REPLAY_MAX_IDS,
             "captured tokens", fault);
    p->ids = at;
    if (e < 0) return e;
    memcpy(p->ids + p->ids_len, c->prompt_ids, c->prompt_len * sizeof *p->ids);
    to->ids_at = p->ids_len;
    to->ids_len = (uint32_t)c->prompt_len;
    p->ids_len += c->prompt_len;
    to->has_answer = c->outcome == BT_TRACE_STOP || c->outcome == BT_TRACE_LENGTH;
    to->ends_itself = c->outcome == BT_TRACE_STOP;
    if (c->max_tokens) to->output_tokens = c->max_tokens;
    to->answer_hash = tool_replay_text_hash(TOOL_REPLAY_TEXT_HASH, c->text, c->text_bytes);
    return BT_OK;
}

/* Chains a turn to the one before it in its session. */
static bt_err chain(tool_replay_plan *p, tool_replay_item *to, const bt_trace_row *row, bt_fault *fault)
{
    const uint64_t name = bt_hash64(row->session, strlen(row->session));
    const uint64_t *before = bt_trace_map_find(&p->talks, name);
    to->stream = bt_rng_u64(name, 1);
    if (before && row->has_delay && !row->has_arrival) {
        p->item[*before].next = (uint32_t)p->len;
        to->due_us = -1;
    }
    return bt_trace_map_put(&p->talks, name, p->len, fault);
}

static void note_name(tool_replay_plan *p, tool_replay_item *to, const char *model)
{
    to->name = bt_hash64(model, strlen(model));
    for (size_t i = 0; i < p->names; i++)
        if (p->name[i].hash == to->name) return;
    if (p->names == TOOL_REPLAY_NAMES) return;
    p->name[p->names].hash = to->name;
    (void)snprintf(p->name[p->names++].text, sizeof p->name->text, "%.63s", model);
}

bt_err tool_replay_plan_add(tool_replay_plan *p, const bt_trace_row *row, const tool_replay_plan_options *o,
                            bt_fault *fault)
{
    tool_replay_item to = {.next = TOOL_REPLAY_NONE, .sampling = TOOL_REPLAY_NONE,
                           .prompt_tokens = row->input_tokens ? row->input_tokens : 1,
                           .output_tokens = row->has_output ? row->output_tokens : o->usual_output,
                           .stream = bt_rng_u64(0x7265706c6179u, p->len)};
    if (row->is_failed) {
        p->passed_over++;
        return BT_OK;
    }
    if (p->len == TOOL_REPLAY_MAX_REQUESTS)
        return bt_fail(fault, BT_ELIMIT, "more than %d requests: replay a part of the trace with --limit",
                       TOOL_REPLAY_MAX_REQUESTS);
    if (row->has_arrival) to.due_us = row->arrival_us;
    else if (row->has_delay) to.due_us = row->delay_us;
    else p->untimed++;
    to.delay_us = row->has_delay ? row->delay_us : 0;
    if (!row->has_output) p->guessed_outputs++;
    if (to.output_tokens == 0) to.output_tokens = 1;
    if (row->model) note_name(p, &to, row->model);
    if (row->key && tool_replay_keys_find(&to.key, p, row->key, fault) < 0) return BT_ELIMIT;
    bt_err e = bt_trace_stats_add(&p->stats, row, fault);
    if (e == BT_OK && row->hash_len) e = keep_hashes(p, &to, row, fault);
    if (e == BT_OK && row->captured) e = keep_captured(p, &to, row->captured, fault);
    if (e == BT_OK && row->session) e = chain(p, &to, row, fault);
    return e == BT_OK ? tool_replay_plan_add_item(p, &to, fault) : e;
}

/* ---- blocks and lengths -------------------------------------------------------------------------- */

static bt_err find_block(tool_replay_plan *p, const tool_replay_plan_options *o, bt_fault *fault)
{
    const bt_trace_stats *s = &p->stats;
    if (p->hash_len == 0) return BT_OK;
    p->block_tokens = o->block_tokens ? o->block_tokens : bt_trace_stats_block(s);
    if (p->block_tokens) return BT_OK;
    return bt_fail(
        fault, BT_EARG,
        "the trace does not show how many tokens a block of its hash_ids has (%llu to %llu fit): give "
        "--block-tokens, 512 for Mooncake's",
        (unsigned long long)s->least_block, (unsigned long long)s->most_block);
}

/* Prompt and answer of the longest request. */
static uint64_t longest(const tool_replay_plan *p, size_t *ret_over, uint32_t context)
{
    uint64_t most = 0;
    *ret_over = 0;
    for (size_t i = 0; i < p->len; i++) {
        const uint64_t n = (uint64_t)p->item[i].prompt_tokens + p->item[i].output_tokens;
        *ret_over += n > context;
        if (n > most) most = n;
    }
    return most;
}

static uint32_t scaled(uint32_t tokens, double by)
{
    const double n = floor((double)tokens * by);
    return n < 1 ? 1 : (uint32_t)n;
}

static void scale_lengths(tool_replay_plan *p, double by)
{
    p->scale = by;
    /* rounded up, so that a prompt never needs more blocks than it has */
    if (p->block_tokens) p->block_tokens = (uint32_t)ceil((double)p->block_tokens * by);
    for (size_t i = 0; i < p->len; i++) {
        tool_replay_item *t = &p->item[i];
        t->prompt_tokens = scaled(t->prompt_tokens, by);
        t->output_tokens = scaled(t->output_tokens, by);
        if (t->shared_tokens) t->shared_tokens = scaled(t->shared_tokens, by);
        t->ids_len = 0; /* of captured words a part would be another prompt, which has another answer */
        t->has_answer = t->ends_itself = false;
    }
}

/* The answer keeps its length up to half of the context, the prompt gets the rest. */
static void cut_lengths(tool_replay_plan *p, uint32_t context)
{
    for (size_t i = 0; i < p->len; i++) {
        tool_replay_item *t = &p->item[i];
        const uint64_t before = (uint64_t)t->prompt_tokens + t->output_tokens;
        if (before <= context) continue;
        const uint32_t half = context / 2;
        if (t->output_tokens > half && t->prompt_tokens <= context - half) {
            t->output_tokens = context - t->prompt_tokens;
        } else {
            if (t->output_tokens > half) t->output_tokens = half;
            t->prompt_tokens = context - t->output_tokens;
        }
        if (t->shared_tokens > t->prompt_tokens) t->shared_tokens = t->prompt_tokens;
        t->ids_len = 0;
        t->has_answer = t->ends_itself = false;
        p->cut++;
        p->cut_tokens += before - t->prompt_tokens - t->output_tokens;
    }
}

static bt_err fit_lengths(tool_replay_plan *p, const tool_replay_plan_options *o, bt_fault *fault)
{
    size_t over;
    if (o->context_tokens == 0)
        return o->scales || o->fits
                   ? bt_fail(fault, BT_EARG,
                             "the server does not say how long its context is: give --ctx-size")
                   : BT_OK;
    const uint64_t most = longest(p, &over, o->context_tokens);
    if (over == 0) return BT_OK;
    if (o->context_tokens < 2)
        return bt_fail(fault, BT_EARG, "a context of 1 token holds no request: give a longer --ctx-size");
    if (o->scales) scale_lengths(p, (double)o->context_tokens / (double)most);
    if (o->scales || o->fits) cut_lengths(p, o->context_tokens); /* after scaling: what rounding left over */
    if (o->scales || o->fits) return BT_OK;
    return bt_fail(fault, BT_EARG,
                   "%zu of %zu requests are longer than the context of %u tokens, the longest has %llu: give "
                   "--scale-lengths or --fit",
                   over, p->len, o->context_tokens, (unsigned long long)most);
}

/* ---- times --------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t tool_replay_tick(const int64_t *arrival_us, size_t n)
{
    enum { LEAST_GAPS = 4 };
    int64_t *gap = malloc((n ? n : 1) * sizeof *gap), tick = 0;
    size_t gaps = 0, whole = 0;
    for (size_t i = 1; gap && i < n; i++)
        if (arrival_us[i] - arrival_us[i - 1] > BATCH_US) gap[gaps++] = arrival_us[i] - arrival_us[i - 1];
    if (gaps >= LEAST_GAPS) {
        qsort(gap, gaps, sizeof *gap, by_value);
        tick = (gap[gaps / 50] + 5000) / 10000 * 10000; /* a few stragglers are allowed */
        for (size_t i = 0; tick > 0 && i < gaps; i++) {
            const int64_t off = gap[i] % tick;
            whole += off <= TICK_SLACK_US || tick - off <= TICK_SLACK_US;
        }
        if (tick < LEAST_TICK_US || whole * 100 < gaps * 95) tick = 0;
    }
    free(gap);
    return tick;
}

typedef struct place {
    int64_t due_us;
    uint32_t item;
} place;

static int by_due(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->due_us != y->due_us) return x->due_us < y->due_us ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Requests that came together come one by one until the next batch. */
static void spread(tool_replay_plan *p, place *at, const tool_replay_plan_options *o)
{
    int64_t *arrival = malloc((p->order_len ? p->order_len : 1) * sizeof *arrival);
    if (!arrival || o->jitter_us == 0) {
        free(arrival);
        return;
    }
    for (size_t i = 0; i < p->order_len; i++) arrival[i] = at[i].due_us;
    const int64_t tick = tool_replay_tick(arrival, p->order_len);
    const int64_t width = o->jitter_us > 0 ? o->jitter_us : tick;
    if (width > 0) {
        p->tick_us = width;
        for (size_t i = 0; i < p->order_len; i++)
            at[i].due_us += (int64_t)(bt_rng_uniform(o->seed ^ 0x6a6974746572u, at[i].item) * (double)width);
        qsort(at, p->order_len, sizeof *at, by_due);
    }
    free(arrival);
}

static void draw_poisson(tool_replay_plan *p, place *at, const tool_replay_plan_options *o)
{
    double t = 0;
    for (size_t i = 0; i < p->order_len; i++) {
        at[i].due_us = (int64_t)t;
        t += -log(1 - bt_rng_uniform(o->seed ^ 0x72617465u, i)) * 1e6 / o->rate;
    }
}

static bt_err put_in_order(tool_replay_plan *p, const tool_replay_plan_options *o, bt_fault *fault)
{
    place *at = malloc((p->len ? p->len : 1) * sizeof *at);
    p->order = malloc((p->len ? p->len : 1) * sizeof *p->order);
    if (!at || !p->order) {
        free(at);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a schedule");
    }
    for (size_t i = 0; i < p->len; i++)
        if (p->item[i].due_us >= 0) at[p->order_len++] = (place){p->item[i].due_us, (uint32_t)i};
    qsort(at, p->order_len, sizeof *at, by_due);
    if (o->rate > 0) draw_poisson(p, at, o);
    else if (!o->is_closed) spread(p, at, o);
    const int64_t first = p->order_len ? at[0].due_us : 0;
    for (size_t i = 0; i < p->order_len; i++) {
        p->order[i] = at[i].item;
        p->item[at[i].item].due_us = (int64_t)((double)(at[i].due_us - first) / o->speed);
    }
    for (size_t i = 0; i < p->len; i++)
        p->item[i].delay_us = (int64_t)((double)p->item[i].delay_us / o->speed);
    free(at);
    return BT_OK;
}

bt_err tool_replay_plan_end(tool_replay_plan *p, const tool_replay_plan_options *o, bt_fault *fault)
{
    bt_trace_stats_end(&p->stats);
    if (p->len == 0) return bt_fail(fault, BT_EARG, "the trace has no request to send");
    if (p->untimed && !o->is_closed && o->rate <= 0)
        return bt_fail(
            fault, BT_EARG,
            "%llu of %zu requests have no arrival time: give --rate (requests a second) or --concurrency",
            (unsigned long long)p->untimed, p->len);
    bt_err e = find_block(p, o, fault);
    if (e == BT_OK) e = fit_lengths(p, o, fault);
    return e == BT_OK ? put_in_order(p, o, fault) : e;
}

static void mix(uint64_t *h, uint64_t v) { *h = bt_rng_u64(*h, v); }

uint64_t tool_replay_plan_digest(const tool_replay_plan *p, uint64_t seed)
{
    uint64_t h = seed;
    for (size_t i = 0; i < p->len; i++) {
        const tool_replay_item *t = &p->item[i];
        const uint64_t all[] = {
            (uint64_t)t->due_us, (uint64_t)t->delay_us, t->prompt_tokens, t->output_tokens,
            t->shared_tokens,    t->hash_len,           t->stream,        t->next};
        mix(&h, bt_hash64(all, sizeof all));
        if (t->model) mix(&h, t->model);
        if (t->key) mix(&h, p->key[t->key - 1].hash);
    }
    if (p->hash_len) mix(&h, bt_hash64(p->hash, p->hash_len * sizeof *p->hash));
    if (p->ids_len) mix(&h, bt_hash64(p->ids, p->ids_len * sizeof *p->ids));
    mix(&h, p->block_tokens);
    return h;
}
