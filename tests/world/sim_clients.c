/* The shell of the simulated gateways, and every client: what they are given is compared with what the toy
 * engines must say. */
#include "base/num.h"
#include "base/rng.h"
#include "tests/world/sim_node.h"

#include <stdlib.h>
#include <string.h>

static sim_client *client_of(sim_world *w, uint32_t gateway, uint64_t request)
{
    sim_client *c = request >= 1 && request <= w->clients_len ? &w->clients[request - 1] : NULL;
    if (c && c->r.gateway == gateway && c->life == w->processes[gateway].life) return c;
    sim_broken(w, "an answer for request %llu, which nobody made", (unsigned long long)request);
    return NULL;
}

static void on_tokens(sim_world *w, sim_client *c, const gw_action *a)
{
    if (!c->saw_first) sim_broken(w, "tokens of request %llu before FIRST", (unsigned long long)a->request);
    c->r.heard_us = w->now_us;
    if (a->u.tokens.first_index != c->r.tokens)
        sim_broken(w, "request %llu got index %u when %u was next", (unsigned long long)a->request,
                   a->u.tokens.first_index, c->r.tokens);
    if (w->o.is_bare) c->r.tokens += a->u.tokens.ids_len;
    for (uint32_t i = 0; !w->o.is_bare && i < a->u.tokens.ids_len; i++, c->r.tokens++) {
        for (unsigned k = 0; k < SIM_TOY_RULES; k++)
            if (c->r.tokens >= c->answers[k].len || a->u.tokens.ids[i] != c->answers[k].ids[c->r.tokens])
                c->may &= ~(1u << k);
        if (c->may) continue;
        sim_broken(w, "request %llu got a wrong token at index %u", (unsigned long long)a->request,
                   c->r.tokens);
        return;
    }
}

static void on_end(sim_world *w, sim_client *c, const gw_action *a)
{
    if (c->r.outcome != SIM_PENDING)
        sim_broken(w, "request %llu was answered twice", (unsigned long long)a->request);
    c->r.outcome = a->type == GW_DO_DONE ? SIM_DONE : SIM_FAILED;
    c->r.ended_us = w->now_us;
    w->answered++;
    if (a->type == GW_DO_FAIL) {
        c->r.kind = a->u.fail.kind;
        c->r.stats = a->u.fail.stats;
        sim_shares_failed(w, c->r.gateway, a->request, a->u.fail.kind);
        sim_check_fail(w, c, a);
        return;
    }
    c->r.reason = a->u.done.reason;
    c->r.stats = a->u.done.stats;
    if (c->r.stats.completion_tokens != c->r.tokens)
        sim_broken(w, "request %llu is told a wrong usage", (unsigned long long)a->request);
    if (c->r.is_cut || w->o.is_bare) return;
    for (unsigned k = 0; k < SIM_TOY_RULES; k++)
        if (c->may & 1u << k && c->r.tokens == c->answers[k].len && c->r.reason == c->answers[k].reason)
            return;
    sim_broken(w, "request %llu ended with %u tokens, reason %d", (unsigned long long)a->request, c->r.tokens,
               (int)c->r.reason);
}

static void on_send(sim_world *w, uint32_t self, const gw_action *a)
{
    const bt_msg *m = &a->u.send.msg;
    if (m->type == BT_MSG_RESERVE) {
        sim_client *c = client_of(w, self, m->ref.number);
        if (!c) return;
        if (m->ref.attempt > c->attempt) {
            c->attempt_us = w->now_us;
            sim_shares_given(w, self, m->ref.number);
            sim_check_chosen(w, self, m->ref.number, sim_process_by_incarnation(w, &a->u.send.peer));
        }
        if (m->ref.attempt < c->attempt)
            sim_broken(w, "request %llu goes back to attempt %u", (unsigned long long)m->ref.number,
                       m->ref.attempt);
        c->attempt = m->ref.attempt;
    }
    const uint32_t to = sim_process_by_incarnation(w, &a->u.send.peer);
    if (bt_incarnation_equal(&a->u.send.peer, &w->asked)) w->was_asked = true;
    if (m->type == BT_MSG_ABORT) {
        sim_client *c = client_of(w, self, m->ref.number);
        if (!c) return;
        if (m->ref.attempt > c->left) c->left_us = w->now_us;
        if (m->ref.attempt > c->left) c->left = m->ref.attempt;
        if (c->aborted && to != UINT32_MAX && m->ref.attempt > c->aborted[to]) {
            c->aborted_us[to] = w->now_us;
            c->aborted[to] = m->ref.attempt;
        }
    }
    if (to != UINT32_MAX) sim_say(w, self, to, SIM_CONTROL, NULL, m);
}

