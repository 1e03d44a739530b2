/* A run by model and by gateway. See shares.h. */
#include "lab/simulate/shares.h"

#include <stdlib.h>

bt_err tool_simulate_model_figures(tool_replay_figures *ret, const tool_replay_outcome *o, uint32_t model,
                                   bt_fault *fault)
{
    tool_replay_result *one = malloc(sizeof *one);
    tool_replay_record *record = malloc((o->result->len ? o->result->len : 1) * sizeof *record);
    bt_err e = one && record ? BT_OK : bt_fail(fault, BT_ENOMEM, "the figures of a model");
    if (e == BT_OK) {
        *one = *o->result;
        one->record = record;
        one->len = 0;
        one->cpu_us = 0;
        for (size_t i = 0; i < o->result->len; i++)
            if (o->plan->item[o->result->record[i].item].model == model)
                record[one->len++] = o->result->record[i];
        e = tool_replay_figures_of(ret, one, o->slo, fault);
    }
    free(record);
    free(one);
    return e;
}

static uint32_t models_of(const tool_simulate_told *r) { return r->setup->mores + 1; }

static double ratio_of(double busy_s, double node_s) { return node_s > 0 ? busy_s / node_s : 0; }

static void print_models(FILE *f, const tool_simulate_told *r)
{
    fprintf(f, "%-24s %6s %6s %9s %7s %9s %10s %10s %10s %10s\n", "model", "nodes", "", "requests", "failed",
            "good", "TTFT p50", "p99 ms", "TPOT p50", "p99 ms");
    for (uint32_t i = 0; i < models_of(r); i++) {
        const tool_simulate_share *s = &r->facts->share[i];
        tool_replay_figures g;
        if (tool_simulate_model_figures(&g, r->replay, i, NULL) < 0) continue;
        fprintf(f, "%-24.24s %6u %6u %9zu %7zu %9zu %10.1f %10.1f %10.2f %10.2f\n",
                tool_simulate_dims(r->setup, i)->name, s->nodes[0], s->nodes[1], g.requests, g.failed, g.good,
                g.ttft_ms.p50, g.ttft_ms.p99, g.tpot_ms.p50, g.tpot_ms.p99);
    }
}

static void print_doors(FILE *f, const tool_simulate_told *r)
{
    fprintf(f, "%-8s %-24s %9s %7s %7s %9s %12s %12s\n", "gateway", "model", "requests", "failed", "busy %",
            "waiting", "queue ms", "TTFT ms");
    for (uint32_t i = 0; i < r->facts->doors; i++) {
        const tool_simulate_door *d = &r->facts->door[i];
        fprintf(f, "%-8u %-24.24s %9llu %7llu %7.1f %9u %12.2f %12.1f\n", i,
                tool_simulate_dims(r->setup, d->model)->name, (unsigned long long)d->requests,
                (unsigned long long)d->failed, 100 * d->busy, d->most_waiting, d->queue_ms, d->ttft_ms);
    }
}

void tool_simulate_print_shares(FILE *f, const tool_simulate_told *r)
{
    if (models_of(r) > 1) print_models(f, r);
    if (r->facts->doors > 1) print_doors(f, r);
}

static json_t *spread_json(const tool_replay_spread *s)
{
    if (!s->n) return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean", s->mean, "p50", s->p50, "p90", s->p90, "p99",
                     s->p99, "max", s->max);
}

static json_t *model_json(const tool_simulate_told *r, uint32_t i)
{
    const tool_simulate_share *s = &r->facts->share[i];
    tool_replay_figures g;
    if (tool_simulate_model_figures(&g, r->replay, i, NULL) < 0) return NULL;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:o, s:o, s:o, s:f, s:f, s:f, s:o}",
                     "model", tool_simulate_dims(r->setup, i)->name, "prefill_nodes", (json_int_t)s->nodes[0],
                     "decode_nodes", (json_int_t)s->nodes[1], "requests", (json_int_t)g.requests, "completed",
                     (json_int_t)g.completed, "failed", (json_int_t)g.failed, "good", (json_int_t)g.good,
                     "goodput_rps", g.goodput_per_s, "input_tokens", (json_int_t)g.input_tokens,
                     "output_tokens", (json_int_t)g.output_tokens, "ttft_ms", spread_json(&g.ttft_ms),
                     "tpot_ms", spread_json(&g.tpot_ms), "e2e_ms", spread_json(&g.e2e_ms),
                     "prefill_busy_ratio", ratio_of(s->busy_s[0], s->node_s[0]), "decode_busy_ratio",
                     ratio_of(s->busy_s[1], s->node_s[1]), "node_seconds", s->node_s[0] + s->node_s[1],
                     "joules", s->joules >= 0 ? json_real(s->joules) : json_null());
}

static json_t *door_json(const tool_simulate_told *r, uint32_t i)
{
    const tool_simulate_door *d = &r->facts->door[i];
    return json_pack("{s:I, s:s, s:I, s:I, s:I, s:f, s:I, s:f, s:f}", "gateway", (json_int_t)i, "model",
                     tool_simulate_dims(r->setup, d->model)->name, "requests", (json_int_t)d->requests,
                     "completed", (json_int_t)d->completed, "failed", (json_int_t)d->failed, "busy_ratio",
                     d->busy, "waiting_max", (json_int_t)d->most_waiting, "queue_mean_ms", d->queue_ms,
                     "ttft_mean_ms", d->ttft_ms);
}

static json_t *list(const tool_simulate_told *r, uint32_t n,
                    json_t *(*one)(const tool_simulate_told *r, uint32_t i))
{
    json_t *all = json_array();
    for (uint32_t i = 0; all && i < n; i++) {
        if (json_array_append_new(all, one(r, i)) == 0) continue;
        json_decref(all);
        all = NULL;
    }
    return all;
}

bool tool_simulate_shares_json(json_t *o, const tool_simulate_told *r)
{
    return json_object_set_new(o, "models", list(r, models_of(r), model_json)) == 0 &&
           json_object_set_new(o, "gateways", list(r, r->facts->doors, door_json)) == 0;
}
