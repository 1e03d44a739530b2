/* A heap of what will happen, and links that delay, drop, repeat, reorder, corrupt and are cut. See
 * sim_net.h. */
#include "tests/world/sim_net.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum {
    LATE_FACTOR = 8,
    CHUNK_ITEMS = 64,
    FEW_PROCESSES = 256,
    ORDINAL_BITS = 40,
    FEWER_ORDINAL_BITS = 32,
    RATIO_ONE = 1 << 12,
    REPEAT_US = 6000000
};

typedef struct due {
    int64_t at_us;
    uint64_t order;
    sim_item *item;
} due;
typedef struct chunk {
    struct chunk *next;
    sim_item items[CHUNK_ITEMS];
} chunk;
typedef struct wire {
    int64_t last_us;
    uint64_t ordinal;
} wire; /* last_us: when its last packet in order arrives */
typedef struct cut {
    int64_t until_us, held_us;
    bool holds;
} cut; /* held: until when packets waited, in any cut so far */

struct sim_net {
    uint64_t seed, orders;
    uint32_t processes, stream;
    unsigned ordinal_bits; /* of a fault's id and of its draw */
    uint64_t *draws;       /* [processes + 1] */
    sim_faults faults;
    uint32_t limits[2][SIM_FAULT_KINDS]; /* of messages, of blocks; out of RATIO_ONE */
    wire *wires;                         /* [processes][processes][2] */
    cut *cuts;                           /* [processes][processes] */
    due *heap;
    size_t len, cap;
    chunk *chunks;
    sim_item *spare;
    bool records;
    uint64_t *ids;
    size_t ids_len, ids_cap;
    const uint64_t *only;
    size_t only_len;
    bool has_only;
    uint64_t befell;
    sim_net_watch *watch;
    void *ud;
};

bt_err sim_net_new(sim_net **ret, uint64_t seed, uint32_t processes, const sim_faults *faults)
{
    sim_net *n = calloc(1, sizeof *n);
    if (!n) return BT_ENOMEM;
    n->seed = seed;
    n->processes = n->stream = processes;
    n->ordinal_bits = processes <= FEW_PROCESSES ? ORDINAL_BITS : FEWER_ORDINAL_BITS;
    n->draws = calloc(processes + 1, sizeof *n->draws);
    n->wires = calloc((size_t)processes * processes * 2, sizeof *n->wires);
    n->cuts = calloc((size_t)processes * processes, sizeof *n->cuts);
    if (!n->draws || !n->wires || !n->cuts) {
        sim_net_free(n);
        return BT_ENOMEM;
    }
    sim_net_set_faults(n, faults);
    *ret = n;
    return BT_OK;
}

void sim_net_free(sim_net *n)
{
    if (!n) return;
    while (n->chunks) {
        chunk *c = n->chunks;
        n->chunks = c->next;
        for (int i = 0; i < CHUNK_ITEMS; i++) free(c->items[i].bytes);
        free(c);
    }
    free(n->heap);
    free(n->wires);
    free(n->cuts);
    free(n->draws);
    free(n->ids);
    free(n);
}

static uint32_t limit(double ratio) { return (uint32_t)(ratio * RATIO_ONE + 0.5); }

void sim_net_set_faults(sim_net *n, const sim_faults *f)
{
    n->faults = *f;
    const uint32_t slow = limit(f->slow_ratio);
    const uint32_t limits[2][SIM_FAULT_KINDS] = {{0, limit(f->drop_ratio), limit(f->repeat_ratio),
                                                  limit(f->reorder_ratio), limit(f->corrupt_ratio), slow},
                                                 {0, limit(f->block_drop_ratio), limit(f->block_repeat_ratio),
                                                  limit(f->block_reorder_ratio),
                                                  limit(f->block_corrupt_ratio), slow}};
    memcpy(n->limits, limits, sizeof limits);
}

void sim_net_stream(sim_net *n, uint32_t process) { n->stream = process; }
static uint64_t stream_seed(const sim_net *n) { return n->seed ^ (uint64_t)(n->stream + 1) << 48; }
uint64_t sim_net_draw(sim_net *n) { return bt_rng_u64(stream_seed(n), n->draws[n->stream]++); }
void sim_net_skip(sim_net *n, uint64_t draws) { n->draws[n->stream] += draws; }
double sim_net_chance(sim_net *n) { return bt_rng_uniform(stream_seed(n), n->draws[n->stream]++); }

int64_t sim_net_cut_until_us(const sim_net *n, uint32_t from, uint32_t to)
{
    return n->cuts[(size_t)from * n->processes + to].until_us;
}
int64_t sim_net_held_until_us(const sim_net *n, uint32_t from, uint32_t to)
{
    return n->cuts[(size_t)from * n->processes + to].held_us;
}

/* ---- the calendar ------------------------------------------------------------------------------- */

