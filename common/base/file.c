/* Reading and mapping whole files, replacing them safely, locking them. */
#include "base/file.h"
#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SETTLED_S = 2 };

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
    (void)fsync(fd); /* some file systems cannot; the rename stands either way */
    close(fd);
}

bt_err bt_file_begin(bt_file_new *ret, const char *path, bt_fault *fault)
{
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) /* a rename would put a file where a device was */
        return bt_fail(fault, BT_EARG, "'%s' is no regular file: name a file", path);
    const size_t cap = strlen(path) + 8;
    bt_file_new f = {.fd = -1, .path = strdup(path), .temp = malloc(cap)};
    bt_err e = BT_OK;
    if (!f.path || !f.temp) {
        e = bt_fail(fault, BT_ENOMEM, "writing '%s'", path);
        goto out;
    }
    snprintf(f.temp, cap, "%s.XXXXXX", path);
    f.fd = mkostemp(f.temp, O_CLOEXEC); /* born with mode 0600 */
    if (f.fd < 0) e = bt_fail(fault, BT_EIO, "create '%s': %s", path, strerror(errno));
out:
    if (e == BT_OK) {
        *ret = f;
    } else {
        free(f.path);
        free(f.temp);
    }
    return e;
}

/* What open would make of mode. umask() itself can only be read by setting it, for all threads; without /proc
 * the usual one is taken. */
static unsigned less_umask(unsigned mode)
{
    unsigned mask = 022;
    char line[256];
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Umask: %o", &mask) == 1) break;
    if (status) (void)fclose(status);
    return mode & ~mask;
}

bt_err bt_file_keep(bt_file_new *f, unsigned mode, bt_fault *fault)
{
    if (fchmod(f->fd, less_umask(mode)) < 0 || fsync(f->fd) < 0)
        return bt_fail(fault, BT_EIO, "write '%s': %s", f->temp, strerror(errno));
    if (rename(f->temp, f->path) < 0)
        return bt_fail(fault, BT_EIO, "rename to '%s': %s", f->path, strerror(errno));
    sync_directory_of(f->path);
    free(f->temp);
    f->temp = NULL;
    return BT_OK;
}

void bt_file_done(bt_file_new *f)
{
    if (f->temp) (void)unlink(f->temp);
    close(f->fd);
    free(f->temp);
    free(f->path);
}

bt_err bt_file_try(const char *path, bt_fault *fault)
{
    bt_file_new f;
    const bt_err e = bt_file_begin(&f, path, fault);
    if (e == BT_OK) bt_file_done(&f);
    return e;
}

bt_err bt_file_replace(const char *path, const void *bytes, size_t n, unsigned mode, bt_fault *fault)
{
    bt_file_new f;
    bt_err e = bt_file_begin(&f, path, fault);
    if (e < 0) return e;
    e = write_all(f.fd, bytes, n);
    e = e < 0 ? bt_fail(fault, e, "write '%s': %s", f.temp, strerror(errno)) : bt_file_keep(&f, mode, fault);
    bt_file_done(&f);
    return e;
}

/* Whatever is written to a file changes its ctime, though two writes may leave the same one within a tick. */
static void name_state(bt_file_state *ret, const struct stat *st)
{
    const uint64_t facts[] = {(uint64_t)st->st_dev,          (uint64_t)st->st_ino,
                              (uint64_t)st->st_size,         (uint64_t)st->st_mtim.tv_sec,
                              (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
                              (uint64_t)st->st_ctim.tv_nsec};
    ret->is_settled = bt_clock_wall_s() - (int64_t)st->st_ctim.tv_sec >= SETTLED_S;
    bt_hash128(ret->name, facts, sizeof facts);
}

bt_err bt_file_state_of(bt_file_state *ret, int fd, bt_fault *fault)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return bt_fail(fault, BT_EIO, "stat: %s", strerror(errno));
    name_state(ret, &st);
    return BT_OK;
}

bt_err bt_file_map(const uint8_t **ret, size_t *ret_bytes, bt_file_state *ret_state, const char *path,
                   bt_fault *fault)
{
    bt_err e = BT_OK;
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "open '%s': %s", path, strerror(errno));
    if (fstat(fd, &st) < 0) {
        e = bt_fail(fault, BT_EIO, "stat '%s': %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode) || !st.st_size) {
        e = bt_fail(fault, BT_EFORMAT, "'%s' is %s", path,
                    S_ISREG(st.st_mode) ? "empty" : "not a regular file");
        goto out;
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        e = bt_fail(fault, BT_EIO, "map '%s': %s", path, strerror(errno));
        goto out;
    }
    (void)madvise(map, (size_t)st.st_size, MADV_HUGEPAGE); /* where the system has huge pages for files */
    *ret = map;
    *ret_bytes = (size_t)st.st_size;
    if (ret_state) name_state(ret_state, &st);
out:
    close(fd);
    return e;
}

void bt_file_unmap(const uint8_t *bytes, size_t n) { (void)munmap((void *)(uintptr_t)bytes, n); }

int bt_file_lock(const char *path, unsigned mode, bool waits)
{
    for (;;) {
        struct stat mine, named;
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, (mode_t)mode);
        if (fd < 0) return -1;
        const bool is_file = fstat(fd, &mine) == 0 && S_ISREG(mine.st_mode);
        int error = is_file ? 0 : EINVAL;
        while (!error && flock(fd, waits ? LOCK_EX : LOCK_EX | LOCK_NB) < 0)
            if (errno != EINTR) error = errno;
        if (!error && stat(path, &named) == 0 && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
            return fd;
        close(fd);
        if (!error) continue;
        errno = error;
        return -1;
    }
}
