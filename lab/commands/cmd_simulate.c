/* baton simulate: what a cluster of devices would do with a load, in virtual time, with the code that daemons
 * run. */
#include "base/clock.h"
#include "base/file.h"
#include "base/num.h"
#include "device/options.h"
#include "device/profile_words.h"
#include "engine/costs.h"
#include "engine/names.h"
#include "engine/options.h"
#include "engine/overlap.h"
#include "gateway/options.h"
#include "kv/kv_dtype.h"
#include "model/options.h"
#include "model/weights.h"
#include "npu/compile/obtain.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/recipe.h"
#include "lab/commands/dims_of.h"
#include "lab/plan/group.h"
#include "lab/replay/options.h"
#include "lab/replay/ramp.h"
#include "lab/simulate/load.h"
#include "lab/simulate/range.h"
#include "lab/simulate/show.h"
#include "tools/made_by.h"
#include "tools/options.h"
#include "tools/tool.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct config {
    tool_load_options load;
    gw_options gateway; /* what is taken over, and nothing else */
    bt_opt_list models;
    const char *prefill, *decode, *requests, *device, *link, *pace, *shape_policy, *recipe, *attention,
        *package, *faults, *scale, *points, *shard, *price, *plot, *overtake;
    int kv_dtype, weights, cost, schedule;
    int64_t jobs, gateways, ctx_size, slots, prefill_slots, batch_rows, growth_tokens, waiting, chunk_tokens,
        min_overlap, share_tokens, short_tokens, request_us, token_us, heartbeat_ms, drain_ms, connections,
        draws;
    uint64_t kv_memory_bytes, swap_memory_bytes, window_bytes;
    double slo_share;
    bool full, by_layer, colocated, bounds, json, quiet;
} config;

#define GATEWAY(option) BT_OPT_OF(gw_options_group, config, gateway, "Nodes", option)

