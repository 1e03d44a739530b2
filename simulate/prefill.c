/* A prefill node: its brain, the one prompt or batch that the brain lets run, chunk after chunk, and blocks
 * on the wire. A layer of the brain's has the rows of several layers together, without windows of all, so
 * that a chunk's layers are one block; the wire knows how many there are (sim_wire). */
#include "simulate/inner.h"
#include "kernels/kv_view.h"
#include "kv/kv_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PENDING = 512 };

bt_err sim_cluster_prefill_new(sim_cluster *c, sim_member *m, bt_fault *fault)
{
    pf_config k = c->o.pf;
    k.self = m->self;
    k.gateways = c->o.gateways;
    k.slots = c->o.prefill_slots;
    k.workers = 1;
    k.share_tokens = sim_cost_share_tokens(m->group->cost, c->o.pf.share_tokens);
    if (m->group->cost->pace.milli) k.short_tokens = 0; /* as the daemon */
    k.pages_total = m->group->pages;
    sim_cluster_hello(c, m, &k.hello);
    m->kv = k.hello.kv;
    for (uint32_t i = 0; i < c->o.prefill_slots; i++)
        m->prompts[i] = (sim_prompt){.line = m->prompts[i].line};
    memset(m->last_ns, 0, c->hosts * sizeof *m->last_ns);
    const bt_err e = pf_brain_new(&m->pf, &k, fault);
    if (e == BT_OK) pf_brain_set_role_may(m->pf, BT_ROLE_MAY);
    return e;
}

static void post_chunk(sim_cluster *c, const sim_member *m, uint32_t slot, int64_t at_ns)
{
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_CHUNK, .to = m->place, .slot = slot,
                                     .run = m->prompts[slot].run, .at_ns = at_ns});
}

/* Posts all layers but the last, which is the chunk's end. They are ready at equal distances. */
static void post_layer(sim_cluster *c, const sim_member *m, uint32_t slot, uint32_t layer)
{
    const sim_prompt *p = &m->prompts[slot];
    const int64_t last = m->group->cost->layers - 1;
    if ((int64_t)layer >= last) return;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_LAYER, .to = m->place, .from = layer, .slot = slot,
                                     .run = p->run,
                                     .at_ns = p->layer_ns + (p->layers_ns - p->layer_ns) * layer / last});
}

/* A chunk's layers are one event. Where the chunk takes long, the brain hears in between that the node is at
 * it, as from layers, and as from a paced node within a layer. */
static void post_alive(sim_cluster *c, const sim_member *m, uint32_t slot)
{
    const sim_prompt *p = &m->prompts[slot];
    const sim_cost *cost = m->group->cost;
    const int64_t end_ns = p->begin + p->valid == p->len ? p->end_ns : p->layers_ns,
                  layer_ns = cost->layers > 1 ? (p->layers_ns - p->layer_ns) / (cost->layers - 1) : 0;
    int64_t at_ns = c->now_ns + c->o.pf.alive_us * 1000;
    if (at_ns >= end_ns) return;
    if (!cost->pace.milli && at_ns < p->layer_ns) at_ns = p->layer_ns;
    else if (!cost->pace.milli && layer_ns)
        at_ns = p->layer_ns + (at_ns - p->layer_ns + layer_ns - 1) / layer_ns * layer_ns;
    if (at_ns >= end_ns) return;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_ALIVE, .to = m->place, .slot = slot, .run = p->run,
                                     .at_ns = at_ns});
}

void sim_cluster_prefill_alive(sim_cluster *c, sim_member *m, const sim_event *e)
{
    const sim_prompt *p = &m->prompts[e->slot];
    if (!p->is_busy || p->run != e->run) return;
    sim_cluster_prefill_step(c, m, &(pf_event){.type = PF_EV_ALIVE});
    if (p->is_busy && p->run == e->run) post_alive(c, m, e->slot);
}

/* Under a schedule a chunk ends when its last layer is ready, and the next chunk is well under way by then.
 */
