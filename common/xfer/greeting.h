#ifndef BT_XFER_GREETING_H
#define BT_XFER_GREETING_H
#include "wire/msg.h"

/* A node's side of one control link to a gateway: HELLO until WELCOME, heartbeats both ways, HELLO again when the
 * gateway is silent, has restarted, or does not know the node. Pure; a part of both node brains.
 *
 *   GREETING --WELCOME--> KNOWN --silence, REJECT, wrong incarnation--> GREETING
 *   GREETING --REJECT of a mismatch--> REFUSED: the same, but HELLO goes only every rejected_us */
typedef enum bt_greeting_state { BT_GREETING_GREETING = 1, BT_GREETING_KNOWN, BT_GREETING_REFUSED } bt_greeting_state;

typedef struct bt_greeting_times {
    int64_t heartbeat_us, silence_us, resend_us, rejected_us;
} bt_greeting_times;

typedef struct bt_greeting {
    bt_greeting_state state;
    bt_incarnation peer; /* of the gateway welcomed last; zero before that */
    int64_t due_us;      /* next HELLO, or next HEARTBEAT */
    int64_t heard_us;
    bool rests; /* see below; only where KNOWN */
} bt_greeting;

typedef enum bt_greeting_says {
    BT_GREETING_NOTHING = 0,
    BT_GREETING_HELLO = 1,     /* send HELLO now */
    BT_GREETING_HEARTBEAT = 2, /* send HEARTBEAT now, to `peer` */
} bt_greeting_says;

void bt_greeting_init(bt_greeting *l, int64_t now_us);
/* Returns what is due at now_us, and moves the timers. */
bt_greeting_says bt_greeting_tick(bt_greeting *l, const bt_greeting_times *t, int64_t now_us);
int64_t bt_greeting_due_us(const bt_greeting *l, const bt_greeting_times *t);

/* Takes a message on this link that is addressed to this node: WELCOME, REJECT, HEARTBEAT and BYE. *ret_pass: it is
 * another message, from the known gateway, for the caller. *ret_refused: a REJECT whose text should be logged. */
bt_greeting_says bt_greeting_msg(bt_greeting *l, const bt_greeting_times *t, const bt_msg *m, int64_t now_us,
                                 bool *ret_pass, bool *ret_refused);
/* The link is up, for the first time or again: a gateway that knows this node gets a heartbeat at once, any other
 * gateway a HELLO. */
bt_greeting_says bt_greeting_up(bt_greeting *l, const bt_greeting_times *t, int64_t now_us);
/* A message came that is meant for another incarnation of this node: greets again. */
bt_greeting_says bt_greeting_again(bt_greeting *l, const bt_greeting_times *t, int64_t now_us);
/* ---- for a simulator, which leaps heartbeats that change nothing ---- While it rests, a KNOWN greeting sends no
 * heartbeat and misses none: both sides' heartbeats count as sent in time. Nothing else changes. After waking at now_us
 * it goes on as if it had sent each heartbeat that was due before. Daemons never rest. */
void bt_greeting_rest(bt_greeting *l);
/* When it sent, or would have sent, its last heartbeat before now_us; 0: it did not rest. */
int64_t bt_greeting_wake(bt_greeting *l, const bt_greeting_times *t, int64_t now_us);
/* The first heartbeat that is neither before now_us nor before due_us, where one is due at due_us and then every
 * every_us.
 */
int64_t bt_greeting_next_beat_us(int64_t due_us, int64_t every_us, int64_t now_us);
/* Whether messages about a request of this owner go out by this link. */
bool bt_greeting_is_owner(const bt_greeting *l, const bt_incarnation *owner);
#endif
