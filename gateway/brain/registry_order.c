/* The orders of the registry: where each node stands in them. See registry.h. Every place follows from the
 * node's own fields, so one function updates all of them after any change. */
#include "base/breakage.h"
#include "base/hash.h"
#include "base/wide.h"
#include "gateway/brain/registry.h"

static uint32_t place_of(const gw_registry *r, const gw_node *n) { return (uint32_t)(n - r->nodes); }

/* ---- shapes -------------------------------------------------------------------------------------- */

static void leave_shape(gw_registry *r, gw_node *n)
{
    if (n->shape) r->shapes[n->shape - 1].nodes--;
    n->shape = 0;
}

/* A cluster has one or two shapes; there are never more than nodes. */
static void enter_shape(gw_registry *r, gw_node *n)
{
    uint32_t at = r->shapes_len;
    for (uint32_t i = 0; i < r->shapes_len; i++) {
        const gw_shape *g = &r->shapes[i];
        if (g->nodes > 0 && memcmp(&g->kv, &n->hello.kv, sizeof g->kv) == 0) {
            at = i;
            break;
        }
        if (g->nodes == 0 && at == r->shapes_len) at = i;
    }
    if (at == r->shapes_len) r->shapes_len++;
    r->shapes[at].kv = n->hello.kv;
    r->shapes[at].nodes++;
    n->shape = at + 1;
}

/* ---- times --------------------------------------------------------------------------------------- */

int64_t gw_registry_lost_us(const gw_registry *r, const gw_node *n)
{
    const int64_t silent_us = n->heard_us + r->gone_us,
                  cut_us = n->cut_us + (BT_BREAK(cut_at_once) ? 0 : r->cut_us);
    return n->is_cut && cut_us < silent_us ? cut_us : silent_us;
}

int64_t gw_registry_due_us(const gw_registry *r, const gw_node *n)
{
    if (n->state == GW_NODE_GONE) return n->heard_us + r->forget_us;
    return n->state == GW_NODE_READY ? n->heard_us + r->suspect_us : gw_registry_lost_us(r, n);
}

/* ---- keys ---------------------------------------------------------------------------------------- */

/* Attempts over slots, exactly: two shares of up to 2^32 slots that differ do so by more than 2^-64. */
static bt_order_key share(const gw_node *n)
{
    const uint64_t a = n->attempts, s = n->load.slots_total;
    return (bt_order_key){a / s, bt_wide_low(bt_wide_div(bt_wide_left(bt_wide_of(a % s), 64), s))};
}

static void put_if(bt_order *o, bool belongs, uint32_t set, uint32_t place, bt_order_key key)
{
    if (belongs) bt_order_put(o, set, place, key);
    else bt_order_take(o, place);
}

/* ---- one node ------------------------------------------------------------------------------------ */

static void count_slots(gw_registry *r, gw_node *n)
{
    const uint32_t slots = n->in_use && n->state == GW_NODE_READY ? n->load.slots_total : 0;
    r->slots[n->hello.role == BT_ROLE_DECODE] += (uint64_t)slots - n->slots;
    r->ready[n->hello.role == BT_ROLE_DECODE] += (slots > 0) - (n->slots > 0);
    n->slots = slots;
    const uint64_t kv = n->in_use && n->state != GW_NODE_GONE ? n->hello.kv_capacity_tokens : 0;
    r->kv_tokens += kv - n->kv_tokens;
    n->kv_tokens = kv;
}

static void put_due(gw_registry *r, const gw_node *n, uint32_t at)
{
    if (bt_order_has(&r->due, GW_RIPE, at)) return; /* its turn comes in this step */
    const int64_t expires = gw_registry_due_us(r, n);
    const int64_t due = n->heartbeat_due_us < expires ? n->heartbeat_due_us : expires;
    put_if(&r->due, n->in_use && !n->rests, GW_DUE, at, bt_order_time(due));
}

/* Puts the node into the orders of route.h. */
static void put_for_routes(gw_registry *r, const gw_node *n, uint32_t at)
{
    const bool is_decode = n->hello.role == BT_ROLE_DECODE, is_ready = n->in_use && n->state == GW_NODE_READY;
    const bool is_there = is_ready || (n->in_use && n->state == GW_NODE_SUSPECT);
    const bool is_open = is_ready && gw_node_takes_long(n) && !n->refuses;
    const bool is_open_to_short = is_ready && !is_decode && n->attempts < n->load.slots_total && !n->refuses;
    const uint32_t set = n->shape ? gw_registry_set(n->shape - 1, n->hello.role) : 0,
                   open = n->shape ? gw_registry_open_set(n->shape - 1, n->hello.role, gw_node_open(n)) : 0;
    const bt_order_key none = {0, 0}, part = n->load.slots_total ? share(n) : none;
    put_if(&r->kin, n->in_use && n->state != GW_NODE_GONE, set, at, none);
    put_if(&r->there, is_there, set, at, bt_order_number(~gw_node_limit(n)));
    put_if(&r->by_load, is_open, open, at, (bt_order_key){part.lo, n->turn});
    put_if(&r->by_turn, is_open, open, at, bt_order_number(n->turn));
    put_if(&r->short_by_load, is_open_to_short, open, at, (bt_order_key){part.lo, n->turn});
    put_if(&r->short_by_turn, is_open_to_short, open, at, bt_order_number(n->turn));
    put_if(&r->by_short, is_ready && n->hello.short_slots > 0, 0, at,
           bt_order_number(~(uint64_t)n->hello.short_tokens));
    put_if(&r->least, is_ready && n->load.slots_total > 0, is_decode, at, part);
    put_if(&r->known, n->in_use && !is_decode && (is_there || n->state == GW_NODE_STARTING), 0, at,
           bt_order_number(n->exact_class));
    put_if(&r->locals, is_there && is_decode && n->prefill_class, 0, at,
           (bt_order_key){n->prefill_class, ~(uint64_t)at});
}

