/* See raw_http.h. */
#include "tests/helpers/cluster/raw_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int raw_dial(const char *url)
{
    const char *colon = strrchr(url, ':');
    if (!colon) abort();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    const struct linger at_once = {1, 0}; /* no port stays taken after it */
    if (fd < 0) abort();
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    (void)close(fd);
    return -1;
}

bool raw_say(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        const ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* The words may be NULL. 1: they came; 0: the other side ended; -1: nothing came for ms. */
static int hear(int fd, char *ret, size_t size, const char *words, int64_t ms)
{
    char rest[4096];
    size_t len = 0;
    ret[0] = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, (int)ms) <= 0) return -1;
        const bool is_full = len + 1 >= size;
        const ssize_t n = recv(fd, is_full ? rest : ret + len, is_full ? sizeof rest : size - 1 - len, 0);
        if (n <= 0) return 0;
        if (is_full) continue;
        for (ssize_t i = 0; i < n; i++)
            if (!ret[len + (size_t)i]) ret[len + (size_t)i] = '?'; /* so that text functions see all of it */
        len += (size_t)n;
        ret[len] = 0;
        if (words && strstr(ret, words)) return 1;
    }
}

bool raw_hear_end(int fd, char *ret, size_t size, int64_t ms) { return hear(fd, ret, size, NULL, ms) == 0; }
bool raw_hear(int fd, char *ret, size_t size, const char *words, int64_t ms)
{
    return hear(fd, ret, size, words, ms) == 1;
}

size_t raw_count(const char *text, const char *words)
{
    size_t n = 0;
    for (; (text = strstr(text, words)); text += strlen(words)) n++;
    return n;
}
