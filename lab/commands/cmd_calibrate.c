/* baton calibrate: a profile of a server from a few measured requests, for baton simulate and baton plan. */
#include "base/clock.h"
#include "engine/costs.h"
#include "lab/calibrate/report.h"
#include "lab/replay/options.h"
#include "lab/replay/probe.h"
#include "model/options.h"
#include "tools/cluster/http.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *served_model, *api_key_file, *output, *name;
    int64_t longest, answer_tokens, batch, timeout_ms, deadline_ms, seed;
    bool json, quiet;
} config;

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .group = "Server", .name = "model", BT_OPT_AT(config, model), .required = true,
     .help = "the GGUF file of the model that is served, or 'smollm2': its sizes and words count"},
    {.of = &tool_server_opts, .name = "served-model", BT_OPT_AT(config, served_model)},
    {.of = &tool_server_opts, .group = "Server", .name = "api-key-file", BT_OPT_AT(config, api_key_file)},
    {.group = "Requests", .name = "longest", .value = "N", BT_OPT_AT(config, longest), .type = BT_OPT_INT,
     .def = "1024", .lo = 64, .hi = 1 << 20,
     .help = "tokens of the longest prompt; less where the context is shorter"},
    {.of = &tool_load_opts, .group = "Requests", .letter = 'n', .name = "answer-tokens",
     BT_OPT_AT(config, answer_tokens), .def = "24", .lo = 4, .hi = 4096, .help = "tokens of each answer"},
    {.group = "Requests", .name = "batch", .value = "N", BT_OPT_AT(config, batch), .type = BT_OPT_INT,
     .def = "8", .lo = 1, .hi = 32, .help = "requests at a time, at most"},
    {.of = &tool_server_opts, .group = "Requests", .name = "timeout", BT_OPT_AT(config, timeout_ms),
     .def = "60s", .lo = 1, .hi = 3600000},
    {.group = "Requests", .name = "deadline", .value = "TIME", BT_OPT_AT(config, deadline_ms),
     .type = BT_OPT_DURATION, .def = "5m", .lo = 1, .hi = 86400000,
     .help = "ask no more after so long, and fit what there is"},
    {.of = &tool_seed_opts, .group = "Requests", .name = "seed", BT_OPT_AT(config, seed),
     .help = "seed of the prompts' words"},
    {.of = &tool_output_opts, .name = "output", BT_OPT_AT(config, output), .def = "calibrated.json",
     .example = "./box.json", .help = "the profile"},
    {.group = "Output", .name = "name", .value = "NAME", BT_OPT_AT(config, name), .type = BT_OPT_STRING,
     .def = "calibrated", .help = "its name: small letters, digits, dots, dashes"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: prompts, steps, held_out, profile, ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet),
     .help = "nothing on stdout but --json"},
};

const bt_opt_program tool_calibrate_program = {
    .name = "baton calibrate",
    .summary = "fit a device profile to a few measured requests of any server",
    .usage = "URL -m MODEL [options]",
    .normal = "baton calibrate http://127.0.0.1:8080 -m smollm2 -o ./box.json",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 1,
    .args_name = "URL",
};

typedef struct job {
    const config *c;
    const char *url;
    char *key;
    bt_model *model;
    bt_tokenizer *tok;
    tool_replay_words words;
    tool_replay_dialect dialect;
    tool_calibrate_measured measured;
} job;

static bt_err find_server(job *j, bt_fault *fault)
{
    const config *c = j->c;
    bt_err e = tool_read_key(&j->key, c->api_key_file, fault);
    if (e == BT_OK) e = tool_open_model(&j->model, &j->tok, c->model, fault);
    if (e == BT_OK) e = tool_replay_words_find(&j->words, j->tok, fault);
    if (e < 0) return e;
    const tool_replay_probe probe = {.url = j->url, .api_key = j->key, .model = c->served_model,
                                     .words = &j->words, .stop = &tool_stop};
    return tool_replay_probe_server(&j->dialect, &probe, fault);
}

