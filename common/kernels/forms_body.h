/* The products over int8 and FP4 weights over v16; the second half of matmul_body.h. No include guard.
 *
 * FP4 decodes 8 inputs of 16 outputs at once, by steps that stay inside 128-bit lanes, so that one layout serves both
 * widths: bytes from nibbles, words from bytes and a constant, floats from the halves of lanes. For 64 weights (8 AVX2
 * registers of floats) that is 17 integer operations in AVX2; for 128 (8 AVX-512 registers) it is 16 in AVX-512: 2.1 and
 * 2.0 for each FMA.
 * Few rows decode into registers, a few more do so a piece at a time. For many, CHUNK inputs of a panel are decoded
 * into a buffer in the L1 cache once, tiles of rows run down it, and their sums wait in memory for the next chunk. The
 * order of a sum is the same. */
enum {
    FP4_FEW = 4,
    FP4_PIECES = 8,  /* rows up to which decoding again costs less than the way through the buffer */
    BLOCK_ROWS = 48, /* that share one decoding */
    CHUNK = 128,     /* whole groups */
};

void BT_VARIANT(bt_matmul8)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                            const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k,
                            size_t group, size_t p0, size_t p1)
{
    const product a = {.y = y, .ldy = ldy, .x = x, .ldx = ldx, .bias = bias, .wp = wp, .t = t, .n = n, .k = k,
                       .p0 = p0, .p1 = p1, .panel = bt_form_panel_bytes(BT_FORM_INT8, group, k)};
    product_tiles(&a, group == k ? tile_int8 : tile_int8_32);
}

/* The sums of x over each group. */
static void fp4_sums(float *xs, const float *x, size_t ldx, size_t t, size_t k)
{
    for (size_t row = 0; row < t; row++, x += ldx)
        for (size_t i = 0; i < k; i += GROUP) {
            float sum = 0.0f;
            for (size_t c = i, end = k - i < GROUP ? k : i + GROUP; c < end; c++) sum += x[c];
            *xs++ = sum;
        }
}

/* The weights of half (0 or 1) of 8 inputs: h of four inputs. */
BT_INLINE void fp4_decode(v16 h[4], const uint8_t *w, const int half)
{
    const v16_codes codes = v16_codes_load(w);
    const v16_codes bytes = half ? v16_codes_high(codes) : v16_codes_low(codes);
    const v16_codes low = v16_words_low(bytes), high = v16_words_high(bytes);
    h[0] = v16_even(low), h[1] = v16_odd(low), h[2] = v16_even(high), h[3] = v16_odd(high);
}

BT_INLINE void fp4_scales(v16 *scale, v16 *shift, const uint8_t *group)
{
    *scale = v16_mul(v16_set1(16.0f), v16_from_f16(group));
    *shift = v16_sub(v16_from_f16(group + 32), *scale);
}

/* ---- few rows ---- */
/* s over the 32 inputs of a group of P panels. */
BT_INLINE void fp4_group(v16 s[4][FP4_FEW], const uint8_t *w, size_t panel, const float *x, size_t ldx, const size_t P,
                         const size_t R)
{
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) s[p][r] = v16_zero();
    for (size_t k = 0; k < GROUP; k += 8, w += 64)
        BT_UNROLL for (int half = 0; half < 2; half++) BT_UNROLL for (size_t p = 0; p < P; p++)
        {
            v16 h[4];
            if (!half) v16_prefetch(w + p * panel + AHEAD);
            fp4_decode(h, w + p * panel, half);
            BT_UNROLL for (size_t i = 0; i < 4; i++) BT_UNROLL for (size_t r = 0; r < R; r++)
                s[p][r] = v16_fma(h[i], v16_set1(x[r * ldx + k + 4 * (size_t)half + i]), s[p][r]);
        }
}

