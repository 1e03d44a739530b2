/* The virtual world: clock, processes, and the loop that gives each what is due. See sim_world.h. */
#include "tests/world/sim_world.h"
#include "base/rng.h"
#include "kv/kv_header.h"
#include "tests/world/sim_bare.h"
#include "tests/world/sim_node.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE_TOKENS = 64,
    START_US = 1000000,
    MISSED_US = 1000,
    LOOK_US = 100000,
    REDIAL_US = 15000,
    UNTRUE_OF = 8
};

sim_options sim_options_defaults(uint64_t seed)
{
    return (sim_options){.seed = seed,
                         .gateways = 1,
                         .prefills = 1,
                         .decodes = 1,
                         .slots = 1,
                         .ctx_tokens = 512,
                         .pages_total = 64,
                         .decode_pages = 64,
                         .page_tokens = PAGE_TOKENS,
                         .growth_tokens = 64,
                         .queue_max = 64,
                         .active_max = 64,
                         .window_bytes = 64 << 10,
                         .inbox_max = 1000,
                         .accept_us = 15000000,
                         .faults = {.delay_min_us = 100, .delay_max_us = 2000},
                         .gw = gw_config_defaults(),
                         .pf = pf_config_defaults(),
                         .dc = dc_config_defaults()};
}

/* ---- processes ---------------------------------------------------------------------------------- */

static uint32_t number_of(const sim_world *w, bt_role role, uint32_t index)
{
    if (role == BT_ROLE_GATEWAY) return index;
    return w->o.gateways + (role == BT_ROLE_PREFILL ? 0 : w->o.prefills) + index;
}

static sim_process *process_of(const sim_world *w, bt_role role, uint32_t index)
{
    return &w->processes[number_of(w, role, index)];
}

static void fill_hello(const sim_world *w, bt_msg_hello *h, uint32_t number)
{
    memset(h->model_id, 7, sizeof h->model_id);
    snprintf(h->node_id, sizeof h->node_id, "node-%u", sim_name_of(w, number));
    snprintf(h->model_name, sizeof h->model_name, "toy");
    snprintf(h->exactness, sizeof h->exactness, "toy/f16/%u", 1 + sim_rule_of(w, number));
    snprintf(h->kv_endpoint, sizeof h->kv_endpoint, "sim:%u", number);
    h->protocol = BT_PROTOCOL_VERSION;
    h->kv = sim_toy_shape(w->o.kv_window, w->o.global_every);
    h->ctx_tokens = w->o.ctx_tokens;
    h->kv_capacity_tokens = (uint64_t)w->o.pages_total * PAGE_TOKENS;
    h->pid = number;
}

static bt_err make_brain(sim_world *w, sim_process *p, uint32_t number)
{
    if (p->role == BT_ROLE_GATEWAY) {
        gw_config c = w->o.gw;
        c.self = p->self;
        c.queue_max = w->o.queue_max;
        c.active_max = w->o.active_max;
        c.nodes_max = w->processes_len + 2;
        c.local_below_tokens = w->o.local_below_tokens;
        memset(c.model_id, 7, sizeof c.model_id);
        snprintf(c.node_id, sizeof c.node_id, "gateway-%u", number);
        return gw_brain_new(&p->gw, &c, NULL);
    }
    if (p->role == BT_ROLE_PREFILL) {
        pf_config c = w->o.pf;
        c.self = p->self;
        c.gateways = w->o.gateways;
        c.slots = w->o.slots;
        c.pages_total = w->o.pages_total;
        fill_hello(w, &c.hello, number);
        c.hello.role = BT_ROLE_PREFILL;
        c.hello.kv_endpoint[0] = 0;
        return pf_brain_new(&p->pf, &c, NULL);
    }
    dc_config c = w->o.dc;
    c.self = p->self;
    c.gateways = w->o.gateways;
    c.slots = w->o.slots;
    c.pages_total = w->o.decode_pages;
    c.window_pages_total = w->o.kv_window ? w->o.window_pages : 0;
    c.page_tokens = w->o.page_tokens;
    c.growth_tokens = w->o.growth_tokens;
    c.swap_pages = w->o.swap_pages;
    c.swap_window_pages = w->o.kv_window ? w->o.swap_window_pages : 0;
    c.can_prefill = w->o.can_prefill;
    c.window_bytes = w->o.window_bytes;
    fill_hello(w, &c.hello, number);
    c.hello.role = BT_ROLE_DECODE;
    c.hello.kv_capacity_tokens = (uint64_t)w->o.decode_pages * w->o.page_tokens;
    if (w->o.can_prefill)
        snprintf(c.hello.prefill_exactness, sizeof c.hello.prefill_exactness, "%s", c.hello.exactness);
    return dc_brain_new(&p->dc, &c, NULL);
}

