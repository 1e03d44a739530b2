#ifndef GW_NODE_LINK_H
#define GW_NODE_LINK_H
#include "rt/loop.h"
#include "wire/msg.h"

/* The control socket of the gateway: frames from nodes to messages, messages to frames, and which link leads to which process.
 *
 * The route to an incarnation is the link its last HELLO came by (any first message makes one too). With keys, an incarnation
 * belongs to the key it was first heard under, and a HELLO's role must be one that the allow file gives to its key. Frames
 * that are broken or break these rules are dropped and counted; sending never waits: what cannot go now is dropped, because
 * brains send again what is not answered. */
typedef struct gw_node_link gw_node_link;
typedef void gw_node_link_fn(void *ud, const bt_msg *msg);      /* borrows msg for the call */

typedef struct gw_node_link_counts {
    uint64_t received, sent;
    uint64_t bad;               /* frames that are no message of ours */
    uint64_t forbidden;         /* a message under a key that may not say it, and peers turned away by key */
    uint64_t unsent;            /* no route, no link or a full queue */
} gw_node_link_counts;

enum { GW_NODE_LINK_MAX_ROUTES = 1024 };       /* one more takes the place of the one heard longest ago */

/* keys_dir NULL: none, and then the endpoint must be local. Errors of rt/sock.h. */
bt_err gw_node_link_open(gw_node_link **ret, bt_loop *loop, const char *endpoint, const char *keys_dir, gw_node_link_fn *fn,
                         void *ud, bt_fault *fault);
void   gw_node_link_close(gw_node_link *l);    /* NULL is fine */
const char *gw_node_link_endpoint(const gw_node_link *l);      /* where it really is */
void   gw_node_link_send(gw_node_link *l, const bt_incarnation *peer, const bt_msg *msg);
gw_node_link_counts gw_node_link_counters(const gw_node_link *l);
#endif
