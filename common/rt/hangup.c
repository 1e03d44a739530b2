/* See hangup.h. */
#include "rt/hangup.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEEP_S = 5, KEEP_PROBES = 3 };

/* An address without the form that IPv4 has in a socket of IPv6. */
typedef struct end {
    int family;
    size_t len;
    uint8_t address[16];
    uint16_t port; /* in the network's order */
} end;

static end end_of(const struct sockaddr_storage *a)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const struct sockaddr_in *four = (const void *)a;
    const struct sockaddr_in6 *six = (const void *)a;
    end e = {.family = a->ss_family, .len = a->ss_family == AF_INET ? 4 : 16};
    if (a->ss_family == AF_INET) {
        memcpy(e.address, &four->sin_addr, 4);
        e.port = four->sin_port;
        return e;
    }
    memcpy(e.address, &six->sin6_addr, 16);
    e.port = six->sin6_port;
    if (memcmp(e.address, mapped, sizeof mapped) != 0) return e;
    memmove(e.address, e.address + 12, 4);
    e.family = AF_INET;
    e.len = 4;
    return e;
}

static bool is_here(const end *client, const end *own)
{
    static const uint8_t loopback6[16] = {[15] = 1};
    const bool is_loopback =
        client->len == 4 ? client->address[0] == 127 : memcmp(client->address, loopback6, 16) == 0;
    return is_loopback || memcmp(client->address, own->address, client->len) == 0;
}

/* The answer to a question about one socket; 0 and the socket's state and inode, or the system's error. */
static int ask_system(uint32_t *ret_inode, const end *client, const end *own)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } ask = {
        .head = {.nlmsg_len = sizeof ask, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = (uint8_t)client->family, .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = ~0u}};
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } answer;
    ask.body.id.idiag_sport = client->port;
    ask.body.id.idiag_dport = own->port;
    memcpy(ask.body.id.idiag_src, client->address, client->len);
    memcpy(ask.body.id.idiag_dst, own->address, own->len);
    ask.body.id.idiag_cookie[0] = ask.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (fd < 0) return -1;
    ssize_t n = send(fd, &ask, sizeof ask, 0); /* the system answers in the call */
    if (n == (ssize_t)sizeof ask) n = recv(fd, &answer, sizeof answer, 0);
    (void)close(fd);
    if (n < (ssize_t)sizeof answer.head) return -1;
    if (answer.head.nlmsg_type == NLMSG_ERROR && n >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return -((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
    if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        n < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return -1;
    *ret_inode = ((const struct inet_diag_msg *)NLMSG_DATA(&answer.head))->idiag_inode;
    return 0;
}

bt_hangup bt_hangup_look(int fd)
{
    struct sockaddr_storage a, b;
    socklen_t a_len = sizeof a, b_len = sizeof b;
    uint32_t inode = 0;
    if (getpeername(fd, (struct sockaddr *)&a, &a_len) < 0) return BT_HANGUP_GONE;
    if (getsockname(fd, (struct sockaddr *)&b, &b_len) < 0) return BT_HANGUP_UNKNOWN;
    const end client = end_of(&a), own = end_of(&b);
    if (client.family != own.family || !is_here(&client, &own)) return BT_HANGUP_UNKNOWN;
    const int e = ask_system(&inode, &client, &own);
    if (e == ENOENT || (e == 0 && inode == 0)) return BT_HANGUP_GONE; /* no process has it */
    return e == 0 ? BT_HANGUP_READS : BT_HANGUP_UNKNOWN;
}

void bt_hangup_probe(int fd)
{
    static const struct {
        int level, option, value;
    } keep[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_S},
                {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_S},
                {IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES}};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++)
        (void)setsockopt(fd, keep[i].level, keep[i].option, &keep[i].value, sizeof keep[i].value);
}
