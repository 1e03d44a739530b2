/* The integer kernels: bits of every variant against ref at every edge of a block, ref against sums in 64
 * bits, the requantiser against 128-bit division, and whole quantised layers against an independent
 * reference. */
#include "tests/unit/kernels/variants.h"
#include "base/wide.h"

#include <math.h>

enum { EXTREMES, RANDOM, KINDS };

/* A matrix, plain and packed, and its column sums. */
typedef struct matrix {
    size_t n, k, panels, k4;
    int8_t *plain;
    uint8_t *packed;
    int32_t *colsum;
} matrix;

static matrix matrix_new(size_t n, size_t k, unsigned bits, int kind)
{
    matrix m = {.n = n, .k = k, .panels = bt_int_panels(n), .k4 = bt_int_k4(k)};
    const int limit = bits == 4 ? 7 : 127;
    m.plain = bytes_new(n * k, 1);
    for (size_t i = 0; i < n * k; i++)
        m.plain[i] = (int8_t)(kind == RANDOM ? (int)rnd_below(2 * limit + 1) - limit
                              : rnd() % 8    ? limit
                                             : -limit);
    const size_t bytes = m.panels * bt_int_panel_bytes(k, bits);
    m.packed = bytes_new(bytes, 64);
    memset(m.packed, 0, bytes);
    const size_t first = n / 3; /* in two slices, as a caller with little memory would */
    bt_int_pack(m.packed, m.plain, 0, first, k, bits);
    bt_int_pack(m.packed, m.plain + first * k, first, n - first, k, bits);
    m.colsum = bytes_new(m.panels * 16 * sizeof *m.colsum, 4);
    memset(m.colsum, 0, m.panels * 16 * sizeof *m.colsum);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++) m.colsum[i] += m.plain[i * k + j];
    return m;
}
static void matrix_free(matrix *m) { free(m->plain), free(m->packed), free(m->colsum); }

static int8_t *inputs_new(size_t t, size_t ldx, size_t k4, int kind)
{
    const size_t bytes = (t - 1) * ldx + 4 * k4;
    int8_t *x = bytes_new(bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        x[i] = (int8_t)(kind == RANDOM ? (int)(rnd() % 256) : rnd() % 8 ? -128 : 127);
    return x;
}

/* The product of rows [row, t) as a caller makes it: prepared, in two steps, then multiplied. is_left[t]:
 * whose shadow it lacks. */
static void product_of(const bt_kernels *v, int32_t *hi, int32_t *lo, size_t ldacc, const bt_int_rows *x,
                       bool *is_left, const matrix *m, size_t row, size_t t, size_t p0)
{
    const size_t bytes = bt_int_inputs_bytes(t, m->k, x->lo), some = t / 2;
    const bt_int_inputs in = {.memory = bytes_new(bytes, 64), .rows = t, .k4 = m->k4, .is_wide = x->lo};
    void *scratch = bytes_new(BT_INT_MATMUL_SCRATCH_BYTES, 64);
    v->int_prepare(&in, some, t, x, is_left);
    v->int_prepare(&in, 0, some, x, is_left);
    v->int_matmul(hi, lo, ldacc, &in, row, t - row, (const int8_t *)m->packed, m->colsum, p0, m->panels,
                  scratch);
    free(in.memory), free(scratch);
}

static void product(const bt_kernels *v, int32_t *hi, int32_t *lo, size_t ldacc, const int8_t *xhi,
                    const int8_t *xlo, size_t ldx, const matrix *m, size_t row, size_t t, size_t p0)
{
    const bt_int_rows x = {.hi = xhi, .lo = xlo, .ld = ldx, .k = m->k};
    bool *is_left = bytes_new(t, 1);
    product_of(v, hi, lo, ldacc, &x, is_left, m, row, t, p0);
    for (size_t i = 0; i < t; i++) assert_false(is_left[i]);
    free(is_left);
}

static void product_case(const bt_kernels *v, size_t t, size_t n, size_t k, int kind)
{
    matrix m = matrix_new(n, k, 8, kind);
    const size_t ldx = 4 * m.k4 + rnd_below(3) * 5;
    int8_t *x = inputs_new(t, ldx, m.k4, kind);
    const size_t p0 = rnd_below(m.panels), ldacc = (m.panels - p0) * 16 + rnd_below(2) * 3;
    const size_t row = rnd_below(3) ? 0 : rnd_below(t), count = (t - row - 1) * ldacc + (m.panels - p0) * 16;
    int32_t *acc = bytes_new(count * sizeof *acc, 4), *want = bytes_new(count * sizeof *acc, 4);
    product(ref_kernels(), want, NULL, ldacc, x, NULL, ldx, &m, row, t, p0);
    product(v, acc, NULL, ldacc, x, NULL, ldx, &m, row, t, p0);
    assert_memory_equal(acc, want, count * sizeof *acc);
    free(x), free(acc), free(want);
    matrix_free(&m);
}

static void product_equals_ref_for_every_number_of_rows_and_edge_of_a_panel(void **state)
{
    static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 31, 32, 33};
    static const size_t outputs[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 112};
    static const size_t inputs[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100};
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t j = 0; j < COUNT(outputs); j++)
            for (size_t l = 0; l < COUNT(inputs); l++)
                product_case(v, rows[i], outputs[j], inputs[l], (int)((i + j + l) % KINDS));
}

