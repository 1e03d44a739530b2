/* See link.h. */
#include "node/link.h"
#include "base/clock.h"
#include "base/order.h"
#include "kv/kv_pack.h"
#include "rt/sock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUTING_ID_BYTES = 64 };
_Static_assert(BT_SOCK_CONTROL_BYTES_MAX >= BT_MSG_HEADER_BYTES + BT_MSG_MAX_BODY_BYTES,
               "the largest message fits a control socket");
_Static_assert(BT_SOCK_BULK_BYTES_MAX >= BT_KV_MAX_BODY_BYTES, "the largest block fits a bulk socket");

typedef struct route {
    bt_incarnation peer;
    uint8_t id[MAX_ROUTING_ID_BYTES];
    uint8_t id_len;
    bt_peer_key key; /* that it proved; zero without keys */
    uint64_t heard;  /* order of hearing; 0: a free place */
} route;

struct bt_link {
    void *socket;
    bool is_router;
    bt_link_handler on;
    bt_msg_buf buf;
    bt_link_counters count;
    uint64_t clock;             /* messages heard from known senders */
    const bt_peer_allow *allow; /* NULL: any peer that the socket let in */
    unsigned roles;
    bt_peer_key server; /* DEALER: who the other side is */
    route *routes;      /* [routes_len], ROUTER only */
    uint32_t routes_len;
    bt_order by_peer;                      /* those that are taken */
    char endpoint[BT_SOCK_ENDPOINT_BYTES]; /* DEALER: dialled anew when silent; "" never */
    int64_t asked_ms, silent_ms; /* since when no answer has come, 0: one has; how long is too long */
};

bt_err bt_link_remember(bt_link *l, uint32_t routes)
{
    bt_order by_peer;
    route *table = calloc(routes, sizeof *table);
    if (!table || bt_order_init(&by_peer, routes, 1) < 0) {
        free(table);
        return BT_ENOMEM;
    }
    free(l->routes);
    bt_order_done(&l->by_peer);
    l->routes = table;
    l->routes_len = routes;
    l->by_peer = by_peer;
    return BT_OK;
}

bt_err bt_link_new(bt_link **ret, void *socket, bool is_router, const bt_link_handler *handler,
                   bt_fault *fault)
{
    bt_link *l = calloc(1, sizeof *l);
    if (!l || (is_router && bt_link_remember(l, BT_LINK_MAX_ROUTES) < 0)) {
        free(l);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a link");
    }
    l->socket = socket;
    l->is_router = is_router;
    l->roles = ~0u;
    l->on = *handler;
    *ret = l;
    return BT_OK;
}

void bt_link_free(bt_link *l)
{
    if (!l) return;
    bt_sock_close(l->socket);
    bt_msg_buf_done(&l->buf);
    free(l->routes);
    bt_order_done(&l->by_peer);
    free(l);
}

void *bt_link_socket(const bt_link *l) { return l->socket; }
const bt_link_counters *bt_link_counters_of(const bt_link *l) { return &l->count; }

void bt_link_require(bt_link *l, const bt_peer_allow *allow, unsigned roles, const bt_peer_key *server)
{
    l->allow = allow;
    l->roles = roles;
    if (server) l->server = *server;
}

void bt_link_redial_when_silent(bt_link *l, const char *endpoint)
{
    snprintf(l->endpoint, sizeof l->endpoint, "%s", endpoint);
    l->silent_ms = BT_LINK_SILENT_MS;
}

static void note_heard(bt_link *l)
{
    l->asked_ms = 0;
    l->silent_ms = BT_LINK_SILENT_MS;
}

/* Before something is sent, or would be if the socket took it. */
static void note_asked(bt_link *l)
{
    if (!l->endpoint[0]) return;
    const int64_t now_ms = bt_clock_ms();
    if (!l->asked_ms) l->asked_ms = now_ms;
    if (now_ms - l->asked_ms < l->silent_ms) return;
    (void)bt_sock_redial(l->socket, l->endpoint, NULL); /* a failure is a silence too */
    l->asked_ms = now_ms;
    l->silent_ms = 2 * l->silent_ms < BT_LINK_SILENT_MAX_MS ? 2 * l->silent_ms : BT_LINK_SILENT_MAX_MS;
}

