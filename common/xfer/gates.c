/* A node's messages to all its gateways: when each is greeted, which gets the messages about an attempt, how
 * the node leaves. See gates.h. */
#include "xfer/gates.h"
#include "base/breakage.h"

#include <stdio.h>
#include <string.h>

static bool is_known(const bt_gates *g, uint32_t gate)
{
    return g->greetings[gate].state == BT_GREETING_KNOWN;
}

static bt_msg *to_gate(bt_gates *g, uint32_t gate, bt_msg_type type)
{
    bt_msg *m = g->send(g->brain, gate);
    bt_msg_begin(m, type);
    m->from = g->self;
    m->to = g->greetings[gate].peer;
    return m;
}

void bt_gates_hello(const bt_gates *g, bt_msg *m)
{
    m->type = BT_MSG_HELLO;
    memset(&m->to, 0, sizeof m->to);
    m->u.hello = *g->hello;
    m->u.hello.protocol = BT_PROTOCOL_VERSION;
    m->u.hello.role = g->role;
    m->u.hello.draining = g->draining;
    m->u.hello.load = g->load(g->brain);
}

static void greet(bt_gates *g, uint32_t gate, bt_greeting_says says)
{
    if (says == BT_GREETING_NOTHING) return;
    bt_msg *m = to_gate(g, gate, BT_MSG_HEARTBEAT);
    if (says == BT_GREETING_HELLO) bt_gates_hello(g, m);
    else m->u.heartbeat = (bt_msg_heartbeat){.load = g->load(g->brain), .draining = g->draining};
}

void bt_gates_tick(bt_gates *g, int64_t now_us)
{
    for (uint32_t i = 0; i < g->len && !g->started; i++) bt_greeting_init(&g->greetings[i], now_us);
    g->started = true;
    for (uint32_t i = 0; i < g->len; i++) greet(g, i, bt_greeting_tick(&g->greetings[i], &g->times, now_us));
}

void bt_gates_up(bt_gates *g, uint32_t gate, int64_t now_us)
{
    if (BT_BREAK(up_ignored)) return;
    if (gate < g->len && g->started) greet(g, gate, bt_greeting_up(&g->greetings[gate], &g->times, now_us));
}

void bt_gates_rest(bt_gates *g) { bt_greeting_rest(&g->greetings[0]); }

int64_t bt_gates_wake(bt_gates *g, int64_t now_us, int64_t heard_us)
{
    bt_greeting *l = &g->greetings[0];
    const int64_t said = bt_greeting_wake(l, &g->times, now_us);
    if (said && heard_us > l->heard_us) l->heard_us = heard_us;
    return said;
}

int64_t bt_gates_due_us(const bt_gates *g)
{
    int64_t due = g->started ? BT_STEP_NEVER : 0;
    for (uint32_t i = 0; i < g->len && g->started && !g->left; i++) {
        const int64_t t = bt_greeting_due_us(&g->greetings[i], &g->times);
        if (t < due) due = t;
    }
    return due;
}

bool bt_gates_is_welcome(const bt_gates *g)
{
    for (uint32_t i = 0; i < g->len; i++)
        if (is_known(g, i)) return true;
    return false;
}

static bt_gates_news on_role(bt_gates *g, uint32_t gate, bt_role wanted)
{
    bt_msg_role_answer *answer = &to_gate(g, gate, BT_MSG_ROLE_ANSWER)->u.role_answer;
    const bool begins = bt_role_answer(answer, &g->next_role, wanted, g->role, g->role_may, g->draining);
    return begins ? BT_GATES_DRAINS : BT_GATES_NOTHING;
}

bt_gates_news bt_gates_msg(bt_gates *g, uint32_t gate, const bt_msg *m, int64_t now_us)
{
    if (gate >= g->len) return BT_GATES_NOTHING;
    bt_greeting *l = &g->greetings[gate];
    if (!bt_incarnation_equal(&m->to, &g->self)) {
        greet(g, gate, bt_greeting_again(l, &g->times, now_us));
        return BT_GATES_MISSENT;
    }
    bool pass = false, refused = false;
    greet(g, gate, bt_greeting_msg(l, &g->times, m, now_us, &pass, &refused));
    if (refused) return BT_GATES_REFUSED;
    if (!pass) return BT_GATES_NOTHING;
    if (m->type == BT_MSG_ROLE) return on_role(g, gate, m->u.role.role);
    const bool is_owners = bt_incarnation_equal(&m->ref.owner, &m->from) && m->ref.attempt != 0;
    return is_owners ? BT_GATES_REQUEST : BT_GATES_UNEXPECTED;
}

bt_msg *bt_gates_to_owner(bt_gates *g, const bt_request_ref *ref, bt_msg_type type)
{
    for (uint32_t i = 0; i < g->len; i++) {
        if (!bt_greeting_is_owner(&g->greetings[i], &ref->owner)) continue;
        bt_msg *m = to_gate(g, i, type);
        m->ref = *ref;
        return m;
    }
    return NULL;
}

void bt_gates_failed(bt_gates *g, const bt_request_ref *ref, bt_err code, const char *text)
{
    bt_msg *m = bt_gates_to_owner(g, ref, BT_MSG_FAILED);
    if (!m) return;
    m->u.failed.code = code;
    snprintf(m->u.failed.text, sizeof m->u.failed.text, "%s", text);
}

void bt_gates_refused(bt_gates *g, const bt_request_ref *ref, bt_msg_type of, bt_err code,
                      uint32_t retry_after_ms, const char *text)
{
    bt_msg *m = bt_gates_to_owner(g, ref, BT_MSG_REFUSED);
    if (!m) return;
    m->u.refused.of = of;
    m->u.refused.code = code;
    m->u.refused.retry_after_ms = retry_after_ms;
    snprintf(m->u.refused.text, sizeof m->u.refused.text, "%s", text);
}

void bt_gates_drain(bt_gates *g, bt_role next)
{
    g->next_role = BT_BREAK(role_forgotten) ? (bt_role)0 : next;
    if (g->draining) return;
    g->draining = true;
    for (uint32_t i = 0; i < g->len; i++)
        if (is_known(g, i)) greet(g, i, BT_GREETING_HEARTBEAT);
}

void bt_gates_bye(bt_gates *g, const char *text)
{
    if (!text) text = g->next_role ? "it changes its role" : "drained";
    for (uint32_t i = 0; i < g->len; i++)
        if (is_known(g, i))
            snprintf(to_gate(g, i, BT_MSG_BYE)->u.bye.text, BT_MSG_MAX_TEXT_BYTES, "%s", text);
    g->left = true;
}
