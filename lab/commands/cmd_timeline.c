/* baton timeline: one request on a named pair of devices, stage by stage: modelled, drawn, and printed as a
 * table. */
#include "base/cache_files.h"
#include "base/num.h"
#include "base/wait.h"
#include "device/options.h"
#include "engine/costs.h"
#include "engine/options.h"
#include "model/options.h"
#include "npu/compile/obtain.h"
#include "lab/timeline/modelled.h"
#include "npu/price/schedule_price.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *output, *companion, *decode, *link;
    bt_obtain_want want;
    int64_t prompt_tokens, answer_tokens, arenas, ctx_size, threads;
    uint64_t cache_limit_bytes;
    int schedule;
    bool by_length, json, quiet;
} config;

static const char *const schedules[] = {"best", BT_STAGE_POLICY_NAMES, NULL};

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(config, model), .required = true},
    {.of = &bt_model_opts, .name = "ctx-size", BT_OPT_AT(config, ctx_size),
     .help = "longest sequence that the package is compiled for; 0: the model's context, at most 32768"},
    BT_OPT_ALL(bt_obtain_opts, config, want, NULL),
    {.group = "Devices", .name = "companion", .value = "PROFILE", BT_OPT_AT(config, companion),
     .type = BT_OPT_STRING, .example = "adreno-750",
     .help = "what runs the operators that the NPU leaves; without it the one that the NPU's profile names, "
             "else the "
             "NPU's own device"},
    {.of = &bt_device_opts, .name = "decode-profile", BT_OPT_AT(config, decode), .required = true,
     .help = "what decodes"},
    {.of = &bt_device_opts, .name = "link", BT_OPT_AT(config, link), .def = "10",
     .help = "the link that the KV takes: " BT_LINK_HELP},
    {.group = "Request", .letter = 'p', .name = "prompt-tokens", .value = "N",
     BT_OPT_AT(config, prompt_tokens), .type = BT_OPT_INT, .def = "512", .lo = 1, .hi = BT_SHAPES_MAX_SEQ,
     .help = "length of the prompt"},
    {.of = &bt_sampling_opts, .group = "Request", .name = "n-predict", BT_OPT_AT(config, answer_tokens),
     .def = "32", .lo = 1, .hi = 1 << 16, .help = "tokens of the answer"},
    {.of = &bt_engine_opts, .group = "Request", .name = "schedule", BT_OPT_AT(config, schedule),
     .def = "best", .choices = schedules,
     .help = "what is drawn: program order, chunks as a pipeline, llm.npu's out-of-order rule, program order "
             "with linears divided over NPU and companion, or the shortest"},
    {.of = &bt_engine_opts, .group = "Request", .name = "arenas", BT_OPT_AT(config, arenas)},
    {.of = &bt_machine_opts, .name = "threads", BT_OPT_AT(config, threads),
     .help = "threads that compile a package; 0: all cores"},
    {.of = &bt_machine_opts, .name = "cache-limit", BT_OPT_AT(config, cache_limit_bytes)},
    {.of = &tool_output_opts, .letter = 'o', .name = "timeline", BT_OPT_AT(config, output)},
    {.group = "Output", .name = "by-length", BT_OPT_AT(config, by_length), .type = BT_OPT_FLAG,
     .help = "the first token of other lengths of prompt too, up to --ctx-size, under each schedule"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: ttft_ms, exposed_ms, decode_ms, schedules[], ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet)},
};

