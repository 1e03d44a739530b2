/* Merging clusters, step by step against every pair tried by brute force on random small graphs; and by hand
 * what each cost does. */
#include "npu/lower/clusters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { N = 14, INPUTS = 3 };

typedef struct graph {
    bt_clusters_node node[N];
    uint32_t input[N][INPUTS];
} graph;

static uint64_t next(uint64_t *rng)
{
    return (*rng = *rng * 6364136223846793005u + 1442695040888963407u) >> 33;
}

static void make(graph *g, uint64_t *rng)
{
    const uint64_t share = 3 + next(rng) % 7;
    for (uint32_t v = 0; v < N; v++) {
        size_t inputs = 0;
        const size_t want = v ? next(rng) % (INPUTS + 1) : 0;
        for (size_t i = 0; i < want; i++) {
            const uint32_t u = (uint32_t)(next(rng) % v);
            bool twice = false;
            for (size_t k = 0; k < inputs; k++) twice = twice || g->input[v][k] == u;
            if (!twice) g->input[v][inputs++] = u;
        }
        g->node[v] = (bt_clusters_node){.input = g->input[v],
                                        .inputs = inputs,
                                        .npu = next(rng) % 10 < share,
                                        .macs = next(rng) % 100,
                                        .reads = inputs ? 1 + next(rng) % inputs : 0,
                                        .bytes = 1 + next(rng) % 1000,
                                        .elements = next(rng) % 1000};
    }
}

/* ---- by definition ---- */

/* Every cluster against every value, as the header says. */
static uint64_t cost_of(const graph *g, const uint32_t *cluster, const bt_clusters_cost *cost)
{
    uint64_t clusters = 0, bytes = 0, elements = 0;
    for (uint32_t c = 1; c <= N; c++) {
        bool is_there = false;
        for (int v = 0; v < N; v++) is_there = is_there || cluster[v] == c;
        clusters += is_there;
        for (int u = 0; is_there && u < N; u++) {
            bool read_in = false, read_out = false, read_by_companion = false;
            for (int v = 0; v < N; v++)
                for (size_t i = 0; i < g->node[v].reads; i++) {
                    if (g->input[v][i] != (uint32_t)u) continue;
                    if (cluster[v] == c) read_in = true;
                    else read_out = true;
                    if (!cluster[v]) read_by_companion = true;
                }
            if (cluster[u] != c && read_in) bytes += g->node[u].bytes;
            if (cluster[u] != c && read_in && !cluster[u]) elements += g->node[u].elements;
            if (cluster[u] == c && read_out) bytes += g->node[u].bytes;
            if (cluster[u] == c && read_by_companion) elements += g->node[u].elements;
        }
    }
    return clusters * cost->launch_ns + (cost->bytes_per_us ? bytes * 1000 / cost->bytes_per_us : 0) +
           (cost->elements_per_us ? elements * 1000 / cost->elements_per_us : 0);
}

/* Whether clusters and single nodes, each as one, wait for each other in no circle. */
static bool is_free_of_circles(const graph *g, const uint32_t *cluster)
{
    bool way[N][N] = {{false}};
    uint32_t name[N];
    for (uint32_t v = 0; v < N; v++) {
        name[v] = v;
        for (uint32_t u = 0; u < v && cluster[v]; u++)
            if (cluster[u] == cluster[v] && name[v] == v) name[v] = u;
    }
    for (int v = 0; v < N; v++)
        for (size_t i = 0; i < g->node[v].inputs; i++)
            if (name[g->input[v][i]] != name[v]) way[name[g->input[v][i]]][name[v]] = true;
    for (int k = 0; k < N; k++)
        for (int a = 0; a < N; a++)
            for (int b = 0; b < N; b++) way[a][b] = way[a][b] || (way[a][k] && way[k][b]);
    for (int v = 0; v < N; v++)
        if (way[v][v]) return false;
    return true;
}

