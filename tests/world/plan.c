/* Draws worlds. See plan.h. */
#include "tests/world/plan.h"
#include "base/rng.h"

#include <string.h>

enum { SECOND = 1000000 };

typedef struct dice {
    uint64_t seed, n;
} dice;

static uint64_t draw(dice *d) { return bt_rng_u64(d->seed, d->n++); }
static uint32_t between(dice *d, uint32_t lo, uint32_t hi)
{
    return lo + (uint32_t)(draw(d) % (hi - lo + 1));
}
static bool one_in(dice *d, uint32_t n) { return draw(d) % n == 0; }
static uint32_t of4(dice *d, uint32_t a, uint32_t b, uint32_t c, uint32_t e)
{
    const uint32_t all[4] = {a, b, c, e};
    return all[draw(d) % 4];
}

const char *plan_role_name(bt_role role)
{
    return role == BT_ROLE_GATEWAY ? "gateway" : role == BT_ROLE_PREFILL ? "prefill" : "decode";
}

static void draw_faults(dice *d, sim_options *o)
{
    static const double ratios[4] = {0, 0.003, 0.02, 0.06};
    const uint32_t level = one_in(d, 3) ? 0 : between(d, 1, 3);
    const double r = ratios[level];
    sim_faults *f = &o->faults;
    f->delay_min_us = of4(d, 50, 100, 500, 2000);
    f->delay_max_us = f->delay_min_us + of4(d, 0, 300, 2000, 20000);
    if (level == 0) return;
    if (!one_in(d, 3)) f->drop_ratio = r;
    if (!one_in(d, 3)) f->repeat_ratio = r;
    if (!one_in(d, 3)) f->reorder_ratio = r;
    if (!one_in(d, 3)) f->corrupt_ratio = r;
    if (!one_in(d, 3)) f->block_drop_ratio = r;
    if (!one_in(d, 3)) f->block_repeat_ratio = r;
    if (!one_in(d, 3)) f->block_reorder_ratio = r;
    if (!one_in(d, 3)) f->block_corrupt_ratio = r;
    if (one_in(d, 3)) {
        f->slow_ratio = r;
        f->slow_us = of4(d, 10000, 100000, 1000000, 3000000);
    }
    o->accept_us = level == 3 ? 28 * SECOND : level == 2 ? 22 * SECOND : 15 * SECOND;
    if (level == 3 || f->slow_us > 100000) o->accept_us = INT64_MAX / 2; /* then only after the faults */
}

static void draw_world(dice *d, sim_options *o)
{
    o->gateways = one_in(d, 4) ? 2 : 1;
    o->prefills = of4(d, 1, 1, 2, 3);
    o->decodes = of4(d, 1, 1, 2, 3);
    o->slots = between(d, 1, 6);
    o->pf.share_tokens = o->slots % 2 ? 0 : 100;
    o->pf.short_tokens = o->seed % 3 == 0 ? 0 : o->seed % 3 == 1 ? 24 : 80;
    o->page_tokens = of4(d, 16, 16, 32, 64);
    o->ctx_tokens = of4(d, 64, 128, 256, one_in(d, 2) ? 1024 : 512);
    const uint32_t least = o->ctx_tokens / o->page_tokens;
    o->decode_pages = one_in(d, 2) ? least + between(d, 0, least) : least * (o->slots + 1);
    o->pages_total = (o->ctx_tokens + 63) / 64 * between(d, 1, o->slots + 1);
    o->growth_tokens = of4(d, 4, 16, 64, 64);
    o->swap_pages = of4(d, 0, 0, 8, 200);
    o->can_prefill = one_in(d, 3);
    if (o->can_prefill) o->local_below_tokens = of4(d, 0, 20, 60, o->ctx_tokens);
    if (o->can_prefill && one_in(d, 4)) o->prefills = 0;
    o->mixes = o->can_prefill && o->seed % 2;
    o->prefixes = of4(d, 0, 1, 3, 8);
    o->rules = o->prefills > 1 && one_in(d, 3) ? 2 : 1;
    if (one_in(d, 6)) o->forge_ratio = 0.02 * between(d, 1, 10);
    o->queue_max = of4(d, 4, 16, 64, 64);
    o->window_bytes = 1024u << between(d, 0, 7);
    if (one_in(d, 3)) o->blocked_ratio = 0.02 * between(d, 1, 10);
    o->inbox_max = of4(d, 4, 30, 1000, 1000);
    if (one_in(d, 3)) o->late_us = of4(d, 100, 1000, 10000, 50000);
    o->gw.policy = (gw_policy)of4(d, GW_POLICY_LEAST_LOAD, GW_POLICY_LEAST_LOAD, GW_POLICY_ROUND_ROBIN,
                                  GW_POLICY_PREFIX);
    o->gw.lease_ms = of4(d, 10000, 10000, 5000, 3000);
    /* by the seed, so that worlds of old seeds stay what they were */
    static const uint32_t waiting[] = {256, 256, 4, 1, 0}, overtake[] = {32, 4, 1, 0};
    o->dc.waiting_max = waiting[o->seed % 5];
    o->dc.overtake_max = overtake[o->seed % 4];
    o->dc.overtake_us = o->seed % 3 ? 2 * SECOND : SECOND / 20;
    draw_faults(d, o);
    if (o->rules > 1)
        o->accept_us = INT64_MAX / 2; /* a request that has tokens waits for nodes of its class */
}

