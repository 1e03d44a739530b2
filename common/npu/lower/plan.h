#ifndef BT_NPU_PLAN_H
#define BT_NPU_PLAN_H
#include <stddef.h>
#include "base/err.h"
#include "device/on_chip.h"
#include "npu/pkg/pkg.h"

/* The effects of a device's layout on a package: padding in the memory plan and in tiles, the KV state that a device
 * would keep, and what each operator moves between memory and chip. All follows from the package alone: its layout, its
 * tables, its programs. The compiler takes loop orders and mapped bytes from here; `baton inspect` shows all of it. */

/* Padding bytes between rows' elements and their strides, over all places of the program's plan. The shadow has
 * none. */
uint64_t bt_plan_row_padding(const bt_pkg_program *program, const bt_pkg_inst *inst, const bt_pkg_place *place);

/* Multiply-accumulates that whole tiles add to the NPU's linears. The rows of a prompt's padding are already in
 * npu_macs. Attention is not counted, as in npu_macs. */
uint64_t bt_plan_tile_padding(const bt_pkg_layout *l, const bt_pkg_program *program, const bt_pkg_inst *inst);

/* The program's npu_macs by kind: inputs of 8 bits, inputs of 16 bits, floats. sites: the package's. */
typedef struct bt_plan_macs {
    uint64_t int8, int16, floats;
} bt_plan_macs;
bt_plan_macs bt_plan_macs_of(const bt_pkg_program *program, const bt_pkg_inst *inst, const bt_pkg_site *sites);

/* Bytes that an instruction writes as the device keeps them: rows of its stride; floats of the NPU with 2 bytes an
 * element, where the arena has 4. */
uint64_t bt_plan_device_bytes(const bt_pkg_layout *l, const bt_pkg_program *program, const bt_pkg_inst *inst);

/* The KV of one sequence as one state of f16 [2 * layers, kv_heads, ctx, head_dim], as devices retain it.
 * payload_bytes: of these elements; bytes: with dimensions rounded up as the layout says (device/layout.h).
 * BT_ELIMIT. */
typedef struct bt_plan_state {
    uint64_t dim[4], rounded[4];
    uint64_t payload_bytes, bytes;
} bt_plan_state;
bt_err bt_plan_state_of(bt_plan_state *ret, const bt_pkg_header *h, uint32_t ctx, bt_fault *fault);

/* Describes an instruction of the NPU for device/on_chip.h, at a context of ctx positions. false: the instruction is
 * the companion's. tensors: the package's.
 *
 *   linear      bands: rows of weight tiles; units: tile_input_rows rows
 *   attention   bands: positions of K and V in f16, for the slice's KV heads; units: rows
 *   others      units: rows of all that is read, with the s32 row that INT_ADD writes in place and the cosines and
 *               sines of ropes; outputs: rows of all that is written, with both planes of INT_SPLIT; one band: the
 *               weight of a norm, the matrix and signs of a rotation, or nothing
 *
 * Values of an operator in floats have 2 bytes. The shadow depends on values and is not counted. */
bool bt_plan_on_chip_op(bt_on_chip_op *ret, const bt_pkg_header *h, const bt_pkg_tensor *tensors,
                        const bt_pkg_program *program, const bt_pkg_inst *inst, uint32_t ctx);
/* Sets the loop order of every linear of the NPU to the one that moves least. Does nothing without on_chip_bytes. */
void bt_plan_set_orders(bt_pkg_inst *inst, const bt_pkg_header *h, const bt_pkg_tensor *tensors,
                        const bt_pkg_program *program);

/* Bytes that an instruction of the NPU moves again because the chip is too small, at a context of ctx positions. 0: the
 * companion's instruction, or no on_chip_bytes. */
uint64_t bt_plan_spilled(const bt_pkg *p, uint32_t program, const bt_pkg_inst *i, uint32_t ctx);

/* The NPU's instructions of a program; equal ones share a line. */
typedef struct bt_plan_line {
    uint32_t op;     /* bt_pkg_op */
    uint32_t weight; /* bt_weight of its tensor; BT_PKG_NONE without one */
    uint32_t count;  /* instructions */
    bt_on_chip_plan plan;
} bt_plan_line;
enum { BT_PLAN_MAX_LINES = 64 };
/* Fills ret and returns the number of lines; total: the sums over all instructions, with order and blocks 0. Attention
 * of a batch counts for each of its sequences, which share no K and V. Linears have the package's order, others the
 * best. */
size_t bt_plan_on_chip(bt_plan_line ret[BT_PLAN_MAX_LINES], bt_on_chip_plan *total, const bt_pkg *p, uint32_t program,
                       uint32_t ctx);
#endif
