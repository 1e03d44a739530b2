/* Attacks on the real programs, with keys on every link: junk connections by the thousand, frames that
 * announce 2 GB, malformed ZMTP, and a member of the cluster that says what its key may not, forges tickets
 * and replays blocks. Each is refused and counted, the memory of the programs does not grow with it, and
 * honest requests succeed during and after. BATON_ATTACK=N: N junk connections to each port (2,000 if not
 * set). */
#include "base/clock.h"
#include "rt/loop.h"
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/foreign_copies.h"
#include "node/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { READY_MS = 60000, OPEN_MAX_JUNK = 512, GROWTH_MAX_MB = 48 };

typedef struct by_hand {
    spawn *gateway, *prefill, *decode;
    char url[128], control[128], kv[128];
} by_hand;
static by_hand h;
static char keys[256];

static int start(void **state)
{
    (void)state;
    snprintf(keys, sizeof keys, "%s", spawn_path("keys"));
    spawn *keygen = SPAWN("baton", "keygen", keys, "--prefill-keys", "2");
    assert_int_equal(spawn_wait(keygen, spawn_patience(10000)), 0);
    h.gateway = SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                      "tcp://127.0.0.1:*", "--keys", keys, "--key", "gateway");
    assert_true(cluster_find_gateway(h.url, h.control, h.gateway, spawn_patience(READY_MS)));
    h.decode =
        SPAWN("baton-decode", "-m", spawn_tiny_model(1), "--gateway", h.control, "--threads", "1", "--keys",
              keys, "--key", "decode-0", "--listen", "tcp://127.0.0.1:*", "--log-level", "debug");
    h.prefill = SPAWN("baton-prefill", "-m", spawn_tiny_model(1), "--gateway", h.control, "--threads", "1",
                      "--keys", keys, "--key", "prefill-0");
    assert_true(cluster_wait_health(h.url, 200, spawn_patience(READY_MS)));
    const char *at = strstr(spawn_err(h.decode), "taking KV at ");
    assert_true(at && sscanf(at, "taking KV at %127[^, \n]", h.kv) == 1);
    for (int i = 0; i < 5; i++) assert_true(cluster_serves(h.url)); /* buffers have their size */
    return 0;
}

static long rss_kb(const spawn *s)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)spawn_pid(s));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static struct sockaddr_in address_of(const char *endpoint)
{
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1)),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return a;
}

/* ---- strangers ---- */

/* The bytes of a connection of no key, by turns: nothing, noise, half a greeting, the greeting of a plain
 * peer, and that of an encrypted one with a command of 2 GB, one of 64 KB, or with none. */
static size_t junk(uint8_t out[256], unsigned kind)
{
    memset(out, 0, 256);
    if (kind == 0) return 0;
    if (kind == 1) {
        for (size_t i = 0; i < 200; i++) out[i] = (uint8_t)(i * 37 + 11);
        return 200;
    }
    out[0] = 0xff;
    out[9] = 0x7f;
    out[10] = 3;
    if (kind == 2) return 11;
    memcpy(out + 12, kind == 3 ? "NULL" : "CURVE", kind == 3 ? 4 : 5);
    if (kind == 3 || kind == 6) return 64;
    out[64] = 0x06;                    /* a long command */
    if (kind == 4) out[65 + 4] = 0x80; /* 2^31 bytes */
    else out[65 + 6] = 0xff;
    return 200;
}

/* One more, in place of the oldest of those that are held open. */
static void connect_junk(int held[OPEN_MAX_JUNK], size_t i, const struct sockaddr_in *to)
{
    uint8_t bytes[256];
    const size_t n = junk(bytes, (unsigned)(i % 7));
    int *fd = &held[i % OPEN_MAX_JUNK];
    if (*fd >= 0) close(*fd);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*fd >= 0);
    const struct linger at_once = {1, 0}; /* no port stays taken after it */
    (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    const struct timeval patience = {.tv_sec = 20};
    (void)setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(*fd, (const struct sockaddr *)to, sizeof *to) < 0) {
        close(*fd);
        *fd = -1;
    } else if (n) {
        (void)send(*fd, bytes, n, MSG_NOSIGNAL);
    }
}

