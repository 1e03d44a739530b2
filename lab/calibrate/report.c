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
    const double median = median_of(v, n);
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
        if (l->has_steps) add_step(p, 1, middle_of(last), median_of(gap, n));
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
    const lengths line = line_of(&r);
    if (e == BT_OK) e = ask_lengths(&r, &line, fault);
    if (e == BT_OK && tool_calibrate_is_uneven(&ret->fit)) e = ask_edges(&r, fault);
    for (uint32_t b = 2; e == BT_OK && b <= s->batch; b *= 2) e = ask_batch(&r, b, &ret->fit, fault);
    for (uint32_t b = 3; e == BT_OK && b < s->batch; b *= 2) e = ask_batch(&r, b, &ret->held, fault);
    free(r.came.at_us);
    ret->spread = r.spreads ? median_of(r.spread, r.spreads) : 0;
    return e;
}

static double ms(double ns) { return ns / 1e6; }
static double prompt_ns(const tool_calibrate_report *r, const tool_calibrate_prompt *p)
{
    return tool_calibrate_prompt_ns(r->profile, r->priced, p->tokens);
}
static double step_ns(const tool_calibrate_report *r, const tool_calibrate_step *s)
{
    return tool_calibrate_step_ns(r->profile, r->priced, s->batch, s->ctx);
}
static const tool_calibrate_points *fitted_points(const tool_calibrate_report *r)
{
    return r->table ? &r->table->points : &r->measured->fit;
}

tool_calibrate_errors tool_calibrate_errors_of(const tool_calibrate_report *r, const tool_calibrate_points *p)
{
    double e[TOOL_CALIBRATE_PROMPTS + TOOL_CALIBRATE_STEPS];
    size_t n = 0;
    for (size_t i = 0; i < p->prompts; i++) e[n++] = fabs(prompt_ns(r, &p->prompt[i]) / p->prompt[i].ns - 1);
    for (size_t i = 0; i < p->steps; i++) e[n++] = fabs(step_ns(r, &p->step[i]) / p->step[i].ns - 1);
    if (!n) return (tool_calibrate_errors){0};
    const double median = median_of(e, n);
    return (tool_calibrate_errors){n, median, e[n - 1]};
}

/* ---- the profile --------------------------------------------------------------------------------- */

static void set(json_t *o, json_t *sources, const char *field, uint64_t v, const char *from)
{
    if (!v) return;
    json_object_set_new(o, field, json_integer((json_int_t)v));
    json_object_set_new(sources, field, json_string(from));
}

static void set_efficiency(json_t *o, json_t *sources, const bt_profile_time *t, const char *from)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < t->points; i++)
        json_array_append_new(points, json_pack("[I, I]", (json_int_t)t->efficiency[i].rows,
                                                (json_int_t)t->efficiency[i].permille));
    json_object_set_new(o, "efficiency", points);
    json_object_set_new(sources, "efficiency", json_string(from));
}

static json_t *programs_of(const bt_profile_time *t)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->programs; i++) json_array_append_new(list, json_integer(t->program_rows[i]));
    return list;
}

static void set_programs(json_t *o, json_t *sources, const bt_profile_time *t)
{
    if (!t->programs) return;
    json_object_set_new(o, "program_rows", programs_of(t));
    json_object_set_new(sources, "program_rows",
                        json_string("m: prompts by length, whose times stay flat and jump"));
}

typedef struct span {
    uint32_t lo, hi;
} span;
static void widen(span *s, uint32_t n)
{
    if (!s->hi || n < s->lo) s->lo = n;
    if (n > s->hi) s->hi = n;
}
static void set_span(json_t *region, const char *axis, const span *s)
{
    if (s->hi) json_object_set_new(region, axis, json_pack("[I, I]", (json_int_t)s->lo, (json_int_t)s->hi));
}

/* [median, worst, bias, rows] of signed errors in thousandths. */
static void set_error(json_t *errors, const char *figure, double *signed_error, size_t n)
{
    double size[TOOL_CALIBRATE_PROMPTS + TOOL_CALIBRATE_STEPS];
    if (!n) return;
    for (size_t i = 0; i < n; i++) size[i] = fabs(signed_error[i]);
    const double median = median_of(size, n), bias = median_of(signed_error, n);
    json_object_set_new(errors, figure,
                        json_pack("[I, I, I, I]", (json_int_t)lround(1e3 * median),
                                  (json_int_t)lround(1e3 * size[n - 1]), (json_int_t)lround(1e3 * bias),
                                  (json_int_t)n));
}

