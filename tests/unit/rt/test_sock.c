/* Addresses that need keys, whole messages over loopback, and CURVE with the allow list. */
#include "rt/sock.h"
#include "base/clock.h"
#include "crypto/keys.h"
#include "crypto/keys_generate.h"
#include "rt/loop.h"
#include "rt/zap.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static void knows_which_endpoints_are_local(void **s)
{
    (void)s;
    static const char *const local[] = {
        "ipc:///run/x",        "ipc://@x",      "inproc://x",         "tcp://127.0.0.1:5601",
        "tcp://127.255.3.4:*", "tcp://[::1]:1", "tcp://localhost:80",
    };
    static const char *const remote[] = {
        "tcp://0.0.0.0:1",
        "tcp://*:1",
        "tcp://10.0.0.1:1",
        "tcp://128.0.0.1:1",
        "tcp://127.0.0.1.example.org:1",
        "tcp://127.0.0:1",
        "tcp://127.0.0.256:1",
        "tcp://127.0.0.1",
        "tcp://[::]:1",
        "tcp://[::1]",
        "tcp://localhost.example.org:1",
        "tcp://lo:1",
        "tcp://localhost:x",
        "tcp://10.0.0.1;127.0.0.1:1",
        "tcp://127.0.0.1;10.0.0.1:1",
        "udp://127.0.0.1:1",
        "",
        "tcp://:1",
        "tcp://127..0.1:1",
        "tcp://127.0.0.1.2:1",
        "tcp://127.0.0.1:1:2",
        "TCP://127.0.0.1:1",
        "tcp://127.0.0.1:123456",
    };
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        assert_true(bt_sock_endpoint_is_local(local[i]));
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        assert_false(bt_sock_endpoint_is_local(remote[i]));
}

static void an_address_that_stands_for_all_of_a_machine_is_known(void **s)
{
    (void)s;
    static const char *const any[] = {"tcp://0.0.0.0:5602",  "tcp://*:*",
                                      "tcp://0.0.0.0:*",     "tcp://[::]:5602",
                                      "tcp://0:1",           "tcp://[0:0:0:0:0:0:0:0]:1",
                                      "tcp://[::0.0.0.0]:1", "tcp://[::ffff:0.0.0.0]:1"};
    static const char *const one[] = {"tcp://127.0.0.1:5602",
                                      "tcp://[::1]:1",
                                      "tcp://10.0.0.0:1",
                                      "tcp://eth0:1",
                                      "ipc://0.0.0.0:1",
                                      "tcp://0.0.0.0",
                                      "tcp://:5",
                                      "tcp://0.0.0.0.example.org:1",
                                      "",
                                      "tcp://",
                                      "ipc://*"};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) assert_true(bt_sock_endpoint_is_any(any[i]));
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) assert_false(bt_sock_endpoint_is_any(one[i]));
}

