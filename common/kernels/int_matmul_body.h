/* The integer matrix product; included by int_matmul_<isa>.c, which define before it
 *   INT_MATMUL                         the function's name
 *   TILE_ROWS, TILE_PANELS             of the largest tile: 3 and 2, or 6 and 4
 *   vec, VECS                          a register of s32 sums, and how many hold a panel's 16 outputs
 *   inputs, int_prepare(in, row, x, n) n groups of four inputs of a row, made ready
 *   group, int_group(in, row, k)       group k of a row, in every lane
 *   int_dot(sum, g, w)                 sum + the group times the weights at w
 *   int_start(in, row, colsum)         what a row's sums for these outputs start from in the first chunk of
 * K; int_resume(in, row, acc)           in those after it; int_store(acc, sum) INT_PIN(w) after each product:
 * a barrier for the compiler, or nothing No include guard.
 *
 * A tile is R rows x P panels of sums in registers that run down a chunk of K. Its weights stay in the first
 * cache from one tile of rows to the next, those of a batch of panels in the second from one block of rows to
 * the next; a block of inputs is prepared once for a batch. */

typedef struct tile {
    int32_t *acc;
    const inputs *in;
    const int8_t *w;       /* the first panel's, from the chunk's first inputs on */
    const int32_t *colsum; /* the first panel's */
    size_t row, ldacc, panel_bytes, n;
    int first; /* chunk of K: sums start; else they go on from acc */
} tile;

/* P and R are constants at every call. */
INT_INLINE void tile_run(const tile *t, const size_t P, const size_t R)
{
    const inputs *in = t->in;
    const size_t n = t->n, panel = t->panel_bytes, row = t->row, ldacc = t->ldacc;
    const int8_t *w = t->w;
    vec sum[TILE_ROWS][4 * VECS];
    INT_UNROLL for (size_t r = 0; r < R; r++) INT_UNROLL for (size_t i = 0; i < P * VECS; i++)
    {
        const size_t at = i * (16 / VECS);
        sum[r][i] = t->first ? int_start(in, row + r, t->colsum + at)
                             : int_resume(in, row + r, t->acc + r * ldacc + at);
    }
    for (size_t k = 0; k < n; k++, w += 64) INT_UNROLL for (size_t r = 0; r < R; r++)
        {
            const group g = int_group(in, row + r, k);
            INT_UNROLL for (size_t i = 0; i < P * VECS; i++)
            {
                sum[r][i] = int_dot(sum[r][i], g, w + i / VECS * panel + i % VECS * (64 / VECS));
                INT_PIN(w);
            }
        }
    INT_UNROLL for (size_t r = 0; r < R; r++) INT_UNROLL for (size_t i = 0; i < P * VECS; i++)
        int_store(t->acc + r * ldacc + i * (16 / VECS), sum[r][i]);
}

static void tile_any(const tile *t, size_t panels, size_t rows)
{
    switch (panels * 8 + rows) {
    case 33: tile_run(t, 4, 1); break;
    case 17: tile_run(t, 2, 1); break;
    case 18: tile_run(t, 2, 2); break;
    case 19: tile_run(t, 2, 3); break;
    case 9: tile_run(t, 1, 1); break;
    case 10: tile_run(t, 1, 2); break;
#if TILE_ROWS == 6
    case 34: tile_run(t, 4, 2); break;
    case 35: tile_run(t, 4, 3); break;
    case 36: tile_run(t, 4, 4); break;
    case 37: tile_run(t, 4, 5); break;
    case 38: tile_run(t, 4, 6); break;
    case 20: tile_run(t, 2, 4); break;
    case 21: tile_run(t, 2, 5); break;
    case 22: tile_run(t, 2, 6); break;
    case 12: tile_run(t, 1, 4); break;
    case 13: tile_run(t, 1, 5); break;
    case 14: tile_run(t, 1, 6); break;
#endif
    default: tile_run(t, 1, 3); break;
    }
}

/* A chunk of K for a block of rows and a batch of panels; t: its first tile. */
static void chunk_run(tile t, size_t rows, size_t panels)
{
    int32_t *const acc = t.acc;
    for (size_t p = 0, wide; p < panels; p += wide) {
        const size_t most = rows == 1 ? 4 : TILE_PANELS, left = panels - p;
        wide = left >= most ? most : left >= 2 ? 2 : 1;
        for (size_t height; t.row < rows; t.row += height) {
            const size_t tiles = (rows - t.row + TILE_ROWS - 1) / TILE_ROWS;
            height = (rows - t.row + tiles - 1) / tiles; /* even shares: no tile is left with a row or two */
            t.acc = acc + t.row * t.ldacc + 16 * p;
            tile_any(&t, wide, height);
        }
        t.row = 0, t.w += wide * t.panel_bytes, t.colsum += 16 * wide;
    }
}

void INT_MATMUL(int32_t *restrict acc, size_t ldacc, const int8_t *restrict x, size_t ldx,
                const int8_t *restrict wp, const int32_t *colsum, size_t t, size_t k4, size_t p0, size_t p1)
{
    enum { BATCH_BYTES = 1 << 18 };
    const size_t panel = k4 * 64, fit = BATCH_BYTES / panel / TILE_PANELS * TILE_PANELS;
    const size_t most = t <= BLOCK_ROWS ? p1 - p0 : fit ? fit : TILE_PANELS;
    const size_t chunks = (k4 + BLOCK_K4 - 1) / BLOCK_K4, even = (k4 + chunks - 1) / chunks;
    inputs in;
    for (size_t p = p0, panels; p < p1; p += panels) {
        panels = p1 - p < most ? p1 - p : most;
        for (size_t row = 0, rows; row < t; row += rows) {
            rows = t - row < BLOCK_ROWS ? t - row : BLOCK_ROWS;
            for (size_t k = 0, n; k < k4; k += n) {
                n = k4 - k < even ? k4 - k : even;
                for (size_t r = 0; r < rows; r++) int_prepare(&in, r, x + (row + r) * ldx + 4 * k, n);
                const tile first = {.acc = acc + row * ldacc + 16 * (p - p0),
                                    .in = &in,
                                    .w = wp + p * panel + 64 * k,
                                    .colsum = colsum + 16 * p,
                                    .ldacc = ldacc,
                                    .panel_bytes = panel,
                                    .n = n,
                                    .first = k == 0};
                chunk_run(first, rows, panels);
            }
        }
    }
}
