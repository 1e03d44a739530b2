/* The rules that must hold in every world, whatever the network and the processes do. After each step of a
 * process: its tables are within their limits, and no bulk link has more bytes of blocks under way than the
 * decode node granted; no prompt herds to a node for its beginning. When a reservation begins: none that
 * waits longer was passed too often or too late. Ten times a second of virtual time: every attempt that a
 * node holds belongs to a request that lives, or to one that ended no longer ago than it takes to hear of it;
 * no request is silent for longer than its deadlines allow, and none stays on a dead node whose end was told.
 * At a failed request: it was legitimate, for no pair was whole for long enough. Pages are checked where they
 * are moved (sim_decode.c, sim_prefill.c), tokens where they are given to clients (sim_clients.c). */
#include "decode-node/brain/brain_inner.h"
#include "gateway/brain/request.h"
#include "prefill-node/brain/brain_inner.h"
#include "tests/world/sim_node.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLACK_US = 2000000, /* a lease's end, a timer's lateness, a packet's way */
    LEAVE_US = 100000,  /* an abort on calm links frees pages within this, beside one layer or step and the
                           packets' way */
    LAYER_US = 3000,
    CALM_US = 30000000, /* when all works again, whoever is lost is found */
    HEAR_US = 10000000, /* to find out that nodes are gone, and fail */
    LOST_US = 500000,   /* a request has left a dead node so long after cut_us, and the lateness of timers */
};

/* ---- what is under way --------------------------------------------------------------------------- */

static sim_flight *flight_of(sim_world *w, const sim_item *it)
{
    return &w->flights[(size_t)it->from * w->processes_len + it->to];
}

static bool is_of(const sim_flight *f, const sim_item *it)
{
    return f->from_life == it->from_life && f->to_life == it->life && f->epoch == it->epoch;
}

void sim_check_counted(sim_world *w, const sim_item *it)
{
    sim_flight *f = flight_of(w, it);
    if (!is_of(f, it)) *f = (sim_flight){.from_life = it->from_life, .to_life = it->life, .epoch = it->epoch};
    if (it->end > f->end) f->end = it->end;
}

/* The grant of a decode node is its window and no more than was sent. The allowance of a prefill node is what
 * it was granted. */
static void check_grants(sim_world *w, uint32_t self)
{
    const sim_process *p = &w->processes[self];
    for (int64_t i = p->dc ? bt_order_first(&p->dc->peers, 0) : BT_ORDER_NONE; i >= 0;
         i = bt_order_next(&p->dc->peers, i)) {
        const dc_link *l = &p->dc->links[i];
        const uint32_t from = l->in_use ? sim_process_by_incarnation(w, &l->peer) : UINT32_MAX;
        if (from == UINT32_MAX) continue;
        const sim_flight *f = &w->flights[(size_t)from * w->processes_len + self];
        if (f->epoch > l->peer_epoch && f->from_life == w->processes[from].life)
            continue; /* it has not heard of the newer one */
        const uint64_t sent =
            f->epoch == l->peer_epoch && f->from_life == w->processes[from].life && f->to_life == p->life
                ? f->end
                : 0;
        if (l->grant.granted_bytes > l->grant.window_bytes + sent)
            sim_broken(w, "credit: node %u grants %llu bytes to %u, which sent %llu, and its window is %llu",
                       self, (unsigned long long)l->grant.granted_bytes, from, (unsigned long long)sent,
                       (unsigned long long)l->grant.window_bytes);
    }
    for (int64_t i = p->pf ? bt_order_first(&p->pf->peers, 0) : BT_ORDER_NONE; i >= 0;
         i = bt_order_next(&p->pf->peers, i)) {
        const pf_link *l = &p->pf->links[i];
        const uint32_t to = l->state == PF_LINK_OPEN ? sim_process_by_incarnation(w, &l->decode) : UINT32_MAX;
        const dc_brain *decode = to == UINT32_MAX ? NULL : w->processes[to].dc;
        const int64_t k =
            decode ? bt_order_from(&decode->peers, 0, bt_incarnation_key(&p->self)) : BT_ORDER_NONE;
        if (k >= 0 && bt_incarnation_equal(&decode->links[k].peer, &p->self)) {
            const dc_link *d = &decode->links[k];
            if (d->peer_epoch < l->epoch)
                sim_broken(w, "credit: node %u is in epoch %llu of its link to %u, which knows %llu", self,
                           (unsigned long long)l->epoch, to, (unsigned long long)d->peer_epoch);
            if (d->peer_epoch == l->epoch && l->purse.granted_bytes > d->grant.granted_bytes)
                sim_broken(w, "credit: node %u goes by %llu granted bytes, node %u granted %llu", self,
                           (unsigned long long)l->purse.granted_bytes, to,
                           (unsigned long long)d->grant.granted_bytes);
        }
    }
}

