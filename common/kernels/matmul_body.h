/* The matrix products over v16: f16 weights here, the parts that all forms of weights share, then int8 and FP4
 * (forms_body.h). Included by matmul_avx2.c and matmul_avx512.c after their simd header, with TILE_PANELS set to the panels that a
 * tile of many rows covers. No include guard.
 *
 * Few rows: a tile is R rows x P panels of accumulators in registers, and the weights are decoded on their way into
 * them, with enough panels side by side for enough independent chains.
 * Many rows: CHUNK inputs of a panel are decoded into a buffer in the L1 cache once, tiles of rows run down it, and
 * their sums wait in memory for the next chunk. Neither changes the order of any output's chain. */
#include "kernels/forms_layout.h"

enum {
    FEW_ROWS = 4,
    TILE_ROWS = 6,
    BLOCK_ROWS = 48, /* that share one decoding */
    CHUNK = 128,     /* whole groups */
    GROUP = BT_FORM_GROUP,
    AHEAD = 512, /* bytes that each of the streams of a tile of few rows is fetched ahead */
};

/* What decides how a chain is closed: at the end of K, or of each group, by a scale, or by a scale and a shift. */
enum { F16, INT8_K, INT8_32, FP4 };

typedef struct product {
    float *y;
    const float *x, *bias, *xs; /* xs: FP4's sums of x, [T, groups] */
    const uint8_t *wp;
    size_t ldy, ldx, t, n, k, p0, p1;
    size_t panel, groups; /* bytes of a panel; groups of 32 in K */
} product;

BT_INLINE v16 v16_from_f16(const uint8_t *p) { return v16_load_f16((const uint16_t *)(const void *)p); }

/* Outputs of panel p, rows row .. row + R - 1: adds the bias and stores. */
BT_INLINE void store_row(const product *a, size_t p, size_t row, v16 sum)
{
    const size_t cols = a->n - 16 * p < 16 ? a->n - 16 * p : 16;
    if (a->bias) sum = v16_add(v16_load_n(a->bias + 16 * p, cols), sum);
    v16_store_n(a->y + row * a->ldy + 16 * p, sum, cols);
}

/* ---- many rows ---- */
typedef struct block {
    float w[TILE_PANELS][CHUNK * 16];
    v16 scale[TILE_PANELS][CHUNK / GROUP], shift[TILE_PANELS][CHUNK / GROUP];
    v16 acc[BLOCK_ROWS][TILE_PANELS];
} block;

/* Rows row .. row + R - 1 of the product, sums b->acc[at ..], over inputs k0 .. k0 + count - 1 of P decoded panels. */
BT_INLINE void block_tile(block *b, const product *a, size_t row, size_t at, size_t k0, size_t count, const int form,
                          const size_t P, const size_t R)
{
    const size_t ldx = a->ldx, step = form == INT8_32 || form == FP4 ? GROUP : CHUNK;
    const float *x = a->x + row * ldx + k0, *w = b->w[0];
    v16 s[2][TILE_ROWS];
    for (size_t k = 0, g = 0; k < count; g++) {
        BT_UNROLL for (size_t r = 0; r < R; r++) BT_UNROLL for (size_t p = 0; p < P; p++) s[p][r] =
            step == GROUP ? v16_zero() : b->acc[at + r][p];
        for (const size_t end = count - k < step ? count : k + step; k < end; k++) {
            v16 wk[2];
            BT_UNROLL for (size_t p = 0; p < P; p++) wk[p] = v16_load(w + p * CHUNK * 16 + k * 16);
            BT_UNROLL for (size_t r = 0; r < R; r++)
            {
                const v16 xk = v16_set1(x[r * ldx + k]);
                BT_UNROLL for (size_t p = 0; p < P; p++) s[p][r] = v16_fma(wk[p], xk, s[p][r]);
            }
        }
        BT_UNROLL for (size_t r = 0; r < R; r++) BT_UNROLL for (size_t p = 0; p < P; p++)
        {
            v16 sum = s[p][r];
            if (step == GROUP) sum = v16_fma(b->scale[p][g], sum, b->acc[at + r][p]);
            if (form == FP4)
                sum = v16_fma(b->shift[p][g], v16_set1(a->xs[(row + r) * a->groups + k0 / GROUP + g]), sum);
            b->acc[at + r][p] = sum;
        }
    }
}

BT_INLINE void block_tiles(block *b, const product *a, size_t row, size_t rows, size_t k0, size_t count, const int form,
                           const size_t P)
{
    for (size_t at = 0, part; at < rows; at += part) {
        const size_t tiles = (rows - at + TILE_ROWS - 1) / TILE_ROWS;
        part = (rows - at + tiles - 1) / tiles; /* even shares: no tile is left with a row or two */
        switch (part) {
        case 1: block_tile(b, a, row + at, at, k0, count, form, P, 1); break;
        case 2: block_tile(b, a, row + at, at, k0, count, form, P, 2); break;
        case 3: block_tile(b, a, row + at, at, k0, count, form, P, 3); break;
        case 4: block_tile(b, a, row + at, at, k0, count, form, P, 4); break;
        case 5: block_tile(b, a, row + at, at, k0, count, form, P, 5); break;
        default: block_tile(b, a, row + at, at, k0, count, form, P, 6); break;
        }
    }
}

