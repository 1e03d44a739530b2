#ifndef BT_NPU_ATTENTION_H
#define BT_NPU_ATTENTION_H
#include <stdint.h>
#include "base/err.h"
#include "npu/pkg/pkg_format.h"

/* How prompts attend: one line of text, the same in every command, in the package and in reports.
 *
 *   dense                       every row attends to all positions that it sees (default)
 *   sparse[:RATIO[,CHOICE..]]   every row and head attends to a share of the positions that it sees, chosen by an
 *                               estimate in 8 bits. RATIO: that share on average over heads, above 0 to 1 (default
 *                               0.2). Decoding is dense
 *     dense=N                   rows below position N attend to all (default 512)
 *     rows=N                    N rows share one choice, that of their first row: 1, 2, 4, 8 or 16 (default 1). Blocks
 *                               of N rows begin at multiples of N. A row takes the chosen positions and, in its own
 *                               block, every position up to its own
 *     group                     the query heads of a KV head share one choice, made with the sum of their q
 *
 * The calibration gives each head its own share (npu/quant/shares.h). A row at position p that chooses keeps max(1,
 * ceil(share * (p + 1))) positions. */
typedef struct bt_attention {
    uint32_t ratio_ppm;  /* RATIO in millionths, 1 to 1,000,000; 0: dense, and all else is 0 */
    uint32_t dense_rows; /* the N of dense=N */
    uint32_t rows;       /* the N of rows=N */
    uint32_t is_group;   /* 1: the choice `group`; else 0 */
} bt_attention;

enum { BT_ATTENTION_ALL_PPM = 1000000, BT_ATTENTION_DENSE_ROWS = 512, BT_ATTENTION_MAX_TEXT = 64 };
enum { BT_ATTENTION_MAX_ROWS_LOG2 = 4 }; /* BT_KV_UNIT_TOKENS: a stored prefix ends where a block ends */

#define BT_ATTENTION_FORM "sparse[:RATIO[,dense=N][,rows=N][,group]]"
/* text NULL: dense. BT_EARG: text is no attention. */
bt_err bt_attention_parse(bt_attention *ret, const char *text, bt_fault *fault);
/* Writes the canonical text: the ratio, and each choice that is not its default. Parsing it gives the same attention
 * again. */
void bt_attention_text(char ret[BT_ATTENTION_MAX_TEXT], const bt_attention *a);
/* How the prompts of a package attend. */
bt_attention bt_attention_of(const bt_pkg_header *h);

/* How many of n positions a share keeps: ceil(ppm * n / 1,000,000). */
static inline uint32_t bt_attention_keeps(uint32_t ppm, uint32_t n)
{
    return (uint32_t)(((uint64_t)ppm * n + BT_ATTENTION_ALL_PPM - 1) / BT_ATTENTION_ALL_PPM);
}
#endif
