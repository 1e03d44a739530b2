#ifndef BT_BASE_FILE_H
#define BT_BASE_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

/* Whole files: small ones read and replaced, large ones written piece by piece and mapped; and locks. */

/* Appends the content of `path` to *buf; BT_ELIMIT past the buffer's limit, BT_EIO. */
bt_err bt_file_read(bt_buf *buf, const char *path, bt_fault *fault);

/* Puts n bytes at `path` so that after a crash either the old or the new content is there, whole: temporary file beside
 * it, fsync, rename, fsync of the directory. `mode` is the new file's, less the umask.
 * BT_EIO; BT_EARG where a directory, device or pipe has the name. */
bt_err bt_file_replace(const char *path, const void *bytes, size_t n, unsigned mode, bt_fault *fault);

/* The same for a file that is written piece by piece: begin makes a file in the folder of `path`, mode 0600; the caller
 * writes to fd; keep gives it mode, less the umask, and name once it is on the disk. Until then it has no name, and a
 * process that is killed leaves nothing; only where the file system has no such files it is PATH.XXXXXX, which a kill
 * leaves behind. */
typedef struct bt_file_new {
    int fd;
    bool has_name; /* temp is there */
    char *path, *temp;
} bt_file_new;
bt_err bt_file_begin(bt_file_new *ret, const char *path, bt_fault *fault); /* BT_EIO, BT_ENOMEM */
bt_err bt_file_keep(bt_file_new *f, unsigned mode, bt_fault *fault);       /* BT_EIO */
void bt_file_done(bt_file_new *f); /* after begin, always; deletes the file where it was not kept */

/* Whether begin would succeed: for a program that computes for long before it writes. Errors as of begin. */
bt_err bt_file_try(const char *path, bt_fault *fault);

/* Whether the disk of `path` has room for so many bytes more. BT_ELIMIT with both numbers; where the system does not
 * say what is free, there is room. For who is about to begin. */
bt_err bt_file_room(const char *path, uint64_t bytes, bt_fault *fault);

/* What a file is at a moment: any later write to it gives another name. is_settled: false for a file so new that it may
 * have been written twice at one time. */
typedef struct bt_file_state {
    uint8_t name[16];
    bool is_settled;
} bt_file_state;
bt_err bt_file_state_of(bt_file_state *ret, int fd, bt_fault *fault); /* BT_EIO */

/* BT_ELIMIT, with both numbers: a file of so many bytes is longer than what this machine can address (32 bits). */
bt_err bt_file_fits(const char *path, uint64_t bytes, bt_fault *fault);
/* Maps a whole file for reading, shared with all who map it; the caller unmaps. ret_state may be NULL. BT_EIO;
 * BT_EFORMAT: empty or not a regular file. */
bt_err bt_file_map(const uint8_t **ret, size_t *ret_bytes, bt_file_state *ret_state, const char *path, bt_fault *fault);
void bt_file_unmap(const uint8_t *bytes, size_t n);

/* Opens `path` to read and write, made with `mode` where it is not there, and locks it (flock) until the
 * descriptor is closed. What is locked is the file that has the name then, also where others replace or
 * delete it under the same lock. -1 with errno: EWOULDBLOCK where another has it and waits is false, EINVAL
 * for what is no regular file. */
int bt_file_lock(const char *path, unsigned mode, bool waits);
#endif
