/* Files that take long to make: made once for all who need one, nothing damaged used. */
#include "base/cache.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PATH = 4096, POLL_MS = 100 };

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

/* ---- making ---- */

static bt_err wait_lock(int *ret, const char *dir, const char *path, const bt_cache_request *r,
                        bt_fault *fault)
{
    const int64_t begin = bt_clock_ms(), wait = r->wait_ms ? r->wait_ms : BT_CACHE_WAIT_MS;
    for (;;) {
        const int fd = bt_cache_files_lock(path);
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
            return bt_fail(fault, BT_ECANCEL, "stopped waiting for a %s that another process makes",
                           r->kind->what);
        (void)poll(NULL, 0, wait - waited < POLL_MS ? (int)(wait - waited) : POLL_MS);
    }
}

/* ---- opening ---- */

/* Whether nobody but this user and root made the file. Its hashes find accidents; another user can make them
 * fit. */
static bool is_ours(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0);
}

/* The file if a whole one of ours is there; else NULL. The time of the lock is that of the last use, since
 * the file's own times name its state (bt_file_state). */
static void *open_whole(const bt_cache_request *r, const char *path, const char *lock_path)
{
    void *p = NULL;
    if (!is_ours(path) || r->open(&p, r->ud, path, NULL) < 0) return NULL;
    (void)utimensat(AT_FDCWD, lock_path, NULL, 0); /* a cache that cannot be written still serves */
    return p;
}

/* A lock that is still without words gets them; whoever holds it writes them himself. */
static void tell_words(const char *path, const bt_cache_request *r)
{
    struct stat st;
    if (!r->model || (stat(path, &st) == 0 && st.st_size > 0)) return;
    const int lock = bt_cache_files_lock(path);
    if (lock < 0) return;
    bt_cache_files_write_words(lock, r->model, r->recipe);
    close(lock);
}

/* After a file was made: kinds without a limit of their own share one. */
static void trim(const char *dir, const char *made, const bt_cache_request *r)
{
    char other[MAX_PATH];
    bt_cache_list l = {NULL, 0, 0};
    bt_cache_files_add(&l, dir, r->kind);
    for (const bt_cache_kind *const *k = bt_cache_files_kinds; !r->dir && !r->kind->max_bytes && *k; k++)
        if (*k != r->kind && !(*k)->max_bytes && bt_cache_files_dir(other, sizeof other, *k, NULL) == BT_OK)
            bt_cache_files_add(&l, other, *k);
    bt_cache_files_look(&l);
    bt_cache_files_trim(&l, r->kind->max_bytes ? r->kind->max_bytes : bt_cache_files_limit(), made);
    bt_cache_files_done(&l);
}

bt_err bt_cache_open(void **ret, bool *ret_made, const bt_cache_request *r, bt_fault *fault)
{
    bt_err e;
    char dir[MAX_PATH], path[MAX_PATH + 64], lock_path[MAX_PATH + 64];
    int lock = -1;
    bool made = false;
    if (!bt_cache_files_is_key(r->key))
        return bt_fail(fault, BT_EARG, "'%.40s' is no key of a %s", r->key, r->kind->what);
    if (!r->dir && (e = bt_cache_files_dir(dir, sizeof dir, r->kind, fault)) < 0) return e;
    if (r->dir && (size_t)snprintf(dir, sizeof dir, "%s", r->dir) >= sizeof dir)
        return cannot_write(fault, r->kind, r->dir, ENAMETOOLONG);
    snprintf(path, sizeof path, "%s/%s%s", dir, r->key, r->kind->suffix);
    snprintf(lock_path, sizeof lock_path, "%s/%s.lock", dir, r->key);

    void *p = open_whole(r, path, lock_path);
    if (!p) {
        if ((e = make_dir(dir, r->kind, fault)) < 0) return e;
        if ((e = wait_lock(&lock, dir, lock_path, r, fault)) < 0) return e;
        p = open_whole(r, path, lock_path); /* made while we waited? */
    }
    if (!p) {
        bt_cache_files_drop_half_made(dir, r->kind, r->key);
        e = access(dir, W_OK) < 0 ? cannot_write(fault, r->kind, dir, errno) : r->make(r->ud, path, fault);
        if (e == BT_OK) e = r->open(&p, r->ud, path, fault);
        if (e < 0) {
            if (access(path, F_OK) < 0) (void)unlink(lock_path); /* held: nobody else's */
            goto out;
        }
        made = true;
        bt_cache_files_write_words(lock, r->model, r->recipe);
        trim(dir, path, r);
    } else if (lock < 0) {
        tell_words(lock_path, r);
    }
    *ret = p;
    if (ret_made) *ret_made = made;
    e = BT_OK;
out:
    if (lock >= 0) close(lock);
    return e;
}
