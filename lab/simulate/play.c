/* The caller of a simulated cluster: who comes when, and what came back. See play.h. */
#include "lab/simulate/play.h"
#include "base/num.h"
#include "base/rng.h"
#include "device/energy.h"
#include "lab/simulate/prices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double NO_REST = 0.97; /* of the time */
enum { BLOCK_TOKENS = 64, PAGE_TOKENS = 64, UNKNOWN_MEMORY = 1 << 30, QUARTERS = 4, USUAL_CTX = 131072 };

struct tool_simulate_bench {
    tool_simulate_setup s;
    tool_simulate_priced prefill[TOOL_SIMULATE_GROUPS], decode[TOOL_SIMULATE_GROUPS];
    uint32_t prefill_pages[TOOL_SIMULATE_GROUPS], decode_pages[TOOL_SIMULATE_GROUPS];
};

/* The cost of a node of the group, and its pages. */
static bt_err cost_of(tool_simulate_priced *ret, uint32_t *ret_pages, const tool_simulate_setup *s,
                      const tool_simulate_group *g, bool is_prefill, bt_fault *fault)
{
    const bt_err e = tool_simulate_price_node(ret, s, g, is_prefill, fault);
    if (e < 0) return e;
    const uint64_t bytes =
        s->kv_memory_bytes || g->profile.memory_bytes ? s->kv_memory_bytes : UNKNOWN_MEMORY;
    *ret_pages = sim_cost_pages(&ret->cost, bytes, PAGE_TOKENS);
    return BT_OK;
}

static bt_err make_cost(tool_simulate_priced *ret, uint32_t *ret_pages, const tool_simulate_setup *s,
                        const tool_simulate_group *g, bool is_prefill, bt_fault *fault)
{
    const bt_err e = cost_of(ret, ret_pages, s, g, is_prefill, fault);
    if (e < 0) return e;
    const uint64_t tokens = (uint64_t)*ret_pages * PAGE_TOKENS;
    if (tokens < s->ctx_tokens)
        return bt_fail(
            fault, BT_ELIMIT,
            "'%s' has room for the KV of %" PRIu64 " tokens, and one sequence of -c %u needs %" PRIu64
            " bytes%s: give --kv-memory, or -c %" PRIu64 " at most",
            g->profile.name, tokens, s->ctx_tokens,
            bt_price_kv_held(&g->profile.time, ret->cost.steps.model.kv_heads, ret->cost.kv_bytes) *
                s->ctx_tokens,
            ret->cost.steps.model.windowed ? ", as its tokens count in all layers" : "", tokens);
    return BT_OK;
}

bt_err tool_simulate_set_context(tool_simulate_setup *s, uint32_t model_ctx, bt_fault *fault)
{
    const tool_simulate_side *side[] = {&s->prefill, &s->decode};
    const uint32_t packed = s->package ? bt_pkg_header_of(s->package)->ctx_tokens : BT_SHAPES_MAX_SEQ;
    uint64_t least = model_ctx ? model_ctx : USUAL_CTX;
    if (least > packed) least = packed;
    s->ctx_tokens = (uint32_t)least;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < side[i]->len; k++) {
            tool_simulate_priced price;
            uint32_t pages;
            const bt_err e =
                cost_of(&price, &pages, s, &side[i]->group[k], i == 0 && !s->is_colocated, fault);
            tool_simulate_price_done(&price);
            if (e < 0) return e;
            if ((uint64_t)pages * PAGE_TOKENS < least) least = (uint64_t)pages * PAGE_TOKENS;
        }
    if (least == 0)
        return bt_fail(fault, BT_ELIMIT, "--kv-memory: a node has room for less than one page of KV");
    s->ctx_tokens = (uint32_t)least;
    return BT_OK;
}

bt_err tool_simulate_bench_new(tool_simulate_bench **ret, const tool_simulate_setup *s, bt_fault *fault)
{
    tool_simulate_bench *b = calloc(1, sizeof *b);
    bt_err e = b ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for prices of a cluster");
    if (b) b->s = *s;
    if (e == BT_OK) e = tool_simulate_check_package(s, fault);
    if (e == BT_OK) e = tool_simulate_check_schedule(s, fault);
    for (size_t i = 0; e == BT_OK && i < s->prefill.len; i++)
        e = make_cost(&b->prefill[i], &b->prefill_pages[i], s, &s->prefill.group[i], !s->is_colocated, fault);
    for (size_t i = 0; e == BT_OK && i < s->decode.len; i++)
        e = make_cost(&b->decode[i], &b->decode_pages[i], s, &s->decode.group[i], false, fault);
    if (e < 0) tool_simulate_bench_free(b);
    else *ret = b;
    return e;
}

