/* Greedy convex clustering. The graph of clusters and single nodes, each named by its first node, stays
 * without cycles: every one has the complete set of those it waits for, and a node joins a cluster only where
 * that makes no cycle. */
#include "npu/lower/clusters.h"
#include "base/num.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct work {
    const bt_clusters_node *node;
    size_t n, words;
    uint32_t *first;  /* [n]: the first node of the node's cluster, or the node itself */
    uint64_t *before; /* [n][words]: bits of the first nodes that a first node's cluster waits for, directly
                         or not */
} work;

static bool waits_for(const work *w, uint32_t a, uint32_t b)
{
    return w->before[a * w->words + b / 64] >> (b % 64) & 1;
}

static void add_all(work *w, uint32_t a, const uint64_t *set)
{
    for (size_t i = 0; i < w->words; i++) w->before[a * w->words + i] |= set[i];
}

static void add_one(work *w, uint32_t a, uint32_t b)
{
    w->before[a * w->words + b / 64] |= UINT64_C(1) << (b % 64);
}

/* Whether v may join c: none of its other inputs waits for c. */
static bool may_join(const work *w, const bt_clusters_node *v, uint32_t c)
{
    for (size_t i = 0; i < v->inputs; i++) {
        const uint32_t u = w->first[v->input[i]];
        if (u != c && waits_for(w, u, c)) return false;
    }
    return true;
}

/* Makes v a part of c: c, and all that wait for c, then wait for all that v waits for. */
static void join(work *w, uint32_t v, uint32_t c)
{
    uint64_t *mine = w->before + v * w->words;
    mine[c / 64] &= ~(UINT64_C(1) << (c % 64));
    add_all(w, c, mine);
    for (uint32_t u = 0; u < v; u++) /* NOLINT(clang-analyzer-unix.Malloc): w->before, which its owner frees
                                      */
        if (w->first[u] == u && waits_for(w, u, c)) add_all(w, u, w->before + c * w->words);
    w->first[v] = c;
}

static bt_err visit(work *w, uint32_t v, bt_fault *fault)
{
    const bt_clusters_node *node = &w->node[v];
    w->first[v] = v;
    for (size_t i = 0; i < node->inputs; i++) {
        if (node->input[i] >= v)
            return bt_fail(fault, BT_EARG, "node %u reads node %u, which is not before it", (unsigned)v,
                           (unsigned)node->input[i]);
        const uint32_t u = w->first[node->input[i]];
        add_all(w, v, w->before + u * w->words);
        add_one(w, v, u); /* NOLINT(clang-analyzer-unix.Malloc): as above */
    }
    if (!node->npu) return BT_OK;
    int64_t best = -1;
    for (size_t i = 0; i < node->inputs; i++) {
        const uint32_t c = w->first[node->input[i]];
        if (w->node[c].npu && (int64_t)c > best && may_join(w, node, c)) best = c;
    }
    if (best >= 0) join(w, v, (uint32_t)best);
    return BT_OK;
}

bt_err bt_clusters_find(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        bt_fault *fault)
{
    work w = {.node = node, .n = n, .words = n / 64 + 1};
    size_t bits, clusters = 0;
    bt_err e = BT_OK;
    if (n >= UINT32_MAX || !bt_mul_size(&bits, n, w.words)) return bt_fail(fault, BT_EARG, "%zu nodes", n);
    w.first = calloc(n + 1, sizeof *w.first);
    w.before = calloc(bits + 1, sizeof *w.before);
    if (!w.first || !w.before) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for clusters of %zu operators", n);
        goto out;
    }
    for (uint32_t v = 0; v < n; v++)
        if ((e = visit(&w, v, fault)) < 0) goto out;
    for (size_t v = 0; v < n; v++) {
        const uint32_t c = w.first[v];
        if (!node[v].npu) cluster[v] = 0;
        else cluster[v] = c == v ? (uint32_t)++clusters : cluster[c];
    }
    *ret_clusters = clusters;
out:
    free(w.first);
    free(w.before);
    return e;
}
