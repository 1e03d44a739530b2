#ifndef BT_NPU_ATTENTION_H
#define BT_NPU_ATTENTION_H
#include <stdint.h>
#include "base/err.h"
#include "npu/pkg/pkg_format.h"

/* How prompts attend: one line of text, the same in every command, in the package and in reports.
 *
 *   dense                       every row to all that it sees (default)
 *   sparse[:RATIO[,CHOICE..]]   every row and head to some of the positions that it sees, which an estimate in 8 bits
 *                               chooses: RATIO of them on average over heads, above 0 to 1 (default 0.2). Decoding is
 *                               dense
 *     dense=N                   rows below position N attend to all (default 512)
 *     rows=N                    blocks of N rows, aligned to position, share a choice: their first row's, and of the
 *                               block each row those up to its own. 1, 2, 4, 8 or 16 (default 1: each chooses)
 *     group                     the query heads of a KV head share a choice: that of the sum of their q
 * The head's own share comes from the calibration (npu/quant/shares.h); a row that chooses at position p keeps
 * max(1, ceil(share * (p + 1))) positions. */
typedef struct bt_attention {
    uint32_t ratio_ppm;  /* RATIO in millionths, 1 to 1,000,000; 0: dense, and all else is 0 */
    uint32_t dense_rows; /* of dense=N */
    uint32_t rows;       /* of rows=N */
    uint32_t is_group;   /* 1: group */
} bt_attention;

enum { BT_ATTENTION_ALL_PPM = 1000000, BT_ATTENTION_DENSE_ROWS = 512, BT_ATTENTION_MAX_TEXT = 64 };
enum { BT_ATTENTION_MAX_ROWS_LOG2 = 4 }; /* the grid of prefixes, so that a prompt goes on where a block begins */

#define BT_ATTENTION_FORM "sparse[:RATIO[,dense=N][,rows=N][,group]]"
/* NULL means dense. BT_EARG. */
bt_err bt_attention_parse(bt_attention *ret, const char *text, bt_fault *fault);
/* The canonical text: defaults left out but for the ratio. Parsing it gives the same attention again. */
void bt_attention_text(char ret[BT_ATTENTION_MAX_TEXT], const bt_attention *a);
/* How the prompts of a package attend. */
bt_attention bt_attention_of(const bt_pkg_header *h);

/* How many of n positions a share of ppm keeps. */
static inline uint32_t bt_attention_keeps(uint32_t ppm, uint32_t n)
{
    return (uint32_t)(((uint64_t)ppm * n + BT_ATTENTION_ALL_PPM - 1) / BT_ATTENTION_ALL_PPM);
}
#endif
