/* baton plan: which shapes, recipe, KV rows and schedule a pair of devices should have for the requests of a
 * trace. A model is known by its sizes alone, devices by their profiles; nothing is run. */
#include "base/wait.h"
#include "device/options.h"
#include "engine/options.h"
#include "kv/kv_dtype.h"
#include "lab/commands/dims_of.h"
#include "lab/plan/group.h"
#include "lab/plan/report.h"
#include "lab/replay/options.h"
#include "lab/replay/result.h"
#include "model/options.h"
#include "npu/compile/obtain.h"
#include "tools/made_by.h"
#include "tools/options.h"
#include "tools/tool.h"
#include "lab/trace/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *prefill, *decode, *link, *trace, *slo, *output;
    bt_opt_list policies, recipes, attentions, kvs, schedules;
    int format, by, weights, npu_ops;
    int64_t ctx_size, slots, arenas, answer_tokens, rows, draws, seed;
    double speed;
    bool any_bits, colocated, bounds, json, quiet;
} config;

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(config, model), .required = true,
     .example = "llama-3.2-1b",
     .help =
         "the name of a known shape, a config.json (it ends in .json), a GGUF file (its header is enough) or "
         "the name of a model"},
    {.of = &bt_model_opts, .name = "ctx-size", BT_OPT_AT(config, ctx_size), .lo = 0, .hi = BT_SHAPES_MAX_SEQ,
     .help = "longest sequence that programs are made for; 0: what the trace needs, a power of two"},
    {.group = "Pair", .name = "prefill", .value = "PROFILE", BT_OPT_AT(config, prefill),
     .type = BT_OPT_STRING, .required = true, .example = "hexagon-v75", .help = "device of prefill"},
    {.group = "Pair", .name = "decode", .value = "PROFILE", BT_OPT_AT(config, decode), .type = BT_OPT_STRING,
     .required = true, .example = "adreno-750", .help = "device that decodes"},
    {.of = &bt_device_opts, .group = "Pair", .name = "link", BT_OPT_AT(config, link), .def = "10",
     .example = "25", .help = "between them: " BT_LINK_HELP},
    {.of = &bt_device_opts, .group = "Pair", .name = "decode-weights", BT_OPT_AT(config, weights),
     .choices = bt_price_form_names},
    {.of = &bt_serving_opts, .group = "Pair", .name = "slots", BT_OPT_AT(config, slots),
     .help = "sequences that decode together at most"},
    {.of = &bt_engine_opts, .group = "Pair", .name = "arenas", BT_OPT_AT(config, arenas)},
    {.group = "Pair", .name = "colocated", BT_OPT_AT(config, colocated), .type = BT_OPT_FLAG,
     .help = "also the decode device alone, with prompts and tokens in mixed steps"},
    {.group = "Requests", .name = "trace", .value = "FILE", BT_OPT_AT(config, trace), .type = BT_OPT_STRING,
     .required = true, .example = "trace.csv",
     .help = "requests to plan for, in any format of baton trace; - for stdin"},
    {.of = &tool_load_opts, .group = "Requests", .name = "format", BT_OPT_AT(config, format),
     .help = "the trace's format"},
    {.of = &tool_load_opts, .group = "Requests", .name = "speed", BT_OPT_AT(config, speed), .flo = 0.0001,
     .fhi = 10000, .help = "arrivals so many times faster"},
    {.of = &bt_sampling_opts, .group = "Requests", .name = "n-predict", BT_OPT_AT(config, answer_tokens),
     .lo = 1, .hi = 1 << 16, .help = "tokens of an answer where the trace does not say"},
    {.of = &bt_obtain_opts, .group = "Choices", .name = "shape-policy", BT_OPT_AT(config, policies),
     .type = BT_OPT_STRINGS, .def = BT_OPT_NO_DEFAULT, .example = "chunk:256+tail",
     .help = "shape policies to compare, as often as you like: " BT_SHAPES_NAMES
             "; of a GPU whole and step:N; without any, the usual ones"},
    {.of = &bt_obtain_opts, .group = "Choices", .name = "quant", BT_OPT_AT(config, recipes),
     .type = BT_OPT_STRINGS, .def = BT_OPT_NO_DEFAULT, .example = "w8a8",
     .help =
         "recipes to compare; without any, w8a8, w8a16, w4a8, w4a16; of a GPU f16, int8, fp4, and fp8 and "
         "nvfp4 where it computes in them"},
    {.of = &bt_obtain_opts, .group = "Choices", .name = "attention", BT_OPT_AT(config, attentions),
     .type = BT_OPT_STRINGS, .def = BT_OPT_NO_DEFAULT, .example = "sparse:0.2",
     .help = "attention of prompts to compare, dense or " BT_ATTENTION_FORM
             "; without any dense: what sparse attention does to answers no plan knows"},
    {.of = &bt_kv_dtype_opts, .group = "Choices", .name = "kv-dtype", BT_OPT_AT(config, kvs),
     .type = BT_OPT_STRINGS, .def = BT_OPT_NO_DEFAULT, .example = "f16",
     .help = "KV rows to compare: f16, int8, fp8; without any, those of both devices"},
    {.of = &bt_engine_opts, .group = "Choices", .name = "schedule", BT_OPT_AT(config, schedules),
     .type = BT_OPT_STRINGS, .def = BT_OPT_NO_DEFAULT, .example = "fifo",
     .help =
         "orders of a prompt's chunks to compare: serial, fifo, ooo, or split (program order with linears "
         "divided over NPU and companion), which no node runs; without any the first three where the NPU has "
         "a companion, else serial"},
    {.of = &bt_obtain_opts, .group = "Choices", .name = "npu-ops", BT_OPT_AT(config, npu_ops)},
    {.group = "Choices", .name = "any-bits", BT_OPT_AT(config, any_bits), .type = BT_OPT_FLAG,
     .help = "the best may have fewer than 8 bits of weights or 16 of KV unasked; what that does to answers "
             "no plan "
             "knows (baton perplexity)"},
    {.group = "Choices", .name = "by", .value = "WHAT", BT_OPT_AT(config, by), .type = BT_OPT_CHOICE,
     .def = "e2e", .choices = tool_plan_by_names, .help = "the figure that the best choice has least of"},
    {.of = &tool_result_opts, .group = "Choices", .name = "slo", BT_OPT_AT(config, slo),
     .help = "limits of a request (ttft, tpot, e2e); first comes what keeps them for most requests"},
    {.of = &bt_device_opts, .group = "Choices", .name = "draws", BT_OPT_AT(config, draws)},
    {.of = &tool_seed_opts, .group = "Choices", .name = "seed", BT_OPT_AT(config, seed)},
    {.of = &bt_device_opts, .group = "Choices", .name = "bounds", BT_OPT_AT(config, bounds),
     .help = "with --colocated: compare a calibrated device with one that is a bound by its data sheet"},
    {.of = &tool_output_opts, .name = "rows", BT_OPT_AT(config, rows), .def = "16", .lo = 1,
     .hi = TOOL_PLAN_MAX_CHOICES, .help = "choices in the table at most"},
    {.group = "Output", .letter = 'o', .name = "plan", .value = "FILE", BT_OPT_AT(config, output),
     .type = BT_OPT_STRING, .example = "plan.html", .help = "a page with plots of all choices (.html)"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: choices[] with shape_policy, chunk_tokens, recipe, kv_dtype, "
             "padding_ratio, ttft_ms, tpot_ms, joules, error, band, ...; best; certain; ties[]; ignored[]"},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet)},
};