static plan_unit *add(plan *p, plan_kind kind)
{
    if (p->units_len == PLAN_UNITS) p->units_len--;
    plan_unit *u = &p->units[p->units_len++];
    *u = (plan_unit){.kind = kind};
    return u;
}

static void draw_requests(dice *d, plan *p)
{
    const sim_options *o = &p->world;
    const uint32_t n = one_in(d, 8) ? between(d, 30, 70) : between(d, 2, 24);
    const bool at_once = one_in(d, 3);
    const uint32_t longest = one_in(d, 3) ? o->ctx_tokens / 4 : o->ctx_tokens - 2;
    for (uint32_t i = 0; i < n; i++) {
        plan_unit *u = add(p, PLAN_REQUEST);
        u->at_us = at_once ? (int64_t)between(d, 0, 50000) : (int64_t)(draw(d) % (uint64_t)p->faults_end_us);
        u->index = between(d, 0, o->gateways - 1);
        u->prompt_tokens = between(d, 1, longest);
        if (u->prompt_tokens > 16 && u->prompt_tokens % 3 == 0)
            u->prompt_tokens -= u->prompt_tokens % 16; /* an edge of blocks, often of pages */
        u->max_tokens = between(d, 1,
                                one_in(d, 4) ? o->ctx_tokens - u->prompt_tokens
                                             : (o->ctx_tokens - u->prompt_tokens + 3) / 4);
        if (!one_in(d, 5)) continue;
        u->until_us = u->at_us + (int64_t)(draw(d) % of4(d, 5000, 50000, 500000, 10 * SECOND));
        u->is_early = one_in(d, 2);
    }
}

static void draw_process_fault(dice *d, plan *p)
{
    const sim_options *o = &p->world;
    const uint32_t kind = between(d, 0, 9);
    plan_unit *u = add(p, kind < 4 ? PLAN_KILL : kind < 8 ? PLAN_STOP : PLAN_DRAIN);
    u->at_us = (int64_t)(draw(d) % (uint64_t)p->faults_end_us);
    u->role = one_in(d, 10)                 ? BT_ROLE_GATEWAY
              : one_in(d, 2) && o->prefills ? BT_ROLE_PREFILL
                                            : BT_ROLE_DECODE;
    u->index = between(d, 0,
                       (u->role == BT_ROLE_GATEWAY   ? o->gateways
                        : u->role == BT_ROLE_PREFILL ? o->prefills
                                                     : o->decodes) -
                           1);
    u->until_us = u->at_us + (int64_t)(draw(d) % of4(d, 200000, 3 * SECOND, 12 * SECOND, 40 * SECOND));
    if (u->kind == PLAN_KILL && one_in(d, 6)) u->until_us = 0;
}

static void draw_cut(dice *d, plan *p)
{
    const sim_options *o = &p->world;
    const uint32_t all = o->gateways + o->prefills + o->decodes;
    plan_unit *u = add(p, one_in(d, 2) ? PLAN_CUT : PLAN_CUT_BOTH);
    u->at_us = (int64_t)(draw(d) % (uint64_t)p->faults_end_us);
    u->until_us = u->at_us + 1 + (int64_t)(draw(d) % of4(d, 100000, 1 * SECOND, 8 * SECOND, 40 * SECOND));
    u->from = between(d, 0, all - 1);
    do u->to = between(d, 0, all - 1);
    while (u->to == u->from);
    u->holds = one_in(d, 2);
}

