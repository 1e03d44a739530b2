/* baton up: a gateway, prefill nodes and decode nodes on this machine, until stopped. */
#include "base/log.h"
#include "crypto/keys_generate.h"
#include "gateway/http/options.h"
#include "tools/cluster/cluster.h"
#include "tools/cluster/serve.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    tool_serve serve;
    const char *host, *alias, *api_key_file, *keys;
    int64_t prefill, decode, port, max_queue, recovery_timeout_ms, drain_timeout_ms;
    int policy, log_level, log_format;
    bool insecure, json;
} config;

static const char *const formats[] = {"text", "json", NULL};

static const bt_opt opts[] = {
    {.group = "Nodes", .name = "prefill", .value = "N", BT_OPT_AT(config, prefill), .type = BT_OPT_INT,
     .def = "1", .lo = 0, .hi = 31,
     .help = "prefill nodes to start; 0: decode nodes compute the prompts too"},
    {.group = "Nodes", .name = "decode", .value = "N", BT_OPT_AT(config, decode), .type = BT_OPT_INT,
     .def = "1", .lo = 1, .hi = 31, .help = "decode nodes to start"},
    {.group = "Nodes", .name = "local-prefill-below", .value = "N",
     BT_OPT_AT(config, serve.local_prefill_below), .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 1 << 20,
     .help = "prompts of fewer tokens, less those that a decode node has had before, are computed by it; "
             "0: none"},
    {.group = "Nodes", .name = "policy", .value = "POLICY", BT_OPT_AT(config, policy), .type = BT_OPT_CHOICE,
     .def = "least-load", .choices = gw_options_policies, .help = "how a request's nodes are chosen"},
    {.group = "Nodes", .name = "keys", .value = "DIR", BT_OPT_AT(config, keys), .type = BT_OPT_STRING,
     .example = "keys",
     .help = "encrypt every link with the keys in this folder; those that are not there yet are made (see "
             "baton keygen)"},
    TOOL_SERVE_OPTS(config, serve),
    {.group = "HTTP", .name = "host", .value = "ADDR", BT_OPT_AT(config, host), .type = BT_OPT_STRING,
     .def = "127.0.0.1",
     .help = "where clients connect; 0.0.0.0 opens it to the network, which needs --api-key-file"},
    {.group = "HTTP", .name = "port", .value = "PORT", BT_OPT_AT(config, port), .type = BT_OPT_INT,
     .def = "8080", .lo = 0, .hi = 65535, .help = "where clients connect; 0 lets the system choose"},
    {.group = "HTTP", .name = "alias", .value = "NAME", BT_OPT_AT(config, alias), .type = BT_OPT_STRING,
     .example = "my-model", .help = "the model's name in the API; without it the name in the file"},
    {.group = "HTTP", .name = "max-queue", .value = "N", BT_OPT_AT(config, max_queue), .type = BT_OPT_INT,
     .def = "64", .lo = 1, .hi = 65536, .help = "requests that may wait; one more is answered 429"},
    {.group = "HTTP", .name = "api-key-file", .value = "FILE", BT_OPT_AT(config, api_key_file),
     .type = BT_OPT_STRING, .example = "key.txt",
     .help = "keys that clients must present as 'Authorization: Bearer KEY', one a line"},
    {.group = "HTTP", .name = "insecure", BT_OPT_AT(config, insecure), .type = BT_OPT_FLAG,
     .help = "serve the network without a key"},
    {.group = "Life", .name = "recovery-timeout", .value = "TIME", BT_OPT_AT(config, recovery_timeout_ms),
     .type = BT_OPT_DURATION, .def = "30s", .lo = 0, .hi = 3600000,
     .help = "how long a request whose node was lost waits for another one, or the same one restarted"},
    {.group = "Life", .name = "drain-timeout", .value = "TIME", BT_OPT_AT(config, drain_timeout_ms),
     .type = BT_OPT_DURATION, .def = "30s", .lo = 0, .hi = 3600000,
     .help = "how long SIGTERM lets requests in progress end"},
    {.group = "Life", .name = "log-level", .value = "LEVEL", BT_OPT_AT(config, log_level),
     .type = BT_OPT_CHOICE, .def = "info", .choices = bt_log_level_names,
     .help = "least important lines to write"},
    {.group = "Life", .name = "log-format", .value = "FORMAT", BT_OPT_AT(config, log_format),
     .type = BT_OPT_CHOICE, .def = "text", .choices = formats, .help = "form of the lines on stderr"},
    {.group = "Life", .name = "json", BT_OPT_AT(config, json), .type = BT_OPT_FLAG,
     .help = "say where it is ready by one JSON object on stdout: ready"},
};

const bt_opt_program tool_up_program = {
    .name = "baton up",
    .summary = "serve a model: start and watch a gateway, prefill nodes and decode nodes",
    .usage = "[-m MODEL | MODEL] [options]",
    .normal = "baton up -m smollm2 --port 8080",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 1,
    .args_name = "MODEL",
};

static void on_ready(void *ud, const char *url)
{
    const config *c = ud;
    if (c->json) (void)tool_print_json("up", json_pack("{s:s}", "ready", url));
    else printf("ready %s\n", url);
    fflush(stdout);
}

static void add_common(tool_command *t, const config *c, const char *program)
{
    snprintf(t->program, sizeof t->program, "%s", program);
    tool_command_add(t, "--model", c->serve.model);
    tool_command_add(t, "--log-level", bt_log_level_names[c->log_level]);
    tool_command_add(t, "--log-format", formats[c->log_format]);
}

static void add_keys(tool_command *t, const config *c, const char *name)
{
    if (!c->keys) return;
    tool_command_add(t, "--keys", c->keys);
    tool_command_add(t, "--key", name);
}

