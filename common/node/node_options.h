#ifndef BT_NODE_NODE_OPTIONS_H
#define BT_NODE_NODE_OPTIONS_H
#include "base/cache_files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opt.h"
#include "kv/kv_dtype.h"
#include "kernels/kernels.h"

/* The options of every node, prefill or decode. */
typedef struct bt_node_options {
    const char *model, *isa, *id, *keys, *key;
    const char *decode_profile, *link, *pace; /* node_device.h; the first two NULL: none */
    int kv_dtype;                             /* index in bt_kv_dtype_choices */
    int64_t threads, ctx_size, drain_timeout_ms;
    uint64_t kv_memory_bytes, cache_limit_bytes, memory_bytes;
    bt_opt_list gateways;
    bt_log_options log;
} bt_node_options;

/* Rows of an option table whose config has a bt_node_options at `field`; `own_id` is the default of --id. */
// clang-format off
#define BT_NODE_OPTS(config, field, own_id) \
    {.group = "Model", .letter = 'm', .name = "model", .value = "MODEL", BT_OPT_AT(config, field.model), \
     .type = BT_OPT_STRING, .required = true, .example = "smollm2", \
     .help = "GGUF file, or 'smollm2' for the default model"}, \
    BT_KV_DTYPE_OPT(config, field.kv_dtype), \
    {.group = "Model", .letter = 'c', .name = "ctx-size", .value = "N", BT_OPT_AT(config, field.ctx_size), \
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 1 << 20, \
     .help = "longest sequence in tokens; 0: the model's context, or what --kv-memory holds if that is less"}, \
    {.group = "Machine", .letter = 't', .name = "threads", .value = "N", BT_OPT_AT(config, field.threads), \
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 256, .help = "compute threads; 0: all cores"}, \
    {.group = "Machine", .name = "isa", .value = "NAME", BT_OPT_AT(config, field.isa), .type = BT_OPT_STRING, \
     .def = "auto", .help = "kernels: auto, " BT_KERNELS_NAMES "; the results are the same"}, \
    {.group = "Machine", .name = "kv-memory", .value = "SIZE", BT_OPT_AT(config, field.kv_memory_bytes), \
     .type = BT_OPT_SIZE, .def = "1G", .lo = 1 << 20, .hi = INT64_MAX, \
     .help = "KV of prompts or sequences, those kept as the beginning of others too; it must hold one of --ctx-size"}, \
    BT_MEMORY_OPT("Machine", config, field.memory_bytes), \
    BT_CACHE_LIMIT_OPT("Machine", config, field.cache_limit_bytes), \
    {.group = "Network", .name = "gateway", .value = "ENDPOINT", BT_OPT_AT(config, field.gateways), \
     .type = BT_OPT_STRINGS, .def = "tcp://127.0.0.1:5600", \
     .help = "control address of a gateway to serve; at most 8; with keys also ENDPOINT@NAME: which gateway's key " \
             "it has"}, \
    {.group = "Network", .name = "id", .value = "NAME", BT_OPT_AT(config, field.id), .type = BT_OPT_STRING, \
     .def = (own_id), .help = "this node's name, the same after a restart, different from all others"}, \
    {.group = "Network", .name = "keys", .value = "DIR", BT_OPT_AT(config, field.keys), .type = BT_OPT_STRING, \
     .example = "keys", \
     .help = "CURVE keys made by 'baton keygen'; needed for any address that is not loopback or ipc"}, \
    {.group = "Network", .name = "key", .value = "NAME", BT_OPT_AT(config, field.key), .type = BT_OPT_STRING, \
     .example = (own_id), .help = "which NAME.secret of --keys is this node's; without it the only one"}, \
    {.group = "Devices", .name = "decode-profile", .value = "PROFILE", BT_OPT_AT(config, field.decode_profile), \
     .type = BT_OPT_STRING, .example = "adreno-750", \
     .help = "as a decode node: the device whose time and energy its steps are priced with"}, \
    {.group = "Devices", .name = "link", .value = "LINK", BT_OPT_AT(config, field.link), .type = BT_OPT_STRING, \
     .example = "10,50us", \
     .help = "as a prefill node: the link to decode nodes that KV is priced with: Gbit/s, and a message's latency " \
             "behind a comma"}, \
    {.group = "Devices", .name = "pace", .value = "PACE", BT_OPT_AT(config, field.pace), .type = BT_OPT_STRING, \
     .def = "off", .example = "device:20", \
     .help = "device:K lets results go no earlier than K times what device and link would have taken"}, \
    {.group = "Life", .name = "drain-timeout", .value = "TIME", BT_OPT_AT(config, field.drain_timeout_ms), \
     .type = BT_OPT_DURATION, .def = "30s", .lo = 0, .hi = 3600000, \
     .help = "how long SIGTERM, or a change of role, lets work in progress end"}, \
    BT_LOG_OPTS(config, field.log, "Life")
// clang-format on
#endif
