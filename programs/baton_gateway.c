/* baton-gateway: options, then the server. */
#include "base/log.h"
#include "base/wait.h"
#include "gateway/http/options.h"
#include "gateway/shell/server.h"

int main(int argc, char **argv)
{
    gw_options o;
    bt_opt_args args;
    bt_fault fault = {""};
    const int code = bt_opt_start(&args, &gw_options_program, argc, argv, &o);
    if (code >= 0) return code;
    if (gw_options_check(&o, &fault) < 0) {
        bt_opt_usage_error(gw_options_program.name, &fault);
        bt_opt_done(&args);
        return 2;
    }
    bt_log_setup(gw_options_program.name, o.verbose ? BT_LOG_DEBUG : (bt_log_level)o.log_level,
                 o.log_format == 1);
    bt_wait_setup(BT_WAIT_LOG);
    const bt_err e = gw_server_run(&o, &fault);
    if (e < 0) bt_log(BT_LOG_ERROR, "%s", fault.text);
    bt_opt_done(&args);
    return e < 0 ? 1 : 0;
}
