#ifndef BT_NPU_SWITCHES_H
#define BT_NPU_SWITCHES_H
#include <stddef.h>
#include "base/err.h"
#include "npu/lower/lower.h"
#include "npu/pkg/pkg_format.h"

/* Puts a SESSION instruction at the border of two sessions, and at the start: the program that ran before ended in
 * another session. It stands before the first instruction of the session's layers, of whatever unit; a program that
 * ends before a session's layers has none for it. The memory plan moves with the instructions; a cluster that goes on
 * behind a switch becomes two. cost_ns: what each costs. One session: nothing is done. BT_ENOMEM. */
bt_err bt_switches_insert(bt_lowered *l, const bt_pkg_session *session, size_t sessions, uint32_t layers,
                          uint64_t cost_ns, bt_fault *fault);
#endif