/* All nodes of a role die, and stay dead for longer than a request waits for them. */
static void draw_blackout(dice *d, plan *p)
{
    const sim_options *o = &p->world;
    const bt_role role = o->prefills && !o->can_prefill && one_in(d, 2) ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
    const uint32_t count = role == BT_ROLE_PREFILL ? o->prefills : o->decodes;
    for (uint32_t i = 0; i < count; i++) {
        plan_unit *u = add(p, PLAN_KILL);
        u->at_us = (int64_t)between(d, 0, 5 * SECOND);
        u->role = role;
        u->index = i;
    }
}

static void draw_reset(dice *d, plan *p)
{
    const sim_options *o = &p->world;
    plan_unit *u = add(p, PLAN_RESET);
    u->at_us = (int64_t)(draw(d) % (uint64_t)p->faults_end_us);
    u->until_us = u->at_us + 1 + (int64_t)(draw(d) % of4(d, 20000, 600000, 1500000, 8 * SECOND));
    u->from = between(d, o->gateways, o->gateways + o->prefills + o->decodes - 1);
    u->to = between(d, 0, o->gateways - 1);
}

/* Connections that end, of which the gateway hears as soon as a packet could tell it. Dice of their own: what
 * a seed means besides does not depend on them. Their number was searched for, so that the seeds kept in
 * simtest.c have no such end: they mean something without. */
static void draw_ends(plan *p)
{
    dice d = {.seed = p->world.seed * UINT64_C(0xd1342543de82ef95) + 71184};
    for (uint32_t i = 0; i < p->units_len; i++)
        p->units[i].is_told =
            p->units[i].kind == PLAN_KILL && p->units[i].role != BT_ROLE_GATEWAY && one_in(&d, 2);
    for (uint32_t n = one_in(&d, 3) ? between(&d, 1, one_in(&d, 3) ? 12 : 3) : 0; n > 0; n--)
        draw_reset(&d, p);
}

/* Prompts of several salts, in worlds where prompts begin alike. Dice of their own, whose number was searched
 * for likewise: in the worlds of the kept seeds there is one. */
enum { SALT_DICE = 94 };

static void draw_salts(sim_options *o)
{
    dice d = {.seed = o->seed * UINT64_C(0xe7037ed1a0b428db) + SALT_DICE};
    o->salts = one_in(&d, 3) && o->prefixes ? between(&d, 2, 4) : 1;
}

/* Layers with windows, whose rows go back while layers that see all keep theirs. Dice of their own, whose
 * number was searched for likewise. */
enum { WINDOW_DICE = 7 };

static void draw_windows(sim_options *o)
{
    dice d = {.seed = o->seed * UINT64_C(0x589965cc75374cc3) + WINDOW_DICE};
    if (!one_in(&d, 3)) return;
    const uint32_t longest = (o->ctx_tokens + o->page_tokens - 1) / o->page_tokens,
                   least = longest < o->decode_pages ? longest : o->decode_pages;
    o->kv_window = of4(&d, 1, between(&d, 2, 40), 64, between(&d, 65, 300));
    o->global_every = of4(&d, 0, 2, 3, 3);
    o->window_pages = one_in(&d, 2) ? least + between(&d, 0, least) : least * (o->slots + 1);
    o->swap_window_pages = one_in(&d, 2) ? o->swap_pages : (o->swap_pages + 1) / 2;
}

/* Clusters that change: more nodes, up to three gateways, nodes that come later, go for good and change
 * roles. Dice of their own, whose number was searched for likewise. */
enum { ELASTIC_DICE = 20 };

static bool draw_is_elastic(dice *d, uint64_t seed)
{
    *d = (dice){.seed = seed * UINT64_C(0xa0761d6478bd642f) + ELASTIC_DICE};
    return one_in(d, 3);
}

static void draw_elastic_world(dice *d, sim_options *o)
{
    o->gateways = between(d, 1, 3);
    o->prefills = between(d, 1, 4);
    o->decodes = between(d, 1, 4);
    o->rules = 1; /* a role changes within a class */
    o->load_us = of4(d, 1000, 100000, 1 * SECOND, 3 * SECOND);
}

static void draw_change(dice *d, plan *p)
{
    const sim_options *o = &p->world;
    const uint32_t kind = between(d, 0, 9);
    plan_unit *u = add(p, kind < 5 ? PLAN_ROLE : kind < 8 ? PLAN_JOIN : PLAN_LEAVE);
    u->role = one_in(d, 2) ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
    u->index = between(d, 0, (u->role == BT_ROLE_PREFILL ? o->prefills : o->decodes) - 1);
    u->at_us = u->kind == PLAN_JOIN ? 0 : (int64_t)(draw(d) % (uint64_t)p->faults_end_us);
    u->until_us = u->at_us + 1 + (int64_t)(draw(d) % of4(d, 200000, 3 * SECOND, 12 * SECOND, 40 * SECOND));
    u->from = between(d, 0, o->gateways - 1);
    u->as = one_in(d, 2) ? BT_ROLE_PREFILL : BT_ROLE_DECODE;
}

