/* Carries out a plan and judges it. See run.h. */
#include "tests/world/run.h"

#include <stdlib.h>
#include <string.h>

enum { SECOND = 1000000, ANSWERED_US = 120 * SECOND, IDLE_US = 10 * SECOND, PROBES = 3 };

typedef struct moment {
    int64_t at_us;
    uint32_t unit;
    bool is_end;
} moment;

static int by_time(const void *x, const void *y)
{
    const moment *a = x, *b = y;
    if (a->at_us != b->at_us) return a->at_us < b->at_us ? -1 : 1;
    if (a->unit != b->unit) return a->unit < b->unit ? -1 : 1;
    return (int)a->is_end - (int)b->is_end;
}

static int by_id(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

static void kill_one(sim_world *w, const plan_unit *u, const sim_options *o)
{
    const bool was_alive = sim_world_is_alive(w, u->role, u->index);
    const uint32_t number = o->gateways + (u->role == BT_ROLE_DECODE ? o->prefills : 0) + u->index;
    sim_world_kill(w, u->role, u->index);
    for (uint32_t g = 0; was_alive && u->is_told && g < o->gateways; g++) sim_world_end_link(w, g, number);
}

static void begin(sim_world *w, const plan_unit *u, const sim_options *o, uint64_t *request)
{
    switch (u->kind) {
    case PLAN_REQUEST:
        *request = sim_world_submit_as(w, u->key, u->priority, u->index, u->prompt_tokens, u->max_tokens);
        break;
    case PLAN_FLOOD:
        for (uint32_t i = 0; i < u->times; i++)
            (void)sim_world_submit_as(w, u->key, 0, u->index, u->prompt_tokens, u->max_tokens);
        break;
    case PLAN_KILL: kill_one(w, u, o); break;
    case PLAN_STOP: sim_world_stop(w, u->role, u->index); break;
    case PLAN_DRAIN: sim_world_drain(w, u->role, u->index); break;
    case PLAN_ROLE: sim_world_role(w, u->from, u->role, u->index, u->as); break;
    case PLAN_JOIN: sim_world_kill(w, u->role, u->index); break;
    case PLAN_LEAVE: sim_world_drain(w, u->role, u->index); break;
    case PLAN_CUT_BOTH:
        sim_world_cut(w, u->to, u->from, u->until_us - u->at_us, u->holds);
        sim_world_cut(w, u->from, u->to, u->until_us - u->at_us, u->holds);
        break;
    case PLAN_CUT: sim_world_cut(w, u->from, u->to, u->until_us - u->at_us, u->holds); break;
    case PLAN_RESET:
        sim_world_cut(w, u->to, u->from, u->until_us - u->at_us, false);
        sim_world_cut(w, u->from, u->to, u->until_us - u->at_us, false);
        sim_world_end_link(w, u->to, u->from);
        break;
    }
}

static void end(sim_world *w, const plan_unit *u, uint64_t request)
{
    if (u->kind == PLAN_REQUEST && u->is_early) sim_world_finish_early(w, request);
    else if (u->kind == PLAN_REQUEST) sim_world_cancel(w, request);
    else if (u->kind == PLAN_STOP) sim_world_continue(w, u->role, u->index);
    else if (u->kind == PLAN_DRAIN) sim_world_drain_over(w, u->role, u->index);
    else if (u->kind == PLAN_ROLE || u->kind == PLAN_LEAVE) sim_world_drain_over(w, u->role, u->index);
    if (u->kind == PLAN_KILL || u->kind == PLAN_DRAIN || u->kind == PLAN_JOIN)
        sim_world_start(w, u->role, u->index);
}

/* Whether heal leaves or starts it. */
static bool will_live(const sim_world *w, const plan *p, bt_role role, uint32_t index)
{
    return !p->leaves_dead || index == 0 ||
           (sim_world_is_alive(w, role, index) && !sim_world_is_leaving(w, role, index));
}

/* Roles stay as they are, where there is a pair by them; else all nodes serve as they began. */
static void heal_roles(sim_world *w, const plan *p)
{
    const sim_options *o = &p->world;
    const struct {
        bt_role role;
        uint32_t count;
    } kinds[2] = {{BT_ROLE_PREFILL, o->prefills}, {BT_ROLE_DECODE, o->decodes}};
    bool has[2] = {!o->prefills, false};
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < kinds[k].count; i++)
            if (will_live(w, p, kinds[k].role, i))
                has[sim_world_role_of(w, kinds[k].role, i) == BT_ROLE_DECODE] = true;
    for (int k = 0; k < 2 && !(has[0] && has[1]); k++)
        for (uint32_t i = 0; i < kinds[k].count; i++) sim_world_set_role(w, kinds[k].role, i, kinds[k].role);
}

