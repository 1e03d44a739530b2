/* The control socket: the only place where a routing id means anything. */
#include "gateway/node_link.h"
#include "base/buf.h"
#include "base/log.h"
#include "crypto/peer_auth.h"
#include "rt/sock.h"
#include "rt/zap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUTING_ID_MAX_BYTES = 255, HANDLER_BUDGET = 64 };

typedef struct route {
    bt_incarnation who;
    uint8_t id_len, id[ROUTING_ID_MAX_BYTES];
    char key[BT_KEYS_Z85_BYTES];        /* "" without keys */
    uint64_t heard;                     /* order of hearing; 0: a free place */
} route;

struct gw_node_link {
    bt_loop *loop;
    bt_sock_ctx *ctx;
    bt_peer_allow *allow;
    bt_zap *zap;
    void *socket;
    uint64_t socket_watch, zap_watch, clock;
    gw_node_link_fn *fn;
    void *ud;
    bt_msg_buf buf;
    bt_buf scratch;                     /* the message being encoded */
    gw_node_link_counts counts;
    bt_log_limit bad_limit, unsent_limit;
    char endpoint[BT_SOCK_ENDPOINT_BYTES];
    route routes[GW_NODE_LINK_MAX_ROUTES];
};

static route *find(gw_node_link *l, const bt_incarnation *who)
{
    for (size_t i = 0; i < GW_NODE_LINK_MAX_ROUTES; i++)
        if (l->routes[i].heard && bt_incarnation_equal(&l->routes[i].who, who)) return &l->routes[i];
    return NULL;
}

/* False: this peer may not say this. */
static bool note_route(gw_node_link *l, const bt_msg *m, const bt_sock_frame *id, const char *key)
{
    static const unsigned bits[] = { [BT_ROLE_GATEWAY] = BT_PEER_GATEWAY, [BT_ROLE_PREFILL] = BT_PEER_PREFILL,
                                     [BT_ROLE_DECODE] = BT_PEER_DECODE };
    const bool is_hello = m->type == BT_MSG_HELLO;
    if (l->allow && (!key || (is_hello && !(bt_peer_auth_roles(l->allow, key) & bits[m->u.hello.role])))) return false;
    route *r = find(l, &m->from);
    if (r && l->allow && strcmp(r->key, key) != 0) return false;
    if (!r) {
        r = &l->routes[0];
        for (size_t i = 1; i < GW_NODE_LINK_MAX_ROUTES; i++)
            if (l->routes[i].heard < r->heard) r = &l->routes[i];
        *r = (route){ .who = m->from };
        if (key) (void)snprintf(r->key, sizeof r->key, "%s", key);
    }
    if (is_hello || r->id_len == 0) {
        r->id_len = (uint8_t)id->size;
        memcpy(r->id, id->data, id->size);
    }
    r->heard = ++l->clock;
    return true;
}

static void take(gw_node_link *l, const bt_sock_frame *frames, size_t n)
{
    bt_fault fault = { "" };
    bt_msg m;
    if (n != 2 || frames[0].size == 0 || frames[0].size > ROUTING_ID_MAX_BYTES) {
        (void)bt_fail(&fault, BT_EFORMAT, "%zu frames where 2 belong", n);
    } else if (bt_msg_decode(&m, &l->buf, frames[1].data, frames[1].size, &fault) == BT_OK) {
        if (!note_route(l, &m, &frames[0], bt_sock_frame_user(&frames[1]))) {
            l->counts.forbidden++;
            bt_log_ratelimited(&l->bad_limit, BT_LOG_WARN, "dropped %s: its key is not allowed to say so", bt_msg_type_name(m.type));
            return;
        }
        l->counts.received++;
        l->fn(l->ud, &m);
        return;
    }
    l->counts.bad++;
    bt_log_ratelimited(&l->bad_limit, BT_LOG_WARN, "dropped a message on the control socket: %s", fault.text);
}

static void on_readable(void *ud, unsigned events)
{
    gw_node_link *l = ud;
    (void)events;
    for (int budget = HANDLER_BUDGET; budget > 0; budget--) {
        bt_sock_frame frames[2];
        size_t n = 0;
        const bt_err e = bt_sock_recv_frames(l->socket, frames, 2, &n);
        if (e == BT_EFORMAT) {
            l->counts.bad++;
            bt_log_ratelimited(&l->bad_limit, BT_LOG_WARN, "dropped a message on the control socket: too many frames");
            continue;
        }
        if (e < 0) return;
        take(l, frames, n);
        bt_sock_frames_done(frames, n);
    }
}

