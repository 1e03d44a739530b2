/* Figures of a simulation beside those of a replay. See show.h. */
#include "lab/simulate/show.h"
#include "base/num.h"
#include "lab/plan/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- each model and each gateway, as tables where there are several, and as keys of the report ---- */

static bool is_of_model(const tool_replay_item *item, uint32_t model) { return item->model == model; }

bt_err tool_simulate_model_figures(tool_replay_figures *ret, const tool_replay_outcome *o, uint32_t model,
                                   bt_fault *fault)
{
    return tool_replay_figures_part(ret, o, is_of_model, model, fault);
}

static uint32_t models_of(const tool_simulate_told *r) { return r->setup->mores + 1; }

void tool_simulate_ignored_print(FILE *f, const tool_simulate_setup *s)
{
    for (uint32_t i = 0; i <= s->mores; i++)
        tool_plan_ignored_print(f, "ignored     ", tool_simulate_dims(s, i));
}

json_t *tool_simulate_ignored(const tool_simulate_setup *s)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i <= s->mores; i++) rows = tool_plan_ignored(rows, tool_simulate_dims(s, i));
    return rows;
}

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

static void print_shares(FILE *f, const tool_simulate_told *r)
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

/* Adds "ignored", "models" and "gateways"; false: memory is out. */
static bool add_shares(json_t *o, const tool_simulate_told *r)
{
    return json_object_set_new(o, "ignored", tool_simulate_ignored(r->setup)) == 0 &&
           json_object_set_new(o, "models", list(r, models_of(r), model_json)) == 0 &&
           json_object_set_new(o, "gateways", list(r, r->facts->doors, door_json)) == 0;
}

/* ---- for people ---- */

static double per(double sum, double n) { return n > 0 ? sum / n : 0; }

/* In a step of nodes that do both, prompts and tokens draw together. */
static bool has_sides(const tool_simulate_told *r)
{
    return !r->setup->is_colocated && r->facts->prefill_node_s > 0;
}

enum { SIDES_BYTES = 128 };
static const char *sides_text(char ret[SIDES_BYTES], const tool_simulate_told *r)
{
    const double *j = r->facts->role_joules;
    const tool_replay_figures *g = r->replay->figures;
    (void)snprintf(ret, SIDES_BYTES,
                   "prefill %.0f J, %.2f mJ an input token; decode %.0f J, %.2f mJ an output token", j[0],
                   per(1e3 * j[0], (double)g->input_tokens), j[1], per(1e3 * j[1], (double)g->output_tokens));
    return ret;
}

