#ifndef BT_TRACE_CAPTURE_H
#define BT_TRACE_CAPTURE_H
#include "base/err.h"
#include "trace/row.h"

/* Records requests while a gateway serves. Whoever serves hands over copies and goes on: hashing, sealing and writing
 * are done by a thread of its own, and between the two is a ring with a bound. A record that finds no place there, or
 * that the disk refuses, is dropped and counted; the next that is written says how many were. Nothing here waits for
 * the disk but closing, and that not for long.
 *
 * A record counts as written when write() has returned: the kernel has it then, and it survives the end of the process.
 * The thread writes each record as it comes, with nothing kept back, and waits for no sync: another thread puts the
 * file on the disk every BT_CAPTURE_SYNC_MS. So a process that is killed loses the record being written and those
 * handed over in the moments before, which the thread had not come to; a machine that dies loses what came since the
 * last sync. */
enum {
    BT_CAPTURE_RING = 4096,           /* records that wait to be written */
    BT_CAPTURE_WAIT_BYTES = 64 << 20, /* bytes of them */
    BT_CAPTURE_SYNC_MS = 1000,
    BT_CAPTURE_CLOSE_MS = 5000, /* the longest that closing waits for what is left */
};
typedef struct bt_capture bt_capture;

typedef struct bt_capture_config {
    const char *path, *model;
    uint64_t rotate_bytes;
    bool has_text;                  /* ids and answers are kept too */
    const char *seal_file;          /* a public key, 40 characters of Z85 on its first line; NULL: not sealed */
    void (*tell)(const char *text); /* about the disk, from the threads; at most once a second each */
} bt_capture_config;

typedef struct bt_capture_counts {
    uint64_t written, busy, refused; /* records: on the file; no place in the ring; the disk, memory, too long */
    uint64_t bytes;                  /* of the records written */
} bt_capture_counts;

/* Opens the file and writes the start, before there is any request. BT_EIO, BT_EFORMAT, BT_EAGAIN as
 * trace/capture_file.h; BT_EFORMAT: no key. `config` is copied, its strings live on. *ret_cut: bytes of a torn record
 * that were cut off the file's end. */
bt_err bt_capture_open(bt_capture **ret, uint64_t *ret_cut, const bt_capture_config *config, bt_fault *fault);
/* After the last add: writes what is left, and frees. NULL is fine. False: the disk took too long, and what it had not
 * taken is lost; the thread and its memory stay until the process ends. */
bool bt_capture_close(bt_capture *c);

/* Copies and returns. arrival_us: of the clock that base/clock.h has; row->captured without hashes, and whether it has
 * text is the capture's own: its ids and text are given in any case. */
void bt_capture_add(bt_capture *c, const bt_trace_row *row);
bt_capture_counts bt_capture_look(bt_capture *c); /* from any thread */
#endif
