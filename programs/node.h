#ifndef BT_PROGRAMS_NODE_H
#define BT_PROGRAMS_NODE_H
#include "wire/msg.h"

/* The main of baton-prefill and baton-decode: reads the options, then runs a node of the role `first`. After `baton
 * role` the same process runs a node of the other role, as often as that is asked for. Returns the exit code. */
int node_main(int argc, char **argv, bt_role first);
#endif
