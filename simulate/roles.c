/* Nodes that join, leave and change their role, each through the events and actions of its brain. See
 * cluster.h. */
#include "simulate/inner.h"

#include <stdio.h>

/* ---- a process begins and ends ------------------------------------------------------------------- */

static int64_t load_ns(const sim_cluster *c, const sim_member *m)
{
    if (c->o.start_ns >= 0) return c->o.start_ns;
    return (int64_t)bt_link_ns(&c->o.link, m->group->cost->weight_bytes);
}

static void load(sim_cluster *c, sim_member *m)
{
    m->is_loading = true;
    m->life = ++c->lives; /* distinguishes it from the process before, for events in the calendar */
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_START, .to = m->place,
                                     .at_ns = c->now_ns + load_ns(c, m)});
}

void sim_cluster_loaded(sim_cluster *c, sim_member *m)
{
    bt_fault fault = {""};
    m->is_loading = false;
    const bt_err e = sim_cluster_begin_member(c, m, &fault);
    if (e < 0) sim_cluster_break(c, e, "%s", fault.text);
}

/* A process's connections end behind its last messages. */
void sim_cluster_left(sim_cluster *c, sim_member *m)
{
    const bt_role next = m->next_role;
    for (uint32_t i = 0; i < c->o.gateways; i++) {
        const sim_gate *g = &sim_gates_of(c, m)[i];
        int64_t at_ns = c->now_ns + (int64_t)c->o.link.latency_ns;
        if (at_ns < g->busy_ns) at_ns = g->busy_ns;
        sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_CUT, .to = g->place, .from = m->place,
                                         .run = m->life, .at_ns = at_ns + 1});
    }
    sim_cluster_end_member(c, m);
    sim_cluster_turn_page(c, m);
    c->changes++;
    if (next) {
        m->role = next;
        load(c, m);
    } else {
        m->is_on = false;
    }
}

void sim_cluster_signal(sim_cluster *c, sim_member *m, bool is_over)
{
    if (m->dc) sim_cluster_leap_end(c, m);
    sim_cluster_wake(c, m);
    if (!is_over && !m->is_draining) sim_cluster_drains(c, m);
    if (m->pf) sim_cluster_prefill_step(c, m, &(pf_event){.type = is_over ? PF_EV_DRAIN_OVER : PF_EV_DRAIN});
    else sim_cluster_decode_step(c, m, &(dc_event){.type = is_over ? DC_EV_DRAIN_OVER : DC_EV_DRAIN});
}

/* ---- what the caller asks for -------------------------------------------------------------------- */

bool sim_cluster_join(sim_cluster *c, bt_role role, uint32_t node)
{
    sim_member *m = sim_cluster_member(c, role, node);
    if (!m || m->is_on) return false;
    sim_cluster_turn_page(c, m);
    m->is_on = true;
    m->role = m->born;
    c->changes++;
    load(c, m);
    return true;
}

bool sim_cluster_drain(sim_cluster *c, bt_role role, uint32_t node)
{
    sim_member *m = sim_cluster_member(c, role, node);
    if (!m || !m->is_alive || m->is_draining) return false;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_DRAIN, .to = m->place, .at_ns = c->now_ns});
    return true;
}

void sim_cluster_role(sim_cluster *c, bt_role role, uint32_t node, bt_role as)
{
    const sim_member *m = sim_cluster_member(c, role, node);
    if (!m) return;
    gw_event ev = {.type = GW_EV_ROLE, .u.role = {.role = as, .token = m->place + 1}};
    (void)snprintf(ev.u.role.node_id, sizeof ev.u.role.node_id, "%s", m->id);
    sim_cluster_gateway_step(c, sim_gates_of(c, m), &ev);
}

uint32_t sim_cluster_refused_roles(const sim_cluster *c, const char **ret_why)
{
    *ret_why = c->refused_why;
    return c->refused_roles;
}
uint64_t sim_cluster_changes(const sim_cluster *c) { return c->changes; }

sim_cluster_state sim_cluster_state_of(const sim_cluster *c, uint32_t host)
{
    const sim_member *m = &c->members[host];
    if (!m->is_on) return SIM_CLUSTER_OFF;
    if (m->is_loading) return SIM_CLUSTER_LOADING;
    if (!m->is_alive) return SIM_CLUSTER_DEAD;
    return m->is_draining || m->has_left ? SIM_CLUSTER_LEAVING : SIM_CLUSTER_SERVING;
}
