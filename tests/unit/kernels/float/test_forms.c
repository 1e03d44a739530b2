/* The weight forms of decoding: their layout, what a code is worth (AC-k1, AC-k2), bits of every variant
 * against ref, ref against double precision. */
#include "tests/helpers/slow.h"
#include "tests/unit/kernels/variants.h"

#include <math.h>

/* In place of a group: the form MX. */
static const size_t MX = SIZE_MAX;
/* One matrix in a form, with the weights it stands for as doubles, and the size of the terms that the kernel
 * adds up for each. group 0: FP4. */
typedef struct problem {
    size_t t, n, k, group, ldx, ldy, y_count;
    uint8_t *wp;
    double *w, *size;
    float *x, *bias, *want;
} problem;

static double f16_value(uint16_t h) { return (double)bt_f16_to_f32_1(h); }

/* Any finite f16 of at most 2^(exponent - 15), subnormals and zero among them. */
static uint16_t rnd_f16(unsigned exponent)
{
    return (uint16_t)((rnd() & 0x83ff) | rnd_below(exponent) << 10);
}

static size_t panel_bytes(const problem *p)
{
    if (p->group == MX) return bt_form_panel_bytes(BT_FORM_MX, 32, p->k);
    return p->group ? bt_form_panel_bytes(BT_FORM_INT8, p->group, p->k)
                    : bt_form_panel_bytes(BT_FORM_FP4, 32, p->k);
}

/* d's lower byte is e. */
static void put_mx(problem *p, size_t o, size_t g, uint16_t d, const uint8_t *q)
{
    static const double number[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const size_t count = p->k - g * 32 < 32 ? p->k - g * 32 : 32;
    bt_form_mx_put(p->wp, p->k, o, g, (uint8_t)d, q, count);
    for (size_t i = 0; i < count; i++) {
        const size_t at = o * p->k + g * 32 + i;
        p->w[at] = ldexp(number[q[i] & 7], (int)(uint8_t)d - 127) * (q[i] & 8 ? -1 : 1);
        p->size[at] = fabs(p->w[at]);
    }
}

static void put_group(problem *p, size_t o, size_t g, uint16_t d, uint16_t m, const uint8_t *q)
{
    if (p->group == MX) {
        put_mx(p, o, g, d, q);
        return;
    }
    const size_t size = p->group ? p->group : 32, count = p->k - g * size < size ? p->k - g * size : size;
    if (p->group) bt_form_int8_put(p->wp, p->group, p->k, o, g, d, (const int8_t *)q, count);
    else bt_form_fp4_put(p->wp, p->k, o, g, d, m, q, count);
    for (size_t i = 0; i < count; i++) {
        const size_t at = o * p->k + g * size + i;
        p->w[at] = p->group ? f16_value(d) * (int8_t)q[i] : f16_value(d) * q[i] + f16_value(m);
        p->size[at] = p->group ? fabs(p->w[at]) : 48 * fabs(f16_value(d)) + fabs(f16_value(m));
    }
}

static void run(const bt_kernels *v, const problem *p, float *y, size_t row, size_t rows, size_t p0,
                size_t p1)
{
    y += row * p->ldy;
    const float *x = p->x + row * p->ldx;
    if (p->group == MX) {
        v->matmul_mx(y, p->ldy, x, p->ldx, p->wp, p->bias, rows, p->n, p->k, p0, p1);
        return;
    }
    if (p->group) {
        v->matmul8(y, p->ldy, x, p->ldx, p->wp, p->bias, rows, p->n, p->k, p->group, p0, p1);
        return;
    }
    float *scratch = bytes_new(bt_form_fp4_sums_bytes(rows, p->k), 64);
    v->fp4_sums(scratch, x, p->ldx, rows, p->k);
    v->matmul4(y, p->ldy, x, p->ldx, p->wp, p->bias, rows, p->n, p->k, p0, p1, scratch);
    free(scratch);
}

static problem problem_zero(size_t t, size_t n, size_t k, size_t group, size_t pad)
{
    problem p = {.t = t, .n = n, .k = k, .group = group, .ldx = k + pad, .ldy = n + pad};
    p.y_count = (t - 1) * p.ldy + n;
    const size_t bytes = bt_matmul_panels(n) * panel_bytes(&p);
    p.wp = bytes_new(bytes, 64);
    memset(p.wp, 0, bytes);
    p.w = calloc(n * k, sizeof *p.w), p.size = calloc(n * k, sizeof *p.size);
    return p;
}

static problem problem_new(size_t t, size_t n, size_t k, size_t group, size_t pad, int with_bias)
{
    problem p = problem_zero(t, n, k, group, pad);
    const size_t size = group && group != MX ? group : 32;
    uint8_t *q = bytes_new(size, 1);
    for (size_t o = 0; o < n; o++)
        for (size_t g = 0; g * size < k; g++) {
            for (size_t i = 0; i < size; i++) q[i] = (uint8_t)(rnd() & (group && group != MX ? 255 : 15));
            const uint16_t d = group == MX ? (uint16_t)rnd_below(160) : rnd_f16(31), m = rnd_f16(31);
            put_group(&p, o, g, d, m, q);
        }
    free(q);
    p.x = floats_rnd((t - 1) * p.ldx + k, 1e20f);
    p.bias = with_bias ? floats_rnd(n, 1e3f) : NULL;
    p.want = floats_new(p.y_count);
    run(ref_kernels(), &p, p.want, 0, t, 0, bt_matmul_panels(n));
    return p;
}

static void problem_free(problem *p)
{
    free(p->x), free(p->w), free(p->size), free(p->bias), free(p->wp), free(p->want);
}

/* ---- layout ---- */
static void a_panel_takes_the_bytes_that_the_header_says(void **state)
{
    (void)state;
    assert_int_equal(bt_form_panel_bytes(BT_FORM_F16, 0, 576), 576 * 32);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_FP4, 32, 576), 576 * 16 * 5 / 8);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_FP4, 32, 33), 640);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_INT8, 32, 576), 18 * 544);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_INT8, 32, 32), 576); /* 544, rounded up */
    assert_int_equal(bt_form_panel_bytes(BT_FORM_INT8, 32, 65), 1664);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_INT8, 576, 576), 32 + 16 * 576 + 32);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_INT8, 7, 7), 192);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_MX, 32, 128), 128 * 16 * 17 / 32);
    assert_int_equal(bt_form_panel_bytes(BT_FORM_MX, 32, 33), 576); /* 544, rounded up */
    assert_true(bt_form_fp4_sums_bytes(3, 65) >= 3 * 3 * sizeof(float));
    assert_int_equal(bt_form_fp4_sums_bytes(3, 65) % 64, 0);
}

