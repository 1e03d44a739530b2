#ifndef BT_MODEL_GGUF_H
#define BT_MODEL_GGUF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* A GGUF file, or the parts of one, version 2 or 3, little-endian, opened by mmap or given as bytes. The file may be
 * truncated, flipped or lying: every length, count and offset is checked against what remains in the file, and against
 * the limits below, before it is used; bt_gguf_open allocates at most a small multiple of the file's own
 * size. Errors name the key or tensor, the offset and the limit. After a successful open every accessor is
 * safe. Out of scope: a mapped file that another process truncates after the open (the kernel then raises
 * SIGBUS). Format: ggml docs/gguf.md; block layouts: ggml-common.h and ggml-quants.c (block_q4_1 and so on).
 */
enum {
    BT_GGUF_MAX_KEYS = 65536,
    BT_GGUF_MAX_TENSORS = 65536,
    BT_GGUF_MAX_DIMS = 4,
    BT_GGUF_MAX_KEY_BYTES = 65535,
    BT_GGUF_MAX_NAME_BYTES = 127,
    BT_GGUF_MAX_PARTS = 512,
}; /* arrays of arrays are refused; alignment is a power of two up to 65536 */

/* numbers of the file format */
typedef enum bt_gguf_type {
    BT_GGUF_U8 = 0,
    BT_GGUF_I8,
    BT_GGUF_U16,
    BT_GGUF_I16,
    BT_GGUF_U32,
    BT_GGUF_I32,
    BT_GGUF_F32,
    BT_GGUF_BOOL,
    BT_GGUF_STRING,
    BT_GGUF_ARRAY,
    BT_GGUF_U64,
    BT_GGUF_I64,
    BT_GGUF_F64,
} bt_gguf_type;

typedef struct bt_gguf bt_gguf;
typedef struct bt_gguf_str {
    const char *ptr;
    size_t len;
} bt_gguf_str; /* not NUL-terminated; lives as long as the file */

typedef struct bt_gguf_tensor {
    const char *name; /* NUL-terminated */
    uint32_t type;    /* ggml type number; bt_quant_* knows it */
    uint32_t n_dims;
    uint64_t dim[BT_GGUF_MAX_DIMS]; /* dim[0] is the contiguous one (inputs K), dim[1] rows (outputs N); unused ones are
                                       1 */
    const uint8_t *data;            /* into the mapping, inside the file */
    size_t bytes, rows, row_bytes;  /* rows = product of dim[1..] */
} bt_gguf_tensor;

/* A model in parts, NAME-00001-of-00003.gguf and so on: path is the first part, the others lie beside it. The result
 * has the keys of the first part and the tensors of all parts. The keys of a part, as gguf-split of llama.cpp writes
 * them: split.no (from 0), split.count, split.tensors.count (in all parts). BT_EFORMAT names the part that is missing
 * or does not belong there. */
bt_err bt_gguf_open(bt_gguf **ret, const char *path, bt_fault *fault);
/* The same over bytes in memory, which must outlive the object (fuzzing, tests). */
bt_err bt_gguf_open_bytes(bt_gguf **ret, const uint8_t *bytes, size_t len, bt_fault *fault);
/* Opens a file that may end behind its header: keys, and the tensors' names, types and sizes. data is NULL, and the
 * tensors' places are not checked. */
bt_err bt_gguf_open_head(bt_gguf **ret, const char *path, bt_fault *fault);
bt_err bt_gguf_open_head_bytes(bt_gguf **ret, const uint8_t *bytes, size_t len, bt_fault *fault);
void bt_gguf_close(bt_gguf *g); /* NULL is fine */

/* Names this state of this file and its parts: 16 bytes that any later write to them changes. NULL: bytes in memory, or
 * a file so new that it may have been written twice at one time. */
const uint8_t *bt_gguf_state(const bt_gguf *g);
/* Everything before the first tensor's data: the keys and the tensors' list of the first part. Not for files of
 * bt_gguf_open_head.
 */
const uint8_t *bt_gguf_head(size_t *ret_bytes, const bt_gguf *g);
/* Says that these bytes of the file will not be read again soon: a mapping gives their memory back, and a later read is
 * only slower. */
void bt_gguf_let_go(const bt_gguf *g, const uint8_t *begin, size_t bytes);

uint32_t bt_gguf_version(const bt_gguf *g);
size_t bt_gguf_file_bytes(const bt_gguf *g); /* of all parts */
size_t bt_gguf_tensor_count(const bt_gguf *g);
const bt_gguf_tensor *bt_gguf_tensor_at(const bt_gguf *g, size_t i);
const bt_gguf_tensor *bt_gguf_find_tensor(const bt_gguf *g, const char *name); /* NULL: none */

/* Metadata. i in [0, key_count). `find` gives an index or -1. */
size_t bt_gguf_key_count(const bt_gguf *g);
const char *bt_gguf_key_name(const bt_gguf *g, size_t i);
int64_t bt_gguf_find_key(const bt_gguf *g, const char *name);
/* The value as text, for people: a number, the bytes of a string (as they are: a terminal needs them
 * escaped), or "49152 string" of an array. Written like snprintf: at most cap bytes with the final NUL;
 * returns the whole length. */
size_t bt_gguf_key_text(char *ret, size_t cap, const bt_gguf *g, size_t i);

/* Typed reads. `require` forms fail with BT_EFORMAT naming the missing or mistyped key; `or` forms give the
 * default when the key is missing, and still fail when it has the wrong type. Unsigned reads take any integer
 * type, non-negative. */
bt_err bt_gguf_require_u64(uint64_t *ret, const bt_gguf *g, const char *key, bt_fault *fault);
bt_err bt_gguf_u64_or(uint64_t *ret, const bt_gguf *g, const char *key, uint64_t dflt, bt_fault *fault);
bt_err bt_gguf_require_f32(float *ret, const bt_gguf *g, const char *key, bt_fault *fault);
bt_err bt_gguf_f32_or(float *ret, const bt_gguf *g, const char *key, float dflt, bt_fault *fault);
/* Any integer or float; not a bool. */
bt_err bt_gguf_require_number(double *ret, const bt_gguf *g, const char *key, bt_fault *fault);
bt_err bt_gguf_bool_or(bool *ret, const bt_gguf *g, const char *key, bool dflt, bt_fault *fault);
bt_err bt_gguf_require_str(bt_gguf_str *ret, const bt_gguf *g, const char *key, bt_fault *fault);
bt_err bt_gguf_str_or(bt_gguf_str *ret, const bt_gguf *g, const char *key, const char *dflt, bt_fault *fault);

/* Arrays. count and element type; *ret_count = 0 and BT_OK where the key is missing and `optional`. */
typedef struct bt_gguf_array bt_gguf_array; /* lives as long as the file */
bt_err bt_gguf_find_array(const bt_gguf_array **ret, const bt_gguf *g, const char *key, bt_gguf_type type,
                          bool optional, bt_fault *fault);
size_t bt_gguf_array_count(const bt_gguf_array *a); /* NULL counts as 0 */
bt_gguf_str bt_gguf_array_str(const bt_gguf_array *a, size_t i);
float bt_gguf_array_f32(const bt_gguf_array *a, size_t i);
int32_t bt_gguf_array_i32(const bt_gguf_array *a, size_t i);
#endif
