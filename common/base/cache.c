/* Folders of files that take long to make: made once for all who need one, nothing damaged used, a bounded
 * size. */
#include "base/cache.h"
#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_CHARS = 32, MAX_PATH = 4096, POLL_MS = 100, MAX_FILES = 65536 };

bt_err bt_cache_dir(char *ret, size_t cap, const bt_cache_kind *kind, bt_fault *fault)
{
    const char *own = getenv("BATON_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (own && *own) n = snprintf(ret, cap, "%s/%s", own, kind->folder);
    else if (cache && *cache) n = snprintf(ret, cap, "%s/baton/%s", cache, kind->folder);
    else if (home && *home) n = snprintf(ret, cap, "%s/.cache/baton/%s", home, kind->folder);
    else
        return bt_fail(fault, BT_EIO,
                       "no place for a %s: none of BATON_CACHE_DIR, XDG_CACHE_HOME and HOME is set",
                       kind->what);
    return n >= 0 && (size_t)n < cap
               ? BT_OK
               : bt_fail(fault, BT_EIO, "the path of the %s cache has %d bytes", kind->what, n);
}

static bool is_key(const char *k, size_t n) { return n == KEY_CHARS && strspn(k, "0123456789abcdef") >= n; }

static bt_err cannot_write(bt_fault *fault, const bt_cache_kind *kind, const char *dir, int error)
{
    return bt_fail(fault, BT_EIO, "the %.20s cache '%.90s' cannot be written: %.40s. %.80s", kind->what, dir,
                   strerror(error), kind->advice);
}

/* mkdir -p */
static bt_err make_dir(const char *dir, const bt_cache_kind *kind, bt_fault *fault)
{
    char path[MAX_PATH];
    struct stat st;
    if ((size_t)snprintf(path, sizeof path, "%s", dir) >= sizeof path)
        return cannot_write(fault, kind, dir, ENAMETOOLONG);
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/') continue;
        const char c = *p;
        *p = 0;
        if (mkdir(path, 0755) < 0 && errno != EEXIST && !(stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
            return cannot_write(fault, kind, dir, errno);
        *p = c;
        if (!c) return BT_OK;
    }
}

/* ---- locks ---- */

/* The lock of a key, taken without waiting: a descriptor, -1 with errno EWOULDBLOCK when somebody has it, -1
 * otherwise. Whoever deletes a lock file holds it, so the file that was locked must still be the one with
 * the name. */
static int try_lock(const char *path)
{
    for (;;) {
        struct stat mine, named;
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0) return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            const int error = errno;
            close(fd);
            if (error == EINTR) continue;
            errno = error;
            return -1;
        }
        if (fstat(fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino &&
            mine.st_dev == named.st_dev)
            return fd;
        close(fd);
    }
}

static bt_err wait_lock(int *ret, const char *dir, const char *path, const bt_cache_request *r,
                        bt_fault *fault)
{
    const int64_t begin = bt_clock_ms(), wait = r->wait_ms ? r->wait_ms : BT_CACHE_WAIT_MS;
    for (;;) {
        const int fd = try_lock(path);
        if (fd >= 0) {
            *ret = fd;
            return BT_OK;
        }
        if (errno != EWOULDBLOCK) return cannot_write(fault, r->kind, dir, errno);
        const int64_t waited = bt_clock_ms() - begin;
        if (waited >= wait)
            return bt_fail(fault, BT_EAGAIN,
                           "another process has been making this %.20s for %lld s: see '%.150s'",
                           r->kind->what, (long long)(waited / 1000), path);
        if (r->waiting && !r->waiting(r->ud, waited))
            return bt_fail(fault, BT_ECANCEL, "gave up waiting for a %s", r->kind->what);
        (void)poll(NULL, 0, wait - waited < POLL_MS ? (int)(wait - waited) : POLL_MS);
    }
}

/* ---- opening ---- */

/* The file if a whole one is there; else NULL. Marks it as used now. */
static void *open_whole(const bt_cache_request *r, const char *path)
{
    void *p = NULL;
    if (r->open(&p, r->ud, path, NULL) < 0) return NULL;
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* a cache that cannot be written still serves */
    return p;
}

bt_err bt_cache_open(void **ret, bool *ret_made, const bt_cache_request *r, bt_fault *fault)
{
    bt_err e;
    char dir[MAX_PATH], path[MAX_PATH + 64], lock_path[MAX_PATH + 64];
    int lock = -1;
    bool made = false;
    if (!is_key(r->key, strlen(r->key)))
        return bt_fail(fault, BT_EARG, "'%.40s' is no key of a %s", r->key, r->kind->what);
    if (!r->dir && (e = bt_cache_dir(dir, sizeof dir, r->kind, fault)) < 0) return e;
    if (r->dir && (size_t)snprintf(dir, sizeof dir, "%s", r->dir) >= sizeof dir)
        return cannot_write(fault, r->kind, r->dir, ENAMETOOLONG);
    snprintf(path, sizeof path, "%s/%s%s", dir, r->key, r->kind->suffix);
    snprintf(lock_path, sizeof lock_path, "%s/%s.lock", dir, r->key);

    void *p = open_whole(r, path);
    if (!p) {
        if ((e = make_dir(dir, r->kind, fault)) < 0) return e;
        if ((e = wait_lock(&lock, dir, lock_path, r, fault)) < 0) return e;
        p = open_whole(r, path); /* made while we waited? */
    }
    if (!p) {
        e = access(dir, W_OK) < 0 ? cannot_write(fault, r->kind, dir, errno) : r->make(r->ud, path, fault);
        if (e == BT_OK) e = r->open(&p, r->ud, path, fault);
        if (e < 0) goto out;
        made = true;
        bt_cache_trim(dir, r->kind, r->kind->max_bytes, r->key);
    }
    *ret = p;
    if (ret_made) *ret_made = made;
    e = BT_OK;
out:
    if (lock >= 0) close(lock);
    return e;
}

/* ---- trimming ---- */

typedef struct entry {
    char name[64]; /* KEY.suffix, or KEY.suffix.XXXXXX that was left half made */
    uint64_t bytes;
    struct timespec used;
} entry;

static int longest_ago_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool is_left_over(const entry *f, const bt_cache_kind *kind)
{
    return strlen(f->name) > KEY_CHARS + strlen(kind->suffix);
}

/* Deletes a file of a key, and its lock with it, unless somebody holds that. */
static bool delete_file(const char *dir, const entry *f)
{
    char lock_path[MAX_PATH + 64], path[MAX_PATH + 128];
    snprintf(lock_path, sizeof lock_path, "%s/%.*s.lock", dir, KEY_CHARS, f->name);
    snprintf(path, sizeof path, "%s/%s", dir, f->name);
    const int lock = try_lock(lock_path);
    if (lock < 0) return false;
    const bool gone = unlink(path) == 0;
    (void)unlink(lock_path);
    close(lock);
    return gone;
}

/* The folder's files of this kind; the caller frees the list. */
static size_t list_files(entry **ret, const char *dir, const bt_cache_kind *kind)
{
    entry *list = NULL;
    const size_t suffix = strlen(kind->suffix);
    size_t n = 0, room = 0;
    DIR *d = opendir(dir);
    if (!d) return 0;
    for (struct dirent *e; n < MAX_FILES && (e = readdir(d));) {
        char path[MAX_PATH + 300];
        struct stat st;
        const size_t len = strlen(e->d_name);
        if (len < KEY_CHARS + suffix || len >= sizeof list->name ||
            !is_key(e->d_name, strcspn(e->d_name, ".")) ||
            strncmp(e->d_name + KEY_CHARS, kind->suffix, suffix) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) continue;
        if (n == room) {
            entry *grown = realloc(list, (room ? 2 * room : 64) * sizeof *list);
            if (!grown) break;
            list = grown;
            room = room ? 2 * room : 64;
        }
        memcpy(list[n].name, e->d_name, len + 1);
        list[n].bytes = (uint64_t)st.st_size;
        list[n++].used = st.st_mtim;
    }
    closedir(d);
    *ret = list;
    return n;
}

void bt_cache_trim(const char *dir, const bt_cache_kind *kind, uint64_t max_bytes, const char *keep_key)
{
    entry *list = NULL;
    uint64_t total = 0;
    const size_t n = list_files(&list, dir, kind);
    for (size_t i = 0; i < n; i++) total += list[i].bytes;
    if (n) qsort(list, n, sizeof *list, longest_ago_first);
    for (size_t i = 0; i < n; i++) {
        if (keep_key && strncmp(list[i].name, keep_key, KEY_CHARS) == 0) continue;
        if ((total > max_bytes || is_left_over(&list[i], kind)) && delete_file(dir, &list[i]))
            total -= list[i].bytes;
    }
    free(list);
}