/* Everything works from now on. */
static void heal(sim_world *w, const plan *p)
{
    const sim_options *o = &p->world;
    const uint32_t all = o->gateways + o->prefills + o->decodes;
    const struct {
        bt_role role;
        uint32_t count;
    } kinds[3] = {
        {BT_ROLE_GATEWAY, o->gateways}, {BT_ROLE_PREFILL, o->prefills}, {BT_ROLE_DECODE, o->decodes}};
    for (uint32_t a = 0; a < all; a++)
        for (uint32_t b = 0; b < all; b++) sim_net_cut(sim_world_net(w), a, b, sim_world_now_us(w), false);
    heal_roles(w, p);
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < kinds[k].count; i++) {
            sim_world_continue(w, kinds[k].role, i);
            if (kinds[k].role != BT_ROLE_GATEWAY && sim_world_is_leaving(w, kinds[k].role, i))
                sim_world_kill(w, kinds[k].role, i);
            if (!p->leaves_dead || kinds[k].role == BT_ROLE_GATEWAY || i == 0)
                sim_world_start(w, kinds[k].role, i);
        }
    sim_world_set_faults(w, &(sim_faults){.delay_min_us = o->faults.delay_min_us,
                                          .delay_max_us = o->faults.delay_max_us});
    sim_world_calm(w);
}

static void judge(run_result *ret, sim_world *w, const plan *p)
{
    const unsigned long long seed = (unsigned long long)p->world.seed;
    bool is_answered = sim_world_run_answered(w, ANSWERED_US);
    if (sim_world_error(w)) {
        snprintf(ret->error, sizeof ret->error, "%s", sim_world_error(w));
        return;
    }
    for (uint32_t i = 0; i < PROBES; i++)
        (void)sim_world_submit_to(w, i % p->world.gateways, p->world.ctx_tokens / 2, 5);
    is_answered = sim_world_run_answered(w, ANSWERED_US) && is_answered;
    const bool is_idle = sim_world_run_idle(w, (int64_t)p->world.gw.lease_ms * 1000 + IDLE_US);
    if (sim_world_error(w)) snprintf(ret->error, sizeof ret->error, "%s", sim_world_error(w));
    else if (!is_answered)
        snprintf(ret->error, sizeof ret->error, "seed %llu: a request has no answer %d s after the faults",
                 seed, ANSWERED_US / SECOND);
    else if (!is_idle)
        snprintf(ret->error, sizeof ret->error,
                 "seed %llu: something is still held after the last answer, a lease and %d s", seed,
                 IDLE_US / SECOND);
    ret->requests = sim_world_requests(w);
    for (uint64_t i = 1; i <= ret->requests; i++) ret->done += sim_world_request(w, i)->outcome == SIM_DONE;
}

