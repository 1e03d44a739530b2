/* See gateway_kit.h. */
#include "tests/helpers/brain/gateway_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gw_action *gateway_kit_did(gw_actions acts, gw_action_type type)
{
    for (size_t i = 0; i < acts.len; i++)
        if (acts.items[i].type == type) return &acts.items[i];
    return NULL;
}

const bt_msg *gateway_kit_said(gw_actions acts, bt_incarnation to, bt_msg_type type)
{
    for (size_t i = 0; i < acts.len; i++) {
        const gw_action *a = &acts.items[i];
        if (a->type == GW_DO_SEND && a->u.send.msg.type == type && bt_incarnation_equal(&a->u.send.peer, &to))
            return &a->u.send.msg;
    }
    return NULL;
}

static const bt_incarnation SELF = {{1}};

static void broken(const char *what)
{
    (void)fprintf(stderr, "gateway_kit: %s\n", what);
    abort();
}

gw_config gateway_kit_config(void)
{
    gw_config c = gw_config_defaults();
    c.self = SELF;
    c.model_id[0] = 5;
    c.nodes_max = 8;
    return c;
}

void gateway_kit_open(gateway_kit *k, const gw_config *c)
{
    const gw_config defaults = gateway_kit_config();
    *k = (gateway_kit){.now = 1000000};
    if (gw_brain_new(&k->b, c ? c : &defaults, NULL) < 0) broken("no brain");
}

void gateway_kit_close(gateway_kit *k) { gw_brain_free(k->b); }

void gateway_kit_step(gateway_kit *k, const gw_event *ev)
{
    k->acts = gw_brain_step(k->b, ev, k->now, &(bt_random){{77, 2}});
    for (size_t i = 0; i < k->acts.len; i++) {
        const gw_action *a = &k->acts.items[i];
        const bool is_answer = a->type == GW_DO_FIRST || a->type == GW_DO_TOKENS || a->type == GW_DO_DONE ||
                               a->type == GW_DO_FAIL;
        if (!is_answer || a->request != 1) continue;
        if (k->is_done || k->failed) broken("more after the end");
        k->firsts += a->type == GW_DO_FIRST;
        k->is_done = a->type == GW_DO_DONE;
        if (a->type == GW_DO_FAIL) {
            k->failed = a->u.fail.kind;
            memcpy(k->text, a->u.fail.text, sizeof k->text);
        }
        if (a->type != GW_DO_TOKENS) continue;
        if (a->u.tokens.first_index != k->heard_len || k->heard_len + a->u.tokens.ids_len > 256)
            broken("not the next index");
        for (uint32_t t = 0; t < a->u.tokens.ids_len; t++) k->heard[k->heard_len++] = a->u.tokens.ids[t];
    }
}

void gateway_kit_wait(gateway_kit *k, int64_t us)
{
    k->now += us;
    gateway_kit_step(k, &(gw_event){.type = GW_EV_TICK});
}

void gateway_kit_pass(gateway_kit *k, int64_t us, const bt_incarnation *alive, uint32_t len)
{
    while (us > 0) {
        const int64_t by = us < 500000 ? us : 500000;
        us -= by;
        gateway_kit_wait(k, by);
        for (uint32_t i = 0; i < len; i++) gateway_kit_beat(k, alive[i]);
    }
}

void gateway_kit_from(gateway_kit *k, bt_incarnation who, bt_msg *m)
{
    m->from = who;
    m->to = SELF;
    if (m->ref.attempt) m->ref = (bt_request_ref){SELF, 1, m->ref.attempt};
    gateway_kit_step(k, &(gw_event){.type = GW_EV_MSG, .u.msg = m});
}

void gateway_kit_die(gateway_kit *k, bt_incarnation who)
{
    gateway_kit_step(k, &(gw_event){.type = GW_EV_CUT, .u.cut = who});
    gateway_kit_wait(k, GW_REDIAL_US);
}

void gateway_kit_beat(gateway_kit *k, bt_incarnation who)
{
    bt_msg m = {.type = BT_MSG_HEARTBEAT};
    m.u.heartbeat.load.slots_total = 8;
    gateway_kit_from(k, who, &m);
}

