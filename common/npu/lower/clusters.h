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
    /* For merging (cluster_merge.h) alone, each below 2^40: */
    size_t reads;      /* the first of the inputs it reads from; the others only come before it */
    uint64_t bytes;    /* of what it writes */
    uint64_t elements; /* of it, to be converted where the writer and a reader are on different sides */
} bt_clusters_node;
/* cluster[n]: 0 the companion, else the cluster, numbered from 1 in the order of their first nodes. BT_EARG: an
 * input that is not below; BT_ENOMEM. */
bt_err bt_clusters_find(uint32_t *cluster, size_t *ret_clusters, const bt_clusters_node *node, size_t n,
                        bt_fault *fault);
#endif
