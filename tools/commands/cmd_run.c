/* baton run: one prompt, one answer. Starts a gateway, a prefill node and a decode node for it, or asks a
 * running gateway. */
#include "base/clock.h"
#include "base/wait.h"
#include "engine/costs.h"
#include "engine/overlap.h"
#include "kv/kv_dtype.h"
#include "lab/timeline/modelled.h"
#include "model/options.h"
#include "tools/cluster/ask.h"
#include "tools/cluster/background.h"
#include "tools/cluster/http.h"
#include "tools/cluster/serve.h"
#include "tools/commands/sampling.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --timeline FILE of `baton run`: the device's time of this very run, and below it the host's. The first
 * tracks are modelled (lab/timeline/modelled.h) from the package, the lengths, the schedule and the link of
 * the run; the others are the times of the answer's `baton` object, measured. Both begin with prefill. Track
 * names say which is which. */

/* Chunks that are under way together have lanes of their own. */
enum { LANES = BT_OVERLAP_WINDOW, HOST_PREFILL = TOOL_TRACKS, TRACKS = HOST_PREFILL + LANES + 2 };
/* No linear of a node is divided, so the kind of divided linears is free. */
enum { KIND_EXPOSED = TOOL_KIND_DIVIDED, KIND_CHUNK = TOOL_KINDS, KIND_DECODE, KINDS };

/* Call it before anything is started. BT_EARG: no pair of devices, a path of another ending, or a run that no
 * prices are known for. */
static bt_err timeline_check(const tool_serve *s, const char *path, const char *url, bt_fault *fault)
{
    if (url)
        return bt_fail(fault, BT_EARG,
                       "--timeline draws the nodes that this command starts; leave out --url");
    if (!s->decode_profile)
        return bt_fail(fault, BT_EARG, "--timeline needs --decode-profile, and a --profile with a time");
    if (s->speculate)
        return bt_fail(fault, BT_EARG,
                       "--timeline does not fit --speculate %d: no answer says how many steps a guess saves; "
                       "leave one of the two out",
                       (int)s->speculate);
    return tool_timeline_check_path(path, fault);
}

typedef struct subject {
    const tool_serve *s;
    const json_t *baton;
    bt_pkg *pkg;
    bt_price_pkg *price; /* of it */
    bt_profile npu, companion, decode;
    bt_link link;
    bt_price_model model;
    bt_dims dims;
    uint64_t kv_token_bytes;
    char name[64];
} subject;

static bt_err open_package(subject *x, const bt_model *m, bt_fault *fault)
{
    bt_pool *pool = NULL;
    bt_err e = bt_pool_new(&pool, (size_t)x->s->threads, fault);
    const bt_obtain_how how = {.ctx_tokens = (size_t)x->s->ctx_size, .pool = pool, .only_looks = false,
                               .allow_llm_int8 = true, .progress = bt_wait_tell};
    if (e == BT_OK) e = bt_obtain_open(&x->pkg, NULL, m, &x->s->want, &how, fault);
    bt_wait_end();
    bt_pool_free(pool);
    return e;
}

/* Opens the profile of --profile where the package names it, else the one that the package names. */
static bt_err open_profiles(subject *x, bt_fault *fault)
{
    const char *name = bt_pkg_header_of(x->pkg)->profile;
    bt_err e = BT_OK;
    if (bt_profile_load(&x->npu, x->s->want.profile, NULL) < 0 || strcmp(x->npu.name, name) != 0)
        e = bt_profile_load(&x->npu, name, fault);
    x->companion = x->npu;
    if (e == BT_OK && x->npu.time.companion[0]) e = bt_profile_companion(&x->companion, &x->npu, fault);
    if (e == BT_OK) e = bt_profile_load(&x->decode, x->s->decode_profile, fault);
    return e == BT_OK ? bt_link_parse(&x->link, x->s->link ? x->s->link : "10", fault) : e;
}

static bt_err open_subject(subject *x, bt_fault *fault)
{
    bt_model *m = NULL;
    bt_err e = tool_open_model(&m, NULL, x->s->model, fault);
    if (e == BT_OK) e = open_package(x, m, fault);
    if (e == BT_OK) e = open_profiles(x, fault);
    if (e == BT_OK) {
        const uint32_t wanted = bt_kv_dtype_wanted(x->s->kv_dtype), bytes = wanted ? wanted : 2;
        x->model = bt_costs_decode(m, (bt_form)x->s->weights, bytes);
        x->dims = bt_costs_dims(m);
        x->kv_token_bytes = x->model.kv_bytes;
        snprintf(x->name, sizeof x->name, "%.60s", m->name);
        const bt_price_pkg_config priced = {.pkg = x->pkg, .npu = &x->npu, .companion = &x->companion,
                                            .kv_elem_bits = 8 * bytes};
        e = bt_price_pkg_new(&x->price, &priced, fault);
    }
    bt_model_close(m);
    return e;
}

