/* baton up: a gateway, prefill nodes and decode nodes on this machine, until stopped. */
#include "base/clock.h"
#include "crypto/keys_generate.h"
#include "engine/names.h"
#include "gateway/http/auth.h"
#include "gateway/http/listen.h"
#include "gateway/http/tls.h"
#include "gateway/options.h"
#include "tools/cluster/cluster.h"
#include "tools/cluster/serve.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    tool_serve serve;
    gw_options gateway; /* the options that `up` passes on, and no others */
    tool_nodes nodes;
    bt_log_options log;
    bool json;
} config;

/* An option of the gateway that is one of `up` too. Listing it here is all that it takes: help, range and
 * default are the gateway's, and it is passed on as it was given. */
#define GATEWAY(heading, option) BT_OPT_OF(gw_options_group, config, gateway, heading, option)

static const bt_opt opts[] = {
    BT_OPT_ALL(tool_nodes_opts, config, nodes, NULL),
    GATEWAY("Nodes", "local-prefill-below"),
    GATEWAY("Nodes", "policy"),
    GATEWAY("Nodes", "share-by"),
    BT_OPT_ALL(tool_serve_opts, config, serve, NULL),
    GATEWAY("HTTP", "host"),
    GATEWAY("HTTP", "port"),
    GATEWAY("HTTP", "alias"),
    GATEWAY("HTTP", "api-key-file"),
    GATEWAY("HTTP", "tls-cert"),
    GATEWAY("HTTP", "tls-key"),
    GATEWAY("HTTP", "share-prefixes"),
    GATEWAY("HTTP", "insecure"),
    GATEWAY("HTTP", "cors"),
    GATEWAY("HTTP", "metrics"),
    GATEWAY("HTTP", "node-choice"),
    GATEWAY("HTTP", "max-queue"),
    GATEWAY("HTTP", "max-connections"),
    GATEWAY("HTTP", "idle-timeout"),
    GATEWAY(NULL, "temp"),
    GATEWAY(NULL, "top-p"),
    GATEWAY(NULL, "top-k"),
    GATEWAY(NULL, "min-p"),
    GATEWAY(NULL, "repetition-penalty"),
    GATEWAY(NULL, "max-answer"),
    GATEWAY("Capture", "capture"),
    GATEWAY("Capture", "capture-text"),
    GATEWAY("Capture", "capture-seal"),
    GATEWAY("Capture", "capture-rotate"),
    GATEWAY("Life", "timeout"),
    GATEWAY("Life", "recovery-timeout"),
    GATEWAY("Life", "drain-timeout"),
    BT_OPT_ALL(bt_log_opts, config, log, "Life"),
    {.of = &tool_output_opts, .group = "Life", .name = "json", BT_OPT_AT(config, json),
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
    (void)bt_opt_flush();
}

static void add_common(tool_command *t, const config *c, const char *program)
{
    snprintf(t->program, sizeof t->program, "%s", program);
    tool_command_add(t, "--model", c->serve.model);
    tool_command_add(t, "--log-level", bt_log_level_names[bt_log_options_level(&c->log)]);
    tool_command_add(t, "--log-format", bt_log_formats[c->log.format]);
    tool_command_add(t, "--verbose=no", NULL); /* BATON_VERBOSE has been counted */
}

static void add_keys(tool_command *t, const config *c, const char *name)
{
    if (!c->nodes.keys) return;
    tool_command_add(t, "--keys", c->nodes.keys);
    tool_command_add(t, "--key", name);
}

static void add_option(void *ud, const char *option, const char *value)
{
    tool_command_add(ud, option, value);
}

static void make_gateway(tool_command *t, const config *c, const bt_opt_args *args, const char *control)
{
    add_common(t, c, "baton-gateway");
    bt_opt_pass_on(args, &gw_options_group, add_option, t);
    if (c->serve.chat_template) tool_command_add(t, "--chat-template", c->serve.chat_template);
    tool_command_add(t, "--control", control);
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
    snprintf(text, sizeof text, "ipc://%s/kv-%s-%lld", dir, role, (long long)index);
    tool_command_add(t, "--listen", text);
}

enum { SPEC_BYTES = 40 };

static void want_key(const char **missing, size_t *len, const char *spec, const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%.*s.secret", dir, (int)strcspn(spec, ":"), spec);
    if (access(path, F_OK) != 0) missing[(*len)++] = spec;
}

/* The keys of this cluster that are not in the folder yet. A node's has both roles, so that `baton role` can
 * change it. */
static bt_err make_keys(const config *c, bt_fault *fault)
{
    char spec[TOOL_SUPERVISE_MAX][SPEC_BYTES] = {"gateway"};
    const char *missing[TOOL_SUPERVISE_MAX + 1] = {NULL};
    size_t n = 1, len = 0;
    for (int i = 0; i < c->nodes.prefill; i++)
        snprintf(spec[n++], SPEC_BYTES, "prefill-%d:prefill,decode", i);
    for (int i = 0; i < c->nodes.decode; i++) snprintf(spec[n++], SPEC_BYTES, "decode-%d:decode,prefill", i);
    for (size_t i = 0; i < n; i++) want_key(missing, &len, spec[i], c->nodes.keys);
    return len ? bt_keys_generate(c->nodes.keys, missing, fault) : BT_OK;
}

/* Finds, before anything is compiled or started, what would keep the gateway from starting: a port that is in
 * use, a file of API keys or a certificate that cannot be read. The gateway itself checks again. */
static bt_err check_door(const gw_options *o, bt_fault *fault)
{
    int fd;
    uint16_t port;
    gw_auth *auth = NULL;
    gw_tls *tls = NULL;
    bt_err e = o->api_key_file ? gw_auth_load(&auth, o->api_key_file, NULL, bt_clock_us(), fault) : BT_OK;
    gw_auth_free(auth);
    if (e == BT_OK && o->tls_cert) e = gw_tls_open(&tls, o->tls_cert, o->tls_key, fault);
    gw_tls_free(tls);
    if (e == BT_OK && (e = gw_listen(&fd, &port, o->host, (uint16_t)o->port, fault)) == BT_OK) close(fd);
    return e;
}

static bt_err up(config *c, const bt_opt_args *args, bt_fault *fault)
{
    char dir[128], control[160];
    const size_t count = (size_t)(1 + c->nodes.prefill + c->nodes.decode);
    tool_command *commands = calloc(count, sizeof *commands);
    if (!commands) return bt_fail(fault, BT_ENOMEM, "out of memory for the commands of the processes");
    bt_err e = c->nodes.keys ? make_keys(c, fault) : BT_OK;
    if (e == BT_OK) e = tool_cluster_make_dir(dir, sizeof dir, fault);
    if (e == BT_OK && tool_stop) { /* caught before signals were blocked */
        tool_cluster_remove_dir(dir);
    } else if (e == BT_OK) {
        size_t n = 0;
        snprintf(control, sizeof control, "ipc://%s/control", dir);
        make_gateway(&commands[n++], c, args, control);
        for (int64_t i = 0; i < c->nodes.prefill; i++)
            make_node(&commands[n++], c, control, "prefill", i, dir);
        for (int64_t i = 0; i < c->nodes.decode; i++) make_node(&commands[n++], c, control, "decode", i, dir);
        const tool_cluster_config cc = {.commands = commands, .count = count,
                                        .dir = dir,           .drain_ms = c->gateway.drain_ms,
                                        .on_ready = on_ready, .ud = c};
        e = tool_cluster_run(&cc, fault);
        tool_cluster_remove_dir(dir);
    }
    free(commands);
    return e;
}

static bt_err check_devices(config *c, bt_fault *fault)
{
    c->serve.colocated = c->nodes.prefill == 0;
    c->serve.prefill_nodes = (size_t)c->nodes.prefill;
    c->serve.decode_nodes = (size_t)c->nodes.decode;
    return tool_devices_check(&c->serve, fault);
}

int tool_up_run(int argc, char **argv)
{
    config c = {.serve = {.colocated = false}};
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_up_program, argc, argv, &c);
    if (rc >= 0) return rc;
    rc = 0;
    c.gateway.control = "ipc://"; /* a private one, once there is a directory for it */
    if (args.count > 0 && !c.serve.model) c.serve.model = args.args[0];
    if (!c.serve.model) {
        bt_fail(&fault, BT_EARG, "give a model, for example '-m smollm2'");
        bt_opt_usage_error("baton up", &fault);
        rc = 2;
    } else if (c.nodes.prefill == 0 && !tool_serve_prefill(&c.serve)->has_chunks) {
        bt_fail(&fault, BT_EARG,
                "--prefill 0: decode nodes compute prompts in chunks, which engine %s does not cut",
                tool_serve_prefill(&c.serve)->name);
        bt_opt_usage_error("baton up", &fault);
        rc = 2;
    } else if (gw_options_check(&c.gateway, &fault) < 0 || check_devices(&c, &fault) < 0) {
        bt_opt_usage_error("baton up", &fault);
        rc = 2;
    } else {
        c.serve.local_prefill_below = c.gateway.local_prefill_below;
        bt_log_start("baton-up", &c.log);
        tool_catch_signals(); /* while compiling; later the event loop takes them */
        const bool quiet = bt_log_options_level(&c.log) == BT_LOG_ERROR;
        if (check_door(&c.gateway, &fault) < 0 || tool_serve_prepare(&c.serve, quiet, 0, &fault) < 0 ||
            up(&c, &args, &fault) < 0)
            rc = tool_fail("up", &fault);
    }
    bt_opt_done(&args);
    return rc;
}
