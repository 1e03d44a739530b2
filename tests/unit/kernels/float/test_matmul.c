/* The matrix product: bits of every variant against ref, ref against double precision, packing against its
 * formula. */
#include "tests/unit/kernels/variants.h"

#include <math.h>

typedef struct problem {
    size_t t, n, k, ldx, ldy, y_count;
    float *x, *w, *bias, *want;
    uint16_t *wp;
} problem;

static problem problem_new(size_t t, size_t n, size_t k, size_t pad, int with_bias)
{
    problem p = {.t = t, .n = n, .k = k, .ldx = k + pad, .ldy = n + pad};
    p.y_count = (t - 1) * p.ldy + n;
    p.x = floats_rnd((t - 1) * p.ldx + k, 1e20f);
    p.w = floats_rnd(n * k, 6e4f);
    p.bias = with_bias ? floats_rnd(n, 1e3f) : NULL;
    const size_t bytes = bt_matmul_packed_elems(n, k) * sizeof *p.wp;
    p.wp = bytes_new(bytes, 32);
    memset(p.wp, 0, bytes);
    bt_matmul_pack(p.wp, p.w, 0, n, k);
    p.want = floats_new(p.y_count);
    ref_kernels()->matmul(p.want, p.ldy, p.x, p.ldx, p.wp, p.bias, t, n, k, 0, bt_matmul_panels(n));
    return p;
}

static void problem_free(problem *p) { free(p->x), free(p->w), free(p->bias), free(p->wp), free(p->want); }

static void same_bits(const bt_kernels *v, size_t t, size_t n, size_t k)
{
    problem p = problem_new(t, n, k, rnd_below(2) * 3, (int)rnd_below(2));
    float *y = floats_new(p.y_count);
    v->matmul(y, p.ldy, p.x, p.ldx, p.wp, p.bias, t, n, k, 0, bt_matmul_panels(n));
    if (memcmp(y, p.want, p.y_count * sizeof *y))
        fail_msg("%s differs at T %zu N %zu K %zu", v->isa, t, n, k);
    free(y);
    problem_free(&p);
}

static const size_t edges[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 172};

static void equals_ref_around_every_block_edge(void **state)
{
    static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 16};
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(edges); i++)
        for (size_t j = 0; j < COUNT(edges); j++)
            for (size_t r = 0; r < COUNT(rows); r++) same_bits(v, rows[r], edges[i], edges[j]);
}

static void equals_ref_with_more_inputs_than_one_block(void **state)
{
    static const size_t rows[] = {1, 2, 6, 7, 11, 16, 25}, inputs[] = {255, 256, 257, 511, 512, 513, 576};
    const bt_kernels *v = variant_of(state);
    for (size_t r = 0; r < COUNT(rows); r++)
        for (size_t i = 0; i < COUNT(inputs); i++) {
            same_bits(v, rows[r], 33, inputs[i]);
            same_bits(v, rows[r], 64, inputs[i]);
        }
    same_bits(v, 16, 576, 576);
}

static void gives_the_same_bits_however_rows_and_panels_are_split(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (int round = 0; round < 60; round++) {
        problem p = problem_new(1 + rnd_below(20), 1 + rnd_below(170), 1 + rnd_below(600), 5, round & 1);
        const size_t panels = bt_matmul_panels(p.n);
        float *y = floats_new(p.y_count);
        for (size_t row = 0, rows; row < p.t; row += rows) {
            rows = 1 + rnd_below(p.t - row);
            for (size_t p0 = 0, p1; p0 < panels; p0 = p1) {
                p1 = p0 + 1 + rnd_below(panels - p0);
                v->matmul(y + row * p.ldy, p.ldy, p.x + row * p.ldx, p.ldx, p.wp, p.bias, rows, p.n, p.k, p0,
                          p1);
            }
        }
        assert_memory_equal(y, p.want, p.y_count * sizeof *y);
        free(y);
        problem_free(&p);
    }
}

static void ref_agrees_with_double_precision(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        problem p = problem_new(1 + rnd_below(5), 1 + rnd_below(40), 1 + rnd_below(300), 1, round & 1);
        for (size_t t = 0; t < p.t; t++)
            for (size_t o = 0; o < p.n; o++) {
                double sum = p.bias ? p.bias[o] : 0, size = fabs(sum);
                for (size_t i = 0; i < p.k; i++) {
                    const double a = bt_f16_to_f32_1(bt_f32_to_f16_1(p.w[o * p.k + i])),
                                 b = p.x[t * p.ldx + i];
                    sum += a * b, size += fabs(a * b);
                }
                assert_true(fabs(p.want[t * p.ldy + o] - sum) <= size * (double)(p.k + 1) * 0x1p-24 + 1e-40);
            }
        problem_free(&p);
    }
}

static void packs_slices_into_panels_and_leaves_padding_zero(void **state)
{
    (void)state;
    const size_t n = 45, k = 7, count = bt_matmul_packed_elems(n, k);
    float *w = floats_rnd(n * k, 6e4f);
    uint16_t *wp = calloc(count, sizeof *wp);
    assert_int_equal(count, 3 * 16 * 7);
    for (size_t row = 0, rows; row < n; row += rows) {
        rows = 1 + rnd_below(n - row);
        bt_matmul_pack(wp, w + row * k, row, rows, k);
    }
    for (size_t o = 0; o < 48; o++)
        for (size_t i = 0; i < k; i++)
            assert_int_equal(wp[(o / 16 * k + i) * 16 + o % 16], o < n ? bt_f32_to_f16_1(w[o * k + i]) : 0);
    free(w);
    free(wp);
}

int main(void)
{
    const struct CMUnitTest once[] = {
        cmocka_unit_test(ref_agrees_with_double_precision),
        cmocka_unit_test(packs_slices_into_panels_and_leaves_padding_zero),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_ref_around_every_block_edge),
        cmocka_unit_test(equals_ref_with_more_inputs_than_one_block),
        cmocka_unit_test(gives_the_same_bits_however_rows_and_panels_are_split),
    };
    return RUN_VARIANTS(tests, once);
}