static void product_equals_ref_for_long_sums_at_the_extremes(void **state)
{
    static const size_t inputs[] = {255, 256, 257, 511, 513, 1023, 1024, 1025, 1536, 4099, 131071};
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(inputs); i++)
        for (size_t t = 1; t <= 7; t += 2) product_case(v, t, 17, inputs[i], i % 2 ? RANDOM : EXTREMES);
}

/* Row i has about i / 8 of all inputs in its shadow, 0 in the first; in every fifth one entry is larger
 * than a product takes. */
static void rnd_shadow(bt_int_shadow *s, uint32_t *count, size_t row, size_t k)
{
    *count = 0;
    for (size_t i = 0; i < k; i++) {
        /* the second has its last input only */
        const bool has = row == 1 ? i == k - 1 : rnd_below(8) < row % 9;
        if (has)
            s[(*count)++] = (bt_int_shadow){(uint32_t)i, rnd() % 3 ? (int32_t)rnd_below(513) - 256
                                                                   : (int32_t)rnd_below(65535) - 32767};
    }
    if (row % 5 == 4 && *count) s[rnd_below(*count)].r = rnd() % 2 ? 1 << 20 : -32768;
}

/* The product and what it left, against sums in 64 bits; how many shadows it took. */
static size_t shadow_product_case(const bt_kernels *v, size_t t, size_t n, size_t k)
{
    matrix m = matrix_new(n, k, 8, k % KINDS);
    const size_t ldx = 4 * m.k4, width = 16 * m.panels;
    bt_int_shadow *shadow = bytes_new(t * k * sizeof *shadow, 4);
    uint32_t *count = bytes_new(t * sizeof *count, 4);
    const bt_int_rows x = {.hi = inputs_new(t, ldx, m.k4, n % KINDS), .ld = ldx, .k = k, .shadow = shadow,
                           .shadow_count = count};
    int32_t *acc = bytes_new(t * width * sizeof *acc, 4);
    bool *is_left = bytes_new(t, 1);
    size_t taken = 0;
    for (size_t i = 0; i < t; i++) rnd_shadow(shadow + i * k, &count[i], i, k);
    product_of(v, acc, NULL, width, &x, is_left, &m, 0, t, 0);
    for (size_t i = 0; i < t; i++) {
        assert_true(!is_left[i] || count[i]);
        taken += count[i] && !is_left[i];
        for (size_t j = 0; j < n; j++) {
            int64_t want = 0;
            for (size_t c = 0; c < k; c++) want += x.hi[i * ldx + c] * m.plain[j * k + c];
            for (size_t c = 0; !is_left[i] && c < count[i]; c++)
                want += (int64_t)shadow[i * k + c].r * m.plain[j * k + shadow[i * k + c].k];
            assert_true(acc[i * width + j] == want);
        }
    }
    free((void *)(uintptr_t)x.hi), free(shadow), free(count), free(acc), free(is_left);
    matrix_free(&m);
    return taken;
}