static void empty_inbox(sim_world *w, sim_process *p)
{
    while (p->inbox) {
        sim_item *it = p->inbox;
        p->inbox = it->next;
        sim_check_gone(w, it);
        sim_net_done(w->net, it);
    }
    p->inbox_end = &p->inbox;
    p->inbox_len = 0;
}

static void kill_process(sim_world *w, sim_process *p)
{
    gw_brain_free(p->gw);
    pf_brain_free(p->pf);
    dc_brain_free(p->dc);
    sim_prefill_free(p->kv);
    p->kv = NULL;
    sim_pages_free(p->pages);
    dc_batch_free(p->batch);
    p->pages = NULL;
    p->batch = NULL;
    p->gw = NULL;
    p->pf = NULL;
    p->dc = NULL;
    p->is_alive = p->is_stopped = p->is_draining = p->is_over = false;
    p->promised = p->next = 0;
    p->well_us = INT64_MAX;
    if (w->net) empty_inbox(w, p);
}

static void set_role_may(const sim_world *w, sim_process *p)
{
    const bt_role_may may = w->calm_us == INT64_MAX ? BT_ROLE_MAY : BT_ROLE_MAY_NOT;
    if (p->pf) pf_brain_set_role_may(p->pf, may);
    if (p->dc) dc_brain_set_role_may(p->dc, may);
}

static bt_err start_process(sim_world *w, sim_process *p, uint32_t number)
{
    kill_process(w, p);
    p->life = ++w->lives;
    p->due_us = p->well_us = p->runs_us = w->now_us;
    sim_wake_at(w, p, w->now_us);
    memset(p->routes, 0, w->routes_len * sizeof *p->routes);
    p->routes_used = 0;
    sim_net_stream(w->net, number);
    for (int i = 0; i < 16; i++) p->self.bytes[i] = (uint8_t)(1 + sim_net_draw(w->net) % 255);
    bt_order_put(&w->selves, 0, number, gw_registry_key(&p->self));
    for (uint32_t i = 0; p->runs && i < w->o.slots; i++) p->runs[i].is_busy = false;
    p->is_stepping = false;
    bt_err e = make_brain(w, p, number);
    if (e == BT_OK && p->role == BT_ROLE_PREFILL) e = sim_prefill_new(&p->kv, &w->o);
    if (e == BT_OK && p->role == BT_ROLE_DECODE) e = sim_worker_new(&p->batch, &w->o);
    const sim_pages_want pages = {w->o.slots,        w->o.decode_pages,
                                  w->o.window_pages, w->o.page_tokens,
                                  w->o.ctx_tokens,   sim_toy_shape(w->o.kv_window, w->o.global_every)};
    if (e == BT_OK && p->role == BT_ROLE_DECODE) e = sim_pages_new(&p->pages, &pages);
    p->is_alive = e == BT_OK;
    set_role_may(w, p);
    return e;
}

static bt_err make_runs(sim_world *w, sim_process *p)
{
    p->runs = calloc(w->o.slots, sizeof *p->runs);
    p->routes = calloc(w->routes_len, sizeof *p->routes);
    if (!p->runs || !p->routes) return BT_ENOMEM;
    for (uint32_t i = 0; i < w->o.slots; i++) {
        sim_run *r = &p->runs[i];
        r->ids = calloc(w->o.ctx_tokens, sizeof *r->ids);
        r->hashes = calloc(w->o.ctx_tokens, sizeof *r->hashes);
        if (!r->ids || !r->hashes) return BT_ENOMEM;
    }
    return BT_OK;
}

static const char *fault_name(sim_fault_kind k)
{
    static const char *const names[SIM_FAULT_KINDS] = {"",           "is lost",      "comes twice",
                                                       "comes late", "is corrupted", "is slow"};
    return names[k];
}

static void on_fault(void *ud, const sim_item *it, sim_fault_kind kind, uint64_t id)
{
    static const char *const channels[] = {"", "control", "bulk", "block"};
    sim_trace(ud, "   * %u -> %u: the next %s packet %s (%llx)", it->from, it->to, channels[it->channel],
              fault_name(kind), (unsigned long long)id);
}

