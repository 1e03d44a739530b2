/* The shares that keys must get of a gateway, whatever comes. Short prompts may pass long ones, by turns of
 * their own: then long ones count for nothing below. After each of the gateway's steps:
 *   - a request that gets nodes passes none of its key that is as urgent and came earlier, or is more urgent;
 *   - nodes go to no key that holds, of the requests with nodes, its part by weight among the keys that wait
 *     and three quarters of the rest;
 *   - while a key waits and holds nothing, and was not asked in vain, no other gets more tokens than its
 *     turns in a round bring it;
 *   - whoever is refused for want of room has its part of it, or nobody has more; who gives way has more than
 *     its part, and is the newest and least urgent of the key that has most.
 * Parts are computed here from a look at all requests, and by no sum that the brain keeps. */
#include "gateway/brain/state.h"
#include "tests/world/sim_node.h"

#include <string.h>

typedef struct counts {
    uint32_t waiting[SIM_KEYS + 1], ready[SIM_KEYS + 1], active[SIM_KEYS + 1];
    uint32_t ready_short[SIM_KEYS + 1]; /* of ready */
    uint32_t fresh[SIM_KEYS + 1];       /* of waiting, those that never had nodes; the others stay */
    uint32_t tried[SIM_KEYS + 1];       /* those that had a turn for which no nodes were there */
    bool is_plain; /* no request waits for nodes of its own choice, or for any nodes at all */
} counts;

static sim_client *client_of(const sim_world *w, uint64_t request) { return &w->clients[request - 1]; }
static uint32_t key_of(const sim_world *w, uint64_t request) { return client_of(w, request)->r.key; }

static bool is_ready(const gw_brain *b, uint32_t at)
{
    return bt_order_has(&b->line, GW_LINE_READY, at) || bt_order_has(&b->line, GW_LINE_SHORT, at);
}

static void count(counts *ret, const sim_world *w, const gw_brain *b)
{
    *ret = (counts){.is_plain = bt_order_first(&b->line, GW_LINE_STUCK) < 0 &&
                                bt_order_first(&b->line, GW_LINE_BUSY) < 0};
    for (uint32_t i = 0; i < b->requests_used; i++) {
        const gw_request *r = &b->requests[i];
        if (r->state == GW_NONE || r->state == GW_DEAD) continue;
        const uint32_t key = key_of(w, r->number);
        if (r->state == GW_QUEUED) ret->waiting[key]++;
        else ret->active[key]++;
        ret->fresh[key] += r->state == GW_QUEUED && r->attempt == 0;
        if (is_ready(b, i)) ret->ready[key]++;
        ret->tried[key] +=
            bt_order_has(&b->line, GW_LINE_STUCK, i) || bt_order_has(&b->line, GW_LINE_BUSY, i);
        if (bt_order_has(&b->line, GW_LINE_SHORT, i)) ret->ready_short[key]++;
    }
}

static bool is_short(const sim_world *w, const gw_brain *b, uint64_t request)
{
    return client_of(w, request)->r.prompt_tokens <= b->line_short;
}

/* ---- whose turn it was --------------------------------------------------------------------------- */

static void check_order(sim_world *w, const gw_brain *b, uint64_t given)
{
    const sim_client *g = client_of(w, given);
    if (g->had_turn) return;
    for (uint32_t i = 0; i < b->requests_used; i++) {
        const gw_request *r = &b->requests[i];
        if (!is_ready(b, i) || r->has_had_turn || r->number == w->asking ||
            (is_short(w, b, given) && !is_short(w, b, r->number)))
            continue;
        const sim_request *c = &client_of(w, r->number)->r;
        const bool is_sooner = c->priority < g->r.priority;
        if (c->key != g->r.key || !(is_sooner || (c->priority == g->r.priority && r->number < given)))
            continue;
        sim_broken(w, "request %llu of key %u gets nodes, and request %llu of it, which %s, waits on",
                   (unsigned long long)given, g->r.key, (unsigned long long)r->number,
                   is_sooner ? "is more urgent" : "came earlier");
    }
}