static void set_times(sim_prompt *p, sim_cost_chunk *k)
{
    sim_line *l = &p->line;
    const sim_line_chunk *one = &l->chunk[l->at];
    const bool is_last = l->at + 1 == l->len;
    const uint64_t begin_ns = l->at ? one[-1].last_ns : 0, end_ns = is_last ? l->ns : one->last_ns;
    p->end_ns = p->line_ns + (int64_t)end_ns;
    p->layers_ns = p->line_ns + (int64_t)one->last_ns;
    p->layer_ns = p->line_ns + (int64_t)one->first_ns;
    k->work.ns = end_ns - begin_ns;
    l->at++;
}

static void begin_chunk(sim_cluster *c, sim_member *m, uint32_t slot, bool is_first)
{
    sim_prompt *p = &m->prompts[slot];
    sim_cost_chunk k = sim_cost_next(m->group->cost, p->len, p->begin, is_first);
    p->valid = k.valid;
    p->chunk = p->begin;
    p->begin_ns = c->now_ns;
    p->end_ns = c->now_ns + (int64_t)k.work.ns;
    p->layers_ns = c->now_ns + (int64_t)k.end_ns;
    p->layer_ns = c->now_ns + (int64_t)(k.lead_ns + (k.end_ns - k.lead_ns) / m->group->cost->layers);
    if (m->group->cost->play) set_times(p, &k);
    p->work = k.work;
    sim_cluster_account(m, &k.work);
    sim_cluster_count_rows(c, m, p->number, p->begin, k.valid);
    m->valid_rows += k.valid;
    m->rows += k.rows;
    if (c->o.is_by_layer) post_layer(c, m, slot, 0);
    post_alive(c, m, slot);
    post_chunk(c, m, slot, p->layers_ns);
}

/* The prompts of a[0 .. with] in one chunk, which is all that is left of each. */
static void begin_batch(sim_cluster *c, sim_member *m, const pf_action *a)
{
    uint32_t begin[PF_SHARE_MAX], end[PF_SHARE_MAX];
    const uint32_t n = a->u.compute.with + 1;
    for (uint32_t i = 0; i < n; i++) {
        begin[i] = a[i].u.compute.from_row;
        end[i] = a[i].u.compute.ids_len;
    }
    const sim_cost_chunk k = sim_cost_batch(m->group->cost, begin, end, n);
    const int64_t layer_ns = (int64_t)(k.lead_ns + (k.end_ns - k.lead_ns) / m->group->cost->layers);
    sim_cluster_account(m, &k.work);
    m->valid_rows += k.valid;
    m->rows += k.rows;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slot = a[i].u.compute.slot;
        sim_prompt *p = &m->prompts[slot];
        p->valid = p->len - p->begin;
        p->chunk = p->begin;
        p->begin_ns = c->now_ns;
        p->end_ns = c->now_ns + (int64_t)k.work.ns;
        p->layers_ns = c->now_ns + (int64_t)k.end_ns;
        p->layer_ns = c->now_ns + layer_ns;
        p->is_shared = true;
        if (i == 0) p->work = k.work;
        sim_cluster_count_rows(c, m, p->number, p->begin, p->valid);
        if (c->o.is_by_layer) post_layer(c, m, slot, 0);
        post_alive(c, m, slot);
        post_chunk(c, m, slot, p->layers_ns);
    }
}

static void begin_prompt(sim_cluster *c, sim_member *m, const pf_action *a)
{
    sim_prompt *p = &m->prompts[a->u.compute.slot];
    *p = (sim_prompt){.is_busy = true,
                      .run = ++c->works,
                      .len = a->u.compute.ids_len,
                      .begin = a->u.compute.from_row,
                      .told = a->u.compute.from_row,
                      .computed_ns = c->now_ns,
                      .number = a->u.compute.ref.number,
                      .is_whole = a->u.compute.is_whole,
                      .may_pause = a->u.compute.may_pause,
                      .pause_at = UINT32_MAX,
                      .line = p->line};
}

/* All of a prompt that runs alone, or what was left when it paused. */
static void begin_rest(sim_cluster *c, sim_member *m, uint32_t slot, bool is_first)
{
    sim_prompt *p = &m->prompts[slot];
    p->line_ns = c->now_ns;
    if (m->group->cost->play && !sim_line_play(&p->line, m->group->cost, p->begin, p->len)) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory scheduling a prompt of %u tokens", p->len);
        return;
    }
    begin_chunk(c, m, slot, is_first);
}

