/* Packing functions and size accounting of tiles; nothing here is a stored form. */
#include "device/tile.h"

#include <string.h>

void bt_tile_pack(uint16_t *tile, const uint16_t *in, size_t stride, size_t rows, size_t cols)
{
    memset(tile, 0, BT_TILE_ELEMS * sizeof *tile);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) tile[bt_tile_index(r, c)] = in[r * stride + c];
}

void bt_tile_unpack(uint16_t *out, size_t stride, size_t rows, size_t cols, const uint16_t *tile)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) out[r * stride + c] = tile[bt_tile_index(r, c)];
}

uint64_t bt_tile_bytes(const bt_profile *p, uint64_t n, uint64_t k, uint32_t bits)
{
    if (p->tile_rows) {
        n = (n + p->tile_rows - 1) / p->tile_rows * p->tile_rows;
        k = (k + p->tile_cols - 1) / p->tile_cols * p->tile_cols;
    }
    return (n * k * bits + 7) / 8;
}