/* The weights of inputs k0 .. k0 + count - 1 of the panel at w, and the scales of their groups. */
BT_INLINE void block_decode(block *b, size_t p, const uint8_t *w, size_t k0, size_t count, const int form);

BT_INLINE void product_many(const product *a, const int form)
{
    block b;
    const size_t row_blocks = (a->t + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (size_t i = 0; i < row_blocks; i++) {
        const size_t row = a->t * i / row_blocks, rows = a->t * (i + 1) / row_blocks - row;
        for (size_t p = a->p0, panels; p < a->p1; p += panels) {
            panels = a->p1 - p >= TILE_PANELS ? TILE_PANELS : 1;
            const uint8_t *w = a->wp + p * a->panel;
            for (size_t r = 0; r < rows; r++)
                for (size_t j = 0; j < panels; j++) b.acc[r][j] = v16_zero();
            for (size_t k0 = 0, count; k0 < a->k; k0 += count) {
                count = a->k - k0 < CHUNK ? a->k - k0 : CHUNK;
                for (size_t j = 0; j < panels; j++) block_decode(&b, j, w + j * a->panel, k0, count, form);
                if (TILE_PANELS > 1 && panels > 1) block_tiles(&b, a, row, rows, k0, count, form, TILE_PANELS);
                else block_tiles(&b, a, row, rows, k0, count, form, 1);
            }
            for (size_t j = 0; j < panels; j++) {
                const v16 d = form == INT8_K ? v16_from_f16(w + j * a->panel) : v16_zero();
                for (size_t r = 0; r < rows; r++) {
                    const v16 sum = b.acc[r][j];
                    store_row(a, p + j, row + r, form == INT8_K ? v16_fma(d, sum, v16_zero()) : sum);
                }
            }
        }
    }
}

/* Keeps what only the end of a group needs in memory, and the registers free for its chains. */
#define OUT_OF_REGISTERS(x) __asm__("" : "+m"(x))

/* ---- few rows, weights of one scale a group and channel ---- */
BT_INLINE v16 weight_load(const uint8_t *w, const int form)
{
    return form == F16 ? v16_from_f16(w) : v16_load_s8((const int8_t *)w);
}

/* P and R are constants at every call. */
BT_INLINE void few_tile(const product *a, size_t panel0, size_t row, const int form, const size_t P, const size_t R)
{
    const size_t ldx = a->ldx, panel = a->panel, step = form == INT8_32 ? GROUP : a->k, bytes = form == F16 ? 32 : 16;
    const float *x = a->x + row * ldx;
    const uint8_t *w = a->wp + panel0 * panel;
    v16 acc[4][FEW_ROWS], s[4][FEW_ROWS];
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) acc[p][r] = v16_zero();
    for (size_t left = a->k, count; left; left -= count, x += count) {
        const uint8_t *d = w;
        if (form == INT8_32) OUT_OF_REGISTERS(acc);
        if (form != F16) w += 32;
        count = left < step ? left : step;
        BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) s[p][r] = v16_zero();
        for (size_t k = 0; k < count; k++, w += bytes) {
            v16 xk[FEW_ROWS];
            BT_UNROLL for (size_t r = 0; r < R; r++) xk[r] = v16_set1(x[r * ldx + k]);
            BT_UNROLL for (size_t p = 0; p < P; p++)
            {
                v16_prefetch(w + p * panel + AHEAD);
                const v16 wk = weight_load(w + p * panel, form);
                BT_UNROLL for (size_t r = 0; r < R; r++) s[p][r] = v16_fma(wk, xk[r], s[p][r]);
            }
        }
        BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) acc[p][r] =
            form == F16 ? s[p][r]
                        : v16_fma(v16_from_f16(d + p * panel), s[p][r], form == INT8_32 ? acc[p][r] : v16_zero());
    }
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++)
        store_row(a, panel0 + p, row + r, acc[p][r]);
}

BT_INLINE void product_few(const product *a, const int form)
{
    for (size_t p = a->p0; p < a->p1;) {
        const size_t left = a->p1 - p;
        if (a->t == 1 && left >= 4) few_tile(a, p, 0, form, 4, 1), p += 4;
        else if (a->t == 1 && left >= 2) few_tile(a, p, 0, form, 2, 1), p += 2;
        else if (a->t == 1) few_tile(a, p, 0, form, 1, 1), p += 1;
        else if (a->t == 2 && left >= 2) few_tile(a, p, 0, form, 2, 2), p += 2;
        else if (a->t == 2) few_tile(a, p, 0, form, 1, 2), p += 1;
        else if (a->t == 3 && left >= 2) few_tile(a, p, 0, form, 2, 3), p += 2;
        else if (a->t == 3) few_tile(a, p, 0, form, 1, 3), p += 1;
        else few_tile(a, p, 0, form, 1, 4), p += 1;
    }
}

#include "kernels/forms_body.h"

void BT_VARIANT(bt_matmul)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                           const uint16_t *restrict wp, const float *bias, size_t t, size_t n, size_t k,
                           size_t p0, size_t p1)
{
    const product a = {.y = y, .ldy = ldy, .x = x, .ldx = ldx, .bias = bias, .wp = (const uint8_t *)wp, .t = t, .n = n,
                       .k = k, .p0 = p0, .p1 = p1, .panel = 32 * k};
    if (t <= FEW_ROWS) product_few(&a, F16);
    else product_many(&a, F16);
}
