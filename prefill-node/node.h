#ifndef PF_NODE_H
#define PF_NODE_H
#include "prefill-node/options.h"

/* The prefill node's I/O thread: carries events to the brain and its actions out. It owns sockets and KV pages, decides nothing and
 * computes nothing. Returns the program's exit code. */
int pf_node_run(const pf_options *o);
#endif