static void every_weight_put_is_read_back_and_nothing_else_changes(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{5, 32, 0},   {16, 1, 0},   {17, 33, 0},    {45, 100, 0},
                                       {17, 33, 32}, {45, 96, 32}, {45, 100, 100}, {3, 33, 33},
                                       {16, 31, 32}, {5, 32, MX},  {17, 33, MX},   {45, 100, MX}};
    for (size_t s = 0; s < COUNT(shapes); s++) {
        problem p = problem_new(1, shapes[s][0], shapes[s][1], shapes[s][2], 0, 0);
        const bt_form form = p.group == MX ? BT_FORM_MX : p.group ? BT_FORM_INT8 : BT_FORM_FP4;
        for (size_t o = 0; o < p.n; o++)
            for (size_t i = 0; i < p.k; i++)
                assert_true(bt_form_value(p.wp, form, p.group, p.k, o, i) == (float)p.w[o * p.k + i]);
        for (size_t o = p.n; o < bt_matmul_panels(p.n) * 16; o++)
            for (size_t i = 0; i < p.k; i++)
                assert_true(bt_form_value(p.wp, form, p.group, p.k, o, i) == 0.0f);
        problem_free(&p);
    }
}

static void the_bytes_of_a_group_lie_where_the_header_says(void **state)
{
    (void)state;
    uint8_t *wp = calloc(1, bt_form_panel_bytes(BT_FORM_FP4, 32, 64)), q[32] = {0};
    q[21] = 0xd; /* 64 bytes of codes for inputs 16 .. 23; of these input 5 of output 6, in its high bits */
    bt_form_fp4_put(wp, 64, 6, 1, 0x3c00, 0xbc00, q, 32);
    for (size_t i = 0; i < 640; i++) {
        const unsigned want = i == 320 + 13                 ? 0x3c
                              : i == 320 + 32 + 13          ? 0xbc
                              : i == 320 + 64 + 2 * 64 + 21 ? 0xd0
                                                            : 0;
        assert_int_equal(wp[i], want);
    }
    free(wp);
    wp = calloc(1, bt_form_panel_bytes(BT_FORM_INT8, 32, 64));
    int8_t s[32] = {0};
    s[21] = -128;
    bt_form_int8_put(wp, 32, 64, 6, 1, 0x3c00, s, 32);
    for (size_t i = 0; i < 1088; i++)
        assert_int_equal(wp[i], i == 544 + 13 ? 0x3c : i == 544 + 32 + 21 * 16 + 6 ? 0x80 : 0);
    free(wp);
    wp = calloc(1, bt_form_panel_bytes(BT_FORM_MX, 32, 64));
    bt_form_mx_put(wp, 64, 6, 1, 0x7e, q, 32);
    for (size_t i = 0; i < 576; i++)
        assert_int_equal(wp[i], i == 256 + 2 * 64 + 21 ? 0xd0 : i == 512 + 16 + 6 ? 0x7e : 0);
    free(wp);
}

