/* See net.h. */
#include "node/net.h"
#include "rt/zap.h"

#include <stdlib.h>
#include <string.h>

struct bt_net {
    bt_loop *loop;
    bt_sock_ctx *ctx;
    const char *keys_dir;
    bt_peer_allow *allow;
    bt_zap *zap;
    uint64_t zap_watch;
};

static void on_zap(void *ud, unsigned events)
{
    (void)events;
    bt_zap_serve(ud);
}

static bt_err open_zap(bt_net *n, bt_fault *fault)
{
    bt_err e = bt_peer_auth_load(&n->allow, n->keys_dir, fault);
    if (e == BT_OK) e = bt_zap_open(&n->zap, n->ctx, n->allow, fault);
    if (e < 0) return e;
    e = bt_loop_add_socket(&n->zap_watch, n->loop, bt_zap_socket(n->zap), BT_LOOP_IN, on_zap, n->zap);
    return e < 0 ? bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e))
                 : BT_OK;
}

/* Checked here, so that this process's operator sees the error, and not only the other side's log. */
static bt_err check_own_role(const bt_net *n, bt_peer_role role, bt_fault *fault)
{
    if (bt_net_own_roles(n) & role) return BT_OK;
    return bt_fail(
        fault, BT_EAUTH,
        "'%.120s/allow' does not give this process's key the role %s: wrong --key, or a line is missing",
        n->keys_dir,
        role == BT_PEER_GATEWAY   ? "gateway"
        : role == BT_PEER_PREFILL ? "prefill"
                                  : "decode");
}

bt_err bt_net_open(bt_net **ret, bt_loop *loop, const char *keys_dir, const char *key_name, bt_peer_role role,
                   bt_fault *fault)
{
    bt_net *n = calloc(1, sizeof *n);
    if (!n) return bt_fail(fault, BT_ENOMEM, "out of memory for links");
    n->loop = loop;
    n->keys_dir = keys_dir;
    bt_err e = bt_sock_ctx_new(&n->ctx, keys_dir, key_name, fault);
    if (e == BT_OK && keys_dir) e = open_zap(n, fault);
    if (e == BT_OK) e = check_own_role(n, role, fault);
    if (e < 0) bt_net_close(n);
    else *ret = n;
    return e;
}

bt_err bt_net_reload(size_t *ret_keys, bt_net *n, bt_fault *fault)
{
    const bt_err e = n->allow ? bt_peer_auth_reload(n->allow, n->keys_dir, fault) : BT_OK;
    if (e == BT_OK) *ret_keys = n->allow ? bt_peer_auth_count(n->allow) : 0;
    return e;
}

unsigned bt_net_own_roles(const bt_net *n)
{
    uint8_t key[32];
    if (!n->allow) return ~0u;
    return bt_keys_from_z85(key, bt_sock_ctx_public_key(n->ctx), NULL) < 0
               ? 0
               : bt_peer_auth_roles(n->allow, key);
}

bt_err bt_net_check_id(const bt_net *n, const char *node_id, bt_fault *fault)
{
    uint8_t own[32], owner[32];
    if (!n->allow || bt_peer_auth_find(owner, n->allow, ~0u, node_id, NULL) < 0) return BT_OK;
    if (bt_keys_from_z85(own, bt_sock_ctx_public_key(n->ctx), NULL) == BT_OK &&
        memcmp(own, owner, sizeof own) == 0)
        return BT_OK;
    return bt_fail(fault, BT_EAUTH,
                   "--id '%s': '%.120s/allow' gives that name to another key than this process's: give --id "
                   "another name, or --key NAME",
                   node_id, n->keys_dir);
}

void bt_net_close(bt_net *n)
{
    if (!n) return;
    bt_loop_remove(n->loop, n->zap_watch);
    bt_zap_close(n->zap);
    bt_sock_ctx_free(n->ctx);
    bt_peer_auth_free(n->allow);
    free(n);
}

uint64_t bt_net_refused(const bt_net *n) { return n->zap ? bt_zap_refused(n->zap) : 0; }