static void short_shadows_are_part_of_the_product(void **state)
{
    static const size_t rows[] = {1, 2, 3, 7, 8, 13, 20}, outputs[] = {1, 16, 33, 64},
                        inputs[] = {1, 5, 64, 67, 639, 641, 1300};
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t j = 0; j < COUNT(outputs); j++)
            for (size_t l = 0; l < COUNT(inputs); l++) {
                const size_t taken = shadow_product_case(v, rows[i], outputs[j], inputs[l]);
                assert_true(taken || rows[i] == 1);
                assert_true(taken < rows[i]); /* the first has none */
            }
}

static void unpacking_4_bits_gives_the_8_bit_panels(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t n = 1; n <= 65; n += 8)
        for (size_t k = 1; k <= 70; k += 3) {
            matrix m = matrix_new(n, k, 4, RANDOM);
            const size_t p0 = rnd_below(m.panels), panel = m.k4 * 64, bytes = (m.panels - p0) * panel;
            uint8_t *want = bytes_new(m.panels * panel, 64);
            memset(want, 0, m.panels * panel);
            bt_int_pack(want, m.plain, 0, n, k, 8);
            int8_t *to = bytes_new(bytes, 64);
            v->int_unpack4(to, m.packed, m.k4, p0, m.panels);
            assert_memory_equal(to, want + p0 * panel, bytes);
            free(want), free(to);
            matrix_free(&m);
        }
}

/* Every index of every output, palettes of one run and of several, also where panels begin later. */
static void indices_become_the_numbers_of_their_palettes(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (unsigned bits = 4; bits <= 6; bits += 2)
        for (size_t n = 1; n <= 65; n += 16)
            for (size_t runs = 1; runs <= 4; runs++) {
                const size_t run = 4 * (1 + rnd_below(20)), k = run * runs, panels = bt_int_panels(n),
                             panel = 16 * k, p0 = rnd_below((uint32_t)panels), many = (size_t)1 << bits;
                int8_t *palettes = bytes_new(panels * runs * many, 1),
                       *to = bytes_new((panels - p0) * panel, 64);
                uint8_t *index = bytes_new(n * k, 1),
                        *wp = bytes_new(panels * bt_int_panel_bytes(k, bits), 64);
                memset(wp, 0, panels * bt_int_panel_bytes(k, bits));
                for (size_t i = 0; i < panels * runs * many; i++)
                    palettes[i] = (int8_t)((int)rnd_below(255) - 127);
                for (size_t i = 0; i < n * k; i++)
                    index[i] = (uint8_t)(i < many ? i : rnd_below((uint32_t)many));
                bt_int_pack_indices(wp, index, 0, n / 3, k, bits);
                bt_int_pack_indices(wp, index + n / 3 * k, n / 3, n - n / 3, k, bits);
                v->int_palette(to, wp, bits, palettes, k / 4, run / 4, p0, panels);
                for (size_t i = 16 * p0; i < 16 * panels; i++)
                    for (size_t c = 0; c < k; c++) {
                        const unsigned of = i < n ? index[i * k + c] : 0;
                        assert_int_equal(bt_int_index_at(wp, i, c, k, bits), of);
                        assert_int_equal(to[((i / 16 - p0) * (k / 4) + c / 4) * 64 + i % 16 * 4 + c % 4],
                                         palettes[(i / 16 * runs + c / run) * many + of]);
                    }
                free(palettes), free(to), free(index), free(wp);
            }
}

