#ifndef BT_BASE_WAIT_H
#define BT_BASE_WAIT_H
#include <stdint.h>
#include "base/progress.h"

/* Says on stderr what a process waits for, for programs only: every wait of more than a second, by one line that is
 * redrawn on a terminal, and by one line that stays, ending in " ...", where there is none. A thread of its own shows
 * it, so that a wait is told too that reports nothing. It lives from the first tell to the end and takes no signals.
 * One wait at a time; all calls come from one thread. */
typedef enum bt_wait_way {
    BT_WAIT_SILENT, /* the default */
    BT_WAIT_STDERR,
    BT_WAIT_LOG, /* a line of the log (base/log.h), whatever stderr is */
} bt_wait_way;

void bt_wait_setup(bt_wait_way way); /* while nothing is told */
/* Begins a wait, or goes on with it: `what` is the same then. A bt_progress_fn; ud is not looked at. */
void bt_wait_tell(void *ud, const char *what, uint64_t done, uint64_t total);
void bt_wait_note(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* of the wait that is told */
void bt_wait_end(void); /* erases the redrawn line; where nothing is told, nothing happens */
#endif
