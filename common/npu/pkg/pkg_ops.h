#ifndef BT_NPU_PKG_OPS_H
#define BT_NPU_PKG_OPS_H
#include <stdbool.h>
#include <stdint.h>
#include "graph/graph.h"
#include "npu/pkg/pkg_format.h"

/* The facts of each instruction: the rows of graph/op_list.h as a table. Lowering makes instructions by this table, the
 * check compares them with it, and the executor, plans and prices read it. */

/* In which form values lie in the arena.
 *
 *   F32        rows of the companion; also what the NPU's operators in floats read and write, as FLOAT16
 *   FLOAT16    f32 that were rounded to float_form; an operator that reads F32 may read them
 *   RESIDUAL   s32 in units of residual_scale
 *   WIDE       s32 in units of a site's scale
 *   S16        s16 in units of a tensor's output scale, or of a site's a16_scale
 *   PLANES     s8, or hi and lo planes; and the shadow
 *   ROUTES     what ROUTE makes (graph/companion.h) */
typedef enum bt_pkg_form {
    BT_PKG_FORM_NONE,
    BT_PKG_FORM_F32,
    BT_PKG_FORM_FLOAT16,
    BT_PKG_FORM_RESIDUAL,
    BT_PKG_FORM_WIDE,
    BT_PKG_FORM_S16,
    BT_PKG_FORM_PLANES,
    BT_PKG_FORM_ROUTES,
    BT_PKG_FORMS
} bt_pkg_form;
/* Bytes of an element; of one plane for PLANES. */
static inline uint32_t bt_pkg_form_bytes(uint32_t form)
{
    return form == BT_PKG_FORM_S16 ? 2 : form == BT_PKG_FORM_PLANES ? 1 : 4;
}

/* The tensor that an instruction names. NORM: a norm's weight, or NONE where all weights are 1. HEAD_NORM: the weight
 * of the norm of each head. SCALED: the linear that wrote in1, for its output scale. S16_UNIT: the linear that gives
 * the unit of the s16, or NONE where the site gives the unit. */
typedef enum bt_pkg_tensor_rule {
    BT_PKG_TENSOR_NONE,
    BT_PKG_TENSOR_NORM,
    BT_PKG_TENSOR_HEAD_NORM,
    BT_PKG_TENSOR_MATRIX,
    BT_PKG_TENSOR_F16_MATRIX,
    BT_PKG_TENSOR_SCALED,
    BT_PKG_TENSOR_S16_UNIT,
} bt_pkg_tensor_rule;
/* The site that an instruction names. ANY_SITE: a site or NONE. S16_SITE: the o site, whose a16_scale is the unit of
 * attention's output, or NONE. */
typedef enum bt_pkg_site_rule {
    BT_PKG_SITE_NONE,
    BT_PKG_SITE_SITE,
    BT_PKG_SITE_ANY_SITE,
    BT_PKG_SITE_S16_SITE,
} bt_pkg_site_rule;
/* The contents of an instruction's bt_pkg_int_params. NORM: a weight and eps; SCORES: multipliers of attention's logits
 * and outputs; SUM: from in1's unit to out's; GATED: of the gate and of the product; TURN: from in0's unit to out's. */
typedef enum bt_pkg_params_rule {
    BT_PKG_PARAMS_NONE,
    BT_PKG_PARAMS_NORM,
    BT_PKG_PARAMS_SCORES,
    BT_PKG_PARAMS_SUM,
    BT_PKG_PARAMS_GATED,
    BT_PKG_PARAMS_TURN,
} bt_pkg_params_rule;
/* The units that may run an instruction, one bit for each bt_pkg_unit. FLOATS: the companion, or the NPU in floats. */
typedef enum bt_pkg_on {
    BT_PKG_ON_COMPANION = 1 << BT_PKG_COMPANION,
    BT_PKG_ON_NPU = 1 << BT_PKG_NPU,
    BT_PKG_ON_NPU_FLOAT = 1 << BT_PKG_NPU_FLOAT,
    BT_PKG_ON_FLOATS = BT_PKG_ON_COMPANION | BT_PKG_ON_NPU_FLOAT,
} bt_pkg_on;

typedef struct bt_pkg_op_info {
    const char *name;      /* "embed", "int_linear", ...; "?": there is no such op */
    uint8_t of;            /* bt_op_kind of the operator that the instruction carries out; BT_OP_NONE */
    uint8_t on;            /* bt_pkg_on */
    uint8_t in0, in1, out; /* bt_pkg_form; NONE: the operand is not in the arena */
    uint8_t tensor, site, params;
    uint8_t shape, beside, price; /* bt_op_shape, bt_op_beside, bt_op_price of the operator */
    bool in_place;                /* out is in0 */
    bool is_edge;                 /* the instruction is an EDGES row of graph/op_list.h */
} bt_pkg_op_info;
enum { BT_PKG_OP_NUMBERS = 128 }; /* above all numbers of graph/op_list.h */
extern const bt_pkg_op_info bt_pkg_op_infos[BT_PKG_OP_NUMBERS];
/* op: any number. */
static inline const bt_pkg_op_info *bt_pkg_op_info_of(uint32_t op)
{
    return &bt_pkg_op_infos[op < BT_PKG_OP_NUMBERS ? op : 0];
}
/* The instruction that carries out an operator in floats, and in integers on the NPU; 0: there is none. For LINEAR in
 * integers: the first instruction that writes integers. */
bt_pkg_op bt_pkg_op_in_floats(bt_op_kind kind);
bt_pkg_op bt_pkg_op_in_integers(bt_op_kind kind);

/* Whether the instruction is a product with matrices, and whether it is one of rows by expert. */
static inline bool bt_pkg_is_linear(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->price == BT_PRICED_MATRIX;
}
static inline bool bt_pkg_is_experts(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->shape == BT_SHAPE_EXPERTS;
}
static inline bool bt_pkg_is_npu_linear(const bt_pkg_inst *i)
{
    return bt_pkg_is_linear(i) && i->unit != BT_PKG_COMPANION;
}
static inline bool bt_pkg_is_attention(const bt_pkg_inst *i)
{
    return bt_pkg_op_info_of(i->op)->shape == BT_SHAPE_ATTEND;
}
/* Whether the instruction's rows are those of OUT; or a row for each expert of a row. */
static inline bool bt_pkg_is_out(const bt_pkg_inst *i) { return i->out_rows == 1; }
static inline bool bt_pkg_is_by_expert(const bt_pkg_inst *i) { return i->out_rows > 1; }
/* Rows of the instruction in a program of so many rows of SEQ and OUT. */
static inline uint64_t bt_pkg_rows_at(const bt_pkg_inst *i, uint64_t seq, uint64_t out)
{
    return bt_pkg_is_out(i) ? out : bt_pkg_is_by_expert(i) ? seq * (i->out_rows - 1u) : seq;
}
static inline uint64_t bt_pkg_rows_of(const bt_pkg_inst *i, const bt_pkg_program *p)
{
    return bt_pkg_rows_at(i, p->seq, p->out);
}
/* Whether the instruction reads, or writes, 16-bit floats of the NPU. */
static inline bool bt_pkg_reads_float16(const bt_pkg_inst *i)
{
    return i->unit == BT_PKG_NPU_FLOAT && i->op != BT_PKG_ROUND16 && bt_pkg_op_info_of(i->op)->in0 == BT_PKG_FORM_F32;
}
static inline bool bt_pkg_writes_float16(const bt_pkg_inst *i)
{
    return i->unit == BT_PKG_NPU_FLOAT && bt_pkg_op_info_of(i->op)->out == BT_PKG_FORM_F32;
}
#endif
