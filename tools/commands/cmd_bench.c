/* baton bench: how fast prompts and generated tokens are computed here, beside what this machine could do at
 * most, in one process. A kernel is timed only after its bits were compared with ref's. */
#include "base/cache_files.h"
#include "base/memory.h"
#include "base/wait.h"
#include "engine/names.h"
#include "engine/options.h"
#include "kv/kv_dtype.h"
#include "model/options.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"
#include "tools/bench/bench_check.h"
#include "tools/bench/bench_kernels.h"
#include "tools/bench/bench_list.h"
#include "tools/bench/bench_print.h"
#include "tools/commands/tell_needs.h"
#include "tools/made_by.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    const char *model, *isa, *core, *prompts, *gens, *depths, *batches, *threads, *weights, *schedules;
    int engine, decode, kv_dtype, format;
    int64_t repetitions;
    uint64_t cache_limit_bytes, memory_bytes;
    bt_obtain_want want;
    bool kernels, json, quiet;
} config;

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(config, model), .def = "smollm2"},
    {.of = &bt_engine_opts, .name = "engine", BT_OPT_AT(config, engine)},
    {.of = &bt_engine_opts, .name = "decode-engine", BT_OPT_AT(config, decode),
     .def = BT_ENGINE_DEFAULT_DECODE, .choices = bt_engine_decode_names,
     .help = "what generates: f16 kernels, or the integer NPU, where its package has rows of one token (see "
             "--shape-policy)"},
    {.of = &bt_model_opts, .name = "weights", .value = "LIST", BT_OPT_AT(config, weights),
     .type = BT_OPT_STRING, .help = "weights of decoding with host: some of f16, int8, fp4"},
    {.of = &bt_kv_dtype_opts, .name = "kv-dtype", BT_OPT_AT(config, kv_dtype)},
    BT_OPT_ALL(bt_obtain_opts, config, want, NULL),
    {.group = "Tests", .letter = 'p', .name = "n-prompt", .value = "LIST", BT_OPT_AT(config, prompts),
     .type = BT_OPT_STRING, .def = "512", .help = "tokens of a prompt, such as 512,2048; 0: none"},
    {.group = "Tests", .letter = 'n', .name = "n-gen", .value = "LIST", BT_OPT_AT(config, gens),
     .type = BT_OPT_STRING, .def = "128", .help = "generated tokens of each sequence; 0: none"},
    {.group = "Tests", .name = "batch", .value = "LIST", BT_OPT_AT(config, batches), .type = BT_OPT_STRING,
     .def = "1",
     .help = "sequences that generate together; prompts run as a batch where the package has rows for it"},
    {.group = "Tests", .letter = 'd', .name = "n-depth", .value = "LIST", BT_OPT_AT(config, depths),
     .type = BT_OPT_STRING, .def = "0", .help = "tokens that each sequence has before"},
    {.of = &bt_engine_opts, .group = "Tests", .name = "schedule", .value = "LIST",
     BT_OPT_AT(config, schedules), .type = BT_OPT_STRING,
     .help = "orders of a prompt's chunks with npu, each a row: some of serial, fifo, ooo"},
    {.group = "Tests", .letter = 'r', .name = "repetitions", .value = "N", BT_OPT_AT(config, repetitions),
     .type = BT_OPT_INT, .def = "5", .lo = 1, .hi = TOOL_BENCH_MAX_REPETITIONS,
     .help = "runs of each test, after one that does not count; the median is printed"},
    {.group = "Tests", .name = "kernels", BT_OPT_AT(config, kernels), .type = BT_OPT_FLAG,
     .help = "the kernels alone instead, on the model's shapes: a row for each"},
    {.of = &bt_machine_opts, .name = "threads", .value = "LIST", BT_OPT_AT(config, threads),
     .type = BT_OPT_STRING, .help = "compute threads, such as 1,2; 0: all cores"},
    {.of = &bt_machine_opts, .name = "isa", BT_OPT_AT(config, isa)},
    {.group = "Machine", .name = "core", .value = "NAME", BT_OPT_AT(config, core), .type = BT_OPT_STRING,
     .def = "auto",
     .help = "choices of the kernels: auto, as on " BT_ENGINE_CORE_NAMES "; the results are the same"},
    {.of = &bt_machine_opts, .name = "cache-limit", BT_OPT_AT(config, cache_limit_bytes)},
    {.of = &bt_machine_opts, .name = "memory", BT_OPT_AT(config, memory_bytes)},
    {.group = "Output", .letter = 'o', .name = "output", .value = "FORMAT", BT_OPT_AT(config, format),
     .type = BT_OPT_CHOICE, .def = "md", .choices = tool_bench_formats,
     .help = "a Markdown table, CSV, or a JSON array of rows"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "instead one JSON object on stdout: the machine with the first number of threads, and rows"},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet)},
};

