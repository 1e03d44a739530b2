/* A heap of what will happen, and links that delay, drop, repeat and corrupt. See sim_net.h. */
#include "sim/sim_net.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

struct sim_net {
    uint64_t seed, draws, orders;
    uint32_t processes;
    sim_faults faults;
    int64_t *last_us;                   /* [processes][processes][2]: when the last packet of the link arrives */
    sim_item *heap; size_t len, cap;
};

bt_err sim_net_new(sim_net **ret, uint64_t seed, uint32_t processes, const sim_faults *faults)
{
    sim_net *n = calloc(1, sizeof *n);
    if (!n) return BT_ENOMEM;
    n->seed = seed;
    n->processes = processes;
    n->faults = *faults;
    n->last_us = calloc((size_t)processes * processes * 2, sizeof *n->last_us);
    if (!n->last_us) {
        free(n);
        return BT_ENOMEM;
    }
    *ret = n;
    return BT_OK;
}

void sim_net_free(sim_net *n)
{
    if (!n) return;
    for (size_t i = 0; i < n->len; i++) free(n->heap[i].bytes);
    free(n->heap);
    free(n->last_us);
    free(n);
}

void sim_net_set_faults(sim_net *n, const sim_faults *faults) { n->faults = *faults; }

uint64_t sim_net_draw(sim_net *n) { return bt_rng_u64(n->seed, n->draws++); }
double sim_net_chance(sim_net *n) { return bt_rng_uniform(n->seed, n->draws++); }

static bool before(const sim_item *a, const sim_item *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

bt_err sim_net_post(sim_net *n, const sim_item *item)
{
    if (n->len == n->cap) {
        size_t cap = n->cap ? n->cap * 2 : 64;
        sim_item *heap = realloc(n->heap, cap * sizeof *heap);
        if (!heap) return BT_ENOMEM;
        n->heap = heap;
        n->cap = cap;
    }
    sim_item it = *item;
    it.order = n->orders++;
    size_t i = n->len++;
    while (i > 0 && before(&it, &n->heap[(i - 1) / 2])) {
        n->heap[i] = n->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    n->heap[i] = it;
    return BT_OK;
}

bool sim_net_take(sim_net *n, sim_item *ret, int64_t until_us)
{
    if (n->len == 0 || n->heap[0].at_us > until_us) return false;
    *ret = n->heap[0];
    sim_item last = n->heap[--n->len];
    size_t i = 0;
    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= n->len) break;
        if (k + 1 < n->len && before(&n->heap[k + 1], &n->heap[k])) k++;
        if (!before(&n->heap[k], &last)) break;
        n->heap[i] = n->heap[k];
        i = k;
    }
    if (n->len > 0) n->heap[i] = last;
    return true;
}

int64_t sim_net_due_us(const sim_net *n) { return n->len ? n->heap[0].at_us : INT64_MAX; }

static bt_err post_copy(sim_net *n, const sim_item *packet, int64_t at_us, const uint8_t *bytes, size_t len)
{
    sim_item it = *packet;
    it.kind = SIM_PACKET;
    it.at_us = at_us;
    it.len = len;
    it.bytes = malloc(len);
    if (!it.bytes) return BT_ENOMEM;
    memcpy(it.bytes, bytes, len);
    if (packet->channel == SIM_BLOCK && sim_net_chance(n) < n->faults.block_corrupt_ratio)
        it.bytes[len - 1 - sim_net_draw(n) % 8] ^= (uint8_t)(1u << sim_net_draw(n) % 8);     /* in the body */
    bt_err e = sim_net_post(n, &it);
    if (e < 0) free(it.bytes);
    return e;
}

bt_err sim_net_send(sim_net *n, int64_t now_us, const sim_item *packet, const uint8_t *bytes, size_t len)
{
    bool is_block = packet->channel == SIM_BLOCK;
    bool drop = sim_net_chance(n) < (is_block ? n->faults.block_drop_ratio : n->faults.drop_ratio);
    bool repeat = !is_block && sim_net_chance(n) < n->faults.repeat_ratio;
    int64_t spread = n->faults.delay_max_us - n->faults.delay_min_us + 1;
    int64_t at_us = now_us + n->faults.delay_min_us + (int64_t)(sim_net_draw(n) % (uint64_t)spread);
    int64_t *last = &n->last_us[((size_t)packet->from * n->processes + packet->to) * 2 +
                                (packet->channel != SIM_CONTROL)];
    if (at_us < *last) at_us = *last;
    *last = at_us;
    if (drop) return BT_OK;
    bt_err e = post_copy(n, packet, at_us, bytes, len);
    if (e == BT_OK && repeat) e = post_copy(n, packet, at_us, bytes, len);
    return e;
}
