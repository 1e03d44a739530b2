#ifndef BT_NPU_EXEC_STEPS_H
#define BT_NPU_EXEC_STEPS_H
#include "npu/run/exec.h"

/* One run of a program in steps: some instructions by one executor, the next ones by another. So a chunk passes from
 * the NPU's threads to the companion's and back (engine/overlap.h). Values between two steps lie in the chunk's arena
 * alone, so the bits are those of bt_exec_run, whichever executor runs a step. A run takes one step at a time, and so
 * does an executor. */
typedef struct bt_exec_steps bt_exec_steps;
/* pkg is borrowed. Errors of bt_pkg_check_overlap; BT_ENOMEM. */
bt_err bt_exec_steps_new(bt_exec_steps **ret, const bt_pkg *pkg, bt_fault *fault);
void bt_exec_steps_free(bt_exec_steps *s); /* NULL is fine */

/* Begins another run, of one sequence. row, arena and io are as for bt_exec_run, but io.on_kv is not called and
 * io.cancel is not checked. Everything that io points to, except its seq, outlives the run. */
bt_err bt_exec_steps_begin(bt_exec_steps *s, bt_exec *x, const bt_pkg_row *row, bt_pkg_out out, void *arena,
                           const bt_exec_io *io, bt_fault *fault);
/* Runs the instructions up to `end`, an index in the program. Instructions before `end` may be done already, fused with
 * earlier ones; instructions fused with the last one are done too. x: an executor of the same package and kernels. */
void bt_exec_steps_run(bt_exec_steps *s, bt_exec *x, uint32_t end);
#endif
