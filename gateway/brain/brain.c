/* Decides what the gateway does: see brain.h. This file has the nodes, their roles and the step; request.h
 * has the life of one request. Tables are looked at in their own order, so that a run depends on its events
 * alone. */
#include "gateway/brain/brain.h"
#include "base/breakage.h"
#include "xfer/greeting.h"
#include "gateway/brain/act.h"
#include "gateway/brain/request.h"
#include "gateway/brain/state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBE_MOST_US = 8000000 };

gw_config gw_config_defaults(void)
{
    return (gw_config){
        .policy = GW_POLICY_LEAST_LOAD,
        .queue_max = 64,
        .active_max = 4096,
        .nodes_max = 1024,
        .lease_ms = 10000,
        .heartbeat_us = 500000,
        .suspect_us = 2000000,
        .gone_us = 6000000,
        .cut_us = 800000,
        .forget_us = 60000000,
        .resend_us = 500000,
        .recovery_us = 30000000,
        .queue_us = 600000000,
        .answer_us = 5000000,
        .prefill_us = 30000000,
        .prefill_token_us = 100000,
        .progress_us = 30000000,
        .role_us = 5000000,
        .grace_us = 1000000,
    };
}

const char *gw_fail_name(gw_fail_kind k)
{
    switch (k) {
    case GW_FAIL_NO_NODE: return "no_node";
    case GW_FAIL_OVERLOADED: return "overloaded";
    case GW_FAIL_NODE_LOST: return "node_lost";
    case GW_FAIL_TIMEOUT: return "timeout";
    case GW_FAIL_TOO_LONG: return "too_long";
    case GW_FAIL_REFUSED: return "refused";
    case GW_FAIL_CANCELLED: return "cancelled";
    case GW_FAIL_BAD: return "bad";
    case GW_FAIL_UNKNOWN_NODE: return "unknown_node";
    case GW_FAIL_NOT_FINITE: return "not_finite";
    case GW_FAILS: break;
    }
    return "?";
}

/* ---- roles --------------------------------------------------------------------------------------
 * Asking a node to serve as another role: GW_EV_ROLE in, one GW_DO_ROLE_ANSWER out. ROLE is sent again until
 * the node answers or role_us is over; at most GW_ROLES_MAX nodes are asked at a time. */

static void answer_role(gw_brain *b, uint64_t token, int32_t code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void answer_role(gw_brain *b, uint64_t token, int32_t code, const char *fmt, ...)
{
    gw_action *a = gw_act(b, GW_DO_ROLE_ANSWER);
    a->u.role_answer.token = token;
    a->u.role_answer.code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->u.role_answer.text, sizeof a->u.role_answer.text, fmt, ap);
    va_end(ap);
}

static void say_role(gw_brain *b, gw_role *k)
{
    gw_act_send(b, &k->node, BT_MSG_ROLE)->u.role.role = k->role;
    k->resend_us = b->now_us + b->cfg.resend_us;
}

static void ask_role(gw_brain *b, const gw_event *ev)
{
    const gw_node *n = gw_registry_named(&b->registry, ev->u.role.node_id);
    gw_role *k = NULL;
    for (uint32_t i = 0; !k && i < GW_ROLES_MAX; i++)
        if (!b->roles[i].in_use) k = &b->roles[i];
    if (ev->u.role.role != BT_ROLE_PREFILL && ev->u.role.role != BT_ROLE_DECODE)
        answer_role(b, ev->u.role.token, BT_EARG, "a node's role is prefill or decode");
    else if (!n) answer_role(b, ev->u.role.token, BT_EARG, "no node is called '%s'", ev->u.role.node_id);
    else if (!k)
        answer_role(b, ev->u.role.token, BT_EAGAIN,
                    "%d nodes are being asked already, the most at a time; try again", GW_ROLES_MAX);
    else {
        *k = (gw_role){.in_use = true, .node = n->incarnation, .role = ev->u.role.role,
                       .token = ev->u.role.token, .deadline_us = b->now_us + b->cfg.role_us};
        say_role(b, k);
    }
}

static void on_role_answer(gw_brain *b, const bt_msg *m)
{
    bool is_awaited = false;
    for (uint32_t i = 0; i < GW_ROLES_MAX; i++) {
        gw_role *k = &b->roles[i];
        if (!k->in_use || k->role != m->u.role_answer.role || !bt_incarnation_equal(&k->node, &m->from))
            continue;
        answer_role(b, k->token, m->u.role_answer.code, "%s", m->u.role_answer.text);
        k->in_use = false;
        is_awaited = true;
    }
    b->n.repeats += !is_awaited;
}

