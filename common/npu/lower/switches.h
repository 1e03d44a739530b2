#ifndef BT_NPU_SWITCHES_H
#define BT_NPU_SWITCHES_H
#include <stddef.h>
#include "base/err.h"
#include "npu/lower/lower.h"
#include "npu/pkg/pkg_format.h"

/* Puts a SESSION instruction at the start of the program, because the program before may have ended in another session,
 * and at every border of two sessions. A SESSION stands before the first instruction, of any unit, of the session's
 * layers; a program that ends before those layers has none for them. The memory plan moves with the instructions. A
 * cluster that goes on behind a SESSION becomes two. cost_ns: the cost of each SESSION. Does nothing for one session.
 * BT_ENOMEM. */
bt_err bt_switches_insert(bt_lowered *l, const bt_pkg_session *session, size_t sessions, uint32_t layers,
                          uint64_t cost_ns, bt_fault *fault);
#endif
