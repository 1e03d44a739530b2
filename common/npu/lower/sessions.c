/* Splits layers into sessions. */
#include "npu/lower/sessions.h"
#include "device/tile.h"

#include <stdlib.h>

uint64_t bt_sessions_matrix_bytes(const bt_profile *p, uint32_t n, uint32_t k, uint32_t bits, uint32_t group,
                                  uint32_t palette_run)
{
    const uint32_t groups = group ? k / group : 0, sums = groups ? 2 : 1;
    const uint64_t palettes = palette_run ? ((uint64_t)(n + 15) / 16 * (k / palette_run)) << bits : 0;
    return bt_tile_bytes(p, n, k, bits) + palettes +
           (uint64_t)n * (sizeof(float) + sums * sizeof(int32_t) + groups * 2 * sizeof(int16_t));
}

typedef struct split {
    const bt_sessions_weight *weight;
    size_t weights, parts;
    uint32_t *mapped_by; /* [constants]: 1 + the last session that maps it; 0: none */
    uint64_t shared_bytes;
} split;

static uint64_t sum(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

/* Bytes that weights [first, end) of a part add to session `s`, which maps each constant once. kept: notes
 * that they are mapped. */
static uint64_t added(split *j, size_t first, size_t end, uint32_t s, bool kept)
{
    uint64_t bytes = 0;
    for (size_t i = first; i < end; i++) {
        const bt_sessions_weight *w = &j->weight[i];
        bool is_there = j->mapped_by[w->constant] == s + 1;
        for (size_t k = first; k < i && !kept; k++)
            is_there = is_there || j->weight[k].constant == w->constant;
        if (!is_there) bytes = sum(bytes, w->bytes);
        if (kept) j->mapped_by[w->constant] = s + 1;
    }
    return bytes;
}

/* Bytes of a session with one part alone, the shared bytes included. */
static uint64_t alone(split *j, size_t first, size_t end)
{
    return sum(added(j, first, end, UINT32_MAX - 1, false), j->shared_bytes);
}

static size_t end_of(const split *j, size_t first, size_t part)
{
    while (first < j->weights && j->weight[first].part == part) first++;
    return first;
}

/* Bytes of the smallest window: it holds the largest part. */
static uint64_t smallest_window(split *j)
{
    uint64_t most = 0;
    for (size_t part = 0, first = 0, end; part < j->parts; part++, first = end) {
        end = end_of(j, first, part);
        const uint64_t bytes = alone(j, first, end);
        if (bytes > most) most = bytes;
    }
    return most;
}

static bt_err refuse_part(split *j, const bt_profile *p, size_t part, uint64_t bytes, bt_fault *fault)
{
    return bt_fail(
        fault, BT_ELIMIT,
        "%s %zu needs a mapping of %llu bytes, %llu of them the arena; a session of %s maps at most %llu "
        "(map_window_bytes); the smallest window that would do is %llu; shorter chunks need less",
        part + 1 < j->parts ? "layer" : "the output matrix, part", part, (unsigned long long)bytes,
        (unsigned long long)j->shared_bytes, p->name, (unsigned long long)p->map_window_bytes,
        (unsigned long long)smallest_window(j));
}

static bt_err split_all(bt_pkg_session *ret, size_t *ret_n, split *j, const bt_profile *p, bt_fault *fault)
{
    const uint64_t window = p->map_window_bytes ? p->map_window_bytes : UINT64_MAX;
    size_t n = 0;
    for (size_t part = 0, first = 0, end; part < j->parts; part++, first = end) {
        end = end_of(j, first, part);
        const uint64_t bytes = alone(j, first, end);
        if (bytes > window || bytes == UINT64_MAX) return refuse_part(j, p, part, bytes, fault);
        const uint64_t joined =
            n ? sum(ret[n - 1].mapped_bytes, added(j, first, end, (uint32_t)n - 1, false)) : UINT64_MAX;
        if (n && joined <= window && joined < UINT64_MAX) {
            ret[n - 1].mapped_bytes = joined;
            ret[n - 1].last_layer = (uint32_t)part;
        } else {
            ret[n++] = (bt_pkg_session){(uint32_t)part, (uint32_t)part, bytes};
        }
        (void)added(j, first, end, (uint32_t)n - 1, true); /* notes that they are mapped */
    }
    *ret_n = n;
    return BT_OK;
}

static bt_err check_memory(const bt_pkg_session *s, size_t n, const bt_profile *p, bt_fault *fault)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) all = sum(all, s[i].mapped_bytes);
    if (!p->memory_bytes || all <= p->memory_bytes) return BT_OK;
    return bt_fail(fault, BT_ELIMIT,
                   "%zu session%s %llu bytes; %s has %llu (memory_bytes): weights of fewer bits, or shorter "
                   "chunks, need less",
                   n, n == 1 ? " needs" : "s need", (unsigned long long)all, p->name,
                   (unsigned long long)p->memory_bytes);
}

bt_err bt_sessions_split(bt_pkg_session *ret, size_t *ret_n, const bt_profile *p,
                         const bt_sessions_weight *weight, size_t weights, size_t parts,
                         uint64_t shared_bytes, bt_fault *fault)
{
    split j = {.weight = weight, .weights = weights, .parts = parts, .shared_bytes = shared_bytes};
    size_t constants = 1, n = 0;
    for (size_t i = 0; i < weights; i++)
        if (weight[i].constant >= constants) constants = (size_t)weight[i].constant + 1;
    j.mapped_by = calloc(constants, sizeof *j.mapped_by);
    if (!j.mapped_by) return bt_fail(fault, BT_ENOMEM, "out of memory splitting sessions");
    bt_err e = split_all(ret, &n, &j, p, fault);
    if (e == BT_OK) e = check_memory(ret, n, p, fault);
    if (e == BT_OK) *ret_n = n;
    free(j.mapped_by);
    return e;
}
