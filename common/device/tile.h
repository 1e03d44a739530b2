#ifndef BT_DEVICE_TILE_H
#define BT_DEVICE_TILE_H
#include <stddef.h>
#include <stdint.h>
#include "device/profile.h"

/* Tiles of a matrix unit. Packages keep weights in one host layout; a device's tiles are packing functions, and sizes
 * rounded up to whole tiles. */

/* The 32 x 32 tile of Hexagon's HMX: 1024 elements of 16 bits, rows interleaved in pairs. Element (row, col) is at
 *   row / 2 * 64 + col * 2 + row % 2;  (3, 5) at 75. */
enum { BT_TILE_DIM = 32, BT_TILE_ELEMS = BT_TILE_DIM * BT_TILE_DIM };
static inline size_t bt_tile_index(size_t row, size_t col) { return row / 2 * 64 + col * 2 + row % 2; }

/* tile[1024] <- the upper left `rows` x `cols` (each at most 32) of in, whose rows are `stride` elements apart; the
 * rest is 0. */
void bt_tile_pack(uint16_t *tile, const uint16_t *in, size_t stride, size_t rows, size_t cols);
/* The inverse: writes `rows` x `cols` elements of out and nothing else. */
void bt_tile_unpack(uint16_t *out, size_t stride, size_t rows, size_t cols, const uint16_t *tile);

/* Bytes of a matrix [n, k] of `bits` bits an element (4, 8 or 16) in whole tiles of the profile, tile_rows along n and
 * tile_cols along k; without tiles, its own bytes. n, k <= 2^24. */
uint64_t bt_tile_bytes(const bt_profile *p, uint64_t n, uint64_t k, uint32_t bits);
#endif