static bool before(const due *a, const due *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static sim_item *take_spare(sim_net *n)
{
    if (!n->spare) {
        chunk *c = calloc(1, sizeof *c);
        if (!c) return NULL;
        c->next = n->chunks;
        n->chunks = c;
        for (int i = 0; i < CHUNK_ITEMS; i++) sim_net_done(n, &c->items[i]);
    }
    sim_item *it = n->spare;
    n->spare = it->next;
    return it;
}

void sim_net_done(sim_net *n, sim_item *item)
{
    item->next = n->spare;
    n->spare = item;
}

static bt_err push(sim_net *n, sim_item *it)
{
    if (n->len == n->cap) {
        const size_t cap = n->cap ? n->cap * 2 : 64;
        due *heap = realloc(n->heap, cap * sizeof *heap);
        if (!heap) {
            sim_net_done(n, it);
            return BT_ENOMEM;
        }
        n->heap = heap;
        n->cap = cap;
    }
    const due d = {it->at_us, n->orders++, it};
    size_t i = n->len++;
    while (i > 0 && before(&d, &n->heap[(i - 1) / 2])) {
        n->heap[i] = n->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    n->heap[i] = d;
    return BT_OK;
}

/* A copy of *from whose place for bytes is its own. */
static sim_item *copy_of(sim_net *n, const sim_item *from, const uint8_t *bytes, size_t len)
{
    sim_item *it = take_spare(n);
    if (!it) return NULL;
    uint8_t *place = it->bytes;
    size_t cap = it->bytes_cap;
    if (len > cap) {
        cap = len + len / 2;
        uint8_t *larger = realloc(place, cap);
        if (!larger) {
            sim_net_done(n, it);
            return NULL;
        }
        place = larger;
    }
    *it = *from;
    it->bytes = place;
    it->bytes_cap = cap;
    it->len = len;
    if (len > 0) memcpy(place, bytes, len);
    return it;
}

static void sift_down(sim_net *n, size_t i, due last)
{
    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= n->len) break;
        if (k + 1 < n->len && before(&n->heap[k + 1], &n->heap[k])) k++;
        if (!before(&n->heap[k], &last)) break;
        n->heap[i] = n->heap[k];
        i = k;
    }
    if (n->len > 0) n->heap[i] = last;
}

/* Packets that wait for the end of a longer cut come at until_us, in their order. */
static void release(sim_net *n, uint32_t from, uint32_t to, int64_t until_us)
{
    for (size_t k = 0; k < 2; k++) {
        wire *w = &n->wires[((size_t)from * n->processes + to) * 2 + k];
        if (w->last_us > until_us) w->last_us = until_us;
    }
    for (size_t i = 0; i < n->len; i++) {
        const sim_item *it = n->heap[i].item;
        if (it->kind == SIM_PACKET && it->from == from && it->to == to && n->heap[i].at_us > until_us)
            n->heap[i].at_us = until_us;
    }
    for (size_t i = n->len / 2 + 1; i-- > 0;)
        if (i < n->len) sift_down(n, i, n->heap[i]);
}

void sim_net_cut(sim_net *n, uint32_t from, uint32_t to, int64_t until_us, bool holds)
{
    cut *c = &n->cuts[(size_t)from * n->processes + to];
    if (until_us < c->until_us) release(n, from, to, until_us);
    c->until_us = until_us;
    c->holds = holds;
    if (holds && until_us > c->held_us) c->held_us = until_us;
}

bt_err sim_net_post(sim_net *n, const sim_item *item)
{
    sim_item *it = copy_of(n, item, NULL, 0);
    return it ? push(n, it) : BT_ENOMEM;
}

void sim_net_again(sim_net *n, sim_item *item, int64_t at_us)
{
    item->at_us = at_us;
    (void)push(n, item);
}

sim_item *sim_net_take(sim_net *n, int64_t until_us)
{
    if (n->len == 0 || n->heap[0].at_us > until_us) return NULL;
    sim_item *first = n->heap[0].item;
    const due last = n->heap[--n->len];
    sift_down(n, 0, last);
    return first;
}

int64_t sim_net_due_us(const sim_net *n) { return n->len ? n->heap[0].at_us : INT64_MAX; }

/* ---- what befalls a packet ---------------------------------------------------------------------- */

void sim_net_record(sim_net *n) { n->records = true; }

const uint64_t *sim_net_recorded(const sim_net *n, size_t *ret_len)
{
    *ret_len = n->ids_len;
    return n->ids;
}

void sim_net_only(sim_net *n, const uint64_t *ids, size_t len)
{
    n->only = ids;
    n->only_len = len;
    n->has_only = true;
}

uint64_t sim_net_faults_count(const sim_net *n) { return n->befell; }

