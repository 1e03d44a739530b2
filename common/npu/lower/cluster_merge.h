#ifndef BT_NPU_CLUSTER_MERGE_H
#define BT_NPU_CLUSTER_MERGE_H
#include "npu/lower/clusters.h"

/* The cost of running a clustering, and merging clusters for as long as that cost falls. A cluster is started once
 * (launch_ns). It reads each value from outside once and writes each value that is read outside once; both are bytes
 * over the boundary. What comes from the companion is quantised by each cluster that reads it, what goes to the
 * companion is dequantised once. In ns:
 *
 *   clusters * launch_ns + bytes * 1000 / bytes_per_us + elements * 1000 / elements_per_us
 *
 * A rate of 0: that costs nothing. The three terms of a difference are rounded down one by one. */
typedef struct bt_cluster_merge_cost {
    uint64_t launch_ns, bytes_per_us, elements_per_us;
} bt_cluster_merge_cost;

/* Merges, among all pairs that stay convex, the one that saves most (where some are equal the one whose first nodes
 * come first), again and again until none saves a nanosecond, or `steps` times. Clusters are numbered anew, from 1 in
 * the order of their first nodes. *ret_clusters: how many there are, read and written. Memory grows with n squared over
 * 64. BT_ENOMEM. */
bt_err bt_cluster_merge(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        const bt_cluster_merge_cost *cost, size_t steps, bt_fault *fault);

/* Clusters with less work than min_macs become the companion's (0); the others are numbered anew. Returns how many
 * clusters went. dropped NULL: not asked for; else dropped[v], of each node that went, becomes the work of its
 * cluster, and the others stay. The work of a cluster: the sum of its nodes' macs. */
size_t bt_cluster_merge_drop(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                             uint64_t min_macs, uint64_t *dropped);

/* Merging as far as it saves, then dropping, again until nothing is dropped. A dropped cluster's nodes are the
 * companion's: a value that two clusters share with them is converted for each of the two, so that a merge that saved
 * nothing before saves elements * 1000 / elements_per_us. The nodes also stand alone between other clusters, where none
 * of them may be joined over. Merging only adds work to a cluster, so the second round drops nothing: two rounds at
 * most, and no pair is left that would save. BT_ENOMEM. */
bt_err bt_cluster_merge_all(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                            const bt_cluster_merge_cost *cost, uint64_t min_macs, uint64_t *dropped, bt_fault *fault);
#endif
