/* See scaler.h. */
#include "lab/simulate/scaler.h"

static void keep(tool_simulate_scaler *s, const tool_simulate_count_at *n)
{
    if (s->counts == TOOL_SIMULATE_COUNTS) {
        for (size_t i = 0; i < TOOL_SIMULATE_COUNTS / 2; i++) s->count[i] = s->count[2 * i];
        s->counts /= 2;
    }
    s->count[s->counts++] = *n;
}

static void count(tool_simulate_scaler *s, const sim_cluster *c, int64_t at_us)
{
    tool_simulate_count_at n = {.at_us = at_us};
    s->changes = sim_cluster_changes(c);
    for (uint32_t i = 0; i < sim_cluster_nodes(c); i++) {
        const sim_cluster_state state = sim_cluster_state_of(c, i);
        n.powered += state != SIM_CLUSTER_OFF;
        if (state != SIM_CLUSTER_SERVING) continue;
        if (sim_cluster_look(c, i).role == BT_ROLE_DECODE) n.decode++;
        else n.prefill++;
    }
    const uint32_t now[] = {n.prefill, n.decode};
    for (size_t i = 0; i < 2; i++) {
        if (now[i] > s->most[i]) s->most[i] = now[i];
        if (!s->counts || now[i] < s->least[i]) s->least[i] = now[i];
    }
    const tool_simulate_count_at *last = s->counts ? &s->count[s->counts - 1] : NULL;
    if (!last || last->prefill != n.prefill || last->decode != n.decode || last->powered != n.powered)
        keep(s, &n);
}

void tool_simulate_scaler_begin(tool_simulate_scaler *s, const tool_simulate_scale *scale,
                                const sim_cluster *c)
{
    *s = (tool_simulate_scaler){.scale = scale};
    for (size_t i = 0; i < scale->rules; i++) sim_scale_begin(&s->rule[i], &scale->rule[i]);
    count(s, c, 0);
}

void tool_simulate_scaler_look(tool_simulate_scaler *s, sim_cluster *c, int64_t at_us)
{
    for (size_t i = 0; i < s->scale->rules; i++) sim_scale_look(&s->rule[i], c);
    if (s->changes != sim_cluster_changes(c)) count(s, c, at_us);
}

static bool is_leaving(const sim_cluster *c, const tool_simulate_change *k)
{
    for (uint32_t i = 0; i < sim_cluster_nodes(c); i++) {
        const sim_cluster_node n = sim_cluster_look(c, i);
        if (n.born == k->role && n.number == k->number)
            return sim_cluster_state_of(c, i) == SIM_CLUSTER_LEAVING;
    }
    return false;
}

bool tool_simulate_scaler_change(sim_cluster *c, const tool_simulate_change *k, bool is_end)
{
    const bt_role other = k->as == BT_ROLE_DECODE ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
    if (k->as) sim_cluster_role(c, k->role, k->number, is_end ? other : k->as);
    else if (!is_end) (void)sim_cluster_drain(c, k->role, k->number);
    else if (!sim_cluster_join(c, k->role, k->number)) return !is_leaving(c, k);
    return true;
}
