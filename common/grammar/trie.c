/* The tree of a vocabulary: its texts are sorted, and each adds the bytes in which it differs from the one
 * before. */
#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    const char *ptr;
    size_t len;
    int32_t id;
} item;

static int by_text(const void *a, const void *b)
{
    const item *x = a, *y = b;
    const size_t n = x->len < y->len ? x->len : y->len;
    const int c = memcmp(x->ptr, y->ptr, n);
    if (c != 0) return c;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static size_t same_bytes(const item *a, const item *b)
{
    const size_t n = a->len < b->len ? a->len : b->len;
    size_t i = 0;
    while (i < n && a->ptr[i] == b->ptr[i]) i++;
    return i;
}

static bt_err gather(item *list, size_t *ret_n, bt_trie *t, const bt_trie_source *source, bt_fault *f)
{
    size_t n = 0;
    for (size_t id = 0; id < t->tokens; id++) {
        const bt_trie_kind kind = source->kind(source->ud, id);
        t->same[id] = -1;
        if (kind == BT_TRIE_END) t->end[t->ends++] = (int32_t)id;
        if (kind != BT_TRIE_TEXT) continue;
        list[n].ptr = source->text(source->ud, id, &list[n].len);
        list[n].id = (int32_t)id;
        if (list[n].len > BT_TRIE_TEXT_BYTES)
            return bt_fail(f, BT_ELIMIT, "token %zu has %zu bytes (%d is the limit)", id, list[n].len,
                           BT_TRIE_TEXT_BYTES);
        if (list[n].len > t->longest) t->longest = (uint32_t)list[n].len;
        n += list[n].len > 0;
    }
    *ret_n = n;
    return BT_OK;
}

static bt_err fill(bt_trie *t, const item *list, size_t n, bt_fault *f)
{
    uint32_t path[BT_TRIE_TEXT_BYTES + 1] = {0};
    size_t nodes = 1, depth = 0;
    for (size_t i = 0; i < n; i++) nodes += list[i].len - (i > 0 ? same_bytes(&list[i - 1], &list[i]) : 0);
    if (nodes > BT_TRIE_NODES)
        return bt_fail(f, BT_ELIMIT, "a vocabulary of %zu nodes (%d is the limit)", nodes, BT_TRIE_NODES);
    t->node = malloc(nodes * sizeof *t->node);
    if (!t->node) return bt_fail(f, BT_ENOMEM, "%zu nodes", nodes);
    t->node[0] = (bt_trie_node){.token = -1};
    t->nodes = 1;
    for (size_t i = 0; i < n; i++) {
        const size_t same = i > 0 ? same_bytes(&list[i - 1], &list[i]) : 0;
        for (; depth > same; depth--) t->node[path[depth]].skip = (uint32_t)t->nodes;
        for (; depth < list[i].len; t->nodes++) {
            t->node[t->nodes] = (bt_trie_node){.token = -1, .depth = (uint16_t)(depth + 1),
                                               .byte = (uint8_t)list[i].ptr[depth]};
            path[++depth] = (uint32_t)t->nodes;
        }
        bt_trie_node *node = &t->node[path[depth]];
        if (node->token < 0) {
            node->token = list[i].id;
        } else {
            node->token |= BT_TRIE_SAME;
            t->same[list[i - 1].id] = list[i].id;
        }
    }
    for (; depth > 0; depth--) t->node[path[depth]].skip = (uint32_t)nodes;
    t->node[0].skip = (uint32_t)nodes;
    t->bytes = sizeof *t + nodes * sizeof *t->node + t->tokens * (sizeof *t->same + sizeof *t->end);
    return BT_OK;
}

bt_err bt_trie_new(bt_trie **ret, const bt_trie_source *source, bt_fault *fault)
{
    if (source->tokens == 0 || source->tokens > BT_TRIE_TOKENS)
        return bt_fail(fault, BT_ELIMIT, "a vocabulary of %zu tokens (1 to %d)", source->tokens,
                       BT_TRIE_TOKENS);
    bt_trie *t = calloc(1, sizeof *t);
    item *list = malloc(source->tokens * sizeof *list);
    size_t n = 0;
    bt_err e = BT_OK;
    if (t) {
        t->tokens = source->tokens;
        t->same = malloc(t->tokens * sizeof *t->same);
        t->end = malloc(t->tokens * sizeof *t->end);
    }
    if (!t || !list || !t->same || !t->end)
        e = bt_fail(fault, BT_ENOMEM, "a tree of %zu tokens", source->tokens);
    if (e == BT_OK) e = gather(list, &n, t, source, fault);
    if (e == BT_OK) {
        qsort(list, n, sizeof *list, by_text);
        e = fill(t, list, n, fault);
    }
    free(list);
    if (e < 0) {
        bt_trie_free(t);
        return e;
    }
    *ret = t;
    return BT_OK;
}

void bt_trie_free(bt_trie *t)
{
    if (!t) return;
    free(t->node);
    free(t->same);
    free(t->end);
    free(t);
}
