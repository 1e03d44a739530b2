#ifndef BT_NODE_SHELL_H
#define BT_NODE_SHELL_H
#include <stdint.h>
#include "base/opt.h"
#include "rt/loop.h"
#include "node/net.h"
#include "xfer/gates.h"

/* The common part of the I/O threads of both kinds of node: the event loop, the control links to gateways, the timer
 * that follows the brain's due time, signals (the first SIGINT or SIGTERM drains, the second quits; SIGHUP reads the
 * allow list again), the drain timeout, readiness, the process's own memory figure. The node keeps the brain, the
 * worker and the bulk side to itself. */
typedef struct bt_shell bt_shell;

typedef struct bt_shell_handler {
    void (*on_control)(void *ud, uint32_t gateway, const bt_msg *m);
    void (*on_up)(void *ud, uint32_t gateway); /* this gateway can be reached, for the first time or again */
    void (*on_tick)(void *ud);                 /* the due time came */
    void (*on_drain)(void *ud);      /* a signal came: end work in progress, take no more, then bt_shell_leave */
    void (*on_drain_over)(void *ud); /* the drain took too long: give up what is left, then bt_shell_leave, within 2 s
                                      */
    void (*on_rss)(void *ud, uint64_t rss_bytes); /* every half second */
    bool (*is_ready)(void *ud);                   /* asked after each round until it returns true */
    void *ud;
} bt_shell_handler;

typedef struct bt_shell_config {
    const char *keys_dir, *key_name; /* NULL: no keys; name of this node's secret, NULL: the only one */
    bt_peer_role role;               /* the role that this node's key must have */
    const char *node_id;             /* one that the allow list does not give to another key */
    const char *const *gateways;
    size_t gateways_len; /* 1..BT_GATES_MAX; with keys ENDPOINT, or ENDPOINT@NAME with the name of the gateway's key */
    int64_t drain_timeout_ms;
} bt_shell_config;

/* Blocks signals in this thread: call it before any other thread is made. */
bt_err bt_shell_new(bt_shell **ret, const bt_shell_config *config, const bt_shell_handler *handler, bt_fault *fault);
void bt_shell_free(bt_shell *s); /* NULL is fine */
bt_loop *bt_shell_loop(const bt_shell *s);
bt_net *bt_shell_net(const bt_shell *s);
const bt_incarnation *bt_shell_self(const bt_shell *s); /* drawn in _new */

/* The endpoint that others dial, where `listen` stands for every address of this machine: the local address of the
 * connections to the gateways, with the port that is bound. For a start that fails early: bound NULL, and *ret is not
 * to be used. BT_EARG: there is none, or several, or one of another kind. */
bt_err bt_shell_reachable(char ret[BT_SOCK_ENDPOINT_BYTES], const bt_shell *s, const char *listen, const char *bound,
                          bt_fault *fault);
/* Logs a warning where only this machine can dial what others are told, and a gateway is elsewhere. */
void bt_shell_warn_of_address(const bt_shell *s, const char *endpoint);

/* A message that cannot be sent now is dropped; the latest HELLO or HEARTBEAT goes out as soon as there is a
 * connection. */
void bt_shell_send_control(bt_shell *s, uint32_t gateway, const bt_msg *m);
void bt_shell_due(bt_shell *s, int64_t due_us);      /* a brain's due time, BT_STEP_NEVER too */
bt_random bt_shell_random(void);                     /* ends the process if the system gives no random bytes */
void bt_shell_on_bad(void *ud, const bt_fault *why); /* an on_bad of bt_link that logs, at most one line a second */
/* Logs, at the end of a process, one debug line with the counts of messages refused on the control links and on `bulk`
 * (NULL: none). */
void bt_shell_log_refused(const bt_shell *s, const bt_link *bulk);
void bt_shell_reload(bt_net *net); /* bt_net_reload, and a line in the log with the result */
/* Until bt_shell_leave, or the second signal, or 2 s after the drain timeout. */
bt_err bt_shell_run(bt_shell *s, bt_fault *fault);
/* The node has drained. next: the role in which the process goes on; 0: it ends. It also ends where a signal made it
 * drain. */
void bt_shell_leave(bt_shell *s, bt_role next);
bt_role bt_shell_next(const bt_shell *s); /* after bt_shell_run: the next role, whose shell gets the waiting signals; 0:
                                             none */
/* For a process that goes on in another role. bt_shell_drain: the node drains from now on without a signal, and the
 * drain timeout runs. */
void bt_shell_drain(bt_shell *s);
bt_role_may bt_shell_role_may(const bt_shell *s); /* by the present allow list */
#endif
