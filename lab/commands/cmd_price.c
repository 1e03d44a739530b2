/* baton price: one prompt or one step of a model on a device: its time, what the time is made of, and how far
 * the real one may be from it. Modelled; nothing is run. */
#include "device/energy.h"
#include "device/forecast.h"
#include "lab/commands/dims_of.h"
#include "lab/plan/report.h"
#include "lab/simulate/prices.h"
#include "model/options.h"
#include "npu/compile/obtain.h"
#include "tools/made_by.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *device, *recipe;
    int64_t prompt, batch, context, rows;
    int weights, kv;
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(config, model), .required = true,
     .example = "llama-3.1-8b",
     .help =
         "the name of a known shape, a config.json (it ends in .json), a GGUF file (its header is enough) or "
         "the name of a model"},
    {.of = &bt_obtain_opts, .group = "Work", .name = "profile", BT_OPT_AT(config, device), .value = "DEVICE",
     .def = BT_OPT_NO_DEFAULT, .required = true, .example = "h100",
     .help = "the device, as NAME[xN][@STACK] ('baton profiles')"},
    {.of = &tool_text_opts, .group = "Work", .name = "prompt", .value = "N", BT_OPT_AT(config, prompt),
     .type = BT_OPT_INT, .lo = 0, .hi = BT_SHAPES_MAX_SEQ, .example = "2048",
     .help = "a prompt of so many tokens; 0: a step"},
    {.group = "Work", .name = "batch", .value = "B", BT_OPT_AT(config, batch), .type = BT_OPT_INT, .lo = 0,
     .hi = 1 << 20, .example = "16", .help = "a step of so many sequences, each with --context; 0: a prompt"},
    {.group = "Work", .name = "context", .value = "C", BT_OPT_AT(config, context), .type = BT_OPT_INT,
     .lo = 0, .hi = BT_SHAPES_MAX_SEQ, .example = "4096",
     .help = "positions that each sequence of a step sees, its own included"},
    {.of = &tool_output_opts, .group = "Work", .name = "rows", BT_OPT_AT(config, rows), .lo = 0,
     .hi = 1 << 20, .example = "256",
     .help = "rows of a prompt that pass together at most; with --batch rows of another prompt's begin in "
             "the same step; 0: 256 on an NPU, 8192 on a GPU, none in a step"},
    {.of = &bt_model_opts, .group = "Model", .name = "weights", BT_OPT_AT(config, weights),
     .choices = bt_price_form_names, .help = "weights of a step, and of a prompt on a GPU"},
    {.of = &bt_kv_dtype_opts, .name = "kv-dtype", BT_OPT_AT(config, kv), .choices = bt_price_kv_names,
     .help = "KV rows"},
    {.of = &bt_obtain_opts, .group = "Model", .name = "quant", BT_OPT_AT(config, recipe),
     .help = "weights and inputs of a prompt on an NPU, as in baton compile"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: ms, low_ms, high_ms, parts[], is_calibrated, error, joules, ..."},
};

