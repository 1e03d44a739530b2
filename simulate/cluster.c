/* The world: places, clock, and the loop that gives each place its due events. See cluster.h. */
#include "simulate/cluster.h"
#include "base/rng.h"
#include "simulate/inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START_NS = 1000000000, GREET_NS = 100000000, INBOX_MAX = 1000 };
static const int64_t DRAIN_NS = INT64_C(30000000000); /* the nodes' own --drain-timeout */

sim_cluster_options sim_cluster_defaults(void)
{
    return (sim_cluster_options){.prefill_slots = 4,         .decode_slots = 32,
                                 .batch_rows = 64,           .chunk_tokens = 256,
                                 .gw = gw_config_defaults(), .pf = pf_config_defaults(),
                                 .dc = dc_config_defaults(), .start_ns = -1,
                                 .drain_ns = DRAIN_NS,       .gateways = 1};
}

/* ---- places -------------------------------------------------------------------------------------- */

static void name_members(sim_cluster *c, const sim_cluster_group *groups, size_t n, bt_role role,
                         uint32_t *place)
{
    uint32_t cls = 0;
    for (size_t g = 0; g < n; g++)
        for (uint32_t i = 0; i < groups[g].nodes + groups[g].spare; i++, cls++, (*place)++) {
            sim_member *m = &c->members[*place];
            *m = (sim_member){.role = role, .born = role, .place = *place, .group = &groups[g],
                              .is_on = i < groups[g].nodes};
            m->in.milli = m->out.milli = groups[g].cost->pace.milli;
            (void)snprintf(m->id, sizeof m->id, "%s-%u", role == BT_ROLE_PREFILL ? "prefill" : "decode", cls);
        }
}

static uint32_t nodes_of(const sim_cluster_group *groups, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += groups[i].nodes + groups[i].spare;
    return sum;
}

static bt_err advance(sim_cluster *c, int64_t until_ns);

bt_err sim_cluster_new(sim_cluster **ret, const sim_cluster_options *o, const sim_cluster_client *client,
                       bt_fault *fault)
{
    sim_cluster *c = calloc(1, sizeof *c);
    uint32_t place = 0;
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory for a cluster");
    c->o = *o;
    c->client = *client;
    c->now_ns = START_NS;
    c->hosts = nodes_of(o->prefill, o->prefills) + nodes_of(o->decode, o->decodes);
    c->prefills = nodes_of(o->prefill, o->prefills);
    c->members = calloc(c->hosts, sizeof *c->members);
    c->keeps_for = SIM_GATEWAY;
    bt_err e = c->members && sim_mail_new(&c->mail) == BT_OK
                   ? BT_OK
                   : bt_fail(fault, BT_ENOMEM, "out of memory for a cluster");
    if (e == BT_OK) {
        name_members(c, o->prefill, o->prefills, BT_ROLE_PREFILL, &place);
        name_members(c, o->decode, o->decodes, BT_ROLE_DECODE, &place);
        e = sim_cluster_gateways_new(c, fault);
    }
    for (uint32_t i = 0; e == BT_OK && i < c->hosts; i++)
        if (c->members[i].is_on) e = sim_cluster_begin_member(c, &c->members[i], fault);
    if (e == BT_OK) e = advance(c, START_NS + GREET_NS);
    if (e < 0) {
        if (c->broken < 0 && fault) *fault = c->fault;
        sim_cluster_free(c);
        return e;
    }
    for (uint32_t i = 0; i < c->hosts; i++) c->members[i].since_ns = c->now_ns;
    *ret = c;
    return BT_OK;
}

void sim_cluster_free(sim_cluster *c)
{
    if (!c) return;
    for (uint32_t i = 0; c->members && i < c->hosts; i++) {
        sim_member *m = &c->members[i];
        sim_cluster_end_member(c, m);
        dc_batch_free(m->batch);
        free(m->inbox);
        for (uint32_t k = 0; m->prompts && k < c->o.prefill_slots; k++) sim_line_done(&m->prompts[k].line);
        free(m->prompts);
        free(m->last_ns);
        free(m->sequences);
        free(m->commands);
        free(m->items);
        free(m->capacity_pages);
        free(m->leap_ns);
    }
    for (size_t i = 0; i < c->calendar.len; i++) sim_cluster_drop_event(c, &c->calendar.heap[i]);
    sim_cluster_gateways_free(c);
    sim_calendar_done(&c->calendar);
    sim_mail_free(c->mail);
    bt_msg_buf_done(&c->buf);
    free(c->frame);
    free(c->kept);
    free(c->left);
    free(c->over);
    free(c->begun);
    free(c->members);
    free(c);
}