/* FIRST, TOKENS, DONE, FAIL. */
static void on_answer(sim_world *w, uint32_t self, const gw_action *a)
{
    sim_client *c = client_of(w, self, a->request);
    if (!c) return;
    if (c->r.outcome != SIM_PENDING)
        sim_broken(w, "request %llu hears more after its end", (unsigned long long)a->request);
    if (a->type == GW_DO_TOKENS) {
        on_tokens(w, c, a);
    } else if (a->type == GW_DO_FIRST) {
        if (c->saw_first) sim_broken(w, "request %llu got FIRST twice", (unsigned long long)a->request);
        c->saw_first = true;
    } else {
        on_end(w, c, a);
        sim_trace(w, "    request %llu ends: %s after %u tokens, %u attempts", (unsigned long long)a->request,
                  a->type == GW_DO_DONE ? "done" : gw_fail_name(a->u.fail.kind), c->r.tokens,
                  c->r.stats.attempts);
    }
}

void sim_gateway_step(sim_world *w, uint32_t self, const gw_event *ev)
{
    sim_process *p = &w->processes[self];
    bt_random random = sim_random(w, ev->type == GW_EV_SUBMIT);
    const bool is_hello = ev->type == GW_EV_MSG && ev->u.msg->type == BT_MSG_HELLO;
    const gw_node *named =
        is_hello ? gw_registry_named(gw_brain_registry(p->gw), ev->u.msg->u.hello.node_id) : NULL;
    const bt_incarnation before = named ? named->incarnation : (bt_incarnation){{0}};
    gw_actions acts = gw_brain_step(p->gw, ev, w->now_us, &random);
    w->steps++;
    if (named && !bt_incarnation_equal(&named->incarnation, &before)) sim_check_renamed(w, self, &before);
    for (size_t i = 0; i < acts.len; i++) {
        const gw_action *a = &acts.items[i];
        if (a->type == GW_DO_SEND) on_send(w, self, a);
        else if (a->type == GW_DO_FIRST || a->type == GW_DO_TOKENS || a->type == GW_DO_DONE ||
                 a->type == GW_DO_FAIL)
            on_answer(w, self, a);
        else if (a->type == GW_DO_NODE_CHANGED && a->u.node.state == GW_NODE_GONE)
            sim_check_lost(w, self, &a->u.node.incarnation);
        else if (a->type == GW_DO_LOG) sim_trace(w, "    %u says: %s", self, a->u.log.text);
        else if (a->type == GW_DO_EXIT) p->is_alive = false;
    }
    p->due_us = gw_brain_due_us(p->gw);
    sim_shares_step(w, self);
    if (p->is_alive) return;
    for (uint64_t i = 0; i < w->clients_len; i++)
        if (w->clients[i].r.outcome == SIM_PENDING && w->clients[i].life == p->life)
            sim_broken(w, "a gateway leaves while request %llu waits", (unsigned long long)i + 1);
}

void sim_clients_orphan(sim_world *w, uint32_t gateway)
{
    for (uint64_t i = 0; i < w->clients_len; i++) {
        sim_client *c = &w->clients[i];
        if (c->r.outcome != SIM_PENDING || c->r.gateway != gateway) continue;
        c->r.outcome = SIM_FAILED;
        c->r.is_orphan = true;
        c->r.ended_us = w->now_us;
        w->answered++;
    }
}

static const uint8_t *row_of(const void *ud, uint32_t layer, uint32_t token)
{
    return (const uint8_t *)ud + ((size_t)token * SIM_TOY_LAYERS + layer) * SIM_TOY_ROW_BYTES;
}

/* Mixes the rows of token t into the digest of the layers that see all. */
static uint64_t add_rows(uint64_t all, const bt_kv_shape *shape, const uint8_t *rows, uint32_t t)
{
    for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++)
        if (sim_toy_sees_all(shape, l)) all = sim_toy_mix(all, row_of(rows, l, t));
    return all;
}