/* ---- what is drawn ---- */

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static uint64_t ns_of(const json_t *o, const char *key)
{
    const double v = number(o, key);
    return v > 0 ? (uint64_t)(v * 1e6 + 0.5) : 0;
}

typedef struct picture {
    tool_timeline_span *span; /* with room for the host's */
    size_t spans;
    tool_timeline_fact fact[TOOL_TIMELINE_MAX_FACTS];
    size_t facts;
    uint32_t lanes; /* of measured chunks; the link and decode follow */
} picture;

static void add_span(picture *p, uint32_t track, uint32_t kind, int32_t chunk, uint64_t begin_ns,
                     uint64_t end_ns)
{
    if (end_ns > begin_ns)
        p->span[p->spans++] = (tool_timeline_span){.track = track, .kind = kind,         .chunk = chunk,
                                                   .layer = -1,    .begin_ns = begin_ns, .end_ns = end_ns};
}

/* The measured spans: chunks of the prompt, the exposed transfer, all steps. */
static bt_err add_host(picture *p, const json_t *baton, bt_fault *fault)
{
    const json_t *chunks = json_object_get(baton, "chunks"),
                 *host = json_object_get(json_object_get(baton, "device"), "host");
    const size_t n = json_array_size(chunks);
    tool_timeline_span *more = realloc(p->span, (p->spans + n + 2) * sizeof *more);
    if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory for a timeline");
    p->span = more;
    uint64_t free_ns[LANES] = {0};
    p->lanes = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *c = json_array_get(chunks, i);
        const uint64_t begin = ns_of(c, "begin_ms"), end = ns_of(c, "end_ms");
        uint32_t lane = 0;
        while (lane + 1 < LANES && free_ns[lane] > begin) lane++;
        add_span(p, HOST_PREFILL + lane, KIND_CHUNK, (int32_t)i,
                 free_ns[lane] > begin ? free_ns[lane] : begin, end);
        if (end > free_ns[lane]) free_ns[lane] = end;
        if (lane >= p->lanes) p->lanes = lane + 1;
    }
    const uint64_t prefill = ns_of(host, "prefill_ms"), sent = prefill + ns_of(host, "exposed_transfer_ms");
    if (!n) add_span(p, HOST_PREFILL, KIND_CHUNK, -1, 0, prefill);
    add_span(p, HOST_PREFILL + p->lanes, KIND_EXPOSED, -1, prefill, sent);
    add_span(p, HOST_PREFILL + p->lanes + 1, KIND_DECODE, -1, sent, sent + ns_of(host, "decode_ms"));
    return BT_OK;
}