static void flood(const char *endpoint, size_t count)
{
    static int held[OPEN_MAX_JUNK];
    const struct sockaddr_in to = address_of(endpoint);
    for (size_t i = 0; i < OPEN_MAX_JUNK; i++) held[i] = -1;
    for (size_t i = 0; i < count; i++) {
        connect_junk(held, i, &to);
        if (i % (count / 4 + 1) == count / 4) assert_true(cluster_serves(h.url));
    }
    for (size_t i = 0; i < OPEN_MAX_JUNK; i++)
        if (held[i] >= 0) close(held[i]);
}

static void junk_connections_disturb_nobody_and_take_no_memory(void **state)
{
    (void)state;
    const char *wish = getenv("BATON_ATTACK");
    const size_t count = wish && atol(wish) > 0 ? (size_t)atol(wish) : 2000;
    flood(h.control, 600); /* tables and buffers that a crowd needs at all */
    flood(h.kv, 600);
    const long gateway = rss_kb(h.gateway), decode = rss_kb(h.decode);
    const int64_t begin_ms = bt_clock_ms();
    flood(h.control, count);
    flood(h.kv, count);
    const long gateway_after = rss_kb(h.gateway), decode_after = rss_kb(h.decode);
    printf("%zu junk connections to each port in %.1f s: resident gateway %ld -> %ld KB, decode node %ld -> "
           "%ld KB\n",
           count, (double)(bt_clock_ms() - begin_ms) / 1000, gateway, gateway_after, decode, decode_after);
    if (!spawn_is_sanitized()) { /* which keep freed memory for a while */
        assert_true(gateway_after - gateway < GROWTH_MAX_MB * 1024);
        assert_true(decode_after - decode < GROWTH_MAX_MB * 1024);
    }
    for (int i = 0; i < 5; i++) assert_true(cluster_serves(h.url));
}

/* ---- a member that misbehaves ---- */

typedef struct end {
    bt_link *link;
    uint64_t watch;
    int msgs, refused, rejects;
} end;
static bt_loop *loop;
static bt_net *net;

static void on_msg(void *ud, const bt_msg *m)
{
    end *e = ud;
    e->msgs++;
    e->refused += m->type == BT_MSG_TRANSFER_REFUSED;
    e->rejects += m->type == BT_MSG_REJECT;
}

static void on_bad(void *ud, const bt_fault *why) { (void)ud, (void)why; }

static void on_ready(void *ud, unsigned events)
{
    end *e = ud;
    (void)events;
    bt_link_receive(e->link, 64);
}

static void dial(end *e, bt_sock_role role, const char *endpoint, bt_peer_role server)
{
    const bt_link_handler handler = {.on_msg = on_msg, .on_bad = on_bad, .ud = e};
    bt_peer_key key;
    bt_fault fault = {""};
    memset(e, 0, sizeof *e);
    if (bt_net_find_key(&key, net, server, NULL, &fault) < 0 ||
        bt_net_dial(&e->link, net, role, endpoint, &key, &handler, &fault) < 0 ||
        bt_loop_add_socket(&e->watch, loop, bt_link_socket(e->link), BT_LOOP_IN, on_ready, e) < 0)
        fail_msg("%s", fault.text);
}

static void hang_up(end *e)
{
    bt_loop_remove(loop, e->watch);
    bt_link_free(e->link);
}

static bt_incarnation name(uint8_t n) { return (bt_incarnation){{0xee, n}}; }