bt_err bt_net_listen(bt_link **ret, char ret_endpoint[BT_SOCK_ENDPOINT_BYTES], bt_net *n, bt_sock_role role,
                     const char *endpoint, unsigned peers, const bt_link_handler *handler, bt_fault *fault)
{
    void *socket = NULL;
    bt_err e = bt_sock_open(&socket, n->ctx, role, fault);
    if (e == BT_OK) e = bt_sock_bind(ret_endpoint, socket, n->ctx, endpoint, fault);
    if (e == BT_OK) e = bt_link_new(ret, socket, true, handler, fault);
    if (e < 0) bt_sock_close(socket);
    else if (n->allow) bt_link_require(*ret, n->allow, peers, NULL);
    return e;
}

bt_err bt_net_find_key(bt_peer_key *ret, const bt_net *n, unsigned roles, const char *name, bt_fault *fault)
{
    bt_peer_key key = {{0}};
    const bt_err e = n->allow ? bt_peer_auth_find(key.bytes, n->allow, roles, name, fault) : BT_OK;
    if (e == BT_OK) *ret = key;
    return e;
}

bt_err bt_net_dial(bt_link **ret, bt_net *n, bt_sock_role role, const char *endpoint,
                   const bt_peer_key *server, const bt_link_handler *handler, bt_fault *fault)
{
    const unsigned peer = role == BT_SOCK_CONTROL_DEALER ? BT_PEER_GATEWAY : BT_PEER_DECODE;
    char key[BT_KEYS_Z85_BYTES];
    void *socket = NULL;
    bt_err e = BT_OK;
    if (server && bt_peer_key_is_none(server)) server = NULL;
    if (server) bt_keys_to_z85(key, server->bytes);
    if (n->allow && !server)
        return bt_fail(fault, BT_EAUTH, "the public key of %.100s is unknown: name it, as in ENDPOINT@NAME",
                       endpoint);
    if (n->allow && !(bt_peer_auth_roles(n->allow, server->bytes) & peer))
        return bt_fail(fault, BT_EAUTH, "the allow list does not give the key of %.100s the role %s",
                       endpoint, peer == BT_PEER_GATEWAY ? "gateway" : "decode");
    if ((e = bt_sock_open(&socket, n->ctx, role, fault)) < 0) return e;
    e = bt_sock_connect(socket, n->ctx, endpoint, server ? key : NULL, fault);
    if (e == BT_OK) e = bt_link_new(ret, socket, false, handler, fault);
    if (e < 0) {
        bt_sock_close(socket);
        return e;
    }
    bt_link_redial_when_silent(*ret, endpoint);
    if (n->allow) bt_link_require(*ret, n->allow, peer, server);
    return BT_OK;
}

struct bt_net_watch {
    bt_loop *loop;
    void *watched, *socket;
    uint64_t id;
    bt_loop_fn *fn;
    void *ud;
};

static void on_news(void *ud, unsigned events)
{
    const bt_net_watch *w = ud;
    (void)events;
    const unsigned news = bt_sock_news(w->socket);
    if (news) w->fn(w->ud, news);
}

bt_err bt_net_watch_link(bt_net_watch **ret, bt_net *n, const bt_link *link, bt_loop_fn *fn, void *ud,
                         bt_fault *fault)
{
    bt_net_watch *w = calloc(1, sizeof *w);
    if (!w) return bt_fail(fault, BT_ENOMEM, "out of memory for links");
    *w = (bt_net_watch){.loop = n->loop, .watched = bt_link_socket(link), .fn = fn, .ud = ud};
    bt_err e = bt_sock_watch(&w->socket, w->watched, n->ctx, fault);
    if (e == BT_OK && (e = bt_loop_add_socket(&w->id, w->loop, w->socket, BT_LOOP_IN, on_news, w)) < 0)
        bt_fail(fault, e, "the event loop takes no more watches or timers: %s", bt_err_name(e));
    if (e < 0) bt_net_unwatch(w);
    else *ret = w;
    return e;
}

void bt_net_unwatch(bt_net_watch *w)
{
    if (!w) return;
    bt_loop_remove(w->loop, w->id);
    bt_sock_unwatch(w->socket, w->watched);
    free(w);
}
