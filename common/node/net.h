#ifndef BT_NODE_NET_H
#define BT_NODE_NET_H
#include "rt/loop.h"
#include "rt/sock.h"
#include "node/link.h"

/* Where a daemon's links come from: one socket context, its keys, and who may come in. Without keys only local
 * addresses are taken; with keys every link is encrypted and a listening one takes only keys of the allow list. Used
 * in the loop's thread. */
typedef struct bt_net bt_net;

/* keys_dir NULL: no keys; otherwise key_name says which secret of it is ours (NULL: the only one), and the allow list
 * must give its key `role` (a bit of bt_peer_role). BT_EAUTH: it does not; errors of bt_keys_load,
 * bt_peer_auth_load. */
bt_err bt_net_open(bt_net **ret, bt_loop *loop, const char *keys_dir, const char *key_name, bt_peer_role role,
                   bt_fault *fault);
/* Reads the allow list again, for every link at once: new keys may connect, and keys that are gone or have lost a role
 * are neither heard nor spoken to any more. *ret_keys: how many it has now. After an error the list is as it was.
 * Without keys there is nothing to do: BT_OK and 0. */
bt_err bt_net_reload(size_t *ret_keys, bt_net *n, bt_fault *fault);
unsigned bt_net_own_roles(const bt_net *n); /* of our own key in the list as it is now; all without keys */
void bt_net_close(bt_net *n); /* after its links, before the loop; waits at most their linger; NULL is fine */
uint64_t bt_net_refused(const bt_net *n); /* peers turned away by key */

/* peers: the roles (bits of bt_peer_role) whose keys are heard. ret_endpoint: where it really is. Errors of
 * bt_sock_bind. */
bt_err bt_net_listen(bt_link **ret, char ret_endpoint[BT_SOCK_ENDPOINT_BYTES], bt_net *n, bt_sock_role role,
                     const char *endpoint, unsigned peers, const bt_link_handler *handler, bt_fault *fault);
/* server: the key that the other side must prove; NULL or zero without keys. BT_EAUTH: the allow list does not give it
 * the role that `role` dials (CONTROL_DEALER: gateway, BULK_DEALER: decode), or there is none and keys are in use.
 * Errors of bt_sock_connect. */
bt_err bt_net_dial(bt_link **ret, bt_net *n, bt_sock_role role, const char *endpoint, const bt_peer_key *server,
                   const bt_link_handler *handler, bt_fault *fault);
/* Calls fn with bits of bt_sock_news when there is news of this link's connections, until _unwatch; both before the
 * link is freed. Errors of bt_sock_watch, bt_loop_add_socket. */
typedef struct bt_net_watch bt_net_watch;
bt_err bt_net_watch_link(bt_net_watch **ret, bt_net *n, const bt_link *link, bt_loop_fn *fn, void *ud, bt_fault *fault);
void bt_net_unwatch(bt_net_watch *w); /* NULL is fine */
/* The key of the allow list that has a role (bits of bt_peer_role) and this name, or where name is NULL the only one of
 * the role; zero without keys. Errors of bt_peer_auth_find. */
bt_err bt_net_find_key(bt_peer_key *ret, const bt_net *n, unsigned roles, const char *name, bt_fault *fault);
#endif