static void expire_roles(gw_brain *b)
{
    for (uint32_t i = 0; i < GW_ROLES_MAX; i++) {
        gw_role *k = &b->roles[i];
        if (!k->in_use) continue;
        const bool is_here = gw_registry_find(&b->registry, &k->node) != NULL;
        if (!is_here || b->now_us >= k->deadline_us) {
            answer_role(b, k->token, is_here ? BT_EIO : BT_EAGAIN,
                        is_here ? "the node did not answer" : "the node was restarted meanwhile");
            k->in_use = false;
        } else if (b->now_us >= k->resend_us) {
            b->n.resent++;
            say_role(b, k);
        }
    }
}

static int64_t roles_due_us(const gw_brain *b)
{
    int64_t due = BT_STEP_NEVER;
    for (uint32_t i = 0; i < GW_ROLES_MAX; i++) {
        if (!b->roles[i].in_use) continue;
        if (b->roles[i].deadline_us < due) due = b->roles[i].deadline_us;
        if (b->roles[i].resend_us < due) due = b->roles[i].resend_us;
    }
    return due;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static void say_reject(gw_brain *b, const bt_incarnation *peer, bt_err code, const char *text)
{
    bt_msg *m = gw_act_send(b, peer, BT_MSG_REJECT);
    m->u.reject.code = code;
    snprintf(m->u.reject.text, sizeof m->u.reject.text, "%s", text);
}

static void node_changed(gw_brain *b, const gw_node *n, gw_node_state before)
{
    if (n->state == before) return;
    bool ready = gw_route_limit_tokens(&b->registry, false) > 0;
    if (b->pair_ready && !ready) b->no_pair_us = b->now_us;
    if (ready && !b->pair_ready) gw_request_unstick(b);
    b->pair_ready = ready;
    b->epoch++;
    gw_action *a = gw_act(b, GW_DO_NODE_CHANGED);
    a->u.node.incarnation = n->incarnation;
    a->u.node.role = n->hello.role;
    memcpy(a->u.node.node_id, n->hello.node_id, sizeof a->u.node.node_id);
    a->u.node.state = n->state;
}

/* Both work, but never on one request: most likely one of them was started with another --kv-dtype. */
static void warn_of_other_kv(gw_brain *b, const gw_node *n)
{
    const gw_node *k = gw_route_other_kv(&b->registry, n);
    if (!k) return;
    const bt_kv_shape *mine = &n->hello.kv, *theirs = &k->hello.kv;
    gw_act_log(b, BT_LOG_WARN,
               "node %s has %ux%ux%u KV of %s, node %s %ux%ux%u of %s: they get no request in common",
               n->hello.node_id, mine->layers, mine->kv_heads, mine->head_dim, bt_kv_dtype_name(mine->dtype),
               k->hello.node_id, theirs->layers, theirs->kv_heads, theirs->head_dim,
               bt_kv_dtype_name(theirs->dtype));
}

/* The node gets heartbeats as often as others again, or it would soon greet anew. */
static void end_silence(gw_brain *b, gw_node *n)
{
    n->probe_us = b->cfg.heartbeat_us;
    if (n->heartbeat_due_us <= b->now_us + n->probe_us) return;
    n->heartbeat_due_us = b->now_us + n->probe_us;
    gw_registry_changed(&b->registry, n);
}

/* Two processes never share an incarnation: one of them lies. */
static bool has_other_key(const gw_node *n, const bt_msg *m)
{
    return memcmp(&n->key, &m->from_key, sizeof n->key) != 0;
}

/* Sizes the affinity table by the KV of all nodes. Without memory it stays as it is.
 */
static void size_affinity(gw_brain *b)
{
    const uint32_t entries = gw_affinity_entries(b->registry.kv_tokens, b->cfg.nodes_max);
    (void)gw_affinity_grow(b->router.affinity, entries);
}

static void beat(gw_brain *b, const gw_node *n)
{
    gw_act_send(b, &n->incarnation, BT_MSG_HEARTBEAT)->u.heartbeat.draining = b->draining;
}

/* "process 4711 at 10.0.0.7, key decode-0" */
static const char *end_words(char *ret, size_t len, uint64_t pid, const char *address, const char *key_name)
{
    const bool has_address = address && *address, has_key = key_name && *key_name;
    snprintf(ret, len, "process %" PRIu64 "%s%.47s%s%.32s", pid, has_address ? " at " : "",
             has_address ? address : "", has_key ? ", key " : "", has_key ? key_name : "");
    return ret;
}

/* The words for both ends, where one process has the name that another gives. */
static void say_both(bt_fault *fault, const gw_node *n, const bt_msg *m)
{
    char has[112], wants[112];
    (void)bt_fail(fault, BT_EAUTH, "each node needs an --id of its own: '%s' is %s, which answers; not %s",
                  n->hello.node_id, end_words(has, sizeof has, n->hello.pid, n->address, n->key_name),
                  end_words(wants, sizeof wants, m->u.hello.pid, m->from_address, m->from_name));
}

static bt_err greet(gw_brain *b, gw_node **ret, bt_incarnation *ret_replaced, const bt_msg *m,
                    bt_fault *fault)
{
    if (*ret && has_other_key(*ret, m))
        return bt_fail(fault, BT_EAUTH, "node %s greets with another key than before", (*ret)->hello.node_id);
    if (m->is_anothers_name)
        return bt_fail(fault, BT_EAUTH,
                       "the allow list gives the name '%.64s' to another key than that of this node (%.32s): "
                       "give it another --id",
                       m->u.hello.node_id, m->from_name ? m->from_name : "");
    const gw_node *known = *ret;
    const bt_err e =
        gw_registry_hello(&b->registry, ret, ret_replaced, &m->from, &m->u.hello, b->now_us, fault);
    if (e == BT_EAUTH && !known) say_both(fault, *ret, m);
    return e;
}

static void on_hello(gw_brain *b, const bt_msg *m)
{
    static const bt_incarnation zero;
    bt_fault fault = {.text = ""};
    gw_node *n = gw_registry_find(&b->registry, &m->from);
    gw_node_state before = n ? n->state : 0;
    bt_incarnation replaced = zero;
    const bt_err e = greet(b, &n, &replaced, m, &fault);
    if (e == BT_EAGAIN) { /* whoever has the name is asked */
        beat(b, n);
        return;
    }
    if (e < 0) {
        b->n.hellos_rejected++;
        say_reject(b, &m->from, e, fault.text);
        gw_act_log(b, BT_LOG_ERROR, "node refused: %s", fault.text);
        return;
    }
    if (!bt_incarnation_equal(&replaced, &zero))
        gw_request_node_lost(b, &replaced, m->u.hello.node_id, GW_CAUSE_RESTARTED);
    n->key = m->from_key;
    snprintf(n->address, sizeof n->address, "%s", m->from_address ? m->from_address : "");
    snprintf(n->key_name, sizeof n->key_name, "%s", m->from_name ? m->from_name : "");
    end_silence(b, n);
    bt_msg *w = gw_act_send(b, &m->from, BT_MSG_WELCOME);
    w->u.welcome.protocol = BT_PROTOCOL_VERSION;
    memcpy(w->u.welcome.node_id, b->cfg.node_id, sizeof w->u.welcome.node_id);
    node_changed(b, n, before);
    size_affinity(b);
    if (before == 0) warn_of_other_kv(b, n);
}

static void on_msg(gw_brain *b, const bt_msg *m)
{
    if (m->type == BT_MSG_HELLO) {
        on_hello(b, m);
        return;
    }
    gw_node *n = gw_registry_find(&b->registry, &m->from);
    bool for_us = bt_incarnation_equal(&m->to, &b->cfg.self);
    if (!n || !for_us) {
        b->n.unknown_peer += !n;
        b->n.wrong_incarnation += !for_us;
        if (m->type != BT_MSG_REJECT)
            say_reject(b, &m->from, BT_EAGAIN,
                       for_us ? "send HELLO first" : "meant for another gateway process");
        return;
    }
    if (has_other_key(n, m)) {
        b->n.wrong_key++;
        return;
    }
    gw_node_state before = n->state;
    end_silence(b, n);
    gw_registry_heard(&b->registry, n, m->type == BT_MSG_HEARTBEAT ? &m->u.heartbeat : NULL, b->now_us);
    if (m->type == BT_MSG_BYE) {
        n->leaving = n->has_left = true;
        if (n->state != GW_NODE_STARTING) n->state = GW_NODE_DRAINING;
        gw_registry_changed(&b->registry, n);
        gw_request_node_lost(b, &n->incarnation, n->hello.node_id, GW_CAUSE_LEFT);
    }
    node_changed(b, n, before);
    if (m->type == BT_MSG_ROLE_ANSWER) on_role_answer(b, m);
    if (m->type >= BT_MSG_RESERVE) gw_request_msg(b, m);
}

static void on_cut(gw_brain *b, const bt_incarnation *who)
{
    static const bt_incarnation zero;
    if (BT_BREAK(cut_ignored)) return;
    if (bt_incarnation_equal(who, &zero)) {
        for (uint32_t i = 0; i < b->registry.used; i++) {
            const gw_node *n = &b->registry.nodes[i];
            if (n->in_use && n->state != GW_NODE_GONE) beat(b, n);
        }
        return;
    }
    gw_node *n = gw_registry_find(&b->registry, who);
    if (!n || n->state == GW_NODE_GONE) return;
    const gw_node_state before = n->state;
    gw_registry_cut(&b->registry, n, b->now_us);
    node_changed(b, n, before);
}

static void expire_nodes(gw_brain *b)
{
    gw_node *n;
    gw_registry_pass(&b->registry, b->now_us);
    gw_registry_ripen(&b->registry, b->now_us);
    while ((n = gw_registry_next_ripe(&b->registry))) {
        gw_node_state before = n->state;
        if (gw_registry_expire(&b->registry, n, b->now_us) == GW_NODE_GONE && before != GW_NODE_GONE) {
            node_changed(b, n, before);
            gw_request_node_lost(b, &n->incarnation, n->hello.node_id, GW_CAUSE_GONE);
        } else {
            node_changed(b, n, before);
        }
        if (n->in_use && b->now_us >= n->heartbeat_due_us) {
            const bool is_silent = n->state == GW_NODE_SUSPECT || n->state == GW_NODE_GONE;
            n->probe_us = !is_silent                        ? b->cfg.heartbeat_us
                          : 2 * n->probe_us < PROBE_MOST_US ? 2 * n->probe_us
                                                            : PROBE_MOST_US;
            n->heartbeat_due_us = b->now_us + n->probe_us;
            beat(b, n);
        }
        gw_registry_changed(&b->registry, n);
    }
}

/* ---- the step ----------------------------------------------------------------------------------- */

static void reap(gw_brain *b)
{
    for (int64_t at; (at = bt_order_first(&b->idle, GW_PLACE_DEAD)) >= 0;) {
        free(b->requests[at].block);
        b->requests[at] = (gw_request){0};
        bt_order_put(&b->idle, GW_PLACE_FREE, (uint32_t)at, bt_order_number(0));
    }
}

/* Whether a node that can be reached still owes an ABORT_ACK. A GONE node frees its attempts when their
 * leases end. */
static bool is_owed(const gw_brain *b)
{
    bool any = false;
    for (uint32_t i = 0; b->debts.len > 0 && !any && i < b->registry.used; i++) {
        const gw_node *n = &b->registry.nodes[i];
        any = n->in_use && n->state != GW_NODE_GONE && n->attempts > 0;
    }
    return any;
}

static void leave(gw_brain *b)
{
    if (!b->draining || b->exited || b->queued > 0 || b->active > 0 || is_owed(b)) return;
    for (uint32_t i = 0; i < b->registry.used; i++) {
        const gw_node *n = &b->registry.nodes[i];
        if (!n->in_use || n->state == GW_NODE_GONE) continue;
        bt_msg *m = gw_act_send(b, &n->incarnation, BT_MSG_BYE);
        snprintf(m->u.bye.text, sizeof m->u.bye.text, "drained");
    }
    (void)gw_act(b, GW_DO_EXIT);
    b->exited = true;
}

static void on_event(gw_brain *b, const gw_event *ev, const bt_random *random)
{
    gw_request *r = NULL;
    if (ev->type == GW_EV_CANCEL || ev->type == GW_EV_FINISH_EARLY) {
        r = gw_request_find(b, ev->u.request);
        if (!r) return;
    }
    switch (ev->type) {
    case GW_EV_TICK: break;
    case GW_EV_MSG: on_msg(b, ev->u.msg); break;
    case GW_EV_SUBMIT: gw_request_submit(b, ev->u.submit, random); break;
    case GW_EV_CANCEL:
        gw_request_fail(b, r, GW_FAIL_CANCELLED, BT_ECANCEL, 0, "cancelled by the client");
        break;
    case GW_EV_FINISH_EARLY: gw_request_finish_early(b, r); break;
    case GW_EV_ROLE: ask_role(b, ev); break;
    case GW_EV_CUT: on_cut(b, &ev->u.cut); break;
    case GW_EV_DRAIN: b->draining = true; break;
    default: break;
    }
}

gw_actions gw_brain_step(gw_brain *b, const gw_event *ev, int64_t now_us, const bt_random *random)
{
    b->acts_len = 0;
    b->now_us = now_us;
    reap(b);
    if (!b->started) {
        b->started = true;
        b->begun_us = b->no_pair_us = now_us;
    }
    expire_nodes(b);
    expire_roles(b);
    gw_request_expire_debts(b);
    gw_request_expire_all(b);
    on_event(b, ev, random);
    gw_request_dispatch(b);
    leave(b);
    return (gw_actions){b->acts, b->acts_len};
}

/* Whether a request would go to a node that takes no more just now. */
static bool wants_room(const gw_brain *b)
{
    return b->queued > 0 || bt_order_first(&b->parked, GW_PARKED_LINE) >= 0 ||
           bt_order_first(&b->parked, GW_PARKED_PLACED) >= 0;
}

int64_t gw_brain_due_us(const gw_brain *b)
{
    const bool is_wanted = wants_room(b);
    int64_t due = gw_debts_due_us(&b->debts), t;
    const int64_t first = bt_order_first(&b->due, GW_DUE);
    if ((t = gw_registry_next_due_us(&b->registry)) < due) due = t;
    if (is_wanted && (t = gw_registry_refusing_us(&b->registry)) < due) due = t;
    if ((t = roles_due_us(b)) < due) due = t;
    if (is_wanted && (t = gw_avoid_due_us(&b->router.avoid, b->now_us)) < due) due = t;
    if (first >= 0 && (t = bt_order_us(bt_order_key_of(&b->due, first))) < due) due = t;
    return due;
}

/* ---- made and looked at ------------------------------------------------------------------------- */

static bt_err open_orders(gw_brain *b)
{
    const uint32_t n = b->requests_len;
    for (b->numbers = 1; b->numbers < n;) b->numbers *= 2;
    b->by_number = calloc(b->numbers, sizeof *b->by_number);
    return !b->by_number || bt_order_init(&b->idle, n, 2) < 0 || bt_order_init(&b->due, n, 2) < 0 ||
                   bt_order_init(&b->sides, 2 * n, 1) < 0 || bt_order_init(&b->line, n, GW_LINES) < 0 ||
                   bt_order_init(&b->newest, n, 1) < 0 || bt_order_init(&b->parked, n, GW_PARKEDS) < 0
               ? BT_ENOMEM
               : BT_OK;
}

bt_err gw_brain_new(gw_brain **ret, const gw_config *c, bt_fault *fault)
{
    static const bt_incarnation zero;
    if (bt_incarnation_equal(&c->self, &zero) || c->queue_max < 1 || c->active_max < 1 || c->nodes_max < 2 ||
        c->queue_max > 65536 || c->active_max > 65536 || c->nodes_max > 65536 || c->lease_ms < 1 ||
        c->lease_ms > 600000)
        return bt_fail(fault, BT_EARG, "gateway: a limit of its configuration is zero or out of range");
    gw_brain *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "gateway: out of memory");
    b->cfg = *c;
    b->router.policy = c->policy;
    b->requests_len = c->queue_max + c->active_max + 1; /* one that gives way has its place until the next
                                                           step */
    /* A step: per request its lease on both sides (2), or its end (1) or a line of log, and leaving both (2),
     * then RESERVE; per debt its ABORT; per role asked for ROLE and its answer; per node its heartbeat twice,
     * a change, BYE. */
    const uint32_t debts_max = c->active_max * 4;
    b->acts_cap = (size_t)b->requests_len * 6 + debts_max + (size_t)c->nodes_max * 4 + 2 * GW_ROLES_MAX + 16;
    b->requests = calloc(b->requests_len, sizeof *b->requests);
    b->wanted = calloc((size_t)GW_REGISTRY_HAD * c->nodes_max, sizeof *b->wanted);
    b->acts = malloc(b->acts_cap * sizeof *b->acts);
    if (!b->requests || !b->acts || !b->wanted || gw_shares_init(&b->shares, b->requests_len) < 0 ||
        gw_shares_init(&b->short_shares, b->requests_len) < 0 || open_orders(b) < 0 ||
        gw_debts_init(&b->debts, debts_max) < 0 ||
        gw_affinity_new(&b->router.affinity, GW_AFFINITY_LEAST_ENTRIES) < 0 ||
        gw_registry_init(&b->registry, c->nodes_max, c->model_id, c->suspect_us, c->gone_us, c->cut_us,
                         c->forget_us) < 0) {
        const size_t bytes = b->requests_len * sizeof *b->requests + b->acts_cap * sizeof *b->acts +
                             (size_t)GW_REGISTRY_HAD * c->nodes_max * sizeof *b->wanted;
        gw_brain_free(b);
        return bt_fail(fault, BT_ENOMEM, "gateway: out of memory: %u requests and %u nodes need %.1f MiB",
                       c->queue_max + c->active_max, c->nodes_max, (double)bytes / 0x1p20);
    }
    *ret = b;
    return BT_OK;
}

