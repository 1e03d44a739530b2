/* baton-gateway: options, then the server. */
#include "base/log.h"
#include "base/wait.h"
#include "gateway/api/openapi.h"
#include "gateway/options.h"
#include "gateway/shell/server.h"

#include <stdio.h>
#include <string.h>

/* For docs/generate.sh: the gateway's description of its API, as a file. */
static int print_openapi(void)
{
    bt_buf b;
    bt_buf_init(&b, 16 << 20);
    const bool is_good = gw_openapi_render_lines(&b) == BT_OK && fwrite(b.data, 1, b.len, stdout) == b.len;
    bt_buf_done(&b);
    return bt_opt_end(gw_options_program.name, is_good ? 0 : 1);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--print-openapi") == 0) return print_openapi();
    gw_options o;
    bt_opt_args args;
    bt_fault fault = {""};
    const int code = bt_opt_start(&args, &gw_options_program, argc, argv, &o);
    if (code >= 0) return code;
    gw_options_note(&o, &args);
    if (gw_options_check(&o, &fault) < 0) {
        bt_opt_usage_error(gw_options_program.name, &fault);
        bt_opt_done(&args);
        return 2;
    }
    bt_log_start(gw_options_program.name, &o.log);
    bt_wait_setup(BT_WAIT_LOG);
    const bt_err e = gw_server_run(&o, &fault);
    if (e < 0) bt_log(BT_LOG_ERROR, "%s", fault.text);
    bt_opt_done(&args);
    return e < 0 ? 1 : 0;
}