static const bt_opt opts[] = {
    {.of = &bt_model_opts, .group = "Cluster", .name = "model", BT_OPT_AT(config, models),
     .type = BT_OPT_STRINGS, .required = true, .example = "llama-3.1-8b",
     .help = "the name of a known shape, a config.json (it ends in .json), a GGUF file or the name of a "
             "model; only its "
             "sizes count; again for further models, at most 8"},
    {.group = "Cluster", .name = "requests", .value = "LIST", BT_OPT_AT(config, requests),
     .type = BT_OPT_STRING, .example = "llama-3.1-8b:3,llama-3.2-1b:1",
     .help = "the model of each request, where there are several: MODEL:SHARE draws it where the trace names "
             "none, "
             "NAME=MODEL stands for the trace's NAME"},
    {.group = "Cluster", .name = "gateways", .value = "N", BT_OPT_AT(config, gateways), .type = BT_OPT_INT,
     .def = "1", .lo = 1, .hi = SIM_CLUSTER_GATEWAYS,
     .help = "gateways of each model, each with a thread of its own; requests come to them in turn"},
    {.group = "Cluster", .name = "prefill", .value = "NODES", BT_OPT_AT(config, prefill),
     .type = BT_OPT_STRING, .def = "1", .example = "8:h100",
     .help =
         "prefill nodes and their devices, as in 8:h100,8:m2-ultra, and the model of each that is not the "
         "first, as in 8:h100@llama-3.2-1b; 0: decode nodes compute the prompts too"},
    {.group = "Cluster", .name = "decode", .value = "NODES", BT_OPT_AT(config, decode), .type = BT_OPT_STRING,
     .def = "1", .example = "8:h100", .help = "decode nodes, likewise"},
    {.of = &bt_obtain_opts, .group = "Cluster", .name = "profile", BT_OPT_AT(config, device), .def = "h100",
     .help = "the device where --prefill or --decode names none"},
    {.of = &bt_device_opts, .group = "Cluster", .name = "link", BT_OPT_AT(config, link), .def = "100",
     .example = "25,10us", .help = "link of each host: " BT_LINK_HELP},
    {.of = &bt_device_opts, .group = "Cluster", .name = "pace", BT_OPT_AT(config, pace),
     .help = "as with baton replay, to compare both: devices and links K times slower, what the trace and "
             "the nodes' own times say is kept; device:K, or off"},
    {.group = "Cluster", .name = "colocated", BT_OPT_AT(config, colocated), .type = BT_OPT_FLAG,
     .help = "all nodes of both kinds compute prompts and decode: pieces of prompts and decode rows share a "
             "step"},
    {.group = "Cluster", .name = "faults", .value = "LIST", BT_OPT_AT(config, faults), .type = BT_OPT_STRING,
     .example = "kill decode 3 at 600s; slow link 2 10x for 60s",
     .help = "what goes wrong: kill or stop prefill or decode N, slow link N by Kx; 'at TIME', 'for TIME'"},

    {.group = "Cluster", .name = "scale", .value = "RULES", BT_OPT_AT(config, scale), .type = BT_OPT_STRING,
     .example = "decode 2..16 when kv>0.8 for 10s, down when kv<0.3 for 60s; start 30s",
     .help =
         "how it changes: prefill or decode A..B when kv, slots or queue passes a bound, decode@MODEL of a "
         "model that is not the first; role prefill N decode at TIME; leave decode N at TIME; start TIME"},

    {.of = &bt_kv_dtype_opts, .name = "kv-dtype", BT_OPT_AT(config, kv_dtype), .choices = bt_price_kv_names,
     .help = "KV rows, the same in all nodes: f16, int8 with a scale a head, fp8 on devices that compute in "
             "it"},
    {.of = &bt_model_opts, .name = "weights", BT_OPT_AT(config, weights), .choices = bt_price_form_names,
     .help = "weights of decode nodes, and of prefill nodes on a GPU; fp8 and nvfp4 on devices that compute "
             "in them"},
    {.of = &bt_obtain_opts, .group = "Model", .name = "quant", BT_OPT_AT(config, recipe),
     .help = "weights and inputs of prefill nodes on an NPU, as in baton compile"},
    {.of = &bt_obtain_opts, .group = "Model", .name = "attention", BT_OPT_AT(config, attention),
     .def = BT_OPT_NO_DEFAULT, .example = "sparse:0.2",
     .help = "attention of prompts on an NPU: dense, or " BT_ATTENTION_FORM
             ", as in baton compile; without it dense, or what --package does"},
    {.of = &bt_obtain_opts, .group = "Model", .name = "package", BT_OPT_AT(config, package),
     .help = "a package (see baton compile): nodes of its profile cost what its programs cost, to the "
             "nanosecond; without it programs are made of the model's sizes"},
    {.of = &bt_obtain_opts, .group = "Model", .name = "shape-policy", BT_OPT_AT(config, shape_policy),
     .def = BT_OPT_NO_DEFAULT, .example = "chunk:512+tail",
     .help = "how prefill nodes cut prompts; without it chunk:256+tail on an NPU, chunk:8192+tail on a GPU"},
    {.of = &bt_engine_opts, .name = "schedule", BT_OPT_AT(config, schedule)},
    {.of = &bt_model_opts, .name = "ctx-size", BT_OPT_AT(config, ctx_size), .def = "131072",
     .help = "longest sequence in tokens; 0: the context of a model's file, of a name 131072, or what the KV "
             "memory of the smallest node holds if that is less"},

    {.of = &bt_machine_opts, .group = "Nodes", .name = "kv-memory", BT_OPT_AT(config, kv_memory_bytes),
     .def = "0", .lo = 0, .hi = INT64_MAX,
     .help = "KV memory of each node; 0: nine tenths of what weights leave of its device's, 1G where that is "
             "unknown"},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "swap-memory", BT_OPT_AT(config, swap_memory_bytes)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "slots", BT_OPT_AT(config, slots)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "prefill-slots", BT_OPT_AT(config, prefill_slots)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "batch-rows", BT_OPT_AT(config, batch_rows)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "growth-tokens", BT_OPT_AT(config, growth_tokens)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "waiting", BT_OPT_AT(config, waiting)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "overtake", BT_OPT_AT(config, overtake)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "chunk-tokens", BT_OPT_AT(config, chunk_tokens),
     .help =
         "prompt tokens that a decode node computes between two steps at most, or in one with --colocated"},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "min-overlap", BT_OPT_AT(config, min_overlap)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "share-tokens", BT_OPT_AT(config, share_tokens)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "short-tokens", BT_OPT_AT(config, short_tokens)},
    {.of = &bt_serving_opts, .group = "Nodes", .name = "window", BT_OPT_AT(config, window_bytes)},
    {.group = "Nodes", .name = "heartbeat", .value = "TIME", BT_OPT_AT(config, heartbeat_ms),
     .type = BT_OPT_DURATION, .def = "500ms", .lo = 100, .hi = 1900,
     .help = "between two heartbeats of a node"},
    {.of = &gw_options_group, .group = "Nodes", .name = "drain-timeout", BT_OPT_AT(config, drain_ms),
     .help = "how long a node that --scale lets go, or whose role changes, lets work in progress end"},
    GATEWAY("policy"),
    GATEWAY("local-prefill-below"),
    GATEWAY("share-prefixes"),
    GATEWAY("max-queue"),
    GATEWAY("max-active"),
    {.of = &gw_options_group, .group = "Nodes", .name = "max-connections", BT_OPT_AT(config, connections),
     .def = "0", .lo = 0, .hi = 65536,
     .help = "requests that a gateway has connections for; one more fails at once; 0: all (a gateway's own "
             "default is 256)"},
    GATEWAY("timeout"),
    GATEWAY("recovery-timeout"),
    {.group = "Nodes", .name = "request-cpu", .value = "US", BT_OPT_AT(config, request_us),
     .type = BT_OPT_INT, .def = "500", .lo = 0, .hi = 1000000,
     .help = "microseconds of the gateway's one thread for a request"},
    {.group = "Nodes", .name = "token-cpu", .value = "US", BT_OPT_AT(config, token_us), .type = BT_OPT_INT,
     .def = "40", .lo = 0, .hi = 1000000, .help = "and for each token or other message of a node"},

    {.group = "Nodes", .name = "full", BT_OPT_AT(config, full), .type = BT_OPT_FLAG,
     .help = "tell every step and heartbeat when it happens, instead of leaping those that change no "
             "decision: the same answers, some ten times the events"},
    {.group = "Nodes", .name = "by-layer", BT_OPT_AT(config, by_layer), .type = BT_OPT_FLAG,
     .help = "pass each layer of a chunk on by itself, as nodes do, instead of several at a time: more "
             "events, nearly the same times"},

    {.of = &bt_device_opts, .group = "Nodes", .name = "draws", BT_OPT_AT(config, draws), .def = "0",
     .example = "20",
     .help = "the run, sweep or ramp again so often, on devices that take what they may really take by their "
             "calibration, for a band of each figure; each takes as long as the first; 0: none"},

    BT_OPT_ALL(tool_load_opts, config, load, NULL),
    {.of = &tool_load_opts, .name = "concurrency", .lo = 0, .hi = 1 << 20},
    {.of = &tool_load_opts, .name = "streams", .def = "0", .lo = 0, .hi = 1 << 20,
     .help = "requests in flight at most; more wait, which counts as their latency and is said; 0: as many "
             "as come"},
    {.of = &tool_load_opts, .name = "seed",
     .help = "seed of all that is drawn: prompts, lengths, arrivals, jitter, nodes' numbers, devices"},

    {.group = "Sweep", .name = "slo-share", .value = "X", BT_OPT_AT(config, slo_share), .type = BT_OPT_DOUBLE,
     .def = "0.99", .flo = 0.01, .fhi = 1,
     .help = "with --prefill 1..64 --decode 1..64: the share of requests that has to keep --slo"},
    {.group = "Sweep", .name = "cost", .value = "WHAT", BT_OPT_AT(config, cost), .type = BT_OPT_CHOICE,
     .def = "nodes", .choices = tool_simulate_costs,
     .help = "the figure that the cheapest cluster has least of"},
    {.group = "Sweep", .name = "price", .value = "LIST", BT_OPT_AT(config, price), .type = BT_OPT_STRING,
     .example = "h100:2.5,a100:1.2", .help = "price of a node by its device, for --cost price"},
    {.of = &bt_device_opts, .group = "Sweep", .name = "bounds", BT_OPT_AT(config, bounds),
     .help = "where prefill and decode nodes vary: compare a calibrated device with one that is a bound by "
             "its data sheet"},
    {.group = "Sweep", .name = "points", .value = "FILE", BT_OPT_AT(config, points), .type = BT_OPT_STRING,
     .example = "points.jsonl", .help = "append each cluster tried, and do not try again what is there"},
    {.group = "Sweep", .name = "shard", .value = "I/N", BT_OPT_AT(config, shard), .type = BT_OPT_STRING,
     .example = "1/8", .help = "only the I-th of N parts, from 1, as of a Slurm array; needs --points"},
    {.group = "Sweep", .name = "jobs", .value = "N", BT_OPT_AT(config, jobs), .type = BT_OPT_INT, .def = "0",
     .lo = 0, .hi = 256, .help = "processes at a time; 0: one a core"},
    {.group = "Sweep", .name = "plot", .value = "FILE", BT_OPT_AT(config, plot), .type = BT_OPT_STRING,
     .example = "sweep.html", .help = "a picture of the clusters tried and of the frontier, .svg or .html"},
    BT_OPT_ALL(tool_result_opts, config, load, NULL),
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: the keys of baton replay, virtual_seconds, joules, ..."},
    {.of = &tool_output_opts, .name = "quiet", BT_OPT_AT(config, quiet),
     .help = "nothing on stderr but faults"},
};

