/* baton replay: sends the requests of a trace, or of a synthetic load, at the times they came, and says how a
 * server took it. The server is one that runs somewhere, or processes of its own. */
#include "base/file.h"
#include "base/num.h"
#include "gateway/options.h"
#include "tools/cluster/background.h"
#include "tools/cluster/http.h"
#include "tools/cluster/serve.h"
#include "lab/replay/load.h"
#include "lab/replay/options.h"
#include "lab/replay/print.h"
#include "lab/replay/probe.h"
#include "lab/replay/progress.h"
#include "lab/replay/ramp.h"
#include "lab/replay/report.h"
#include "lab/replay/synthetic.h"
#include "tools/made_by.h"
#include "tools/options.h"
#include "tools/tool.h"
#include "trace/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    tool_load_options load;
    tool_serve serve;
    tool_nodes nodes;
    gw_options gateway; /* options for processes that the command starts, and no others */
    const char *url, *api_key_file, *ca_file, *served_model;
    int prompts;
    int64_t timeout_ms;
    bool json, quiet;
} config;

static const char *const prompt_forms[] = {"auto", "text", NULL};
enum { PROMPTS_AUTO, PROMPTS_TEXT };

#define GATEWAY(heading, option) BT_OPT_OF(gw_options_group, config, gateway, heading, option)

static const bt_opt opts[] = {
    BT_OPT_ALL(tool_load_opts, config, load, NULL),
    {.group = "Prompts", .name = "prompts", .value = "FORM", BT_OPT_AT(config, prompts),
     .type = BT_OPT_CHOICE, .def = "auto", .choices = prompt_forms,
     .help = "auto: token ids of the model's vocabulary where the server takes them, else text; text"},
    {.of = &tool_server_opts, .group = "Server", .name = "url", BT_OPT_AT(config, url),
     .help = "a server of the OpenAI API; without it processes of our own. With it, -m is where words come "
             "from, and --ctx-size how long its context is, if it does not say"},
    {.of = &tool_server_opts, .group = "Server", .name = "api-key-file", BT_OPT_AT(config, api_key_file)},
    {.of = &tool_server_opts, .group = "Server", .name = "ca-file", BT_OPT_AT(config, ca_file)},
    {.of = &tool_server_opts, .name = "served-model", BT_OPT_AT(config, served_model)},
    {.of = &tool_server_opts, .name = "timeout", BT_OPT_AT(config, timeout_ms)},
    BT_OPT_ALL(tool_nodes_opts, config, nodes, NULL),
    GATEWAY("Nodes", "local-prefill-below"),
    GATEWAY("Nodes", "policy"),
    GATEWAY("Nodes", "max-queue"),
    GATEWAY("Nodes", "max-connections"),
    GATEWAY("Nodes", "recovery-timeout"),
    GATEWAY("Capture", "capture"),
    GATEWAY("Capture", "capture-text"),
    GATEWAY("Capture", "capture-seal"),
    GATEWAY("Capture", "capture-rotate"),
    BT_OPT_ALL(tool_serve_opts, config, serve, NULL),
    BT_OPT_ALL(tool_result_opts, config, load, NULL),
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: requests, ttft_ms, goodput_rps, ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet)},
};

const bt_opt_program tool_replay_program = {
    .name = "baton replay",
    .summary = "send the requests of a trace, or drawn ones, and measure how a server answers",
    .usage = "TRACE [-m MODEL | --url URL] [options]",
    .normal = "baton replay trace.jsonl -m smollm2 --limit 100 --scale-lengths",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 1,
    .args_name = "TRACE",
};

/* The common part of all runs of a command. */
typedef struct job {
    const config *c;
    const char *trace; /* NULL: synthetic */
    tool_load load;
    const char *url;
    char *shown_url; /* without its user part */
    json_t *made_by;
    char *key;
    tool_replay_secrets *secrets;
    bt_model *model;
    bt_tokenizer *tok;
    tool_replay_words words;
    tool_replay_dialect dialect;
} job;