const bt_opt_program tool_timeline_program = {
    .name = "baton timeline",
    .summary = "what a request would take on a pair of devices, stage by stage (modelled)",
    .usage = "-m MODEL --profile P --decode-profile D [options]",
    .normal = "baton timeline -m smollm2 --profile hexagon-v75 --decode-profile adreno-750 -o request.html",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

typedef struct subject {
    bt_pkg *pkg;
    bt_price_pkg *price; /* of it */
    bt_profile npu, companion, decode;
    bt_link link;
    bt_dims dims;
    bt_price_model model;
    uint64_t parameters;
} subject;

static bt_err load(bt_profile *ret, const char *name, const char *option, bt_fault *fault)
{
    const bt_err e = bt_profile_load(ret, name, fault);
    if (e < 0 || ret->time.is_given) return e;
    return bt_fail(fault, BT_EARG,
                   "--%s %s: this profile has no times; 'baton profiles' lists those that have, for example "
                   "hexagon-v75 and adreno-750",
                   option, ret->name);
}

/* Loads the companion that the profile names, else the NPU's own device. */
static bt_err load_companion(subject *s, const config *c, bt_fault *fault)
{
    if (c->companion) return load(&s->companion, c->companion, "companion", fault);
    if (s->npu.time.companion[0]) return bt_profile_companion(&s->companion, &s->npu, fault);
    s->companion = s->npu;
    return BT_OK;
}

static bt_err prepare(subject *s, const config *c, bt_fault *fault)
{
    bt_model *m = NULL;
    bt_pool *pool = NULL;
    bt_err e = load(&s->decode, c->decode, "decode-profile", fault);
    if (e == BT_OK && c->companion) e = load_companion(s, c, fault); /* before anything is compiled */
    if (e == BT_OK) e = bt_link_parse(&s->link, c->link, fault);
    if (e == BT_OK && !c->want.package) e = load(&s->npu, c->want.profile, "profile", fault);
    if (e == BT_OK) e = tool_open_model(&m, NULL, c->model, fault);
    if (e == BT_OK) e = bt_pool_new(&pool, (size_t)c->threads, fault);
    const bt_obtain_how how = {.ctx_tokens = (size_t)c->ctx_size, .pool = pool, .only_looks = false,
                               .allow_llm_int8 = true, .progress = bt_wait_tell};
    if (e == BT_OK) e = bt_obtain_open(&s->pkg, NULL, m, &c->want, &how, fault);
    if (e == BT_OK && c->want.package) e = load(&s->npu, bt_pkg_header_of(s->pkg)->profile, "package", fault);
    if (e == BT_OK) e = load_companion(s, c, fault);
    const bt_price_pkg_config priced = {.pkg = s->pkg, .npu = &s->npu, .companion = &s->companion};
    if (e == BT_OK) e = bt_price_pkg_new(&s->price, &priced, fault);
    if (e == BT_OK) {
        const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
        s->dims = bt_costs_dims(m);
        s->model = bt_price_model_of(&s->dims, &f16);
        s->parameters = m->param_count;
        e = bt_price_check_memory(&s->decode, &s->model, m->name, fault);
    }
    bt_wait_end();
    bt_pool_free(pool);
    bt_model_close(m);
    return e;
}

/* ---- what is printed ---- */

static double ms(uint64_t ns) { return (double)ns / 1e6; }
static double percent(uint64_t part, uint64_t of) { return of ? 100.0 * (double)part / (double)of : 0; }
static const char *const policy_names[] = {BT_STAGE_POLICY_NAMES};

static const char *const ways[] = {BT_SPLIT_NAMES};

/* The time that an engine waits until the first token. */
static uint64_t bubbles(const bt_schedule_result *r, bt_schedule_engine engine)
{
    return r->makespan_ns - r->busy_ns[engine];
}

static const char *const policy_words[] = {"  in program order", "  as a pipeline", "  out of order",
                                           "  linears divided"};

/* ret: "+- 9 %" of the first token, or of a later one. Returns ret. */
static char *error_text(char ret[BT_FORECAST_TEXT_BYTES], const config *c, const subject *s, bt_figure kind)
{
    const bt_forecast_error e = tool_modelled_error(kind == BT_FIGURE_TPOT ? &s->decode : &s->npu, &s->dims,
                                                    kind, (size_t)c->prompt_tokens, (size_t)c->answer_tokens);
    return bt_forecast_error_text(ret, &e);
}

static void add_fact(tool_timeline_fact *f, size_t *n, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add_fact(tool_timeline_fact *f, size_t *n, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    f[*n].name = name;
    vsnprintf(f[*n].value, sizeof f[*n].value, fmt, ap);
    va_end(ap);
    *n += 1;
}

static bt_err draw(const config *c, const subject *s, const tool_modelled_result *r,
                   const tool_timeline_span *span, size_t spans, bt_fault *fault)
{
    char track[TOOL_TRACKS][96], title[256], size[32], error[BT_FORECAST_TEXT_BYTES];
    const char *tracks[TOOL_TRACKS];
    static const char *const kinds[TOOL_KINDS] = {[TOOL_KIND_NPU] = "NPU",
                                                  [TOOL_KIND_ATTENTION] = "attention",
                                                  [TOOL_KIND_COMPANION] = "companion",
                                                  [TOOL_KIND_DIVIDED] = "divided linear",
                                                  [TOOL_KIND_TRANSFER] = "KV of a layer",
                                                  [TOOL_KIND_STEP] = "decode step"};
    const char *const name[TOOL_TRACKS] = {s->npu.name, s->companion.name, "link", s->decode.name};
    static const char *const what[TOOL_TRACKS] = {"prefill", "companion", "KV", "decode"};
    const bt_schedule_result *drawn = &r->schedule[r->policy];
    tool_timeline_fact f[TOOL_TIMELINE_MAX_FACTS];
    size_t n = 0;
    for (int i = 0; i < TOOL_TRACKS; i++) {
        snprintf(track[i], sizeof track[i], i == TOOL_TRACK_LINK ? "%s" : "%s: %.70s",
                 i == TOOL_TRACK_LINK ? name[i] : what[i], name[i]);
        tracks[i] = track[i];
    }
    snprintf(title, sizeof title, "%.100s, %" PRId64 " + %" PRId64 " tokens",
             bt_pkg_header_of(s->pkg)->model_name, c->prompt_tokens, c->answer_tokens);
    add_fact(f, &n, "schedule", "%s", policy_names[r->policy]);
    add_fact(f, &n, "time to first token", "%.3f ms, %s", ms(r->ttft_ns),
             error_text(error, c, s, BT_FIGURE_TTFT));
    for (int i = 0; i < BT_STAGE_POLICIES; i++)
        add_fact(f, &n, policy_words[i], "%.3f ms", ms(r->schedule[i].makespan_ns));
    add_fact(f, &n, "chunks", "%zu of %zu stages", r->chunks, r->stages);
    add_fact(f, &n, "NPU busy in prefill", "%.1f %%",
             percent(drawn->busy_ns[BT_SCHEDULE_NPU], drawn->makespan_ns));
    add_fact(f, &n, "  its bubbles", "%.3f ms", ms(bubbles(drawn, BT_SCHEDULE_NPU)));
    add_fact(f, &n, "companion busy in prefill", "%.1f %%",
             percent(drawn->busy_ns[BT_SCHEDULE_COMPANION], drawn->makespan_ns));
    for (int i = 0; r->policy == BT_STAGE_SPLIT && i < BT_SPLIT_WAYS; i++)
        if (r->ways[i]) add_fact(f, &n, "linears", "%" PRIu64 " %s", r->ways[i], ways[i]);
    bt_num_size_text(size, sizeof size, r->kv_bytes);
    add_fact(f, &n, "KV", "%s", size);
    add_fact(f, &n, "link busy", "%.3f ms", ms(r->link_busy_ns));
    add_fact(f, &n, "transfer exposed", "%.3f ms", ms(r->exposed_ns));
    if (c->answer_tokens > 1)
        add_fact(f, &n, "time per output token", "%.3f ms, %s",
                 ms(r->decode_ns) / (double)(c->answer_tokens - 1), error_text(error, c, s, BT_FIGURE_TPOT));
    add_fact(f, &n, "whole request", "%.3f ms", ms(r->end_ns));
    const tool_timeline t = {.title = title,
                             .subtitle = "Modelled from device profiles; nothing on this page was measured.",
                             .unit = "chunk or token",
                             .track = tracks,
                             .kind = kinds,
                             .tracks = TOOL_TRACKS,
                             .kinds = TOOL_KINDS,
                             .fact = f,
                             .facts = n,
                             .span = span,
                             .spans = spans};
    return tool_timeline_write(c->output, &t, fault);
}

/* ---- other lengths ---- */

enum { LENGTHS = 24, SHORTEST = 16 };
typedef struct lengths {
    size_t tokens[LENGTHS], count;
    uint64_t ns[LENGTHS][BT_STAGE_POLICIES];
} lengths;

/* 16, 32, ... and the package's context, from a table for each schedule. */
static bt_err price_lengths(lengths *ret, const config *c, const subject *s, bt_fault *fault)
{
    const size_t ctx = bt_pkg_header_of(s->pkg)->ctx_tokens;
    bt_err e = BT_OK;
    *ret = (lengths){.count = 0};
    if (!c->by_length) return BT_OK;
    for (size_t n = SHORTEST; n < ctx && ret->count + 1 < LENGTHS; n *= 2) ret->tokens[ret->count++] = n;
    ret->tokens[ret->count++] = ctx;
    for (int i = 0; e == BT_OK && i < BT_STAGE_POLICIES; i++) {
        const bt_schedule_price_config pc = {.price = s->price, .policy = i, .window = (size_t)c->arenas,
                                             .tokens = ctx};
        bt_schedule_price *table = NULL;
        bt_schedule_priced one;
        e = bt_schedule_price_new(&table, &pc, fault);
        for (size_t k = 0; e == BT_OK && k < ret->count; k++) {
            e = bt_schedule_price_of(&one, table, ret->tokens[k], fault);
            if (e == BT_OK) ret->ns[k][i] = one.result.makespan_ns;
        }
        bt_schedule_price_free(table);
    }
    return e;
}

static json_t *error_json(const subject *s, bt_figure kind, size_t prompt_tokens, size_t answer_tokens)
{
    const bt_profile *device = kind == BT_FIGURE_TPOT ? &s->decode : &s->npu;
    const bt_forecast_error e = tool_modelled_error(device, &s->dims, kind, prompt_tokens, answer_tokens);
    return bt_forecast_error_json(&e);
}

static void add_lengths(json_t *object, const subject *s, const lengths *l)
{
    json_t *list = json_array();
    for (size_t k = 0; k < l->count; k++) {
        json_t *row = json_object(), *ms_of = json_object();
        for (int i = 0; i < BT_STAGE_POLICIES; i++)
            json_object_set_new(ms_of, policy_names[i], json_real(ms(l->ns[k][i])));
        json_object_set_new(row, "prompt_tokens", json_integer((json_int_t)l->tokens[k]));
        json_object_set_new(row, "ttft_ms", ms_of);
        json_object_set_new(row, "error", error_json(s, BT_FIGURE_TTFT, l->tokens[k], 0));
        json_array_append_new(list, row);
    }
    if (l->count) json_object_set_new(object, "by_length", list);
    else json_decref(list);
}

static void print_lengths(const lengths *l)
{
    if (!l->count) return;
    printf("\n  first token ms by length of the prompt\n  %8s", "tokens");
    for (int i = 0; i < BT_STAGE_POLICIES; i++) printf(" %14s", policy_names[i]);
    for (size_t k = 0; k < l->count; k++) {
        printf("\n  %8zu", l->tokens[k]);
        for (int i = 0; i < BT_STAGE_POLICIES; i++) printf(" %14.3f", ms(l->ns[k][i]));
    }
    putchar('\n');
}

static json_t *ways_json(const tool_modelled_result *r)
{
    json_t *o = json_object();
    for (int i = 0; i < BT_SPLIT_WAYS; i++)
        json_object_set_new(o, ways[i], json_integer((json_int_t)r->ways[i]));
    return o;
}

static int show_json(const config *c, const subject *s, const tool_modelled_result *r, const lengths *l)
{
    json_t *list = json_array();
    for (int i = 0; i < BT_STAGE_POLICIES; i++) {
        const bt_schedule_result *x = &r->schedule[i];
        json_array_append_new(list,
                              json_pack("{s:s,s:f,s:f,s:f,s:f}", "schedule", policy_names[i], "ttft_ms",
                                        ms(x->makespan_ns), "npu_busy_ms", ms(x->busy_ns[BT_SCHEDULE_NPU]),
                                        "companion_busy_ms", ms(x->busy_ns[BT_SCHEDULE_COMPANION]),
                                        "npu_bubble_ms", ms(bubbles(x, BT_SCHEDULE_NPU))));
    }
    const double steps = c->answer_tokens > 1 ? (double)(c->answer_tokens - 1) : 1;
    json_t *object =
        json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:f,s:I,s:f,s:f,s:f,s:f,s:o,s:o,s:{s:o,s:o}}", "profile",
                  s->npu.name, "companion", s->companion.name, "decode_profile", s->decode.name, "schedule",
                  policy_names[r->policy], "prompt_tokens", (json_int_t)c->prompt_tokens, "completion_tokens",
                  (json_int_t)c->answer_tokens, "chunks", (json_int_t)r->chunks, "stages",
                  (json_int_t)r->stages, "ttft_ms", ms(r->ttft_ns), "kv_bytes", (json_int_t)r->kv_bytes,
                  "transfer_ms", ms(r->link_busy_ns), "exposed_ms", ms(r->exposed_ns), "tpot_ms",
                  ms(r->decode_ns) / steps, "total_ms", ms(r->end_ns), "schedules", list, "split_linears",
                  ways_json(r), "error", "ttft",
                  error_json(s, BT_FIGURE_TTFT, (size_t)c->prompt_tokens, (size_t)c->answer_tokens), "tpot",
                  error_json(s, BT_FIGURE_TPOT, (size_t)c->prompt_tokens, (size_t)c->answer_tokens));
    add_lengths(object, s, l);
    return tool_print_json("timeline", object);
}

