#ifndef BT_BASE_FILE_H
#define BT_BASE_FILE_H
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

/* Small whole files. */

/* Appends the content of `path` to *buf; BT_ELIMIT past the buffer's limit, BT_EIO. */
bt_err bt_file_read(bt_buf *buf, const char *path, bt_fault *fault);

/* Puts n bytes at `path` so that after a crash either the old or the new content is there, whole: temporary file beside
 * it, fsync, rename, fsync of the directory. `mode` is the new file's, whatever the umask. BT_EIO. */
bt_err bt_file_replace(const char *path, const void *bytes, size_t n, unsigned mode, bt_fault *fault);
#endif
