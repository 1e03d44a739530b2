/* Reading and mapping whole files, replacing them safely, locking them. */
#include "base/file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/num.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { SETTLED_S = 2 };

bt_err bt_file_read(bt_buf *buf, const char *path, bt_fault *fault)
{
    bt_err e = BT_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot open '%s': %s", path, strerror(errno));
    for (;;) {
        uint8_t part[4096];
        const ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) e = bt_fail(fault, BT_EIO, "cannot read '%s': %s", path, strerror(errno));
        if (n <= 0) break;
        if ((e = bt_buf_add(buf, part, (size_t)n)) < 0) {
            (void)bt_fail(fault, e, "'%s' has more than %zu bytes, the limit for such a file", path,
                          buf->limit_bytes);
            break;
        }
    }
    close(fd);
    return e;
}

bt_err bt_file_write(int fd, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return BT_EIO;
        p += done;
        n -= (size_t)done;
    }
    return BT_OK;
}

/* The folder of a path, as open takes it. */
static void folder_of(char *ret, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(ret, cap, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
}

/* The name is in the directory for good only after this. */
static void sync_directory_of(const char *path)
{
    char dir[4096];
    folder_of(dir, sizeof dir, path);
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd); /* some file systems cannot; the rename stands either way */
    close(fd);
}

/* A file without a name, which goes with its process. -1: the file system has none, or nothing could name it
 * later. */
static int open_nameless(const char *path)
{
    char dir[4096], self[64];
    folder_of(dir, sizeof dir, path);
    const int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (access(self, F_OK) == 0) return fd;
    close(fd);
    return -1;
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
        e = bt_fail(fault, BT_ENOMEM, "out of memory writing '%s'", path);
        goto out;
    }
    snprintf(f.temp, cap, "%s.XXXXXX", path);
    f.fd = open_nameless(path);
    if (f.fd >= 0) goto out;
    f.fd = mkostemp(f.temp, O_CLOEXEC); /* born with mode 0600 */
    f.has_name = f.fd >= 0;
    if (f.fd < 0) e = bt_fail(fault, BT_EIO, "cannot create '%s': %s", path, strerror(errno));
out:
    if (e == BT_OK) {
        *ret = f;
    } else {
        free(f.path);
        free(f.temp);
    }
    return e;
}

/* The mode that open would give. umask() can only be read by setting it, for all threads, so /proc is read;
 * without it the usual umask counts. */
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

/* Another name at each try. */
static void draw_name(char *temp)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint8_t r[6];
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r) memset(r, 0, sizeof r);
    char *x = temp + strlen(temp) - sizeof r;
    for (size_t i = 0; i < sizeof r; i++) x[i] = letters[r[i] % (sizeof letters - 1)];
}

/* A file without a name gets its own at once where nothing has it, else that of a temporary file, for the
 * rename. *ret_done: it has its own. */
static bt_err give_name(bt_file_new *f, bool *ret_done, bt_fault *fault)
{
    enum { TRIES = 100 };
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    *ret_done = linkat(AT_FDCWD, self, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW) == 0;
    for (int i = 0; !*ret_done && !f->has_name; i++) {
        if (errno != EEXIST || i == TRIES)
            return bt_fail(fault, BT_EIO, "cannot give a file the name '%s': %s", f->path, strerror(errno));
        draw_name(f->temp);
        f->has_name = linkat(AT_FDCWD, self, AT_FDCWD, f->temp, AT_SYMLINK_FOLLOW) == 0;
    }
    return BT_OK;
}

bt_err bt_file_keep(bt_file_new *f, unsigned mode, bt_fault *fault)
{
    bool done = false;
    if (fchmod(f->fd, less_umask(mode)) < 0 || fsync(f->fd) < 0)
        return bt_fail(fault, BT_EIO, "cannot write '%s': %s", f->path, strerror(errno));
    const bt_err e = f->has_name ? BT_OK : give_name(f, &done, fault);
    if (e < 0) return e;
    if (!done && rename(f->temp, f->path) < 0)
        return bt_fail(fault, BT_EIO, "cannot rename a file to '%s': %s", f->path, strerror(errno));
    sync_directory_of(f->path);
    f->has_name = false;
    return BT_OK;
}

void bt_file_done(bt_file_new *f)
{
    if (f->has_name) (void)unlink(f->temp);
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

bt_err bt_file_room(const char *path, uint64_t bytes, bt_fault *fault)
{
    char dir[4096], need[32], have[32];
    struct statvfs disk;
    folder_of(dir, sizeof dir, path);
    if (statvfs(dir, &disk) < 0 || disk.f_blocks == 0) return BT_OK;
    const uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (bytes <= room) return BT_OK;
    bt_num_size_text(need, sizeof need, bytes);
    bt_num_size_text(have, sizeof have, room);
    return bt_fail(fault, BT_ELIMIT,
                   "'%.150s' takes %s, and its disk has %s left: free some, or write to another disk", path,
                   need, have);
}

bt_err bt_file_replace(const char *path, const void *bytes, size_t n, unsigned mode, bt_fault *fault)
{
    bt_file_new f;
    bt_err e = bt_file_begin(&f, path, fault);
    if (e < 0) return e;
    e = bt_file_write(f.fd, bytes, n);
    e = e < 0 ? bt_fail(fault, e, "cannot write '%s': %s", f.path, strerror(errno))
              : bt_file_keep(&f, mode, fault);
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
    if (fstat(fd, &st) < 0) return bt_fail(fault, BT_EIO, "cannot look at an open file: %s", strerror(errno));
    name_state(ret, &st);
    return BT_OK;
}

bt_err bt_file_fits(const char *path, uint64_t bytes, bt_fault *fault)
{
    if (bytes <= SIZE_MAX) return BT_OK;
    return bt_fail(fault, BT_ELIMIT,
                   "'%.150s' has %llu bytes; this machine of %zu bits maps files below %llu bytes", path,
                   (unsigned long long)bytes, sizeof(size_t) * 8, (unsigned long long)SIZE_MAX);
}

bt_err bt_file_map(const uint8_t **ret, size_t *ret_bytes, bt_file_state *ret_state, const char *path,
                   bt_fault *fault)
{
    bt_err e = BT_OK;
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot open '%s': %s", path, strerror(errno));
    if (fstat(fd, &st) < 0) {
        e = bt_fail(fault, BT_EIO, "cannot look at '%s': %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode) || !st.st_size) {
        e = bt_fail(fault, BT_EFORMAT, "'%s' is %s", path,
                    S_ISREG(st.st_mode) ? "empty" : "not a regular file");
        goto out;
    }
    e = bt_file_fits(path, (uint64_t)st.st_size, fault);
    if (e < 0) goto out;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        e = bt_fail(fault, errno == ENOMEM ? BT_ENOMEM : BT_EIO, "cannot map the %lld MiB of '%.100s': %s",
                    (long long)st.st_size >> 20, path, strerror(errno));
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

/* The files that a process has mapped are in its /proc/PID/maps, for the owner to read; the path is the last
 * field. */
void bt_file_each_mapped(bt_file_mapped_fn *fn, void *ud)
{
    char path[300], line[4096 + 128];
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!isdigit((unsigned char)e->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%s/maps", e->d_name);
        FILE *maps = fopen(path, "re");
        while (maps && fgets(line, sizeof line, maps)) {
            line[strcspn(line, "\n")] = '\0';
            const char *mapped = strchr(line, '/');
            if (mapped) fn(ud, mapped);
        }
        if (maps) (void)fclose(maps);
    }
    if (d) closedir(d);
}

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