static void number(uint32_t *cluster)
{
    uint32_t to[N + 1] = {0}, clusters = 0;
    for (int v = 0; v < N; v++) {
        if (cluster[v] && !to[cluster[v]]) to[cluster[v]] = ++clusters;
        cluster[v] = to[cluster[v]];
    }
}

/* The best of all pairs; equal ones by their first nodes, which is the order of the numbers. false: none
 * saves. */
static bool best_step(uint32_t *ret, const graph *g, const uint32_t *cluster, const bt_clusters_cost *cost)
{
    uint64_t least = cost_of(g, cluster, cost);
    bool found = false;
    for (uint32_t a = 1; a <= N; a++)
        for (uint32_t b = a + 1; b <= N; b++) {
            uint32_t joined[N];
            bool is_there = false;
            for (int v = 0; v < N; v++) {
                joined[v] = cluster[v] == b ? a : cluster[v];
                is_there = is_there || cluster[v] == b;
            }
            const uint64_t now = cost_of(g, joined, cost);
            if (!is_there || now >= least || !is_free_of_circles(g, joined)) continue;
            least = now;
            found = true;
            memcpy(ret, joined, sizeof joined);
        }
    if (found) number(ret);
    return found;
}

static void each_step_is_the_best_there_is_and_the_last_one_leaves_none(void **state)
{
    (void)state;
    /* rates that divide 1,000, so that nothing is rounded */
    static const bt_clusters_cost costs[] = {{.launch_ns = 5000},
                                             {.bytes_per_us = 10},
                                             {.elements_per_us = 10},
                                             {.launch_ns = 300, .bytes_per_us = 100, .elements_per_us = 50},
                                             {.launch_ns = 1, .bytes_per_us = 1, .elements_per_us = 1}};
    uint64_t rng = 815;
    size_t merges = 0, hindered = 0;
    for (int round = 0; round < 600; round++) {
        graph g;
        uint32_t cluster[N], whole[N], want[N];
        size_t clusters = 0, all = 0;
        const bt_clusters_cost *cost = &costs[(size_t)round % (sizeof costs / sizeof *costs)];
        make(&g, &rng);
        assert_int_equal(bt_clusters_find(cluster, &clusters, g.node, N, NULL), BT_OK);
        memcpy(whole, cluster, sizeof whole);
        all = clusters;
        assert_int_equal(bt_clusters_merge(whole, &all, g.node, N, cost, SIZE_MAX, NULL), BT_OK);
        for (;;) {
            const uint64_t before = cost_of(&g, cluster, cost);
            const bool saves = best_step(want, &g, cluster, cost);
            const size_t had = clusters;
            assert_int_equal(bt_clusters_merge(cluster, &clusters, g.node, N, cost, 1, NULL), BT_OK);
            if (!saves) {
                assert_int_equal(clusters, had);
                break;
            }
            assert_int_equal(clusters, had - 1);
            assert_memory_equal(cluster, want, sizeof want);
            assert_true(is_free_of_circles(&g, cluster));
            assert_true(cost_of(&g, cluster, cost) < before);
            merges++;
        }
        assert_int_equal(all, clusters); /* one step after the other is the whole */
        assert_memory_equal(whole, cluster, sizeof whole);
        hindered += clusters > 1;
    }
    assert_true(merges > 300 && hindered > 100);
}

/* A companion's value that two matrices read; a third reads what the companion made of theirs. */
static const uint32_t from0[] = {0}, from12[] = {1, 2}, from3[] = {3};
static const bt_clusters_node fan[] = {
    {.bytes = 400, .elements = 100},
    {.input = from0, .inputs = 1, .reads = 1, .npu = 1, .macs = 7, .bytes = 400, .elements = 100},
    {.input = from0, .inputs = 1, .reads = 1, .npu = 1, .macs = 6, .bytes = 400, .elements = 100},
    {.input = from12, .inputs = 2, .reads = 2, .bytes = 400, .elements = 100},
    {.input = from3, .inputs = 1, .reads = 1, .npu = 1, .macs = 12, .bytes = 400, .elements = 100},
};

