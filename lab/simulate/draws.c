/* Error bars of a cluster, and its run repeated with drawn devices. See draws.h. */
#include "lab/simulate/draws.h"
#include "lab/simulate/prices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

/* Where a load lies: its longest prompt and sequence, and the sequences that decode together at most. */
typedef struct load {
    uint64_t prompt, sequence, batch;
} load;

static load load_of(const tool_simulate_setup *s, const tool_replay_plan *plan, const tool_replay_result *r)
{
    const tool_simulate_side *const sides[] = {&s->decode, &s->prefill};
    const uint64_t slots = s->cluster.decode_slots;
    load l = {0};
    uint64_t nodes = 0;
    for (size_t i = 0; plan && i < plan->len; i++) {
        const tool_replay_item *item = &plan->item[i];
        const uint64_t tokens = (uint64_t)item->prompt_tokens + item->output_tokens;
        if (item->prompt_tokens > l.prompt) l.prompt = item->prompt_tokens;
        if (tokens > l.sequence) l.sequence = tokens;
    }
    for (size_t k = 0; k < (s->is_colocated ? 2 : 1); k++)
        for (size_t i = 0; i < sides[k]->len; i++) nodes += sides[k]->group[i].least;
    if (plan && r && nodes) l.batch = ((uint64_t)r->most_streams + nodes - 1) / nodes;
    if (slots && l.batch > slots) l.batch = slots;
    return l;
}

/* Prompts pass in chunks on a prefill node, in pieces on all others; those of a colocated cluster pass in the
 * steps. */
static bt_forecast_at place_of(const tool_simulate_setup *s, const tool_simulate_side *side, size_t group,
                               bool is_step, const load *l)
{
    const uint64_t most = s->cluster.chunk_tokens;
    uint64_t piece = l->prompt < most ? l->prompt : most;
    if (!s->is_colocated && side == &s->prefill)
        piece = tool_simulate_rows_at_once(s, &side->group[group], l->prompt);
    if (s->is_colocated) piece += l->batch;
    return (bt_forecast_at){.rows = s->is_colocated || !is_step ? piece : l->batch,
                            .batch = is_step || s->is_colocated ? l->batch : 1,
                            .context = is_step ? l->sequence : l->prompt,
                            .model = tool_simulate_dims(s, side->group[group].model)};
}

static void add_side(bt_forecast_error *e, bool *any, const tool_simulate_setup *s,
                     const tool_simulate_side *side, bt_figure kind, const load *l)
{
    const bool is_step = kind == BT_FIGURE_TPOT || (kind == BT_FIGURE_JOULES && side == &s->decode);
    for (size_t i = 0; i < side->len; i++) {
        const bt_forecast_at at = place_of(s, side, i, is_step, l);
        const bt_forecast_error one = bt_forecast_error_of(&side->group[i].profile, kind, &at);
        *e = *any ? bt_forecast_error_worse(e, &one) : one;
        *any = true;
    }
}

bt_forecast_error tool_simulate_error(const tool_simulate_setup *s, bt_figure kind,
                                      const tool_replay_plan *plan, const tool_replay_result *r)
{
    const load l = load_of(s, plan, r);
    const bool is_both = s->is_colocated || kind == BT_FIGURE_JOULES;
    bt_forecast_error e = {.standing = BT_STANDING_BOUND};
    bool any = false;
    if (is_both || kind == BT_FIGURE_TTFT) add_side(&e, &any, s, &s->prefill, kind, &l);
    /* decode nodes compute prompts where there are no others */
    if (is_both || kind == BT_FIGURE_TPOT || !any) add_side(&e, &any, s, &s->decode, kind, &l);
    return e;
}

