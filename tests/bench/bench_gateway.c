/* The cost of a step of the gateway's brain, by nodes and by requests in flight: it ought to be the same
 * everywhere.
 *
 *   bench_gateway [--json | NODES REQUESTS]
 *
 * Each figure is the least of several runs, in microseconds, so that other programs disturb it least, and has
 * gw_brain_due_us in it, as the shell asks after every step.
 *   tick      a TICK where nothing is due
 *   token     one token of one of the requests in flight, each in turn
 *   life      a request from SUBMIT to DONE: nine steps, of which one chooses nodes (least-load)
 *   prefix    the same under the policy prefix: a prompt of 1,024 tokens, whose first 512 all requests share
 *   full      a token while every slot is taken and requests wait */
#include "base/clock.h"
#include "gateway/brain/brain.h"
#include "tests/bench/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 9, STEPS = 2000, LIVES = 200, PROMPT = 1024, SHARED = 512, ANSWER = 8192, WAITING = 32 };

typedef struct bench {
    gw_brain *b;
    gw_config c;
    int64_t now;
    uint32_t nodes, requests;
    uint64_t number; /* of the last request */
    uint32_t *made;  /* [requests] tokens so far */
    bt_incarnation *prefill, *decode;
    int32_t ids[PROMPT];
} bench;

static bt_incarnation node_of(uint32_t i)
{
    bt_incarnation who = {{1}};
    memcpy(who.bytes + 4, &i, sizeof i);
    return who;
}

static gw_actions step(bench *k, const gw_event *ev)
{
    const gw_actions acts = gw_brain_step(k->b, ev, ++k->now, &(bt_random){{1, 2}});
    if (gw_brain_due_us(k->b) < 0) bench_die("no time is due");
    return acts;
}

static gw_actions say(bench *k, bt_incarnation who, uint64_t number, bt_msg *m)
{
    m->from = who;
    m->to = k->c.self;
    m->ref = (bt_request_ref){k->c.self, number, 1};
    return step(k, &(gw_event){.type = GW_EV_MSG, .u.msg = m});
}

static void join(bench *k, uint32_t i, uint32_t slots)
{
    bt_msg m = {.type = BT_MSG_HELLO};
    bt_msg_hello *h = &m.u.hello;
    h->protocol = BT_PROTOCOL_VERSION;
    h->role = i % 2 ? BT_ROLE_DECODE : BT_ROLE_PREFILL;
    h->kv = (bt_kv_shape){2, 2, 64, BT_KV_F16, 0, 0};
    h->ctx_tokens = h->kv_capacity_tokens = 1 << 20;
    h->load.slots_total = slots;
    snprintf(h->node_id, sizeof h->node_id, "node-%u", i);
    snprintf(h->exactness, sizeof h->exactness, "%s", i % 2 ? "f16" : "npu");
    snprintf(h->kv_endpoint, sizeof h->kv_endpoint, "%s", i % 2 ? "tcp://x:1" : "");
    (void)say(k, node_of(i), 0, &m);
    bt_msg beat = {.type = BT_MSG_HEARTBEAT};
    beat.u.heartbeat.load.slots_total = slots;
    (void)say(k, node_of(i), 0, &beat);
}

/* Whether it got nodes: *d is the decode node. */
static bool submit(bench *k, gw_policy policy, bt_incarnation *d)
{
    for (int i = SHARED; i < PROMPT; i++) k->ids[i] = (int32_t)(k->number * 7 + (uint64_t)i);
    const gw_submit s = {.request = ++k->number,
                         .ids = k->ids,
                         .ids_len = policy == GW_POLICY_PREFIX ? PROMPT : 16,
                         .max_tokens = ANSWER,
                         .sampling = {.temperature = 0.8f, .top_p = 0.9f},
                         .policy = policy};
    const gw_actions acts = step(k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
    for (size_t i = 0; i < acts.len; i++)
        if (acts.items[i].type == GW_DO_SEND && acts.items[i].u.send.msg.type == BT_MSG_RESERVE) {
            *d = acts.items[i].u.send.peer;
            return true;
        }
    return false;
}

static gw_actions token(bench *k, uint64_t number, bt_incarnation d, uint32_t index)
{
    const int32_t id = 5;
    bt_msg m = {.type = BT_MSG_TOKENS};
    m.u.tokens = (bt_msg_tokens){.first_index = index, .ids = &id, .ids_len = 1};
    return say(k, d, number, &m);
}

/* To DECODING, with token 0. */
static void begin(bench *k, gw_policy policy, bt_incarnation *p, bt_incarnation *d)
{
    bt_msg m = {.type = BT_MSG_RESERVED};
    if (!submit(k, policy, d)) bench_die("no nodes for a request");
    const gw_actions acts = say(k, *d, k->number, &m);
    if (acts.len != 1 || acts.items[0].u.send.msg.type != BT_MSG_PREFILL) bench_die("no PREFILL");
    *p = acts.items[0].u.send.peer;
    m = (bt_msg){.type = BT_MSG_PREFILL_ACCEPTED};
    (void)say(k, *p, k->number, &m);
    m = (bt_msg){.type = BT_MSG_FIRST_TOKEN};
    m.u.first_token.token = 5;
    (void)say(k, *p, k->number, &m);
    m = (bt_msg){.type = BT_MSG_PREFILL_DONE};
    (void)say(k, *p, k->number, &m);
}

static void end(bench *k, bt_incarnation d)
{
    (void)token(k, k->number, d, 1);
    (void)token(k, k->number, d, 2);
    bt_msg m = {.type = BT_MSG_FINISHED};
    m.u.finished = (bt_msg_finished){.reason = BT_FINISH_STOP, .completion_tokens = 3};
    const gw_actions acts = say(k, d, k->number, &m);
    if (acts.len == 0 || acts.items[acts.len - 1].type != GW_DO_DONE) bench_die("a request did not end");
    (void)step(k, &(gw_event){.type = GW_EV_TICK});
}

static double tick(bench *k)
{
    const int64_t t0 = bt_clock_ns();
    for (int i = 0; i < STEPS; i++) (void)step(k, &(gw_event){.type = GW_EV_TICK});
    return (double)(bt_clock_ns() - t0) * 1e-3 / STEPS;
}

static double tokens(bench *k)
{
    const int64_t t0 = bt_clock_ns();
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t r = (uint32_t)(i * 7919ull % k->requests);
        (void)token(k, r + 1, k->decode[r], k->made[r]++);
    }
    return (double)(bt_clock_ns() - t0) * 1e-3 / STEPS;
}