static void an_f16_weight_is_read_from_the_panels_of_matmul(void **state)
{
    (void)state;
    float *w = floats_rnd(20 * 7, 6e4f);
    uint16_t *wp = calloc(bt_matmul_packed_elems(20, 7), sizeof *wp);
    bt_matmul_pack(wp, w, 0, 20, 7);
    for (size_t o = 0; o < 20; o++)
        for (size_t i = 0; i < 7; i++)
            assert_true(bt_form_value((uint8_t *)wp, BT_FORM_F16, 0, 7, o, i) ==
                        bt_f16_to_f32_1(bt_f32_to_f16_1(w[o * 7 + i])));
    free(w), free(wp);
}

/* ---- what a code is worth ---- */
/* The products with the unit vectors of one group: y[t][n] is the weight of input t as the kernel sees it. */
static void run_units(const bt_kernels *v, problem *p)
{
    p->x = calloc(p->t * p->ldx, sizeof *p->x);
    for (size_t t = 0; t < p->t; t++) p->x[t * p->ldx + t] = 1.0f;
    p->want = floats_new(p->y_count);
    run(v, p, p->want, 0, p->t, 0, bt_matmul_panels(p->n));
}

static void check_codes(const bt_kernels *v) /* AC-k1 */
{
    problem p = problem_zero(32, 16, 32, 0, 0);
    for (size_t o = 0; o < 16; o++) {
        uint8_t q[32];
        for (size_t i = 0; i < 32; i++) q[i] = (uint8_t)((i + o) % 16);
        /* 16 d = 1, m - 16 d = 0: the weight is h */
        put_group(&p, o, 0, bt_f32_to_f16_1(0.0625f), 0x3c00, q);
    }
    run_units(v, &p);
    for (size_t i = 0; i < 32; i++)
        for (size_t o = 0; o < 16; o++) {
            const uint32_t code = (uint32_t)(i + o) % 16;
            uint32_t bits;
            memcpy(&bits, &p.want[i * p.ldy + o], sizeof bits);
            assert_int_equal(bits, 0x3F800000u | code << 19);
            assert_true(p.want[i * p.ldy + o] == 1.0f + 0.0625f * (float)code);
        }
    problem_free(&p);
}

/* Every code under every scale is the number of the format; what no float holds is infinite. */
static void check_mx(const bt_kernels *v)
{
    for (unsigned e = 0; e < 256; e++) {
        problem p = problem_zero(32, 16, 32, MX, 0);
        for (size_t o = 0; o < 16; o++) {
            uint8_t q[32];
            for (size_t i = 0; i < 16; i++) q[i] = (uint8_t)i, q[16 + i] = (uint8_t)(15 - i);
            put_group(&p, o, 0, (uint16_t)e, 0, q);
        }
        run_units(v, &p);
        for (size_t i = 0; i < 32; i++)
            for (size_t o = 0; o < 16; o++) {
                const float number = (float)p.w[o * 32 + i] + 0.0f; /* no -0 */
                const float read = bt_form_value(p.wp, BT_FORM_MX, 32, 32, o, i);
                assert_memory_equal(&p.want[i * p.ldy + o], &number, sizeof number);
                assert_memory_equal(&read, &number, sizeof read);
            }
        problem_free(&p);
    }
}