void sim_check_sent(sim_world *w, const sim_item *it)
{
    if (it->weight == 0) return;
    sim_flight *f = flight_of(w, it);
    f->bytes += it->weight;
    const dc_brain *d = w->processes[it->to].dc;
    if (!d) return;
    uint64_t window = d->cfg.window_bytes;
    const uint64_t least = 8 * bt_xfer_block_bytes(&d->cfg.hello.kv, 256);
    if (window < least) window = least;
    if (f->bytes > window)
        sim_broken(w, "credit: %llu bytes of blocks are under way from %u to %u, whose window is %llu",
                   (unsigned long long)f->bytes, it->from, it->to, (unsigned long long)window);
}

void sim_check_gone(sim_world *w, const sim_item *it)
{
    if (w->o.is_bare) return;
    sim_flight *f = flight_of(w, it);
    if (it->weight > 0 && is_of(f, it)) f->bytes -= it->weight;
}

/* Rows go into pages of the very attempt that they were sent for, from the node that it was reserved for. */
void sim_check_place(sim_world *w, uint32_t self, const dc_block *b)
{
    if (w->o.is_bare) return;
    const dc_brain *d = w->processes[self].dc;
    const bt_attempt *a = bt_attempts_by_slot(&d->attempts, b->slot);
    const dc_record *r = a ? &d->records[a - d->attempts.all] : NULL;
    if (!r) {
        sim_broken(w, "node %u places a block into a slot that nobody holds", self);
        return;
    }
    const bt_request_ref *ref = &r->a->ref;
    if (!bt_request_same(ref, &b->ref) || ref->attempt != b->ref.attempt ||
        memcmp(&r->ticket, &b->ticket, sizeof r->ticket) != 0 ||
        !bt_incarnation_equal(&r->wish.prefill, &b->from))
        sim_broken(w,
                   "node %u places a block of attempt %llu.%u into that of %llu.%u, or with another ticket",
                   self, (unsigned long long)b->ref.number, b->ref.attempt, (unsigned long long)ref->number,
                   ref->attempt);
}

/* ---- attempts ------------------------------------------------------------------------------------ */

static sim_client *client_of(sim_world *w, const bt_request_ref *ref)
{
    return ref->number >= 1 && ref->number <= w->clients_len ? &w->clients[ref->number - 1] : NULL;
}

static sim_turn *turn_of(sim_world *w, uint32_t node, const bt_request_ref *ref)
{
    sim_client *c = client_of(w, ref);
    sim_turn *t = c ? &c->turns[node] : NULL;
    return t && t->life == w->processes[node].life && t->attempt == ref->attempt ? t : NULL;
}

static void note_turn(sim_world *w, uint32_t node, const bt_msg *m)
{
    sim_client *c = client_of(w, &m->ref);
    sim_turn *t = c ? &c->turns[node] : NULL;
    if (!t || (t->life == w->processes[node].life && t->attempt >= m->ref.attempt)) return;
    *t = (sim_turn){.life = w->processes[node].life, .came = ++w->came, .at_us = w->now_us,
                    .attempt = m->ref.attempt, .has_tokens = m->u.reserve.generated_len > 0};
}