const bt_opt_program tool_price_program = {
    .name = "baton price",
    .summary = "what a prompt or a step would take on a device, and where the time goes (modelled)",
    .usage = "-m MODEL --profile DEVICE (--prompt N | --batch B --context C) [options]",
    .normal = "baton price -m llama-3.1-8b --profile h100 --prompt 2048",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

enum { DRAWS = 1000, SEED = 1, CTX_LEAST = 512 };

typedef struct subject {
    tool_simulate_setup setup;
    tool_simulate_priced priced;
    bt_dims dims;
    char policy[48];
    bt_price_sum sum;
    bt_forecast_error error, error_joules;
    bool is_beyond_window;
    uint64_t low_ns, high_ns; /* nine in ten draws lie between */
    uint64_t drawn[DRAWS];
} subject;

/* Options that decide nothing of what is asked for are refused. */
static bt_err check_forms(const config *c, const bt_opt_args *args, bool has_programs, bt_fault *fault)
{
    const bool is_program = has_programs && c->prompt;
    if (!is_program && bt_opt_source_of(args, "quant") == BT_OPT_FROM_COMMAND_LINE)
        return bt_fail(fault, BT_EARG, "--quant is of a prompt on an NPU: give --weights");
    if (is_program && bt_opt_source_of(args, "weights") == BT_OPT_FROM_COMMAND_LINE)
        return bt_fail(fault, BT_EARG, "--weights is not of a prompt on an NPU: give --quant");
    if (is_program && c->rows && (c->rows < 16 || c->rows > BT_SHAPES_MAX_CHUNK || c->rows & (c->rows - 1)))
        return bt_fail(fault, BT_EARG,
                       "--rows %" PRId64 ": a program of an NPU has a power of two of rows, from 16 to %d",
                       c->rows, BT_SHAPES_MAX_CHUNK);
    return BT_OK;
}

static bt_err check(const config *c, bt_fault *fault)
{
    if (!c->prompt == !c->batch)
        return bt_fail(fault, BT_EARG, "one of --prompt N and --batch B says what is priced");
    if (!c->batch != !c->context)
        return bt_fail(fault, BT_EARG, "a step needs --batch B and --context C, and a prompt neither");
    return BT_OK;
}

/* Weights and the KV of all sequences, as nodes that are simulated have to hold them. */
static bt_err check_memory(const subject *s, const config *c, bt_fault *fault)
{
    const sim_cost *k = &s->priced.cost;
    const uint64_t all = c->prompt ? (uint64_t)c->prompt : (uint64_t)(c->batch * c->context + c->rows),
                   rows = (uint64_t)(c->prompt ? c->prompt : c->rows), /* of prompts; all are held */
        one = bt_dims_kv_held(&s->dims, k->kv_bytes, (uint64_t)c->context, BT_DIMS_PAGE_TOKENS),
                   kv = bt_price_kv_held(&k->profile.time, k->steps.model.kv_heads,
                                         bt_time_plus(bt_time_times(k->kv_bytes, rows),
                                                      bt_time_times((uint64_t)c->batch, one)));
    if (!k->memory_bytes || bt_time_plus(k->weight_bytes, kv) <= k->memory_bytes) return BT_OK;
    return bt_fail(fault, BT_ELIMIT,
                   "'%s' has %" PRIu64 " bytes of memory, and the weights of '%.40s' are %" PRIu64
                   ", the KV of %" PRIu64 " positions %" PRIu64 "; fewer of them or a larger device would do",
                   k->profile.name, k->memory_bytes, s->dims.name, k->weight_bytes, all, kv);
}

static bt_err set_up(subject *s, const config *c, const bt_opt_args *args, bt_fault *fault)
{
    tool_simulate_setup *u = &s->setup;
    const bt_price_form *form = bt_price_form_at((size_t)c->weights);
    const bt_price_kv *kv = bt_price_kv_at((size_t)c->kv);
    tool_simulate_group *g = &u->prefill.group[0];
    uint32_t model_ctx = 0;
    const uint64_t longest = (uint64_t)(c->prompt ? c->prompt : c->context);
    bt_err e = tool_simulate_device(&g->profile, c->device, fault);
    const bool has_programs = e == BT_OK && sim_cost_has_programs(&g->profile);
    if (e == BT_OK) e = check_forms(c, args, has_programs, fault);
    if (e == BT_OK) e = bt_price_check_forms(&g->profile, has_programs && c->prompt ? NULL : form, kv, fault);
    if (e == BT_OK) e = tool_dims_of(&s->dims, &model_ctx, c->model, fault);
    if (e == BT_OK && model_ctx && longest > model_ctx)
        e = bt_fail(fault, BT_EARG, "%" PRIu64 " tokens are more than the model's context of %" PRIu32,
                    longest, model_ctx);
    if (e < 0) return e;
    u->prefill.len = 1;
    u->model = &s->dims;
    u->schedule = BT_SCHEDULE_SERIAL;
    u->window = 1;
    u->recipe = c->recipe;
    u->weight_bits = form->recipe.weight_bits;
    u->weight_permille = form->recipe.weight_bytes_permille;
    u->is_float = form->recipe.is_float;
    u->kv_elem_bytes = kv->elem_bytes;
    u->is_kv_fp8 = kv->is_fp8;
    u->ctx_tokens = CTX_LEAST;
    while (u->ctx_tokens < longest) u->ctx_tokens *= 2;
    if (has_programs && c->prompt && c->rows) {
        (void)snprintf(s->policy, sizeof s->policy, "chunk:%" PRId64 "+tail", c->rows);
        u->shape_policy = s->policy;
    }
    e = tool_simulate_price_node(&s->priced, u, g, c->prompt > 0, fault);
    return e == BT_OK ? check_memory(s, c, fault) : e;
}

/* Chunk by chunk: programs, or steps of at most so many rows. */
static bt_price_sum price_prompt(const sim_cost *k, uint32_t tokens, uint32_t rows)
{
    const bt_work_programs *g = &k->programs;
    bt_price_sum sum = {0};
    for (uint32_t begin = 0; begin < tokens;) {
        bt_price_sum one;
        if (k->has_programs) {
            one = g->chunk(g->ud, 0, begin, tokens, true);
            begin += (uint32_t)g->cut(g->ud, begin, tokens).valid;
        } else {
            const uint32_t left = tokens - begin,
                           usual = (uint32_t)bt_shapes_next(&k->shapes, tokens, begin).valid,
                           valid = !rows         ? usual
                                   : rows < left ? rows
                                                 : left;
            bt_price_step step = {0};
            bt_work_step_add(&step, begin, valid, begin + valid == tokens, k->steps.model.window);
            one = bt_price_step_at(&k->steps, &step);
            begin += valid;
        }
        bt_price_sum_add(&sum, &one);
    }
    if (!k->has_programs) {
        const bt_price_sum first = {.ns = k->first_ns, .first_ns = k->first_ns,
                                    .term_ns[BT_TERM_PRODUCTS] = k->first_ns};
        bt_price_sum_add(&sum, &first);
    }
    return sum;
}

static bt_price_sum price_step(const sim_cost *k, const config *c)
{
    const uint64_t window = k->steps.model.window;
    bt_price_step step = bt_price_decode_step((uint64_t)c->batch, (uint64_t)c->context, window);
    if (c->rows) bt_work_step_add(&step, 0, (uint64_t)c->rows, 0, window);
    return bt_price_step_at(&k->steps, &step);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void judge(subject *s, const config *c)
{
    const bt_profile *p = &s->setup.prefill.group[0].profile;
    const uint64_t at_once = c->rows && c->rows < c->prompt ? (uint64_t)c->rows : (uint64_t)c->prompt;
    const bt_forecast_at prompt = {at_once, 1, (uint64_t)c->prompt, &s->dims},
                         step = {(uint64_t)(c->batch + c->rows), (uint64_t)c->batch, (uint64_t)c->context,
                                 &s->dims};
    s->is_beyond_window = bt_forecast_is_beyond_window(c->prompt ? &prompt : &step);
    s->error =
        bt_forecast_error_of(p, c->prompt ? BT_FIGURE_TTFT : BT_FIGURE_TPOT, c->prompt ? &prompt : &step);
    s->error_joules = bt_forecast_error_of(p, BT_FIGURE_JOULES, c->prompt ? &prompt : &step);
    for (uint64_t i = 0; i < DRAWS; i++) {
        const bt_forecast_draw d = bt_forecast_draw_of(p, s->error.standing, SEED, i);
        s->drawn[i] = bt_forecast_ns(&d, s->sum.term_ns);
    }
    qsort(s->drawn, DRAWS, sizeof *s->drawn, by_value);
    s->low_ns = s->drawn[bt_forecast_low(DRAWS)];
    s->high_ns = s->drawn[DRAWS - 1 - bt_forecast_low(DRAWS)];
}

static const char *const terms[] = {BT_TERM_NAMES};
static double ms(uint64_t ns) { return (double)ns / 1e6; }
static double part_of(const subject *s, int term)
{
    return s->sum.ns ? (double)s->sum.term_ns[term] / (double)s->sum.ns : 0;
}

static bt_energy energy_of(const subject *s)
{
    return bt_energy_of(&s->setup.prefill.group[0].profile.time, s->sum.ns, s->sum.ops, s->sum.bytes,
                        s->sum.ns);
}

static json_t *json_of(const subject *s, const config *c, json_t *made_by)
{
    const bt_profile *p = &s->setup.prefill.group[0].profile;
    const bt_energy e = energy_of(s);
    json_t *parts = json_array(), *o;
    for (int k = 0; k < BT_TERMS; k++)
        json_array_append_new(parts, json_pack("{s:s, s:f, s:f}", "name", terms[k], "ms",
                                               ms(s->sum.term_ns[k]), "share", part_of(s, k)));
    o = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:o, s:b, s:o, s:o, s:o, s:b, s:I, s:I, s:I}", "model",
                  s->dims.name, "profile", p->name, "stack", p->time.stack, "ms", ms(s->sum.ns), "low_ms",
                  ms(s->low_ns), "high_ms", ms(s->high_ns), "parts", parts, "is_calibrated",
                  s->error.standing == BT_STANDING_CALIBRATED, "error", bt_forecast_error_json(&s->error),
                  "joules", e.kind ? json_real((double)e.nj / 1e9) : json_null(), "ignored",
                  tool_plan_ignored(json_array(), &s->dims), "joules_of_tdp", e.kind == BT_ENERGY_TDP, "ops",
                  (json_int_t)s->sum.ops, "bytes", (json_int_t)s->sum.bytes, "passes",
                  (json_int_t)s->sum.chunks);
    if (!o) return NULL;
    json_object_set_new(o, "joules_bound", json_string(e.kind ? bt_energy_bound(&p->time) : ""));
    json_object_set_new(o, "error_joules", e.kind ? bt_forecast_error_json(&s->error_joules) : json_null());
    if (c->prompt) json_object_set_new(o, "prompt_tokens", json_integer(c->prompt));
    if (c->batch) json_object_set_new(o, "batch", json_integer(c->batch));
    if (c->batch) json_object_set_new(o, "context_tokens", json_integer(c->context));
    if (c->rows) json_object_set_new(o, "rows", json_integer(c->rows));
    json_object_set(o, "made_by", made_by);
    return o;
}

