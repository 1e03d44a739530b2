#ifndef BT_NPU_SHARES_H
#define BT_NPU_SHARES_H
#include <stddef.h>
#include <stdint.h>

/* Shares of positions for the heads of a model, by their importance (shadowAttn, arXiv 2508.16703):
 *   share[i] = ratio * n * w[i] / sum of w,   w[i] = max(importance[i] / greatest importance, 1e-3)
 * in millionths, at least 1. What goes beyond all positions is spread over the others, by their w, so that the mean
 * stays the ratio to a millionth for each head; with ratio 1 every head keeps all. Importance that is no number counts
 * as 0; where all are 0, all are equal. */
void bt_shares(uint32_t *ret_ppm, const double *importance, size_t n, uint32_t ratio_ppm);
#endif
