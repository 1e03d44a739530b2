/* See serve.h. */
#include "tools/cluster/serve.h"
#include "base/memory.h"
#include "base/wait.h"
#include "crypto/keys.h"
#include "device/options.h"
#include "engine/decode.h"
#include "engine/mixed.h"
#include "engine/names.h"
#include "engine/needs.h"
#include "engine/options.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pages.h"
#include "model/options.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"
#include "tools/pull/pull.h"
#include "tools/search/auto.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bt_opt rows[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(tool_serve, model),
     .help = "GGUF file, or the name of a model (baton list), such as smollm2 (also the first argument)"},
    {.of = &tool_pull_opts, .group = "Model", .name = "mirror", BT_OPT_AT(tool_serve, pull.mirror)},
    {.of = &tool_pull_opts, .group = "Model", .name = "hub", BT_OPT_AT(tool_serve, pull.hub)},
    {.of = &tool_pull_opts, .group = "Model", .name = "hub-token-file",
     BT_OPT_AT(tool_serve, pull.token_file)},
    {.of = &tool_pull_opts, .group = "Model", .name = "offline", BT_OPT_AT(tool_serve, pull.is_offline),
     .help = "ask nothing of the network, and nobody whether a model shall be fetched"},
    {.of = &bt_engine_opts, .name = "engine", BT_OPT_AT(tool_serve, engine)},
    {.of = &bt_engine_opts, .name = "decode-engine", BT_OPT_AT(tool_serve, decode)},
    {.of = &bt_engine_opts, .name = "schedule", BT_OPT_AT(tool_serve, schedule)},
    {.of = &bt_kv_dtype_opts, .name = "kv-dtype", BT_OPT_AT(tool_serve, kv_dtype)},
    {.of = &bt_model_opts, .name = "weights", BT_OPT_AT(tool_serve, weights)},
    {.of = &bt_model_opts, .name = "ctx-size", BT_OPT_AT(tool_serve, ctx_size)},
    {.of = &bt_model_opts, .name = "chat-template", BT_OPT_AT(tool_serve, chat_template)},
    BT_OPT_ALL(bt_obtain_opts, tool_serve, want, NULL),
    {.of = &bt_device_opts, .name = "decode-profile", BT_OPT_AT(tool_serve, decode_profile)},
    {.of = &bt_device_opts, .name = "link", BT_OPT_AT(tool_serve, link),
     .help = "between the two, with --decode-profile 10 where it is not given: " BT_LINK_HELP},
    {.of = &bt_device_opts, .name = "pace", BT_OPT_AT(tool_serve, pace)},
    {.of = &bt_machine_opts, .name = "threads", BT_OPT_AT(tool_serve, threads),
     .help = "compute threads of each node; 0: all cores"},
    {.of = &bt_machine_opts, .name = "kv-memory", BT_OPT_AT(tool_serve, kv_memory_bytes)},
    {.of = &bt_serving_opts, .name = "swap-memory", BT_OPT_AT(tool_serve, swap_memory_bytes)},
    {.of = &bt_machine_opts, .name = "memory", BT_OPT_AT(tool_serve, memory_bytes)},
    {.of = &bt_machine_opts, .name = "cache-limit", BT_OPT_AT(tool_serve, cache_limit_bytes)},
    {.of = &bt_serving_opts, .name = "slots", BT_OPT_AT(tool_serve, slots)},
    {.of = &bt_serving_opts, .name = "prefill-slots", BT_OPT_AT(tool_serve, prefill_slots)},
    {.of = &bt_serving_opts, .name = "share-tokens", BT_OPT_AT(tool_serve, share_tokens)},
    {.of = &bt_serving_opts, .name = "short-tokens", BT_OPT_AT(tool_serve, short_tokens)},
    {.of = &bt_serving_opts, .name = "speculate", BT_OPT_AT(tool_serve, speculate)},
    {.of = &bt_machine_opts, .name = "isa", BT_OPT_AT(tool_serve, isa)},
};
const bt_opt_group tool_serve_opts = BT_OPT_GROUP(rows);

