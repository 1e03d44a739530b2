/* Joining by priority: a row of symbols and a queue of the pairs that may be joined next. */
#include "text/merge.h"

#include <stdlib.h>

enum { CHILDREN = 8 }; /* of a pair in the heap: one line of a processor's cache */

void bt_merge_done(bt_merge *m)
{
    free(m->slot);
    free(m->heap);
    *m = (bt_merge){0};
}

void bt_merge_clear(bt_merge *m) { m->len = m->pairs = 0; }

/* Room for `more` of `size` bytes. Counts stay below 2^32 (texts are bounded), so the products cannot
 * overflow. */
static bool grow(void **array, size_t count, size_t more, size_t *cap, size_t size)
{
    if (more <= *cap - count) return true;
    size_t wanted = *cap ? 2 * *cap : 64;
    while (wanted - count < more) wanted *= 2;
    void *p = realloc(*array, wanted * size);
    if (!p) return false;
    *array = p;
    *cap = wanted;
    return true;
}

/* ---- the queue ---- */

static uint64_t pop(bt_merge *m)
{
    const uint64_t top = m->heap[0], last = m->heap[--m->pairs];
    size_t i = 0;
    for (size_t child; (child = CHILDREN * i + 1) < m->pairs; i = child) {
        const size_t end = m->pairs - child < CHILDREN ? m->pairs : child + CHILDREN;
        for (size_t k = child + 1; k < end; k++)
            if (m->heap[k] < m->heap[child]) child = k;
        if (last <= m->heap[child]) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return top;
}

static bt_err push(bt_merge *m, uint64_t order)
{
    void *array = m->heap;
    if (!grow(&array, m->pairs, 1, &m->pair_cap, sizeof *m->heap)) return BT_ENOMEM;
    m->heap = array;
    size_t i = m->pairs++;
    for (; i > 0 && m->heap[(i - 1) / CHILDREN] > order; i = (i - 1) / CHILDREN)
        m->heap[i] = m->heap[(i - 1) / CHILDREN];
    m->heap[i] = order;
    return BT_OK;
}

/* ---- the row ---- */

static void set_symbol(bt_merge *m, uint32_t begin, uint32_t len, int32_t id)
{
    m->slot[begin + len - 1] = (bt_merge_slot){len, BT_MERGE_INNER, -1, 0};
    m->slot[begin] = (bt_merge_slot){len, id, -1, 0};
}

bt_err bt_merge_add(bt_merge *m, uint32_t len, int32_t id)
{
    void *array = m->slot;
    if (!grow(&array, m->len, len, &m->slot_cap, sizeof *m->slot)) return BT_ENOMEM;
    m->slot = array;
    set_symbol(m, (uint32_t)m->len, len, id);
    m->len += len;
    return BT_OK;
}

/* The order of the pair that begins at `left`; UINT64_MAX: it does not join. */
static uint64_t order(const bt_merge *m, uint32_t left)
{
    return m->slot[left].join < 0 ? UINT64_MAX : (uint64_t)m->slot[left].rank << 32 | left;
}

static uint32_t before(const bt_merge *m, uint32_t at) { return at - m->slot[at - 1].len; }
static uint32_t after(const bt_merge *m, uint32_t at) { return at + m->slot[at].len; }

/* Looks at the pair that begins at `left`. */
static void look(bt_merge *m, uint32_t left, const char *text, bt_merge_pair_fn *fn, const void *ud)
{
    bt_merge_slot *slot = &m->slot[left];
    const bt_merge_symbol l = bt_merge_at(m, left);
    slot->join = -1;
    if (left + l.len == m->len) return;
    const bt_merge_symbol r = bt_merge_at(m, left + l.len);
    if (!fn(ud, text, &l, &r, &slot->rank, &slot->join)) slot->join = -1;
}

/* Puts the pair that begins at `left` into the queue where it is better than both neighbours. */
static bt_err offer(bt_merge *m, uint32_t left)
{
    const uint64_t own = order(m, left);
    if (own == UINT64_MAX || (left > 0 && order(m, before(m, left)) < own) || order(m, after(m, left)) < own)
        return BT_OK;
    return push(m, own);
}

/* Joins the pair that begins at `left`. Three pairs become two; they and their neighbours may now be better
 * than those beside them. A neighbour that was so before waits in the queue already. */
static bt_err join(bt_merge *m, uint32_t left, const char *text, bt_merge_pair_fn *fn, const void *ud)
{
    const uint32_t right = after(m, left), next = after(m, right);
    const uint64_t old_next = order(m, right);
    bt_err e = BT_OK;
    m->slot[right].id = BT_MERGE_INNER;
    set_symbol(m, left, next - left, m->slot[left].join);
    look(m, left, text, fn, ud);
    if (left > 0) {
        const uint32_t prev = before(m, left);
        const uint64_t old_prev = order(m, prev);
        look(m, prev, text, fn, ud);
        if (prev > 0 && old_prev < order(m, before(m, prev))) e = offer(m, before(m, prev));
        if (e == BT_OK) e = offer(m, prev);
    }
    if (e == BT_OK) e = offer(m, left);
    if (e == BT_OK && next < m->len && old_next < order(m, next)) e = offer(m, next);
    return e;
}

bt_err bt_merge_run(bt_merge *m, const char *text, bt_merge_pair_fn *fn, const void *ud)
{
    bt_err e;
    for (uint32_t at = 0; at < m->len; at = after(m, at)) look(m, at, text, fn, ud);
    for (uint32_t at = 0; at < m->len; at = after(m, at))
        if ((e = offer(m, at)) < 0) return e;
    while (m->pairs > 0) {
        const uint64_t best = pop(m);
        const uint32_t left = (uint32_t)best;
        if (m->slot[left].id == BT_MERGE_INNER || order(m, left) != best) continue;
        if ((e = join(m, left, text, fn, ud)) < 0) return e;
    }
    return BT_OK;
}
