/* The nodes that there are, and how sure the gateway is of each. See registry.h. */
#include "gateway/brain/registry.h"
#include "base/breakage.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bt_err gw_registry_init(gw_registry *ret, uint32_t cap, const uint8_t model_id[16], int64_t suspect_us,
                        int64_t gone_us, int64_t cut_us, int64_t forget_us)
{
    gw_registry r = {.cap = cap,
                     .suspect_us = suspect_us,
                     .gone_us = gone_us,
                     .cut_us = cut_us,
                     .forget_us = forget_us,
                     .nodes = calloc(cap, sizeof *r.nodes),
                     .shapes = calloc(cap, sizeof *r.shapes)};
    const uint32_t groups = 2 * cap;
    if (!r.nodes || !r.shapes || bt_order_init(&r.who, cap, 1) < 0 || bt_order_init(&r.names, cap, 1) < 0 ||
        bt_order_init(&r.idle, cap, 2) < 0 || bt_order_init(&r.due, cap, 2) < 0 ||
        bt_order_init(&r.refusing, cap, 1) < 0 || bt_order_init(&r.kin, cap, groups) < 0 ||
        bt_order_init(&r.there, cap, groups) < 0 || bt_order_init(&r.by_load, cap, GW_OPENS * groups) < 0 ||
        bt_order_init(&r.by_turn, cap, GW_OPENS * groups) < 0 ||
        bt_order_init(&r.short_by_load, cap, GW_OPENS * groups) < 0 ||
        bt_order_init(&r.short_by_turn, cap, GW_OPENS * groups) < 0 ||
        bt_order_init(&r.by_short, cap, 1) < 0 || bt_order_init(&r.least, cap, 2) < 0 ||
        bt_order_init(&r.known, cap, 1) < 0 || bt_order_init(&r.locals, cap, 1) < 0 ||
        bt_order_init(&r.had, GW_REGISTRY_HAD * cap, 1) < 0) {
        gw_registry_done(&r);
        return BT_ENOMEM;
    }
    memcpy(r.model_id, model_id, sizeof r.model_id);
    *ret = r;
    return BT_OK;
}

void gw_registry_done(gw_registry *r)
{
    bt_order *const orders[] = {&r->who,      &r->names,         &r->idle,     &r->due,
                                &r->refusing, &r->kin,           &r->there,    &r->by_load,
                                &r->by_turn,  &r->least,         &r->known,    &r->locals,
                                &r->had,      &r->short_by_load, &r->by_short, &r->short_by_turn};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) bt_order_done(orders[i]);
    free(r->nodes);
    free(r->shapes);
    memset(r, 0, sizeof *r);
}

const char *gw_node_state_name(gw_node_state s)
{
    switch (s) {
    case GW_NODE_STARTING: return "starting";
    case GW_NODE_READY: return "ready";
    case GW_NODE_SUSPECT: return "suspect";
    case GW_NODE_DRAINING: return "draining";
    case GW_NODE_GONE: return "gone";
    }
    return "?";
}

gw_node *gw_registry_find(const gw_registry *r, const bt_incarnation *who)
{
    const bt_order_key key = gw_registry_key(who);
    const int64_t at = bt_order_from(&r->who, 0, key);
    return at >= 0 && bt_incarnation_equal(&r->nodes[at].incarnation, who) ? &r->nodes[at] : NULL;
}

uint64_t gw_registry_name(const char *node_id) { return *node_id ? bt_hash64(node_id, strlen(node_id)) : 0; }

int64_t gw_registry_had_place(const gw_registry *r, uint64_t name)
{
    const int64_t at = bt_order_from(&r->had, 0, bt_order_number(name));
    return at >= 0 && bt_order_key_of(&r->had, at).hi == name ? at : -1;
}

bool gw_registry_had(const gw_registry *r, uint64_t name)
{
    return r->had_len == GW_REGISTRY_HAD * r->cap || gw_registry_had_place(r, name) >= 0;
}

static void note_name(gw_registry *r, uint64_t name)
{
    if (!gw_registry_had(r, name)) bt_order_put(&r->had, 0, r->had_len++, bt_order_number(name));
}

