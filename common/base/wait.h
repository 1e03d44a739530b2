#ifndef BT_BASE_WAIT_H
#define BT_BASE_WAIT_H
#include <stdint.h>

/* Shows on stderr what a program waits for. A terminal gets one line that is redrawn; elsewhere every wait of more than
 * a second gets one line that stays and ends in " ...". A thread of its own shows the line, so that a wait appears even
 * while the work reports nothing. The thread lives from bt_wait_tell to bt_wait_end and takes no signals. One wait at a
 * time; all calls come from one thread. */
typedef enum bt_wait_way {
    BT_WAIT_SILENT, /* the default */
    BT_WAIT_STDERR,
    BT_WAIT_LOG, /* a line of the log (base/log.h), whatever stderr is */
} bt_wait_way;

void bt_wait_setup(bt_wait_way way); /* outside of a wait */
/* Begins a wait, or goes on with the one of the same `what`. A bt_progress_fn; ud is not used. */
void bt_wait_tell(void *ud, const char *what, uint64_t done, uint64_t total);
void bt_wait_note(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* added to the present wait's line */
void bt_wait_end(void); /* erases the redrawn line; does nothing outside of a wait */
#endif