const bt_opt_program tool_bench_program = {
    .name = "baton bench",
    .summary = "measure speed beside this machine's limits",
    .usage = "[-m MODEL] [options]",
    .normal = "baton bench -m smollm2 -p 512 -n 64 --weights f16,int8,fp4 -t 1,2",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

typedef struct bench {
    const config *c;
    tool_list prompts, gens, depths, batches, threads, weights, schedules;
    bt_model *model;
    tool_bench_setup setup;
    const bt_kernels *kernels;
    bt_pool *pool[TOOL_LIST_MAX];        /* of each entry of threads */
    tool_machine machine[TOOL_LIST_MAX]; /* they share the memory of the first */
    bt_pkg *pkg;                         /* of engines that run one */
    tool_bench_about about;
    tool_bench_printer out;
    json_t *made_by;
} bench;

static bt_err parse(bench *b, bt_fault *fault)
{
    const config *c = b->c;
    bt_err e = tool_list_numbers(&b->prompts, "n-prompt", c->prompts, 0, BT_MODEL_MAX_CTX, "512,2048", fault);
    if (e == BT_OK) e = tool_list_numbers(&b->gens, "n-gen", c->gens, 0, BT_MODEL_MAX_CTX, "64,128", fault);
    if (e == BT_OK)
        e = tool_list_numbers(&b->depths, "n-depth", c->depths, 0, BT_MODEL_MAX_CTX, "0,1024", fault);
    if (e == BT_OK)
        e = tool_list_numbers(&b->batches, "batch", c->batches, 1, BT_DECODE_MAX_ROWS, "1,16", fault);
    if (e == BT_OK) e = tool_list_numbers(&b->threads, "threads", c->threads, 0, 256, "1,2", fault);
    if (e == BT_OK) e = tool_list_words(&b->weights, "weights", c->weights, bt_weights_forms, fault);
    if (e == BT_OK) e = tool_list_words(&b->schedules, "schedule", c->schedules, bt_engine_schedules, fault);
    if (e == BT_OK && !bt_kernels_use_core(c->core))
        e = bt_fail(fault, BT_EARG, "--core %s is not one of auto, " BT_ENGINE_CORE_NAMES, c->core);
    if (e == BT_OK && !(b->kernels = bt_kernels_select(c->isa)))
        e = bt_fail(fault, BT_EARG, "--isa %s is not one of " BT_KERNELS_NAMES " that this machine can run",
                    c->isa);
    return e;
}

static size_t most(const tool_list *l)
{
    size_t m = 0;
    for (size_t i = 0; i < l->count; i++) m = l->value[i] > m ? l->value[i] : m;
    return m;
}

static bt_err set_made_by(bench *b, const bt_opt_args *args, bt_fault *fault)
{
    const bt_err e = tool_made_by(&b->made_by, args, b->kernels->isa, fault);
    if (e == BT_OK) tool_made_by_profile(b->made_by, b->c->want.profile);
    return e;
}

/* The model, its longest sequence, and a pool for each number of threads. */
static bt_err prepare(bench *b, bt_fault *fault)
{
    enum { CHECKED_TOKENS = 16 }; /* the check needs fewer */
    const size_t run = most(&b->prompts) > most(&b->gens) ? most(&b->prompts) : most(&b->gens),
                 ctx = most(&b->depths) + run;
    bt_err e = tool_open_model(&b->model, NULL, b->c->model, fault);
    if (e < 0) return e;
    if (ctx > b->model->hp.ctx)
        return bt_fail(fault, BT_ELIMIT,
                       "%zu tokens with %zu before them do not fit this model's context of %u tokens", run,
                       most(&b->depths), b->model->hp.ctx);
    b->setup = (tool_bench_setup){.model = b->model,
                                  .engine = bt_engine_prefill_names[b->c->engine],
                                  .decode = bt_engine_decode_names[b->c->decode],
                                  .want = b->c->want,
                                  .kv_elem_bytes = bt_kv_dtype_wanted(b->c->kv_dtype),
                                  .ctx_tokens = ctx > CHECKED_TOKENS ? ctx : CHECKED_TOKENS,
                                  .batch_max = most(&b->batches)};
    b->about = (tool_bench_about){b->kernels->isa, b->model};
    if (b->model->hp.experts && !b->c->kernels) b->out.column = tool_bench_expert_columns;
    for (size_t i = 0; e == BT_OK && i < b->threads.count; i++)
        e = bt_pool_new(&b->pool[i], b->threads.value[i], fault);
    return e;
}

/* For the check: its bits depend on no thread, and with the most it is soonest done. */
static bt_pool *largest_pool(const bench *b)
{
    bt_pool *p = b->pool[0];
    for (size_t i = 1; i < b->threads.count; i++)
        if (bt_pool_threads(b->pool[i]) > bt_pool_threads(p)) p = b->pool[i];
    return p;
}

/* Engines are opened one after the other: the form of weights with the largest. */
static bt_err tell_needs(const bench *b, bt_fault *fault)
{
    const size_t batch = most(&b->batches);
    const bool decodes = most(&b->gens) && !b->c->kernels;
    size_t form = b->weights.value[0];
    for (size_t i = 1; i < b->weights.count; i++)
        if (b->weights.value[i] < form) form = b->weights.value[i]; /* f16 first */
    const bt_needs_want want = {.prefill = most(&b->prompts) && !b->c->kernels ? b->setup.engine : NULL,
                                .decode = decodes ? b->setup.decode : NULL,
                                .weights = (bt_form)form,
                                .want = &b->c->want,
                                .kv_elem_bytes = b->setup.kv_elem_bytes,
                                .ctx_tokens = b->setup.ctx_tokens,
                                .rows = batch,
                                .threads = bt_pool_threads(largest_pool(b)),
                                .sequences = decodes ? batch : 1};
    if (!want.prefill && !want.decode) return BT_OK;
    return tool_tell_needs("bench", b->model, &want, 1, b->c->quiet, fault);
}

/* Once for all engines that run it. */
static bt_err open_package(bench *b, bt_fault *fault)
{
    const bt_obtain_how how = {.ctx_tokens = b->setup.ctx_tokens, .pool = largest_pool(b),
                               .progress = bt_wait_tell};
    const bool of_prompts = bt_engine_prefill(b->setup.engine)->has_package && most(&b->prompts),
               of_decoding = bt_engine_decode(b->setup.decode)->has_package && most(&b->gens);
    if (b->c->kernels || (!of_prompts && !of_decoding)) return BT_OK;
    bt_err e = of_decoding ? bt_decode_check_want(&b->c->want, b->model, fault) : BT_OK;
    if (e == BT_OK) e = bt_obtain_open(&b->pkg, NULL, b->model, &b->c->want, &how, fault);
    bt_wait_end();
    b->setup.pkg = b->pkg;
    return e;
}

/* The i-th form of weights that is decoded with; NULL of an engine that has its own. false: no more. */
static bool has_weights(const bench *b, size_t i, const char **ret)
{
    const bool has_forms = bt_engine_decode(b->setup.decode)->has_weights;
    if (i >= (has_forms ? b->weights.count : 1)) return false;
    *ret = has_forms ? bt_weights_forms[b->weights.value[i]] : NULL;
    return true;
}

static bt_err check(const bench *b, bt_fault *fault)
{
    const char *weights;
    bt_wait_tell(NULL, "checking the kernels against ref", 0, 0);
    bt_err e = tool_kernels_check(b->kernels, &b->model->hp, fault);
    bt_wait_tell(NULL, "checking prefill", 0, 0);
    if (e == BT_OK && !b->c->kernels && most(&b->prompts))
        e = tool_bench_check_prefill(&b->setup, b->kernels->isa, largest_pool(b), fault);
    for (size_t i = 0; e == BT_OK && !b->c->kernels && most(&b->gens) && has_weights(b, i, &weights); i++) {
        bt_wait_tell(NULL, "checking decoding", 0, 0);
        e = tool_bench_check_decode(&b->setup, weights, b->kernels->isa, largest_pool(b), fault);
    }
    bt_wait_end();
    return e;
}

/* The limits of each number of threads; a table of their own where people read. */
static bt_err measure(bench *b, bt_fault *fault)
{
    tool_bench_printer limits = {.to = stdout, .format = TOOL_BENCH_MD, .column = tool_bench_limit_columns};
    tool_machine first;
    const bt_err e = tool_machine_init(&first, b->kernels, fault);
    if (e < 0) return e;
    for (size_t i = 0; i < b->threads.count; i++) {
        bt_wait_tell(NULL, "measuring the machine", 0, 0);
        b->machine[i] = first;
        tool_machine_measure(&b->machine[i], b->pool[i]);
        bt_wait_end();
        if (b->out.format != TOOL_BENCH_MD) continue;
        json_t *row = tool_bench_about_json(&b->about, &b->machine[i]);
        if (i == 0 && row)
            printf("%s, %s; baton %s; checked against ref\ncore %s\n\n",
                   json_string_value(json_object_get(row, "cpu")), b->kernels->isa, BT_VERSION,
                   json_string_value(json_object_get(row, "core")));
        tool_bench_print_row(&limits, row);
    }
    if (b->out.format == TOOL_BENCH_MD) putchar('\n');
    if (b->out.format == TOOL_BENCH_OBJECT)
        tool_bench_print_machine(&b->out, tool_bench_machine_json(&b->about, &b->machine[0]), b->made_by);
    b->out.failed |= limits.failed;
    return BT_OK;
}

/* Times one row, by one of the two engines. */
static bt_err row(bench *b, bt_prefill *p, bt_decode *d, const tool_machine *m, size_t tokens, size_t depth,
                  size_t batch, bt_fault *fault)
{
    tool_bench_row *r = calloc(1, sizeof *r);
    if (!r) return bt_fail(fault, BT_ENOMEM, "out of memory for a row");
    *r = (tool_bench_row){.prefill = p,
                          .tokens = tokens,
                          .depth = depth,
                          .batch = batch,
                          .schedule = p ? bt_engine_schedules[b->setup.schedule] : NULL,
                          .repetitions = (size_t)b->c->repetitions};
    const bt_err e = p ? tool_bench_time_prefill(r, p, &b->setup, m, fault)
                       : tool_bench_time_decode(r, d, &b->setup, m, fault);
    if (e == BT_OK) tool_bench_print_row(&b->out, tool_bench_row_json(&b->about, m, r));
    free(r);
    return e;
}

static bt_err prompts(bench *b, size_t threads, size_t schedule, bt_fault *fault)
{
    b->setup.schedule = (bt_schedule_policy)schedule;
    const tool_machine *m = &b->machine[threads];
    bt_prefill *engine = NULL;
    bt_err e = tool_bench_open_prefill(&engine, &b->setup, b->kernels->isa, m->pool, fault);
    const size_t batch_max = e == BT_OK && !bt_prefill_packed_rows(engine) ? bt_prefill_batch_max(engine) : 1;
    for (size_t d = 0; d < b->depths.count; d++)
        for (size_t p = 0; e == BT_OK && p < b->prompts.count; p++) {
            if (!b->prompts.value[p]) continue;
            e = row(b, engine, NULL, m, b->prompts.value[p], b->depths.value[d], 1, fault);
            if (e == BT_OK && batch_max > 1) /* a package with batches */
                e = row(b, engine, NULL, m, b->prompts.value[p], b->depths.value[d], batch_max, fault);
        }
    bt_prefill_free(engine);
    return e;
}

static bt_err gens(bench *b, size_t threads, const char *weights, bt_fault *fault)
{
    const tool_machine *m = &b->machine[threads];
    bt_decode *engine = NULL;
    bt_err e = tool_bench_open_decode(&engine, &b->setup, weights, b->kernels->isa, m->pool, fault);
    for (size_t d = 0; d < b->depths.count; d++)
        for (size_t n = 0; n < b->gens.count; n++)
            for (size_t i = 0; e == BT_OK && b->gens.value[n] && i < b->batches.count; i++)
                e = row(b, NULL, engine, m, b->gens.value[n], b->depths.value[d], b->batches.value[i], fault);
    bt_decode_free(engine);
    return e;
}

typedef struct figures {
    bench *b;
    const tool_machine *m;
} figures;

static void on_figure(void *ud, const tool_figure *f)
{
    const figures *to = ud;
    tool_bench_print_row(&to->b->out, tool_bench_figure_json(&to->b->about, to->m, f));
}

static bt_err time_all(bench *b, bt_fault *fault)
{
    const char *weights;
    bt_err e = BT_OK;
    for (size_t t = 0; e == BT_OK && t < b->threads.count; t++) {
        if (b->c->kernels) {
            figures to = {b, &b->machine[t]};
            e = tool_kernels_time(&b->machine[t], &b->model->hp, on_figure, &to, fault);
            continue;
        }
        for (size_t s = 0; e == BT_OK && most(&b->prompts) && s < b->schedules.count; s++)
            e = prompts(b, t, b->schedules.value[s], fault);
        for (size_t w = 0; e == BT_OK && most(&b->gens) && has_weights(b, w, &weights); w++)
            e = gens(b, t, weights, fault);
    }
    return e;
}

int tool_bench_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_bench_program, argc, argv, &c);
    if (rc >= 0) return rc;
    bench b = {.c = &c,
               .out = {.to = stdout, .format = c.json ? TOOL_BENCH_OBJECT : (tool_bench_format)c.format,
                       .column = c.kernels ? tool_bench_figure_columns : tool_bench_row_columns}};
    tool_quiet(c.quiet);
    bt_memory_set_free(c.memory_bytes);
    tool_cache_setup(c.cache_limit_bytes, c.quiet);
    if (parse(&b, &fault) < 0) {
        bt_opt_usage_error(tool_bench_program.name, &fault);
        rc = 2;
    } else if (set_made_by(&b, &args, &fault) < 0 || prepare(&b, &fault) < 0 || tell_needs(&b, &fault) < 0 ||
               open_package(&b, &fault) < 0 || check(&b, &fault) < 0 || measure(&b, &fault) < 0 ||
               time_all(&b, &fault) < 0) {
        rc = tool_fail("bench", &fault);
    } else {
        tool_bench_print_end(&b.out);
        rc = b.out.failed;
        if (rc && !ferror(stdout)) fprintf(stderr, "baton bench: out of memory\n");
    }
    tool_machine_done(&b.machine[0]);
    for (size_t i = 0; i < b.threads.count; i++) bt_pool_free(b.pool[i]);
    json_decref(b.made_by);
    bt_pkg_close(b.pkg);
    bt_model_close(b.model);
    bt_opt_done(&args);
    return rc;
}