static void make_gateway(tool_command *t, const config *c, const char *control)
{
    char drain[32], recovery[32];
    add_common(t, c, "baton-gateway");
    snprintf(drain, sizeof drain, "%lldms", (long long)c->drain_timeout_ms);
    snprintf(recovery, sizeof recovery, "%lldms", (long long)c->recovery_timeout_ms);
    tool_command_add(t, "--drain-timeout", drain);
    tool_command_add(t, "--recovery-timeout", recovery);
    tool_command_add(t, "--policy", gw_options_policies[c->policy]);
    tool_command_add(t, "--control", control);
    tool_command_add(t, "--host", c->host);
    tool_command_add_int(t, "--port", c->port);
    tool_command_add_int(t, "--max-queue", c->max_queue);
    tool_command_add_int(t, "--local-prefill-below", c->serve.local_prefill_below);
    if (c->alias) tool_command_add(t, "--alias", c->alias);
    if (c->api_key_file) tool_command_add(t, "--api-key-file", c->api_key_file);
    if (c->insecure) tool_command_add(t, "--insecure", NULL);
    add_keys(t, c, "gateway");
}

static void make_node(tool_command *t, const config *c, const char *control, const char *role, int64_t index,
                      const char *dir)
{
    char text[TOOL_COMMAND_ARG_BYTES];
    snprintf(text, sizeof text, "baton-%s", role);
    add_common(t, c, text);
    snprintf(text, sizeof text, "%s-%lld", role, (long long)index);
    tool_command_add(t, "--id", text);
    add_keys(t, c, text);
    tool_command_add(t, "--gateway", control);
    tool_command_add(t, "--drain-timeout", "500ms"); /* the gateway has drained before; now nobody listens any
                                                        more */
    tool_serve_node_args(t, &c->serve, role);
    if (strcmp(role, "decode") == 0) {
        snprintf(text, sizeof text, "ipc://%s/kv-%lld", dir, (long long)index);
        tool_command_add(t, "--listen", text);
    }
}

enum { KEY_NAME_BYTES = 24 };

static void want_key(const char **missing, size_t *len, char name[KEY_NAME_BYTES], const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.secret", dir, name);
    if (access(path, F_OK) != 0) missing[(*len)++] = name;
}

/* The keys of this cluster that are not in the folder yet. */
static bt_err make_keys(const config *c, bt_fault *fault)
{
    char name[TOOL_SUPERVISE_MAX][KEY_NAME_BYTES] = {"gateway"};
    const char *missing[TOOL_SUPERVISE_MAX + 1] = {NULL};
    size_t n = 1, len = 0;
    for (int64_t i = 0; i < c->prefill; i++) snprintf(name[n++], KEY_NAME_BYTES, "prefill-%d", (int)i);
    for (int64_t i = 0; i < c->decode; i++) snprintf(name[n++], KEY_NAME_BYTES, "decode-%d", (int)i);
    for (size_t i = 0; i < n; i++) want_key(missing, &len, name[i], c->keys);
    return len ? bt_keys_generate(c->keys, missing, fault) : BT_OK;
}

static bt_err up(config *c, bt_fault *fault)
{
    char dir[128], control[160];
    const size_t count = (size_t)(1 + c->prefill + c->decode);
    tool_command *commands = calloc(count, sizeof *commands);
    if (!commands) return bt_fail(fault, BT_ENOMEM, "commands");
    bt_err e = c->keys ? make_keys(c, fault) : BT_OK;
    if (e == BT_OK) e = tool_cluster_make_dir(dir, sizeof dir, fault);
    if (e == BT_OK && tool_stop) { /* caught before signals were blocked */
        tool_cluster_remove_dir(dir);
    } else if (e == BT_OK) {
        size_t n = 0;
        snprintf(control, sizeof control, "ipc://%s/control", dir);
        make_gateway(&commands[n++], c, control);
        for (int64_t i = 0; i < c->prefill; i++) make_node(&commands[n++], c, control, "prefill", i, dir);
        for (int64_t i = 0; i < c->decode; i++) make_node(&commands[n++], c, control, "decode", i, dir);
        const tool_cluster_config cc = {.commands = commands, .count = count,
                                        .dir = dir,           .drain_ms = c->drain_timeout_ms,
                                        .on_ready = on_ready, .ud = c};
        e = tool_cluster_run(&cc, fault);
        tool_cluster_remove_dir(dir);
    }
    free(commands);
    return e;
}

int tool_up_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_up_program, argc, argv, &c);
    if (rc >= 0) return rc;
    rc = 0;
    if (args.count > 0 && !c.serve.model) c.serve.model = args.args[0];
    if (!c.serve.model) {
        bt_fail(&fault, BT_EARG, "give a model, for example '-m smollm2'");
        bt_opt_usage_error("baton up", &fault);
        rc = 2;
    } else if (c.prefill == 0 && c.serve.engine == BT_ENGINE_REFERENCE) {
        bt_fail(&fault, BT_EARG,
                "--prefill 0: decode nodes compute prompts with engine npu or host, not with reference");
        bt_opt_usage_error("baton up", &fault);
        rc = 2;
    } else {
        c.serve.colocated = c.prefill == 0;
        bt_log_setup("baton-up", (bt_log_level)c.log_level, c.log_format == 1);
        tool_catch_signals(); /* while compiling; later the event loop takes them */
        if (tool_serve_prepare(&c.serve, c.log_level == BT_LOG_ERROR, 0, &fault) < 0 || up(&c, &fault) < 0)
            rc = tool_fail("up", &fault);
    }
    bt_opt_done(&args);
    return rc;
}
