#ifndef BT_DEVICE_LAYOUT_H
#define BT_DEVICE_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The dimensions of a KV state on a device. Accounting only: a node keeps its KV in Baton's own pages. */

/* A state tensor of n >= 1 dimensions, each 1 .. 2^32: ret[n] holds the dimensions the device wants, *ret_bytes their
 * product. The first stays; with is_pow2 the others become powers of two; then the last a multiple of `multiple` (0:
 * of 1). ret may be dim. BT_ELIMIT past 2^63. */
bt_err bt_layout_state(uint64_t *ret, uint64_t *ret_bytes, bool is_pow2, uint32_t multiple, const uint64_t *dim,
                       size_t n, uint32_t elem_bytes, bt_fault *fault);
#endif