void tool_simulate_print(FILE *f, const tool_simulate_told *r)
{
    const tool_simulate_facts *x = r->facts;
    const tool_replay_figures *g = r->replay->figures;
    char link[BT_LINK_MAX_TEXT], band[TOOL_SIMULATE_BAND_BYTES];
    char sides[SIDES_BYTES], sent[24];
    bt_link_text(link, &r->setup->link);
    tool_replay_print(f, r->replay);
    fprintf(f, "cluster     %s on prefill %s and decode %s%s, %s: %u and %u nodes, sequences of %u tokens\n",
            r->setup->mores ? "several models" : r->setup->model->name, r->prefill, r->decode,
            r->setup->is_colocated ? ", colocated" : "", link, x->prefill_nodes, x->decode_nodes,
            r->setup->ctx_tokens);
    if (x->prefill_nodes)
        fprintf(f, "busy        prefill %.1f %%, decode %.1f %% of the time\n", 100 * x->prefill_busy,
                100 * x->decode_busy);
    else fprintf(f, "busy        %.1f %% of the time\n", 100 * x->decode_busy);
    if (x->counts > 1)
        fprintf(
            f,
            "changes     prefill %u to %u nodes, decode %u to %u; powered for %.0f and %.0f node-seconds\n",
            x->least[0], x->most[0], x->least[1], x->most[1], x->prefill_node_s, x->decode_node_s);
    if (x->refused_roles)
        fprintf(f, "roles       %u nodes did not change their role: %s\n", x->refused_roles, x->refused_why);
    if (x->rows)
        fprintf(f, "rows        %" PRIu64 " of prompts computed, %.1f %% of them padding\n", x->rows,
                100 * (double)(x->rows - x->valid_rows) / (double)x->rows);
    if (x->again_rows) fprintf(f, "again       %" PRIu64 " rows were computed before\n", x->again_rows);
    if (x->sent_bytes) {
        bt_num_size_text(sent, sizeof sent, x->sent_bytes);
        fprintf(f, "sent        %s of KV\n", sent);
    }
    if (x->preempted.all)
        fprintf(f,
                "preempted   %" PRIu64 " sequences: %" PRIu64 " swapped out, %" PRIu64
                " computed again, %" PRIu64 " begun on another node\n",
                x->preempted.all, x->preempted.swapped, x->preempted.recomputed, x->preempted.given_up);
    if (x->no_joules[0]) fprintf(f, "energy      not known: %s\n", x->no_joules);
    else
        fprintf(f, "energy      %.0f J: %.2f a request, %.2f for 1,000 output tokens\n", x->joules,
                per(x->joules, (double)g->completed), per(x->joules * 1000, (double)g->output_tokens));
    if (!x->no_joules[0] && has_sides(r)) fprintf(f, "by side     %s\n", sides_text(sides, r));
    if (!x->no_joules[0] && !strcmp(x->joules_bound, "no bound"))
        fprintf(
            f, "bound       joules are none: of some devices they are at least, of others at most so many\n");
    else if (!x->no_joules[0] && *x->joules_bound)
        fprintf(f,
                "bound       joules are %s so many: a byte of memory costs 5 to 100 pJ, and not so in a "
                "profile\n",
                x->joules_bound);
    tool_simulate_errors_print(f, r->setup, r->replay->plan, r->replay->result, !x->no_joules[0]);
    if (r->draws->draws) fprintf(f, "band        %s\n", tool_simulate_draws_text(band, r->draws));
    tool_simulate_ignored_print(f, r->setup);
    fprintf(f, "simulated   %.2f s in %.2f s: %" PRIu64 " brain steps, %.0f a second\n", x->virtual_s,
            r->wall_s, x->events, per((double)x->events, r->wall_s));
    print_shares(f, r);
    if (x->is_overloaded) fprintf(f, "THE CLUSTER IS OVERLOADED: %s\n", x->overload);
}

/* ---- the page ------------------------------------------------------------------------------------ */

enum { FACTS = 17 + 2 * TOOL_SIMULATE_GROUPS + SIM_CLUSTER_MODELS * BT_DIMS_IGNORED };
typedef struct facts {
    tool_replay_fact of[FACTS];
    size_t len;
} facts;

__attribute__((format(printf, 3, 4))) static void add_fact(facts *f, const char *name, const char *fmt, ...)
{
    va_list ap;
    tool_replay_fact *one = &f->of[f->len++];
    one->name = name;
    va_start(ap, fmt);
    (void)vsnprintf(one->value, sizeof one->value, fmt, ap);
    va_end(ap);
}

static void add_energy(facts *all, const tool_simulate_told *r)
{
    const tool_simulate_facts *x = r->facts;
    const tool_replay_figures *g = r->replay->figures;
    char sides[SIDES_BYTES];
    if (x->no_joules[0]) add_fact(all, "energy", "not known: %s", x->no_joules);
    else
        add_fact(all, "energy", "%.0f J: %.2f a request, %.2f for 1,000 output tokens", x->joules,
                 per(x->joules, (double)g->completed), per(x->joules * 1000, (double)g->output_tokens));
    if (!x->no_joules[0] && has_sides(r)) add_fact(all, "energy by side", "%s", sides_text(sides, r));
}

static void add_errors(facts *all, const tool_simulate_told *r)
{
    char errors[TOOL_SIMULATE_ERRORS_BYTES], band[TOOL_SIMULATE_BAND_BYTES], line[BT_FORECAST_LINE_BYTES];
    add_fact(all, "errors", "%s",
             tool_simulate_errors_text(errors, r->setup, r->replay->plan, r->replay->result,
                                       !r->facts->no_joules[0]));
    for (size_t i = 0; tool_simulate_standing(line, r->setup, i); i++) add_fact(all, "device", "%s", line);
    if (r->draws->draws) add_fact(all, "band", "%s", tool_simulate_draws_text(band, r->draws));
}

