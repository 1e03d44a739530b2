/* The virtual world: clock, processes, and the loop that gives each what is due. See sim_world.h. */
#include "sim/sim_world.h"
#include "sim/sim_node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_TOKENS = 64, START_US = 1000000, MISSED_US = 1000 };

sim_options sim_options_defaults(uint64_t seed)
{
    return (sim_options){.seed = seed,
                         .prefills = 1,
                         .decodes = 1,
                         .slots = 1,
                         .ctx_tokens = 512,
                         .pages_total = 64,
                         .decode_pages = 64,
                         .page_tokens = PAGE_TOKENS,
                         .growth_tokens = 64,
                         .queue_max = 64,
                         .window_bytes = 64 << 10,
                         .faults = {.delay_min_us = 100, .delay_max_us = 2000}};
}

void sim_broken(sim_world *w, const char *fmt, ...)
{
    if (w->error[0]) return;
    int n = snprintf(w->error, sizeof w->error, "seed %llu, %.6f s: ", (unsigned long long)w->o.seed,
                     (double)w->now_us / 1e6);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->error + n, sizeof w->error - (size_t)n, fmt, ap);
    va_end(ap);
}

bt_random sim_random(sim_world *w) { return (bt_random){{sim_net_draw(w->net), sim_net_draw(w->net)}}; }

uint32_t sim_process_by_incarnation(const sim_world *w, const bt_incarnation *who)
{
    for (uint32_t i = 0; i < w->processes_len; i++)
        if (w->processes[i].is_alive && bt_incarnation_equal(&w->processes[i].self, who)) return i;
    return UINT32_MAX;
}

void sim_say(sim_world *w, uint32_t from, uint32_t to, sim_channel channel, const uint8_t socket[16], const bt_msg *m)
{
    size_t max = bt_msg_encoded_max(m), len = 0;
    bt_fault fault;
    if (max > w->frame_cap) {
        uint8_t *frame = realloc(w->frame, max);
        if (!frame) return;
        w->frame = frame;
        w->frame_cap = max;
    }
    if (bt_msg_encode(&len, w->frame, w->frame_cap, m, &fault) < 0) {
        sim_broken(w, "%s cannot be encoded: %s", bt_msg_type_name(m->type), fault.text);
        return;
    }
    sim_item it = {.from = from, .to = to, .channel = channel, .life = w->processes[to].life};
    if (socket) memcpy(it.socket, socket, 16);
    (void)sim_net_send(w->net, w->now_us, &it, w->frame, len);      /* out of memory: as lost */
}

/* ---- processes ---------------------------------------------------------------------------------- */

static sim_process *process_of(const sim_world *w, bt_role role, uint32_t index)
{
    uint32_t i = role == BT_ROLE_GATEWAY ? 0 : role == BT_ROLE_PREFILL ? 1 + index : 1 + w->o.prefills + index;
    return &w->processes[i];
}

static void fill_hello(const sim_world *w, bt_msg_hello *h, uint32_t number)
{
    memset(h->model_id, 7, sizeof h->model_id);
    snprintf(h->node_id, sizeof h->node_id, "node-%u", number);
    snprintf(h->model_name, sizeof h->model_name, "toy");
    snprintf(h->exactness, sizeof h->exactness, "toy/f16/1");
    snprintf(h->kv_endpoint, sizeof h->kv_endpoint, "sim:%u", number);
    h->protocol = BT_PROTOCOL_VERSION;
    h->kv = sim_toy_shape();
    h->ctx_tokens = w->o.ctx_tokens;
    h->kv_capacity_tokens = (uint64_t)w->o.pages_total * PAGE_TOKENS;
    h->pid = number;
}