static void print_people(const subject *s, const config *c)
{
    char bar[BT_FORECAST_TEXT_BYTES], line[BT_FORECAST_LINE_BYTES];
    const bt_profile *p = &s->setup.prefill.group[0].profile;
    const bt_energy e = energy_of(s);
    printf("%s on %s (%s), ", s->dims.name, p->name, p->time.stack);
    if (c->prompt) printf("a prompt of %" PRId64 " tokens", c->prompt);
    else
        printf("a step of %" PRId64 " sequence%s of %" PRId64 " positions", c->batch,
               c->batch == 1 ? "" : "s", c->context);
    if (c->batch && c->rows) printf(" and %" PRId64 " rows of a prompt", c->rows);
    printf("; modelled, nothing was run\n%s\n", bt_forecast_standing_text(line, p));
    printf("\n%12.3f ms  %s; nine in ten draws lie from %.3f to %.3f ms\n", ms(s->sum.ns),
           bt_forecast_error_text(bar, &s->error), ms(s->low_ns), ms(s->high_ns));
    if (s->is_beyond_window)
        printf("               beyond the window of %" PRIu32 ", where no row calibrates\n", s->dims.window);
    for (int k = 0; k < BT_TERMS; k++)
        printf("%12.3f ms  %5.1f %%  %s\n", ms(s->sum.term_ns[k]), 100 * part_of(s, k), terms[k]);
    if (e.kind) {
        const char *bound = bt_energy_bound(&p->time);
        printf("%12.3f J   %s%s%s%s\n", (double)e.nj / 1e9, bt_forecast_error_text(bar, &s->error_joules),
               *bound ? "; " : "", bound,
               e.kind == BT_ENERGY_TDP ? ": by the thermal design power"
               : *bound                ? ": a byte of memory costs 5 to 100 pJ, and not so in the profile"
                                       : "");
    }
    tool_plan_ignored_print(stdout, "ignored: ", &s->dims);
}

