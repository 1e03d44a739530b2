#ifndef BT_LAB_PLAN_SKETCH_H
#define BT_LAB_PLAN_SKETCH_H
#include "device/dims.h"
#include "device/profile.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/recipe.h"
#include "npu/pkg/shapes.h"
#include "npu/price/price_pkg.h"

/* The package that the compiler would make of a model whose sizes alone are known, without its weights. Pure. */
typedef struct tool_plan_sketch_want {
    const bt_profile *profile;
    const bt_dims *dims;
    const bt_recipe *recipe; /* checked (tool_plan_sketch_check) */
    const bt_attention *attention;
    const bt_shapes *shapes; /* as the policy cuts; a shape with a ctx of its own is compiled for that alone */
    size_t ctx_tokens;
    uint32_t npu_ops; /* BT_PKG_OPS_LINEAR or BT_PKG_OPS_ALL */
} tool_plan_sketch_want;
/* BT_EARG: the profile's NPU lacks what a site's linears need, or groups do not divide its inputs; with the site and
 * the reason. */
bt_err tool_plan_sketch_check(const bt_profile *profile, const bt_dims *s, const bt_recipe *recipe, bt_fault *fault);
/* BT_EARG: sizes of an architecture that the compiler does not have (a feed-forward block of two matrices, a latent,
 * experts beside other blocks, windows in no pattern), or what the profile refuses; BT_ELIMIT: it is too large for a
 * session or the memory, with both numbers; BT_ENOMEM. */
bt_err tool_plan_sketch(bt_pkg **ret, const tool_plan_sketch_want *want, bt_fault *fault);
/* Bytes of a device's memory that a package takes with so many chunks under way: all sessions, each with its arenas. */
uint64_t tool_plan_mapped_bytes(const bt_pkg *p, uint64_t arenas);
/* Bytes that a chunk of the longest program moves a second time, because the chip is too small. */
uint64_t tool_plan_spilled_bytes(const bt_pkg *p);
#endif