/* Every panel and group, with the extremes of steps and offsets among them. */
static void planes_are_what_weights_in_groups_stand_for(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t group = 32; group <= 128; group *= 2)
        for (size_t n = 1; n <= 65; n += 16)
            for (unsigned bits = 4; bits <= 8; bits += 4) {
                const size_t groups = 1 + rnd_below(4), k = group * groups;
                matrix m = matrix_new(n, k, bits, n % KINDS);
                const size_t p0 = rnd_below((uint32_t)m.panels), panel = m.k4 * 64,
                             bytes = (m.panels - p0) * panel;
                bt_int_group *of = bytes_new(m.panels * groups * sizeof *of, 64);
                int8_t *low = bytes_new(bytes, 64), *high = bytes_new(bytes, 64);
                for (size_t i = 0; i < m.panels * groups * 16; i++) {
                    const int step = 1 + (int)rnd_below(bits == 4 ? 2039 : 128),
                              room = BT_INT_GROUP_MAX - step * (bits == 4 ? 8 : 127);
                    of[i / 16].step[i % 16] = (int16_t)step;
                    of[i / 16].offset[i % 16] =
                        (int16_t)(i % 3 ? (i % 3 == 1 ? room : -room)
                                        : (int)rnd_below(2 * (uint32_t)room + 1) - room);
                }
                for (size_t i = 0; bits == 4 && i < m.panels * m.k4 * 32; i++)
                    m.packed[i] = (uint8_t)rnd(); /* -8 too */
                v->int_planes(low, high, m.packed, bits, of, m.k4, group / 4, p0, m.panels);
                for (size_t i = 16 * p0; i < 16 * m.panels; i++)
                    for (size_t c = 0; c < k; c++) {
                        const bt_int_group *g = &of[i / 16 * groups + c / group];
                        const int w = bt_int_packed_at(m.packed, i, c, k, bits),
                                  want = g->step[i % 16] * w + g->offset[i % 16];
                        const size_t at = ((i / 16 - p0) * m.k4 + c / 4) * 64 + i % 16 * 4 + c % 4;
                        assert_int_equal(128 * high[at] + low[at], want);
                        assert_true(low[at] >= -64 && low[at] < 64 && high[at] >= -127);
                    }
                free(of), free(low), free(high);
                matrix_free(&m);
            }
}

static void planes_are_joined_exactly(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t n = 16; n <= 80; n += 16)
        for (int is_wide = 0; is_wide < 2; is_wide++) {
            int32_t *sum[4];
            int64_t *to = bytes_new(n * sizeof *to, 8), *want = bytes_new(n * sizeof *want, 8);
            for (size_t i = 0; i < 4; i++) {
                sum[i] = bytes_new(n * sizeof *sum[i], 4);
                for (size_t c = 0; c < n; c++)
                    sum[i][c] = c % 5 == 0 ? INT32_MIN : c % 5 == 1 ? INT32_MAX : (int32_t)(uint32_t)rnd();
            }
            for (size_t c = 0; c < n; c++) {
                to[c] = (int64_t)(int32_t)(uint32_t)rnd() * (1 << 20);
                want[c] = to[c] + (is_wide ? 128 * (256 * (int64_t)sum[0][c] + sum[1][c]) +
                                                 256 * (int64_t)sum[2][c] + sum[3][c]
                                           : 128 * (int64_t)sum[0][c] + sum[2][c]);
            }
            v->int_join(to, (bt_int_plane_sums){sum[0], is_wide ? sum[1] : NULL},
                        (bt_int_plane_sums){sum[2], is_wide ? sum[3] : NULL}, n);
            assert_memory_equal(to, want, n * sizeof *to);
            for (size_t i = 0; i < 4; i++) free(sum[i]);
            free(to), free(want);
        }
}