static const bt_opt nodes[] = {
    {.group = "Nodes", .name = "prefill", .value = "N", BT_OPT_AT(tool_nodes, prefill), .type = BT_OPT_INT,
     .def = "1", .lo = 0, .hi = 31,
     .help = "prefill nodes to start; 0: decode nodes compute the prompts too"},
    {.group = "Nodes", .name = "decode", .value = "N", BT_OPT_AT(tool_nodes, decode), .type = BT_OPT_INT,
     .def = "1", .lo = 1, .hi = 31, .help = "decode nodes to start"},
    {.of = &bt_keys_opts, .group = "Nodes", .name = "keys", BT_OPT_AT(tool_nodes, keys),
     .help = "encrypt every link with the keys in this folder; those that are not there yet are made (see "
             "baton keygen)"},
};
const bt_opt_group tool_nodes_opts = BT_OPT_GROUP(nodes);

const bt_engine_facts *tool_serve_prefill(const tool_serve *s)
{
    return bt_engine_prefill(bt_engine_prefill_names[s->engine]);
}

const bt_engine_facts *tool_serve_decode(const tool_serve *s)
{
    return bt_engine_decode(bt_engine_decode_names[bt_engine_decode_beside(s->decode, s->engine)]);
}

/* Makes what engines will read of the store: decode nodes in the form that was asked for, prefill nodes in
 * f16. */
static bt_err keep_weights(const tool_serve *s, const bt_model *m, bt_pool *pool, bt_fault *fault)
{
    bt_weights_options o = {.form = bt_weights_forms[s->weights], .ctx_tokens = 1, .progress = bt_wait_tell};
    const bt_err e = tool_serve_decode(s)->has_weights ? bt_weights_keep(m, &o, pool, fault) : BT_OK;
    o.form = bt_weights_forms[BT_FORM_F16];
    return e == BT_OK && tool_serve_prefill(s)->has_weights ? bt_weights_keep(m, &o, pool, fault) : e;
}

/* The longest sequence, as each node finds it. */
static bt_err longest(size_t *ret, const tool_serve *s, const bt_model *m, bt_fault *fault)
{
    const uint32_t elem = bt_kv_dtype_wanted(s->kv_dtype);
    const uint64_t token_bytes =
        bt_kv_token_bytes(elem ? elem : 2, m->hp.layers, m->hp.kv_heads, m->hp.head_dim);
    return bt_kv_pages_longest(ret, (size_t)s->ctx_size, m->hp.ctx, s->kv_memory_bytes, token_bytes, fault);
}

/* Compiles the package where there is none, for the context that nodes will ask for. A package that cannot
 * decode is an error here, not in each node again and again. */
static bt_err keep_package(const tool_serve *s, const bt_model *m, bt_pool *pool, bt_fault *fault)
{
    bt_obtain_how how = {.pool = pool, .only_looks = true, .progress = bt_wait_tell};
    bt_pkg *p = NULL;
    const bool decodes = tool_serve_decode(s)->has_package;
    if (!decodes && !tool_serve_prefill(s)->has_package) return BT_OK;
    bt_err e = longest(&how.ctx_tokens, s, m, fault);
    if (e == BT_OK && decodes) e = bt_decode_check_want(&s->want, m, fault);
    bt_wait_tell(NULL, "opening the package", 0, 0);
    if (e == BT_OK) e = bt_obtain_open(&p, NULL, m, &s->want, &how, fault);
    if (e == BT_OK && decodes) e = bt_decode_check_package(p, how.ctx_tokens, fault);
    bt_pkg_close(p);
    return e;
}

/* Finds the errors that each node would log again and again. */
static bt_err check(const tool_serve *s, bt_fault *fault)
{
    if (tool_devices_check(s, fault) < 0) return BT_EARG;
    const bt_engine_facts *prefill = tool_serve_prefill(s), *decode = tool_serve_decode(s);
    const uint32_t elem_bytes = bt_kv_dtype_wanted(s->kv_dtype);
    for (int i = 0; elem_bytes && i < 2; i++) {
        const bt_engine_facts *f = i ? decode : prefill;
        if (bt_engine_kv(f, elem_bytes) != elem_bytes)
            return bt_fail(fault, BT_EARG,
                           "engine '%s' has no KV of %s: choose another --kv-dtype, or another engine",
                           f->name, bt_kv_dtype_choices[s->kv_dtype]);
    }
    if (s->schedule && !prefill->has_schedules)
        return bt_fail(fault, BT_EARG,
                       "--schedule %s does not fit --engine %s, whose chunks run one by one: leave "
                       "--schedule out, or take --engine npu",
                       bt_engine_schedules[s->schedule], prefill->name);
    if (!bt_engine_shares_kv(prefill, decode))
        return bt_fail(fault, BT_EARG,
                       "--decode-engine %s does not fit --engine %s: the two share no form of KV",
                       decode->name, prefill->name);
    return BT_OK;
}

