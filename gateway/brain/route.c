/* The choice of a request's nodes. See route.h.
 *
 * The choice is the first of all pairs (and of all decode nodes that prefill) by rank, a local prefill before
 * a pair, then by the decode node in the policy's order, then by the prefill node in it. Pairs are never
 * listed: a node's rank does not depend on its partner, except for the shape of their KV and for the few
 * pairs that were avoided or refused (avoid.h, at most GW_AVOID_MAX) or shunned. So the walk goes through the
 * registry's orders for each shape from the first node on, and takes the first that fits. */
#include "gateway/brain/route.h"
#include "base/breakage.h"
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

/* The order of a policy without affinity; among equals, by place. */
static bool is_before(gw_policy policy, const gw_node *a, const gw_node *b)
{
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

/* ---- what nodes have had ------------------------------------------------------------------------ */

typedef struct search {
    gw_route_choice *c;
    unsigned rank; /* of what is looked for: 0 nothing speaks against it */
    gw_open open;  /* decode nodes with such a line are looked for */
    gw_router *router;
    gw_registry *r;
    const gw_route_wish *w;
    gw_policy policy;
    uint64_t needs;      /* prompt and answer */
    gw_local local;      /* what a local prefill would be; NOT: none is asked for */
    bool is_new_short;   /* a prompt of which a node has had nothing is short */
    uint32_t short_from; /* else: it is where a node has had so many chunks of it */
    bool is_short;       /* for the slots that some prefill node keeps */
    uint32_t slot_from;  /* else: it is where a node has had so many chunks of it; 0: nowhere */
    const uint64_t *chain;
    uint32_t chunks;  /* 0: nobody asks what nodes have had */
    uint32_t longest; /* that any node has had */
} search;

/* Whether it counts that n has had so many chunks of the prompt (route.h). */
static bool counts(const search *s, const gw_node *n, uint32_t chunks)
{
    const gw_registry *r = s->r;
    const bool is_decode = n->hello.role == BT_ROLE_DECODE;
    const int64_t least = bt_order_first(&r->least, is_decode);
    if (n->state != GW_NODE_READY || least < 0) return false;
    if (BT_BREAK(prefix_herds)) return true;
    const uint64_t saved = (uint64_t)chunks * GW_AFFINITY_CHUNK_TOKENS,
                   mean = gw_registry_lately(r, &r->given[is_decode]) / r->ready[is_decode];
    return n->waiting_tokens < r->nodes[least].waiting_tokens + saved &&
           gw_registry_lately(r, &n->given) <= mean + 2 * saved;
}

static uint32_t had_by(const search *s, const gw_node *n)
{
    return s->longest ? gw_affinity_match(s->router->affinity, s->chain, s->longest, &n->incarnation) : 0;
}

/* Whether n has had at least so many chunks of the prompt, and that counts; 0: always. */
static bool has_had(const search *s, const gw_node *n, uint32_t chunks)
{
    return chunks == 0 || (chunks <= s->longest &&
                           gw_affinity_has(s->router->affinity, s->chain[chunks - 1], &n->incarnation) &&
                           counts(s, n, had_by(s, n)));
}

static uint32_t new_tokens(const search *s, const gw_node *n)
{
    return s->w->prompt.tokens - had_by(s, n) * GW_AFFINITY_CHUNK_TOKENS;
}

/* The next node known to have had so many chunks, the one that got them longest ago first. */
static gw_node *next_holder(const search *s, uint32_t chunks, uint32_t *at)
{
    const bt_incarnation *who;
    while ((who = gw_affinity_holder(s->router->affinity, s->chain[chunks - 1], at))) {
        gw_node *n = gw_registry_find(s->r, who);
        if (n) return n;
    }
    return NULL;
}

/* The holders of so many chunks that are looked at. */
typedef struct holders {
    const search *s;
    uint32_t chunks, at, seen, known;
} holders;

static gw_node *next_looked_at(holders *h)
{
    const search *s = h->s;
    const bt_incarnation *who;
    while (h->seen++ < GW_HOLDERS_SEEN && h->known < GW_HOLDERS_MAX &&
           (who = gw_affinity_holder(s->router->affinity, s->chain[h->chunks - 1], &h->at))) {
        gw_node *n = gw_registry_find(s->r, who);
        h->known += n != NULL;
        if (n) return n;
    }
    return NULL;
}

static bool is_looked_at(const search *s, const gw_node *n, uint32_t chunks)
{
    holders h = {.s = s, .chunks = chunks};
    for (const gw_node *k; (k = next_looked_at(&h));)
        if (k == n) return true;
    return false;
}

static uint32_t match_of(const search *s, const gw_node *n)
{
    const uint32_t chunks = had_by(s, n);
    return chunks && counts(s, n, chunks) && is_looked_at(s, n, chunks) ? chunks : 0;
}

static bool is_better(const search *s, const gw_node *a, const gw_node *b)
{
    if (s->policy == GW_POLICY_PREFIX && s->longest > 0) {
        const uint32_t ma = match_of(s, a), mb = match_of(s, b);
        if (ma != mb) return ma > mb;
    }
    return is_before(s->policy, a, b);
}

/* ---- walks -------------------------------------------------------------------------------------- */

/* Nodes of one role and shape with a free slot, in the policy's order. Under PREFIX the walk goes level by
 * level: nodes that have had most chunks, then those with one less, and last those whose prefixes do not
 * count or are not looked at. */
typedef struct walk {
    const search *s;
    uint32_t set;
    const bt_order *o;
    const gw_node *only; /* NULL: all */
    uint32_t floor;      /* chunks that a node must have had */
    uint32_t level;      /* of `last`; 0: the rest */
    const gw_node *last; /* NULL: none of this level so far */
    bool is_exact;       /* a level has those with just so many chunks; else also those with more */
    bool is_over;
} walk;

/* The node that a wish insists on; *ret_none: it is not there. */
static const gw_node *insisted(const search *s, bt_role role, bool *ret_none)
{
    const uint64_t name = role == BT_ROLE_DECODE ? s->w->only_decode : s->w->only_prefill;
    const gw_node *n = name ? gw_registry_by_name(s->r, name) : NULL;
    *ret_none = name && (!n || n->hello.role != role);
    return n;
}

static const bt_order *order_of(const search *s, bool is_short)
{
    if (s->policy == GW_POLICY_ROUND_ROBIN) return is_short ? &s->r->short_by_turn : &s->r->by_turn;
    return is_short ? &s->r->short_by_load : &s->r->by_load;
}

/* is_short: those with a slot for a short prompt, too. */
static walk begin_walk(const search *s, uint32_t shape, bt_role role, uint32_t floor, bool is_short)
{
    bool is_none;
    const gw_node *only = insisted(s, role, &is_none);
    const bool is_prefix = s->policy == GW_POLICY_PREFIX;
    return (walk){.s = s,
                  .set = gw_registry_open_set(shape, role, role == BT_ROLE_DECODE ? s->open : GW_OPEN),
                  .only = only,
                  .floor = floor,
                  .level = is_prefix ? s->longest : floor,
                  .o = order_of(s, is_short),
                  .is_exact = is_prefix,
                  .is_over = is_none || floor > s->longest};
}

static bool is_in(const walk *k, const gw_node *n)
{
    return bt_order_has(k->o, k->set, (uint32_t)(n - k->s->r->nodes));
}

/* Level 0, where levels are walked, has all nodes that no level above it has. */
static bool is_of_level(const walk *k, const gw_node *n)
{
    if (k->level == 0) return !k->is_exact || match_of(k->s, n) == 0;
    const bool has_more = k->is_exact && k->level < k->s->longest &&
                          gw_affinity_has(k->s->router->affinity, k->s->chain[k->level], &n->incarnation);
    return !has_more && counts(k->s, n, k->is_exact ? k->level : had_by(k->s, n));
}

/* In the order of all nodes with a free slot. */
static gw_node *next_by_order(const walk *k)
{
    gw_registry *r = k->s->r;
    int64_t at = k->last ? bt_order_next(k->o, k->last - r->nodes) : bt_order_first(k->o, k->set);
    while (at >= 0 && !is_of_level(k, &r->nodes[at])) at = bt_order_next(k->o, at);
    return at < 0 ? NULL : &r->nodes[at];
}

/* The same among holders of so many chunks that are looked at. */
static gw_node *next_by_holder(const walk *k)
{
    const gw_policy policy =
        k->s->policy == GW_POLICY_ROUND_ROBIN ? GW_POLICY_ROUND_ROBIN : GW_POLICY_LEAST_LOAD;
    holders h = {.s = k->s, .chunks = k->level};
    gw_node *best = NULL;
    for (gw_node *n; (n = next_looked_at(&h));)
        if (is_in(k, n) && (!k->last || is_before(policy, k->last, n)) &&
            (!best || is_before(policy, n, best)) && is_of_level(k, n))
            best = n;
    return best;
}

static gw_node *next_of_level(const walk *k) { return k->level > 0 ? next_by_holder(k) : next_by_order(k); }

static gw_node *walk_next(walk *k)
{
    gw_node *n = NULL;
    if (k->is_over) return NULL;
    if (k->only) {
        k->is_over = true;
        return is_in(k, k->only) && has_had(k->s, k->only, k->floor)
                   ? &k->s->r->nodes[k->only - k->s->r->nodes]
                   : NULL;
    }
    while (!(n = next_of_level(k)) && k->is_exact && k->level > k->floor) {
        k->level--;
        k->last = NULL;
    }
    k->last = n;
    k->is_over = !n;
    return n;
}

/* READY and SUSPECT nodes of one role and shape, the one with the longest sequence first; the caller checks
 * the state. */
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
           s->w->prompt.tokens <= p->hello.kv_capacity_tokens;
}

