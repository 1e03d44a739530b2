#ifndef BT_GRAPH_COMPANION_H
#define BT_GRAPH_COMPANION_H
#include <stddef.h>
#include <stdint.h>

/* A Hadamard rotation of blocks of E = base << log2 elements, as bt_edge_rotate_fn computes it. Pointers are borrowed. */
typedef struct bt_companion_rotation {
    uint32_t base, log2;                    /* base 0: no rotation */
    const int8_t *h_base;                   /* [base, base]; NULL where base is 1 */
    const int8_t *sign;                     /* [E], or NULL */
    float scale;
} bt_companion_rotation;

static inline size_t bt_companion_rotation_elems(const bt_companion_rotation *r) { return (size_t)r->base << r->log2; }
/* Rows x[t, ldx] of `blocks` blocks of E elements, in place. scratch: E floats. */
void bt_companion_rotate_rows(float *x, size_t ldx, size_t t, size_t blocks, const bt_companion_rotation *r, float *scratch);
#endif