/* Whether the key holds its part already, among the keys that are ready. */
static bool holds_part(const sim_world *w, const counts *n, const uint32_t *ready, uint32_t key,
                       uint64_t *ret_active)
{
    uint64_t weights = 0, active = 0;
    for (uint32_t k = 1; k <= w->o.keys; k++) {
        if (!ready[k] && k != key) continue;
        weights += sim_shares_weight(k);
        active += n->active[k] - (k == key);
    }
    *ret_active = active;
    return 4 * (n->active[key] - 1) * weights >= (3 * weights + sim_shares_weight(key)) * (active + 1);
}

/* The counts without the request that is submitted in this step: where the room is full others go on before
 * it. */
static counts before_asking(const sim_world *w, const gw_brain *b, const counts *n)
{
    counts ret = *n;
    for (uint32_t i = 0; i < b->requests_used && w->asking; i++) {
        const uint32_t key = b->requests[i].number == w->asking ? key_of(w, w->asking) : 0;
        if (!key || !is_ready(b, i)) continue;
        ret.ready[key]--;
        ret.ready_short[key] -= bt_order_has(&b->line, GW_LINE_SHORT, i);
    }
    return ret;
}

/* The last one given in a step: all that were ready then are ready still. */
static void check_slots(sim_world *w, const gw_brain *b, const counts *n, uint64_t given)
{
    const uint32_t key = key_of(w, given);
    uint64_t active;
    const counts before = before_asking(w, b, n);
    if (is_short(w, b, given) && !(holds_part(w, n, n->ready_short, key, &active) &&
                                   holds_part(w, &before, before.ready_short, key, &active)))
        return;
    if (holds_part(w, n, n->ready, key, &active) && holds_part(w, &before, before.ready, key, &active))
        sim_broken(w, "request %llu gets nodes, and key %u holds %u of %llu already while others wait",
                   (unsigned long long)given, key, n->active[key] - 1, (unsigned long long)active);
}

/* A short prompt had its turn among all, or among short ones where these have turns of their own in the step.
 */
static void check_tokens(sim_world *w, const gw_brain *b, sim_shares *s, const counts *n)
{
    for (uint32_t i = 1; i <= w->o.keys; i++) {
        if (!n->ready[i] || n->active[i] || n->tried[i]) {
            for (int t = 0; t < 2; t++) memset(s->passed[t][i], 0, sizeof s->passed[t][i]);
            continue;
        }
        for (uint32_t g = 0; g < s->given_len; g++) {
            const sim_client *c = client_of(w, s->given[g]);
            const uint32_t k = c->r.key;
            const bool may_be_apart = b->in_short_round && is_short(w, b, s->given[g]);
            if (c->had_turn || (may_be_apart && !n->ready_short[i])) continue;
            s->passed[may_be_apart][i][k] += c->cost;
            const uint64_t passed = s->passed[may_be_apart][i][k],
                           rounds = s->cost_max[i] / sim_shares_weight(i) + 3,
                           most = rounds * sim_shares_weight(k) + 2 * s->cost_max[k];
            if (passed <= (may_be_apart ? 2 * most : most)) continue;
            sim_broken(w, "key %u gets %llu tokens while key %u waits for %llu at most, and holds nothing", k,
                       (unsigned long long)passed, i, (unsigned long long)s->cost_max[i]);
        }
    }
}

/* ---- the waiting room ---------------------------------------------------------------------------- */

static bool is_above(const sim_world *w, uint64_t weights, uint32_t key, uint32_t waiting)
{
    return waiting > 1 && waiting * weights > (uint64_t)sim_shares_weight(key) * w->o.queue_max;
}

/* The weight of all that wait, and of this key. */
static uint64_t weights_of(const sim_world *w, const counts *n, uint32_t key)
{
    uint64_t sum = 0;
    for (uint32_t k = 1; k <= w->o.keys; k++)
        if (n->waiting[k] || k == key) sum += sim_shares_weight(k);
    return sum;
}

static void check_refused(sim_world *w, const gw_brain *b, const counts *n, uint64_t refused)
{
    const uint32_t key = key_of(w, refused);
    const uint64_t weights = weights_of(w, n, key);
    if (b->draining || gw_brain_queued(b) < w->o.queue_max) return;
    if (is_above(w, weights, key, n->waiting[key] + 1)) return;
    uint32_t most = key;
    for (uint32_t k = 1; k <= w->o.keys; k++)
        if (n->waiting[k] > 1 && n->fresh[k] &&
            (most == key ||
             n->waiting[k] * sim_shares_weight(most) > n->waiting[most] * sim_shares_weight(k)))
            most = k;
    if (most != key && is_above(w, weights, most, n->waiting[most]))
        sim_broken(w, "request %llu is refused: key %u has %u of %u that wait, and key %u has %u",
                   (unsigned long long)refused, key, n->waiting[key], w->o.queue_max, most, n->waiting[most]);
}

