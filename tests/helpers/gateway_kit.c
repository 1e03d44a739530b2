/* See gateway_kit.h. */
#include "tests/helpers/gateway_kit.h"

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