static int show_people(const config *c, const subject *s, const tool_modelled_result *r, const lengths *l)
{
    char size[32], error[BT_FORECAST_TEXT_BYTES], line[BT_FORECAST_LINE_BYTES];
    bt_num_size_text(size, sizeof size, r->kv_bytes);
    printf("modelled: %" PRId64 " tokens on %s with %s, %" PRId64 " from %s; %zu chunks of %zu stages\n\n",
           c->prompt_tokens, s->npu.name, s->companion.name, c->answer_tokens, s->decode.name, r->chunks,
           r->stages);
    printf("  %-10s %16s %10s %16s %16s\n", "schedule", "first token ms", "NPU busy", "NPU bubbles ms",
           "companion busy");
    for (int i = 0; i < BT_STAGE_POLICIES; i++) {
        const bt_schedule_result *x = &r->schedule[i];
        printf("%c %-10s %16.3f %8.1f %% %16.3f %14.1f %%\n", i == (int)r->policy ? '*' : ' ',
               policy_names[i], ms(x->makespan_ns), percent(x->busy_ns[BT_SCHEDULE_NPU], x->makespan_ns),
               ms(bubbles(x, BT_SCHEDULE_NPU)), percent(x->busy_ns[BT_SCHEDULE_COMPANION], x->makespan_ns));
    }
    printf("\n  linears under split:");
    for (int i = 0; i < BT_SPLIT_WAYS; i++) printf("%s %" PRIu64 " %s", i ? "," : "", r->ways[i], ways[i]);
    printf("\n  KV %s: %.3f ms on the link, %.3f ms of it exposed\n", size, ms(r->link_busy_ns),
           ms(r->exposed_ns));
    if (c->answer_tokens > 1)
        printf("  decode: %.3f ms a token\n", ms(r->decode_ns) / (double)(c->answer_tokens - 1));
    printf("  whole request: %.3f ms\n", ms(r->end_ns));
    printf("  errors: first token %s", error_text(error, c, s, BT_FIGURE_TTFT));
    if (c->answer_tokens > 1) printf(", a token %s", error_text(error, c, s, BT_FIGURE_TPOT));
    printf("\n  %s\n", bt_forecast_standing_text(line, &s->npu));
    if (strcmp(s->npu.name, s->decode.name) != 0)
        printf("  %s\n", bt_forecast_standing_text(line, &s->decode));
    print_lengths(l);
    if (c->output) printf("\n%s\n", c->output);
    return bt_opt_flush() != 0;
}