static void tell(end *e, const bt_msg *m)
{
    bt_fault fault = {""};
    bt_err err = BT_EAGAIN;
    for (const int64_t until = spawn_now_ms() + spawn_patience(20000);
         err == BT_EAGAIN && spawn_before(until);) {
        err = bt_link_send(e->link, m, &fault);
        if (err == BT_EAGAIN) (void)bt_loop_step(loop, 1, NULL);
    }
    if (err < 0) fail_msg("%s not sent: %s %s", bt_msg_type_name(m->type), bt_err_name(err), fault.text);
}

static void until(const int *count, int n)
{
    for (const int64_t end_ms = spawn_now_ms() + spawn_patience(20000); *count < n && spawn_before(end_ms);)
        (void)bt_loop_step(loop, 10, NULL);
    assert_true(*count >= n);
}

static void greet(end *e, bt_role role)
{
    bt_msg m = {.type = BT_MSG_HELLO, .from = name(1)};
    m.u.hello = (bt_msg_hello){
        .protocol = BT_PROTOCOL_VERSION,  .role = role,     .node_id = "attacker",   .model_id = {1},
        .kv = {1, 1, 8, BT_KV_F16, 0, 0}, .ctx_tokens = 16, .kv_capacity_tokens = 16};
    if (role == BT_ROLE_DECODE) strcpy(m.u.hello.kv_endpoint, "tcp://127.0.0.1:1");
    tell(e, &m);
}

static void open_net(const char *key, bt_peer_role role)
{
    bt_fault fault = {""};
    if (bt_loop_new(&loop, &fault) < 0 || bt_net_open(&net, loop, keys, key, role, &fault) < 0)
        fail_msg("%s", fault.text);
}

static void close_net(void)
{
    bt_net_close(net);
    bt_loop_free(loop);
}

static void a_key_is_heard_in_its_own_role_only(void **state)
{
    end e;
    (void)state;
    open_net("prefill-1", BT_PEER_PREFILL);
    dial(&e, BT_SOCK_CONTROL_DEALER, h.control, BT_PEER_GATEWAY);
    greet(&e, BT_ROLE_DECODE);
    assert_true(spawn_wait_err(h.gateway,
                               "HELLO gives a role that the sender's key does not have (prefill-1)",
                               spawn_patience(20000)));
    assert_true(cluster_serves(h.url));
    assert_int_equal(e.msgs, 0);
    hang_up(&e);
    close_net();
    open_net("gateway", BT_PEER_GATEWAY); /* nor has a gateway anything to say where KV comes in */
    dial(&e, BT_SOCK_BULK_DEALER, h.kv, BT_PEER_DECODE);
    greet(&e, BT_ROLE_PREFILL);
    assert_true(spawn_wait_err(h.decode, "key does not have the role for this link (gateway)",
                               spawn_patience(20000)));
    assert_int_equal(e.msgs, 0);
    hang_up(&e);
    close_net();
    assert_true(cluster_serves(h.url));
}

/* COMMITs and blocks for requests that are not its own, each many times over: whatever the ticket, nothing
 * is placed. */
