#ifndef BT_RT_SOCK_H
#define BT_RT_SOCK_H
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The one factory of ZeroMQ sockets: linger, size limit, high-water marks, heartbeat, reconnecting and keys are set
 * here and nowhere else, and zmq.h is seen in this folder only.
 *
 *   role             type    frame limit   queue   linger   notes
 *   CONTROL_ROUTER   ROUTER  8 MiB + 64    1000    1 s      mandatory
 *   CONTROL_DEALER   DEALER  8 MiB + 64    1000    1 s      immediate
 *   BULK_ROUTER      ROUTER  64 MiB        64      0        mandatory
 *   BULK_DEALER      DEALER  64 MiB        64      0        immediate
 *   ZAP              REP     64 KiB        1000    0        inside the process; rt/zap.h opens it
 *
 * mandatory: sending to a peer that is not connected is BT_EIO, not silence. immediate: nothing is queued for a
 * connection that is not there. A peer that claims the routing id of a connected one is refused (no handover): nobody
 * sets a routing id here, so a claim is a mistake or an attack. All: heartbeat every 1 s, lost after 3 s; dialling
 * again after 10 ms, doubling to 2 s; TCP keepalive.
 *
 * Keys: a context made with keys encrypts every tcp and ipc link with CURVE, loopback too, and lets in only the keys of
 * the allow file (rt/zap.h must be open before the first bind; BT_EAUTH otherwise). A context without keys refuses
 * every endpoint that is not local.
 *
 * A socket belongs to one thread for life. Signals do not interrupt anything here. */
typedef struct bt_sock_ctx bt_sock_ctx;

typedef enum bt_sock_role {
    BT_SOCK_CONTROL_ROUTER,
    BT_SOCK_CONTROL_DEALER,
    BT_SOCK_BULK_ROUTER,
    BT_SOCK_BULK_DEALER,
    BT_SOCK_ZAP,
} bt_sock_role;

#define BT_SOCK_CONTROL_BYTES_MAX ((8u << 20) + 64u) /* the largest frame of wire/msg.h */
#define BT_SOCK_BULK_BYTES_MAX    (64u << 20)
#define BT_SOCK_FRAMES_MAX        16u /* frames of one message, the routing id included */
#define BT_SOCK_ENDPOINT_BYTES    256u

/* keys_dir NULL: no keys. Otherwise loads keys_dir/NAME.secret (name NULL: the only one); errors of bt_keys_load. From
 * then on core dumps of this process leave out its private memory, stacks included. */
bt_err bt_sock_ctx_new(bt_sock_ctx **ret, const char *keys_dir, const char *name, bt_fault *fault);
void bt_sock_ctx_free(bt_sock_ctx *ctx); /* after its sockets are closed; waits at most their linger; wipes keys */
const char *bt_sock_ctx_public_key(const bt_sock_ctx *ctx); /* Z85; "" without keys */

bt_err bt_sock_open(void **ret, bt_sock_ctx *ctx, bt_sock_role role, bt_fault *fault);
void bt_sock_close(void *socket); /* NULL is fine */

/* True for ipc://, inproc://, tcp://127.0.0.0/8, tcp://[::1] and tcp://localhost, each with a port or "*". */
bool bt_sock_endpoint_is_local(const char *endpoint);

/* True for tcp:// and an address that stands for all of this machine, such as 0.0.0.0, * or [::]: nobody else can dial
 * it. */
bool bt_sock_endpoint_is_any(const char *endpoint);
/* True for what another process can dial: tcp:// with one host and a port of 1 to 65535, ipc:// and inproc://. */
bool bt_sock_endpoint_can_be_dialled(const char *endpoint);
/* The address of this machine that the system would dial a tcp endpoint from, as "10.0.0.7" or "[2001:db8::7]".
 * Resolves its name, and may wait for that. BT_EARG: not tcp; BT_EIO: no such name, or no way there. */