/* Numbers that a requantiser gets wrong: the ends of the range, small ones, ties, products near the clamp. */
static int64_t rnd_acc(int64_t end, int32_t m, unsigned s)
{
    switch (rnd_below(8)) {
    case 0: return rnd() % 2 ? end : -end - 1;
    case 1: return (int64_t)rnd_below(5) - 2;
    case 2: { /* acc * m about (y + 1/2) * 2^s */
        const double y = (double)rnd_below(600) - 300.0, a = (y + 0.5) * ldexp(1, (int)s) / m;
        return a > (double)end / 2 || a < (double)-end / 2 ? end : (int64_t)a + (int64_t)rnd_below(3) - 1;
    }
    case 3: return (int64_t)(((uint64_t)rnd() << 32 | rnd()) % ((uint64_t)end + 1));
    default:
        return (int64_t)((uint64_t)rnd() << 32 | rnd()) %
               ((int64_t)1 << rnd_below(end > INT32_MAX ? 62 : 31));
    }
}

static int32_t rnd_multiplier(void)
{
    switch (rnd_below(6)) {
    case 0: return 1 << 30;
    case 1: return INT32_MAX;
    case 2: return (1 << 30) + (1 << 29); /* three quarters: ties with a few shifts */
    default: return (int32_t)((rnd() & 0x3fffffff) | 0x40000000);
    }
}

/* floor(v * m / 2^s + 1/2) by division of 128-bit numbers, clamped. */
static int64_t requant_by_division(int64_t v, int32_t m, unsigned s, int64_t limit)
{
    const uint64_t twice = (uint64_t)2 << s;
    const bt_wide num =
        bt_wide_add(bt_wide_left(bt_wide_mul_signed(v, m), 1), bt_wide_left(bt_wide_of(1), s));
    const int below = bt_wide_high(num) >> 63 != 0;
    const bt_wide up = below ? bt_wide_add(bt_wide_negative(num), bt_wide_of(twice - 1)) : num;
    const int64_t y = (int64_t)bt_wide_clamp(bt_wide_div(up, twice), INT64_MAX);
    return y > limit ? below ? -limit : limit : below ? -y : y;
}

enum { REQUANT_WIDTH = 1000 };

static void requant_batch(const bt_kernels *v, int with_bias, size_t width)
{
    static const int16_t limits[] = {127, 32767, 32639, 1};
    const int16_t limit = limits[rnd_below(COUNT(limits))];
    int64_t *acc = bytes_new(width * sizeof *acc, 8), *bias = bytes_new(width * sizeof *bias, 8);
    int32_t *narrow = bytes_new(width * sizeof *narrow, 4), *m = bytes_new(width * sizeof *m, 4);
    uint8_t *s = bytes_new(width, 1);
    int16_t *y = bytes_new(width * sizeof *y, 2);
    for (size_t i = 0; i < width; i++) {
        m[i] = rnd_multiplier();
        s[i] = (uint8_t)(rnd() % 4 == 0 ? 1 + rnd_below(62) : 33 + rnd_below(12));
        narrow[i] = (int32_t)rnd_acc(INT32_MAX, m[i], s[i]);
        acc[i] = rnd_acc(((int64_t)1 << 61) - 1, m[i], s[i]);
        bias[i] = rnd() % 3 ? (int64_t)rnd_below(2000) - 1000 : rnd_acc(((int64_t)1 << 61) - 1, m[i], s[i]);
    }
    const int64_t *b = with_bias ? bias : NULL;
    v->int_requant32(y, width, narrow, width, b, m, s, limit, 1, width);
    for (size_t i = 0; i < width; i++)
        assert_int_equal(y[i], requant_by_division(narrow[i] + (b ? b[i] : 0), m[i], s[i], limit));
    v->int_requant64(y, width, acc, width, b, m, s, limit, 1, width);
    for (size_t i = 0; i < width; i++)
        assert_int_equal(y[i], requant_by_division(acc[i] + (b ? b[i] : 0), m[i], s[i], limit));
    free(acc), free(bias), free(narrow), free(m), free(s), free(y);
}

