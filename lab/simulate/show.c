/* What a simulation adds to the figures of a replay. See show.h. */
#include "lab/simulate/shares.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static double per(double sum, double n) { return n > 0 ? sum / n : 0; }

void tool_simulate_print(FILE *f, const tool_simulate_told *r)
{
    const tool_simulate_facts *x = r->facts;
    const tool_replay_figures *g = r->replay->figures;
    tool_replay_print(f, r->replay);
    fprintf(
        f,
        "cluster     %s on prefill %s and decode %s%s, %s Gbit/s: %u and %u nodes, sequences of %u tokens\n",
        r->setup->mores ? "several models" : r->setup->model->name, r->prefill, r->decode,
        r->setup->is_colocated ? ", colocated" : "", r->link, x->prefill_nodes, x->decode_nodes,
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
    if (x->preempted.all)
        fprintf(f,
                "preempted   %" PRIu64 " sequences: %" PRIu64 " swapped out, %" PRIu64
                " computed again, %" PRIu64 " begun on another node\n",
                x->preempted.all, x->preempted.swapped, x->preempted.recomputed, x->preempted.given_up);
    if (x->has_joules)
        fprintf(f, "energy      %s%.0f J: %.2f a request, %.2f for 1,000 output tokens\n",
                x->is_tdp ? "at most " : "", x->joules, per(x->joules, (double)g->completed),
                per(x->joules * 1000, (double)g->output_tokens));
    else fprintf(f, "energy      not known: a device has no source for what it draws\n");
    fprintf(f, "simulated   %.2f s in %.2f s: %" PRIu64 " brain steps, %.0f a second\n", x->virtual_s,
            r->wall_s, x->events, per((double)x->events, r->wall_s));
    tool_simulate_print_shares(f, r);
    if (x->is_overloaded) fprintf(f, "THE CLUSTER IS OVERLOADED: %s\n", x->overload);
}

/* ---- the page ------------------------------------------------------------------------------------ */

enum { FACTS = 12 };
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
    if (x->has_joules)
        add_fact(all, "energy", "%s%.0f J: %.2f a request, %.2f for 1,000 output tokens",
                 x->is_tdp ? "at most " : "", x->joules, per(x->joules, (double)g->completed),
                 per(x->joules * 1000, (double)g->output_tokens));
    else add_fact(all, "energy", "not known: a device has no source for what it draws");
}

bt_err tool_simulate_report(const char *path, const tool_simulate_told *r, bt_fault *fault)
{
    const tool_simulate_facts *x = r->facts;
    tool_replay_outcome o = *r->replay;
    facts all = {.len = 0};
    char warning[sizeof x->overload + 32];
    (void)snprintf(warning, sizeof warning, "THE CLUSTER IS OVERLOADED: %s", x->overload);
    if (x->is_overloaded) o.warning = warning;
    if (!r->setup->is_colocated) add_fact(&all, "prefill", "%s", r->prefill);
    add_fact(&all, r->setup->is_colocated ? "nodes" : "decode", "%s%s%s",
             r->setup->is_colocated ? r->prefill : "", r->setup->is_colocated ? " and " : "", r->decode);
    add_fact(&all, "links", "%s Gbit/s", r->link);
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
    add_energy(&all, r);
    add_fact(&all, "simulated", "%.2f s, %" PRIu64 " brain steps", x->virtual_s, x->events);
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
    json_t *more = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:f, s:b, s:f, s:f, s:I, s:f, s:o, s:o, s:o, s:b, s:o, s:f, s:I, s:I, "
        "s:b, "
        "s:o}",
        "model", r->setup->model->name, "prefill", r->prefill, "decode", r->decode, "link", r->link,
        "ctx_tokens", (json_int_t)r->setup->ctx_tokens, "time_scale", scale_of(r->setup), "colocated",
        (int)r->setup->is_colocated, "virtual_seconds", x->virtual_s, "wall_seconds", r->wall_s, "events",
        (json_int_t)x->events, "events_per_second", per((double)x->events, r->wall_s), "joules",
        ratio(x->joules, x->has_joules), "joules_per_request",
        ratio(per(x->joules, (double)g->completed), x->has_joules && g->completed), "joules_per_1000_tokens",
        ratio(per(x->joules * 1000, (double)g->output_tokens), x->has_joules && g->output_tokens),
        "joules_of_tdp", (int)x->is_tdp, "prefill_busy_ratio", ratio(x->prefill_busy, x->prefill_nodes > 0),
        "decode_busy_ratio", x->decode_busy, "prompt_rows", (json_int_t)x->rows, "padding_rows",
        (json_int_t)(x->rows - x->valid_rows), "overloaded", (int)x->is_overloaded, "overload",
        x->is_overloaded ? json_string(x->overload) : json_null());
    json_t *nodes =
        json_pack("{s:f, s:f, s:f, s:o, s:I}", "node_seconds", x->prefill_node_s + x->decode_node_s,
                  "prefill_node_seconds", x->prefill_node_s, "decode_node_seconds", x->decode_node_s,
                  "nodes_over_time", counts_json(x), "refused_roles", (json_int_t)x->refused_roles);
    json_t *memory =
        json_pack("{s:I, s:I, s:I, s:I}", "preempted", (json_int_t)x->preempted.all, "swapped_out",
                  (json_int_t)x->preempted.swapped, "recomputed", (json_int_t)x->preempted.recomputed,
                  "given_up", (json_int_t)x->preempted.given_up);
    const bool ok = o && more && nodes && memory && json_object_update(o, more) == 0 &&
                    json_object_update(o, nodes) == 0 && json_object_update(o, memory) == 0 &&
                    tool_simulate_shares_json(o, r);
    json_decref(more);
    json_decref(nodes);
    json_decref(memory);
    if (ok) return o;
    json_decref(o);
    return NULL;
}
