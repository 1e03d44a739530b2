#ifndef BT_NPU_HADAMARD_H
#define BT_NPU_HADAMARD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/kernels.h"

/* Rotations by Hadamard matrices: R = scale * (H_base (x) S_2^log2) diag(sign), orthogonal, (x) the Kronecker product
 * and S Sylvester's matrix, in the form and the order of bt_edge_rotate_fn (kernels/edge.h).
 *
 * H_base is 1 (R is Sylvester's alone), Paley's first construction (base - 1 a prime = 3 mod 4) or Paley's second
 * (base / 2 - 1 a prime = 1 mod 4). The bases that occur are 1, 12, 20, 28, 36, 44, 60, 68, 76 ... up to 252. */
enum { BT_HADAMARD_MAX_BASE = 256, BT_HADAMARD_MAX = 131072 };

/* The smallest base with n = base * 2^log2. False: no base fits, or n is not in [2, BT_HADAMARD_MAX]. */
bool bt_hadamard_find(uint32_t *ret_base, uint32_t *ret_log2, size_t n);
/* Fills h[base, base] with +-1, row-major, h h^T = base * I; base as bt_hadamard_find gives it. */
void bt_hadamard_base(int8_t *h, uint32_t base);

typedef struct bt_hadamard {
    uint32_t base, log2; /* base 0: no rotation */
    float scale;         /* 1 / sqrt(n), rounded once */
    int8_t h[BT_HADAMARD_MAX_BASE * BT_HADAMARD_MAX_BASE];
    int8_t *sign; /* [n] of +-1, owned; NULL: all +1 */
} bt_hadamard;
/* Makes the rotation of size n; base is 0 where n has no matrix or memory is short. signs: diag(sign) is pseudo-random,
 * the same on every machine; else it is the identity. */
void bt_hadamard_init(bt_hadamard *r, size_t n, bool signs);
void bt_hadamard_done(bt_hadamard *r); /* zeros are fine */
static inline size_t bt_hadamard_size(const bt_hadamard *r) { return (size_t)r->base << r->log2; }
/* x = R x in place for each of the blocks x[blocks, n], n = bt_hadamard_size; r->base > 0. scratch: n floats. Any
 * thread. */
void bt_hadamard_apply(const bt_hadamard *r, const bt_kernels *kernels, float *x, size_t blocks, float *scratch);
#endif
