/* A run of lab/replay/load.h for each set of requests that belong together. See report.h. */
#include "lab/calibrate/report.h"
#include "base/clock.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 16, LENGTHS = 9, TIMES = 3, MOST_TIMES = 15, BATCH_PROMPT = 32, MOST_AT_ONCE = 32 };
enum { EDGES = 18, EDGE_ANSWER = 4, MOST_LENGTHS = LENGTHS + EDGES };
static const double ENOUGH_US = 5e5; /* of measuring one point: quick answers are asked for more often */

/* When the text of each answer of a run came: [MOST_AT_ONCE][most]. */
typedef struct pieces {
    int64_t *at_us;
    uint32_t most, len[MOST_AT_ONCE];
} pieces;

typedef struct run {
    const tool_calibrate_server *s;
    tool_calibrate_measured *m;
    uint64_t drawn;                /* prompts so far */
    size_t times;                  /* of each point: an odd number, TIMES to MOST_TIMES */
    volatile sig_atomic_t is_over; /* stopped, or late */
    double spread[MOST_LENGTHS];   /* of lengths */
    size_t spreads;
    pieces came;
} run;

static void note_piece(void *ud, uint32_t item, int64_t at_us)
{
    pieces *p = &((run *)ud)->came;
    if (item < MOST_AT_ONCE && p->len[item] < p->most) p->at_us[item * p->most + p->len[item]++] = at_us;
}

static void look_at_clock(void *ud, const tool_replay_progress *now)
{
    run *r = ud;
    (void)now;
    if (*r->s->stop) r->is_over = 1;
    if (bt_clock_us() < r->s->deadline_us) return;
    r->m->is_late = true;
    r->is_over = 1;
}

/* Where a point of this kind goes, and whether it still fits. */
static void add_prompt(tool_calibrate_points *p, uint32_t tokens, double us)
{
    if (p->prompts < TOOL_CALIBRATE_PROMPTS && us > 0)
        p->prompt[p->prompts++] = (tool_calibrate_prompt){tokens, 1e3 * us};
}

static void add_step(tool_calibrate_points *p, uint32_t batch, uint32_t ctx, double us)
{
    if (p->steps < TOOL_CALIBRATE_STEPS && us > 0)
        p->step[p->steps++] = (tool_calibrate_step){batch, ctx, 1e3 * us};
}

static void leave_out(run *r, uint32_t requests, const char *why)
{
    r->m->left_out += requests;
    if (!r->m->why_left_out) r->m->why_left_out = why;
}

/* Why a request's figures do not count; NULL: they count. They need known lengths, and no part of the prompt
 * kept from before.
 */
static const char *flaw_of(const run *r, const tool_replay_record *one)
{
    const bool is_told = r->s->dialect->takes_ids && one->prompt_tokens;
    if (one->cached_tokens) return "the prompt was kept from before";
    if (is_told && one->prompt_tokens != one->want_prompt) return "prompt_tokens is not what was sent";
    if (one->completion_tokens > one->want_output) return "completion_tokens is more than was asked for";
    if (one->completion_tokens < one->events) return "completion_tokens is less than came";
    if (one->completion_tokens < 2) return "the answer has fewer than two tokens";
    if (one->first_us < 0 || one->last_us <= one->first_us) return "the answer came in one piece";
    return NULL;
}

