/* A table with open addressing, half full at most until it may grow no more. */
#include "trace/map.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 1024, LARGEST = 16 << 20 };

void bt_trace_map_done(bt_trace_map *m)
{
    free(m->slot);
    *m = (bt_trace_map){.slot = NULL};
}

/* Where the key stands or would. */
static size_t place(const bt_trace_map *m, uint64_t key)
{
    size_t i = (size_t)bt_rng_u64(0, key) & (m->cap - 1);
    while (m->slot[i].key != key && m->slot[i].key != UINT64_MAX) i = (i + 1) & (m->cap - 1);
    return i;
}

const uint64_t *bt_trace_map_find(const bt_trace_map *m, uint64_t key)
{
    if (key == UINT64_MAX) return m->has_max ? &m->max_value : NULL;
    if (!m->cap) return NULL;
    const size_t i = place(m, key);
    return m->slot[i].key == key ? &m->slot[i].value : NULL;
}

static bt_err grow(bt_trace_map *m, bt_fault *fault)
{
    bt_trace_map more = {.cap = m->cap ? m->cap * 2 : FIRST, .len = m->len};
    more.slot = malloc(more.cap * sizeof *more.slot);
    if (!more.slot) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu ids of a trace", m->len);
    memset(more.slot, 0xff, more.cap * sizeof *more.slot);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i].key != UINT64_MAX) more.slot[place(&more, m->slot[i].key)] = m->slot[i];
    free(m->slot);
    m->slot = more.slot;
    m->cap = more.cap;
    return BT_OK;
}

bt_err bt_trace_map_put(bt_trace_map *m, uint64_t key, uint64_t value, bt_fault *fault)
{
    if (key == UINT64_MAX) {
        m->has_max = true;
        m->max_value = value;
        return BT_OK;
    }
    if (m->len * 2 >= m->cap && m->cap < LARGEST) {
        const bt_err e = grow(m, fault);
        if (e < 0) return e;
    }
    const size_t i = place(m, key);
    if (m->slot[i].key != key) {
        if (m->len == BT_TRACE_MAP_MAX)
            return bt_fail(fault, BT_ELIMIT, "more than %d ids; cut the trace into parts (baton trace cut)",
                           BT_TRACE_MAP_MAX);
        m->len++;
    }
    m->slot[i] = (struct bt_trace_pair){key, value};
    return BT_OK;
}
