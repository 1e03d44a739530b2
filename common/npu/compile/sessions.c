/* Which layers are mapped together. */
#include "npu/compile/sessions.h"
#include "device/tile.h"

uint64_t bt_sessions_matrix_bytes(const bt_profile *p, uint32_t n, uint32_t k, uint32_t bits)
{
    return bt_tile_bytes(p, n, k, bits) + (uint64_t)n * (sizeof(float) + sizeof(int32_t));
}

/* The window that holds the largest part. */
static uint64_t smallest(const uint64_t *part_bytes, size_t parts, uint64_t shared_bytes)
{
    uint64_t most = 0, all;
    for (size_t i = 0; i < parts; i++)
        if (part_bytes[i] > most) most = part_bytes[i];
    return __builtin_add_overflow(most, shared_bytes, &all) ? UINT64_MAX : all;
}

bt_err bt_sessions_split(bt_pkg_session *ret, size_t *ret_n, const bt_profile *p, const uint64_t *part_bytes,
                         size_t parts, uint64_t shared_bytes, bt_fault *fault)
{
    const uint64_t window = p->map_window_bytes ? p->map_window_bytes : UINT64_MAX,
                   memory = p->memory_bytes ? p->memory_bytes : UINT64_MAX;
    uint64_t all = 0;
    size_t n = 0;
    for (size_t i = 0; i < parts; i++) {
        uint64_t alone, joined;
        if (__builtin_add_overflow(part_bytes[i], shared_bytes, &alone)) alone = UINT64_MAX;
        if (alone > window || alone == UINT64_MAX)
            return bt_fail(
                fault, BT_ELIMIT,
                "%s %zu needs a mapping of %llu bytes, %llu of them the arena; a session of %s maps at "
                "most %llu (map_window_bytes): the smallest window that would do is %llu",
                i + 1 < parts ? "layer" : "the output matrix, part", i, (unsigned long long)alone,
                (unsigned long long)shared_bytes, p->name, (unsigned long long)window,
                (unsigned long long)smallest(part_bytes, parts, shared_bytes));
        if (n && !__builtin_add_overflow(ret[n - 1].mapped_bytes, part_bytes[i], &joined) &&
            joined <= window) {
            ret[n - 1].mapped_bytes = joined;
            ret[n - 1].last_layer = (uint32_t)i;
        } else {
            ret[n++] = (bt_pkg_session){(uint32_t)i, (uint32_t)i, alone};
        }
    }
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(all, ret[i].mapped_bytes, &all)) all = UINT64_MAX;
    if (all > memory)
        return bt_fail(fault, BT_ELIMIT,
                       "%zu session%s need %llu bytes; %s has %llu (memory_bytes): weights of fewer bits, or "
                       "shorter chunks, need less",
                       n, n == 1 ? "" : "s", (unsigned long long)all, p->name, (unsigned long long)memory);
    *ret_n = n;
    return BT_OK;
}