bt_err sim_world_new(sim_world **ret, const sim_options *o)
{
    const sim_faults *f = &o->faults;
    if (o->is_bare && (f->corrupt_ratio > 0 || f->block_corrupt_ratio > 0 || o->forge_ratio > 0))
        return BT_EARG;
    sim_world *w = calloc(1, sizeof *w);
    if (!w) return BT_ENOMEM;
    w->o = *o;
    w->now_us = START_US;
    w->look_us = START_US + LOOK_US;
    w->calm_us = INT64_MAX;
    w->processes_len = o->gateways + o->prefills + o->decodes;
    w->routes_len = w->processes_len < SIM_ROUTES_LEAST ? SIM_ROUTES_LEAST : w->processes_len;
    w->processes = calloc(w->processes_len, sizeof *w->processes);
    w->flights = calloc((size_t)w->processes_len * w->processes_len, sizeof *w->flights);
    w->ends = calloc((size_t)o->gateways * w->processes_len, sizeof *w->ends);
    w->shares = calloc(o->gateways, sizeof *w->shares);
    bt_err e = w->processes && w->flights && w->ends && w->shares &&
                       bt_order_init(&w->wakes, w->processes_len, 1) == BT_OK &&
                       bt_order_init(&w->selves, w->processes_len, 1) == BT_OK
                   ? sim_net_new(&w->net, o->seed, w->processes_len, &o->faults)
                   : BT_ENOMEM;
    if (e == BT_OK && o->trace) sim_net_set_watch(w->net, on_fault, w);
    for (uint32_t i = 0; e == BT_OK && i < w->processes_len; i++) {
        w->processes[i].role = i < o->gateways                 ? BT_ROLE_GATEWAY
                               : i < o->gateways + o->prefills ? BT_ROLE_PREFILL
                                                               : BT_ROLE_DECODE;
        e = make_runs(w, &w->processes[i]);
        if (e == BT_OK) e = start_process(w, &w->processes[i], i);
    }
    if (e < 0) {
        sim_world_free(w);
        return e;
    }
    sim_net_stream(w->net, w->processes_len);
    *ret = w;
    return BT_OK;
}

void sim_world_free(sim_world *w)
{
    if (!w) return;
    for (uint32_t i = 0; w->processes && i < w->processes_len; i++) {
        sim_process *p = &w->processes[i];
        kill_process(w, p);
        for (uint32_t k = 0; p->runs && k < w->o.slots; k++) {
            free(p->runs[k].ids);
            free(p->runs[k].hashes);
        }
        free(p->runs);
        free(p->routes);
    }
    bt_order_done(&w->wakes);
    bt_order_done(&w->selves);
    for (uint64_t i = 0; i < w->clients_len; i++) {
        free(w->clients[i].ids);
        for (int k = 0; k < SIM_TOY_RULES; k++) free(w->clients[i].answers[k].ids);
        free(w->clients[i].aborted);
        free(w->clients[i].aborted_us);
        free(w->clients[i].told);
        free(w->clients[i].told_life);
        free(w->clients[i].turns);
    }
    sim_net_free(w->net);
    bt_msg_buf_done(&w->buf);
    free(w->processes);
    free(w->flights);
    free(w->ends);
    free(w->shares);
    free(w->wholes);
    free(w->clients);
    free(w->frame);
    free(w);
}

void sim_world_kill(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    if (!p->is_alive) return;
    sim_trace(w, "=== %u is killed", number_of(w, role, index));
    w->faults++;
    sim_check_breaking(w);
    kill_process(w, p);
    if (role == BT_ROLE_GATEWAY) sim_clients_orphan(w, index);
}

void sim_world_start(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    if (p->is_alive) return;
    sim_trace(w, "=== %u is started", number_of(w, role, index));
    if (start_process(w, p, number_of(w, role, index)) < 0) sim_broken(w, "out of memory");
    sim_net_stream(w->net, w->processes_len);
}

void sim_world_stop(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    if (!p->is_alive || p->is_stopped) return;
    sim_trace(w, "=== %u is stopped", number_of(w, role, index));
    w->faults++;
    sim_check_breaking(w);
    p->is_stopped = true;
    p->well_us = INT64_MAX;
}

/* Packets that waited come now, in their order; a timer that is over is looked at first or after some of it,
 * as it falls. */