json_t *tool_simulate_errors(const tool_simulate_setup *s, const tool_replay_plan *plan,
                             const tool_replay_result *r)
{
    static const char *const names[BT_FIGURES] = {BT_FIGURE_NAMES};
    json_t *o = json_object();
    for (int k = 0; o && k < BT_FIGURES; k++) {
        const bt_forecast_error e = tool_simulate_error(s, (bt_figure)k, plan, r);
        (void)json_object_set_new(o, names[k], bt_forecast_error_json(&e));
    }
    return o;
}

/* Whether an earlier group has the device. */
static bool is_told(const tool_simulate_setup *s, size_t side, size_t group)
{
    const tool_simulate_side *const sides[] = {&s->prefill, &s->decode};
    const char *name = sides[side]->group[group].profile.name;
    for (size_t i = 0; i <= side; i++)
        for (size_t g = 0; g < (i == side ? group : sides[i]->len); g++)
            if (strcmp(sides[i]->group[g].profile.name, name) == 0) return true;
    return false;
}

bool tool_simulate_standing(char ret[BT_FORECAST_LINE_BYTES], const tool_simulate_setup *s, size_t i)
{
    const tool_simulate_side *const sides[] = {&s->prefill, &s->decode};
    for (size_t k = 0; k < 2; k++)
        for (size_t g = 0; g < sides[k]->len; g++) {
            if (is_told(s, k, g) || i--) continue;
            (void)bt_forecast_standing_text(ret, &sides[k]->group[g].profile);
            return true;
        }
    return false;
}

char *tool_simulate_errors_text(char ret[TOOL_SIMULATE_ERRORS_BYTES], const tool_simulate_setup *s,
                                const tool_replay_plan *plan, const tool_replay_result *r, bool has_joules)
{
    static const char *const names[BT_FIGURES] = {"TTFT", "TPOT", "energy"};
    char text[BT_FORECAST_TEXT_BYTES];
    size_t n = 0;
    for (int k = 0; k < (has_joules ? BT_FIGURES : BT_FIGURE_JOULES); k++) {
        const bt_forecast_error e = tool_simulate_error(s, (bt_figure)k, plan, r);
        n += (size_t)snprintf(ret + n, TOOL_SIMULATE_ERRORS_BYTES - n, "%s%s %s", k ? ", " : "", names[k],
                              bt_forecast_error_text(text, &e));
    }
    return ret;
}

void tool_simulate_errors_print(FILE *f, const tool_simulate_setup *s, const tool_replay_plan *plan,
                                const tool_replay_result *r, bool has_joules)
{
    char errors[TOOL_SIMULATE_ERRORS_BYTES], line[BT_FORECAST_LINE_BYTES];
    fprintf(f, "errors      %s\n", tool_simulate_errors_text(errors, s, plan, r, has_joules));
    for (size_t i = 0; tool_simulate_standing(line, s, i); i++) fprintf(f, "device      %s\n", line);
}

