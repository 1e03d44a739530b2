#ifndef BT_PROGRAMS_NODE_H
#define BT_PROGRAMS_NODE_H
#include "wire/msg.h"

/* The main of baton-prefill and baton-decode: options, then a node of the role `first`; after `baton role` the same
 * process is a node of the other role, as often as it is asked. Returns the exit code. */
int node_main(int argc, char **argv, bt_role first);
#endif
