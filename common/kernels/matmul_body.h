/* The matrix products over v16: f16 weights and what all forms of weights share here, int8 and FP4 in forms_body.h.
 * Included by matmul_avx2.c and matmul_avx512.c after their simd header, with TILE_PANELS set to the panels that a tile
 * of many rows covers. No include guard.
 *
 * A tile is R rows x P panels of accumulators in registers, each output one fma chain over all of K. f16 and int8
 * weights are converted as they stream by: for many rows that hides behind the products, and a panel stays in the cache
 * from one tile of rows to the next. Few rows take more panels, for enough independent chains. */
#include "kernels/forms_layout.h"

enum {
    TILE_ROWS = 6,
    GROUP = BT_FORM_GROUP,
    AHEAD = 512, /* bytes that each panel of a tile of few rows is fetched ahead */
};
/* How a chain ends: with K, with K by a scale, with each group by a scale. */
enum { F16, INT8_K, INT8_32 };

/* Keeps what only the end of a group needs in memory, and the registers free for its chains. */
#define OUT_OF_REGISTERS(x) __asm__("" : "+m"(x))

typedef struct product {
    float *y;
    const float *x, *bias, *xs; /* xs: FP4's sums of x, [T, groups] */
    const uint8_t *wp;
    size_t ldy, ldx, t, n, k, p0, p1;
    size_t panel, groups; /* bytes of a panel; FP4's groups in K */
} product;

BT_INLINE v16 v16_from_f16(const uint8_t *p) { return v16_load_f16((const uint16_t *)(const void *)p); }
BT_INLINE v16 weight_load(const uint8_t *w, const int form)
{
    return form == F16 ? v16_from_f16(w) : v16_load_s8((const int8_t *)w);
}

/* The 16 outputs of panel p in one row: adds the bias and stores. */
BT_INLINE void store_row(const product *a, size_t p, size_t row, v16 sum)
{
    const size_t cols = a->n - 16 * p < 16 ? a->n - 16 * p : 16;
    if (a->bias) sum = v16_add(v16_load_n(a->bias + 16 * p, cols), sum);
    v16_store_n(a->y + row * a->ldy + 16 * p, sum, cols);
}

/* How many of `left` rows the next tile takes: even shares, no tile is left with a row or two. */
static size_t tile_rows(size_t left)
{
    const size_t tiles = (left + TILE_ROWS - 1) / TILE_ROWS;
    return (left + tiles - 1) / tiles;
}

/* s continues over `count` inputs of P panels; P and R are constants at every call. The order of the loads leaves
 * registers for the sums. */
BT_INLINE void chain(v16 s[4][TILE_ROWS], const uint8_t *w, size_t panel, const float *x, size_t ldx, size_t count,
                     const int form, const size_t P, const size_t R)
{
    for (size_t k = 0; k < count; k++, w += form == F16 ? 32 : 16)
        if (P > R) {
            v16 xk[TILE_ROWS];
            BT_UNROLL for (size_t r = 0; r < R; r++) xk[r] = v16_set1(x[r * ldx + k]);
            BT_UNROLL for (size_t p = 0; p < P; p++)
            {
                v16_prefetch(w + p * panel + AHEAD);
                const v16 wk = weight_load(w + p * panel, form);
                BT_UNROLL for (size_t r = 0; r < R; r++) s[p][r] = v16_fma(wk, xk[r], s[p][r]);
            }
        } else {
            v16 wk[4];
            BT_UNROLL for (size_t p = 0; p < P; p++) wk[p] = weight_load(w + p * panel, form);
            BT_UNROLL for (size_t r = 0; r < R; r++)
            {
                const v16 xk = v16_set1(x[r * ldx + k]);
                BT_UNROLL for (size_t p = 0; p < P; p++) s[p][r] = v16_fma(wk[p], xk, s[p][r]);
            }
        }
}