BT_INLINE void fp4_tile(const product *a, size_t panel0, const size_t P, const size_t R)
{
    const size_t panel = a->panel;
    const uint8_t *w = a->wp + panel0 * panel;
    v16 acc[4][FP4_FEW], s[4][FP4_FEW];
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) acc[p][r] = v16_zero();
    for (size_t g = 0; g < a->groups; g++, w += FORM_FP4_BYTES) {
        OUT_OF_REGISTERS(acc);
        if (a->k - g * GROUP >= GROUP) fp4_group(s, w + FORM_FP4_CODES, panel, a->x + g * GROUP, a->ldx, P, R);
        else { /* a zero for each input past K changes no sum */
            float tail[FP4_FEW * GROUP] = {0};
            for (size_t r = 0; r < R; r++)
                memcpy(tail + r * GROUP, a->x + r * a->ldx + g * GROUP, (a->k - g * GROUP) * sizeof *tail);
            fp4_group(s, w + FORM_FP4_CODES, panel, tail, GROUP, P, R);
        }
        BT_UNROLL for (size_t p = 0; p < P; p++)
        {
            v16 scale, shift;
            fp4_scales(&scale, &shift, w + p * panel);
            BT_UNROLL for (size_t r = 0; r < R; r++)
            {
                acc[p][r] = v16_fma(scale, s[p][r], acc[p][r]);
                acc[p][r] = v16_fma(shift, v16_set1(a->xs[r * a->groups + g]), acc[p][r]);
            }
        }
    }
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++)
        store_row(a, panel0 + p, r, acc[p][r]);
}

#define FP4_TILE(P, R)                                                                                       \
    BT_NOINLINE void fp4_tile_##P##x##R(const product *a, size_t p) { fp4_tile(a, p, P, R); }
FP4_TILE(4, 1)
FP4_TILE(2, 1)
FP4_TILE(1, 1)
FP4_TILE(2, 2)
FP4_TILE(1, 2)
FP4_TILE(1, 3)
FP4_TILE(1, 4)

static void fp4_few(const product *a)
{
    for (size_t p = a->p0, panels; p < a->p1; p += panels) {
        panels = a->t == 1 && a->p1 - p >= 4 ? 4 : a->t <= 2 && a->p1 - p >= 2 ? 2 : 1;
        switch (panels * 8 + a->t) {
        case 33: fp4_tile_4x1(a, p); break;
        case 17: fp4_tile_2x1(a, p); break;
        case 18: fp4_tile_2x2(a, p); break;
        case 9: fp4_tile_1x1(a, p); break;
        case 10: fp4_tile_1x2(a, p); break;
        case 11: fp4_tile_1x3(a, p); break;
        default: fp4_tile_1x4(a, p); break;
        }
    }
}

/* Panel by panel, which then lies in the L1 cache, FP4_FEW rows at a time. */
static void fp4_pieces(const product *a)
{
    for (size_t p = a->p0; p < a->p1; p++)
        for (size_t row = 0; row < a->t; row += FP4_FEW) {
            product piece = *a;
            piece.p0 = p;
            piece.p1 = p + 1;
            piece.y += row * a->ldy;
            piece.x += row * a->ldx;
            piece.xs += row * a->groups;
            piece.t = a->t - row < FP4_FEW ? a->t - row : FP4_FEW;
            fp4_few(&piece);
        }
}

/* ---- many rows ---- */
typedef struct block {
    float w[TILE_PANELS][CHUNK * 16];
    v16 scale[TILE_PANELS][CHUNK / GROUP], shift[TILE_PANELS][CHUNK / GROUP];
    v16 acc[BLOCK_ROWS][TILE_PANELS];
} block;

/* What of the product one chunk covers: inputs k0 .. k0 + count - 1, rows row .. row + rows - 1. */
typedef struct chunk {
    size_t k0, count, row, rows;
} chunk;

/* Rows at .. at + R - 1 of the chunk. */
BT_INLINE void block_tile(block *b, const product *a, const chunk *c, size_t at, const size_t P, const size_t R)
{
    const size_t ldx = a->ldx, row = c->row + at;
    const float *x = a->x + row * ldx + c->k0, *w = b->w[0];
    for (size_t r = R; r < 2 * R; r++) /* of the next tile: pieces of rows, that no hardware foresees */
        for (size_t k = 0; k < c->count; k += 16) v16_prefetch(x + r * ldx + k);
    for (size_t k = 0, g = 0; k < c->count; g++) {
        v16 s[2][TILE_ROWS];
        BT_UNROLL for (size_t r = 0; r < R; r++) BT_UNROLL for (size_t p = 0; p < P; p++) s[p][r] = v16_zero();
        for (const size_t end = c->count - k < GROUP ? c->count : k + GROUP; k < end; k++) {
            v16 wk[2];
            BT_UNROLL for (size_t p = 0; p < P; p++) wk[p] = v16_load(w + p * CHUNK * 16 + k * 16);
            BT_UNROLL for (size_t r = 0; r < R; r++)
            {
                const v16 xk = v16_set1(x[r * ldx + k]);
                BT_UNROLL for (size_t p = 0; p < P; p++) s[p][r] = v16_fma(wk[p], xk, s[p][r]);
            }
        }
        BT_UNROLL for (size_t r = 0; r < R; r++)
        {
            const v16 xs = v16_set1(a->xs[(row + r) * a->groups + c->k0 / GROUP + g]);
            BT_UNROLL for (size_t p = 0; p < P; p++)
            {
                v16 *acc = &b->acc[at + r][p];
                *acc = v16_fma(b->shift[p][g], xs, v16_fma(b->scale[p][g], s[p][r], *acc));
            }
        }
    }
}