const bt_opt_program tool_plan_program = {
    .name = "baton plan",
    .summary = "choose shapes, recipe, KV rows and schedule of a pair of devices for a trace (modelled)",
    .usage = "-m MODEL --prefill P --decode D --trace FILE [options]",
    .normal =
        "baton plan -m llama-3.2-1b --prefill hexagon-v75 --decode adreno-750 --link 1 --trace trace.csv",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

typedef struct reading {
    tool_plan_load *load;
    uint32_t answer_tokens;
    bool has_arrivals;
} reading;

static bt_err add_row(void *ud, const bt_trace_row *row, bt_fault *fault)
{
    reading *r = ud;
    r->has_arrivals = r->has_arrivals && row->has_arrival;
    const tool_plan_request one = {.arrival_us = row->has_arrival ? row->arrival_us : 0,
                                   .input = row->input_tokens,
                                   .output = row->has_output ? row->output_tokens : r->answer_tokens};
    return one.input ? tool_plan_load_add(r->load, &one, fault) : BT_OK;
}

static bt_err read_trace(tool_plan_load *load, const config *c, bool has_words, bt_fault *fault)
{
    const tool_trace_options o = {.format = c->format,
                                  .model = c->format == BT_TRACE_SHAREGPT && has_words ? c->model : NULL};
    reading r = {load, (uint32_t)c->answer_tokens, true};
    tool_trace_source s;
    bt_err e = tool_trace_open(&s, c->trace, &o, fault);
    if (e < 0) return e;
    e = tool_trace_each(&s, c->trace, add_row, &r, fault);
    tool_trace_warn("plan", &s);
    tool_trace_close(&s);
    load->has_arrivals = r.has_arrivals;
    return e;
}

static bt_err load_profile(bt_profile *ret, const char *name, const char *option, bt_fault *fault)
{
    const bt_err e = bt_profile_load(ret, name, fault);
    if (e < 0 || ret->time.is_given) return e;
    return bt_fail(fault, BT_EARG,
                   "--%s %s: this profile has no times; 'baton profiles' lists those that have, for example "
                   "hexagon-v75 and adreno-750",
                   option, ret->name);
}

/* The context: what was asked for, or the least power of two that holds every request, at most the model's.
 */
static bt_err context_of(size_t *ret, const config *c, uint64_t longest, uint32_t model_ctx, bt_fault *fault)
{
    uint64_t ctx = 512;
    if (c->ctx_size && model_ctx && c->ctx_size > model_ctx)
        return bt_fail(fault, BT_EARG, "--ctx-size %lld is longer than the model's context of %u tokens",
                       (long long)c->ctx_size, (unsigned)model_ctx);
    while (ctx < longest && ctx < BT_SHAPES_MAX_SEQ) ctx *= 2;
    if (c->ctx_size) ctx = (uint64_t)c->ctx_size;
    if (model_ctx && ctx > model_ctx) ctx = model_ctx;
    *ret = (size_t)ctx;
    return BT_OK;
}

typedef struct subject {
    bt_profile prefill, companion, decode;
    bt_dims dims;
    int schedule[BT_STAGE_POLICIES]; /* those to compare */
    tool_plan_load load;
    tool_plan_result result;
    tool_plan_want want;
    char instead[2][TOOL_PLAN_GROUP_BYTES]; /* of prefill and decode; "": the device that was asked for */
    json_t *made_by;
} subject;

static bt_err limits_of(tool_plan_want *w, const char *slo, bt_fault *fault)
{
    tool_replay_slo limits = {-1, -1, -1};
    const bt_err e = slo ? tool_replay_slo_read(&limits, slo, fault) : BT_OK;
    w->limits = (tool_plan_limits){limits.ttft_us, limits.tpot_us, limits.e2e_us};
    w->has_limits = slo != NULL;
    return e;
}

/* Each that is named, once. */
static bt_err schedules_of(subject *s, const config *c, bt_fault *fault)
{
    static const char *const names[] = {BT_STAGE_POLICY_NAMES};
    bool is_named[BT_STAGE_POLICIES] = {false};
    for (size_t i = 0; i < c->schedules.count; i++) {
        int k = 0;
        while (k < BT_STAGE_POLICIES && strcmp(names[k], c->schedules.items[i])) k++;
        if (k == BT_STAGE_POLICIES)
            return bt_fail(fault, BT_EARG, "--schedule '%.40s' is none of serial, fifo, ooo and split",
                           c->schedules.items[i]);
        if (!is_named[k]) s->schedule[s->want.schedules++] = k;
        is_named[k] = true;
    }
    return BT_OK;
}

/* The model in each form of weights that is compared on a side; at least one. */
static size_t forms_of(bt_price_model ret[BT_PRICE_FORMS], const subject *s, const config *c, bool is_prefill)
{
    size_t n = 0;
    for (size_t i = 0; i < BT_PRICE_FORMS; i++) {
        const bt_price_form *form = bt_price_form_at(i);
        bool is_compared = !c->recipes.count;
        for (size_t k = 0; k < c->recipes.count; k++)
            is_compared = is_compared || !strcmp(c->recipes.items[k], form->name);
        if (!is_prefill) is_compared = i == (size_t)c->weights;
        if (is_compared && bt_price_check_forms(&s->prefill, is_prefill ? form : NULL, NULL, NULL) == BT_OK)
            ret[n++] = bt_price_model_of(&s->dims, &form->recipe);
    }
    if (!n) ret[n++] = bt_price_model_of(&s->dims, &bt_price_form_at(0)->recipe); /* recipes of an NPU */
    return n;
}

/* A group that a smaller one of the same device beats is not planned. */
static void take_smaller(subject *s, const config *c, bool is_prefill)
{
    bt_profile *p = is_prefill ? &s->prefill : &s->decode, less;
    const tool_plan_load *l = &s->load;
    bt_price_model m[BT_PRICE_FORMS];
    const size_t models = forms_of(m, s, c, is_prefill);
    const tool_plan_group_load load = {
        .model = m,
        .models = models,
        .prefills = is_prefill || c->colocated,
        .decodes = !is_prefill,
        .shortest = l->length[0],
        .mean = l->input_tokens / l->n,
        .longest = l->length[l->lengths - 1],
        .batch = (uint32_t)c->slots,
        .ctx = l->step_ctx,
        .kv_bytes =
            is_prefill ? bt_time_times(m[0].kv_bytes, l->longest)
                       : bt_time_times((uint64_t)c->slots, bt_dims_kv_held(&s->dims, m[0].kv_bytes,
                                                                           l->longest, BT_DIMS_PAGE_TOKENS))};
    if (!tool_plan_group_beaten(&less, p, &load)) return;
    (void)tool_plan_group_text(s->instead[!is_prefill], &less, p);
    *p = less;
}

static bt_err prepare(subject *s, const config *c, bt_fault *fault)
{
    tool_plan_want *w = &s->want;
    uint32_t model_ctx = 0;
    *w = (tool_plan_want){.prefill = &s->prefill,
                          .decode = &s->decode,
                          .dims = &s->dims,
                          .policy = (const char *const *)c->policies.items,
                          .policies = c->policies.count,
                          .recipe = (const char *const *)c->recipes.items,
                          .recipes = c->recipes.count,
                          .attention = (const char *const *)c->attentions.items,
                          .attentions = c->attentions.count,
                          .kv = (const char *const *)c->kvs.items,
                          .kvs = c->kvs.count,
                          .decode_form = tool_plan_float_form((size_t)c->weights),
                          .slots = (uint32_t)c->slots,
                          .arenas = (size_t)c->arenas,
                          .npu_ops = (uint32_t)c->npu_ops,
                          .schedule = s->schedule,
                          .any_bits = c->any_bits,
                          .draws = (uint32_t)c->draws,
                          .seed = (uint64_t)c->seed,
                          .by = (tool_plan_by)c->by};
    bt_err e = schedules_of(s, c, fault);
    if (e == BT_OK) e = load_profile(&s->prefill, c->prefill, "prefill", fault);
    if (e == BT_OK) e = load_profile(&s->decode, c->decode, "decode", fault);
    if (e == BT_OK && c->colocated && !c->bounds)
        e = bt_forecast_check_pair(&s->prefill, &s->decode, "--bounds", fault);
    if (e == BT_OK && s->prefill.time.companion[0]) {
        e = bt_profile_companion(&s->companion, &s->prefill, fault);
        w->companion = &s->companion;
    }
    if (e == BT_OK) e = bt_link_parse(&w->link, c->link, fault);
    if (e == BT_OK) e = limits_of(w, c->slo, fault);
    if (e == BT_OK) e = tool_dims_of(&s->dims, &model_ctx, c->model, fault);
    if (e == BT_OK) e = read_trace(&s->load, c, tool_dims_is_gguf(c->model), fault);
    if (e == BT_OK) e = context_of(&w->ctx_tokens, c, tool_plan_load_longest(&s->load), model_ctx, fault);
    if (e == BT_OK) e = tool_plan_load_end(&s->load, w->ctx_tokens, c->speed, fault);
    for (int i = 0; e == BT_OK && i < 2; i++) take_smaller(s, c, i == 0);
    return e;
}

static int show(const subject *s, const config *c, bt_fault *fault)
{
    const tool_plan_report r = {.want = &s->want,
                                .load = &s->load,
                                .result = &s->result,
                                .trace = c->trace,
                                .link = c->link,
                                .decode_form = bt_price_form_names[c->weights],
                                .instead = {s->instead[0], s->instead[1]},
                                .made_by = s->made_by};
    json_t *object = tool_plan_json(&r);
    bt_err e = object ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory writing a plan");
    if (e == BT_OK && c->output) e = tool_plan_page(c->output, object, fault);
    if (e < 0) {
        json_decref(object);
        return tool_fail("plan", fault);
    }
    if (c->json) return tool_print_json("plan", object);
    json_decref(object);
    tool_plan_print(&r, (size_t)c->rows);
    if (c->output) printf("\n%s\n", c->output);
    return bt_opt_flush() != 0;
}

static bt_err set_made_by(subject *s, const bt_opt_args *args, bt_fault *fault)
{
    const bt_err e = tool_made_by(&s->made_by, args, NULL, fault);
    if (e < 0) return e;
    tool_made_by_device(s->made_by, &s->prefill);
    if (s->want.companion) tool_made_by_device(s->made_by, &s->companion);
    tool_made_by_device(s->made_by, &s->decode);
    return BT_OK;
}

static int plan(const config *c, const bt_opt_args *args)
{
    bt_fault fault = {""};
    int rc;
    subject *s = calloc(1, sizeof *s);
    bt_err e = s ? BT_OK : bt_fail(&fault, BT_ENOMEM, "out of memory planning");
    bt_wait_tell(NULL, "planning", 0, 0);
    if (e == BT_OK) e = prepare(s, c, &fault);
    if (e == BT_OK) e = set_made_by(s, args, &fault);
    if (e == BT_OK) e = tool_plan_make(&s->result, &s->want, &s->load, c->colocated, &fault);
    bt_wait_end();
    rc = e < 0 ? tool_fail("plan", &fault) : show(s, c, &fault);
    if (s) {
        tool_plan_load_done(&s->load);
        tool_plan_result_done(&s->result);
        json_decref(s->made_by);
    }
    free(s);
    return rc;
}

int tool_plan_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_plan_program, argc, argv, &c);
    if (rc >= 0) return rc;
    tool_quiet(c.quiet || c.json);
    rc = plan(&c, &args);
    bt_opt_done(&args);
    return rc;
}
