#ifndef BT_NPU_CLUSTERS_H
#define BT_NPU_CLUSTERS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Operators of the NPU in clusters that can each run as one call. A cluster is convex: no path leaves it and comes
 * back, and no two clusters wait for each other, so that each can run as a whole between its inputs and its outputs.
 * Greedy in topological order: an operator joins the cluster of one of its inputs (the latest that stays convex), else
 * begins one. Pure; deterministic. Memory grows with n squared over 64; time at worst with n times that. */
typedef struct bt_clusters_node {
    const uint32_t *input;
    size_t inputs; /* nodes that it waits for; each below its own index */
    int npu;       /* may the NPU run it? */
    uint64_t macs;
    /* For merging alone, each below 2^40: */
    size_t reads;      /* the first of the inputs it reads from; the others only come before it */
    uint64_t bytes;    /* of what it writes */
    uint64_t elements; /* of it, to be converted where the writer and a reader are on different sides */
} bt_clusters_node;
/* cluster[n]: 0 the companion, else the cluster, numbered from 1 in the order of their first nodes. BT_EARG: an
 * input that is not below; BT_ENOMEM. */
bt_err bt_clusters_find(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        bt_fault *fault);

/* The cost of running a clustering, and merging clusters for as long as that cost falls. A cluster is started once
 * (launch_ns). It reads each value from outside once and writes each value that is read outside once; both are bytes
 * over the boundary. What comes from the companion is quantised by each cluster that reads it, what goes to the
 * companion is dequantised once. In ns:
 *
 *   clusters * launch_ns + bytes * 1000 / bytes_per_us + elements * 1000 / elements_per_us
 *
 * A rate of 0: that costs nothing. The three terms of a difference are rounded down one by one. */
typedef struct bt_clusters_cost {
    uint64_t launch_ns, bytes_per_us, elements_per_us;
} bt_clusters_cost;

/* Merges, among all pairs that stay convex, the one that saves most (where some are equal the one whose first nodes
 * come first), again and again until none saves a nanosecond, or `steps` times. Clusters are numbered anew, from 1 in
 * the order of their first nodes. *ret_clusters: how many there are, read and written. Memory grows with n squared over
 * 64. BT_ENOMEM. */
bt_err bt_clusters_merge(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                         const bt_clusters_cost *cost, size_t steps, bt_fault *fault);

/* Clusters with less work than min_macs become the companion's (0); the others are numbered anew. Returns how many
 * clusters went. dropped NULL: not asked for; else dropped[v], of each node that went, becomes the work of its
 * cluster, and the others stay. The work of a cluster: the sum of its nodes' macs. */
size_t bt_clusters_drop(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        uint64_t min_macs, uint64_t *dropped);

/* Merging as far as it saves, then dropping, again until nothing is dropped. A dropped cluster's nodes are the
 * companion's: a value that two clusters share with them is converted for each of the two, so that a merge that saved
 * nothing before saves elements * 1000 / elements_per_us. The nodes also stand alone between other clusters, where none
 * of them may be joined over. Merging only adds work to a cluster, so the second round drops nothing: two rounds at
 * most, and no pair is left that would save. BT_ENOMEM. */
bt_err bt_clusters_merge_all(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                             const bt_clusters_cost *cost, uint64_t min_macs, uint64_t *dropped, bt_fault *fault);
#endif