static bt_err count_tokens(void *ud, uint32_t *ret, const char *text, size_t len, bt_fault *fault)
{
    const job *j = ud;
    int32_t *ids = NULL;
    size_t n = 0;
    const bt_err e = bt_tokenizer_encode(&ids, &n, j->tok, text, len, 0, fault);
    if (e == BT_OK) *ret = (uint32_t)n;
    free(ids);
    return e;
}

static bt_err read_rows(tool_replay_plan *p, const job *j, const tool_replay_plan_options *o, bt_fault *fault)
{
    const config *c = j->c;
    const bt_trace_options how = {.format = (bt_trace_format)c->load.format, .skips_bad = c->load.skip_bad,
                                  .count = j->tok ? count_tokens : NULL, .ud = (void *)(uintptr_t)j};
    bt_trace *t = NULL;
    bt_fault why = {""};
    bt_trace_row row;
    bool is_end = false;
    bt_err e = bt_trace_open(&t, j->trace, &how, fault);
    if (e < 0) return e;
    while (e == BT_OK && !(c->load.limit && p->len == (size_t)c->load.limit)) {
        e = bt_trace_next(&row, &is_end, t, &why);
        if (is_end) break;
        if (e == BT_OK) e = tool_replay_plan_add(p, &row, o, &why);
    }
    const bt_trace_facts facts = bt_trace_look(t);
    if (e == BT_OK && facts.bad && !c->quiet)
        fprintf(stderr, "%llu bad rows passed over; the first: %s\n", (unsigned long long)facts.bad,
                facts.first_bad);
    if (e < 0) e = bt_fail(fault, e, "'%.100s', %.160s", j->trace, why.text);
    bt_trace_close(t);
    return e;
}

static bt_err make_plan(tool_replay_plan *p, const job *j, double speed, uint64_t seed, bt_fault *fault)
{
    enum { SYNTHETIC_REQUESTS = 200 };
    const config *c = j->c;
    const uint32_t asked = (uint32_t)c->serve.ctx_size, told = j->dialect.context_tokens;
    tool_replay_plan_options o = j->load.how;
    o.seed = seed;
    o.speed = speed;
    o.context_tokens = told ? told : asked;
    bt_err e = tool_replay_plan_begin(p, fault);
    if (e == BT_OK && j->trace) e = read_rows(p, j, &o, fault);
    else if (e == BT_OK)
        e = tool_replay_synthetic_draw(p, &j->load.synthetic,
                                       c->load.limit ? (size_t)c->load.limit : SYNTHETIC_REQUESTS, seed,
                                       fault);
    if (e == BT_OK) e = tool_replay_plan_end(p, &o, fault);
    return e == BT_OK ? tool_replay_keys_assign(p, &j->load.keys, seed, fault) : e;
}

/* ---- runs ---------------------------------------------------------------------------------------- */

typedef struct done {
    tool_replay_plan plan;
    tool_replay_result result;
    tool_replay_figures figures;
    tool_replay_outcome run;
} done;

static void done_free(done *d)
{
    tool_replay_plan_done(&d->plan);
    tool_replay_result_done(&d->result);
}

/* BT_ECANCEL: stopped; what was measured until then is there. */
static bt_err run_once(done *d, const job *j, double speed, uint64_t seed, bt_fault *fault)
{
    const config *c = j->c;
    tool_replay_live live;
    tool_replay_live_begin(&live);
    bt_err e = make_plan(&d->plan, j, speed, seed, fault);
    if (e == BT_OK) e = tool_replay_secrets_match(j->secrets, &d->plan, fault);
    if (e == BT_OK) e = tool_replay_result_begin(&d->result, d->plan.len, fault);
    if (e < 0) return e;
    const tool_replay_load load = {.url = j->url,
                                   .api_key = j->key,
                                   .secrets = j->secrets,
                                   .plan = &d->plan,
                                   .words = &j->words,
                                   .dialect = &j->dialect,
                                   .seed = seed,
                                   .streams = (uint32_t)c->load.streams,
                                   .concurrency = (uint32_t)c->load.concurrency,
                                   .timeout_ms = c->timeout_ms,
                                   .stop = &tool_stop,
                                   .progress = c->quiet ? NULL : tool_replay_live_tell,
                                   .ud = &live};
    e = tool_replay_load_run(&d->result, &load, fault);
    tool_replay_live_end(&live);
    if (e < 0 && e != BT_ECANCEL) return e;
    const bt_err bad =
        tool_replay_figures_of(&d->figures, &d->result, c->load.slo ? &j->load.slo : NULL, fault);
    d->run = (tool_replay_outcome){.trace = j->trace ? j->trace : c->load.synthetic,
                                   .url = j->shown_url,
                                   .plan = &d->plan,
                                   .dialect = &j->dialect,
                                   .result = &d->result,
                                   .figures = &d->figures,
                                   .slo = c->load.slo ? &j->load.slo : NULL,
                                   .speed = speed,
                                   .concurrency = (uint32_t)c->load.concurrency,
                                   .seed = seed,
                                   .made_by = j->made_by};
    return bad < 0 ? bad : e;
}

