#ifndef BT_ENGINE_OVERFLOW_H
#define BT_ENGINE_OVERFLOW_H
#include "base/err.h"
#include "kernels/finite.h"

/* BT_ERANGE for a sequence with a noted overflow, with the place, the value and a remedy; BT_OK without one.
 * kv_elem_bytes: of its KV. */
bt_err bt_overflow_fail(const bt_overflow *o, uint32_t kv_elem_bytes, bt_fault *fault);
/* Notes logits[rows, V] that are not finite, of positions pos0 on; o NULL: no check. */
void bt_overflow_look_at_logits(bt_overflow *o, size_t pos0, const float *logits, size_t rows, size_t vocab);
#endif