static void a_million_random_requantisations_equal_128_bit_division(const bt_kernels *v)
{
    for (int i = 0; i < 1000; i++) requant_batch(v, i % 2, REQUANT_WIDTH);
    for (size_t width = 1; width <= 40; width++) requant_batch(v, width % 3 == 0, width);
}
static void requantise_equals_128_bit_division_a_million_times(void **state)
{
    a_million_random_requantisations_equal_128_bit_division(variant_of(state));
}
static void ref_requantise_equals_128_bit_division_a_million_times(void **state)
{
    (void)state;
    a_million_random_requantisations_equal_128_bit_division(ref_kernels());
}

static void requantise_strides_over_rows_and_touches_nothing_between(void **state)
{
    const bt_kernels *v = variant_of(state);
    enum { T = 3, N = 21, LDY = 25, LDACC = 23 };
    int32_t *acc = bytes_new(((T - 1) * LDACC + N) * sizeof *acc, 4), m[N];
    int16_t *y = bytes_new(((T - 1) * LDY + N) * sizeof *y, 2),
            *want = bytes_new(((T - 1) * LDY + N) * sizeof *y, 2);
    uint8_t s[N];
    for (size_t i = 0; i < (T - 1) * LDACC + N; i++) acc[i] = (int32_t)rnd() >> 8;
    for (size_t i = 0; i < N; i++) m[i] = rnd_multiplier(), s[i] = (uint8_t)(40 + rnd_below(8));
    ref_kernels()->int_requant32(want, LDY, acc, LDACC, NULL, m, s, 127, T, N);
    v->int_requant32(y, LDY, acc, LDACC, NULL, m, s, 127, T, N);
    assert_memory_equal(y, want, ((T - 1) * LDY + N) * sizeof *y);
    free(acc), free(y), free(want);
}

static void shadow_equals_ref_and_adds_to_what_is_there(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t k = 1; k <= 70; k += 3)
        for (size_t n = 1; n <= 50; n += 7) {
            matrix m = matrix_new(n, k, 8, k % KINDS);
            const size_t count = rnd_below(k + 1), p0 = rnd_below(m.panels), width = (m.panels - p0) * 16;
            bt_int_shadow *list = bytes_new(count * sizeof *list, 4);
            for (size_t i = 0; i < count; i++) {
                list[i].k = (uint32_t)rnd_below(k);
                list[i].r = rnd() % 4 ? (int32_t)rnd() >> 8 : rnd() % 2 ? (1 << 24) - 1 : 1 - (1 << 24);
            }
            int64_t *acc = bytes_new(width * sizeof *acc, 8), *want = bytes_new(width * sizeof *acc, 8);
            for (size_t i = 0; i < width; i++) acc[i] = want[i] = (int64_t)((uint64_t)rnd() << 20);
            for (size_t i = 0; i < width; i++)
                for (size_t j = 0; j < count; j++)
                    if (16 * p0 + i < n)
                        want[i] += (int64_t)list[j].r * m.plain[(16 * p0 + i) * k + list[j].k];
            v->int_shadow(acc, list, count, (const int8_t *)m.packed, m.k4, p0, m.panels);
            assert_memory_equal(acc, want, width * sizeof *acc);
            free(list), free(acc), free(want);
            matrix_free(&m);
        }
}
static void ref_shadow_is_the_sum_of_products(void **state)
{
    (void)state;
    void *ref = (void *)(uintptr_t)ref_kernels();
    shadow_equals_ref_and_adds_to_what_is_there(&ref);
    unpacking_4_bits_gives_the_8_bit_panels(&ref);
    indices_become_the_numbers_of_their_palettes(&ref);
    planes_are_what_weights_in_groups_stand_for(&ref);
    planes_are_joined_exactly(&ref);
    short_shadows_are_part_of_the_product(&ref);
}

