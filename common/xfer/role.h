#ifndef BT_XFER_ROLE_H
#define BT_XFER_ROLE_H
#include <stdbool.h>
#include "wire/msg.h"

/* A node's answer to ROLE. Pure; part of both node brains. */
typedef enum bt_role_may {
    BT_ROLE_MAY_NOT = 0, /* the allow list does not give this node's key both roles */
    BT_ROLE_MAY,
} bt_role_may;

/* Fill the answer to ROLE `wanted` of a node that serves as `own`. draining: it takes no new work; *next: the role it
 * drains for, 0 where it leaves for good. True: it begins to drain now, *next is `wanted`. */
bool bt_role_answer(bt_msg_role_answer *ret, bt_role *next, bt_role wanted, bt_role own, bt_role_may may,
                    bool draining);
#endif
