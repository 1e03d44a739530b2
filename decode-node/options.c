/* The option table of baton-decode. */
#include "decode-node/options.h"
#include "base/cache_files.h"
#include "base/log.h"
#include "engine/names.h"
#include "kv/kv_dtype.h"
#include "model/weights.h"

static const char *const local_prefill[] = {"off", BT_ENGINE_CHUNKED_NAMES, NULL};
static const char *const prefill_engines[] = {"auto", BT_ENGINE_NAMES, NULL};
static const char *const formats[] = {"text", "json", NULL};

static const bt_opt opts[] = {
    {.group = "Model", .letter = 'm', .name = "model", .value = "MODEL", BT_OPT_AT(dc_options, model),
     .type = BT_OPT_STRING, .required = true, .example = "smollm2",
     .help = "GGUF file, or 'smollm2' for the default model"},
    {.group = "Model", .name = "engine", .value = "NAME", BT_OPT_AT(dc_options, engine),
     .type = BT_OPT_CHOICE, .def = "host", .choices = BT_ENGINE_DECODE_NAMES,
     .help = "what computes: f16 kernels, or the plain FP32 oracle"},
    BT_KV_DTYPE_OPT(dc_options, kv_dtype),
    {.group = "Model", .letter = 'c', .name = "ctx-size", .value = "N", BT_OPT_AT(dc_options, ctx_size),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 1 << 20,
     .help = "longest sequence in tokens; 0: the model's context, or what --kv-memory holds if that is less"},
    {.group = "Model", .name = "weights", .value = "FORM", BT_OPT_AT(dc_options, weights),
     .type = BT_OPT_CHOICE, .def = "f16", .choices = bt_weights_forms,
     .help = "form of the weights of engine host, converted once and kept; fewer bytes are read faster"},
    {.group = "Model", .name = "local-prefill", .value = "ENGINE", BT_OPT_AT(dc_options, local_prefill),
     .type = BT_OPT_CHOICE, .def = "off", .choices = local_prefill,
     .help = "compute prompts here too, with the engine of prefill nodes; give it what they are given"},
    {.group = "Model", .name = "prefill-engine", .value = "ENGINE", BT_OPT_AT(dc_options, prefill_engine),
     .type = BT_OPT_CHOICE, .def = "auto", .choices = prefill_engines,
     .help = "what computes prompts after 'baton role ID prefill'; auto: as --local-prefill, else npu, for "
             "engine reference that"},
    BT_OBTAIN_OPTS(dc_options, want),
    BT_OBTAIN_FILE_OPT(dc_options, want),
    {.group = "Machine", .letter = 't', .name = "threads", .value = "N", BT_OPT_AT(dc_options, threads),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 256, .help = "compute threads; 0: all cores"},
    {.group = "Machine", .name = "isa", .value = "NAME", BT_OPT_AT(dc_options, isa), .type = BT_OPT_STRING,
     .def = "auto",
     .help = "kernels: auto, avx512vnni, avx512, avxvnni, avx2 or ref; the results are the same"},
    {.group = "Machine", .name = "chunk-tokens", .value = "N", BT_OPT_AT(dc_options, chunk_tokens),
     .type = BT_OPT_INT, .def = "256", .lo = 16, .hi = 4096,
     .help = "prompt tokens computed here between two steps, at most: running sequences never wait longer"},
    {.group = "Machine", .name = "speculate", .value = "N", BT_OPT_AT(dc_options, speculate),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 64,
     .help = "tokens guessed from the text so far and checked in one step, at most; the output is the same"},
    {.group = "Memory", .name = "kv-memory", .value = "SIZE", BT_OPT_AT(dc_options, kv_memory_bytes),
     .type = BT_OPT_SIZE, .def = "1G", .lo = 1 << 20, .hi = INT64_MAX,
     .help = "KV of sequences; it must hold one of --ctx-size"},
    BT_CACHE_LIMIT_OPT("Memory", dc_options, cache_limit_bytes),
    {.group = "Memory", .name = "slots", .value = "N", BT_OPT_AT(dc_options, slots), .type = BT_OPT_INT,
     .def = "32", .lo = 1, .hi = 1024, .help = "sequences taken at once"},
    {.group = "Memory", .name = "batch-rows", .value = "N", BT_OPT_AT(dc_options, batch_rows),
     .type = BT_OPT_INT, .def = "64", .lo = 1, .hi = 512,
     .help = "rows of one step at most: a token each of so many sequences, or fewer with tokens to replay or "
             "drafts"},
    {.group = "Memory", .name = "growth-tokens", .value = "N", BT_OPT_AT(dc_options, growth_tokens),
     .type = BT_OPT_INT, .def = "256", .lo = 0, .hi = 1 << 20,
     .help = "tokens of its answer that memory is counted for when a request is taken; it may get more, or "
             "be preempted"},
    {.group = "Memory", .name = "swap-memory", .value = "SIZE", BT_OPT_AT(dc_options, swap_memory_bytes),
     .type = BT_OPT_SIZE, .def = "1G", .lo = 0, .hi = INT64_MAX,
     .help = "where the KV of preempted sequences waits; 0: they are computed again"},
    {.group = "Network", .name = "gateway", .value = "ENDPOINT", BT_OPT_AT(dc_options, gateways),
     .type = BT_OPT_STRINGS, .def = "tcp://127.0.0.1:5600",
     .help = "control address of a gateway to serve; at most 8; with keys also ENDPOINT@NAME: which "
             "gateway's key it has"},
    {.group = "Network", .name = "listen", .value = "ENDPOINT", BT_OPT_AT(dc_options, listen),
     .type = BT_OPT_STRING, .def = "tcp://127.0.0.1:5602",
     .help = "where prefill nodes bring KV; port * lets the system choose"},
    {.group = "Network", .name = "advertise", .value = "ENDPOINT", BT_OPT_AT(dc_options, advertise),
     .type = BT_OPT_STRING, .example = "tcp://10.0.0.7:5602",
     .help = "the same as others must dial it, where that differs from --listen"},
    {.group = "Network", .name = "id", .value = "NAME", BT_OPT_AT(dc_options, id), .type = BT_OPT_STRING,
     .def = "decode-0", .help = "this node's name, the same after a restart, different from all others"},
    {.group = "Network", .name = "keys", .value = "DIR", BT_OPT_AT(dc_options, keys), .type = BT_OPT_STRING,
     .example = "keys",
     .help = "CURVE keys made by 'baton keygen'; needed for any address that is not loopback or ipc"},
    {.group = "Network", .name = "key", .value = "NAME", BT_OPT_AT(dc_options, key), .type = BT_OPT_STRING,
     .example = "decode-0", .help = "which NAME.secret of --keys is this node's; without it the only one"},
    {.group = "Network", .name = "window", .value = "SIZE", BT_OPT_AT(dc_options, window_bytes),
     .type = BT_OPT_SIZE, .def = "64M", .lo = 1 << 20, .hi = 1LL << 34,
     .help = "KV bytes that one prefill node may have in flight to this node"},
    {.group = "Life", .name = "drain-timeout", .value = "TIME", BT_OPT_AT(dc_options, drain_timeout_ms),
     .type = BT_OPT_DURATION, .def = "30s", .lo = 0, .hi = 3600000,
     .help = "how long SIGTERM lets work in progress end"},
    {.group = "Life", .name = "log-level", .value = "LEVEL", BT_OPT_AT(dc_options, log_level),
     .type = BT_OPT_CHOICE, .def = "info", .choices = bt_log_level_names,
     .help = "least important lines to write"},
    {.group = "Life", .name = "log-format", .value = "FORMAT", BT_OPT_AT(dc_options, log_format),
     .type = BT_OPT_CHOICE, .def = "text", .choices = formats, .help = "form of the lines on stderr"},
};

const bt_opt_program dc_options_program = {
    .name = "baton-decode",
    .summary = "take prompts' KV from prefill nodes and generate tokens",
    .usage = "-m MODEL [options]",
    .normal = "baton-decode -m smollm2 --gateway tcp://127.0.0.1:5600",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
};

int dc_options_prefill_engine(const dc_options *o)
{
    if (o->prefill_engine > 0) return o->prefill_engine - 1; /* behind "auto" */
    if (o->local_prefill > 0) return o->local_prefill - 1;   /* behind "off" */
    return BT_ENGINE_HOST + o->engine == BT_ENGINE_REFERENCE ? BT_ENGINE_REFERENCE : BT_ENGINE_NPU;
}
