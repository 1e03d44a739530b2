#ifndef BT_NPU_LOWER_BUILD_H
#define BT_NPU_LOWER_BUILD_H
#include "npu/lower/lower.h"
#include "npu/pkg/pkg_ops.h"

/* Inside lowering, below lower_form.c and lower.c: a list of instructions whose operands are values. lower.c turns
 * these into offsets at the end. A value lives from the first instruction that names it to the last. */
typedef struct bt_lower_value {
    uint32_t name;   /* bt_pkg_value */
    bool is_float16; /* f32 that are 16-bit floats: the device keeps them in 2 bytes */
    size_t bytes;
} bt_lower_value;

/* What a graph's tensor lies as. */
typedef struct bt_lower_tensor {
    uint32_t value[BT_PKG_FORMS]; /* BT_PKG_NONE: it does not lie in this form */
    bt_pkg_form written;          /* the form of the operator that wrote it last */
} bt_lower_tensor;

/* Quantised input of linears: their operands. */
typedef struct bt_lower_planes {
    uint64_t hi, lo, shadow;
    uint32_t site, stride;
} bt_lower_planes;

typedef struct bt_lower_build {
    const bt_lower_in *in;
    size_t ops; /* of the graph, without the tail where out is 0 */
    bt_pkg_inst *inst;
    size_t insts, insts_cap;
    bt_lower_value *value;
    size_t values, values_cap;
    bt_lower_tensor *tensor; /* [graph tensors] */
    bt_lower_planes planes;  /* the last ones, of planes_input; linears of one input share them */
    uint64_t planes_input;   /* a value; BT_PKG_NOWHERE before the first */
    bool too_large;          /* a value does not fit size_t */
} bt_lower_build;

/* Rows in an instruction's output (is_out: rows of OUT). */
size_t bt_lower_build_rows(const bt_lower_build *b, bool is_out);
/* Bytes of a row of a value, as the layout says (npu/pkg/pkg_layout.h). */
uint32_t bt_lower_build_stride(const bt_lower_build *b, uint64_t elems, uint32_t elem_bytes);
/* How many instructions one attention of so many rows becomes, and the output matrix. */
uint64_t bt_lower_build_slices(const bt_lower_build *b);
uint32_t bt_lower_build_parts(const bt_lower_build *b);
/* Makes the last instruction, attention or a linear of the output matrix, that many of them. */
void bt_lower_build_split_attention(bt_lower_build *b);
void bt_lower_build_split_output(bt_lower_build *b);
/* A value of `rows` rows of stride bytes; its number, to be an operand. */
uint32_t bt_lower_build_value(bt_lower_build *b, uint32_t name, size_t rows, size_t stride);
/* One more instruction for graph operator `op`: layer, cluster, out_rows, group 1, tensor and site NONE,
 * params 0 and no operands are set; the caller fills in the rest, in0, in1, out, aux with the numbers of
 * values or BT_PKG_NOWHERE. Valid until the next call. */
bt_pkg_inst *bt_lower_build_emit(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op);
/* Sets what the instruction of graph operator `at` names by its row of graph/op_list.h: its weight, and as arg its
 * rotation or its heads. */
void bt_lower_build_names(const bt_lower_build *b, bt_pkg_inst *i, size_t at);
/* The name that a graph's tensor has in the memory plan, and whether its rows are those of OUT. */
uint32_t bt_lower_build_name(const bt_lower_build *b, uint32_t tensor);
bool bt_lower_build_is_out(const bt_lower_build *b, uint32_t tensor);
/* The linears from graph operator i on that read one input on the same unit, at most BT_PKG_MAX_GROUP: how many. */
size_t bt_lower_build_group(const bt_lower_build *b, size_t i);
/* QUANTISE of a group's input (f32 rows), on the companion, or what `op` says: planes, lo plane, shadow. Those that the
 * last call made, where it was for the same input. */
bt_lower_planes bt_lower_build_planes(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op,
                                      uint64_t input, uint32_t input_stride);
#endif