static void what_nobody_can_dial_is_known(void **s)
{
    (void)s;
    static const char *const good[] = {"tcp://10.0.0.7:5602",
                                       "tcp://a-host.example.org:1",
                                       "tcp://[2001:db8::7]:65535",
                                       "ipc:///run/baton",
                                       "ipc://@baton",
                                       "inproc://x"};
    static const char *const bad[] = {"tcp://0.0.0.0:5602",
                                      "tcp://*:1",
                                      "tcp://10.0.0.7:*",
                                      "tcp://10.0.0.7:0",
                                      "tcp://10.0.0.7",
                                      "10.0.0.7:5602",
                                      "http://10.0.0.7:1",
                                      "tcp://10.0.0.7:65536",
                                      "tcp://10.0.0.7:5602 ",
                                      "tcp://10.0.0.7:x",
                                      "ipc://",
                                      "",
                                      "tcp://:5"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(bt_sock_endpoint_can_be_dialled(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(bt_sock_endpoint_can_be_dialled(bad[i]));
}

static void the_own_address_towards_an_endpoint_is_found(void **s)
{
    (void)s;
    char own[BT_SOCK_ADDRESS_BYTES];
    bt_fault fault = {""};
    assert_int_equal(bt_sock_local_address(own, "tcp://127.0.0.1:9", &fault), BT_OK);
    assert_string_equal(own, "127.0.0.1");
    assert_int_equal(bt_sock_local_address(own, "tcp://127.0.0.5:9", &fault), BT_OK);
    assert_int_equal(strncmp(own, "127.", 4), 0);
    if (bt_sock_local_address(own, "tcp://[::1]:9", &fault) == BT_OK) assert_string_equal(own, "[::1]");
    assert_int_equal(bt_sock_local_address(own, "ipc:///run/baton", &fault), BT_EARG);
    assert_int_equal(bt_sock_local_address(own, "tcp://no such name:9", &fault), BT_EIO);
    assert_non_null(strstr(fault.text, "no such name"));
}

static bt_sock_ctx *ctx;
static void *router, *dealer;
static char at[BT_SOCK_ENDPOINT_BYTES];

static int open_pair(void **s)
{
    (void)s;
    return bt_sock_ctx_new(&ctx, NULL, NULL, NULL) |
           bt_sock_open(&router, ctx, BT_SOCK_CONTROL_ROUTER, NULL) |
           bt_sock_open(&dealer, ctx, BT_SOCK_CONTROL_DEALER, NULL);
}

static int close_pair(void **s)
{
    (void)s;
    bt_sock_close(router);
    bt_sock_close(dealer);
    bt_sock_close(NULL);
    bt_sock_ctx_free(ctx);
    return 0;
}

static void other_machines_need_keys(void **s)
{
    (void)s;
    bt_fault f;
    assert_int_equal(bt_sock_bind(at, router, ctx, "tcp://0.0.0.0:*", &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "--keys DIR"));
    assert_non_null(strstr(f.text, "baton keygen"));
    assert_int_equal(bt_sock_connect(dealer, ctx, "tcp://10.0.0.1:5601", NULL, &f), BT_EAUTH);
    assert_int_equal(bt_sock_bind(at, router, ctx, "http://127.0.0.1:80", &f), BT_EARG);
    assert_int_equal(bt_sock_connect(dealer, ctx, "tcp://127.0.0.1:1",
                                     "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", &f),
                     BT_EARG);
}

/* Waits in the kernel for the socket, at most 10 s; no sleeping and looking. */
static void nothing(void *ud, unsigned events)
{
    (void)ud;
    (void)events;
}

static void wait_for(void *socket, unsigned events)
{
    bt_loop *l;
    uint64_t id;
    assert_int_equal(bt_loop_new(&l, NULL), BT_OK);
    assert_int_equal(bt_loop_add_socket(&id, l, socket, events, nothing, NULL), BT_OK);
    assert_int_equal(bt_loop_step(l, 10000, NULL), BT_OK);
    bt_loop_free(l);
}

static void send_text(void *socket, size_t frames, const char *text)
{
    bt_sock_frame f[BT_SOCK_FRAMES_MAX + 4];
    wait_for(socket, BT_LOOP_OUT);
    for (size_t i = 0; i < frames; i++)
        assert_int_equal(bt_sock_frame_copy(&f[i], text, strlen(text)), BT_OK);
    assert_int_equal(bt_sock_send_frames(socket, f, frames), BT_OK);
}

static void messages_go_there_and_back_over_tcp(void **s)
{
    (void)s;
    bt_sock_frame f[4];
    size_t n = 99;
    assert_int_equal(bt_sock_bind(at, router, ctx, "tcp://127.0.0.1:*", NULL), BT_OK);
    assert_memory_equal(at, "tcp://127.0.0.1:", 16);
    assert_true(atoi(at + 16) > 0);
    assert_int_equal(bt_sock_connect(dealer, ctx, at, NULL, NULL), BT_OK);
    assert_int_equal(bt_sock_recv_frames(router, f, 4, &n), BT_EAGAIN);
    assert_int_equal(n, 99);
    send_text(dealer, 2, "ping");
    wait_for(router, BT_LOOP_IN);
    assert_int_equal(bt_sock_recv_frames(router, f, 4, &n), BT_OK);
    assert_int_equal(n, 3);
    assert_int_equal(f[2].size, 4);
    assert_memory_equal(f[2].data, "ping", 4);
    assert_null(bt_sock_frame_user(&f[2]));
    assert_int_equal(bt_sock_send_frames(router, f, 3), BT_OK);
    wait_for(dealer, BT_LOOP_IN);
    assert_int_equal(bt_sock_recv_frames(dealer, f, 4, &n), BT_OK);
    assert_int_equal(n, 2);
    bt_sock_frames_done(f, n);
}

static int option_of(void *socket, int option)
{
    int value = 0;
    size_t n = sizeof value;
    assert_int_equal(zmq_getsockopt(socket, option, &value, &n), 0);
    return value;
}

/* The gateway calls a silent node lost after 6 s, one whose connection has ended long before that. */
static void a_silent_control_connection_ends_no_sooner_than_its_node_is_lost(void **s)
{
    (void)s;
    void *bulk = NULL;
    void *const control[2] = {router, dealer};
    for (int i = 0; i < 2; i++) {
        assert_in_range(option_of(control[i], ZMQ_HEARTBEAT_TIMEOUT), 6001, 8000);
        assert_in_range(option_of(control[i], ZMQ_HEARTBEAT_TTL), 6001, 8000);
    }
    assert_int_equal(bt_sock_open(&bulk, ctx, BT_SOCK_BULK_DEALER, NULL), BT_OK);
    assert_int_equal(option_of(bulk, ZMQ_HEARTBEAT_TIMEOUT), 3000);
    bt_sock_close(bulk);
}

/* More than one call takes: the rest is there for the next. */
static void news_are_read_in_parts(void **s)
{
    (void)s;
    enum { MANY = 70 };
    void *watch = NULL, *dealers[MANY];
    assert_int_equal(bt_sock_bind(at, router, ctx, "tcp://127.0.0.1:*", NULL), BT_OK);
    assert_int_equal(bt_sock_watch(&watch, router, ctx, NULL), BT_OK);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(bt_sock_open(&dealers[i], ctx, BT_SOCK_CONTROL_DEALER, NULL), BT_OK);
        assert_int_equal(bt_sock_connect(dealers[i], ctx, at, NULL, NULL), BT_OK);
    }
    bt_sock_frame f[4];
    size_t n = 0;
    for (int i = 0; i < MANY; i++) send_text(dealers[i], 1, "up");
    for (int i = 0; i < MANY; i++) { /* all are up */
        wait_for(router, BT_LOOP_IN);
        assert_int_equal(bt_sock_recv_frames(router, f, 4, &n), BT_OK);
        bt_sock_frames_done(f, n);
    }
    assert_int_equal(bt_sock_news(watch), BT_SOCK_UP);
    assert_int_equal(bt_sock_news(watch), BT_SOCK_UP); /* the 6 that are left */
    assert_int_equal(bt_sock_news(watch), 0);
    for (int i = 0; i < MANY; i++) bt_sock_close(dealers[i]);
    bt_sock_unwatch(watch, router);
}

/* Bits of news, until these have come. */
static void expect_news(void *watch, unsigned wanted)
{
    unsigned news = 0;
    for (const int64_t end_ms = bt_clock_ms() + 10000; news != wanted && bt_clock_ms() < end_ms;) {
        wait_for(watch, BT_LOOP_IN);
        news |= bt_sock_news(watch);
    }
    assert_int_equal(news, wanted);
    assert_int_equal(bt_sock_news(watch), 0);
}

static void the_end_of_a_connection_is_news_and_a_message_to_it_fails(void **s)
{
    (void)s;
    bt_sock_frame f[4];
    size_t n = 0;
    void *here = NULL, *there = NULL;
    assert_int_equal(bt_sock_bind(at, router, ctx, "tcp://127.0.0.1:*", NULL), BT_OK);
    assert_int_equal(bt_sock_watch(&here, router, ctx, NULL), BT_OK);
    assert_int_equal(bt_sock_watch(&there, dealer, ctx, NULL), BT_OK);
    assert_int_equal(bt_sock_news(here), 0);
    assert_int_equal(bt_sock_connect(dealer, ctx, at, NULL, NULL), BT_OK);
    expect_news(here, BT_SOCK_UP);
    expect_news(there, BT_SOCK_UP);
    send_text(dealer, 1, "ping");
    wait_for(router, BT_LOOP_IN);
    assert_int_equal(bt_sock_recv_frames(router, f, 4, &n), BT_OK);
    assert_int_equal(n, 2);
    bt_sock_unwatch(there, dealer);
    bt_sock_close(dealer);
    dealer = NULL;
    expect_news(here, BT_SOCK_ENDED);
    bt_err e = BT_OK;
    for (const int64_t end_ms = bt_clock_ms() + 10000; e != BT_EIO && bt_clock_ms() < end_ms;) {
        bt_sock_frame again[2], none[4];
        assert_int_equal(bt_sock_recv_frames(router, none, 4, &n), BT_EAGAIN); /* libzmq sees the end as it
                                                                                  reads */
        assert_int_equal(bt_sock_frame_copy(&again[0], f[0].data, f[0].size), BT_OK);
        assert_int_equal(bt_sock_frame_copy(&again[1], "x", 1), BT_OK);
        if ((e = bt_sock_send_frames(router, again, 2)) < 0) bt_sock_frames_done(again, 2);
    }
    assert_int_equal(e, BT_EIO);
    bt_sock_frames_done(f, 2);
    bt_sock_unwatch(here, router);
    bt_sock_unwatch(NULL, router);
}

static void a_message_of_too_many_frames_is_dropped_whole(void **s)
{
    (void)s;
    bt_sock_frame f[4];
    size_t n;
    assert_int_equal(bt_sock_bind(at, router, ctx, "inproc://frames", NULL), BT_OK);
    assert_int_equal(bt_sock_connect(dealer, ctx, at, NULL, NULL), BT_OK);
    send_text(dealer, 4, "long");
    send_text(dealer, 3, "good");
    assert_int_equal(bt_sock_recv_frames(router, f, 4, &n), BT_EFORMAT);
    assert_int_equal(bt_sock_recv_frames(router, f, 4, &n), BT_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(f[3].data, "good", 4);
    bt_sock_frames_done(f, n);
    assert_int_equal(bt_sock_recv_frames(router, f, 4, &n), BT_EAGAIN);
}

static void a_router_says_that_a_peer_is_not_there(void **s)
{
    (void)s;
    bt_sock_frame f[2];
    assert_int_equal(bt_sock_frame_copy(&f[0], "nobody", 6), BT_OK);
    assert_int_equal(bt_sock_frame_copy(&f[1], "x", 1), BT_OK);
    assert_int_equal(bt_sock_send_frames(router, f, 2), BT_EIO);
    assert_memory_equal(f[0].data, "nobody", 6);
    bt_sock_frames_done(f, 2);
}

static void nothing_is_queued_for_a_link_that_is_not_there(void **s)
{
    (void)s;
    bt_sock_frame f;
    assert_int_equal(bt_sock_connect(dealer, ctx, "ipc://@baton-nobody-listens-here", NULL, NULL), BT_OK);
    assert_int_equal(bt_sock_frame_copy(&f, "x", 1), BT_OK);
    assert_int_equal(bt_sock_send_frames(dealer, &f, 1), BT_EAGAIN);
    bt_sock_frames_done(&f, 1);
}

static void a_port_in_use_is_named(void **s)
{
    (void)s;
    bt_fault f;
    void *second;
    char again[BT_SOCK_ENDPOINT_BYTES];
    assert_int_equal(bt_sock_bind(at, router, ctx, "tcp://127.0.0.1:*", NULL), BT_OK);
    assert_int_equal(bt_sock_open(&second, ctx, BT_SOCK_BULK_ROUTER, NULL), BT_OK);
    assert_int_equal(bt_sock_bind(again, second, ctx, at, &f), BT_EIO);
    assert_non_null(strstr(f.text, at));
    assert_non_null(strstr(f.text, "in use"));
    bt_sock_close(second);
}

static void a_frame_over_the_limit_never_arrives(void **s)
{
    (void)s;
    bt_sock_frame f[4];
    size_t n;
    assert_int_equal(bt_sock_bind(at, router, ctx, "tcp://127.0.0.1:*", NULL), BT_OK);
    assert_int_equal(bt_sock_connect(dealer, ctx, at, NULL, NULL), BT_OK);
    wait_for(dealer, BT_LOOP_OUT);
    assert_int_equal(bt_sock_frame_new(&f[0], BT_SOCK_CONTROL_BYTES_MAX + 1), BT_OK);
    memset(f[0].data, 0, f[0].size);
    assert_int_equal(bt_sock_send_frames(dealer, f, 1), BT_OK);
    /* The router drops the link; the dealer dials again and the next message arrives first. */
    bool arrived = false;
    for (int64_t end_ms = bt_clock_ms() + 10000; !arrived && bt_clock_ms() < end_ms;) {
        assert_int_equal(bt_sock_frame_copy(&f[0], "small", 5), BT_OK);
        wait_for(dealer, BT_LOOP_OUT);
        if (bt_sock_send_frames(dealer, f, 1) < 0) bt_sock_frames_done(f, 1);
        while (bt_sock_recv_frames(router, f, 4, &n) == BT_OK) {
            assert_int_equal(f[1].size, 5);
            arrived = true;
            bt_sock_frames_done(f, n);
        }
    }
    assert_true(arrived);
}

/* ---- with keys ---- */

static char dir[TEMP_FOLDER_BYTES];

static void serve(void *ud, unsigned events)
{
    (void)events;
    bt_zap_serve(ud);
}

static bool heard;
static void hear(void *ud, unsigned events)
{
    (void)ud;
    (void)events;
    heard = true;
}

/* A client of its own context tries to reach a server that allows one key; true: its message arrived,
 * under its name. */
static bool reaches(const char *client_name, const char *allow_name, uint64_t *refused)
{
    bt_sock_ctx *sc, *cc;
    bt_zap *zap;
    bt_peer_allow *allow;
    bt_loop *l;
    void *srv, *cli;
    bt_keys server, allowed;
    char text[100];
    uint64_t id;
    assert_int_equal(bt_keys_load(&server, dir, "decode", NULL), BT_OK);
    assert_int_equal(bt_keys_load(&allowed, dir, allow_name, NULL), BT_OK);
    snprintf(text, sizeof text, "%s prefill\n", allowed.public_key);
    assert_int_equal(bt_peer_auth_parse(&allow, text, NULL), BT_OK);
    assert_int_equal(bt_sock_ctx_new(&sc, dir, "decode", NULL), BT_OK);
    assert_int_equal(bt_sock_ctx_new(&cc, dir, client_name, NULL), BT_OK);
    assert_int_equal(bt_sock_open(&srv, sc, BT_SOCK_BULK_ROUTER, NULL), BT_OK);
    assert_int_equal(bt_sock_open(&cli, cc, BT_SOCK_BULK_DEALER, NULL), BT_OK);
    assert_int_equal(bt_sock_bind(at, srv, sc, "tcp://127.0.0.1:*", NULL), BT_EAUTH);
    assert_int_equal(bt_zap_open(&zap, sc, allow, NULL), BT_OK);
    assert_int_equal(bt_sock_bind(at, srv, sc, "tcp://127.0.0.1:*", NULL), BT_OK);
    assert_int_equal(bt_sock_connect(cli, cc, at, NULL, NULL), BT_EARG);
    assert_int_equal(bt_sock_connect(cli, cc, at, server.public_key, NULL), BT_OK);
    assert_int_equal(bt_loop_new(&l, NULL), BT_OK);
    assert_int_equal(bt_loop_add_socket(&id, l, bt_zap_socket(zap), BT_LOOP_IN, serve, zap), BT_OK);
    assert_int_equal(bt_loop_add_socket(&id, l, srv, BT_LOOP_IN, hear, NULL), BT_OK);
    assert_int_equal(bt_loop_add_socket(&id, l, cli, BT_LOOP_OUT, nothing, NULL), BT_OK);
    heard = false;
    bool sent = false;
    bt_sock_frame f[4];
    for (int64_t end_ms = bt_clock_ms() + 10000; !heard && !bt_zap_refused(zap) && bt_clock_ms() < end_ms;) {
        assert_int_equal(bt_loop_step(l, 1000, NULL), BT_OK);
        if (!sent && bt_sock_frame_copy(f, "hello", 5) == BT_OK &&
            !(sent = bt_sock_send_frames(cli, f, 1) == BT_OK))
            bt_sock_frames_done(f, 1);
        if (sent) bt_loop_set_events(l, id, 0);
    }
    size_t n = 0;
    const bool arrived = bt_sock_recv_frames(srv, f, 4, &n) == BT_OK;
    if (arrived) {
        assert_int_equal(n, 2);
        assert_string_equal(bt_sock_frame_user(&f[1]), bt_sock_ctx_public_key(cc));
        bt_sock_frames_done(f, n);
    }
    *refused = bt_zap_refused(zap);
    bt_loop_free(l);
    bt_sock_close(cli);
    bt_sock_close(srv);
    bt_zap_close(zap);
    bt_sock_ctx_free(cc);
    bt_sock_ctx_free(sc);
    bt_peer_auth_free(allow);
    return arrived;
}

static void only_keys_of_the_allow_list_get_in(void **s)
{
    (void)s;
    static const char *const names[] = {"gateway", "prefill", "decode", NULL};
    uint64_t refused = 0;
    assert_true(temp_folder_new(dir));
    assert_int_equal(bt_keys_generate(dir, names, NULL), BT_OK);
    assert_true(reaches("prefill", "prefill", &refused));
    assert_int_equal(refused, 0);
    assert_false(reaches("gateway", "prefill", &refused));
    assert_int_equal(refused, 1);
    assert_int_equal(temp_folder_remove(dir), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_stands_for_all_of_a_machine_is_known),
        cmocka_unit_test(what_nobody_can_dial_is_known),
        cmocka_unit_test(the_own_address_towards_an_endpoint_is_found),
        cmocka_unit_test(knows_which_endpoints_are_local),
        T(other_machines_need_keys),
        T(messages_go_there_and_back_over_tcp),
        T(a_silent_control_connection_ends_no_sooner_than_its_node_is_lost),
        T(news_are_read_in_parts),
        T(the_end_of_a_connection_is_news_and_a_message_to_it_fails),
        T(a_message_of_too_many_frames_is_dropped_whole),
        T(a_router_says_that_a_peer_is_not_there),
        T(nothing_is_queued_for_a_link_that_is_not_there),
        T(a_port_in_use_is_named),
        T(a_frame_over_the_limit_never_arrives),
        cmocka_unit_test(only_keys_of_the_allow_list_get_in),
    };
    return cmocka_run_group_tests_name("sock", tests, NULL, NULL);
}