/* The errors of points that were held out; NULL: none were. */
static json_t *errors_of(const tool_calibrate_report *r)
{
    const tool_calibrate_points *p = r->measured ? &r->measured->held : NULL;
    double e[TOOL_CALIBRATE_STEPS];
    if (!p || !(p->prompts + p->steps)) return NULL;
    json_t *errors = json_object();
    for (size_t i = 0; i < p->prompts; i++)
        e[i] = fmin(99, p->prompt[i].ns / prompt_ns(r, &p->prompt[i]) - 1);
    set_error(errors, "ttft", e, p->prompts);
    for (size_t i = 0; i < p->steps; i++) e[i] = fmin(99, p->step[i].ns / step_ns(r, &p->step[i]) - 1);
    set_error(errors, "tpot", e, p->steps);
    return errors;
}

static const char *on(const tool_calibrate_report *r, char ret[128])
{
    if (r->table) return r->table->on;
    (void)snprintf(ret, 128, "requests to %.100s", r->url);
    return ret;
}

static json_t *calibration_of(const tool_calibrate_report *r)
{
    const tool_calibrate_points *p = fitted_points(r);
    span rows = {0}, batch = {0}, context = {0};
    char text[128];
    json_t *kinds = json_array(), *region = json_object(), *errors = errors_of(r);
    for (size_t i = 0; i < p->prompts; i++) widen(&rows, p->prompt[i].tokens);
    for (size_t i = 0; i < p->steps; i++) widen(&batch, p->step[i].batch), widen(&context, p->step[i].ctx);
    set_span(region, "rows", &rows);
    set_span(region, "batch", &batch);
    set_span(region, "context", &context);
    if (p->prompts) json_array_append_new(kinds, json_string("prefill"));
    if (p->steps) json_array_append_new(kinds, json_string("decode"));
    return json_pack("{s:s, s:I, s:i, s:I, s:o, s:o, s:o*}", "on", on(r, text), "rows",
                     (json_int_t)(r->table ? r->table->rows : p->prompts + p->steps), "shapes", 1,
                     "constants", (json_int_t)r->constants, "kinds", kinds, "region", region, "errors",
                     errors);
}

static json_t *time_of(const tool_calibrate_report *r)
{
    const bt_profile_time *t = &r->profile->time;
    char text[128];
    json_t *o = json_object(), *from = json_object();
    json_object_set_new(o, "stack", json_string(t->stack));
    json_object_set_new(from, "stack", json_sprintf("m: %.120s", on(r, text)));
    set(o, from, "f16_ops_per_us", t->f16_ops_per_us,
        "m: of the fastest prompt; a rate that is reached, not a peak");
    set_efficiency(o, from, t, "m: prompts by length, steps by batch");
    set_programs(o, from, t);
    set(o, from, "memory_bytes_per_us", t->memory_bytes_per_us,
        "m: no limit was seen beside decode_bytes_per_us");
    set(o, from, "decode_bytes_per_us", t->decode_bytes_per_us, "m: steps by context and batch");
    set(o, from, "dispatch_ns", t->dispatch_ns, "m: what a step takes whatever its rows");
    set(o, from, "decode_op_ns", t->decode_op_ns, "m: what a step takes whatever its rows, by operator");
    set(o, from, "first_launch_ns", t->first_launch_ns, "m: the fixed time of a request, by operator");
    json_object_set_new(o, "calibration", calibration_of(r));
    json_object_set_new(o, "sources", from);
    return o;
}

/* The other profile with the constants that were fitted. A constant that became 0 is a field that is not
 * there. */
static json_t *over_like(const tool_calibrate_report *r)
{
    const bt_profile_time *t = &r->profile->time;
    const uint64_t value[TOOL_CALIBRATE_CONSTANTS] = {0, t->weight_bytes_per_us, t->first_launch_ns,
                                                      t->decode_bytes_per_us, t->dispatch_ns};
    json_t *o = json_deep_copy(r->like), *time = json_object_get(o, "time"),
           *from = json_object_get(time, "sources");
    if (!from) json_object_set_new(time, "sources", from = json_object());
    char source[160];
    (void)snprintf(source, sizeof source, "m: %s", r->table->on);
    json_object_set_new(time, "stack", json_string("measured"));
    json_object_set_new(from, "stack", json_string(source));
    for (int i = 0; i < TOOL_CALIBRATE_CONSTANTS; i++) {
        if (!(r->fitted >> i & 1)) continue;
        json_object_del(time, tool_calibrate_constants[i]);
        json_object_del(from, tool_calibrate_constants[i]);
        if (1u << i == TOOL_CALIBRATE_EFFICIENCY) set_efficiency(time, from, t, source);
        else set(time, from, tool_calibrate_constants[i], value[i], source);
    }
    set_programs(time, from, t);
    json_object_set_new(time, "calibration", calibration_of(r));
    json_object_set_new(o, "name", json_string(r->name));
    return o;
}

