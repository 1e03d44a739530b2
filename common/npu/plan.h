#ifndef BT_NPU_PLAN_H
#define BT_NPU_PLAN_H
#include <stddef.h>
#include "base/err.h"

/* How a prompt is cut into the shapes that were compiled. Pure arithmetic.
 *
 *   "chunk:N+tail"  chunks of N, then the smallest power of two >= 16 that holds the rest, padded on the
 *                   right: 600 tokens at N = 256 are 256, 256, 128 (88 real). Shapes: 16, 32, ... N.
 *                   The default, with N = 256.
 *   "chunk:N"       chunks of N only, the last one padded
 *   "whole"         the prompt at once, rounded up to 16; every multiple of 16 is a shape (for comparison)
 * N is a power of two from 16 to 4096. */
typedef enum bt_plan_kind { BT_PLAN_CHUNK_TAIL, BT_PLAN_CHUNK, BT_PLAN_WHOLE } bt_plan_kind;
typedef struct bt_plan_policy { bt_plan_kind kind; size_t chunk_tokens; } bt_plan_policy;
typedef struct bt_plan_chunk { size_t begin, valid, rows; } bt_plan_chunk;   /* valid <= rows */

#define BT_PLAN_DEFAULT "chunk:256+tail"
/* NULL means the default. BT_EARG names the policies there are. */
bt_err bt_plan_parse(bt_plan_policy *ret, const char *text, bt_fault *fault);

/* The chunk that starts at token `begin` of a prompt of n > begin. Chunks follow each other: the next
 * begins at begin + valid. */
bt_plan_chunk bt_plan_next(bt_plan_policy policy, size_t n, size_t begin);
/* Rows computed for a prompt of n tokens, padding included; padding_ratio = 1 - n / rows. */
size_t bt_plan_rows(bt_plan_policy policy, size_t n);
/* The i-th shape (rows) the policy may use for prompts of up to ctx_tokens, ascending; 0: no more. */
size_t bt_plan_shape(bt_plan_policy policy, size_t ctx_tokens, size_t i);
#endif