/* Checks the memory of all nodes before anything is compiled, converted or started. */
static bt_err check_memory(const tool_serve *s, const bt_model *m, bt_fault *fault)
{
    bt_needs_want want[BT_NEEDS_MAX_PROCESSES];
    const size_t decode = s->decode_nodes ? s->decode_nodes : 1;
    const size_t prefill = s->colocated ? 0 : s->prefill_nodes ? s->prefill_nodes : 1;
    const bool is_local = s->colocated || s->local_prefill_below > 0;
    size_t n = 0;
    for (size_t i = 0; i < 1 + prefill + decode && n < BT_NEEDS_MAX_PROCESSES; i++) {
        const bool decodes = i > prefill, is_gateway = i == 0;
        const bool prefills = !is_gateway && (!decodes || is_local);
        want[n++] = (bt_needs_want){.prefill = prefills ? tool_serve_prefill(s)->name : NULL,
                                    .decode = decodes ? tool_serve_decode(s)->name : NULL,
                                    .weights = (bt_form)s->weights,
                                    .want = &s->want,
                                    .schedule = s->schedule,
                                    .kv_elem_bytes = bt_kv_dtype_wanted(s->kv_dtype),
                                    .ctx_tokens = (size_t)s->ctx_size,
                                    .kv_memory_bytes = s->kv_memory_bytes,
                                    .rows = BT_ENGINE_BATCH_ROWS,
                                    .threads = (size_t)s->threads};
        want[n - 1].logits_rows =
            bt_mixed_logits(want[n - 1].prefill, want[n - 1].decode, want[n - 1].weights);
    }
    return bt_needs_check(m, want, n, bt_memory_free(), fault);
}

bt_err tool_serve_prepare(tool_serve *s, bool quiet, int interrupted, bt_fault *fault)
{
    bt_model *m = NULL;
    bt_pool *pool = NULL;
    tool_cache_setup(s->cache_limit_bytes, quiet);
    bt_memory_set_free(s->memory_bytes);
    /* `baton up` is a daemon where nobody looks at it */
    bt_wait_setup(quiet                                        ? BT_WAIT_SILENT
                  : interrupted == 0 && !isatty(STDERR_FILENO) ? BT_WAIT_LOG
                                                               : BT_WAIT_STDERR);
    bt_err e = check(s, fault);
    if (e < 0) return e;
    tool_leave_on_signals(interrupted);
    e = tool_offer_model(s->model, &s->pull, fault);
    if (e == BT_OK) e = tool_open_model(&m, NULL, s->model, fault);
    if (e == BT_OK) e = bt_pool_new(&pool, (size_t)s->threads, fault);
    const tool_auto_how how = {.ctx_tokens = (size_t)s->ctx_size, .pool = pool, .quiet = quiet};
    if (e == BT_OK) e = tool_auto_resolve(NULL, s->quant, &s->want, m, &how, fault);
    if (e == BT_OK) e = check_memory(s, m, fault);
    if (e == BT_OK) e = keep_package(s, m, pool, fault);
    if (e == BT_OK) e = keep_weights(s, m, pool, fault);
    bt_wait_end();
    tool_catch_signals();
    bt_pool_free(pool);
    bt_model_close(m);
    return e;
}

static void add_want(tool_command *c, const bt_obtain_want *w)
{
    tool_command_add(c, "--shape-policy", w->shape_policy);
    tool_command_add(c, "--quant", w->quant);
    tool_command_add(c, "--attention", w->attention);
    tool_command_add(c, "--profile", w->profile);
    tool_command_add(c, "--npu-ops", bt_obtain_ops[w->npu_ops]);
    if (w->calib) tool_command_add(c, "--calib", w->calib);
    if (w->package) tool_command_add(c, "--package", w->package);
    if (w->require_npu) tool_command_add(c, "--require-npu", NULL);
}