static void add_fact(picture *p, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add_fact(picture *p, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    p->fact[p->facts].name = name;
    vsnprintf(p->fact[p->facts].value, sizeof p->fact->value, fmt, ap);
    va_end(ap);
    p->facts++;
}

static double ms(uint64_t ns) { return (double)ns / 1e6; }

/* The error of the first token, or of a later one. Returns ret. */
static char *error_of(char ret[BT_FORECAST_TEXT_BYTES], const subject *x, bt_figure kind)
{
    const bt_forecast_error e = tool_modelled_error(kind == BT_FIGURE_TPOT ? &x->decode : &x->npu, &x->dims,
                                                    kind, (size_t)number(x->baton, "prompt_tokens"),
                                                    (size_t)number(x->baton, "completion_tokens"));
    return bt_forecast_error_text(ret, &e);
}

static void add_facts(picture *p, const subject *x, const tool_modelled_result *r)
{
    const json_t *host = json_object_get(json_object_get(x->baton, "device"), "host");
    const bt_schedule_result *s = &r->schedule[r->policy];
    char error[BT_FORECAST_TEXT_BYTES];
    add_fact(p, "device", "%.60s", x->npu.name);
    add_fact(p, "schedule", "%s", bt_engine_schedules[x->s->schedule]);
    add_fact(p, "modelled prefill", "%.3f ms, %s", ms(r->ttft_ns), error_of(error, x, BT_FIGURE_TTFT));
    add_fact(p, "  NPU's bubbles", "%.3f ms", ms(s->makespan_ns - s->busy_ns[BT_SCHEDULE_NPU]));
    add_fact(p, "  companion's bubbles", "%.3f ms", ms(s->makespan_ns - s->busy_ns[BT_SCHEDULE_COMPANION]));
    add_fact(p, "modelled transfer exposed", "%.3f ms", ms(r->exposed_ns));
    add_fact(p, "modelled decode", "%.3f ms, %s", ms(r->decode_ns), error_of(error, x, BT_FIGURE_TPOT));
    add_fact(p, "measured prefill", "%.3f ms", number(host, "prefill_ms"));
    add_fact(p, "measured transfer exposed", "%.3f ms", number(host, "exposed_transfer_ms"));
    add_fact(p, "measured decode", "%.3f ms", number(host, "decode_ms"));
    if (strcmp(x->s->pace, "off") != 0) add_fact(p, "pace of what is measured", "%.60s", x->s->pace);
}

static bt_err draw(picture *p, const subject *x, const char *path, bt_fault *fault)
{
    char track[TRACKS][96], title[160];
    const char *tracks[TRACKS];
    static const char *const kinds[KINDS] = {
        [TOOL_KIND_NPU] = "NPU",
        [TOOL_KIND_ATTENTION] = "attention",
        [TOOL_KIND_COMPANION] = "companion",
        [TOOL_KIND_TRANSFER] = "KV of a layer",
        [TOOL_KIND_STEP] = "decode step",
        [KIND_CHUNK] = "chunk on this host",
        [KIND_EXPOSED] = "KV after prefill on this host",
        [KIND_DECODE] = "decode on this host",
    };
    const char *const modelled[TOOL_TRACKS] = {x->npu.name, x->companion.name, "link", x->decode.name};
    static const char *const what[TOOL_TRACKS] = {"", "companion ", "", "decode "};
    const int kv = HOST_PREFILL + (int)p->lanes, count = kv + 2;
    for (int i = 0; i < count; i++) {
        if (i < TOOL_TRACKS) snprintf(track[i], sizeof track[i], "modelled: %s%.70s", what[i], modelled[i]);
        else if (i < kv) snprintf(track[i], sizeof track[i], "measured: prefill %d", i - HOST_PREFILL);
        else snprintf(track[i], sizeof track[i], "measured: %s", i == kv ? "KV exposed" : "decode");
        tracks[i] = track[i];
    }
    snprintf(title, sizeof title, "%s, %d + %d tokens", x->name, (int)number(x->baton, "prompt_tokens"),
             (int)number(x->baton, "completion_tokens"));
    const tool_timeline t = {.title = title,
                             .subtitle =
                                 "One run. Tracks that say modelled are computed from device profiles; "
                                 "those that say measured are what it took on this machine.",
                             .unit = "chunk or token",
                             .track = tracks,
                             .kind = kinds,
                             .tracks = (size_t)count,
                             .kinds = KINDS,
                             .fact = p->fact,
                             .facts = p->facts,
                             .span = p->span,
                             .spans = p->spans};
    return tool_timeline_write(path, &t, fault);
}

/* s: with `engine npu` and a pair. baton: of its answer. BT_EARG: an answer that the decode node computed
 * alone, or one without times; errors of tool_modelled_play and tool_timeline_write. */
static bt_err timeline_write(const tool_serve *s, const json_t *baton, const char *path, bt_fault *fault)
{
    subject x = {.s = s, .baton = baton};
    picture p = {.span = NULL};
    tool_modelled_result r;
    const double tokens = number(baton, "prompt_tokens"), cached = number(baton, "cached_tokens");
    if (!json_is_string(json_object_get(json_object_get(baton, "device"), "profile")))
        return bt_fail(fault, BT_EARG,
                       "--timeline: no prefill device worked for this answer, so there is nothing to draw; a "
                       "prompt shorter than --local-prefill-below is computed where it is decoded");
    if (cached > 0)
        return bt_fail(fault, BT_EARG, "--timeline: %.0f tokens were kept from an earlier prompt", cached);
    bt_err e = open_subject(&x, fault);
    const tool_modelled_plan plan = {.price = x.price,
                                     .link = x.link,
                                     .decode = &x.decode,
                                     .model = x.model,
                                     .kv_token_bytes = x.kv_token_bytes,
                                     .prompt_tokens = (size_t)tokens,
                                     .answer_tokens = (size_t)number(baton, "completion_tokens"),
                                     .window = BT_OVERLAP_WINDOW};
    if (e == BT_OK) e = tool_modelled_play(&r, &p.span, &p.spans, &plan, s->schedule, fault);
    if (e == BT_OK) e = add_host(&p, baton, fault);
    if (e == BT_OK) {
        add_facts(&p, &x, &r);
        e = draw(&p, &x, path, fault);
    }
    free(p.span);
    bt_price_pkg_free(x.price);
    bt_pkg_close(x.pkg);
    return e;
}

typedef struct config {
    tool_serve serve;
    const char *prompt, *file, *system, *schema, *url, *api_key_file, *ca_file, *timeline;
    bool chat, json, quiet;
    int special;
    int64_t n_predict, seed;
    tool_sampling sampling;
    bt_opt_list stop;
} config;

enum { SPECIAL_ON, SPECIAL_OFF };
static const char *const on_off[] = {"on", "off", NULL};

static const bt_opt opts[] = {
    {.of = &tool_text_opts, .group = "Prompt", .name = "prompt", BT_OPT_AT(config, prompt),
     .help = "the text to continue, as it stands"},
    {.of = &tool_text_opts, .group = "Prompt", .name = "file", BT_OPT_AT(config, file),
     .example = "prompt.txt"},
    {.group = "Prompt", .name = "chat", BT_OPT_AT(config, chat), .type = BT_OPT_FLAG,
     .help = "apply the model's chat template: the text is a user's message"},
    {.group = "Prompt", .name = "special", .value = "WHAT", BT_OPT_AT(config, special), .type = BT_OPT_CHOICE,
     .choices = on_off, .def = "on",
     .help = "names of control tokens in the text, such as <|im_end|>, are the tokens (on) or letters (off); "
             "with --chat they are letters"},
    {.of = &tool_text_opts, .group = "Prompt", .name = "system", BT_OPT_AT(config, system),
     .help = "system message, with --chat"},
    {.of = &bt_sampling_opts, .name = "n-predict", BT_OPT_AT(config, n_predict),
     .help = "tokens to generate at most"},
    BT_OPT_ALL(tool_sampling_opts, config, sampling, NULL),
    {.of = &tool_sampling_opts, .name = "temp", .def = "0",
     .help = "temperature; 0 is greedy and repeatable bit by bit"},
    {.of = &tool_sampling_opts, .name = "top-k", .def = "0",
     .help = "sample from the K likeliest tokens; 0: off"},
    {.of = &tool_sampling_opts, .name = "top-p", .def = "1",
     .help = "sample from the likeliest tokens that together have probability P; 1: off"},
    {.of = &tool_sampling_opts, .name = "min-p", .def = "0",
     .help = "leave out tokens less likely than P times the likeliest; 0: off"},
    {.of = &tool_sampling_opts, .name = "presence-penalty", .def = "0"},
    {.of = &tool_sampling_opts, .name = "frequency-penalty", .def = "0"},
    {.of = &tool_sampling_opts, .name = "repetition-penalty", .def = "1",
     .help = "makes tokens of prompt and answer less likely (above 1) or more; 1: off"},
    {.of = &tool_seed_opts, .group = "Answer", .letter = 's', .name = "seed", BT_OPT_AT(config, seed),
     .def = BT_OPT_NO_DEFAULT, .example = "42", .help = "seed of the random draws; without it one is drawn"},
    {.group = "Answer", .name = "stop", .value = "TEXT", BT_OPT_AT(config, stop), .type = BT_OPT_STRINGS,
     .example = "END", .help = "end before this text"},
    {.group = "Answer", .name = "schema", .value = "FILE", BT_OPT_AT(config, schema), .type = BT_OPT_STRING,
     .example = "city.json", .help = "the answer is JSON of the JSON Schema in this file"},
    BT_OPT_ALL(tool_serve_opts, config, serve, NULL),
    {.of = &tool_server_opts, .name = "url", BT_OPT_AT(config, url),
     .help = "ask this gateway instead of starting one"},
    {.of = &tool_server_opts, .name = "api-key-file", BT_OPT_AT(config, api_key_file)},
    {.of = &tool_server_opts, .name = "ca-file", BT_OPT_AT(config, ca_file)},
    {.of = &tool_output_opts, .name = "timeline", BT_OPT_AT(config, timeline), .example = "run.html",
     .help = "with --decode-profile: what the devices would do when, and what this host did: a page (.html) "
             "or a trace for Perfetto (.pftrace, .json)"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: text, token_ids, ttft_ms, kv_bytes, ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet),
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
                          "temperature", c->sampling.temp, "top_k", (json_int_t)c->sampling.top_k, "top_p",
                          c->sampling.top_p, "min_p", c->sampling.min_p, "presence_penalty",
                          c->sampling.presence_penalty, "frequency_penalty", c->sampling.frequency_penalty,
                          "repetition_penalty", c->sampling.repetition_penalty);
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
        if (c->special == SPECIAL_OFF) ok = ok && json_object_set_new(r, "parse_special", json_false()) == 0;
    }
    if (ok) return r;
    json_decref(r);
    return NULL;
}

