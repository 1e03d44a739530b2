/* A run of tools/replay/load.h for each set of requests that belong together. See measure.h. */
#include "tools/calibrate/measure.h"
#include "base/clock.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 16, LENGTHS = 5, TIMES = 3, BATCH_PROMPT = 32, MOST_AT_ONCE = 32 };

typedef struct run {
    const tool_calibrate_server *s;
    tool_calibrate_measured *m;
    uint64_t drawn;                /* prompts so far */
    volatile sig_atomic_t is_over; /* stopped, or late */
} run;

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

/* Whether its figures count: it ended well, its lengths are known, and nothing of it was kept from before. */
static bool is_good(run *r, const tool_replay_result *all, const tool_replay_record *one)
{
    r->m->requests++;
    if (one->kind != TOOL_REPLAY_OK) {
        r->m->failed++;
        if (!r->m->failure[0]) memcpy(r->m->failure, all->kind[one->kind], sizeof r->m->failure);
        return false;
    }
    const bool is_known = one->completion_tokens >= 2 && one->first_us >= 0 && one->last_us > one->first_us;
    if (is_known && !one->cached_tokens) return true;
    r->m->left_out++;
    return false;
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

/* Of each length the median of its times, so that one that was disturbed does not count. */
static void take_alone(run *r, const tool_replay_result *all, size_t lengths, tool_calibrate_points *p)
{
    for (size_t k = 0; k < lengths; k++) {
        double first[TIMES], gap[TIMES];
        const tool_replay_record *last = NULL;
        size_t n = 0;
        for (size_t i = 0; i < all->len; i++) {
            const tool_replay_record *one = &all->record[i];
            if (one->item / TIMES != k || !is_good(r, all, one)) continue;
            first[n] = (double)(one->first_us - one->sent_us);
            gap[n++] = (double)tool_replay_tpot_us(one);
            last = one;
        }
        if (!last) continue;
        add_prompt(p, prompt_of(last), median_of(first, n));
        add_step(p, 1, middle_of(last), median_of(gap, n));
    }
}

/* A step while all of them ran: their mean, if the last began before the first ended. Microseconds; 0: they
 * did not. */
static double step_of(run *r, const tool_replay_result *all, uint32_t batch, uint32_t *ret_ctx)
{
    int64_t began = 0, ended = INT64_MAX;
    double sum = 0, ctx = 0;
    uint32_t good = 0;
    for (size_t i = 0; i < all->len; i++) {
        const tool_replay_record *one = &all->record[i];
        if (!is_good(r, all, one)) continue;
        good++;
        if (one->first_us > began) began = one->first_us;
        if (one->last_us < ended) ended = one->last_us;
        sum += (double)tool_replay_tpot_us(one);
        ctx += middle_of(one);
    }
    if (good < batch) return 0;
    if (began >= ended) r->m->left_out += batch;
    *ret_ctx = (uint32_t)(ctx / good);
    return began < ended ? sum / good : 0;
}

/* Prompts of these lengths, `at_once` at a time; 1: one after the other. *ret is done by the caller, also
 * after a failure. */
static bt_err ask(run *r, tool_replay_result *ret, const uint32_t *tokens, size_t n, uint32_t at_once,
                  bt_fault *fault)
{
    const tool_calibrate_server *s = r->s;
    const tool_replay_plan_options how = {.seed = s->seed, .speed = 1, .is_closed = true};
    tool_replay_plan plan = {0};
    *ret = (tool_replay_result){0};
    if (r->is_over) return BT_OK;
    bt_err e = tool_replay_plan_begin(&plan, fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        const tool_replay_item item = {.next = TOOL_REPLAY_NONE, .sampling = TOOL_REPLAY_NONE,
                                       .prompt_tokens = tokens[i], .output_tokens = s->answer,
                                       .stream = bt_rng_u64(s->seed, ++r->drawn)};
        e = tool_replay_plan_add_item(&plan, &item, fault);
    }
    if (e == BT_OK) e = tool_replay_plan_end(&plan, &how, fault);
    if (e == BT_OK) e = tool_replay_result_begin(ret, n, fault);
    const tool_replay_load load = {
        .url = s->url,       .api_key = s->api_key,     .plan = &plan,
        .words = s->words,   .dialect = s->dialect,     .seed = s->seed,
        .streams = at_once,  .concurrency = at_once,    .timeout_ms = s->timeout_ms,
        .stop = &r->is_over, .progress = look_at_clock, .ud = r};
    if (e == BT_OK) e = tool_replay_load_run(ret, &load, fault);
    if (e == BT_ECANCEL && !*s->stop) e = BT_OK; /* late: what is there counts */
    tool_replay_plan_done(&plan);
    return e;
}

/* Every other one of lengths at equal ratios from the shortest to the longest, from number `first` on; each
 * TIMES times.
 */
static bt_err ask_lengths(run *r, size_t first, tool_calibrate_points *to, bt_fault *fault)
{
    uint32_t tokens[LENGTHS * TIMES] = {0};
    tool_replay_result all;
    size_t n = 0;
    for (size_t i = first; i < 2 * LENGTHS - 1; i += 2)
        for (size_t k = 0; k < TIMES; k++)
            tokens[n++] = (uint32_t)lround(SHORTEST * pow((double)r->s->longest / SHORTEST,
                                                          (double)i / (2 * LENGTHS - 2)));
    const bt_err e = ask(r, &all, tokens, n, 1, fault);
    if (e == BT_OK) take_alone(r, &all, n / TIMES, to);
    tool_replay_result_done(&all);
    return e;
}

static bt_err ask_batch(run *r, uint32_t batch, tool_calibrate_points *to, bt_fault *fault)
{
    uint32_t tokens[MOST_AT_ONCE], ctx = 0;
    double step[TIMES];
    size_t n = 0;
    bt_err e = BT_OK;
    for (uint32_t i = 0; i < batch; i++) tokens[i] = BATCH_PROMPT;
    for (size_t k = 0; e == BT_OK && k < TIMES; k++) {
        tool_replay_result all;
        e = ask(r, &all, tokens, batch, batch, fault);
        step[n] = e == BT_OK ? step_of(r, &all, batch, &ctx) : 0;
        n += step[n] > 0;
        tool_replay_result_done(&all);
    }
    if (n) add_step(to, batch, ctx, median_of(step, n));
    return e;
}

bt_err tool_calibrate_measure(tool_calibrate_measured *ret, const tool_calibrate_server *s, bt_fault *fault)
{
    const uint32_t first[] = {BATCH_PROMPT};
    tool_replay_result all;
    run r = {.s = s, .m = ret};
    *ret = (tool_calibrate_measured){.requests = 0};
    bt_err e = ask(&r, &all, first, 1, 1, fault); /* the first use of all there is */
    tool_replay_result_done(&all);
    if (e == BT_OK) e = ask_lengths(&r, 0, &ret->fit, fault);
    if (e == BT_OK) e = ask_lengths(&r, 1, &ret->held, fault);
    for (uint32_t b = 2; e == BT_OK && b <= s->batch; b *= 2) e = ask_batch(&r, b, &ret->fit, fault);
    for (uint32_t b = 3; e == BT_OK && b < s->batch; b *= 2) e = ask_batch(&r, b, &ret->held, fault);
    return e;
}
