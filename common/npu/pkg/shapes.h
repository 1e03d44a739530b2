#ifndef BT_NPU_SHAPES_H
#define BT_NPU_SHAPES_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* How a prompt is cut into the shapes that were compiled: arithmetic over a list of legal shapes. The policy's name
 * says how the list was made:
 *
 *   "chunk:N+tail"     16, 32, ... N, with N a power of two from 16 to 8192: chunks of N, then the smallest shape that
 *                      holds the rest. The default, with N = 256. "chunk:N+tail:M" begins at M, a power of two from 1
 *                      to N, instead of 16. Shapes that no prompt of the context can need are left out
 *   "chunk:N"          N only, the last chunk padded; N any number from 1 to 8192
 *   "pow2"             16, 32, ... up to the first power of two that holds the context: a prompt is one chunk
 *   "max-pad"          the context only: every prompt is padded to it
 *   "rows:FILE"        a network specialization file: JSON, an array of {"batch_size", "seq_len", "ctx_len"}, as
 *                      numbers or strings, or an object with such an array under "specializations". ctx_len is the KV
 *                      bucket. Rows of seq_len 1 are decode rows, all others prefill rows; where all have seq_len 1,
 *                      they are both. "full_batch_size" says how many sequences decode in a step: it is the batch of a
 *                      decode row whose batch_size is 1, and equal to any other batch_size. Prefill rows ignore it
 *   "enumerated:FILE"  JSON: an array of at most 128 lengths or [seq, ctx] pairs, or an object with one such array for
 *                      each input. Arrays of several inputs have the same count and are matched by index
 *   "range:MIN-MAX"    any number of rows from MIN to MAX, compiled for MAX; 1 <= MIN <= MAX <= 8192
 *
 * One rule cuts for all policies, among the prefill shapes whose ctx holds the chunk's end: while more is left than the
 * largest shape holds, the largest; then the smallest that holds the rest, padded on the right (a range pads only up to
 * its MIN). Where no ctx holds the end, the rule ignores ctx, and bt_pkg_find_row refuses the chunk. */
enum {
    BT_SHAPES_MAX = 128,
    BT_SHAPES_MAX_CHUNK = 8192,
    BT_SHAPES_MAX_SEQ = 1 << 20, /* tokens of a context; rows of a program, batch * seq */
    BT_SHAPES_MAX_BATCH = 1024,
    BT_SHAPES_MAX_FILE_BYTES = 1 << 20
};
typedef struct bt_shape {
    uint32_t seq_min, seq, ctx;
    uint32_t batch; /* sequences of `seq` rows each in one run; 1 but in a rows file */
} bt_shape;         /* seq_min == seq but in a range; ctx: the KV bucket, 0: every bucket */
typedef struct bt_shapes {
    char text[128]; /* as given; for a file "rows:NAME" or "enumerated:NAME" without its folder */
    bt_shape shape[BT_SHAPES_MAX];
    /* The first `shapes` (>= 1) are what a single prompt is cut into: the prefill shapes of the smallest batch,
       ascending by seq, then ctx. Behind them, up to `all`, come the shapes of larger batches and the decode shapes,
       ascending by batch, seq, ctx. No shape is there twice. */
    size_t shapes, all;
} bt_shapes;
typedef struct bt_shapes_chunk {
    size_t begin, valid, rows;
} bt_shapes_chunk; /* tokens [begin, begin + valid), computed in `rows` rows; 1 <= valid <= rows */

#define BT_SHAPES_DEFAULT "chunk:256+tail"
/* The policies that are compared where none is named; the list ends with NULL. */
extern const char *const bt_shapes_usual[];
#define BT_SHAPES_NAMES "chunk:N+tail, chunk:N, pow2, max-pad, rows:FILE, enumerated:FILE, range:MIN-MAX"
/* text NULL: the default; ctx_tokens: 1 .. BT_SHAPES_MAX_SEQ. Reads FILE where the policy has one. BT_EARG names the
 * policies; BT_EFORMAT names the place in the file; BT_ELIMIT: more than BT_SHAPES_MAX shapes, or a ctx beyond
 * ctx_tokens; BT_EIO. */
bt_err bt_shapes_parse(bt_shapes *ret, const char *text, size_t ctx_tokens, bt_fault *fault);
/* The same for a FILE policy whose bytes the caller has read; text is "rows:..." or "enumerated:...". */
bt_err bt_shapes_parse_bytes(bt_shapes *ret, const char *text, const char *json, size_t len, size_t ctx_tokens,
                             bt_fault *fault);
/* The shapes of a table that was compiled (a package's rows): n >= 1 shapes in any order. Where a batch and seq have
 * several contexts only the largest is kept, which cuts prompts in the same way. BT_ELIMIT: more than BT_SHAPES_MAX
 * shapes; BT_EARG: an impossible shape, or overlapping ranges. */
bt_err bt_shapes_of_rows(bt_shapes *ret, const char *text, const bt_shape *rows, size_t n, bt_fault *fault);

/* The chunk that begins at position `begin` of a sequence of n > begin tokens. The next chunk begins at begin +
 * valid. */
bt_shapes_chunk bt_shapes_next(const bt_shapes *p, size_t n, size_t begin);
/* ---- batches ----
 * The shapes that a batch of up to `prompts` prompts is cut into: the prefill shapes of the smallest batch that holds
 * so many prompts, else of the largest batch. All have one batch (ret->shape[0].batch), and ret->all == ret->shapes.
 * prompts 1: what p cuts a single prompt into. */
void bt_shapes_batch(bt_shapes *ret, const bt_shapes *p, size_t prompts);
/* The rest of a prompt: tokens [begin, end). */
typedef struct bt_shapes_left {
    size_t begin, end;
} bt_shapes_left;
/* Rows of each sequence in the next run of `prompts` prompts that have tokens left. The rule is applied to the prompt
 * with the most tokens left, among the shapes whose ctx holds the end of every prompt's chunk. The run takes min(left,
 * rows) tokens of each prompt. */
size_t bt_shapes_next_batch(const bt_shapes *p, const bt_shapes_left *left, size_t prompts);

/* Rows computed for a prompt of n tokens, padding included; the share of padding is 1 - n / rows. 0 for n = 0. n <=
 * 2^62. */
size_t bt_shapes_rows(const bt_shapes *p, size_t n);
/* Chunks of a prompt of n tokens. */
size_t bt_shapes_launches(const bt_shapes *p, size_t n);
/* The i-th KV bucket of a shape: a context that the shape is compiled for, ascending; 0: there are no more. A shape
 * with a ctx has that one only. All others have the powers of two from 512 below ctx_tokens that hold seq, then
 * ctx_tokens. */
size_t bt_shapes_bucket(const bt_shape *s, size_t ctx_tokens, size_t i);
/* Sorts shape[0 .. all) into the order of bt_shapes, drops equal shapes, and sets shapes and all. */
void bt_shapes_arrange(bt_shapes *p);
/* Rows of the specialization table: the buckets of all shapes together. */
size_t bt_shapes_specializations(const bt_shapes *p, size_t ctx_tokens);
#endif
