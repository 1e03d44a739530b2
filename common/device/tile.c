/* Packing into tiles, and what whole tiles take. */
#include "device/tile.h"

#include <string.h>

bt_tile bt_tile_of(uint32_t tile_rows, uint32_t tile_cols, uint32_t k, uint32_t bits)
{
    return tile_rows ? (bt_tile){tile_rows, tile_cols, bits} : (bt_tile){1, k, bits};
}

void bt_tile_pack(const bt_tile *t, uint16_t *tile, const uint16_t *in, size_t stride, size_t rows,
                  size_t cols)
{
    memset(tile, 0, bt_tile_elems(t) * sizeof *tile);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) tile[bt_tile_index(t, r, c)] = in[r * stride + c];
}

uint64_t bt_tile_bytes(const bt_profile *p, uint64_t n, uint64_t k, uint32_t bits)
{
    if (p->tile_rows) {
        n = (n + p->tile_rows - 1) / p->tile_rows * p->tile_rows;
        k = (k + p->tile_cols - 1) / p->tile_cols * p->tile_cols;
    }
    return (n * k * bits + 7) / 8;
}
