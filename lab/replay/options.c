/* One row for each option of a load, and the rules between them. */
#include "lab/replay/options.h"
#include "base/num.h"
#include "tools/options.h"
#include "lab/replay/load.h"
#include "trace/reader.h"

#include <string.h>

static const bt_opt load[] = {
    {.group = "Load", .name = "format", .value = "FORMAT", BT_OPT_AT(tool_load_options, format),
     .type = BT_OPT_CHOICE, .def = "auto", .choices = bt_trace_format_names,
     .help = "format of the trace; auto: known by its first line"},
    {.group = "Load", .name = "skip-bad", BT_OPT_AT(tool_load_options, skip_bad), .type = BT_OPT_FLAG,
     .help = "pass over bad rows and count them, instead of stopping at the first"},
    {.group = "Load", .name = "synthetic", .value = "SPEC", BT_OPT_AT(tool_load_options, synthetic),
     .type = BT_OPT_STRING, .example = "in:512,out:128,rate:4",
     .help = "no trace, but drawn requests: in and out in tokens (N, LO-HI, MEDIAN~DEVIATION of a "
             "lognormal), rate a second, burst (shape of gamma gaps, 1: Poisson), shared tokens at the "
             "beginning"},
    {.group = "Load", .name = "key-shares", .value = "KEYS", BT_OPT_AT(tool_load_options, key_shares),
     .type = BT_OPT_STRING, .example = "a:1,b:3",
     .help = "API keys by name, and the share of the requests that each asks, of those whose row names no "
             "key; a second number is the key's weight in a simulated gateway"},
    {.group = "Load", .name = "limit", .value = "N", BT_OPT_AT(tool_load_options, limit), .type = BT_OPT_INT,
     .def = "0", .lo = 0, .hi = TOOL_REPLAY_MAX_REQUESTS,
     .help = "the first N requests; 0: all of a trace, at most 1048576, or 200 of a synthetic load"},
    {.group = "Load", .name = "speed", .value = "X", BT_OPT_AT(tool_load_options, speed),
     .type = BT_OPT_DOUBLE, .def = "1", .flo = 1e-6, .fhi = 1e6,
     .help = "let the trace's time run so much faster"},
    {.group = "Load", .name = "rate", .value = "R", BT_OPT_AT(tool_load_options, rate), .type = BT_OPT_DOUBLE,
     .flo = 0, .fhi = 1e6, .example = "2.5",
     .help = "instead of the trace's arrivals, random ones (Poisson) of R requests a second"},
    {.group = "Load", .name = "concurrency", .value = "N", BT_OPT_AT(tool_load_options, concurrency),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = TOOL_REPLAY_MAX_STREAMS,
     .help = "instead of arrivals, N requests at a time, each sent when another ends; 0: by arrivals"},
    {.group = "Load", .name = "jitter", .value = "TIME", BT_OPT_AT(tool_load_options, jitter),
     .type = BT_OPT_STRING, .def = "auto", .example = "3s",
     .help = "spread arrivals at random over so much; auto: over the distance of batches, where the trace "
             "has them; 0: not"},
    {.group = "Load", .name = "streams", .value = "N", BT_OPT_AT(tool_load_options, streams),
     .type = BT_OPT_INT, .def = "4096", .lo = 1, .hi = TOOL_REPLAY_MAX_STREAMS,
     .help = "requests in flight at most; more wait, which counts as their latency and is said"},
    {.of = &tool_seed_opts, .name = "seed", BT_OPT_AT(tool_load_options, seed),
     .help = "seed of all that is drawn: prompts, lengths, arrivals, jitter"},
    {.group = "Prompts", .name = "block-tokens", .value = "N", BT_OPT_AT(tool_load_options, block_tokens),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 1 << 20,
     .help = "tokens of a block of the trace's hash_ids; 0: found out"},
    {.group = "Prompts", .name = "answer-tokens", .value = "N", BT_OPT_AT(tool_load_options, usual_output),
     .type = BT_OPT_INT, .def = "128", .lo = 1, .hi = 1 << 20,
     .help = "length of an answer where the trace does not say"},
    {.group = "Prompts", .name = "scale-lengths", BT_OPT_AT(tool_load_options, scale_lengths),
     .type = BT_OPT_FLAG,
     .help = "all lengths times one factor, so that the longest request fits the context"},
    {.group = "Prompts", .name = "fit", BT_OPT_AT(tool_load_options, fit), .type = BT_OPT_FLAG,
     .help = "cut requests that are longer than the context, each by itself"},
};
const bt_opt_group tool_load_opts = BT_OPT_GROUP(load);

