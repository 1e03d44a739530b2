#ifndef BT_NPU_LOWER_H
#define BT_NPU_LOWER_H
#include <stdbool.h>
#include "base/err.h"
#include "graph/graph.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/recipe.h"

/* Lowering: turns the graph, bound to one (seq, out) of all sequences of a batch, into a list of instructions with a
 * memory plan. Quantisation is put in front of the linears, once for each site. Operators go to the unit that `on_npu`
 * names: integers or 16-bit floats on the NPU, f32 on the companion, with conversions where they meet (lower_form.h).
 * Tensors and sites are named by the indices of pkg_format.h, so lowering needs no tables. Integer parameters are
 * constants that the caller wrote before. A value lives from the first instruction that names it to the last;
 * graph/place.h places it at a multiple of 64. */
typedef struct bt_lower_in {
    const bt_graph *graph;
    const uint8_t *on_npu;   /* [graph ops]: bt_pkg_unit */
    const uint32_t *cluster; /* [graph ops], or NULL: cluster of each operator. In the program the instructions of a
                                cluster follow each other, and clusters are numbered from 1 in order */
    const bt_recipe *recipe;
    const uint32_t *params; /* [graph ops]: constant index of bt_pkg_int_params, or NONE. NULL: nothing but linears runs
                               in integers; attention on BT_PKG_NPU then becomes the companion's instruction, in the
                               layout's slices */
    const bool *has_norm_weight; /* [graph ops]: RMSNORM whose weight was not folded away; NULL: all of them */
    const bool *pruned;          /* [sites]: without a shadow, whatever the recipe says; NULL: none */
    const bt_pkg_layout *layout; /* strides, slices of the NPU's attention, parts of the NPU's output matrix; NULL:
                                    zeros */
    bool narrow_outputs; /* the NPU's linears write 8 bits, never the sums: with params all but the output matrix write
                            integers, converted where the companion reads them */
    size_t seq, out;     /* rows of all sequences; out: 0, one row for each sequence, or seq */
} bt_lower_in;

typedef struct bt_lowered {
    bt_pkg_inst *inst;
    size_t insts;
    bt_pkg_place *place;
    size_t places;
    bt_pkg_program program; /* the caller fills in code and plan */
} bt_lowered;
/* BT_EARG: impossible rows, or an operator on the NPU that no NPU runs. BT_ELIMIT: slices and parts make more
 * instructions than a program may have (the fault names the field to change), or a value does not fit memory.
 * BT_ENOMEM. */
bt_err bt_lower(bt_lowered *ret, const bt_lower_in *in, bt_fault *fault);
void bt_lower_done(bt_lowered *l); /* frees the lists; a bt_lowered of zeros is fine */

/* bt_lower in steps, for programs that differ in their rows. A draft has the instructions, before their values have
 * places. One draft serves all rows that have logits or have none, as its own do, and whose attention has as many
 * slices. Places are found without instructions, which take more memory. All that `in` names is borrowed; errors of
 * bt_lower. */
typedef struct bt_lower_draft bt_lower_draft;
bt_err bt_lower_draft_new(bt_lower_draft **ret, const bt_lower_in *in, bt_fault *fault);
void bt_lower_draft_free(bt_lower_draft *d); /* NULL is fine */
bool bt_lower_draft_serves(const bt_lower_draft *d, size_t seq, size_t out);

typedef struct bt_lower_places {
    size_t seq, out, insts, values;
    size_t *offset; /* [values], owned: free */
    uint64_t arena_bytes;
} bt_lower_places;
/* d serves seq and out. */
bt_err bt_lower_draft_place(bt_lower_places *ret, bt_lower_draft *d, size_t seq, size_t out, bt_fault *fault);
/* The program. BT_ENOMEM. */
bt_err bt_lower_draft_at(bt_lowered *ret, const bt_lower_draft *d, const bt_lower_places *places, bt_fault *fault);
#endif
