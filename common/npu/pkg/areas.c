/* The bytes of the arena that an instruction touches: the rules of npu/pkg/pkg_format.h, turned into offsets.
 */
#include "npu/pkg/areas.h"
#include "kernels/kernels.h"
#include "npu/pkg/recipe.h"

bt_areas_shadow bt_areas_shadow_of(const bt_pkg_inst *i, const bt_pkg_site *sites,
                                   const bt_pkg_program *program)
{
    const bt_pkg_site *site = &sites[i->site];
    const uint64_t rows = bt_pkg_rows_of(i, program);
    if (i->aux == BT_PKG_NOWHERE || site->shadow == BT_SHADOW_OFF || site->pruned)
        return (bt_areas_shadow){BT_PKG_NOWHERE, BT_PKG_NOWHERE};
    return (bt_areas_shadow){i->aux, i->aux + bt_pkg_shadow_counts_bytes(rows)};
}

bt_areas bt_areas_of(const bt_pkg_inst *i, const bt_pkg_site *sites, const bt_pkg_program *program)
{
    const bool makes = bt_areas_makes_planes(i), reads = bt_areas_reads_planes(i);
    bt_areas a = {.count = 2};
    a.area[0] = (bt_area){i->in0, bt_areas_in0_stride(i), false};
    a.area[1] = (bt_area){i->in1, bt_areas_in1_stride(i), makes};
    if (!reads) a.area[a.count++] = (bt_area){i->out, i->out_stride, true};
    if (!makes && !reads) return a;
    const bt_areas_shadow s = bt_areas_shadow_of(i, sites, program);
    a.area[a.count++] = (bt_area){s.counts, sizeof(uint32_t), makes};
    a.area[a.count++] = (bt_area){s.entries, i->in_width * sizeof(bt_int_shadow), makes};
    return a;
}
