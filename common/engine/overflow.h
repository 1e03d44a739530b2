#ifndef BT_ENGINE_OVERFLOW_H
#define BT_ENGINE_OVERFLOW_H
#include "base/err.h"
#include "kernels/finite.h"

/* BT_ERANGE with words for a sequence that has one noted: where, what, and what may help; BT_OK where none is.
 * kv_elem_bytes: of its KV. */
bt_err bt_overflow_fail(const bt_overflow *o, uint32_t kv_elem_bytes, bt_fault *fault);
/* Notes logits[rows, V] that are not finite, of positions pos0 on; o NULL: nothing to do. */
void bt_overflow_look_at_logits(bt_overflow *o, size_t pos0, const float *logits, size_t rows, size_t vocab);
#endif
