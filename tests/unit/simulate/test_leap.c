/* Runs that leap what changes no decision, against runs that tell every step and heartbeat when it happens.
 */
#include "simulate/cluster.h"
#include "base/rng.h"
#include "tests/helpers/brain/sim_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CTX = SIM_KIT_CTX, REQUESTS = 400, FAULTS = 6, NODES_MAX = 6 };

static const sim_kit *kit;

/* The answer to a request. */
typedef struct answer {
    uint32_t prompt, output, got, ends, attempts;
    int64_t sent_ns, first_ns, last_ns, end_ns, longest_ns;
    bool is_done;
    gw_fail_kind why;
    char by[BT_MSG_MAX_ID_BYTES + 1];
} answer;

typedef struct fault {
    uint32_t what, node, times; /* 0 kill, 1 stop, 2 slow */
    bt_role role;
    int64_t at_ns, for_ns;
} fault;

typedef struct world {
    sim_cluster_options o;
    sim_cluster_group groups[2];
    uint32_t requests, faults, prompt_most, output_most, shared;
    double gap_ns;
    uint64_t seed;
    fault fault[FAULTS];
    bt_dims windows; /* the model with windows in three of four layers */
} world;

typedef struct bed {
    const world *w;
    sim_cluster *c;
    answer a[REQUESTS + 1];
    uint64_t hashes[CTX / 64 + 1];
    uint64_t events, choices;
    uint64_t asked[REQUESTS + 1]; /* sim_cluster_choices when that request was submitted */
} bed;

static void fill(void *ud, uint64_t request, gw_submit *ret)
{
    bed *b = ud;
    const answer *a = &b->a[request];
    for (uint32_t i = 0; i * 64 < a->prompt; i++)
        b->hashes[i] = bt_rng_u64(b->w->seed + (i * 64 < b->w->shared ? 0 : request), i);
    ret->hashes = (bt_prompt_hashes){b->hashes, 64};
    ret->ids_len = a->prompt;
    ret->max_tokens = a->output;
    ret->sampling = (bt_sampling){.top_p = 1, .seed = request};
}

static void tokens(void *ud, uint64_t request, uint32_t count, int64_t now_ns)
{
    bed *b = ud;
    answer *a = &b->a[request];
    if (!a->got) a->first_ns = now_ns;
    else if (now_ns - a->last_ns > a->longest_ns) a->longest_ns = now_ns - a->last_ns;
    a->got += count;
    a->last_ns = now_ns;
}

static void end(void *ud, uint64_t request, const gw_action *how, int64_t now_ns)
{
    bed *b = ud;
    answer *a = &b->a[request];
    a->ends++;
    a->end_ns = now_ns;
    a->is_done = how->type == GW_DO_DONE;
    const gw_stats *s = a->is_done ? &how->u.done.stats : &how->u.fail.stats;
    if (!a->is_done) a->why = how->u.fail.kind;
    a->attempts = s->attempts;
    memcpy(a->by, s->prefilled_by, sizeof a->by);
}

static void break_thing(sim_cluster *c, const fault *f, bool is_end)
{
    if (f->what == 0) (is_end ? sim_cluster_start : sim_cluster_kill)(c, f->role, f->node);
    else if (f->what == 1) (is_end ? sim_cluster_continue : sim_cluster_stop)(c, f->role, f->node);
    else sim_cluster_slow(c, f->node, is_end ? 1 : f->times);
}

static void due(void *ud, uint64_t number, int64_t now_ns)
{
    bed *b = ud;
    const world *w = b->w;
    if (number >= w->requests) {
        const uint64_t k = number - w->requests;
        break_thing(b->c, &w->fault[k / 2], k % 2);
        return;
    }
    const uint64_t n = sim_cluster_submit_to(b->c, (uint32_t)(number % w->o.gateways));
    b->asked[n] = sim_cluster_choices(b->c);
    b->a[n] = (answer){.prompt = 16 + (uint32_t)(bt_rng_u64(w->seed + 21, number) % w->prompt_most),
                       .output = 1 + (uint32_t)(bt_rng_u64(w->seed + 22, number) % w->output_most),
                       .sent_ns = now_ns};
}

