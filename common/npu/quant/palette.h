#ifndef BT_NPU_PALETTE_H
#define BT_NPU_PALETTE_H
#include <stddef.h>
#include <stdint.h>

/* The palette that a group of weights shares: k-means in one dimension, solved exactly.
 *
 * Weights are whole numbers v in [-127, 127], in units of their channels' scales (rounding.h). The palette is the one
 * of 2^bits whole numbers with the least sum of squares of v - entry, each v with its nearest entry. Among equally good
 * palettes the one whose upper clusters are the largest is taken.
 *
 * Clusters in one dimension are runs of the sorted values, so a table over (clusters, values) finds the palette without
 * a seed (Wang and Song, Ckmeans.1d.dp, The R Journal 3/2, 2011). The bounds of Knuth's recurrence keep the work to a
 * few passes over 255 values. Integers throughout: every machine finds the same palette. */
enum { BT_PALETTE_VALUES = 255, BT_PALETTE_MOST_BITS = 6 };
typedef struct bt_palette {
    int8_t entry[1 << BT_PALETTE_MOST_BITS]; /* ascending; unused places repeat the last entry in use */
    uint8_t index[BT_PALETTE_VALUES]; /* [v + 127]: the place of v's entry; a v that does not occur has the place of
                                         the value below it, or 0 */
} bt_palette;
/* count[v + 127]: how often v occurs; the sum is below 2^31. bits: 1 to BT_PALETTE_MOST_BITS. */
void bt_palette_make(bt_palette *ret, const uint32_t count[BT_PALETTE_VALUES], unsigned bits);
#endif
