#ifndef GW_LISTEN_H
#define GW_LISTEN_H
#include <stdint.h>
#include "base/err.h"

/* A listening TCP socket that never blocks, on the first address of host. host may have the brackets of a URL; port 0
 * lets the system choose; *ret_port is the chosen one. BT_EIO with words for a port in use or an address of another
 * machine. */
bt_err gw_listen(int *ret_fd, uint16_t *ret_port, const char *host, uint16_t port, bt_fault *fault);
#endif
