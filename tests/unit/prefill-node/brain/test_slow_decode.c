/* The prefill brain between two decode nodes, one of which takes no more KV after its first window: computing
 * goes on, the other is served as if it were alone, and neither is ever sent a byte beyond its credit. */
#include "prefill-node/brain/brain.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
    LAYERS = 3,
    TOKENS = 256,
    CHUNK = 64,
    ROW = 8,
    WINDOW = 320 * ROW,
    PROMPTS = 8,
    QUEUE = 512,
    SLOW = 0,
    QUICK = 1,
    SEEDS = 50
};
static const bt_incarnation SELF = {{3}}, GATE = {{1}};

typedef struct decode {
    bt_incarnation id;
    bool gives_credit;
    uint64_t epoch, granted, got;
} decode;
typedef struct prompt {
    int node;
    uint32_t slot, chunk, layer;
    bool computing, first, committed, done;
    uint64_t got;
} prompt;

static pf_brain *b;
static int64_t now;
static pf_action queue[QUEUE];
static size_t queue_first, queue_len;
static decode nodes[2];
static prompt prompts[PROMPTS + 1]; /* by number, from 1 */
static int32_t ids[TOKENS];
static uint64_t seed, drawn;

static void step(const pf_event *ev)
{
    const pf_actions acts = pf_brain_step(b, ev, now, &(bt_random){{1, 2}});
    for (size_t i = 0; i < acts.len; i++) {
        assert_true(queue_len < QUEUE);
        queue[(queue_first + queue_len++) % QUEUE] = acts.items[i];
    }
}

static decode *node_of(const bt_incarnation *id)
{
    return bt_incarnation_equal(id, &nodes[SLOW].id) ? &nodes[SLOW] : &nodes[QUICK];
}

static void from_node(const decode *d, bt_msg *m)
{
    m->from = d->id;
    m->to = SELF;
    step(&(pf_event){.type = PF_EV_BULK, .u.bulk = {d->id, m}});
}

static void grant(decode *d)
{
    bt_msg m = {.type = BT_MSG_CREDIT};
    m.u.credit.link_epoch = d->epoch;
    m.u.credit.total_bytes = d->granted = d->got + WINDOW;
    from_node(d, &m);
}

static void on_bulk(const pf_action *a)
{
    decode *d = node_of(&a->u.bulk.decode);
    bt_msg m = {.type = BT_MSG_WELCOME};
    if (a->u.bulk.msg.type == BT_MSG_HELLO) {
        d->got = 0;
        d->epoch = m.u.welcome.link_epoch = a->u.bulk.msg.u.hello.link_epoch;
        m.u.welcome.credit_bytes = d->granted = WINDOW;
        from_node(d, &m);
    } else if (a->u.bulk.msg.type == BT_MSG_COMMIT) {
        prompt *p = &prompts[a->u.bulk.msg.ref.number];
        assert_int_equal(p->got, (uint64_t)LAYERS * TOKENS * ROW);
        p->committed = true;
        m = (bt_msg){.type = BT_MSG_COMMITTED, .ref = a->u.bulk.msg.ref};
        from_node(d, &m);
    }
}

static void on_control(const pf_action *a)
{
    prompt *p = &prompts[a->u.control.msg.ref.number];
    bt_msg m = {.type = BT_MSG_ACK, .from = GATE, .to = SELF, .ref = a->u.control.msg.ref};
    m.u.ack.of = a->u.control.msg.type;
    assert_int_not_equal(a->u.control.msg.type, BT_MSG_FAILED);
    assert_int_not_equal(a->u.control.msg.type, BT_MSG_REFUSED);
    if (a->u.control.msg.type == BT_MSG_FIRST_TOKEN) p->first = true;
    else if (a->u.control.msg.type == BT_MSG_PREFILL_DONE) p->done = true;
    else return;
    step(&(pf_event){.type = PF_EV_CONTROL, .u.control = {0, &m}});
}

static void on_block(const pf_block *block)
{
    decode *d = node_of(&block->decode);
    d->got += block->bytes;
    assert_true(d->got <= d->granted);
    prompts[block->ref.number].got += block->bytes;
    step(&(pf_event){.type = PF_EV_BLOCK_SENT, .u.block = *block});
    if (d->gives_credit) grant(d);
}

static void carry_out(const pf_action *a)
{
    if (a->type == PF_DO_SEND_BLOCK) on_block(&a->u.block);
    else if (a->type == PF_DO_SEND_BULK) on_bulk(a);
    else if (a->type == PF_DO_SEND_CONTROL) on_control(a);
    else if (a->type == PF_DO_LINK) step(&(pf_event){.type = PF_EV_LINK_UP, .u.decode = a->u.link.decode});
    else if (a->type == PF_DO_COMPUTE) {
        prompt *p = &prompts[a->u.compute.ids[0]];
        p->slot = a->u.compute.slot;
        p->computing = true;
    }
}

