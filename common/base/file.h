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

/* All n bytes to an open file or pipe. BT_EIO, and errno says why. */
bt_err bt_file_write(int fd, const void *bytes, size_t n);

/* Puts n bytes at `path` so that after a crash either the old or the new content is there, whole: temporary file beside
 * it, fsync, rename, fsync of the directory. `mode` is the new file's, less the umask.
 * BT_EIO; BT_EARG where a directory, device or pipe has the name. */
bt_err bt_file_replace(const char *path, const void *bytes, size_t n, unsigned mode, bt_fault *fault);

/* The same for a file that is written piece by piece: begin makes a file in the folder of `path`, mode 0600; the caller
 * writes to fd; keep gives the file its mode, less the umask, and its name once its bytes are on the disk. Until then
 * the file has no name, and a process that is killed leaves nothing behind. On file systems without nameless files it
 * is called PATH.XXXXXX, which a kill leaves behind. */
typedef struct bt_file_new {
    int fd;
    bool has_name; /* temp is there */
    char *path, *temp;
} bt_file_new;
bt_err bt_file_begin(bt_file_new *ret, const char *path, bt_fault *fault); /* BT_EIO, BT_ENOMEM */
bt_err bt_file_keep(bt_file_new *f, unsigned mode, bt_fault *fault);       /* BT_EIO */
void bt_file_done(bt_file_new *f); /* after begin, always; deletes the file where it was not kept */

/* Whether begin would succeed: for a program that computes for long before it writes. Returns the errors of begin. */
bt_err bt_file_try(const char *path, bt_fault *fault);

/* Whether the disk of `path` has room for `bytes` more: asked before begin. BT_ELIMIT with both numbers; where the
 * system does not say what is free, there is room. */
bt_err bt_file_room(const char *path, uint64_t bytes, bt_fault *fault);

/* The state of a file at a moment, as a name that any later write changes. is_settled: false for a file so new that two
 * writes may have had the same time stamp. */
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

/* Calls fn with the path of every file that a process has mapped, as the system names it, once a mapping. Processes
 * whose maps this one may not read are left out. */
typedef void bt_file_mapped_fn(void *ud, const char *path);
void bt_file_each_mapped(bt_file_mapped_fn *fn, void *ud);

/* Opens `path` to read and write, made with `mode` where it is not there, and locks it (flock) until the descriptor is
 * closed. The locked file is the one that has the name when the call returns, even where others replace or delete it
 * under the same lock. -1 with errno: EWOULDBLOCK where another has it and waits is false, EINVAL for what is no
 * regular file. */
int bt_file_lock(const char *path, unsigned mode, bool waits);
#endif
