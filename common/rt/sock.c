/* Socket options in one table, the rule about addresses and keys, and whole messages. */
#include "rt/sock.h"
#include "crypto/keys.h"
#include "crypto/secret.h"
#include "rt/sock_private.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum {
    CONTROL_QUEUE = 1000,
    BULK_QUEUE = 64,
    NEWS_BUDGET = 64,
    KEPT_FRAME_BYTES = 4 << 20,
    KEEP_BYTES = 32 << 20
};
_Static_assert(sizeof(zmq_msg_t) == sizeof((bt_sock_frame *)0)->priv, "a frame holds a zmq_msg_t");

struct bt_sock_ctx {
    void *zmq;
    bool has_zap;
    bt_keys *keys; /* secret memory; NULL: none */
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which a row is read */
typedef struct role_options {
    int type;
    int64_t frame_bytes;
    int queue, linger_ms, immediate, mandatory;
    int silent_ms; /* a connection silent for so long is ended */
} role_options;
/* On control a gateway declares a silent node lost after 6 s: its connection must not end sooner, since that
 * would mean that the node died. */
static const role_options roles[] = {
    [BT_SOCK_CONTROL_ROUTER] = {ZMQ_ROUTER, BT_SOCK_CONTROL_BYTES_MAX, CONTROL_QUEUE, 1000, 0, 1, 6500},
    [BT_SOCK_CONTROL_DEALER] = {ZMQ_DEALER, BT_SOCK_CONTROL_BYTES_MAX, CONTROL_QUEUE, 1000, 1, 0, 6500},
    [BT_SOCK_BULK_ROUTER] = {ZMQ_ROUTER, BT_SOCK_BULK_BYTES_MAX, BULK_QUEUE, 0, 0, 1, 3000},
    [BT_SOCK_BULK_DEALER] = {ZMQ_DEALER, BT_SOCK_BULK_BYTES_MAX, BULK_QUEUE, 0, 1, 0, 3000},
    [BT_SOCK_ZAP] = {ZMQ_REP, 65536, 1000, 0, 0, 0, 3000},
};

/* Core dumps of a process with keys hold none of its private memory: libzmq copies the secret key to wherever
 * its sockets, sessions and handshakes lie, and nobody else can find these copies. The rest of a core says
 * where each thread stood. A filter, unlike a limit of 0 bytes, also holds where dumps go to a program; and
 * unlike a process that cannot be dumped at all, this one still shows in /proc what it has mapped, which the
 * cache asks (base/cache.h). */
static void keep_out_of_cores(void)
{
    static const char headers_only[] = "0x10";
    const int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
    const bool is_set = fd >= 0 && write(fd, headers_only, sizeof headers_only - 1) > 0;
    if (fd >= 0) (void)close(fd);
    if (!is_set) (void)prctl(PR_SET_DUMPABLE, 0); /* no /proc: then no core at all */
}

static bt_err load_keys(bt_sock_ctx *c, const char *dir, const char *name, bt_fault *fault)
{
    keep_out_of_cores();
    if (!(c->keys = bt_secret_new(sizeof *c->keys)))
        return bt_fail(fault, BT_ENOMEM, "out of memory for a secret key");
    return bt_keys_load(c->keys, dir, name, fault);
}

/* ZeroMQ ends the process where it cannot start one of its two threads, or finds no memory for a socket: so
 * there is room for both before it begins. */
static bt_err check_room(bt_fault *fault)
{
    enum { THREADS = 2, OTHER_BYTES = 16 << 20 };
    pthread_attr_t a;
    size_t stack = 8 << 20;
    if (pthread_attr_init(&a) == 0) {
        (void)pthread_attr_getstacksize(&a, &stack);
        (void)pthread_attr_destroy(&a);
    }
    const size_t bytes = THREADS * stack + OTHER_BYTES;
    void *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return bt_fail(fault, BT_ENOMEM, "cannot map %zu MiB for the threads of ZeroMQ: %s", bytes >> 20,
                       strerror(errno));
    (void)munmap(room, bytes);
    return BT_OK;
}

bt_err bt_sock_ctx_new(bt_sock_ctx **ret, const char *keys_dir, const char *name, bt_fault *fault)
{
    bt_err e = check_room(fault);
    if (e < 0) return e;
    bt_sock_ctx *c = calloc(1, sizeof *c);
    if (!c) return bt_fail(fault, BT_ENOMEM, "out of memory for a socket context");
    if (keys_dir && (e = load_keys(c, keys_dir, name, fault)) < 0) goto out;
    if (!(c->zmq = zmq_ctx_new())) e = bt_fail(fault, BT_EIO, "ZeroMQ cannot start: %s", zmq_strerror(errno));
out:
    if (e < 0) bt_sock_ctx_free(c);
    else *ret = c;
    return e;
}

void bt_sock_ctx_free(bt_sock_ctx *c)
{
    if (!c) return;
    while (c->zmq && zmq_ctx_term(c->zmq) < 0 && errno == EINTR) {}
    bt_secret_free(c->keys);
    free(c);
}

void bt_sock_ctx_set_zap(bt_sock_ctx *c, bool serving) { c->has_zap = serving; }
const char *bt_sock_ctx_public_key(const bt_sock_ctx *c) { return c->keys ? c->keys->public_key : ""; }

static bool set_int(void *s, int option, int value)
{
    return zmq_setsockopt(s, option, &value, sizeof value) == 0;
}

static bool set_all(void *s, const role_options *o)
{
    static const struct {
        int option, value;
    } common[] = {
        {ZMQ_HEARTBEAT_IVL, 1000},  {ZMQ_HANDSHAKE_IVL, 5000},     {ZMQ_CONNECT_TIMEOUT, 3000},
        {ZMQ_RECONNECT_IVL, 10},    {ZMQ_RECONNECT_IVL_MAX, 2000}, {ZMQ_BACKLOG, 256},
        {ZMQ_TCP_KEEPALIVE, 1},     {ZMQ_TCP_KEEPALIVE_IDLE, 30},  {ZMQ_TCP_KEEPALIVE_INTVL, 10},
        {ZMQ_TCP_KEEPALIVE_CNT, 3},
    };
    bool ok = zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &o->frame_bytes, sizeof o->frame_bytes) == 0;
    ok = ok && set_int(s, ZMQ_LINGER, o->linger_ms) && set_int(s, ZMQ_SNDHWM, o->queue) &&
         set_int(s, ZMQ_RCVHWM, o->queue);
    ok = ok && set_int(s, ZMQ_HEARTBEAT_TIMEOUT, o->silent_ms) &&
         set_int(s, ZMQ_HEARTBEAT_TTL, o->silent_ms + 1000); /* the other side's, from the last ping on */
    ok = ok && set_int(s, ZMQ_IMMEDIATE, o->immediate);
    if (o->type == ZMQ_ROUTER)
        ok = ok && set_int(s, ZMQ_ROUTER_MANDATORY, o->mandatory) && set_int(s, ZMQ_ROUTER_HANDOVER, 0);
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        ok = ok && set_int(s, common[i].option, common[i].value);
    return ok;
}

