#ifndef BT_MODEL_STORE_H
#define BT_MODEL_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "model/known.h"

/* Where models lie that are called by name: the folder $BATON_MODEL_DIR, else $XDG_CACHE_HOME/baton, else
 * ~/.cache/baton. A known model (model/known.h) has the file that the table names; every other file NAME.gguf of the
 * folder answers to NAME. NAME.parts is a folder of what was fetched of a model so far. */

/* BT_EIO: none of the variables is set; BT_ELIMIT: the path does not fit cap. The folder may not exist. */
bt_err bt_store_dir(char *ret, size_t cap, bt_fault *fault);
/* The path of a file of the folder: a name, and an ending such as ".parts". Errors of bt_store_dir. */
bt_err bt_store_path(char *ret, size_t cap, const char *name, const char *ending, bt_fault *fault);

/* The path that a name or a path stands for, whether a file is there or not: that of a known model, the path itself
 * where it has a '/', ends with .gguf or is there, else NAME.gguf of the folder. *ret_known (may be NULL): whether the
 * built-in table has the name. Errors of bt_store_dir. */
bt_err bt_store_resolve(char *ret, size_t cap, bool *ret_known, const char *name, bt_fault *fault);
/* The known name of the file at `path`; false: it has none. ret holds BT_KNOWN_MAX_NAME + 1 bytes. */
bool bt_store_name_of(char ret[BT_KNOWN_MAX_NAME + 1], const char *path);

/* The GGUF files of the folder, and those of hubs in hf/OWNER/NAME below it (model/hub.h). */
typedef struct bt_store_file {
    char *file, *path; /* the file's name, and all of its path */
    char *repo;        /* "OWNER/NAME" of a hub's; else NULL */
    uint64_t bytes;
    bool is_mapped; /* by a process that this one may look at */
} bt_store_file;
enum { BT_STORE_MAX_FILES = 4096 /* listed; further ones are left out */ };
typedef struct bt_store_list {
    bt_store_file *file;
    size_t count;
} bt_store_list;
/* By name, those of hubs behind the others. A folder that cannot be read counts as empty. BT_ENOMEM; errors of
 * bt_store_dir. */
bt_err bt_store_list_all(bt_store_list *ret, bt_fault *fault);
void bt_store_list_done(bt_store_list *l);
#endif
