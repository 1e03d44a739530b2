/* One place of a cluster: the process that runs there, and how long it is powered. See inner.h. */
#include "simulate/inner.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for what the node needs in its role, whichever role it had before. */
static bt_err make_room(const sim_cluster *c, sim_member *m, bt_fault *fault)
{
    const uint32_t slots = c->o.decode_slots;
    bool ok;
    if (m->role == BT_ROLE_PREFILL) {
        if (!m->prompts) m->prompts = calloc(c->o.prefill_slots, sizeof *m->prompts);
        if (!m->last_ns) m->last_ns = calloc(c->hosts, sizeof *m->last_ns);
        ok = m->prompts && m->last_ns;
    } else {
        if (!m->sequences) m->sequences = calloc(slots, sizeof *m->sequences);
        if (!m->capacity_pages) m->capacity_pages = calloc(slots, sizeof *m->capacity_pages);
        if (!m->leap_ns) m->leap_ns = calloc((size_t)c->o.gateways * SIM_LEAP_STEPS, sizeof *m->leap_ns);
        ok = m->sequences && m->capacity_pages && m->leap_ns;
    }
    return ok ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for node %s", m->id);
}

bt_err sim_cluster_begin_member(sim_cluster *c, sim_member *m, bt_fault *fault)
{
    m->life = ++c->lives;
    m->self = sim_cluster_incarnation(c, m->place, m->life);
    m->inbox_len = 0;
    m->is_alive = m->is_stopped = m->is_draining = m->has_left = false;
    m->wake_us = INT64_MAX;
    m->due_us = sim_us(c->now_ns);
    bt_err e = make_room(c, m, fault);
    if (e == BT_OK)
        e = m->role == BT_ROLE_PREFILL ? sim_cluster_prefill_new(c, m, fault)
                                       : sim_cluster_decode_new(c, m, fault);
    m->is_alive = e == BT_OK;
    c->changes++;
    if (e == BT_OK) sim_cluster_timer(c, m->place);
    return e;
}

void sim_cluster_drop_event(sim_cluster *c, const sim_event *e)
{
    if (e->what == SIM_WHEN_MSG) sim_mail_drop(c->mail, e->u.msg);
    if (e->what == SIM_WHEN_BLOCK) free(e->u.block);
    if (e->what == SIM_WHEN_SENT) free(e->u.sent);
}

sim_cluster_preempted sim_cluster_preempted_of(const sim_member *m)
{
    sim_cluster_preempted sum = m->preempted;
    if (!m->dc) return sum;
    const dc_counters *n = dc_brain_counters(m->dc);
    sum.all += n->preempted;
    sum.swapped += n->swapped_out;
    sum.recomputed += n->dropped;
    sum.given_up += n->given_up;
    return sum;
}

void sim_cluster_end_member(sim_cluster *c, sim_member *m)
{
    const sim_cost_work undone = sim_cluster_undone(c, m, c->now_ns);
    sim_cluster_give_back(m, &undone);
    if (m->is_alive) sim_cluster_wake(c, m);
    m->preempted = sim_cluster_preempted_of(m);
    pf_brain_free(m->pf);
    dc_brain_free(m->dc);
    m->pf = NULL;
    m->dc = NULL;
    m->step = (sim_cost_work){0};
    for (size_t i = 0; i < m->inbox_len; i++) sim_cluster_drop_event(c, &m->inbox[i]);
    m->inbox_len = 0;
    m->is_alive = m->is_stopped = m->is_loading = m->is_draining = m->has_left = false;
}

sim_member *sim_cluster_member(sim_cluster *c, bt_role role, uint32_t node)
{
    const uint32_t first = role == BT_ROLE_PREFILL ? 0 : c->prefills;
    const uint32_t place = first + node;
    return place < c->hosts && c->members[place].born == role ? &c->members[place] : NULL;
}

/* ---- how long a node is powered ------------------------------------------------------------------ */

static size_t index_of(bt_role role) { return role == BT_ROLE_DECODE; }

void sim_cluster_turn_page(sim_cluster *c, sim_member *m)
{
    if (m->is_on && c->now_ns > m->since_ns) m->powered_ns[index_of(m->role)] += c->now_ns - m->since_ns;
    if (m->since_ns < c->now_ns) m->since_ns = c->now_ns;
}

int64_t sim_cluster_powered_ns(const sim_cluster *c, uint32_t host, bt_role role, int64_t until_ns)
{
    const sim_member *m = &c->members[host];
    int64_t ns = m->powered_ns[index_of(role)];
    if (m->is_on && m->role == role && until_ns > m->since_ns) ns += until_ns - m->since_ns;
    return ns;
}