/* The attempt of ref begins on a decode node: all that wait there since before it are passed. */
static void check_turns(sim_world *w, uint32_t node, const bt_request_ref *ref)
{
    const dc_brain *d = w->processes[node].dc;
    sim_turn *t = turn_of(w, node, ref);
    if (!d || !t || t->has_begun) return;
    t->has_begun = true;
    for (int64_t at = bt_order_first(&d->line, 0); at >= 0; at = bt_order_next(&d->line, at)) {
        const bt_request_ref *other = &d->attempts.all[at].ref;
        sim_turn *o = turn_of(w, node, other);
        if (!o || o->came > t->came || (t->has_tokens && !o->has_tokens)) continue;
        if (o->has_tokens || ++o->passed > d->cfg.overtake_max || w->now_us - o->at_us >= d->cfg.overtake_us)
            sim_broken(w,
                       "node %u begins attempt %llu.%u before %llu.%u, which waits for %.3f s and was passed "
                       "%u times",
                       node, (unsigned long long)ref->number, ref->attempt, (unsigned long long)other->number,
                       other->attempt, (double)(w->now_us - o->at_us) / 1e6, o->passed);
    }
}

void sim_check_comes(sim_world *w, uint32_t to, const bt_msg *m)
{
    if (!w->o.is_bare && m->type == BT_MSG_RESERVE) note_turn(w, to, m);
}

/* After the step, since what is due in it is said before the message is looked at. */
void sim_check_told(sim_world *w, uint32_t to, const bt_msg *m)
{
    if (w->o.is_bare) return;
    sim_client *c = m->type == BT_MSG_RESERVE || m->type == BT_MSG_PREFILL ? client_of(w, &m->ref) : NULL;
    if (!c) return;
    if (c->told_life[to] == w->processes[to].life && c->told[to] > m->ref.attempt) return;
    c->told_life[to] = w->processes[to].life;
    c->told[to] = m->ref.attempt;
}

void sim_check_said(sim_world *w, uint32_t from, const bt_msg *m)
{
    const sim_client *c =
        m->type == BT_MSG_RESERVED || m->type == BT_MSG_PREFILL_ACCEPTED ? client_of(w, &m->ref) : NULL;
    sim_process *p = &w->processes[from];
    if (m->type == BT_MSG_RESERVED && !w->o.is_bare) check_turns(w, from, &m->ref);
    if (m->type == BT_MSG_ROLE_ANSWER && m->u.role_answer.code == BT_OK && m->u.role_answer.role != p->role)
        p->promised = m->u.role_answer.role;
    if (!c || c->told_life[from] != w->processes[from].life || c->told[from] <= m->ref.attempt) return;
    sim_broken(w, "node %u says %s of attempt %llu.%u after it was told of %u", from,
               bt_msg_type_name(m->type), (unsigned long long)m->ref.number, m->ref.attempt, c->told[from]);
}

void sim_check_exit(sim_world *w, uint32_t self, bt_role next)
{
    const sim_process *p = &w->processes[self];
    const bt_load l = p->role == BT_ROLE_PREFILL ? pf_brain_load(p->pf) : dc_brain_load(p->dc);
    if (!p->is_over && l.slots_used > 0)
        sim_broken(w, "node %u leaves while %u attempts are here", self, l.slots_used);
    if (p->promised && p->promised != next && !w->o.is_bare)
        sim_broken(w, "node %u leaves to serve as role %d, and has said %d", self, (int)next,
                   (int)p->promised);
}

/* ---- roles --------------------------------------------------------------------------------------- */

void sim_roles_drain(sim_world *w, uint32_t self)
{
    sim_process *p = &w->processes[self];
    sim_trace(w, "    %u drains for another role", self);
    sim_check_breaking(w);
    p->is_draining = true;
    p->well_us = INT64_MAX;
}

void sim_roles_exit(sim_world *w, uint32_t self, bt_role next)
{
    sim_process *p = &w->processes[self];
    const sim_item born = {.kind = SIM_BORN, .to = self, .life = p->life, .at_us = w->now_us + w->o.load_us};
    p->next = next;
    if (next) (void)sim_net_post(w->net, &born);
}

/* The last message that a gateway was told counts, late as it may be. */
void sim_check_heard(sim_world *w, const sim_item *it, const bt_msg *m)
{
    sim_end *e = &w->ends[(size_t)it->to * w->processes_len + it->from];
    if (m->type == BT_MSG_HEARTBEAT) e->drains_life = m->u.heartbeat.draining ? it->from_life : 0;
    if (m->type == BT_MSG_HELLO) e->drains_life = m->u.hello.draining ? it->from_life : 0;
    if (!bt_incarnation_equal(&m->to, &w->processes[it->to].self)) return;
    e->heard_life = it->from_life;
    e->heard_us = w->now_us;
}

