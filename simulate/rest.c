/* Heartbeats that change nothing, which are most of a quiet hour's messages. Once the gateway has heard a
 * node that is READY, both rest (gw_brain_rest): no timer, no message. Whatever could end the hearing wakes
 * both first, as if all heartbeats until now had come: a node's end or halt, its leave-taking, a slower link,
 * a gateway that is late. A heartbeat also carries a load; choices of nodes look only at its number of slots,
 * which never changes. Nodes of several gateways do not rest: each gateway hears them by itself.
 */
#include "simulate/inner.h"
#include "xfer/greeting.h"

static uint64_t beat_bytes(void)
{
    const bt_msg one = {.type = BT_MSG_HEARTBEAT};
    return sim_mail_bytes(&one);
}

void sim_cluster_rest(sim_cluster *c, uint32_t place)
{
    sim_member *m = &c->members[place];
    const bool may = m->is_alive && !m->is_stopped && !m->is_draining && !m->rests && m->out.slow <= 1;
    if (c->o.is_full || c->o.gateways > 1 || !may || sim_cluster_is_late(c, m)) return;
    sim_gate *g = sim_gates_of(c, m);
    if (!gw_brain_rest(g->brain, &m->self)) return;
    m->rests = true;
    g->resting++;
    if (m->pf) pf_brain_rest(m->pf);
    else dc_brain_rest(m->dc);
    m->due_us = m->pf ? pf_brain_due_us(m->pf) : dc_brain_due_us(m->dc);
}

/* When the last heartbeat that has arrived was heard. */
static int64_t heard(const sim_cluster *c, int64_t said_us, int64_t every_us, uint64_t wire_ns)
{
    const int64_t at_ns = said_us * 1000 + (int64_t)wire_ns;
    return sim_us(at_ns < c->now_ns ? at_ns : at_ns - every_us * 1000);
}

void sim_cluster_wake(sim_cluster *c, sim_member *m)
{
    static const sim_wire fast = {0};
    const int64_t now_us = sim_us(c->now_ns + 999), /* a heartbeat that is due now has not been sent */
        gw_every = c->o.gw.heartbeat_us, every = m->pf ? c->o.pf.heartbeat_us : c->o.dc.heartbeat_us;
    sim_gate *g = sim_gates_of(c, m);
    const gw_node *n = gw_registry_find(gw_brain_registry(g->brain), &m->self);
    if (!m->rests) return;
    m->rests = false;
    g->resting--;
    const int64_t gw_said =
        n ? bt_greeting_next_beat_us(n->heartbeat_due_us, gw_every, now_us) - gw_every : 0;
    const int64_t gw_heard =
        heard(c, gw_said, gw_every, sim_wire_short_ns(&fast, &m->in, &c->o.link, beat_bytes()));
    const int64_t said =
        m->pf ? pf_brain_wake(m->pf, now_us, gw_heard) : dc_brain_wake(m->dc, now_us, gw_heard);
    const int64_t own = heard(c, said, every, sim_wire_short_ns(&m->out, &fast, &c->o.link, beat_bytes()));
    (void)gw_brain_wake(g->brain, &m->self, now_us);
    if (n && said && own > n->heard_us) gw_brain_heard(g->brain, &m->self, own);
    m->due_us = m->pf ? pf_brain_due_us(m->pf) : dc_brain_due_us(m->dc);
    g->due_us = gw_brain_due_us(g->brain);
    sim_cluster_timer(c, m->place);
    sim_cluster_timer(c, g->place);
}

void sim_cluster_wake_late(sim_cluster *c)
{
    for (sim_gate *g = c->gates; g < c->gates + c->gates_len; g++)
        for (uint32_t i = 0; g->resting && sim_gate_is_late(c, g) && i < c->hosts; i++)
            if (sim_gates_of(c, &c->members[i]) == g) sim_cluster_wake(c, &c->members[i]);
}
