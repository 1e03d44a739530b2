#ifndef GW_LISTEN_H
#define GW_LISTEN_H
#include <stdint.h>
#include "base/err.h"

struct sockaddr;
/* A number for whom an address stands for: an IPv4 address, also inside IPv6; of an IPv6 address the network of 64
 * bits, since a host has all of it. Different ones have different numbers, none of them 0. */
uint64_t gw_listen_number(const struct sockaddr *address);

/* A listening TCP socket that never blocks, on the first address of host. host may have the brackets of a URL; port 0
 * lets the system choose; *ret_port is the chosen one. BT_EIO with words for a port in use or an address of another
 * machine. */
bt_err gw_listen(int *ret_fd, uint16_t *ret_port, const char *host, uint16_t port, bt_fault *fault);
#endif