void sim_net_set_watch(sim_net *n, sim_net_watch *watch, void *ud)
{
    n->watch = watch;
    n->ud = ud;
}

static bool is_wanted(const sim_net *n, uint64_t id)
{
    size_t lo = 0, hi = n->only_len;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (n->only[mid] < id) lo = mid + 1;
        else hi = mid;
    }
    return lo < n->only_len && n->only[lo] == id;
}

static void note(sim_net *n, uint64_t id)
{
    if (n->ids_len == n->ids_cap) {
        const size_t cap = n->ids_cap ? n->ids_cap * 2 : 256;
        uint64_t *ids = realloc(n->ids, cap * sizeof *ids);
        if (!ids) return;
        n->ids = ids;
        n->ids_cap = cap;
    }
    n->ids[n->ids_len++] = id;
}

/* The packet's fate: a bit for each kind. */
static unsigned fate_of(sim_net *n, const sim_item *packet, uint64_t link, uint64_t ordinal, uint64_t draw)
{
    const uint32_t *limits = n->limits[packet->channel == SIM_BLOCK];
    unsigned fate = 0;
    for (unsigned k = 1; k < SIM_FAULT_KINDS; k++, draw >>= 12) {
        if ((draw & (RATIO_ONE - 1)) >= limits[k]) continue;
        const uint64_t id = SIM_FAULT_ID_OF_PACKET | link << (n->ordinal_bits + 3) | ordinal << 3 | k;
        if (n->has_only && !is_wanted(n, id)) continue;
        if (fate & 1u << SIM_DROP) break; /* nothing else matters to it */
        fate |= 1u << k;
        n->befell++;
        if (n->records) note(n, id);
        if (n->watch) n->watch(n->ud, packet, (sim_fault_kind)k, id);
    }
    return fate;
}

/* A few bits are turned over, or the end is missing. */
static void corrupt(sim_item *it, uint64_t draw)
{
    it->is_corrupt = true;
    if (draw % 8 == 0 && it->len > 1) {
        it->len -= 1 + (size_t)(draw >> 8) % (it->len - 1);
        return;
    }
    const uint64_t first = (draw >> 8) % (it->len * 8);
    for (uint64_t k = 0; k <= draw % 3; k++) {
        const uint64_t bit = (first + k * 13) % (it->len * 8);
        it->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static bt_err post_copy(sim_net *n, const sim_item *packet, int64_t at_us, const uint8_t *bytes, size_t len,
                        bool is_corrupt, uint64_t draw)
{
    sim_item *it = copy_of(n, packet, bytes, len);
    if (!it) return BT_ENOMEM;
    it->kind = SIM_PACKET;
    it->at_us = at_us;
    if (is_corrupt) corrupt(it, draw);
    return push(n, it);
}

bt_err sim_net_send(sim_net *n, int64_t now_us, sim_item *packet, const uint8_t *bytes, size_t len)
{
    const uint64_t link =
        ((uint64_t)packet->from * n->processes + packet->to) * 2 + (packet->channel != SIM_CONTROL);
    wire *w = &n->wires[link];
    const uint64_t ordinal = w->ordinal++, key = bt_rng_u64(~n->seed, link << n->ordinal_bits | ordinal);
    const uint64_t times = bt_rng_u64(key, 1);
    const unsigned fate = fate_of(n, packet, link, ordinal, key);
    const cut *c = &n->cuts[(size_t)packet->from * n->processes + packet->to];
    int64_t from_us = now_us;
    if (now_us < c->until_us) {
        n->befell++;
        if (!c->holds) return BT_ECANCEL;
        from_us = c->until_us;
    }
    const uint64_t spread = (uint64_t)(n->faults.delay_max_us - n->faults.delay_min_us + 1);
    int64_t at_us = from_us + n->faults.delay_min_us + (int64_t)((times & 0xffffffff) % spread);
    if (fate & 1u << SIM_SLOW) at_us += (int64_t)((times >> 32) % (uint64_t)(n->faults.slow_us + 1));
    if (at_us < w->last_us) at_us = w->last_us;
    if (fate & 1u << SIM_REORDER)
        at_us += (int64_t)((times >> 16) % (uint64_t)(n->faults.delay_max_us * LATE_FACTOR + 1));
    else w->last_us = at_us;
    if (fate & 1u << SIM_DROP) return BT_ECANCEL;
    bt_err e = post_copy(n, packet, at_us, bytes, len, fate & 1u << SIM_CORRUPT, times);
    if (e < 0 || !(fate & 1u << SIM_REPEAT)) return e;
    sim_item again = *packet;
    again.weight = 0;
    const uint64_t later = (times >> 40) % 4 < 3 ? (times >> 40) % 4 * spread / 4
                                                 : (times >> 42) % REPEAT_US; /* soon, or long after */
    return post_copy(n, &again, at_us + (int64_t)later, bytes, len, false, 0);
}
