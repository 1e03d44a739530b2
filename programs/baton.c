/* baton: one command for people. See commands.c for the table. */
#include "base/wait.h"
#include "kernels/kernels.h"
#include "tools/tool.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    bt_wait_setup(BT_WAIT_STDERR);
    if (bt_kernels_warning()) fprintf(stderr, "baton: %s\n", bt_kernels_warning());
    const int rc = bt_opt_dispatch(&tool_commands, argc, argv);
    const bool is_lost = fflush(stdout) != 0 || ferror(stdout);
    if (rc != 0 || !is_lost) return rc;
    fputs("baton: cannot write to stdout\n", stderr);
    return 1;
}