static void add_bytes(tool_command *c, const char *option, uint64_t bytes)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, bytes);
    tool_command_add(c, option, text);
}

/* The options of a node for its time as a decode node. */
static void add_decode(tool_command *c, const tool_serve *s)
{
    tool_command_add(c, "--weights", bt_weights_forms[s->weights]);
    tool_command_add_int(c, "--slots", s->slots);
    tool_command_add_int(c, "--speculate", s->speculate);
    add_bytes(c, "--swap-memory", s->swap_memory_bytes);
}

/* The options of a node for its time as a prefill node. */
static void add_prefill(tool_command *c, const tool_serve *s)
{
    tool_command_add_int(c, "--prefill-slots", s->prefill_slots);
    tool_command_add_int(c, "--share-tokens", s->share_tokens);
    tool_command_add_int(c, "--short-tokens", s->short_tokens);
}

static void add_machine(tool_command *c, const tool_serve *s)
{
    tool_command_add(c, "--isa", s->isa);
    tool_command_add(c, "--kv-dtype", bt_kv_dtype_choices[s->kv_dtype]);
    tool_command_add_int(c, "--threads", s->threads);
    tool_command_add_int(c, "--ctx-size", s->ctx_size);
    add_bytes(c, "--kv-memory", s->kv_memory_bytes);
    add_bytes(c, "--memory", s->memory_bytes);
    add_bytes(c, "--cache-limit", s->cache_limit_bytes);
    tool_devices_add(c, s);
}

void tool_serve_node_args(tool_command *ret, const tool_serve *s, const char *role)
{
    const char *engine = tool_serve_prefill(s)->name;
    const bool is_prefill = strcmp(role, "prefill") == 0;
    add_machine(ret, s);
    add_want(ret, &s->want);
    add_decode(ret, s);
    add_prefill(ret, s);
    if (s->colocated || s->local_prefill_below > 0) tool_command_add(ret, "--local-prefill", engine);
    tool_command_add(ret, "--schedule", bt_engine_schedules[s->schedule]);
    tool_command_add(ret, is_prefill ? "--engine" : "--prefill-engine", engine);
    tool_command_add(ret, is_prefill ? "--decode-engine" : "--engine", tool_serve_decode(s)->name);
}

static void add_up(tool_command *ret, const tool_serve *s)
{
    /* no time limit: a CPU takes longer for a long prompt than the gateway's usual limit */
    static const char *const fixed[] = {"--host",       "127.0.0.1", "--port",      "0",
                                        "--timeout",    "86400s",    "--log-level", "error",
                                        "--verbose=no", "--json=no"};
    tool_command_add(ret, "--model", s->model);
    if (s->chat_template) tool_command_add(ret, "--chat-template", s->chat_template);
    tool_command_add(ret, "--engine", tool_serve_prefill(s)->name);
    tool_command_add(ret, "--schedule", bt_engine_schedules[s->schedule]);
    tool_command_add(ret, "--decode-engine", bt_engine_decode_auto_names[s->decode]);
    add_machine(ret, s);
    add_decode(ret, s);
    add_prefill(ret, s);
    add_want(ret, &s->want);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) tool_command_add(ret, fixed[i], NULL);
}

bt_err tool_serve_start(tool_background *ret, const tool_serve *s, bool quiet, bt_fault *fault)
{
    return tool_serve_start_with(ret, s, NULL, quiet, fault);
}

bt_err tool_serve_start_with(tool_background *ret, const tool_serve *options, const tool_command *more,
                             bool quiet, bt_fault *fault)
{
    tool_serve serve = *options, *s = &serve;
    bt_err e = tool_serve_prepare(s, quiet, TOOL_INTERRUPTED, fault);
    if (e < 0) return e;
    tool_command *up = calloc(1, sizeof *up);
    if (!up) return bt_fail(fault, BT_ENOMEM, "out of memory for the commands of the processes");
    add_up(up, s);
    for (size_t i = 0; more && i < more->args; i++) tool_command_add(up, more->arg[i], NULL);
    up->overflow |= more && more->overflow;
    bt_wait_tell(NULL, "starting gateway, prefill node and decode node", 0, 0);
    e = tool_background_start(ret, up, &tool_stop, fault);
    bt_wait_end();
    free(up);
    return e;
}
