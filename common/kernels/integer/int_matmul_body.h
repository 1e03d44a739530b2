/* The integer matrix product; included by int_matmul_<isa>.c, which defines before it
 *   INT_PRODUCT                        the function's name
 *   TILE_ROWS, TILE_PANELS             of the largest tile: 3 and 2, or 6 and 4
 *   CHUNK_K4, EXTRAS_HERE              of the prepared inputs (int_extras.h, included)
 *   COPY_ROWS                          from so many rows on, int_copy first copies the weights; SIZE_MAX: never
 *   vec, VECS                          a register of s32 sums, and how many hold a panel's 16 outputs
 *   group, int_group(x, k)             group k of the record at x, in every lane
 *   int_dot(sum, g, w, is_copy)        sum plus the group times the weights at w
 *   int_extra(sum, g, times, w, is_copy)   sum plus `times` times the group times the weights at w (int_extras.h)
 *   int_start(x, n, colsum)            the start of a row's sums for these outputs in the first chunk of K
 *   int_resume(x, n, acc)              the start in later chunks
 *   int_store(acc, sum)                stores sums
 *   int_copy(to, w, n)                 copies n groups of a panel's weights, as int_dot reads them with is_copy
 *   INT_PIN(w)                         after each product: a barrier for the compiler, or nothing
 * No include guard.
 *
 * A tile is R rows x P panels of sums in registers that run down a chunk of K. The chunk's weights for these panels
 * stay in the first cache while all rows stream past. A chunk's rows and sums stay in the second cache for the next
 * panels. */

typedef struct tile {
    int32_t *acc;
    size_t ldacc;
    const uint8_t *x; /* the first row's record */
    size_t record;
    const uint8_t *more;   /* the first row's extras that its record had no room for */
    size_t more_bytes;     /* from one row's to the next one's */
    const int8_t *w;       /* the first panel's weights, from the chunk's first input on */
    size_t panel;          /* bytes to the next panel's */
    const int32_t *colsum; /* the first panel's */
    size_t n;              /* groups in the chunk */
    int first;             /* whether this is the first chunk of K: sums start; else they continue acc */
} tile;

INT_INLINE void take_extras(vec *sum, const uint8_t *from, uint32_t count, const int8_t *w, size_t panel,
                            const size_t vecs, int is_copy)
{
    for (; count; count--, from += sizeof(extra)) {
        extra e;
        memcpy(&e, from, sizeof e);
        const group g = int_group(from + offsetof(extra, x), 0);
        const int8_t *at = w + (size_t)e.k * 64;
        INT_UNROLL_FOR(size_t i = 0; i < vecs; i++)
            sum[i] = int_extra(sum[i], g, e.times, at + i / VECS * panel + i % VECS * (64 / VECS), is_copy);
    }
}
/* Adds the extras of a row, after its groups. */
INT_INLINE void finish(vec *sum, const uint8_t *x, const uint8_t *more, size_t n, const int8_t *w, size_t panel,
                       const size_t vecs, int is_copy)
{
    uint32_t count;
    memcpy(&count, x + 4 * n, sizeof count);
    const uint32_t here = count < EXTRAS_HERE ? count : EXTRAS_HERE;
    take_extras(sum, x + 4 * n + offsetof(beside, extra), here, w, panel, vecs, is_copy);
    if (__builtin_expect(count > here, 0)) take_extras(sum, more, count - here, w, panel, vecs, is_copy);
}

/* One tile; P, R and is_copy are constants at every call. */
INT_INLINE void tile_run(const tile *t, const size_t P, const size_t R, const int is_copy)
{
    const size_t n = t->n, panel = t->panel, ldacc = t->ldacc, record = t->record;
    const int8_t *w = t->w;
    const uint8_t *x = t->x;
    vec sum[TILE_ROWS][4 * VECS];
    INT_UNROLL_FOR(size_t r = 0; r < R; r++)
        INT_UNROLL_FOR(size_t i = 0; i < P * VECS; i++) {
            const size_t at = i * (16 / VECS);
            sum[r][i] = t->first ? int_start(x + r * record, n, t->colsum + at)
                                 : int_resume(x + r * record, n, t->acc + r * ldacc + at);
        }
    for (size_t k = 0; k < n; k++, w += 64)
        INT_UNROLL_FOR(size_t r = 0; r < R; r++) {
            const group g = int_group(x + r * record, k);
            INT_UNROLL_FOR(size_t i = 0; i < P * VECS; i++) {
                sum[r][i] = int_dot(sum[r][i], g, w + i / VECS * panel + i % VECS * (64 / VECS), is_copy);
                INT_PIN(w);
            }
        }
    INT_UNROLL_FOR(size_t r = 0; r < R; r++)
        finish(sum[r], x + r * record, t->more + r * t->more_bytes, n, t->w, panel, P * VECS, is_copy);
    INT_UNROLL_FOR(size_t r = 0; r < R; r++)
        INT_UNROLL_FOR(size_t i = 0; i < P * VECS; i++) int_store(t->acc + r * ldacc + i * (16 / VECS), sum[r][i]);
}

