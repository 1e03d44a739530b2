#ifndef BT_TRACE_MAP_H
#define BT_TRACE_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Numbers to numbers, for what a trace names by ids: at most BT_TRACE_MAP_MAX of them (256 MiB), so that no file makes
 * it grow without end. All zero is an empty map. */
enum { BT_TRACE_MAP_MAX = 12 << 20 };
typedef struct bt_trace_map {
    struct bt_trace_pair {
        uint64_t key, value;
    } * slot;
    size_t cap, len; /* cap: a power of two; private */
    bool has_max;    /* the key UINT64_MAX, which marks empty slots, stands here */
    uint64_t max_value;
} bt_trace_map;

void bt_trace_map_done(bt_trace_map *m);
const uint64_t *bt_trace_map_find(const bt_trace_map *m, uint64_t key); /* NULL: none; until the next put */
/* Sets a key's value. BT_ENOMEM; BT_ELIMIT: full. */
bt_err bt_trace_map_put(bt_trace_map *m, uint64_t key, uint64_t value, bt_fault *fault);
#endif