static void check_gave_way(sim_world *w, const gw_brain *b, const counts *n, uint64_t gone)
{
    const sim_client *g = client_of(w, gone);
    const uint32_t key = g->r.key, guest = key_of(w, w->asking), had = n->waiting[key] + 1;
    const uint64_t weights = weights_of(w, n, key);
    bool is_right = g->attempt == 0 && key != guest && n->waiting[guest] > 0 &&
                    is_above(w, weights, key, had) && !is_above(w, weights, guest, n->waiting[guest]);
    for (uint32_t k = 1; k <= w->o.keys; k++)
        is_right = is_right &&
                   (k == guest || n->waiting[k] < 2 || n->fresh[k] == 0 ||
                    (uint64_t)n->waiting[k] * sim_shares_weight(key) <= (uint64_t)had * sim_shares_weight(k));
    for (uint32_t i = 0; i < b->requests_used; i++) {
        const gw_request *r = &b->requests[i];
        if (r->state != GW_QUEUED || r->attempt || key_of(w, r->number) != key) continue;
        is_right =
            is_right && (r->priority < g->r.priority || (r->priority == g->r.priority && r->number < gone));
    }
    if (!is_right)
        sim_broken(
            w,
            "request %llu of key %u, which had %u of %u that wait, gives way to one of key %u, which has %u",
            (unsigned long long)gone, key, had, w->o.queue_max, guest, n->waiting[guest]);
}

/* ---- what happens in a step ---------------------------------------------------------------------- */

static bool is_looked_at(const sim_world *w) { return w->o.keys && !w->o.is_bare; }

void sim_shares_given(sim_world *w, uint32_t gateway, uint64_t request)
{
    sim_shares *s = &w->shares[gateway];
    /* One that a node has put into its line may go to another at once: it has held nodes all the time. */
    if (is_looked_at(w) && s->given_len < SIM_GIVEN && !client_of(w, request)->was_reserving)
        s->given[s->given_len++] = request;
}

void sim_shares_failed(sim_world *w, uint32_t gateway, uint64_t request, gw_fail_kind kind)
{
    sim_shares *s = &w->shares[gateway];
    s->has_failed = true;
    if (kind != GW_FAIL_OVERLOADED || !w->asking) return;
    if (request == w->asking) s->refused = request;
    else if (client_of(w, request)->attempt == 0) s->gave_way = request;
}

void sim_shares_step(sim_world *w, uint32_t gateway)
{
    sim_shares *s = &w->shares[gateway];
    const sim_process *p = &w->processes[gateway];
    counts n;
    if (!is_looked_at(w)) return;
    if (s->life != p->life) memset(s->passed, 0, sizeof s->passed);
    s->life = p->life;
    if (w->asking) {
        const sim_client *c = client_of(w, w->asking);
        if (c->cost > s->cost_max[c->r.key]) s->cost_max[c->r.key] = c->cost;
    }
    count(&n, w, p->gw);
    for (uint32_t i = 0; i < s->given_len; i++) check_order(w, p->gw, s->given[i]);
    if (s->given_len && n.is_plain && !s->has_failed) check_slots(w, p->gw, &n, s->given[s->given_len - 1]);
    check_tokens(w, p->gw, s, &n);
    if (s->refused && !s->given_len) check_refused(w, p->gw, &n, s->refused);
    if (s->gave_way && !s->given_len) check_gave_way(w, p->gw, &n, s->gave_way);
    for (uint32_t i = 0; i < p->gw->requests_used; i++) {
        const gw_request *r = &p->gw->requests[i];
        if (r->state == GW_NONE || r->state == GW_DEAD) continue;
        client_of(w, r->number)->had_turn = r->has_had_turn;
        client_of(w, r->number)->was_reserving = r->state == GW_RESERVING;
    }
    s->given_len = 0;
    s->refused = s->gave_way = 0;
    s->has_failed = false;
}