BT_INLINE void tile_run(const product *a, size_t panel0, size_t row, const int form, const size_t P, const size_t R)
{
    const size_t panel = a->panel, head = form == F16 ? 0 : 32;
    const float *x = a->x + row * a->ldx;
    const uint8_t *w = a->wp + panel0 * panel;
    v16 acc[4][TILE_ROWS], s[4][TILE_ROWS];
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) acc[p][r] = v16_zero();
    if (form != INT8_32) chain(acc, w + head, panel, x, a->ldx, a->k, form, P, R);
    else
        for (size_t k = 0; k < a->k; k += GROUP, w += form_int8_bytes(GROUP)) {
            OUT_OF_REGISTERS(acc);
            BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) s[p][r] = v16_zero();
            chain(s, w + head, panel, x + k, a->ldx, a->k - k < GROUP ? a->k - k : GROUP, form, P, R);
            BT_UNROLL for (size_t p = 0; p < P; p++)
            {
                const v16 d = v16_from_f16(w + p * panel);
                BT_UNROLL for (size_t r = 0; r < R; r++) acc[p][r] = v16_fma(d, s[p][r], acc[p][r]);
            }
        }
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++)
    {
        v16 sum = acc[p][r];
        if (form == INT8_K) sum = v16_fma(v16_from_f16(w + p * panel), sum, v16_zero());
        store_row(a, panel0 + p, row + r, sum);
    }
}

BT_INLINE void tile_any(const product *a, size_t p, size_t panels, size_t row, size_t rows, const int form)
{
    switch (panels * 8 + rows) {
    case 33: tile_run(a, p, row, form, 4, 1); break;
    case 17: tile_run(a, p, row, form, 2, 1); break;
    case 18: tile_run(a, p, row, form, 2, 2); break;
    case 19: tile_run(a, p, row, form, 2, 3); break;
#if TILE_PANELS > 1
    case 20: tile_run(a, p, row, form, 2, 4); break;
    case 21: tile_run(a, p, row, form, 2, 5); break;
    case 22: tile_run(a, p, row, form, 2, 6); break;
#endif
    case 9: tile_run(a, p, row, form, 1, 1); break;
    case 10: tile_run(a, p, row, form, 1, 2); break;
    case 11: tile_run(a, p, row, form, 1, 3); break;
    case 12: tile_run(a, p, row, form, 1, 4); break;
    case 13: tile_run(a, p, row, form, 1, 5); break;
    default: tile_run(a, p, row, form, 1, 6); break;
    }
}

/* Out of line: the tiles of one form are as much as the compiler finds registers for. */
typedef void tile_fn(const product *a, size_t p, size_t panels, size_t row, size_t rows);
BT_NOINLINE void tile_f16(const product *a, size_t p, size_t panels, size_t row, size_t rows)
{
    tile_any(a, p, panels, row, rows, F16);
}
BT_NOINLINE void tile_int8(const product *a, size_t p, size_t panels, size_t row, size_t rows)
{
    tile_any(a, p, panels, row, rows, INT8_K);
}
BT_NOINLINE void tile_int8_32(const product *a, size_t p, size_t panels, size_t row, size_t rows)
{
    tile_any(a, p, panels, row, rows, INT8_32);
}

static void product_tiles(const product *a, tile_fn *tile)
{
    const size_t wide = a->t == 1 ? 4 : a->t <= 3 ? 2 : TILE_PANELS;
    for (size_t p = a->p0, panels; p < a->p1; p += panels) {
        panels = a->p1 - p >= wide ? wide : a->p1 - p >= 2 && wide > 1 ? 2 : 1;
        for (size_t row = 0, rows; row < a->t; row += rows) {
            rows = tile_rows(a->t - row);
            tile(a, p, panels, row, rows);
        }
    }
}

void BT_VARIANT(bt_matmul)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint16_t *restrict wp, const float *bias, size_t t, size_t n, size_t k,
                           size_t p0, size_t p1)
{
    const product a = {.y = y, .ldy = ldy, .x = x, .ldx = ldx, .bias = bias, .wp = (const uint8_t *)wp,
                       .t = t, .n = n, .k = k, .p0 = p0, .p1 = p1, .panel = 32 * k};
    product_tiles(&a, tile_f16);
}

#include "kernels/forms_body.h"
