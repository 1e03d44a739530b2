/* Measured points beside the profile's prices of them. See report.h. */
#include "lab/calibrate/report.h"
#include "base/clock.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of lab/replay/load.h for each set of requests that belong together. See report.h. */

enum { SHORTEST = 16, LENGTHS = 9, TIMES = 3, MOST_TIMES = 15, BATCH_PROMPT = 32, MOST_AT_ONCE = 32 };
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

static uint32_t prompt_of(const tool_replay_record *one)
{
    return one->prompt_tokens ? one->prompt_tokens : one->want_prompt;
}

static uint32_t middle_of(const tool_replay_record *one)
{
    return prompt_of(one) + one->completion_tokens / 2;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *v, size_t n)
{
    qsort(v, n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Takes the median of each length's times, so that a disturbed one does not count. Every other length is held
 * out. */
static void take_alone(run *r, const tool_replay_result *all)
{
    for (size_t k = 0; k < LENGTHS; k++) {
        tool_calibrate_points *p = k % 2 ? &r->m->held : &r->m->fit;
        double first[MOST_TIMES], gap[MOST_TIMES];
        const tool_replay_record *last = NULL;
        size_t n = 0;
        for (size_t i = 0; i < all->len; i++) {
            const tool_replay_record *one = &all->record[i];
            if (one->item % LENGTHS != k || !is_good(r, all, one)) continue;
            first[n] = (double)(one->first_us - one->sent_us);
            gap[n++] = (double)tool_replay_tpot_us(one);
            last = one;
        }
        if (!last) continue;
        add_prompt(p, prompt_of(last), median_of(first, n));
        add_step(p, 1, middle_of(last), median_of(gap, n));
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

/* Lengths at equal ratios from the shortest to the longest, all of them again and again: a drift meanwhile,
 * as of a machine that becomes warm, is in all of them alike. */
static bt_err ask_lengths(run *r, bt_fault *fault)
{
    uint32_t tokens[LENGTHS * MOST_TIMES];
    tool_replay_result all;
    const size_t n = LENGTHS * r->times;
    for (size_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)lround(SHORTEST * pow((double)r->s->longest / SHORTEST,
                                                    (double)(i % LENGTHS) / (LENGTHS - 1)));
    const bt_err e = ask(r, &all, tokens, n, 1, r->s->answer, fault);
    if (e == BT_OK) take_alone(r, &all);
    tool_replay_result_done(&all);
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
    if (n) add_step(to, batch, ctx, median_of(step, n));
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
    if (e == BT_OK) e = ask_lengths(&r, fault);
    for (uint32_t b = 2; e == BT_OK && b <= s->batch; b *= 2) e = ask_batch(&r, b, &ret->fit, fault);
    for (uint32_t b = 3; e == BT_OK && b < s->batch; b *= 2) e = ask_batch(&r, b, &ret->held, fault);
    free(r.came.at_us);
    return e;
}

static double ms(double ns) { return ns / 1e6; }
static double prompt_ns(const tool_calibrate_report *r, const tool_calibrate_prompt *p)
{
    return tool_calibrate_prompt_ns(r->time, r->price, p->tokens);
}
static double step_ns(const tool_calibrate_report *r, const tool_calibrate_step *s)
{
    return tool_calibrate_step_ns(r->time, r->price, s->batch, s->ctx);
}

tool_calibrate_errors tool_calibrate_errors_of(const tool_calibrate_report *r, const tool_calibrate_points *p)
{
    double e[TOOL_CALIBRATE_PROMPTS + TOOL_CALIBRATE_STEPS];
    size_t n = 0;
    for (size_t i = 0; i < p->prompts; i++) e[n++] = fabs(prompt_ns(r, &p->prompt[i]) / p->prompt[i].ns - 1);
    for (size_t i = 0; i < p->steps; i++) e[n++] = fabs(step_ns(r, &p->step[i]) / p->step[i].ns - 1);
    if (!n) return (tool_calibrate_errors){0};
    qsort(e, n, sizeof *e, ascending);
    return (tool_calibrate_errors){n, n % 2 ? e[n / 2] : (e[n / 2 - 1] + e[n / 2]) / 2, e[n - 1]};
}

/* ---- the profile --------------------------------------------------------------------------------- */

static void set(json_t *o, json_t *sources, const char *field, uint64_t v, const char *from)
{
    if (!v) return;
    json_object_set_new(o, field, json_integer((json_int_t)v));
    json_object_set_new(sources, field, json_string(from));
}

static json_t *time_of(const tool_calibrate_report *r)
{
    const bt_profile_time *t = r->time;
    json_t *o = json_object(), *from = json_object(), *points = json_array();
    json_object_set_new(o, "stack", json_string(t->stack));
    json_object_set_new(from, "stack", json_sprintf("m: requests to %.100s", r->url));
    set(o, from, "f16_ops_per_us", t->f16_ops_per_us,
        "m: of the fastest prompt; a rate that is reached, not a peak");
    for (uint32_t i = 0; i < t->points; i++)
        json_array_append_new(points, json_pack("[I, I]", (json_int_t)t->efficiency[i].rows,
                                                (json_int_t)t->efficiency[i].permille));
    json_object_set_new(o, "efficiency", points);
    json_object_set_new(from, "efficiency", json_string("m: prompts by length, steps by batch"));
    set(o, from, "memory_bytes_per_us", t->memory_bytes_per_us,
        "m: no limit was seen beside decode_bytes_per_us");
    set(o, from, "decode_bytes_per_us", t->decode_bytes_per_us, "m: steps by context and batch");
    set(o, from, "dispatch_ns", t->dispatch_ns, "m: what a step takes whatever its rows");
    set(o, from, "decode_op_ns", t->decode_op_ns, "m: what a step takes whatever its rows, by operator");
    set(o, from, "first_launch_ns", t->first_launch_ns, "m: the fixed time of a request, by operator");
    json_object_set_new(o, "sources", from);
    return o;
}

json_t *tool_calibrate_profile(const tool_calibrate_report *r)
{
    return json_pack("{s:s, s:o, s:{}, s:b, s:o, s:{s:s, s:s, s:s}}", "name", r->name, "title",
                     json_sprintf("Measured with %.60s", r->model), "operators", "companion", 1, "time",
                     time_of(r), "sources", "operators", "m: a server whose inside is not known", "companion",
                     "m: as operators", "time", "m: each value with its own");
}

/* ---- what is printed ----------------------------------------------------------------------------- */

static void add_points(json_t *prompts, json_t *steps, const tool_calibrate_report *r,
                       const tool_calibrate_points *p, bool is_held)
{
    for (size_t i = 0; i < p->prompts; i++)
        json_array_append_new(prompts,
                              json_pack("{s:I, s:f, s:f, s:b}", "tokens", (json_int_t)p->prompt[i].tokens,
                                        "measured_ms", ms(p->prompt[i].ns), "predicted_ms",
                                        ms(prompt_ns(r, &p->prompt[i])), "held_out", is_held));
    for (size_t i = 0; i < p->steps; i++)
        json_array_append_new(
            steps, json_pack("{s:I, s:I, s:f, s:f, s:b}", "batch", (json_int_t)p->step[i].batch, "context",
                             (json_int_t)p->step[i].ctx, "measured_ms", ms(p->step[i].ns), "predicted_ms",
                             ms(step_ns(r, &p->step[i])), "held_out", is_held));
}

json_t *tool_calibrate_json(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    const tool_calibrate_errors held = tool_calibrate_errors_of(r, &m->held);
    json_t *prompts = json_array(), *steps = json_array();
    add_points(prompts, steps, r, &m->fit, false);
    add_points(prompts, steps, r, &m->held, true);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:o, s:o, s:{s:I, s:f, s:f}, s:o}", "url", r->url,
                     "model", r->model, "profile_file", r->path, "requests", (json_int_t)m->requests,
                     "failed", (json_int_t)m->failed, "left_out", (json_int_t)m->left_out, "deadline_came",
                     m->is_late, "prompts", prompts, "steps", steps, "held_out", "points", (json_int_t)held.n,
                     "median_error", held.median, "worst_error", held.worst, "profile",
                     tool_calibrate_profile(r));
}

static void print_points(const tool_calibrate_report *r, const tool_calibrate_points *p, const char *note)
{
    for (size_t i = 0; i < p->prompts; i++)
        printf("  prompt of %6u tokens        %10.2f ms %10.2f ms %+6.1f %%%s\n", p->prompt[i].tokens,
               ms(p->prompt[i].ns), ms(prompt_ns(r, &p->prompt[i])),
               100 * (prompt_ns(r, &p->prompt[i]) / p->prompt[i].ns - 1), note);
    for (size_t i = 0; i < p->steps; i++)
        printf("  step of %3u at %6u positions  %9.2f ms %10.2f ms %+6.1f %%%s\n", p->step[i].batch,
               p->step[i].ctx, ms(p->step[i].ns), ms(step_ns(r, &p->step[i])),
               100 * (step_ns(r, &p->step[i]) / p->step[i].ns - 1), note);
}

void tool_calibrate_print(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    const tool_calibrate_errors held = tool_calibrate_errors_of(r, &m->held);
    printf("%-31s %13s %13s\n", "", "measured", "predicted");
    print_points(r, &m->fit, "");
    print_points(r, &m->held, "  held out");
    printf("\nrequests    %u, %u failed%s%s, %u left out%s%s%s\n", m->requests, m->failed,
           m->failure[0] ? ": " : "", m->failure, m->left_out, m->why_left_out ? ": " : "",
           m->why_left_out ? m->why_left_out : "", m->is_late ? "; the deadline came" : "");
    if (held.n)
        printf("held out    %zu points, median error %.1f %%, worst %.1f %%\n", held.n, 100 * held.median,
               100 * held.worst);
    printf("profile     %s\n", r->path);
    printf("next        baton simulate TRACE -m MODEL --prefill 0 --decode 1:%s --chunk-tokens 4096 "
           "--request-cpu 0 "
           "--token-cpu 0 -c N\n",
           r->path);
}