void gw_brain_free(gw_brain *b)
{
    if (!b) return;
    for (uint32_t i = 0; b->requests && i < b->requests_used; i++) free(b->requests[i].block);
    gw_registry_done(&b->registry);
    gw_debts_done(&b->debts);
    gw_affinity_free(b->router.affinity);
    bt_order *const orders[] = {&b->idle, &b->due, &b->sides, &b->line, &b->newest, &b->parked};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) bt_order_done(orders[i]);
    gw_shares_done(&b->shares);
    gw_shares_done(&b->short_shares);
    free(b->wanted);
    free(b->by_number);
    free(b->requests);
    free(b->acts);
    free(b);
}

bool gw_brain_rest(gw_brain *b, const bt_incarnation *node)
{
    gw_node *n = gw_registry_find(&b->registry, node);
    if (!n || n->state != GW_NODE_READY || n->probe_us != b->cfg.heartbeat_us) return false;
    n->rests = true;
    gw_registry_changed(&b->registry, n);
    return true;
}

void gw_brain_heard(gw_brain *b, const bt_incarnation *node, int64_t at_us)
{
    gw_node *n = gw_registry_find(&b->registry, node);
    if (!n) return;
    n->heard_us = at_us;
    gw_registry_changed(&b->registry, n);
}

int64_t gw_brain_wake(gw_brain *b, const bt_incarnation *node, int64_t now_us)
{
    gw_node *n = gw_registry_find(&b->registry, node);
    if (!n || !n->rests) return 0;
    n->rests = false;
    n->heartbeat_due_us = bt_greeting_next_beat_us(n->heartbeat_due_us, b->cfg.heartbeat_us, now_us);
    gw_registry_changed(&b->registry, n);
    return n->heartbeat_due_us - b->cfg.heartbeat_us;
}