bool bt_peer_key_is_none(const bt_peer_key *key)
{
    static const bt_peer_key none;
    return memcmp(key, &none, sizeof none) == 0;
}

static bool may_speak(const bt_link *l, const bt_peer_key *key)
{
    return !l->allow || (bt_peer_auth_roles(l->allow, key->bytes) & l->roles);
}

static bt_order_key key_of_peer(const bt_incarnation *peer)
{
    bt_order_key k;
    memcpy(&k.hi, peer->bytes, sizeof k.hi);
    memcpy(&k.lo, peer->bytes + sizeof k.hi, sizeof k.lo);
    return k;
}

static route *find_route(const bt_link *l, const bt_incarnation *peer)
{
    const int64_t at = bt_order_from(&l->by_peer, 0, key_of_peer(peer));
    return at >= 0 && bt_incarnation_equal(&l->routes[at].peer, peer) ? &l->routes[at] : NULL;
}

/* Whether a route is of the same key, or without keys of the same connection. */
static bool is_same_peer(const route *r, const bt_peer_key *key, const bt_sock_frame *id)
{
    if (!r->heard || memcmp(&r->key, key, sizeof *key) != 0) return false;
    return !bt_peer_key_is_none(key) || (r->id_len == id->size && memcmp(r->id, id->data, id->size) == 0);
}

/* A free place, or that of the incarnation silent for longest: of this peer where it has its share, else
 * of all. */
static route *make_room(bt_link *l, const bt_peer_key *key, const bt_sock_frame *id)
{
    route *oldest = &l->routes[0], *own = NULL;
    size_t owned = 0;
    for (size_t i = 0; i < l->routes_len; i++) {
        route *r = &l->routes[i];
        if (r->heard < oldest->heard) oldest = r;
        if (!is_same_peer(r, key, id)) continue;
        if (!own || r->heard < own->heard) own = r;
        owned++;
    }
    return owned >= BT_LINK_PEER_ROUTES ? own : oldest;
}

/* Remember how to answer `peer`, who proved to have `key`. BT_EAUTH when its incarnation belongs to
 * another key. */
static bt_err note_route(bt_link *l, const bt_incarnation *peer, const bt_sock_frame *id,
                         const bt_peer_key *key, bt_fault *fault)
{
    route *r = find_route(l, peer);
    if (id->size == 0 || id->size > MAX_ROUTING_ID_BYTES)
        return bt_fail(fault, BT_EFORMAT, "its routing id has %zu bytes; 1 to %d are allowed", id->size,
                       MAX_ROUTING_ID_BYTES);
    if (r && memcmp(&r->key, key, sizeof *key) != 0)
        return bt_fail(fault, BT_EAUTH, "its sender gives the incarnation of another key");
    if (!r) {
        r = make_room(l, key, id);
        memset(r, 0, sizeof *r);
        r->peer = *peer;
        r->key = *key;
        bt_order_put(&l->by_peer, 0, (uint32_t)(r - l->routes), key_of_peer(peer));
    }
    memcpy(r->id, id->data, id->size);
    r->id_len = (uint8_t)id->size;
    r->heard = ++l->clock;
    return BT_OK;
}

/* The key that sent a message, from the frame after the routing id: libzmq leaves the key off the id of a
 * message that it fetched while polling. */
static bt_peer_key key_of(const bt_link *l, const bt_sock_frame *frame)
{
    bt_peer_key key = l->server;
    const char *user = l->is_router ? bt_sock_frame_user(frame) : NULL;
    if (user) (void)bt_keys_from_z85(key.bytes, user, NULL); /* no key at all where it is none */
    return key;
}

