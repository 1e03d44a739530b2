#ifndef BT_XFER_GATES_H
#define BT_XFER_GATES_H
#include "xfer/greeting.h"
#include "xfer/role.h"
#include "xfer/step.h"

/* What any node says to its gateways, and hears of them, as a node: HELLO and heartbeats on every control link,
 * messages to the owner of an attempt, ROLE, draining and BYE. Pure; a part of both node brains. It allocates nothing.
 *
 * A gate is the control link to one gateway, addressed by its index. The owner of an attempt is the gateway process
 * that made it: an incarnation, which is behind one of the gates or behind none.
 *
 * The brain decides what becomes of its attempts: _msg returns what it has to see to. */
enum { BT_GATES_MAX = 8 };

typedef struct bt_gates {
    /* Set by the brain at first; all else begins as zero. */
    bt_incarnation self;
    bt_role role;
    uint32_t len; /* 1..BT_GATES_MAX */
    bt_greeting_times times;
    const bt_msg_hello *hello; /* borrowed; protocol, role, draining and load are filled in here */
    void *brain;
    bt_msg *(*send)(void *brain, uint32_t gate); /* makes the action that sends a message there */
    bt_load (*load)(const void *brain);          /* the node's count of itself, now */
    bt_role_may role_may;                        /* whether this node can serve as the other role */

    bt_greeting greetings[BT_GATES_MAX];
    bool started;      /* the first _tick came */
    bool draining;     /* it takes no new work */
    bool left;         /* _bye was said */
    bt_role next_role; /* what it drains for; 0: to end */
} bt_gates;

/* What is due: HELLO, heartbeats. The first one greets. _due_us: when the next is; 0 before the first, BT_STEP_NEVER
 * after _bye. */
void bt_gates_tick(bt_gates *g, int64_t now_us);
int64_t bt_gates_due_us(const bt_gates *g);
/* For a simulator that leaps heartbeats (xfer/greeting.h), with a node that has one gateway. _wake: the gateway's last
 * one came at heard_us; returns when the node's last one was due before now_us; 0: it did not rest. */
void bt_gates_rest(bt_gates *g);
int64_t bt_gates_wake(bt_gates *g, int64_t now_us, int64_t heard_us);
/* The connection of this gate is up again. */
void bt_gates_up(bt_gates *g, uint32_t gate, int64_t now_us);
bool bt_gates_is_welcome(const bt_gates *g); /* some gateway has taken this node in */

typedef enum bt_gates_news {
    BT_GATES_NOTHING = 0, /* dealt with */
    BT_GATES_REQUEST,     /* about an attempt, 1.., and from its owner: the brain looks at it */
    BT_GATES_DRAINS,      /* ROLE, to which it said yes: _drain, and the drain timeout must run */
    BT_GATES_REFUSED,     /* REJECT, whose text should be logged */
    BT_GATES_MISSENT,     /* it was meant for another incarnation of this node; to be counted */
    BT_GATES_UNEXPECTED,  /* to be counted */
} bt_gates_news;
/* A message came through `gate`. Greetings and ROLE are answered. */
bt_gates_news bt_gates_msg(bt_gates *g, uint32_t gate, const bt_msg *m, int64_t now_us);

/* A message about ref, to its owner, for the caller to fill in. NULL: it is behind no gate now, and the message would
 * be lost, as on a cut wire. */
bt_msg *bt_gates_to_owner(bt_gates *g, const bt_request_ref *ref, bt_msg_type type);
/* Likewise, whole: FAILED, and REFUSED of a message of type `of`. */
void bt_gates_failed(bt_gates *g, const bt_request_ref *ref, bt_err code, const char *text);
void bt_gates_refused(bt_gates *g, const bt_request_ref *ref, bt_msg_type of, bt_err code, uint32_t retry_after_ms,
                      const char *text);

/* Makes *m, whose sender is set, the HELLO of this node as it is now, to whoever hears it. */
void bt_gates_hello(const bt_gates *g, bt_msg *m);

/* Take no new work from now on, and tell every gateway. next: the role that the process then goes on in; 0: it ends. */
void bt_gates_drain(bt_gates *g, bt_role next);
/* The last words, to every gateway that knows this node. text NULL: all work had ended. */
void bt_gates_bye(bt_gates *g, const char *text);
#endif
