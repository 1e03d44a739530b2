/* See listen.h. */
#include "gateway/http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bt_err gw_listen(int *ret_fd, uint16_t *ret_port, const char *host, uint16_t port, bt_fault *fault)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[8], bare[256];
    const size_t n = strlen(host);
    /* [::1] as in a URL */
    (void)snprintf(bare, sizeof bare, "%.*s", (int)(n > 2 && host[0] == '[' ? n - 2 : n),
                   host + (n > 2 && host[0] == '['));
    (void)snprintf(service, sizeof service, "%u", port);
    const int g = getaddrinfo(bare, service, &hints, &list);
    if (g != 0) return bt_fail(fault, BT_EIO, "--host '%s': %s", host, gai_strerror(g));

    bt_err e = BT_OK;
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t alen = sizeof a;
    const int one = 1;
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0)
        e = bt_fail(fault, BT_EIO, "cannot make a socket: %s", strerror(errno));
    else if (bind(fd, list->ai_addr, list->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
        e = bt_fail(fault, BT_EIO, "cannot listen on %s port %u: %s%s", host, port, strerror(errno),
                    errno == EADDRINUSE ? "; another program has this port, choose one with --port" : "");
    else if (getsockname(fd, (struct sockaddr *)&a, &alen) < 0)
        e = bt_fail(fault, BT_EIO, "cannot find out the port that is listened on: %s", strerror(errno));
    if (e == BT_OK) {
        *ret_port = ntohs(a.any.ss_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
        *ret_fd = fd;
    } else if (fd >= 0) {
        (void)close(fd);
    }
    freeaddrinfo(list);
    return e;
}

uint64_t gw_listen_number(const struct sockaddr *address)
{
    /* No network of clients has this number: networks begin with 001, or with 1111. */
    static const uint64_t ip4 = (uint64_t)1 << 63;
    struct sockaddr_in a4;
    struct sockaddr_in6 a6;
    uint64_t network = 0;
    if (address->sa_family == AF_INET) {
        memcpy(&a4, address, sizeof a4);
        return ip4 | ntohl(a4.sin_addr.s_addr);
    }
    if (address->sa_family != AF_INET6) return ip4;
    memcpy(&a6, address, sizeof a6);
    const uint8_t *b = a6.sin6_addr.s6_addr;
    for (int i = 0; i < 8; i++) network = network << 8 | b[i];
    if (network != 0) return network;
    return ip4 | (uint64_t)b[12] << 24 | (uint64_t)b[13] << 16 | (uint64_t)b[14] << 8 | b[15]; /* ::ffff:IPV4,
                                                                                                  ::1 */
}
