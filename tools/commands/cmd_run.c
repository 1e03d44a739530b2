/* baton run: one prompt, one answer. Starts a gateway, a prefill node and a decode node for it, or asks a
 * running gateway. */
#include "base/clock.h"
#include "tools/cluster/ask.h"
#include "tools/cluster/background.h"
#include "tools/cluster/http.h"
#include "tools/cluster/serve.h"
#include "tools/commands/run_timeline.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    tool_serve serve;
    const char *prompt, *file, *system, *url, *api_key_file, *timeline;
    bool chat, json, quiet;
    int64_t n_predict, top_k, seed;
    double temp, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
    bt_opt_list stop;
} config;

static const bt_opt opts[] = {
    {.group = "Prompt", .letter = 'p', .name = "prompt", .value = "TEXT", BT_OPT_AT(config, prompt),
     .type = BT_OPT_STRING, .example = "'The capital of France is'",
     .help = "the text to continue, as it stands"},
    {.group = "Prompt", .letter = 'f', .name = "file", .value = "FILE", BT_OPT_AT(config, file),
     .type = BT_OPT_STRING, .example = "prompt.txt", .help = "a file with the text, '-' for stdin"},
    {.group = "Prompt", .name = "chat", BT_OPT_AT(config, chat), .type = BT_OPT_FLAG,
     .help = "apply the model's chat template: the text is a user's message"},
    {.group = "Prompt", .name = "system", .value = "TEXT", BT_OPT_AT(config, system), .type = BT_OPT_STRING,
     .example = "'Answer briefly.'", .help = "system message, with --chat"},
    {.group = "Answer", .letter = 'n', .name = "n-predict", .value = "N", BT_OPT_AT(config, n_predict),
     .type = BT_OPT_INT, .def = "128", .lo = 1, .hi = 1 << 20, .help = "tokens to generate at most"},
    {.group = "Answer", .name = "temp", .value = "T", BT_OPT_AT(config, temp), .type = BT_OPT_DOUBLE,
     .def = "0", .flo = 0, .fhi = 2, .help = "temperature; 0 is greedy and repeatable bit by bit"},
    {.group = "Answer", .name = "top-k", .value = "K", BT_OPT_AT(config, top_k), .type = BT_OPT_INT,
     .def = "0", .lo = 0, .hi = 1 << 20, .help = "sample from the K likeliest tokens; 0: off"},
    {.group = "Answer", .name = "top-p", .value = "P", BT_OPT_AT(config, top_p), .type = BT_OPT_DOUBLE,
     .def = "1", .flo = 0, .fhi = 1,
     .help = "sample from the likeliest tokens that together have probability P; 1: off"},
    {.group = "Answer", .name = "min-p", .value = "P", BT_OPT_AT(config, min_p), .type = BT_OPT_DOUBLE,
     .def = "0", .flo = 0, .fhi = 1,
     .help = "leave out tokens less likely than P times the likeliest; 0: off"},
    {.group = "Answer", .name = "presence-penalty", .value = "X", BT_OPT_AT(config, presence_penalty),
     .type = BT_OPT_DOUBLE, .def = "0", .flo = -2, .fhi = 2,
     .help = "taken off the logit of each token of the answer so far; 0: off"},
    {.group = "Answer", .name = "frequency-penalty", .value = "X", BT_OPT_AT(config, frequency_penalty),
     .type = BT_OPT_DOUBLE, .def = "0", .flo = -2, .fhi = 2,
     .help = "the same, times how often it came; 0: off"},
    {.group = "Answer", .name = "repetition-penalty", .value = "X", BT_OPT_AT(config, repetition_penalty),
     .type = BT_OPT_DOUBLE, .def = "1", .flo = 0.01, .fhi = 100,
     .help = "makes tokens of prompt and answer less likely (above 1) or more; 1: off"},
    {.group = "Answer", .letter = 's', .name = "seed", .value = "S", BT_OPT_AT(config, seed),
     .type = BT_OPT_INT, .lo = 0, .hi = INT64_MAX, .example = "42",
     .help = "seed of the random draws; without it one is drawn"},
    {.group = "Answer", .name = "stop", .value = "TEXT", BT_OPT_AT(config, stop), .type = BT_OPT_STRINGS,
     .example = "END", .help = "end before this text"},
    TOOL_SERVE_OPTS(config, serve),
    {.group = "Gateway", .name = "url", .value = "URL", BT_OPT_AT(config, url), .type = BT_OPT_STRING,
     .example = "http://127.0.0.1:8080", .help = "ask this gateway instead of starting one"},
    {.group = "Gateway", .name = "api-key-file", .value = "FILE", BT_OPT_AT(config, api_key_file),
     .type = BT_OPT_STRING, .example = "key.txt", .help = "the gateway's API key"},
    {.group = "Output", .name = "timeline", .value = "FILE", BT_OPT_AT(config, timeline),
     .type = BT_OPT_STRING, .example = "run.html",
     .help =
         "with --decode-profile: what the devices would do when, and what this host did: a page (.html) or a "
         "trace for Perfetto (.pftrace, .json)"},
    {.group = "Output", .name = "json", BT_OPT_AT(config, json), .type = BT_OPT_FLAG,
     .help = "one JSON object on stdout: text, token_ids, ttft_ms, kv_bytes, ..."},
    {.group = "Output", .letter = 'q', .name = "quiet", BT_OPT_AT(config, quiet), .type = BT_OPT_FLAG,
     .help = "no figures and no progress on stderr"},
};