static void forged_tickets_and_replayed_blocks_place_nothing(void **state)
{
    enum { REPEATS = 200 };
    end e;
    static uint16_t rows[2][16 * 8];
    bt_kv_header block = {.number = 7,   .attempt = 1,       .token_count = 16, .kv_heads = 1,
                          .head_dim = 8, .dtype = BT_KV_F16, .owner = {9},      .ticket = {3}};
    (void)state;
    open_net("prefill-1", BT_PEER_PREFILL);
    dial(&e, BT_SOCK_BULK_DEALER, h.kv, BT_PEER_DECODE);
    bt_msg m = {.type = BT_MSG_COMMIT, .from = name(1), .to = name(2),
                .ref = {.owner = name(3), .number = 7, .attempt = 1}};
    m.u.commit = (bt_msg_commit){.ticket = {{5}}, .prompt_tokens = 16, .first_token = 1, .kv_bytes = 1};
    const bt_incarnation from = name(1), to = name(2);
    memcpy(block.from, from.bytes, sizeof block.from);
    memcpy(block.to, to.bytes, sizeof block.to);
    block.body_bytes = bt_kv_header_body_bytes(16, 1, 8, BT_KV_F16);
    bt_kv_header_digest(block.digest, &block, (const uint8_t *)rows);
    for (int i = 0; i < REPEATS; i++) {
        bt_sock_frame frames[2];
        tell(&e, &m);
        assert_int_equal(bt_sock_frame_new(&frames[0], BT_KV_HEADER_BYTES), BT_OK);
        assert_int_equal(bt_kv_header_encode(frames[0].data, &block, NULL), BT_OK);
        assert_int_equal(bt_sock_frame_copy(&frames[1], rows, block.body_bytes), BT_OK);
        for (const int64_t end_ms = spawn_now_ms() + spawn_patience(20000);
             bt_sock_send_frames(bt_link_socket(e.link), frames, 2) < 0;) {
            assert_true(spawn_before(end_ms));
            (void)bt_loop_step(loop, 1, NULL);
        }
    }
    until(&e.rejects, 1); /* unknown here: "greet me first", and that is all it ever hears */
    assert_int_equal(e.refused, 0);
    assert_true(spawn_wait_err(h.decode, "a block is meant for another incarnation", spawn_patience(20000)));
    assert_true(cluster_serves(h.url));
    assert_true(cluster_wait_idle(h.url, spawn_patience(10000)));
    hang_up(&e);
    close_net();
}

static void frames_that_are_none_are_counted_and_change_nothing(void **state)
{
    end e;
    (void)state;
    open_net("prefill-1", BT_PEER_PREFILL);
    dial(&e, BT_SOCK_CONTROL_DEALER, h.control, BT_PEER_GATEWAY);
    for (size_t i = 0; i < 2000; i++) { /* noise of every length up to a page, and many frames */
        static const uint8_t noise[4096] = "BTN1";
        bt_sock_frame frames[8];
        const size_t n = i % 8 + 1;
        for (size_t k = 0; k < n; k++)
            assert_int_equal(bt_sock_frame_copy(&frames[k], noise, (i * 2 + k) % sizeof noise), BT_OK);
        for (const int64_t end_ms = spawn_now_ms() + spawn_patience(20000);
             bt_sock_send_frames(bt_link_socket(e.link), frames, n) < 0;) {
            assert_true(spawn_before(end_ms));
            (void)bt_loop_step(loop, 1, NULL);
        }
    }
    for (uint8_t i = 0; i < 200; i++)
        tell(&e, &(bt_msg){.type = BT_MSG_HEARTBEAT, .from = name(i), .to = name(250)});
    until(&e.rejects, 1);
    assert_true(spawn_wait_err(h.gateway, "dropped a message on the control socket", spawn_patience(20000)));
    assert_true(cluster_serves(h.url));
    hang_up(&e);
    close_net();
}

static int stop(void **state)
{
    spawn *all[] = {h.prefill, h.decode, h.gateway};
    bool ended = true;
    for (size_t i = 0; i < 3; i++) ended = cluster_end(all[i], spawn_patience(10000)) && ended;
    unsigned strangers = 0, forbidden = 0;
    const char *line = strstr(spawn_err(h.decode), "refused: connections");
    if (!line ||
        sscanf(line,
               "refused: connections without a key of the list %u, messages that their key may not say %u",
               &strangers, &forbidden) != 2 ||
        forbidden == 0) {
        printf("the decode node did not count what it refused: %s\n", line ? line : "no line");
        return -1;
    }
    return cluster_teardown(state) || !ended ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junk_connections_disturb_nobody_and_take_no_memory),
        cmocka_unit_test(a_key_is_heard_in_its_own_role_only),
        cmocka_unit_test(forged_tickets_and_replayed_blocks_place_nothing),
        cmocka_unit_test(frames_that_are_none_are_counted_and_change_nothing),
    };
    spawn_setup();
    client_setup();
    const int rc = cmocka_run_group_tests(tests, start, stop);
    client_cleanup();
    spawn_cleanup();
    return rc;
}
