/* Matrix product over v16; included by matmul_avx2.c and matmul_avx512.c after their simd header, with
 * TILE_PANELS set to the panels that a tile of many rows covers. No include guard.
 *
 * A tile is R rows x P panels of accumulators in registers, each output one fma chain over all of K. The f16
 * weights are converted as they stream by: for many rows that hides behind the products, and a panel stays in
 * the cache from one tile of rows to the next. Few rows take more panels, for enough independent chains. */
#define TILE_ROWS 6

typedef struct tile {
    float *y;
    const float *x, *bias; /* bias: of the tile's first output, or NULL */
    const uint16_t *w;
    size_t ldy, ldx, k, cols; /* cols: outputs that exist, at most 16 * P */
} tile;

/* P and R are constants at every call. */
BT_INLINE void tile_run(const tile *a, const size_t P, const size_t R)
{
    const float *x = a->x;
    const size_t ldx = a->ldx, panel = a->k * 16;
    v16 acc[4][TILE_ROWS];
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) acc[p][r] = v16_zero();
    for (size_t k = 0; k < a->k; k++) {
        v16 wk[4];
        BT_UNROLL for (size_t p = 0; p < P; p++) wk[p] = v16_load_f16(a->w + p * panel + k * 16);
        BT_UNROLL for (size_t r = 0; r < R; r++)
        {
            const v16 xk = v16_set1(x[r * ldx + k]);
            BT_UNROLL for (size_t p = 0; p < P; p++) acc[p][r] = v16_fma(wk[p], xk, acc[p][r]);
        }
    }
    BT_UNROLL for (size_t p = 0; p < P; p++)
    {
        const size_t cols = a->cols - 16 * p < 16 ? a->cols - 16 * p : 16;
        BT_UNROLL for (size_t r = 0; r < R; r++)
        {
            v16 sum = acc[p][r];
            if (a->bias) sum = v16_add(v16_load_n(a->bias + 16 * p, cols), sum);
            v16_store_n(a->y + r * a->ldy + 16 * p, sum, cols);
        }
    }
}

static void tile_any(const tile *a, size_t panels, size_t rows)
{
    switch (panels * 8 + rows) {
    case 33: tile_run(a, 4, 1); break;
    case 17: tile_run(a, 2, 1); break;
    case 18: tile_run(a, 2, 2); break;
    case 19: tile_run(a, 2, 3); break;
#if TILE_PANELS > 1
    case 20: tile_run(a, 2, 4); break;
    case 21: tile_run(a, 2, 5); break;
    case 22: tile_run(a, 2, 6); break;
#endif
    case 9: tile_run(a, 1, 1); break;
    case 10: tile_run(a, 1, 2); break;
    case 11: tile_run(a, 1, 3); break;
    case 12: tile_run(a, 1, 4); break;
    case 13: tile_run(a, 1, 5); break;
    default: tile_run(a, 1, 6); break;
    }
}

void BT_VARIANT(bt_matmul)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint16_t *restrict wp, const float *bias, size_t t, size_t n, size_t k,
                           size_t p0, size_t p1)
{
    const size_t wide = t == 1 ? 4 : t <= 3 ? 2 : TILE_PANELS;
    tile a = {.ldy = ldy, .ldx = ldx, .k = k};
    for (size_t p = p0, panels; p < p1; p += panels) {
        panels = p1 - p >= wide ? wide : p1 - p >= 2 && wide > 1 ? 2 : 1;
        a.w = wp + p * k * 16, a.bias = bias ? bias + 16 * p : NULL;
        a.cols = n - 16 * p < 16 * panels ? n - 16 * p : 16 * panels;
        for (size_t row = 0, rows; row < t; row += rows) {
            const size_t tiles = (t - row + TILE_ROWS - 1) / TILE_ROWS;
            rows = (t - row + tiles - 1) / tiles; /* even shares: no tile is left with a row or two */
            a.y = y + row * ldy + 16 * p, a.x = x + row * ldx;
            tile_any(&a, panels, rows);
        }
    }
}