const bt_opt_program tool_simulate_program = {
    .name = "baton simulate",
    .summary = "what a cluster of devices would do with a trace, in virtual time",
    .usage = "TRACE -m MODEL [--prefill NODES --decode NODES] [options]",
    .normal = "baton simulate trace.jsonl -m llama-3.1-8b --prefill 8:h100 --decode 8:h100 --link 100",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_max = 1,
    .args_name = "TRACE",
};

typedef struct job {
    const config *c;
    tool_simulate_setup setup;
    tool_simulate_models models;
    uint32_t model_ctx; /* the least of the models that are files; 0: none is */
    tool_simulate_load from;
    tool_load load;
    tool_replay_plan plan;
    bt_pkg *package;
    tool_simulate_bench *bench;
    tool_replay_result result;
    tool_replay_figures figures;
    tool_simulate_facts facts;
    tool_simulate_draws draws;
    size_t varies[2];                    /* groups of a sweep */
    bool is_sweep, trades, has_told_bad; /* trades: nodes of one side for nodes of the other;
                                         has_told_bad: it has been said how many rows are */
    tool_simulate_range range;
    json_t *made_by;
} job;

/* ---- from options to a setup --------------------------------------------------------------------- */

static uint32_t nodes_of(const tool_simulate_side *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < s->len; i++) n += s->group[i].least;
    return n;
}