/* The one of two processes of one name that answers stays. */
void sim_check_renamed(sim_world *w, uint32_t g, const bt_incarnation *node)
{
    const uint32_t k = sim_process_by_incarnation(w, node);
    if (w->o.is_bare || k == UINT32_MAX) return;
    const sim_end *e = &w->ends[(size_t)g * w->processes_len + k];
    const sim_process *p = &w->processes[k];
    if (e->heard_life != p->life || e->drains_life == p->life || p->is_draining) return;
    const bool is_cut = bt_incarnation_equal(&e->named, node) && e->named_us >= e->heard_us;
    if (w->now_us - e->heard_us >= w->o.gw.cut_us || (is_cut && w->now_us - e->named_us >= GW_REDIAL_US))
        return;
    sim_broken(w, "gateway %u gives the name of node %u to another process, %.3f s after it was heard", g, k,
               (double)(w->now_us - e->heard_us) / 1e6);
}

/* A beginning that a node has had sends nobody to it while it has more to compute than the least loaded node
 * by more than the prompt. Where several requests got nodes in a step it is not known what each found. */
static void check_herd(sim_world *w, uint32_t g)
{
    gw_brain *b = w->processes[g].gw;
    const gw_registry *reg = &b->registry;
    const gw_request *r = w->givens == 1 ? gw_request_find(b, w->given) : NULL;
    const gw_node *d = r ? gw_registry_find(reg, &r->decode.node) : NULL;
    w->givens = 0;
    if (!d || b->cfg.policy != GW_POLICY_PREFIX || r->state != GW_RESERVING || r->local || r->attempt > 1 ||
        r->only_decode || b->router.avoid.len > 0)
        return;
    const int64_t at = bt_order_first(&reg->least, true);
    const gw_node *l = at >= 0 ? &reg->nodes[at] : d;
    const bool is_open =
        bt_order_has(&reg->by_load, gw_registry_open_set(d->shape - 1, BT_ROLE_DECODE, GW_OPEN),
                     (uint32_t)(l - reg->nodes));
    const uint64_t before = d->waiting_tokens - r->decode.waiting_tokens;
    if (l == d || !is_open || d->attempts <= l->attempts + 1) return;
    if (before > l->waiting_tokens + r->prompt.tokens)
        sim_broken(w, "request %llu goes to a node with %llu tokens to compute, another has %llu",
                   (unsigned long long)r->number, (unsigned long long)before,
                   (unsigned long long)l->waiting_tokens);
}

void sim_check_chosen(sim_world *w, uint32_t g, uint64_t request, uint32_t node)
{
    w->given = request;
    w->givens++;
    if (w->o.is_bare || node == UINT32_MAX) return;
    if (w->ends[(size_t)g * w->processes_len + node].drains_life == w->processes[node].life)
        sim_broken(w, "gateway %u gives a new attempt to node %u, which has told it that it drains", g, node);
}

/* ---- tables -------------------------------------------------------------------------------------- */

void sim_check_process(sim_world *w, uint32_t self)
{
    check_grants(w, self);
    const sim_process *p = &w->processes[self];
    if (p->role == BT_ROLE_GATEWAY) {
        if (gw_brain_active(p->gw) > p->gw->cfg.active_max)
            sim_broken(w, "gateway %u has more active requests than it may", self);
        if (gw_brain_queued(p->gw) > p->gw->cfg.queue_max + p->gw->cfg.active_max)
            sim_broken(w, "the queue of gateway %u is longer than it may be", self);
        check_herd(w, self);
        return;
    }
    const bt_load l = p->role == BT_ROLE_PREFILL ? pf_brain_load(p->pf) : dc_brain_load(p->dc);
    if (l.slots_used > l.slots_total || l.pages_used > l.pages_total)
        sim_broken(w, "node %u uses more slots or pages than it has", self);
}

/* ---- owners -------------------------------------------------------------------------------------- */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static bool is_calm(const sim_faults *f)
{
    return f->drop_ratio + f->corrupt_ratio + f->reorder_ratio + f->slow_ratio + f->repeat_ratio == 0;
}

/* Since when nobody needs this attempt; INT64_MAX: it is needed. *ret_gateway says ABORT until it is heard;
 * UINT32_MAX: nobody does, for the process that made the attempt is no more. */
