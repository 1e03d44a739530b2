#ifndef GW_NODE_LINK_H
#define GW_NODE_LINK_H
#include "rt/loop.h"
#include "node/link.h"

/* The control socket of the gateway, as the rest of it sees it: messages of nodes come in, messages to nodes go out.
 * Broken frames, and messages under a key without the right role, are dropped and counted (node/link.h). Sending never
 * waits: a message that cannot go now is dropped, because brains send unanswered messages again. */
typedef struct gw_node_link gw_node_link;
typedef void gw_node_link_fn(void *ud, const bt_msg *msg); /* borrows msg for the call */
typedef void gw_node_link_cut_fn(void *ud); /* some connections have ended; called at most 50 times a second */

/* nodes: the most nodes; the link remembers two incarnations of each. keys_dir NULL: no keys, and then the endpoint
 * must be local; key NULL: the only secret of keys_dir. Errors of bt_net_open, bt_net_listen. */
bt_err gw_node_link_open(gw_node_link **ret, bt_loop *loop, uint32_t nodes, const char *endpoint, const char *keys_dir,
                         const char *key, gw_node_link_fn *fn, gw_node_link_cut_fn *cut, void *ud, bt_fault *fault);
void gw_node_link_reload(gw_node_link *l);                /* reads the allow list again, and logs the result */
void gw_node_link_close(gw_node_link *l);                 /* NULL is fine */
const char *gw_node_link_endpoint(const gw_node_link *l); /* the bound address */
/* Sends to msg->to. False: there is no connection to it any more. */
bool gw_node_link_send(gw_node_link *l, const bt_msg *msg);
/* `forbidden` includes peers turned away before their first message */
bt_link_counters gw_node_link_counters(const gw_node_link *l);
#endif
