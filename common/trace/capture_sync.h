#ifndef BT_TRACE_CAPTURE_SYNC_H
#define BT_TRACE_CAPTURE_SYNC_H
#include "base/err.h"

#include <stdbool.h>

/* Puts files on the disk in a thread of its own, which is the one place of a capture that waits for the disk: a sync
 * can take long, and meanwhile records are written as they come. */
typedef struct bt_capture_sync bt_capture_sync;

/* tell: what the disk refused, from that thread; NULL: nobody asks. */
bt_err bt_capture_sync_open(bt_capture_sync **ret, void (*tell)(const char *text), bt_fault *fault);
/* Puts on the disk what was written to fd before; fd may be closed at once. False: it has enough to do, so ask again
 * later. One asker. */
bool bt_capture_sync_ask(bt_capture_sync *s, int fd);
void bt_capture_sync_close(bt_capture_sync *s); /* does all that was asked first; NULL is fine */
#endif