static int64_t useless_since(const sim_world *w, const bt_request_ref *ref, uint32_t *ret_gateway)
{
    *ret_gateway = UINT32_MAX;
    if (ref->number < 1 || ref->number > w->clients_len) return 0;
    const sim_client *c = &w->clients[ref->number - 1];
    if (w->processes[c->r.gateway].life == c->life) *ret_gateway = c->r.gateway;
    if (c->r.outcome != SIM_PENDING) return c->r.ended_us;
    if (ref->attempt < c->attempt) return c->attempt_us;
    return ref->attempt <= c->left ? c->left_us : INT64_MAX; /* it waits for its next attempt */
}

static void check_owner(sim_world *w, uint32_t self, const bt_request_ref *ref)
{
    uint32_t g;
    const sim_faults *f = &w->o.faults;
    const sim_process *p = &w->processes[self];
    const int64_t ended = useless_since(w, ref, &g), way = 8 * f->delay_max_us + w->o.late_us;
    if (ended == INT64_MAX) return;
    int64_t since = later(ended, p->runs_us),
            bound = (int64_t)w->o.gw.lease_ms * 1000 + SLACK_US + f->slow_us + way;
    for (uint32_t k = 0; k < w->o.gateways; k++)
        since = later(since, sim_net_held_until_us(w->net, k, self)); /* RESERVE may come out of it */
    /* Where nothing is lost on the way, and all run, the abort does it; one that was lost before goes
     * again. */
    /* A process whose name another one took is told nothing more: its leases end. */
    if (g != UINT32_MAX && !w->o.twins && w->processes[g].well_us != INT64_MAX && is_calm(f)) {
        const int64_t cut =
            later(sim_net_cut_until_us(w->net, g, self), sim_net_cut_until_us(w->net, self, g));
        const sim_client *c = &w->clients[ref->number - 1];
        const bool was_left_before =
            ref->attempt < c->attempt || (ref->attempt == c->aborted[self] && c->aborted_us[self] < ended);
        /* It says ABORT for as long as a lease; a node that halted may take up the RESERVE after that. */
        const bool is_said =
            ref->attempt != c->aborted[self] ||
            since + w->o.gw.resend_us + way < c->aborted_us[self] + (int64_t)w->o.gw.lease_ms * 1000;
        if (is_said && later(w->processes[g].well_us, cut) <= since)
            bound = LEAVE_US + LAYER_US + way + (since > ended || was_left_before ? w->o.gw.resend_us : 0);
    }
    if (w->now_us - since > bound)
        sim_broken(w, "node %u still holds attempt %llu.%u, %.3f s after it ended", self,
                   (unsigned long long)ref->number, ref->attempt, (double)(w->now_us - since) / 1e6);
}

static void check_owners(sim_world *w, uint32_t self)
{
    const sim_process *p = &w->processes[self];
    const bt_attempts *t = p->pf ? &p->pf->attempts : &p->dc->attempts;
    for (uint32_t slot = 0; slot < t->slots; slot++) {
        const bt_attempt *a = bt_attempts_by_slot(t, slot);
        if (a) check_owner(w, self, &a->ref);
    }
}

/* ---- failures ------------------------------------------------------------------------------------ */

static bool has_twin(const sim_world *w, uint32_t k)
{
    for (uint32_t i = w->o.gateways; w->o.twins && i < w->processes_len; i++)
        if (i != k && sim_name_of(w, i) == sim_name_of(w, k)) return true;
    return false;
}

/* Since when nothing was wrong with a pair, their gateway and their links; INT64_MAX: something is, or a node
 * has a twin, of which only one serves. */
static int64_t whole_since(const sim_world *w, uint32_t g, uint32_t p, uint32_t d)
{
    const uint32_t who[3] = {g, p, d};
    int64_t since = 0;
    for (int i = 0; i < 3; i++) {
        const sim_process *k = &w->processes[who[i]];
        if (has_twin(w, who[i])) return INT64_MAX;
        if (!k->is_alive || k->well_us == INT64_MAX) return INT64_MAX;
        since = later(since, k->well_us);
        for (int j = 0; j < 3; j++) since = later(since, sim_net_cut_until_us(w->net, who[i], who[j]));
    }
    return since <= w->now_us ? since : INT64_MAX;
}

