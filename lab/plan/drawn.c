/* Draws over a plan's choices: one draw of both devices for all of them. */
#include "lab/plan/drawn.h"

#include <stdlib.h>
#include <string.h>

/* ---- one choice in one draw ---- */

static double sum_of(const double term_ns[BT_TERMS])
{
    double sum = 0;
    for (int k = 0; k < BT_TERMS; k++) sum += term_ns[k];
    return sum;
}

/* How many times as long the terms take. */
static double factor_of(const double term_ns[BT_TERMS], const bt_forecast_draw *d)
{
    const double sum = sum_of(term_ns);
    double drawn = 0;
    for (int k = 0; k < BT_TERMS; k++) drawn += term_ns[k] * d->permille[k] / 1000;
    return sum > 0 ? drawn / sum : 1;
}

/* Two neighbours of tool_plan_factors, and how far from the first to the second. */
typedef struct between {
    size_t first;
    double part;
} between;

static between place_of(double factor)
{
    size_t i = 0;
    while (i + 2 < TOOL_PLAN_FACTORS && factor >= tool_plan_factors[i + 1]) i++;
    const double part = (factor - tool_plan_factors[i]) / (tool_plan_factors[i + 1] - tool_plan_factors[i]);
    return (between){i, part < 0 ? 0 : part > 1 ? 1 : part};
}

static double line(double a, double b, double part) { return a + (b - a) * part; }

static double kept_of(const tool_plan_figures *f, between prompts, between steps, bool keeps_tpot)
{
    double kept = 0;
    for (int is_long = 0; is_long < (keeps_tpot ? 2 : 1); is_long++) {
        double at[2];
        for (size_t i = 0; i < 2; i++) {
            const float(*row)[2] = f->terms.kept[prompts.first + i];
            at[i] =
                line((double)row[steps.first][is_long], (double)row[steps.first + 1][is_long], steps.part);
        }
        kept += line(at[0], at[1], prompts.part);
    }
    return kept;
}

static uint64_t whole(double v) { return v < (double)INT64_MAX ? (uint64_t)v : INT64_MAX; }

static double joules_of(const bt_profile *p, double ns, double ops, double bytes)
{
    return (double)bt_energy_of(&p->time, whole(ns), whole(ops), whole(bytes), whole(ns)).nj / 1e9;
}

static tool_plan_figures drawn(const tool_plan_figures *f, const tool_plan_want *want,
                               const bt_forecast_draw *of_prefill, const bt_forecast_draw *of_decode,
                               bool is_alone)
{
    const tool_plan_terms *t = &f->terms;
    const bt_profile *prefill = is_alone ? want->decode : want->prefill;
    const bt_forecast_draw *d = is_alone ? of_decode : of_prefill;
    const double prompt = factor_of(t->prompt_ns, d), queued = factor_of(t->queued_ns, d),
                 token = factor_of(t->token_ns, of_decode), step = factor_of(t->step_ns, of_decode),
                 queued_ns = sum_of(t->queued_ns), later = f->e2e_ns - f->wait_ns - queued_ns - f->exposed_ns;
    const between prompts = place_of(queued), steps = place_of(token);
    tool_plan_figures r = *f;
    r.prefill_ns *= prompt;
    r.wait_ns = line(t->wait_ns[prompts.first], t->wait_ns[prompts.first + 1], prompts.part);
    r.tpot_ns *= token;
    r.e2e_ns = r.wait_ns + queued_ns * queued + f->exposed_ns + later * token;
    r.prefill_busy *= prompt;
    r.decode_busy *= is_alone ? token : step;
    r.is_overloaded = r.prefill_busy >= 1 || r.decode_busy >= 1;
    r.joules = joules_of(prefill, r.prefill_ns, t->prompt_ops, t->prompt_bytes) +
               joules_of(want->decode, sum_of(t->step_ns) * step, t->step_ops, t->step_bytes) * t->steps;
    if (want->has_limits)
        r.kept = kept_of(f, prompts, steps,
                         want->limits.tpot_us < 0 || r.tpot_ns <= (double)want->limits.tpot_us * 1e3);
    return r;
}

tool_plan_figures tool_plan_drawn(const tool_plan_figures *f, const tool_plan_want *want, uint64_t number,
                                  bool is_alone)
{
    const bt_forecast_draw prefill =
                               bt_forecast_draw_of(want->prefill, BT_STANDING_CALIBRATED, want->seed, number),
                           decode =
                               bt_forecast_draw_of(want->decode, BT_STANDING_CALIBRATED, want->seed, number);
    return drawn(f, want, &prefill, &decode, is_alone);
}

/* ---- all of them ---- */

typedef struct drawing {
    const tool_plan_want *want;
    bt_forecast_draw *prefill, *decode; /* [draws] */
    tool_plan_key *best;                /* [draws] */
    size_t *winner;                     /* [draws] */
    double *value[TOOL_PLAN_BANDS];     /* [draws]: of the choice in hand */
} drawing;

