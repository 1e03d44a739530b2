/* baton calibrate: a profile from a few measured requests to a server, or from times that others measured,
 * for baton simulate and baton plan. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/costs.h"
#include "kv/kv_dtype.h"
#include "lab/calibrate/report.h"
#include "lab/commands/dims_of.h"
#include "lab/replay/options.h"
#include "lab/replay/probe.h"
#include "model/options.h"
#include "tools/cluster/http.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    const char *model, *served_model, *api_key_file, *ca_file, *output, *name, *like;
    int64_t longest, answer_tokens, batch, timeout_ms, deadline_ms, seed;
    bt_opt_list points, where, fit;
    int weights, kv_dtype;
    bool json, quiet;
} config;

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .group = "Server", .name = "model", BT_OPT_AT(config, model), .required = true,
     .help = "the model that was measured: for a server its GGUF file or name, whose words count; for "
             "a table also the name of a known shape or a config.json"},
    {.of = &tool_server_opts, .name = "served-model", BT_OPT_AT(config, served_model)},
    {.of = &tool_server_opts, .group = "Server", .name = "api-key-file", BT_OPT_AT(config, api_key_file)},
    {.of = &tool_server_opts, .group = "Server", .name = "ca-file", BT_OPT_AT(config, ca_file)},
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
    {.group = "Table", .name = "point", .value = "POINT", BT_OPT_AT(config, points), .type = BT_OPT_STRINGS,
     .example = "prefill:512=230ms",
     .help = "a measured time: prefill:TOKENS=TIME or decode:BATCH@CONTEXT=TIME, in us, ms, s or tok/s; as "
             "often as you like"},
    {.group = "Table", .name = "where", .value = "COLUMN=VALUE", BT_OPT_AT(config, where),
     .type = BT_OPT_STRINGS, .example = "model=Llama-3.2-1B",
     .help = "only rows of the table with this value"},
    {.group = "Table", .name = "like", .value = "PROFILE", BT_OPT_AT(config, like), .type = BT_OPT_STRING,
     .example = "h100", .help = "keep the constants of this profile that are not fitted"},
    {.group = "Table", .name = "constant", .value = "FIELD", BT_OPT_AT(config, fit), .type = BT_OPT_STRINGS,
     .example = "decode_bytes_per_us",
     .help = "fit this constant of --like: efficiency, weight_bytes_per_us, first_launch_ns, "
             "decode_bytes_per_us, dispatch_ns; without it, as many as there are points for"},
    {.of = &bt_model_opts, .group = "Table", .name = "weights", BT_OPT_AT(config, weights),
     .choices = bt_price_form_names,
     .help = "weights of what was measured; fp4 for 4 bits with inputs of 16 (Q4_0, Q4_K, w4a16)"},
    {.of = &bt_kv_dtype_opts, .group = "Table", .name = "kv-dtype", BT_OPT_AT(config, kv_dtype),
     .choices = bt_price_kv_names, .help = "KV rows of what was measured"},
    {.of = &tool_output_opts, .name = "output", BT_OPT_AT(config, output), .def = "own.json",
     .example = "./box.json", .help = "the profile"},
    {.group = "Output", .name = "name", .value = "NAME", BT_OPT_AT(config, name), .type = BT_OPT_STRING,
     .def = "own", .help = "its name: small letters, digits, dots, dashes"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: prompts, steps, fitted, held_out, program_rows, profile, ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet),
     .help = "nothing on stdout but --json"},
};

const bt_opt_program tool_calibrate_program = {
    .name = "baton calibrate",
    .summary = "fit a device profile to requests of any server, or to a table of measured times",
    .usage = "[URL | TABLE...] -m MODEL [options]",
    .normal = "baton calibrate http://127.0.0.1:8080 -m smollm2 -o ./box.json",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 16,
    .args_name = "URL or TABLE",
};

typedef struct job {
    const config *c;
    const char *url;          /* NULL: a table */
    const char *const *files; /* of the table */
    size_t file_count;
    char *key;
    bt_model *model;
    bt_tokenizer *tok;
    tool_replay_words words;
    tool_replay_dialect dialect;
    tool_calibrate_measured measured;
    tool_calibrate_table table;
    tool_calibrate_model priced;
    tool_calibrate_points held; /* that judge */
    bt_profile profile, judged; /* judged: fitted without these */
    json_t *like;
    uint32_t asked, fitted, constants; /* of --like: sets of constants */
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