bt_err bt_sock_open(void **ret, bt_sock_ctx *ctx, bt_sock_role role, bt_fault *fault)
{
    void *s = zmq_socket(ctx->zmq, roles[role].type);
    if (!s) return bt_fail(fault, BT_EIO, "ZeroMQ cannot make a socket: %s", zmq_strerror(errno));
    if (!set_all(s, &roles[role])) {
        const bt_err e =
            bt_fail(fault, BT_EIO, "ZeroMQ refuses an option of a socket: %s", zmq_strerror(errno));
        zmq_close(s);
        return e;
    }
    *ret = s;
    return BT_OK;
}

void bt_sock_close(void *socket)
{
    if (socket) zmq_close(socket);
}

/* ---- endpoints ---- */

/* "127.a.b.c" and nothing else; a name such as 127.0.0.1.example.org is not local. */
static bool is_loopback_ip4(const char *host, size_t len)
{
    unsigned parts = 0, value = 0, digits = 0;
    if (len < 4 || memcmp(host, "127.", 4)) return false;
    for (size_t i = 0; i <= len; i++) {
        if (i == len || host[i] == '.') {
            if (!digits || value > 255) return false;
            parts++;
            value = digits = 0;
        } else if (host[i] >= '0' && host[i] <= '9' && digits < 3) {
            value = value * 10 + (unsigned)(host[i] - '0');
            digits++;
        } else {
            return false;
        }
    }
    return parts == 4;
}

