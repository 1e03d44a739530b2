/* Any bytes as a device profile: what is accepted is within its bounds, and everything in it has a
 * meaning. */
#include "device/profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_profile p;
    if (bt_profile_parse(&p, (const char *)data, len, NULL) < 0) return 0;
    if (!p.name[0] || strlen(p.name) > BT_PROFILE_MAX_NAME || strlen(p.title) >= sizeof p.title) abort();
    if (p.output_bits != 8 && p.output_bits != 16) abort();
    if (p.tile_rows > 4096 || p.tile_cols > 4096 || !p.tile_rows != !p.tile_cols || p.max_shapes > 4096 ||
        p.max_rows > 1 << 20)
        abort();
    if ((p.map_window_bytes | p.on_chip_bytes | p.memory_bytes) >> 51) abort();
    if ((p.memory_bytes && (p.map_window_bytes > p.memory_bytes || p.on_chip_bytes > p.memory_bytes)) ||
        (p.state_pow2 && p.state_multiple & (p.state_multiple - 1)) ||
        p.refused_shapes > BT_PROFILE_MAX_REFUSED)
        abort();
    for (uint32_t i = 0; i < p.refused_shapes; i++)
        if (!p.refused_shape[i].seq || p.refused_shape[i].seq > p.refused_shape[i].ctx ||
            p.refused_shape[i].ctx > 1 << 20)
            abort();
    const bt_profile_time *t = &p.time;
    if (t->points > BT_PROFILE_TIME_MAX_POINTS || t->sums > BT_PROFILE_TIME_MAX_SUMS ||
        t->kernels > BT_PROFILE_TIME_MAX_KERNELS || (t->sums && t->devices < 2))
        abort();
    for (uint32_t i = 1; i < t->sums; i++)
        if (t->all_reduce[i].devices == t->all_reduce[i - 1].devices &&
            (t->all_reduce[i].bytes <= t->all_reduce[i - 1].bytes ||
             t->all_reduce[i].ns < t->all_reduce[i - 1].ns))
            abort();
    for (uint32_t i = 0; i < t->kernels; i++)
        if (t->attention[i].kv_bytes_per_us > t->memory_bytes_per_us || t->attention[i].peak_permille > 1000)
            abort();
    for (int k = 0; p.companion && k < BT_OP_KINDS; k++)
        if (p.op[k]) abort();
    for (int k = 0; k < BT_OP_KINDS; k++) {
        const uint8_t integers = BT_PROFILE_INT8 | BT_PROFILE_INT16,
                      weights = BT_PROFILE_INT4 | BT_PROFILE_LUT;
        if (p.op[k] & ~(integers | weights | BT_PROFILE_FLOATS)) abort();
        if (p.op[k] && !(p.op[k] & (integers | BT_PROFILE_FLOATS))) abort();
        if (bt_op_infos[k].class != BT_CLASS_LINEAR && p.op[k] & weights) abort();
        if (bt_op_infos[k].class == BT_CLASS_EDGE && p.op[k]) abort();
    }
    return 0;
}
