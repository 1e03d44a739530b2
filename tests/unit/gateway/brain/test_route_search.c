/* The choice of nodes against the plain search: every pair is looked at, as route.h says it, with no order
 * kept. Random registries under all policies; what is chosen, and why nothing is, must be the same. */
#include "gateway/brain/route.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* ---- the plain search --------------------------------------------------------------------------- */

enum { NODES = 72 };
static gw_registry *here;
static uint32_t matches[NODES]; /* chunks of the prompt that each node has had, where they count */
static uint32_t *match_of(const gw_node *n) { return &matches[n - here->nodes]; }
static const gw_affinity *had_here;
static uint64_t chain[GW_AFFINITY_CHUNKS_MAX]; /* of the prompt */

/* Whether n is one of the nodes with so many chunks that are looked at. */
static bool is_listed(const gw_node *n, uint32_t chunks)
{
    const bt_incarnation *who;
    uint32_t at = 0;
    for (int i = 0, known = 0; i < GW_HOLDERS_SEEN && known < GW_HOLDERS_MAX; i++) {
        if (!(who = gw_affinity_holder(had_here, chain[chunks - 1], &at))) break;
        if (bt_incarnation_equal(who, &n->incarnation)) return true;
        for (uint32_t k = 0; k < here->cap; k++)
            known += here->nodes[k].in_use && bt_incarnation_equal(&here->nodes[k].incarnation, who);
    }
    return false;
}

/* Chunks for which n goes before others under PREFIX. */
static uint32_t listed_match(const gw_node *n)
{
    return *match_of(n) > 0 && is_listed(n, *match_of(n)) ? *match_of(n) : 0;
}

/* Whether n is looked at as one that has had so many chunks. */
static bool is_looked_at(gw_policy policy, const gw_node *n, uint64_t only, uint32_t chunks)
{
    if (*match_of(n) < chunks) return false;
    return only != 0 || (policy == GW_POLICY_PREFIX ? listed_match(n) >= chunks : is_listed(n, chunks));
}

/* From the first on without a gap. */
static uint32_t plain_match(const gw_affinity *a, uint32_t len, const bt_incarnation *node)
{
    uint32_t i = 0;
    while (i < len && gw_affinity_has(a, chain[i], node)) i++;
    return i;
}

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

/* The kind of slot of p that the prompt would have: 0 one for all prompts, or for a short one; 1 one for
 * short prompts, since p has had the rest; 2 none. */
static unsigned slot_of(const gw_registry *r, gw_policy policy, const gw_route_wish *w, const gw_node *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < r->cap; i++) {
        const gw_node *n = &r->nodes[i];
        if (is_ready(n, BT_ROLE_PREFILL) && n->hello.short_slots && n->hello.short_tokens > most)
            most = n->hello.short_tokens;
    }
    if (!has_slot(p, w->now_us)) return 2;
    if (p->long_attempts + p->hello.short_slots < p->load.slots_total) return 0;
    if (w->prompt.tokens <= p->hello.short_tokens) return 0;
    if (w->prompt.tokens <= most || w->by_length) return 2;
    const uint32_t rest = (w->prompt.tokens - most + GW_AFFINITY_CHUNK_TOKENS - 1) / GW_AFFINITY_CHUNK_TOKENS;
    return w->prompt.tokens <= p->hello.short_tokens + *match_of(p) * GW_AFFINITY_CHUNK_TOKENS &&
                   is_looked_at(policy, p, w->only_prefill, rest)
               ? 1
               : 2;
}

/* Fewer attempts a slot: negative where a has fewer. Compared crosswise, so that no division rounds. */
static int compare_load(const gw_node *a, const gw_node *b)
{
    const uint64_t la = (uint64_t)a->attempts * b->load.slots_total,
                   lb = (uint64_t)b->attempts * a->load.slots_total;
    return (la > lb) - (la < lb);
}