static void each_cost_by_itself_makes_one_cluster_of_what_reads_one_value(void **state)
{
    (void)state;
    static const bt_clusters_cost costs[] = {{0},
                                             {.launch_ns = 1},
                                             {.bytes_per_us = 400000},
                                             {.elements_per_us = 100000},
                                             {.elements_per_us = 100001}};
    static const bool merges[] = {false, true, true, true, false}; /* the last one saves less than 1 ns */
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        uint32_t c[5];
        size_t clusters = 0;
        assert_int_equal(bt_clusters_find(c, &clusters, fan, 5, NULL), BT_OK);
        assert_int_equal(clusters, 3);
        assert_int_equal(bt_clusters_merge(c, &clusters, fan, 5, &costs[i], SIZE_MAX, NULL), BT_OK);
        assert_int_equal(clusters, merges[i] ? 2 : 3);
        assert_true(c[0] == 0 && c[1] == 1 && c[2] == (merges[i] ? 1u : 2u) && c[3] == 0);
        assert_int_equal(c[4], clusters); /* behind the companion: never with the others */
    }
}

/* The oracle itself: 3 clusters of which 3 values go in and 2 out (nobody reads 4); joined one goes in less.
 */
static void the_work_of_a_clustering_by_hand(void **state)
{
    (void)state;
    const uint32_t apart[N] = {0, 1, 2, 0, 3}, joined[N] = {0, 1, 1, 0, 2};
    const bt_clusters_cost launch = {.launch_ns = 1}, bytes = {.bytes_per_us = 1000},
                           elements = {.elements_per_us = 1000},
                           all = {.launch_ns = 1000, .bytes_per_us = 100, .elements_per_us = 7};
    graph g;
    memset(&g, 0, sizeof g);
    for (size_t v = 0; v < sizeof fan / sizeof *fan; v++) {
        g.node[v] = fan[v];
        for (size_t i = 0; i < fan[v].inputs; i++) g.input[v][i] = fan[v].input[i];
    }
    assert_true(cost_of(&g, apart, &launch) == 3 && cost_of(&g, apart, &bytes) == 5 * 400 &&
                cost_of(&g, apart, &elements) == 5 * 100);
    assert_true(cost_of(&g, joined, &launch) == 2 && cost_of(&g, joined, &bytes) == 4 * 400 &&
                cost_of(&g, joined, &elements) == 4 * 100);
    assert_true(cost_of(&g, joined, &all) == 2 * 1000 + 16000 + 57142);
}

static void clusters_of_little_work_go_and_the_others_are_numbered_anew(void **state)
{
    (void)state;
    for (uint64_t least = 0; least <= 13; least++) {
        uint32_t c[] = {0, 1, 2, 0, 3};
        size_t clusters = 3;
        uint64_t work[5] = {9, 9, 9, 9, 9};
        const size_t went = bt_clusters_drop(c, &clusters, fan, 5, least, work);
        const uint32_t one = least <= 7, two = least <= 6, three = least <= 12;
        assert_int_equal(clusters, one + two + three);
        assert_int_equal(went, 3 - clusters);
        assert_true(work[0] == 9 && work[1] == (one ? 9 : 7) && work[2] == (two ? 9 : 6) && work[3] == 9 &&
                    work[4] == (three ? 9 : 12));
        assert_true(c[1] == one && c[2] == (two ? one + two : 0) && c[4] == (three ? one + two + three : 0));
    }
}

/* Two clusters read from a third, of little work: only conversions cost, and within the NPU there are none.
 * Once the third is the companion's, one cluster converts what two would. */