static int timeline(const config *c)
{
    subject s = {.pkg = NULL};
    bt_fault fault = {""};
    tool_modelled_result r;
    lengths l = {.count = 0};
    tool_timeline_span *span = NULL;
    size_t spans = 0;
    int rc;
    bt_err e = prepare(&s, c, &fault);
    const tool_modelled_plan plan = {.price = s.price,
                                     .link = s.link,
                                     .decode = &s.decode,
                                     .model = s.model,
                                     .prompt_tokens = (size_t)c->prompt_tokens,
                                     .answer_tokens = (size_t)c->answer_tokens,
                                     .window = (size_t)c->arenas};
    if (e == BT_OK) e = tool_modelled_play(&r, &span, &spans, &plan, c->schedule - 1, &fault);
    if (e == BT_OK) e = price_lengths(&l, c, &s, &fault);
    if (e == BT_OK && c->output) e = draw(c, &s, &r, span, spans, &fault);
    if (e != BT_OK) rc = tool_fail("timeline", &fault);
    else rc = c->json ? show_json(c, &s, &r, &l) : show_people(c, &s, &r, &l);
    free(span);
    bt_price_pkg_free(s.price);
    bt_pkg_close(s.pkg);
    return rc;
}

int tool_timeline_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_timeline_program, argc, argv, &c);
    if (rc >= 0) return rc;
    tool_quiet(c.quiet || c.json);
    tool_cache_setup(c.cache_limit_bytes, c.quiet || c.json);
    rc = timeline(&c);
    bt_opt_done(&args);
    return rc;
}
