/* The products with int8, FP4 and MX weights over v16; included at the end of matmul_body.h. No include guard.
 *
 * FP4 and MX decode 8 inputs of 16 outputs at once (simd_avx2.h says how). Its steps stay inside 128-bit lanes, so that
 * one layout serves all widths. Decoding 8 registers of FP4 takes 17 integer operations in AVX2 (64 weights) and 16 in
 * AVX-512 (128 weights). Few rows use decoded weights at once, so that sums and constants stay in registers. */
void BT_VARIANT(bt_matmul8)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                            const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t group,
                            size_t p0, size_t p1)
{
    const product a = PRODUCT(wp, bt_form_panel_bytes(BT_FORM_INT8, group, k), .groups = 0);
    if (t <= FEW_ROWS) few_rows(&a, group == k ? few_int8 : few_int8_32);
    else if (group == k) many_int8(&a);
    else many_int8_32(&a);
}

/* Sums eight groups at a time, one in each lane. */
void BT_VARIANT(bt_fp4_sums)(float *restrict xs, const float *restrict x, size_t ldx, size_t t, size_t k)
{
    const size_t whole = k / GROUP;
    for (size_t row = 0; row < t; row++, x += ldx) {
        for (size_t g = 0; g < whole; g += 8) {
            const size_t count = whole - g < 8 ? whole - g : 8;
            const float *at[8];
            float sums[8];
            v8 sum = v8_zero();
            for (size_t i = 0; i < 8; i++) at[i] = x + (g + (i < count ? i : 0)) * GROUP;
            for (size_t c = 0; c < GROUP; c += 8) {
                sum = v8_add_columns(sum, at);
                for (size_t i = 0; i < 8; i++) at[i] += 8;
            }
            v8_store(sums, sum);
            memcpy(xs + g, sums, count * sizeof *sums);
        }
        xs += whole;
        if (k % GROUP == 0) continue;
        float sum = 0.0f;
        for (size_t c = whole * GROUP; c < k; c++) sum += x[c];
        *xs++ = sum;
    }
}

/* ---- few rows ---- */
/* Continues the chains s[R] by two inputs of one panel, whose words are given. */
BT_INLINE void coded_two(v16 s[FEW_ROWS], v16_codes words, const float *x, size_t ldx, const size_t R)
{
    const v16 even = v16_even(words);
    BT_UNROLL_FOR(size_t r = 0; r < R; r++) s[r] = v16_fma(even, v16_broadcast(x + r * ldx), s[r]);
    const v16 odd = v16_odd(words);
    BT_UNROLL_FOR(size_t r = 0; r < R; r++) s[r] = v16_fma(odd, v16_broadcast(x + r * ldx + 1), s[r]);
}

/* Makes the chains s[P][R] over the 32 inputs of a group, whose codes are at w. */
BT_INLINE void coded_group(v16 s[4][FEW_ROWS], const uint8_t *w, size_t panel, size_t ahead, const float *x, size_t ldx,
                           const int form, const size_t P, const size_t R)
{
    BT_UNROLL_FOR(size_t p = 0; p < P; p++)
        BT_UNROLL_FOR(size_t r = 0; r < R; r++) s[p][r] = v16_zero();
    for (size_t k = 0; k < GROUP; k += 8, w += 64)
        BT_UNROLL_FOR(size_t half = 0; half < 8; half += 4)
            BT_UNROLL_FOR(size_t p = 0; p < P; p++) {
                if (!half) v16_prefetch(w + p * panel + ahead);
                const v16_codes bytes = coded_bytes(v16_codes_load(w + p * panel), half, form);
                coded_two(s[p], coded_low(bytes, form), x + k + half, ldx, R);
                coded_two(s[p], coded_high(bytes, form), x + k + half + 2, ldx, R);
            }
}

