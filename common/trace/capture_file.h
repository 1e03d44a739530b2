#ifndef BT_TRACE_CAPTURE_FILE_H
#define BT_TRACE_CAPTURE_FILE_H
#include "base/err.h"
#include "trace/capture_format.h"

/* The file that a capture grows in. Each record is one write at its end; what a write left half done is cut off again,
 * and so is what a process that ended left there, when the file is opened. When it reached its size it is put on the
 * disk, if it is dirty, and called FILE.1, FILE.2, .. (the first number that is free, counted up), and a new FILE
 * begins. One process has it at a time (flock). Mode 0600. Blocking; one owner. */
typedef struct bt_capture_file {
    char *path;
    int fd; /* -1: none is open, the next write tries again */
    uint64_t bytes, rotate_bytes;
    uint64_t cut_bytes; /* of a torn end, when it was opened */
    unsigned parts;     /* FILE.N that are there */
    bool is_dirty;      /* written, and not put on the disk yet */
    bool is_torn;       /* a write was half done and could not be cut off: that comes first */
} bt_capture_file;

/* Opens or makes it. BT_EIO; BT_EFORMAT: something else is in it; BT_EAGAIN: another process has it. */
bt_err bt_capture_file_open(bt_capture_file *ret, const char *path, uint64_t rotate_bytes, bt_fault *fault);
void bt_capture_file_close(bt_capture_file *f);
/* Whole records, at most one file's worth. On failure nothing of them stays. */
bt_err bt_capture_file_add(bt_capture_file *f, const uint8_t *bytes, size_t n, bt_fault *fault);
bool bt_capture_file_is_full(const bt_capture_file *f, size_t more); /* so many bytes more are too many */
bt_err bt_capture_file_rotate(bt_capture_file *f, bt_fault *fault);
bt_err bt_capture_file_sync(bt_capture_file *f, bt_fault *fault);
#endif