bool gw_brain_is_ready(const gw_brain *b) { return b->pair_ready && !b->draining; }
uint64_t gw_brain_limit_tokens(const gw_brain *b) { return gw_route_limit_tokens(&b->registry, true); }
uint32_t gw_brain_queued(const gw_brain *b) { return b->queued; }
uint32_t gw_brain_active(const gw_brain *b) { return b->active; }
uint32_t gw_brain_active_limit(const gw_brain *b)
{
    const uint64_t slots = b->registry.slots[1];
    return slots < b->cfg.active_max ? (uint32_t)slots : b->cfg.active_max;
}
uint32_t gw_brain_in_line(const gw_brain *b) { return b->in_line; }
uint32_t gw_brain_debts(const gw_brain *b) { return b->debts.len; }
bool gw_brain_waits_for_token(const gw_brain *b, const bt_incarnation *decode)
{
    if (b->router.avoid.len == 0) return false;
    const gw_node *n = gw_registry_find(&b->registry, decode);
    return n && gw_avoid_fails(&b->router.avoid, n->name);
}
const bt_incarnation *gw_brain_decodes(gw_brain *b, uint64_t request)
{
    const gw_request *r = gw_request_find(b, request);
    return r && r->decode.is_open ? &r->decode.node : NULL;
}
gw_share_figures gw_brain_share(const gw_brain *b, uint64_t share)
{
    const gw_share *h = gw_shares_find(&b->shares, share);
    return h ? (gw_share_figures){h->weight, h->waiting, h->active, h->tokens} : (gw_share_figures){0};
}
const gw_registry *gw_brain_registry(const gw_brain *b) { return &b->registry; }
const gw_counters *gw_brain_counters(const gw_brain *b) { return &b->n; }