void tool_simulate_bench_free(tool_simulate_bench *b)
{
    for (size_t i = 0; b && i < TOOL_SIMULATE_GROUPS; i++) {
        tool_simulate_price_done(&b->prefill[i]);
        tool_simulate_price_done(&b->decode[i]);
    }
    free(b);
}

static void draw(sim_cost *c, bool is_drawn, uint64_t seed, uint64_t number)
{
    c->is_drawn = is_drawn;
    c->draw = bt_forecast_draw_of(&c->profile, BT_STANDING_CALIBRATED, seed, number);
}

void tool_simulate_bench_draw(tool_simulate_bench *b, bool is_drawn, uint64_t number)
{
    for (size_t i = 0; i < b->s.prefill.len; i++) draw(&b->prefill[i].cost, is_drawn, b->s.seed, number);
    for (size_t i = 0; i < b->s.decode.len; i++) draw(&b->decode[i].cost, is_drawn, b->s.seed, number);
}

/* ---- one run ------------------------------------------------------------------------------------- */

typedef enum due_kind {
    DUE_REQUEST = 0,
    DUE_SAMPLE,
    DUE_FAULT,
    DUE_FAULT_END,
    DUE_SCALE,
    DUE_CHANGE,
    DUE_CHANGE_END
} due_kind;

typedef struct flight {
    uint32_t item, gateway;
    int64_t due_us, sent_us, first_us, last_us, stall_us, stall_at_us;
    uint32_t events;
} flight;

typedef struct player {
    const tool_simulate_bench *b;
    const tool_replay_plan *plan;
    tool_replay_result *r;
    sim_cluster *c;
    int64_t start_ns;
    flight *flight;           /* by request number - 1 */
    size_t sent, ended, next; /* next: of the plan's order */
    size_t waiting;           /* turns whose time is in the calendar */
    struct held {
        uint32_t item;
        int64_t due_us;
    } * held; /* [plan], with a limit of streams: those that wait for one, from first to next */
    size_t held_first, held_next;
    uint64_t *hashes; /* of the prompt in hand */
    size_t hashes_cap;
    size_t prefills; /* nodes that are named so */
    bool is_out_of_memory;
    tool_simulate_scaler scaler;
    uint32_t nodes[TOOL_SIMULATE_MODELS][2]; /* prefill and decode, to begin with */
    uint64_t turns[TOOL_SIMULATE_MODELS];    /* requests of each model so far */
    tool_simulate_door door[TOOL_SIMULATE_DOORS];
    uint32_t served[TOOL_SIMULATE_DOORS]; /* requests that a gateway's connections are taken by */
    uint64_t queued[TOOL_SIMULATE_DOORS], started[TOOL_SIMULATE_DOORS]; /* requests in the sums of `door` */
} player;

static int64_t now_us(const player *p, int64_t now_ns) { return (now_ns - p->start_ns) / 1000; }

static void at(player *p, int64_t us, due_kind kind, uint64_t number)
{
    sim_cluster_at(p->c, p->start_ns + us * 1000, (uint64_t)kind << 32 | number);
}

/* The made-up text that token `at` of a prompt is of, where in it, and where the next text begins: a block of
 * the trace's hashes, what all share, or the prompt's own. As tool_replay_words_draw has it. */
static uint64_t text_at(const tool_replay_plan *plan, const tool_replay_item *item, uint32_t at,
                        uint64_t *ret_place, uint32_t *ret_next)
{
    const uint64_t block = plan->block_tokens, hashed = block * item->hash_len;
    *ret_place = at;
    *ret_next = UINT32_MAX;
    if (at < hashed) {
        *ret_place = at % block;
        *ret_next = (uint32_t)((at / block + 1) * block);
        return bt_rng_u64(plan->hash[item->hash_at + at / block], 2);
    }
    if (at >= item->shared_tokens) return item->stream;
    *ret_next = item->shared_tokens;
    return 0;
}

/* The prompt of an item as hashes of its blocks, each of all tokens up to its end: two prompts have one hash
 * where `baton replay` would send the same tokens. No token exists. */
static bt_prompt_hashes prompt_of(player *p, const tool_replay_item *item)
{
    const size_t len = bt_prompt_hashes_len(item->prompt_tokens, BLOCK_TOKENS);
    uint64_t hash = p->b->s.seed;
    if (len > p->hashes_cap) {
        uint64_t *all = realloc(p->hashes, len * sizeof *all);
        if (!all) return (bt_prompt_hashes){0};
        p->hashes = all;
        p->hashes_cap = len;
    }
    if (item->ids_len)
        bt_prompt_hash(p->hashes, p->plan->ids + item->ids_at, item->prompt_tokens, BLOCK_TOKENS);
    for (uint32_t at = 0; !item->ids_len && at < item->prompt_tokens;) {
        uint64_t place;
        uint32_t next, end = (at / BLOCK_TOKENS + 1) * BLOCK_TOKENS;
        const uint64_t text = text_at(p->plan, item, at, &place, &next);
        if (end > item->prompt_tokens) end = item->prompt_tokens;
        if (next < end) end = next;
        hash = bt_rng_u64(bt_rng_u64(hash ^ text, place), end - at);
        p->hashes[at / BLOCK_TOKENS] = hash;
        at = end;
    }
    return (bt_prompt_hashes){p->hashes, BLOCK_TOKENS};
}

