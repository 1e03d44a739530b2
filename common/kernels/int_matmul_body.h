/* The integer matrix product over panels; included by int_matmul_<isa>.c, which define before it TILE_ROWS and TILE_PANELS
 * (rows and panels of the largest tile, at most 6, 1 or 4), the type `sums` (16 sums of
 * s32, one for each output of a panel) and int_zero, int_dot, int_store over it. No include guard.
 *
 * A tile is R rows x P panels of sums in registers that run down the whole of K; four inputs of a row meet the 64
 * bytes of a panel at once. A panel stays in the cache from one tile of rows to the next. */
#include <string.h>

#if defined(__clang__)
#define INT_UNROLL _Pragma("unroll")
#else
#define INT_UNROLL _Pragma("GCC unroll 16")
#endif

typedef struct tile {
    int32_t *acc;
    const int8_t *x, *w;
    const int32_t *colsum;
    size_t ldacc, ldx, k4;
} tile;

/* P and R are constants at every call. */
INT_INLINE void tile_run(const tile *a, const size_t P, const size_t R)
{
    sums sum[4][TILE_ROWS];
    const size_t k4 = a->k4, panel = k4 * 64;
    INT_UNROLL for (size_t p = 0; p < P; p++) INT_UNROLL for (size_t r = 0; r < R; r++) sum[p][r] = int_zero();
    for (size_t k = 0; k < k4; k++)
        INT_UNROLL for (size_t r = 0; r < R; r++)
        {
            int32_t x;
            memcpy(&x, a->x + r * a->ldx + 4 * k, sizeof x);
            INT_UNROLL for (size_t p = 0; p < P; p++)
                sum[p][r] = int_dot(sum[p][r], x, a->w + p * panel + 64 * k);
        }
    INT_UNROLL for (size_t p = 0; p < P; p++) INT_UNROLL for (size_t r = 0; r < R; r++)
        int_store(a->acc + r * a->ldacc + 16 * p, sum[p][r], a->colsum + 16 * p);
}

static void tile_any(const tile *a, size_t panels, size_t rows)
{
    switch (panels * 8 + rows) {
#if TILE_PANELS == 4
    case 34: tile_run(a, 4, 2); break;
    case 35: tile_run(a, 4, 3); break;
    case 36: tile_run(a, 4, 4); break;
    case 37: tile_run(a, 4, 5); break;
    case 38: tile_run(a, 4, 6); break;
    case 20: tile_run(a, 2, 4); break;
    case 21: tile_run(a, 2, 5); break;
    case 22: tile_run(a, 2, 6); break;
#endif
    case 33: tile_run(a, 4, 1); break;
    case 17: tile_run(a, 2, 1); break;
    case 18: tile_run(a, 2, 2); break;
    case 19: tile_run(a, 2, 3); break;
    case 9: tile_run(a, 1, 1); break;
    case 10: tile_run(a, 1, 2); break;
    case 11: tile_run(a, 1, 3); break;
    case 12: tile_run(a, 1, 4); break;
    case 13: tile_run(a, 1, 5); break;
    default: tile_run(a, 1, 6); break;
    }
}

void INT_VARIANT(bt_int_matmul)(int32_t *restrict acc, size_t ldacc, const int8_t *restrict x, size_t ldx,
                                const int8_t *restrict wp, const int32_t *colsum, size_t t, size_t k4, size_t p0,
                                size_t p1)
{
    const size_t wide = t == 1 || TILE_PANELS == 4 ? 4 : t <= 3 ? 2 : 1;
    tile a = {.ldacc = ldacc, .ldx = ldx, .k4 = k4};
    for (size_t p = p0, panels; p < p1; p += panels) {
        panels = p1 - p >= wide ? wide : p1 - p >= 2 && wide > 1 ? 2 : 1;
        a.w = wp + p * k4 * 64, a.colsum = colsum + 16 * p;
        for (size_t row = 0, rows; row < t; row += rows) {
            const size_t tiles = (t - row + TILE_ROWS - 1) / TILE_ROWS;
            rows = (t - row + tiles - 1) / tiles; /* even shares: no tile is left with a row or two */
            a.acc = acc + row * ldacc + 16 * (p - p0), a.x = x + row * ldx;
            tile_any(&a, panels, rows);
        }
    }
}
