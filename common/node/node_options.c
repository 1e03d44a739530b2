/* The rows that both kinds of node have. */
#include "node/node_options.h"
#include "crypto/keys.h"
#include "device/options.h"
#include "kv/kv_dtype.h"
#include "model/options.h"

static const bt_opt rows[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(bt_node_options, model), .required = true},
    {.of = &bt_kv_dtype_opts, .name = "kv-dtype", BT_OPT_AT(bt_node_options, kv_dtype)},
    {.of = &bt_model_opts, .name = "ctx-size", BT_OPT_AT(bt_node_options, ctx_size)},
    {.of = &bt_machine_opts, .name = "threads", BT_OPT_AT(bt_node_options, threads)},
    {.of = &bt_machine_opts, .name = "isa", BT_OPT_AT(bt_node_options, isa)},
    {.of = &bt_machine_opts, .name = "kv-memory", BT_OPT_AT(bt_node_options, kv_memory_bytes)},
    {.of = &bt_machine_opts, .name = "memory", BT_OPT_AT(bt_node_options, memory_bytes)},
    {.of = &bt_machine_opts, .name = "cache-limit", BT_OPT_AT(bt_node_options, cache_limit_bytes)},
    {.group = "Network", .name = "gateway", .value = "ENDPOINT", BT_OPT_AT(bt_node_options, gateways),
     .type = BT_OPT_STRINGS, .def = "tcp://127.0.0.1:5600",
     .help = "control address of a gateway to serve; at most 8; with keys also ENDPOINT@NAME: which "
             "gateway's key it has"},
    {.group = "Network", .name = "id", .value = "NAME", BT_OPT_AT(bt_node_options, id), .type = BT_OPT_STRING,
     .example = "decode-3",
     .help =
         "this node's name, the same after a restart, different from all others; without it that of its key, "
         "or without keys prefill-0 or decode-0"},
    {.of = &bt_keys_opts, .name = "keys", BT_OPT_AT(bt_node_options, keys)},
    {.of = &bt_keys_opts, .name = "key", BT_OPT_AT(bt_node_options, key)},
    {.of = &bt_device_opts, .name = "decode-profile", BT_OPT_AT(bt_node_options, decode_profile),
     .help = "as a decode node: the device whose time and energy its steps are priced with"},
    {.of = &bt_device_opts, .name = "link", BT_OPT_AT(bt_node_options, link),
     .help = "as a prefill node: the link to decode nodes that KV is priced with: Gbit/s, and a message's "
             "latency behind a comma"},
    {.of = &bt_device_opts, .name = "pace", BT_OPT_AT(bt_node_options, pace)},
    {.group = "Life", .name = "drain-timeout", .value = "TIME", BT_OPT_AT(bt_node_options, drain_timeout_ms),
     .type = BT_OPT_DURATION, .def = "30s", .lo = 0, .hi = 3600000,
     .help = "how long SIGTERM, or a change of role, lets work in progress end"},
    BT_OPT_ALL(bt_log_opts, bt_node_options, log, "Life"),
};
const bt_opt_group bt_node_opts = BT_OPT_GROUP(rows);
