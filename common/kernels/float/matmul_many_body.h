/* The products of more than FEW_ROWS rows over v16; included in matmul_body.h. No include guard.
 *
 * Tiles of rows run down a panel one after the other; each output is one fma chain. Meanwhile they fetch the next panel
 * from memory. f16 and int8 weights are converted in the tile, where the conversion hides behind the products. FP4 and
 * MX are decoded once for all tiles, CHUNK inputs at a time, into a buffer in the L1 cache. The sums of BLOCK_ROWS rows
 * and BLOCK_PANELS panels wait in memory meanwhile, so that the chunk of x stays in the cache from panel to panel. None
 * of this changes the order of a sum. */
enum {
    BLOCK_ROWS = 48,
    BLOCK_PANELS = 8,
    CHUNK = 128, /* inputs of FP4 and MX, whole groups; the other forms take all of K at once */
};

/* Codes of both forms become floats in the same three steps; `half`: of the last four of 8 inputs. */
BT_INLINE v16_codes coded_bytes(v16_codes codes, size_t half, const int form)
{
    if (form == FP4) return half ? v16_codes_high(codes) : v16_codes_low(codes);
    return half ? v16_nibbles_high(codes) : v16_nibbles_low(codes);
}
BT_INLINE v16_codes coded_low(v16_codes bytes, const int form)
{
    return form == FP4 ? v16_words_low(bytes) : v16_mx_low(bytes);
}
BT_INLINE v16_codes coded_high(v16_codes bytes, const int form)
{
    return form == FP4 ? v16_words_high(bytes) : v16_mx_high(bytes);
}
/* Bytes from a group's codes to the next one's. */
BT_INLINE size_t coded_bytes_of(const int form) { return form == FP4 ? FORM_FP4_BYTES : FORM_MX_BYTES; }

/* How many of `left` rows the next tile takes: even shares, so that no tile has only a row or two. */
static size_t tile_rows(size_t left)
{
    const size_t tiles = (left + TILE_ROWS - 1) / TILE_ROWS;
    return (left + tiles - 1) / tiles;
}

BT_INLINE void fp4_scales(v16 *scale, v16 *shift, const uint8_t *group)
{
    *scale = v16_mul(v16_set1(16.0f), v16_from_f16(group));
    *shift = v16_sub(v16_from_f16(group + 32), *scale);
}

typedef struct block {
    v16 acc[BLOCK_PANELS][BLOCK_ROWS];
    v16 scale[TILE_PANELS][CHUNK / GROUP], shift[TILE_PANELS][CHUNK / GROUP];
    float w[TILE_PANELS][CHUNK * 16];
} block;

/* The work of tiles: inputs k0 .. k0 + count - 1, rows row .. row + rows - 1, and a tile's panels from panel `first` of
 * the block on. */
typedef struct chunk {
    size_t k0, count, row, rows, first;
    const uint8_t *w;    /* the weights of panel `first` */
    const uint8_t *next; /* the weights that come next, which tiles fetch */
    size_t fetch;        /* how many bytes of `next` a tile fetches for each group */
} chunk;

/* One tile: rows at .. at + R - 1 of the chunk, and P panels. */
BT_INLINE void block_tile(block *b, const product *a, const chunk *c, size_t at, const int form, const size_t P,
                          const size_t R)
{
    const size_t ldx = a->ldx, row = c->row + at, bytes = form == F16 ? 32 : 16;
    const float *x = a->x + row * ldx + c->k0, *w = b->w[0];
    const uint8_t *next = c->next;
    const bool is_coded = form == FP4 || form == MX, is_grouped = form == INT8_32 || is_coded;
    const size_t stretch = form == INT8_K ? 2 * GROUP : GROUP; /* inputs from one fetch to the next */
    v16 s[2][TILE_ROWS];
    if (!is_grouped)
        BT_UNROLL_FOR(size_t r = 0; r < R; r++)
            BT_UNROLL_FOR(size_t p = 0; p < P; p++) s[p][r] = b->acc[c->first + p][at + r];
    for (size_t k = 0, g = 0; k < c->count; g++) {
        for (const uint8_t *end = next + stretch / GROUP * c->fetch; next < end; next += 64) v16_prefetch(next);
        if (is_grouped)
            BT_UNROLL_FOR(size_t r = 0; r < R; r++)
                BT_UNROLL_FOR(size_t p = 0; p < P; p++) s[p][r] = v16_zero();
        const uint8_t *codes = c->w + (form == INT8_32 ? g * form_int8_bytes(GROUP) + 32 : k * bytes);
        for (const size_t end = c->count - k < stretch ? c->count : k + stretch; k < end; k++, codes += bytes) {
            v16 wk[2];
            BT_UNROLL_FOR(size_t p = 0; p < P; p++)
                wk[p] = is_coded ? v16_load(w + p * CHUNK * 16 + k * 16) : weight_load(codes + p * a->panel, form);
            BT_UNROLL_FOR(size_t r = 0; r < R; r++) {
                const v16 xk = v16_set1(x[r * ldx + k]);
                BT_UNROLL_FOR(size_t p = 0; p < P; p++) s[p][r] = v16_fma(wk[p], xk, s[p][r]);
            }
        }
        if (is_grouped)
            BT_UNROLL_FOR(size_t r = 0; r < R; r++)
                BT_UNROLL_FOR(size_t p = 0; p < P; p++) {
                    v16 *acc = &b->acc[c->first + p][at + r];
                    const v16 scale =
                        is_coded ? b->scale[p][g] : v16_from_f16(c->w + p * a->panel + g * form_int8_bytes(GROUP));
                    *acc = v16_fma(scale, s[p][r], *acc);
                    if (form == FP4)
                        *acc =
                            v16_fma(b->shift[p][g], v16_set1(a->xs[(row + r) * a->groups + c->k0 / GROUP + g]), *acc);
                }
    }
    if (!is_grouped)
        BT_UNROLL_FOR(size_t r = 0; r < R; r++)
            BT_UNROLL_FOR(size_t p = 0; p < P; p++) b->acc[c->first + p][at + r] = s[p][r];
}

