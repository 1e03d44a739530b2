#ifndef BT_NPU_LOWER_ORDER_H
#define BT_NPU_LOWER_ORDER_H
#include "npu/lower/lower_build.h"

/* Brings the instructions of each cluster together, so that a cluster can run as one call, and numbers the clusters
 * from 1 in the order of the program. What reads stays behind what writes, planes stay in their order and layers
 * ascend; linears that no longer follow each other are no group. A program whose clusters lie together stays as it is.
 * Where a cluster cannot be brought together, its parts become clusters of their own. For lower.c only. BT_ENOMEM. */
bt_err bt_lower_order(bt_lower_build *b, bt_fault *fault);
#endif