static void done(drawing *d)
{
    free(d->prefill);
    free(d->decode);
    free(d->best);
    free(d->winner);
    for (int k = 0; k < TOOL_PLAN_BANDS; k++) free(d->value[k]);
}

static bt_err begin(drawing *d, const tool_plan_want *want, bt_fault *fault)
{
    const size_t n = want->draws;
    *d = (drawing){.want = want, .prefill = calloc(n, sizeof *d->prefill),
                   .decode = calloc(n, sizeof *d->decode), .best = calloc(n, sizeof *d->best),
                   .winner = calloc(n, sizeof *d->winner)};
    bool ok = d->prefill && d->decode && d->best && d->winner;
    for (int k = 0; k < TOOL_PLAN_BANDS; k++) ok = (d->value[k] = calloc(n, sizeof *d->value[k])) && ok;
    if (!ok) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu draws", n);
    for (size_t i = 0; i < n; i++) {
        d->prefill[i] = bt_forecast_draw_of(want->prefill, BT_STANDING_CALIBRATED, want->seed, i);
        d->decode[i] = bt_forecast_draw_of(want->decode, BT_STANDING_CALIBRATED, want->seed, i);
    }
    return BT_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Draws figures of one choice. at: its index; SIZE_MAX: it is of the decode device alone, and does not take
 * part. */
static void draw_one(drawing *d, tool_plan_choice *c, size_t at)
{
    const size_t n = d->want->draws;
    for (size_t i = 0; i < n; i++) {
        const tool_plan_figures f = drawn(&c->f, d->want, &d->prefill[i], &d->decode[i], at == SIZE_MAX);
        const double values[TOOL_PLAN_BANDS] = {f.prefill_ns, f.tpot_ns, f.e2e_ns, f.joules};
        const tool_plan_key key = tool_plan_key_of(c, &f, d->want);
        for (int k = 0; k < TOOL_PLAN_BANDS; k++) d->value[k][i] = values[k];
        if (at == SIZE_MAX || (at && tool_plan_key_compare(&key, &d->best[i]) >= 0)) continue;
        d->best[i] = key;
        d->winner[i] = at;
    }
    for (int k = 0; k < TOOL_PLAN_BANDS; k++) {
        qsort(d->value[k], n, sizeof *d->value[k], by_value);
        c->band[k] =
            (tool_plan_band){d->value[k][bt_forecast_low(n)], d->value[k][n - 1 - bt_forecast_low(n)]};
    }
}

/* The winner that is not yet named and has won most; NULL: none. */
static tool_plan_choice *next_tie(const tool_plan_result *r, const tool_plan_choice *best)
{
    tool_plan_choice *most = NULL;
    for (size_t i = 0; i < r->choices; i++) {
        tool_plan_choice *c = &r->choice[i];
        if (c != best && c->wins && !c->is_tie && (!most || c->wins > most->wins)) most = c;
    }
    return most;
}

static void name_ties(tool_plan_result *r, const tool_plan_want *want)
{
    const tool_plan_choice *best = &r->choice[0];
    tool_plan_choice *tie;
    for (size_t i = 1; i < r->choices; i++)
        if (tool_plan_compare(&r->choice[i], best, want) < 0) best = &r->choice[i];
    for (double wins = best->wins;
         wins < BT_FORECAST_CERTAIN * (double)want->draws && (tie = next_tie(r, best)); wins += tie->wins)
        tie->is_tie = true;
}

bt_err tool_plan_draw(tool_plan_result *r, const tool_plan_want *want, bt_fault *fault)
{
    drawing d;
    if (!want->draws) return BT_OK;
    const bt_err e = begin(&d, want, fault);
    for (size_t i = 0; e == BT_OK && i < r->choices; i++) draw_one(&d, &r->choice[i], i);
    for (size_t i = 0; e == BT_OK && i < r->alones; i++) draw_one(&d, &r->alone[i], SIZE_MAX);
    for (size_t i = 0; e == BT_OK && i < want->draws; i++) r->choice[d.winner[i]].wins++;
    if (e == BT_OK) name_ties(r, want);
    done(&d);
    return e;
}

double tool_plan_beats(const tool_plan_choice *a, const tool_plan_choice *b, bool is_alone,
                       const tool_plan_want *want)
{
    uint32_t wins = 0;
    if (!want->draws || (!is_alone && tool_plan_is_alike(a, b))) return -1;
    for (uint32_t i = 0; i < want->draws; i++) {
        const tool_plan_figures x = tool_plan_drawn(&a->f, want, i, false),
                                y = tool_plan_drawn(&b->f, want, i, is_alone);
        const tool_plan_key of_a = tool_plan_key_of(a, &x, want), of_b = tool_plan_key_of(b, &y, want);
        wins += tool_plan_key_compare(&of_a, &of_b) < 0;
    }
    return (double)wins / want->draws;
}