/* o: what the world's options are but for what is compared. */
static bed *play_with(const world *w, sim_cluster_options o)
{
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    bt_fault why = {""};
    const sim_cluster_client client = {b, fill, tokens, end, due};
    b->w = w;
    if (sim_cluster_new(&b->c, &o, &client, &why) < 0) fail_msg("%s", why.text);
    const int64_t begin = sim_cluster_now_ns(b->c);
    double t = (double)begin;
    for (uint32_t i = 0; i < w->faults; i++) {
        const fault *f = &w->fault[i];
        sim_cluster_at(b->c, begin + f->at_ns, w->requests + 2 * i);
        sim_cluster_at(b->c, begin + f->at_ns + f->for_ns, w->requests + 2 * i + 1);
    }
    for (uint32_t i = 0; i < w->requests; i++) {
        t += -log(1 - bt_rng_uniform(w->seed + 5, i)) * w->gap_ns;
        sim_cluster_at(b->c, (int64_t)t, i);
    }
    if (sim_cluster_run(b->c, INT64_MAX, &why) < 0) fail_msg("%s", why.text);
    b->events = sim_cluster_events(b->c);
    b->choices = sim_cluster_choices(b->c);
    sim_cluster_free(b->c);
    return b;
}

static bed *play(const world *w, bool is_full)
{
    sim_cluster_options o = w->o;
    o.is_full = is_full;
    return play_with(w, o);
}

/* To the nanosecond. */
static void agree(const bed *full, const bed *leaping)
{
    const world *w = full->w;
    for (uint32_t i = 1; i <= w->requests; i++) {
        const answer *a = &full->a[i], *b = &leaping->a[i];
        bool same = a->ends == 1 && b->ends == 1 && a->is_done == b->is_done && a->why == b->why &&
                    a->got == b->got && a->attempts == b->attempts && strcmp(a->by, b->by) == 0;
        const int64_t x[] = {a->first_ns - a->sent_ns, a->last_ns - a->sent_ns, a->end_ns - a->sent_ns,
                             a->longest_ns},
                      y[] = {b->first_ns - b->sent_ns, b->last_ns - b->sent_ns, b->end_ns - b->sent_ns,
                             b->longest_ns};
        same = same && memcmp(x, y, sizeof x) == 0;
        if (!same)
            fail_msg(
                "world %llu, request %u (%u + %u tokens, sent at %lld): full %s %d, %u tokens, %u "
                "attempts, by %s, %lld to %lld, end %lld, gap %lld; leaping %s %d, %u, %u, by %s, %lld to "
                "%lld, end %lld, gap %lld",
                (unsigned long long)w->seed, i, a->prompt, a->output, (long long)a->sent_ns,
                a->is_done ? "done" : "failed", (int)a->why, a->got, a->attempts, a->by, (long long)x[0],
                (long long)x[1], (long long)x[2], (long long)x[3], b->is_done ? "done" : "failed",
                (int)b->why, b->got, b->attempts, b->by, (long long)y[0], (long long)y[1], (long long)y[2],
                (long long)y[3]);
    }
    if (full->choices != leaping->choices)
        fail_msg("world %llu: nodes were asked in another order", (unsigned long long)w->seed);
}

static uint32_t draw(const world *w, uint64_t what, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(bt_rng_u64(w->seed * 31, what) % (most - least + 1));
}

static void draw_fault(world *w, uint32_t i)
{
    const uint32_t hosts = w->groups[0].nodes + w->groups[1].nodes;
    fault *f = &w->fault[i];
    *f = (fault){.what = draw(w, 100 + i, 0, 2), .times = draw(w, 110 + i, 2, 50),
                 .role = draw(w, 120 + i, 0, 1) && w->groups[0].nodes ? BT_ROLE_PREFILL : BT_ROLE_DECODE,
                 .at_ns =
                     (int64_t)draw(w, 130 + i, 1, (uint32_t)(w->requests * w->gap_ns / 1e6)) * 1000000 + 137,
                 .for_ns = (int64_t)draw(w, 140 + i, 100, 12000) * 1000000};
    f->node = draw(w, 150 + i, 0, f->what == 2 ? hosts - 1 : w->groups[f->role == BT_ROLE_DECODE].nodes - 1);
}