/* Whether the key may use this link at all, and as `role` (0: any). */
static bt_err check_key(const bt_link *l, const bt_peer_key *key, bt_role role, bt_fault *fault)
{
    static const unsigned bits[] = {[0] = ~0u,
                                    [BT_ROLE_GATEWAY] = BT_PEER_GATEWAY,
                                    [BT_ROLE_PREFILL] = BT_PEER_PREFILL,
                                    [BT_ROLE_DECODE] = BT_PEER_DECODE};
    const unsigned roles = l->allow ? bt_peer_auth_roles(l->allow, key->bytes) : ~0u;
    const char *name = roles && l->allow ? bt_peer_auth_name(l->allow, key->bytes) : "";
    if (!(roles & l->roles))
        return bt_fail(fault, BT_EAUTH, "its sender's key does not have the role for this link (%s)",
                       *name ? name : "not in the allow list");
    return roles & bits[role] ? BT_OK
                              : bt_fail(fault, BT_EAUTH,
                                        "HELLO gives a role that the sender's key does not have (%s)", name);
}

/* HELLO carries facts about its sender to who takes it. */
static void note_sender(bt_msg *m, const bt_link *l, const bt_sock_frame *frame)
{
    uint8_t owner[32];
    m->from_address = bt_sock_frame_address(frame);
    if (!l->allow) return;
    m->from_name = bt_peer_auth_name(l->allow, m->from_key.bytes);
    m->is_anothers_name = bt_peer_auth_find(owner, l->allow, ~0u, m->u.hello.node_id, NULL) == BT_OK &&
                          memcmp(owner, m->from_key.bytes, sizeof owner) != 0;
}

static bt_err take_msg(bt_link *l, const bt_sock_frame *id, const bt_sock_frame *frame, bt_fault *fault)
{
    bt_msg m;
    const bt_peer_key key = key_of(l, frame);
    bt_err e = bt_msg_decode(&m, &l->buf, frame->data, frame->size, fault);
    if (e == BT_OK) e = check_key(l, &key, m.type == BT_MSG_HELLO ? m.u.hello.role : 0, fault);
    if (e == BT_OK && id) e = note_route(l, &m.from, id, &key, fault);
    if (e < 0) return e;
    m.from_key = key;
    if (m.type == BT_MSG_HELLO) note_sender(&m, l, frame);
    l->count.received++;
    l->on.on_msg(l->on.ud, &m);
    return BT_OK;
}

static bt_err take_block(bt_link *l, const bt_sock_frame *id, const bt_sock_frame *frame, bt_fault *fault)
{
    bt_kv_header h;
    bt_incarnation from;
    const bt_peer_key key = key_of(l, frame);
    bt_err e = bt_kv_header_decode(&h, frame[0].data, frame[0].size, fault);
    if (e < 0) return e;
    if (frame[1].size != h.body_bytes)
        return bt_fail(fault, BT_EFORMAT, "kv block: a body of %zu bytes, its header says %u", frame[1].size,
                       h.body_bytes);
    memcpy(from.bytes, h.from, sizeof from.bytes);
    if ((e = check_key(l, &key, 0, fault)) < 0) return e;
    if (id && (e = note_route(l, &from, id, &key, fault)) < 0) return e;
    l->count.received++;
    l->on.on_block(l->on.ud, &h, frame[1].data, &key);
    return BT_OK;
}

void bt_link_receive(bt_link *l, int budget)
{
    while (budget-- > 0) {
        bt_sock_frame frames[BT_SOCK_FRAMES_MAX];
        bt_fault fault = {"a message has too many frames"};
        size_t n = 0;
        bt_err e = bt_sock_recv_frames(l->socket, frames, BT_SOCK_FRAMES_MAX, &n);
        if (e == BT_EAGAIN || e == BT_EIO) return;
        note_heard(l);
        if (e == BT_OK) {
            const size_t skip = l->is_router ? 1 : 0;
            const bt_sock_frame *id = l->is_router ? &frames[0] : NULL;
            for (size_t i = 0; i < n; i++) l->count.bytes_in += frames[i].size;
            if (n == skip + 1) e = take_msg(l, id, &frames[skip], &fault);
            else if (n == skip + 2 && l->on.on_block) e = take_block(l, id, &frames[skip], &fault);
            else e = bt_fail(&fault, BT_EFORMAT, "a message has %zu frames", n - skip);
            bt_sock_frames_done(frames, n);
        }
        if (e < 0) {
            if (e == BT_EAUTH) l->count.forbidden++;
            else l->count.bad++;
            l->on.on_bad(l->on.ud, &fault);
        }
    }
}

