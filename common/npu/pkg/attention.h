#ifndef BT_NPU_ATTENTION_H
#define BT_NPU_ATTENTION_H
#include <stdint.h>
#include "base/err.h"

/* How prompts attend: one line of text, the same in every command, in the package and in reports.
 *
 *   dense                       every row to all that it sees (default)
 *   sparse[:RATIO[,dense=N]]    every row and head to some of the positions that it sees, which an estimate in 8 bits
 *                               chooses: RATIO of them on average over heads, above 0 to 1 (default 0.2); rows below
 *                               position N to all (default 512). Decoding is dense.
 * The head's own share comes from the calibration (npu/compile/shares.h); of a row at position p it keeps
 * max(1, ceil(share * (p + 1))) positions. */
typedef struct bt_attention {
    uint32_t ratio_ppm;  /* RATIO in millionths, 1 to 1,000,000; 0: dense, and all else is 0 */
    uint32_t dense_rows; /* N */
} bt_attention;

enum { BT_ATTENTION_ALL_PPM = 1000000, BT_ATTENTION_DENSE_ROWS = 512, BT_ATTENTION_MAX_TEXT = 48 };

/* NULL means dense. BT_EARG. */
bt_err bt_attention_parse(bt_attention *ret, const char *text, bt_fault *fault);
/* The canonical text: defaults left out but for the ratio, and parsing it gives the same again. */
void bt_attention_text(char ret[BT_ATTENTION_MAX_TEXT], const bt_attention *a);

/* How many of n positions a share of ppm keeps. */
static inline uint32_t bt_attention_keeps(uint32_t ppm, uint32_t n)
{
    return (uint32_t)(((uint64_t)ppm * n + BT_ATTENTION_ALL_PPM - 1) / BT_ATTENTION_ALL_PPM);
}
#endif
