#ifndef BT_NODE_LINK_H
#define BT_NODE_LINK_H
#include "wire/msg.h"

/* A node's side of one control link to a gateway: HELLO until WELCOME, heartbeats both ways, HELLO again when
 * the gateway is silent, has restarted, or does not know us. Pure; a part of both node brains.
 *
 *   GREETING --WELCOME--> KNOWN --silence, REJECT, wrong incarnation--> GREETING
 *   GREETING --REJECT of a mismatch--> REFUSED: the same, but HELLO goes only every rejected_us */
typedef enum bt_node_link_state { BT_NODE_LINK_GREETING = 1, BT_NODE_LINK_KNOWN, BT_NODE_LINK_REFUSED } bt_node_link_state;

typedef struct bt_node_link_times { int64_t heartbeat_us, silence_us, resend_us, rejected_us; } bt_node_link_times;

typedef struct bt_node_link {
    bt_node_link_state state;
    bt_incarnation peer;            /* of the gateway welcomed last; zero before that */
    int64_t due_us;                 /* next HELLO, or next HEARTBEAT */
    int64_t heard_us;
} bt_node_link;

typedef enum bt_node_link_says {
    BT_NODE_LINK_NOTHING = 0,
    BT_NODE_LINK_HELLO = 1,         /* send HELLO now */
    BT_NODE_LINK_HEARTBEAT = 2,     /* send HEARTBEAT now, to `peer` */
} bt_node_link_says;

void bt_node_link_init(bt_node_link *l, int64_t now_us);
/* What is due at now_us; moves the timers. */
bt_node_link_says bt_node_link_tick(bt_node_link *l, const bt_node_link_times *t, int64_t now_us);
int64_t bt_node_link_due_us(const bt_node_link *l, const bt_node_link_times *t);

/* A message came on this link that is addressed to us. WELCOME, REJECT, HEARTBEAT and BYE are dealt with here;
 * *ret_pass says that it is another message, from the known gateway, for the caller to look at. *ret_refused: a
 * REJECT whose text should be logged. */
bt_node_link_says bt_node_link_msg(bt_node_link *l, const bt_node_link_times *t, const bt_msg *m, int64_t now_us,
                                   bool *ret_pass, bool *ret_refused);
/* A message came that is meant for another incarnation of us: greet again. */
bt_node_link_says bt_node_link_stranger(bt_node_link *l, const bt_node_link_times *t, int64_t now_us);
/* Whether messages of a request of this owner go out by this link. */
bool bt_node_link_is_owner(const bt_node_link *l, const bt_incarnation *owner);
#endif