/* Whether gateway g hears a node that takes requests. */
static bool is_heard(const sim_world *w, uint32_t g, uint32_t node)
{
    const sim_process *k = &w->processes[node];
    return k->is_alive && k->well_us != INT64_MAX && sim_net_cut_until_us(w->net, node, g) <= w->now_us;
}

/* Gateway g hears a node now; a decode node that computes prompts is of both roles. */
static void note_node(sim_world *w, uint32_t g, uint32_t node)
{
    const bool is_decode = w->processes[node].role == BT_ROLE_DECODE;
    if (!is_decode || w->o.can_prefill) w->processes[g].prefill_us = w->now_us;
    if (is_decode) w->processes[g].decode_us = w->now_us;
}

static void note_heard(sim_world *w, uint32_t g)
{
    for (uint32_t i = w->o.gateways; i < w->processes_len; i++)
        if (is_heard(w, g, i)) note_node(w, g, i);
}

static sim_end *end_of(const sim_world *w, const sim_item *it)
{
    return &w->ends[(size_t)it->to * w->processes_len + it->from];
}

void sim_check_cut(sim_world *w, const sim_item *it)
{
    const sim_process *k = &w->processes[it->from];
    if (k->is_alive && k->life == it->from_life) return;
    sim_end *e = end_of(w, it);
    e->gateway_life = it->life;
    e->life = it->from_life;
    e->told_us = w->now_us;
    memcpy(e->node.bytes, it->socket, sizeof e->node.bytes);
}

/* Told twice it is one cut, until the node is heard. */
void sim_check_named(sim_world *w, uint32_t g, const bt_incarnation *node)
{
    const uint32_t k = sim_process_by_incarnation(w, node);
    const gw_node *n = gw_registry_find(gw_brain_registry(w->processes[g].gw), node);
    if (k == UINT32_MAX || !n) return;
    sim_end *e = &w->ends[(size_t)g * w->processes_len + k];
    if (bt_incarnation_equal(&e->named, node) && e->named_us >= n->heard_us) return;
    e->named = *node;
    e->named_us = w->now_us;
}

/* A node has its time to be heard, after a cut too. */
void sim_check_lost(sim_world *w, uint32_t g, const bt_incarnation *node)
{
    if (w->o.is_bare) return;
    const uint32_t k = sim_process_by_incarnation(w, node);
    const gw_node *n = gw_registry_find(gw_brain_registry(w->processes[g].gw), node);
    /* Heard in this very step: what was due came before the message, and since when it was silent is gone. */
    if (k == UINT32_MAX || !n || n->heard_us == w->now_us) return;
    if (w->now_us >= n->heard_us + w->o.gw.gone_us) return;
    const sim_end *e = &w->ends[(size_t)g * w->processes_len + k];
    const bool is_cut = bt_incarnation_equal(&e->named, node) && e->named_us >= n->heard_us;
    if (is_cut && w->now_us >= e->named_us + w->o.gw.cut_us) return;
    sim_broken(w, "gateway %u takes node %u for lost, %.3f s after it was heard%s", g, k,
               (double)(w->now_us - n->heard_us) / 1e6, is_cut ? " and too soon after a cut" : "");
}

void sim_check_up(sim_world *w, const sim_item *it)
{
    sim_end *e = &w->ends[(size_t)it->slot * w->processes_len + it->to];
    e->up_life = it->life;
    e->up_us = w->now_us;
}

/* A node that was refused greets in its own time, whatever its connection does (xfer/greeting.h). */
static bool is_refused(const sim_process *p, uint32_t gateway)
{
    const bt_gates *g = p->dc ? &p->dc->gates : p->pf ? &p->pf->gates : NULL;
    return g && gateway < g->len && g->greetings[gateway].state == BT_GREETING_REFUSED;
}