static bt_err write_files(const config *c, const tool_replay_outcome *r, bt_fault *fault)
{
    bt_err e = c->load.csv ? tool_replay_csv(c->load.csv, r, fault) : BT_OK;
    if (e == BT_OK && c->load.report) e = tool_replay_report(c->load.report, r, fault);
    return e;
}

static int replay(const job *j, bt_fault *fault)
{
    done *d = calloc(1, sizeof *d);
    int rc = 0;
    bt_err e = d ? run_once(d, j, j->c->load.speed, (uint64_t)j->c->load.seed, fault)
                 : bt_fail(fault, BT_ENOMEM, "out of memory for a run");
    if (e == BT_ECANCEL) rc = TOOL_INTERRUPTED;
    else if (e < 0) rc = tool_fail("replay", fault);
    if (e == BT_OK || (e == BT_ECANCEL && d && d->run.plan)) {
        if (j->c->json) rc = tool_print_json("replay", tool_replay_json(&d->run)) ? 1 : rc;
        else tool_replay_print(stdout, &d->run);
        if (write_files(j->c, &d->run, fault) < 0) rc = tool_fail("replay", fault);
        if (rc == 0 && d->figures.completed == 0) rc = 1;
    }
    if (d) done_free(d);
    free(d);
    return rc;
}

static bt_err run_step(void *ud, tool_replay_tried *ret, double speed, uint32_t step, bt_fault *fault)
{
    const job *j = ud;
    done *d = calloc(1, sizeof *d);
    const bt_err e = d ? run_once(d, j, speed, (uint64_t)j->c->load.seed + step, fault)
                       : bt_fail(fault, BT_ENOMEM, "out of memory for a run");
    if (e == BT_OK) *ret = (tool_replay_tried){d->figures, tool_replay_offered(&d->plan)};
    if (d) done_free(d);
    free(d);
    return e;
}

static int ramp(const job *j, bt_fault *fault)
{
    const config *c = j->c;
    const tool_replay_ramp_job r = {.command = "replay",         .slo = c->load.slo,   .speed = c->load.speed,
                                    .share = c->load.ramp_share, .json = c->json,      .run = run_step,
                                    .ud = (void *)(uintptr_t)j,  .made_by = j->made_by};
    return tool_replay_ramp_run(&r, fault);
}

/* ---- set-up -------------------------------------------------------------------------------------- */

static void add_option(void *ud, const char *option, const char *value)
{
    tool_command_add(ud, option, value);
}

static bt_err start_nodes(tool_background *ret, config *c, const bt_opt_args *args, bt_fault *fault)
{
    tool_command *more = calloc(1, sizeof *more);
    if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for the commands of the processes");
    bt_opt_pass_on(args, &gw_options_group, add_option, more);
    tool_command_add_int(more, "--prefill", c->nodes.prefill);
    tool_command_add_int(more, "--decode", c->nodes.decode);
    if (c->nodes.keys) tool_command_add(more, "--keys", c->nodes.keys);
    if (c->api_key_file) tool_command_add(more, "--api-key-file", c->api_key_file);
    c->serve.colocated = c->nodes.prefill == 0;
    const bt_err e = tool_serve_start_with(ret, &c->serve, more, c->quiet || c->json, fault);
    free(more);
    return e;
}