/* A cluster, its load, and what goes wrong. */
static void make(world *w, uint64_t seed, uint32_t faults)
{
    *w = (world){.seed = seed, .o = sim_cluster_defaults(), .faults = faults, .requests = 150};
    sim_cluster_options *o = &w->o;
    const bool is_colocated = draw(w, 1, 0, 3) == 0;
    w->groups[0] =
        (sim_cluster_group){.cost = draw(w, 2, 0, 2) ? &kit->gpu_cost : &kit->npu_cost, .device = "a",
                            .nodes = is_colocated ? 0 : draw(w, 3, 1, NODES_MAX), .pages = 4096};
    /* Now and then too few pages, so that sequences are preempted. */
    w->groups[1] =
        (sim_cluster_group){.cost = &kit->gpu_cost, .device = "b", .nodes = draw(w, 4, 1, NODES_MAX),
                            .pages = draw(w, 5, 0, 2) ? 4096 : draw(w, 6, 140, 300)};
    w->shared = draw(w, 7, 0, 1) * 640;
    w->prompt_most = draw(w, 8, 0, 1) ? 300 : 4000;
    w->output_most = draw(w, 9, 0, 1) ? 60 : 1500;
    w->gap_ns = draw(w, 10, 1, 60) * 1e6 / w->groups[1].nodes;
    o->seed = seed;
    o->prefill = &w->groups[0];
    o->prefills = !is_colocated;
    o->decode = &w->groups[1];
    o->decodes = 1;
    o->can_prefill = is_colocated || draw(w, 11, 0, 3) == 0;
    o->gw.local_below_tokens = !is_colocated && o->can_prefill ? 200 : 0;
    o->mixes = is_colocated && draw(w, 12, 0, 1);
    o->link = (bt_link){.bits_per_us = draw(w, 13, 1, 100) * 1000, .latency_ns = draw(w, 14, 0, 1) * 20000};
    o->model = kit->model;
    o->kv_elem_bytes = 2;
    o->ctx_tokens = CTX;
    o->request_ns = draw(w, 15, 0, 1) * 500000;
    o->token_ns = draw(w, 16, 0, 2) * 40000;
    o->decode_slots = draw(w, 17, 2, 32);
    o->batch_rows = draw(w, 18, 1, 40);
    o->gw.queue_max = draw(w, 19, 0, 2) ? 1024 : 4;
    o->dc.swap_pages = draw(w, 20, 0, 1) * 500;
    o->pf.prompts = o->dc.prompts = BT_PROMPT_BY_HASHES;
    for (uint32_t i = 0; i < faults; i++) draw_fault(w, i);
}

/* Half of these worlds have little memory: window pages run out, and go back while answers grow. */
static void give_windows(world *w)
{
    w->windows = *kit->model;
    w->windows.window = 64 * draw(w, 24, 1, 40);
    w->windows.windowed = w->windows.layers - w->windows.layers / 4;
    w->o.model = &w->windows;
    if (draw(w, 25, 0, 1)) w->groups[1].pages = draw(w, 26, 140, 200);
}

static uint64_t seeds(void)
{
    const char *n = getenv("BATON_LEAP_SEEDS");
    return n ? strtoull(n, NULL, 10) : 12;
}

static void compare(uint32_t faults, uint32_t gateways, bool has_windows)
{
    uint64_t events[2] = {0};
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        static world w;
        make(&w, seed, faults);
        if (has_windows) give_windows(&w);
        w.o.gateways = gateways;
        bed *full = play(&w, true), *leaping = play(&w, false);
        agree(full, leaping);
        events[0] += full->events;
        events[1] += leaping->events;
        free(full);
        free(leaping);
    }
    assert_true(gateways > 1 ? events[1] < events[0] : events[1] * 2 < events[0]);
}

static void leaping_changes_no_choice_and_no_time(void **state)
{
    (void)state;
    compare(0, 1, false);
}

static void nor_does_it_where_nodes_die_halt_and_links_are_slow(void **state)
{
    (void)state;
    compare(FAULTS, 1, false);
}

static void nor_does_it_where_layers_have_windows(void **state)
{
    (void)state;
    compare(0, 1, true);
    compare(FAULTS, 1, true);
    compare(0, 2, true);
}

