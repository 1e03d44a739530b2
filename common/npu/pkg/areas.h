#ifndef BT_NPU_AREAS_H
#define BT_NPU_AREAS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "npu/pkg/pkg_ops.h"

/* Which bytes of the arena an instruction reads and writes, as offsets. Pure: it reads the instruction, the
 * package's sites and how many rows the program was planned for. */

/* Row r is the `stride` bytes from at + r * stride on. at BT_PKG_NOWHERE: nothing. */
typedef struct bt_area {
    uint64_t at;
    size_t stride;
    bool is_written;
} bt_area;
enum { BT_AREAS_MAX = 5 };
typedef struct bt_areas {
    bt_area area[BT_AREAS_MAX];
    size_t count;
} bt_areas;
/* All areas of a row-wise instruction; for LINEARs only the inputs, which a group shares. */
bt_areas bt_areas_of(const bt_pkg_inst *i, const bt_pkg_site *sites, const bt_pkg_program *program);

/* Does it write in1 and aux, as planes and their shadow? All other instructions read them. */
static inline bool bt_areas_makes_planes(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->out == BT_PKG_FORM_PLANES;
}
static inline bool bt_areas_reads_planes(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->in0 == BT_PKG_FORM_PLANES;
}

/* Bytes of a row at in0 and at in1. Where in0 is in place, its row is the one that is written; where the instruction
 * makes planes, in1 is the lo plane. */
static inline uint32_t bt_areas_in0_stride(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->in_place ? i->out_stride : i->in_stride;
}
static inline uint32_t bt_areas_in1_stride(const bt_pkg_inst *i)
{
    return bt_areas_makes_planes(i) ? i->out_stride : i->in_stride;
}

/* The shadow of planes: u32 counts [rows], bt_int_shadow entries [rows, in_width]. Both BT_PKG_NOWHERE where
 * the site has none. i makes planes, or reads them. */
typedef struct bt_areas_shadow {
    uint64_t counts, entries;
} bt_areas_shadow;
bt_areas_shadow bt_areas_shadow_of(const bt_pkg_inst *i, const bt_pkg_site *sites, const bt_pkg_program *program);
#endif
