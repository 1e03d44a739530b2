/* The shell of a simulated decode node: its brain, its bulk socket, rows of KV, a toy worker that steps every
 * sequence. */
#include "kv/kv_header.h"
#include "sim/sim_node.h"

#include <string.h>

enum { STEP_US = 1000, PENDING_MAX = 512 };

/* The answer to a peer goes back by the socket it last used. */
static void note_route(sim_process *p, uint32_t from, const uint8_t socket[16], const bt_incarnation *peer)
{
    sim_route *r = NULL;
    for (int i = 0; i < SIM_ROUTES && !r; i++)
        if (p->routes[i].in_use && bt_incarnation_equal(&p->routes[i].peer, peer)) r = &p->routes[i];
    for (int i = 0; i < SIM_ROUTES && !r; i++)
        if (!p->routes[i].in_use) r = &p->routes[i];
    if (!r) r = &p->routes[from % SIM_ROUTES];
    *r = (sim_route){.process = from, .peer = *peer, .in_use = true};
    memcpy(r->socket, socket, 16);
}

static void post_work(sim_world *w, uint32_t self, uint32_t slot)
{
    sim_item it = {.at_us = w->now_us + STEP_US, .kind = SIM_DECODE_WORK, .to = self, .life = w->processes[self].life,
                   .slot = slot, .run = w->processes[self].runs[slot].run};
    (void)sim_net_post(w->net, &it);
}

static void start(sim_world *w, uint32_t self, const dc_action *a)
{
    sim_run *run = &w->processes[self].runs[a->u.start.slot];
    if (run->is_busy) sim_broken(w, "START on a busy decode slot");
    run->is_busy = true;
    run->is_cancelled = false;
    run->run = ++w->works;
    run->sampling = a->u.start.sampling;
    run->max_tokens = a->u.start.max_tokens;
    run->last = a->u.start.ids[a->u.start.ids_len - 1];
    run->index = a->u.start.ids_len;
    run->kv_digest = sim_toy_digest(run->rows, w->o.ctx_tokens, a->u.start.prompt_tokens);
    post_work(w, self, a->u.start.slot);
}

void sim_decode_work(sim_world *w, uint32_t self, const sim_item *it)
{
    sim_run *run = &w->processes[self].runs[it->slot];
    if (!run->is_busy || run->run != it->run) return;
    if (run->is_cancelled) {
        run->is_busy = false;
        sim_decode_step(w, self, &(dc_event){.type = DC_EV_STOPPED, .u.stopped = {it->slot, 0}});
        return;
    }
    run->last = sim_toy_next(run->kv_digest, run->last, run->index, run->sampling.seed);
    dc_event ev = {.type = DC_EV_TOKEN};
    ev.u.token.slot = it->slot;
    ev.u.token.index = run->index++;
    ev.u.token.id = run->last;
    bool stop = run->last == SIM_TOY_STOP, full = run->index == run->max_tokens;
    sim_decode_step(w, self, &ev);
    if (!stop && !full) {
        post_work(w, self, it->slot);
        return;
    }
    run->is_busy = false;
    ev = (dc_event){.type = DC_EV_ENDED};
    ev.u.ended.slot = it->slot;
    ev.u.ended.reason = stop ? BT_FINISH_STOP : BT_FINISH_LENGTH;
    ev.u.ended.steps = run->index - 1;
    sim_decode_step(w, self, &ev);
}

