#ifndef BT_NPU_PLAN_LIMITS_H
#define BT_NPU_PLAN_LIMITS_H
#include <stddef.h>
#include "base/err.h"
#include "device/profile.h"
#include "npu/pkg/attention.h"
#include "npu/pkg/shapes.h"

/* Whether a profile allows the shapes that a policy makes for a context. This check comes before all computation;
 * sessions.h checks what depends on weights (windows, memory). Pure. BT_EARG names the field, its limit, the value, and
 * the nearest policy that would work. */
bt_err bt_plan_limits_check(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, bt_fault *fault);
/* Whether no layer has a window, heads of head_dim elements can be estimated, and whether the shapes and the profile's
 * slices of attention end where blocks of rows that share a choice end. BT_EARG, with both numbers. */
bt_err bt_plan_limits_attention(const bt_attention *a, uint32_t head_dim, uint32_t window, const bt_profile *p,
                                const bt_shapes *s, bt_fault *fault);
#endif
