#ifndef PF_NODE_H
#define PF_NODE_H
#include "prefill-node/options.h"
#include "wire/msg.h"

/* The prefill node's I/O thread: carries events to the brain and its actions out. It owns sockets and KV pages, decides
 * nothing and computes nothing. Returns the program's exit code; 0 with *ret_next = DECODE (else untouched) where the
 * process is to go on in that role. */
int pf_node_run(const pf_options *o, bt_role *ret_next);
#endif
