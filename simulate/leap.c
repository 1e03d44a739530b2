/* Steps of a decode node that change nothing but the answers' lengths. The gateway's thread takes a token at
 * its time, in order with all else, so that all waits are the same; the brains of node and gateway get it
 * later. A brain decides three things by tokens: which node is alive (so the first token of a start goes out
 * at once), which node is avoided (so all tokens go out before an event that may change that), and resends
 * and deadlines (so the gateway must not be late). */
#include "simulate/inner.h"

enum { LEAP_NS = 500000000 };

/* When a gateway has taken a token of a step that ends now. */
static int64_t take(const sim_cluster *c, const sim_member *m, sim_gate *g)
{
    static const sim_wire fast = {0};
    const uint64_t ns = sim_wire_short_ns(&m->out, &fast, &c->o.link, sim_mail_token_bytes());
    return sim_cluster_gateway_takes(g, c->now_ns + (int64_t)ns, c->o.token_ns);
}

/* How late an item is that is not its gateway's first: a gateway takes a step's tokens one behind the other.
 */
static int64_t behind(const sim_cluster *c, uint32_t rank) { return (int64_t)rank * c->o.token_ns; }

static sim_gate *gate_of(const sim_cluster *c, const sim_member *m, uint32_t at)
{
    return &c->gates[m->sequences[m->items[at].slot].gate];
}

/* When its gateway had taken the first token of each step that was leapt. */
static const int64_t *leapt_at(const sim_cluster *c, const sim_member *m, uint32_t at)
{
    return &m->leap_ns[(gate_of(c, m, at) - sim_gates_of(c, m)) * SIM_LEAP_STEPS];
}

static bool waits_for_token(const sim_cluster *c, const sim_member *m)
{
    for (uint32_t i = 0; i < c->o.gateways; i++)
        if (gw_brain_waits_for_token(sim_gates_of(c, m)[i].brain, &m->self)) return true;
    return false;
}

/* More room for a running sequence changes no batch where all sequences run already. */
static bool is_joined(const sim_member *m)
{
    for (size_t i = 0; i < m->commands_len; i++)
        if (m->commands[i].is_start) return true;
    return false;
}

static bool is_quiet(const sim_cluster *c, const sim_member *m)
{
    if (c->o.is_full || m->cancels || m->prefilling || is_joined(m)) return false;
    /* One that waits here for the memory of another gateway's request, or for window pages, which go back
     * with tokens, gets its turn in any step. */
    if ((c->o.gateways > 1 || m->kv.window) && dc_brain_load(m->dc).queued > 0) return false;
    if (m->items_len != m->decoding || m->leapt == SIM_LEAP_STEPS) return false;
    if (m->leapt && c->now_ns - leapt_at(c, m, 0)[0] >= LEAP_NS) return false;
    for (size_t i = 0; i < m->items_len; i++) {
        const sim_sequence *s = &m->sequences[m->items[i].slot];
        if (!s->has_told || !m->items[i].made || s->known + 1 >= s->max) return false;
    }
    return !sim_cluster_is_late(c, m) && !waits_for_token(c, m);
}

bool sim_cluster_leap(sim_cluster *c, sim_member *m)
{
    if (!is_quiet(c, m)) return false;
    for (uint32_t i = 0; i < c->o.gateways; i++) {
        sim_gate *g = &sim_gates_of(c, m)[i];
        if (!m->gate_items[i]) continue;
        m->leap_ns[i * SIM_LEAP_STEPS + m->leapt] = take(c, m, g);
        g->busy_ns += behind(c, m->gate_items[i] - 1);
        g->cpu_ns += (uint64_t)behind(c, m->gate_items[i] - 1);
    }
    m->leapt++;
    for (size_t i = 0; i < m->items_len; i++) {
        sim_sequence *s = &m->sequences[m->items[i].slot];
        s->rows += m->items[i].kept;
        s->known++;
    }
    return true;
}

