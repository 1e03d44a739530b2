#ifndef GW_REGISTRY_H
#define GW_REGISTRY_H
#include "wire/msg.h"

/* The nodes this gateway knows, and how sure it is of each.
 *
 *   (none) --HELLO--> STARTING --HEARTBEAT--> READY <--> SUSPECT (silent for suspect_us) --> GONE (silent for gone_us)
 *                                               |
 *                                               +-- draining flag or BYE --> DRAINING (keeps its work, takes no new)
 * A GONE node that is heard again becomes READY: no node is banned for good. It is forgotten after forget_us,
 * or when its place is needed. A node_id that returns with a new incarnation takes the place of the old one;
 * the old incarnation is then refused while the new one is heard, so that two processes with one name cannot push each
 * other out in turns, and a HELLO that comes after its sender's death does not shut out the living. */
typedef enum gw_node_state {
    GW_NODE_STARTING = 1, GW_NODE_READY, GW_NODE_SUSPECT, GW_NODE_DRAINING, GW_NODE_GONE,
} gw_node_state;

typedef struct gw_node {
    bt_incarnation incarnation, displaced;      /* displaced: the one before under this node_id; zero when none */
    gw_node_state state;
    bt_msg_engine engine;                       /* where hello.engine points, when it is not NULL */
    bt_msg_hello hello;                         /* as told last; role, node_id, kv, ctx_tokens, kv_endpoint, pid,
                                                 * ... */
    bt_load load;                               /* from the last HELLO or HEARTBEAT */
    int64_t heard_us, heartbeat_due_us;         /* last heard; next HEARTBEAT to it */
    bt_peer_key key;                            /* that the transport proved at its HELLO; zero without keys */
    uint32_t attempts;                          /* of this gateway, open on the node (being aborted counts) */
    int64_t refuses_until_us;                   /* it had no room for an attempt, and said when to ask again */
    uint64_t name;                              /* XXH3-64 of node_id: the same over restarts */
    uint64_t turn;                              /* when route.h chose it last, in choices; 0 never */
    uint32_t match;                             /* inside route.h: chunks of the prompt that it has had */
    int64_t probe_us;                           /* between HEARTBEATs to it: longer while it is silent */
    bool in_use;                                /* false: a free place of the table */
    bool leaving;                               /* said BYE or draining */
} gw_node;

typedef struct gw_registry {
    gw_node *nodes; uint32_t cap;               /* places in order of arrival; a free place is used again */
    int64_t suspect_us, gone_us, forget_us;
    uint8_t model_id[16];
} gw_registry;

bt_err gw_registry_init(gw_registry *ret, uint32_t cap, const uint8_t model_id[16], int64_t suspect_us, int64_t gone_us,
                        int64_t forget_us);
void gw_registry_done(gw_registry *r);

/* The node with this incarnation, or NULL. */
gw_node *gw_registry_find(const gw_registry *r, const bt_incarnation *who);

uint64_t gw_registry_name(const char *node_id);         /* as in gw_node.name; 0 for "" */

/* Take a HELLO. BT_OK: *ret is the node, state STARTING when it is new and unchanged when it was known.
 * *ret_replaced is the incarnation that lost its place to it (zero when none): its attempts are over. Refused,
 * with words naming their value and ours: BT_EVERSION (protocol), BT_EFORMAT (model), BT_EARG (role, or another one than
 * this incarnation said before, a name in use, a shape of zero, a decode node without an endpoint), BT_ELIMIT (table full of live nodes). */
bt_err gw_registry_hello(gw_registry *r, gw_node **ret, bt_incarnation *ret_replaced, const bt_incarnation *who,
                         const bt_msg_hello *hello, int64_t now_us, bt_fault *fault);

/* The node was heard (any message). Gives the state it now has; with a HEARTBEAT its load, draining flag and
 * STARTING end. */
gw_node_state gw_registry_heard(gw_node *n, const bt_msg_heartbeat *heartbeat, int64_t now_us);

/* What silence has made of the node at now_us: changes and returns its state; frees the place of a long-gone one
 * (in_use false). */
gw_node_state gw_registry_expire(gw_registry *r, gw_node *n, int64_t now_us);
/* When gw_registry_expire next changes something for this node. */
int64_t gw_registry_due_us(const gw_registry *r, const gw_node *n);
const char *gw_node_state_name(gw_node_state s);        /* "ready" */
#endif