/* ---- time ---------------------------------------------------------------------------------------- */

static void wake_gateway(sim_cluster *c, sim_gate *g, int64_t at_us)
{
    if (at_us != g->wake_us) return;
    g->wake_us = INT64_MAX;
    if (g->due_us <= sim_us(c->now_ns)) sim_cluster_gateway_step(c, g, &(gw_event){.type = GW_EV_TICK});
    else sim_cluster_timer(c, g->place);
}

static void wake(sim_cluster *c, sim_member *m, int64_t at_us)
{
    if (at_us != m->wake_us) return; /* an earlier one took its place */
    m->wake_us = INT64_MAX;
    if (m->due_us > sim_us(c->now_ns)) sim_cluster_timer(c, m->place);
    else if (m->pf) sim_cluster_prefill_step(c, m, &(pf_event){.type = PF_EV_TICK});
    else sim_cluster_decode_step(c, m, &(dc_event){.type = DC_EV_TICK});
}

/* The one of the node's control links that a message of a gateway came through. */
static uint32_t gate_of(const sim_cluster *c, const sim_member *m, const sim_event *e)
{
    return SIM_GATEWAY - e->from - sim_first_gate(c, m);
}

/* Whether a message may end an attempt, whose tokens up to now the gateway's brain then gets first. */
static bool may_end(const bt_msg *msg)
{
    return msg->type == BT_MSG_ABORT || (msg->type == BT_MSG_RESERVE && msg->ref.attempt > 1);
}

static void take_msg(sim_cluster *c, sim_member *m, const sim_event *e)
{
    const bt_msg *msg = e->u.msg;
    if (msg->type == BT_MSG_ROLE) sim_cluster_wake(c, m);
    if (m->dc && msg->type == BT_MSG_ABORT) sim_cluster_leap_left(c, m, msg->ref.number);
    if (m->leapt && may_end(msg)) sim_cluster_leap_end(c, m);
    if (m->pf) {
        pf_event ev = {.type = e->is_bulk ? PF_EV_BULK : PF_EV_CONTROL};
        if (e->is_bulk) ev.u.bulk.decode = msg->from;
        if (e->is_bulk) ev.u.bulk.msg = msg;
        else ev.u.control.msg = msg;
        if (!e->is_bulk) ev.u.control.gateway = gate_of(c, m, e);
        sim_cluster_prefill_step(c, m, &ev);
    } else {
        dc_event ev = {.type = e->is_bulk ? DC_EV_BULK : DC_EV_CONTROL};
        if (e->is_bulk) ev.u.bulk = msg;
        else ev.u.control.msg = msg;
        if (!e->is_bulk) ev.u.control.gateway = gate_of(c, m, e);
        sim_cluster_decode_step(c, m, &ev);
    }
}

static void set_deadline(sim_cluster *c, const sim_gate *g, uint64_t number)
{
    void *all = c->over;
    if (!sim_cluster_make_room(&all, &c->over_cap, number, sizeof *c->over)) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory");
        return;
    }
    c->over = all;
    c->over[number] = false;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_DEADLINE, .to = g->place, .run = number,
                                     .at_ns = c->now_ns + c->o.timeout_ns});
}

/* The brain gets the request's tokens that were made by now before its end. */
static void end_late(sim_cluster *c, sim_gate *g, uint64_t number)
{
    if (c->over[number]) return;
    const bt_incarnation *by = gw_brain_decodes(g->brain, number);
    const uint32_t place = by ? sim_cluster_place(c, by) : UINT32_MAX;
    if (place != UINT32_MAX && c->members[place].dc)
        sim_cluster_leap_settle_of(c, &c->members[place], number);
    sim_cluster_gateway_step(c, g, &(gw_event){.type = GW_EV_CANCEL, .u.request = number});
    c->over[number] = true; /* also where the gateway has yet to take the request: then it ends it at once */
}

