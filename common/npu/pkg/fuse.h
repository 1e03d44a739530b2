#ifndef BT_NPU_FUSE_H
#define BT_NPU_FUSE_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "npu/pkg/pkg.h"

/* The instructions of a program that run as one, and the instruction that reads a value for the last time. Both are
 * found once, when a package is opened; a run looks them up by the instruction's index.
 *
 * A group of LINEARs ends each tile of its outputs with an epilogue. The epilogue can do the instructions behind the
 * group too:
 *
 *   ADD                   the epilogue of one LINEAR adds to the residual stream
 *   SILU_MUL              the epilogue of a pair (gate, up) makes the product silu(gate) * up
 *   SILU_MUL, QUANTISE    ... and quantises the product
 *
 * An instruction is fused only where it follows directly, has the same shape, and nothing later reads the value between
 * the two. That value is then never written to memory.
 *
 * Four decisions are left to the run: it compares its number of rows with quantise_rows; with the recipe llm-int8 it
 * fuses nothing; where the package's add_scale is not 1 it fuses no ADD; and at the last read of a value
 * bt_companion_drop decides, by the width of the rows, whether the value stays in a thread's scratch. */
typedef enum bt_fuse_then { BT_FUSE_NOTHING, BT_FUSE_ADD, BT_FUSE_SILU_MUL } bt_fuse_then;
typedef struct bt_fuse {
    uint8_t then;            /* bt_fuse_then: what is fused with the group of LINEARs that begins at this instruction */
    bool last_in0, last_in1; /* no later instruction reads the value that in0, in1 name here */
    uint32_t quantise_rows;  /* SILU_MUL: the QUANTISE is fused in runs of up to so many rows; 0: never. With more rows
                                it could overwrite inputs that the LINEARs still read */
} bt_fuse;

/* Fills ret[program->insts] from the program's instructions and the package's tables. ffn: of the package's header; a
 * QUANTISE of wider rows is not fused. Time: linear in the instructions, times the values alive at once (at most
 * BT_PKG_MAX_LIVE). */
void bt_fuse_find(bt_fuse *ret, const bt_pkg_inst *inst, const bt_pkg_program *program, const bt_pkg_tensor *tensors,
                  const bt_pkg_site *sites, uint32_t ffn);

/* [insts]: the answers for the program with this index, valid until the package is closed. Each program has its own
 * list, even where two programs share their code. Memory: sizeof(bt_fuse) an instruction. NULL for a sketch and for a
 * package that was only looked at (bt_pkg_look). */
const bt_fuse *bt_pkg_fuse(const bt_pkg *p, uint32_t program);
#endif