/* Whether a request's figures count: it ended well and has no flaw. */
static bool is_good(run *r, const tool_replay_result *all, const tool_replay_record *one)
{
    r->m->requests++;
    if (one->kind != TOOL_REPLAY_OK) {
        r->m->failed++;
        if (!r->m->failure[0]) memcpy(r->m->failure, all->kind[one->kind], sizeof r->m->failure);
        return false;
    }
    const char *flaw = flaw_of(r, one);
    if (flaw) leave_out(r, 1, flaw);
    return !flaw;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tool_calibrate_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static uint32_t prompt_of(const tool_replay_record *one)
{
    return one->prompt_tokens ? one->prompt_tokens : one->want_prompt;
}

static uint32_t middle_of(const tool_replay_record *one)
{
    return prompt_of(one) + one->completion_tokens / 2;
}

/* Lengths of prompts that are asked for again and again. Every other one of the first LENGTHS is held out. */
typedef struct lengths {
    uint32_t tokens[MOST_LENGTHS], answer;
    size_t len;
    bool has_steps; /* the answers count as steps */
} lengths;

/* The time of a length: the median, so that a disturbed one does not count; behind six times the lower
 * quartile, as others' work on the machine adds to a time and takes nothing from it. How far the least is
 * below the median says how busy the machine was. */
static double time_of_length(run *r, double *v, size_t n)
{
    const double median = tool_calibrate_median(v, n);
    if (r->spreads < MOST_LENGTHS && v[0] > 0) r->spread[r->spreads++] = 1 - v[0] / median;
    return n > 2 * TIMES ? v[(n - 1) / 4] : median;
}

static void take_alone(run *r, const tool_replay_result *all, const lengths *l)
{
    for (size_t k = 0; k < l->len; k++) {
        tool_calibrate_points *p = k % 2 && k < LENGTHS ? &r->m->held : &r->m->fit;
        double first[MOST_TIMES], gap[MOST_TIMES];
        const tool_replay_record *last = NULL;
        size_t n = 0;
        for (size_t i = 0; i < all->len; i++) {
            const tool_replay_record *one = &all->record[i];
            if (one->item % l->len != k || !is_good(r, all, one)) continue;
            first[n] = (double)(one->first_us - one->sent_us);
            gap[n++] = (double)tool_replay_tpot_us(one);
            last = one;
        }
        if (!last) continue;
        add_prompt(p, prompt_of(last), time_of_length(r, first, n));
        if (l->has_steps && k < LENGTHS) add_step(p, 1, middle_of(last), tool_calibrate_median(gap, n));
    }
}

/* The mean gap between the pieces of one answer in [began, ended]. 0: there is none. */
static double gap_of(const pieces *p, uint32_t item, int64_t began, int64_t ended)
{
    const int64_t *at = p->at_us + (size_t)item * p->most;
    size_t first = 0, last = 0;
    while (first < p->len[item] && at[first] < began) first++;
    for (size_t i = first; i < p->len[item] && at[i] <= ended; i++) last = i;
    return last > first ? (double)(at[last] - at[first]) / (double)(last - first) : 0;
}

/* A step while all of them ran, from when the last began to when the first ended: the mean of their gaps.
 * Microseconds; 0: they did not run together, or not all are good. */
static double step_of(run *r, const tool_replay_result *all, uint32_t batch, uint32_t *ret_ctx,
                      bool *ret_good)
{
    int64_t began = 0, ended = INT64_MAX;
    double sum = 0, ctx = 0;
    uint32_t good = 0, together = 0;
    for (size_t i = 0; i < all->len; i++) {
        const tool_replay_record *one = &all->record[i];
        if (!is_good(r, all, one)) continue;
        good++;
        if (one->first_us > began) began = one->first_us;
        if (one->last_us < ended) ended = one->last_us;
        ctx += middle_of(one);
    }
    *ret_good = good == batch;
    if (good < batch) return 0;
    for (size_t i = 0; i < all->len; i++) {
        const tool_replay_record *one = &all->record[i];
        const double gap = gap_of(&r->came, one->item, began, ended);
        together += gap > 0;
        sum += gap * (one->events - 1) / (one->completion_tokens - 1); /* a piece may be several tokens */
    }
    if (together < batch) leave_out(r, batch, "a batch did not run together");
    *ret_ctx = (uint32_t)(ctx / good);
    return together == batch ? sum / good : 0;
}

/* Prompts of these lengths, `at_once` at a time; 1: one after the other. *ret is done by the caller, also
 * after a failure. */
static bt_err ask(run *r, tool_replay_result *ret, const uint32_t *tokens, size_t n, uint32_t at_once,
                  uint32_t answer, bt_fault *fault)
{
    const tool_calibrate_server *s = r->s;
    const tool_replay_plan_options how = {.seed = s->seed, .speed = 1, .is_closed = true};
    tool_replay_plan plan = {0};
    *ret = (tool_replay_result){0};
    memset(r->came.len, 0, sizeof r->came.len);
    if (r->is_over) return BT_OK;
    bt_err e = tool_replay_plan_begin(&plan, fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        const tool_replay_item item = {.next = TOOL_REPLAY_NONE, .sampling = TOOL_REPLAY_NONE,
                                       .prompt_tokens = tokens[i], .output_tokens = answer,
                                       .stream = bt_rng_u64(s->seed, ++r->drawn)};
        e = tool_replay_plan_add_item(&plan, &item, fault);
    }
    if (e == BT_OK) e = tool_replay_plan_end(&plan, &how, fault);
    if (e == BT_OK) e = tool_replay_result_begin(ret, n, fault);
    const tool_replay_load load = {.url = s->url,
                                   .api_key = s->api_key,
                                   .plan = &plan,
                                   .words = s->words,
                                   .dialect = s->dialect,
                                   .seed = s->seed,
                                   .streams = at_once,
                                   .concurrency = at_once,
                                   .timeout_ms = s->timeout_ms,
                                   .stop = &r->is_over,
                                   .progress = look_at_clock,
                                   .piece = note_piece,
                                   .ud = r};
    if (e == BT_OK) e = tool_replay_load_run(ret, &load, fault);
    if (e == BT_ECANCEL && !*s->stop) e = BT_OK; /* the time is over: the measured points count */
    tool_replay_plan_done(&plan);
    return e;
}

/* All of them again and again: a drift meanwhile, as of a machine that becomes warm, is in all of them alike.
 */
static bt_err ask_lengths(run *r, const lengths *l, bt_fault *fault)
{
    uint32_t tokens[MOST_LENGTHS * MOST_TIMES];
    tool_replay_result all;
    const size_t n = l->len * r->times;
    for (size_t i = 0; i < n; i++) tokens[i] = l->tokens[i % l->len];
    const bt_err e = ask(r, &all, tokens, n, 1, l->answer, fault);
    if (e == BT_OK) take_alone(r, &all, l);
    tool_replay_result_done(&all);
    return e;
}

/* At equal ratios from the shortest to the longest. */
static lengths line_of(const run *r)
{
    lengths l = {.answer = r->s->answer, .len = LENGTHS, .has_steps = true};
    for (size_t i = 0; i < LENGTHS; i++)
        l.tokens[i] =
            (uint32_t)lround(SHORTEST * pow((double)r->s->longest / SHORTEST, (double)i / (LENGTHS - 1)));
    return l;
}

/* One behind a power of two: the other lengths for the fit may all be powers of two, which no padding moves.
 */
static uint32_t behind_middle(uint32_t longest)
{
    uint32_t edge = SHORTEST;
    while (2 * edge < longest) edge *= 2;
    return edge + 1;
}

/* The prompts once more, with lengths where a program may end and where the next one begins. */
static bt_err ask_edges(run *r, bt_fault *fault)
{
    lengths l = line_of(r);
    const size_t times = r->times;
    l.has_steps = false;
    if (l.answer > EDGE_ANSWER) l.answer = EDGE_ANSWER;
    for (uint32_t edge = SHORTEST; edge < r->s->longest && l.len + 2 <= MOST_LENGTHS; edge *= 2) {
        if (edge > SHORTEST) l.tokens[l.len++] = edge;
        l.tokens[l.len++] = edge + 1;
    }
    r->m->fit.prompts = r->m->held.prompts = 0;
    r->spreads = 0;
    r->times = 3 * times < MOST_TIMES ? 3 * times : MOST_TIMES; /* answers are shorter; a busy machine is
                                                                   uneven too */
    const bt_err e = ask_lengths(r, &l, fault);
    r->times = times;
    return e;
}

/* Where the first ends before the last has begun, as with prompts that are computed one after the other,
 * answers become longer, up to what the longest prompt and its answer take. */
static bt_err ask_batch(run *r, uint32_t batch, tool_calibrate_points *to, bt_fault *fault)
{
    const uint32_t most = r->came.most;
    uint32_t tokens[MOST_AT_ONCE], ctx = 0, answer = r->s->answer;
    double step[MOST_TIMES];
    size_t n = 0;
    bt_err e = BT_OK;
    for (uint32_t i = 0; i < batch; i++) tokens[i] = BATCH_PROMPT;
    for (size_t k = 0; e == BT_OK && k < 2 * r->times && n < r->times; k++) {
        tool_replay_result all;
        bool is_good = false;
        e = ask(r, &all, tokens, batch, batch, answer, fault);
        step[n] = e == BT_OK ? step_of(r, &all, batch, &ctx, &is_good) : 0;
        tool_replay_result_done(&all);
        if (step[n] > 0) n++;
        else if (is_good) answer = answer < most / 2 ? 2 * answer : most;
        else k++; /* one that fails is not asked for as often */
    }
    if (n) add_step(to, batch, ctx, tool_calibrate_median(step, n));
    return e;
}

static size_t times_for(const tool_replay_result *all)
{
    const tool_replay_record *last = all->len ? &all->record[all->len - 1] : NULL;
    const double us =
        last && last->kind == TOOL_REPLAY_OK ? (double)(last->end_us - last->sent_us) : ENOUGH_US;
    const double times = ENOUGH_US / fmax(1, us);
    return times < TIMES ? TIMES : times < MOST_TIMES ? (size_t)times | 1 : MOST_TIMES;
}

bt_err tool_calibrate_measure(tool_calibrate_measured *ret, const tool_calibrate_server *s, bt_fault *fault)
{
    const uint32_t first[] = {BATCH_PROMPT, BATCH_PROMPT};
    tool_replay_result all;
    run r = {.s = s, .m = ret, .came = {.most = s->longest + s->answer - BATCH_PROMPT}};
    *ret = (tool_calibrate_measured){.requests = 0};
    r.came.at_us = malloc(MOST_AT_ONCE * sizeof *r.came.at_us * r.came.most);
    if (!r.came.at_us) return bt_fail(fault, BT_ENOMEM, "out of memory for times of %u tokens", r.came.most);
    bt_err e = ask(&r, &all, first, 2, 1, s->answer, fault); /* the first use of all there is, and one behind
                                                                it */
    r.times = e == BT_OK ? times_for(&all) : TIMES;
    tool_replay_result_done(&all);
    lengths line = line_of(&r);
    line.tokens[line.len++] = behind_middle(s->longest);
    if (e == BT_OK) e = ask_lengths(&r, &line, fault);
    if (e == BT_OK && tool_calibrate_is_uneven(&ret->fit)) e = ask_edges(&r, fault);
    for (uint32_t b = 2; e == BT_OK && b <= s->batch; b *= 2) e = ask_batch(&r, b, &ret->fit, fault);
    for (uint32_t b = 3; e == BT_OK && b < s->batch; b *= 2) e = ask_batch(&r, b, &ret->held, fault);
    free(r.came.at_us);
    ret->spread = r.spreads ? tool_calibrate_median(r.spread, r.spreads) : 0;
    return e;
}