static bt_err fit_server(job *j, bt_fault *fault)
{
    const tool_calibrate_measured *m = &j->measured;
    bt_fault why = {""};
    const bt_err e = tool_calibrate_fit(&j->profile, &j->constants, &j->priced, &m->fit, &why);
    j->held = m->held;
    j->judged = j->profile;
    if (e == BT_OK) return BT_OK;
    return bt_fail(fault, e, "%.150s (%u requests, %u failed%s%.40s, %u left out%s%.60s%s)", why.text,
                   m->requests, m->failed, m->failure[0] ? ": " : "", m->failure, m->left_out,
                   m->why_left_out ? ": " : "", m->why_left_out ? m->why_left_out : "",
                   m->is_late ? "; --deadline came" : "");
}

static bt_err calibrate_server(job *j, bt_fault *fault)
{
    bt_err e = find_server(j, fault);
    if (e == BT_OK) e = measure(j, fault);
    if (e < 0) return e;
    j->priced.dims = bt_costs_dims(j->model);
    j->priced.recipe = (bt_price_recipe){.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
    j->priced.price = bt_costs_decode(j->model, BT_FORM_F16, 2);
    return fit_server(j, fault);
}

/* ---- a table ---- */

static bt_err read_table(job *j, bt_fault *fault)
{
    const config *c = j->c;
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < j->file_count; i++)
        e = tool_calibrate_table_read(&j->table, j->files[i], &c->where, fault);
    for (size_t i = 0; e == BT_OK && i < c->points.count; i++)
        e = tool_calibrate_table_point(&j->table, c->points.items[i], fault);
    return e;
}

static bt_err constants_of(uint32_t *ret, const bt_opt_list *names, bt_fault *fault)
{
    *ret = 0;
    for (size_t i = 0; i < names->count; i++) {
        int k = 0;
        while (k < TOOL_CALIBRATE_CONSTANTS && strcmp(names->items[i], tool_calibrate_constants[k])) k++;
        if (k == TOOL_CALIBRATE_CONSTANTS)
            return bt_fail(fault, BT_EARG, "--constant '%.40s': is none of the fields that --help lists",
                           names->items[i]);
        *ret |= 1u << k;
    }
    return BT_OK;
}

static json_t *like_file(const char *device, json_error_t *why)
{
    char path[BT_PROFILE_PATH_BYTES];
    const char *text = bt_profile_file(path, device);
    return text ? json_loads(text, 0, why) : json_load_file(path, 0, why);
}

/* Makes the fields of a stack those of `time`. */
static void take_stack(json_t *time, const json_t *stack)
{
    const char *name;
    json_t *v, *from = json_object_get(time, "sources");
    (void)json_object_del(time, "calibration");
    json_object_foreach((json_t *)(uintptr_t)stack, name, v) {
        if (!strcmp(name, "sources")) continue;
        (void)json_object_del(from, name);
        if (json_is_null(v)) (void)json_object_del(time, name);
        else (void)json_object_set(time, name, v);
    }
    if (from) (void)json_object_update(from, json_object_get(stack, "sources"));
    else (void)json_object_set(time, "sources", json_object_get(stack, "sources"));
}

/* The file of a profile that was loaded, with the stack and the group that its name asks for as its only
 * ones. */
static bt_err like_json(json_t **ret, const bt_profile *like, const char *device, bt_fault *fault)
{
    json_error_t why = {.text = ""};
    json_t *o = *ret = like_file(device, &why), *time = json_object_get(o, "time");
    const char *stack = strchr(like->name, '@');
    if (!time) return bt_fail(fault, BT_EFORMAT, "--like '%.60s': has no time %.100s", device, why.text);
    if (stack) take_stack(time, json_object_get(json_object_get(o, "stacks"), stack + 1));
    if (like->time.sizes && like->time.devices) {
        (void)json_object_del(time, "group_sizes");
        (void)json_object_del(json_object_get(time, "sources"), "group_sizes");
        (void)json_object_set_new(time, "devices", json_integer(like->time.devices));
    }
    (void)json_object_set_new(o, "name", json_string(like->name));
    (void)json_object_del(o, "stacks");
    (void)json_object_del(json_object_get(o, "sources"), "stacks");
    return BT_OK;
}

static const bt_price_form *form_of(const config *c) { return bt_price_form_at((size_t)c->weights); }

/* Fits some of the table's points a second time, for the others to judge. Too few are left where that fails:
 * then none judges. like NULL: alone. */
