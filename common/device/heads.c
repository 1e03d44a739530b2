/* An order by Johnson's rule, and launches by trying them. */
#include "device/heads.h"
#include "device/time.h"

static uint64_t plus(uint64_t a, uint64_t b) { return bt_time_plus(a, b); }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t rest_of(const bt_heads_times *t) { return plus(t->choose_ns, t->attend_ns); }

/* < 0: a goes first. */
static int compare(const bt_heads_times *a, const bt_heads_times *b)
{
    const uint64_t ra = rest_of(a), rb = rest_of(b);
    const bool a_first = a->estimate_ns < ra, b_first = b->estimate_ns < rb;
    if (a_first != b_first) return a_first ? -1 : 1;
    if (a_first && a->estimate_ns != b->estimate_ns) return a->estimate_ns < b->estimate_ns ? -1 : 1;
    return (ra < rb) - (ra > rb);
}

static void sort(uint16_t *order, const bt_heads_work *w)
{
    for (uint32_t i = 0; i < w->heads; i++) { /* by insertion: stable, and a layer has few heads */
        uint32_t k = i;
        for (; k && compare(&w->head[i], &w->head[order[k - 1]]) < 0; k--) order[k] = order[k - 1];
        order[k] = (uint16_t)i;
    }
}

static uint64_t launch_ns(const bt_heads_plan *p, const bt_heads_work *w, uint32_t first, uint32_t n)
{
    uint64_t ns = w->launch_ns;
    for (uint32_t i = first; i < first + n; i++) ns = plus(ns, w->head[p->order[i]].estimate_ns);
    return ns;
}

/* Launches go on whatever the companion does; it takes heads as they are ready. */
static uint64_t play_companion(const bt_heads_plan *p, const bt_heads_work *w)
{
    uint64_t npu = 0, companion = 0;
    for (uint32_t l = 0, i = 0; l < p->launches; l++) {
        npu = plus(npu, launch_ns(p, w, i, p->launch[l]));
        companion = most(companion, npu);
        for (const uint32_t end = i + p->launch[l]; i < end; i++)
            companion = plus(companion, rest_of(&w->head[p->order[i]]));
    }
    return companion;
}

/* The NPU attends to the heads that have been chosen, in order, before it launches more. */
static uint64_t play_npu(const bt_heads_plan *p, const bt_heads_work *w)
{
    uint64_t npu = 0, companion = 0, chosen_ns[BT_HEADS_MAX];
    for (uint32_t l = 0, i = 0, done = 0; done < w->heads;) {
        const bool is_more = l < p->launches;
        if (done < i && (!is_more || chosen_ns[done] <= npu)) {
            npu = plus(most(npu, chosen_ns[done]), w->head[p->order[done]].attend_ns);
            done++;
            continue;
        }
        npu = plus(npu, launch_ns(p, w, i, p->launch[l]));
        companion = most(companion, npu);
        for (const uint32_t end = i + p->launch[l++]; i < end; i++)
            chosen_ns[i] = companion = plus(companion, w->head[p->order[i]].choose_ns);
    }
    return npu;
}

void bt_heads_play(bt_heads_plan *ret, const bt_heads_work *w)
{
    uint64_t *busy = ret->busy_ns;
    ret->ns = w->attends == BT_SCHEDULE_NPU ? play_npu(ret, w) : play_companion(ret, w);
    busy[BT_SCHEDULE_NPU] = busy[BT_SCHEDULE_COMPANION] = 0;
    for (uint32_t l = 0, i = 0; l < ret->launches; i += ret->launch[l++])
        busy[BT_SCHEDULE_NPU] = plus(busy[BT_SCHEDULE_NPU], launch_ns(ret, w, i, ret->launch[l]));
    for (uint32_t i = 0; i < w->heads; i++) {
        busy[BT_SCHEDULE_COMPANION] = plus(busy[BT_SCHEDULE_COMPANION], w->head[i].choose_ns);
        busy[w->attends] = plus(busy[w->attends], w->head[i].attend_ns);
    }
    ret->serial_ns = plus(busy[BT_SCHEDULE_NPU], busy[BT_SCHEDULE_COMPANION]);
}

/* A launch of `first`, then launches of `width`. */
static void cut(bt_heads_plan *p, uint32_t first, uint32_t width)
{
    p->launches = 0;
    for (uint32_t i = 0, n; i < p->heads; i += n) {
        const uint32_t wanted = i ? width : first;
        n = wanted < p->heads - i ? wanted : p->heads - i;
        p->launch[p->launches++] = (uint8_t)n;
    }
}

bt_err bt_heads_make(bt_heads_plan *ret, const bt_heads_work *w, bt_fault *fault)
{
    bt_heads_plan p = {.heads = w->heads};
    uint32_t best_first = 1, best_width = 1, fewest = UINT32_MAX;
    uint64_t best = UINT64_MAX;
    if (!w->heads || w->heads > BT_HEADS_MAX)
        return bt_fail(fault, BT_EARG, "a plan of %u heads; 1 to %d are possible", (unsigned)w->heads,
                       BT_HEADS_MAX);
    if (!w->most || w->most > BT_HEADS_MOST)
        return bt_fail(fault, BT_EARG, "launches of %u heads; 1 to %d are possible", (unsigned)w->most,
                       BT_HEADS_MOST);
    sort(p.order, w);
    for (uint32_t first = 1; first <= w->most && first <= w->heads; first++)
        for (uint32_t width = 1; width <= w->most; width++) {
            cut(&p, first, width);
            const uint64_t ns = w->attends == BT_SCHEDULE_NPU ? play_npu(&p, w) : play_companion(&p, w);
            if (ns > best || (ns == best && p.launches >= fewest)) continue;
            best = ns, fewest = p.launches, best_first = first, best_width = width;
        }
    cut(&p, best_first, best_width);
    bt_heads_play(&p, w);
    *ret = p;
    return BT_OK;
}
