#ifndef BT_NPU_LOWER_H
#define BT_NPU_LOWER_H
#include <stdbool.h>
#include "base/err.h"
#include "graph/graph.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

/* Lowering: the graph, bound to one (seq, out) of all sequences of a batch together, as a list of instructions with a
 * memory plan. Quantisation steps are put in front of the linears (once for each site), operators go to the unit that
 * `on_npu` says, in integers or 16-bit floats on the NPU and in f32 on the companion, with conversions where they meet
 * (lower_form.h). Indices of tensors and sites follow pkg_format.h, so no table is needed here; integer parameters are
 * constants that the caller wrote before. Memory: a value lives from the first instruction that
 * names it to the last; graph/place.h places it. Offsets are multiples of 64. */
typedef struct bt_lower_in {
    const bt_graph *graph;
    const uint8_t *on_npu;   /* [graph ops]: bt_pkg_unit */
    const uint32_t *cluster; /* [graph ops], or NULL. Instructions of one lie together, and have numbers from 1 on in
                                the order of the program */
    const bt_recipe *recipe;
    const uint32_t *params; /* [graph ops]: constant index of bt_pkg_int_params, or NONE. NULL where only linears are on
                               the NPU, or attention in floats: the companion's instruction, in the layout's slices */
    const bool *has_norm_weight; /* [graph ops]: RMSNORM whose weight was not folded away; NULL: all have */
    const bool *pruned;          /* [sites]: no shadow here, whatever the recipe says; NULL: none */
    const bt_pkg_layout *layout; /* strides, slices of attention that is on the NPU, parts of an output matrix that is;
                                    NULL: zeros */
    bool narrow_outputs;         /* linears give 8 bits, never the sums: with params all but the output matrix's are
                                    integers, converted where the companion reads them */
    size_t seq, out;             /* rows of all sequences; out: 0, one for each sequence, or seq */
} bt_lower_in;

typedef struct bt_lowered {
    bt_pkg_inst *inst;
    size_t insts;
    bt_pkg_place *place;
    size_t places;
    bt_pkg_program program; /* code and plan are left for the caller to fill */
} bt_lowered;
/* BT_EARG: rows that make no sense, or an operator that no NPU runs; BT_ELIMIT: slices and parts make more instructions
 * than a program may have (the field to change is named), or a value does not fit memory; BT_ENOMEM. */
bt_err bt_lower(bt_lowered *ret, const bt_lower_in *in, bt_fault *fault);
void bt_lower_done(bt_lowered *l); /* frees the lists; zeros are fine */
#endif