static void take_request(sim_cluster *c, sim_gate *g, uint64_t number)
{
    const bool is_late = c->over && c->over[number];
    gw_submit s = {0};
    c->client.fill(c->client.ud, number, &s);
    s.request = number;
    sim_cluster_gateway_step(c, g, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
    if (is_late) sim_cluster_gateway_step(c, g, &(gw_event){.type = GW_EV_CANCEL, .u.request = number});
}

static void for_gateway(sim_cluster *c, const sim_event *e)
{
    sim_gate *g = sim_gate_at(c, e->to);
    if (e->what == SIM_WHEN_MSG) {
        if (sim_mail_times(e->u.msg)) sim_cluster_late_came(&c->members[e->from], e->u.msg);
        sim_cluster_gateway_step(c, g, &(gw_event){.type = GW_EV_MSG, .u.msg = e->u.msg});
        if (e->u.msg->type == BT_MSG_HEARTBEAT) sim_cluster_rest(c, e->from);
        sim_mail_drop(c->mail, e->u.msg);
    } else if (e->what == SIM_WHEN_WAKE) {
        wake_gateway(c, g, (int64_t)e->run);
    } else if (e->what == SIM_WHEN_DEADLINE) {
        end_late(c, g, e->run);
    } else if (e->what == SIM_WHEN_CUT) {
        const bt_incarnation dead = sim_cluster_incarnation(c, e->from, e->run);
        sim_cluster_gateway_step(c, g, &(gw_event){.type = GW_EV_CUT, .u.cut = dead});
    } else {
        take_request(c, g, e->run);
    }
}

/* Events for a stopped process wait; those beyond what its sockets hold are lost. */
static void keep(sim_cluster *c, sim_member *m, const sim_event *e)
{
    const bool is_packet = e->what == SIM_WHEN_MSG || e->what == SIM_WHEN_BLOCK;
    if (m->inbox_len == m->inbox_cap) {
        const size_t cap = m->inbox_cap ? m->inbox_cap * 2 : 64;
        sim_event *all = realloc(m->inbox, cap * sizeof *all);
        if (!all) {
            sim_cluster_drop_event(c, e);
            sim_cluster_break(c, BT_ENOMEM, "out of memory");
            return;
        }
        m->inbox = all;
        m->inbox_cap = cap;
    }
    if (is_packet && m->inbox_len >= INBOX_MAX) sim_cluster_drop_event(c, e);
    else m->inbox[m->inbox_len++] = *e;
}

static void for_member(sim_cluster *c, const sim_event *e)
{
    sim_member *m = &c->members[e->to];
    if (e->what == SIM_WHEN_START) {
        if (m->is_loading && m->life == e->life) sim_cluster_loaded(c, m);
        return;
    }
    if (!m->is_alive || m->life != e->life || (m->has_left && e->what != SIM_WHEN_LEFT)) {
        sim_cluster_drop_event(c, e);
        return;
    }
    if (m->is_stopped) {
        keep(c, m, e);
        return;
    }
    switch (e->what) {
    case SIM_WHEN_MSG: take_msg(c, m, e); break;
    case SIM_WHEN_BLOCK:
        if (m->dc) sim_cluster_decode_step(c, m, &(dc_event){.type = DC_EV_BLOCK, .u.block = *e->u.block});
        break;
    case SIM_WHEN_CHUNK: sim_cluster_prefill_chunk(c, m, e); break;
    case SIM_WHEN_LAYER: sim_cluster_prefill_layer(c, m, e); break;
    case SIM_WHEN_SENT:
        if (m->pf)
            sim_cluster_prefill_step(c, m, &(pf_event){.type = PF_EV_BLOCK_SENT, .u.block = *e->u.sent});
        break;
    case SIM_WHEN_ALIVE:
        if (m->pf) sim_cluster_prefill_alive(c, m, e);
        else sim_cluster_decode_alive(c, m, e);
        break;
    case SIM_WHEN_STOPPED: sim_cluster_prefill_stopped(c, m, e); break;
    case SIM_WHEN_STEP: sim_cluster_decode_done(c, m); break;
    case SIM_WHEN_WAKE: wake(c, m, (int64_t)e->run); break;
    case SIM_WHEN_DRAIN: sim_cluster_signal(c, m, false); break;
    case SIM_WHEN_DRAIN_OVER: sim_cluster_signal(c, m, true); break;
    case SIM_WHEN_LEFT: sim_cluster_left(c, m); break;
    case SIM_WHEN_START:
    case SIM_WHEN_CUT:
    case SIM_WHEN_DEADLINE:
    case SIM_WHEN_CALLER: break;
    }
    sim_cluster_drop_event(c, e);
}

/* Brings what the next events read into the caches while this one is done: with a thousand nodes each finds
 * its node outside of them. The head's branches are nearly those that follow it: their nodes are fetched
 * first, then what hangs on them, at last the sequences of the very next. Changes nothing. */
static void look_ahead(const sim_cluster *c)
{
    enum { LINE = 64, HOT_BYTES = 320, SOON = 5 };
    const sim_event *head = c->calendar.heap;
    const size_t len = c->calendar.len < SOON ? c->calendar.len : SOON;
    for (size_t i = 1; i < len; i++) {
        if (head[i].to >= c->hosts) continue;
        const char *m = (const char *)&c->members[head[i].to];
        for (size_t at = 0; at < HOT_BYTES; at += LINE) __builtin_prefetch(m + at);
    }
    for (size_t i = 0; i < len; i++) {
        if (head[i].what != SIM_WHEN_STEP) continue;
        const sim_member *m = &c->members[head[i].to];
        __builtin_prefetch(m->items);
        dc_batch_look_ahead(m->batch);
        for (size_t k = 0; i == 0 && k < m->items_len; k++)
            __builtin_prefetch(&m->sequences[m->items[k].slot], 1);
    }
}

/* Tokens of attempts that gateways left in this event come one by one, before the nodes get the ABORT. */
static void settle_left(sim_cluster *c)
{
    for (size_t i = 0; i < c->left_len; i++)
        sim_cluster_leap_left(c, &c->members[c->left[i].place], c->left[i].number);
    c->left_len = 0;
}

/* Runs everything that is due by until_ns, as long as a request is open. */
static bt_err advance(sim_cluster *c, int64_t until_ns)
{
    sim_event e;
    while (c->broken == BT_OK && sim_calendar_take(&e, &c->calendar, until_ns)) {
        if (e.at_ns > c->now_ns) c->now_ns = e.at_ns;
        look_ahead(c);
        if (e.what == SIM_WHEN_CALLER && e.slot) {
            c->callers--;
            c->client.due(c->client.ud, e.run, c->now_ns);
        } else if (sim_is_gateway(c, e.to)) {
            for_gateway(c, &e);
        } else {
            for_member(c, &e);
        }
        settle_left(c);
        sim_cluster_wake_late(c);
        if (c->submitted && c->submitted == c->ended && !c->callers) break;
    }
    return c->broken;
}

bt_err sim_cluster_run(sim_cluster *c, int64_t until_ns, bt_fault *fault)
{
    const bt_err e = advance(c, until_ns);
    if (e < 0 && fault) *fault = c->fault;
    return e;
}

uint64_t sim_cluster_submit(sim_cluster *c) { return sim_cluster_submit_to(c, 0); }

uint64_t sim_cluster_submit_to(sim_cluster *c, uint32_t gateway)
{
    sim_gate *g = &c->gates[gateway];
    const uint64_t number = ++c->submitted;
    void *begun = c->begun;
    if (!sim_cluster_make_room(&begun, &c->begun_cap, number, sizeof *c->begun)) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory");
        return number;
    }
    c->begun = begun;
    c->begun[number] = 0;
    const int64_t at_ns = sim_cluster_gateway_takes(g, c->now_ns, c->o.request_ns);
    g->requests++;
    if (c->o.timeout_ns) set_deadline(c, g, number);
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_CALLER, .to = g->place, .at_ns = at_ns, .run = number});
    return number;
}