static void packed_weights_are_found_again_and_padding_is_zero(void **state)
{
    (void)state;
    for (unsigned bits = 4; bits <= 8; bits += 4)
        for (size_t n = 1; n <= 40; n += 3)
            for (size_t k = 1; k <= 20; k++) {
                matrix m = matrix_new(n, k, bits, RANDOM);
                for (size_t i = 0; i < m.panels * 16; i++)
                    for (size_t j = 0; j < m.k4 * 4; j++)
                        assert_int_equal(bt_int_packed_at(m.packed, i, j, k, bits),
                                         i < n && j < k ? m.plain[i * k + j] : 0);
                matrix_free(&m);
            }
    int8_t w[16 * 4];
    uint8_t packed[64] = {0};
    for (int i = 0; i < 64; i++) w[i] = (int8_t)i;
    bt_int_pack(packed, w, 0, 16, 4, 8); /* 16 outputs x 4 inputs: one 64-byte block in the order of the plain
                                            matrix */
    assert_memory_equal(packed, w, 64);
}

static void ref_product_is_the_sum_in_64_bits(void **state)
{
    (void)state;
    static const size_t inputs[] = {1, 3, 4, 5, 64, 100, 131071};
    for (size_t i = 0; i < COUNT(inputs); i++)
        for (int kind = 0; kind < KINDS; kind++) {
            enum { T = 2, N = 19 };
            const size_t k = inputs[i];
            matrix m = matrix_new(N, k, 8, kind);
            int8_t *x = inputs_new(T, 4 * m.k4, m.k4, kind);
            int32_t acc[T * 32];
            product(ref_kernels(), acc, NULL, 32, x, NULL, 4 * m.k4, &m, 0, T, 0);
            for (size_t t = 0; t < T; t++)
                for (size_t n = 0; n < 32; n++) {
                    int64_t want = 0;
                    for (size_t j = 0; n < N && j < k; j++) want += x[t * 4 * m.k4 + j] * m.plain[n * k + j];
                    assert_int_equal(acc[t * 32 + n], want);
                }
            free(x);
            matrix_free(&m);
        }
}

static void planes_of_16_bit_inputs_combine_to_the_product_in_64_bits(void **state)
{
    const bt_kernels *v = variant_of(state);
    enum { T = 5, N = 16, K = 1030, LD = 1032 };
    matrix m = matrix_new(N, K, 8, RANDOM);
    static int8_t hi[T * LD], lo[T * LD];
    static int32_t value[T * LD], acc_hi[T * N], acc_lo[T * N];
    for (size_t i = 0; i < T * LD; i++) {
        value[i] = rnd() % 5   ? (int32_t)rnd_below(2 * BT_INT_MAX16 + 1) - BT_INT_MAX16
                   : rnd() % 2 ? BT_INT_MAX16
                               : -BT_INT_MAX16;
        lo[i] = (int8_t)(value[i] & 0xff);
        hi[i] = (int8_t)((value[i] - lo[i]) / 256);
    }
    product(v, acc_hi, acc_lo, N, hi, lo, LD, &m, 0, T, 0);
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n++) {
            int64_t want = 0;
            for (size_t k = 0; k < K; k++) want += (int64_t)value[t * LD + k] * m.plain[n * K + k];
            assert_true(256 * (int64_t)acc_hi[t * N + n] + acc_lo[t * N + n] == want);
        }
    matrix_free(&m);
}

static void ref_scale_has_the_edges_of_its_definition(void **state)
{
    (void)state;
    assert_true(bt_int_scale1(1, 1, 1) == 1 && bt_int_scale1(-1, 1, 1) == 0); /* ties go up */
    assert_true(bt_int_scale1(3, 1, 1) == 2 && bt_int_scale1(-3, 1, 1) == -1);
    assert_true(bt_int_scale1(INT64_MIN, INT32_MAX, 126) == 0 && bt_int_scale1(5, 7, 0) == 35);
    assert_true(bt_int_scale1(INT64_MIN, 1, 0) == INT64_MIN && bt_int_scale1(INT64_MAX, 1, 0) == INT64_MAX);
    assert_true(bt_int_scale1(INT64_MAX, 2, 0) == INT64_MAX && bt_int_scale1(INT64_MIN, 2, 0) == INT64_MIN);
    assert_true(bt_int_scale1(INT32_MIN, 1 << 30, 30) == INT32_MIN && bt_int_scale1(123456, 0, 5) == 0);
}

