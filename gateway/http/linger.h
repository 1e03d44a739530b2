#ifndef GW_LINGER_H
#define GW_LINGER_H
#include <stdint.h>
#include "gateway/http/watch.h"

/* Sockets whose answer is sent while the client may still be sending: a socket closed at once would answer the client's
 * bytes with a reset, and a reset takes the answer away before the client reads it. So incoming bytes are read and
 * thrown away until the client closes, within limits of bytes and seconds.
 *
 * Under TLS they are records, which are counted and thrown away unopened: the session has said all that it has to say,
 * and nobody reads of it any more. */
enum { GW_LINGER_MAX = 64, GW_LINGER_MAX_BYTES = 256 << 20, GW_LINGER_MAX_S = 30 };

typedef struct gw_linger gw_linger;
typedef struct gw_lingers {
    int watch_fd;            /* the epoll descriptor that watches the sockets; events go to gw_watch */
    gw_linger *first, *last; /* the oldest first */
    unsigned count;
} gw_lingers;

/* Keeps a duplicate of fd, which stays the caller's, and whose session may still say that it ends. The oldest ends
 * where there are GW_LINGER_MAX. */
void gw_linger_begin(gw_lingers *s, int fd, int64_t now_us);
/* Shuts the sending side of those that began since the last call, once the caller has closed its descriptors. Closing
 * them does not, since the duplicates are open, and libmicrohttpd shuts down sessions of TLS and not their sockets. */
void gw_linger_shut(gw_lingers *s);
void gw_linger_sweep(gw_lingers *s, int64_t now_us); /* ends sockets whose time is over; INT64_MAX: all */
#endif
