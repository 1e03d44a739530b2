/* Clusters: the diamond of the classic mistake by hand, and random graphs against reachability by brute
 * force. */
#include "npu/lower/clusters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 40 };

static void a_diamond_with_a_companion_side_is_two_clusters(void **state) /* AC-n1 */
{
    (void)state;
    static const uint32_t a[] = {0}, bc[] = {1, 2};
    const bt_clusters_node diamond[] = {
        {.npu = 1, .macs = 1},                           /* A */
        {.input = a, .inputs = 1, .npu = 0, .macs = 1},  /* B, the companion's */
        {.input = a, .inputs = 1, .npu = 1, .macs = 1},  /* C */
        {.input = bc, .inputs = 2, .npu = 1, .macs = 1}, /* D */
    };
    uint32_t cluster[4];
    size_t clusters;
    assert_int_equal(bt_clusters_find(cluster, &clusters, diamond, 4, NULL), BT_OK);
    assert_int_equal(clusters, 2);
    assert_true(cluster[0] == 1 && cluster[1] == 0 && cluster[2] == 1 && cluster[3] == 2);
}

static void a_chain_is_one_cluster_and_small_ones_go_back(void **state)
{
    (void)state;
    static const uint32_t before[] = {0, 1, 2, 3, 4};
    const bt_clusters_node chain[] = {
        {.npu = 1, .macs = 10},
        {.input = before, .inputs = 1, .npu = 1, .macs = 5},
        {.input = before + 1, .inputs = 1, .npu = 0, .macs = 100},
        {.input = before + 2, .inputs = 1, .npu = 1, .macs = 14},
        {.input = before + 3, .inputs = 1, .npu = 0, .macs = 0},
        {.input = before + 4, .inputs = 1, .npu = 1, .macs = 15},
    };
    uint32_t c[6];
    size_t clusters;
    assert_int_equal(bt_clusters_find(c, &clusters, chain, 6, NULL), BT_OK);
    assert_true(clusters == 3 && c[0] == 1 && c[1] == 1 && c[2] == 0 && c[3] == 2 && c[4] == 0 && c[5] == 3);
    assert_int_equal(bt_clusters_drop(c, &clusters, chain, 6, 15, NULL), 1);
    assert_true(clusters == 2 && c[0] == 1 && c[1] == 1 && c[2] == 0 && c[3] == 0 && c[4] == 0 && c[5] == 2);
}

static void two_convex_clusters_that_wait_for_each_other_are_not_made(void **state)
{
    (void)state;
    /* 0 -> x -> 4 <- 1 -> y -> 5 <- 0, x and y the companion's: {0,5} and {1,4} are both convex, but each
     * would wait for the other. */
    static const uint32_t to_x[] = {0}, to_y[] = {1}, to4[] = {1, 2}, to5[] = {0, 3};
    const bt_clusters_node cross[] = {
        {.npu = 1},
        {.npu = 1},
        {.input = to_x, .inputs = 1, .npu = 0},
        {.input = to_y, .inputs = 1, .npu = 0},
        {.input = to4, .inputs = 2, .npu = 1},
        {.input = to5, .inputs = 2, .npu = 1},
    };
    uint32_t c[6];
    size_t clusters;
    assert_int_equal(bt_clusters_find(c, &clusters, cross, 6, NULL), BT_OK);
    assert_true(clusters == 3 && c[0] == 1 && c[1] == 2 && c[2] == 0 && c[3] == 0 && c[4] == 2 && c[5] == 3);
}

static uint64_t next(uint64_t *rng)
{
    return (*rng = *rng * 6364136223846793005u + 1442695040888963407u) >> 33;
}

/* reach[a][b]: a path from a to b */
static void close_paths(unsigned char reach[N][N])
{
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) reach[i][j] |= reach[i][k] & reach[k][j];
}

static void check(const uint32_t *cluster, size_t clusters, const bt_clusters_node *node,
                  unsigned char direct[N][N])
{
    unsigned char reach[N][N], between[N][N];
    memcpy(reach, direct, sizeof reach);
    close_paths(reach);
    uint32_t highest = 0;
    for (int v = 0; v < N; v++) {
        assert_int_equal(cluster[v] != 0, node[v].npu != 0);
        assert_true(cluster[v] <= highest + 1);
        if (cluster[v] > highest) highest = cluster[v];
    }
    assert_int_equal(highest, clusters);
    for (int a = 0; a < N; a++) /* convex */
        for (int b = 0; b < N; b++)
            for (int x = 0; x < N && cluster[a] && cluster[a] == cluster[b]; x++)
                assert_false(cluster[x] != cluster[a] && reach[a][x] && reach[x][b]);
    memset(between, 0, sizeof between); /* no circle once each cluster is one node: the companion's stay
                                           single, above N - highest */
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            int p = a, q = b;
            for (int u = N - 1; u >= 0; u--) {
                if (cluster[a] && cluster[u] == cluster[a]) p = u;
                if (cluster[b] && cluster[u] == cluster[b]) q = u;
            }
            if (direct[a][b] && p != q) between[p][q] = 1;
        }
    close_paths(between);
    for (int v = 0; v < N; v++) assert_false(between[v][v]);
}

static void every_cluster_of_a_random_graph_is_convex_and_none_wait_in_a_circle(void **state)
{
    (void)state;
    uint64_t rng = 4711;
    size_t joined = 0;
    for (int round = 0; round < 300; round++) {
        bt_clusters_node node[N];
        uint32_t input[N][4], cluster[N], again[N];
        unsigned char direct[N][N] = {{0}};
        size_t clusters = 0;
        const uint64_t share = 2 + next(&rng) % 8;
        for (uint32_t v = 0; v < N; v++) {
            const size_t inputs = v ? next(&rng) % 4 : 0;
            for (size_t i = 0; i < inputs; i++) {
                const uint32_t back = (uint32_t)(next(&rng) % (v < 8 ? v : 8)) + 1;
                input[v][i] = v - back;
                direct[v - back][v] = 1;
            }
            node[v] = (bt_clusters_node){.input = input[v], .inputs = inputs, .npu = next(&rng) % 10 < share,
                                         .macs = 1};
        }
        assert_int_equal(bt_clusters_find(cluster, &clusters, node, N, NULL), BT_OK);
        check(cluster, clusters, node, direct);
        assert_int_equal(bt_clusters_find(again, &clusters, node, N, NULL), BT_OK);
        assert_memory_equal(cluster, again, sizeof again);
        for (int v = 0; v < N; v++) joined += node[v].npu != 0;
        joined -= clusters;
    }
    assert_true(joined > 1000); /* clusters of one node each would pass the rest */
}

static void refuses_an_input_that_is_not_below(void **state)
{
    (void)state;
    static const uint32_t self[] = {1};
    const bt_clusters_node bad[] = {{.npu = 1}, {.input = self, .inputs = 1, .npu = 1}};
    uint32_t c[2];
    size_t clusters = 77;
    assert_int_equal(bt_clusters_find(c, &clusters, bad, 2, NULL), BT_EARG);
    assert_int_equal(clusters, 77);
    assert_int_equal(bt_clusters_find(c, &clusters, bad, 0, NULL), BT_OK);
    assert_int_equal(clusters, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diamond_with_a_companion_side_is_two_clusters),
        cmocka_unit_test(a_chain_is_one_cluster_and_small_ones_go_back),
        cmocka_unit_test(two_convex_clusters_that_wait_for_each_other_are_not_made),
        cmocka_unit_test(every_cluster_of_a_random_graph_is_convex_and_none_wait_in_a_circle),
        cmocka_unit_test(refuses_an_input_that_is_not_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
