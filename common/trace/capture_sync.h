#ifndef BT_TRACE_CAPTURE_SYNC_H
#define BT_TRACE_CAPTURE_SYNC_H
#include "base/err.h"

#include <stdbool.h>

/* Puts files on the disk in a thread of its own, the only place of a capture that waits for the disk: a sync can take
 * long, and records are written meanwhile. */
typedef struct bt_capture_sync bt_capture_sync;

/* tell: called from that thread with words about what the disk refused; NULL: no calls. */
bt_err bt_capture_sync_open(bt_capture_sync **ret, void (*tell)(const char *text), bt_fault *fault);
/* Puts everything written to fd so far on the disk; the caller may close fd at once. False: the thread has enough to
 * do, ask again later. One thread asks. */
bool bt_capture_sync_ask(bt_capture_sync *s, int fd);
void bt_capture_sync_close(bt_capture_sync *s); /* does all that was asked first; NULL is fine */
#endif
