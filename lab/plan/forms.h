#ifndef BT_LAB_PLAN_FORMS_H
#define BT_LAB_PLAN_FORMS_H
#include "device/dims.h"
#include "device/profile.h"
#include "npu/pkg/recipe.h"

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
#endif