static void judge(job *j, const bt_profile *like)
{
    tool_calibrate_points fit;
    uint32_t constants;
    tool_calibrate_table_hold(&fit, &j->held, &j->table.points);
    if (!(j->held.prompts + j->held.steps)) return;
    const bt_err e =
        like ? tool_calibrate_fit_like(&j->judged, &constants, like, &j->priced, &fit, j->asked, NULL)
             : tool_calibrate_fit(&j->judged, &constants, &j->priced, &fit, NULL);
    if (e < 0) j->held.prompts = j->held.steps = 0;
}

static bt_err fit_like(job *j, bt_fault *fault)
{
    bt_profile like;
    bt_err e = bt_profile_load(&like, j->c->like, fault);
    if (e == BT_OK) e = bt_price_need_time(&like, fault);
    if (e == BT_OK)
        e = bt_price_check_forms(&like, form_of(j->c), bt_price_kv_at((size_t)j->c->kv_dtype), fault);
    if (e == BT_OK) e = like_json(&j->like, &like, j->c->like, fault);
    /* prompts of an NPU's programs, as in baton simulate --quant w8a8 */
    if (e == BT_OK && !like.companion && j->priced.recipe.weight_bits == 8) j->priced.recipe.input_bits = 8;
    if (e == BT_OK)
        e = tool_calibrate_fit_like(&j->profile, &j->fitted, &like, &j->priced, &j->table.points, j->asked,
                                    fault);
    j->constants = (uint32_t)__builtin_popcount(j->fitted & ~(uint32_t)TOOL_CALIBRATE_PROGRAMS);
    if (j->fitted & TOOL_CALIBRATE_PROGRAMS) j->constants += j->profile.time.programs;
    if (e == BT_OK) judge(j, &like);
    return e;
}

static bt_err calibrate_table(job *j, bt_fault *fault)
{
    const bt_price_kv *kv = bt_price_kv_at((size_t)j->c->kv_dtype);
    bt_fault why = {""};
    bt_err e = tool_dims_of(&j->priced.dims, NULL, j->c->model, fault);
    if (e == BT_OK) e = read_table(j, fault);
    if (e < 0) return e;
    j->priced.recipe = form_of(j->c)->recipe;
    j->priced.recipe.kv_elem_bits = 8 * kv->elem_bytes;
    j->priced.price = bt_price_model_of(&j->priced.dims, &j->priced.recipe);
    j->priced.price.kv_bytes = bt_price_kv_bytes(kv, &j->priced.dims);
    if (j->c->like) return fit_like(j, fault);
    e = tool_calibrate_fit(&j->profile, &j->constants, &j->priced, &j->table.points, &why);
    if (e == BT_OK) judge(j, NULL);
    if (e == BT_OK) return BT_OK;
    return bt_fail(fault, e, "%.180s%s", why.text,
                   e == BT_EARG ? ", or --like PROFILE, whose other constants are kept" : "");
}

/* ---- both ---- */

/* A name or a value that no profile may have is refused before there is a file. */
static bt_err write_profile(const tool_calibrate_report *r, bt_fault *fault)
{
    bt_profile back;
    json_t *o = tool_calibrate_profile(r);
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(o);
    if (!text) return bt_fail(fault, BT_ENOMEM, "out of memory for a profile");
    bt_err e = bt_profile_parse(&back, text, strlen(text), fault);
    if (e == BT_OK) e = bt_file_replace(r->path, text, strlen(text), 0666, fault);
    free(text);
    return e;
}

static int work(job *j, bt_fault *fault)
{
    bt_err e = (j->url ? calibrate_server : calibrate_table)(j, fault);
    const tool_calibrate_report r = {.url = j->url,
                                     .model = j->model ? j->model->name : j->priced.dims.name,
                                     .weights = !j->url && j->c->weights ? form_of(j->c)->name : NULL,
                                     .kv =
                                         !j->url && j->c->kv_dtype ? bt_price_kv_names[j->c->kv_dtype] : NULL,
                                     .path = j->c->output,
                                     .name = j->c->name,
                                     .measured = j->url ? &j->measured : NULL,
                                     .table = j->url ? NULL : &j->table,
                                     .held = &j->held,
                                     .judged = &j->judged,
                                     .like = j->like,
                                     .fitted = j->fitted,
                                     .constants = j->constants,
                                     .profile = &j->profile,
                                     .priced = &j->priced};
    if (e == BT_OK) e = write_profile(&r, fault);
    if (e < 0) return e == BT_ECANCEL ? TOOL_INTERRUPTED : tool_fail("calibrate", fault);
    if (j->c->json) return tool_print_json("calibrate", tool_calibrate_json(&r));
    if (!j->c->quiet) tool_calibrate_print(&r);
    return 0;
}

