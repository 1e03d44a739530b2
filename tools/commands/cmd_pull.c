/* baton pull: fetches models by name. */
#include "base/wait.h"
#include "tools/options.h"
#include "tools/pull/pull.h"
#include "tools/tool.h"

#include <stdio.h>

enum { MAX_NAMES = 16 };

typedef struct config {
    tool_pull_config pull;
    bool json, quiet;
} config;

static const bt_opt opts[] = {
    BT_OPT_ALL(tool_pull_opts, config, pull, NULL),
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: models[] with name, path, bytes, sha256, licence, fetched"},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet)},
};

const bt_opt_program tool_pull_program = {
    .name = "baton pull",
    .summary = "fetch models by name or from a hub, check them, and print their paths",
    .usage = "NAME|hf:OWNER/NAME[:QUANT] ... [options]",
    .normal = "baton pull qwen2.5-coder-1.5b",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 1,
    .args_max = MAX_NAMES,
    .args_name = "NAME ...",
};

static bt_err pull_one(json_t *models, const config *c, const bt_known_table *t, const char *name,
                       bt_fault *fault)
{
    tool_pulled got;
    const bt_err e = tool_offer_pull(&got, t, name, &c->pull, fault);
    if (e < 0) return e;
    if (!c->json) {
        printf("%s\n", got.path);
        (void)bt_opt_flush();
    }
    json_array_append_new(models, json_pack("{s:s, s:s, s:I, s:s?, s:s?, s:b}", "name", name, "path",
                                            got.path, "bytes", (json_int_t)got.bytes, "sha256",
                                            got.sha256[0] ? got.sha256 : NULL, "licence",
                                            got.licence[0] ? got.licence : NULL, "fetched", got.is_fetched));
    return BT_OK;
}

int tool_pull_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    bt_known_table t = {NULL, 0, NULL};
    int rc = bt_opt_start(&args, &tool_pull_program, argc, argv, &c);
    if (rc >= 0) return rc;
    tool_quiet(c.quiet);
    tool_leave_on_signals(TOOL_INTERRUPTED);
    json_t *models = json_array();
    bt_err e = bt_known_load(&t, c.pull.table, &fault);
    for (size_t i = 0; e == BT_OK && i < args.count; i++) e = pull_one(models, &c, &t, args.args[i], &fault);
    if (e < 0) rc = tool_fail("pull", &fault);
    else if (c.json) rc = tool_print_json("pull", json_pack("{s:O}", "models", models));
    else rc = bt_opt_flush() != 0;
    json_decref(models);
    bt_known_done(&t);
    bt_opt_done(&args);
    return rc;
}
