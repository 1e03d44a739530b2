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
    for (int k = 0; p.companion && k < BT_OP_KINDS; k++)
        if (p.op[k]) abort();
    for (int k = 0; k < BT_OP_KINDS; k++) {
        const uint8_t integers = BT_PROFILE_INT8 | BT_PROFILE_INT16,
                      weights = BT_PROFILE_INT4 | BT_PROFILE_LUT;
        if (p.op[k] & ~(integers | weights | BT_PROFILE_FLOATS)) abort();
        if (p.op[k] && !(p.op[k] & (integers | BT_PROFILE_FLOATS))) abort();
        if (k != BT_OP_LINEAR && p.op[k] & weights) abort();
        if (!bt_op_infos[k].is_asked && p.op[k]) abort();
    }
    return 0;
}
