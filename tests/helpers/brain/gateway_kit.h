#ifndef TESTS_GATEWAY_KIT_H
#define TESTS_GATEWAY_KIT_H
#include "gateway/brain/brain.h"

/* The results of a step of the gateway's brain: its first action of that type, the first message of that type to that
 * node; NULL. */
const gw_action *gateway_kit_did(gw_actions acts, gw_action_type type);
const bt_msg *gateway_kit_said(gw_actions acts, bt_incarnation to, bt_msg_type type);

/* A gateway with its nodes and one client, whose request has number 1, a salt and these 10 ids: 5, 6 .. 14. Every step
 * notes what the client hears, and ends the program if an index is not the next one or anything comes after the end. A
 * node's incarnation is one byte: 1x and 3x are prefill nodes with the node_id "px", 2x and 4x decode nodes with "dx";
 * so {{0x3a}} is a later process of the name of {{0x1a}}. */

typedef struct gateway_kit {
    gw_brain *b;
    int64_t now;
    gw_actions acts;
    int32_t heard[256];
    uint32_t heard_len, firsts;
    bool is_done;
    gw_fail_kind failed;           /* 0: no FAIL was said */
    char text[BT_STEP_TEXT_BYTES]; /* of the FAIL */
} gateway_kit;

/* The defaults, for kits whose configuration is changed before _open. */
gw_config gateway_kit_config(void);
void gateway_kit_open(gateway_kit *k, const gw_config *c); /* NULL: the defaults */
void gateway_kit_close(gateway_kit *k);
void gateway_kit_step(gateway_kit *k, const gw_event *ev);
void gateway_kit_wait(gateway_kit *k, int64_t us); /* one TICK, that much later */
/* Time passes in steps of 0.5 s, in which these nodes beat. */
void gateway_kit_pass(gateway_kit *k, int64_t us, const bt_incarnation *alive, uint32_t len);
void gateway_kit_from(gateway_kit *k, bt_incarnation who, bt_msg *m); /* m->ref.attempt set: about the request */
/* The node's connection ends, and it does not dial again: another process may take its name. */
void gateway_kit_die(gateway_kit *k, bt_incarnation who);
void gateway_kit_beat(gateway_kit *k, bt_incarnation who);
/* HELLO and HEARTBEAT, 8 slots; exactness "npu" or "f16". */
void gateway_kit_join(gateway_kit *k, bt_incarnation who);
bt_msg gateway_kit_hello(bt_incarnation who);
void gateway_kit_submit(gateway_kit *k, uint32_t max_tokens);
gw_submit gateway_kit_request(uint64_t number, uint32_t max_tokens);
/* The messages of nodes about an attempt. */
void gateway_kit_say(gateway_kit *k, bt_incarnation who, bt_msg_type type, uint32_t attempt);
void gateway_kit_first(gateway_kit *k, bt_incarnation who, uint32_t attempt, int32_t token);
/* 40 + index each */
void gateway_kit_tokens(gateway_kit *k, bt_incarnation who, uint32_t attempt, uint32_t first, uint32_t len);
void gateway_kit_failed(gateway_kit *k, bt_incarnation who, uint32_t attempt, bt_err code);
void gateway_kit_finished(gateway_kit *k, bt_incarnation who, uint32_t attempt, uint32_t n);
const gw_node *gateway_kit_node(const gateway_kit *k, bt_incarnation who);
#endif