static void carry_out(sim_world *w, uint32_t self, const dc_action *a, const uint8_t *body, dc_event *next,
                      size_t *next_len)
{
    sim_process *p = &w->processes[self];
    switch (a->type) {
    case DC_DO_SEND_CONTROL: sim_say(w, self, 0, SIM_CONTROL, NULL, &a->u.control.msg); break;
    case DC_DO_SEND_BULK:
        for (int i = 0; i < SIM_ROUTES; i++)
            if (p->routes[i].in_use && bt_incarnation_equal(&p->routes[i].peer, &a->u.bulk.peer))
                sim_say(w, self, p->routes[i].process, SIM_BULK, p->routes[i].socket, &a->u.bulk.msg);
        break;
    case DC_DO_PLACE: {
        const dc_block *b = &a->u.block;
        bool good = body != NULL;
        if (p->runs[b->slot].is_busy) sim_broken(w, "PLACE into a running decode slot");
        if (good) sim_toy_place(p->runs[b->slot].rows, w->o.ctx_tokens, body, b->layer, b->token_begin, b->token_count);
        next[(*next_len)++] = (dc_event){.type = good ? DC_EV_PLACED : DC_EV_CORRUPT, .u.block = *b};
        break;
    }
    case DC_DO_DROP: break;
    case DC_DO_RESERVE_PAGES:
        if (p->runs[a->u.pages.slot].is_busy) sim_broken(w, "RESERVE_PAGES for a busy decode slot");
        memset(p->runs[a->u.pages.slot].rows, 0xee, (size_t)SIM_TOY_LAYERS * w->o.ctx_tokens * SIM_TOY_ROW_BYTES);
        break;
    case DC_DO_SHARE_PAGES:
    case DC_DO_GROW_PAGES:
    case DC_DO_SWAP_OUT:
    case DC_DO_SWAP_IN:
    case DC_DO_DROP_SWAP: sim_broken(w, "a decode node moves pages that never move here"); break;
    case DC_DO_FREE_PAGES:
        if (p->runs[a->u.slot].is_busy) sim_broken(w, "FREE_PAGES of a busy decode slot");
        break;
    case DC_DO_START: start(w, self, a); break;
    case DC_DO_STOP:
        if (!p->runs[a->u.slot].is_busy) sim_broken(w, "STOP of an idle decode slot");
        p->runs[a->u.slot].is_cancelled = true;
        break;
    case DC_DO_LOG: break;
    case DC_DO_EXIT: p->is_alive = false; break;
    }
}

/* body: of the block in *ev, when its digest was right. */
static void step(sim_world *w, uint32_t self, const dc_event *ev, const uint8_t *body)
{
    sim_process *p = &w->processes[self];
    dc_event pending[PENDING_MAX];
    size_t len = 1;
    pending[0] = *ev;
    for (size_t i = 0; i < len; i++) {
        bt_random random = sim_random(w);
        dc_actions acts = dc_brain_step(p->dc, &pending[i], w->now_us, &random);
        w->steps++;
        for (size_t k = 0; k < acts.len; k++) {
            if (len >= PENDING_MAX - 1) {
                sim_broken(w, "one event made a decode node do more than %d things", PENDING_MAX);
                return;
            }
            carry_out(w, self, &acts.items[k], body, pending, &len);
        }
        p->due_us = dc_brain_due_us(p->dc);
    }
}

void sim_decode_step(sim_world *w, uint32_t self, const dc_event *ev) { step(w, self, ev, NULL); }

static void on_block(sim_world *w, uint32_t self, const sim_item *it)
{
    sim_process *p = &w->processes[self];
    bt_kv_header h;
    bt_fault fault;
    if (it->len < BT_KV_HEADER_BYTES || bt_kv_header_decode(&h, it->bytes, BT_KV_HEADER_BYTES, &fault) < 0) {
        sim_broken(w, "a block header does not decode");
        return;
    }
    if (memcmp(h.to, p->self.bytes, 16) != 0) return;
    const uint8_t *body = it->bytes + BT_KV_HEADER_BYTES;
    bool good = bt_kv_header_check_body(&h, body, it->len - BT_KV_HEADER_BYTES, NULL) == BT_OK;
    dc_event ev = {.type = DC_EV_BLOCK};
    dc_block *b = &ev.u.block;
    memcpy(b->from.bytes, h.from, 16);
    memcpy(b->ref.owner.bytes, h.owner, 16);
    memcpy(b->ticket.bytes, h.ticket, 16);
    b->ref.number = h.number;
    b->ref.attempt = h.attempt;
    b->layer = h.layer;
    b->token_begin = h.token_begin;
    b->token_count = h.token_count;
    b->bytes = h.body_bytes;
    note_route(p, it->from, it->socket, &b->from);
    step(w, self, &ev, good ? body : NULL);
}

void sim_decode_packet(sim_world *w, uint32_t self, const sim_item *it, const bt_msg *m)
{
    if (it->channel == SIM_BLOCK) {
        on_block(w, self, it);
        return;
    }
    dc_event ev = {.type = it->channel == SIM_CONTROL ? DC_EV_CONTROL : DC_EV_BULK};
    if (it->channel == SIM_CONTROL) {
        ev.u.control.msg = m;
    } else {
        note_route(&w->processes[self], it->from, it->socket, &m->from);
        ev.u.bulk = m;
    }
    sim_decode_step(w, self, &ev);
}