static bt_err add_schema(json_t *request, const char *path, bt_fault *fault)
{
    json_error_t error;
    json_t *schema = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!schema)
        return bt_fail(fault, BT_EARG, "--schema %s, line %d: %s", path, error.line > 0 ? error.line : 1,
                       error.text);
    return json_object_set_new(request, "json_schema", schema) == 0
               ? BT_OK
               : bt_fail(fault, BT_ENOMEM, "out of memory for the schema");
}

static int show(const config *c, tool_answer *a, int64_t start_us, bt_err e, bt_fault *fault)
{
    if (e < 0 && e != BT_ECANCEL) return tool_fail("run", fault);
    int rc = e == BT_ECANCEL ? TOOL_INTERRUPTED : 0;
    if (c->json) {
        json_t *object = a->baton ? json_copy(a->baton) : json_object();
        json_object_set_new(object, "text", json_stringn(bt_buf_text(&a->text), a->text.len));
        if (a->thoughts.len > 0)
            json_object_set_new(object, "reasoning_content",
                                json_stringn(bt_buf_text(&a->thoughts), a->thoughts.len));
        if (a->first_us)
            json_object_set_new(object, "start_to_first_token_ms",
                                json_real((double)(a->first_us - start_us) / 1e3));
        if (e == BT_ECANCEL) json_object_set_new(object, "finish_reason", json_string("interrupted"));
        if (tool_print_json("run", object)) rc = 1;
        return rc;
    }
    const bool ends_line = a->text.len > 0 && bt_buf_text(&a->text)[a->text.len - 1] == '\n';
    if (!ends_line || isatty(STDOUT_FILENO)) putchar('\n');
    if (bt_opt_flush() != 0) rc = 1;
    if (!c->quiet) tool_answer_print_figures(a);
    return rc;
}

