#ifndef BT_NODE_LINK_H
#define BT_NODE_LINK_H
#include <stdint.h>
#include "crypto/peer_auth.h"
#include "kernels/kv_view.h"
#include "kv/kv_header.h"
#include "wire/msg.h"

/* A socket that speaks the project's frames: control messages, and on bulk links KV blocks. Bytes are checked here and
 * become structs; whatever is wrong with them is counted, told to on_bad, and goes no further.
 *
 * On a ROUTER, peers are named by incarnation: each good message notes the way back to its sender. With keys, an
 * incarnation belongs to the key that used it first; another key that claims it is refused. At most BT_LINK_MAX_ROUTES
 * incarnations are remembered, and BT_LINK_PEER_ROUTES of one key (without keys: of one connection), so that nobody who
 * invents incarnations pushes others out; the one silent for longest makes room.
 *
 * What comes with keys says whose it is: bt_msg.from_key and on_block's from_key are the public key that the transport
 * proved, zero on plain links. One thread. */
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

/* Takes the socket (bt_sock_open) in success. */
bt_err bt_link_new(bt_link **ret, void *socket, bool is_router, const bt_link_handler *handler, bt_fault *fault);
void bt_link_free(bt_link *l); /* closes the socket; NULL is fine */
/* A ROUTER remembers so many incarnations in place of BT_LINK_MAX_ROUTES. Before anything is received. BT_ENOMEM. */
bt_err bt_link_remember(bt_link *l, uint32_t routes);
void *bt_link_socket(const bt_link *l);
/* From now on only keys that have one of these roles (bits of bt_peer_role) in the list are heard and spoken to, and a
 * HELLO counts only from a key that has the role it claims. The list is asked each time, so it may change in place; it
 * must outlive the link. server: on a DEALER the key that the socket demands of the other side, NULL on a ROUTER. */
void bt_link_require(bt_link *l, const bt_peer_allow *allow, unsigned roles, const bt_peer_key *server);
bool bt_peer_key_is_none(const bt_peer_key *key); /* zero: of a plain link */
/* A DEALER's endpoint. From now on, whoever sends and hears nothing at all for BT_LINK_SILENT_MS, then twice as long,
 * up to BT_LINK_SILENT_MAX_MS, has the endpoint dialled anew (bt_sock_redial); what was under way on the silent
 * connection is lost. */
void bt_link_redial_when_silent(bt_link *l, const char *endpoint);

/* Handle up to `budget` messages that have arrived. The handler may send on the link, but not free it. */
void bt_link_receive(bt_link *l, int budget);

/* Hand one message to the socket; a ROUTER sends it to m->to. BT_EAGAIN: the queue is full or the peer not there;
 * BT_EIO: no route to that incarnation, or its connection has ended; BT_EAUTH: its key may not be spoken to any more;
 * others as bt_msg_encode. Nothing waits. */
bt_err bt_link_send(bt_link *l, const bt_msg *m, bt_fault *fault);
/* Copy the block's rows out of the view (the one copy on this side), complete the header's body_bytes and digest, send
 * both frames. DEALER links only. Errors as bt_link_send, bt_kv_pack_take. */
bt_err bt_link_send_block(bt_link *l, bt_kv_header *h, const bt_kv_view *view, bt_fault *fault);

typedef struct bt_link_counters {
    uint64_t received, sent;      /* good messages, both ways */
    uint64_t bad;                 /* no message of ours */
    uint64_t forbidden;           /* sent under a key that may not say it */
    uint64_t unsent;              /* no route, no connection, a full queue or a key that is allowed no more */
    uint64_t bytes_in, bytes_out; /* everything that came; what was sent */
} bt_link_counters;
const bt_link_counters *bt_link_counters_of(const bt_link *l);
#endif
