#ifndef BT_RT_SOCK_PRIVATE_H
#define BT_RT_SOCK_PRIVATE_H
#include "rt/sock.h"

/* Shared with rt/zap.c only: the ZAP domain of every CURVE server socket, and who answers. */
#define BT_SOCK_ZAP_DOMAIN   "baton"
#define BT_SOCK_ZAP_ENDPOINT "inproc://zeromq.zap.01"
void bt_sock_ctx_set_zap(bt_sock_ctx *ctx, bool serving);
#endif