static double ulp_f16(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1.0, exponent < -13 ? -24 : exponent - 11);
}

static void check_groups(const bt_kernels *v) /* AC-k2 */
{
    for (int round = 0; round < 300; round++) {
        problem p = problem_zero(32, 16, 32, 0, 0);
        for (size_t o = 0; o < 16; o++) {
            uint8_t q[32];
            for (size_t i = 0; i < 32; i++) q[i] = (uint8_t)(i < 16 ? i : rnd_below(16));
            const uint16_t d = rnd_f16(round % 3 == 1 ? 27 : 31);
            uint16_t m = rnd_f16(31);                                                      /* like Q4_1 */
            if (round % 3 == 1) m = bt_f32_to_f16_1(-8.0f * bt_f16_to_f32_1(d));           /* Q4_0, exact */
            if (round % 3 == 2) m = bt_f32_to_f16_1(bt_f16_to_f32_1(d) * 16 * rnd_unit()); /* of one size */
            if ((m & 0x7c00) == 0x7c00) m = 0x7bff;
            put_group(&p, o, 0, d, m, q);
        }
        run_units(v, &p);
        for (size_t o = 0; o < 16; o++) {
            double largest = 0;
            for (size_t i = 0; i < 32; i++) largest = fmax(largest, fabs(p.w[o * 32 + i]));
            for (size_t i = 0; i < 32; i++)
                assert_true(fabs(p.want[i * p.ldy + o] - p.w[o * 32 + i]) <= ulp_f16(largest));
        }
        problem_free(&p);
    }
}

static void ref_decodes_the_16_codes_to_their_values(void **state)
{
    (void)state;
    check_codes(ref_kernels());
}
static void ref_decodes_groups_to_asymmetric_int4(void **state)
{
    (void)state;
    check_groups(ref_kernels());
}
static void ref_decodes_every_code_and_scale_of_mxfp4_exactly(void **state)
{
    (void)state;
    check_mx(ref_kernels());
}
static void decodes_the_16_codes_to_their_values(void **state) { check_codes(variant_of(state)); }
static void decodes_every_code_and_scale_of_mxfp4_exactly(void **state) { check_mx(variant_of(state)); }
static void decodes_groups_to_asymmetric_int4(void **state) { check_groups(variant_of(state)); }

static void ref_agrees_with_double_precision(void **state)
{
    (void)state;
    for (int round = 0; round < (slow_run() ? 20 : 60); round++) {
        const size_t k = 1 + rnd_below(200), groups[] = {0, 32, k, MX};
        problem p = problem_new(1 + rnd_below(5), 1 + rnd_below(40), k, groups[round % 4], 1, round / 4 & 1);
        for (size_t t = 0; t < p.t; t++)
            for (size_t o = 0; o < p.n; o++) {
                double sum = p.bias ? p.bias[o] : 0, size = fabs(sum);
                for (size_t i = 0; i < k; i++) {
                    const double b = p.x[t * p.ldx + i];
                    sum += p.w[o * k + i] * b, size += p.size[o * k + i] * fabs(b);
                }
                assert_true(fabs(p.want[t * p.ldy + o] - sum) <= size * (double)(k + 4) * 0x1p-23 + 1e-38);
            }
        problem_free(&p);
    }
}