json_t *tool_calibrate_profile(const tool_calibrate_report *r)
{
    if (r->like) return over_like(r);
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

/* Without points the two errors are null. */
static json_t *errors_json(const tool_calibrate_errors *e)
{
    return json_pack("{s:I, s:o, s:o}", "points", (json_int_t)e->n, "median_error",
                     e->n ? json_real(e->median) : json_null(), "worst_error",
                     e->n ? json_real(e->worst) : json_null());
}

json_t *tool_calibrate_json(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    const tool_calibrate_table *t = r->table;
    const tool_calibrate_errors fit = tool_calibrate_errors_of(r, fitted_points(r));
    tool_calibrate_errors held = {0};
    json_t *prompts = json_array(), *steps = json_array();
    add_points(prompts, steps, r, fitted_points(r), false);
    if (m) {
        add_points(prompts, steps, r, &m->held, true);
        held = tool_calibrate_errors_of(r, &m->held);
    }
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "model", r->model, "profile_file", r->path,
                  "constants", (json_int_t)r->constants, "program_rows", programs_of(&r->profile->time),
                  "prompts", prompts, "steps", steps, "fitted", errors_json(&fit), "held_out",
                  errors_json(&held), "profile", tool_calibrate_profile(r));
    json_t *more = m ? json_pack("{s:s, s:I, s:I, s:I, s:b, s:f}", "url", r->url, "requests",
                                 (json_int_t)m->requests, "failed", (json_int_t)m->failed, "left_out",
                                 (json_int_t)m->left_out, "deadline_came", m->is_late, "spread", m->spread)
                     : json_pack("{s:s, s:I, s:I, s:s}", "table", t->on, "rows", (json_int_t)t->rows,
                                 "left_out", (json_int_t)t->left_out, "why_left_out", t->why_left_out);
    if (o && more) json_object_update(o, more);
    json_decref(more);
    return o;
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

static void print_constants(const tool_calibrate_report *r)
{
    const bt_profile_time *t = &r->profile->time;
    const char *comma = "";
    printf("constants   %u fitted", r->constants);
    for (int i = 0; r->like && i < TOOL_CALIBRATE_CONSTANTS; i++)
        if (r->fitted >> i & 1)
            printf("%s%s", *comma ? comma : ": ", tool_calibrate_constants[i]), comma = ", ";
    if (r->like) printf("; the others are those of %s", json_string_value(json_object_get(r->like, "name")));
    if (t->programs) printf("\nprograms    prompts are padded to");
    for (uint32_t i = 0; i < t->programs; i++) printf("%s%u", i ? ", " : " ", t->program_rows[i]);
    printf("%s\n", t->programs ? " rows" : "");
}

static void print_server(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    printf("spread      the least time of a length is %.1f %% below its median\n", 100 * m->spread);
    printf("requests    %u, %u failed%s%s, %u left out%s%s%s\n", m->requests, m->failed,
           m->failure[0] ? ": " : "", m->failure, m->left_out, m->why_left_out ? ": " : "",
           m->why_left_out ? m->why_left_out : "", m->is_late ? "; the deadline came" : "");
}

static void print_next(const tool_calibrate_report *r)
{
    const char *free = r->url ? " --request-cpu 0 --token-cpu 0" : "";
    if (r->profile->companion)
        printf("next        baton simulate TRACE -m MODEL --prefill 0 --decode 1:%s --chunk-tokens 4096%s -c "
               "N\n",
               r->path, free);
    else printf("next        baton simulate TRACE -m MODEL --prefill 1:%s --decode 1:DEVICE -c N\n", r->path);
}

void tool_calibrate_print(const tool_calibrate_report *r)
{
    const tool_calibrate_measured *m = r->measured;
    tool_calibrate_errors held = {0};
    printf("%-31s %13s %13s\n", "", "measured", "predicted");
    print_points(r, fitted_points(r), "");
    if (m) {
        print_points(r, &m->held, "  held out");
        held = tool_calibrate_errors_of(r, &m->held);
    }
    printf("\n");
    if (m) print_server(r);
    else
        printf("rows        %u of %s, %u left out%s%s\n", r->table->rows, r->table->on, r->table->left_out,
               r->table->left_out ? ": " : "", r->table->why_left_out);
    print_constants(r);
    if (held.n)
        printf("held out    %zu points, median error %.1f %%, worst %.1f %%\n", held.n, 100 * held.median,
               100 * held.worst);
    else printf("held out    none: the error is unknown\n");
    printf("profile     %s\n", r->path);
    print_next(r);
}