BT_INLINE void block_tiles(block *b, const product *a, chunk *c, const int form, const size_t P)
{
    for (size_t at = 0, rows; at < c->rows; at += rows, c->next += (c->count + GROUP - 1) / GROUP * c->fetch) {
        rows = tile_rows(c->rows - at);
        switch (rows) {
        case 1: block_tile(b, a, c, at, form, P, 1); break;
        case 2: block_tile(b, a, c, at, form, P, 2); break;
        case 3: block_tile(b, a, c, at, form, P, 3); break;
        case 4: block_tile(b, a, c, at, form, P, 4); break;
        case 5: block_tile(b, a, c, at, form, P, 5); break;
        default: block_tile(b, a, c, at, form, P, 6); break;
        }
    }
}

/* Decodes the chunk of one panel of codes to b->w[p]; scales: MX's, of the chunk. */
BT_INLINE void block_decode(block *b, size_t p, const uint8_t *w, const uint8_t *scales, const chunk *c, const int form)
{
    float *to = b->w[p];
    for (size_t k = 0, g = 0; k < c->count; k += GROUP, g++, w += coded_bytes_of(form)) {
        if (form == FP4) fp4_scales(&b->scale[p][g], &b->shift[p][g], w);
        else b->scale[p][g] = v16_load_e8m0(scales + 16 * g);
        for (size_t i = 0; i < GROUP / 8; i++)
            BT_UNROLL_FOR(size_t half = 0; half < 2; half++) {
                const v16_codes codes = v16_codes_load(w + (form == FP4 ? FORM_FP4_CODES : 0) + 64 * i);
                const v16_codes bytes = coded_bytes(codes, half, form);
                const v16_codes low = coded_low(bytes, form), high = coded_high(bytes, form);
                v16_store(to, v16_even(low)), v16_store(to + 16, v16_odd(low));
                v16_store(to + 32, v16_even(high)), v16_store(to + 48, v16_odd(high));
                to += 64;
            }
    }
}

/* Adds all of K for panels p .. p + panels - 1 to b->acc. */
BT_INLINE void block_run(block *b, const product *a, chunk *c, size_t p, size_t panels, const int form)
{
    const bool is_coded = form == FP4 || form == MX;
    const size_t tiles = (c->rows + TILE_ROWS - 1) / TILE_ROWS, step = is_coded ? CHUNK : a->k;
    const uint8_t *first = a->wp + p * a->panel + (form == INT8_K ? 32 : 0);
    for (c->k0 = 0; c->k0 < a->k; c->k0 += step) {
        c->count = a->k - c->k0 < step ? a->k - c->k0 : step;
        const size_t at = c->k0 / GROUP * coded_bytes_of(form), groups = (c->count + GROUP - 1) / GROUP;
        const size_t bytes = is_coded ? groups * coded_bytes_of(form) : a->panel, shares = tiles * groups;
        c->fetch = ((bytes + shares - 1) / shares + 63) / 64 * 64;
        for (size_t j = 0, wide; j < panels; j += wide) {
            wide = panels - j >= TILE_PANELS ? TILE_PANELS : 1;
            c->first = j;
            c->w = first + j * a->panel + at;
            c->next = j + wide < panels     ? c->w + wide * a->panel
                      : c->k0 + step < a->k ? first + at + bytes
                                            : first + panels * a->panel;
            for (size_t i = 0; is_coded && i < wide; i++)
                block_decode(b, i, c->w + i * a->panel,
                             first + (j + i) * a->panel + form_mx_scale(a->groups, c->k0 / GROUP), c, form);
            if (wide > 1) block_tiles(b, a, c, form, TILE_PANELS);
            else block_tiles(b, a, c, form, 1);
        }
    }
}

BT_INLINE void many_rows(const product *a, const int form)
{
    block b;
    const size_t blocks = (a->t + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (size_t i = 0; i < blocks; i++) {
        chunk c = {.row = a->t * i / blocks};
        c.rows = a->t * (i + 1) / blocks - c.row;
        for (size_t p = a->p0, panels; p < a->p1; p += panels) {
            panels = a->p1 - p < BLOCK_PANELS ? a->p1 - p : BLOCK_PANELS;
            for (size_t j = 0; j < panels; j++)
                for (size_t r = 0; r < c.rows; r++) b.acc[j][r] = v16_zero();
            block_run(&b, a, &c, p, panels, form);
            for (size_t j = 0; j < panels; j++)
                for (size_t r = 0; r < c.rows; r++) {
                    v16 sum = b.acc[j][r];
                    if (form == INT8_K) sum = v16_fma(v16_from_f16(a->wp + (p + j) * a->panel), sum, v16_zero());
                    store_row(a, p + j, c.row + r, sum);
                }
        }
    }
}

BT_NOINLINE void many_f16(const product *a) { many_rows(a, F16); }
BT_NOINLINE void many_int8(const product *a) { many_rows(a, INT8_K); }
BT_NOINLINE void many_int8_32(const product *a) { many_rows(a, INT8_32); }
BT_NOINLINE void many_fp4(const product *a) { many_rows(a, FP4); }
BT_NOINLINE void many_mx(const product *a) { many_rows(a, MX); }
