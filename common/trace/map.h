#ifndef BT_TRACE_MAP_H
#define BT_TRACE_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* A map from numbers to numbers, for the ids of a trace: at most BT_TRACE_MAP_MAX entries (256 MiB), so that no file
 * makes it grow without end. A zeroed map is empty. */
enum { BT_TRACE_MAP_MAX = 12 << 20 };
typedef struct bt_trace_map {
    struct bt_trace_pair {
        uint64_t key, value;
    } * slot;
    size_t cap, len; /* cap: a power of two; private */
    bool has_max;    /* the value of the key UINT64_MAX, which marks empty slots in the table */
    uint64_t max_value;
} bt_trace_map;

void bt_trace_map_done(bt_trace_map *m);
const uint64_t *bt_trace_map_find(const bt_trace_map *m, uint64_t key); /* valid until the next put; NULL: none */
/* Sets a key's value. BT_ENOMEM; BT_ELIMIT: full. */
bt_err bt_trace_map_put(bt_trace_map *m, uint64_t key, uint64_t value, bt_fault *fault);
#endif