/* Whether d has room for more, as far as this gateway's own attempts tell. */
static bool seems_free(const search *s, const gw_node *d)
{
    return !d->is_full && d->held_tokens + gw_held_tokens(s->w->prompt.tokens, s->w->max_tokens) <=
                              d->hello.kv_capacity_tokens;
}

static bool takes_answer(const search *s, const gw_node *d)
{
    if (s->w->no_line && !seems_free(s, d)) return false;

    return (!s->w->has_class || s->w->decode_class == d->exact_class) && s->needs <= gw_node_limit(d);
}

/* Whether what d has not had of the prompt is short. */
static bool is_short(const search *s, const gw_node *d)
{
    return s->is_new_short || has_had(s, d, s->short_from);
}

/* Whether the node may compute this prompt itself, if its KV is large enough. */
static bool may_be_local(const search *s, const gw_node *d)
{
    return (s->local == GW_LOCAL_NO_PREFILL_NODE || is_short(s, d)) && may_prefill(s->r, d) &&
           is_of_classes(s->w, d->prefill_class, d);
}

/* Whether only a known prefix can make the prompt short. */
static bool asks_holders(const search *s) { return s->local == GW_LOCAL_SHORT && !s->is_new_short; }

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
    if (s->c->decode && !is_better(s, d, s->c->decode)) return;
    s->c->prefill = p;
    s->c->decode = d;
    s->c->local = local;
}

