/* baton-prefill: options, then the node; nothing else. */
#include "base/log.h"
#include "base/wait.h"
#include "prefill-node/node.h"

#include <stdio.h>

/* Lives as long as the log: several nodes may write to one terminal. */
static char name[96];

int main(int argc, char **argv)
{
    pf_options o;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &pf_options_program, argc, argv, &o);
    if (rc >= 0) return rc;
    snprintf(name, sizeof name, "baton-prefill %s", o.id);
    bt_log_setup(name, (bt_log_level)o.log_level, o.log_format == 1);
    bt_wait_setup(BT_WAIT_LOG);
    rc = pf_node_run(&o, NULL);
    bt_opt_done(&args);
    return rc;
}
