/* See scale.h. */
#include "simulate/scale.h"

void sim_scale_begin(sim_scale *s, const sim_scale_rule *rule)
{
    *s = (sim_scale){.rule = *rule, .up_ns = -1, .down_ns = -1};
}

static uint64_t per(uint64_t part, uint64_t whole) { return whole ? part * 1000 / whole : 0; }

sim_scale_reading sim_scale_read(const sim_cluster *c, bt_role role, uint32_t model)
{
    sim_scale_reading r = {0};
    uint64_t pages = 0, pages_used = 0, slots = 0, slots_used = 0, waiting = sim_cluster_waiting_of(c, model);
    for (uint32_t i = 0; i < sim_cluster_nodes(c); i++) {
        const sim_cluster_state state = sim_cluster_state_of(c, i);
        const sim_cluster_node n = sim_cluster_look(c, i);
        if (n.role != role || n.model != model) continue;
        if (state != SIM_CLUSTER_LOADING && state != SIM_CLUSTER_SERVING) continue;
        r.nodes++;
        if (state == SIM_CLUSTER_LOADING) continue;
        r.serving++;
        pages += n.load.pages_total;
        pages_used += n.load.pages_used;
        slots += n.load.slots_total;
        slots_used += n.load.slots_used;
        waiting += n.load.queued;
    }
    r.milli[SIM_SCALE_KV] = per(pages_used, pages);
    r.milli[SIM_SCALE_SLOTS] = per(slots_used, slots);
    r.milli[SIM_SCALE_QUEUE] = per(waiting, r.serving ? r.serving : 1);
    return r;
}

/* Whether the figure is beyond the bound for long enough; *since_ns is kept. */
static bool holds(int64_t *since_ns, bool is_beyond, int64_t for_ns, int64_t now_ns)
{
    if (!is_beyond) *since_ns = -1;
    else if (*since_ns < 0) *since_ns = now_ns;
    return is_beyond && now_ns - *since_ns >= for_ns;
}

int sim_scale_decide(sim_scale *s, const sim_scale_reading *r, int64_t now_ns)
{
    const sim_scale_rule *k = &s->rule;
    const bool is_known = r->serving > 0;
    const bool above = (is_known || k->up.signal == SIM_SCALE_QUEUE) && r->milli[k->up.signal] > k->up.milli,
               below = is_known && k->has_down && r->milli[k->down.signal] < k->down.milli;
    const bool grows = holds(&s->up_ns, above, k->up.for_ns, now_ns),
               shrinks = holds(&s->down_ns, below, k->down.for_ns, now_ns);
    if (r->nodes < k->least) return 1;
    if (grows && r->nodes < k->most) {
        s->up_ns = now_ns;
        return 1;
    }
    if (shrinks && !grows && r->nodes > k->least) {
        s->down_ns = now_ns;
        return -1;
    }
    return 0;
}

/* Starts the first node of the rule's model and role that is off. */
static void join_one(sim_cluster *c, const sim_scale_rule *k)
{
    for (uint32_t i = 0; i < sim_cluster_nodes(c); i++) {
        const sim_cluster_node n = sim_cluster_look(c, i);
        if (n.born == k->role && n.model == k->model && sim_cluster_join(c, k->role, n.number)) return;
    }
}

/* Lets the node with the least work leave, the last one where several are equal. */
static void drain_one(sim_cluster *c, const sim_scale_rule *k)
{
    sim_cluster_node least = {0};
    bool has_one = false;
    for (uint32_t i = 0; i < sim_cluster_nodes(c); i++) {
        const sim_cluster_node n = sim_cluster_look(c, i);
        if (n.role != k->role || n.model != k->model || sim_cluster_state_of(c, i) != SIM_CLUSTER_SERVING)
            continue;
        if (has_one && n.load.slots_used + n.load.queued > least.load.slots_used + least.load.queued)
            continue;
        least = n;
        has_one = true;
    }
    if (has_one) (void)sim_cluster_drain(c, least.born, least.number);
}

void sim_scale_look(sim_scale *s, sim_cluster *c)
{
    const sim_scale_reading r = sim_scale_read(c, s->rule.role, s->rule.model);
    const int step = sim_scale_decide(s, &r, sim_cluster_now_ns(c));
    if (step > 0) join_one(c, &s->rule);
    if (step < 0) drain_one(c, &s->rule);
}