static void draw_changes(dice *d, plan *p)
{
    for (uint32_t n = one_in(d, 3) ? between(d, 4, 16) : between(d, 1, 4); n > 0; n--) draw_change(d, p);
}

/* Two nodes of one name, in worlds where either can serve in the other's place. Dice of their own, whose
 * number was searched for likewise. */
enum { TWIN_DICE = 25 };
static void draw_twins(plan *p)
{
    sim_options *o = &p->world;
    dice d = {.seed = o->seed * UINT64_C(0xe7037ed1a0b428db) + TWIN_DICE};
    if (!one_in(&d, 6) || o->rules > 1) return;
    const bool is_decode = o->decodes > 1 && (o->prefills < 2 || one_in(&d, 2));
    if (is_decode || o->prefills > 1) o->twins = is_decode ? BT_ROLE_DECODE : BT_ROLE_PREFILL;
}

static void draw_rest(plan *ret, uint64_t seed)
{
    dice d = {.seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 77};
    *ret = (plan){.world = sim_options_defaults(seed)};
    draw_world(&d, &ret->world);
    dice elastic;
    const bool is_elastic = draw_is_elastic(&elastic, seed);
    if (is_elastic) draw_elastic_world(&elastic, &ret->world);
    else draw_twins(ret);
    ret->faults_end_us = (int64_t)of4(&d, 300000, 3 * SECOND, 10 * SECOND, 60 * SECOND);
    const bool is_black = one_in(&d, 16);
    if (is_black) ret->faults_end_us = 70 * (int64_t)SECOND;
    ret->leaves_dead = one_in(&d, 4) && ret->world.rules == 1;
    draw_requests(&d, ret);
    if (is_elastic) draw_changes(&elastic, ret);
    if (is_black) draw_blackout(&d, ret);
    if (is_black || one_in(&d, 4)) return;
    const uint32_t faults = one_in(&d, 3) ? between(&d, 0, 12) : between(&d, 0, 3),
                   cuts = one_in(&d, 3) ? between(&d, 0, 12) : between(&d, 0, 2);
    for (uint32_t i = 0; i < faults; i++) draw_process_fault(&d, ret);
    for (uint32_t i = 0; i < cuts; i++) draw_cut(&d, ret);
}

/* Keys, of which the first has most requests, and floods of one key. Dice of their own, whose number was
 * searched for likewise. */
static void draw_keys(plan *p)
{
    sim_options *o = &p->world;
    dice d = {.seed = o->seed * UINT64_C(0x8cb92ba72f3d8dd7) + 112};
    if (!one_in(&d, 4)) return;
    o->keys = between(&d, 2, SIM_KEYS);
    for (uint32_t i = 0; i < p->units_len; i++) {
        plan_unit *u = &p->units[i];
        if (u->kind != PLAN_REQUEST) continue;
        u->key = one_in(&d, 2) ? 1 : between(&d, 1, o->keys);
        if (one_in(&d, 3)) u->priority = (int32_t)between(&d, 0, 4) - 2;
    }
    for (uint32_t n = between(&d, 0, 2); n > 0; n--) {
        plan_unit *u = add(p, PLAN_FLOOD);
        u->at_us = (int64_t)(draw(&d) % (uint64_t)p->faults_end_us);
        u->index = between(&d, 0, o->gateways - 1);
        u->key = between(&d, 1, o->keys);
        u->times = between(&d, 5, 40);
        u->prompt_tokens = between(&d, 1, o->ctx_tokens / 4);
        u->max_tokens = between(&d, 1, o->ctx_tokens / 4);
    }
}

void plan_draw(plan *ret, uint64_t seed)
{
    draw_rest(ret, seed);
    draw_ends(ret);
    draw_salts(&ret->world);
    draw_windows(&ret->world);
    draw_keys(ret);
}

