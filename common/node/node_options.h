#ifndef BT_NODE_NODE_OPTIONS_H
#define BT_NODE_NODE_OPTIONS_H
#include "base/log.h"
#include "base/opt.h"

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

extern const bt_opt_group bt_node_opts; /* of a bt_node_options; who uses it names the default of --id */
#endif
