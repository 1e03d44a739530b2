#ifndef BT_TRACE_CAPTURE_H
#define BT_TRACE_CAPTURE_H
#include "base/err.h"
#include "trace/row.h"

/* Records requests while a gateway serves. The serving thread hands over copies and goes on: a thread of the capture
 * hashes, seals and writes, and a bounded ring lies between the two. A record that finds no place in the ring, or that
 * the disk refuses, is dropped and counted; the next written record says how many were dropped. Only bt_capture_close
 * waits for the disk, and not for long.
 *
 * A record counts as written when write() has returned: then the kernel has it, and it survives the end of the process.
 * The thread writes each record at once and waits for no sync: another thread puts the file on the disk every
 * BT_CAPTURE_SYNC_MS. So a process that is killed loses the record being written and the records still in the ring; a
 * machine that dies loses the records since the last sync. */
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
    uint64_t written, busy, refused; /* records: written; dropped for want of a place in the ring; dropped because of
                                        the disk, memory or their length */
    uint64_t bytes;                  /* of the records written */
} bt_capture_counts;

/* Opens the file and writes the start, before there is any request. BT_EIO, BT_EFORMAT, BT_EAGAIN as in
 * trace/capture_file.h; BT_EFORMAT also where seal_file holds no key. A disk that takes nothing at present is no error:
 * `tell` hears of it, and records are dropped until the disk takes one. `config` is copied; its strings must live on.
 * *ret_cut: bytes of a torn record that were cut off the file's end. */
bt_err bt_capture_open(bt_capture **ret, uint64_t *ret_cut, const bt_capture_config *config, bt_fault *fault);
/* After the last add: writes the records left, and frees. NULL is fine. False: the disk took too long and the records
 * left are lost; the thread and its memory stay until the process ends. */
bool bt_capture_close(bt_capture *c);

/* Copies and returns. arrival_us: by base/clock.h. row->captured has ids and text but no hashes; the capture makes the
 * hashes and decides whether it keeps the text. */
void bt_capture_add(bt_capture *c, const bt_trace_row *row);
bt_capture_counts bt_capture_look(bt_capture *c); /* from any thread */
#endif
