/* The work that all places do alike: sending messages, setting timers, and counting work. See inner.h. */
#include "base/rng.h"
#include "device/time.h"
#include "simulate/inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bt_random sim_cluster_random(sim_cluster *c, bool is_looked_at)
{
    if (!is_looked_at) return (bt_random){{0}};
    const uint64_t n = 2 * c->draws++;
    return (bt_random){{bt_rng_u64(c->o.seed, n), bt_rng_u64(c->o.seed, n + 1)}};
}

void sim_cluster_break(sim_cluster *c, bt_err e, const char *fmt, ...)
{
    va_list ap;
    if (c->broken < 0) return;
    c->broken = e;
    va_start(ap, fmt);
    (void)vsnprintf(c->fault.text, sizeof c->fault.text, fmt, ap);
    va_end(ap);
}

void sim_cluster_post(sim_cluster *c, const sim_event *e)
{
    sim_event one = *e;
    if (!sim_is_gateway(c, one.to) && one.what != SIM_WHEN_CALLER) one.life = c->members[one.to].life;
    if (sim_calendar_post(&c->calendar, &one) < 0) sim_cluster_break(c, BT_ENOMEM, "out of memory");
}

void sim_cluster_account(sim_member *m, const sim_cost_work *w)
{
    sim_cost_work *done = &m->done[m->role == BT_ROLE_DECODE];
    done->ns += w->ns;
    done->ops += w->ops;
    done->bytes += w->bytes;
    m->runs++;
}

sim_cost_work sim_cluster_end_of(const sim_cost_work *w, int64_t left_ns)
{
    if (left_ns <= 0 || !w->ns) return (sim_cost_work){0};
    const uint64_t ns = (uint64_t)left_ns < w->ns ? (uint64_t)left_ns : w->ns;
    return (sim_cost_work){ns, bt_time_scale(w->ops, ns, w->ns), bt_time_scale(w->bytes, ns, w->ns)};
}

void sim_cluster_take_off(sim_cost_work *from, const sim_cost_work *w)
{
    *from = (sim_cost_work){from->ns - w->ns, from->ops - w->ops, from->bytes - w->bytes};
}

void sim_cluster_give_back(sim_member *m, const sim_cost_work *w)
{
    sim_cluster_take_off(&m->done[m->role == BT_ROLE_DECODE], w);
}

static void add(sim_cost_work *to, const sim_cost_work *w)
{
    *to = (sim_cost_work){to->ns + w->ns, to->ops + w->ops, to->bytes + w->bytes};
}

sim_cost_work sim_cluster_undone(const sim_cluster *c, const sim_member *m, int64_t at_ns)
{
    sim_cost_work sum = {0}, one;
    for (uint32_t i = 0; m->pf && i < c->o.prefill_slots; i++) {
        one = sim_cluster_end_of(&m->prompts[i].work, m->prompts[i].end_ns - at_ns);
        add(&sum, &one);
    }
    one = sim_cluster_end_of(&m->step, m->step_end_ns - at_ns);
    if (m->dc) add(&sum, &one);
    return sum;
}

void sim_cluster_count_rows(sim_cluster *c, sim_member *m, uint64_t number, uint32_t begin, uint32_t count)
{
    uint32_t *begun = &c->begun[number];
    const uint32_t end = begin + count;
    if (*begun > begin) m->again_rows += (*begun < end ? *begun : end) - begin;
    if (*begun < end) *begun = end;
}

bool sim_cluster_make_room(void **array, size_t *cap, size_t len, size_t size)
{
    if (len < *cap) return true;
    const size_t more = *cap ? *cap * 2 : 64;
    void *all = reallocarray(*array, more, size);
    if (!all) return false;
    *array = all;
    *cap = more;
    return true;
}

bt_incarnation sim_cluster_incarnation(const sim_cluster *c, uint32_t place, uint64_t life)
{
    bt_incarnation i;
    const uint64_t a = bt_rng_u64(c->o.seed ^ life, place), b = bt_rng_u64(a, life);
    memcpy(i.bytes, &a, 8);
    memcpy(i.bytes + 8, &b, 4);
    memcpy(i.bytes + 12, &place, 4);
    i.bytes[0] |= 1;
    return i;
}

/* The last bytes of an incarnation are its place, so that no search is needed. */
uint32_t sim_cluster_place(const sim_cluster *c, const bt_incarnation *who)
{
    uint32_t place;
    memcpy(&place, who->bytes + 12, sizeof place);
    return place < c->hosts && c->members[place].is_alive &&
                   bt_incarnation_equal(&c->members[place].self, who)
               ? place
               : UINT32_MAX;
}

/* The message as a codec would make it; a decoded message borrows from c->buf. */
static bool travel(sim_cluster *c, bt_msg *ret, const bt_msg *m)
{
    const size_t max = bt_msg_encoded_max(m);
    size_t len = 0;
    bt_fault fault;
    if (max > c->frame_cap) {
        uint8_t *frame = realloc(c->frame, max);
        if (!frame) return false;
        c->frame = frame;
        c->frame_cap = max;
    }
    if (bt_msg_encode(&len, c->frame, c->frame_cap, m, &fault) < 0 ||
        bt_msg_decode(ret, &c->buf, c->frame, len, &fault) < 0) {
        sim_cluster_break(c, BT_EFORMAT, "the message %s cannot be sent: %.200s", bt_msg_type_name(m->type),
                          fault.text);
        return false;
    }
    return true;
}

static bool is_kept(const sim_cluster *c, const sim_event *e)
{
    const bool is_tokens = e->u.msg->type == BT_MSG_TOKENS, is_ack = e->u.msg->type == BT_MSG_TOKENS_ACK;
    return c->keeps_for != SIM_GATEWAY &&
           ((is_tokens && e->from == c->keeps_for) || (is_ack && e->to == c->keeps_for));
}

