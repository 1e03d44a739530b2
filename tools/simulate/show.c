/* What a simulation adds to the figures of a replay. See show.h. */
#include "tools/simulate/shares.h"

#include <inttypes.h>

static double per(double sum, double n) { return n > 0 ? sum / n : 0; }

void tool_simulate_print(FILE *f, const tool_simulate_told *r)
{
    const tool_simulate_facts *x = r->facts;
    const tool_replay_figures *g = r->replay->figures;
    tool_replay_print(f, r->replay);
    fprintf(f, "cluster     %s on prefill %s and decode %s%s, %s Gbit/s: %u and %u nodes\n",
            r->setup->mores ? "several models" : r->setup->model->name, r->prefill, r->decode,
            r->setup->is_colocated ? ", colocated" : "", r->link, x->prefill_nodes, x->decode_nodes);
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
        "{s:s, s:s, s:s, s:s, s:f, s:b, s:f, s:f, s:I, s:f, s:o, s:o, s:o, s:b, s:o, s:f, s:I, s:I, s:b, "
        "s:o}",
        "model", r->setup->model->name, "prefill", r->prefill, "decode", r->decode, "link", r->link,
        "time_scale", scale_of(r->setup), "colocated", (int)r->setup->is_colocated, "virtual_seconds",
        x->virtual_s, "wall_seconds", r->wall_s, "events", (json_int_t)x->events, "events_per_second",
        per((double)x->events, r->wall_s), "joules", ratio(x->joules, x->has_joules), "joules_per_request",
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
    const bool ok = o && more && nodes && json_object_update(o, more) == 0 &&
                    json_object_update(o, nodes) == 0 && tool_simulate_shares_json(o, r);
    json_decref(more);
    json_decref(nodes);
    if (ok) return o;
    json_decref(o);
    return NULL;
}