static double lives(bench *k, gw_policy policy)
{
    bt_incarnation p, d;
    const int64_t t0 = bt_clock_ns();
    for (int i = 0; i < LIVES; i++) {
        begin(k, policy, &p, &d);
        end(k, d);
    }
    return (double)(bt_clock_ns() - t0) * 1e-3 / LIVES;
}

static double least_load(bench *k) { return lives(k, GW_POLICY_LEAST_LOAD); }
static double prefix(bench *k) { return lives(k, GW_POLICY_PREFIX); }

static double least(bench *k, double (*run)(bench *k))
{
    double best = run(k);
    for (int i = 1; i < RUNS; i++) {
        const double us = run(k);
        if (us < best) best = us;
    }
    return best;
}

static void fill(bench *k)
{
    const uint32_t half = k->nodes / 2, slots = (k->requests + half - 1) / half + 1;
    for (uint32_t i = 0; i < k->nodes; i++) join(k, i, slots);
    for (uint32_t r = 0; r < k->requests; r++) {
        begin(k, GW_POLICY_LEAST_LOAD, &k->prefill[r], &k->decode[r]);
        k->made[r] = 1;
    }
}

/* Takes all slots that are left, and then some wait. */
static void crowd(bench *k)
{
    bt_incarnation d;
    for (uint32_t waiting = 0; waiting < WAITING;) waiting += !submit(k, GW_POLICY_LEAST_LOAD, &d);
}

static void measure(uint32_t nodes, uint32_t requests, bool json, bool first)
{
    bench k = {.c = gw_config_defaults(), .now = 1000, .nodes = nodes, .requests = requests};
    k.c.self = (bt_incarnation){{9}};
    k.c.nodes_max = nodes;
    k.c.active_max = requests + nodes + 1;
    k.made = calloc(requests, sizeof *k.made);
    k.prefill = calloc(requests, sizeof *k.prefill);
    k.decode = calloc(requests, sizeof *k.decode);
    if (!k.made || !k.prefill || !k.decode || gw_brain_new(&k.b, &k.c, NULL) < 0) bench_die("out of memory");
    fill(&k);
    const double t = least(&k, tick), token_us = least(&k, tokens), life = least(&k, least_load),
                 pre = least(&k, prefix);
    crowd(&k);
    const double full = least(&k, tokens);
    if (json)
        printf("%s    {\"nodes\": %u, \"requests\": %u, \"tick_us\": %.3f, \"token_us\": %.3f, \"life_us\": "
               "%.2f, "
               "\"prefix_us\": %.2f, \"full_us\": %.3f}",
               first ? "" : ",\n", nodes, requests, t, token_us, life, pre, full);
    else printf("%6u %9u %9.3f %9.3f %9.2f %9.2f %9.3f\n", nodes, requests, t, token_us, life, pre, full);
    fflush(stdout);
    gw_brain_free(k.b);
    free(k.made);
    free(k.prefill);
    free(k.decode);
}

int main(int argc, char **argv)
{
    static const uint32_t nodes[] = {10, 100, 1000}, requests[] = {10, 100, 1000, 10000};
    const bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json && argc != 3) {
        fprintf(stderr, "usage: bench_gateway [--json | NODES REQUESTS]\n");
        return 2;
    }
    if (json) printf("{\n  \"benchmark\": \"gateway\",\n  \"rows\": [\n");
    else
        printf("microseconds per step and due time\n nodes  requests      tick     token      life    prefix "
               "     full\n");
    if (argc == 3) {
        measure((uint32_t)strtoul(argv[1], NULL, 10), (uint32_t)strtoul(argv[2], NULL, 10), false, true);
        return 0;
    }
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        for (size_t r = 0; r < sizeof requests / sizeof *requests; r++)
            measure(nodes[i], requests[r], json, i + r == 0);
    if (json) printf("\n  ]\n}\n");
    return 0;
}