/* Sends a sequence's tokens from `index` on; the gateway takes them at these times. */
static void tell(sim_cluster *c, sim_member *m, uint32_t slot, uint32_t index, const int64_t *times,
                 uint32_t len)
{
    static const int32_t ids[SIM_LEAP_STEPS + 1];
    dc_event ev = {.type = DC_EV_TOKENS};
    ev.u.tokens.slot = slot;
    ev.u.tokens.index = index;
    ev.u.tokens.len = len;
    ev.u.tokens.ids = ids;
    m->late_ns = times;
    m->late_index = index;
    m->late_len = len;
    sim_cluster_decode_tell(c, m, &ev);
    m->late_ns = NULL;
}

/* The times at which its gateway took the tokens of item `at`. */
static void times_of(int64_t *ret, const sim_cluster *c, const sim_member *m, uint32_t at)
{
    const int64_t *first = leapt_at(c, m, at);
    for (uint32_t i = 0; i < m->leapt; i++) ret[i] = first[i] + behind(c, m->items[at].rank);
}

void sim_cluster_leap_tell(sim_cluster *c, sim_member *m, uint32_t at, uint32_t made)
{
    int64_t times[SIM_LEAP_STEPS + 1];
    const uint32_t slot = m->items[at].slot, len = m->leapt + made;
    times_of(times, c, m, at);
    if (made) times[m->leapt] = take(c, m, gate_of(c, m, at));
    m->sequences[slot].has_told = true;
    tell(c, m, slot, m->sequences[slot].known - len, times, len);
}

void sim_cluster_leap_end(sim_cluster *c, sim_member *m)
{
    for (uint32_t i = 0; m->leapt && i < m->items_len; i++)
        if (m->sequences[m->items[i].slot].is_busy) sim_cluster_leap_tell(c, m, i, 0);
    m->leapt = 0;
    sim_cluster_timer(c, m->place);
}

/* ---- a node that halts --------------------------------------------------------------------------- */

/* Delivers messages that the node sent long ago: to the gateway now, and where the answer had come too, to
 * the node. */
static void deliver(sim_cluster *c, sim_member *m, bool is_answered)
{
    c->keeps_for = is_answered ? m->place : SIM_GATEWAY;
    const size_t tokens = c->kept_len;
    for (size_t i = 0; i < tokens; i++) {
        sim_gate *g = &c->gates[sim_cluster_gate_of(c, &c->kept[i]->to)];
        sim_cluster_gateway_step(c, g, &(gw_event){.type = GW_EV_MSG, .u.msg = c->kept[i]});
        sim_mail_drop(c->mail, c->kept[i]);
    }
    c->keeps_for = SIM_GATEWAY;
    for (size_t i = tokens; i < c->kept_len; i++) {
        dc_event ev = {.type = DC_EV_CONTROL};
        ev.u.control.msg = c->kept[i];
        ev.u.control.gateway = sim_cluster_gate_of(c, &c->kept[i]->from) - sim_first_gate(c, m);
        sim_cluster_decode_tell(c, m, &ev);
        sim_mail_drop(c->mail, c->kept[i]);
    }
    c->kept_len = 0;
}

/* Tokens of a sequence that came, or come, to its gateway one by one at these times. */
typedef struct late {
    const int64_t *times;
    uint32_t len;
    bt_msg *msg; /* the message under way; NULL: none was sent */
    uint32_t slot, index;
} late;

/* Tokens [from, from + len) travel. */
static void pass(sim_cluster *c, sim_member *m, const late *l, uint32_t from, uint32_t len)
{
    if (!l->msg) {
        tell(c, m, l->slot, l->index + from, l->times + from, len);
        return;
    }
    bt_msg part; /* a message under way is no longer than its type needs */
    memcpy(&part, l->msg, bt_msg_bytes(l->msg->type));
    part.u.tokens.first_index += from;
    part.u.tokens.ids += from;
    part.u.tokens.ids_len = len;
    const uint32_t to = c->gates[sim_cluster_gate_of(c, &l->msg->to)].place;
    sim_cluster_send_late(c, m->place, to, &part, l->times + from, len);
}

/* Settles the tokens that are acknowledged, those that the gateway has, and those on their way. Returns the
 * time of the last that the gateway has; 0: none. */