/* a->u.compute.with more follow it. */
static void compute(sim_cluster *c, sim_member *m, const pf_action *a)
{
    for (uint32_t i = 0; i <= a->u.compute.with; i++) begin_prompt(c, m, &a[i]);
    if (a->u.compute.with) {
        begin_batch(c, m, a);
        return;
    }
    begin_rest(c, m, a->u.compute.slot, true);
}

static void resume(sim_cluster *c, sim_member *m, uint32_t slot)
{
    sim_prompt *p = &m->prompts[slot];
    p->is_busy = true;
    p->run = ++c->works;
    p->pause_at = UINT32_MAX;
    begin_rest(c, m, slot, false);
}

/* Under a schedule chunks that have stored a layer by now are under way, and end first. */
static void ask_pause(const sim_cluster *c, sim_prompt *p, uint32_t tokens)
{
    const sim_line *l = &p->line;
    p->pause_at = tokens;
    p->last = l->at;
    while (p->last < l->len && p->line_ns + (int64_t)l->chunk[p->last].first_ns <= c->now_ns) p->last++;
}

/* A cancelled prompt lets go at the end of a layer, one of a batch at the batch's end. */
static void cancel(sim_cluster *c, sim_member *m, uint32_t slot)
{
    sim_prompt *p = &m->prompts[slot];
    int64_t at_ns = c->now_ns;
    if (!p->is_busy) return;
    if (p->end_ns > at_ns && p->is_shared) at_ns = p->end_ns;
    else if (p->end_ns > at_ns) at_ns += (p->end_ns - p->begin_ns) / m->group->cost->layers;
    p->run = ++c->works;
    const sim_cost_work undone = sim_cluster_end_of(&p->work, p->end_ns - at_ns);
    sim_cluster_give_back(m, &undone);
    sim_cluster_take_off(&p->work, &undone);
    if (at_ns < p->end_ns) p->end_ns = at_ns;
    sim_cluster_post(c, &(sim_event){.what = SIM_WHEN_STOPPED, .to = m->place, .slot = slot, .run = p->run,
                                     .at_ns = at_ns});
}

static bool is_long_on_wire(const sim_cluster *c, int64_t at_ns)
{
    return at_ns - c->now_ns >= c->o.pf.stall_us * 1000;
}

/* The brain learns that the block has left. One that is on the wire for long leaves late: until then nobody
 * waits for the decode node. */
static void post_sent(sim_cluster *c, const sim_member *m, const pf_block *b, int64_t at_ns, pf_event *next,
                      size_t *len)
{
    if (!is_long_on_wire(c, at_ns)) {
        next[(*len)++] = (pf_event){.type = PF_EV_BLOCK_SENT, .u.block = *b};
        return;
    }
    sim_event e = {.what = SIM_WHEN_SENT, .to = m->place, .at_ns = at_ns, .u.sent = malloc(sizeof *b)};
    if (!e.u.sent) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory");
        return;
    }
    *e.u.sent = *b;
    sim_cluster_post(c, &e);
}

/* When the chunk's rows of the first layer of that class were there: with windows, those that see all stand
 * at equal distances, at the end of each. */
static int64_t first_layer_ns(const sim_member *m, const sim_prompt *p, uint32_t layer)
{
    if (!m->kv.window || !bt_kv_sees_all(m->kv.global_every, layer)) return p->layer_ns;
    return p->layer_ns +
           (p->layers_ns - p->layer_ns) * (m->kv.global_every - 1) / (m->group->cost->layers - 1);
}