static const bt_opt result[] = {
    {.group = "Output", .name = "slo", .value = "LIMITS", BT_OPT_AT(tool_load_options, slo),
     .type = BT_OPT_STRING, .example = "ttft:500ms,tpot:50ms",
     .help = "limits a request has to keep (ttft, tpot, e2e), for goodput and --ramp"},
    {.group = "Output", .name = "ramp", BT_OPT_AT(tool_load_options, ramp), .type = BT_OPT_FLAG,
     .help = "run again and again, faster or slower, and find the highest rate that keeps --slo"},
    {.group = "Output", .name = "ramp-share", .value = "X", BT_OPT_AT(tool_load_options, ramp_share),
     .type = BT_OPT_DOUBLE, .def = "0.99", .flo = 0.01, .fhi = 1,
     .help = "the share of requests that has to keep --slo for --ramp"},
    {.group = "Output", .name = "csv", .value = "FILE", BT_OPT_AT(tool_load_options, csv),
     .type = BT_OPT_STRING, .example = "requests.csv", .help = "a row a request"},
    {.group = "Output", .name = "report", .value = "FILE", BT_OPT_AT(tool_load_options, report),
     .type = BT_OPT_STRING, .example = "run.html", .help = "a page with plots, readable offline"},
};
const bt_opt_group tool_result_opts = BT_OPT_GROUP(result);

static bt_err check_ramp(const tool_load_options *o, const char *trace, bt_fault *fault)
{
    if (!o->slo || o->concurrency || o->rate > 0)
        return bt_fail(fault, BT_EARG,
                       "--ramp needs --slo, and finds the rate itself: leave out --rate and --concurrency");
    if (trace && strcmp(trace, "-") == 0)
        return bt_fail(fault, BT_EARG, "--ramp reads the trace again and again: give a file, not stdin");
    if (o->csv || o->report)
        return bt_fail(fault, BT_EARG, "--csv and --report are of one run: leave out --ramp");
    return BT_OK;
}

bt_err tool_load_check(tool_load *ret, const tool_load_options *o, const char *trace, bt_fault *fault)
{
    int64_t jitter_ms = 0;
    if (!trace == !o->synthetic) return bt_fail(fault, BT_EARG, "give either a trace or --synthetic");
    if (o->ramp && check_ramp(o, trace, fault) < 0) return BT_EARG;
    if (o->rate > 0 && o->concurrency) return bt_fail(fault, BT_EARG, "give either --rate or --concurrency");
    if (o->scale_lengths && o->fit) return bt_fail(fault, BT_EARG, "give either --scale-lengths or --fit");
    if (o->synthetic && tool_replay_synthetic_read(&ret->synthetic, o->synthetic, fault) < 0) return BT_EARG;
    if (o->key_shares && tool_replay_keys_read(&ret->keys, o->key_shares, fault) < 0) return BT_EARG;
    if (o->slo && tool_replay_slo_read(&ret->slo, o->slo, fault) < 0) return BT_EARG;
    const bool is_auto = strcmp(o->jitter, "auto") == 0;
    if (!is_auto && bt_num_duration(&jitter_ms, o->jitter, fault) < 0) return BT_EARG;
    ret->how = (tool_replay_plan_options){.seed = (uint64_t)o->seed,
                                          .usual_output = (uint32_t)o->usual_output,
                                          .block_tokens = (uint32_t)o->block_tokens,
                                          .scales = o->scale_lengths,
                                          .fits = o->fit,
                                          .speed = o->speed,
                                          .rate = o->rate,
                                          .is_closed = o->concurrency > 0,
                                          .jitter_us = !trace    ? 0
                                                       : is_auto ? -1
                                                                 : jitter_ms * 1000};
    return BT_OK;
}
