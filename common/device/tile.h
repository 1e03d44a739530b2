#ifndef BT_DEVICE_TILE_H
#define BT_DEVICE_TILE_H
#include <stddef.h>
#include <stdint.h>
#include "device/profile.h"

/* Tiles of a matrix unit. Packages keep weights in one host layout; a device's tiles are made where a session's image
 * is written (npu/compile/images.h).
 *
 * Elements of one column and of consecutive rows share a word of 32 bits: g = 32 / bits of them, fewer where the tile
 * has no more rows. Words lie in the order of columns, groups of g rows one after the other. Element (row, col) is at
 *
 *   row / g * g * cols + col * w + row % g,   w = min(g, rows - row / g * g)
 *
 * counted in elements. With 16 bits in 32 x 32 that is the tile of Hexagon's HMX, as in llama.cpp: row / 2 * 64 + col *
 * 2 + row % 2, (3, 5) at 75. Fewer bits follow the same rule. */
typedef struct bt_tile {
    uint32_t rows, cols, bits; /* rows, cols >= 1; bits 4, 8 or 16 */
} bt_tile;
/* The profile's tile: tile_rows outputs of tile_cols inputs. Without tiles, one row of k elements. */
bt_tile bt_tile_of(uint32_t tile_rows, uint32_t tile_cols, uint32_t k, uint32_t bits);
static inline size_t bt_tile_elems(const bt_tile *t) { return (size_t)t->rows * t->cols; }
static inline size_t bt_tile_index(const bt_tile *t, size_t row, size_t col)
{
    const size_t group = 32 / t->bits, first = row / group * group, left = t->rows - first;
    return first * t->cols + col * (left < group ? left : group) + row % group;
}

/* tile[bt_tile_elems] <- the upper left `rows` x `cols` (at most the tile's) of in, whose rows are `stride` elements
 * apart; the rest is 0. An element is in the low `bits` bits of each. */
void bt_tile_pack(const bt_tile *t, uint16_t *tile, const uint16_t *in, size_t stride, size_t rows, size_t cols);

/* Bytes of a matrix [n, k] of `bits` bits an element (4, 8 or 16) in whole tiles of the profile, tile_rows along n and
 * tile_cols along k; without tiles, its own bytes. n, k <= 2^24. */
uint64_t bt_tile_bytes(const bt_profile *p, uint64_t n, uint64_t k, uint32_t bits);
#endif
