/* Which nodes a request gets. See route.h.
 *
 * The choice is the first of all pairs (and of all decode nodes that prefill) by rank, a local prefill before
 * a pair, then by the decode node in the policy's order, then by the prefill node in it. Pairs are never
 * listed: what speaks for a node does not depend on its partner but for the shape of their KV, and but for
 * the few pairs that were avoided or refused (avoid.h, at most GW_AVOID_MAX) or shunned. So for each shape
 * the registry's orders are walked from the first node on, and the first that fits is taken. */
#include "gateway/brain/route.h"
#include "base/hash.h"

#include <string.h>

uint64_t gw_route_class(const char *exactness) { return bt_hash64(exactness, strlen(exactness)); }

static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static bool is_in_state(const gw_node *n, bool counts_suspect)
{
    return n->state == GW_NODE_READY || (counts_suspect && n->state == GW_NODE_SUSPECT);
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

/* In the order of a policy, and among equals of place. */
static bool is_before(gw_policy policy, const gw_node *a, const gw_node *b)
{
    if (policy == GW_POLICY_PREFIX && a->match != b->match) return a->match > b->match;
    const int load = policy == GW_POLICY_ROUND_ROBIN ? 0 : compare_load(a, b);
    if (load) return load < 0;
    return a->turn != b->turn ? a->turn < b->turn : a < b; /* places lie in one array */
}

/* ---- classes ------------------------------------------------------------------------------------ */

/* The first known prefill node, by place, of another class than this one; NULL: there is none. */
static const gw_node *odd_one(const gw_registry *r, uint64_t prefill_class)
{
    int64_t odd = BT_ORDER_NONE;
    for (int64_t at = bt_order_first(&r->known, 0); at >= 0;) {
        const uint64_t class = bt_order_key_of(&r->known, at).hi;
        if (class != prefill_class && (odd < 0 || at < odd)) odd = at;
        at = class == UINT64_MAX ? BT_ORDER_NONE : bt_order_from(&r->known, 0, bt_order_number(class + 1));
    }
    return odd < 0 ? NULL : &r->nodes[odd];
}

/* The first decode node of the next class of those that prefill; after < 0: of the first class. */
static int64_t next_local_class(const gw_registry *r, int64_t after)
{
    if (after < 0) return bt_order_first(&r->locals, 0);
    const uint64_t class = r->nodes[after].prefill_class;
    return class == UINT64_MAX ? BT_ORDER_NONE : bt_order_from(&r->locals, 0, bt_order_number(class + 1));
}

/* Whether any decode node could compute prompts. */
static bool may_any_prefill(const gw_registry *r)
{
    for (int64_t at = next_local_class(r, -1); at >= 0; at = next_local_class(r, at))
        if (!odd_one(r, r->nodes[at].prefill_class)) return true;
    return false;
}

static bool may_prefill(const gw_registry *r, const gw_node *d)
{
    return d->prefill_class && !odd_one(r, d->prefill_class);
}

/* ---- walks -------------------------------------------------------------------------------------- */

typedef struct search {
    gw_route_choice *c;
    unsigned rank; /* of what is looked for: 0 nothing speaks against it */
    gw_router *router;
    gw_registry *r;
    const gw_route_wish *w;
    gw_policy policy;
    uint64_t needs;    /* prompt and answer */
    bool is_new_short; /* a prompt of which a node has had nothing is short */
    gw_local local;    /* what a local prefill would be; NOT: none is asked for */
} search;

/* Nodes of one role and shape with a free slot, in the policy's order. */
typedef struct walk {
    const search *s;
    uint32_t set;
    const bt_order *o;
    const gw_node *only; /* NULL: all */
    const gw_node *last; /* of those with a match, which come first under PREFIX */
    int64_t at;
    enum { WALK_BEGIN, WALK_MATCHED, WALK_REST, WALK_END } part;
} walk;

/* The node that a wish insists on; *ret_none: it is not there. */
static const gw_node *insisted(const search *s, bt_role role, bool *ret_none)
{
    const uint64_t name = role == BT_ROLE_DECODE ? s->w->only_decode : s->w->only_prefill;
    const gw_node *n = name ? gw_registry_by_name(s->r, name) : NULL;
    *ret_none = name && (!n || n->hello.role != role);
    return n;
}

static walk begin_walk(const search *s, uint32_t shape, bt_role role)
{
    bool is_none;
    const gw_node *only = insisted(s, role, &is_none);
    return (walk){.s = s,
                  .set = gw_registry_set(shape, role),
                  .only = only,
                  .at = BT_ORDER_NONE,
                  .o = s->policy == GW_POLICY_ROUND_ROBIN ? &s->r->by_turn : &s->r->by_load,
                  .part = is_none ? WALK_END : WALK_BEGIN};
}

static bool is_in(const walk *k, const gw_node *n)
{
    return bt_order_has(k->o, k->set, (uint32_t)(n - k->s->r->nodes));
}

static gw_node *next_matched(walk *k)
{
    gw_registry *r = k->s->r;
    gw_node *best = NULL;
    for (uint32_t i = 0; i < r->matched_len; i++) {
        gw_node *n = &r->nodes[r->matched[i]];
        if (is_in(k, n) && (!k->last || is_before(GW_POLICY_PREFIX, k->last, n)) &&
            (!best || is_before(GW_POLICY_PREFIX, n, best)))
            best = n;
    }
    return best;
}

static gw_node *walk_next(walk *k)
{
    gw_registry *r = k->s->r;
    if (k->part == WALK_END) return NULL;
    if (k->only) {
        k->part = WALK_END;
        return is_in(k, k->only) ? &r->nodes[k->only - r->nodes] : NULL;
    }
    const bool has_matched = k->s->policy == GW_POLICY_PREFIX && r->matched_len > 0;
    if (k->part == WALK_BEGIN) k->part = has_matched ? WALK_MATCHED : WALK_REST;
    if (k->part == WALK_MATCHED) {
        gw_node *n = next_matched(k);
        if (n) {
            k->last = n;
            return n;
        }
        k->part = WALK_REST;
    }
    do k->at = k->at < 0 ? bt_order_first(k->o, k->set) : bt_order_next(k->o, k->at);
    while (k->at >= 0 && has_matched && r->nodes[k->at].match > 0);
    if (k->at < 0) k->part = WALK_END;
    return k->at < 0 ? NULL : &r->nodes[k->at];
}

/* Nodes of one role and shape that are there, whoever holds most first; their state is the caller's to look
 * at. */
static int64_t next_there(const search *s, uint32_t shape, bt_role role, int64_t at)
{
    bool is_none;
    const uint32_t set = gw_registry_set(shape, role);
    const gw_node *only = insisted(s, role, &is_none);
    if (is_none) return BT_ORDER_NONE;
    if (only) {
        const uint32_t place = (uint32_t)(only - s->r->nodes);
        return at < 0 && bt_order_has(&s->r->there, set, place) ? (int64_t)place : BT_ORDER_NONE;
    }
    return at < 0 ? bt_order_first(&s->r->there, set) : bt_order_next(&s->r->there, at);
}

/* ---- what a wish asks of a node ----------------------------------------------------------------- */

static bool is_of_classes(const gw_route_wish *w, uint64_t prefill_class, const gw_node *d)
{
    return !w->has_class || (w->prefill_class == prefill_class && w->decode_class == d->exact_class);
}

static bool takes_prompt(const search *s, const gw_node *p)
{
    return (!s->w->has_class || s->w->prefill_class == p->exact_class) && s->needs <= p->hello.ctx_tokens &&
           s->w->prompt_tokens <= p->hello.kv_capacity_tokens;
}

static bool takes_answer(const search *s, const gw_node *d)
{
    return (!s->w->has_class || s->w->decode_class == d->exact_class) && s->needs <= gw_node_limit(d);
}

/* Whether what d has not had of the prompt is short. */
static bool is_short(const gw_route_wish *w, const gw_node *d)
{
    const uint64_t had = (uint64_t)d->match * GW_AFFINITY_CHUNK_TOKENS;
    return w->prompt_tokens < w->local_below_tokens + had && w->local_below_tokens > 0;
}

/* It may compute the prompt itself, were it long enough. */
static bool may_be_local(const search *s, const gw_node *d)
{
    return (s->local == GW_LOCAL_NO_PREFILL_NODE || is_short(s->w, d)) && may_prefill(s->r, d) &&
           is_of_classes(s->w, d->prefill_class, d);
}

static unsigned rank_of(const search *s, const gw_node *p, const gw_node *d)
{
    const gw_route_wish *w = s->w;
    const uint64_t prefill = p ? p->name : 0;
    const bool is_shunned = (w->shun_prefill || w->shun_decode) &&
                            (!w->shun_prefill || w->shun_prefill == prefill) &&
                            (!w->shun_decode || w->shun_decode == d->name);
    return 2u * gw_avoid_is(&s->router->avoid, prefill, d->name, w->now_us) + is_shunned;
}

/* ---- the first of a rank ------------------------------------------------------------------------ */

static void take_better(search *s, gw_node *p, gw_node *d, gw_local local)
{
    if (s->c->decode && !is_before(s->policy, d, s->c->decode)) return;
    s->c->prefill = p;
    s->c->decode = d;
    s->c->local = local;
}

static bool is_local_of_rank(const search *s, const gw_node *d)
{
    return may_be_local(s, d) && s->needs <= gw_node_limit(d) && rank_of(s, NULL, d) == s->rank;
}

/* Only what a node has had makes the prompt short. */
static void find_matched_local(search *s)
{
    for (uint32_t i = 0; i < s->r->matched_len; i++) {
        const uint32_t at = s->r->matched[i];
        gw_node *d = &s->r->nodes[at];
        const bool is_wanted = s->w->only_decode == 0 || s->w->only_decode == d->name;
        if (is_wanted && d->hello.role == BT_ROLE_DECODE && is_local_of_rank(s, d) &&
            bt_order_has(&s->r->by_load, gw_registry_set(d->shape - 1, BT_ROLE_DECODE), at))
            take_better(s, NULL, d, s->local);
    }
}

static void find_local(search *s)
{
    if (s->local == GW_LOCAL_SHORT && !s->is_new_short) {
        find_matched_local(s);
        return;
    }
    for (uint32_t shape = 0; shape < s->r->shapes_len; shape++) {
        walk k = begin_walk(s, shape, BT_ROLE_DECODE);
        gw_node *d = walk_next(&k);
        while (d && !is_local_of_rank(s, d)) d = walk_next(&k);
        if (d) take_better(s, NULL, d, s->local);
    }
}

static gw_node *prefill_for(const search *s, uint32_t shape, const gw_node *d)
{
    const gw_avoid *avoid = &s->router->avoid;
    walk k = begin_walk(s, shape, BT_ROLE_PREFILL);
    for (gw_node *p; (p = walk_next(&k));)
        if (takes_prompt(s, p) &&
            (!d || (rank_of(s, p, d) == s->rank && !gw_avoid_refuses(avoid, p->name, d->name, s->w->now_us))))
            return p;
    return NULL;
}

/* Decode nodes with the same flags have the same prefill nodes, but for those that something is said of with
 * one. */
static bool is_special(const search *s, const gw_node *d)
{
    return (s->w->shun_prefill && s->w->shun_decode == d->name) ||
           gw_avoid_names_pair(&s->router->avoid, d->name);
}

static unsigned flags_of(const search *s, const gw_node *d)
{
    return 2u * gw_avoid_is(&s->router->avoid, 0, d->name, s->w->now_us) + (s->w->shun_decode == d->name);
}

static void find_pair_of(search *s, uint32_t shape)
{
    gw_node *known[4], *d, *p;
    bool is_known[4] = {false};
    if (!prefill_for(s, shape, NULL)) return;
    for (walk k = begin_walk(s, shape, BT_ROLE_DECODE); (d = walk_next(&k));) {
        if (!takes_answer(s, d)) continue;
        const unsigned flags = flags_of(s, d);
        if (is_special(s, d)) {
            p = prefill_for(s, shape, d);
        } else {
            if (!is_known[flags]) known[flags] = prefill_for(s, shape, d);
            is_known[flags] = true;
            p = known[flags];
        }
        if (!p) continue;
        take_better(s, p, d, GW_LOCAL_NOT);
        return;
    }
}

/* True: found. */
static bool find(search *s)
{
    const bool is_shunning = s->w->shun_prefill || s->w->shun_decode;
    const unsigned ranks = s->router->avoid.len > 0 ? 4 : is_shunning ? 2 : 1;
    for (s->rank = 0; s->rank < ranks; s->rank++) {
        if (s->local) find_local(s);
        for (uint32_t i = 0; i < s->r->shapes_len && !s->c->local; i++) find_pair_of(s, i);
        if (s->c->decode) return true;
    }
    return false;
}

/* ---- why none is found -------------------------------------------------------------------------- */

typedef struct view {
    bool any, any_fits; /* nodes that would do, were they free; and were they large enough */
    uint64_t limit;     /* what the best of them hold */
} view;

static void see(view *v, uint64_t holds, bool fits)
{
    v->any = true;
    v->any_fits |= fits;
    if (holds > v->limit) v->limit = holds;
}

static void see_local(const search *s, view *v, bool counts_suspect)
{
    for (uint32_t shape = 0; shape < s->r->shapes_len; shape++)
        for (int64_t at = -1; (at = next_there(s, shape, BT_ROLE_DECODE, at)) >= 0;) {
            const gw_node *d = &s->r->nodes[at];
            if (!is_in_state(d, counts_suspect) || !may_be_local(s, d)) continue;
            see(v, gw_node_limit(d), s->needs <= gw_node_limit(d));
            break;
        }
}

static void see_matched_local(const search *s, view *v)
{
    for (uint32_t i = 0; i < s->r->matched_len; i++) {
        const gw_node *d = &s->r->nodes[s->r->matched[i]];
        const bool is_wanted = s->w->only_decode == 0 || s->w->only_decode == d->name;
        if (is_wanted && d->hello.role == BT_ROLE_DECODE && may_be_local(s, d))
            see(v, gw_node_limit(d), s->needs <= gw_node_limit(d));
    }
}

/* The first of the shape and role that is of the class, and where it must fit takes the prompt. */
static const gw_node *longest(const search *s, uint32_t shape, bt_role role, bool counts_suspect, bool fits)
{
    const bool is_decode = role == BT_ROLE_DECODE;
    const uint64_t class = is_decode ? s->w->decode_class : s->w->prefill_class;
    for (int64_t at = -1; (at = next_there(s, shape, role, at)) >= 0;) {
        const gw_node *n = &s->r->nodes[at];
        if (fits && s->needs > gw_node_limit(n)) return NULL; /* nor does any that follows */
        if (is_in_state(n, counts_suspect) && (!s->w->has_class || n->exact_class == class) &&
            (!fits || is_decode || takes_prompt(s, n)))
            return n;
    }
    return NULL;
}

static view look(const search *s, bool counts_suspect)
{
    view v = {.any = false};
    if (s->local == GW_LOCAL_SHORT && !s->is_new_short) see_matched_local(s, &v);
    else if (s->local) see_local(s, &v, counts_suspect);
    for (uint32_t i = 0; i < s->r->shapes_len; i++) {
        const gw_node *d = longest(s, i, BT_ROLE_DECODE, counts_suspect, false),
                      *p = longest(s, i, BT_ROLE_PREFILL, counts_suspect, false);
        if (!d || !p) continue;
        see(&v, min64(gw_node_limit(p), gw_node_limit(d)),
            s->needs <= gw_node_limit(d) && longest(s, i, BT_ROLE_PREFILL, counts_suspect, true));
    }
    return v;
}

/* ---- what nodes have had ------------------------------------------------------------------------ */

static bool has_free_decode(const search *s)
{
    for (uint32_t i = 0; i < s->r->shapes_len; i++)
        if (bt_order_first(&s->r->by_load, gw_registry_set(i, BT_ROLE_DECODE)) >= 0) return true;
    return false;
}

/* What each ready node has had of the prompt; nothing, where it is much busier than the least loaded of
 * its role. */
static void find_matches(const search *s)
{
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    gw_registry *r = s->r;
    const bool is_asked = s->policy == GW_POLICY_PREFIX || s->w->local_below_tokens > 0;
    /* A full house is asked at every step: not for that. */
    if (!is_asked || !s->router->affinity || !has_free_decode(s)) return;
    const uint32_t chunks = gw_affinity_chain(chain, s->w->ids, s->w->prompt_tokens);
    for (uint32_t i = 0; i < r->used; i++) {
        gw_node *n = &r->nodes[i];
        const int64_t least = bt_order_first(&r->least, n->hello.role == BT_ROLE_DECODE);
        if (!n->in_use || n->state != GW_NODE_READY || (least >= 0 && is_much_busier(n, &r->nodes[least])))
            continue;
        n->match = gw_affinity_match(s->router->affinity, chain, chunks, &n->incarnation);
        if (n->match > 0) r->matched[r->matched_len++] = i;
    }
}

static void forget_matches(gw_registry *r)
{
    while (r->matched_len > 0) r->nodes[r->matched[--r->matched_len]].match = 0;
}

/* ---- the answer --------------------------------------------------------------------------------- */

static void note_odd(search *s, const gw_node *d)
{
    if (s->c->odd_decode && s->c->odd_decode > d) return; /* the last place */
    const gw_node *odd = odd_one(s->r, d->prefill_class);
    if (!odd) return;
    s->c->odd_decode = d;
    s->c->odd_prefill = odd;
}

/* Who would have computed the prompt were it of the class of all prefill nodes. */
static void find_odd(search *s)
{
    gw_registry *r = s->r;
    bool is_none;
    const gw_node *only = insisted(s, BT_ROLE_DECODE, &is_none);
    if (s->local != GW_LOCAL_SHORT || is_none) return;
    if (only) {
        if (only->state == GW_NODE_READY && only->prefill_class && is_short(s->w, only)) note_odd(s, only);
        return;
    }
    for (uint32_t i = 0; i < r->matched_len && !s->is_new_short; i++) {
        const gw_node *d = &r->nodes[r->matched[i]];
        if (d->hello.role == BT_ROLE_DECODE && d->prefill_class && is_short(s->w, d)) note_odd(s, d);
    }
    for (int64_t at = -1; s->is_new_short && (at = next_local_class(r, at)) >= 0;) {
        const uint64_t class = r->nodes[at].prefill_class;
        int64_t ready = at;
        while (ready >= 0 && r->nodes[ready].state != GW_NODE_READY) ready = bt_order_next(&r->locals, ready);
        if (ready >= 0 && r->nodes[ready].prefill_class == class) note_odd(s, &r->nodes[ready]);
    }
}

static gw_route_answer choose(search *s)
{
    gw_route_choice *c = s->c;
    find_odd(s);
    if (!may_any_prefill(s->r)) s->local = GW_LOCAL_NOT;
    if (find(s)) {
        c->decode->turn = ++s->router->turns;
        if (c->prefill) c->prefill->turn = s->router->turns;
        gw_registry_changed(s->r, c->decode);
        if (c->prefill) gw_registry_changed(s->r, c->prefill);
        gw_avoid_tried(&s->router->avoid, c->prefill ? c->prefill->name : 0, c->decode->name, s->w->now_us);
        return GW_ROUTE_CHOSEN;
    }
    const view v = look(s, false);
    if (!v.any) return GW_ROUTE_NO_NODE;
    if (v.any_fits) return GW_ROUTE_BUSY;
    c->limit_tokens = v.limit;
    return look(s, true).any_fits ? GW_ROUTE_NO_NODE : GW_ROUTE_TOO_LONG;
}

gw_route_answer gw_route_choose(gw_route_choice *ret, gw_router *router, gw_registry *r,
                                const gw_route_wish *w)
{
    const bool is_colocated = bt_order_first(&r->known, 0) < 0;
    const bool asks_local = (is_colocated || w->local_below_tokens > 0) && !w->only_prefill;
    search s = {.c = ret,
                .router = router,
                .r = r,
                .w = w,
                .policy = w->policy ? w->policy : router->policy,
                .needs = (uint64_t)w->prompt_tokens + w->max_tokens,
                .is_new_short = w->prompt_tokens < w->local_below_tokens,
                .local = !asks_local    ? GW_LOCAL_NOT
                         : is_colocated ? GW_LOCAL_NO_PREFILL_NODE
                                        : GW_LOCAL_SHORT};
    *ret = (gw_route_choice){.local = GW_LOCAL_NOT};
    gw_registry_pass(r, w->now_us);
    find_matches(&s);
    const gw_route_answer answer = choose(&s);
    forget_matches(r);
    return answer;
}

/* ---- about all nodes ---------------------------------------------------------------------------- */

/* The longest sequence of the shape's nodes of the role, by what they hold themselves; local: those that may
 * prefill. */
static uint64_t holds_most(const gw_registry *r, uint32_t set, bool counts_suspect, bool local)
{
    for (int64_t at = bt_order_first(&r->there, set); at >= 0; at = bt_order_next(&r->there, at))
        if (is_in_state(&r->nodes[at], counts_suspect) && (!local || may_prefill(r, &r->nodes[at])))
            return gw_node_limit(&r->nodes[at]);
    return 0;
}

uint64_t gw_route_limit_tokens(const gw_registry *r, bool counts_suspect)
{
    const bool has_local = may_any_prefill(r);
    uint64_t limit = 0;
    for (uint32_t i = 0; i < r->shapes_len; i++) {
        const uint32_t decode = gw_registry_set(i, BT_ROLE_DECODE);
        const uint64_t pair = min64(holds_most(r, gw_registry_set(i, BT_ROLE_PREFILL), counts_suspect, false),
                                    holds_most(r, decode, counts_suspect, false));
        const uint64_t local = has_local ? holds_most(r, decode, counts_suspect, true) : 0;
        if (pair > limit) limit = pair;
        if (local > limit) limit = local;
    }
    return limit;
}

const gw_node *gw_route_other_kv(const gw_registry *r, const gw_node *n)
{
    const bt_role other = n->hello.role == BT_ROLE_DECODE ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
    int64_t first = BT_ORDER_NONE;
    for (uint32_t i = 0; i < r->shapes_len; i++) {
        const int64_t at = bt_order_first(&r->kin, gw_registry_set(i, other));
        if (i + 1 != n->shape && at >= 0 && (first < 0 || at < first)) first = at;
    }
    return first < 0 ? NULL : &r->nodes[first];
}
