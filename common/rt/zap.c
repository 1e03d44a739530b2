/* The socket around crypto/peer_auth. */
#include "rt/zap.h"
#include "rt/sock_private.h"

#include <stdlib.h>
#include <string.h>

#define BUDGET 64

struct bt_zap {
    bt_sock_ctx *ctx;
    void *socket;
    const bt_peer_allow *allow;
    uint64_t refused;
};

bt_err bt_zap_open(bt_zap **ret, bt_sock_ctx *ctx, const bt_peer_allow *allow, bt_fault *fault)
{
    char endpoint[BT_SOCK_ENDPOINT_BYTES];
    bt_zap *z = calloc(1, sizeof *z);
    if (!z) return bt_fail(fault, BT_ENOMEM, "out of memory for a ZAP handler");
    z->ctx = ctx;
    z->allow = allow;
    bt_err e = bt_sock_open(&z->socket, ctx, BT_SOCK_ZAP, fault);
    if (e == BT_OK) e = bt_sock_bind(endpoint, z->socket, ctx, BT_SOCK_ZAP_ENDPOINT, fault);
    if (e < 0) {
        bt_zap_close(z);
        return e;
    }
    bt_sock_ctx_set_zap(ctx, true);
    *ret = z;
    return BT_OK;
}

void bt_zap_close(bt_zap *z)
{
    if (!z) return;
    bt_sock_ctx_set_zap(z->ctx, false);
    bt_sock_close(z->socket);
    free(z);
}

void *bt_zap_socket(bt_zap *z) { return z->socket; }
uint64_t bt_zap_refused(const bt_zap *z) { return z->refused; }

static void answer(bt_zap *z, const bt_sock_frame *in, size_t count)
{
    bt_peer_frame ask[BT_SOCK_FRAMES_MAX];
    bt_peer_auth_reply reply;
    bt_sock_frame out[BT_PEER_AUTH_REPLY_FRAMES];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) ask[i] = (bt_peer_frame){in[i].data, in[i].size};
    if (bt_peer_auth_answer(&reply, z->allow, ask, count) < 0) return; /* libzmq asks by the rules */
    if (!reply.user_id[0]) z->refused++;
    while (n < BT_PEER_AUTH_REPLY_FRAMES &&
           bt_sock_frame_copy(&out[n], reply.frames[n].data, reply.frames[n].size) == BT_OK)
        n++;
    /* Without an answer the peer's handshake times out and it dials again. */
    if (n < BT_PEER_AUTH_REPLY_FRAMES || bt_sock_send_frames(z->socket, out, n) < 0)
        bt_sock_frames_done(out, n);
}

void bt_zap_serve(bt_zap *z)
{
    bt_sock_frame frames[BT_SOCK_FRAMES_MAX];
    size_t count;
    for (int budget = BUDGET; budget > 0; budget--) {
        if (bt_sock_recv_frames(z->socket, frames, BT_SOCK_FRAMES_MAX, &count) < 0) return;
        answer(z, frames, count);
        bt_sock_frames_done(frames, count);
    }
}
