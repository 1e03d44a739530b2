#ifndef GW_SERVER_H
#define GW_SERVER_H
#include "gateway/options.h"

/* The whole gateway: opens the model's words, the control socket and the HTTP port, then runs one loop that carries
 * events to the brain and its actions to sockets, until a signal has drained it.
 *
 * Writes to stderr, one line a fact, what it serves and where; `ready URL` when a request would succeed for the first
 * time (and READY=1 to systemd). SIGTERM or SIGINT drains: new requests get 503, running ones may end within
 * --drain-timeout; a second one quits at once. */

/* Blocks. BT_OK after a drain; errors at start, with words. Options must have passed gw_options_check. */
bt_err gw_server_run(const gw_options *o, bt_fault *fault);
#endif
