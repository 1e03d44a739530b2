#ifndef BT_NPU_SHARES_H
#define BT_NPU_SHARES_H
#include <stddef.h>
#include <stdint.h>

/* How many of the positions each of n heads attends to, by the head's importance (shadowAttn, arXiv 2508.16703):
 *   share[i] = ratio * n * w[i] / sum of w,   w[i] = max(importance[i] / greatest importance, 1e-3)
 * ret_ppm[n] and ratio_ppm are in millionths of all positions; a share is at least 1. A head whose share would exceed
 * all positions gets all; the excess is spread over the other heads by their w. So the mean share is the ratio, to a
 * millionth for each head, and with ratio 1 every head keeps all. An importance that is not a number counts as 0; if
 * all are 0, all heads get equal shares. */
void bt_shares(uint32_t *ret_ppm, const double *importance, size_t n, uint32_t ratio_ppm);
#endif
