#ifndef TESTS_DECODE_KIT_H
#define TESTS_DECODE_KIT_H
#include "decode-node/brain/brain.h"

/* The common part of the tests of the decode node's brain: one gateway, one prefill node, a clock that the test moves,
 * and the actions of the last step. */
extern const bt_incarnation decode_kit_self, decode_kit_gate, decode_kit_prefill;
extern int64_t decode_kit_now;
extern dc_actions decode_kit_acts;

void decode_kit_step(dc_brain *b, const dc_event *ev);
/* A message of the gateway's, of the prefill node's; from and owner are set, and `to` where it is zero. */
void decode_kit_control(dc_brain *b, bt_msg *m);
void decode_kit_bulk(dc_brain *b, bt_msg *m);
/* The first action, the first message said, of that type in the last step; NULL. */
const dc_action *decode_kit_did(dc_action_type type);
const bt_msg *decode_kit_said(bt_msg_type type);
/* The first SET_PAGES of the last step that gives a slot its pages, that gives it more of them, that takes them
 * away; NULL. */
const dc_action *decode_kit_held(void);
const dc_action *decode_kit_grew(void);
const dc_action *decode_kit_freed(void);
#endif
