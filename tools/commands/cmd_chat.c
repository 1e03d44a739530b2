/* baton chat: its options, and a system for it where none is named. tools/chat holds the conversation. */
#include "tools/chat/chat.h"
#include "tools/cluster/background.h"
#include "tools/cluster/http.h"
#include "tools/cluster/serve.h"
#include "tools/tool.h"

typedef struct config {
    tool_serve serve;
    const char *system, *url, *api_key_file;
    int64_t n_predict;
    double temp, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
    int64_t top_k;
    const bt_opt_args *args; /* which of these were given */
    bool no_history, quiet;
} config;

static const bt_opt opts[] = {
    {.group = "Answer", .name = "system", .value = "TEXT", BT_OPT_AT(config, system), .type = BT_OPT_STRING,
     .example = "'Answer briefly.'", .help = "system message"},
    {.group = "Answer", .letter = 'n', .name = "n-predict", .value = "N", BT_OPT_AT(config, n_predict),
     .type = BT_OPT_INT, .def = "512", .lo = 1, .hi = 1 << 20, .help = "tokens of one answer at most"},
    {.group = "Answer", .name = "temp", .value = "T", BT_OPT_AT(config, temp), .type = BT_OPT_DOUBLE,
     .flo = 0, .fhi = 2, .example = "0.8",
     .help = "temperature; 0 is greedy; without it the gateway's: 0.8, or the model file's"},
    {.group = "Answer", .name = "top-p", .value = "P", BT_OPT_AT(config, top_p), .type = BT_OPT_DOUBLE,
     .flo = 0, .fhi = 1, .example = "0.95",
     .help = "sample from the likeliest tokens that together have probability P; 1: off; without it the "
             "gateway's: 0.95, or the model file's"},
    {.group = "Answer", .name = "top-k", .value = "K", BT_OPT_AT(config, top_k), .type = BT_OPT_INT, .lo = 0,
     .hi = 1 << 20, .example = "40",
     .help = "sample from the K likeliest tokens; 0: off; without it the gateway's: 40, or the model file's"},
    {.group = "Answer", .name = "min-p", .value = "P", BT_OPT_AT(config, min_p), .type = BT_OPT_DOUBLE,
     .flo = 0, .fhi = 1, .example = "0.05",
     .help = "leave out tokens less likely than P times the likeliest; 0: off; without it the gateway's: "
             "0.05, or the model file's"},
    {.group = "Answer", .name = "presence-penalty", .value = "X", BT_OPT_AT(config, presence_penalty),
     .type = BT_OPT_DOUBLE, .flo = -2, .fhi = 2, .example = "0.5",
     .help = "taken off the logit of each token of the answer so far; 0: off"},
    {.group = "Answer", .name = "frequency-penalty", .value = "X", BT_OPT_AT(config, frequency_penalty),
     .type = BT_OPT_DOUBLE, .flo = -2, .fhi = 2, .example = "0.5",
     .help = "the same, times how often it came; 0: off"},
    {.group = "Answer", .name = "repetition-penalty", .value = "X", BT_OPT_AT(config, repetition_penalty),
     .type = BT_OPT_DOUBLE, .flo = 0.01, .fhi = 100, .example = "1.1",
     .help =
         "makes tokens of prompt and answer less likely (above 1) or more; 1: off; without it the gateway's"},
    TOOL_SERVE_OPTS(config, serve),
    {.group = "Gateway", .name = "url", .value = "URL", BT_OPT_AT(config, url), .type = BT_OPT_STRING,
     .example = "http://127.0.0.1:8080", .help = "talk to this gateway instead of starting one"},
    {.group = "Gateway", .name = "api-key-file", .value = "FILE", BT_OPT_AT(config, api_key_file),
     .type = BT_OPT_STRING, .example = "key.txt", .help = "the gateway's API key"},
    {.group = "Output", .letter = 'q', .name = "quiet", BT_OPT_AT(config, quiet), .type = BT_OPT_FLAG,
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

/* What each request says besides its messages; NULL: out of memory. What nobody gave stays out of it, so that
 * the gateway's defaults hold: its own options, the model's file, or those of GET /props. */
static json_t *make_wishes(const config *c)
{
    const struct {
        const char *option, *field;
        double value;
    } all[] = {
        {"temp", "temperature", c->temp},
        {"top-p", "top_p", c->top_p},
        {"min-p", "min_p", c->min_p},
        {"presence-penalty", "presence_penalty", c->presence_penalty},
        {"frequency-penalty", "frequency_penalty", c->frequency_penalty},
        {"repetition-penalty", "repetition_penalty", c->repetition_penalty},
    };
    json_t *wishes = json_pack("{s:I}", "max_tokens", (json_int_t)c->n_predict);
    bool is_whole = wishes;
    for (size_t i = 0; i < sizeof all / sizeof *all && is_whole; i++)
        if (bt_opt_source_of(c->args, all[i].option) != BT_OPT_FROM_DEFAULT)
            is_whole = json_object_set_new(wishes, all[i].field, json_real(all[i].value)) == 0;
    if (is_whole && bt_opt_source_of(c->args, "top-k") != BT_OPT_FROM_DEFAULT)
        is_whole = json_object_set_new(wishes, "top_k", json_integer(c->top_k)) == 0;
    if (is_whole) return wishes;
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
    if (e == BT_OK && !wishes) e = bt_fail(&fault, BT_ENOMEM, "building the request");
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
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_chat_program, argc, argv, &c);
    if (rc >= 0) return rc;
    c.args = &args;
    if (args.count > 0 && !c.serve.model) c.serve.model = args.args[0];
    if (!c.serve.model && !c.url) {
        bt_fail(&fault, BT_EARG, "give a model, for example '-m smollm2', or --url");
        bt_opt_usage_error("baton chat", &fault);
        rc = 2;
    } else if (tool_catch_signals(), tool_quiet(c.quiet), tool_http_setup(&fault) < 0) {
        rc = tool_fail("chat", &fault);
    } else {
        rc = chat(&c);
        tool_http_cleanup();
    }
    bt_opt_done(&args);
    return rc;
}
