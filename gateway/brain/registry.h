#ifndef GW_REGISTRY_H
#define GW_REGISTRY_H
#include "base/order.h"
#include "wire/msg.h"

#include <string.h>

/* The nodes this gateway knows, and how sure it is of each.
 *
 *   (none) -HELLO-> STARTING -HEARTBEAT-> READY <-> SUSPECT (silent for suspect_us) -> GONE (for gone_us)
 *                                           |
 *                                           +-- draining flag or BYE -> DRAINING (takes no new work)
 *
 * A node whose connection has ended is SUSPECT at once, and GONE after cut_us of silence: a living node dials again by
 * itself and sends heartbeats. A node that sent BYE stays DRAINING until it is silent for gone_us: most likely it comes
 * back as another incarnation. A GONE node that is heard again becomes READY: no node is banned for good. A GONE node
 * is forgotten after forget_us, or when its place is needed.
 *
 * An incarnation is one life of a process; its node_id outlives it. A node_id that comes with a new incarnation takes
 * the place of the old one where that is GONE, has sent BYE, or has not dialled again GW_REDIAL_US after the end of its
 * connection. Else the old one is asked: the new one is refused when the old one is heard, and takes its place when
 * that is silent for cut_us. So the one that answers keeps its name, two processes with one name do not push each other
 * out in turns, and the late HELLO of a dead process does not displace the one that runs now. */
typedef enum gw_node_state {
    GW_NODE_STARTING = 1,
    GW_NODE_READY,
    GW_NODE_SUSPECT,
    GW_NODE_DRAINING,
    GW_NODE_GONE,
} gw_node_state;

/* A sum that forgets: it halves at the end of every span of GW_LATELY_US. */
enum { GW_LATELY_US = 300000000 };
typedef struct gw_lately {
    uint64_t sum;
    int64_t span; /* in which it stood so */
} gw_lately;

typedef struct gw_node {
    bt_incarnation incarnation;
    gw_node_state state;
    bt_msg_device device;               /* where hello.device points, when it is not NULL */
    bt_msg_engine engine;               /* where hello.engine points, when it is not NULL */
    bt_msg_hello hello;                 /* the last HELLO */
    bt_load load;                       /* from the last HELLO or HEARTBEAT */
    int64_t heard_us, heartbeat_due_us; /* when it was heard last; when its next HEARTBEAT is due */
    bt_peer_key key;                    /* proved by the transport at its HELLO; zero without keys */
    char address[48], key_name[33];     /* from the same HELLO, for people; "": unknown */
    uint32_t attempts;                  /* of this gateway, those being aborted included */
    uint32_t long_attempts;             /* of these, prompts that are long for the node (hello.short_tokens) */
    uint32_t lined;                     /* of these attempts, those that wait in the node's line */
    uint64_t held_tokens;               /* what these attempts need there at least, as far as is known */
    bool is_full;                       /* it put one into its line, and none has left it since */
    uint64_t waiting_tokens;            /* of prompts of these attempts that the node has still to get or compute */
    gw_lately given;                    /* such tokens of all attempts that the node got lately */
    int64_t refuses_until_us;           /* it had no room for an attempt: when to ask again */
    uint64_t name;                      /* XXH3-64 of node_id: the same over restarts */
    uint64_t turn;                      /* number of the last choice that took it (route.h), or 0 */
    int64_t probe_us;                   /* between HEARTBEATs to it: longer while it is silent */
    bool in_use;                        /* false: a free place of the table */
    bool leaving;                       /* sent BYE or is draining */
    bool has_left;                      /* sent BYE: the end of its connection is no news */
    bool rests;                         /* heartbeats both ways count as sent (gw_brain_rest) */
    bool is_cut;                        /* its connection has ended, and nothing was heard since */
    int64_t cut_us;                     /* since then */
    bool is_asked, has_answered;        /* another process wants its name; it was heard since */
    int64_t asked_us;                   /* since then */
    /* Its places in the orders below depend on these. */
    uint64_t exact_class, prefill_class; /* hashes of the two exactness classes of its HELLO; 0: "" */
    uint32_t shape;                      /* place in gw_registry.shapes, + 1 */
    uint32_t slots;                      /* its part of gw_registry.slots */
    uint64_t kv_tokens;                  /* its part of gw_registry.kv_tokens */
    bool refuses;                        /* refuses_until_us is to come */
    uint64_t seen[4];                    /* the values by which it has its places; private */
} gw_node;

/* Sums in the Load of all nodes of one role since this gateway began; a process that is no more counts with its last
 * figures. */
typedef struct gw_load_sum {
    uint64_t ns, ideal_ns, nj, paced_us, late_us, overtakes;
} gw_load_sum;

typedef struct gw_shape {
    bt_kv_shape kv;
    uint32_t nodes; /* nodes of this shape; 0: a free place */
} gw_shape;

