#ifndef BT_NPU_CLUSTERS_H
#define BT_NPU_CLUSTERS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Groups the NPU's operators into clusters that can each run as one call. A cluster is convex: no path leaves it and
 * comes back, and no two clusters wait for each other. So each can run as a whole between its inputs and its outputs.
 * The search is greedy in topological order: an operator joins the cluster of one of its inputs (the latest that stays
 * convex), or else begins a cluster. Pure; deterministic. Memory grows with n^2 / 64, time at worst with n^3 / 64. */
typedef struct bt_clusters_node {
    const uint32_t *input;
    size_t inputs; /* nodes that this node waits for; each index is below its own */
    int npu;       /* 1: the NPU may run the node */
    uint64_t macs;
    /* Used by merging alone, each below 2^40: */
    size_t reads;      /* how many of the inputs the node reads, the first ones; it only runs after the others */
    uint64_t bytes;    /* of the value that the node writes */
    uint64_t elements; /* of that value, converted where writer and reader are on different sides */
} bt_clusters_node;
/* cluster[n]: 0: the companion's; else the cluster's number, from 1 in the order of first nodes. BT_EARG: an input's
 * index is not below its node's; BT_ENOMEM. */
bt_err bt_clusters_find(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        bt_fault *fault);

/* The cost of running a clustering; clusters are merged as long as it falls. A cluster is started once (launch_ns). It
 * reads each value from outside once, and writes once each value that is read outside; both are bytes over the
 * boundary. Each cluster quantises what it reads from the companion. A value for the companion is dequantised once. In
 * ns:
 *
 *   clusters * launch_ns + bytes * 1000 / bytes_per_us + elements * 1000 / elements_per_us
 *
 * A rate of 0: that term costs nothing. The three terms of a difference are each rounded down. */
typedef struct bt_clusters_cost {
    uint64_t launch_ns, bytes_per_us, elements_per_us;
} bt_clusters_cost;

/* Merges the pair that saves most among all pairs that stay convex; of equal pairs, the one whose first nodes come
 * first. Repeats until no pair saves a nanosecond, at most `steps` times. Clusters are numbered anew, from 1 in the
 * order of first nodes. *ret_clusters: their number, read and written. Memory grows with n^2 / 64. BT_ENOMEM. */
bt_err bt_clusters_merge(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                         const bt_clusters_cost *cost, size_t steps, bt_fault *fault);

/* Gives clusters with less work than min_macs to the companion (0) and numbers the others anew; a cluster's work is the
 * sum of its nodes' macs. Returns how many clusters were dropped. dropped, unless NULL: for each node of a dropped
 * cluster dropped[node] becomes the cluster's work; the others stay. */
size_t bt_clusters_drop(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        uint64_t min_macs, uint64_t *dropped);

/* Merges as far as that saves, then drops, until nothing is dropped. A merge that saved nothing may save after a drop:
 * a value that two clusters share with dropped nodes is converted for each of the two, so merging them saves elements *
 * 1000 / elements_per_us. But dropped nodes also stand between clusters that then cannot be merged. Merging only adds
 * work to a cluster, so the second round drops nothing: two rounds at most, and no pair is left that would save.
 * BT_ENOMEM. */
bt_err bt_clusters_merge_all(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                             const bt_clusters_cost *cost, uint64_t min_macs, uint64_t *dropped, bt_fault *fault);
#endif
