/* The option table of baton-prefill. */
#include "prefill-node/options.h"
#include "base/cache_files.h"
#include "base/log.h"
#include "engine/names.h"
#include "kv/kv_dtype.h"

static const char *const formats[] = {"text", "json", NULL};

static const bt_opt opts[] = {
    {.group = "Model", .letter = 'm', .name = "model", .value = "MODEL", BT_OPT_AT(pf_options, model),
     .type = BT_OPT_STRING, .required = true, .example = "smollm2",
     .help = "GGUF file, or 'smollm2' for the default model"},
    BT_ENGINE_OPT(pf_options, engine),
    BT_KV_DTYPE_OPT(pf_options, kv_dtype),
    {.group = "Model", .letter = 'c', .name = "ctx-size", .value = "N", BT_OPT_AT(pf_options, ctx_size),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 1 << 20,
     .help = "longest prompt in tokens; 0: the model's context, or what --kv-memory holds if that is less"},
    BT_OBTAIN_OPTS(pf_options, want),
    BT_OBTAIN_FILE_OPT(pf_options, want),
    {.group = "Machine", .letter = 't', .name = "threads", .value = "N", BT_OPT_AT(pf_options, threads),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 256, .help = "compute threads; 0: all cores"},
    {.group = "Machine", .name = "isa", .value = "NAME", BT_OPT_AT(pf_options, isa), .type = BT_OPT_STRING,
     .def = "auto",
     .help = "kernels: auto, avx512vnni, avx512, avxvnni, avx2 or ref; the results are the same"},
    {.group = "Memory", .name = "kv-memory", .value = "SIZE", BT_OPT_AT(pf_options, kv_memory_bytes),
     .type = BT_OPT_SIZE, .def = "1G", .lo = 1 << 20, .hi = INT64_MAX,
     .help = "KV of prompts in work, on their way or kept as the beginning of others; it must hold one of "
             "--ctx-size"},
    BT_CACHE_LIMIT_OPT("Memory", pf_options, cache_limit_bytes),
    {.group = "Memory", .name = "slots", .value = "N", BT_OPT_AT(pf_options, slots), .type = BT_OPT_INT,
     .def = "4", .lo = 1, .hi = 1024,
     .help = "prompts taken at once; one computes, the others wait or are sent"},
    {.group = "Network", .name = "gateway", .value = "ENDPOINT", BT_OPT_AT(pf_options, gateways),
     .type = BT_OPT_STRINGS, .def = "tcp://127.0.0.1:5600",
     .help = "control address of a gateway to serve; at most 8; with keys also ENDPOINT@NAME: which "
             "gateway's key it has"},
    {.group = "Network", .name = "id", .value = "NAME", BT_OPT_AT(pf_options, id), .type = BT_OPT_STRING,
     .def = "prefill-0", .help = "this node's name, the same after a restart, different from all others"},
    {.group = "Network", .name = "keys", .value = "DIR", BT_OPT_AT(pf_options, keys), .type = BT_OPT_STRING,
     .example = "keys",
     .help = "CURVE keys made by 'baton keygen'; needed for any address that is not loopback or ipc"},
    {.group = "Network", .name = "key", .value = "NAME", BT_OPT_AT(pf_options, key), .type = BT_OPT_STRING,
     .example = "prefill-0", .help = "which NAME.secret of --keys is this node's; without it the only one"},
    {.group = "Network", .name = "min-overlap", .value = "N", BT_OPT_AT(pf_options, min_overlap_tokens),
     .type = BT_OPT_INT, .def = "64", .lo = 0, .hi = 1 << 20,
     .help = "prompts shorter than this many tokens are sent in one piece"},
    {.group = "Life", .name = "drain-timeout", .value = "TIME", BT_OPT_AT(pf_options, drain_timeout_ms),
     .type = BT_OPT_DURATION, .def = "30s", .lo = 0, .hi = 3600000,
     .help = "how long SIGTERM lets work in progress end"},
    {.group = "Life", .name = "log-level", .value = "LEVEL", BT_OPT_AT(pf_options, log_level),
     .type = BT_OPT_CHOICE, .def = "info", .choices = bt_log_level_names,
     .help = "least important lines to write"},
    {.group = "Life", .name = "log-format", .value = "FORMAT", BT_OPT_AT(pf_options, log_format),
     .type = BT_OPT_CHOICE, .def = "text", .choices = formats, .help = "form of the lines on stderr"},
};

const bt_opt_program pf_options_program = {
    .name = "baton-prefill",
    .summary = "compute prompts, hand their KV to decode nodes",
    .usage = "-m MODEL [options]",
    .normal = "baton-prefill -m smollm2 --gateway tcp://127.0.0.1:5600",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};