/* `slot` distinguishes this event from a submission. */
void sim_cluster_at(sim_cluster *c, int64_t at_ns, uint64_t number)
{
    c->callers++;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_CALLER, .to = SIM_GATEWAY, .slot = 1, .run = number,
                                     .at_ns = at_ns > c->now_ns ? at_ns : c->now_ns});
}

/* ---- faults -------------------------------------------------------------------------------------- */

void sim_cluster_kill(sim_cluster *c, bt_role role, uint32_t node)
{
    sim_member *m = sim_cluster_member(c, role, node);
    if (m && m->is_loading) m->is_loading = false;
    if (!m || !m->is_alive) return;
    if (m->dc && !m->is_stopped) sim_cluster_leap_settle(c, m);
    for (uint32_t i = 0; i < c->o.gateways; i++)
        sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_CUT, .to = sim_gates_of(c, m)[i].place,
                                         .from = m->place, .run = m->life,
                                         .at_ns = c->now_ns + (int64_t)c->o.link.latency_ns});
    sim_cluster_end_member(c, m);
}

void sim_cluster_start(sim_cluster *c, bt_role role, uint32_t node)
{
    sim_member *m = sim_cluster_member(c, role, node);
    bt_fault fault = {""};
    if (!m || m->is_alive || m->is_loading || !m->is_on) return;
    const bt_err e = sim_cluster_begin_member(c, m, &fault);
    if (e < 0) sim_cluster_break(c, e, "%s", fault.text);
}

