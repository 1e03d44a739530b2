/* baton: one command for people. See commands.c for the table. */
#include "tools/tool.h"

int main(int argc, char **argv) { return bt_opt_dispatch(&tool_commands, argc, argv); }
