/* baton-decode: options, then the node; nothing else. */
#include "base/log.h"
#include "decode-node/node.h"

int main(int argc, char **argv)
{
    dc_options o;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &dc_options_program, argc, argv, &o);
    if (rc >= 0) return rc;
    bt_log_setup("baton-decode", (bt_log_level)o.log_level, o.log_format == 1);
    rc = dc_node_run(&o);
    bt_opt_done(&args);
    return rc;
}
