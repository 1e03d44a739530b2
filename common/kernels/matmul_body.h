/* Matrix product over v16; included by matmul_avx2.c and matmul_avx512.c after their simd header, with TILE_PANELS set
 * to the panels that one full tile covers. No include guard.
 *
 * A tile is R rows x P panels of accumulators in registers, each output one fma chain. Up to TILE_ROWS rows the f16
 * weights are converted as they stream by, and few rows take more panels, for enough independent chains. More rows
 * share a block of K_BLOCK inputs converted once into f32; between blocks the chain rests in y, which changes no bit. */
#define TILE_ROWS 6
#define K_BLOCK   256

typedef struct tile {
    float *y;
    const float *x, *bias;                  /* bias: of the tile's first output; NULL unless this ends the chain */
    size_t ldy, ldx;
    size_t k, cols;                         /* inputs in this stretch; outputs that exist, at most 16 * P */
    int fresh;                              /* the chain starts here, from +0 */
} tile;

BT_INLINE size_t tile_cols(const tile *a, size_t p) { return a->cols - 16 * p < 16 ? a->cols - 16 * p : 16; }

/* w: f16 panels `wstep` apart, or f32 ones if wf is given. P and R are constants at every call. */
BT_INLINE void tile_run(const tile *a, const uint16_t *w, const float *wf, size_t wstep, const size_t P, const size_t R)
{
    const float *x = a->x;
    const size_t ldx = a->ldx;
    v16 acc[4][TILE_ROWS];
    BT_UNROLL for (size_t p = 0; p < P; p++)
        BT_UNROLL for (size_t r = 0; r < R; r++)
            acc[p][r] = a->fresh ? v16_zero() : v16_load_n(a->y + r * a->ldy + 16 * p, tile_cols(a, p));
    for (size_t k = 0; k < a->k; k++) {
        v16 wk[4];
        BT_UNROLL for (size_t p = 0; p < P; p++)
            wk[p] = wf ? v16_load(wf + p * wstep + k * 16) : v16_load_f16(w + p * wstep + k * 16);
        BT_UNROLL for (size_t r = 0; r < R; r++) {
            const v16 xk = v16_set1(x[r * ldx + k]);
            BT_UNROLL for (size_t p = 0; p < P; p++) acc[p][r] = v16_fma(wk[p], xk, acc[p][r]);
        }
    }
    BT_UNROLL for (size_t p = 0; p < P; p++) {
        const size_t cols = tile_cols(a, p);
        BT_UNROLL for (size_t r = 0; r < R; r++) {
            v16 sum = acc[p][r];
            if (a->bias) sum = v16_add(v16_load_n(a->bias + 16 * p, cols), sum);
            v16_store_n(a->y + r * a->ldy + 16 * p, sum, cols);
        }
    }
}

static void tile_f16(const tile *a, const uint16_t *w, size_t wstep, size_t panels, size_t rows)
{
    switch (panels * 8 + rows) {
    case 33: tile_run(a, w, NULL, wstep, 4, 1); break;
    case 17: tile_run(a, w, NULL, wstep, 2, 1); break;
    case 18: tile_run(a, w, NULL, wstep, 2, 2); break;
    case 19: tile_run(a, w, NULL, wstep, 2, 3); break;
#if TILE_PANELS > 1
    case 20: tile_run(a, w, NULL, wstep, 2, 4); break;
    case 21: tile_run(a, w, NULL, wstep, 2, 5); break;
    case 22: tile_run(a, w, NULL, wstep, 2, 6); break;
#endif
    case 9:  tile_run(a, w, NULL, wstep, 1, 1); break;
    case 10: tile_run(a, w, NULL, wstep, 1, 2); break;
    case 11: tile_run(a, w, NULL, wstep, 1, 3); break;
    case 12: tile_run(a, w, NULL, wstep, 1, 4); break;
    case 13: tile_run(a, w, NULL, wstep, 1, 5); break;
    default: tile_run(a, w, NULL, wstep, 1, 6); break;
    }
}

