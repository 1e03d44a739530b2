/* Sockets that were answered while their client was still sending: nothing of what they send makes them
 * reset. */
#include "gateway/http/linger.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static int watch_fd, listen_fd;
static struct sockaddr_in address;

static int setup(void **state)
{
    socklen_t len = sizeof address;
    (void)state;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    watch_fd = epoll_create1(EPOLL_CLOEXEC);
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return watch_fd < 0 || bind(listen_fd, (struct sockaddr *)&address, len) < 0 || listen(listen_fd, 100) < 0
               ? -1
               : getsockname(listen_fd, (struct sockaddr *)&address, &len);
}

static int teardown(void **state)
{
    (void)state;
    return close(watch_fd) + close(listen_fd);
}

/* A client, and a server's end that says goodbye and lingers. */
static int answered(gw_lingers *s, int64_t now_us)
{
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(client >= 0);
    (void)connect(client, (struct sockaddr *)&address, sizeof address);
    const int server = accept(listen_fd, NULL, NULL);
    assert_true(server >= 0);
    assert_int_equal(send(server, "bye", 3, 0), 3);
    gw_linger_begin(s, server, now_us);
    assert_int_equal(shutdown(server, SHUT_WR), 0);
    assert_int_equal(close(server), 0);
    return client;
}

static void turn(int timeout_ms)
{
    struct epoll_event ev;
    if (epoll_wait(watch_fd, &ev, 1, timeout_ms) == 1) {
        gw_watch *w = ev.data.ptr;
        w->on_ready(w, ev.events);
    }
}

static void the_answer_is_read_after_megabytes_were_sent_into_it(void **state)
{
    (void)state;
    static char block[1 << 20];
    gw_lingers s = {.watch_fd = watch_fd};
    const int fd = answered(&s, 0);
    for (size_t sent = 0; sent < (size_t)20 << 20;) {
        const ssize_t n = send(fd, block, sizeof block, MSG_NOSIGNAL);
        if (n > 0) sent += (size_t)n;
        turn(0);
    }
    assert_int_equal(s.count, 1);
    assert_int_equal(recv(fd, block, sizeof block, 0), 3);
    assert_int_equal(recv(fd, block, sizeof block, 0), 0);
    assert_int_equal(close(fd), 0);
    while (s.count) turn(10000); /* the client closed, so it ends */
}

/* As under TLS, where nobody else shuts a socket. */
static void its_sending_side_is_shut_once_the_others_are_closed(void **state)
{
    (void)state;
    gw_lingers s = {.watch_fd = watch_fd};
    char bytes[8];
    int pair[3][2];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair[i]), 0);
        gw_linger_begin(&s, pair[i][0], i);
        assert_int_equal(send(pair[i][0], "bye", 3, 0), 3);
        (void)close(pair[i][0]);
        if (i != 1) gw_linger_shut(&s); /* that of two together */
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(recv(pair[i][1], bytes, sizeof bytes, 0), 3);
        assert_int_equal(recv(pair[i][1], bytes, sizeof bytes, MSG_DONTWAIT), 0);
        assert_int_equal(send(pair[i][1], "more", 4, MSG_NOSIGNAL), 4);
        (void)close(pair[i][1]);
    }
    gw_linger_sweep(&s, INT64_MAX);
    assert_int_equal(s.count, 0);
}

static void it_ends_by_time_and_there_are_never_too_many(void **state)
{
    (void)state;
    gw_lingers s = {.watch_fd = watch_fd};
    int fds[GW_LINGER_MAX + 1];
    char byte;
    for (int i = 0; i <= GW_LINGER_MAX; i++) fds[i] = answered(&s, i);
    assert_int_equal(s.count, GW_LINGER_MAX);
    assert_int_equal(send(fds[0], "x", 1, MSG_NOSIGNAL), 1); /* the oldest had to go: a reset comes back */
    struct pollfd p = {.fd = fds[0], .events = POLLHUP};
    assert_int_equal(poll(&p, 1, 10000), 1);
    gw_linger_sweep(&s, (int64_t)GW_LINGER_MAX_S * 1000000 + 3);
    assert_int_equal(s.count, GW_LINGER_MAX - 3);
    gw_linger_sweep(&s, INT64_MAX);
    assert_int_equal(s.count, 0);
    assert_null(s.first);
    assert_null(s.last);
    for (int i = 1; i <= GW_LINGER_MAX; i++) {
        assert_int_equal(recv(fds[i], &byte, 1, 0), 1);
        (void)close(fds[i]);
    }
    (void)close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_is_read_after_megabytes_were_sent_into_it),
        cmocka_unit_test(its_sending_side_is_shut_once_the_others_are_closed),
        cmocka_unit_test(it_ends_by_time_and_there_are_never_too_many),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
