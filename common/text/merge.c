/* Joining by priority: a row of symbols and a queue of the pairs that may be joined. */
#include "text/merge.h"

#include <stdlib.h>
#include <string.h>

void bt_merge_done(bt_merge *m)
{
    free(m->slot);
    free(m->heap);
    free(m->run);
    free(m->head);
    free(m->empty);
    *m = (bt_merge){0};
}

void bt_merge_clear(bt_merge *m) { m->len = m->pairs = m->runs = m->heads = m->empties = 0; }

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

static bt_merge_pair pop_heap(bt_merge *m)
{
    const bt_merge_pair top = m->heap[0], last = m->heap[--m->pairs];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->pairs; i = child) {
        if (child + 1 < m->pairs && m->heap[child + 1].order < m->heap[child].order) child++;
        if (last.order <= m->heap[child].order) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return top;
}

static bool is_sorted(const bt_merge_pair *pair, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (pair[i - 1].order > pair[i].order) return false;
    return true;
}

static bt_err next_run(bt_merge *m, uint32_t *ret)
{
    if (m->empties > 0) {
        *ret = m->empty[--m->empties];
        return BT_OK;
    }
    void *array = m->run;
    if (!grow(&array, m->runs, 1, &m->run_cap, BT_MERGE_RUN * sizeof *m->run)) return BT_ENOMEM;
    m->run = array;
    array = m->empty; /* so that a run which becomes empty always finds its place */
    if (!grow(&array, m->runs, 1, &m->empty_cap, sizeof *m->empty)) return BT_ENOMEM;
    m->empty = array;
    *ret = (uint32_t)m->runs++;
    return BT_OK;
}

/* The full heap becomes a run. */
static bt_err heap_to_run(bt_merge *m)
{
    uint32_t r;
    void *array = m->head;
    if (!grow(&array, m->heads, 1, &m->head_cap, sizeof *m->head)) return BT_ENOMEM;
    m->head = array;
    if (next_run(m, &r) < 0) return BT_ENOMEM;
    bt_merge_pair *run = m->run + (size_t)r * BT_MERGE_RUN;
    if (is_sorted(m->heap, BT_MERGE_RUN)) memcpy(run, m->heap, BT_MERGE_RUN * sizeof *run);
    else
        for (size_t k = 0; k < BT_MERGE_RUN; k++) run[k] = pop_heap(m);
    m->pairs = 0;
    size_t i = m->heads++;
    for (; i > 0 && m->head[(i - 1) / 2].order > run->order; i = (i - 1) / 2)
        m->head[i] = m->head[(i - 1) / 2];
    m->head[i] = (bt_merge_head){run->order, r, 0};
    return BT_OK;
}

static bt_merge_pair pop_run(bt_merge *m)
{
    bt_merge_head h = m->head[0];
    const bt_merge_pair *run = m->run + (size_t)h.run * BT_MERGE_RUN, top = run[h.at];
    if (++h.at < BT_MERGE_RUN) {
        h.order = run[h.at].order;
    } else {
        m->empty[m->empties++] = h.run;
        h = m->head[--m->heads];
    }
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->heads; i = child) {
        if (child + 1 < m->heads && m->head[child + 1].order < m->head[child].order) child++;
        if (h.order <= m->head[child].order) break;
        m->head[i] = m->head[child];
    }
    m->head[i] = h;
    return top;
}

static bt_err push(bt_merge *m, bt_merge_pair pair)
{
    if (m->pairs == BT_MERGE_RUN && heap_to_run(m) < 0) return BT_ENOMEM;
    void *array = m->heap;
    if (!grow(&array, m->pairs, 1, &m->pair_cap, sizeof *m->heap)) return BT_ENOMEM;
    m->heap = array;
    size_t i = m->pairs++;
    for (; i > 0 && m->heap[(i - 1) / 2].order > pair.order; i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = pair;
    return BT_OK;
}

/* The best pair; false: none is left. */
static bool pop(bt_merge *m, bt_merge_pair *ret)
{
    if (m->heads > 0 && (m->pairs == 0 || m->head[0].order < m->heap[0].order)) *ret = pop_run(m);
    else if (m->pairs > 0) *ret = pop_heap(m);
    else return false;
    return true;
}

/* ---- the row ---- */

static void set_symbol(bt_merge *m, uint32_t begin, uint32_t len, int32_t id)
{
    m->slot[begin + len - 1] = (bt_merge_slot){len, BT_MERGE_INNER};
    m->slot[begin] = (bt_merge_slot){len, id};
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

/* Offers the pair that begins at `left`. */
static bt_err offer(bt_merge *m, uint32_t left, const char *text, bt_merge_pair_fn *fn, const void *ud)
{
    const bt_merge_symbol l = bt_merge_at(m, left);
    if (left + l.len == m->len) return BT_OK;
    const bt_merge_symbol r = bt_merge_at(m, left + l.len);
    uint32_t rank;
    int32_t id;
    if (!fn(ud, text, &l, &r, &rank, &id)) return BT_OK;
    return push(m, (bt_merge_pair){(uint64_t)rank << 32 | left, l.len + r.len, id});
}

bt_err bt_merge_run(bt_merge *m, const char *text, bt_merge_pair_fn *fn, const void *ud)
{
    bt_err e;
    for (uint32_t at = 0; at < m->len; at += m->slot[at].len)
        if ((e = offer(m, at, text, fn, ud)) < 0) return e;
    for (bt_merge_pair p; pop(m, &p);) {
        const uint32_t left = (uint32_t)p.order, right = left + m->slot[left].len;
        /* Symbols only grow: the same sum means the same two symbols. */
        if (m->slot[left].id == BT_MERGE_INNER || right == m->len ||
            m->slot[left].len + m->slot[right].len != p.len)
            continue;
        m->slot[right].id = BT_MERGE_INNER;
        set_symbol(m, left, p.len, p.id);
        if (left > 0 && (e = offer(m, left - m->slot[left - 1].len, text, fn, ud)) < 0) return e;
        if ((e = offer(m, left, text, fn, ud)) < 0) return e;
    }
    return BT_OK;
}