static bt_err make_brain(sim_world *w, sim_process *p, uint32_t number)
{
    if (p->role == BT_ROLE_GATEWAY) {
        gw_config c = gw_config_defaults();
        c.self = p->self;
        c.queue_max = w->o.queue_max;
        c.nodes_max = w->processes_len + 2;
        c.local_below_tokens = w->o.local_below_tokens;
        memset(c.model_id, 7, sizeof c.model_id);
        snprintf(c.node_id, sizeof c.node_id, "gateway");
        return gw_brain_new(&p->gw, &c, NULL);
    }
    if (p->role == BT_ROLE_PREFILL) {
        pf_config c = pf_config_defaults();
        c.self = p->self;
        c.slots = w->o.slots;
        c.pages_total = w->o.pages_total;
        fill_hello(w, &c.hello, number);
        c.hello.role = BT_ROLE_PREFILL;
        c.hello.kv_endpoint[0] = 0;
        return pf_brain_new(&p->pf, &c, NULL);
    }
    dc_config c = dc_config_defaults();
    c.self = p->self;
    c.slots = w->o.slots;
    c.pages_total = w->o.decode_pages;
    c.page_tokens = w->o.page_tokens;
    c.growth_tokens = w->o.growth_tokens;
    c.swap_pages = w->o.swap_pages;
    c.can_prefill = w->o.can_prefill;
    c.window_bytes = w->o.window_bytes;
    fill_hello(w, &c.hello, number);
    c.hello.role = BT_ROLE_DECODE;
    c.hello.kv_capacity_tokens = (uint64_t)w->o.decode_pages * w->o.page_tokens;
    if (w->o.can_prefill) snprintf(c.hello.prefill_exactness, sizeof c.hello.prefill_exactness, "%s", c.hello.exactness);
    return dc_brain_new(&p->dc, &c, NULL);
}

static void kill_process(sim_process *p)
{
    gw_brain_free(p->gw);
    pf_brain_free(p->pf);
    dc_brain_free(p->dc);
    sim_pages_free(p->pages);
    dc_batch_free(p->batch);
    p->pages = NULL;
    p->batch = NULL;
    p->gw = NULL;
    p->pf = NULL;
    p->dc = NULL;
    p->is_alive = false;
}

static bt_err start_process(sim_world *w, sim_process *p, uint32_t number)
{
    kill_process(p);
    p->life = ++w->lives;
    p->due_us = w->now_us;
    memset(p->routes, 0, sizeof p->routes);
    for (int i = 0; i < 16; i++) p->self.bytes[i] = (uint8_t)(1 + sim_net_draw(w->net) % 255);
    for (uint32_t i = 0; p->runs && i < w->o.slots; i++) p->runs[i].is_busy = false;
    p->is_stepping = false;
    bt_err e = make_brain(w, p, number);
    if (e == BT_OK && p->role == BT_ROLE_DECODE) e = sim_worker_new(&p->batch, w->o.slots, w->o.page_tokens);
    if (e == BT_OK && p->role == BT_ROLE_DECODE)
        e = sim_pages_new(&p->pages, w->o.slots, w->o.decode_pages, w->o.page_tokens, w->o.ctx_tokens);
    p->is_alive = e == BT_OK;
    return e;
}

static bt_err make_runs(sim_world *w, sim_process *p)
{
    p->runs = calloc(w->o.slots, sizeof *p->runs);
    if (!p->runs) return BT_ENOMEM;
    for (uint32_t i = 0; i < w->o.slots; i++) {
        sim_run *r = &p->runs[i];
        r->ids = calloc(w->o.ctx_tokens, sizeof *r->ids);
        r->hashes = calloc(w->o.ctx_tokens, sizeof *r->hashes);
        if (!r->ids || !r->hashes) return BT_ENOMEM;
    }
    return BT_OK;
}

bt_err sim_world_new(sim_world **ret, const sim_options *o)
{
    sim_world *w = calloc(1, sizeof *w);
    if (!w) return BT_ENOMEM;
    w->o = *o;
    w->now_us = START_US;
    w->processes_len = 1 + o->prefills + o->decodes;
    w->processes = calloc(w->processes_len, sizeof *w->processes);
    bt_err e = w->processes ? sim_net_new(&w->net, o->seed, w->processes_len, &o->faults) : BT_ENOMEM;
    for (uint32_t i = 0; e == BT_OK && i < w->processes_len; i++) {
        w->processes[i].role = i == 0 ? BT_ROLE_GATEWAY : i <= o->prefills ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
        e = make_runs(w, &w->processes[i]);
        if (e == BT_OK) e = start_process(w, &w->processes[i], i);
    }
    if (e < 0) {
        sim_world_free(w);
        return e;
    }
    *ret = w;
    return BT_OK;
}

void sim_world_free(sim_world *w)
{
    if (!w) return;
    for (uint32_t i = 0; w->processes && i < w->processes_len; i++) {
        sim_process *p = &w->processes[i];
        kill_process(p);
        for (uint32_t k = 0; p->runs && k < w->o.slots; k++) {
            free(p->runs[k].ids);
            free(p->runs[k].hashes);
        }
        free(p->runs);
    }
    for (uint64_t i = 0; i < w->clients_len; i++) {
        free(w->clients[i].ids);
        free(w->clients[i].expected);
    }
    sim_net_free(w->net);
    bt_msg_buf_done(&w->buf);
    free(w->processes);
    free(w->clients);
    free(w->frame);
    free(w);
}