/* Checks files that a run would otherwise find out about at its end, or once its nodes have started. */
static bt_err check_files(const job *j, bt_fault *fault)
{
    const config *c = j->c;
    if (j->trace && strcmp(j->trace, "-") != 0 && access(j->trace, R_OK) < 0)
        return bt_fail(fault, BT_EIO, "cannot open '%.150s': %s", j->trace, strerror(errno));
    bt_err e = c->load.csv ? bt_file_try(c->load.csv, fault) : BT_OK;
    if (e == BT_OK && c->load.report) e = bt_file_try(c->load.report, fault);
    return e;
}

/* With --url the kernels are the server's, and those of this machine count nothing but words. */
static bt_err set_made_by(job *j, const bt_opt_args *args, bt_fault *fault)
{
    const config *c = j->c;
    const bt_err e = tool_made_by(&j->made_by, args, c->serve.isa, fault);
    if (e < 0) return e;
    tool_made_by_profile(j->made_by, c->serve.want.profile);
    tool_made_by_profile(j->made_by, c->serve.decode_profile);
    return BT_OK;
}

static int work(job *j, config *c, const bt_opt_args *args, bt_fault *fault)
{
    tool_background background = {0};
    int rc = 1;
    bt_err e = set_made_by(j, args, fault);
    if (e == BT_OK) e = check_files(j, fault);
    if (e == BT_OK) e = tool_read_key(&j->key, c->api_key_file, fault);
    if (e == BT_OK) e = tool_replay_secrets_read(j->secrets, c->api_key_file, fault);
    if (e == BT_OK && c->serve.model) e = tool_open_model(&j->model, &j->tok, c->serve.model, fault);
    if (e == BT_OK) e = tool_replay_words_find(&j->words, j->tok, fault);
    if (e == BT_OK && !c->url) e = start_nodes(&background, c, args, fault);
    j->url = c->url ? c->url : background.url;
    if (e == BT_OK && !(j->shown_url = bt_opt_shown_url(j->url)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for a URL");
    if (e == BT_OK) {
        const tool_replay_probe probe = {.url = j->url,
                                         .api_key = j->key,
                                         .model = c->served_model,
                                         .only_text = c->prompts == PROMPTS_TEXT,
                                         .words = &j->words,
                                         .stop = &tool_stop};
        e = tool_replay_probe_server(&j->dialect, &probe, fault);
    }
    if (e < 0) rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("replay", fault);
    else rc = c->load.ramp ? ramp(j, fault) : replay(j, fault);
    tool_background_stop(&background);
    tool_replay_words_done(&j->words);
    tool_tell_tokens(j->tok);
    bt_tokenizer_free(j->tok);
    bt_model_close(j->model);
    tool_free_key(j->key);
    free(j->shown_url);
    json_decref(j->made_by);
    tool_replay_secrets_done(j->secrets);
    return rc;
}

static bt_err check(job *j, const config *c, bt_fault *fault)
{
    if (tool_load_check(&j->load, &c->load, j->trace, fault) < 0) return BT_EARG;
    if (!c->serve.model && !c->url)
        return bt_fail(fault, BT_EARG, "give a model to serve, for example '-m smollm2', or --url");
    if (c->serve.decode_profile && c->url)
        return bt_fail(fault, BT_EARG,
                       "--decode-profile prices the nodes that this command starts; leave out --url");
    tool_serve serve = c->serve;
    serve.colocated = c->nodes.prefill == 0;
    return tool_devices_check(&serve, fault);
}

int tool_replay_run(int argc, char **argv)
{
    config c = {.serve = {.colocated = false}};
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_replay_program, argc, argv, &c);
    if (rc >= 0) return rc;
    tool_replay_secrets secrets = {.text = NULL};
    job j = {.c = &c, .trace = args.count ? args.args[0] : NULL, .secrets = &secrets};
    if (check(&j, &c, &fault) < 0) {
        bt_opt_usage_error("baton replay", &fault);
        bt_opt_done(&args);
        return 2;
    }
    tool_catch_signals();
    tool_quiet(c.quiet || c.json);
    if (tool_http_setup(c.ca_file, &fault) < 0) {
        rc = tool_fail("replay", &fault);
    } else {
        rc = work(&j, &c, &args, &fault);
        tool_http_cleanup();
    }
    bt_opt_done(&args);
    return rc;
}
