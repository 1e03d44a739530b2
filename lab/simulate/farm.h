#ifndef BT_LAB_SIMULATE_FARM_H
#define BT_LAB_SIMULATE_FARM_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Pieces of work in processes of their own, `jobs` at a time. Each process writes lines, which come to `line` in this
 * process, one after the other, the lines of one piece in their order. */
typedef struct tool_simulate_farm {
    /* In a process of its own, whose memory is a copy: say each line by tool_simulate_say(to, ...). */
    bt_err (*work)(void *ud, uint32_t piece, int to, bt_fault *fault);
    bt_err (*line)(void *ud, const char *text, bt_fault *fault); /* with its newline */
    void *ud;
    uint32_t jobs; /* at a time; at least 1 */
} tool_simulate_farm;
/* The first piece that fails ends all; its words come back. BT_EIO: no process or pipe. */
bt_err tool_simulate_farm_run(const tool_simulate_farm *f, const uint32_t *piece, size_t n, bt_fault *fault);
/* A whole line with its newline. BT_EIO. */
bt_err tool_simulate_say(int to, const char *line, bt_fault *fault);
#endif