#define BT_SOCK_ADDRESS_BYTES 48u
bt_err bt_sock_local_address(char ret[BT_SOCK_ADDRESS_BYTES], const char *endpoint, bt_fault *fault);

/* ret_endpoint: where it really is, with the port the system chose for ":*" or ":0". BT_EAUTH: not local and no keys;
 * BT_EIO, for example a port in use; BT_EARG: not an endpoint. */
bt_err bt_sock_bind(char ret_endpoint[BT_SOCK_ENDPOINT_BYTES], void *socket, bt_sock_ctx *ctx, const char *endpoint,
                    bt_fault *fault);
/* server_key: the other side's public key, Z85; NULL without keys (BT_EARG when one is given and the other is not).
 * Returns at once; libzmq makes the link in the background. */
bt_err bt_sock_connect(void *socket, bt_sock_ctx *ctx, const char *endpoint, const char *server_key, bt_fault *fault);
/* Gives up the connection to an endpoint of bt_sock_connect, whatever its state, and dials it anew with the same keys.
 * libzmq dials a connection again that was cut, but never one on which it read bytes that it could not follow: a
 * changed byte under CURVE is enough. */
bt_err bt_sock_redial(void *socket, const char *endpoint, bt_fault *fault);

/* News of the connections of a tcp or ipc socket, from bt_sock_watch to bt_sock_unwatch, which comes before the socket
 * is closed. Poll *ret for reading. A connection is UP when the other side has proved its keys. bt_sock_news takes at
 * most 64 events and returns their bits; it does not say which connection they concern. Unread news make libzmq's
 * thread wait. */
enum { BT_SOCK_UP = 1, BT_SOCK_ENDED = 2 };
bt_err bt_sock_watch(void **ret, void *socket, bt_sock_ctx *ctx, bt_fault *fault);
unsigned bt_sock_news(void *watch);
void bt_sock_unwatch(void *watch, void *socket); /* watch NULL is fine */

/* A frame owns its bytes. `data` may be written before it is sent. Never copy the struct. */
typedef struct bt_sock_frame {
    uint8_t *data;
    size_t size;
    alignas(sizeof(void *)) unsigned char priv[64];
} bt_sock_frame;

bt_err bt_sock_frame_new(bt_sock_frame *frame, size_t size); /* bytes undefined; BT_ENOMEM */
bt_err bt_sock_frame_copy(bt_sock_frame *frame, const void *data, size_t size);
void bt_sock_frames_done(bt_sock_frame *frames, size_t count); /* frees the bytes */
/* The sender's public key (Z85) by CURVE; NULL on a link without keys. Valid while the frame is. */
const char *bt_sock_frame_user(const bt_sock_frame *frame);
/* The sender's address, as 10.0.0.7, for people; NULL where it is not known. Valid while the frame is. */
const char *bt_sock_frame_address(const bt_sock_frame *frame);

/* Neither waits. recv: one whole message into frames[0 .. *ret_count), which the caller then gives to
 * bt_sock_frames_done. BT_EAGAIN: nothing there. BT_EFORMAT: a message of more than max frames; it was read and dropped
 * whole. BT_EIO. send: all frames as one message; their ownership passes to it. On failure the caller still owns every
 * frame (after BT_EIO they may be empty). BT_EAGAIN: queue full or no link; BT_EIO: the ROUTER's peer is not connected,
 * or the link was cut in the middle (nothing arrives). */
bt_err bt_sock_recv_frames(void *socket, bt_sock_frame *frames, size_t max, size_t *ret_count);
bt_err bt_sock_send_frames(void *socket, bt_sock_frame *frames, size_t count);
/* Called once, at the start of a process that moves KV: malloc then keeps up to 32 MiB of freed frames of up to 4 MiB
 * each. Otherwise it hands each frame's memory to the system and faults it in again for the next frame, which costs
 * more than the copy. */
void bt_sock_keep_frames(void);
/* Whether a DEALER has a link with room in its queue: worth asking before making something large. */
bool bt_sock_can_send(void *socket);
#endif
