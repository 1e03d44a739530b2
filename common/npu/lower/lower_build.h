#ifndef BT_NPU_LOWER_BUILD_H
#define BT_NPU_LOWER_BUILD_H
#include "npu/lower/lower.h"
#include "npu/pkg/pkg_ops.h"

/* Inside lowering, below lower_form.c and lower.c: a list of instructions whose operands are numbers of values. lower.c
 * turns the numbers into offsets at the end. */
typedef struct bt_lower_value {
    uint32_t name;    /* bt_pkg_value */
    bool is_float16;  /* f32 that hold 16-bit floats, which the device keeps in 2 bytes */
    uint8_t out_rows; /* its rows, as an instruction's */
    bool is_shadow;
    uint32_t stride;      /* bytes of a row; of a shadow the inputs of a row */
    uint32_t first, last; /* the instructions that name it, set when all are there */
} bt_lower_value;

/* The values that hold a tensor of the graph. */
typedef struct bt_lower_tensor {
    uint32_t value[BT_PKG_FORMS]; /* by bt_pkg_form; BT_PKG_NONE: there is no value in this form */
    bt_pkg_form written;          /* the form in which the tensor was last written */
} bt_lower_tensor;

/* Quantised input of linears, as operands. */
typedef struct bt_lower_planes {
    uint64_t hi, lo, shadow;
    uint32_t site, stride;
} bt_lower_planes;

typedef struct bt_lower_build {
    const bt_lower_in *in;
    size_t ops; /* operators of the graph, without those for logits where out is 0 */
    bt_pkg_inst *inst;
    size_t insts, insts_cap;
    bt_lower_value *value;
    size_t values, values_cap;
    bt_lower_tensor *tensor; /* [graph tensors] */
    bt_lower_planes planes;  /* the last planes that were made, of the value planes_input; linears of one input share
                                them */
    uint64_t planes_input;   /* BT_PKG_NOWHERE: no planes yet */
} bt_lower_build;

/* Rows of a value. Everything else that is built is the same for any number of rows whose
 * attention has as many slices. */
size_t bt_lower_build_rows(const bt_lower_build *b, uint8_t out_rows);
/* Bytes of a row of a value, as the layout says (npu/pkg/pkg_layout.h). */
uint32_t bt_lower_build_stride(const bt_lower_build *b, uint64_t elems, uint32_t elem_bytes);
/* How many instructions one attention of the NPU becomes, and its output matrix. */
uint64_t bt_lower_build_slices(const bt_lower_build *b);
uint32_t bt_lower_build_parts(const bt_lower_build *b);
/* Turns the last instruction, attention or a linear of the output matrix, into so many instructions. */
void bt_lower_build_split_attention(bt_lower_build *b);
void bt_lower_build_split_output(bt_lower_build *b);
/* Adds a value of stride bytes a row. Returns its number, for use as an operand. */
uint32_t bt_lower_build_value(bt_lower_build *b, uint32_t name, uint8_t out_rows, uint32_t stride);
/* Adds an instruction for graph operator `op`. Sets layer, cluster, out_rows, group 1, tensor and site NONE, params 0
 * and no operands. The caller fills in the rest; in0, in1, out, aux are numbers of values or BT_PKG_NOWHERE. The
 * pointer is valid until the next call. */
bt_pkg_inst *bt_lower_build_emit(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op);
/* Sets the fields of graph operator `at` that its row of graph/op_list.h asks for: tensor, the operator's weight; arg,
 * its rotation or its heads. */
void bt_lower_build_names(const bt_lower_build *b, bt_pkg_inst *i, size_t at);
/* name: the tensor's name in the memory plan. out_rows: its rows, as an instruction's. */
uint32_t bt_lower_build_name(const bt_lower_build *b, uint32_t tensor);
uint8_t bt_lower_build_out_rows(const bt_lower_build *b, uint32_t tensor);
/* How many linears from graph operator i on read one input on one unit; at most BT_PKG_MAX_GROUP. */
size_t bt_lower_build_group(const bt_lower_build *b, size_t i);
/* Quantises the input of a group (`op`: QUANTISE of f32 rows, or INT_SPLIT) on `unit`. Returns the planes, lo plane and
 * shadow. For the input of the last call, returns what that call made. */
bt_lower_planes bt_lower_build_planes(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op,
                                      uint64_t input, uint32_t input_stride);
#endif
