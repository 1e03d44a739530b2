#ifndef BT_XFER_ROLE_H
#define BT_XFER_ROLE_H
#include <stdbool.h>
#include "wire/msg.h"

/* A node's answer to ROLE. Pure; part of both node brains. */
typedef enum bt_role_may {
    BT_ROLE_MAY_NOT = 0, /* the allow list does not give this node's key both roles */
    BT_ROLE_MAY,
} bt_role_may;

/* Fills the answer of a node that serves as `own` to ROLE `wanted`. draining: the node takes no new work; *next: the
 * role for which it drains, 0 where it ends. True: the node begins to drain now, and *next is `wanted`. */
bool bt_role_answer(bt_msg_role_answer *ret, bt_role *next, bt_role wanted, bt_role own, bt_role_may may,
                    bool draining);
#endif
