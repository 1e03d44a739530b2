#ifndef BT_NPU_FUSE_H
#define BT_NPU_FUSE_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "npu/pkg/pkg.h"

/* Which instructions of a program run as one, and which of them reads a value for the last time. Found once,
 * when a package is opened; a run looks its answer up by the instruction's index.
 *
 * A group of LINEARs ends each tile of its outputs with an epilogue, and the epilogue can do more:
 *   ADD                 one LINEAR adds to the residual stream at once
 *   SILU_MUL            of a pair gate, up, the product silu(gate) * up is made at once
 *   SILU_MUL, QUANTISE and the product is quantised at once The epilogue does so only where the instruction follows
 *   directly, has the same shape, and nothing later reads the value between the two: then that value is never written
 *   to memory.
 *
 * Three things are left to the run. It compares its number of rows with quantise_rows. With the recipe
 * llm-int8 it fuses nothing. And where it reads a value for the last time, the companion decides by the rows'
 * width whether the value stays in a thread's scratch (bt_companion_drop). */
typedef enum bt_fuse_then { BT_FUSE_NOTHING, BT_FUSE_ADD, BT_FUSE_SILU_MUL } bt_fuse_then;
typedef struct bt_fuse {     /* of one instruction */
    uint8_t then;            /* bt_fuse_then: what is fused with the group that begins here */
    bool last_in0, last_in1; /* nothing after this instruction reads what in0, in1 name now */
    uint32_t quantise_rows;  /* SILU_MUL: a run of up to so many rows fuses the QUANTISE too; 0: none. With more rows it
                                could write where the LINEARs still read */
} bt_fuse;

/* ret[program->insts], from the program's instructions and the package's tables. ffn: as in the header;
 * wider rows are not quantised at once. Time: linear in the instructions, times the values alive at once
 * (at most BT_PKG_MAX_LIVE). */
void bt_fuse_find(bt_fuse *ret, const bt_pkg_inst *inst, const bt_pkg_program *program, const bt_pkg_tensor *tensors,
                  const bt_pkg_site *sites, uint32_t ffn);

/* [insts] of the program with this index of an opened package, valid until it is closed. Each program has its
 * own, even where two share their code. Memory: sizeof(bt_fuse) an instruction. NULL for a package that was
 * only looked at (bt_pkg_look). */
const bt_fuse *bt_pkg_fuse(const bt_pkg *p, uint32_t program);
#endif