static void tile_f32(const tile *a, const float *w, size_t wstep, size_t panels, size_t rows)
{
    switch (panels * 8 + rows) {
#if TILE_PANELS > 1
    case 17: tile_run(a, NULL, w, wstep, 2, 1); break;
    case 18: tile_run(a, NULL, w, wstep, 2, 2); break;
    case 19: tile_run(a, NULL, w, wstep, 2, 3); break;
    case 20: tile_run(a, NULL, w, wstep, 2, 4); break;
    case 21: tile_run(a, NULL, w, wstep, 2, 5); break;
    case 22: tile_run(a, NULL, w, wstep, 2, 6); break;
#endif
    case 9:  tile_run(a, NULL, w, wstep, 1, 1); break;
    case 10: tile_run(a, NULL, w, wstep, 1, 2); break;
    case 11: tile_run(a, NULL, w, wstep, 1, 3); break;
    case 12: tile_run(a, NULL, w, wstep, 1, 4); break;
    case 13: tile_run(a, NULL, w, wstep, 1, 5); break;
    default: tile_run(a, NULL, w, wstep, 1, 6); break;
    }
}

/* Up to TILE_ROWS rows: the weights are read once, straight from the package. */
static void few_rows(tile a, const uint16_t *wp, size_t t, size_t n, size_t k, size_t p0, size_t p1)
{
    const size_t wide = t == 1 ? 4 : t <= 3 ? 2 : TILE_PANELS;
    float *const y = a.y;
    const float *const bias = a.bias;
    a.k = k, a.fresh = 1;
    for (size_t p = p0, step; p < p1; p += step) {
        step = p1 - p >= wide ? wide : p1 - p >= 2 && wide > 1 ? 2 : 1;
        a.y = y + 16 * p, a.bias = bias ? bias + 16 * p : NULL;
        a.cols = n - 16 * p < 16 * step ? n - 16 * p : 16 * step;
        tile_f16(&a, wp + p * k * 16, k * 16, step, t);
    }
}

static void many_rows(tile a, const uint16_t *wp, size_t t, size_t n, size_t k, size_t p0, size_t p1)
{
    float wf[TILE_PANELS * K_BLOCK * 16] __attribute__((aligned(64)));
    float *const y = a.y;
    const float *const x = a.x, *const bias = a.bias;
    for (size_t p = p0, step; p < p1; p += step) {
        step = p1 - p >= TILE_PANELS ? TILE_PANELS : 1;
        a.cols = n - 16 * p < 16 * step ? n - 16 * p : 16 * step;
        for (size_t k0 = 0; k0 < k; k0 += K_BLOCK) {
            a.k = k - k0 < K_BLOCK ? k - k0 : K_BLOCK;
            a.fresh = k0 == 0;
            a.bias = bias && k0 + a.k == k ? bias + 16 * p : NULL;
            for (size_t s = 0; s < step; s++)
                for (size_t i = 0; i < a.k; i++)
                    v16_store(wf + (s * K_BLOCK + i) * 16, v16_load_f16(wp + ((p + s) * k + k0 + i) * 16));
            for (size_t row = 0; row < t; row += TILE_ROWS) {
                a.y = y + row * a.ldy + 16 * p, a.x = x + row * a.ldx + k0;
                tile_f32(&a, wf, K_BLOCK * 16, step, t - row < TILE_ROWS ? t - row : TILE_ROWS);
            }
        }
    }
}

void BT_VARIANT(bt_matmul)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx, const uint16_t *restrict wp,
                           const float *bias, size_t t, size_t n, size_t k, size_t p0, size_t p1)
{
    const tile a = { .y = y, .x = x, .bias = bias, .ldy = ldy, .ldx = ldx };
    if (t <= TILE_ROWS) few_rows(a, wp, t, n, k, p0, p1);
    else many_rows(a, wp, t, n, k, p0, p1);
}
