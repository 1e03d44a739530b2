#ifndef BT_RT_ZAP_H
#define BT_RT_ZAP_H
#include "base/err.h"
#include "crypto/peer_auth.h"
#include "rt/sock.h"

/* Serves libzmq's questions "may this key connect?" from the allow list, inside the process that binds. Open it before
 * the first bind, watch bt_zap_socket for BT_LOOP_IN, call bt_zap_serve when it is readable. One for each context.
 * Close it after the sockets that listen. */
typedef struct bt_zap bt_zap;

/* The list must live longer; bt_peer_auth_reload changes it in place (peers already connected stay: node/link.h
 * hears them no more). */
bt_err bt_zap_open(bt_zap **ret, bt_sock_ctx *ctx, const bt_peer_allow *allow, bt_fault *fault);
void bt_zap_close(bt_zap *zap); /* NULL is fine */
void *bt_zap_socket(bt_zap *zap);
void bt_zap_serve(bt_zap *zap);             /* answers what is there; does not wait */
uint64_t bt_zap_refused(const bt_zap *zap); /* peers turned away so far */
#endif