bt_msg gateway_kit_hello(bt_incarnation who)
{
    const bool is_prefill = (who.bytes[0] >> 4) % 2 == 1;
    bt_msg m = {.type = BT_MSG_HELLO};
    m.u.hello = (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION,
                               .role = is_prefill ? BT_ROLE_PREFILL : BT_ROLE_DECODE,
                               .model_id = {5},
                               .kv = {2, 1, 2, BT_KV_F16, 0, 0},
                               .ctx_tokens = 100,
                               .kv_capacity_tokens = 100,
                               .load = {.slots_total = 8}};
    (void)snprintf(m.u.hello.node_id, sizeof m.u.hello.node_id, "%c%x", is_prefill ? 'p' : 'd',
                   who.bytes[0] & 15u);
    (void)snprintf(m.u.hello.exactness, sizeof m.u.hello.exactness, "%s", is_prefill ? "npu" : "f16");
    (void)snprintf(m.u.hello.kv_endpoint, sizeof m.u.hello.kv_endpoint, "tcp://127.0.0.1:1");
    return m;
}

void gateway_kit_join(gateway_kit *k, bt_incarnation who)
{
    bt_msg m = gateway_kit_hello(who);
    gateway_kit_from(k, who, &m);
    if (!gateway_kit_said(k->acts, who, BT_MSG_WELCOME)) broken("a node is not welcome");
    gateway_kit_beat(k, who);
}

gw_submit gateway_kit_request(uint64_t number, uint32_t max_tokens)
{
    static const int32_t ids[10] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    return (gw_submit){.request = number,
                       .ids = ids,
                       .ids_len = 10,
                       .max_tokens = max_tokens,
                       .sampling = {.temperature = 0.8f, .top_p = 0.9f},
                       .draw_seed = true,
                       .salt = {{0x5a, 0x17}},
                       .stop_ids_len = 1,
                       .stop_ids = {7}};
}

void gateway_kit_submit(gateway_kit *k, uint32_t max_tokens)
{
    const gw_submit s = gateway_kit_request(1, max_tokens);
    gateway_kit_step(k, &(gw_event){.type = GW_EV_SUBMIT, .u.submit = &s});
}

void gateway_kit_say(gateway_kit *k, bt_incarnation who, bt_msg_type type, uint32_t attempt)
{
    gateway_kit_from(k, who, &(bt_msg){.type = type, .ref = {.attempt = attempt}});
}

void gateway_kit_first(gateway_kit *k, bt_incarnation who, uint32_t attempt, int32_t token)
{
    bt_msg m = {.type = BT_MSG_FIRST_TOKEN, .ref = {.attempt = attempt}};
    m.u.first_token.token = token;
    gateway_kit_from(k, who, &m);
}

void gateway_kit_tokens(gateway_kit *k, bt_incarnation who, uint32_t attempt, uint32_t first, uint32_t len)
{
    int32_t ids[256];
    for (uint32_t i = 0; i < len; i++) ids[i] = (int32_t)(40 + first + i);
    bt_msg m = {.type = BT_MSG_TOKENS, .ref = {.attempt = attempt}};
    m.u.tokens = (bt_msg_tokens){.first_index = first, .ids = ids, .ids_len = len};
    gateway_kit_from(k, who, &m);
}

void gateway_kit_failed(gateway_kit *k, bt_incarnation who, uint32_t attempt, bt_err code)
{
    bt_msg m = {.type = BT_MSG_FAILED, .ref = {.attempt = attempt}};
    m.u.failed.code = code;
    (void)snprintf(m.u.failed.text, sizeof m.u.failed.text, "a reason");
    gateway_kit_from(k, who, &m);
}

void gateway_kit_finished(gateway_kit *k, bt_incarnation who, uint32_t attempt, uint32_t n)
{
    bt_msg m = {.type = BT_MSG_FINISHED, .ref = {.attempt = attempt}};
    m.u.finished = (bt_msg_finished){.reason = BT_FINISH_LENGTH, .completion_tokens = n, .decode_us = 9};
    gateway_kit_from(k, who, &m);
}

const gw_node *gateway_kit_node(const gateway_kit *k, bt_incarnation who)
{
    return gw_registry_find(gw_brain_registry(k->b), &who);
}
