#ifndef BT_RT_NOTIFY_H
#define BT_RT_NOTIFY_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/err.h"

/* systemd's readiness protocol, both halves, without its library: lines NAME=value in one datagram to the unix socket
 * named by $NOTIFY_SOCKET (a path, or an abstract name written with '@'). */
#define BT_NOTIFY_BYTES_MAX 4096u

/* For daemons: text such as "READY=1\nSTATUS=model loaded" (READY=1, STOPPING=1, STATUS=...). BT_OK and nothing done
 * when $NOTIFY_SOCKET is not set. Never waits; BT_EIO. */
bt_err bt_notify_send(const char *text, bt_fault *fault);

/* For supervisors. `address` goes into the children's $NOTIFY_SOCKET: "@name", or a path, which must not be there yet
 * and is the caller's to remove. The descriptor is non-blocking, close-on-exec, and the caller's to close. */
bt_err bt_notify_listen(int *ret_fd, const char *address, bt_fault *fault);

typedef struct bt_notify_msg {
    pid_t pid; /* of the sender, from the kernel; 0: unknown */
    char text[BT_NOTIFY_BYTES_MAX + 1];
} bt_notify_msg;
/* One datagram. BT_EAGAIN: none there; BT_EFORMAT: too long or with a zero byte (dropped); BT_EIO. */
bt_err bt_notify_recv(bt_notify_msg *ret, int fd);
/* The value of NAME in ret[bytes], cut to fit; false (ret untouched): the message has no such line. */
bool bt_notify_get(char *ret, size_t bytes, const bt_notify_msg *msg, const char *name);
#endif