static void put_all(gw_registry *r, gw_node *n, uint32_t at)
{
    if (!n->in_use) leave_shape(r, n);
    count_slots(r, n);
    put_if(&r->who, n->in_use, 0, at, gw_registry_key(&n->incarnation));
    put_if(&r->names, n->in_use, 0, at, bt_order_number(n->name));
    if (!n->in_use) bt_order_put(&r->idle, GW_IDLE_FREE, at, bt_order_number(0));
    else
        put_if(&r->idle, n->state == GW_NODE_GONE && n->attempts == 0, GW_IDLE_GONE, at,
               bt_order_time(n->heard_us));
    put_if(&r->refusing, n->refuses, 0, at, bt_order_time(n->refuses_until_us));
    put_for_routes(r, n, at);
}

/* Most messages of a node change only the time when it was heard. */
void gw_registry_changed(gw_registry *r, gw_node *n)
{
    const uint32_t at = place_of(r, n);
    if (!n->in_use) n->refuses = false;
    const uint64_t seen[4] = {(uint64_t)n->attempts << 32 | n->load.slots_total,
                              (uint64_t)n->lined << 8 | (uint64_t)n->state << 2 | (uint64_t)n->refuses << 1 |
                                  n->in_use,
                              n->turn, n->long_attempts};
    put_due(r, n, at);
    if (memcmp(seen, n->seen, sizeof seen) == 0) return;
    memcpy(n->seen, seen, sizeof seen);
    put_all(r, n, at);
    r->changes++;
}

/* Makes the next call put the node anew. */
static void forget_seen(gw_node *n) { memset(n->seen, 0xff, sizeof n->seen); }

void gw_registry_told(gw_registry *r, gw_node *n)
{
    const char *own = n->hello.prefill_exactness;
    n->exact_class = bt_hash64(n->hello.exactness, strlen(n->hello.exactness));
    n->prefill_class = *own ? bt_hash64(own, strlen(own)) : 0;
    leave_shape(r, n);
    enter_shape(r, n);
    forget_seen(n);
    gw_registry_changed(r, n);
}

uint32_t gw_registry_short_tokens(const gw_registry *r)
{
    const int64_t at = bt_order_first(&r->by_short, 0);
    return at < 0 ? 0 : r->nodes[at].hello.short_tokens;
}

/* ---- refusals, and what is due ------------------------------------------------------------------- */

void gw_registry_refuses(gw_registry *r, gw_node *n, int64_t until_us)
{
    n->refuses_until_us = until_us;
    n->refuses = true;
    forget_seen(n);
    gw_registry_changed(r, n);
}

void gw_registry_pass(gw_registry *r, int64_t now_us)
{
    r->span = now_us / GW_LATELY_US;
    for (int64_t at;
         (at = bt_order_first(&r->refusing, 0)) >= 0 && r->nodes[at].refuses_until_us <= now_us;) {
        r->nodes[at].refuses = false;
        gw_registry_changed(r, &r->nodes[at]);
    }
}

uint64_t gw_registry_lately(const gw_registry *r, const gw_lately *l)
{
    const int64_t halvings = r->span - l->span;
    return halvings > 63 ? 0 : l->sum >> halvings;
}

static void add_lately(const gw_registry *r, gw_lately *l, uint32_t tokens)
{
    *l = (gw_lately){gw_registry_lately(r, l) + tokens, r->span};
}

void gw_registry_give(gw_registry *r, gw_node *n, uint32_t tokens)
{
    n->waiting_tokens += tokens;
    add_lately(r, &n->given, tokens);
    add_lately(r, &r->given[n->hello.role == BT_ROLE_DECODE], tokens);
}

int64_t gw_registry_refusing_us(const gw_registry *r)
{
    const int64_t at = bt_order_first(&r->refusing, 0);
    return at < 0 ? INT64_MAX : r->nodes[at].refuses_until_us;
}

void gw_registry_ripen(gw_registry *r, int64_t now_us)
{
    for (int64_t at;
         (at = bt_order_first(&r->due, GW_DUE)) >= 0 && bt_order_us(bt_order_key_of(&r->due, at)) <= now_us;)
        bt_order_put(&r->due, GW_RIPE, (uint32_t)at, bt_order_number(0));
}

gw_node *gw_registry_next_ripe(gw_registry *r)
{
    const int64_t at = bt_order_first(&r->due, GW_RIPE);
    if (at < 0) return NULL;
    bt_order_take(&r->due, (uint32_t)at);
    return &r->nodes[at];
}

int64_t gw_registry_next_due_us(const gw_registry *r)
{
    const int64_t at = bt_order_first(&r->due, GW_DUE);
    return at < 0 ? INT64_MAX : bt_order_us(bt_order_key_of(&r->due, at));
}