static int price(const config *c, const bt_opt_args *args)
{
    bt_fault fault = {""};
    json_t *made_by = NULL;
    bt_err e = check(c, &fault);
    if (e < 0) {
        bt_opt_usage_error("baton price", &fault);
        return 2;
    }
    int rc = 0;
    subject *s = calloc(1, sizeof *s);
    if (!s) e = bt_fail(&fault, BT_ENOMEM, "out of memory for a price");
    if (e == BT_OK && (e = set_up(s, c, args, &fault)) == BT_EARG) {
        bt_opt_usage_error("baton price", &fault);
        rc = 2;
    }
    if (e == BT_OK) e = tool_made_by(&made_by, args, NULL, &fault);
    if (e < 0) rc = rc ? rc : tool_fail("price", &fault);
    else {
        tool_made_by_device(made_by, &s->setup.prefill.group[0].profile);
        s->sum = c->prompt ? price_prompt(&s->priced.cost, (uint32_t)c->prompt, (uint32_t)c->rows)
                           : price_step(&s->priced.cost, c);
        judge(s, c);
        if (c->json) rc = tool_print_json("price", json_of(s, c, made_by));
        else print_people(s, c), rc = bt_opt_flush() != 0;
    }
    if (s) tool_simulate_price_done(&s->priced);
    json_decref(made_by);
    free(s);
    return rc;
}

int tool_price_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_price_program, argc, argv, &c);
    if (rc >= 0) return rc;
    tool_quiet(true);
    rc = price(&c, &args);
    bt_opt_done(&args);
    return rc;
}