void plan_say_unit(FILE *out, const plan_unit *u)
{
    const double at = (double)u->at_us / 1e6, until = (double)u->until_us / 1e6;
    switch (u->kind) {
    case PLAN_REQUEST:
        fprintf(out, "%10.6f  request of %u + %u tokens to gateway %u", at, u->prompt_tokens, u->max_tokens,
                u->index);
        if (u->key) fprintf(out, " of key %u, priority %d", u->key, (int)u->priority);
        if (u->until_us) fprintf(out, "; %s at %.6f", u->is_early ? "ended early" : "its client goes", until);
        break;
    case PLAN_FLOOD:
        fprintf(out, "%10.6f  %u requests of %u + %u tokens of key %u to gateway %u", at, u->times,
                u->prompt_tokens, u->max_tokens, u->key, u->index);
        break;
    case PLAN_KILL:
        fprintf(out, "%10.6f  kill %s %u", at, plan_role_name(u->role), u->index);
        if (u->until_us) fprintf(out, ", start it at %.6f", until);
        if (u->is_told) fputs("; its connections end", out);
        break;
    case PLAN_STOP:
        fprintf(out, "%10.6f  stop %s %u until %.6f", at, plan_role_name(u->role), u->index, until);
        break;
    case PLAN_DRAIN:
        fprintf(out, "%10.6f  drain %s %u, start it at %.6f", at, plan_role_name(u->role), u->index, until);
        break;
    case PLAN_ROLE:
        fprintf(out, "%10.6f  gateway %u asks %s %u to serve as %s; it drains until %.6f", at, u->from,
                plan_role_name(u->role), u->index, plan_role_name(u->as), until);
        break;
    case PLAN_JOIN:
        fprintf(out, "%10.6f  %s %u joins at %.6f", at, plan_role_name(u->role), u->index, until);
        break;
    case PLAN_LEAVE:
        fprintf(out, "%10.6f  %s %u leaves for good, by %.6f", at, plan_role_name(u->role), u->index, until);
        break;
    case PLAN_CUT:
    case PLAN_CUT_BOTH:
        fprintf(out, "%10.6f  cut %u -> %u%s until %.6f%s", at, u->from, u->to,
                u->kind == PLAN_CUT ? "" : " and back", until, u->holds ? ", packets wait" : "");
        break;
    case PLAN_RESET:
        fprintf(out, "%10.6f  end the connection of %u and %u until %.6f", at, u->from, u->to, until);
        break;
    }
    fputc('\n', out);
}

void plan_say_world(FILE *out, const plan *p)
{
    const sim_options *o = &p->world;
    const sim_faults *f = &o->faults;
    fprintf(out,
            "gateways=%u prefills=%u decodes=%u slots=%u ctx=%u prefill_pages=%u decode_pages=%u "
            "page_tokens=%u growth=%u swap=%u can_prefill=%d mixes=%d "
            "local_below=%u prefixes=%u queue=%u window=%llu blocked=%.2f inbox=%u late_us=%lld lease_ms=%u "
            "rules=%u forge=%.2f load_us=%lld share=%u short=%u salts=%u keys=%u twins=%s waiting=%u "
            "overtake=%u,%lld us kv_window=%u every=%u window_pages=%u,%u\n",
            o->gateways, o->prefills, o->decodes, o->slots, o->ctx_tokens, o->pages_total, o->decode_pages,
            o->page_tokens, o->growth_tokens, o->swap_pages, o->can_prefill, o->mixes, o->local_below_tokens,
            o->prefixes, o->queue_max, (unsigned long long)o->window_bytes, o->blocked_ratio, o->inbox_max,
            (long long)o->late_us, o->gw.lease_ms, o->rules, o->forge_ratio, (long long)o->load_us,
            o->pf.share_tokens, o->pf.short_tokens, o->salts, o->keys,
            o->twins ? plan_role_name(o->twins) : "none", o->dc.waiting_max, o->dc.overtake_max,
            (long long)o->dc.overtake_us, o->kv_window, o->global_every, o->window_pages,
            o->swap_window_pages);
    fprintf(out,
            "messages: drop=%.3f repeat=%.3f reorder=%.3f corrupt=%.3f; blocks: drop=%.3f repeat=%.3f "
            "reorder=%.3f corrupt=%.3f; slow=%.3f by %lld us; "
            "delay=%lld..%lld us; faults end at %.6f\n",
            f->drop_ratio, f->repeat_ratio, f->reorder_ratio, f->corrupt_ratio, f->block_drop_ratio,
            f->block_repeat_ratio, f->block_reorder_ratio, f->block_corrupt_ratio, f->slow_ratio,
            (long long)f->slow_us, (long long)f->delay_min_us, (long long)f->delay_max_us,
            (double)p->faults_end_us / 1e6);
}