void sim_world_kill(sim_world *w, bt_role role, uint32_t index) { kill_process(process_of(w, role, index)); }

void sim_world_start(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    if (p->is_alive) return;
    if (start_process(w, p, (uint32_t)(p - w->processes)) < 0) sim_broken(w, "out of memory");
}

bool sim_world_is_alive(const sim_world *w, bt_role role, uint32_t index)
{
    return process_of(w, role, index)->is_alive;
}

/* ---- time --------------------------------------------------------------------------------------- */

static void wake(sim_world *w, uint32_t i)
{
    sim_process *p = &w->processes[i];
    if (p->role == BT_ROLE_GATEWAY) sim_gateway_step(w, &(gw_event){.type = GW_EV_TICK});
    else if (p->role == BT_ROLE_PREFILL) sim_prefill_step(w, i, &(pf_event){.type = PF_EV_TICK});
    else sim_decode_step(w, i, &(dc_event){.type = DC_EV_TICK});
    if (p->is_alive && p->due_us <= w->now_us) {
        sim_broken(w, "process %u is due at once again after a TICK", i);
        p->due_us = w->now_us + MISSED_US;
    }
}

void sim_world_drain(sim_world *w, bt_role role, uint32_t index)
{
    sim_process *p = process_of(w, role, index);
    uint32_t i = (uint32_t)(p - w->processes);
    if (!p->is_alive) return;
    if (role == BT_ROLE_GATEWAY) sim_gateway_step(w, &(gw_event){.type = GW_EV_DRAIN});
    else if (role == BT_ROLE_PREFILL) sim_prefill_step(w, i, &(pf_event){.type = PF_EV_DRAIN});
    else sim_decode_step(w, i, &(dc_event){.type = DC_EV_DRAIN});
}

static void deliver(sim_world *w, const sim_item *it)
{
    sim_process *p = &w->processes[it->to];
    if (!p->is_alive || p->life != it->life) return;
    if (it->kind == SIM_PREFILL_WORK) { sim_prefill_work(w, it->to, it); return; }
    if (it->kind == SIM_DECODE_WORK) { sim_worker_turn(w, it->to); return; }
    bt_msg m = {0};
    bt_fault fault;
    if (it->channel != SIM_BLOCK && bt_msg_decode(&m, &w->buf, it->bytes, it->len, &fault) < 0) {
        sim_broken(w, "a message does not decode: %s", fault.text);
        return;
    }
    if (p->role == BT_ROLE_GATEWAY) sim_gateway_step(w, &(gw_event){.type = GW_EV_MSG, .u.msg = &m});
    else if (p->role == BT_ROLE_PREFILL) sim_prefill_packet(w, it->to, it, &m);
    else sim_decode_packet(w, it->to, it, &m);
}

/* The next thing that is due by until_us. False: nothing is, and the clock stands at until_us. */
static bool advance(sim_world *w, int64_t until_us)
{
    int64_t due = sim_net_due_us(w->net);
    uint32_t who = UINT32_MAX;
    for (uint32_t i = 0; i < w->processes_len; i++) {
        if (!w->processes[i].is_alive || w->processes[i].due_us >= due) continue;
        due = w->processes[i].due_us;
        who = i;
    }
    if (due > until_us || w->error[0]) {
        w->now_us = until_us;
        return false;
    }
    if (due > w->now_us) w->now_us = due;
    if (who != UINT32_MAX) {
        wake(w, who);
        return true;
    }
    sim_item it;
    if (sim_net_take(w->net, &it, until_us)) {
        deliver(w, &it);
        free(it.bytes);
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
            for (uint32_t k = 0; k < r->cap; k++)
                if (r->nodes[k].in_use && r->nodes[k].attempts) return false;
            continue;
        }
        bt_load load = p->role == BT_ROLE_PREFILL ? pf_brain_load(p->pf) : dc_brain_load(p->dc);
        if (load.slots_used || load.pages_used || load.leases || load.reservations || load.queued) return false;
        if (p->role == BT_ROLE_DECODE && (sim_pages_used(p->pages) || sim_pages_swapped(p->pages))) return false;
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
        sum.prefix_hits += n->prefix_hits;
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
uint64_t sim_world_draw(sim_world *w) { return sim_net_draw(w->net); }
uint64_t sim_world_steps(const sim_world *w) { return w->steps; }
const gw_brain *sim_world_gateway(const sim_world *w) { return w->processes[0].gw; }
const char *sim_world_error(const sim_world *w) { return w->error[0] ? w->error : NULL; }
