/* The rows of graph/op_list.h as a table of instructions, and what each takes from its operator. */
#include "npu/pkg/pkg_ops.h"

/* The facts of an operator's row for its instructions; NONE: there is no operator. */
#define FACTS(NAME, name, inputs, in_place, weight, by_head, shape, beside, class, price, run) \
    IN_PLACE_##NAME = in_place, SHAPE_##NAME = BT_SHAPE_##shape, BESIDE_##NAME = BT_BESIDE_##beside, \
    PRICE_##NAME = BT_PRICED_##price, \
    ON_##NAME = BT_CLASS_##class == BT_CLASS_EDGE ? BT_PKG_ON_COMPANION : BT_PKG_ON_FLOATS,
enum {
    BT_OP_LIST(FACTS, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP) IN_PLACE_NONE = 0,
    SHAPE_NONE = BT_SHAPE_ROWS,
    BESIDE_NONE = BT_BESIDE_NONE,
    PRICE_NONE = BT_PRICED_MOVED,
};
#define INFO(OF, NAME, text, number, reads, second, writes, weight, unit, multipliers, units, edge) \
    [number] = {.name = #text, \
                .of = BT_OP_##OF, \
                .on = units, \
                .in0 = BT_PKG_FORM_##reads, \
                .in1 = BT_PKG_FORM_##second, \
                .out = BT_PKG_FORM_##writes, \
                .tensor = BT_PKG_TENSOR_##weight, \
                .site = BT_PKG_SITE_##unit, \
                .params = BT_PKG_PARAMS_##multipliers, \
                .shape = SHAPE_##OF, \
                .beside = BESIDE_##OF, \
                .price = PRICE_##OF, \
                .in_place = IN_PLACE_##OF && BT_PKG_FORM_##reads == BT_PKG_FORM_##writes, \
                .is_edge = edge},
#define FLOATS(OF, NAME, name, number, in0, in1, out, tensor, site) \
    INFO(OF, NAME, name, number, in0, in1, out, tensor, site, NONE, ON_##OF, false)
#define INTEGERS(OF, NAME, name, number, in0, in1, out, tensor, site, params) \
    INFO(OF, NAME, name, number, in0, in1, out, tensor, site, params, BT_PKG_ON_NPU, false)
#define EDGES(OF, NAME, name, number, in0, in1, out, tensor, site, on) \
    INFO(OF, NAME, name, number, in0, in1, out, tensor, site, NONE, BT_PKG_ON_##on, true)

const bt_pkg_op_info bt_pkg_op_infos[BT_PKG_OP_NUMBERS] = {[0] = {.name = "?", .of = BT_OP_NONE},
                                                           BT_OP_LIST(BT_OP_SKIP, FLOATS, INTEGERS, EDGES)};

const char *bt_pkg_op_name(bt_pkg_op op)
{
    const char *name = bt_pkg_op_info_of((uint32_t)op)->name;
    return name ? name : "?";
}

#define FORM(OF, NAME, ...) [BT_OP_##OF] = BT_PKG_##NAME,
bt_pkg_op bt_pkg_op_in_floats(bt_op_kind kind)
{
    static const uint8_t form[BT_OP_KINDS] = {BT_OP_LIST(BT_OP_SKIP, FORM, BT_OP_SKIP, BT_OP_SKIP)};
    return (bt_pkg_op)form[kind];
}

bt_pkg_op bt_pkg_op_in_integers(bt_op_kind kind)
{
    static const uint8_t form[BT_OP_KINDS + 1] = {BT_OP_LIST(BT_OP_SKIP, BT_OP_SKIP, FORM, BT_OP_SKIP)};
    return (bt_pkg_op)form[kind];
}