static void settle(void)
{
    while (queue_len) {
        const pf_action a = queue[queue_first];
        queue_first = (queue_first + 1) % QUEUE;
        queue_len--;
        carry_out(&a);
    }
}

/* The worker's next layer. False: nothing is being computed. */
static bool compute_some(void)
{
    for (size_t i = 1; i <= PROMPTS; i++) {
        prompt *p = &prompts[i];
        if (!p->computing) continue;
        pf_event ev = {.type = PF_EV_KV_READY};
        ev.u.kv_ready.slot = p->slot;
        ev.u.kv_ready.layer = p->layer;
        ev.u.kv_ready.token_begin = p->chunk * CHUNK;
        ev.u.kv_ready.token_count = CHUNK;
        step(&ev);
        if (++p->layer == LAYERS) p->layer = 0, p->chunk++;
        if (p->chunk * CHUNK < TOKENS) return true;
        p->computing = false;
        ev = (pf_event){.type = PF_EV_COMPUTED};
        ev.u.computed.slot = p->slot;
        step(&ev);
        ev = (pf_event){.type = PF_EV_DIGEST};
        ev.u.digest.slot = p->slot;
        step(&ev);
        return true;
    }
    return false;
}

static void submit(uint64_t number, int node)
{
    bt_msg m = {.type = BT_MSG_PREFILL, .from = GATE, .to = SELF, .ref = {GATE, number, 1}};
    ids[0] = (int32_t)number; /* no two prompts begin alike */
    m.u.prefill =
        (bt_msg_prefill){.ids = ids, .ids_len = TOKENS, .decode = nodes[node].id, .lease_ms = 60000};
    strcpy(m.u.prefill.kv_endpoint, "tcp://127.0.0.1:1");
    prompts[number] = (prompt){.node = node};
    step(&(pf_event){.type = PF_EV_CONTROL, .u.control = {0, &m}});
    settle();
}

static void begin(void)
{
    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.slots = PROMPTS;
    c.pages_total = 4 * PROMPTS * TOKENS / c.page_tokens;
    c.hello.ctx_tokens = TOKENS;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    now = 1000000;
    queue_first = queue_len = 0;
    memset(prompts, 0, sizeof prompts);
    memset(nodes, 0, sizeof nodes);
    nodes[SLOW].id.bytes[0] = 7;
    nodes[QUICK].id.bytes[0] = 8;
    nodes[QUICK].gives_credit = true;
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_OK);
    step(&(pf_event){.type = PF_EV_TICK});
    settle();
    bt_msg m = {.type = BT_MSG_WELCOME, .from = GATE, .to = SELF};
    step(&(pf_event){.type = PF_EV_CONTROL, .u.control = {0, &m}});
    settle();
}

static void a_slow_decode_node_slows_its_own_prompts_only(void **state)
{
    (void)state;
    begin();
    submit(1, SLOW);
    submit(2, SLOW);
    for (uint64_t i = 3; i <= PROMPTS; i++) submit(i, QUICK);
    while (compute_some()) settle();
    for (size_t i = 1; i <= PROMPTS; i++) {
        assert_true(prompts[i].first); /* no token 0 waited for a transfer */
        assert_int_equal(prompts[i].done, prompts[i].node == QUICK);
    }
    assert_true(nodes[SLOW].got <= WINDOW && nodes[SLOW].got > WINDOW - TOKENS * ROW);
    nodes[SLOW].gives_credit = true; /* it wakes up */
    grant(&nodes[SLOW]);
    settle();
    assert_true(prompts[1].done && prompts[2].done);
    assert_int_equal(pf_brain_load(b).pages_used, 0);
    pf_brain_free(b);
}

static uint64_t draw(uint64_t n) { return bt_rng_u64(seed, drawn++) % n; }

/* Credit comes whenever it likes, for one node or the other. */
static void nobody_is_sent_a_byte_beyond_its_credit_whatever_the_order(void **state)
{
    (void)state;
    printf("seeds 1..%d\n", SEEDS);
    for (seed = 1, drawn = 0; seed <= SEEDS; seed++, drawn = 0) {
        begin();
        nodes[QUICK].gives_credit = false;
        uint64_t submitted = 0;
        bool is_over = false;
        for (int i = 0; i < 100000 && !is_over; i++) {
            const uint64_t what = draw(4);
            if (what == 0 && submitted < PROMPTS) submit(++submitted, (int)draw(2));
            else if (what == 1) (void)compute_some();
            else if (what == 2 && nodes[i % 2].granted && draw(20) == 0) grant(&nodes[i % 2]);
            settle();
            is_over = submitted == PROMPTS;
            for (size_t k = 1; k <= PROMPTS; k++) is_over = is_over && prompts[k].done;
        }
        if (!is_over) fail_msg("seed %llu: not every prompt was sent", (unsigned long long)seed);
        assert_int_equal(pf_brain_load(b).pages_used, 0);
        pf_brain_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_decode_node_slows_its_own_prompts_only),
        cmocka_unit_test(nobody_is_sent_a_byte_beyond_its_credit_whatever_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
