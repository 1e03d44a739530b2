#ifndef GW_ROLE_H
#define GW_ROLE_H
#include "gateway/brain/brain.h"

/* Asking a node to serve as another role: GW_EV_ROLE in, one GW_DO_ROLE_ANSWER out. ROLE goes again until the node
 * answers or role_us is over; at most GW_ROLES_MAX nodes (state.h) are asked at a time. */
void gw_role_ask(gw_brain *b, const gw_event *ev);   /* GW_EV_ROLE */
void gw_role_answered(gw_brain *b, const bt_msg *m); /* ROLE_ANSWER of a known node */
void gw_role_expire(gw_brain *b);
int64_t gw_role_due_us(const gw_brain *b); /* of gw_role_expire; or BT_STEP_NEVER */
#endif
