#ifndef BT_XFER_GATES_H
#define BT_XFER_GATES_H
#include "xfer/greeting.h"
#include "xfer/role.h"
#include "xfer/step.h"

/* The conversation of any node with its gateways: HELLO and heartbeats on every control link, messages to the owner of
 * an attempt, ROLE, draining and BYE. Pure; a part of both node brains. It allocates nothing.
 *
 * A gate is the control link to one gateway, addressed by its index. The owner of an attempt is the gateway process
 * that made the attempt: an incarnation, which is behind one of the gates or behind none.
 *
 * The brain decides what becomes of its attempts: bt_gates_msg returns what the brain must do. */
enum { BT_GATES_MAX = 8 };

typedef struct bt_gates {
    /* The brain sets these fields first; all others begin as zero. */
    bt_incarnation self;
    bt_role role;
    uint32_t len; /* 1..BT_GATES_MAX */
    bt_greeting_times times;
    const bt_msg_hello *hello; /* borrowed; protocol, role, draining and load are filled in here */
    void *brain;
    bt_msg *(*send)(void *brain, uint32_t gate); /* makes the action that sends a message to a gate */
    bt_load (*load)(const void *brain);          /* the node's count of itself, now */
    bt_role_may role_may;                        /* whether this node can serve as the other role */

    bt_greeting greetings[BT_GATES_MAX];
    bool started;      /* bt_gates_tick was called */
    bool draining;     /* this node takes no new work */
    bool left;         /* BYE was sent */
    bt_role next_role; /* the role for which it drains; 0: it ends */
} bt_gates;

/* Sends what is due: HELLO, heartbeats; the first call greets. _due_us: when the next is due; 0 before the first,
 * BT_STEP_NEVER after bt_gates_bye. */
void bt_gates_tick(bt_gates *g, int64_t now_us);
int64_t bt_gates_due_us(const bt_gates *g);
/* For a simulator that leaps heartbeats (xfer/greeting.h), with a node that has one gateway. _wake: the gateway's last
 * heartbeat came at heard_us. Returns when the node's last one before now_us was due; 0: the node did not rest. */
void bt_gates_rest(bt_gates *g);
int64_t bt_gates_wake(bt_gates *g, int64_t now_us, int64_t heard_us);
/* The connection of this gate is up again. */
void bt_gates_up(bt_gates *g, uint32_t gate, int64_t now_us);
bool bt_gates_is_welcome(const bt_gates *g); /* some gateway has sent WELCOME */

typedef enum bt_gates_news {
    BT_GATES_NOTHING = 0, /* done */
    BT_GATES_REQUEST,     /* about an attempt, 1.., from its owner: for the brain */
    BT_GATES_DRAINS,      /* ROLE, answered with yes: the brain calls bt_gates_drain, and the drain timeout must run */
    BT_GATES_REFUSED,     /* REJECT, whose text should be logged */
    BT_GATES_MISSENT,     /* meant for another incarnation of this node; to be counted */
    BT_GATES_UNEXPECTED,  /* to be counted */
} bt_gates_news;
/* Takes a message that came through `gate`, and answers greetings and ROLE. */
bt_gates_news bt_gates_msg(bt_gates *g, uint32_t gate, const bt_msg *m, int64_t now_us);

/* A message about ref to its owner, for the caller to fill in. NULL: the owner is behind no gate now, and the message
 * would be lost, as on a cut wire. */
bt_msg *bt_gates_to_owner(bt_gates *g, const bt_request_ref *ref, bt_msg_type type);
/* Send a whole message to the owner: FAILED, and REFUSED for a message of type `of`. */
void bt_gates_failed(bt_gates *g, const bt_request_ref *ref, bt_err code, const char *text);
void bt_gates_refused(bt_gates *g, const bt_request_ref *ref, bt_msg_type of, bt_err code, uint32_t retry_after_ms,
                      const char *text);

/* Makes *m, whose sender is set, this node's HELLO, addressed to nobody in particular. */
void bt_gates_hello(const bt_gates *g, bt_msg *m);

/* Takes no new work from now on, and tells every gateway. next: the role in which the process then goes on; 0: it ends.
 */
void bt_gates_drain(bt_gates *g, bt_role next);
/* Sends BYE to every gateway that knows this node. text NULL: all work had ended. */
void bt_gates_bye(bt_gates *g, const char *text);
#endif