static void keep(sim_cluster *c, bt_msg *m)
{
    if (c->kept_len == c->kept_cap) {
        const size_t cap = c->kept_cap ? c->kept_cap * 2 : 64;
        bt_msg **all = reallocarray(c->kept, cap, sizeof *all);
        if (!all) {
            sim_mail_drop(c->mail, m);
            sim_cluster_break(c, BT_ENOMEM, "out of memory");
            return;
        }
        c->kept = all;
        c->kept_cap = cap;
    }
    c->kept[c->kept_len++] = m;
}

static void note_late(sim_member *m, bt_msg *msg)
{
    *sim_mail_next(msg) = NULL;
    if (m->sent) *sim_mail_next(m->sent_last) = msg;
    else m->sent = msg;
    m->sent_last = msg;
}

/* Nearly always the first: a gateway takes them in this order. */
void sim_cluster_late_came(sim_member *m, bt_msg *msg)
{
    bt_msg *before = NULL;
    if (msg->u.tokens.ids_len < 2) return;
    for (bt_msg *one = m->sent; one != msg; one = *sim_mail_next(one)) before = one;
    *(before ? sim_mail_next(before) : &m->sent) = *sim_mail_next(msg);
    if (m->sent_last == msg) m->sent_last = before;
}

static void post_msg(sim_cluster *c, sim_event *e, const bt_msg *m, const int64_t *times, size_t len)
{
    bt_msg decoded = {0};
    const bt_msg *sent = m;
    c->digest = bt_rng_u64(c->digest ^ (uint64_t)c->now_ns,
                           (uint64_t)m->type << 40 ^ (uint64_t)e->from << 20 ^ e->to);
    if (m->type == BT_MSG_RESERVE || m->type == BT_MSG_PREFILL || m->type == BT_MSG_REFUSED)
        c->choices = bt_rng_u64(c->choices ^ m->ref.number << 8 ^ m->ref.attempt,
                                (uint64_t)m->type << 40 ^ (uint64_t)e->from << 20 ^ e->to);
    if (c->o.is_checked) {
        if (!travel(c, &decoded, m)) return;
        sent = &decoded;
    }
    e->what = SIM_WHEN_MSG;
    e->u.msg = sim_mail_copy(c->mail, sent, times, len);
    if (!e->u.msg) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory");
        return;
    }
    if (is_kept(c, e)) {
        keep(c, e->u.msg);
        return;
    }
    if (len > 1) note_late(&c->members[e->from], e->u.msg);
    sim_cluster_post(c, e);
}

int64_t sim_cluster_gateway_takes(sim_gate *g, int64_t at_ns, int64_t cpu_ns)
{
    if (at_ns < g->busy_ns) at_ns = g->busy_ns;
    g->cpu_ns += (uint64_t)cpu_ns;
    return g->busy_ns = at_ns + cpu_ns;
}

void sim_cluster_send(sim_cluster *c, uint32_t from, uint32_t to, const bt_msg *m, bool is_bulk,
                      int64_t not_before_ns)
{
    static const sim_wire fast = {0};
    sim_gate *gate = sim_is_gateway(c, to) ? sim_gate_at(c, to) : NULL;
    const sim_wire *out = sim_is_gateway(c, from) ? &fast : &c->members[from].out,
                   *in = gate ? &fast : &c->members[to].in;
    sim_event e = {.from = from, .to = to, .is_bulk = is_bulk};
    e.at_ns = c->now_ns + (int64_t)sim_wire_short_ns(out, in, &c->o.link, sim_mail_bytes(m));
    if (e.at_ns < not_before_ns) e.at_ns = not_before_ns;
    if (gate && m->type != BT_MSG_HEARTBEAT)
        e.at_ns = sim_cluster_gateway_takes(gate, e.at_ns, c->o.token_ns);
    else if (gate && e.at_ns < gate->busy_ns) e.at_ns = gate->busy_ns; /* and holds up nobody */
    post_msg(c, &e, m, NULL, 0);
}

void sim_cluster_send_late(sim_cluster *c, uint32_t from, uint32_t to, const bt_msg *m, const int64_t *times,
                           size_t len)
{
    sim_event e = {.from = from, .to = to, .at_ns = times[len - 1]};
    post_msg(c, &e, m, times, len);
}

void sim_cluster_timer(sim_cluster *c, uint32_t place)
{
    sim_gate *g = sim_is_gateway(c, place) ? sim_gate_at(c, place) : NULL;
    const int64_t due = g ? g->due_us : c->members[place].due_us;
    int64_t *wake = g ? &g->wake_us : &c->members[place].wake_us;
    if (due >= *wake) return; /* the one in the calendar comes first, and asks again */
    *wake = due;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_WAKE, .to = place, .at_ns = due * 1000,
                                     .run = (uint64_t)due});
}

/* ---- nodes that leave or change their role -------------------------------------------------------- */

void sim_cluster_drains(sim_cluster *c, sim_member *m)
{
    m->is_draining = true;
    c->changes++;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_DRAIN_OVER, .to = m->place,
                                     .at_ns = c->now_ns + c->o.drain_ns});
}

void sim_cluster_exits(sim_cluster *c, sim_member *m, bt_role next)
{
    m->has_left = true;
    m->next_role = next;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_LEFT, .to = m->place, .at_ns = c->now_ns});
}

void sim_cluster_role_answered(sim_cluster *c, const gw_action *a)
{
    if (a->u.role_answer.code == 0) return;
    if (!c->refused_roles++)
        (void)snprintf(c->refused_why, sizeof c->refused_why, "%s: %.150s",
                       c->members[a->u.role_answer.token - 1].id, a->u.role_answer.text);
}