static void what_was_dropped_makes_a_merge_worthwhile(void **state)
{
    (void)state;
    static const bt_clusters_node v[] = {
        {.npu = 1, .macs = 1, .bytes = 400, .elements = 100},
        {.input = from0, .inputs = 1, .reads = 1, .npu = 1, .macs = 7, .bytes = 400, .elements = 100},
        {.input = from0, .inputs = 1, .reads = 1, .npu = 1, .macs = 8, .bytes = 400, .elements = 100},
    };
    const bt_clusters_cost cost = {.elements_per_us = 1};
    for (int small = 0; small < 2; small++) {
        uint32_t c[3] = {1, 2, 3};
        uint64_t work[3] = {0};
        size_t clusters = 3;
        assert_int_equal(bt_clusters_merge(c, &clusters, v, 3, &cost, SIZE_MAX, NULL), BT_OK);
        assert_int_equal(clusters, 3);
        assert_int_equal(bt_clusters_merge_all(c, &clusters, v, 3, &cost, small ? 2 : 1, work, NULL), BT_OK);
        assert_int_equal(clusters, small ? 1 : 3);
        assert_true(c[0] == (small ? 0 : 1) && work[0] == (small ? 1 : 0) && !work[1] && !work[2]);
        assert_int_equal(c[1] == c[2], small);
    }
}

/* By definition: all best steps, what has too little work, and again, until nothing changes. */
static void merging_and_dropping_end_where_neither_changes_anything(void **state)
{
    (void)state;
    static const bt_clusters_cost costs[] = {{.elements_per_us = 10},
                                             {.launch_ns = 300, .bytes_per_us = 100, .elements_per_us = 50},
                                             {.bytes_per_us = 10, .elements_per_us = 1}};
    uint64_t rng = 4711;
    size_t later = 0;
    for (int round = 0; round < 3000; round++) {
        graph g;
        uint32_t cluster[N], want[N], next_step[N];
        uint64_t work[N] = {0}, least = 0;
        size_t clusters = 0, found = 0;
        const bt_clusters_cost *cost = &costs[(size_t)round % (sizeof costs / sizeof *costs)];
        make(&g, &rng);
        least = next(&rng) % 150;
        assert_int_equal(bt_clusters_find(cluster, &clusters, g.node, N, NULL), BT_OK);
        memcpy(want, cluster, sizeof want);
        for (size_t rounds = 0, went = 1; went; rounds++) {
            while (best_step(next_step, &g, want, cost)) {
                memcpy(want, next_step, sizeof want);
                later += rounds > 0;
            }
            assert_true(rounds < 2);
            went = 0;
            for (uint32_t c = 1; c <= N; c++) {
                uint64_t macs = 0;
                for (int v = 0; v < N; v++) macs += want[v] == c ? g.node[v].macs : 0;
                for (int v = 0; v < N; v++)
                    if (want[v] == c && macs < least) want[v] = 0, went++;
            }
            number(want);
        }
        assert_int_equal(bt_clusters_merge_all(cluster, &clusters, g.node, N, cost, least, work, NULL),
                         BT_OK);
        assert_memory_equal(cluster, want, sizeof want);
        for (int v = 0; v < N; v++) {
            found = want[v] > found ? want[v] : found;
            assert_true(want[v] || !g.node[v].npu ? work[v] == 0 : work[v] < least);
        }
        assert_int_equal(clusters, found);
        assert_true(is_free_of_circles(&g, cluster));
    }
    assert_true(later > 4); /* merges that only dropping made worthwhile */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_is_the_best_there_is_and_the_last_one_leaves_none),
        cmocka_unit_test(each_cost_by_itself_makes_one_cluster_of_what_reads_one_value),
        cmocka_unit_test(the_work_of_a_clustering_by_hand),
        cmocka_unit_test(clusters_of_little_work_go_and_the_others_are_numbered_anew),
        cmocka_unit_test(what_was_dropped_makes_a_merge_worthwhile),
        cmocka_unit_test(merging_and_dropping_end_where_neither_changes_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
