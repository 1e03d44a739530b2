/* baton keygen: the keys of a whole cluster, in one directory. */
#include "crypto/keys.h"
#include "tools/tool.h"

#include <stdio.h>

typedef struct config { bool json; } config;

static const bt_opt opts[] = {
    { .group = "Output", .name = "json", BT_OPT_AT(config, json), .type = BT_OPT_FLAG, .help = "one JSON object on stdout: directory, names" },
};

const bt_opt_program tool_keygen_program = {
    .name = "baton keygen", .summary = "make the CURVE keys of a cluster: a secret for each role and one allow file",
    .usage = "DIR [options]", .normal = "baton keygen keys", .opts = opts, .opt_count = BT_OPT_COUNT(opts), .args_min = 1, .args_max = 1,
    .args_name = "DIR",
};

int tool_keygen_run(int argc, char **argv)
{
    static const char *const names[] = { "gateway", "prefill", "decode", NULL };
    config c;
    bt_opt_args args;
    bt_fault fault = { "" };
    int rc = bt_opt_start(&args, &tool_keygen_program, argc, argv, &c);
    if (rc >= 0) return rc;
    const char *dir = args.args[0];
    if (bt_keys_generate(dir, names, &fault) < 0) {
        rc = tool_fail("keygen", &fault);
    } else if (c.json) {
        rc = tool_print_json("keygen", json_pack("{s:s, s:[s,s,s]}", "directory", dir, "names", names[0], names[1], names[2]));
    } else {
        printf("wrote the keys of gateway, prefill and decode to %s\n"
               "give each machine its own NAME.secret, all .public files and the allow file; start every program with --keys %s\n", dir, dir);
        rc = fflush(stdout) != 0;
    }
    bt_opt_done(&args);
    return rc;
}