static void fill(void *ud, uint64_t request, gw_submit *ret)
{
    player *p = ud;
    const tool_replay_item *item = &p->plan->item[p->flight[request - 1].item];
    ret->hashes = prompt_of(p, item);
    ret->ids_len = ret->hashes.of ? item->prompt_tokens : 0; /* which the gateway refuses */
    ret->max_tokens = item->output_tokens;
    ret->sampling = (bt_sampling){.top_p = 1, .seed = request};
    ret->share = item->key;
    ret->weight = item->key ? p->plan->key[item->key - 1].weight : 0;
    if (item->key && !p->b->s.shares_prefixes) bt_put64(ret->salt.bytes, p->plan->key[item->key - 1].hash);
    if (!ret->hashes.of) p->is_out_of_memory = true;
}

static void next_turn(player *p, const tool_replay_item *item, int64_t now)
{
    if (item->next == TOOL_REPLAY_NONE) return;
    p->waiting++;
    at(p, now + p->plan->item[item->next].delay_us, DUE_REQUEST, item->next);
}

/* The gateway has no connection for it, as its 503 says. */
static void refuse(player *p, uint32_t item, uint32_t gateway, int64_t due_us)
{
    const tool_replay_item *i = &p->plan->item[item];
    const int64_t now = now_us(p, sim_cluster_now_ns(p->c));
    tool_replay_record one = tool_replay_record_due(item, i->prompt_tokens, i->output_tokens, due_us);
    one.kind = tool_replay_result_kind(p->r, gw_fail_name(GW_FAIL_OVERLOADED));
    one.sent_us = one.end_us = now;
    tool_replay_result_add(p->r, &one);
    p->door[gateway].failed++;
    p->sent++;
    p->ended++;
    if (!p->b->s.concurrency) {
        next_turn(p, i, now);
    } else if (p->next < p->plan->len) { /* by the calendar: many may be refused at once */
        p->waiting++;
        at(p, now, DUE_REQUEST, p->next++);
    }
}

static void send(player *p, uint32_t item, int64_t due_us)
{
    const uint32_t model = p->plan->item[item].model, each = p->b->s.cluster.gateways,
                   gateway = model * each + (uint32_t)(p->turns[model]++ % each);
    if (p->b->s.connections && p->served[gateway] >= p->b->s.connections) {
        refuse(p, item, gateway, due_us);
        return;
    }
    p->served[gateway]++;
    const uint64_t number = sim_cluster_submit_to(p->c, gateway);
    p->flight[number - 1] = (flight){.item = item,     .gateway = gateway,
                                     .due_us = due_us, .sent_us = now_us(p, sim_cluster_now_ns(p->c)),
                                     .first_us = -1,   .last_us = -1};
    p->sent++;
}

/* Now, or as soon as it has a stream. */
static void ask(player *p, uint32_t item)
{
    const int64_t now = now_us(p, sim_cluster_now_ns(p->c));
    if (!p->held || p->sent - p->ended < p->b->s.streams) {
        send(p, item, now);
        return;
    }
    p->held[p->held_next++] = (struct held){item, now};
    p->r->hit_streams_limit = true;
}

static void let_go(player *p)
{
    if (p->held_first == p->held_next) return;
    const struct held h = p->held[p->held_first++];
    send(p, h.item, h.due_us);
}

static void tokens(void *ud, uint64_t request, uint32_t count, int64_t now_ns)
{
    player *p = ud;
    flight *f = &p->flight[request - 1];
    const int64_t now = now_us(p, now_ns), gap = now - f->last_us;
    (void)count;
    if (f->first_us < 0) {
        f->first_us = now;
    } else {
        tool_replay_result_gap(p->r, f->last_us, gap);
        if (gap > f->stall_us) {
            f->stall_us = gap;
            f->stall_at_us = f->last_us;
        }
    }
    f->last_us = now;
    f->events++;
}

static void follow(player *p, const tool_replay_item *item, int64_t now)
{
    if (!p->b->s.concurrency) next_turn(p, item, now);
    else if (p->next < p->plan->len) ask(p, (uint32_t)p->next++);
}

