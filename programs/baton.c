/* baton: one command for people. See commands.c for the table. */
#include "base/wait.h"
#include "kernels/kernels.h"
#include "programs/commit.h"
#include "tools/made_by.h"
#include "tools/tool.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    bt_wait_setup(BT_WAIT_STDERR);
    tool_made_by_commit(BT_COMMIT);
    if (bt_kernels_warning()) fprintf(stderr, "baton: %s\n", bt_kernels_warning());
    return bt_opt_dispatch(&tool_commands, argc, argv);
}
