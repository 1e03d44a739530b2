#ifndef BT_NPU_CACHE_H
#define BT_NPU_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "npu/pkg.h"

/* Where packages that nobody asked for by name are kept: a file KEY.bpk for each, KEY from bt_compile_key, in
 *
 *   $BATON_CACHE_DIR/packages, else $XDG_CACHE_HOME/baton/packages, else ~/.cache/baton/packages
 *
 * Programs that start together and need the same package compile it once: one holds the lock KEY.lock (flock; the system drops it when its
 * holder dies), the others wait and open what it made. A file that is damaged, cut short or of another version is never trusted: it is made
 * again and replaced. The folder holds at most BT_CACHE_MAX_BYTES; past that the packages used longest ago go, but not the newest one and none that is
 * being made. Deleting a package that some process has mapped is safe on Linux: its pages stay until that process lets go. */
#define BT_CACHE_MAX_BYTES (UINT64_C(8) << 30)
enum { BT_CACHE_WAIT_MS = 600000 };

/* The folder, which may not exist yet. BT_EIO: none of the variables nor HOME is set, or the path is too long for cap. */
bt_err bt_cache_dir(char *ret, size_t cap, bt_fault *fault);

typedef struct bt_cache_request {
    const char *key;                        /* 32 lower-case hexadecimal digits */
    const char *dir;                        /* NULL: bt_cache_dir */
    int64_t wait_ms;                        /* for another process that is compiling it; 0: BT_CACHE_WAIT_MS */
    uint64_t max_bytes;                     /* 0: BT_CACHE_MAX_BYTES */
    /* Writes the package to `path` (bt_compile). Called at most once, with the lock held. */
    bt_err (*make)(void *ud, const char *path, bt_fault *fault);
    /* Called some ten times a second while waiting; false: give up with BT_ECANCEL. NULL: wait silently. */
    bool (*waiting)(void *ud, int64_t waited_ms);
    void *ud;
} bt_cache_request;

/* Opens the package of this key, made now if it is not there. *ret_made (may be NULL): whether it was. Blocks.
 * BT_EAGAIN: still being compiled elsewhere after wait_ms; BT_EIO: the folder cannot be written, with what to do instead; what make returned. */
bt_err bt_cache_open(bt_pkg **ret, bool *ret_made, const bt_cache_request *r, bt_fault *fault);

/* Deletes packages, the one used longest ago first, until the folder holds at most max_bytes; never that of keep_key (may be NULL), nor one that is
 * locked. Also what an interrupted compilation left. Failures are passed over: the cache stays too large. */
void bt_cache_trim(const char *dir, uint64_t max_bytes, const char *keep_key);
#endif