static void add_ignored(facts *all, const tool_simulate_told *r)
{
    for (uint32_t k = 0; k < models_of(r); k++) {
        const bt_dims *s = tool_simulate_dims(r->setup, k);
        bt_dims_ignored one[BT_DIMS_IGNORED];
        char text[TOOL_PLAN_IGNORED_BYTES];
        const size_t n = bt_dims_ignored_of(one, s);
        for (size_t i = 0; i < n; i++)
            add_fact(all, "ignored", "%s, %s", s->name, tool_plan_ignored_text(text, &one[i]));
    }
}

bt_err tool_simulate_report(const char *path, const tool_simulate_told *r, bt_fault *fault)
{
    const tool_simulate_facts *x = r->facts;
    tool_replay_outcome o = *r->replay;
    facts all = {.len = 0};
    char link[BT_LINK_MAX_TEXT];
    bt_link_text(link, &r->setup->link);
    char warning[sizeof x->overload + 32];
    (void)snprintf(warning, sizeof warning, "THE CLUSTER IS OVERLOADED: %s", x->overload);
    if (x->is_overloaded) o.warning = warning;
    if (!r->setup->is_colocated) add_fact(&all, "prefill", "%s", r->prefill);
    add_fact(&all, r->setup->is_colocated ? "nodes" : "decode", "%s%s%s",
             r->setup->is_colocated ? r->prefill : "", r->setup->is_colocated ? " and " : "", r->decode);
    add_fact(&all, "links", "%s", link);
    if (x->prefill_nodes)
        add_fact(&all, "busy", "prefill %.1f %%, decode %.1f %% of the time", 100 * x->prefill_busy,
                 100 * x->decode_busy);
    else add_fact(&all, "busy", "%.1f %% of the time", 100 * x->decode_busy);
    if (x->counts > 1)
        add_fact(&all, "changes", "prefill %u to %u nodes, decode %u to %u; %.0f and %.0f node-seconds",
                 x->least[0], x->most[0], x->least[1], x->most[1], x->prefill_node_s, x->decode_node_s);
    if (x->preempted.all) add_fact(&all, "preempted", "%" PRIu64 " sequences", x->preempted.all);
    if (x->rows)
        add_fact(&all, "rows of prompts", "%" PRIu64 ", %.1f %% of them padding", x->rows,
                 100 * (double)(x->rows - x->valid_rows) / (double)x->rows);
    if (x->again_rows) add_fact(&all, "computed again", "%" PRIu64 " rows", x->again_rows);
    if (x->sent_bytes) {
        char sent[24];
        bt_num_size_text(sent, sizeof sent, x->sent_bytes);
        add_fact(&all, "sent", "%s of KV", sent);
    }
    add_energy(&all, r);
    add_errors(&all, r);
    add_ignored(&all, r);
    add_fact(&all, "simulated", "%.2f s, %" PRIu64 " brain steps", x->virtual_s, x->events);
    const tool_simulate_draws *d = r->draws;
    const tool_replay_band bands[TOOL_REPLAY_BANDS] = {
        {d->low[TOOL_SIMULATE_DRAWN_TTFT], d->high[TOOL_SIMULATE_DRAWN_TTFT]},
        {d->low[TOOL_SIMULATE_DRAWN_TPOT], d->high[TOOL_SIMULATE_DRAWN_TPOT]},
        {d->low[TOOL_SIMULATE_DRAWN_E2E], d->high[TOOL_SIMULATE_DRAWN_E2E]}};
    o.band = d->draws ? bands : NULL;
    o.fact = all.of;
    o.facts = all.len;
    return tool_replay_report(path, &o, fault);
}

/* ---- for programs -------------------------------------------------------------------------------- */

/* How many times slower than the devices: replay's --pace. */
static double scale_of(const tool_simulate_setup *s)
{
    return s->pace.milli ? (double)s->pace.milli / 1000 : 1;
}

static json_t *ratio(double x, bool is_there) { return is_there ? json_real(x) : json_null(); }

