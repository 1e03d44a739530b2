/* The shell of a simulated decode node: its brain, its bulk socket, its pages, its worker (sim_worker.c). */
#include "decode-node/brain/brain_inner.h"
#include "kv/kv_header.h"
#include "tests/world/sim_bare.h"
#include "tests/world/sim_node.h"

#include <string.h>

enum { PENDING_MAX = 512 };

/* The answer to a peer goes back by the socket it last used. */
static void note_route(const sim_world *w, sim_process *p, uint32_t from, const uint8_t socket[16],
                       const bt_incarnation *peer)
{
    sim_route *r = NULL;
    for (uint32_t i = 0; i < p->routes_used && !r; i++)
        if (bt_incarnation_equal(&p->routes[i].peer, peer)) r = &p->routes[i];
    if (!r && p->routes_used < w->routes_len) r = &p->routes[p->routes_used++];
    if (!r) r = &p->routes[from % w->routes_len];
    *r = (sim_route){.process = from, .peer = *peer, .in_use = true};
    memcpy(r->socket, socket, 16);
}

/* The block in hand. */
typedef struct block {
    bt_kv_header header;
    const uint8_t *body;
} block;

/* As decode-node/node.c: the rows are copied, then what lies there is checked. */
static bool place(sim_world *w, sim_process *p, const dc_block *b, const block *in)
{
    static uint8_t placed[BT_KV_MAX_BLOCK_TOKENS * SIM_TOY_ROW_BYTES];
    for (uint32_t i = 0; i < b->token_count; i++) {
        uint8_t row[SIM_TOY_ROW_BYTES];
        memcpy(row, in->body + i * 4, 4);
        memcpy(row + 4, in->body + (b->token_count + i) * 4, 4);
        if (!sim_pages_write(p->pages, b->slot, b->layer, b->token_begin + i, row))
            sim_broken(w, "PLACE writes a page that another slot has too, or a row that is gone");
        if (w->o.is_bare) continue;
        const uint8_t *lies = sim_pages_row(p->pages, b->slot, b->layer, b->token_begin + i);
        memcpy(placed + i * 4, lies, 4);
        memcpy(placed + (b->token_count + i) * 4, lies + 4, 4);
    }
    return w->o.is_bare || bt_kv_header_check_body(&in->header, placed, b->bytes, NULL) == BT_OK;
}

/* Pages that a running sequence must not lose, and what the brain's count says is there. */
static void move_pages(sim_world *w, uint32_t self, const dc_action *a)
{
    sim_process *p = &w->processes[self];
    const uint32_t slot = a->type == DC_DO_SET_PAGES   ? a->u.set.slot
                          : a->type == DC_DO_DROP_SWAP ? a->u.slot
                                                       : a->u.swap.slot;
    bool ok = true;
    if (p->runs[slot].is_busy && (a->type != DC_DO_SET_PAGES || !a->u.set.is_growth))
        sim_broken(w, "pages of a busy decode slot are moved, action %d", (int)a->type);
    if (a->type == DC_DO_SET_PAGES)
        ok = sim_pages_set(p->pages, slot, a->u.set.pages, a->u.set.windows, a->u.set.pages_len);
    else if (a->type == DC_DO_SWAP_OUT)
        ok = a->u.swap.tokens == p->runs[slot].rows &&
             sim_pages_swap_out(p->pages, slot, a->u.swap.tokens, a->u.swap.window_begin);
    else if (a->type == DC_DO_SWAP_IN)
        ok = sim_pages_swap_in(p->pages, slot, a->u.swap.tokens, a->u.swap.window_begin);
    else ok = sim_pages_drop_swap(p->pages, slot);
    if (a->type == DC_DO_SET_PAGES && a->u.set.pages_len)
        sim_pages_set_salt(p->pages, slot, sim_salt_of(w, &p->dc->attempts, slot));
    if (a->type == DC_DO_SET_PAGES && a->u.set.is_growth) sim_worker_grow(w, self, slot);
    if (!ok) sim_broken(w, "a decode node cannot do what its brain counted on, action %d", (int)a->type);
    if (sim_pages_swapped(p->pages) > w->o.swap_pages ||
        sim_pages_swapped_windows(p->pages) > w->o.swap_window_pages)
        sim_broken(w, "the swap store holds more than it may");
}

