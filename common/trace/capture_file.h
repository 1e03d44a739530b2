#ifndef BT_TRACE_CAPTURE_FILE_H
#define BT_TRACE_CAPTURE_FILE_H
#include "base/err.h"
#include "trace/capture_format.h"

/* The file of a capture. Each record is one write at the file's end. A half-done write is cut off again; one that an
 * ended process left behind is cut off when the file is opened. A file that has reached its size is put on the disk and
 * renamed to FILE.1, FILE.2, .. (the first number that is free, counted up), and a new FILE begins. One process has the
 * file at a time (flock). Mode 0600. Blocking; one owner. */
typedef struct bt_capture_file {
    char *path;
    int fd; /* -1: no file is open, the next write tries again */
    uint64_t bytes, rotate_bytes;
    uint64_t cut_bytes; /* of a torn record, cut off when the file was opened */
    unsigned parts;     /* how many FILE.N there are */
    bool is_dirty;      /* written, but not put on the disk yet */
    bool is_torn;       /* a half-done write could not be cut off: the next write tries that first */
} bt_capture_file;

/* Opens or makes the file. BT_EIO; BT_EFORMAT: the file holds something else; BT_EAGAIN: another process has it.
 * BT_ELIMIT, here and below: the disk takes nothing at present (ENOSPC, EDQUOT, EFBIG, EIO). *ret is there
 * nevertheless, and its next write tries again. */
bt_err bt_capture_file_open(bt_capture_file *ret, const char *path, uint64_t rotate_bytes, bt_fault *fault);
void bt_capture_file_close(bt_capture_file *f);
/* Adds whole records, at most one file's worth. After a failure no part of them is in the file. */
bt_err bt_capture_file_add(bt_capture_file *f, const uint8_t *bytes, size_t n, bt_fault *fault);
bool bt_capture_file_is_full(const bt_capture_file *f, size_t more); /* `more` bytes do not fit */
bt_err bt_capture_file_rotate(bt_capture_file *f, bt_fault *fault);
bt_err bt_capture_file_sync(bt_capture_file *f, bt_fault *fault);
#endif