void run_plan(run_result *ret, const plan *p, const run_part *part, FILE *trace, bool records)
{
    sim_world *w = NULL;
    moment moments[2 * PLAN_UNITS];
    uint64_t requests[PLAN_UNITS] = {0};
    size_t len = 0;
    *ret = (run_result){.error = ""};
    sim_options o = p->world;
    o.trace = trace;
    if (sim_world_new(&w, &o) < 0) {
        snprintf(ret->error, sizeof ret->error, "out of memory, or a world that cannot be");
        return;
    }
    if (records) sim_net_record(sim_world_net(w));
    if (part) sim_net_only(sim_world_net(w), part->packets, part->packets_len);
    for (uint32_t i = 0; i < p->units_len; i++) {
        if (part && !part->units[i]) continue;
        moments[len++] = (moment){p->units[i].at_us, i, false};
        if (p->units[i].until_us) moments[len++] = (moment){p->units[i].until_us, i, true};
    }
    qsort(moments, len, sizeof *moments, by_time);
    const int64_t start_us = sim_world_now_us(w);
    bool is_calm = false;
    for (size_t i = 0; i <= len && !sim_world_error(w); i++) {
        const int64_t at_us = i < len ? moments[i].at_us : p->faults_end_us;
        if (!is_calm && (i == len || at_us >= p->faults_end_us)) {
            if (start_us + p->faults_end_us > sim_world_now_us(w))
                sim_world_run(w, start_us + p->faults_end_us - sim_world_now_us(w));
            heal(w, p);
            is_calm = true;
        }
        if (i == len) break;
        const plan_unit *u = &p->units[moments[i].unit];
        if (start_us + at_us > sim_world_now_us(w)) sim_world_run(w, start_us + at_us - sim_world_now_us(w));
        if (is_calm && u->kind != PLAN_REQUEST && u->kind != PLAN_FLOOD) continue;
        if (moments[i].is_end) end(w, u, requests[moments[i].unit]);
        else begin(w, u, &p->world, &requests[moments[i].unit]);
    }
    judge(ret, w, p);
    ret->events = sim_world_steps(w);
    ret->faults = sim_world_faults(w);
    if (records) {
        size_t n = 0;
        const uint64_t *ids = sim_net_recorded(sim_world_net(w), &n);
        ret->packets = malloc((n ? n : 1) * sizeof *ids);
        if (ret->packets && n) memcpy(ret->packets, ids, n * sizeof *ids);
        if (ret->packets) qsort(ret->packets, n, sizeof *ids, by_id);
        ret->packets_len = ret->packets ? n : 0;
    }
    sim_world_free(w);
}

void run_result_done(run_result *r)
{
    free(r->packets);
    r->packets = NULL;
}

/* ---- smaller ------------------------------------------------------------------------------------ */

/* The parts that may be left out: units, and faults of packets. `in` says which are still there. */
typedef struct pieces {
    const plan *p;
    const uint64_t *packets;
    size_t len;
    bool *in;
    uint64_t *kept;
} pieces;

static void part_of(run_part *ret, const pieces *s)
{
    memset(ret, 0, sizeof *ret);
    for (uint32_t i = 0; i < s->p->units_len; i++) ret->units[i] = s->in[i];
    for (size_t i = s->p->units_len; i < s->len; i++)
        if (s->in[i]) s->kept[ret->packets_len++] = s->packets[i - s->p->units_len];
    ret->packets = s->kept;
}

static bool still_fails(const pieces *s)
{
    run_part part;
    run_result r;
    part_of(&part, s);
    run_plan(&r, s->p, &part, NULL, false);
    return r.error[0] != 0;
}

/* Leave out runs of `size` pieces where it fails without them. */
static bool sweep(pieces *s, bool *saved, size_t size, unsigned *budget)
{
    bool any = false;
    for (size_t at = 0; at<s->len && * budget> 0;) {
        size_t taken = 0, end = at;
        memcpy(saved, s->in, s->len * sizeof *saved);
        for (; end < s->len && taken < size; end++) {
            taken += s->in[end];
            s->in[end] = false;
        }
        if (taken == 0) break;
        (*budget)--;
        if (still_fails(s)) any = true;
        else memcpy(s->in, saved, s->len * sizeof *saved);
        at = end;
    }
    return any;
}

void run_shrink(run_part *ret, uint64_t **ret_packets, const plan *p, const run_result *failed,
                unsigned budget)
{
    pieces s = {.p = p, .packets = failed->packets, .len = p->units_len + failed->packets_len};
    bool *saved = malloc(s.len * sizeof *saved);
    s.in = malloc(s.len * sizeof *s.in);
    s.kept = malloc((failed->packets_len + 1) * sizeof *s.kept);
    if (!saved || !s.in || !s.kept) abort(); /* a test program without memory */
    memset(s.in, true, s.len * sizeof *s.in);
    for (size_t size = s.len / 2 + 1; size > 0 && budget > 0;) {
        const bool any = sweep(&s, saved, size, &budget);
        if (size == 1 && !any) break;
        size = size > 1 ? size / 2 : 1;
    }
    part_of(ret, &s);
    *ret_packets = s.kept;
    free(saved);
    free(s.in);
}
