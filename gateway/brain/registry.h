#ifndef GW_REGISTRY_H
#define GW_REGISTRY_H
#include "wire/msg.h"

/* The nodes this gateway knows, and how sure it is of each.
 *
 *   (none) -HELLO-> STARTING -HEARTBEAT-> READY <-> SUSPECT (silent for suspect_us) -> GONE (for gone_us)
 *                                           |
 *                                           +-- draining flag or BYE -> DRAINING (takes no new work)
 *
 * A node whose connection has ended is SUSPECT at once, and GONE when nothing is heard of it for cut_us: one that
 * lives dials again by itself and beats. One that said BYE stays DRAINING until it is silent for gone_us: most likely
 * it comes back as another incarnation.
 * A GONE node that is heard again becomes READY: no node is banned for good. It is forgotten after
 * forget_us, or when its place is needed.
 *
 * An incarnation is one life of a process; its node_id outlives it. A node_id that comes with a new
 * incarnation takes the place of the old one. The old incarnation is then refused for as long as the new
 * one is heard. So two processes with one name cannot push each other out in turns, and the late HELLO of
 * a dead process does not displace the one that runs now. */
typedef enum gw_node_state {
    GW_NODE_STARTING = 1,
    GW_NODE_READY,
    GW_NODE_SUSPECT,
    GW_NODE_DRAINING,
    GW_NODE_GONE,
} gw_node_state;

typedef struct gw_node {
    bt_incarnation incarnation, displaced; /* displaced: the one before it under this node_id, or zero */
    gw_node_state state;
    bt_msg_engine engine;               /* where hello.engine points, when it is not NULL */
    bt_msg_hello hello;                 /* as told last */
    bt_load load;                       /* from the last HELLO or HEARTBEAT */
    int64_t heard_us, heartbeat_due_us; /* last heard; next HEARTBEAT to it */
    bt_peer_key key;                    /* the transport proved it at its HELLO; zero without keys */
    uint32_t attempts;                  /* of this gateway, also those that are being aborted */
    int64_t refuses_until_us;           /* it had no room for an attempt: ask again then */
    uint64_t name;                      /* XXH3-64 of node_id: the same over restarts */
    uint64_t turn;                      /* number of the choice that took it last (route.h), or 0 */
    uint32_t match;                     /* chunks of the prompt it has had; only inside route.c */
    int64_t probe_us;                   /* between HEARTBEATs to it: longer while it is silent */
    bool in_use;                        /* false: a free place of the table */
    bool leaving;                       /* said BYE or draining */
    bool has_left;                      /* said BYE: that its connection ends then is no news */
    bool is_cut;                        /* its connection has ended, and nothing was heard since */
    int64_t cut_us;                     /* since then */
} gw_node;

typedef struct gw_registry {
    gw_node *nodes;
    uint32_t cap; /* places in order of arrival; a free place is used again */
    int64_t suspect_us, gone_us, cut_us, forget_us;
    uint8_t model_id[16];
} gw_registry;

bt_err gw_registry_init(gw_registry *ret, uint32_t cap, const uint8_t model_id[16], int64_t suspect_us, int64_t gone_us,
                        int64_t cut_us, int64_t forget_us);
void gw_registry_done(gw_registry *r);

/* The node with this incarnation, or NULL. */
gw_node *gw_registry_find(const gw_registry *r, const bt_incarnation *who);

uint64_t gw_registry_name(const char *node_id); /* as in gw_node.name; 0 for "" */

/* Take a HELLO. BT_OK: *ret is the node, state STARTING when it is new and unchanged when it was known.
 * *ret_replaced is the incarnation that lost its place to it (zero when none): its attempts are over.
 * Refused, with words that give their value and ours:
 *   BT_EVERSION  another protocol
 *   BT_EFORMAT   another model
 *   BT_EARG      no such role, or another than this incarnation had; a name in use; a shape of zero; a
 *                decode node without an endpoint
 *   BT_ELIMIT    the table is full of live nodes */
bt_err gw_registry_hello(gw_registry *r, gw_node **ret, bt_incarnation *ret_replaced, const bt_incarnation *who,
                         const bt_msg_hello *hello, int64_t now_us, bt_fault *fault);

/* The node was heard: any message of it. Returns the state that it has now. A HEARTBEAT (else NULL) brings
 * its load and whether it drains, and ends STARTING. */
gw_node_state gw_registry_heard(gw_node *n, const bt_msg_heartbeat *heartbeat, int64_t now_us);

/* The connection by which it was heard last has ended. Returns the state that it has now. */
gw_node_state gw_registry_cut(gw_node *n, int64_t now_us);

/* Changes the node's state as its silence up to now_us demands, and returns it. Frees its place (in_use
 * false) when it is to be forgotten. */
gw_node_state gw_registry_expire(gw_registry *r, gw_node *n, int64_t now_us);
/* When gw_registry_expire next changes something for this node. */
int64_t gw_registry_due_us(const gw_registry *r, const gw_node *n);
const char *gw_node_state_name(gw_node_state s); /* "ready" */
#endif
