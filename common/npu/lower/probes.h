#ifndef BT_NPU_PROBES_H
#define BT_NPU_PROBES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "device/profile.h"
#include "npu/pkg/shapes.h"

/* Compile probes: a device's compiler may fail at a shape although larger ones pass, so which do is data of its profile
 * (refused_shapes), never a rule. A refused pair (seq, ctx) gets no row, in any batch. Its chunks run in the next
 * larger context that the same seq has, else in a larger seq; the prompt's cutting and bt_pkg_find_row do that by
 * themselves. Pure. */

bool bt_probes_refuses(const bt_profile *p, uint32_t seq, uint32_t ctx);
/* Rows that are left of a policy's table. */
size_t bt_probes_rows(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens);
/* The i-th row that the policy has and the device refuses, in the order of its shapes, and which row its chunks run in;
 * batch_instead 0: none does, which only a decode row or one of a larger batch can be. false: no more. */
typedef struct bt_probes_refused {
    uint32_t batch, seq, ctx, batch_instead, seq_instead, ctx_instead;
} bt_probes_refused;
bool bt_probes_refused_at(bt_probes_refused *ret, const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, size_t i);
/* BT_EARG: no row is left that holds as long a sequence as the policy did; with the nearest pair that passes. */
bt_err bt_probes_check(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, bt_fault *fault);
#endif