void sim_world_continue(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    if (!p->is_stopped) return;
    sim_trace(w, "=== %u goes on; %u packets waited", number_of(w, role, index), p->inbox_len);
    p->is_stopped = false;
    if (!p->is_draining) p->well_us = w->now_us;
    p->runs_us = w->now_us;
    sim_wake_at(w, p, w->now_us);
    while (p->inbox) {
        sim_item *it = p->inbox;
        p->inbox = it->next;
        sim_net_again(w->net, it, w->now_us);
    }
    empty_inbox(w, p);
}

void sim_world_drain(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    const uint32_t i = number_of(w, role, index);
    if (!p->is_alive || p->is_stopped) return;
    sim_trace(w, "=== %u is asked to leave", i);
    w->faults++;
    sim_check_breaking(w);
    p->is_draining = true;
    p->promised = 0; /* it leaves for good */
    p->well_us = INT64_MAX;
    sim_net_stream(w->net, i);
    if (role == BT_ROLE_GATEWAY) sim_gateway_step(w, i, &(gw_event){.type = GW_EV_DRAIN});
    else if (p->pf) sim_prefill_step(w, i, &(pf_event){.type = PF_EV_DRAIN});
    else sim_decode_step(w, i, &(dc_event){.type = DC_EV_DRAIN});
    sim_after(w, i);
}

void sim_world_drain_over(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    const uint32_t i = number_of(w, role, index);
    if (role == BT_ROLE_GATEWAY || !p->is_alive || p->is_stopped || !p->is_draining) return;
    sim_trace(w, "=== %u leaves, whatever is here", i);
    p->is_over = true;
    sim_net_stream(w->net, i);
    if (p->pf) sim_prefill_step(w, i, &(pf_event){.type = PF_EV_DRAIN_OVER});
    else sim_decode_step(w, i, &(dc_event){.type = DC_EV_DRAIN_OVER});
    sim_after(w, i);
}

void sim_world_role(sim_world *w, uint32_t gateway, bt_role role, uint32_t index, bt_role as)
{
    const uint32_t node = number_of(w, role, index);
    const sim_process *g = &w->processes[gateway];
    gw_event ev = {.type = GW_EV_ROLE, .u.role = {.role = as, .token = 1}};
    if (!g->is_alive || g->is_stopped) return;
    sim_trace(w, "=== %u asks %u to serve as role %d", gateway, node, (int)as);
    w->faults++;
    (void)snprintf(ev.u.role.node_id, sizeof ev.u.role.node_id, "node-%u", sim_name_of(w, node));
    sim_net_stream(w->net, gateway);
    sim_gateway_step(w, gateway, &ev);
    sim_after(w, gateway);
}

bt_role sim_world_role_of(const sim_world *w, bt_role role, uint32_t index)
{
    return process_of(w, role, index)->role;
}

void sim_world_set_role(sim_world *w, bt_role role, uint32_t index, bt_role as)
{
    sim_process *p = process_of(w, role, index);
    if (p->role == as) return;
    sim_world_kill(w, role, index);
    p->role = as;
}

bool sim_world_is_alive(const sim_world *w, bt_role role, uint32_t index)
{
    return process_of(w, role, index)->is_alive;
}

bool sim_world_is_leaving(const sim_world *w, bt_role role, uint32_t index)
{
    const sim_process *p = process_of(w, role, index);
    return p->is_alive && p->is_draining;
}

void sim_world_cut(sim_world *w, uint32_t from, uint32_t to, int64_t for_us, bool holds)
{
    sim_trace(w, "=== %u -> %u is cut for %.3f s%s", from, to, (double)for_us / 1e6,
              holds ? ", packets wait" : "");
    w->faults++;
    sim_check_breaking(w);
    sim_net_cut(w->net, from, to, w->now_us + for_us, holds);
}

void sim_world_end_link(sim_world *w, uint32_t gateway, uint32_t node)
{
    const sim_process *g = &w->processes[gateway], *n = &w->processes[node];
    sim_item cut = {.kind = SIM_CUT, .from = node,         .to = gateway,
                    .life = g->life, .from_life = n->life, .at_us = w->now_us + w->o.faults.delay_max_us},
             up = {.kind = SIM_UP, .to = node, .slot = gateway, .life = n->life, .at_us = w->now_us};
    const int64_t there = sim_net_cut_until_us(w->net, node, gateway),
                  back = sim_net_cut_until_us(w->net, gateway, node);
    memcpy(cut.socket, n->self.bytes, sizeof cut.socket);
    if (there > up.at_us) up.at_us = there;
    if (back > up.at_us) up.at_us = back;
    up.at_us += REDIAL_US + w->o.faults.delay_max_us;
    sim_trace(w, "=== the connection of %u and %u ends", node, gateway);
    w->faults++;
    if (g->is_alive) (void)sim_net_post(w->net, &cut);
    if (n->is_alive) (void)sim_net_post(w->net, &up);
}

