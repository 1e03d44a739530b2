/* The dimensions of a state, rounded up. */
#include "device/layout.h"

static uint64_t round_up(uint64_t n, uint64_t to) { return to ? (n + to - 1) / to * to : n; }

bt_err bt_layout_state(uint64_t *ret, uint64_t *ret_bytes, bool is_pow2, uint32_t multiple,
                       const uint64_t *dim, size_t n, uint32_t elem_bytes, bt_fault *fault)
{
    uint64_t bytes = elem_bytes;
    for (size_t i = 0; i < n; i++) {
        uint64_t d = dim[i];
        if (i > 0 && is_pow2)
            for (d = 1; d < dim[i];) d *= 2;
        if (i > 0 && i + 1 == n) d = round_up(d, multiple);
        if (__builtin_mul_overflow(bytes, d, &bytes) || bytes > INT64_MAX)
            return bt_fail(fault, BT_ELIMIT, "the KV state has more than 2^63 bytes");
        ret[i] = d;
    }
    *ret_bytes = bytes;
    return BT_OK;
}