INT_INLINE void tile_any(const tile *t, size_t panels, size_t rows, const int is_copy)
{
    switch (panels * 8 + rows) {
    case 33: tile_run(t, 4, 1, is_copy); break;
    case 17: tile_run(t, 2, 1, is_copy); break;
    case 18: tile_run(t, 2, 2, is_copy); break;
    case 19: tile_run(t, 2, 3, is_copy); break;
    case 9: tile_run(t, 1, 1, is_copy); break;
    case 10: tile_run(t, 1, 2, is_copy); break;
#if TILE_ROWS == 6
    case 34: tile_run(t, 4, 2, is_copy); break;
    case 35: tile_run(t, 4, 3, is_copy); break;
    case 36: tile_run(t, 4, 4, is_copy); break;
    case 37: tile_run(t, 4, 5, is_copy); break;
    case 38: tile_run(t, 4, 6, is_copy); break;
    case 20: tile_run(t, 2, 4, is_copy); break;
    case 21: tile_run(t, 2, 5, is_copy); break;
    case 22: tile_run(t, 2, 6, is_copy); break;
    case 12: tile_run(t, 1, 4, is_copy); break;
    case 13: tile_run(t, 1, 5, is_copy); break;
    case 14: tile_run(t, 1, 6, is_copy); break;
#endif
    default: tile_run(t, 1, 3, is_copy); break;
    }
}

/* All rows of `wide` panels in a chunk of K; t: the first tile. */
INT_INLINE void rows_run(tile t, size_t rows, size_t wide, const int is_copy)
{
    for (size_t height; rows; rows -= height) {
        const size_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
        /* Even shares: no tile has only a row or two. NOLINTNEXTLINE(clang-analyzer-core.DivideZero): rows > 0 */
        height = (rows + tiles - 1) / tiles;
        tile_any(&t, wide, height, is_copy);
        t.acc += height * t.ldacc, t.x += height * t.record, t.more += height * t.more_bytes;
    }
}

/* The same, with a copy of the weights from COPY_ROWS rows on. */
static void panels_run(tile t, size_t rows, size_t wide, int8_t *copy)
{
    if (rows < COPY_ROWS) {
        rows_run(t, rows, wide, 0);
        return;
    }
    for (size_t p = 0; p < wide; p++) int_copy(copy + p * 64 * t.n, t.w + p * t.panel, t.n);
    t.w = copy, t.panel = 64 * t.n;
    rows_run(t, rows, wide, 1);
}

static void INT_PRODUCT(int32_t *acc, size_t ldacc, const bt_int_inputs *x, const uint8_t *plane, size_t row,
                        size_t rows, const int8_t *wp, const int32_t *colsum, size_t p0, size_t p1, void *scratch)
{
    const int_chunks chunks = int_chunks_of(x->k4, CHUNK_K4, BESIDE);
    const uint8_t *more = plane + int_records_bytes(x->rows, x->k4, &chunks, BESIDE);
    const size_t panel = x->k4 * 64, most = rows == 1 ? 4 : TILE_PANELS;
    for (size_t c = 0; c < chunks.count; c++) {
        const size_t k = c * chunks.n, n = x->k4 - k < chunks.n ? x->k4 - k : chunks.n, record = 4 * n + BESIDE;
        for (size_t p = p0, wide; p < p1; p += wide) {
            wide = p1 - p >= most ? most : p1 - p >= 2 ? 2 : 1;
            const tile first = {.acc = acc + 16 * (p - p0),
                                .ldacc = ldacc,
                                .x = plane + c * chunks.record * x->rows + row * record,
                                .record = record,
                                .more = more + (row * x->k4 + k) * MORE_BYTES,
                                .more_bytes = x->k4 * MORE_BYTES,
                                .w = wp + p * panel + 64 * k,
                                .panel = panel,
                                .colsum = colsum + 16 * p,
                                .n = n,
                                .first = c == 0};
            panels_run(first, rows, wide, scratch);
        }
    }
}
