/* Datagrams of NAME=value lines. */
#include "rt/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bt_err fill_address(struct sockaddr_un *ret, socklen_t *ret_len, const char *text, bt_fault *fault)
{
    const size_t n = strlen(text);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n < 2 || (text[0] != '/' && text[0] != '@') || n >= sizeof ret->sun_path)
        return bt_fail(fault, BT_EARG, "the address '%.120s' is not a path or '@name' of less than %zu bytes",
                       text, sizeof ret->sun_path);
    memcpy(ret->sun_path, text, n);
    if (text[0] == '@') ret->sun_path[0] = 0;
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (text[0] == '/'));
    return BT_OK;
}

bt_err bt_notify_send(const char *text, bt_fault *fault)
{
    struct sockaddr_un to;
    socklen_t len;
    const char *address = getenv("NOTIFY_SOCKET");
    if (!address || !*address) return BT_OK;
    bt_err e = fill_address(&to, &len, address, fault);
    if (e < 0) return e;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot make a socket: %s", strerror(errno));
    if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to, len) < 0)
        e = bt_fail(fault, BT_EIO, "cannot send to '%.100s': %s", address, strerror(errno));
    close(fd);
    return e;
}

bt_err bt_notify_listen(int *ret_fd, const char *address, bt_fault *fault)
{
    struct sockaddr_un at;
    socklen_t len;
    const int on = 1;
    const bt_err e = fill_address(&at, &len, address, fault);
    if (e < 0) return e;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot make a socket: %s", strerror(errno));
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *)&at, len) < 0) {
        const int err = errno;
        close(fd);
        return bt_fail(fault, BT_EIO, "cannot listen on '%.100s': %s", address, strerror(err));
    }
    *ret_fd = fd;
    return BT_OK;
}

bt_err bt_notify_recv(bt_notify_msg *ret, int fd)
{
    char text[BT_NOTIFY_BYTES_MAX + 1];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {text, BT_NOTIFY_BYTES_MAX};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n;
    do n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? BT_EAGAIN : BT_EIO;
    if ((m.msg_flags & MSG_TRUNC) || memchr(text, 0, (size_t)n)) return BT_EFORMAT;
    text[n] = 0;
    ret->pid = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        struct ucred who;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
            c->cmsg_len < CMSG_LEN(sizeof who))
            continue;
        memcpy(&who, CMSG_DATA(c), sizeof who);
        ret->pid = who.pid;
    }
    memcpy(ret->text, text, (size_t)n + 1);
    return BT_OK;
}

bool bt_notify_get(char *ret, size_t bytes, const bt_notify_msg *msg, const char *name)
{
    const size_t len = strlen(name);
    for (const char *p = msg->text; *p;) {
        const size_t n = strcspn(p, "\n");
        if (n > len && !memcmp(p, name, len) && p[len] == '=') {
            snprintf(ret, bytes, "%.*s", (int)(n - len - 1), p + len + 1);
            return true;
        }
        p += n + (p[n] == '\n');
    }
    return false;
}