const bt_opt_program tool_run_program = {
    .name = "baton run",
    .summary = "complete a text through a gateway, a prefill node and a decode node",
    .usage = "[-m MODEL | MODEL] -p TEXT [options]",
    .normal = "baton run -m smollm2 -p 'The capital of France is' -n 32",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 1,
    .args_name = "MODEL",
};

static json_t *make_request(const config *c, const bt_opt_args *args, const char *text, size_t len)
{
    json_t *r = json_pack("{s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:f}", "max_tokens", (json_int_t)c->n_predict,
                          "temperature", c->temp, "top_k", (json_int_t)c->top_k, "top_p", c->top_p, "min_p",
                          c->min_p, "presence_penalty", c->presence_penalty, "frequency_penalty",
                          c->frequency_penalty, "repetition_penalty", c->repetition_penalty);
    bool ok = r != NULL;
    if (bt_opt_source_of(args, "seed") != BT_OPT_FROM_DEFAULT)
        ok = ok && json_object_set_new(r, "seed", json_integer(c->seed)) == 0;
    if (c->stop.count > 0) {
        json_t *stop = json_array();
        for (size_t i = 0; i < c->stop.count; i++)
            ok = ok && json_array_append_new(stop, json_string(c->stop.items[i])) == 0;
        ok = ok && json_object_set_new(r, "stop", stop) == 0;
    }
    if (c->chat) {
        json_t *messages = json_array();
        if (c->system)
            ok = ok && json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content",
                                                                 c->system)) == 0;
        ok = ok && json_array_append_new(messages,
                                         json_pack("{s:s, s:s%}", "role", "user", "content", text, len)) == 0;
        ok = ok && json_object_set_new(r, "messages", messages) == 0;
    } else {
        ok = ok && json_object_set_new(r, "prompt", json_stringn(text, len)) == 0;
    }
    if (ok) return r;
    json_decref(r);
    return NULL;
}