/* Orders of nodes (base/order.h), so that no step looks at all nodes: which node is due, and which comes first for a
 * request. A set of a role and a shape is 2 * shape + (role is decode). */
typedef struct gw_registry {
    gw_node *nodes;
    uint32_t cap;  /* places in order of arrival; a free place is used again, the first one first */
    uint32_t used; /* places that were ever taken: none from here on is in use */
    int64_t suspect_us, gone_us, cut_us, forget_us;
    uint8_t model_id[16];
    gw_shape *shapes;
    uint32_t shapes_len; /* places that were ever taken */
    gw_load_sum sums[2]; /* by role is decode */
    uint64_t slots[2];   /* of READY nodes, by role is decode */
    uint32_t ready[2];   /* READY nodes with slots, likewise */
    gw_lately given[2];  /* the sums of all nodes, likewise */
    int64_t span;        /* of gw_registry_pass */
    uint64_t changes;    /* how often anything changed on which a choice of nodes depends */
    bt_order who, names; /* in use, by incarnation; by name */
    bt_order had;        /* names that nodes have had since the gateway began, by name */
    uint32_t had_len;    /* GW_REGISTRY_HAD times cap at most */
    bt_order idle;       /* GW_IDLE_FREE: free places; GW_IDLE_GONE: GONE without attempts, by when it was heard */
    bt_order due;        /* GW_DUE: by gw_registry_due_us or heartbeat_due_us; GW_RIPE: see gw_registry_ripen */
    bt_order refusing;   /* by the end of it */
    bt_order kin;        /* by role and shape: not GONE */
    bt_order there;      /* by role and shape: READY and SUSPECT, the one that holds the longest sequence first */
    bt_order by_load, by_turn; /* by gw_registry_open_set: READY with a slot free for any prompt, in a policy's
                                * order (route.h) */
    bt_order short_by_load, short_by_turn; /* the same of prefill nodes with a slot free for a short prompt */
    bt_order by_short;  /* READY ones that keep slots for short prompts, by short_tokens, the most first */
    bt_order least;     /* by role is decode: READY ones with slots, the least loaded first */
    bt_order known;     /* prefill nodes that are not gone or leaving, by class */
    bt_order locals;    /* decode nodes in `there` that prefill, by class, the last place of a class first */
    uint64_t kv_tokens; /* of all nodes that are not gone, for the size of gw_affinity */
} gw_registry;
enum { GW_IDLE_FREE, GW_IDLE_GONE, GW_REGISTRY_HAD = 4 };
enum { GW_DUE, GW_RIPE };
enum { GW_REDIAL_US = 50000 }; /* a living node whose connection has ended is heard sooner */

static inline uint32_t gw_registry_set(uint32_t shape, bt_role role) { return 2 * shape + (role == BT_ROLE_DECODE); }
/* Nodes in whose lines attempts of this gateway wait are sets of their own. Attempts that wait take no slot. A line
 * with GW_LINED_MAX of them, or as many as the node has slots, is full for requests that have no token yet: they stay
 * here, where it is chosen whose turn it is. */
enum { GW_LINED_MAX = 16 };
typedef enum gw_open { GW_OPEN = 0, GW_OPEN_LINED, GW_OPEN_FULL, GW_OPENS } gw_open;
static inline uint32_t gw_registry_open_set(uint32_t shape, bt_role role, gw_open how)
{
    return GW_OPENS * gw_registry_set(shape, role) + how;
}
static inline gw_open gw_node_open(const gw_node *n)
{
    const uint32_t slots = n->load.slots_total, most = slots < GW_LINED_MAX ? slots : GW_LINED_MAX;
    return n->lined == 0 ? GW_OPEN : n->lined < most ? GW_OPEN_LINED : GW_OPEN_FULL;
}
static inline bt_order_key gw_registry_key(const bt_incarnation *who)
{
    bt_order_key k;
    memcpy(&k.hi, who->bytes, sizeof k.hi);
    memcpy(&k.lo, who->bytes + sizeof k.hi, sizeof k.lo);
    return k;
}
/* Whether a prompt with so many tokens to compute is long for the node. */
static inline bool gw_node_is_long(const gw_node *n, uint32_t tokens)
{
    return n->hello.short_slots > 0 && tokens > n->hello.short_tokens;
}
/* Whether it has a slot free for long prompts, as far as attempts say. */
static inline bool gw_node_takes_long(const gw_node *n)
{
    return (uint64_t)n->long_attempts + n->hello.short_slots < n->load.slots_total &&
           n->attempts < (uint64_t)n->load.slots_total + n->lined;
}
/* The longest sequence that the node holds. */
static inline uint64_t gw_node_limit(const gw_node *n)
{
    const uint64_t kv = n->hello.kv_capacity_tokens;
    return n->hello.role == BT_ROLE_DECODE && kv < n->hello.ctx_tokens ? kv : n->hello.ctx_tokens;
}