static bool is_port(const char *p)
{
    const size_t n = strspn(p, "0123456789");
    return !strcmp(p, "*") || (n >= 1 && n <= 5 && !p[n]);
}

bool bt_sock_endpoint_is_local(const char *endpoint)
{
    if (!strncmp(endpoint, "ipc://", 6) || !strncmp(endpoint, "inproc://", 9)) return true;
    if (strncmp(endpoint, "tcp://", 6)) return false;
    const char *host = endpoint + 6, *colon = strrchr(host, ':');
    if (!colon || !is_port(colon + 1)) return false;
    const size_t len = (size_t)(colon - host);
    return (len == 5 && !memcmp(host, "[::1]", 5)) || (len == 9 && !memcmp(host, "localhost", 9)) ||
           is_loopback_ip4(host, len);
}

/* The two halves of tcp://HOST:PORT, without the brackets of an IPv6 address. */
static bool split_tcp(char host[BT_SOCK_ENDPOINT_BYTES], const char **ret_port, const char *endpoint)
{
    const char *begin = endpoint + 6, *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) || strlen(endpoint) >= BT_SOCK_ENDPOINT_BYTES || colon < begin)
        return false;
    size_t len = (size_t)(colon - begin);
    if (len >= 2 && *begin == '[' && begin[len - 1] == ']') begin++, len -= 2;
    memcpy(host, begin, len);
    host[len] = 0;
    *ret_port = colon + 1;
    return len > 0;
}