/* ---- draws ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bt_err play_one(tool_simulate_draws *d, size_t i, const tool_simulate_bench *b,
                       const tool_replay_plan *plan, const tool_replay_slo *slo, bt_fault *fault)
{
    tool_replay_result result;
    tool_replay_figures g;
    tool_simulate_facts facts;
    bt_err e = tool_replay_result_begin(&result, plan->len, fault);
    if (e == BT_OK) e = tool_simulate_play(&facts, &result, b, plan, NULL, NULL, fault);
    if (e == BT_OK) e = tool_replay_figures_of(&g, &result, slo, fault);
    if (e == BT_OK) {
        const double values[TOOL_SIMULATE_DRAWN] = {g.ttft_ms.mean,
                                                    g.tpot_ms.mean,
                                                    g.e2e_ms.mean,
                                                    g.goodput_per_s,
                                                    (double)g.good / (double)g.requests,
                                                    facts.joules};
        for (int k = 0; k < TOOL_SIMULATE_DRAWN; k++) d->value[k][i] = values[k];
    }
    tool_replay_result_done(&result);
    return e;
}

static bt_err set_bands(tool_simulate_draws *d, bt_fault *fault)
{
    const size_t n = d->draws;
    double *sorted = malloc(n * sizeof *sorted);
    if (!sorted) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu draws", n);
    for (int k = 0; k < TOOL_SIMULATE_DRAWN; k++) {
        memcpy(sorted, d->value[k], n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, by_value);
        d->low[k] = sorted[bt_forecast_low(n)];
        d->high[k] = sorted[n - 1 - bt_forecast_low(n)];
    }
    free(sorted);
    return BT_OK;
}

bt_err tool_simulate_draws_play(tool_simulate_draws *ret, tool_simulate_bench *b,
                                const tool_replay_plan *plan, const tool_replay_slo *slo, uint32_t draws,
                                uint64_t seed, bt_fault *fault)
{
    tool_simulate_draws d = {.draws = draws, .has_limits = slo, .seed = seed};
    bt_err e = BT_OK;
    if (!draws) {
        *ret = d;
        return BT_OK;
    }
    for (int k = 0; k < TOOL_SIMULATE_DRAWN; k++)
        if (!(d.value[k] = calloc(draws, sizeof *d.value[k])))
            e = bt_fail(fault, BT_ENOMEM, "out of memory for %u draws", (unsigned)draws);
    for (size_t i = 0; e == BT_OK && i < draws; i++) {
        tool_simulate_bench_draw(b, true, i);
        e = play_one(&d, i, b, plan, slo, fault);
    }
    tool_simulate_bench_draw(b, false, 0);
    if (e == BT_OK) e = set_bands(&d, fault);
    if (e == BT_OK) *ret = d;
    else tool_simulate_draws_done(&d);
    return e;
}

void tool_simulate_draws_done(tool_simulate_draws *d)
{
    for (int k = 0; k < TOOL_SIMULATE_DRAWN; k++) free(d->value[k]);
    *d = (tool_simulate_draws){.draws = 0};
}

json_t *tool_simulate_draws_json(const tool_simulate_draws *d, bool has_joules)
{
    static const char *const names[TOOL_SIMULATE_DRAWN] = {"ttft_ms",     "tpot_ms",    "e2e_ms",
                                                           "goodput_rps", "kept_ratio", "joules"};
    if (!d->draws) return json_null();
    json_t *values = json_object(), *bands = json_object();
    for (int k = 0; k < TOOL_SIMULATE_DRAWN; k++) {
        if (k == TOOL_SIMULATE_DRAWN_JOULES && !has_joules) continue;
        if (k == TOOL_SIMULATE_DRAWN_KEPT && !d->has_limits) continue;
        json_t *list = json_array();
        for (size_t i = 0; i < d->draws; i++) (void)json_array_append_new(list, json_real(d->value[k][i]));
        (void)json_object_set_new(values, names[k], list);
        (void)json_object_set_new(bands, names[k], json_pack("[f, f]", d->low[k], d->high[k]));
    }
    return json_pack("{s:I, s:I, s:o, s:o}", "count", (json_int_t)d->draws, "seed", (json_int_t)d->seed,
                     "values", values, "band", bands);
}

char *tool_simulate_draws_text(char ret[TOOL_SIMULATE_BAND_BYTES], const tool_simulate_draws *d)
{
    ret[0] = 0;
    if (d->draws)
        (void)snprintf(ret, TOOL_SIMULATE_BAND_BYTES,
                       "TTFT %.4g to %.4g ms, TPOT %.4g to %.4g ms, %.4g to %.4g good requests/s: nine of "
                       "ten of %u draws",
                       d->low[TOOL_SIMULATE_DRAWN_TTFT], d->high[TOOL_SIMULATE_DRAWN_TTFT],
                       d->low[TOOL_SIMULATE_DRAWN_TPOT], d->high[TOOL_SIMULATE_DRAWN_TPOT],
                       d->low[TOOL_SIMULATE_DRAWN_GOODPUT], d->high[TOOL_SIMULATE_DRAWN_GOODPUT],
                       (unsigned)d->draws);
    return ret;
}
