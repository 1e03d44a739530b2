#ifndef BT_TOOLS_CHILD_H
#define BT_TOOLS_CHILD_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

/* A program of the system that works for a command, such as python3. */

/* Gets what the program writes to stdout; an error ends the program and becomes tool_child_run's. */
typedef bt_err tool_child_fn(void *ud, const uint8_t *bytes, size_t n, bt_fault *fault);

enum { TOOL_CHILD_NOT_FOUND = 127 };

/* Runs argv[0], searched in PATH, without input, and waits for its end. `setting` ("NAME=VALUE", may be NULL) is added
 * to its environment. Its stderr goes to `said`, as much as fits; out NULL: so does its stdout. *ret_status: its exit
 * code, 128 and more where a signal ended it, TOOL_CHILD_NOT_FOUND where there is no such program. The program ends
 * with this process, and after limit_ms. Blocks. BT_ELIMIT: it took longer; BT_EIO; errors of out. */
bt_err tool_child_run(int *ret_status, const char *const *argv, const char *setting, tool_child_fn *out, void *ud,
                      bt_buf *said, int64_t limit_ms, bt_fault *fault);
#endif