/* ---- time --------------------------------------------------------------------------------------- */

static void wake(sim_world *w, uint32_t i)
{
    sim_process *p = &w->processes[i];
    if (p->role == BT_ROLE_GATEWAY) sim_gateway_step(w, i, &(gw_event){.type = GW_EV_TICK});
    else if (p->role == BT_ROLE_PREFILL) sim_prefill_step(w, i, &(pf_event){.type = PF_EV_TICK});
    else sim_decode_step(w, i, &(dc_event){.type = DC_EV_TICK});
    if (p->is_alive && p->due_us <= w->now_us) {
        sim_broken(w, "process %u is due at once again after a TICK", i);
        p->due_us = w->now_us + MISSED_US;
    }
}

static void trace_packet(sim_world *w, const sim_item *it, const bt_msg *m)
{
    if (it->channel == SIM_BLOCK) {
        bt_kv_header h;
        if (w->o.is_bare) sim_bare_get_header(&h, it->bytes);
        if (w->o.is_bare || bt_kv_header_decode(&h, it->bytes, BT_KV_HEADER_BYTES, NULL) == BT_OK)
            sim_trace(w, "%u -> %u BLOCK %llu.%u layer %u tokens %u+%u", it->from, it->to,
                      (unsigned long long)h.number, h.attempt, h.layer, h.token_begin, h.token_count);
    } else if (m->type == BT_MSG_TOKENS) {
        sim_trace(w, "%u -> %u TOKENS %llu.%u from %u, %u ids", it->from, it->to,
                  (unsigned long long)m->ref.number, m->ref.attempt, m->u.tokens.first_index,
                  m->u.tokens.ids_len);
    } else {
        sim_trace(w, "%u -> %u %s %llu.%u", it->from, it->to, bt_msg_type_name(m->type),
                  (unsigned long long)m->ref.number, m->ref.attempt);
    }
}

/* A message of a dead process comes after the end of its connection: its node seems to be there, until the
 * next heartbeat to it cannot go either. */
static void cut_again(sim_world *w, const sim_item *packet, const bt_incarnation *node)
{
    sim_item cut = {
        .kind = SIM_CUT,      .from = packet->from,           .to = packet->to,
        .life = packet->life, .from_life = packet->from_life, .at_us = w->now_us + w->o.gw.heartbeat_us};
    memcpy(cut.socket, node->bytes, sizeof cut.socket);
    (void)sim_net_post(w->net, &cut);
}