/* The answer that engines of a rule will give, from the prompt alone. */
static bt_err expect(sim_client *c, const bt_kv_shape *shape, uint32_t rule)
{
    const uint32_t n = c->r.prompt_tokens;
    const size_t row_bytes = SIM_TOY_LAYERS * SIM_TOY_ROW_BYTES;
    sim_answer *a = &c->answers[rule];
    uint64_t *hashes = malloc(n * sizeof *hashes), all = SIM_TOY_START;
    uint8_t *rows = malloc((n + c->r.max_tokens) * row_bytes);
    a->ids = malloc(c->r.max_tokens * sizeof *a->ids);
    if (!hashes || !rows || !a->ids) {
        free(hashes);
        free(rows);
        return BT_ENOMEM;
    }
    sim_toy_prefixes(hashes, c->ids, n, rule);
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++)
            sim_toy_body(rows + t * row_bytes + (size_t)l * SIM_TOY_ROW_BYTES, hashes, l, t, 1);
        all = add_rows(all, shape, rows, t);
    }
    int32_t id = sim_toy_first(hashes[n - 1], c->seed);
    uint64_t digest = sim_toy_seen(all, shape, n, row_of, rows);
    a->reason = BT_FINISH_LENGTH;
    for (uint32_t i = 0; i < c->r.max_tokens; i++) {
        const uint32_t t = n + i - 1; /* of the row that makes token i */
        for (uint32_t l = 0; i > 0 && l < SIM_TOY_LAYERS; l++)
            sim_toy_row(rows + t * row_bytes + (size_t)l * SIM_TOY_ROW_BYTES, digest, id, l);
        if (i > 0) {
            all = add_rows(all, shape, rows, t);
            digest = sim_toy_seen(all, shape, t + 1, row_of, rows);
            id = sim_toy_next(digest, i, c->seed);
        }
        if (id == SIM_TOY_STOP) {
            a->reason = BT_FINISH_STOP;
            break;
        }
        a->ids[a->len++] = id;
    }
    c->may |= 1u << rule;
    free(hashes);
    free(rows);
    return BT_OK;
}

/* A prefix that others have too, or what an earlier client asked and was told; then what nobody has, or
 * every other time nothing. */
static void draw_prompt(sim_world *w, sim_client *c)
{
    const uint32_t n = c->r.prompt_tokens, same = w->o.prefixes ? n / 2 : 0;
    const uint64_t prefix = w->o.prefixes ? sim_net_draw(w->net) % w->o.prefixes : 0;
    const sim_client *before = w->o.prefixes && w->clients_len > 1 && sim_net_draw(w->net) % 2
                                   ? &w->clients[sim_net_draw(w->net) % (w->clients_len - 1)]
                                   : NULL;
    for (uint32_t i = 0; i < n; i++)
        c->ids[i] = (int32_t)((i < same ? bt_rng_u64(prefix, i) : sim_net_draw(w->net)) % SIM_TOY_VOCAB);
    for (uint32_t i = 0;
         before && i + w->clients_len % 2 < n && i < before->r.prompt_tokens + before->r.tokens; i++)
        c->ids[i] = i < before->r.prompt_tokens
                        ? before->ids[i]
                        : before->answers[before->may & 1 ? 0 : 1].ids[i - before->r.prompt_tokens];
}

/* The room to note what each node is told of it, for checks. */
static bt_err note_nodes(const sim_world *w, sim_client *c)
{
    c->told = calloc(w->processes_len, sizeof *c->told);
    c->told_life = calloc(w->processes_len, sizeof *c->told_life);
    c->turns = calloc(w->processes_len, sizeof *c->turns);
    c->aborted = calloc(w->processes_len, sizeof *c->aborted);
    c->aborted_us = calloc(w->processes_len, sizeof *c->aborted_us);
    return c->told && c->told_life && c->turns && c->aborted && c->aborted_us ? BT_OK : BT_ENOMEM;
}

uint64_t sim_world_submit(sim_world *w, uint32_t prompt_tokens, uint32_t max_tokens)
{
    return sim_world_submit_to(w, 0, prompt_tokens, max_tokens);
}

uint64_t sim_world_submit_to(sim_world *w, uint32_t gateway, uint32_t prompt_tokens, uint32_t max_tokens)
{
    const uint32_t key = w->o.keys ? 1 + (uint32_t)(w->clients_len % w->o.keys) : 0;
    return sim_world_submit_as(w, key, 0, gateway, prompt_tokens, max_tokens);
}

