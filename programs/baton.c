/* baton: one command for people. See commands.c for the table. */
#include "base/wait.h"
#include "tools/tool.h"

int main(int argc, char **argv)
{
    bt_wait_setup(BT_WAIT_STDERR);
    return bt_opt_dispatch(&tool_commands, argc, argv);
}