static void set_cluster(sim_cluster_options *o, const config *c)
{
    *o = sim_cluster_defaults();
    o->is_full = c->full;
    o->is_by_layer = c->by_layer;
    o->gateways = (uint32_t)c->gateways;
    o->prefill_slots = (uint32_t)c->prefill_slots;
    o->decode_slots = (uint32_t)c->slots;
    o->batch_rows = (uint32_t)c->batch_rows;
    o->chunk_tokens = (uint32_t)c->chunk_tokens;
    o->request_ns = c->request_us * 1000;
    o->token_ns = c->token_us * 1000;
    o->drain_ns = c->drain_ms * 1000000;
    o->gw.policy = (gw_policy)(GW_POLICY_LEAST_LOAD + c->gateway.policy);
    o->gw.local_below_tokens = (uint32_t)c->gateway.local_prefill_below;
    o->gw.queue_max = (uint32_t)c->gateway.max_queue;
    o->gw.active_max = (uint32_t)c->gateway.max_active;
    o->timeout_ns = c->gateway.timeout_ms * 1000000;
    o->gw.queue_us = c->gateway.timeout_ms * 1000;
    o->gw.recovery_us = c->gateway.recovery_ms * 1000;
    o->gw.heartbeat_us = o->pf.heartbeat_us = o->dc.heartbeat_us = c->heartbeat_ms * 1000;
    if (o->gw.cut_us <= o->gw.heartbeat_us) o->gw.cut_us = o->gw.heartbeat_us + 1;
    o->pf.min_overlap_tokens = (uint32_t)c->min_overlap;
    o->pf.share_tokens = (uint32_t)c->share_tokens;
    o->pf.short_tokens = (uint32_t)c->short_tokens;
    o->dc.growth_tokens = (uint32_t)c->growth_tokens;
    o->dc.waiting_max = (uint32_t)c->waiting;
    o->dc.window_bytes = c->window_bytes;
}

/* *ret_ctx: the least context of those that are files; 0: none is. */
static bt_err set_models(tool_simulate_setup *s, tool_simulate_models *m, uint32_t *ret_ctx, const config *c,
                         bt_fault *fault)
{
    bt_err e = BT_OK;
    *ret_ctx = 0;
    if (c->models.count > TOOL_SIMULATE_MODELS)
        return bt_fail(fault, BT_EARG, "%zu models (--model); at most %d are allowed", c->models.count,
                       TOOL_SIMULATE_MODELS);
    m->len = (uint32_t)c->models.count;
    for (uint32_t i = 0; e == BT_OK && i < m->len; i++) {
        m->given[i] = c->models.items[i];
        uint32_t ctx = 0;
        e = tool_dims_of(&m->dims[i], &ctx, m->given[i], fault);
        if (ctx && (!*ret_ctx || ctx < *ret_ctx)) *ret_ctx = ctx;
        for (uint32_t k = 0; e == BT_OK && k < i; k++)
            if (strcmp(m->given[k], m->given[i]) == 0)
                e = bt_fail(fault, BT_EARG, "--model %.60s is given twice", m->given[i]);
        if (i) s->more[s->mores++] = &m->dims[i];
    }
    s->model = &m->dims[0];
    if (e == BT_OK) e = tool_simulate_models_place(m, &s->prefill, &s->decode, c->colocated, fault);
    if (e == BT_OK && c->requests && m->len == 1)
        return bt_fail(fault, BT_EARG, "--requests shares requests between models: give --model for each");
    if (e == BT_OK && c->requests) e = tool_simulate_models_requests(m, c->requests, fault);
    if (e == BT_OK) e = tool_simulate_models_rules(m, &s->scale, fault);
    return e;
}

static bt_err check_scale(const tool_simulate_setup *s, bt_fault *fault)
{
    const tool_simulate_side *side[] = {&s->prefill, &s->decode};
    tool_simulate_has has = {{0}};
    for (size_t i = 0; i < 2; i++)
        for (size_t g = 0; g < side[i]->len; g++)
            has[side[i]->group[g].model][s->is_colocated ? 1 : i] += side[i]->group[g].least;
    return tool_simulate_scale_check(&s->scale, has, fault);
}

