/* A heap whose nodes have four children: half as deep as with two, and the children share cache lines. */
#include "simulate/inner.h"

#include <stdlib.h>

enum { BRANCHES = 4 };

static bool before(const sim_event *a, const sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

bt_err sim_calendar_post(sim_calendar *c, const sim_event *e)
{
    if (c->len == c->cap) {
        const size_t cap = c->cap ? c->cap * 2 : 1024;
        sim_event *heap = realloc(c->heap, cap * sizeof *heap);
        if (!heap) return BT_ENOMEM;
        c->heap = heap;
        c->cap = cap;
    }
    sim_event one = *e;
    one.order = c->orders++;
    size_t i = c->len++;
    for (; i > 0 && before(&one, &c->heap[(i - 1) / BRANCHES]); i = (i - 1) / BRANCHES)
        c->heap[i] = c->heap[(i - 1) / BRANCHES];
    c->heap[i] = one;
    return BT_OK;
}

bool sim_calendar_take(sim_event *ret, sim_calendar *c, int64_t until_ns)
{
    if (c->len == 0 || c->heap[0].at_ns > until_ns) return false;
    *ret = c->heap[0];
    const sim_event last = c->heap[--c->len];
    size_t i = 0;
    for (;;) {
        const size_t first = i * BRANCHES + 1;
        size_t least = first;
        if (first >= c->len) break;
        for (size_t k = first + 1; k < first + BRANCHES && k < c->len; k++)
            if (before(&c->heap[k], &c->heap[least])) least = k;
        if (!before(&c->heap[least], &last)) break;
        c->heap[i] = c->heap[least];
        i = least;
    }
    if (c->len > 0) c->heap[i] = last;
    return true;
}

void sim_calendar_done(sim_calendar *c)
{
    free(c->heap);
    *c = (sim_calendar){0};
}
