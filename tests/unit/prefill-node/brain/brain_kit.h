#ifndef TESTS_UNIT_PREFILL_NODE_BRAIN_KIT_H
#define TESTS_UNIT_PREFILL_NODE_BRAIN_KIT_H
#include "prefill-node/brain/brain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

/* The common part of the tests of the prefill node's brain: one gateway, one decode node, a clock that the test moves,
 * the actions of the last step, a worker and a link that the test plays. */
static const bt_incarnation SELF = {{3}}, GATE = {{1}}, DECODE = {{2}}, OTHER = {{9}};
enum { LAYERS = 2, ROW = 8 };
static int64_t now;
static pf_actions acts;
static int32_t ids[400];
static uint64_t epoch; /* of the bulk link, as HELLO said last */

static inline void step(pf_brain *b, const pf_event *ev)
{
    acts = pf_brain_step(b, ev, now, &(bt_random){{1, 2}});
    for (size_t i = 0; i < acts.len; i++)
        if (acts.items[i].type == PF_DO_SEND_BULK && acts.items[i].u.bulk.msg.type == BT_MSG_HELLO)
            epoch = acts.items[i].u.bulk.msg.u.hello.link_epoch;
}

static inline void control(pf_brain *b, bt_msg *m)
{
    m->from = GATE;
    if (m->to.bytes[0] == 0) m->to = SELF;
    if (m->ref.attempt) m->ref.owner = GATE;
    step(b, &(pf_event){.type = PF_EV_CONTROL, .u.control = {0, m}});
}

static inline void bulk(pf_brain *b, bt_msg *m)
{
    if (m->from.bytes[0] == 0) m->from = DECODE;
    if (m->type == BT_MSG_WELCOME && m->u.welcome.link_epoch == 0) m->u.welcome.link_epoch = epoch;
    if (m->type == BT_MSG_CREDIT && m->u.credit.link_epoch == 0) m->u.credit.link_epoch = epoch;
    m->to = SELF;
    if (m->ref.attempt) m->ref.owner = GATE;
    step(b, &(pf_event){.type = PF_EV_BULK, .u.bulk = {DECODE, m}});
}

static inline size_t count(pf_action_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < acts.len; i++) n += acts.items[i].type == type;
    return n;
}

static inline const pf_action *did(pf_action_type type)
{
    for (size_t i = 0; i < acts.len; i++)
        if (acts.items[i].type == type) return &acts.items[i];
    return NULL;
}

static inline const bt_msg *said(bt_msg_type type)
{
    for (size_t i = 0; i < acts.len; i++) {
        const pf_action *a = &acts.items[i];
        if (a->type == PF_DO_SEND_CONTROL && a->u.control.msg.type == type) return &a->u.control.msg;
        if (a->type == PF_DO_SEND_BULK && a->u.bulk.msg.type == type) return &a->u.bulk.msg;
    }
    return NULL;
}

static inline pf_brain *make_that(bt_role_may may)
{
    pf_config c = pf_config_defaults();
    c.self = SELF;
    c.slots = 2;
    c.pages_total = 12;
    c.hello.ctx_tokens = 384;
    c.hello.kv = (bt_kv_shape){LAYERS, 1, 2, BT_KV_F16, 0, 0};
    pf_brain *b = NULL;
    now = 1000000;
    assert_int_equal(pf_brain_new(&b, &c, NULL), BT_OK);
    pf_brain_set_role_may(b, may);
    step(b, &(pf_event){.type = PF_EV_TICK});
    assert_non_null(said(BT_MSG_HELLO));
    control(b, &(bt_msg){.type = BT_MSG_WELCOME});
    assert_non_null(said(BT_MSG_HEARTBEAT));
    return b;
}

static inline pf_brain *make(void) { return make_that(BT_ROLE_MAY_NOT); }

static inline bt_msg prefill_msg(uint64_t number, uint32_t attempt, uint32_t tokens)
{
    bt_msg m = {.type = BT_MSG_PREFILL, .ref = {GATE, number, attempt}};
    m.u.prefill = (bt_msg_prefill){.ids = ids, .ids_len = tokens, .decode = DECODE, .lease_ms = 10000};
    strcpy(m.u.prefill.kv_endpoint, "tcp://127.0.0.1:1");
    return m;
}

static inline void open_link(pf_brain *b, uint64_t credit)
{
    step(b, &(pf_event){.type = PF_EV_LINK_UP, .u.decode = DECODE});
    assert_non_null(said(BT_MSG_HELLO));
    bt_msg w = {.type = BT_MSG_WELCOME};
    w.u.welcome.credit_bytes = credit;
    bulk(b, &w);
}

/* A prompt accepted on slot 0 and being computed, its link open. */
static inline void accept(pf_brain *b, uint64_t number, uint32_t attempt, uint32_t tokens, uint64_t credit)
{
    bt_msg m = prefill_msg(number, attempt, tokens);
    control(b, &m);
    assert_non_null(said(BT_MSG_PREFILL_ACCEPTED));
    assert_non_null(did(PF_DO_COMPUTE));
    assert_int_equal(did(PF_DO_COMPUTE)->u.compute.ids_len, tokens);
    if (did(PF_DO_LINK)) open_link(b, credit);
}

static inline void ready(pf_brain *b, uint32_t layer, uint32_t begin, uint32_t n)
{
    pf_event ev = {.type = PF_EV_KV_READY};
    ev.u.kv_ready.layer = layer;
    ev.u.kv_ready.token_begin = begin;
    ev.u.kv_ready.token_count = n;
    step(b, &ev);
}

static inline void computed(pf_brain *b)
{
    pf_event ev = {.type = PF_EV_COMPUTED};
    ev.u.computed.token = 42;
    step(b, &ev);
}

static inline void digested(pf_brain *b)
{
    pf_event ev = {.type = PF_EV_DIGEST};
    memset(ev.u.digest.kv_digest.bytes, 7, sizeof ev.u.digest.kv_digest.bytes);
    step(b, &ev);
}

/* Answer every SEND_BLOCK until none is left; what the last step said stays to be looked at. Returns how many
 * blocks went. */
static inline uint32_t sent_all(pf_brain *b)
{
    uint32_t n = 0;
    pf_block queue[64];
    size_t len = 0;
    for (size_t at = 0;; at++) {
        for (size_t i = 0; i < acts.len; i++)
            if (acts.items[i].type == PF_DO_SEND_BLOCK) queue[len++] = acts.items[i].u.block;
        if (at == len) return n;
        n++;
        step(b, &(pf_event){.type = PF_EV_BLOCK_SENT, .u.block = queue[at]});
    }
}

static inline void send_whole(pf_brain *b, uint32_t tokens)
{
    ready(b, 0, 0, tokens);
    sent_all(b);
    ready(b, 1, 0, tokens);
    sent_all(b);
    computed(b);
    assert_int_equal(said(BT_MSG_FIRST_TOKEN)->u.first_token.token, 42);
    if (!said(BT_MSG_COMMIT)) sent_all(b);
    assert_int_equal(said(BT_MSG_COMMIT)->u.commit.first_token, 42);
    digested(b);
}
#endif
