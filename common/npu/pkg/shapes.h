#ifndef BT_NPU_SHAPES_H
#define BT_NPU_SHAPES_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* How a prompt is cut into the shapes that were compiled. Pure arithmetic over a list of legal shapes; the policy's
 * name only says how the list was made:
 *
 *   "chunk:N+tail"     16, 32, ... N, N a power of two from 16 to 8192: chunks of N, then the smallest that holds the
 *                      rest. The default, with N = 256. "chunk:N+tail:M" begins at M, a power of two from 1 to N,
 *                      instead of 16. Those that no prompt of the context can need are left out
 *   "chunk:N"          N only, the last chunk padded; N any number from 1 to 8192
 *   "pow2"             16, 32, ... up to the first power of two that holds the context: the prompt at once
 *   "max-pad"          the context only: every prompt padded to it
 *   "rows:FILE"        a network specialization file: JSON, an array of {"batch_size", "seq_len", "ctx_len"}, as
 *                      numbers or strings, or an object with it under "specializations"; ctx_len makes the bucket.
 *                      Rows of seq_len 1 are decode rows, all others prefill rows; where all have seq_len 1, they are
 *                      both. "full_batch_size" is how many sequences decode in a step: the batch of a decode row whose
 *                      batch_size is 1, else equal to that; of a prefill row it decides nothing
 *   "enumerated:FILE"  JSON: an array of at most 128 lengths, or of [seq, ctx] pairs; or an object whose members are
 *                      such arrays, one an input, of the same count and matched by index
 *   "range:MIN-MAX"    any number of rows from MIN to MAX, compiled for MAX; 1 <= MIN <= MAX <= 8192
 *
 * One rule for all of them, among the prefill shapes whose ctx holds the chunk's end: while more is left than the
 * largest holds, that one; then the smallest that holds the rest, padded on the right (a range pads only up to its
 * MIN). Where no ctx holds the end, the ctx is not looked at, and the table of programs refuses the chunk. */
enum {
    BT_SHAPES_MAX = 128,
    BT_SHAPES_MAX_CHUNK = 8192,
    BT_SHAPES_MAX_SEQ = 1 << 20, /* of a context; of the rows of a program, batch * seq */
    BT_SHAPES_MAX_BATCH = 1024,
    BT_SHAPES_MAX_FILE_BYTES = 1 << 20
};
typedef struct bt_shape {
    uint32_t seq_min, seq, ctx;
    uint32_t batch; /* sequences of `seq` rows each in one run; 1 but in a rows file */
} bt_shape;         /* seq_min == seq but in a range; ctx 0: every bucket */
typedef struct bt_shapes {
    char text[128]; /* as given; of a file, "rows:NAME" without its folder */
    bt_shape shape[BT_SHAPES_MAX];
    /* The first `shapes` (>= 1) are what a prompt alone is cut into: the prefill shapes of the smallest batch, by seq,
       then ctx, ascending. Behind them up to `all` come those of larger batches and the decode shapes, by batch, seq,
       ctx. None twice. */
    size_t shapes, all;
} bt_shapes;
typedef struct bt_shapes_chunk {
    size_t begin, valid, rows;
} bt_shapes_chunk; /* 1 <= valid <= rows */

#define BT_SHAPES_DEFAULT "chunk:256+tail"
/* The policies that are compared where none is named; ends with NULL. */
extern const char *const bt_shapes_usual[];
#define BT_SHAPES_NAMES "chunk:N+tail, chunk:N, pow2, max-pad, rows:FILE, enumerated:FILE, range:MIN-MAX"
/* text NULL means the default; ctx_tokens: 1 .. BT_SHAPES_MAX_SEQ. Reads FILE where there is one. BT_EARG names the
 * policies there are; BT_EFORMAT the place in the file; BT_ELIMIT the 129th shape, or a ctx beyond ctx_tokens;
 * BT_EIO. */
bt_err bt_shapes_parse(bt_shapes *ret, const char *text, size_t ctx_tokens, bt_fault *fault);
/* The same for a FILE policy whose bytes are at hand; text is "rows:..." or "enumerated:...". */
bt_err bt_shapes_parse_bytes(bt_shapes *ret, const char *text, const char *json, size_t len, size_t ctx_tokens,
                             bt_fault *fault);
/* The shapes of a table that was compiled before (a package's rows): n >= 1 shapes in any order. Where a batch and seq
 * have several contexts only the largest is kept, which cuts prompts the same. BT_ELIMIT as above; BT_EARG: a shape
 * that is none, or overlapping ranges. */
bt_err bt_shapes_of_rows(bt_shapes *ret, const char *text, const bt_shape *rows, size_t n, bt_fault *fault);

/* The chunk that starts at position `begin` of a sequence of n > begin tokens. Chunks follow each other: the next
 * begins at begin + valid. */
bt_shapes_chunk bt_shapes_next(const bt_shapes *p, size_t n, size_t begin);
/* ---- batches ---- What a batch of up to `prompts` prompts is cut into: the prefill shapes of the smallest batch that
 * holds so many, else of the largest. All of one batch (ret->shape[0].batch); none behind them. With 1: what p cuts a
 * prompt alone into. */
void bt_shapes_batch(bt_shapes *ret, const bt_shapes *p, size_t prompts);
/* Tokens [begin, end) of a prompt are left. */
typedef struct bt_shapes_left {
    size_t begin, end;
} bt_shapes_left;
/* Rows of each sequence in the next run of `prompts` that have tokens left, by the one rule, for the prompt that has
 * most left and among the shapes whose ctx holds the end of everybody's chunk: min(left, rows) tokens of each. */
size_t bt_shapes_next_batch(const bt_shapes *p, const bt_shapes_left *left, size_t prompts);

/* Rows computed for a prompt of n tokens, padding included; padding_ratio = 1 - n / rows. 0 for n = 0. n <= 2^62. */
size_t bt_shapes_rows(const bt_shapes *p, size_t n);
/* Chunks of a prompt of n tokens. */
size_t bt_shapes_launches(const bt_shapes *p, size_t n);
/* The KV buckets of a shape: the i-th context it is compiled for, ascending; 0: no more. Powers of two from 512 below
 * ctx_tokens, and ctx_tokens; those that cannot hold seq are left out, but the last is always there; a shape with a ctx
 * of its own has only that one. */
size_t bt_shapes_bucket(const bt_shape *s, size_t ctx_tokens, size_t i);
/* Puts shape[0 .. all) of any order in the order above and drops equal ones; sets shapes and all. */
void bt_shapes_arrange(bt_shapes *p);
/* Rows of the specialization table: buckets of all shapes together. */
size_t bt_shapes_specializations(const bt_shapes *p, size_t ctx_tokens);
#endif
