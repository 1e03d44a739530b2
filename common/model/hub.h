#ifndef BT_MODEL_HUB_H
#define BT_MODEL_HUB_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/gguf.h"

/* GGUF files of a hub of models, called by "hf:OWNER/NAME" or "hf:OWNER/NAME:QUANT": what the hub says about a
 * repository, which files a name means, and where they lie here: in hf/OWNER/NAME of the folder of models
 * (model/store.h), a '/' in a file's path written as '@', which no path has. Pure but for bt_hub_find and
 * bt_hub_folder. */
enum {
    BT_HUB_MAX_NAME = 96,
    BT_HUB_MAX_QUANT = 32,
    BT_HUB_MAX_FILES = 2048, /* GGUF files of a repository */
    BT_HUB_MAX_REPLY_BYTES = 16 << 20,
    BT_HUB_PATH_BYTES = 4096,
};

/* Letters, digits, '.', '-' and '_', none in front a '.'. */
typedef struct bt_hub_ref {
    char owner[BT_HUB_MAX_NAME + 1], name[BT_HUB_MAX_NAME + 1];
    char quant[BT_HUB_MAX_QUANT + 1]; /* empty: none was named */
} bt_hub_ref;

bool bt_hub_is_ref(const char *text);                                        /* whether it begins with "hf:" */
bt_err bt_hub_ref_parse(bt_hub_ref *ret, const char *text, bt_fault *fault); /* BT_EARG */

/* The hub's answer. Only GGUF files count that have a size, a hash and a path of plain names (model/known.h). */
typedef struct bt_hub_file {
    const char *path, *sha256; /* of the repository; 64 small hexadecimal digits */
    uint64_t bytes;            /* 1 to 2^50 */
} bt_hub_file;
typedef struct bt_hub_repo {
    char commit[41];   /* 40 small hexadecimal digits */
    char licence[64];  /* printable ASCII; "not stated" where the hub has none */
    bt_hub_file *file; /* by path */
    size_t count;
    void *root; /* private */
} bt_hub_repo;
/* The reply to GET /api/models/OWNER/NAME?blobs=true. BT_EFORMAT: not of that form, or a path twice; BT_ELIMIT: too
 * many files or bytes; BT_ENOMEM. */
bt_err bt_hub_repo_parse(bt_hub_repo *ret, const char *json, size_t len, bt_fault *fault);
void bt_hub_repo_done(bt_hub_repo *r);

/* The paths, of n, that a quant means: ret[0 .. *ret_n) are their indices, one file or all parts in order. A quant
 * stands at the end of a path, before ".gguf" and what counts parts, in letters of either case. Without one it is
 * q4_k_m, or the only model that there is. BT_EARG with the choices: none or several fit; BT_EFORMAT: a part is
 * missing. */
bt_err bt_hub_choose(size_t ret[BT_GGUF_MAX_PARTS], size_t *ret_n, const char *const *path, size_t n, const char *quant,
                     bt_fault *fault);
/* The quant of a path, as it is written there: what stands behind its last '-' or '.'. The length without ".gguf" and
 * what counts parts to *ret_stem; *ret_part of *ret_parts: 1 of 1 where nothing counts parts. */
const char *bt_hub_quant_of(const char *path, size_t *ret_stem, size_t *ret_part, size_t *ret_parts);

/* Whether two paths are parts of one model, or the same path. */
bool bt_hub_is_one_model(const char *a, const char *b);

/* The folder of a repository here, which may not exist. Errors of bt_store_dir. */
bt_err bt_hub_folder(char *ret, size_t cap, const bt_hub_ref *ref, bt_fault *fault);
/* The name of a file there. */
void bt_hub_file_name(char ret[BT_HUB_PATH_BYTES], const char *path);
/* The first file here of what a name means. BT_EIO with "run 'baton pull NAME'": it is not here; BT_EARG. */
bt_err bt_hub_find(char *ret, size_t cap, const char *text, bt_fault *fault);
#endif
