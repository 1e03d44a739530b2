#ifndef BT_BASE_CACHE_FILES_H
#define BT_BASE_CACHE_FILES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The files in the cache (base/cache.h), and how much of them stays. A folder for each kind, in
 *
 *   $BATON_CACHE_DIR/FOLDER, else $XDG_CACHE_HOME/baton/FOLDER, else ~/.cache/baton/FOLDER
 *
 * KEY.SUFFIX is a finished file, KEY.SUFFIX.XXXXXX one that is being made or was left half made. KEY.lock is the lock
 * of the process that makes it and holds two lines: the model's name and how the file was made. KEY is 32 lower-case
 * hexadecimal digits. Only regular files with such names belong to the cache; the cache leaves everything else in the
 * folder alone.
 *
 * Deleting a file that some process has mapped is safe on Linux: its pages stay until that process unmaps them. The
 * cache never deletes such a file by itself all the same, since the next start would have to make it again. */
typedef struct bt_cache_kind {
    const char *folder, *suffix; /* "packages"; ".bpk", at most 8 bytes */
    const char *what;            /* "package", for messages */
    const char *advice;          /* what else to do where the folder cannot be written; a sentence */
    uint64_t max_bytes;          /* of this folder alone; 0: it shares the limit of the whole cache */
} bt_cache_kind;

extern const bt_cache_kind bt_cache_files_packages, bt_cache_files_weights, bt_cache_files_ids, bt_cache_files_checked,
    bt_cache_files_recipes;
extern const bt_cache_kind *const bt_cache_files_kinds[]; /* all of these, then NULL */

/* The folder, which may not exist yet. kind NULL: the one above all kinds. BT_EIO: none of the variables nor HOME is
 * set, or the path is too long for cap. */
bt_err bt_cache_files_dir(char *ret, size_t cap, const bt_cache_kind *kind, bt_fault *fault);
bool bt_cache_files_is_key(const char *key);

enum { BT_CACHE_KEY_CHARS = 32, BT_CACHE_WORDS_BYTES = 96, BT_CACHE_MAX_FILES = 65536 /* looked at in a folder */ };
typedef struct bt_cache_file {
    const bt_cache_kind *kind;
    char *path; /* ends with "/KEY.SUFFIX" or "/KEY.SUFFIX.XXXXXX" */
    char key[BT_CACHE_KEY_CHARS + 1];
    char model[BT_CACHE_WORDS_BYTES];  /* printable ASCII whatever the file holds; empty: unknown */
    char recipe[BT_CACHE_WORDS_BYTES]; /* likewise: "w8a8 pow2", "f16" */
    uint64_t bytes;
    int64_t used_s;    /* last opened, in seconds since 1970, and */
    int64_t used_ns;   /* nanoseconds after that */
    bool is_half_made; /* being made, or left so */
    bool is_locked;    /* somebody makes it right now */
    bool is_mapped;    /* by a process that this one may look at */
} bt_cache_file;

typedef struct bt_cache_list {
    bt_cache_file *file;
    size_t count, room;
} bt_cache_list; /* starts as zeros */
/* Appends the files of one kind in `dir`, without model, recipe, is_locked and is_mapped. A folder that cannot be read
 * counts as empty. */
void bt_cache_files_add(bt_cache_list *l, const char *dir, const bt_cache_kind *kind);
void bt_cache_files_add_all(bt_cache_list *l); /* of all kinds, each in its own folder */
void bt_cache_files_look(bt_cache_list *l);    /* fills in what _add leaves out */
void bt_cache_files_done(bt_cache_list *l);
/* Deletes the file and its lock; one that is gone already counts as deleted. False: somebody makes it, or the folder
 * cannot be written. */
bool bt_cache_files_delete(const bt_cache_file *f);
/* "package of SmolLM2 135M, w8a8 pow2 (143.2 MiB)" */
void bt_cache_files_words(char *ret, size_t cap, const bt_cache_file *f);

/* Deletes files, the one used longest ago first, until the files of the list take at most max_bytes, and files left
 * half made. It never deletes keep_path (may be NULL), a mapped file, or one whose lock is held. A failure leaves the
 * cache too large. bt_cache_files_look has filled the list. */
void bt_cache_files_trim(bt_cache_list *l, uint64_t max_bytes, const char *keep_path);

/* For programs, once, before there are threads: the greatest size of all kinds that share the limit, and a function
 * that gets one line of text (without its end) for each file deleted to keep that size. Without this call the limit is
 * BT_CACHE_FILES_LIMIT and nobody gets lines. */
#define BT_CACHE_FILES_LIMIT      (UINT64_C(24) << 30)
#define BT_CACHE_FILES_LIMIT_TEXT "24G"
typedef void bt_cache_gone_fn(void *ud, const char *text);
void bt_cache_files_setup(uint64_t limit_bytes, bt_cache_gone_fn *gone, void *ud);
uint64_t bt_cache_files_limit(void);

/* ---- for base/cache.c ---- */
/* The lock of a key, taken without waiting: a descriptor, -1 with errno EWOULDBLOCK when somebody has it, -1
 * otherwise. */
int bt_cache_files_lock(const char *path);
void bt_cache_files_write_words(int lock, const char *model, const char *recipe); /* NULL: none */
/* Deletes what was left half made of a key whose lock the caller holds. */
void bt_cache_files_drop_half_made(const char *dir, const bt_cache_kind *kind, const char *key);
#endif