BT_INLINE void coded_tile(const product *a, size_t panel0, const int form, const size_t P, const size_t R)
{
    const size_t panel = a->panel, bytes = coded_bytes_of(form), codes = form == FP4 ? FORM_FP4_CODES : 0;
    const uint8_t *w = a->wp + panel0 * panel, *scales = w + form_mx_scale(a->groups, 0);
    v16 acc[4][FEW_ROWS], s[4][FEW_ROWS];
    BT_UNROLL_FOR(size_t p = 0; p < P; p++)
        BT_UNROLL_FOR(size_t r = 0; r < R; r++) acc[p][r] = v16_zero();
    for (size_t g = 0; g < a->groups; g++, w += bytes, scales += 16) {
        const size_t ahead = ahead_of(a, (a->groups - g) * bytes, P);
        OUT_OF_REGISTERS(acc);
        if (a->k - g * GROUP >= GROUP) coded_group(s, w + codes, panel, ahead, a->x + g * GROUP, a->ldx, form, P, R);
        else { /* zeros past K change no sum */ float tail[FEW_ROWS * GROUP] = {0};
            for (size_t r = 0; r < R; r++)
                memcpy(tail + r * GROUP, a->x + r * a->ldx + g * GROUP, (a->k - g * GROUP) * sizeof *tail);
            coded_group(s, w + codes, panel, ahead, tail, GROUP, form, P, R);
        }
        BT_UNROLL_FOR(size_t p = 0; p < P; p++) {
            v16 scale, shift;
            if (form == FP4) {
                v16_prefetch(w + p * panel + ahead);
                fp4_scales(&scale, &shift, w + p * panel);
            } else {
                scale = v16_load_e8m0(scales + p * panel);
            }
            BT_UNROLL_FOR(size_t r = 0; r < R; r++) {
                acc[p][r] = v16_fma(scale, s[p][r], acc[p][r]);
                if (form == FP4) acc[p][r] = v16_fma(shift, v16_set1(a->xs[r * a->groups + g]), acc[p][r]);
            }
        }
    }
    BT_UNROLL_FOR(size_t p = 0; p < P; p++)
        BT_UNROLL_FOR(size_t r = 0; r < R; r++) store_row(a, panel0 + p, r, acc[p][r]);
}

#if BT_V16_REGS > 1 /* no registers for the sums of a fourth panel */
enum { WIDE = 3 };
#else
enum { WIDE = 4 };
#endif
#define CODED_TILE(name, form, P, R) \
    BT_NOINLINE void name##_tile_##P##x##R(const product *a, size_t p) { coded_tile(a, p, form, P, R); }
/* The tiles of a form: `wide` panels of one row, and fewer panels of up to four; name_few takes them. */
#define CODED_FEW(name, form) \
    BT_NOINLINE void name##_tile_wide(const product *a, size_t p) { coded_tile(a, p, form, WIDE, 1); } \
    CODED_TILE(name, form, 2, 1) \
    CODED_TILE(name, form, 1, 1) \
    CODED_TILE(name, form, 2, 2) \
    CODED_TILE(name, form, 1, 2) \
    CODED_TILE(name, form, 1, 3) \
    CODED_TILE(name, form, 1, 4) \
    static void name##_few(const product *a) \
    { \
        for (size_t p = a->p0, panels; p < a->p1; p += panels) { \
            panels = coded_panels(a, a->p1 - p); \
            switch (panels * 8 + a->t) { \
            case WIDE * 8 + 1: name##_tile_wide(a, p); break; \
            case 17: name##_tile_2x1(a, p); break; \
            case 18: name##_tile_2x2(a, p); break; \
            case 9: name##_tile_1x1(a, p); break; \
            case 10: name##_tile_1x2(a, p); break; \
            case 11: name##_tile_1x3(a, p); break; \
            default: name##_tile_1x4(a, p); break; \
            } \
        } \
    }

/* How many of `left` panels the next tile takes. */
static size_t coded_panels(const product *a, size_t left)
{
    return a->t == 1 && left >= WIDE && (BT_V16_REGS == 1 || left != WIDE + 1) ? WIDE : a->t <= 2 && left >= 2 ? 2 : 1;
}
CODED_FEW(fp4, FP4)
CODED_FEW(mx, MX)

void BT_VARIANT(bt_matmul4)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                            const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                            size_t p1, const float *restrict xs)
{
    const product a =
        PRODUCT(wp, bt_form_panel_bytes(BT_FORM_FP4, GROUP, k), .xs = xs, .groups = (k + GROUP - 1) / GROUP);
    if (t <= FEW_ROWS) fp4_few(&a);
    else many_fp4(&a);
}

void BT_VARIANT(bt_matmul_mx)(float *restrict y, size_t ldy, const float *restrict x, size_t ldx,
                              const uint8_t *restrict wp, const float *bias, size_t t, size_t n, size_t k, size_t p0,
                              size_t p1)
{
    const product a = PRODUCT(wp, bt_form_panel_bytes(BT_FORM_MX, GROUP, k), .groups = (k + GROUP - 1) / GROUP);
    if (t <= FEW_ROWS) mx_few(&a);
    else many_mx(&a);
}