static int show(const config *c, tool_answer *a, int64_t start_us, bt_err e, bt_fault *fault)
{
    if (e < 0 && e != BT_ECANCEL) return tool_fail("run", fault);
    int rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : 0;
    if (c->json) {
        json_t *object = a->baton ? json_copy(a->baton) : json_object();
        json_object_set_new(object, "text", json_stringn(bt_buf_text(&a->text), a->text.len));
        if (a->first_us)
            json_object_set_new(object, "start_to_first_token_ms",
                                json_real((double)(a->first_us - start_us) / 1e3));
        if (e == BT_ECANCEL) json_object_set_new(object, "finish_reason", json_string("interrupted"));
        if (tool_print_json("run", object)) rc = 1;
        return rc;
    }
    const bool ends_line = a->text.len > 0 && bt_buf_text(&a->text)[a->text.len - 1] == '\n';
    if (!ends_line || isatty(STDOUT_FILENO)) putchar('\n');
    if (fflush(stdout) != 0) rc = 1;
    if (!c->quiet) tool_answer_print_figures(a);
    return rc;
}

/* Starts what has to be started, asks, shows. */
static int run(const config *c, const bt_opt_args *args, int64_t start_us, const char *text, size_t len,
               bt_fault *fault)
{
    tool_background background = {0};
    tool_answer answer = {0};
    json_t *request = NULL;
    char *key = NULL;
    int rc = 1;
    bt_err e = tool_read_key(&key, c->api_key_file, fault);
    if (e == BT_OK && !(request = make_request(c, args, text, len)))
        e = bt_fail(fault, BT_EARG, "the prompt is not valid UTF-8");
    if (e == BT_OK && !c->url) e = tool_serve_start(&background, &c->serve, c->quiet || c->json, fault);
    if (e < 0) {
        rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("run", fault);
        goto out;
    }
    const tool_ask ask = {.url = c->url ? c->url : background.url,
                          .path = c->chat ? "/v1/chat/completions" : "/v1/completions",
                          .api_key = key,
                          .request = request,
                          .echo = !c->json,
                          .stop = &tool_stop};
    e = tool_ask_send(&answer, &ask, fault);
    rc = show(c, &answer, start_us, e, fault);
    if (e == BT_OK && c->timeline && tool_run_timeline(&c->serve, answer.baton, c->timeline, fault) < 0)
        rc = tool_fail("run", fault);
out:
    tool_answer_done(&answer);
    tool_background_stop(&background);
    json_decref(request);
    tool_free_key(key);
    return rc;
}

int tool_run_run(int argc, char **argv)
{
    const int64_t start_us = bt_clock_us();
    config c = {.serve = {.colocated = false}};
    bt_opt_args args;
    bt_fault fault = {""};
    char *text = NULL;
    size_t len = 0;
    int rc = bt_opt_start(&args, &tool_run_program, argc, argv, &c);
    if (rc >= 0) return rc;
    c.serve.colocated = false;
    if (args.count > 0 && !c.serve.model) c.serve.model = args.args[0];
    if (!c.prompt == !c.file) bt_fail(&fault, BT_EARG, "give either --prompt or --file");
    else if (c.system && !c.chat) bt_fail(&fault, BT_EARG, "--system needs --chat");
    else if (!c.serve.model && !c.url)
        bt_fail(&fault, BT_EARG, "give a model, for example '-m smollm2', or --url");
    else if (c.serve.decode_profile && c.url)
        bt_fail(&fault, BT_EARG,
                "--decode-profile prices the nodes that this command starts; leave out --url");
    else if (!c.timeline || tool_run_timeline_check(&c.serve, c.timeline, c.url, &fault) == BT_OK)
        (void)tool_devices_check(&c.serve, &fault);
    if (fault.text[0]) {
        bt_opt_usage_error("baton run", &fault);
        bt_opt_done(&args);
        return 2;
    }
    tool_catch_signals();
    tool_quiet(c.quiet || c.json);
    if ((c.file && tool_read_file(&text, &len, c.file, &fault) < 0) || tool_http_setup(&fault) < 0) {
        rc = tool_fail("run", &fault);
    } else {
        rc = run(&c, &args, start_us, c.prompt ? c.prompt : text, c.prompt ? strlen(c.prompt) : len, &fault);
        tool_http_cleanup();
    }
    free(text);
    bt_opt_done(&args);
    return rc;
}