/* Requests that are cut off in the middle of their answers, whose tokens up to then count. */
static void cut_off(uint32_t faults)
{
    uint32_t late = 0, done = 0;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        static world w;
        make(&w, seed, faults);
        w.output_most = 1500;
        w.o.timeout_ns = INT64_C(2000000000);
        bed *full = play(&w, true), *leaping = play(&w, false);
        agree(full, leaping);
        for (uint32_t i = 1; i <= w.requests; i++) {
            const answer *a = &full->a[i];
            late += !a->is_done && a->why == GW_FAIL_CANCELLED;
            done += a->is_done;
            if (a->end_ns > a->sent_ns + w.o.timeout_ns && (a->is_done || a->got))
                fail_msg("world %llu, request %u outlived its time", (unsigned long long)seed, i);
        }
        free(full);
        free(leaping);
    }
    assert_true(late > 50 && done > 50);
}

static void nor_does_it_where_requests_run_out_of_time(void **state)
{
    (void)state;
    cut_off(0);
    cut_off(FAULTS);
}

static void agree_both(const world *w)
{
    bed *full = play(w, true), *leaping = play(w, false);
    agree(full, leaping);
    free(full);
    free(leaping);
}

/* A node halted while TOKENS of its were under way, and a request ended, to which a gateway that was behind
 * had yet to take tokens: in these worlds that made another gap, fewer tokens, or another order at a gateway.
 * In the last one a node's refusal ended while requests stood in lines and nothing but tokens came. */
