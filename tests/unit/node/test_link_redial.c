/* A connection whose bytes libzmq could not follow is one that it never dials again: the link does. */
#include "base/clock.h"
#include "node/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEADLINE_MS = 30000, GREETING_BYTES = 64 };

static void on_msg(void *ud, const bt_msg *m)
{
    (void)m;
    ++*(int *)ud;
}

static void on_bad(void *ud, const bt_fault *why) { (void)ud, (void)why; }

static void send_heartbeat(bt_link *l)
{
    bt_msg m = {.type = BT_MSG_HEARTBEAT};
    memset(m.from.bytes, 1, sizeof m.from.bytes);
    memset(m.to.bytes, 2, sizeof m.to.bytes);
    (void)bt_link_send(l, &m, NULL);
}

/* A peer that greets as it should and then sends the header of a frame of half of all there is. */
static void ruin_one_connection(int listener, bt_link *dealer)
{
    static const uint8_t greeting[GREETING_BYTES] = {0xff, [8] = 1, 0x7f, 3, 1, 'N', 'U', 'L', 'L'};
    static const uint8_t ready[] = "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER",
                         ruin[] = "\x02\x7f\0\0\0\0\0\0\0";
    uint8_t in[256];
    size_t got = 0;
    const int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    while (got < GREETING_BYTES) {
        const ssize_t n = recv(fd, in, sizeof in, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_int_equal(send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL), sizeof ready - 1);
    const int64_t end = bt_clock_ms() + DEADLINE_MS;
    while (!bt_sock_can_send(bt_link_socket(dealer)) && bt_clock_ms() < end) usleep(1000);
    assert_true(bt_sock_can_send(bt_link_socket(dealer))); /* the link stands */
    assert_int_equal(send(fd, ruin, sizeof ruin - 1, MSG_NOSIGNAL), sizeof ruin - 1);
    while (recv(fd, in, sizeof in, 0) > 0) {}
    close(fd);
}

static void a_link_that_was_spoilt_is_dialled_again(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int heard_here = 0, heard_there = 0;
    char endpoint[BT_SOCK_ENDPOINT_BYTES], bound[BT_SOCK_ENDPOINT_BYTES];
    bt_loop *loop = NULL;
    bt_net *net = NULL;
    bt_link *dealer = NULL, *router = NULL;
    const bt_link_handler here = {.on_msg = on_msg, .on_bad = on_bad, .ud = &heard_here},
                          there = {.on_msg = on_msg, .on_bad = on_bad, .ud = &heard_there};
    (void)state;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0 && bind(listener, (const struct sockaddr *)&at, sizeof at) == 0 &&
                listen(listener, 1) == 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(bt_loop_new(&loop, NULL), BT_OK);
    assert_int_equal(bt_net_open(&net, loop, NULL, NULL, BT_PEER_PREFILL, NULL), BT_OK);
    assert_int_equal(bt_net_dial(&dealer, net, BT_SOCK_CONTROL_DEALER, endpoint, NULL, &there, NULL), BT_OK);
    ruin_one_connection(listener, dealer);
    close(listener);
    assert_int_equal(bt_net_listen(&router, bound, net, BT_SOCK_CONTROL_ROUTER, endpoint, ~0u, &here, NULL),
                     BT_OK);
    const int64_t end = bt_clock_ms() + DEADLINE_MS;
    while (!heard_here && bt_clock_ms() < end) {
        send_heartbeat(dealer);
        bt_link_receive(dealer, 8);
        bt_link_receive(router, 8);
        usleep(20000);
    }
    assert_true(heard_here > 0);
    bt_link_free(dealer);
    bt_link_free(router);
    bt_net_close(net);
    bt_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_link_that_was_spoilt_is_dialled_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
