#ifndef DC_NODE_H
#define DC_NODE_H
#include "decode-node/options.h"
#include "wire/msg.h"

/* The decode node's I/O thread: carries events to the brain and its actions out. It owns sockets and KV pages, decides
 * nothing and computes nothing. Returns the program's exit code; 0 with *ret_next = PREFILL (else untouched) where the
 * process is to go on in that role. */
int dc_node_run(const dc_options *o, bt_role *ret_next);
#endif
