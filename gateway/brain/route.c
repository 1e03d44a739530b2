/* Which nodes a request gets. See route.h. */
#include "gateway/brain/route.h"
#include "base/hash.h"

#include <string.h>

uint64_t gw_route_class(const char *exactness) { return bt_hash64(exactness, strlen(exactness)); }

static bool is_ready(const gw_node *n, bt_role role)
{
    return n->in_use && n->hello.role == role && n->state == GW_NODE_READY;
}

/* Ready, or silent for so short a time that it may come back. */
static bool is_there(const gw_node *n, bt_role role, bool counts_suspect)
{
    return is_ready(n, role) ||
           (counts_suspect && n->in_use && n->hello.role == role && n->state == GW_NODE_SUSPECT);
}

static bool agree(const gw_node *p, const gw_node *d)
{
    return memcmp(&p->hello.kv, &d->hello.kv, sizeof p->hello.kv) == 0;
}

static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t local_limit(const gw_node *d)
{
    return min64(d->hello.ctx_tokens, d->hello.kv_capacity_tokens);
}

/* The longest prompt + answer that the pair holds. */
static uint64_t pair_limit(const gw_node *p, const gw_node *d)
{
    return min64(p->hello.ctx_tokens, local_limit(d));
}

static bool has_slot(const gw_node *n, int64_t now_us)
{
    return n->attempts < n->load.slots_total && now_us >= n->refuses_until_us;
}

/* Fewer attempts a slot: negative where a has fewer. Compared crosswise, so that no division rounds. */
static int compare_load(const gw_node *a, const gw_node *b)
{
    const uint64_t la = (uint64_t)a->attempts * b->load.slots_total,
                   lb = (uint64_t)b->attempts * a->load.slots_total;
    return (la > lb) - (la < lb);
}

/* a's slots are used by more than a half of them more than b's. */
static bool is_much_busier(const gw_node *a, const gw_node *b)
{
    const uint64_t sa = a->load.slots_total, sb = b->load.slots_total;
    return 2 * a->attempts * sb > 2 * b->attempts * sa + sa * sb;
}

static bool is_better(gw_policy policy, const gw_node *a, const gw_node *b)
{
    if (policy == GW_POLICY_PREFIX && a->match != b->match) return a->match > b->match;
    const int load = policy == GW_POLICY_ROUND_ROBIN ? 0 : compare_load(a, b);
    return load ? load < 0 : a->turn < b->turn;
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
        if (is_known_prefill(&r->nodes[i]) &&
            strcmp(r->nodes[i].hello.exactness, d->hello.prefill_exactness) != 0)
            return &r->nodes[i];
    return NULL;
}

static bool prefills(const gw_node *d, bool counts_suspect)
{
    return is_there(d, BT_ROLE_DECODE, counts_suspect) && d->hello.prefill_exactness[0];
}

static bool in_class(const gw_route_wish *w, const char *prefill, const gw_node *d)
{
    return !w->has_class || (w->prefill_class == gw_route_class(prefill) &&
                             w->decode_class == gw_route_class(d->hello.exactness));
}

typedef struct search {
    gw_route_choice *c;
    unsigned rank; /* of the choice: 0 nothing speaks against it */
    gw_router *router;
    gw_registry *r;
    const gw_route_wish *w;
    gw_policy policy;
    bool counts_suspect; /* looks, and chooses none */
    bool any, any_fits;  /* what it has seen */
    uint64_t limit;
} search;

static bool is_wanted(uint64_t only, const gw_node *n) { return only == 0 || only == n->name; }

static unsigned rank(const search *s, const gw_node *p, const gw_node *d)
{
    const gw_route_wish *w = s->w;
    const uint64_t prefill = p ? p->name : 0;
    const bool is_shunned = (w->shun_prefill || w->shun_decode) &&
                            (!w->shun_prefill || w->shun_prefill == prefill) &&
                            (!w->shun_decode || w->shun_decode == d->name);
    return 2u * gw_avoid_is(&s->router->avoid, prefill, d->name, w->now_us) + is_shunned;
}

/* Both hold the sequence; p NULL where d computes the prompt itself. The better of this and what was
 * chosen before. */
static void offer(search *s, gw_node *p, gw_node *d, gw_local local)
{
    gw_route_choice *c = s->c;
    if (s->counts_suspect || !has_slot(d, s->w->now_us) ||
        (p &&
         (!has_slot(p, s->w->now_us) || gw_avoid_refuses(&s->router->avoid, p->name, d->name, s->w->now_us))))
        return;
    const unsigned k = rank(s, p, d);
    if (c->decode) {
        if (k > s->rank || (k == s->rank && c->local != local))
            return; /* one that may be local is, among equals */
        if (k == s->rank && d != c->decode && !is_better(s->policy, d, c->decode)) return;
        if (k == s->rank && d == c->decode && (!p || !is_better(s->policy, p, c->prefill))) return;
    }
    s->rank = k;
    c->prefill = p;
    c->decode = d;
    c->local = local;
}

/* Whether what d has not had of the prompt is short. */
static bool is_short(const gw_route_wish *w, const gw_node *d)
{
    const uint64_t had = (uint64_t)d->match * GW_AFFINITY_CHUNK_TOKENS;
    return w->prompt_tokens < w->local_below_tokens + had && w->local_below_tokens > 0;
}

