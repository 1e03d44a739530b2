/* Merging clusters. As in clusters.c, the graph of items (clusters and the companion's nodes, each named by
 * its first node) has no cycle, and every item has the complete set of those it waits for. Two clusters may
 * become one where no third item lies on a path between them. A merge lets no other pair merge that could not
 * before. So the pairs are found once, and after a merge again for the new cluster alone. */
#include "npu/lower/clusters.h"
#include "base/num.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    uint32_t a, b; /* items, a < b */
    uint64_t gain_ns;
} pair;

typedef struct work {
    const bt_clusters_node *node;
    const bt_clusters_cost *cost;
    size_t n, words;
    uint32_t *item;   /* [n]: the first node of the node's cluster, or the node itself */
    uint8_t *on_npu;  /* [n] */
    uint64_t *before; /* [n][words]: items that an item waits for, directly or not */
    uint8_t *seen;    /* [n]: zeros outside a sum */
    uint32_t *next;   /* [n]: the next node of the same item; n: none */
    uint32_t *last;   /* [n]: of an item its last node in that list, which begins with the item itself */
    uint32_t *reader, *readers; /* [reads], [n + 2]: who reads each node u: reader[readers[u]] up to
                                   reader[readers[u + 1]] */
    pair *pair;
    size_t pairs, pairs_cap;
} work;

/* ---- cost ---- */

typedef struct boundary { /* what is paid for: clusters; bytes and converted elements across */
    uint64_t clusters, bytes, elements;
} boundary;

static uint64_t at_rate(uint64_t amount, uint64_t per_us) { return per_us ? amount * 1000 / per_us : 0; }

static uint64_t cost_ns(const bt_clusters_cost *cost, const boundary *of)
{
    return of->clusters * cost->launch_ns + at_rate(of->bytes, cost->bytes_per_us) +
           at_rate(of->elements, cost->elements_per_us);
}

enum { READ = 1, WRITTEN = 2, DEQUANTISED = 4 };

/* Adds what a node of the cluster reads from outside. */
static void add_read(const work *w, boundary *sum, uint32_t u)
{
    if (w->seen[u] & READ) return;
    w->seen[u] |= READ;
    sum->bytes += w->node[u].bytes;
    if (!w->on_npu[u]) sum->elements += w->node[u].elements;
}

/* Adds a node of the cluster that node v outside reads. */
static void add_written(const work *w, boundary *sum, uint32_t u, uint32_t v)
{
    if (!(w->seen[u] & WRITTEN)) sum->bytes += w->node[u].bytes;
    if (!w->on_npu[v] && !(w->seen[u] & DEQUANTISED)) sum->elements += w->node[u].elements;
    w->seen[u] |= WRITTEN | (w->on_npu[v] ? 0 : DEQUANTISED);
}

/* Adds what crosses the boundary of one cluster of all nodes whose item is a or b. */
static void add_boundary(const work *w, boundary *sum, uint32_t a, uint32_t b)
{
    const uint32_t both[] = {a, b};
    for (size_t k = 0; k < 1 + (a != b); k++)
        for (uint32_t v = both[k]; v < w->n; v = w->next[v]) {
            for (size_t i = 0; i < w->node[v].reads; i++) {
                const uint32_t u = w->node[v].input[i];
                if (w->item[u] != a && w->item[u] != b) add_read(w, sum, u);
            }
            for (uint32_t i = w->readers[v]; i < w->readers[v + 1]; i++) {
                const uint32_t r = w->reader[i];
                if (w->item[r] != a && w->item[r] != b) add_written(w, sum, v, r);
            }
        }
    for (size_t k = 0; k < 1 + (a != b); k++)
        for (uint32_t v = both[k]; v < w->n; v = w->next[v]) {
            w->seen[v] = 0;
            for (size_t i = 0; i < w->node[v].reads; i++) w->seen[w->node[v].input[i]] = 0;
        }
}

static uint64_t gain_of(const work *w, uint32_t a, uint32_t b)
{
    boundary apart = {0}, joined = {0};
    add_boundary(w, &apart, a, a);
    add_boundary(w, &apart, b, b);
    add_boundary(w, &joined, a, b);
    const boundary saved = {1, apart.bytes - joined.bytes, apart.elements - joined.elements};
    return cost_ns(w->cost, &saved);
}

/* ---- which pairs may become one ---- */

static bool waits_for(const work *w, uint32_t a, uint32_t b)
{
    return w->before[a * w->words + b / 64] >> (b % 64) & 1;
}

/* Whether a third item waits for `from` and is waited for by `to`. Such an item mostly stands just behind
 * `from`, so the search begins there. */
