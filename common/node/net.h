#ifndef BT_NODE_NET_H
#define BT_NODE_NET_H
#include "rt/loop.h"
#include "rt/sock.h"
#include "node/link.h"

/* Makes a daemon's links: one socket context, its keys, and the list of allowed peers. Without keys only local
 * addresses are accepted; with keys every link is encrypted, and a listening link accepts only keys of the allow list.
 * Used in the loop's thread. */
typedef struct bt_net bt_net;

/* keys_dir NULL: no keys; otherwise key_name names this process's secret in keys_dir (NULL: the only one), and the
 * allow list must give its key `role` (a bit of bt_peer_role), else BT_EAUTH. Errors of bt_keys_load,
 * bt_peer_auth_load. */
bt_err bt_net_open(bt_net **ret, bt_loop *loop, const char *keys_dir, const char *key_name, bt_peer_role role,
                   bt_fault *fault);
/* Reads the allow list again, for every link at once: new keys may connect, and no message goes to or comes from a key
 * that is gone or has lost its role. *ret_keys: the number of keys. After an error the list is as it was. Without keys
 * there is nothing to do: BT_OK and 0. */
bt_err bt_net_reload(size_t *ret_keys, bt_net *n, bt_fault *fault);
unsigned bt_net_own_roles(const bt_net *n); /* roles of this process's own key in the present list; all roles without
                                               keys */
/* BT_EAUTH: the allow list gives this node_id to another key than this process's. */
bt_err bt_net_check_id(const bt_net *n, const char *node_id, bt_fault *fault);
void bt_net_close(bt_net *n); /* after its links, before the loop; waits at most their linger; NULL is fine */
uint64_t bt_net_refused(const bt_net *n); /* peers turned away by key */

/* peers: the roles (bits of bt_peer_role) whose keys are accepted. ret_endpoint: the bound address. Errors of
 * bt_sock_bind. */
bt_err bt_net_listen(bt_link **ret, char ret_endpoint[BT_SOCK_ENDPOINT_BYTES], bt_net *n, bt_sock_role role,
                     const char *endpoint, unsigned peers, const bt_link_handler *handler, bt_fault *fault);
/* server: the key that the other side must prove; NULL or zero without keys. BT_EAUTH: the allow list does not give
 * this key the role that `role` dials (CONTROL_DEALER: gateway, BULK_DEALER: decode), or keys are in use and `server`
 * is none. Errors of bt_sock_connect. */
bt_err bt_net_dial(bt_link **ret, bt_net *n, bt_sock_role role, const char *endpoint, const bt_peer_key *server,
                   const bt_link_handler *handler, bt_fault *fault);
/* Calls fn with bits of bt_sock_news when there is news of this link's connections, until bt_net_unwatch, which comes
 * before the link is freed. Errors of bt_sock_watch, bt_loop_add_socket. */
typedef struct bt_net_watch bt_net_watch;
bt_err bt_net_watch_link(bt_net_watch **ret, bt_net *n, const bt_link *link, bt_loop_fn *fn, void *ud, bt_fault *fault);
void bt_net_unwatch(bt_net_watch *w); /* NULL is fine */
/* The key of the allow list that has a role (bits of bt_peer_role) and this name, or where name is NULL the only key of
 * the role; zero without keys. Errors of bt_peer_auth_find. */
bt_err bt_net_find_key(bt_peer_key *ret, const bt_net *n, unsigned roles, const char *name, bt_fault *fault);
#endif
