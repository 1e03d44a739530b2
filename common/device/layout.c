/* Rounding up, as each profile says. */
#include "device/layout.h"
#include "device/tile.h"

static uint64_t round_up(uint64_t n, uint64_t to) { return to ? (n + to - 1) / to * to : n; }

uint64_t bt_layout_row_stride(const bt_profile *p, uint64_t n, uint32_t elem_bytes)
{
    return round_up(n * elem_bytes, p->last_axis_align_bytes);
}

uint64_t bt_layout_activation_bytes(const bt_profile *p, uint64_t channels, uint64_t seq, uint32_t elem_bytes)
{
    return channels * bt_layout_row_stride(p, seq, elem_bytes);
}

bt_err bt_layout_state(uint64_t *ret, uint64_t *ret_bytes, const bt_profile *p, const uint64_t *dim, size_t n,
                       uint32_t elem_bytes, bt_fault *fault)
{
    uint64_t bytes = elem_bytes;
    for (size_t i = 0; i < n; i++) {
        uint64_t d = dim[i];
        if (i > 0 && p->state_pow2)
            for (d = 1; d < dim[i];) d *= 2;
        if (i > 0 && i + 1 == n) d = round_up(d, p->state_multiple);
        if (__builtin_mul_overflow(bytes, d, &bytes) || bytes > INT64_MAX)
            return bt_fail(fault, BT_ELIMIT, "the state does not fit 2^63 bytes");
        ret[i] = d;
    }
    *ret_bytes = bytes;
    return BT_OK;
}

uint64_t bt_layout_working_set(const bt_profile *p, const bt_layout_linear *l)
{
    return bt_tile_bytes(p, 1, l->k, l->weight_bits) + (l->rows * l->k * l->in_bits + 7) / 8 +
           (l->rows * l->n * l->out_bits + 7) / 8;
}

bool bt_layout_fits(const bt_profile *p, const bt_layout_linear *l)
{
    return !p->on_chip_bytes || bt_layout_working_set(p, l) <= p->on_chip_bytes;
}
