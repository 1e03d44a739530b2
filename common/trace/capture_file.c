/* Append, cut, rename: whatever the disk refuses is tried again with the next record. */
#include "trace/capture_file.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, MAX_PARTS = 1000000 };

/* Errors that end by themselves, or when somebody makes room; any other means that the path is wrong. */
static bool may_pass(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

static bt_err failed(const bt_capture_file *f, const char *what, bt_fault *fault)
{
    return bt_fail(fault, may_pass(errno) ? BT_ELIMIT : BT_EIO, "cannot %s '%.150s': %s", what, f->path,
                   strerror(errno));
}

/* The end of the last whole record. BT_EFORMAT: the file begins with something else. */
static bt_err find_end(uint64_t *ret, const uint8_t *bytes, size_t n, bt_fault *fault)
{
    size_t at = 0, whole;
    while (at < n && bt_capture_measure(&whole, bytes + at, n - at, NULL) == BT_OK && whole > 0 &&
           bt_capture_is_sound(bytes + at, whole))
        at += whole;
    const size_t head = n < BT_CAPTURE_MAGIC_BYTES ? n : BT_CAPTURE_MAGIC_BYTES;
    if (at == 0 && memcmp(bytes, BT_CAPTURE_MAGIC, head) != 0)
        return bt_fail(fault, BT_EFORMAT,
                       "the file is no capture, and nothing is written over it: name another file");
    /* Damage in the middle is not the end: what follows it stays. */
    for (size_t i = at; i + BT_CAPTURE_HEAD_BYTES < n; i++) {
        const uint8_t *next = memmem(bytes + i, n - i, BT_CAPTURE_MAGIC, BT_CAPTURE_MAGIC_BYTES);
        if (!next) break;
        i = (size_t)(next - bytes);
        if (bt_capture_measure(&whole, next, n - i, NULL) == BT_OK && whole > 0 &&
            bt_capture_is_sound(next, whole)) {
            at = i + whole;
            i = at - 1;
        }
    }
    *ret = at;
    return BT_OK;
}

/* Locks the file and cuts what is torn. */
static bt_err open_file(bt_capture_file *f, bt_fault *fault)
{
    struct stat st;
    bt_err e = BT_OK;
    f->fd = bt_file_lock(f->path, 0600, false);
    if (f->fd < 0 && errno == EWOULDBLOCK)
        return bt_fail(fault, BT_EAGAIN, "another gateway writes to '%.150s': name another file", f->path);
    if (f->fd < 0) return failed(f, "open", fault);
    if (fstat(f->fd, &st) < 0) e = failed(f, "stat", fault);
    uint64_t end = 0;
    if (e == BT_OK && st.st_size > 0) {
        const uint8_t *bytes;
        size_t n;
        bt_fault why = {""};
        e = bt_file_map(&bytes, &n, NULL, f->path, &why);
        if (e == BT_OK) {
            e = find_end(&end, bytes, n, &why);
            bt_file_unmap(bytes, n);
            f->cut_bytes = e == BT_OK ? n - end : 0;
        }
        if (e < 0) bt_fail(fault, e, "'%.100s': %.140s", f->path, why.text);
    }
    if (e == BT_OK && end < (uint64_t)st.st_size && ftruncate(f->fd, (off_t)end) < 0)
        e = failed(f, "cut", fault);
    f->bytes = end;
    f->is_torn = false;
    if (e < 0) {
        close(f->fd);
        f->fd = -1;
    }
    return e;
}

static bool part_path(char ret[PATH_BYTES], const bt_capture_file *f, unsigned part)
{
    return (size_t)snprintf(ret, PATH_BYTES, "%s.%u", f->path, part) < PATH_BYTES;
}

bt_err bt_capture_file_open(bt_capture_file *ret, const char *path, uint64_t rotate_bytes, bt_fault *fault)
{
    char part[PATH_BYTES];
    bt_capture_file f = {.fd = -1, .rotate_bytes = rotate_bytes, .path = strdup(path)};
    if (!f.path) return bt_fail(fault, BT_ENOMEM, "out of memory for a path");
    bt_err e = open_file(&f, fault);
    if (e < 0 && e != BT_ELIMIT) {
        bt_capture_file_close(&f);
        return e;
    }
    while (f.parts < MAX_PARTS && part_path(part, &f, f.parts + 1) && access(part, F_OK) == 0) f.parts++;
    *ret = f;
    return e;
}

void bt_capture_file_close(bt_capture_file *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    free(f->path);
    f->path = NULL;
}

bt_err bt_capture_file_add(bt_capture_file *f, const uint8_t *bytes, size_t n, bt_fault *fault)
{
    size_t done = 0;
    bt_err e = f->fd < 0 ? open_file(f, fault) : BT_OK;
    if (e < 0) return e;
    if (f->is_torn && ftruncate(f->fd, (off_t)f->bytes) < 0) return failed(f, "cut", fault);
    f->is_torn = false;
    while (done < n) {
        const ssize_t w = pwrite(f->fd, bytes + done, n - done, (off_t)(f->bytes + done));
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) {
            e = failed(f, "write", fault);
            f->is_torn = done > 0 && ftruncate(f->fd, (off_t)f->bytes) < 0;
            return e;
        }
        done += (size_t)w;
    }
    f->bytes += n;
    f->is_dirty = true;
    return BT_OK;
}

bool bt_capture_file_is_full(const bt_capture_file *f, size_t more)
{
    return f->bytes > 0 && f->bytes + more > f->rotate_bytes;
}

bt_err bt_capture_file_rotate(bt_capture_file *f, bt_fault *fault)
{
    char part[PATH_BYTES];
    if (f->parts >= MAX_PARTS || !part_path(part, f, f->parts + 1))
        return bt_fail(fault, BT_ELIMIT, "'%.150s' has %u parts, and no other can be named", f->path,
                       f->parts);
    bt_err e = bt_capture_file_sync(f, fault);
    if (e < 0) return e;
    if (rename(f->path, part) < 0) return failed(f, "rename", fault);
    f->parts++;
    close(f->fd);
    f->fd = -1;
    f->bytes = 0;
    return open_file(f, fault);
}

bt_err bt_capture_file_sync(bt_capture_file *f, bt_fault *fault)
{
    if (f->fd < 0 || !f->is_dirty) return BT_OK;
    f->is_dirty = false;
    return fdatasync(f->fd) < 0 ? failed(f, "sync", fault) : BT_OK;
}