/* Prefill nodes with programs have their own weights, and the KV of all. */
static bt_err check_forms(const tool_simulate_setup *s, const bt_price_form *form, const bt_price_kv *kv,
                          bt_fault *fault)
{
    const tool_simulate_side *const side[] = {&s->prefill, &s->decode};
    bt_err e = BT_OK;
    for (size_t i = 0; i < 2; i++)
        for (size_t g = 0; e == BT_OK && g < side[i]->len; g++) {
            const bt_profile *p = &side[i]->group[g].profile;
            const bool has_own = i == 0 && sim_cost_has_programs(p);
            e = bt_price_check_forms(p, has_own ? NULL : form, kv, fault);
        }
    return e;
}

static bt_err set_up(job *j, const config *c, bt_fault *fault)
{
    tool_simulate_setup *s = &j->setup;
    const bt_price_form *form = bt_price_form_at((size_t)c->weights);
    const bt_price_kv *kv = bt_price_kv_at((size_t)c->kv_dtype);
    bt_err e = tool_simulate_side_read(&s->prefill, "prefill", c->prefill, c->device, fault);
    if (e == BT_OK) e = tool_simulate_side_read(&s->decode, "decode", c->decode, c->device, fault);
    if (e == BT_OK) e = bt_link_parse(&s->link, c->link, fault);
    if (e == BT_OK) e = bt_pace_parse(&s->pace, c->pace, fault);
    if (e == BT_OK && c->faults) e = tool_simulate_faults_read(&s->faults, c->faults, fault);
    if (e == BT_OK) e = tool_simulate_scale_read(&s->scale, c->scale ? c->scale : "", fault);
    if (e == BT_OK && !nodes_of(&s->decode)) e = bt_fail(fault, BT_EARG, "--decode needs at least one node");
    if (e < 0) return e;
    s->is_colocated = c->colocated;
    const uint32_t prefills = nodes_of(&s->prefill), decodes = nodes_of(&s->decode);
    e = c->colocated ? tool_simulate_faults_check(&s->faults, 0, prefills + decodes, fault)
                     : tool_simulate_faults_check(&s->faults, prefills, decodes, fault);
    if (e == BT_OK) e = set_models(s, &j->models, &j->model_ctx, c, fault);
    if (e == BT_OK) e = check_scale(s, fault);
    s->shape_policy = c->shape_policy;
    s->schedule = (bt_schedule_policy)c->schedule;
    s->window = BT_OVERLAP_WINDOW;
    s->recipe = c->recipe;
    s->attention = c->attention;
    s->weight_bits = form->recipe.weight_bits;
    s->weight_permille = form->recipe.weight_bytes_permille;
    s->is_float = form->recipe.is_float;
    s->kv_elem_bytes = kv->elem_bytes;
    s->is_kv_fp8 = kv->is_fp8;
    if (e == BT_OK) e = check_forms(s, form, kv, fault);
    s->ctx_tokens = (uint32_t)c->ctx_size;
    s->kv_memory_bytes = c->kv_memory_bytes;
    s->swap_memory_bytes = c->swap_memory_bytes;
    s->seed = (uint64_t)c->load.seed;
    s->concurrency = (uint32_t)c->load.concurrency;
    s->streams = (uint32_t)c->load.streams;
    s->connections = (uint32_t)c->connections;
    s->shares_prefixes = c->gateway.shares_prefixes;
    set_cluster(&s->cluster, c);
    if (e == BT_OK)
        e = bt_overtake_read(&s->cluster.dc.overtake_max, &s->cluster.dc.overtake_us, c->overtake, fault);
    return e;
}

/* ---- a run --------------------------------------------------------------------------------------- */

static int tell(const job *j, double wall_s, bt_fault *fault)
{
    const config *c = j->c;
    tool_replay_dialect dialect = {.takes_ids = true, .ignores_eos = true, .is_baton = true,
                                   .context_tokens = j->setup.ctx_tokens};
    const tool_replay_outcome replay = {.trace = j->from.trace ? j->from.trace : c->load.synthetic,
                                        .url = "simulated",
                                        .plan = &j->plan,
                                        .dialect = &dialect,
                                        .result = &j->result,
                                        .figures = &j->figures,
                                        .slo = c->load.slo ? &j->load.slo : NULL,
                                        .speed = c->load.speed,
                                        .concurrency = (uint32_t)c->load.concurrency,
                                        .seed = (uint64_t)c->load.seed,
                                        .made_by = j->made_by};
    (void)snprintf(dialect.model, sizeof dialect.model, "%s", j->setup.model->name);
    const tool_simulate_told run = {&replay,    &j->facts, &j->setup, &j->draws,
                                    c->prefill, c->decode, c->link,   wall_s};
    int rc = 0;
    if (c->json) rc = tool_print_json("simulate", tool_simulate_json(&run));
    else tool_simulate_print(stdout, &run);
    if (c->load.csv && tool_replay_csv(c->load.csv, &replay, fault) < 0) rc = tool_fail("simulate", fault);
    if (c->load.report && tool_simulate_report(c->load.report, &run, fault) < 0)
        rc = tool_fail("simulate", fault);
    return rc ? rc : j->figures.completed == 0;
}

