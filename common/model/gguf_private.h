#ifndef BT_MODEL_GGUF_PRIVATE_H
#define BT_MODEL_GGUF_PRIVATE_H
#include "base/file.h"
#include "model/gguf.h"

/* GGUF files from inside: gguf.c reads bytes, gguf_file.c maps files and joins the parts of one model. */
struct bt_gguf_array {
    bt_gguf_type type;
    size_t count;
    const uint8_t *data; /* first element; for strings, the length field of the first */
    size_t *str_at;      /* offset of each string's length field from data; NULL for other types */
};

typedef struct gguf_key {
    char *name;
    bt_gguf_type type;
    const uint8_t *val; /* scalar bytes, or a string's length field */
    bt_gguf_array array;
} gguf_key;

typedef struct gguf_index {
    const char *name;
    size_t at;
} gguf_index; /* sorted by name, for bsearch */

struct bt_gguf {
    const uint8_t *base;
    size_t len;
    bool mapped;
    bool is_head;        /* the data behind the tables may be missing */
    bt_file_state state; /* settled only for a mapped file */
    uint32_t version;
    size_t key_count, tensor_count, own_tensors; /* own: before those of the other parts */
    gguf_key *keys;
    char **tensor_names; /* [own_tensors]: owns what tensor[i].name shows */
    bt_gguf_tensor *tensors;
    gguf_index *key_index, *tensor_index;
    struct bt_gguf **part; /* the parts behind this one, owned; NULL: none */
    size_t parts;
};

/* ---- gguf.c ---- */
/* One file or part: bytes outlive *ret. is_head: the data behind the tables is not looked at. */
bt_err bt_gguf_parse(bt_gguf **ret, const uint8_t *bytes, size_t len, bool is_head, bt_fault *fault);
/* Fills tensor_index from tensors. BT_EFORMAT: two of one name. */
bt_err bt_gguf_index_tensors(bt_gguf *g, bt_fault *fault);

/* ---- gguf_file.c ---- */
/* Makes one file of the parts of a model, part[0] with its metadata: *part[0] then has the tensors of all parts and
 * owns the others. Each part names its number (split.no) and the count of parts (split.count). Takes ownership of
 * part[n] in success and in failure. BT_EFORMAT, with the number of the part that does not belong there. */
bt_err bt_gguf_join(bt_gguf **part, size_t n, bt_fault *fault);
#endif