static bt_err measure(job *j, bt_fault *fault)
{
    const config *c = j->c;
    uint32_t ctx = j->model->hp.ctx, longest = (uint32_t)c->longest;
    const uint32_t answer = (uint32_t)c->answer_tokens;
    if (j->dialect.context_tokens && j->dialect.context_tokens < ctx) ctx = j->dialect.context_tokens;
    if (ctx < answer + 64)
        return bt_fail(fault, BT_EARG, "-n %u does not fit the context of %u tokens: give at most %u", answer,
                       ctx, ctx > 64 ? ctx - 64 : 0);
    if (longest > ctx - answer - 8) longest = ctx - answer - 8; /* some begin with tokens of their own */
    const tool_calibrate_server s = {.url = j->url,
                                     .api_key = j->key,
                                     .words = &j->words,
                                     .dialect = &j->dialect,
                                     .seed = (uint64_t)c->seed,
                                     .longest = longest,
                                     .answer = answer,
                                     .batch = (uint32_t)c->batch,
                                     .timeout_ms = c->timeout_ms,
                                     .deadline_us = bt_clock_us() + c->deadline_ms * 1000,
                                     .stop = &tool_stop};
    return tool_calibrate_measure(&j->measured, &s, fault);
}

static bt_err fit(bt_profile_time *ret, const bt_price_model *price, const tool_calibrate_measured *m,
                  bt_fault *fault)
{
    bt_fault why = {""};
    const bt_err e = tool_calibrate_fit(ret, price, &m->fit, &why);
    if (e == BT_OK) return BT_OK;
    return bt_fail(fault, e, "%.150s (%u requests, %u failed%s%.40s, %u left out%s%.60s%s)", why.text,
                   m->requests, m->failed, m->failure[0] ? ": " : "", m->failure, m->left_out,
                   m->why_left_out ? ": " : "", m->why_left_out ? m->why_left_out : "",
                   m->is_late ? "; --deadline came" : "");
}

/* Writes the profile and reads it back: a name or a value that no profile may have is refused here. */
static bt_err write_profile(const tool_calibrate_report *r, bt_fault *fault)
{
    bt_profile back;
    json_t *o = tool_calibrate_profile(r);
    if (!o) return bt_fail(fault, BT_ENOMEM, "out of memory for a profile");
    const int failed = json_dump_file(o, r->path, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(o);
    if (failed) return bt_fail(fault, BT_EIO, "cannot write '%.150s'", r->path);
    return bt_profile_load(&back, r->path, fault);
}

static int work(job *j, bt_fault *fault)
{
    bt_profile_time time;
    bt_price_model price;
    bt_err e = find_server(j, fault);
    if (e == BT_OK) e = measure(j, fault);
    if (e == BT_OK) {
        price = bt_costs_decode(j->model, BT_FORM_F16, 2);
        e = fit(&time, &price, &j->measured, fault);
    }
    const tool_calibrate_report r = {.url = j->url,
                                     .model = j->model ? j->model->name : "",
                                     .path = j->c->output,
                                     .name = j->c->name,
                                     .measured = &j->measured,
                                     .time = &time,
                                     .price = &price};
    if (e == BT_OK) e = write_profile(&r, fault);
    if (e < 0) return e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("calibrate", fault);
    if (j->c->json) return tool_print_json("calibrate", tool_calibrate_json(&r));
    if (!j->c->quiet) tool_calibrate_print(&r);
    return 0;
}

int tool_calibrate_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_calibrate_program, argc, argv, &c);
    if (rc >= 0) return rc;
    job j = {.c = &c, .url = args.count ? args.args[0] : NULL};
    const size_t n = strlen(c.output);
    if (!j.url) (void)bt_fail(&fault, BT_EARG, "give the server's URL, as in http://127.0.0.1:8080");
    else if (!strchr(c.output, '/') && (n < 5 || strcmp(c.output + n - 5, ".json") != 0))
        (void)bt_fail(&fault, BT_EARG, "-o '%.100s': a profile's file ends in .json, or has a '/'", c.output);
    if (fault.text[0]) {
        bt_opt_usage_error("baton calibrate", &fault);
        bt_opt_done(&args);
        return 2;
    }
    tool_catch_signals();
    tool_quiet(true);
    if (tool_http_setup(&fault) < 0) {
        rc = tool_fail("calibrate", &fault);
    } else {
        rc = work(&j, &fault);
        tool_http_cleanup();
    }
    tool_replay_words_done(&j.words);
    bt_tokenizer_free(j.tok);
    bt_model_close(j.model);
    tool_free_key(j.key);
    bt_opt_done(&args);
    return rc;
}
