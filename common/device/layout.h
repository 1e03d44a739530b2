#ifndef BT_DEVICE_LAYOUT_H
#define BT_DEVICE_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "device/profile.h"

/* What a profile's rules of layout make of sizes: alignment of the last axis, dimensions of a KV state, and whether one
 * operator's working set fits on the chip. Accounting only; nothing is stored this way. */

/* Bytes from one row to the next, where the last axis has n elements: n * elem_bytes, rounded up to
 * last_axis_align_bytes. */
uint64_t bt_layout_row_stride(const bt_profile *p, uint64_t n, uint32_t elem_bytes);
/* An activation of `channels` by `seq` as (1, C, 1, S), S last, as devices with an aligned last axis keep it. At S = 1,
 * two bytes an element and an alignment of 64, that is 32 times the payload. */
uint64_t bt_layout_activation_bytes(const bt_profile *p, uint64_t channels, uint64_t seq, uint32_t elem_bytes);

/* A state tensor of n >= 1 dimensions, each 1 .. 2^32: ret[n] holds the dimensions the device wants, bytes their
 * product. The first stays; the others become powers of two where the profile says so; then the last a multiple of
 * state_multiple. ret may be dim. BT_ELIMIT past 2^63. */
bt_err bt_layout_state(uint64_t *ret, uint64_t *ret_bytes, const bt_profile *p, const uint64_t *dim, size_t n,
                       uint32_t elem_bytes, bt_fault *fault);

/* One linear [rows, k] x [k, n]: its input, its output and one row of weight tiles (one output channel without tiles),
 * in bytes. Each factor <= 2^20; bits 4, 8, 16 or 32. */
typedef struct bt_layout_linear {
    uint64_t rows, k, n;
    uint32_t in_bits, weight_bits, out_bits;
} bt_layout_linear;
uint64_t bt_layout_working_set(const bt_profile *p, const bt_layout_linear *l);
/* Whether that is within on_chip_bytes; else the operator spills. */
bool bt_layout_fits(const bt_profile *p, const bt_layout_linear *l);
#endif
