/* Which nodes a request gets. See route.h. */
#include "gateway/route.h"
#include "base/hash.h"

#include <string.h>

uint64_t gw_route_class(const char *exactness) { return bt_hash64(exactness, strlen(exactness)); }

static bool is_ready(const gw_node *n, bt_role role)
{
    return n->in_use && n->hello.role == role && n->state == GW_NODE_READY;
}

static bool agree(const gw_node *p, const gw_node *d)
{
    return memcmp(&p->hello.kv, &d->hello.kv, sizeof p->hello.kv) == 0;
}

static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t local_limit(const gw_node *d) { return min64(d->hello.ctx_tokens, d->hello.kv_capacity_tokens); }

/* The longest prompt + answer that the pair holds. */
static uint64_t pair_limit(const gw_node *p, const gw_node *d) { return min64(p->hello.ctx_tokens, local_limit(d)); }

static bool has_slot(const gw_node *n, int64_t now_us)
{
    return n->attempts < n->load.slots_total && now_us >= n->refuses_until_us;
}

/* a before b: fewer attempts a slot, then chosen longest ago. Compared crosswise, so that no division rounds. */
static bool is_better(gw_policy policy, const gw_node *a, const gw_node *b)
{
    uint64_t la = (uint64_t)a->attempts * b->load.slots_total, lb = (uint64_t)b->attempts * a->load.slots_total;
    if (policy == GW_POLICY_LEAST_LOAD && la != lb) return la < lb;
    return a->turn < b->turn;
}

static bool is_known_prefill(const gw_node *n)
{
    return n->in_use && n->hello.role == BT_ROLE_PREFILL &&
           (n->state == GW_NODE_STARTING || n->state == GW_NODE_READY || n->state == GW_NODE_SUSPECT);
}

static bool knows_prefill(const gw_registry *r)
{
    for (uint32_t i = 0; i < r->cap; i++)
        if (is_known_prefill(&r->nodes[i])) return true;
    return false;
}

/* A known prefill node of another class than d's own engine; NULL: there is none. */
static const gw_node *odd_one(const gw_registry *r, const gw_node *d)
{
    for (uint32_t i = 0; i < r->cap; i++)
        if (is_known_prefill(&r->nodes[i]) && strcmp(r->nodes[i].hello.exactness, d->hello.prefill_exactness) != 0)
            return &r->nodes[i];
    return NULL;
}

static bool prefills(const gw_node *d) { return is_ready(d, BT_ROLE_DECODE) && d->hello.prefill_exactness[0]; }

static bool in_class(const gw_route_wish *w, const char *prefill, const gw_node *d)
{
    return !w->has_class ||
           (w->prefill_class == gw_route_class(prefill) && w->decode_class == gw_route_class(d->hello.exactness));
}

/* What a search saw. */
typedef struct seen {
    bool any, any_fits;
    uint64_t limit;
} seen;

static void find_local(gw_route_choice *c, seen *s, gw_policy policy, gw_registry *r, const gw_route_wish *w)
{
    for (uint32_t i = 0; i < r->cap; i++) {
        gw_node *d = &r->nodes[i];
        if (!prefills(d)) continue;
        const gw_node *odd = odd_one(r, d);
        if (odd) {
            c->odd_decode = d;
            c->odd_prefill = odd;
            continue;
        }
        if (!in_class(w, d->hello.prefill_exactness, d)) continue;
        const uint64_t holds = local_limit(d);
        s->any = true;
        if (holds > s->limit) s->limit = holds;
        if ((uint64_t)w->prompt_tokens + w->max_tokens > holds) continue;
        s->any_fits = true;
        if (has_slot(d, w->now_us) && (!c->decode || is_better(policy, d, c->decode))) c->decode = d;
    }
}

static void find_pair(gw_route_choice *c, seen *s, gw_policy policy, gw_registry *r, const gw_route_wish *w)
{
    for (uint32_t i = 0; i < r->cap; i++) {
        gw_node *d = &r->nodes[i];
        if (!is_ready(d, BT_ROLE_DECODE)) continue;
        for (uint32_t k = 0; k < r->cap; k++) {
            gw_node *p = &r->nodes[k];
            if (!is_ready(p, BT_ROLE_PREFILL) || !agree(p, d) || !in_class(w, p->hello.exactness, d)) continue;
            const uint64_t holds = pair_limit(p, d);
            s->any = true;
            if (holds > s->limit) s->limit = holds;
            if ((uint64_t)w->prompt_tokens + w->max_tokens > holds || w->prompt_tokens > p->hello.kv_capacity_tokens) continue;
            s->any_fits = true;
            if (!has_slot(p, w->now_us) || !has_slot(d, w->now_us)) continue;
            if (!c->decode || (d != c->decode && is_better(policy, d, c->decode)) ||
                (d == c->decode && is_better(policy, p, c->prefill))) {
                c->decode = d;
                c->prefill = p;
            }
        }
    }
}

gw_route_answer gw_route_choose(gw_route_choice *ret, gw_router *router, gw_registry *r, const gw_route_wish *w)
{
    const bool is_colocated = !knows_prefill(r), is_short = w->prompt_tokens < w->local_below_tokens;
    seen s = {.any = false};
    *ret = (gw_route_choice){.local = is_colocated ? GW_LOCAL_NO_PREFILL_NODE : is_short ? GW_LOCAL_SHORT : GW_LOCAL_NOT};
    if (ret->local != GW_LOCAL_NOT) find_local(ret, &s, router->policy, r, w);
    if (!ret->decode) {
        ret->local = GW_LOCAL_NOT;
        find_pair(ret, &s, router->policy, r, w);
    }
    if (ret->decode) {
        ret->decode->turn = ++router->turns;
        if (ret->prefill) ret->prefill->turn = router->turns;
        return GW_ROUTE_CHOSEN;
    }
    if (!s.any) return GW_ROUTE_NO_NODE;
    if (s.any_fits) return GW_ROUTE_BUSY;
    ret->limit_tokens = s.limit;
    return GW_ROUTE_TOO_LONG;
}

uint64_t gw_route_limit_tokens(const gw_registry *r)
{
    uint64_t limit = 0;
    for (uint32_t i = 0; i < r->cap; i++) {
        const gw_node *d = &r->nodes[i];
        if (!is_ready(d, BT_ROLE_DECODE)) continue;
        if (prefills(d) && !odd_one(r, d) && local_limit(d) > limit) limit = local_limit(d);
        for (uint32_t k = 0; k < r->cap; k++) {
            const gw_node *p = &r->nodes[k];
            if (is_ready(p, BT_ROLE_PREFILL) && agree(p, d) && pair_limit(p, d) > limit) limit = pair_limit(p, d);
        }
    }
    return limit;
}

const gw_node *gw_route_other_kv(const gw_registry *r, const gw_node *n)
{
    for (uint32_t i = 0; i < r->cap; i++) {
        const gw_node *k = &r->nodes[i];
        if (k->in_use && k->state != GW_NODE_GONE && k->hello.role != n->hello.role && !agree(k, n)) return k;
    }
    return NULL;
}
