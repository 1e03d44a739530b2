#ifndef BT_LAB_PLAN_PROGRAMS_H
#define BT_LAB_PLAN_PROGRAMS_H
#include "device/price.h"
#include "device/schedule.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/recipe.h"
#include "npu/pkg/shapes.h"

/* The programs that the compiler would make of a model whose sizes alone are known, as prices: the linears on the NPU,
 * all else on its companion (--npu-ops linear), in the stages of npu/lower/stages.h, of one layer:
 *
 *   0 add, norm, quantise   1 q, k, v   2 rope, KV   3 attention, rotation, quantise   4 o
 *   5 add, norm, quantise   6 gate, up  7 silu, quantise                               8 down
 *
 * Stages 1, 4, 6 and 8 are the NPU's, each a graph (dispatch). A stage behind one of the other engine waits for it
 * (sync). Sessions are split as the compiler does; where there are several, every chunk goes through all of them. In
 * sparse attention every head has the ratio as its share; the NPU's part of it stands in stage 3, too. Weights of the
 * NPU are in whole tiles. Prices are those of npu/price/price_pkg.h, but for norms' weights and the tail of the graph.
 * Pure. */
enum { TOOL_PLAN_STAGES = 9, TOOL_PLAN_ATTENTION = 3 };

/* How weights and inputs are kept. */
typedef struct tool_plan_form {
    char name[BT_RECIPE_MAX_TEXT];
    bt_recipe recipe;         /* bits of weights (a GPU's 16 too) and inputs, groups, rotations at run time, by layer */
    uint32_t weight_bits;     /* the fewest of any layer */
    uint32_t weight_permille; /* bytes of a weight, scales included; 0: weight_bits */
} tool_plan_form;
/* A recipe's. */
tool_plan_form tool_plan_form_of(const bt_recipe *r);
/* What a GPU keeps: "f16", "int8", "fp4", with inputs of 16 bits, as baton run --weights. NULL: no more. */
const tool_plan_form *tool_plan_float_form(size_t i);
uint32_t tool_plan_form_input_bits(const tool_plan_form *f); /* the fewest */

/* BT_EARG: the profile's NPU lacks what a site's linears need, or groups do not divide its inputs; with the site and
 * the reason. */
bt_err tool_plan_form_check(const bt_profile *profile, const bt_dims *s, const bt_recipe *recipe, bt_fault *fault);

typedef struct tool_plan_kv {
    const char *name;
    uint32_t elem_bytes, head_bytes; /* of an element; of a head beside its elements */
} tool_plan_kv;
extern const tool_plan_kv tool_plan_kvs[]; /* ends with a name of NULL */
uint64_t tool_plan_kv_bytes(const tool_plan_kv *k, const bt_dims *s);

typedef struct tool_plan_programs {
    bt_price price; /* part_ns[stage] of a program: all layers' */
    uint32_t layers, sessions;
    uint64_t weight_bytes, arena_bytes, spill_bytes; /* mapped; of one chunk of the longest program, about; of one, too
                                                      */
} tool_plan_programs;

/* profile: with a time. companion: what its time names, or NULL. shapes: as the policy cuts. ctx_tokens: what is
 * compiled for; is_one_bucket: for that context alone, where the device is static in it. The recipe was checked.
 * attention: NULL is dense. BT_EARG: one that the heads or the shapes do not fit. BT_ELIMIT: it is too large for a
 * session or the memory, with both numbers. */
bt_err tool_plan_programs_make(tool_plan_programs *ret, const bt_profile *profile, const bt_profile *companion,
                               const bt_dims *s, const tool_plan_form *form, const tool_plan_kv *kv,
                               const bt_attention *attention, const bt_shapes *shapes, size_t ctx_tokens,
                               bool is_one_bucket, bt_fault *fault);
/* The program that computes so many rows. */
uint32_t tool_plan_program_for(const tool_plan_programs *p, uint64_t rows);
/* A stage of a chunk that program i computes behind `first` positions. */
uint64_t tool_plan_stage_ns(const tool_plan_programs *p, uint32_t i, uint64_t first, uint32_t stage);
/* What the NPU does in stage 3 of a layer. Where chunks overlap it is charged to its next stage, 4, too: an engine does
 * one thing at a time (npu/price/stage_cost.h). */
uint64_t tool_plan_owed_ns(const tool_plan_programs *p, uint32_t i, uint64_t first, uint32_t stage);
bool tool_plan_stage_is_npu(uint32_t stage);
#endif
