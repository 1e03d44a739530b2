#ifndef BT_GRAPH_ESTIMATE_H
#define BT_GRAPH_ESTIMATE_H
#include <stdint.h>
#include "graph/companion.h"
#include "kernels/kernels.h"

/* Rows of q and of K in 8 bits, for the estimate of sparse attention (kernels/kernels.h): rotated, so that no element
 * stands out, then quantised with the best of three units of their head. K is read from its stored form. A row's
 * integers depend on that row alone. */
typedef struct bt_estimate {
    const bt_kernels *kernels;
    bt_companion_rotation rotation; /* of a head */
    uint32_t head_dim;
} bt_estimate;

/* Bytes from one row of integers to the next; zeros past the head. */
static inline size_t bt_estimate_ld(size_t head_dim) { return (head_dim + 15) / 16 * 16; }
enum { BT_ESTIMATE_ROWS = 16 }; /* at once */
static inline size_t bt_estimate_scratch_bytes(size_t head_dim)
{
    return (BT_ESTIMATE_ROWS + 1) * bt_estimate_ld(head_dim) * sizeof(float);
}

/* The q that chooses for n heads with one choice, x[n, head_dim]: their sum, from the first on. */
void bt_estimate_sum(float *q, const float *x, size_t head_dim, size_t n);
/* t rows of one head, x[t, ldx], to y[t, ld] and shift[t]. scratch: 64-byte aligned. */
void bt_estimate_rows(const bt_estimate *e, int8_t *y, uint8_t *shift, const float *x, size_t ldx, float scale,
                      size_t t, void *scratch);
/* K of kv head g at positions [first, first + t), t <= BT_ESTIMATE_ROWS. */
void bt_estimate_keys(const bt_estimate *e, int8_t *y, uint8_t *shift, const bt_kv_view *kv, size_t layer, size_t g,
                      size_t first, float scale, size_t t, void *scratch);
#endif
