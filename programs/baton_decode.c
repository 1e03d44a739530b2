/* baton-decode: a node that begins as a decode node. */
#include "programs/node.h"

int main(int argc, char **argv) { return node_main(argc, argv, BT_ROLE_DECODE); }