bt_err gw_registry_init(gw_registry *ret, uint32_t cap, const uint8_t model_id[16], int64_t suspect_us, int64_t gone_us,
                        int64_t cut_us, int64_t forget_us);
void gw_registry_done(gw_registry *r);

/* The node with this incarnation, or NULL. */
gw_node *gw_registry_find(const gw_registry *r, const bt_incarnation *who);

/* The node of this name that is not GONE; NULL: none. */
gw_node *gw_registry_named(const gw_registry *r, const char *node_id);
gw_node *gw_registry_by_name(const gw_registry *r, uint64_t name); /* the same by gw_node.name, GONE or not */

/* The most tokens of a short prompt, over all READY nodes that keep slots for short prompts; 0: none does. */
uint32_t gw_registry_short_tokens(const gw_registry *r);

uint64_t gw_registry_name(const char *node_id); /* as in gw_node.name; 0 for "" */
/* Whether a node has had this name since the gateway began. Past GW_REGISTRY_HAD times cap names it is true of all. */
bool gw_registry_had(const gw_registry *r, uint64_t name);
/* A number of the name below GW_REGISTRY_HAD times cap, for as long as the gateway lives; -1: it was not noted. */
int64_t gw_registry_had_place(const gw_registry *r, uint64_t name);

/* Puts the node to its places in all orders: called after a field of it was written outside of this file.
 * gw_registry_told: after its HELLO was written too. */
void gw_registry_changed(gw_registry *r, gw_node *n);
void gw_registry_told(gw_registry *r, gw_node *n);
/* The node gets nothing until until_us. */
void gw_registry_refuses(gw_registry *r, gw_node *n, int64_t until_us);
/* Ends the refusals whose time is over, and lets sums forget. */
void gw_registry_pass(gw_registry *r, int64_t now_us);
/* The node gets so many tokens of a prompt, for an attempt: they wait, and were given lately. */
void gw_registry_give(gw_registry *r, gw_node *n, uint32_t tokens);
/* The value of `l` at the time of the last gw_registry_pass. */
uint64_t gw_registry_lately(const gw_registry *r, const gw_lately *l);
int64_t gw_registry_refusing_us(const gw_registry *r); /* when the next one ends; INT64_MAX */

/* gw_registry_ripen makes nodes due by now_us ripe; then gw_registry_next_ripe gives the ripe ones, each once, in order
 * of place. The caller then calls gw_registry_changed with the node. NULL: no more. */
void gw_registry_ripen(gw_registry *r, int64_t now_us);
gw_node *gw_registry_next_ripe(gw_registry *r);
int64_t gw_registry_next_due_us(const gw_registry *r); /* INT64_MAX: none */

/* Takes a HELLO. BT_OK: *ret is the node, state STARTING when it is new and unchanged when it was known. *ret_replaced
 * is the incarnation that lost its place to it (zero when none): its attempts are over. Refused, with words that give
 * both values:
 *   BT_EVERSION  another protocol
 *   BT_EFORMAT   another model
 *   BT_EARG      no such role, or another than this incarnation had; a shape of zero; a decode node without an endpoint
 *   BT_EAUTH     *ret has the name, and was heard since it was asked
 *   BT_ELIMIT    the table is full of live nodes
 * BT_EAGAIN: *ret has the name, and is to be asked: HEARTBEAT goes to it now. The next HELLO finds out. */
bt_err gw_registry_hello(gw_registry *r, gw_node **ret, bt_incarnation *ret_replaced, const bt_incarnation *who,
                         const bt_msg_hello *hello, int64_t now_us, bt_fault *fault);

/* A message of the node came. Returns the node's state. A HEARTBEAT (else NULL) brings its load and whether it drains,
 * and ends STARTING. */
gw_node_state gw_registry_heard(gw_registry *r, gw_node *n, const bt_msg_heartbeat *heartbeat, int64_t now_us);

/* The connection by which the node was heard last has ended. Returns the node's state. */
gw_node_state gw_registry_cut(gw_registry *r, gw_node *n, int64_t now_us);

/* Changes the node's state as its silence up to now_us demands, and returns it. Frees its place (in_use
 * false) when it is to be forgotten. */
gw_node_state gw_registry_expire(gw_registry *r, gw_node *n, int64_t now_us);
int64_t gw_registry_lost_us(const gw_registry *r, const gw_node *n); /* when its silence makes it GONE */
/* When gw_registry_expire next changes something for this node. */
int64_t gw_registry_due_us(const gw_registry *r, const gw_node *n);
const char *gw_node_state_name(gw_node_state s); /* "ready" */
#endif