/* Nodes that serve, and those that are powered, from each time on. */
static json_t *counts_json(const tool_simulate_facts *x)
{
    json_t *all = json_array();
    for (size_t i = 0; all && i < x->counts; i++) {
        const tool_simulate_count_at *n = &x->count[i];
        if (json_array_append_new(all, json_pack("{s:f, s:I, s:I, s:I}", "seconds", (double)n->at_us / 1e6,
                                                 "prefill", (json_int_t)n->prefill, "decode",
                                                 (json_int_t)n->decode, "powered", (json_int_t)n->powered)) <
            0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

json_t *tool_simulate_json(const tool_simulate_told *r)
{
    const tool_simulate_facts *x = r->facts;
    const tool_replay_figures *g = r->replay->figures;
    json_t *o = tool_replay_json(r->replay);
    const bool has_joules = !x->no_joules[0];
    json_t *more = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:f, s:b, s:f, s:f, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:f, s:I, s:I, "
        "s:b, "
        "s:o}",
        "model", r->setup->model->name, "prefill", r->prefill, "decode", r->decode, "link", r->link,
        "ctx_tokens", (json_int_t)r->setup->ctx_tokens, "time_scale", scale_of(r->setup), "colocated",
        (int)r->setup->is_colocated, "virtual_seconds", x->virtual_s, "wall_seconds", r->wall_s, "events",
        (json_int_t)x->events, "events_per_second", per((double)x->events, r->wall_s), "joules",
        ratio(x->joules, has_joules), "joules_per_request",
        ratio(per(x->joules, (double)g->completed), has_joules && g->completed), "joules_per_1000_tokens",
        ratio(per(x->joules * 1000, (double)g->output_tokens), has_joules && g->output_tokens), "no_joules",
        has_joules ? json_null() : json_string(x->no_joules), "prefill_busy_ratio",
        ratio(x->prefill_busy, x->prefill_nodes > 0), "decode_busy_ratio", x->decode_busy, "prompt_rows",
        (json_int_t)x->rows, "padding_rows", (json_int_t)(x->rows - x->valid_rows), "overloaded",
        (int)x->is_overloaded, "overload", x->is_overloaded ? json_string(x->overload) : json_null());
    const bool by_side = has_joules && has_sides(r);
    json_t *energy =
        json_pack("{s:o, s:o, s:o, s:o, s:s}", "prefill_joules", ratio(x->role_joules[0], by_side),
                  "decode_joules", ratio(x->role_joules[1], by_side), "joules_per_input_token",
                  ratio(per(x->role_joules[0], (double)g->input_tokens), by_side), "joules_per_output_token",
                  ratio(per(x->role_joules[1], (double)g->output_tokens), by_side), "joules_bound",
                  has_joules ? x->joules_bound : "");
    json_t *nodes =
        json_pack("{s:f, s:f, s:f, s:o, s:I}", "node_seconds", x->prefill_node_s + x->decode_node_s,
                  "prefill_node_seconds", x->prefill_node_s, "decode_node_seconds", x->decode_node_s,
                  "nodes_over_time", counts_json(x), "refused_roles", (json_int_t)x->refused_roles);
    json_t *memory =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "preempted", (json_int_t)x->preempted.all, "swapped_out",
                  (json_int_t)x->preempted.swapped, "recomputed", (json_int_t)x->preempted.recomputed,
                  "given_up", (json_int_t)x->preempted.given_up, "recomputed_rows", (json_int_t)x->again_rows,
                  "kv_sent_bytes", (json_int_t)x->sent_bytes);
    json_t *errors =
        json_pack("{s:o, s:o}", "error", tool_simulate_errors(r->setup, r->replay->plan, r->replay->result),
                  "draws", tool_simulate_draws_json(r->draws, has_joules));
    const bt_link *l = &r->setup->link;
    const double line = (double)l->bits_per_us,
                 goodput = l->share_permille ? line * l->share_permille / 1000 : line;
    json_t *rates = json_pack("{s:f, s:o}", "link_goodput_mbits", goodput, "link_line_mbits",
                              ratio(line, l->share_permille > 0));
    const bool ok = o && more && rates && nodes && memory && errors && energy &&
                    json_object_update(o, more) == 0 && json_object_update(o, energy) == 0 &&
                    json_object_update(o, rates) == 0 && json_object_update(o, nodes) == 0 &&
                    json_object_update(o, memory) == 0 && json_object_update(o, errors) == 0 &&
                    add_shares(o, r);
    json_decref(rates);
    json_decref(more);
    json_decref(energy);
    json_decref(nodes);
    json_decref(memory);
    json_decref(errors);
    if (ok) return o;
    json_decref(o);
    return NULL;
}
