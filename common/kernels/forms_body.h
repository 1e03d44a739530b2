/* The products over int8 and FP4 weights; the second half of matmul_body.h. No include guard.
 *
 * FP4 decodes 8 inputs of 16 outputs at once, by steps that stay inside 128-bit lanes, so that one layout serves both
 * widths: bytes from nibbles, words from pairs of bytes and a constant, floats from the halves of lanes (v16_codes_*,
 * v16_words_*, v16_even and v16_odd). */
BT_INLINE void fp4_scales(v16 *scale, v16 *shift, const uint8_t *group)
{
    *scale = v16_mul(v16_set1(16.0f), v16_from_f16(group));
    *shift = v16_sub(v16_from_f16(group + 32), *scale);
}

BT_INLINE void block_decode(block *b, size_t p, const uint8_t *w, size_t k0, size_t count, const int form)
{
    float *to = b->w[p];
    if (form == F16) {
        for (size_t k = 0; k < count; k++) v16_store(to + 16 * k, v16_from_f16(w + 32 * (k0 + k)));
    } else if (form == INT8_K) {
        w += 32 + 16 * k0;
        for (size_t k = 0; k < count; k++) v16_store(to + 16 * k, weight_load(w + 16 * k, form));
    } else if (form == INT8_32) {
        w += k0 / GROUP * form_int8_bytes(GROUP);
        for (size_t k = 0, g = 0; k < count; g++, w += form_int8_bytes(GROUP)) {
            b->scale[p][g] = v16_from_f16(w);
            for (size_t i = 0; i < GROUP; i++, k++) v16_store(to + 16 * k, weight_load(w + 32 + 16 * i, form));
        }
    } else {
        w += k0 / GROUP * FORM_FP4_BYTES;
        for (size_t k = 0, g = 0; k < count; g++, w += FORM_FP4_BYTES) {
            fp4_scales(&b->scale[p][g], &b->shift[p][g], w);
            for (size_t i = 0; i < GROUP / 8; i++, k += 8) {
                const v16_codes codes = v16_codes_load(w + FORM_FP4_CODES + 64 * i);
                BT_UNROLL for (size_t half = 0; half < 2; half++)
                {
                    const v16_codes bytes = half ? v16_codes_high(codes) : v16_codes_low(codes);
                    const v16_codes low = v16_words_low(bytes), high = v16_words_high(bytes);
                    float *at = to + 16 * (k + 4 * half);
                    v16_store(at, v16_even(low)), v16_store(at + 16, v16_odd(low));
                    v16_store(at + 32, v16_even(high)), v16_store(at + 48, v16_odd(high));
                }
            }
        }
    }
}

void BT_VARIANT(bt_matmul8)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                            const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k,
                            size_t group, size_t p0, size_t p1)
{
    const product a = {.y = y, .ldy = ldy, .x = x, .ldx = ldx, .bias = bias, .wp = wp, .t = t, .n = n, .k = k, .p0 = p0,
                       .p1 = p1, .panel = bt_form_panel_bytes(BT_FORM_INT8, group, k)};
    if (group == k) {
        if (t <= FEW_ROWS) product_few(&a, INT8_K);
        else product_many(&a, INT8_K);
    } else if (t <= FEW_ROWS) product_few(&a, INT8_32);
    else product_many(&a, INT8_32);
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

/* s over the 32 inputs of a group of P panels. */
BT_INLINE void fp4_group(v16 s[4][FEW_ROWS], const uint8_t *w, size_t panel, const float *x, size_t ldx, const size_t P,
                         const size_t R)
{
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) s[p][r] = v16_zero();
    for (size_t k = 0; k < GROUP; k += 8, w += 64)
        BT_UNROLL for (size_t half = 0; half < 2; half++) BT_UNROLL for (size_t p = 0; p < P; p++)
        {
            const v16_codes codes = v16_codes_load(w + p * panel);
            const v16_codes bytes = half ? v16_codes_high(codes) : v16_codes_low(codes);
            const v16_codes low = v16_words_low(bytes), high = v16_words_high(bytes);
            const v16 h[4] = {v16_even(low), v16_odd(low), v16_even(high), v16_odd(high)};
            BT_UNROLL for (size_t i = 0; i < 4; i++) BT_UNROLL for (size_t r = 0; r < R; r++)
                s[p][r] = v16_fma(h[i], v16_set1(x[r * ldx + k + 4 * half + i]), s[p][r]);
        }
}

BT_INLINE void fp4_few_tile(const product *a, size_t panel0, size_t row, const size_t P, const size_t R)
{
    const size_t panel = a->panel;
    const float *x = a->x + row * a->ldx, *xs = a->xs + row * a->groups;
    const uint8_t *w = a->wp + panel0 * panel;
    v16 acc[4][FEW_ROWS], s[4][FEW_ROWS];
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++) acc[p][r] = v16_zero();
    for (size_t g = 0; g < a->groups; g++, w += FORM_FP4_BYTES) {
        if (a->k - g * GROUP >= GROUP) fp4_group(s, w + FORM_FP4_CODES, panel, x + g * GROUP, a->ldx, P, R);
        else { /* a zero for each input past K changes no sum */
            float tail[FEW_ROWS * GROUP] = {0};
            for (size_t r = 0; r < R; r++)
                memcpy(tail + r * GROUP, x + r * a->ldx + g * GROUP, (a->k - g * GROUP) * sizeof *tail);
            fp4_group(s, w + FORM_FP4_CODES, panel, tail, GROUP, P, R);
        }
        BT_UNROLL for (size_t p = 0; p < P; p++)
        {
            v16 scale, shift;
            fp4_scales(&scale, &shift, w + p * panel);
            BT_UNROLL for (size_t r = 0; r < R; r++)
            {
                acc[p][r] = v16_fma(scale, s[p][r], acc[p][r]);
                acc[p][r] = v16_fma(shift, v16_set1(xs[r * a->groups + g]), acc[p][r]);
            }
        }
    }
    BT_UNROLL for (size_t p = 0; p < P; p++) BT_UNROLL for (size_t r = 0; r < R; r++)
        store_row(a, panel0 + p, row + r, acc[p][r]);
}

static void fp4_few(const product *a)
{
    for (size_t p = a->p0; p < a->p1;) {
        const size_t left = a->p1 - p;
        if (a->t == 1 && left >= 4) fp4_few_tile(a, p, 0, 4, 1), p += 4;
        else if (a->t == 1 && left >= 2) fp4_few_tile(a, p, 0, 2, 1), p += 2;
        else if (a->t == 1) fp4_few_tile(a, p, 0, 1, 1), p += 1;
        else if (a->t == 2 && left >= 2) fp4_few_tile(a, p, 0, 2, 2), p += 2;
        else if (a->t == 2) fp4_few_tile(a, p, 0, 1, 2), p += 1;
        else if (a->t == 3) fp4_few_tile(a, p, 0, 1, 3), p += 1;
        else fp4_few_tile(a, p, 0, 1, 4), p += 1;
    }
}

void BT_VARIANT(bt_matmul4)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                            const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                            size_t p1, void *scratch)
{
    const product a = {.y = y, .ldy = ldy, .x = x, .ldx = ldx, .bias = bias, .wp = wp, .t = t, .n = n, .k = k, .p0 = p0,
                       .p1 = p1, .xs = scratch, .panel = bt_form_panel_bytes(BT_FORM_FP4, GROUP, k),
                       .groups = (k + GROUP - 1) / GROUP};
    fp4_sums(scratch, x, ldx, t, k);
    if (t <= FEW_ROWS) fp4_few(&a);
    else product_many(&a, FP4);
}
