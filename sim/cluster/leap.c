/* Steps of a decode node that change nothing but the answers' lengths. A token is taken by the gateway's
 * thread at its time, in order with all else, so that everybody's waiting is the same; brain and gateway are
 * told of it later. What a brain decides by tokens: who is behind and has to be said alive (so the first
 * token of a start is told at once), what is avoided (so a node that may end that tells all), resends and
 * deadlines (so the gateway must not be late). */
#include "sim/cluster/inner.h"

enum { LEAP_NS = 500000000 };

/* As a message on the wire. */
static uint64_t token_bytes(void)
{
    const bt_msg one = {.type = BT_MSG_TOKENS, .u.tokens.ids_len = 1};
    return sim_mail_bytes(&one);
}

/* When the gateway has taken a token of a step that ends now. */
static int64_t take(sim_cluster *c, const sim_member *m)
{
    static const sim_wire fast = {0};
    const uint64_t ns = sim_wire_short_ns(&m->out, &fast, &c->o.link, token_bytes());
    return sim_cluster_gateway_takes(c, c->now_ns + (int64_t)ns, c->o.token_ns);
}

/* Of an item that is not the first: the gateway takes a step's tokens one behind the other. */
static int64_t behind(const sim_cluster *c, uint32_t at) { return (int64_t)at * c->o.token_ns; }

/* More room for one that runs changes no batch where all run already. */
static bool is_joined(const sim_member *m)
{
    for (size_t i = 0; i < m->commands_len; i++)
        if (m->commands[i].is_start) return true;
    return false;
}

static bool is_quiet(const sim_cluster *c, const sim_member *m)
{
    if (c->o.is_full || m->cancels || m->prefilling || is_joined(m)) return false;
    if (m->items_len != m->decoding || m->leapt == SIM_LEAP_STEPS) return false;
    if (m->leapt && c->now_ns - m->leap_ns[0] >= LEAP_NS) return false;
    for (size_t i = 0; i < m->items_len; i++) {
        const sim_sequence *s = &m->sequences[m->items[i].slot];
        if (!s->has_told || !m->items[i].made || s->known + 1 >= s->max) return false;
    }
    return !sim_cluster_is_late(c) && !gw_brain_waits_for_token(c->gw, &m->self);
}

bool sim_cluster_leap(sim_cluster *c, sim_member *m)
{
    if (!is_quiet(c, m)) return false;
    m->leap_ns[m->leapt++] = take(c, m);
    c->gw_busy_ns += behind(c, (uint32_t)m->items_len - 1);
    for (size_t i = 0; i < m->items_len; i++) {
        sim_sequence *s = &m->sequences[m->items[i].slot];
        s->rows += m->items[i].kept;
        s->known++;
    }
    return true;
}

void sim_cluster_leap_tell(sim_cluster *c, sim_member *m, uint32_t at, uint32_t made)
{
    static const int32_t ids[SIM_LEAP_STEPS + 1];
    int64_t times[SIM_LEAP_STEPS + 1];
    const uint32_t slot = m->items[at].slot, len = m->leapt + made;
    sim_sequence *s = &m->sequences[slot];
    for (uint32_t i = 0; i < m->leapt; i++) times[i] = m->leap_ns[i] + behind(c, at);
    if (made) times[m->leapt] = take(c, m);
    dc_event ev = {.type = DC_EV_TOKENS};
    ev.u.tokens.slot = slot;
    ev.u.tokens.index = s->known - len;
    ev.u.tokens.len = len;
    ev.u.tokens.ids = ids;
    s->has_told = true;
    m->late_ns = times;
    sim_cluster_decode_tell(c, m, &ev);
    m->late_ns = NULL;
}

void sim_cluster_leap_end(sim_cluster *c, sim_member *m)
{
    for (uint32_t i = 0; m->leapt && i < m->items_len; i++)
        if (m->sequences[m->items[i].slot].is_busy) sim_cluster_leap_tell(c, m, i, 0);
    m->leapt = 0;
    sim_cluster_timer(c, m->place);
}
