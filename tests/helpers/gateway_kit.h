#ifndef TESTS_GATEWAY_KIT_H
#define TESTS_GATEWAY_KIT_H
#include "gateway/brain.h"

/* What a step of the gateway's brain did: its first action of that type, the first message of that type to that node; NULL. */
const gw_action *gateway_kit_did(gw_actions acts, gw_action_type type);
const bt_msg    *gateway_kit_said(gw_actions acts, bt_incarnation to, bt_msg_type type);
#endif
