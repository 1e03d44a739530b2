/* baton-prefill: a node that begins as a prefill node. */
#include "programs/node.h"

int main(int argc, char **argv) { return node_main(argc, argv, BT_ROLE_PREFILL); }
