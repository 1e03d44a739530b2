#ifndef BT_NPU_SESSIONS_H
#define BT_NPU_SESSIONS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "device/profile.h"
#include "npu/pkg/pkg_format.h"

/* A session maps the memory that it works on: the weights of its layers, and one arena. All specializations of a
 * package share one list of sessions. So a weight that two specializations use is mapped once, and going from one to
 * another within a session is no switch. Where a profile's window is too small for all, the layers are split into
 * consecutive sessions, as few as that order allows. A constant that two layers name is mapped once by a session that
 * holds both layers, and by each of two sessions that hold one. */

/* A matrix to be mapped. part: its layer, or parts - 1 for the output matrix; constant: the index of its bytes. */
typedef struct bt_sessions_weight {
    uint32_t part, constant;
    uint64_t bytes;
} bt_sessions_weight;

/* Splits parts into sessions. weight[weights]: parts ascending, each constant < 2^20; shared_bytes: mapped by every
 * session. ret has room for `parts` >= 1 sessions; *ret_n >= 1 are filled, each of at most map_window_bytes. BT_ELIMIT:
 * one part alone is larger than the window (the fault has both numbers and the smallest window that would do), or all
 * sessions are larger than memory_bytes (with both numbers); ret then has no meaning. BT_ENOMEM. */
bt_err bt_sessions_split(bt_pkg_session *ret, size_t *ret_n, const bt_profile *p, const bt_sessions_weight *weight,
                         size_t weights, size_t parts, uint64_t shared_bytes, bt_fault *fault);
/* Mapped bytes of a matrix [n, k]: whole tiles of `bits`, a scale and a sum of 4 bytes each for each output channel,
 * and what its groups (group inputs each) or palettes (palette_run inputs each) add. 0: no groups, no palettes. */
uint64_t bt_sessions_matrix_bytes(const bt_profile *p, uint32_t n, uint32_t k, uint32_t bits, uint32_t group,
                                  uint32_t palette_run);
#endif
