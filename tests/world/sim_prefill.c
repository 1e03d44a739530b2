/* The shell of a simulated prefill node: its brain, its bulk sockets, a toy worker that makes KV chunk by
 * chunk, layer by layer, in the pages that the brain says; what is sent is read out of them. */
#include "kv/kv_book.h"
#include "kv/kv_header.h"
#include "prefill-node/brain/brain_inner.h"
#include "tests/world/sim_bare.h"
#include "tests/world/sim_node.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_TOKENS = 32,
    LAYER_US = 200,
    PENDING_MAX = 512,
    PAGE_TOKENS = 64
}; /* PAGE_TOKENS as pf_config_defaults */

enum { ALL, WINDOWS, CLASSES }; /* of layers, and so of pages */
struct sim_kv {
    bt_kv_shape shape;
    uint32_t slots, longest;
    uint64_t *rows[CLASSES];   /* [pages][PAGE_TOKENS][layers] the prefix hash that the row was made of */
    uint32_t *tables[CLASSES]; /* [slots][longest] pages of the last COMPUTE */
    uint32_t *lens;            /* [slots] 0: none */
    uint32_t *salts[CLASSES];  /* [pages] of the prompt whose rows they hold */
};

bt_err sim_prefill_new(sim_kv **ret, const sim_options *o)
{
    sim_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return BT_ENOMEM;
    kv->slots = o->slots;
    kv->longest = (o->ctx_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    kv->shape = sim_toy_shape(o->kv_window, o->global_every);
    kv->lens = calloc(kv->slots, sizeof *kv->lens);
    bool ok = kv->lens != NULL;
    for (int c = 0; c < (o->kv_window ? CLASSES : WINDOWS); c++) {
        kv->rows[c] = calloc((size_t)o->pages_total * PAGE_TOKENS * SIM_TOY_LAYERS, sizeof *kv->rows[c]);
        kv->tables[c] = calloc((size_t)kv->slots * kv->longest, sizeof *kv->tables[c]);
        kv->salts[c] = calloc(o->pages_total, sizeof *kv->salts[c]);
        ok = ok && kv->rows[c] && kv->tables[c] && kv->salts[c];
    }
    if (ok) {
        *ret = kv;
        return BT_OK;
    }
    sim_prefill_free(kv);
    return BT_ENOMEM;
}

void sim_prefill_free(sim_kv *kv)
{
    if (!kv) return;
    for (int c = 0; c < CLASSES; c++) {
        free(kv->rows[c]);
        free(kv->tables[c]);
        free(kv->salts[c]);
    }
    free(kv->lens);
    free(kv);
}

static uint32_t *table_of(sim_kv *kv, int class, uint32_t slot)
{
    return kv->tables[class] + (size_t)slot * kv->longest;
}

/* NULL: the row is of a window layer, and gone. */
static uint64_t *row_of(sim_kv *kv, uint32_t slot, uint32_t token, uint32_t layer)
{
    const int class = sim_toy_sees_all(&kv->shape, layer) ? ALL : WINDOWS;
    const uint32_t page = table_of(kv, class, slot)[token / PAGE_TOKENS];
    return page == BT_KV_NO_PAGE
               ? NULL
               : &kv->rows[class]
                          [((size_t)page * PAGE_TOKENS + token % PAGE_TOKENS) * SIM_TOY_LAYERS + layer];
}

/* Takes over the slot's pages of a class: those that it will write are nobody else's. */
static void hold_class(sim_world *w, uint32_t self, const pf_action *a, int class)
{
    sim_kv *kv = w->processes[self].kv;
    const uint32_t *pages = class == WINDOWS ? a->u.compute.windows : a->u.compute.pages;
    const uint32_t len = a->u.compute.pages_len, own = a->u.compute.from_row / PAGE_TOKENS,
                   salt = sim_salt_of(w, &w->processes[self].pf->attempts, a->u.compute.slot);
    for (uint32_t s = 0; !w->o.is_bare && s < kv->slots; s++)
        for (uint32_t i = 0; i < kv->lens[s]; i++)
            for (uint32_t k = own; k < len; k++)
                if (table_of(kv, class, s)[i] == pages[k])
                    sim_broken(w, "prefill node %u: page %u has two owners", self, pages[k]);
    for (uint32_t k = 0; k < len; k++) {
        if (pages[k] == BT_KV_NO_PAGE && k < own) continue;
        if (pages[k] >= w->o.pages_total) {
            sim_broken(w, "prefill node %u: there is no page %u", self, pages[k]);
            return;
        }
        uint32_t *of = &kv->salts[class][pages[k]];
        if (k >= own) *of = salt;
        else if (*of != salt && !w->o.is_bare)
            sim_broken(w, "prefill node %u: a prompt has rows of a prompt of another salt", self);
    }
    memcpy(table_of(kv, class, a->u.compute.slot), pages, len * sizeof *pages);
}

/* Takes over the slot's pages, where rows that it need not compute are there: of window layers at least those
 * that its first row sees. */
static void hold_pages(sim_world *w, uint32_t self, const pf_action *a)
{
    sim_kv *kv = w->processes[self].kv;
    const uint32_t slot = a->u.compute.slot, len = a->u.compute.pages_len, from = a->u.compute.from_row,
                   sees = from + 1 > kv->shape.window ? from + 1 - kv->shape.window : 0;
    if (kv->lens[slot] || len > kv->longest || len * PAGE_TOKENS < a->u.compute.ids_len ||
        a->u.compute.from_row >= a->u.compute.ids_len) {
        sim_broken(w, "prefill node %u computes %u tokens from %u in %u pages", self, a->u.compute.ids_len,
                   a->u.compute.from_row, len);
        return;
    }
    hold_class(w, self, a, ALL);
    if (kv->shape.window) hold_class(w, self, a, WINDOWS);
    if (w->error[0]) return;
    kv->lens[slot] = len;
    for (uint32_t t = 0; t < len * PAGE_TOKENS; t++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++) {
            uint64_t *row = row_of(kv, slot, t, l);
            if (t >= from) *row = 0;
            else if (row ? *row != w->processes[self].runs[slot].hashes[t] : t >= sees)
                sim_broken(w, "prefill node %u: row %u of a kept page is another", self, t);
        }
}

static sim_route *route_to(sim_process *p, const bt_incarnation *decode)
{
    for (uint32_t i = 0; i < p->routes_used; i++)
        if (p->routes[i].in_use && bt_incarnation_equal(&p->routes[i].peer, decode)) return &p->routes[i];
    return NULL;
}

/* Endpoints are "sim:N", N a process number: whoever lives there now gets what is sent. */
static bool dial(sim_world *w, sim_process *p, const bt_incarnation *decode, const char *endpoint)
{
    for (uint32_t i = 0; i < w->routes_len; i++) {
        if (p->routes[i].in_use) continue;
        uint32_t to = (uint32_t)strtoul(endpoint + 4, NULL, 10);
        if (strncmp(endpoint, "sim:", 4) != 0 || to >= w->processes_len) return false;
        if (i == p->routes_used) p->routes_used++;
        p->routes[i] = (sim_route){.process = to, .peer = *decode, .in_use = true};
        memcpy(p->routes[i].socket, decode->bytes, 16);
        return true;
    }
    return false;
}

static void send_block(sim_world *w, uint32_t self, const sim_route *route, const pf_block *b)
{
    sim_process *p = &w->processes[self];
    uint64_t hashes[BT_KV_MAX_BLOCK_TOKENS];
    bt_kv_header h = {.link_epoch = b->epoch,
                      .link_end = b->end_bytes,
                      .number = b->ref.number,
                      .attempt = b->ref.attempt,
                      .layer = b->layer,
                      .token_begin = b->token_begin,
                      .token_count = b->token_count,
                      .kv_heads = 1,
                      .head_dim = 2,
                      .dtype = BT_KV_F16};
    h.body_bytes = bt_kv_header_body_bytes(h.token_count, h.kv_heads, h.head_dim, h.dtype);
    memcpy(h.owner, b->ref.owner.bytes, 16);
    memcpy(h.ticket, b->ticket.bytes, 16);
    memcpy(h.from, p->self.bytes, 16);
    memcpy(h.to, b->decode.bytes, 16);
    if (h.body_bytes != b->bytes)
        sim_broken(w, "a block of %u bytes is counted as %llu", h.body_bytes, (unsigned long long)b->bytes);
    const size_t len = BT_KV_HEADER_BYTES + (size_t)h.body_bytes;
    uint8_t *frame = sim_frame(w, len);
    if (!frame) return;
    if (!p->kv->lens[b->slot])
        sim_broken(w, "prefill node %u sends a block of pages that it gave back", self);
    for (uint32_t t = 0; t < b->token_count; t++) {
        const uint64_t *row = row_of(p->kv, b->slot, b->token_begin + t, b->layer);
        if (!row) sim_broken(w, "prefill node %u sends row %u, which is gone", self, b->token_begin + t);
        hashes[t] = row ? *row : 0;
    }
    sim_toy_body(frame + BT_KV_HEADER_BYTES, hashes, b->layer, 0, b->token_count);
    bt_fault fault;
    if (w->o.is_bare) sim_bare_put_header(frame, &h);
    else bt_kv_header_digest(h.digest, &h, frame + BT_KV_HEADER_BYTES);
    if (!w->o.is_bare && bt_kv_header_encode(frame, &h, &fault) < 0)
        sim_broken(w, "block header: %s", fault.text);
    sim_item it = {.from = self, .to = route->process, .channel = SIM_BLOCK, .epoch = b->epoch,
                   .end = b->end_bytes};
    it.is_astray = !bt_incarnation_equal(&b->decode, &w->processes[route->process].self);
    memcpy(it.socket, route->socket, 16);
    sim_send(w, &it, frame, len);
}

static void post_work(sim_world *w, uint32_t self, uint32_t slot, int64_t after_us)
{
    sim_item it = {.at_us = w->now_us + after_us,
                   .kind = SIM_PREFILL_WORK,
                   .to = self,
                   .life = w->processes[self].life,
                   .slot = slot,
                   .run = w->processes[self].runs[slot].run};
    (void)sim_net_post(w->net, &it);
}

/* The promise to a long prompt: of the tokens computed since it began at most half are others'. And no more
 * slots hold long prompts than are not kept for short ones. */
static void check_shares(sim_world *w, uint32_t self, const pf_action *a)
{
    const uint32_t most = w->o.pf.short_tokens, tokens = a->u.compute.ids_len - a->u.compute.from_row,
                   kept = most && w->o.slots > 1 ? (w->o.slots < 8 ? 1 : w->o.slots / 4) : 0;
    uint32_t longs = most && tokens > most;
    for (uint32_t i = 0; i < w->o.slots; i++) {
        sim_run *run = &w->processes[self].runs[i];
        if (i == a->u.compute.slot) continue;
        longs += most && w->processes[self].kv->lens[i] && run->ids_len - run->from_row > most;
        if (!run->has_paused) continue;
        run->lost += tokens;
        if (run->lost > run->chunk_begin - run->from_row)
            sim_broken(w, "prefill node %u: a long prompt has lost %u tokens to others, and has computed %u",
                       self, run->lost, run->chunk_begin - run->from_row);
    }
    if (longs + kept > w->o.slots)
        sim_broken(w, "prefill node %u: %u long prompts hold its slots, and %u of %u are kept for short ones",
                   self, longs, kept, w->o.slots);
}

static void resume(sim_world *w, uint32_t self, uint32_t slot)
{
    sim_run *run = &w->processes[self].runs[slot];
    if (run->is_busy || !run->has_paused) sim_broken(w, "RESUME of a prefill slot that has not paused");
    run->is_busy = true;
    run->has_paused = run->is_cancelled = false;
    run->pause_at = UINT32_MAX;
    run->run = ++w->works;
    post_work(w, self, slot, LAYER_US);
}

static void compute(sim_world *w, uint32_t self, const pf_action *a)
{
    sim_run *run = &w->processes[self].runs[a->u.compute.slot];
    if (run->is_busy) sim_broken(w, "COMPUTE on a busy prefill slot");
    check_shares(w, self, a);
    run->may_pause = a->u.compute.may_pause;
    run->has_paused = false;
    run->from_row = a->u.compute.from_row;
    run->pause_at = UINT32_MAX;
    run->lost = 0;
    run->is_busy = true;
    run->is_cancelled = run->has_first = false;
    run->run = ++w->works;
    run->sampling = a->u.compute.sampling;
    run->ids_len = a->u.compute.ids_len;
    run->chunk_begin = a->u.compute.from_row;
    run->layer = 0;
    memcpy(run->ids, a->u.compute.ids, run->ids_len * sizeof *run->ids);
    sim_toy_prefixes(run->hashes, run->ids, run->ids_len, sim_rule_of(w, self));
    hold_pages(w, self, a);
    post_work(w, self, a->u.compute.slot, LAYER_US);
}

/* The brain looks at its leases before it looks at the event that says that the work has ended. So it may
 * still send CANCEL in this step, to a worker that clears the flag when it begins the next work. */
static void end(sim_world *w, uint32_t self, sim_run *run, const pf_event *ev)
{
    run->is_busy = false;
    run->is_ending = true;
    sim_prefill_step(w, self, ev);
    run->is_ending = false;
}

/* At the end of a chunk. */
static bool pauses(sim_world *w, uint32_t self, uint32_t slot)
{
    sim_run *run = &w->processes[self].runs[slot];
    if (!run->may_pause || run->layer || run->chunk_begin == run->ids_len || run->chunk_begin < run->pause_at)
        return false;
    pf_event ev = {.type = PF_EV_COMPUTE_PAUSED};
    ev.u.paused.slot = slot;
    ev.u.paused.tokens = run->chunk_begin;
    run->has_paused = true;
    end(w, self, run, &ev);
    return true;
}

void sim_prefill_work(sim_world *w, uint32_t self, const sim_item *it)
{
    sim_run *run = &w->processes[self].runs[it->slot];
    if (!run->is_busy || run->run != it->run) return;
    if (run->is_cancelled) {
        end(w, self, run, &(pf_event){.type = PF_EV_COMPUTE_STOPPED, .u.slot = it->slot});
        return;
    }
    if (run->chunk_begin < run->ids_len) {
        uint32_t n = run->ids_len - run->chunk_begin;
        if (n > CHUNK_TOKENS) n = CHUNK_TOKENS;
        pf_event ev;
        ev.type = PF_EV_KV_READY;
        ev.u.kv_ready.slot = it->slot;
        ev.u.kv_ready.layer = run->layer;
        ev.u.kv_ready.token_begin = run->chunk_begin;
        ev.u.kv_ready.token_count = n;
        for (uint32_t t = run->chunk_begin; t < run->chunk_begin + n; t++)
            *row_of(w->processes[self].kv, it->slot, t, run->layer) = run->hashes[t];
        if (++run->layer == SIM_TOY_LAYERS) {
            run->layer = 0;
            run->chunk_begin += n;
        }
        const uint64_t number = run->run;
        sim_prefill_step(w, self, &ev);
        if (run->is_busy && run->run == number && !pauses(w, self, it->slot))
            post_work(w, self, it->slot, LAYER_US);
        return;
    }
    if (run->has_first) {
        pf_event ev = {.type = PF_EV_DIGEST, .u.digest.slot = it->slot};
        memcpy(ev.u.digest.kv_digest.bytes, &run->hashes[run->ids_len - 1], sizeof run->hashes[0]);
        end(w, self, run, &ev);
        return;
    }
    run->has_first = true;
    pf_event ev = {.type = PF_EV_COMPUTED};
    ev.u.computed.slot = it->slot;
    ev.u.computed.token = sim_toy_first(run->hashes[run->ids_len - 1], run->sampling.seed);
    ev.u.computed.top_len = 1;
    ev.u.computed.top_ids[0] = ev.u.computed.token;
    ev.u.computed.prefill_us = 1;
    post_work(w, self, it->slot, LAYER_US);
    sim_prefill_step(w, self, &ev);
}

/* Carry out one action; what the shell answers at once goes to the end of `next`. */
static void carry_out(sim_world *w, uint32_t self, const pf_action *a, pf_event *next, size_t *next_len)
{
    sim_process *p = &w->processes[self];
    sim_route *r;
    switch (a->type) {
    case PF_DO_SEND_CONTROL:
        sim_say(w, self, a->u.control.gateway, SIM_CONTROL, NULL, &a->u.control.msg);
        break;
    case PF_DO_SEND_BULK:
        r = route_to(p, &a->u.bulk.decode);
        if (r) sim_say(w, self, r->process, SIM_BULK, r->socket, &a->u.bulk.msg);
        else sim_broken(w, "prefill node sends on a link it does not have");
        break;
    case PF_DO_SEND_BLOCK: {
        bool blocked = sim_net_chance(w->net) < w->o.blocked_ratio;
        r = route_to(p, &a->u.block.decode);
        if (!r) sim_broken(w, "prefill node sends a block on a link it does not have");
        else if (!blocked) send_block(w, self, r, &a->u.block);
        pf_event *said = &next[(*next_len)++];
        said->type = blocked ? PF_EV_BLOCK_BLOCKED : PF_EV_BLOCK_SENT;
        said->u.block = a->u.block;
        break;
    }
    case PF_DO_COMPUTE: compute(w, self, a); break;
    case PF_DO_PAUSE: p->runs[a->u.pause.slot].pause_at = a->u.pause.tokens; break;
    case PF_DO_RESUME: resume(w, self, a->u.slot); break;
    case PF_DO_CANCEL:
        if (!p->runs[a->u.slot].is_busy && !p->runs[a->u.slot].is_ending)
            sim_broken(w, "CANCEL of an idle prefill slot");
        p->runs[a->u.slot].is_cancelled = true;
        break;
    case PF_DO_RELEASE:
        if (p->runs[a->u.slot].is_busy) sim_broken(w, "RELEASE of a busy prefill slot");
        p->kv->lens[a->u.slot] = 0;
        p->runs[a->u.slot].has_paused = false;
        break;
    case PF_DO_LINK: {
        const bool is_up = dial(w, p, &a->u.link.decode, a->u.link.endpoint);
        next[*next_len].type = is_up ? PF_EV_LINK_UP : PF_EV_LINK_FAILED;
        if (is_up) next[(*next_len)++].u.decode = a->u.link.decode;
        else next[(*next_len)++].u.link_failed.decode = a->u.link.decode;
        break;
    }
    case PF_DO_UNLINK:
        r = route_to(p, &a->u.link.decode);
        if (r) r->in_use = false;
        break;
    case PF_DO_LOG: sim_trace(w, "    %u says: %s", self, a->u.log.text); break;
    case PF_DO_DRAIN: sim_roles_drain(w, self); break;
    case PF_DO_EXIT:
        sim_check_exit(w, self, a->u.next_role);
        sim_roles_exit(w, self, a->u.next_role);
        p->is_alive = false;
        break;
    }
}

void sim_prefill_step(sim_world *w, uint32_t self, const pf_event *ev)
{
    sim_process *p = &w->processes[self];
    pf_event pending[PENDING_MAX]; /* from 1 on; only what an event has is ever set of one */
    size_t len = 1;
    for (size_t i = 0; i < len; i++) {
        bt_random random = sim_random(w, false);
        pf_actions acts = pf_brain_step(p->pf, i ? &pending[i] : ev, w->now_us, &random);
        w->steps++;
        for (size_t k = 0; k < acts.len; k++) {
            if (len >= PENDING_MAX - 1) {
                sim_broken(w, "one event made a prefill node do more than %d things", PENDING_MAX);
                return;
            }
            carry_out(w, self, &acts.items[k], pending, &len);
        }
        p->due_us = pf_brain_due_us(p->pf);
    }
}

void sim_prefill_packet(sim_world *w, uint32_t self, const sim_item *it, const bt_msg *m)
{
    pf_event ev;
    ev.type = it->channel == SIM_CONTROL ? PF_EV_CONTROL : PF_EV_BULK;
    if (it->channel == SIM_CONTROL) {
        ev.u.control.gateway = it->from; /* gateways have the first numbers */
        ev.u.control.msg = m;
    } else {
        memcpy(ev.u.bulk.decode.bytes, it->socket, 16);
        if (!route_to(&w->processes[self], &ev.u.bulk.decode)) return; /* the socket was closed */
        ev.u.bulk.msg = m;
    }
    sim_prefill_step(w, self, &ev);
}