static void find_local(search *s, gw_local local)
{
    const gw_route_wish *w = s->w;
    for (uint32_t i = 0; i < s->r->cap; i++) {
        gw_node *d = &s->r->nodes[i];
        if (!prefills(d, s->counts_suspect) || !is_wanted(w->only_decode, d)) continue;
        if (local == GW_LOCAL_SHORT && !is_short(w, d)) continue;
        const gw_node *odd = odd_one(s->r, d);
        if (odd) {
            s->c->odd_decode = d;
            s->c->odd_prefill = odd;
            continue;
        }
        if (!in_class(w, d->hello.prefill_exactness, d)) continue;
        const uint64_t holds = local_limit(d);
        s->any = true;
        if (holds > s->limit) s->limit = holds;
        if ((uint64_t)w->prompt_tokens + w->max_tokens > holds) continue;
        s->any_fits = true;
        offer(s, NULL, d, local);
    }
}

static void find_pair(search *s)
{
    const gw_route_wish *w = s->w;
    for (uint32_t i = 0; i < s->r->cap; i++) {
        gw_node *d = &s->r->nodes[i];
        if (!is_there(d, BT_ROLE_DECODE, s->counts_suspect) || !is_wanted(w->only_decode, d)) continue;
        if (s->c->decode && s->rank == 0 && (s->c->local || !is_better(s->policy, d, s->c->decode))) continue;
        for (uint32_t k = 0; k < s->r->cap; k++) {
            gw_node *p = &s->r->nodes[k];
            if (!is_there(p, BT_ROLE_PREFILL, s->counts_suspect) || !is_wanted(w->only_prefill, p) ||
                !agree(p, d) || !in_class(w, p->hello.exactness, d))
                continue;
            const uint64_t holds = pair_limit(p, d);
            s->any = true;
            if (holds > s->limit) s->limit = holds;
            if ((uint64_t)w->prompt_tokens + w->max_tokens > holds ||
                w->prompt_tokens > p->hello.kv_capacity_tokens)
                continue;
            s->any_fits = true;
            offer(s, p, d, GW_LOCAL_NOT);
        }
    }
}

static bool has_free_decode(const search *s)
{
    for (uint32_t i = 0; i < s->r->cap; i++)
        if (is_ready(&s->r->nodes[i], BT_ROLE_DECODE) && has_slot(&s->r->nodes[i], s->w->now_us)) return true;
    return false;
}

/* What each ready node has had of the prompt; nothing, where it is much busier than the least loaded of
 * its role. */
static void find_matches(const search *s)
{
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    const gw_node *least[2] = {NULL, NULL};
    const bool is_asked = s->policy == GW_POLICY_PREFIX || s->w->local_below_tokens > 0;
    /* A full house is asked at every step: not for that. */
    const bool looks = is_asked && s->router->affinity && has_free_decode(s);
    const uint32_t chunks = looks ? gw_affinity_chain(chain, s->w->ids, s->w->prompt_tokens) : 0;
    for (uint32_t i = 0; i < s->r->cap; i++) {
        const gw_node *n = &s->r->nodes[i], **l = &least[n->hello.role == BT_ROLE_DECODE];
        if (is_ready(n, n->hello.role) && (!*l || compare_load(n, *l) < 0)) *l = n;
    }
    for (uint32_t i = 0; i < s->r->cap; i++) {
        gw_node *n = &s->r->nodes[i];
        n->match = 0;
        if (is_ready(n, n->hello.role) && !is_much_busier(n, least[n->hello.role == BT_ROLE_DECODE]))
            n->match = gw_affinity_match(s->router->affinity, chain, chunks, &n->incarnation);
    }
}

static void find(search *s)
{
    const bool is_colocated = !knows_prefill(s->r);
    if ((is_colocated || s->w->local_below_tokens > 0) && !s->w->only_prefill)
        find_local(s, is_colocated ? GW_LOCAL_NO_PREFILL_NODE : GW_LOCAL_SHORT);
    find_pair(s);
}

gw_route_answer gw_route_choose(gw_route_choice *ret, gw_router *router, gw_registry *r,
                                const gw_route_wish *w)
{
    search s = {.c = ret, .router = router, .r = r, .w = w, .policy = w->policy ? w->policy : router->policy};
    *ret = (gw_route_choice){.local = GW_LOCAL_NOT};
    find_matches(&s);
    find(&s);
    if (ret->decode) {
        ret->decode->turn = ++router->turns;
        if (ret->prefill) ret->prefill->turn = router->turns;
        gw_avoid_tried(&router->avoid, ret->prefill ? ret->prefill->name : 0, ret->decode->name, w->now_us);
        return GW_ROUTE_CHOSEN;
    }
    if (!s.any) return GW_ROUTE_NO_NODE;
    if (s.any_fits) return GW_ROUTE_BUSY;
    ret->limit_tokens = s.limit;
    s.counts_suspect = true;
    find(&s);
    return s.any_fits ? GW_ROUTE_NO_NODE : GW_ROUTE_TOO_LONG;
}

uint64_t gw_route_limit_tokens(const gw_registry *r, bool counts_suspect)
{
    uint64_t limit = 0;
    for (uint32_t i = 0; i < r->cap; i++) {
        const gw_node *d = &r->nodes[i];
        if (!is_there(d, BT_ROLE_DECODE, counts_suspect)) continue;
        if (prefills(d, counts_suspect) && !odd_one(r, d) && local_limit(d) > limit) limit = local_limit(d);
        for (uint32_t k = 0; k < r->cap; k++) {
            const gw_node *p = &r->nodes[k];
            if (is_there(p, BT_ROLE_PREFILL, counts_suspect) && agree(p, d) && pair_limit(p, d) > limit)
                limit = pair_limit(p, d);
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