/* A fully connected layer in the manner of TFLite: sum of (x - Zx) w plus bias, times a real multiplier given
 * as (m0, exponent), in our rounding mode. Its zero point is folded into the bias here, as a compiler does.
 */
static void hundred_random_layers_with_a_zero_point_equal_the_unfolded_layer(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (int layer = 0; layer < 100; layer++) {
        const size_t t = 1 + rnd_below(9), n = 1 + rnd_below(60), k = 1 + rnd_below(300);
        matrix mat = matrix_new(n, k, 8, RANDOM);
        const size_t ldx = 4 * mat.k4, width = mat.panels * 16;
        int8_t *x = inputs_new(t, ldx, mat.k4, RANDOM);
        const int32_t zero = (int32_t)rnd_below(256) - 128;
        int32_t *acc = bytes_new(t * width * sizeof *acc, 4), *m = bytes_new(n * sizeof *m, 4);
        int64_t *folded = bytes_new(n * sizeof *folded, 8);
        int32_t *bias = bytes_new(n * sizeof *bias, 4);
        uint8_t *s = bytes_new(n, 1);
        int16_t *y = bytes_new(t * n * sizeof *y, 2);
        for (size_t i = 0; i < n; i++) {
            int exponent; /* real multiplier = f * 2^exponent, f in [1/2, 1) */
            const double f = frexp((1 + (double)rnd_below(1000)) * 1e-6, &exponent);
            m[i] = (int32_t)llround(f * 0x1p31 * (1 - 0x1p-32)), s[i] = (uint8_t)(31 - exponent);
            bias[i] = (int32_t)rnd() >> 12;
            folded[i] = bias[i] - (int64_t)zero * mat.colsum[i];
        }
        product(v, acc, NULL, width, x, NULL, ldx, &mat, 0, t, 0);
        v->int_requant32(y, n, acc, width, folded, m, s, 127, t, n);
        for (size_t row = 0; row < t; row++)
            for (size_t i = 0; i < n; i++) {
                int64_t sum = bias[i];
                for (size_t j = 0; j < k; j++) sum += (x[row * ldx + j] - zero) * mat.plain[i * k + j];
                assert_int_equal(y[row * n + i], requant_by_division(sum, m[i], s[i], 127));
            }
        free(x), free(acc), free(m), free(folded), free(bias), free(s), free(y);
        matrix_free(&mat);
    }
}

int main(void)
{
    const struct CMUnitTest once[] = {
        cmocka_unit_test(packed_weights_are_found_again_and_padding_is_zero),
        cmocka_unit_test(ref_product_is_the_sum_in_64_bits),
        cmocka_unit_test(ref_shadow_is_the_sum_of_products),
        cmocka_unit_test(ref_requantise_equals_128_bit_division_a_million_times),
        cmocka_unit_test(ref_scale_has_the_edges_of_its_definition),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_equals_ref_for_every_number_of_rows_and_edge_of_a_panel),
        cmocka_unit_test(product_equals_ref_for_long_sums_at_the_extremes),
        cmocka_unit_test(short_shadows_are_part_of_the_product),
        cmocka_unit_test(planes_of_16_bit_inputs_combine_to_the_product_in_64_bits),
        cmocka_unit_test(unpacking_4_bits_gives_the_8_bit_panels),
        cmocka_unit_test(indices_become_the_numbers_of_their_palettes),
        cmocka_unit_test(planes_are_what_weights_in_groups_stand_for),
        cmocka_unit_test(planes_are_joined_exactly),
        cmocka_unit_test(shadow_equals_ref_and_adds_to_what_is_there),
        cmocka_unit_test(requantise_equals_128_bit_division_a_million_times),
        cmocka_unit_test(requantise_strides_over_rows_and_touches_nothing_between),
        cmocka_unit_test(hundred_random_layers_with_a_zero_point_equal_the_unfolded_layer),
    };
    return RUN_VARIANTS(tests, once);
}