static bool is_any(const struct sockaddr *a)
{
    static const struct in6_addr any, mapped = {{{[10] = 0xff, [11] = 0xff}}};
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    if (a->sa_family == AF_INET) return !((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && (!memcmp(six, &any, sizeof any) || !memcmp(six, &mapped, sizeof any));
}

bool bt_sock_endpoint_is_any(const char *endpoint)
{
    char host[BT_SOCK_ENDPOINT_BYTES];
    const char *port;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *all;
    if (!split_tcp(host, &port, endpoint)) return false;
    if (!strcmp(host, "*")) return true;
    if (getaddrinfo(host, NULL, &hints, &all) != 0) return false;
    const bool any = is_any(all->ai_addr);
    freeaddrinfo(all);
    return any;
}

bool bt_sock_endpoint_can_be_dialled(const char *endpoint)
{
    char host[BT_SOCK_ENDPOINT_BYTES];
    const char *port;
    if (!strncmp(endpoint, "ipc://", 6) || !strncmp(endpoint, "inproc://", 9)) return endpoint[6] != 0;
    if (!split_tcp(host, &port, endpoint) || !is_port(port) || bt_sock_endpoint_is_any(endpoint))
        return false;
    const long n = strtol(port, NULL, 10);
    return n >= 1 && n <= 65535;
}

/* A datagram socket that is connected sends nothing: the system only chooses the way. */
static int address_towards(char *ret, size_t len, const struct addrinfo *to)
{
    struct sockaddr_storage own;
    socklen_t own_len = sizeof own;
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int e = fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) < 0 ||
                    getsockname(fd, (struct sockaddr *)&own, &own_len) < 0
                ? errno
                : 0;
    if (!e &&
        getnameinfo((const struct sockaddr *)&own, own_len, ret, (socklen_t)len, NULL, 0, NI_NUMERICHOST))
        e = EADDRNOTAVAIL;
    if (fd >= 0) close(fd);
    return e;
}

bt_err bt_sock_local_address(char ret[BT_SOCK_ADDRESS_BYTES], const char *endpoint, bt_fault *fault)
{
    char host[BT_SOCK_ENDPOINT_BYTES], own[BT_SOCK_ADDRESS_BYTES - 2];
    const char *port;
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *all = NULL;
    if (!split_tcp(host, &port, endpoint))
        return bt_fail(fault, BT_EARG, "%.100s is not tcp://HOST:PORT: it has no address", endpoint);
    const bool is_six = endpoint[6] == '[';
    hints.ai_family = is_six ? AF_INET6 : AF_INET; /* as libzmq will dial it */
    const int e = getaddrinfo(host, port, &hints, &all);
    if (e) return bt_fail(fault, BT_EIO, "%.100s: %s", endpoint, gai_strerror(e));
    const int why = address_towards(own, sizeof own, all);
    freeaddrinfo(all);
    if (why) return bt_fail(fault, BT_EIO, "no way to %.100s: %s", endpoint, strerror(why));
    snprintf(ret, BT_SOCK_ADDRESS_BYTES, is_six ? "[%s]" : "%s", own);
    return BT_OK;
}

static bt_err check_endpoint(const bt_sock_ctx *ctx, const char *endpoint, bt_fault *fault)
{
    if (strlen(endpoint) >= BT_SOCK_ENDPOINT_BYTES ||
        (strncmp(endpoint, "tcp://", 6) && strncmp(endpoint, "ipc://", 6) &&
         strncmp(endpoint, "inproc://", 9)))
        return bt_fail(fault, BT_EARG,
                       "'%.100s' is not an endpoint such as tcp://127.0.0.1:5601 or ipc:///run/baton.sock",
                       endpoint);
    if (!ctx->keys && !bt_sock_endpoint_is_local(endpoint))
        return bt_fail(
            fault, BT_EAUTH,
            "%.100s is not on this machine, so it needs keys: make them with 'baton keygen' and give "
            "'--keys DIR'",
            endpoint);
    return BT_OK;
}

static bool is_inproc(const char *endpoint) { return !strncmp(endpoint, "inproc://", 9); }

/* Only where the address is IPv6: otherwise libzmq would report IPv4 addresses in their mapped form. */
static bool allow_ip6(void *s, const char *endpoint)
{
    return set_int(s, ZMQ_IPV6, !strncmp(endpoint, "tcp://[", 7));
}

static bool set_own_keys(void *s, const bt_sock_ctx *ctx)
{
    return zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, ctx->keys->public_key, 40) == 0 &&
           zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, ctx->keys->secret_key, 40) == 0;
}

bt_err bt_sock_bind(char ret_endpoint[BT_SOCK_ENDPOINT_BYTES], void *s, bt_sock_ctx *ctx,
                    const char *endpoint, bt_fault *fault)
{
    const bt_err e = check_endpoint(ctx, endpoint, fault);
    if (e < 0) return e;
    bool ok = allow_ip6(s, endpoint);
    if (ctx->keys && !is_inproc(endpoint)) {
        /* libzmq lets everybody in while nobody answers its ZAP requests. */
        if (!ctx->has_zap)
            return bt_fail(fault, BT_EAUTH,
                           "%.100s cannot be listened on with keys before the ZAP handler is open", endpoint);
        ok = ok && set_own_keys(s, ctx) && set_int(s, ZMQ_CURVE_SERVER, 1) &&
             zmq_setsockopt(s, ZMQ_ZAP_DOMAIN, BT_SOCK_ZAP_DOMAIN, strlen(BT_SOCK_ZAP_DOMAIN)) == 0;
    }
    char actual[BT_SOCK_ENDPOINT_BYTES];
    size_t n = sizeof actual;
    if (!ok || zmq_bind(s, endpoint) < 0 || zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, actual, &n) < 0)
        return bt_fail(fault, BT_EIO, "cannot listen on %.100s: %s", endpoint, zmq_strerror(errno));
    memcpy(ret_endpoint, actual, n);
    return BT_OK;
}

