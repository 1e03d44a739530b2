/* Joining by priority: a linked row of symbols and a binary heap of the pairs that may be joined. */
#include "text/merge.h"

#include <stdlib.h>

void bt_merge_done(bt_merge *m)
{
    free(m->symbol);
    free(m->heap);
    *m = (bt_merge){0};
}

void bt_merge_clear(bt_merge *m) { m->symbols = m->pairs = 0; }

/* Room for one more of `size` bytes. Counts stay below 2^32 (texts are bounded), so the products cannot
 * overflow. */
static bool grow(void **array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap) return true;
    const size_t more = *cap ? 2 * *cap : 64;
    void *p = realloc(*array, more * size);
    if (!p) return false;
    *array = p;
    *cap = more;
    return true;
}

bt_err bt_merge_add(bt_merge *m, uint32_t len, int32_t id)
{
    void *array = m->symbol;
    if (!grow(&array, m->symbols, &m->symbol_cap, sizeof *m->symbol)) return BT_ENOMEM;
    m->symbol = array;
    const uint32_t i = (uint32_t)m->symbols++;
    uint32_t begin = 0;
    if (i > 0) {
        begin = m->symbol[i - 1].begin + m->symbol[i - 1].len;
        m->symbol[i - 1].next = i;
    }
    m->symbol[i] = (bt_merge_symbol){begin, len, i > 0 ? i - 1 : BT_MERGE_NONE, BT_MERGE_NONE, id};
    return BT_OK;
}

static bt_err push(bt_merge *m, bt_merge_pair pair)
{
    void *array = m->heap;
    if (!grow(&array, m->pairs, &m->pair_cap, sizeof *m->heap)) return BT_ENOMEM;
    m->heap = array;
    size_t i = m->pairs++;
    for (; i > 0 && m->heap[(i - 1) / 2].order > pair.order; i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = pair;
    return BT_OK;
}

static bt_merge_pair pop(bt_merge *m)
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

/* Offers the pair that begins at symbol `left`. */
static bt_err offer(bt_merge *m, uint32_t left, const char *text, bt_merge_pair_fn *fn, const void *ud)
{
    if (left == BT_MERGE_NONE || m->symbol[left].next == BT_MERGE_NONE) return BT_OK;
    const bt_merge_symbol *l = &m->symbol[left], *r = &m->symbol[l->next];
    uint32_t rank;
    int32_t id;
    if (!fn(ud, text, l, r, &rank, &id)) return BT_OK;
    return push(m, (bt_merge_pair){(uint64_t)rank << 32 | left, l->len + r->len, id});
}

bt_err bt_merge_run(bt_merge *m, const char *text, bt_merge_pair_fn *fn, const void *ud)
{
    bt_err e;
    for (size_t i = 0; i + 1 < m->symbols; i++)
        if ((e = offer(m, (uint32_t)i, text, fn, ud)) < 0) return e;
    while (m->pairs > 0) {
        const bt_merge_pair p = pop(m);
        const uint32_t left = (uint32_t)p.order;
        bt_merge_symbol *l = &m->symbol[left];
        if (l->len == 0 || l->next == BT_MERGE_NONE) continue;
        bt_merge_symbol *r = &m->symbol[l->next];
        /* Symbols only grow: the same sum means the same two symbols. */
        if (l->len + r->len != p.len) continue;
        l->len = p.len;
        l->id = p.id;
        l->next = r->next;
        r->len = 0;
        if (l->next != BT_MERGE_NONE) m->symbol[l->next].prev = left;
        if ((e = offer(m, l->prev, text, fn, ud)) < 0) return e;
        if ((e = offer(m, left, text, fn, ud)) < 0) return e;
    }
    return BT_OK;
}