/* Starts a system where none is named, asks, and shows the answer. */
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
    if (e == BT_OK && c->schema) e = add_schema(request, c->schema, fault);
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
                          .shows_thoughts = !c->json && !c->quiet,
                          .stop = &tool_stop};
    e = tool_ask_send(&answer, &ask, fault);
    rc = show(c, &answer, start_us, e, fault);
    if (e == BT_OK && c->timeline && timeline_write(&c->serve, answer.baton, c->timeline, fault) < 0)
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
    else if (c.chat && bt_opt_source_of(&args, "special") != BT_OPT_FROM_DEFAULT && c.special == SPECIAL_ON)
        bt_fail(&fault, BT_EARG,
                "--special on is for a text without --chat: words of a chat never name control tokens");
    else if (!c.serve.model && !c.url)
        bt_fail(&fault, BT_EARG, "give a model, for example '-m smollm2', or --url");
    else if (c.serve.decode_profile && c.url)
        bt_fail(&fault, BT_EARG,
                "--decode-profile prices the nodes that this command starts; leave out --url");
    else if (!c.timeline || timeline_check(&c.serve, c.timeline, c.url, &fault) == BT_OK)
        (void)tool_devices_check(&c.serve, &fault);
    if (fault.text[0]) {
        bt_opt_usage_error("baton run", &fault);
        bt_opt_done(&args);
        return 2;
    }
    tool_catch_signals();
    tool_quiet(c.quiet || c.json);
    if ((c.file && tool_read_file(&text, &len, c.file, &fault) < 0) ||
        tool_http_setup(c.ca_file, &fault) < 0) {
        rc = tool_fail("run", &fault);
    } else {
        rc = run(&c, &args, start_us, c.prompt ? c.prompt : text, c.prompt ? strlen(c.prompt) : len, &fault);
        tool_http_cleanup();
    }
    free(text);
    bt_opt_done(&args);
    return rc;
}