/* ---- bits of the variants ---- */
static void same_bits(const bt_kernels *v, size_t t, size_t n, size_t k, size_t group)
{
    problem p = problem_new(t, n, k, group, rnd_below(2) * 3, (int)rnd_below(2));
    float *y = floats_new(p.y_count), *untouched = floats_new(p.y_count);
    run(v, &p, y, 0, t, 0, bt_matmul_panels(n));
    for (size_t row = 0; row < t; row++) {
        if (memcmp(y + row * p.ldy, p.want + row * p.ldy, n * sizeof *y))
            fail_msg("%s differs at T %zu (row %zu) N %zu K %zu group %zu", v->isa, t, row, n, k, group);
        if (row + 1 < t) assert_memory_equal(y + row * p.ldy + n, untouched, (p.ldy - n) * sizeof *y);
    }
    free(y), free(untouched);
    problem_free(&p);
}

static const size_t outputs[] = {1, 8, 15, 16, 17, 31, 32, 33, 64, 65, 130};
static const size_t inputs[] = {1, 2, 7, 8, 9, 31, 32, 33, 40, 63, 64, 65, 96, 100, 255, 256, 257, 300};

static void equals_ref_at_every_number_of_rows(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t t = 1; t <= 33; t++) {
        const size_t k = 1 + rnd_below(600), n = 1 + rnd_below(80);
        same_bits(v, t, n, k, 0), same_bits(v, t, n, k, 32), same_bits(v, t, n, k, k);
        same_bits(v, t, n, k, MX), same_bits(v, t, 80, 576, MX);
        same_bits(v, t, 80, 576, 0), same_bits(v, t, 80, 576, 32), same_bits(v, t, 80, 576, 576);
    }
}

static void equals_ref_around_every_edge_of_groups_and_panels(void **state)
{
    static const size_t rows[] = {1, 2, 3, 5, 8, 17};
    const bt_kernels *v = variant_of(state);
    for (size_t r = 0; r < COUNT(rows); r++)
        for (size_t i = 0; i < COUNT(inputs); i++)
            for (size_t o = 0; o < COUNT(outputs); o++) {
                same_bits(v, rows[r], outputs[o], inputs[i], 0);
                same_bits(v, rows[r], outputs[o], inputs[i], 32);
                same_bits(v, rows[r], outputs[o], inputs[i], inputs[i]);
                same_bits(v, rows[r], outputs[o], inputs[i], MX);
            }
}

static void gives_the_same_bits_however_rows_and_panels_are_split(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (int round = 0; round < (slow_run() ? 30 : 90); round++) {
        const size_t k = 1 + rnd_below(600), groups[] = {0, 32, k, MX};
        problem p =
            problem_new(1 + rnd_below(40), 1 + rnd_below(170), k, groups[round % 4], 5, round / 4 & 1);
        const size_t panels = bt_matmul_panels(p.n);
        float *y = floats_new(p.y_count);
        for (size_t row = 0, rows; row < p.t; row += rows) {
            rows = 1 + rnd_below(p.t - row);
            for (size_t p0 = 0, p1; p0 < panels; p0 = p1) {
                p1 = p0 + 1 + rnd_below(panels - p0);
                run(v, &p, y, row, rows, p0, p1);
            }
        }
        assert_memory_equal(y, p.want, p.y_count * sizeof *y);
        free(y);
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest once[] = {
        cmocka_unit_test(a_panel_takes_the_bytes_that_the_header_says),
        cmocka_unit_test(every_weight_put_is_read_back_and_nothing_else_changes),
        cmocka_unit_test(the_bytes_of_a_group_lie_where_the_header_says),
        cmocka_unit_test(an_f16_weight_is_read_from_the_panels_of_matmul),
        cmocka_unit_test(ref_decodes_the_16_codes_to_their_values),
        cmocka_unit_test(ref_decodes_groups_to_asymmetric_int4),
        cmocka_unit_test(ref_decodes_every_code_and_scale_of_mxfp4_exactly),
        cmocka_unit_test(ref_agrees_with_double_precision),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_the_16_codes_to_their_values),
        cmocka_unit_test(decodes_groups_to_asymmetric_int4),
        cmocka_unit_test(decodes_every_code_and_scale_of_mxfp4_exactly),
        cmocka_unit_test(equals_ref_at_every_number_of_rows),
        cmocka_unit_test(equals_ref_around_every_edge_of_groups_and_panels),
        cmocka_unit_test(gives_the_same_bits_however_rows_and_panels_are_split),
    };
    return RUN_VARIANTS(tests, once);
}