/* A node that is connected again has said so at once. */
static void check_ups(sim_world *w, uint32_t g)
{
    const sim_process *p = &w->processes[g];
    const int64_t way = 8 * w->o.faults.delay_max_us + w->o.late_us;
    for (uint32_t i = w->o.gateways; i < w->processes_len && is_calm(&w->o.faults); i++) {
        const sim_process *k = &w->processes[i];
        const sim_end *e = &w->ends[(size_t)g * w->processes_len + i];
        if (!k->is_alive || e->up_life != k->life || later(k->well_us, p->well_us) > e->up_us ||
            w->now_us - e->up_us <= way ||
            later(sim_net_cut_until_us(w->net, g, i), sim_net_cut_until_us(w->net, i, g)) > e->up_us)
            continue;
        const gw_node *n = gw_registry_find(gw_brain_registry(p->gw), &k->self);
        if (n && n->state == GW_NODE_GONE && !is_refused(k, g))
            sim_broken(w, "gateway %u takes node %u for lost, %.3f s after their connection came up again", g,
                       i, (double)(w->now_us - e->up_us) / 1e6);
    }
}

/* A message that a cut held back makes a node seem to be there, although it has died since. */
bool sim_check_came(bt_incarnation *ret, sim_world *w, const sim_item *it)
{
    const sim_process *k = &w->processes[it->from];
    const bool is_leaving = k->is_alive && k->is_draining && k->life == it->from_life;
    if (it->to >= w->o.gateways || it->from < w->o.gateways) return false;
    if (!is_leaving) note_node(w, it->to, it->from);
    if (k->life != it->from_life) /* of a process before it, in whatever role */
        w->processes[it->to].prefill_us = w->processes[it->to].decode_us = w->now_us;
    if (end_of(w, it)->life != it->from_life) return false;
    end_of(w, it)->life = 0;
    *ret = end_of(w, it)->node;
    return true;
}

/* Without prefill nodes each decode node is one. */
static bool is_pair(const sim_world *w, uint32_t p, uint32_t d)
{
    const bool is_prefill = w->o.prefills ? w->processes[p].role == BT_ROLE_PREFILL : p == d;
    return is_prefill && w->processes[d].role == BT_ROLE_DECODE;
}

/* The longest time that one pair was whole between from_us and now. */
static int64_t longest_whole_us(const sim_world *w, uint32_t g, int64_t from_us)
{
    int64_t best = 0;
    for (uint32_t d = w->o.gateways; d < w->processes_len; d++) {
        for (uint32_t p = w->o.gateways; p < w->processes_len; p++) {
            const int64_t since = is_pair(w, p, d) ? whole_since(w, g, p, d) : INT64_MAX;
            if (since != INT64_MAX) best = later(best, w->now_us - later(since, from_us));
        }
    }
    for (size_t i = 0; i < w->wholes_len; i++) {
        const sim_whole *k = &w->wholes[i];
        if (k->gateway == g) best = later(best, k->to_us - later(k->from_us, from_us));
    }
    return best;
}

static void keep_whole(sim_world *w, int64_t since, uint32_t g)
{
    if (since == INT64_MAX || w->now_us - since < w->o.accept_us) return;
    if (w->wholes_len == w->wholes_cap) {
        const size_t cap = w->wholes_cap ? w->wholes_cap * 2 : 32;
        sim_whole *all = realloc(w->wholes, cap * sizeof *all);
        if (!all) return;
        w->wholes = all;
        w->wholes_cap = cap;
    }
    w->wholes[w->wholes_len++] = (sim_whole){since, w->now_us, g};
}

void sim_check_breaking(sim_world *w)
{
    if (w->o.is_bare) return;
    for (uint32_t g = 0; g < w->o.gateways; g++) {
        note_heard(w, g);
        for (uint32_t d = w->o.gateways; d < w->processes_len; d++)
            for (uint32_t p = w->o.gateways; p < w->processes_len; p++)
                if (is_pair(w, p, d)) keep_whole(w, whole_since(w, g, p, d), g);
    }
}

