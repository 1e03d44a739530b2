/* baton chat: a conversation. Ctrl-C stops the answer, a second one at the prompt (or Ctrl-D) ends it. */
#include "tools/cluster/ask.h"
#include "tools/cluster/background.h"
#include "tools/cluster/http.h"
#include "tools/cluster/serve.h"
#include "tools/commands/sampling.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    tool_serve serve;
    const char *system, *url, *api_key_file;
    int64_t n_predict;
    tool_sampling sampling;
    const bt_opt_args *args; /* which of these were given */
    bool quiet;
} config;

static const bt_opt opts[] = {
    {.group = "Answer", .name = "system", .value = "TEXT", BT_OPT_AT(config, system), .type = BT_OPT_STRING,
     .example = "'Answer briefly.'", .help = "system message"},
    {.group = "Answer", .letter = 'n', .name = "n-predict", .value = "N", BT_OPT_AT(config, n_predict),
     .type = BT_OPT_INT, .def = "512", .lo = 1, .hi = 1 << 20, .help = "tokens of one answer at most"},
    TOOL_SAMPLING_OPTS(config, sampling),
    TOOL_SERVE_OPTS(config, serve),
    {.group = "Gateway", .name = "url", .value = "URL", BT_OPT_AT(config, url), .type = BT_OPT_STRING,
     .example = "http://127.0.0.1:8080", .help = "talk to this gateway instead of starting one"},
    {.group = "Gateway", .name = "api-key-file", .value = "FILE", BT_OPT_AT(config, api_key_file),
     .type = BT_OPT_STRING, .example = "key.txt", .help = "the gateway's API key"},
    {.group = "Output", .letter = 'q', .name = "quiet", BT_OPT_AT(config, quiet), .type = BT_OPT_FLAG,
     .help = "no figures on stderr"},
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

static bool add_message(json_t *messages, const char *role, const char *text, size_t len)
{
    return json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", role, "content", text, len)) == 0;
}

/* One turn: the user's line is in messages already. The answer joins it when it came whole or was stopped
 * by Ctrl-C. */
static bt_err answer_turn(const config *c, const char *url, const char *key, json_t *messages,
                          bt_fault *fault)
{
    tool_answer a = {0};
    json_t *request = json_pack("{s:O, s:I}", "messages", messages, "max_tokens", (json_int_t)c->n_predict);
    const bool is_whole = request && tool_sampling_add(request, &c->sampling, c->args);
    const tool_ask ask = {.url = url,     .path = "/v1/chat/completions",
                          .api_key = key, .request = request,
                          .echo = true,   .stop = &tool_stop};
    bt_err e = is_whole ? tool_ask_send(&a, &ask, fault) : bt_fail(fault, BT_ENOMEM, "building the request");
    putchar('\n');
    if (e == BT_ECANCEL) {
        tool_stop = 0;
        e = BT_OK;
        fputs("(stopped)\n", stderr);
    }
    if (e == BT_OK && !add_message(messages, "assistant", bt_buf_text(&a.text), a.text.len))
        e = bt_fail(fault, BT_ENOMEM, "keeping the conversation");
    if (e == BT_OK && !c->quiet) tool_answer_print_figures(&a);
    if (e < 0) json_array_remove(messages, json_array_size(messages) - 1);
    tool_answer_done(&a);
    json_decref(request);
    return e;
}

static int converse(const config *c, const char *url, const char *key)
{
    bt_fault fault = {""};
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    json_t *messages = json_array();
    if (c->system && !add_message(messages, "system", c->system, strlen(c->system))) rc = 1;
    while (rc == 0) {
        if (isatty(STDIN_FILENO)) fputs("\n> ", stderr);
        errno = 0;
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0) {
            rc = tool_stop ? TOOL_INTERRUPTED : 0;
            break;
        }
        if (n > 0 && line[n - 1] == '\n') n--;
        if (n == 0) continue;
        if (!add_message(messages, "user", line, (size_t)n)) {
            bt_fail(&fault, BT_EARG, "that line is not valid UTF-8");
            tool_fail("chat", &fault);
        } else if (answer_turn(c, url, key, messages, &fault) < 0) {
            tool_fail("chat", &fault);
            if (!isatty(STDIN_FILENO)) rc = 1;
        }
    }
    free(line);
    json_decref(messages);
    return rc;
}

static int chat(const config *c)
{
    tool_background background = {0};
    bt_fault fault = {""};
    char *key = NULL;
    int rc;
    bt_err e = tool_read_key(&key, c->api_key_file, &fault);
    if (e == BT_OK && !c->url) e = tool_serve_start(&background, &c->serve, c->quiet, &fault);
    if (e < 0) rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("chat", &fault);
    else rc = converse(c, c->url ? c->url : background.url, key);
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
