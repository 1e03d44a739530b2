#ifndef BT_NODE_LINK_H
#define BT_NODE_LINK_H
#include <stdint.h>
#include "crypto/peer_auth.h"
#include "kv/kv_header.h"
#include "wire/msg.h"

typedef struct bt_kv_view bt_kv_view; /* kernels/kv_view.h */

/* A socket that speaks the project's frames: control messages, and on bulk links KV blocks. Bytes are checked here and
 * become structs; a bad message is counted, reported to on_bad, and goes no further.
 *
 * On a ROUTER, peers are named by incarnation: each good message notes the way back to its sender. With keys, an
 * incarnation belongs to the key that used it first; another key that claims it is refused. A link remembers at most
 * BT_LINK_MAX_ROUTES incarnations, and BT_LINK_PEER_ROUTES of one key (without keys: of one connection), so that a peer
 * that invents incarnations pushes nobody else out; the incarnation silent for longest makes room.
 *
 * With keys every message names its sender: bt_msg.from_key and on_block's from_key are the public key that the
 * transport proved, zero on plain links. One thread. */
typedef struct bt_link bt_link;

enum { BT_LINK_MAX_ROUTES = 1024, BT_LINK_PEER_ROUTES = 16, BT_LINK_SILENT_MS = 4000, BT_LINK_SILENT_MAX_MS = 16000 };

typedef struct bt_link_handler {
    void (*on_msg)(void *ud, const bt_msg *m); /* m and what it borrows live during the call */
    /* A block with a good header; its digest is not tested yet. body has h->body_bytes bytes. NULL: blocks are bad
     * messages. */
    void (*on_block)(void *ud, const bt_kv_header *h, const uint8_t *body, const bt_peer_key *from_key);
    void (*on_bad)(void *ud, const bt_fault *why);
    void *ud;
} bt_link_handler;

/* Takes ownership of the socket (bt_sock_open) in success. */
bt_err bt_link_new(bt_link **ret, void *socket, bool is_router, const bt_link_handler *handler, bt_fault *fault);
void bt_link_free(bt_link *l); /* closes the socket; NULL is fine */
/* Makes a ROUTER remember `routes` incarnations in place of BT_LINK_MAX_ROUTES; before anything is received. BT_ENOMEM.
 */
bt_err bt_link_remember(bt_link *l, uint32_t routes);
void *bt_link_socket(const bt_link *l);
/* From now on the link exchanges messages only with keys that have one of these roles (bits of bt_peer_role) in the
 * list, and a HELLO counts only from a key with the role that it claims. The list is asked each time, so it may change
 * in place; it must outlive the link. server: on a DEALER the key that the socket demands of the other side, NULL on a
 * ROUTER. */
void bt_link_require(bt_link *l, const bt_peer_allow *allow, unsigned roles, const bt_peer_key *server);
bool bt_peer_key_is_none(const bt_peer_key *key); /* zero: of a plain link */
/* For a DEALER that dials `endpoint`. From now on, when it sends but receives nothing for BT_LINK_SILENT_MS, then for
 * twice as long, up to BT_LINK_SILENT_MAX_MS, the link dials the endpoint anew (bt_sock_redial); messages under way on
 * the silent connection are lost. */
void bt_link_redial_when_silent(bt_link *l, const char *endpoint);

/* Handles up to `budget` messages that have arrived. The handler may send on the link, but not free it. */
void bt_link_receive(bt_link *l, int budget);

/* Hands one message to the socket, without waiting; a ROUTER sends it to m->to. BT_EAGAIN: the queue is full or the
 * peer is away; BT_EIO: no route to that incarnation, or its connection has ended; BT_EAUTH: the list no longer allows
 * its key; errors of bt_msg_encode. */
bt_err bt_link_send(bt_link *l, const bt_msg *m, bt_fault *fault);
/* Copies the block's rows out of the view (the one copy on this side), completes the header's body_bytes and digest,
 * and sends both frames. DEALER links only. Errors of bt_link_send and bt_kv_pack_take. */
bt_err bt_link_send_block(bt_link *l, bt_kv_header *h, const bt_kv_view *view, bt_fault *fault);

typedef struct bt_link_counters {
    uint64_t received, sent; /* good messages, both ways */
    uint64_t bad;            /* bytes that are no message of this protocol */
    uint64_t forbidden;      /* sent under a key without the right role */
    uint64_t unsent; /* for want of a route, a connection or room in the queue, or because the key is no longer allowed
                      */
    uint64_t bytes_in, bytes_out; /* of all messages received, good or bad; of all sent */
} bt_link_counters;
const bt_link_counters *bt_link_counters_of(const bt_link *l);
#endif