static void count_door(player *p, const flight *f, const tool_replay_record *one)
{
    tool_simulate_door *d = &p->door[f->gateway];
    d->completed += one->kind == TOOL_REPLAY_OK;
    d->failed += one->kind != TOOL_REPLAY_OK;
    if (one->gateway_queue_us >= 0) {
        d->queue_ms += (double)one->gateway_queue_us / 1e3;
        p->queued[f->gateway]++;
    }
    if (one->first_us >= 0) {
        d->ttft_ms += (double)(one->first_us - one->due_us) / 1e3;
        p->started[f->gateway]++;
    }
}

/* Nodes stand in the result as hosts do, and their names end with their number. */
static uint16_t node_of(const player *p, const char *id)
{
    const char *number = strrchr(id, '-');
    const size_t first = strncmp(id, "decode", 6) == 0 ? p->prefills : 0,
                 at = number ? first + strtoul(number + 1, NULL, 10) : SIZE_MAX;
    return at < p->r->nodes && strcmp(p->r->node[at].id, id) == 0 ? (uint16_t)at : TOOL_REPLAY_NOBODY;
}

static void end(void *ud, uint64_t request, const gw_action *how, int64_t now_ns)
{
    player *p = ud;
    const flight *f = &p->flight[request - 1];
    const tool_replay_item *item = &p->plan->item[f->item];
    const bool is_done = how->type == GW_DO_DONE;
    const gw_stats *s = is_done ? &how->u.done.stats : &how->u.fail.stats;
    tool_replay_record one = {.item = f->item,
                              .node = node_of(p, s->prefilled_by),
                              .want_prompt = item->prompt_tokens,
                              .want_output = item->output_tokens,
                              .prompt_tokens = s->prompt_tokens,
                              .cached_tokens = s->cached_tokens,
                              .completion_tokens = s->completion_tokens,
                              .events = f->events,
                              .due_us = f->due_us,
                              .sent_us = f->sent_us,
                              .first_us = f->first_us,
                              .last_us = f->last_us,
                              .end_us = now_us(p, now_ns),
                              .gateway_queue_us = s->gateway_queue_us,
                              .reserve_us = s->reserve_us,
                              .queue_us = s->has_first ? (int64_t)s->queue_us : -1,
                              .server_ttft_us = s->ttft_us,
                              .prefill_us = s->has_first ? (int64_t)s->prefill_us : -1,
                              .exposed_us = s->has_kv ? (int64_t)s->kv_exposed_us : -1,
                              .transfer_us = s->has_kv ? (int64_t)s->kv_transfer_us : -1,
                              .decode_us = s->has_decode ? (int64_t)s->decode_us : -1,
                              .stall_us = f->stall_us,
                              .stall_at_us = f->stall_at_us};
    /* Only its own deadline cancels a request, and the gateway says so. */
    const gw_fail_kind why = is_done                                 ? 0
                             : how->u.fail.kind == GW_FAIL_CANCELLED ? GW_FAIL_TIMEOUT
                                                                     : how->u.fail.kind;
    if (!is_done) one.kind = tool_replay_result_kind(p->r, gw_fail_name(why));
    one.is_short = is_done && s->completion_tokens < item->output_tokens;
    tool_replay_result_add(p->r, &one);
    count_door(p, f, &one);
    p->ended++;
    p->served[f->gateway]--;
    let_go(p);
    follow(p, item, one.end_us);
}

/* ---- what is due --------------------------------------------------------------------------------- */

static void next_arrival(player *p)
{
    if (p->b->s.concurrency || p->next == p->plan->order_len) return;
    const uint32_t item = p->plan->order[p->next++];
    p->waiting++;
    at(p, p->plan->item[item].due_us, DUE_REQUEST, (uint64_t)item | UINT64_C(1) << 31);
}

static void sample(player *p)
{
    tool_replay_sample *s = tool_replay_result_sample(p->r);
    const uint32_t nodes = sim_cluster_nodes(p->c);
    s->at_us = now_us(p, sim_cluster_now_ns(p->c));
    s->in_flight = (uint32_t)(p->sent - p->ended);
    s->waiting = sim_cluster_waiting(p->c);
    s->running = sim_cluster_active(p->c);
    for (uint32_t i = 0; i < nodes && i < p->r->nodes; i++) {
        const sim_cluster_node n = sim_cluster_look(p->c, i);
        if (n.load.slots_total)
            tool_replay_result_slots(p->r, i, n.load.slots_total); /* of one that joined */
        const tool_replay_look look = {
            .slots_used = n.load.slots_used,      .queued = n.load.queued,
            .pages = n.load.pages_total,          .pages_used = n.load.pages_used,
            .windows = n.load.window_pages_total, .windows_used = n.load.window_pages_used};
        tool_replay_result_look(p->r, s, i, &look);
    }
    if (s->in_flight > p->r->most_streams) p->r->most_streams = s->in_flight;
    for (uint32_t i = 0; i < sim_cluster_gateways(p->c); i++) {
        const uint32_t waiting = sim_cluster_look_gateway(p->c, i).waiting;
        if (waiting > p->door[i].most_waiting) p->door[i].most_waiting = waiting;
    }
    if (p->sent > p->ended || p->waiting) at(p, s->at_us + p->r->sample_every_us, DUE_SAMPLE, 0);
}

