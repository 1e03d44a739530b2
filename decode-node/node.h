#ifndef DC_NODE_H
#define DC_NODE_H
#include "decode-node/options.h"

/* The decode node's I/O thread: carries events to the brain and its actions out. It owns sockets and KV pages, decides nothing and
 * computes nothing. Returns the program's exit code. */
int dc_node_run(const dc_options *o);
#endif
