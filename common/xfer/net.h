#ifndef BT_XFER_NET_H
#define BT_XFER_NET_H
#include "rt/loop.h"
#include "rt/sock.h"
#include "xfer/link.h"

/* Where a daemon's links come from: one socket context, its keys, and who may come in. Without keys only local addresses are
 * taken; with keys every link is encrypted and a listening one takes only keys of the allow list. Used in the loop's thread. */
typedef struct bt_net bt_net;

/* keys_dir NULL: no keys; otherwise key_name says which secret of it is ours. */
bt_err   bt_net_open(bt_net **ret, bt_loop *loop, const char *keys_dir, const char *key_name, bt_fault *fault);
void     bt_net_close(bt_net *n);           /* after its links, before the loop; waits at most their linger; NULL is fine */
uint64_t bt_net_refused(const bt_net *n);   /* peers turned away by key */

/* peers: the roles (bits of bt_peer_role) whose keys are heard. ret_endpoint: where it really is. Errors of bt_sock_bind. */
bt_err bt_net_listen(bt_link **ret, char ret_endpoint[BT_SOCK_ENDPOINT_BYTES], bt_net *n, bt_sock_role role, const char *endpoint,
                     unsigned peers, const bt_link_handler *handler, bt_fault *fault);
/* peer_name: whose public key of the key directory the other side must have. Errors of bt_keys_load_public, bt_sock_connect. */
bt_err bt_net_dial(bt_link **ret, bt_net *n, bt_sock_role role, const char *endpoint, const char *peer_name,
                   const bt_link_handler *handler, bt_fault *fault);
#endif
