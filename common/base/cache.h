#ifndef BT_BASE_CACHE_H
#define BT_BASE_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Where files that take long to make are kept for the next process: a folder for each kind, a file KEY.SUFFIX for each
 * thing of it, in
 *
 *   $BATON_CACHE_DIR/FOLDER, else $XDG_CACHE_HOME/baton/FOLDER, else ~/.cache/baton/FOLDER
 *
 * Programs that start together and need the same file make it once: one holds the lock KEY.lock (flock; the system
 * drops it when its holder dies), the others wait and open what it made. A file that its kind's `open` refuses, because
 * it is damaged, cut short or of another version, is never trusted: it is made again and replaced. A folder has a
 * greatest size; past that the files used longest ago go, but not the newest one and none that is being made.
 * Deleting a file that some process has mapped is safe on Linux: its pages stay until that process lets go. */
enum { BT_CACHE_WAIT_MS = 600000 };

typedef struct bt_cache_kind {
    const char *folder, *suffix; /* "packages"; ".bpk", at most 8 bytes */
    const char *what;            /* "package", for messages */
    const char *advice;          /* what else to do where the folder cannot be written; a sentence */
    uint64_t max_bytes;          /* of the folder */
} bt_cache_kind;

/* The folder, which may not exist yet. BT_EIO: none of the variables nor HOME is set, or the path is too long for
 * cap. */
bt_err bt_cache_dir(char *ret, size_t cap, const bt_cache_kind *kind, bt_fault *fault);

typedef struct bt_cache_request {
    const bt_cache_kind *kind;
    const char *key; /* 32 lower-case hexadecimal digits */
    const char *dir; /* NULL: bt_cache_dir */
    int64_t wait_ms; /* for another process that is making it; 0: BT_CACHE_WAIT_MS */
    /* Opens and checks the file; any error but after make means that it is not there. Called one to three times. */
    bt_err (*open)(void **ret, void *ud, const char *path, bt_fault *fault);
    /* Writes the file to `path`, whole (base/file.h). Called at most once, with the lock held. */
    bt_err (*make)(void *ud, const char *path, bt_fault *fault);
    /* Called some ten times a second while waiting; false: give up with BT_ECANCEL. NULL: wait silently. */
    bool (*waiting)(void *ud, int64_t waited_ms);
    void *ud;
} bt_cache_request;

/* *ret: what `open` gave for this key's file, made now if it is not there. *ret_made (may be NULL): whether it was.
 * Blocks.
 * BT_EAGAIN: still being made elsewhere after wait_ms; BT_EIO: the folder cannot be written, with what to do
 * instead; what make returned. */
bt_err bt_cache_open(void **ret, bool *ret_made, const bt_cache_request *r, bt_fault *fault);

/* Deletes files, the one used longest ago first, until the folder holds at most max_bytes; never that of keep_key (may
 * be NULL), nor one that is locked. Also what was left half made. Failures are passed over: the cache stays too
 * large. */
void bt_cache_trim(const char *dir, const bt_cache_kind *kind, uint64_t max_bytes, const char *keep_key);
#endif
