#ifndef BT_NPU_PALETTE_H
#define BT_NPU_PALETTE_H
#include <stddef.h>
#include <stdint.h>

/* The palette of weights that share one: k-means in one dimension, solved exactly.
 *
 * Weights are whole numbers v in [-127, 127] of their channels' scales (rounding.h). Of all palettes of 2^bits whole
 * numbers this one has the least sum of squares of v - entry, each v with its nearest entry. Clusters in one dimension
 * are runs of the sorted values, so a table over (clusters, values) finds it without a start or a seed (Wang and Song,
 * Ckmeans.1d.dp, The R Journal 3/2, 2011); the bounds of Knuth's recurrence keep it to a few passes over 255 values.
 * Integers throughout: the same on every machine. Of equal palettes the one whose upper clusters are the largest. */
enum { BT_PALETTE_VALUES = 255, BT_PALETTE_MOST_BITS = 6 };
typedef struct bt_palette {
    int8_t entry[1 << BT_PALETTE_MOST_BITS]; /* ascending; behind those that are needed the last again */
    uint8_t index[BT_PALETTE_VALUES];        /* of v + 127: its entry. Of a v that does not occur: of one beside it */
} bt_palette;
/* count: of v + 127, how often it occurs, in all below 2^31. bits: 1 to BT_PALETTE_MOST_BITS. */
void bt_palette_make(bt_palette *ret, const uint32_t count[BT_PALETTE_VALUES], unsigned bits);
#endif