/* ---- a sweep ------------------------------------------------------------------------------------- */

static void tell_progress(void *ud, size_t tried, size_t rows)
{
    (void)ud;
    fprintf(stderr, "\r%zu clusters tried, %zu rows", tried, rows);
    fflush(stderr);
}

/* Prices of the groups: those that stand, and one more node of each that varies. */
static bt_err set_rates(tool_simulate_rates *ret, const job *j, size_t prefill, size_t decode,
                        bt_fault *fault)
{
    const tool_simulate_setup *s = &j->setup;
    const tool_simulate_side *sides[] = {&s->prefill, &s->decode};
    const size_t varies[] = {prefill, decode};
    double *each[] = {&ret->prefill, &ret->decode};
    *ret = (tool_simulate_rates){.kind = (tool_simulate_cost_kind)j->c->cost};
    if (ret->kind != TOOL_SIMULATE_PRICE) return BT_OK;
    if (!j->c->price) return bt_fail(fault, BT_EARG, "--cost price needs --price, as in h100:2.5,a100:1.2");
    for (size_t i = 0; i < 2; i++)
        for (size_t g = 0; g < sides[i]->len; g++) {
            double price;
            const bt_err e = tool_simulate_price(&price, j->c->price, sides[i]->group[g].profile.name, fault);
            if (e < 0) return e;
            if (g == varies[i]) *each[i] = price;
            else ret->fixed += price * sides[i]->group[g].least;
        }
    return BT_OK;
}

static bt_err check_sweep(job *j, const config *c, bt_fault *fault)
{
    bool prefill = false, decode = false;
    size_t groups[2] = {0, 0};
    bt_err e = tool_simulate_varies(&prefill, &groups[0], &j->setup.prefill, "prefill", fault);
    if (e == BT_OK) e = tool_simulate_varies(&decode, &groups[1], &j->setup.decode, "decode", fault);
    j->is_sweep = prefill || decode;
    if (e < 0) return e;
    if (j->is_sweep && c->load.ramp)
        return bt_fail(fault, BT_EARG,
                       "--ramp finds the rate of one cluster, a sweep the cluster of one rate");
    if (!j->is_sweep && (c->points || c->shard || c->plot))
        return bt_fail(
            fault, BT_EARG,
            "--points, --shard and --plot need a sweep: give --prefill or --decode a range, as in 1..64");
    if (!j->is_sweep) return BT_OK;
    j->trades = prefill && decode;
    j->varies[0] = groups[0];
    j->varies[1] = groups[1];
    if (!c->load.slo) return bt_fail(fault, BT_EARG, "a sweep needs --slo, as in ttft:1s,tpot:60ms");
    if (c->load.csv || c->load.report)
        return bt_fail(fault, BT_EARG,
                       "--csv and --report describe one cluster, not a sweep: leave them out");
    if (c->scale)
        return bt_fail(fault, BT_EARG, "--scale changes one cluster, not a sweep: leave --scale out");
    if (c->shard && !c->points)
        return bt_fail(fault, BT_EARG, "--shard needs --points, where its part is kept");
    if (c->shard && tool_simulate_shard_read(&j->range.shard, c->shard, fault) < 0) return BT_EARG;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    j->range.jobs = c->jobs ? (uint32_t)c->jobs : cores > 0 ? (uint32_t)cores : 1;
    j->range.share = c->slo_share;
    j->range.draws = (uint32_t)c->draws;
    j->range.points_path = c->points;
    j->range.progress = c->quiet || c->json || !isatty(2) ? NULL : tell_progress;
    return set_rates(&j->range.rates, j, groups[0], groups[1], fault);
}

static int sweep(job *j, bt_fault *fault)
{
    tool_simulate_found found;
    tool_simulate_range *r = &j->range;
    int rc = 0;
    r->bench = j->bench;
    r->setup = &j->setup;
    r->plan = &j->plan;
    r->slo = &j->load.slo;
    r->made_by = j->made_by;
    r->key = tool_simulate_key(r);
    bt_err e = tool_simulate_range_run(&found, r, fault);
    if (r->progress) fputc('\n', stderr);
    if (e == BT_OK && j->c->plot) e = tool_simulate_found_plot(j->c->plot, &found, r, fault);
    if (e < 0) rc = tool_fail("simulate", fault);
    else if (j->c->json) rc = tool_print_json("simulate", tool_simulate_found_json(&found, r));
    else tool_simulate_found_print(stdout, &found, r);
    if (rc == 0 && !found.len) rc = 1;
    tool_simulate_found_done(&found);
    return rc;
}