void sim_check_fail(sim_world *w, const sim_client *c, const gw_action *a)
{
    if (w->o.is_bare) return;
    const unsigned long long n = (unsigned long long)a->request;
    const gw_fail_kind kind = a->u.fail.kind;
    if (kind == GW_FAIL_CANCELLED && c->r.is_cut) return;
    /* Requests that lost their node in the same step may have filled the gateway's queue. */
    const bool is_full =
        c->may_be_refused || gw_brain_queued(w->processes[c->r.gateway].gw) >= w->o.queue_max;
    if (kind == GW_FAIL_OVERLOADED && is_full && w->now_us == c->r.submitted_us) return;
    if (kind == GW_FAIL_OVERLOADED && w->asking && w->asking != a->request && w->o.keys)
        return; /* it gave way, which sim_shares.c judges */
    if (kind == GW_FAIL_TOO_LONG && c->r.prompt_tokens + c->r.max_tokens > w->o.ctx_tokens) return;
    if (kind != GW_FAIL_NO_NODE && kind != GW_FAIL_NODE_LOST && kind != GW_FAIL_TIMEOUT) {
        sim_broken(w, "request %llu fails: %s, %s", n, gw_fail_name(kind), a->u.fail.text);
        return;
    }
    if (w->calm_us != INT64_MAX && w->now_us - w->calm_us > CALM_US)
        sim_broken(w, "request %llu fails (%s, %s) %.3f s after the last fault", n, gw_fail_name(kind),
                   a->u.fail.text, (double)(w->now_us - w->calm_us) / 1e6);
    const int64_t whole = longest_whole_us(w, c->r.gateway, w->now_us - w->o.gw.recovery_us);
    if (whole >= w->o.accept_us && w->now_us - w->processes[c->r.gateway].well_us >= w->o.accept_us)
        sim_broken(w, "request %llu fails (%s, %s) although a pair was whole for %.3f s", n,
                   gw_fail_name(kind), a->u.fail.text, (double)whole / 1e6);
}

/* ---- now and then -------------------------------------------------------------------------------- */

/* Where there cannot even seem to be a pair, a request waits for one no longer than recovery_us. */
static void check_deadline(sim_world *w, uint64_t number)
{
    const sim_client *c = &w->clients[number - 1];
    const sim_process *g = &w->processes[c->r.gateway];
    if (g->well_us == INT64_MAX) return;
    const int64_t pair = g->prefill_us < g->decode_us ? g->prefill_us : g->decode_us,
                  since = later(later(c->r.heard_us, pair), g->well_us);
    if (w->now_us - since > w->o.gw.recovery_us + w->o.gw.gone_us + HEAR_US)
        sim_broken(w, "request %llu has no answer, and there has been no pair for %.3f s",
                   (unsigned long long)number, (double)(w->now_us - since) / 1e6);
}

/* A dead node whose end was told has no request of the gateway any more. */
static void check_ends(sim_world *w, uint32_t g)
{
    const sim_process *p = &w->processes[g];
    for (uint32_t n = 0; n < w->processes_len; n++) {
        const sim_end *e = &w->ends[(size_t)g * w->processes_len + n];
        if (!e->life || e->gateway_life != p->life) continue;
        const int64_t for_us = w->now_us - later(e->told_us, p->runs_us);
        if (for_us <= w->o.gw.cut_us + w->o.late_us + LOST_US) continue;
        for (uint32_t i = 0; i < p->gw->requests_used; i++) {
            const gw_request *r = &p->gw->requests[i];
            if ((r->prefill.is_open && bt_incarnation_equal(&r->prefill.node, &e->node)) ||
                (r->decode.is_open && bt_incarnation_equal(&r->decode.node, &e->node)))
                sim_broken(w, "request %llu is still on node %u, which died, %.3f s after that was told",
                           (unsigned long long)r->number, n, (double)for_us / 1e6);
        }
    }
}

void sim_check_all(sim_world *w)
{
    for (uint32_t i = w->o.gateways; i < w->processes_len; i++) {
        const sim_process *p = &w->processes[i];
        if (!p->is_alive || p->is_stopped) continue;
        check_owners(w, i);
        if (p->pf ? !pf_brain_is_sound(p->pf) : !dc_brain_is_sound(p->dc))
            sim_broken(w, "the books of node %u do not agree with themselves", i);
    }
    for (uint32_t g = 0; g < w->o.gateways; g++) {
        note_heard(w, g);
        if (!w->processes[g].is_alive || w->processes[g].is_stopped) continue;
        check_ends(w, g);
        check_ups(w, g);
    }
    while (w->first_pending < w->clients_len && w->clients[w->first_pending].r.outcome != SIM_PENDING)
        w->first_pending++;
    for (uint64_t i = w->first_pending; i < w->clients_len; i++)
        if (w->clients[i].r.outcome == SIM_PENDING) check_deadline(w, i + 1);
}
