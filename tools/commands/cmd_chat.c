/* baton chat: its options, and a system for it where none is named. tools/chat holds the conversation. */
#include "model/options.h"
#include "tools/chat/chat.h"
#include "tools/cluster/background.h"
#include "tools/cluster/http.h"
#include "tools/cluster/serve.h"
#include "tools/commands/sampling.h"
#include "tools/options.h"
#include "tools/tool.h"

typedef struct config {
    tool_serve serve;
    const char *system, *url, *api_key_file, *ca_file;
    int64_t n_predict;
    tool_sampling sampling;
    const bt_opt_args *args; /* which of these were given */
    bool no_history, quiet;
} config;

static const bt_opt opts[] = {
    {.of = &tool_text_opts, .group = "Answer", .name = "system", BT_OPT_AT(config, system)},
    {.of = &bt_sampling_opts, .name = "n-predict", BT_OPT_AT(config, n_predict), .def = "512",
     .help = "tokens of one answer at most"},
    BT_OPT_ALL(tool_sampling_opts, config, sampling, NULL),
    BT_OPT_ALL(tool_serve_opts, config, serve, NULL),
    {.of = &tool_server_opts, .name = "url", BT_OPT_AT(config, url),
     .help = "talk to this gateway instead of starting one"},
    {.of = &tool_server_opts, .name = "api-key-file", BT_OPT_AT(config, api_key_file)},
    {.of = &tool_server_opts, .name = "ca-file", BT_OPT_AT(config, ca_file)},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet),
     .help = "no banner and no figures on stderr"},
    {.group = "Output", .name = "no-history", BT_OPT_AT(config, no_history), .type = BT_OPT_FLAG,
     .help = "what is typed is neither kept in a file nor taken from it"},
};

const bt_opt_program tool_chat_program = {
    .name = "baton chat",
    .summary = "talk to a model",
    .usage = "[-m MODEL | MODEL] [options]",
    .normal = "baton chat -m smollm2",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 1,
    .args_name = "MODEL",
};

/* The fields of each request besides its messages; NULL: out of memory. */
static json_t *make_wishes(const config *c)
{
    json_t *wishes = json_pack("{s:I}", "max_tokens", (json_int_t)c->n_predict);
    if (wishes && tool_sampling_add(wishes, &c->sampling, c->args)) return wishes;
    json_decref(wishes);
    return NULL;
}

static int chat(const config *c)
{
    tool_background background = {0};
    bt_fault fault = {""};
    char *key = NULL;
    int rc;
    json_t *wishes = make_wishes(c);
    bt_err e = tool_read_key(&key, c->api_key_file, &fault);
    if (e == BT_OK && !wishes) e = bt_fail(&fault, BT_ENOMEM, "out of memory building the request");
    if (e == BT_OK && !c->url) e = tool_serve_start(&background, &c->serve, c->quiet, &fault);
    const tool_chat how = {.with = {.url = c->url ? c->url : background.url, .api_key = key, .wishes = wishes,
                                    .system = c->system, .prints_figures = !c->quiet},
                           .wants_banner = !c->quiet, .wants_history = !c->no_history};
    if (e < 0) rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("chat", &fault);
    else rc = tool_chat_converse(&how);
    json_decref(wishes);
    tool_background_stop(&background);
    tool_free_key(key);
    return rc;
}

int tool_chat_run(int argc, char **argv)
{
    config c = {.serve = {.colocated = false}};
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_chat_program, argc, argv, &c);
    if (rc >= 0) return rc;
    c.args = &args;
    c.serve.colocated = false;
    if (args.count > 0 && !c.serve.model) c.serve.model = args.args[0];
    if (!c.serve.model && !c.url)
        bt_fail(&fault, BT_EARG, "give a model, for example '-m smollm2', or --url");
    else if (c.serve.decode_profile && c.url)
        bt_fail(&fault, BT_EARG,
                "--decode-profile prices the nodes that this command starts; leave out --url");
    else (void)tool_devices_check(&c.serve, &fault);
    if (fault.text[0]) {
        bt_opt_usage_error("baton chat", &fault);
        rc = 2;
    } else if (tool_catch_signals(), tool_quiet(c.quiet), tool_http_setup(c.ca_file, &fault) < 0) {
        rc = tool_fail("chat", &fault);
    } else {
        rc = chat(&c);
        tool_http_cleanup();
    }
    bt_opt_done(&args);
    return rc;
}