uint64_t sim_world_submit_as(sim_world *w, uint32_t key, int32_t priority, uint32_t gateway,
                             uint32_t prompt_tokens, uint32_t max_tokens)
{
    sim_process *p = &w->processes[gateway];
    if (!p->is_alive || p->is_stopped) return 0;
    if (w->clients_len == w->clients_cap) {
        uint64_t cap = w->clients_cap ? w->clients_cap * 2 : 64;
        sim_client *all = realloc(w->clients, cap * sizeof *all);
        if (!all) return 0;
        w->clients = all;
        w->clients_cap = cap;
    }
    sim_client *c = &w->clients[w->clients_len++];
    const uint32_t room = prompt_tokens < w->o.ctx_tokens ? w->o.ctx_tokens - prompt_tokens : 0;
    const uint32_t most = room && room < max_tokens ? room : max_tokens;
    *c = (sim_client){
        .r = {.gateway = gateway, .prompt_tokens = prompt_tokens, .max_tokens = most, .key = key,
              .priority = priority, .submitted_us = w->now_us, .heard_us = w->now_us},
        .may_be_refused = p->is_draining || gw_brain_queued(p->gw) >= w->o.queue_max,
        .seed = sim_net_draw(w->net), .life = p->life, .cost = (uint64_t)prompt_tokens + max_tokens};
    if (w->o.salts > 1) c->salt = (uint32_t)(bt_rng_u64(w->o.seed, w->clients_len) % w->o.salts);
    c->ids = malloc(prompt_tokens * sizeof *c->ids);
    if (!c->ids || (!w->o.is_bare && note_nodes(w, c) < 0)) return 0;
    draw_prompt(w, c);
    const bt_kv_shape shape = sim_toy_shape(w->o.kv_window, w->o.global_every);
    /* Later prompts may go on with answers. */
    for (uint32_t k = 0; (!w->o.is_bare || w->o.prefixes > 0) && k < (w->o.rules > 1 ? SIM_TOY_RULES : 1);
         k++)
        if (expect(c, &shape, k) < 0) return 0;
    gw_submit s = {.request = w->clients_len,
                   .ids = c->ids,
                   .ids_len = prompt_tokens,
                   .max_tokens = max_tokens,
                   .share = key,
                   .weight = key ? sim_shares_weight(key) : 0,
                   .priority = priority,
                   .sampling = {.top_p = 1, .seed = c->seed},
                   .stop_ids_len = 1,
                   .stop_ids = {SIM_TOY_STOP}};
    bt_put32(s.salt.bytes, c->salt);
    sim_trace(w, "=== request %llu of %u + %u tokens to %u, key %u, priority %d",
              (unsigned long long)s.request, prompt_tokens, max_tokens, gateway, key, (int)priority);
    if (c->salt) sim_trace(w, "    its salt is number %u", c->salt);
    sim_net_stream(w->net, gateway);
    w->asking = s.request;
    sim_gateway_step(w, gateway, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
    w->asking = 0;
    sim_after(w, gateway);
    return s.request;
}

static void cut(sim_world *w, uint64_t request, gw_event_type type)
{
    if (request < 1 || request > w->clients_len) return;
    sim_client *c = &w->clients[request - 1];
    const sim_process *p = &w->processes[c->r.gateway];
    if (!p->is_alive || p->is_stopped || c->life != p->life) return;
    sim_trace(w, "=== request %llu is %s by its client", (unsigned long long)request,
              type == GW_EV_CANCEL ? "left" : "ended early");
    if (c->r.outcome == SIM_PENDING) c->r.is_cut = true;
    sim_net_stream(w->net, c->r.gateway);
    sim_gateway_step(w, c->r.gateway, &(gw_event){.type = type, .u.request = request});
    sim_after(w, c->r.gateway);
}

void sim_world_cancel(sim_world *w, uint64_t request) { cut(w, request, GW_EV_CANCEL); }
void sim_world_finish_early(sim_world *w, uint64_t request) { cut(w, request, GW_EV_FINISH_EARLY); }

const sim_request *sim_world_request(const sim_world *w, uint64_t request)
{
    return &w->clients[request - 1].r;
}
uint64_t sim_world_requests(const sim_world *w) { return w->clients_len; }