static bool is_local_of_rank(const search *s, const gw_node *d)
{
    return may_be_local(s, d) && s->needs <= gw_node_limit(d) && rank_of(s, NULL, d) == s->rank &&
           (!s->w->no_line || seems_free(s, d));
}

static void find_local(search *s)
{
    for (uint32_t shape = 0; shape < s->r->shapes_len; shape++) {
        walk k = begin_walk(s, shape, BT_ROLE_DECODE, asks_holders(s) ? s->short_from : 0, false);
        gw_node *d = walk_next(&k);
        while (d && !is_local_of_rank(s, d)) d = walk_next(&k);
        if (d) take_better(s, NULL, d, s->local);
    }
}

/* from: chunks that it must have had. */
static bool has_slot(const search *s, const gw_node *p, uint32_t from)
{
    const uint32_t tokens = from ? new_tokens(s, p) : s->w->prompt.tokens;
    return gw_node_takes_long(p) || !gw_node_is_long(p, tokens);
}

static gw_node *prefill_from(const search *s, uint32_t shape, const gw_node *d, uint32_t from, bool is_short)
{
    const gw_avoid *avoid = &s->router->avoid;
    walk k = begin_walk(s, shape, BT_ROLE_PREFILL, from, is_short);
    for (gw_node *p; (p = walk_next(&k));)
        if (takes_prompt(s, p) && has_slot(s, p, from) &&
            (!d || (rank_of(s, p, d) == s->rank && !gw_avoid_refuses(avoid, p->name, d->name, s->w->now_us))))
            return p;
    return NULL;
}