bt_err bt_sock_connect(void *s, bt_sock_ctx *ctx, const char *endpoint, const char *server_key,
                       bt_fault *fault)
{
    const bt_err e = check_endpoint(ctx, endpoint, fault);
    if (e < 0) return e;
    bool ok = allow_ip6(s, endpoint);
    if (!is_inproc(endpoint)) {
        if ((ctx->keys != NULL) != (server_key != NULL))
            return bt_fail(
                fault, BT_EARG,
                server_key
                    ? "the public key of %.100s is given, but this process has no keys: give --keys DIR"
                    : "the public key of %.100s is unknown, but this process has keys: name the key of the "
                      "other side",
                endpoint);
        if (server_key &&
            (strlen(server_key) != 40 || zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, server_key, 40) < 0))
            return bt_fail(fault, BT_EARG,
                           "the public key given for %.100s is not a key of 40 Z85 characters", endpoint);
        ok = ok && (!server_key || set_own_keys(s, ctx));
    }
    if (!ok || zmq_connect(s, endpoint) < 0)
        return bt_fail(fault, BT_EIO, "cannot connect to %.100s: %s", endpoint, zmq_strerror(errno));
    return BT_OK;
}

bt_err bt_sock_redial(void *s, const char *endpoint, bt_fault *fault)
{
    (void)zmq_disconnect(s, endpoint); /* it may be gone already */
    if (zmq_connect(s, endpoint) < 0)
        return bt_fail(fault, BT_EIO, "cannot connect to %.100s: %s", endpoint, zmq_strerror(errno));
    return BT_OK;
}

/* ---- news ---- */

bt_err bt_sock_watch(void **ret, void *s, bt_sock_ctx *ctx, bt_fault *fault)
{
    char name[64];
    (void)snprintf(name, sizeof name, "inproc://news-%p", s);
    void *watch = zmq_socket(ctx->zmq, ZMQ_PAIR);
    if (!watch || !set_int(watch, ZMQ_LINGER, 0) ||
        zmq_socket_monitor(s, name, ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED) < 0 ||
        zmq_connect(watch, name) < 0) {
        const bt_err e = bt_fail(fault, BT_EIO, "cannot watch a socket: %s", zmq_strerror(errno));
        bt_sock_close(watch);
        return e;
    }
    *ret = watch;
    return BT_OK;
}

void bt_sock_unwatch(void *watch, void *s)
{
    if (!watch) return;
    (void)zmq_socket_monitor(s, NULL, 0);
    bt_sock_close(watch);
}

unsigned bt_sock_news(void *watch)
{
    bt_sock_frame f[BT_SOCK_FRAMES_MAX];
    unsigned news = 0;
    size_t n;
    for (int i = 0; i < NEWS_BUDGET && bt_sock_recv_frames(watch, f, BT_SOCK_FRAMES_MAX, &n) == BT_OK; i++) {
        uint16_t event = 0; /* then its value; the second frame is an address */
        if (f[0].size >= sizeof event) memcpy(&event, f[0].data, sizeof event);
        if (event == ZMQ_EVENT_DISCONNECTED) news |= BT_SOCK_ENDED;
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) news |= BT_SOCK_UP;
        bt_sock_frames_done(f, n);
    }
    return news;
}

/* ---- messages ---- */