static void act(player *p, const tool_simulate_fault *f, bool is_end)
{
    const bt_role role = f->where == TOOL_SIMULATE_DECODE ? BT_ROLE_DECODE : BT_ROLE_PREFILL;
    switch (f->what) {
    case TOOL_SIMULATE_KILL: (is_end ? sim_cluster_start : sim_cluster_kill)(p->c, role, f->number); break;
    case TOOL_SIMULATE_STOP: (is_end ? sim_cluster_continue : sim_cluster_stop)(p->c, role, f->number); break;
    case TOOL_SIMULATE_SLOW: sim_cluster_slow(p->c, f->number, is_end ? 1 : f->times); break;
    }
}

static void scale(player *p)
{
    const int64_t us = now_us(p, sim_cluster_now_ns(p->c));
    tool_simulate_scaler_look(&p->scaler, p->c, us);
    if (p->sent > p->ended || p->waiting) at(p, us + TOOL_SIMULATE_LOOK_US, DUE_SCALE, 0);
}

static void change(player *p, uint32_t number, bool is_end)
{
    const int64_t us = now_us(p, sim_cluster_now_ns(p->c));
    if (tool_simulate_scaler_change(p->c, &p->b->s.scale.change[number], is_end)) return;
    at(p, us + TOOL_SIMULATE_LOOK_US, is_end ? DUE_CHANGE_END : DUE_CHANGE, number);
}

static void due(void *ud, uint64_t number, int64_t now_ns)
{
    player *p = ud;
    const uint32_t low = (uint32_t)number;
    (void)now_ns;
    switch ((due_kind)(number >> 32)) {
    case DUE_REQUEST:
        p->waiting--;
        if (low >> 31) next_arrival(p); /* one of the order brings the one behind it */
        ask(p, low & INT32_MAX);
        break;
    case DUE_SAMPLE: sample(p); break;
    case DUE_FAULT: act(p, &p->b->s.faults.fault[low], false); break;
    case DUE_FAULT_END: act(p, &p->b->s.faults.fault[low], true); break;
    case DUE_SCALE: scale(p); break;
    case DUE_CHANGE: change(p, low, false); break;
    case DUE_CHANGE_END: change(p, low, true); break;
    }
}

static void begin_scale(player *p)
{
    const tool_simulate_scale *s = &p->b->s.scale;
    tool_simulate_scaler_begin(&p->scaler, s, p->c);
    for (size_t i = 0; i < s->changes; i++) {
        const tool_simulate_change *k = &s->change[i];
        at(p, k->at_us, DUE_CHANGE, i);
        if (k->for_us) at(p, k->at_us + k->for_us, DUE_CHANGE_END, i);
    }
    if (s->rules || s->changes) at(p, 0, DUE_SCALE, 0);
}

/* Faults behind the last arrival by an hour would only make an idle cluster wait for them. */
static void begin(player *p)
{
    const tool_simulate_faults *f = &p->b->s.faults;
    for (size_t i = 0; i < f->len; i++) {
        at(p, f->fault[i].at_us, DUE_FAULT, i);
        if (f->fault[i].for_us) at(p, f->fault[i].at_us + f->fault[i].for_us, DUE_FAULT_END, i);
    }
    begin_scale(p);
    next_arrival(p);
    for (uint32_t i = 0; i < p->b->s.concurrency && p->next < p->plan->len; i++) ask(p, (uint32_t)p->next++);
    at(p, 0, DUE_SAMPLE, 0);
}

/* ---- what it comes to ---------------------------------------------------------------------------- */

/* A limit says nothing of a node that waits. */
bool tool_simulate_lacks_joules(char ret[TOOL_SIMULATE_NO_JOULES], const bt_profile *device)
{
    const bt_energy_kind kind = bt_energy_of(&device->time, 1, 1, 1, 1).kind;
    if (kind == BT_ENERGY_TERMS) return false;
    (void)snprintf(ret, TOOL_SIMULATE_NO_JOULES,
                   kind == BT_ENERGY_TDP ? "%s has no power but its vendor's limit"
                                         : "%s has no source for what it draws",
                   device->name);
    return true;
}