static void on_zap(void *ud, unsigned events)
{
    (void)events;
    bt_zap_serve(ud);
}

bt_err gw_node_link_open(gw_node_link **ret, bt_loop *loop, const char *endpoint, const char *keys_dir, gw_node_link_fn *fn,
                         void *ud, bt_fault *fault)
{
    bt_err e;
    gw_node_link *l = calloc(1, sizeof *l);
    if (!l) return bt_fail(fault, BT_ENOMEM, "control socket");
    bt_buf_init(&l->scratch, BT_MSG_HEADER_BYTES + BT_MSG_MAX_BODY_BYTES);
    l->loop = loop;
    l->fn = fn;
    l->ud = ud;
    l->bad_limit.every_ms = l->unsent_limit.every_ms = 5000;
    if ((e = bt_sock_ctx_new(&l->ctx, keys_dir, "gateway", fault)) < 0) goto out;
    if (keys_dir) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/allow", keys_dir);
        if ((e = bt_peer_auth_load(&l->allow, path, fault)) < 0) goto out;
        if ((e = bt_zap_open(&l->zap, l->ctx, l->allow, fault)) < 0) goto out;
        if ((e = bt_loop_add_socket(&l->zap_watch, loop, bt_zap_socket(l->zap), BT_LOOP_IN, on_zap, l->zap)) < 0) goto out;
    }
    if ((e = bt_sock_open(&l->socket, l->ctx, BT_SOCK_CONTROL_ROUTER, fault)) < 0) goto out;
    if ((e = bt_sock_bind(l->endpoint, l->socket, l->ctx, endpoint, fault)) < 0) goto out;
    if ((e = bt_loop_add_socket(&l->socket_watch, loop, l->socket, BT_LOOP_IN, on_readable, l)) < 0) goto out;
    *ret = l;
    return BT_OK;
out:
    gw_node_link_close(l);
    return e;
}

void gw_node_link_close(gw_node_link *l)
{
    if (!l) return;
    if (l->socket_watch) bt_loop_remove(l->loop, l->socket_watch);
    if (l->zap_watch) bt_loop_remove(l->loop, l->zap_watch);
    bt_sock_close(l->socket);
    bt_zap_close(l->zap);
    bt_peer_auth_free(l->allow);
    bt_sock_ctx_free(l->ctx);
    bt_msg_buf_done(&l->buf);
    bt_buf_done(&l->scratch);
    free(l);
}

const char *gw_node_link_endpoint(const gw_node_link *l) { return l->endpoint; }

gw_node_link_counts gw_node_link_counters(const gw_node_link *l)
{
    gw_node_link_counts c = l->counts;
    if (l->zap) c.forbidden += bt_zap_refused(l->zap);
    return c;
}

void gw_node_link_send(gw_node_link *l, const bt_incarnation *peer, const bt_msg *msg)
{
    bt_fault fault = { "no route" };
    bt_sock_frame frames[2];
    size_t len = 0, made = 0;
    const route *r = find(l, peer);
    bt_err e = r ? BT_OK : BT_EIO;
    if (e == BT_OK) {
        bt_buf_clear(&l->scratch);
        e = bt_buf_reserve(&l->scratch, bt_msg_encoded_max(msg));
    }
    if (e == BT_OK) e = bt_msg_encode(&len, l->scratch.data, bt_msg_encoded_max(msg), msg, &fault);
    if (e == BT_OK && (e = bt_sock_frame_copy(&frames[0], r->id, r->id_len)) == BT_OK) made = 1;
    if (e == BT_OK && (e = bt_sock_frame_copy(&frames[1], l->scratch.data, len)) == BT_OK) made = 2;
    if (e == BT_OK) e = bt_sock_send_frames(l->socket, frames, 2);
    if (e == BT_OK) {
        l->counts.sent++;
        return;
    }
    bt_sock_frames_done(frames, made);
    l->counts.unsent++;
    bt_log_ratelimited(&l->unsent_limit, BT_LOG_DEBUG, "%s not sent: %s: %s", bt_msg_type_name(msg->type), bt_err_name(e), fault.text);
}