/* Returns when it has left. */
static int64_t send_block(sim_cluster *c, sim_member *m, const pf_block *b)
{
    const uint32_t to = sim_cluster_place(c, &b->decode), layers = m->group->cost->layers / m->kv.layers;
    const sim_prompt *p = &m->prompts[b->slot];
    int64_t first = p->computed_ns; /* rows from before: there when the prompt began */
    if (to == UINT32_MAX) return c->now_ns;
    /* The block's layers left one by one while the chunk was computed. A brain that waited for credit waited
     * for the wire, which counts that time itself. */
    if (b->token_begin + BT_KV_UNIT_TOKENS > p->chunk) first = first_layer_ns(m, p, b->layer);
    if (first > c->now_ns || p->is_whole || c->o.is_by_layer) first = c->now_ns;
    m->sent_bytes += b->bytes;
    sim_event e = {.what = SIM_WHEN_BLOCK, .from = m->place, .to = to};
    e.at_ns = (int64_t)sim_wire_send(&m->out, &c->members[to].in, &c->o.link, (uint64_t)first,
                                     (uint64_t)c->now_ns, layers, b->bytes / layers);
    if (!is_long_on_wire(c, e.at_ns))
        m->last_ns[to] = e.at_ns; /* else nothing goes behind it before it has left */
    e.u.block = malloc(sizeof *e.u.block);
    if (!e.u.block) {
        sim_cluster_break(c, BT_ENOMEM, "out of memory");
        return c->now_ns;
    }
    *e.u.block = (dc_block){.from = m->self,
                            .ref = b->ref,
                            .ticket = b->ticket,
                            .layer = b->layer,
                            .token_begin = b->token_begin,
                            .token_count = b->token_count,
                            .bytes = b->bytes,
                            .link_epoch = b->epoch,
                            .link_end = b->end_bytes};
    sim_cluster_post(c, &e);
    return e.at_ns;
}

static void carry_out(sim_cluster *c, sim_member *m, const pf_action *a, pf_event *next, size_t *len)
{
    uint32_t to;
    switch (a->type) {
    case PF_DO_SEND_CONTROL:
        to = sim_gates_of(c, m)[a->u.control.gateway].place;
        sim_cluster_send(c, m->place, to, &a->u.control.msg, false, 0);
        break;
    case PF_DO_SEND_BULK:
        to = sim_cluster_place(c, &a->u.bulk.decode);
        if (to != UINT32_MAX) sim_cluster_send(c, m->place, to, &a->u.bulk.msg, true, m->last_ns[to]);
        break;
    case PF_DO_SEND_BLOCK: post_sent(c, m, &a->u.block, send_block(c, m, &a->u.block), next, len); break;
    case PF_DO_COMPUTE: compute(c, m, a); break;
    case PF_DO_PAUSE: ask_pause(c, &m->prompts[a->u.pause.slot], a->u.pause.tokens); break;
    case PF_DO_RESUME: resume(c, m, a->u.slot); break;
    case PF_DO_CANCEL: cancel(c, m, a->u.slot); break;
    case PF_DO_LINK:
        if (sim_cluster_place(c, &a->u.link.decode) != UINT32_MAX) {
            next[*len] = (pf_event){.type = PF_EV_LINK_UP};
            next[(*len)++].u.decode = a->u.link.decode;
        } else {
            next[*len] = (pf_event){.type = PF_EV_LINK_FAILED};
            next[(*len)++].u.link_failed.decode = a->u.link.decode;
        }
        break;
    case PF_DO_RELEASE:
    case PF_DO_UNLINK:
    case PF_DO_LOG: break;
    case PF_DO_DRAIN: sim_cluster_drains(c, m); break;
    case PF_DO_EXIT: sim_cluster_exits(c, m, a->u.next_role); break;
    }
}

void sim_cluster_prefill_step(sim_cluster *c, sim_member *m, const pf_event *ev)
{
    static pf_event pending[PENDING];
    size_t len = 1;
    pending[0] = *ev;
    for (size_t i = 0; i < len && c->broken == BT_OK; i++) {
        const bt_random random = sim_cluster_random(c, false);
        const pf_actions acts = pf_brain_step(m->pf, &pending[i], sim_us(c->now_ns), &random);
        c->events++;
        for (size_t k = 0, with = 0; k < acts.len; k++) {
            const pf_action *a = &acts.items[k];
            if (a->type == PF_DO_COMPUTE && with > 0) {
                with--; /* this prompt was started with the one before */
                continue;
            }
            if (a->type == PF_DO_COMPUTE) with = a->u.compute.with;
            if (len >= PENDING - 1) {
                sim_cluster_break(c, BT_ELIMIT, "one event made a prefill node do more than %d things",
                                  PENDING);
                return;
            }
            carry_out(c, m, a, pending, &len);
        }
    }
    m->due_us = pf_brain_due_us(m->pf);
    sim_cluster_timer(c, m->place);
}