static void add_node(tool_simulate_facts *f, const sim_cluster_node *n, const double powered_s[2],
                     double busy[2])
{
    const bt_profile *device = &n->cost->profile;
    double joules = 0;
    const bool has_joules = !tool_simulate_lacks_joules(f->no_joules, device);
    for (int i = 0; i < 2; i++) {
        const uint64_t ns = (uint64_t)(powered_s[i] * 1e9 + 0.5);
        const bt_energy e = bt_energy_of(&device->time, sim_cost_device_ns(n->cost, ns), n->done[i].ops,
                                         n->done[i].bytes, sim_cost_device_ns(n->cost, n->done[i].ns));
        f->role_joules[i] += (double)e.nj / 1e9;
        joules += (double)e.nj / 1e9;
    }
    f->joules_bound = bt_energy_bound_both(f->joules_bound, bt_energy_bound(&device->time));
    f->joules += joules;
    f->prefill_node_s += powered_s[0];
    f->decode_node_s += powered_s[1];
    tool_simulate_share *own = &f->share[n->model];
    own->joules = !has_joules || own->joules < 0 ? -1 : own->joules + joules;
    for (size_t i = 0; i < 2; i++) {
        busy[i] += (double)n->done[i].ns / 1e9;
        own->busy_s[i] += (double)n->done[i].ns / 1e9;
        own->node_s[i] += powered_s[i];
    }
    f->valid_rows += n->valid_rows;
    f->rows += n->rows;
    f->again_rows += n->again_rows;
    f->sent_bytes += n->sent_bytes;
    f->preempted.all += n->preempted.all;
    f->preempted.swapped += n->preempted.swapped;
    f->preempted.recomputed += n->preempted.recomputed;
    f->preempted.given_up += n->preempted.given_up;
}

/* The wait of a request before its prompt was computed: at the gateway and in a node. */
static double mean_wait_s(const tool_replay_result *r, size_t from, size_t to)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        const tool_replay_record *o = &r->record[i];
        if (o->kind != TOOL_REPLAY_OK || o->first_us < 0 || o->prefill_us < 0) continue;
        sum += (double)(o->first_us - o->due_us - o->prefill_us) / 1e6;
        n++;
    }
    return n ? sum / (double)n : 0;
}

/* The time that prompts took to compute. */
static double mean_prefill_s(const tool_replay_result *r)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->len; i++) {
        if (r->record[i].kind != TOOL_REPLAY_OK || r->record[i].prefill_us < 0) continue;
        sum += (double)r->record[i].prefill_us / 1e6;
        n++;
    }
    return n ? sum / (double)n : 0;
}

/* The share of slots that nodes of a role have in use, over time; below 0: none of them is in the table of
 * nodes. */
static double slots_share(const tool_replay_result *r, const char *role)
{
    double used = 0, of = 0;
    for (size_t n = 0; n < r->nodes; n++) {
        if (strcmp(r->node[n].role, role) != 0) continue;
        of += (double)r->node[n].slots * (double)r->looks;
        used += r->node[n].slots_used;
    }
    return of > 0 ? used / of : -1;
}

/* The side that requests wait for: a decode node works whenever it has a sequence, so it is not by work
 * alone. */
static bool is_prefill_short(const tool_simulate_facts *f, const tool_replay_result *r)
{
    const double prefill = slots_share(r, "prefill"), decode = slots_share(r, "decode");
    return prefill < 0 || decode < 0 ? f->prefill_busy > f->decode_busy : prefill > decode;
}

/* Refused for want of room, waits that keep growing to the end, or nodes that never rest while requests wait
 * longer than their prompts take: near its limit the length of a queue varies by chance. */
static void judge(tool_simulate_facts *f, const tool_replay_result *r, bool is_closed)
{
    static const char *const kinds[] = {"overloaded", "timeout", "no_node"};
    const bool is_prefill = is_prefill_short(f, r);
    const char *side = is_prefill ? "prefill" : "decode";
    const double busy = 100 * (is_prefill ? f->prefill_busy : f->decode_busy);
    uint64_t refused = 0;
    for (size_t i = 1; i < r->kinds; i++)
        for (size_t k = 0; k < 3; k++)
            if (strcmp(r->kind[i], kinds[k]) == 0) refused += r->kind_count[i];
    const double early = mean_wait_s(r, r->len / QUARTERS, r->len / 2),
                 late = mean_wait_s(r, r->len - r->len / QUARTERS, r->len), all = mean_wait_s(r, 0, r->len);
    /* who computes prompts */
    const double at_work = f->prefill_nodes ? f->prefill_busy : f->decode_busy;
    if (refused * 100 > r->len)
        (void)snprintf(f->overload, sizeof f->overload,
                       "%" PRIu64 " of %zu requests found no room; %s nodes work %.0f %% of the time",
                       refused, r->len, side, busy);
    else if (!is_closed && late > 1 && late > 2 * early)
        (void)snprintf(
            f->overload, sizeof f->overload,
            "requests wait longer and longer, %.1f s in the second quarter and %.1f s in the last; %s "
            "nodes work %.0f %% of the time",
            early, late, side, busy);
    else if (!is_closed && at_work >= NO_REST && all > 1 && all > 2 * mean_prefill_s(r))
        (void)snprintf(f->overload, sizeof f->overload,
                       "%s nodes work %.0f %% of the time, and requests wait %.1f s for them",
                       f->prefill_nodes ? "prefill" : "decode", 100 * at_work, all);
    f->is_overloaded = f->overload[0] != 0;
}

