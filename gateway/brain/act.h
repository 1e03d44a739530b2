#ifndef GW_ACT_H
#define GW_ACT_H
#include "gateway/brain/brain.h"

/* The actions of this step, in order. Each call adds one action for the caller to fill; all fields but those named here
 * are zero. The action lives until the next step. */
gw_action *gw_act(gw_brain *b, gw_action_type type);
bt_msg *gw_act_send(gw_brain *b, const bt_incarnation *peer, bt_msg_type type); /* from and to are set */
void gw_act_log(gw_brain *b, bt_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#endif
