#ifndef BT_BASE_CACHE_H
#define BT_BASE_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cache_files.h"
#include "base/err.h"

/* Where files that take long to make are kept for the next process: a folder for each kind, a file KEY.SUFFIX for each
 * thing of it (base/cache_files.h).
 *
 * Programs that start together and need the same file make it once: one holds the lock KEY.lock (flock; the system
 * drops it when its holder dies), the others wait and open what it made. A file that its kind's `open` refuses, because
 * it is damaged, cut short or of another version, is never trusted: it is made again and replaced. So is a file that
 * belongs to another user than this process's or root. The whole cache has a greatest size (bt_cache_files_setup). Past
 * that size the files used longest ago are deleted, but never the newest file, one that a process has mapped, or one
 * that is being made. */
enum { BT_CACHE_WAIT_MS = 600000 };

typedef struct bt_cache_request {
    const bt_cache_kind *kind;
    const char *key;            /* 32 lower-case hexadecimal digits */
    const char *model, *recipe; /* what it is, for people (bt_cache_file); NULL: unknown */
    const char *dir;            /* a folder with a limit of its own, bt_cache_files_limit; NULL: the kind's */
    int64_t wait_ms;            /* for another process that is making it; 0: BT_CACHE_WAIT_MS */
    /* Opens and checks the file. An error before `make` means that the file is not there. Called one to three times. */
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
#endif