/* Sends frames[0..n), on a ROUTER behind the routing id of `to`, and frees what was not sent. frames has
 * room for one in front. */
static bt_err send_frames(bt_link *l, bt_sock_frame *frames, size_t n, const bt_incarnation *to,
                          bt_fault *fault)
{
    bt_err e = BT_OK;
    size_t first = 1, bytes = 0;
    note_asked(l);
    if (l->is_router) {
        const route *r = to ? find_route(l, to) : NULL;
        if (!r) e = bt_fail(fault, BT_EIO, "no connection to the node of that incarnation");
        else if (!may_speak(l, &r->key))
            e = bt_fail(fault, BT_EAUTH, "the allow list no longer has the key of that incarnation");
        else if ((e = bt_sock_frame_copy(&frames[0], r->id, r->id_len)) == BT_OK) first = 0;
    } else if (!may_speak(l, &l->server)) {
        e = bt_fail(fault, BT_EAUTH, "the allow list no longer has the key of the other side");
    }
    for (size_t i = 1; i <= n; i++) bytes += frames[i].size;
    if (e == BT_OK) e = bt_sock_send_frames(l->socket, frames + first, n + 1 - first);
    if (e == BT_OK) {
        l->count.sent++;
        l->count.bytes_out += bytes;
        return BT_OK;
    }
    l->count.unsent++;
    bt_sock_frames_done(frames + first, n + 1 - first);
    return e;
}

bt_err bt_link_send(bt_link *l, const bt_msg *m, bt_fault *fault)
{
    bt_sock_frame frames[2];
    size_t len = 0;
    bt_err e = bt_sock_frame_new(&frames[1], bt_msg_encoded_max(m));
    if (e < 0) return bt_fail(fault, e, "no frame for %s: %s", bt_msg_type_name(m->type), bt_err_name(e));
    if ((e = bt_msg_encode(&len, frames[1].data, frames[1].size, m, fault)) == BT_OK) {
        /* The exact size is known only now: one small copy keeps frames exact on the wire. */
        bt_sock_frame exact;
        e = bt_sock_frame_copy(&exact, frames[1].data, len);
        bt_sock_frames_done(&frames[1], 1);
        if (e < 0) return bt_fail(fault, e, "no frame for %s: %s", bt_msg_type_name(m->type), bt_err_name(e));
        frames[1] = exact;
        return send_frames(l, frames, 1, &m->to, fault);
    }
    bt_sock_frames_done(&frames[1], 1);
    return e;
}

bt_err bt_link_send_block(bt_link *l, bt_kv_header *h, const bt_kv_view *view, bt_fault *fault)
{
    bt_sock_frame frames[3];
    bt_err e;
    note_asked(l);
    if (!bt_sock_can_send(l->socket)) { /* before the copy and the digest, which would be for nothing */
        l->count.unsent++;
        return BT_EAGAIN;
    }
    h->body_bytes = bt_kv_header_body_bytes(h->token_count, h->kv_heads, h->head_dim, h->dtype);
    if ((e = bt_sock_frame_new(&frames[2], h->body_bytes)) < 0)
        return bt_fail(fault, e, "no frame for a block of %u bytes: %s", h->body_bytes, bt_err_name(e));
    if ((e = bt_sock_frame_new(&frames[1], BT_KV_HEADER_BYTES)) < 0) {
        bt_sock_frames_done(&frames[2], 1);
        return bt_fail(fault, e, "no frame for the header of a block: %s", bt_err_name(e));
    }
    e = bt_kv_pack_take(frames[2].data, h->body_bytes, view, h->layer, h->token_begin, h->token_count, fault);
    if (e == BT_OK) {
        bt_kv_header_digest(h->digest, h, frames[2].data);
        e = bt_kv_header_encode(frames[1].data, h, fault);
    }
    if (e < 0) {
        bt_sock_frames_done(&frames[1], 2);
        return e;
    }
    return send_frames(l, frames, 2, NULL, fault);
}