static bool is_between(const work *w, uint32_t from, uint32_t to)
{
    const uint64_t *set = w->before + to * w->words, behind = ~UINT64_C(0) << (from % 64);
    for (size_t i = 0; i <= w->words; i++) {
        const size_t word = (from / 64 + i) % w->words;
        uint64_t left = set[word] & (i == 0 ? behind : i == w->words ? ~behind : ~UINT64_C(0));
        for (; left; left &= left - 1) {
            const uint32_t x = (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(left);
            if (x != from && waits_for(w, x, from)) return true;
        }
    }
    return false;
}

static bool may_merge(const work *w, uint32_t a, uint32_t b)
{
    if (waits_for(w, b, a)) return !is_between(w, a, b);
    return !waits_for(w, a, b) || !is_between(w, b, a);
}

static bool is_cluster(const work *w, uint32_t v) { return w->on_npu[v] && w->item[v] == v; }

static bt_err offer(work *w, uint32_t a, uint32_t b, bt_fault *fault)
{
    if (!may_merge(w, a, b)) return BT_OK;
    const uint64_t gain = gain_of(w, a, b);
    if (!gain) return BT_OK;
    if (w->pairs == w->pairs_cap) {
        const size_t cap = w->pairs_cap ? 2 * w->pairs_cap : 256;
        pair *more = realloc(w->pair, cap * sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory merging clusters");
        w->pair = more;
        w->pairs_cap = cap;
    }
    w->pair[w->pairs++] = (pair){a < b ? a : b, a < b ? b : a, gain};
    return BT_OK;
}

static bool is_better(const pair *x, const pair *y)
{
    if (x->gain_ns != y->gain_ns) return x->gain_ns > y->gain_ns;
    return x->a != y->a ? x->a < y->a : x->b < y->b;
}

/* Takes the best pair that may still merge off the list. false: there is none. */
static bool take_best(work *w, pair *ret)
{
    while (w->pairs) {
        size_t best = 0;
        for (size_t i = 1; i < w->pairs; i++)
            if (is_better(&w->pair[i], &w->pair[best])) best = i;
        *ret = w->pair[best];
        w->pair[best] = w->pair[--w->pairs];
        if (may_merge(w, ret->a, ret->b)) return true;
    }
    return false;
}

/* ---- the graph of items ---- */

static void set_bit(work *w, uint32_t a, uint32_t b)
{
    w->before[a * w->words + b / 64] |= UINT64_C(1) << (b % 64);
}
static void clear_bit(work *w, uint32_t a, uint32_t b)
{
    w->before[a * w->words + b / 64] &= ~(UINT64_C(1) << (b % 64));
}

/* Fills all sets. A cluster's first node may stand before nodes that the cluster waits for, so the edges are
 * passed over until no set grows. */
static void find_before(work *w)
{
    for (bool grew = true; grew;) {
        grew = false;
        for (uint32_t v = 0; v < w->n; v++)
            for (size_t i = 0; i < w->node[v].inputs; i++) {
                const uint32_t a = w->item[v], u = w->item[w->node[v].input[i]];
                if (a == u) continue;
                grew = grew || !waits_for(w, a, u);
                set_bit(w, a, u);
                uint64_t *mine = w->before + a * w->words, *its = w->before + u * w->words;
                for (size_t k = 0; k < w->words; k++) {
                    grew = grew || (its[k] & ~mine[k]);
                    mine[k] |= its[k];
                }
            }
    }
}

static void join(work *w, uint32_t a, uint32_t b)
{
    uint64_t *mine = w->before + a * w->words;
    for (size_t k = 0; k < w->words; k++) mine[k] |= w->before[b * w->words + k];
    clear_bit(w, a, a);
    clear_bit(w, a, b);
    for (uint32_t v = b; v < w->n; v = w->next[v]) w->item[v] = a;
    w->next[w->last[a]] = b;
    w->last[a] = w->last[b];
    for (uint32_t v = 0; v < w->n; v++) {
        if (v == a || w->item[v] != v || (!waits_for(w, v, a) && !waits_for(w, v, b))) continue;
        clear_bit(w, v, b);
        set_bit(w, v, a);
        for (size_t k = 0; k < w->words; k++) w->before[v * w->words + k] |= mine[k];
    }
    size_t kept = 0;
    for (size_t i = 0; i < w->pairs; i++) {
        const pair *p = &w->pair[i];
        if (p->a != a && p->a != b && p->b != a && p->b != b) w->pair[kept++] = *p;
    }
    w->pairs = kept;
}

/* ---- the whole ---- */

static void number(uint32_t *cluster, size_t *ret_clusters, const work *w)
{
    size_t clusters = 0;
    for (size_t v = 0; v < w->n; v++)
        cluster[v] = !w->on_npu[v] ? 0 : w->item[v] == v ? (uint32_t)++clusters : cluster[w->item[v]];
    *ret_clusters = clusters;
}

/* Lists the readers of each node, by the lists of what nodes read. */
static void list_readers(work *w)
{
    for (uint32_t v = 0; v < w->n; v++)
        for (size_t i = 0; i < w->node[v].reads; i++) w->readers[w->node[v].input[i] + 2]++;
    for (size_t u = 1; u <= w->n; u++) w->readers[u + 1] += w->readers[u];
    for (uint32_t v = 0; v < w->n; v++) /* readers[u + 1] goes from the list's begin to its end */
        for (size_t i = 0; i < w->node[v].reads; i++) w->reader[w->readers[w->node[v].input[i] + 1]++] = v;
}

static bt_err begin(work *w, const uint32_t *cluster, bt_fault *fault)
{
    size_t bits = 0, reads = 0;
    if (!bt_mul_size(&bits, w->n, w->words)) return bt_fail(fault, BT_EARG, "%zu nodes", w->n);
    for (size_t v = 0; v < w->n; v++) reads += w->node[v].reads;
    w->item = malloc((w->n + 1) * sizeof *w->item);
    w->next = malloc((w->n + 1) * sizeof *w->next);
    w->last = malloc((w->n + 1) * sizeof *w->last);
    w->on_npu = malloc(w->n + 1);
    w->seen = calloc(w->n + 1, 1);
    w->before = calloc(bits + 1, sizeof *w->before);
    w->reader = malloc((reads + 1) * sizeof *w->reader);
    w->readers = calloc(w->n + 2, sizeof *w->readers);
    uint32_t *first = malloc((w->n + 1) * sizeof *first);
    const bool made = w->item && w->next && w->last && w->on_npu && w->seen && w->before && w->reader &&
                      w->readers && first;
    for (size_t i = 0; made && i <= w->n; i++) first[i] = UINT32_MAX;
    for (uint32_t v = 0; made && v < w->n; v++) {
        if (cluster[v] && first[cluster[v]] == UINT32_MAX) first[cluster[v]] = v;
        w->item[v] = cluster[v] ? first[cluster[v]] : v;
        w->on_npu[v] = cluster[v] != 0;
        w->last[v] = v;
        w->next[v] = (uint32_t)w->n;
        if (w->item[v] == v) continue;
        w->next[w->last[w->item[v]]] = v;
        w->last[w->item[v]] = v;
    }
    if (made) list_readers(w);
    free(first);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for clusters of %zu operators", w->n);
}

static void done(work *w)
{
    free(w->item);
    free(w->on_npu);
    free(w->seen);
    free(w->next);
    free(w->last);
    free(w->reader);
    free(w->readers);
    free(w->before);
    free(w->pair);
}

bt_err bt_clusters_merge(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                         const bt_clusters_cost *cost, size_t steps, bt_fault *fault)
{
    work w = {.node = node, .cost = cost, .n = n, .words = n / 64 + 1};
    pair best;
    if (!cost->launch_ns && !cost->bytes_per_us && !cost->elements_per_us) return BT_OK;
    bt_err e = begin(&w, cluster, fault);
    if (e < 0) goto out;
    find_before(&w);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; is_cluster(&w, a) && b < n; b++)
            if (is_cluster(&w, b) && (e = offer(&w, a, b, fault)) < 0) goto out;
    for (; steps && take_best(&w, &best); steps--) {
        join(&w, best.a, best.b);
        for (uint32_t c = 0; c < n; c++)
            if (c != best.a && is_cluster(&w, c) && (e = offer(&w, best.a, c, fault)) < 0) goto out;
    }
    number(cluster, ret_clusters, &w);
out:
    done(&w);
    return e;
}

size_t bt_clusters_drop(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        uint64_t min_macs, uint64_t *dropped)
{
    const size_t had = *ret_clusters;
    uint32_t kept = 0;
    if (!min_macs) return 0;
    for (uint32_t c = 1; c <= had; c++) {
        uint64_t macs = 0;
        for (size_t v = 0; v < n; v++)
            if (cluster[v] == c) macs += node[v].macs;
        const uint32_t to = macs < min_macs ? 0 : ++kept;
        for (size_t v = 0; v < n && to != c; v++) {
            if (cluster[v] != c) continue;
            cluster[v] = to;
            if (!to && dropped) dropped[v] = macs;
        }
    }
    *ret_clusters = kept;
    return had - kept;
}

bt_err bt_clusters_merge_all(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                             const bt_clusters_cost *cost, uint64_t min_macs, uint64_t *dropped,
                             bt_fault *fault)
{
    bt_err e;
    do e = bt_clusters_merge(cluster, ret_clusters, node, n, cost, SIZE_MAX, fault);
    while (e == BT_OK && bt_clusters_drop(cluster, ret_clusters, node, n, min_macs, dropped) > 0);
    return e;
}