static gw_node *prefill_for(const search *s, uint32_t shape, const gw_node *d)
{
    gw_node *p = prefill_from(s, shape, d, 0, s->is_short);
    return p || !s->slot_from ? p : prefill_from(s, shape, d, s->slot_from, true);
}

/* Decode nodes with the same flags have the same prefill nodes, except where avoid.h names a pair. */
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
    for (walk k = begin_walk(s, shape, BT_ROLE_DECODE, 0, false); (d = walk_next(&k));) {
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

/* True: found, among decode nodes that are open in one way. */
static bool find_ranked(search *s)
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

/* True: found. */
static bool find(search *s)
{
    const gw_open last = s->w->no_line ? GW_OPEN : s->w->has_class ? GW_OPEN_FULL : GW_OPEN_LINED;
    for (s->open = GW_OPEN; s->open <= last; s->open++)
        if (find_ranked(s)) return true;
    return false;
}

/* ---- why none is found -------------------------------------------------------------------------- */

typedef struct view {
    bool any, any_fits; /* some node could serve, if it were free; if it were also large enough */
    uint64_t limit;     /* the longest sequence that any of them holds */
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

static void see_local_holders(const search *s, view *v)
{
    const gw_node *d;
    for (uint32_t at = 0; s->short_from <= s->longest && (d = next_holder(s, s->short_from, &at));) {
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
    if (asks_holders(s)) see_local_holders(s, &v);
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

/* ---- the answer --------------------------------------------------------------------------------- */

static bool has_free_decode(const search *s)
{
    for (uint32_t i = 0; i < s->r->shapes_len; i++)
        for (gw_open how = GW_OPEN; how < GW_OPENS; how++)
            if (bt_order_first(&s->r->by_load, gw_registry_open_set(i, BT_ROLE_DECODE, how)) >= 0)
                return true;
    return false;
}

static void find_chain(search *s, uint64_t chain[GW_AFFINITY_CHUNKS_MAX])
{
    const bool is_asked = s->policy == GW_POLICY_PREFIX || s->w->local_below_tokens > 0;
    /* With all slots taken this is asked at every step, so it must cost nothing. */
    if (!is_asked || !s->router->affinity || !has_free_decode(s)) return;
    s->chain = chain;
    s->chunks = gw_affinity_chain(chain, &s->w->prompt);
    s->longest = gw_affinity_longest(s->router->affinity, chain, s->chunks);
}

static void note_odd(search *s, const gw_node *d)
{
    if (s->c->odd_decode && s->c->odd_decode > d) return; /* the last place */
    const gw_node *odd = odd_one(s->r, d->prefill_class);
    if (!odd) return;
    s->c->odd_decode = d;
    s->c->odd_prefill = odd;
}

/* Finds the node that would have computed the prompt if its class were that of all prefill nodes. */
static void find_odd(search *s)
{
    gw_registry *r = s->r;
    bool is_none;
    const gw_node *d = insisted(s, BT_ROLE_DECODE, &is_none);
    if (s->local != GW_LOCAL_SHORT || is_none) return;
    if (d) {
        if (d->state == GW_NODE_READY && d->prefill_class && is_short(s, d)) note_odd(s, d);
        return;
    }
    for (int64_t at = -1; (at = next_local_class(r, at)) >= 0;) {
        const uint64_t class = r->nodes[at].prefill_class;
        int64_t ready = at;
        if (!odd_one(r, class)) continue;
        while (ready >= 0 && r->nodes[ready].prefill_class == class &&
               (r->nodes[ready].state != GW_NODE_READY || !is_short(s, &r->nodes[ready])))
            ready = bt_order_next(&r->locals, ready);
        if (ready >= 0 && r->nodes[ready].prefill_class == class) note_odd(s, &r->nodes[ready]);
    }
}

/* Notes the turn of the prefill node chosen, if any, and the try of the pair. */
static void take_chosen(search *s)
{
    gw_route_choice *c = s->c;
    if (c->prefill) {
        c->prefill_new_tokens = new_tokens(s, c->prefill);
        c->prefill->turn = s->router->turns;
        gw_registry_changed(s->r, c->prefill);
    }
    gw_avoid_tried(&s->router->avoid, c->prefill ? c->prefill->name : 0, c->decode->name, s->w->now_us);
}

static gw_route_answer choose(search *s)
{
    gw_route_choice *c = s->c;
    find_odd(s);
    if (!may_any_prefill(s->r)) s->local = GW_LOCAL_NOT;
    if (find(s)) {
        c->decode_new_tokens = new_tokens(s, c->decode);
        c->decode->turn = ++s->router->turns;
        gw_registry_changed(s->r, c->decode);
        take_chosen(s);
        return GW_ROUTE_CHOSEN;
    }
    const view v = look(s, false);
    if (!v.any) return GW_ROUTE_NO_NODE;
    if (v.any_fits) return GW_ROUTE_BUSY;
    c->limit_tokens = v.limit;
    return look(s, true).any_fits ? GW_ROUTE_NO_NODE : GW_ROUTE_TOO_LONG;
}

static search search_of(gw_route_choice *ret, gw_router *router, gw_registry *r, const gw_route_wish *w)
{
    return (search){.c = ret,
                    .router = router,
                    .r = r,
                    .w = w,
                    .policy = w->policy ? w->policy : router->policy,
                    .needs = (uint64_t)w->prompt.tokens + w->max_tokens};
}

gw_route_answer gw_route_prefill(gw_route_choice *ret, gw_router *router, gw_registry *r,
                                 const gw_route_wish *w, gw_node *decode)
{
    search s = search_of(ret, router, r, w);
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    const uint32_t shape = decode->shape - 1;
    *ret = (gw_route_choice){.decode = decode, .local = GW_LOCAL_NOT};
    gw_registry_pass(r, w->now_us);
    find_chain(&s, chain);
    for (s.rank = 0; s.rank < 4 && !ret->prefill; s.rank++) ret->prefill = prefill_for(&s, shape, decode);
    if (!ret->prefill)
        return longest(&s, shape, BT_ROLE_PREFILL, true, true) ? GW_ROUTE_BUSY : GW_ROUTE_NO_NODE;
    router->turns++;
    take_chosen(&s);
    return GW_ROUTE_CHOSEN;
}

gw_route_answer gw_route_choose(gw_route_choice *ret, gw_router *router, gw_registry *r,
                                const gw_route_wish *w)
{
    const bool is_colocated = bt_order_first(&r->known, 0) < 0;
    const bool asks_local = (is_colocated || w->local_below_tokens > 0) && !w->only_prefill;
    search s = search_of(ret, router, r, w);
    s.is_new_short = w->prompt.tokens < w->local_below_tokens;
    s.local = !asks_local ? GW_LOCAL_NOT : is_colocated ? GW_LOCAL_NO_PREFILL_NODE : GW_LOCAL_SHORT;
    uint64_t chain[GW_AFFINITY_CHUNKS_MAX];
    if (!s.is_new_short && w->local_below_tokens > 0)
        s.short_from = (w->prompt.tokens - w->local_below_tokens) / GW_AFFINITY_CHUNK_TOKENS + 1;
    *ret = (gw_route_choice){.local = GW_LOCAL_NOT};
    gw_registry_pass(r, w->now_us);
    const uint32_t most = gw_registry_short_tokens(r);
    s.is_short = w->prompt.tokens <= most;
    if (most && !s.is_short && !w->by_length)
        s.slot_from = (w->prompt.tokens - most + GW_AFFINITY_CHUNK_TOKENS - 1) / GW_AFFINITY_CHUNK_TOKENS;
    find_chain(&s, chain);
    return choose(&s);
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
