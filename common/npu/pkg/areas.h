#ifndef BT_NPU_AREAS_H
#define BT_NPU_AREAS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "npu/pkg/pkg_ops.h"

/* The bytes of the arena that an instruction reads and writes. Pure: the answer follows from the instruction, the
 * package's sites and the program's numbers of rows. */

/* Row r is the `stride` bytes of the arena from at + r * stride on. at BT_PKG_NOWHERE: the area is empty. */
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
/* All areas of a row-wise instruction; for a LINEAR only its inputs, which the LINEARs of a group share. */
bt_areas bt_areas_of(const bt_pkg_inst *i, const bt_pkg_site *sites, const bt_pkg_program *program);

/* Whether the instruction makes planes: then it writes in1 (the lo plane) and aux (the shadow). Every other instruction
 * reads in1 and aux. */
static inline bool bt_areas_makes_planes(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->out == BT_PKG_FORM_PLANES;
}
static inline bool bt_areas_reads_planes(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->in0 == BT_PKG_FORM_PLANES;
}

/* Bytes of a row at in0 and at in1. An instruction that works in place writes the row at in0. An instruction that makes
 * planes writes the lo plane at in1. */
static inline uint32_t bt_areas_in0_stride(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->in_place ? i->out_stride : i->in_stride;
}
static inline uint32_t bt_areas_in1_stride(const bt_pkg_inst *i)
{
    return bt_areas_makes_planes(i) ? i->out_stride : i->in_stride;
}

/* Where the shadow lies that i makes or reads, as offsets in the arena: counts, u32 [rows], and entries, bt_int_shadow
 * [rows, in_width]. Both are BT_PKG_NOWHERE where the site has no shadow. i makes or reads planes. */
typedef struct bt_areas_shadow {
    uint64_t counts, entries;
} bt_areas_shadow;
bt_areas_shadow bt_areas_shadow_of(const bt_pkg_inst *i, const bt_pkg_site *sites, const bt_pkg_program *program);
#endif