static void end_prompt(sim_cluster *c, sim_member *m, uint32_t slot)
{
    sim_prompt *p = &m->prompts[slot];
    pf_event ev = {.type = PF_EV_COMPUTED};
    ev.u.computed.slot = slot;
    ev.u.computed.token = 1;
    ev.u.computed.top_len = 1;
    ev.u.computed.top_ids[0] = 1;
    ev.u.computed.prefill_us = (uint64_t)sim_us(c->now_ns - p->computed_ns);
    sim_cluster_prefill_step(c, m, &ev);
    p->is_busy = false;
    ev = (pf_event){.type = PF_EV_DIGEST, .u.digest.slot = slot};
    ev.u.digest.kv_digest.bytes[0] = 1;
    sim_cluster_prefill_step(c, m, &ev);
}

/* The position up to which the brain knows the chunk's rows. */
static uint32_t told_of(const sim_prompt *p)
{
    const uint32_t at = p->begin + p->valid;
    return at == p->len ? at : at / BT_KV_UNIT_TOKENS * BT_KV_UNIT_TOKENS;
}

/* The chunk's rows of one of the brain's layers are ready. False: the prompt is gone. */
static bool tell_layer(sim_cluster *c, sim_member *m, uint32_t slot, uint32_t layer)
{
    const sim_prompt *p = &m->prompts[slot];
    const uint64_t run = p->run;
    pf_event ev = {.type = PF_EV_KV_READY};
    ev.u.kv_ready.slot = slot;
    ev.u.kv_ready.layer = layer;
    ev.u.kv_ready.token_begin = p->told;
    ev.u.kv_ready.token_count = told_of(p) - p->told;
    if (ev.u.kv_ready.token_count) sim_cluster_prefill_step(c, m, &ev);
    return p->is_busy && p->run == run;
}

void sim_cluster_prefill_layer(sim_cluster *c, sim_member *m, const sim_event *e)
{
    const sim_prompt *p = &m->prompts[e->slot];
    if (!p->is_busy || p->run != e->run) return;
    if (tell_layer(c, m, e->slot, e->from)) post_layer(c, m, e->slot, e->from + 1);
}

/* At the end of a chunk that is not the last. */
static bool pauses(const sim_member *m, const sim_prompt *p)
{
    return p->may_pause && p->begin >= p->pause_at && (!m->group->cost->play || p->line.at >= p->last);
}

static void pause(sim_cluster *c, sim_member *m, uint32_t slot)
{
    sim_prompt *p = &m->prompts[slot];
    pf_event ev = {.type = PF_EV_COMPUTE_PAUSED};
    ev.u.paused.slot = slot;
    ev.u.paused.tokens = p->begin;
    p->is_busy = false;
    sim_cluster_prefill_step(c, m, &ev);
}

void sim_cluster_prefill_chunk(sim_cluster *c, sim_member *m, const sim_event *e)
{
    sim_prompt *p = &m->prompts[e->slot];
    if (!p->is_busy || p->run != e->run) return;
    const uint32_t at = p->begin + p->valid;
    const bool is_last = at == p->len;
    for (uint32_t layer = c->o.is_by_layer ? m->kv.layers - 1 : 0; layer < m->kv.layers; layer++)
        if (!tell_layer(c, m, e->slot, layer)) return;
    p->told = told_of(p);
    p->begin = at;
    p->valid = 0;
    if (is_last && c->now_ns < p->end_ns) post_chunk(c, m, e->slot, p->end_ns); /* the output matrix */
    else if (is_last) end_prompt(c, m, e->slot);
    else if (pauses(m, p)) pause(c, m, e->slot);
    else begin_chunk(c, m, e->slot, false);
}

void sim_cluster_prefill_stopped(sim_cluster *c, sim_member *m, const sim_event *e)
{
    sim_prompt *p = &m->prompts[e->slot];
    if (!p->is_busy || p->run != e->run) return;
    p->is_busy = false;
    sim_cluster_prefill_step(c, m, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = e->slot});
}