BT_INLINE void block_tiles(block *b, const product *a, const chunk *c, const size_t P)
{
    for (size_t at = 0, rows; at < c->rows; at += rows) {
        rows = tile_rows(c->rows - at);
        switch (rows) {
        case 1: block_tile(b, a, c, at, P, 1); break;
        case 2: block_tile(b, a, c, at, P, 2); break;
        case 3: block_tile(b, a, c, at, P, 3); break;
        case 4: block_tile(b, a, c, at, P, 4); break;
        case 5: block_tile(b, a, c, at, P, 5); break;
        default: block_tile(b, a, c, at, P, 6); break;
        }
    }
}
BT_NOINLINE void block_narrow(block *b, const product *a, const chunk *c) { block_tiles(b, a, c, 1); }
#if TILE_PANELS > 1
BT_NOINLINE void block_wide(block *b, const product *a, const chunk *c) { block_tiles(b, a, c, TILE_PANELS); }
#else
#define block_wide block_narrow
#endif

static void block_decode(block *b, size_t p, const uint8_t *w, const chunk *c)
{
    float *to = b->w[p];
    w += c->k0 / GROUP * FORM_FP4_BYTES;
    for (size_t k = 0, g = 0; k < c->count; k += GROUP, g++, w += FORM_FP4_BYTES) {
        fp4_scales(&b->scale[p][g], &b->shift[p][g], w);
        for (size_t i = 0; i < GROUP / 8; i++)
            BT_UNROLL for (int half = 0; half < 2; half++)
            {
                v16 h[4];
                fp4_decode(h, w + FORM_FP4_CODES + 64 * i, half);
                BT_UNROLL for (size_t j = 0; j < 4; j++, to += 16) v16_store(to, h[j]);
            }
    }
    for (size_t i = 0; i < CHUNK / GROUP * FORM_FP4_BYTES; i += 64) /* the next chunk, while tiles run down this one */
        v16_prefetch(w + i);
}

static void fp4_many(const product *a)
{
    block b;
    const size_t blocks = (a->t + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (size_t i = 0; i < blocks; i++) {
        chunk c = {.row = a->t * i / blocks};
        c.rows = a->t * (i + 1) / blocks - c.row;
        for (size_t p = a->p0, panels; p < a->p1; p += panels) {
            panels = a->p1 - p >= TILE_PANELS ? TILE_PANELS : 1;
            for (size_t r = 0; r < c.rows; r++)
                for (size_t j = 0; j < panels; j++) b.acc[r][j] = v16_zero();
            for (c.k0 = 0; c.k0 < a->k; c.k0 += CHUNK) {
                c.count = a->k - c.k0 < CHUNK ? a->k - c.k0 : CHUNK;
                for (size_t j = 0; j < panels; j++) block_decode(&b, j, a->wp + (p + j) * a->panel, &c);
                if (panels > 1) block_wide(&b, a, &c);
                else block_narrow(&b, a, &c);
            }
            for (size_t r = 0; r < c.rows; r++)
                for (size_t j = 0; j < panels; j++) store_row(a, p + j, c.row + r, b.acc[r][j]);
        }
    }
}

void BT_VARIANT(bt_matmul4)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                            const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                            size_t p1, void *scratch)
{
    const product a = {.y = y, .ldy = ldy, .x = x, .ldx = ldx, .bias = bias, .wp = wp, .t = t, .n = n, .k = k,
                       .p0 = p0, .p1 = p1, .xs = scratch, .panel = bt_form_panel_bytes(BT_FORM_FP4, GROUP, k),
                       .groups = (k + GROUP - 1) / GROUP};
    fp4_sums(scratch, x, ldx, t, k);
    if (t <= FP4_FEW) fp4_few(&a);
    else if (t <= FP4_PIECES) fp4_pieces(&a);
    else fp4_many(&a);
}