void sim_cluster_stop(sim_cluster *c, bt_role role, uint32_t node)
{
    sim_member *m = sim_cluster_member(c, role, node);
    if (!m || !m->is_alive || m->is_stopped) return;
    if (m->dc) sim_cluster_leap_settle(c, m);
    sim_cluster_wake(c, m);
    m->is_stopped = true;
}

void sim_cluster_continue(sim_cluster *c, bt_role role, uint32_t node)
{
    sim_member *m = sim_cluster_member(c, role, node);
    if (!m || !m->is_alive || !m->is_stopped) return;
    m->is_stopped = false;
    for (size_t i = 0; i < m->inbox_len; i++) {
        m->inbox[i].at_ns = c->now_ns;
        sim_cluster_post(c, &m->inbox[i]);
    }
    m->inbox_len = 0;
    wake(c, m, m->wake_us); /* what is due by its clock comes first, whenever that was */
}

void sim_cluster_slow(sim_cluster *c, uint32_t host, uint32_t times)
{
    if (host >= c->hosts) return;
    sim_cluster_wake(c, &c->members[host]);
    c->members[host].in.slow = c->members[host].out.slow = times;
}

/* ---- to look at ---------------------------------------------------------------------------------- */

int64_t sim_cluster_now_ns(const sim_cluster *c) { return c->now_ns; }
uint32_t sim_cluster_nodes(const sim_cluster *c) { return c->hosts; }
uint64_t sim_cluster_events(const sim_cluster *c) { return c->events; }
uint64_t sim_cluster_choices(const sim_cluster *c) { return c->choices; }
uint64_t sim_cluster_digest(const sim_cluster *c) { return c->digest; }

sim_cluster_node sim_cluster_look(const sim_cluster *c, uint32_t host)
{
    return sim_cluster_look_at(c, host, c->now_ns);
}

sim_cluster_node sim_cluster_look_at(const sim_cluster *c, uint32_t host, int64_t at_ns)
{
    const sim_member *m = &c->members[host];
    const sim_cost_work undone = sim_cluster_undone(c, m, at_ns);
    sim_cluster_node n = {.role = m->role,
                          .born = m->born,
                          .number = m->born == BT_ROLE_PREFILL ? host : host - c->prefills,
                          .id = m->id,
                          .device = m->group->device,
                          .model = m->group->model,
                          .cost = m->group->cost,
                          .done = {m->done[0], m->done[1]},
                          .runs = m->runs,
                          .valid_rows = m->valid_rows,
                          .rows = m->rows,
                          .again_rows = m->again_rows,
                          .sent_bytes = m->sent_bytes,
                          .preempted = sim_cluster_preempted_of(m)};
    sim_cluster_take_off(&n.done[m->role == BT_ROLE_DECODE], &undone);
    if (m->pf) n.load = pf_brain_load(m->pf);
    if (m->dc) n.load = dc_brain_load(m->dc);
    return n;
}