/* As in node/link.c: what does not decode is dropped whole, and counted. */
static void take_packet(sim_world *w, const sim_item *it)
{
    bt_msg m; /* of a block nothing */
    bt_fault fault;
    if (w->o.is_bare) {
        if (it->channel != SIM_BLOCK) sim_bare_open(&m, it->bytes);
    } else if (it->channel == SIM_BLOCK) {
        bt_kv_header h;
        const bool is_legal = it->len >= BT_KV_HEADER_BYTES &&
                              bt_kv_header_decode(&h, it->bytes, BT_KV_HEADER_BYTES, &fault) == BT_OK &&
                              h.body_bytes == it->len - BT_KV_HEADER_BYTES;
        if (!is_legal && !it->is_corrupt) sim_broken(w, "a block header does not decode");
        w->undecodable += !is_legal;
        if (!is_legal) return;
    } else if (bt_msg_decode(&m, &w->buf, it->bytes, it->len, &fault) < 0) {
        if (!it->is_corrupt) sim_broken(w, "a message does not decode: %s", fault.text);
        w->undecodable++;
        return;
    } else if (it->is_corrupt) {
        sim_broken(w, "a corrupted %s decodes", bt_msg_type_name(m.type));
        return;
    }
    if (w->o.trace) trace_packet(w, it, &m);
    bt_incarnation dead;
    if (sim_check_came(&dead, w, it)) cut_again(w, it, &dead);
    if (it->channel == SIM_CONTROL && it->to < w->o.gateways) sim_check_heard(w, it, &m);
    const bool is_told = it->channel == SIM_CONTROL && it->to >= w->o.gateways;
    if (is_told) sim_check_comes(w, it->to, &m);
    const bt_role role = w->processes[it->to].role;
    if (role == BT_ROLE_GATEWAY) sim_gateway_step(w, it->to, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
    else if (role == BT_ROLE_PREFILL) sim_prefill_packet(w, it->to, it, &m);
    else sim_decode_packet(w, it->to, it, &m);
    if (is_told) sim_check_told(w, it->to, &m);
}

static void name_cut(sim_world *w, uint32_t gateway, const bt_incarnation *node)
{
    if (!w->processes[gateway].is_alive) return;
    sim_check_named(w, gateway, node);
    sim_gateway_step(w, gateway, &(gw_event){.type = GW_EV_CUT, .u.cut = *node});
}

/* As the real shell: whose connection it was shows when a message cannot go. Now and then it was an older
 * one, of a node that lives and is connected. */
static void take_cut(sim_world *w, const sim_item *it)
{
    const uint64_t dice = bt_rng_u64(w->o.seed, (uint64_t)w->now_us);
    sim_trace(w, "    %u hears that its connection to %u has ended", it->to, it->from);
    memcpy(w->asked.bytes, it->socket, sizeof w->asked.bytes);
    w->was_asked = false;
    sim_gateway_step(w, it->to, &(gw_event){.type = GW_EV_CUT});
    const bt_incarnation node = w->asked;
    sim_check_cut(w, it);
    if (w->was_asked) name_cut(w, it->to, &node);
    if (dice % UNTRUE_OF) return;
    const uint32_t nodes = w->processes_len - w->o.gateways;
    const sim_process *other = &w->processes[w->o.gateways + dice / UNTRUE_OF % nodes];
    if (other->is_alive) name_cut(w, it->to, &other->self);
}

static void take_up(sim_world *w, const sim_item *it)
{
    sim_check_up(w, it);
    if (w->processes[it->to].role == BT_ROLE_PREFILL)
        sim_prefill_step(w, it->to, &(pf_event){.type = PF_EV_GATE_UP, .u.gate = it->slot});
    else sim_decode_step(w, it->to, &(dc_event){.type = DC_EV_GATE_UP, .u.gate = it->slot});
}

/* Unless somebody has started it before. */
static void take_born(sim_world *w, const sim_item *it)
{
    sim_process *p = &w->processes[it->to];
    if (p->is_alive || p->life != it->life || !p->next) return;
    sim_check_breaking(w);
    p->role = p->next;
    sim_trace(w, "=== %u serves as role %d", it->to, (int)p->role);
    if (start_process(w, p, it->to) < 0) sim_broken(w, "out of memory");
}

/* True: the item was kept. */
static bool deliver(sim_world *w, sim_item *it)
{
    sim_process *p = &w->processes[it->to];
    if (it->kind == SIM_BORN) {
        take_born(w, it);
        return false;
    }
    const bool is_void = !p->is_alive || p->life != it->life;
    if (!is_void && p->is_stopped && (it->kind != SIM_PACKET || p->inbox_len < w->o.inbox_max)) {
        it->next = NULL;
        *p->inbox_end = it;
        p->inbox_end = &it->next;
        p->inbox_len += it->kind == SIM_PACKET;
        return true;
    }
    sim_check_gone(w, it);
    if (is_void || p->is_stopped) return false;
    sim_net_stream(w->net, it->to);
    if (it->kind == SIM_PREFILL_WORK) sim_prefill_work(w, it->to, it);
    else if (it->kind == SIM_DECODE_WORK) sim_decode_work(w, it->to);
    else if (it->kind == SIM_CUT) take_cut(w, it);
    else if (it->kind == SIM_UP) take_up(w, it);
    else take_packet(w, it);
    return false;
}

/* UINT32_MAX: nobody runs. */
static uint32_t next_to_wake(sim_world *w)
{
    for (int64_t at; (at = bt_order_first(&w->wakes, 0)) >= 0; bt_order_take(&w->wakes, (uint32_t)at))
        if (w->processes[at].is_alive && !w->processes[at].is_stopped) return (uint32_t)at;
    return UINT32_MAX;
}

/* The next thing that is due by until_us. False: nothing is, and the clock stands at until_us. */
static bool advance(sim_world *w, int64_t until_us)
{
    const int64_t net_us = sim_net_due_us(w->net);
    const uint32_t first = next_to_wake(w);
    const bool wakes = first != UINT32_MAX && w->processes[first].wake_us < net_us;
    const int64_t due = wakes ? w->processes[first].wake_us : net_us;
    uint32_t who = wakes ? first : UINT32_MAX;
    if (due > until_us || w->error[0]) {
        if (!w->error[0]) w->now_us = until_us;
        return false;
    }
    if (due > w->now_us) w->now_us = due;
    sim_item *it = NULL;
    if (who != UINT32_MAX) {
        sim_net_stream(w->net, who);
        wake(w, who);
    } else if ((it = sim_net_take(w->net, until_us))) {
        who = it->to;
        if (!deliver(w, it)) sim_net_done(w->net, it);
    }
    sim_after(w, who);
    if (w->now_us >= w->look_us) {
        w->look_us = w->now_us + LOOK_US;
        if (!w->o.is_bare) sim_check_all(w);
    }
    return true;
}

void sim_world_run(sim_world *w, int64_t for_us)
{
    int64_t until_us = w->now_us + for_us;
    while (advance(w, until_us)) continue;
}

bool sim_world_run_answered(sim_world *w, int64_t for_us)
{
    int64_t until_us = w->now_us + for_us;
    while (w->answered < w->clients_len && advance(w, until_us)) continue;
    return w->answered == w->clients_len;
}

static bool is_idle(const sim_world *w)
{
    for (uint32_t i = 0; i < w->processes_len; i++) {
        const sim_process *p = &w->processes[i];
        if (!p->is_alive) continue;
        if (p->role == BT_ROLE_GATEWAY) {
            const gw_registry *r = gw_brain_registry(p->gw);
            if (gw_brain_queued(p->gw) || gw_brain_active(p->gw)) return false;
            for (uint32_t k = 0; k < r->used; k++)
                if (r->nodes[k].in_use && r->nodes[k].attempts) return false;
            continue;
        }
        bt_load load = p->role == BT_ROLE_PREFILL ? pf_brain_load(p->pf) : dc_brain_load(p->dc);
        if (load.slots_used || load.pages_used || load.leases || load.reservations || load.queued)
            return false;
        if (p->role == BT_ROLE_DECODE && (sim_pages_used(p->pages) || sim_pages_swapped(p->pages)))
            return false;
    }
    return true;
}

bool sim_world_run_idle(sim_world *w, int64_t for_us)
{
    int64_t until_us = w->now_us + for_us;
    while (!is_idle(w) && advance(w, until_us)) continue;
    return is_idle(w);
}

dc_counters sim_world_decode_counters(const sim_world *w)
{
    dc_counters sum = {0};
    for (uint32_t i = 0; i < w->processes_len; i++) {
        if (!w->processes[i].dc) continue;
        const dc_counters *n = dc_brain_counters(w->processes[i].dc);
        sum.local_prefills += n->local_prefills;
        sum.prompt_tokens += n->prompt_tokens;
        sum.prefix_hits += n->prefix_hits;
        sum.prefix_tokens += n->prefix_tokens;
        sum.block_bytes_placed += n->block_bytes_placed;
        sum.preempted += n->preempted;
        sum.swapped_out += n->swapped_out;
        sum.swapped_in += n->swapped_in;
        sum.dropped += n->dropped;
        sum.given_up += n->given_up;
        sum.replayed_tokens += n->replayed_tokens;
    }
    return sum;
}

int64_t sim_world_now_us(const sim_world *w) { return w->now_us; }
void sim_world_set_faults(sim_world *w, const sim_faults *f) { sim_net_set_faults(w->net, f); }
void sim_world_calm(sim_world *w)
{
    w->calm_us = w->now_us;
    for (uint32_t i = 0; i < w->processes_len; i++) set_role_may(w, &w->processes[i]);
}
sim_net *sim_world_net(sim_world *w) { return w->net; }
uint64_t sim_world_draw(sim_world *w) { return sim_net_draw(w->net); }
uint64_t sim_world_steps(const sim_world *w) { return w->steps; }
uint64_t sim_world_faults(const sim_world *w) { return w->faults + sim_net_faults_count(w->net); }
const char *sim_world_error(const sim_world *w) { return w->error[0] ? w->error : NULL; }