/* ---- the load, once or again and again ----------------------------------------------------------- */

/* Reads what --speed, or a step of --ramp, makes of the load. */
static bt_err read_load(job *j, double speed, bt_fault *fault)
{
    uint64_t bad = 0;
    tool_replay_plan_done(&j->plan);
    j->from.how.speed = speed;
    bt_err e = tool_simulate_load_read(&j->plan, &bad, &j->from, fault);
    if (e == BT_OK) e = tool_simulate_models_assign(&j->plan, &j->models, (uint64_t)j->c->load.seed, fault);
    if (e == BT_OK) e = tool_replay_keys_assign(&j->plan, &j->load.keys, (uint64_t)j->c->load.seed, fault);
    if (e == BT_OK && bad && !j->has_told_bad && !j->c->quiet)
        fprintf(stderr, "%llu bad rows passed over\n", (unsigned long long)bad);
    j->has_told_bad = true;
    return e;
}

static bt_err play(job *j, bt_fault *fault)
{
    tool_replay_result_done(&j->result);
    bt_err e = tool_replay_result_begin(&j->result, j->plan.len, fault);
    if (e == BT_OK) e = tool_simulate_play(&j->facts, &j->result, j->bench, &j->plan, NULL, NULL, fault);
    if (e == BT_OK)
        e = tool_replay_figures_of(&j->figures, &j->result, j->c->load.slo ? &j->load.slo : NULL, fault);
    return e;
}

/* No sweep and no ramp offers a group that a smaller one of the same device beats. */
static bt_err check_groups(const job *j, bt_fault *fault)
{
    const tool_simulate_setup *s = &j->setup;
    const tool_simulate_side *const side[] = {&s->prefill, &s->decode};
    const tool_replay_plan *plan = &j->plan;
    tool_plan_group_load load = {.shortest = UINT64_MAX, .batch = (uint32_t)j->c->slots};
    uint64_t prompts = 0, ctx = 0, most = 0;
    for (size_t i = 0; i < plan->len; i++) {
        const uint64_t n = plan->item[i].prompt_tokens, all = n + plan->item[i].output_tokens;
        if (n < load.shortest) load.shortest = n;
        if (n > load.longest) load.longest = n;
        if (all > most) most = all;
        prompts += n;
        ctx += all;
    }
    load.mean = plan->len ? prompts / plan->len : 0;
    load.ctx = plan->len ? ctx / plan->len : 0;
    for (size_t i = 0; plan->len && i < 2; i++)
        for (size_t g = 0; g < side[i]->len; g++) {
            const bt_dims *d = tool_simulate_dims(s, side[i]->group[g].model);
            const bt_profile *p = &side[i]->group[g].profile;
            bt_price_model m = bt_price_model_of(d, &bt_price_form_at((size_t)j->c->weights)->recipe);
            char text[TOOL_PLAN_GROUP_BYTES];
            bt_profile less;
            m.kv_bytes = bt_price_kv_bytes(bt_price_kv_at((size_t)j->c->kv_dtype), d);
            load.model = &m;
            load.models = 1;
            load.prefills = i == 0 || s->is_colocated || !s->prefill.len;
            load.decodes = i == 1 || s->is_colocated;
            load.kv_bytes =
                load.decodes
                    ? bt_time_times(load.batch, bt_dims_kv_held(d, m.kv_bytes, most, BT_DIMS_PAGE_TOKENS))
                    : bt_time_times(m.kv_bytes, most);
            if (tool_plan_group_beaten(&less, p, &load))
                return bt_fail(
                    fault, BT_EARG,
                    "--%s: %s; give the smaller one, as no sweep or ramp offers a group that it beats",
                    i ? "decode" : "prefill", tool_plan_group_text(text, &less, p));
        }
    return BT_OK;
}

/* Each step begins with a fresh cluster, so all steps have the same requests. */
static bt_err play_step(void *ud, tool_replay_tried *ret, double speed, uint32_t step, bt_fault *fault)
{
    job *j = ud;
    (void)step;
    bt_err e = read_load(j, speed, fault);
    if (e == BT_OK) e = play(j, fault);
    if (e == BT_OK) *ret = (tool_replay_tried){j->figures, tool_replay_offered(&j->plan)};
    return e;
}

static void draw_step(void *ud, uint64_t number)
{
    tool_simulate_bench_draw(((job *)ud)->bench, true, number);
}