static void sum_doors(tool_simulate_facts *f, const player *p, int64_t until_ns)
{
    f->doors = sim_cluster_gateways(p->c);
    for (uint32_t i = 0; i < f->doors; i++) {
        const sim_cluster_gateway g = sim_cluster_look_gateway(p->c, i);
        tool_simulate_door *d = &f->door[i];
        *d = p->door[i];
        d->model = g.model;
        d->requests = g.requests;
        d->queue_ms = p->queued[i] ? d->queue_ms / (double)p->queued[i] : 0;
        d->ttft_ms = p->started[i] ? d->ttft_ms / (double)p->started[i] : 0;
        d->busy = until_ns > p->start_ns ? (double)g.cpu_ns / (double)(until_ns - p->start_ns) : 0;
    }
}

static void sum_up(tool_simulate_facts *ret, player *p)
{
    tool_simulate_facts f = {.joules_bound = ""};
    const tool_simulate_scaler *k = &p->scaler;
    const char *why;
    double busy[2] = {0};
    const int64_t until_ns = p->start_ns + p->r->end_us * 1000;
    for (uint32_t i = 0; i < sim_cluster_nodes(p->c); i++) {
        const sim_cluster_node n = sim_cluster_look_at(p->c, i, until_ns);
        const double powered_s[] = {(double)sim_cluster_powered_ns(p->c, i, BT_ROLE_PREFILL, until_ns) / 1e9,
                                    (double)sim_cluster_powered_ns(p->c, i, BT_ROLE_DECODE, until_ns) / 1e9};
        add_node(&f, &n, powered_s, busy);
    }
    if (f.prefill_node_s > 0) f.prefill_busy = busy[0] / f.prefill_node_s;
    if (f.decode_node_s > 0) f.decode_busy = busy[1] / f.decode_node_s;
    f.prefill_nodes = k->count[0].prefill;
    f.decode_nodes = k->count[0].decode;
    f.counts = k->counts;
    memcpy(f.count, k->count, k->counts * sizeof *k->count);
    memcpy(f.most, k->most, sizeof f.most);
    memcpy(f.least, k->least, sizeof f.least);
    f.refused_roles = sim_cluster_refused_roles(p->c, &why);
    (void)snprintf(f.refused_why, sizeof f.refused_why, "%s", why);
    f.virtual_s = (double)p->r->end_us / 1e6;
    f.events = sim_cluster_events(p->c);
    f.digest = sim_cluster_digest(p->c);
    sum_doors(&f, p, until_ns);
    for (size_t i = 0; i < TOOL_SIMULATE_MODELS; i++)
        memcpy(f.share[i].nodes, p->nodes[i], sizeof p->nodes[i]);
    judge(&f, p->r, p->b->s.concurrency > 0);
    *ret = f;
}

static size_t groups_of(sim_cluster_group *ret, size_t n, const tool_simulate_setup *s,
                        const tool_simulate_side *side, const tool_simulate_priced *prices,
                        const uint32_t *pages, const uint32_t *nodes)
{
    for (size_t i = 0; i < side->len; i++) {
        const tool_simulate_group *g = &side->group[i];
        const uint64_t swap = s->swap_memory_bytes / (prices[i].cost.kv_bytes * PAGE_TOKENS);
        ret[n++] = (sim_cluster_group){.cost = &prices[i].cost,
                                       .device = g->profile.name,
                                       .nodes = nodes ? nodes[i] : g->least,
                                       .pages = pages[i],
                                       .swap_pages = swap > UINT32_MAX ? UINT32_MAX : (uint32_t)swap,
                                       .model = g->model,
                                       .dims = tool_simulate_dims(s, g->model)};
    }
    return n;
}

/* The groups of one side (prefill or decode), then a group for each rule that may add nodes to that side. */
typedef struct groups {
    sim_cluster_group group[2 * TOOL_SIMULATE_GROUPS + TOOL_SIMULATE_RULES];
    size_t len;
} groups;

/* Decode nodes of a model without prefill nodes compute its prompts. */
static void let_prefill(groups *decode, const groups *prefill)
{
    for (size_t i = 0; i < decode->len; i++) {
        uint32_t nodes = 0;
        for (size_t k = 0; k < prefill->len; k++)
            nodes += prefill->group[k].model == decode->group[i].model ? prefill->group[k].nodes : 0;
        decode->group[i].can_prefill = nodes == 0;
    }
}

