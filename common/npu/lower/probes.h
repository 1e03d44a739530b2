#ifndef BT_NPU_PROBES_H
#define BT_NPU_PROBES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "device/profile.h"
#include "npu/pkg/shapes.h"

/* Compile probes. A device's compiler may fail at one shape and accept larger ones. So the shapes that fail are data of
 * the device's profile (refused_shapes), never a rule. A refused pair (seq, ctx) gets no row, in any batch. Its chunks
 * run in the next larger context of the same seq, else in a larger seq; the cutting of prompts and bt_pkg_find_row find
 * that row. Pure. */

bool bt_probes_refuses(const bt_profile *p, uint32_t seq, uint32_t ctx);
/* Rows of a policy's table that the device does not refuse. */
size_t bt_probes_rows(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens);
/* The i-th row of the policy that the device refuses, in the order of its shapes, and the row (batch_instead,
 * seq_instead, ctx_instead) in which its chunks run. batch_instead 0: there is no such row, which happens only for
 * decode rows and larger batches. false: there is no i-th row. */
typedef struct bt_probes_refused {
    uint32_t batch, seq, ctx, batch_instead, seq_instead, ctx_instead;
} bt_probes_refused;
bool bt_probes_refused_at(bt_probes_refused *ret, const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, size_t i);
/* BT_EARG: no row is left for sequences as long as the policy's longest; the fault names the nearest pair that
 * passes. */
bt_err bt_probes_check(const bt_profile *p, const bt_shapes *s, size_t ctx_tokens, bt_fault *fault);
#endif