static zmq_msg_t *msg(bt_sock_frame *f) { return (zmq_msg_t *)(void *)f->priv; }

static void expose(bt_sock_frame *f)
{
    f->data = zmq_msg_data(msg(f));
    f->size = zmq_msg_size(msg(f));
}

bt_err bt_sock_frame_new(bt_sock_frame *f, size_t size)
{
    if (zmq_msg_init_size(msg(f), size) < 0) return BT_ENOMEM;
    expose(f);
    return BT_OK;
}

bt_err bt_sock_frame_copy(bt_sock_frame *f, const void *data, size_t size)
{
    const bt_err e = bt_sock_frame_new(f, size);
    if (e == BT_OK && size) memcpy(f->data, data, size);
    return e;
}

void bt_sock_frames_done(bt_sock_frame *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) zmq_msg_close(msg(&frames[i]));
}

void bt_sock_keep_frames(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_FRAME_BYTES); /* both fixed: else the first block freed, of 192 KiB
                                                          say, sets them to that and twice that */
    (void)mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
#endif
}

const char *bt_sock_frame_user(const bt_sock_frame *f)
{
    const char *user = zmq_msg_gets((const zmq_msg_t *)(const void *)f->priv, "User-Id");
    return user && *user ? user : NULL;
}

const char *bt_sock_frame_address(const bt_sock_frame *f)
{
    const char *address = zmq_msg_gets((const zmq_msg_t *)(const void *)f->priv, "Peer-Address");
    return address && *address ? address : NULL;
}

static bt_err receive_one(void *s, zmq_msg_t *m)
{
    zmq_msg_init(m);
    while (zmq_msg_recv(m, s, ZMQ_DONTWAIT) < 0) {
        if (errno == EINTR) continue;
        const int err = errno;
        zmq_msg_close(m);
        return err == EAGAIN ? BT_EAGAIN : BT_EIO;
    }
    return BT_OK;
}

/* libzmq hands out messages whole, so the rest of one that has begun is always there. */
static bt_err drop_rest(void *s)
{
    for (bool more = true; more;) {
        zmq_msg_t m;
        if (receive_one(s, &m) < 0) return BT_EIO;
        more = zmq_msg_more(&m);
        zmq_msg_close(&m);
    }
    return BT_EFORMAT;
}

bt_err bt_sock_recv_frames(void *s, bt_sock_frame *frames, size_t max, size_t *ret_count)
{
    size_t n = 0;
    bt_err e;
    for (bool more = true; more; n++) {
        if (n == max) e = drop_rest(s);
        else e = receive_one(s, msg(&frames[n]));
        if (e < 0) {
            bt_sock_frames_done(frames, n);
            return n ? (e == BT_EFORMAT ? e : BT_EIO) : e;
        }
        expose(&frames[n]);
        more = zmq_msg_more(msg(&frames[n]));
    }
    *ret_count = n;
    return BT_OK;
}

bool bt_sock_can_send(void *s)
{
    int events = 0;
    size_t n = sizeof events;
    return zmq_getsockopt(s, ZMQ_EVENTS, &events, &n) == 0 && (events & ZMQ_POLLOUT);
}

/* When the link ends between two frames, libzmq drops the frames that it has and expects the message's last
 * frame before the next message, so the remaining frames are handed in all the same. */
bt_err bt_sock_send_frames(void *s, bt_sock_frame *frames, size_t count)
{
    bt_err e = BT_OK;
    for (size_t i = 0; i < count;) {
        const int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        if (zmq_msg_send(msg(&frames[i]), s, flags) < 0) {
            if (errno == EINTR) continue;
            if (i == 0) return errno == EAGAIN ? BT_EAGAIN : BT_EIO;
            e = BT_EIO;
        }
        i++;
    }
    for (size_t i = 0; i < count && e < 0; i++) expose(&frames[i]); /* taken frames are empty now */
    return e;
}