static void carry_out(sim_world *w, uint32_t self, const dc_action *a, const block *in, dc_event *next,
                      size_t *next_len)
{
    sim_process *p = &w->processes[self];
    switch (a->type) {
    case DC_DO_SEND_CONTROL:
        sim_say(w, self, a->u.control.gateway, SIM_CONTROL, NULL, &a->u.control.msg);
        break;
    case DC_DO_SEND_BULK:
        for (uint32_t i = 0; i < p->routes_used; i++)
            if (bt_incarnation_equal(&p->routes[i].peer, &a->u.bulk.peer))
                sim_say(w, self, p->routes[i].process, SIM_BULK, p->routes[i].socket, &a->u.bulk.msg);
        break;
    case DC_DO_PLACE: {
        const dc_block *b = &a->u.block;
        sim_check_place(w, self, b);
        if (p->runs[b->slot].is_busy) sim_broken(w, "PLACE into a running decode slot");
        next[(*next_len)++] =
            (dc_event){.type = place(w, p, b, in) ? DC_EV_PLACED : DC_EV_CORRUPT, .u.block = *b};
        break;
    }
    case DC_DO_DROP: break;
    case DC_DO_SET_PAGES:
    case DC_DO_SWAP_OUT:
    case DC_DO_SWAP_IN:
    case DC_DO_DROP_SWAP: move_pages(w, self, a); break;
    case DC_DO_START: sim_worker_start(w, self, a); break;
    case DC_DO_STOP: /* nothing where its ENDED is on the way */
        p->runs[a->u.slot].is_cancelled = true;
        sim_worker_wake(w, self);
        break;
    case DC_DO_LOG: sim_trace(w, "    %u says: %s", self, a->u.log.text); break;
    case DC_DO_DRAIN: sim_roles_drain(w, self); break;
    case DC_DO_EXIT:
        sim_check_exit(w, self, a->u.next_role);
        sim_roles_exit(w, self, a->u.next_role);
        p->is_alive = false;
        break;
    }
}

/* in: the block in *ev. */
static void step(sim_world *w, uint32_t self, const dc_event *ev, const block *in)
{
    sim_process *p = &w->processes[self];
    dc_event pending[PENDING_MAX]; /* from 1 on */
    size_t len = 1;
    for (size_t i = 0; i < len; i++) {
        const dc_event *e = i ? &pending[i] : ev;
        bt_random random = sim_random(w, e->type == DC_EV_CONTROL);
        dc_actions acts = dc_brain_step(p->dc, e, w->now_us, &random);
        w->steps++;
        for (size_t k = 0; k < acts.len; k++) {
            if (len >= PENDING_MAX - 1) {
                sim_broken(w, "one event made a decode node do more than %d things", PENDING_MAX);
                return;
            }
            carry_out(w, self, &acts.items[k], in, pending, &len);
        }
        p->due_us = dc_brain_due_us(p->dc);
        const uint32_t used = sim_pages_used(p->pages);
        if (!w->o.is_bare && dc_brain_load(p->dc).pages_used != used)
            sim_broken(w, "a decode node's brain counts other pages than the %u that are held", used);
    }
}

void sim_decode_step(sim_world *w, uint32_t self, const dc_event *ev) { step(w, self, ev, NULL); }

void sim_decode_work(sim_world *w, uint32_t self)
{
    sim_told t;
    sim_worker_turn(&t, w, self);
    for (uint32_t i = 0; i < t.len && w->processes[self].is_alive; i++) sim_decode_step(w, self, &t.ev[i]);
}

static void on_block(sim_world *w, uint32_t self, const sim_item *it)
{
    sim_process *p = &w->processes[self];
    block in;
    bt_fault fault;
    if (w->o.is_bare) {
        sim_bare_get_header(&in.header, it->bytes);
    } else if (it->len < BT_KV_HEADER_BYTES ||
               bt_kv_header_decode(&in.header, it->bytes, BT_KV_HEADER_BYTES, &fault) < 0) {
        sim_broken(w, "a block header does not decode");
        return;
    }
    if (memcmp(in.header.to, p->self.bytes, 16) != 0 || it->len - BT_KV_HEADER_BYTES != in.header.body_bytes)
        return;
    in.body = it->bytes + BT_KV_HEADER_BYTES;
    const bt_kv_header h = in.header;
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
    b->link_epoch = h.link_epoch;
    b->link_end = h.link_end;
    note_route(w, p, it->from, it->socket, &b->from);
    step(w, self, &ev, &in);
}

void sim_decode_packet(sim_world *w, uint32_t self, const sim_item *it, const bt_msg *m)
{
    if (it->channel == SIM_BLOCK) {
        on_block(w, self, it);
        return;
    }
    dc_event ev = {.type = it->channel == SIM_CONTROL ? DC_EV_CONTROL : DC_EV_BULK};
    if (it->channel == SIM_CONTROL) {
        ev.u.control.gateway = it->from; /* gateways have the first numbers */
        ev.u.control.msg = m;
    } else {
        note_route(w, &w->processes[self], it->from, it->socket, &m->from);
        ev.u.bulk = m;
    }
    sim_decode_step(w, self, &ev);
}
