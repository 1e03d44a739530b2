/* Reading whole small files, and replacing them safely. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bt_err bt_file_read(bt_buf *buf, const char *path, bt_fault *fault)
{
    bt_err e = BT_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "open '%s': %s", path, strerror(errno));
    for (;;) {
        uint8_t part[4096];
        const ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) e = bt_fail(fault, BT_EIO, "read '%s': %s", path, strerror(errno));
        if (n <= 0) break;
        if ((e = bt_buf_add(buf, part, (size_t)n)) < 0) {
            (void)bt_fail(fault, e, "'%s' has more than %zu bytes", path, buf->limit_bytes);
            break;
        }
    }
    close(fd);
    return e;
}

static bt_err write_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return BT_EIO;
        p += done;
        n -= (size_t)done;
    }
    return BT_OK;
}

/* The name is in the directory for good only after this. */
static void sync_directory_of(const char *path)
{
    char dir[4096];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);       /* some file systems cannot; the rename stands either way */
    close(fd);
}

bt_err bt_file_replace(const char *path, const void *bytes, size_t n, unsigned mode, bt_fault *fault)
{
    char temp[4096];
    if ((size_t)snprintf(temp, sizeof temp, "%s.XXXXXX", path) >= sizeof temp)
        return bt_fail(fault, BT_EIO, "path of %zu bytes is too long", strlen(path));
    const int fd = mkostemp(temp, O_CLOEXEC);         /* born with mode 0600 */
    if (fd < 0) return bt_fail(fault, BT_EIO, "create '%s': %s", temp, strerror(errno));
    bt_err e = write_all(fd, bytes, n);
    if (e == BT_OK && (fchmod(fd, mode) < 0 || fsync(fd) < 0)) e = BT_EIO;
    if (e < 0) (void)bt_fail(fault, e, "write '%s': %s", temp, strerror(errno));
    close(fd);
    if (e == BT_OK && rename(temp, path) < 0) e = bt_fail(fault, BT_EIO, "rename to '%s': %s", path, strerror(errno));
    if (e < 0) (void)unlink(temp);
    else sync_directory_of(path);
    return e;
}
