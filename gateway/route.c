/* Which pair of nodes a request gets. See route.h. */
#include "gateway/route.h"

#include <string.h>

static bool is_ready(const gw_node *n, bt_role role)
{
    return n->in_use && n->hello.role == role && n->state == GW_NODE_READY;
}

static bool agree(const gw_node *p, const gw_node *d)
{
    return memcmp(&p->hello.kv, &d->hello.kv, sizeof p->hello.kv) == 0;
}

static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The longest prompt + answer that the pair holds. */
static uint64_t pair_limit(const gw_node *p, const gw_node *d)
{
    return min64(p->hello.ctx_tokens, min64(d->hello.ctx_tokens, d->hello.kv_capacity_tokens));
}

static bool has_slot(const gw_node *n) { return n->attempts < n->load.slots_total; }

/* a before b: fewer attempts a slot, then chosen longest ago. Compared crosswise, so that no division rounds. */
static bool is_better(gw_policy policy, const gw_node *a, const gw_node *b)
{
    uint64_t la = (uint64_t)a->attempts * b->load.slots_total, lb = (uint64_t)b->attempts * a->load.slots_total;
    if (policy == GW_POLICY_LEAST_LOAD && la != lb) return la < lb;
    return a->turn < b->turn;
}

gw_route_answer gw_route_choose(gw_router *router, gw_registry *r, uint32_t prompt_tokens, uint32_t max_tokens,
                                gw_node **ret_prefill, gw_node **ret_decode, uint64_t *ret_limit_tokens)
{
    gw_node *best_p = NULL, *best_d = NULL;
    bool any = false, any_fits = false;
    uint64_t limit = 0, need = (uint64_t)prompt_tokens + max_tokens;
    for (uint32_t i = 0; i < r->cap; i++) {
        gw_node *d = &r->nodes[i];
        if (!is_ready(d, BT_ROLE_DECODE)) continue;
        for (uint32_t k = 0; k < r->cap; k++) {
            gw_node *p = &r->nodes[k];
            if (!is_ready(p, BT_ROLE_PREFILL) || !agree(p, d)) continue;
            any = true;
            uint64_t holds = pair_limit(p, d);
            if (holds > limit) limit = holds;
            if (need > holds || prompt_tokens > p->hello.kv_capacity_tokens) continue;
            any_fits = true;
            if (!has_slot(p) || !has_slot(d)) continue;
            if (!best_d || (d != best_d && is_better(router->policy, d, best_d)) ||
                (d == best_d && is_better(router->policy, p, best_p))) {
                best_d = d;
                best_p = p;
            }
        }
    }
    if (best_d) {
        best_p->turn = best_d->turn = ++router->turns;
        *ret_prefill = best_p;
        *ret_decode = best_d;
        return GW_ROUTE_PAIR;
    }
    if (!any) return GW_ROUTE_NO_NODE;
    if (any_fits) return GW_ROUTE_BUSY;
    *ret_limit_tokens = limit;
    return GW_ROUTE_TOO_LONG;
}

uint64_t gw_route_limit_tokens(const gw_registry *r)
{
    uint64_t limit = 0;
    for (uint32_t i = 0; i < r->cap; i++) {
        const gw_node *d = &r->nodes[i];
        if (!is_ready(d, BT_ROLE_DECODE)) continue;
        for (uint32_t k = 0; k < r->cap; k++) {
            const gw_node *p = &r->nodes[k];
            if (is_ready(p, BT_ROLE_PREFILL) && agree(p, d) && pair_limit(p, d) > limit) limit = pair_limit(p, d);
        }
    }
    return limit;
}