static void tokens_under_way_come_one_by_one_where_something_ends(void **state)
{
    static const struct {
        uint64_t seed;
        uint32_t faults, gateways;
        int64_t timeout_ns;
    } worlds[] = {{34, FAULTS, 1, 0},
                  {53, 0, 1, INT64_C(2000000000)},
                  {57, 0, 1, INT64_C(2000000000)},
                  {117, 0, 1, INT64_C(2000000000)},
                  {25, FAULTS, 2, 0},
                  {27, FAULTS, 2, 0},
                  {17, 0, 3, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        static world w;
        make(&w, worlds[i].seed, worlds[i].faults);
        w.o.gateways = worlds[i].gateways;
        w.o.timeout_ns = worlds[i].timeout_ns;
        if (w.o.timeout_ns) w.output_most = 1500;
        agree_both(&w);
    }
}

/* A gateway that is behind leaves attempts whose tokens wait at its thread, and answers each of these with an
 * ABORT: in this world one of several tokens at once took 0.4 ms less of its time. */
static void tokens_of_an_attempt_that_is_left_are_answered_one_by_one(void **state)
{
    static world w;
    (void)state;
    make(&w, 10, 0);
    for (uint32_t i = 0; i < 2; i++)
        if (w.groups[i].cost == &kit->gpu_cost) w.groups[i].cost = &kit->slow_cost;
    w.o.timeout_ns = INT64_C(2000000000);
    w.output_most = 1500;
    agree_both(&w);
}

/* Each has requests and a thread of its own; heartbeats are told. */
static void nor_does_it_with_several_gateways(void **state)
{
    (void)state;
    compare(0, 3, false);
    compare(FAULTS, 2, false);
}

static bed *play_layers(const world *w, bool is_by_layer)
{
    sim_cluster_options o = w->o;
    o.is_by_layer = is_by_layer;
    return play_with(w, o);
}

/* The last request before whose submission both had asked nodes for the same and refused the same, in the
 * same order; all: all. */
static uint32_t same_until(const bed *a, const bed *b)
{
    uint32_t i = a->w->requests;
    if (a->choices == b->choices) return i;
    while (i > 0 && a->asked[i] != b->asked[i]) i--;
    return i;
}

/* Their outcomes are the same; those whose first tokens are more than 1 % apart are counted. */
static void near_until(uint32_t *ret_compared, uint32_t *ret_off, const bed *single, const bed *grouped,
                       uint32_t until)
{
    const world *w = single->w;
    const bool is_all = single->choices == grouped->choices;
    const int64_t end_ns = is_all ? INT64_MAX : single->a[until].sent_ns;
    for (uint32_t i = 1; i <= until; i++) {
        const answer *a = &single->a[i], *b = &grouped->a[i];
        const int64_t x = a->first_ns - a->sent_ns, y = b->first_ns - b->sent_ns;
        if (a->end_ns > end_ns) continue;
        const bool same = a->ends == 1 && b->ends == 1 && a->is_done == b->is_done && a->why == b->why &&
                          a->got == b->got && a->attempts == b->attempts && strcmp(a->by, b->by) == 0;
        *ret_compared += 1;
        *ret_off += a->got && llabs(x - y) * 100 > x;
        if (!same)
            fail_msg(
                "world %llu, request %u (%u + %u tokens): layers one by one: done %d, by %s, first token "
                "after %lld ns; grouped: %d, %s, %lld",
                (unsigned long long)w->seed, i, a->prompt, a->output, a->is_done, a->by, (long long)x,
                b->is_done, b->by, (long long)y);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_first(const bed *b)
{
    static double ns[REQUESTS];
    size_t n = 0;
    for (uint32_t i = 1; i <= b->w->requests; i++)
        if (b->a[i].is_done) ns[n++] = (double)(b->a[i].first_ns - b->a[i].sent_ns);
    qsort(ns, n, sizeof *ns, by_value);
    return n ? ns[n / 2] : 1;
}

/* In this world a line of four was full in one run when request 76 came, and not in the other. */
static void a_gateway_that_refuses_for_a_full_line_has_chosen(void **state)
{
    static world w;
    uint32_t compared = 0, off = 0;
    (void)state;
    make(&w, 224, 0);
    bed *single = play_layers(&w, true), *grouped = play_layers(&w, false);
    const uint32_t until = same_until(single, grouped);
    near_until(&compared, &off, single, grouped, until);
    assert_true(until < 76 && compared > 50);
    free(single);
    free(grouped);
}

/* Whole requests where each layer of each chunk is a message that leaves when it is computed, with a credit
 * and a place of its own, against the layers of a chunk as one. Where several nodes send to one at a time, a
 * transfer may end a little earlier or later, and a choice may fall on another node. */
static void
grouped_layers_change_no_outcome_and_hardly_a_first_token_until_a_choice_falls_otherwise(void **state)
{
    (void)state;
    const uint64_t worlds = 2 * seeds();
    uint64_t events[2] = {0}, differ = 0;
    uint32_t compared = 0, off = 0;
    double logs = 0;
    for (uint64_t seed = 1; seed <= worlds; seed++) {
        static world w;
        make(&w, seed, 0);
        if (seed % 4 == 0) give_windows(&w);
        bed *single = play_layers(&w, true), *grouped = play_layers(&w, false);
        const uint32_t until = same_until(single, grouped);
        near_until(&compared, &off, single, grouped, until);
        events[0] += single->events;
        events[1] += grouped->events;
        differ += single->choices != grouped->choices;
        logs += log(median_first(grouped) / median_first(single));
        free(single);
        free(grouped);
    }
    assert_true(events[0] > events[1] + events[1] / 10); /* layers are told */
    if (off * 200 > compared)
        fail_msg("first tokens of %u of %u requests are more than 1 %% apart", off, compared);
    if (differ * 4 > worlds) fail_msg("choices differ in %d of %d worlds", (int)differ, (int)worlds);
    if (fabs(logs / (double)worlds) > 0.01)
        fail_msg("medians of first tokens are %+.4f apart", exp(logs / (double)worlds) - 1);
}

static int set_up(void **state)
{
    (void)state;
    kit = sim_kit_costs();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaping_changes_no_choice_and_no_time),
        cmocka_unit_test(nor_does_it_where_nodes_die_halt_and_links_are_slow),
        cmocka_unit_test(nor_does_it_where_layers_have_windows),
        cmocka_unit_test(nor_does_it_where_requests_run_out_of_time),
        cmocka_unit_test(nor_does_it_with_several_gateways),
        cmocka_unit_test(tokens_under_way_come_one_by_one_where_something_ends),
        cmocka_unit_test(tokens_of_an_attempt_that_is_left_are_answered_one_by_one),
        cmocka_unit_test(a_gateway_that_refuses_for_a_full_line_has_chosen),
        cmocka_unit_test(
            grouped_layers_change_no_outcome_and_hardly_a_first_token_until_a_choice_falls_otherwise),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