/* Nodes that rules may add stand behind all others of their role, each as the last of its model. */
static void add_spare(groups *g, const tool_simulate_scale *s, bt_role role)
{
    const size_t len = g->len;
    for (uint32_t model = 0; model < TOOL_SIMULATE_MODELS; model++) {
        const sim_cluster_group *last = NULL;
        uint32_t now = 0;
        for (size_t i = 0; i < len; i++) {
            if (g->group[i].model != model) continue;
            now += g->group[i].nodes;
            last = &g->group[i];
        }
        const uint32_t spare = tool_simulate_scale_spare(s, role, model, now);
        if (!last || !spare) continue;
        g->group[g->len] = *last;
        g->group[g->len].nodes = 0;
        g->group[g->len++].spare = spare;
    }
}

static bt_err open_cluster(player *p, const uint32_t *prefill, const uint32_t *decode, groups side[2],
                           bt_fault *fault)
{
    const tool_simulate_bench *b = p->b;
    const tool_simulate_setup *s = &b->s;
    sim_cluster_options o = s->cluster;
    groups *first = &side[s->is_colocated], *second = &side[1];
    first->len = groups_of(first->group, 0, s, &s->prefill, b->prefill, b->prefill_pages, prefill);
    second->len = groups_of(second->group, second->len, s, &s->decode, b->decode, b->decode_pages, decode);
    if (!s->is_colocated) let_prefill(second, first);
    add_spare(&side[0], &s->scale, BT_ROLE_PREFILL);
    add_spare(&side[1], &s->scale, BT_ROLE_DECODE);
    o.seed = s->seed;
    o.pf.prompts = o.dc.prompts = BT_PROMPT_BY_HASHES;
    o.prefill = side[0].group;
    o.prefills = side[0].len;
    o.decode = side[1].group;
    o.decodes = side[1].len;
    if (s->scale.start_us >= 0) o.start_ns = s->scale.start_us * 1000;
    o.can_prefill = s->is_colocated || o.gw.local_below_tokens > 0;
    o.mixes = s->is_colocated;
    o.link = s->link;
    o.model = s->model;
    o.kv_elem_bytes = s->kv_elem_bytes;
    o.ctx_tokens = s->ctx_tokens;
    o.dc.swap_pages = 0; /* each group has its own */
    const sim_cluster_client client = {p, fill, tokens, end, due};
    return sim_cluster_new(&p->c, &o, &client, fault);
}

/* A track for each node, or for each kind of them: role, device and model. */
static void name_nodes(player *p)
{
    const uint32_t nodes = sim_cluster_nodes(p->c);
    for (uint32_t i = 0; i < nodes; i++) {
        const sim_cluster_node n = sim_cluster_look(p->c, i);
        const char *role = n.role == BT_ROLE_PREFILL ? "prefill" : "decode";
        char kind[72];
        (void)snprintf(kind, sizeof kind, "%s %.30s%s%.30s", role, n.device, p->b->s.mores ? " " : "",
                       p->b->s.mores ? tool_simulate_dims(&p->b->s, n.model)->name : "");
        if (sim_cluster_state_of(p->c, i) != SIM_CLUSTER_OFF) p->nodes[n.model][n.role == BT_ROLE_DECODE]++;
        p->prefills += n.born == BT_ROLE_PREFILL;
        const size_t at =
            tool_replay_result_node_of(p->r, n.id, role, nodes > TOOL_REPLAY_TRACKS ? kind : n.id);
        if (at < TOOL_REPLAY_MAX_NODES) tool_replay_result_slots(p->r, at, n.load.slots_total);
    }
}

bt_err tool_simulate_play(tool_simulate_facts *ret, tool_replay_result *r, const tool_simulate_bench *b,
                          const tool_replay_plan *plan, const uint32_t *prefill, const uint32_t *decode,
                          bt_fault *fault)
{
    groups side[2] = {{.len = 0}, {.len = 0}};
    player p = {.b = b, .plan = plan, .r = r, .flight = malloc((plan->len ? plan->len : 1) * sizeof(flight))};
    if (b->s.streams) p.held = malloc((plan->len ? plan->len : 1) * sizeof *p.held);
    bt_err e = p.flight && (p.held || !b->s.streams)
                   ? open_cluster(&p, prefill, decode, side, fault)
                   : bt_fail(fault, BT_ENOMEM, "out of memory for %zu requests", plan->len);
    if (e == BT_OK) {
        p.start_ns = sim_cluster_now_ns(p.c);
        name_nodes(&p);
        begin(&p);
        e = sim_cluster_run(p.c, INT64_MAX, fault);
    }
    if (e == BT_OK && p.is_out_of_memory) e = bt_fail(fault, BT_ENOMEM, "out of memory for a prompt");
    if (e == BT_OK) sum_up(ret, &p);
    sim_cluster_free(p.c);
    free(p.flight);
    free(p.held);
    free(p.hashes);
    return e;
}