static int64_t settle(sim_cluster *c, sim_member *m, const late *l)
{
    static const sim_wire fast = {0};
    const bt_msg ack = {.type = BT_MSG_TOKENS_ACK};
    const int64_t back = (int64_t)sim_wire_short_ns(&fast, &m->in, &c->o.link, sim_mail_bytes(&ack));
    int64_t last = 0;
    uint32_t done = 0;
    while (done < l->len && l->times[done] + back <= c->now_ns) last = l->times[done++];
    c->keeps_for = m->place;
    if (done) pass(c, m, l, 0, done);
    deliver(c, m, true);
    for (; done < l->len; done++) {
        const bool is_there = l->times[done] <= c->now_ns;
        c->keeps_for = is_there ? m->place : SIM_GATEWAY;
        pass(c, m, l, done, 1);
        deliver(c, m, false);
        if (is_there) last = l->times[done];
    }
    return last;
}

static void settle_sent(sim_cluster *c, sim_member *m, uint64_t number, int64_t last_ns[BT_GATES_MAX])
{
    for (bt_msg *one = m->sent, *next; one; one = next) {
        next = *sim_mail_next(one);
        if (number && one->ref.number != number) continue;
        sim_cluster_late_came(m, one);
        const late all = {.times = sim_mail_times(one), .len = one->u.tokens.ids_len - 1, .msg = one};
        int64_t *last = &last_ns[sim_cluster_gate_of(c, &one->to) - sim_first_gate(c, m)];
        const int64_t ns = settle(c, m, &all);
        if (ns > *last) *last = ns;
        sim_mail_cut(one, all.len, 1); /* its event is the last token's */
    }
}

static void settle_leapt(sim_cluster *c, sim_member *m, int64_t last_ns[BT_GATES_MAX])
{
    for (uint32_t i = 0; m->leapt && i < m->items_len; i++) {
        int64_t times[SIM_LEAP_STEPS + 1];
        const uint32_t slot = m->items[i].slot;
        if (!m->sequences[slot].is_busy) continue;
        times_of(times, c, m, i);
        const late all = {.times = times, .len = m->leapt, .slot = slot,
                          .index = m->sequences[slot].known - m->leapt};
        int64_t *last = &last_ns[gate_of(c, m, i) - sim_gates_of(c, m)];
        const int64_t ns = settle(c, m, &all);
        if (ns > *last) *last = ns;
    }
    m->leapt = 0;
}

void sim_cluster_leap_settle_of(sim_cluster *c, sim_member *m, uint64_t number)
{
    int64_t last_ns[BT_GATES_MAX] = {0}, heard_us[BT_GATES_MAX] = {0};
    if (!m->leapt && !m->sent) return;
    c->is_settling = true;
    for (uint32_t i = 0; i < c->o.gateways; i++) {
        const gw_node *n = gw_registry_find(gw_brain_registry(sim_gates_of(c, m)[i].brain), &m->self);
        if (n) heard_us[i] = n->heard_us;
    }
    settle_sent(c, m, number, last_ns);
    settle_leapt(c, m, last_ns);
    for (uint32_t i = 0; i < c->o.gateways; i++) {
        const int64_t us = sim_us(last_ns[i]);
        if (us) gw_brain_heard(sim_gates_of(c, m)[i].brain, &m->self, us > heard_us[i] ? us : heard_us[i]);
    }
    sim_cluster_timer(c, m->place);
    c->is_settling = false;
}

/* Whether tokens of that request are leapt, or under way several as one. */
static bool holds(const sim_member *m, uint64_t number)
{
    for (uint32_t i = 0; m->leapt && i < m->items_len; i++) {
        const sim_sequence *s = &m->sequences[m->items[i].slot];
        if (s->is_busy && s->number == number) return true;
    }
    for (bt_msg *one = m->sent; one; one = *sim_mail_next(one))
        if (one->ref.number == number) return true;
    return false;
}

void sim_cluster_leap_left(sim_cluster *c, sim_member *m, uint64_t number)
{
    if (holds(m, number)) sim_cluster_leap_settle_of(c, m, number);
}

void sim_cluster_leap_settle(sim_cluster *c, sim_member *m) { sim_cluster_leap_settle_of(c, m, 0); }