static bool is_better(gw_policy policy, const gw_node *a, const gw_node *b)
{
    if (policy == GW_POLICY_PREFIX && listed_match(a) != listed_match(b))
        return listed_match(a) > listed_match(b);
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
        (p && (slot_of(s->r, s->policy, s->w, p) > 1 ||
               gw_avoid_refuses(&s->router->avoid, p->name, d->name, s->w->now_us))))
        return;
    const unsigned k = rank(s, p, d);
    if (c->decode) {
        if (k > s->rank || (k == s->rank && c->local != local))
            return; /* one that may be local is, among equals */
        if (k == s->rank && d != c->decode && !is_better(s->policy, d, c->decode)) return;
        const unsigned slot = p ? slot_of(s->r, s->policy, s->w, p) : 0,
                       was = c->prefill ? slot_of(s->r, s->policy, s->w, c->prefill) : 0;
        if (k == s->rank && d == c->decode &&
            (!p || slot > was || (slot == was && !is_better(s->policy, p, c->prefill))))
            return;
    }
    s->rank = k;
    c->prefill = p;
    c->decode = d;
    c->local = local;
}

/* Whether what d has not had of the prompt is short. */
static bool is_short(const gw_route_wish *w, const gw_node *d)
{
    const uint64_t had = (uint64_t)*match_of(d) * GW_AFFINITY_CHUNK_TOKENS;
    return w->prompt.tokens < w->local_below_tokens + had && w->local_below_tokens > 0;
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
        if ((uint64_t)w->prompt.tokens + w->max_tokens > holds) continue;
        s->any_fits = true;
        const uint32_t below = w->local_below_tokens, tokens = w->prompt.tokens,
                       from = local == GW_LOCAL_SHORT && tokens >= below
                                  ? (tokens - below) / GW_AFFINITY_CHUNK_TOKENS + 1
                                  : 0;
        if (from == 0 || is_looked_at(s->policy, d, w->only_decode, from)) offer(s, NULL, d, local);
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
            if ((uint64_t)w->prompt.tokens + w->max_tokens > holds ||
                w->prompt.tokens > p->hello.kv_capacity_tokens)
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

/* A node's given tokens halve with every span that has ended. */
static uint64_t lately(const gw_lately *l, int64_t now_us)
{
    uint64_t sum = l->sum;
    for (int64_t span = l->span; span < now_us / GW_LATELY_US; span++) sum /= 2;
    return sum;
}

/* The part of the prompt that each ready node has had; nothing, where it waits for more tokens than that
 * saves beside the least loaded of its role, or was given more than the mean of its role by twice as many. */
static void find_matches(const search *s)
{
    const gw_node *least[2] = {NULL, NULL};
    uint64_t ready[2] = {0, 0};
    const bool is_asked = s->policy == GW_POLICY_PREFIX || s->w->local_below_tokens > 0;
    /* A full house is asked at every step: not for that. */
    const bool looks = is_asked && s->router->affinity && has_free_decode(s);
    const uint32_t chunks = looks ? gw_affinity_chain(chain, &s->w->prompt) : 0;
    for (uint32_t i = 0; i < s->r->cap; i++) {
        const gw_node *n = &s->r->nodes[i], **l = &least[n->hello.role == BT_ROLE_DECODE];
        if (!is_ready(n, n->hello.role)) continue;
        ready[n->hello.role == BT_ROLE_DECODE]++;
        if (!*l || compare_load(n, *l) < 0) *l = n;
    }
    for (uint32_t i = 0; i < s->r->cap; i++) {
        gw_node *n = &s->r->nodes[i];
        *match_of(n) = 0;
        if (!is_ready(n, n->hello.role)) continue;
        const int role = n->hello.role == BT_ROLE_DECODE;
        const uint32_t had = plain_match(had_here, chunks, &n->incarnation);
        const uint64_t mean = lately(&s->r->given[role], s->w->now_us) / ready[role];
        if (n->waiting_tokens < least[role]->waiting_tokens + 64ull * had &&
            lately(&n->given, s->w->now_us) <= mean + 128ull * had)
            *match_of(n) = had;
    }
}

static void find(search *s)
{
    const bool is_colocated = !knows_prefill(s->r);
    if ((is_colocated || s->w->local_below_tokens > 0) && !s->w->only_prefill)
        find_local(s, is_colocated ? GW_LOCAL_NO_PREFILL_NODE : GW_LOCAL_SHORT);
    find_pair(s);
}

/* As gw_route_choose, but that nothing is noted. */
static gw_route_answer plain_choose(gw_route_choice *ret, gw_router *router, gw_registry *r,
                                    const gw_route_wish *w)
{
    search s = {.c = ret, .router = router, .r = r, .w = w, .policy = w->policy ? w->policy : router->policy};
    here = r;
    had_here = router->affinity;
    *ret = (gw_route_choice){.local = GW_LOCAL_NOT};
    find_matches(&s);
    find(&s);
    if (ret->decode) return GW_ROUTE_CHOSEN;
    if (!s.any) return GW_ROUTE_NO_NODE;
    if (s.any_fits) return GW_ROUTE_BUSY;
    ret->limit_tokens = s.limit;
    s.counts_suspect = true;
    find(&s);
    return s.any_fits ? GW_ROUTE_NO_NODE : GW_ROUTE_TOO_LONG;
}

static uint64_t plain_limit_tokens(const gw_registry *r, bool counts_suspect)
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

static const gw_node *plain_other_kv(const gw_registry *r, const gw_node *n)
{
    for (uint32_t i = 0; i < r->cap; i++) {
        const gw_node *k = &r->nodes[i];
        if (k->in_use && k->state != GW_NODE_GONE && k->hello.role != n->hello.role && !agree(k, n)) return k;
    }
    return NULL;
}

/* ---- random registries -------------------------------------------------------------------------- */

enum { ROUNDS = 4000, CHOICES = 12, PROMPTS = 6, PROMPT_MAX = 512 };
static const uint8_t MODEL[16] = {5};
static uint64_t seed, draws;

static uint32_t draw(uint32_t n) { return (uint32_t)(bt_rng_u64(seed, draws++) % n); }

static const char *class_of(uint32_t i)
{
    static const char *const classes[] = {"npu 1", "npu 2", "f16", ""};
    return classes[i];
}

/* variety: how many values each thing has; 1: all nodes are alike, so that all orders end in ties. */
static void add(gw_registry *r, uint32_t name, uint32_t variety, int64_t now)
{
    const bool is_decode = draw(2);
    bt_msg_hello h = {.protocol = BT_PROTOCOL_VERSION,
                      .role = is_decode ? BT_ROLE_DECODE : BT_ROLE_PREFILL,
                      .kv = {2, 1, 4, draw(variety) > 1 ? BT_KV_INT8 : BT_KV_F16, 0, 0},
                      .ctx_tokens = 300 + 100 * draw(variety),
                      .kv_capacity_tokens = 250 + 100 * draw(variety + 1),
                      .load = {.slots_total = 1 + draw(variety + 1)}};
    if (!is_decode && draw(4)) {
        h.short_slots = draw(h.load.slots_total);
        h.short_tokens = 50 + 100 * draw(variety + 1);
    }
    memcpy(h.model_id, MODEL, sizeof MODEL);
    snprintf(h.node_id, sizeof h.node_id, "n%u", name);
    snprintf(h.exactness, sizeof h.exactness, "%s", class_of(draw(variety > 3 ? 3 : variety)));
    if (is_decode && draw(2))
        snprintf(h.prefill_exactness, sizeof h.prefill_exactness, "%s",
                 class_of(draw(variety > 3 ? 3 : variety)));
    strcpy(h.kv_endpoint, "x");
    const bt_incarnation who = {{(uint8_t)name, (uint8_t)draw(2)}};
    bt_incarnation replaced;
    gw_node *n = NULL;
    if (gw_registry_hello(r, &n, &replaced, &who, &h, now, NULL) < 0) return;
    const bt_msg_heartbeat beat = {.load = h.load, .draining = draw(12) == 0};
    if (draw(10)) gw_registry_heard(r, n, &beat, now);
}

/* Anything that may happen to a node between two choices. */
static void disturb(gw_registry *r, gw_router *router, uint32_t variety, int64_t now)
{
    if (r->used == 0 || draw(8) == 0) add(r, draw(NODES), variety, now);
    gw_node *n = &r->nodes[draw(r->used)], *k = &r->nodes[draw(r->used)];
    if (!n->in_use || !k->in_use) return;
    const uint64_t one = draw(3) ? n->name : 0, other = draw(3) || !one ? k->name : 0;
    switch (draw(13)) {
    case 0: n->attempts = draw(n->load.slots_total + 1); break;
    case 1: n->attempts += n->attempts < n->load.slots_total; break;
    case 2: gw_registry_refuses(r, n, now + draw(3)); break;
    case 3: gw_registry_cut(r, n, now); break;
    case 4: gw_registry_heard(r, n, NULL, now); break;
    case 5: gw_avoid_failed(&router->avoid, one, other, now); break;
    case 6: gw_avoid_refused(&router->avoid, n->name, k->name, now + 1 + draw(3), now); break;
    case 7: gw_avoid_succeeded(&router->avoid, one, other); break;
    case 8: gw_registry_give(r, n, draw(400)); break;
    case 9: n->waiting_tokens = draw(400); break;
    case 10: n->long_attempts = n->hello.short_slots ? draw(n->attempts + 1) : 0; break;
    default: n->attempts -= n->attempts > 0; break;
    }
    if (n->long_attempts > n->attempts) n->long_attempts = n->attempts;
    gw_registry_changed(r, n);
    if (draw(30) == 0) gw_registry_expire(r, n, now + draw(70));
}

static gw_route_wish wish_of(const gw_registry *r, int32_t ids[PROMPTS][PROMPT_MAX], int64_t now)
{
    const gw_node *n = &r->nodes[draw(r->used)], *k = &r->nodes[draw(r->used)];
    return (gw_route_wish){
        .now_us = now,
        .policy = (gw_policy)draw(4),
        .prompt = {.ids = ids[draw(PROMPTS)], .tokens = 1 + draw(PROMPT_MAX)},
        .max_tokens = 1 + draw(200),
        .by_length = draw(3) == 0,
        .local_below_tokens = draw(2) ? draw(400) : 0,
        .has_class = draw(6) == 0,
        .prefill_class = gw_route_class(class_of(draw(3))),
        .decode_class = gw_route_class(class_of(draw(3))),
        .only_prefill = draw(12) ? 0 : n->name,
        .only_decode = draw(12) ? 0 : k->name,
        .shun_prefill = draw(4) ? 0 : n->name,
        .shun_decode = draw(4) ? 0 : k->name,
    };
}

/* The prompts share prefixes, and some nodes have had them. */
static void teach(gw_router *router, gw_registry *r, int32_t ids[PROMPTS][PROMPT_MAX])
{
    uint64_t had_chain[GW_AFFINITY_CHUNKS_MAX];
    for (int i = 0; i < PROMPTS; i++)
        for (int k = 0; k < PROMPT_MAX; k++) ids[i][k] = k < 128 * (i / 2) ? 7 : i + k;
    for (uint32_t i = 0; i < 2 * r->used; i++) {
        const gw_node *n = &r->nodes[draw(r->used)];
        const uint32_t len = 64 * draw(PROMPT_MAX / 64 + 1);
        if (!n->in_use) continue;
        const bt_prompt_view had = {.tokens = len, .ids = ids[draw(PROMPTS)]};
        gw_affinity_note(router->affinity, had_chain, gw_affinity_chain(had_chain, &had), &n->incarnation);
    }
}

static unsigned answers[5], locals[3], odd_ones, kept, by_had;

static void compare(gw_router *router, gw_registry *r, const gw_route_wish *w)
{
    gw_route_choice want, got;
    const gw_route_answer plain = plain_choose(&want, router, r, w);
    assert_int_equal(plain_limit_tokens(r, false), gw_route_limit_tokens(r, false));
    assert_int_equal(plain_limit_tokens(r, true), gw_route_limit_tokens(r, true));
    assert_int_equal(gw_route_choose(&got, router, r, w), plain);
    assert_ptr_equal(got.decode, want.decode);
    assert_ptr_equal(got.prefill, want.prefill);
    assert_int_equal(got.local, want.local);
    assert_int_equal(got.limit_tokens, want.limit_tokens);
    if (plain == GW_ROUTE_CHOSEN) {
        assert_ptr_equal(got.odd_decode, want.odd_decode);
        assert_ptr_equal(got.odd_prefill, want.odd_prefill);
        odd_ones += got.odd_decode != NULL;
        locals[got.local]++;
        got.decode->attempts++;
        gw_registry_changed(r, got.decode);
        if (got.prefill) {
            const bool is_long = gw_node_is_long(got.prefill, got.prefill_new_tokens);
            kept += !gw_node_takes_long(got.prefill);
            by_had += !gw_node_takes_long(got.prefill) && w->prompt.tokens > got.prefill->hello.short_tokens;
            got.prefill->attempts++;
            got.prefill->long_attempts += is_long;
        }
        if (got.prefill) gw_registry_changed(r, got.prefill);
    }
    answers[plain]++;
}

static void the_choice_is_that_of_a_search_of_all_pairs(void **s)
{
    (void)s;
    static int32_t ids[PROMPTS][PROMPT_MAX];
    for (seed = 1; seed <= ROUNDS; seed++) {
        draws = 0;
        const uint32_t variety = 1 + draw(4), nodes = 1 + draw(draw(4) ? 24 : NODES);
        gw_registry r;
        gw_router router = {.policy = (gw_policy)(1 + draw(3))};
        int64_t now = 10;
        assert_int_equal(gw_registry_init(&r, NODES, MODEL, 20, 60, 10, 600), BT_OK);
        assert_int_equal(gw_affinity_new(&router.affinity, draw(2) ? 1024 : 64), BT_OK);
        for (uint32_t i = 0; i < nodes; i++) add(&r, i, variety, now);
        if (r.used > 0) teach(&router, &r, ids);
        for (int i = 0; i < CHOICES && r.used > 0; i++) {
            now += draw(20) ? draw(3) : GW_LATELY_US;
            for (uint32_t k = draw(4); k > 0; k--) disturb(&r, &router, variety, now);
            const gw_route_wish w = wish_of(&r, ids, now);
            compare(&router, &r, &w);
            const gw_node *n = &r.nodes[draw(r.used)];
            if (n->in_use) assert_ptr_equal(gw_route_other_kv(&r, n), plain_other_kv(&r, n));
        }
        gw_affinity_free(router.affinity);
        gw_registry_done(&r);
    }
    /* All answers were among them, and all kinds of choices. */
    for (int i = GW_ROUTE_CHOSEN; i <= GW_ROUTE_NO_NODE; i++) assert_true(answers[i] > ROUNDS / 50);
    for (int i = 0; i < 3; i++) assert_true(locals[i] > ROUNDS / 50);
    assert_true(odd_ones > ROUNDS / 50);
    assert_true(kept > ROUNDS / 50 && by_had > 3); /* slots for short prompts */
}

/* Nodes that are all alike: only place and turn decide, through many choices with no end of one. */
static void equal_nodes_get_requests_in_the_same_turns(void **s)
{
    (void)s;
    for (gw_policy policy = GW_POLICY_LEAST_LOAD; policy <= GW_POLICY_ROUND_ROBIN; policy++) {
        gw_registry r;
        gw_router router = {.policy = policy};
        assert_int_equal(gw_registry_init(&r, NODES, MODEL, 20, 60, 10, 600), BT_OK);
        seed = 9, draws = 0;
        for (uint32_t i = 0; i < NODES; i++) add(&r, i, 1, 0);
        for (uint32_t i = 0; i < r.used; i++) {
            const bt_msg_heartbeat beat = {.load = {.slots_total = 9}};
            gw_registry_heard(&r, &r.nodes[i], &beat, 0);
        }
        for (int i = 0; i < 200; i++) {
            const gw_route_wish w = {.prompt.tokens = 10, .max_tokens = 10};
            compare(&router, &r, &w);
        }
        gw_registry_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_that_of_a_search_of_all_pairs),
        cmocka_unit_test(equal_nodes_get_requests_in_the_same_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