/* A file that is not there is one that was meant where its name ends so. */
static bool is_table(const char *arg)
{
    static const char *const ends[] = {".json", ".jsonl", ".csv"};
    const size_t n = strlen(arg);
    bool is_named = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        is_named |= n > strlen(ends[i]) && !strcmp(arg + n - strlen(ends[i]), ends[i]);
    return !strstr(arg, "://") && (is_named || access(arg, F_OK) == 0);
}

/* An option that would decide nothing is a mistake. One from the environment is for other commands too. */
static bt_err check_given(const bt_opt_args *args, const char *const *names, size_t n, const char *what,
                          bt_fault *fault)
{
    for (size_t i = 0; i < n; i++)
        if (bt_opt_source_of(args, names[i]) == BT_OPT_FROM_COMMAND_LINE)
            return bt_fail(fault, BT_EARG, "--%s is for %s", names[i], what);
    return BT_OK;
}

static bt_err check_options(const job *j, const bt_opt_args *args, bt_fault *fault)
{
    static const char *const of_rows[] = {"weights", "kv-dtype", "where", "like", "constant"};
    static const char *const of_server[] = {"longest",  "batch", "answer-tokens", "timeout",
                                            "deadline", "seed",  "served-model",  "api-key-file"};
    if (j->url)
        return check_given(args, of_rows, BT_OPT_COUNT(of_rows), "tables and points, and a server was given",
                           fault);
    const bt_err e = check_given(args, of_server, BT_OPT_COUNT(of_server),
                                 "a server, and tables or points were given", fault);
    if (e < 0) return e;
    return args->count ? BT_OK : check_given(args, &of_rows[2], 1, "tables, and points were given", fault);
}

/* Words that cannot be, before any file is read. */
static bt_err check_words(job *j, bt_fault *fault)
{
    tool_calibrate_table typed = {.rows = 0};
    bt_err e = tool_calibrate_table_where(&j->c->where, fault);
    if (e == BT_OK) e = constants_of(&j->asked, &j->c->fit, fault);
    for (size_t i = 0; e == BT_OK && i < j->c->points.count; i++)
        e = tool_calibrate_table_point(&typed, j->c->points.items[i], fault);
    return e;
}

/* A server, or files and points. */
static bt_err check_use(job *j, const bt_opt_args *args, bt_fault *fault)
{
    const config *c = j->c;
    const size_t n = strlen(c->output);
    if (!args->count && !c->points.count)
        return bt_fail(fault, BT_EARG,
                       "give the server's URL, as in http://127.0.0.1:8080, a file with measured times, or "
                       "--point");
    for (size_t i = 0; i < args->count; i++) {
        if (is_table(args->args[i])) continue;
        if (args->count > 1 || c->points.count)
            return bt_fail(fault, BT_EARG, "'%.60s' is no file; give one server, or files and points",
                           args->args[i]);
        j->url = args->args[i];
    }
    bt_err e = check_options(j, args, fault);
    if (e == BT_OK) e = check_words(j, fault);
    if (e < 0) return e;
    if (c->fit.count && !c->like)
        return bt_fail(fault, BT_EARG, "--constant names constants of --like, which is missing");
    if (!strchr(c->output, '/') && (n < 5 || strcmp(c->output + n - 5, ".json") != 0))
        return bt_fail(fault, BT_EARG, "-o '%.100s': a profile's file ends in .json, or has a '/'",
                       c->output);
    j->files = args->args;
    j->file_count = j->url ? 0 : args->count;
    return BT_OK;
}

int tool_calibrate_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_calibrate_program, argc, argv, &c);
    if (rc >= 0) return rc;
    job j = {.c = &c};
    if (check_use(&j, &args, &fault) < 0) {
        bt_opt_usage_error("baton calibrate", &fault);
        bt_opt_done(&args);
        return 2;
    }
    tool_catch_signals();
    tool_quiet(true);
    if (j.url && tool_http_setup(c.ca_file, &fault) < 0) {
        rc = tool_fail("calibrate", &fault);
    } else {
        rc = work(&j, &fault);
        if (j.url) tool_http_cleanup();
    }
    json_decref(j.like);
    tool_replay_words_done(&j.words);
    bt_tokenizer_free(j.tok);
    bt_model_close(j.model);
    tool_free_key(j.key);
    bt_opt_done(&args);
    return rc;
}