static void hex(char ret[33], const uint8_t bytes[16])
{
    for (int i = 0; i < 16; i++) snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static bt_err check(const gw_registry *r, const bt_msg_hello *h, bt_fault *fault)
{
    if (h->protocol != BT_PROTOCOL_VERSION)
        return bt_fail(fault, BT_EVERSION, "node %s speaks protocol %u, this gateway %u", h->node_id,
                       h->protocol, BT_PROTOCOL_VERSION);
    if (memcmp(h->model_id, r->model_id, sizeof r->model_id) != 0) {
        char theirs[33], ours[33];
        hex(theirs, h->model_id);
        hex(ours, r->model_id);
        return bt_fail(fault, BT_EFORMAT, "node %s holds model %s, this gateway serves %s", h->node_id,
                       theirs, ours);
    }
    if (h->role != BT_ROLE_PREFILL && h->role != BT_ROLE_DECODE)
        return bt_fail(fault, BT_EARG, "node %s has role %d; prefill (%d) or decode (%d) is expected",
                       h->node_id, (int)h->role, BT_ROLE_PREFILL, BT_ROLE_DECODE);
    if (!h->node_id[0] || h->kv.layers == 0 || h->kv.kv_heads == 0 || h->kv.head_dim == 0 ||
        h->ctx_tokens == 0)
        return bt_fail(fault, BT_EARG, "node \"%s\" has no name, no KV shape or no context", h->node_id);
    if (h->role == BT_ROLE_DECODE && !h->kv_endpoint[0])
        return bt_fail(fault, BT_EARG, "decode node %s names no endpoint for KV", h->node_id);
    return BT_OK;
}

static gw_node *place_of_name(const gw_registry *r, const char *node_id)
{
    const uint64_t name = gw_registry_name(node_id);
    for (int64_t at = bt_order_from(&r->names, 0, bt_order_number(name));
         at >= 0 && r->nodes[at].name == name; at = bt_order_next(&r->names, at))
        if (strcmp(r->nodes[at].hello.node_id, node_id) == 0) return &r->nodes[at];
    return NULL;
}

gw_node *gw_registry_named(const gw_registry *r, const char *node_id)
{
    gw_node *n = place_of_name(r, node_id);
    return n && n->state != GW_NODE_GONE ? n : NULL;
}

gw_node *gw_registry_by_name(const gw_registry *r, uint64_t name)
{
    const int64_t at = bt_order_from(&r->names, 0, bt_order_number(name));
    return at >= 0 && r->nodes[at].name == name ? &r->nodes[at] : NULL;
}

/* Keeps a HELLO with copies of its engine and device, which it only borrows. */
static void keep(gw_node *n, const bt_msg_hello *hello)
{
    n->hello = *hello;
    if (hello->device) {
        n->device = *hello->device;
        n->hello.device = &n->device;
    }
    if (!hello->engine) return;
    n->engine = *hello->engine;
    n->hello.engine = &n->engine;
}

static void add_to(uint64_t *sum, uint64_t now, uint64_t before)
{
    if (now > before) *sum += now - before; /* a count that falls is no count */
}

/* The node's own count of itself, and what it adds to the sums of its role. */
static void take_load(gw_registry *r, gw_node *n, const bt_load *now)
{
    gw_load_sum *sum = &r->sums[n->hello.role == BT_ROLE_DECODE];
    const bt_load *before = &n->load;
    add_to(&sum->ns, now->device_ns, before->device_ns);
    add_to(&sum->ideal_ns, now->device_ideal_ns, before->device_ideal_ns);
    add_to(&sum->nj, now->device_nj, before->device_nj);
    add_to(&sum->paced_us, now->paced_us, before->paced_us);
    add_to(&sum->late_us, now->late_us, before->late_us);
    add_to(&sum->overtakes, now->overtakes, before->overtakes);
    n->load = *now;
}

/* The place of this name; else the first free one; else that of the node gone longest. */
static gw_node *place_for(gw_registry *r, const char *node_id)
{
    gw_node *n = place_of_name(r, node_id);
    if (n) return n;
    int64_t at = bt_order_first(&r->idle, GW_IDLE_FREE);
    if (at < 0 && r->used < r->cap) return &r->nodes[r->used++];
    if (at < 0) at = bt_order_first(&r->idle, GW_IDLE_GONE);
    return at < 0 ? NULL : &r->nodes[at];
}

static bool has_gone(const gw_registry *r, const gw_node *n, int64_t now_us)
{
    return n->state == GW_NODE_GONE || n->has_left || (n->is_cut && now_us - n->cut_us >= GW_REDIAL_US) ||
           (n->is_asked && !n->has_answered && now_us - n->asked_us >= r->cut_us);
}

/* Whether another process may take the node's name. An old question says nothing: who wanted the name then
 * would have greeted again since. */
static bt_err claim_name(const gw_registry *r, gw_node *n, int64_t now_us, bt_fault *fault)
{
    if (n->is_asked && now_us - n->asked_us > 2 * r->cut_us) n->is_asked = false;
    if (has_gone(r, n, now_us) || BT_BREAK(name_pushed_out)) return BT_OK;
    if (n->is_asked && n->has_answered) {
        n->is_asked = false;
        return bt_fail(fault, BT_EAUTH, "the name %s is in use by another process", n->hello.node_id);
    }
    if (!n->is_asked) {
        n->is_asked = true;
        n->has_answered = false;
        n->asked_us = now_us;
    }
    return BT_EAGAIN;
}

bt_err gw_registry_hello(gw_registry *r, gw_node **ret, bt_incarnation *ret_replaced,
                         const bt_incarnation *who, const bt_msg_hello *hello, int64_t now_us,
                         bt_fault *fault)
{
    static const bt_incarnation zero;
    bt_err e = check(r, hello, fault);
    if (e < 0) return e;
    gw_node *n = gw_registry_find(r, who);
    if (n && strcmp(n->hello.node_id, hello->node_id) != 0)
        return bt_fail(fault, BT_EARG, "node %s now calls itself %s", n->hello.node_id, hello->node_id);
    if (n && n->hello.role != hello->role)
        return bt_fail(fault, BT_EARG, "node %s has changed its role without starting anew", hello->node_id);
    if (n) {
        keep(n, hello);
        *ret_replaced = zero;
    } else {
        n = place_for(r, hello->node_id);
        if (!n) return bt_fail(fault, BT_ELIMIT, "this gateway knows %u nodes already, its limit", r->cap);
        bool same_name = n->in_use && strcmp(n->hello.node_id, hello->node_id) == 0;
        if (same_name && (e = claim_name(r, n, now_us, fault)) < 0) {
            *ret = n;
            return e;
        }
        bt_incarnation before = n->in_use ? n->incarnation : zero;
        n->in_use = false;
        gw_registry_changed(r, n); /* out of all orders */
        *n = (gw_node){.incarnation = *who, .state = GW_NODE_STARTING, .in_use = true,
                       .name = gw_registry_name(hello->node_id), .heartbeat_due_us = now_us};
        keep(n, hello);
        note_name(r, n->name);
        *ret_replaced = before;
    }
    take_load(r, n, &hello->load);
    n->heard_us = now_us;
    n->is_cut = false;
    n->has_answered = true;
    n->leaving = hello->draining;
    n->has_left = false;
    if (n->state != GW_NODE_STARTING) n->state = n->leaving ? GW_NODE_DRAINING : GW_NODE_READY;
    gw_registry_told(r, n);
    *ret = n;
    return BT_OK;
}

gw_node_state gw_registry_heard(gw_registry *r, gw_node *n, const bt_msg_heartbeat *heartbeat, int64_t now_us)
{
    n->heard_us = now_us;
    n->is_cut = false;
    n->has_answered = true;
    if (heartbeat) {
        take_load(r, n, &heartbeat->load);
        n->leaving = heartbeat->draining && !BT_BREAK(leaving_ignored);
        n->has_left = n->has_left && n->leaving; /* one that serves can be cut */
    }
    if (n->state != GW_NODE_STARTING || heartbeat) n->state = n->leaving ? GW_NODE_DRAINING : GW_NODE_READY;
    gw_registry_changed(r, n);
    return n->state;
}

gw_node_state gw_registry_cut(gw_registry *r, gw_node *n, int64_t now_us)
{
    if (n->is_cut || n->has_left || n->state == GW_NODE_GONE) return n->state;
    n->is_cut = true;
    n->cut_us = now_us;
    if (n->state == GW_NODE_READY) n->state = GW_NODE_SUSPECT;
    gw_registry_changed(r, n);
    return n->state;
}

gw_node_state gw_registry_expire(gw_registry *r, gw_node *n, int64_t now_us)
{
    int64_t silent_us = now_us - n->heard_us;
    if (now_us >= gw_registry_lost_us(r, n)) n->state = GW_NODE_GONE;
    else if (silent_us >= r->suspect_us && n->state == GW_NODE_READY) n->state = GW_NODE_SUSPECT;
    if (n->state == GW_NODE_GONE && silent_us >= r->forget_us && n->attempts == 0) n->in_use = false;
    gw_registry_changed(r, n);
    return n->state;
}