static int ramp_up(job *j, bt_fault *fault)
{
    const config *c = j->c;
    json_t *ignored = tool_simulate_ignored(&j->setup),
           *error = tool_simulate_errors(&j->setup, &j->plan, NULL);
    const tool_replay_ramp_job ramp = {.command = "simulate",
                                       .slo = c->load.slo,
                                       .speed = c->load.speed,
                                       .share = c->load.ramp_share,
                                       .json = c->json,
                                       .ignored = ignored,
                                       .error = error,
                                       .made_by = j->made_by,
                                       .run = play_step,
                                       .ud = j,
                                       .draws = (uint32_t)c->draws,
                                       .seed = (uint64_t)c->load.seed,
                                       .draw = draw_step};
    const int rc = tool_replay_ramp_run(&ramp, fault);
    json_decref(ignored);
    json_decref(error);
    if (!c->json) tool_simulate_errors_print(stdout, &j->setup, &j->plan, NULL, false);
    if (!c->json) tool_simulate_ignored_print(stdout, &j->setup);
    return rc;
}

static int work(job *j, bt_fault *fault)
{
    const config *c = j->c;
    bt_err e = BT_OK;
    if (j->trades && !c->bounds)
        e = bt_forecast_check_pair(&j->setup.prefill.group[j->varies[0]].profile,
                                   &j->setup.decode.group[j->varies[1]].profile, "--bounds", fault);
    if (e == BT_OK && c->package) e = bt_pkg_open(&j->package, c->package, fault);
    j->setup.package = j->package;
    if (e == BT_OK && !j->setup.ctx_tokens) e = tool_simulate_set_context(&j->setup, j->model_ctx, fault);
    j->from.how.context_tokens = j->setup.ctx_tokens;
    if (e == BT_OK) e = tool_simulate_bench_new(&j->bench, &j->setup, fault);
    if (e == BT_OK) e = read_load(j, c->load.speed, fault);
    if (e == BT_OK && (c->load.ramp || j->is_sweep)) e = check_groups(j, fault);
    if (e == BT_OK && c->load.ramp) return ramp_up(j, fault);
    if (e == BT_OK && j->is_sweep) return sweep(j, fault);
    const int64_t before = bt_clock_us();
    if (e == BT_OK) e = play(j, fault);
    const double wall_s = (double)(bt_clock_us() - before) / 1e6;
    if (e == BT_OK)
        e = tool_simulate_draws_play(&j->draws, j->bench, &j->plan, c->load.slo ? &j->load.slo : NULL,
                                     (uint32_t)c->draws, (uint64_t)c->load.seed, fault);
    if (e < 0) return tool_fail("simulate", fault);
    return tell(j, wall_s, fault);
}

static bt_err check(job *j, const config *c, bt_fault *fault)
{
    if (tool_load_check(&j->load, &c->load, j->from.trace, fault) < 0) return BT_EARG;
    j->from.synthetic = &j->load.synthetic;
    j->from.format = c->load.format;
    j->from.skips_bad = c->load.skip_bad;
    j->from.limit = (size_t)c->load.limit;
    j->from.how = j->load.how;
    const bt_err e = set_up(j, c, fault);
    return e == BT_OK ? check_sweep(j, c, fault) : e;
}

static bt_err set_made_by(job *j, const bt_opt_args *args, bt_fault *fault)
{
    const tool_simulate_side *const side[] = {&j->setup.prefill, &j->setup.decode};
    const bt_err e = tool_made_by(&j->made_by, args, NULL, fault);
    for (size_t i = 0; e == BT_OK && i < 2; i++)
        for (size_t g = 0; g < side[i]->len; g++) tool_made_by_device(j->made_by, &side[i]->group[g].profile);
    return e;
}

static bt_err try_files(const config *c, bt_fault *fault)
{
    const char *const written[] = {c->load.csv, c->load.report, c->plot};
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < sizeof written / sizeof *written; i++)
        if (written[i]) e = bt_file_try(written[i], fault);
    return e;
}

int tool_simulate_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    int rc = bt_opt_start(&args, &tool_simulate_program, argc, argv, &c);
    if (rc >= 0) return rc;
    job *j = calloc(1, sizeof *j);
    if (!j) {
        (void)bt_fail(&fault, BT_ENOMEM, "out of memory for a simulation");
        rc = tool_fail("simulate", &fault);
    } else {
        j->c = &c;
        j->from.trace = args.count ? args.args[0] : NULL;
        if (try_files(&c, &fault) < 0) {
            rc = tool_fail("simulate", &fault);
        } else if (check(j, &c, &fault) < 0) {
            bt_opt_usage_error("baton simulate", &fault);
            rc = 2;
        } else if (set_made_by(j, &args, &fault) < 0) {
            rc = tool_fail("simulate", &fault);
        } else {
            rc = work(j, &fault);
        }
        json_decref(j->made_by);
        tool_simulate_bench_free(j->bench);
        bt_pkg_close(j->package);
        tool_replay_plan_done(&j->plan);
        tool_replay_result_done(&j->result);
        tool_simulate_draws_done(&j->draws);
    }
    free(j);
    bt_opt_done(&args);
    return rc;
}
