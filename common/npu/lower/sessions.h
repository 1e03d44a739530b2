#ifndef BT_NPU_SESSIONS_H
#define BT_NPU_SESSIONS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "device/profile.h"
#include "npu/pkg/pkg_format.h"

/* A session maps what it works on: the weights of its layers, and one arena. All specializations of a package share one
 * list of sessions, so that a weight which two of them use is mapped once, and going from one specialization to another
 * within a session is no switch. Where a profile's window is too small for all, the layers are split into consecutive
 * sessions, as few as there can be in that order. A constant that two layers name is mapped once by a session that
 * holds both, and by each of two sessions that hold one. */

/* A matrix to be mapped. part: its layer, or parts - 1 for the output matrix; constant: which bytes it is of. */
typedef struct bt_sessions_weight {
    uint32_t part, constant;
    uint64_t bytes;
} bt_sessions_weight;

/* weight[weights]: parts ascending, each constant < 2^20; shared_bytes: mapped by every session. ret has room for
 * `parts`; *ret_n >= 1 of them are filled, each <= map_window_bytes. BT_ELIMIT: one part alone is larger than the
 * window, with both numbers and the smallest window that would do, or all sessions are larger than memory_bytes, with
 * both numbers (what ret holds then has no meaning). BT_ENOMEM. parts >= 1. */
bt_err bt_sessions_split(bt_pkg_session *ret, size_t *ret_n, const bt_profile *p, const bt_sessions_weight *weight,
                         size_t weights, size_t parts, uint64_t shared_bytes, bt_fault *fault);
/* What a matrix [n, k] takes in a mapping: whole tiles of `bits`, for each output channel a scale and a sum of 4 bytes,
 * and what its groups or palettes (palette_run inputs each; 0: none) add. */
uint64_t bt_sessions_matrix_bytes(const bt_profile *p, uint32_t n, uint32_t k, uint32_t bits, uint32_t group,
                                  uint32_t palette_run);
#endif
