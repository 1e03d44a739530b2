/* The integer operators: bits of every variant against the plain one at every block edge, and attention
 * that no cut changes. */
#include "int_ops_kit.h"

static const size_t counts[] = {1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 33, 63, 64, 65, 172, 576};

static bt_int_mul rnd_mul(unsigned s0, unsigned span)
{
    return (bt_int_mul){(int32_t)(1u << 30 | rnd() >> 2), (uint32_t)(s0 + rnd_below(span))};
}

static void rmsnorm_equals_ref_and_works_in_place(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(counts); i++)
        for (size_t t = 0; t <= 3; t++) {
            const size_t k = counts[i], ld = k + i % 3, n = t ? (t - 1) * ld + k : 0;
            int32_t *x = wholes32(n, t == 2  ? 3
                                     : i % 2 ? BT_INT_MAX32
                                             : BT_INT_MAX_RESIDUAL),
                    *w = wholes32(k, INT32_MAX / 2), *want = copy_of(x, n * 4);
            int32_t *y = copy_of(x, n * 4), *same = copy_of(x, n * 4);
            if (t == 3) memset(x, 0, k * 4), memset(same, 0, k * 4);
            const unsigned f = (unsigned)rnd_below(33);
            const uint64_t keps = t == 3 ? 0 : rnd() >> rnd_below(32);
            const int32_t *wq = t == 1 && i % 2 ? NULL : w;
            ref_kernels()->int_rmsnorm32(want, ld, x, ld, wq, w[0], f, keps, t, k);
            v->int_rmsnorm32(y, ld, x, ld, wq, w[0], f, keps, t, k);
            v->int_rmsnorm32(same, ld, same, ld, wq, w[0], f, keps, t, k);
            assert_memory_equal(y, want, n * 4);
            assert_memory_equal(same, want, n * 4);
            free(x), free(w), free(want), free(y), free(same);
        }
}

static void headnorm_and_rope_equal_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t d = 2; d <= 80; d += 2)
        for (size_t r = 2; r <= d; r += d < 40 ? 2 : 14)
            for (int neox = 0; neox < 2; neox++) {
                const size_t n = 3 * d;
                int16_t *x = wholes16(n, BT_INT_MAX16), *want = copy_of(x, n * 2);
                int16_t *cos = wholes16(r / 2, 32767), *sin = wholes16(r / 2, 32767);
                int32_t *w = wholes32(d, INT32_MAX / 2);
                ref_kernels()->int_rope16(want, 3, d, r, cos, sin, neox);
                v->int_rope16(x, 3, d, r, cos, sin, neox);
                assert_memory_equal(x, want, n * 2);
                ref_kernels()->int_headnorm16(want, n, 3, w, 16, r, 1, d);
                v->int_headnorm16(x, n, 3, w, 16, r, 1, d);
                assert_memory_equal(x, want, n * 2);
                free(x), free(want), free(cos), free(sin), free(w);
            }
}

static void softmax_equals_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (int trial = 0; trial < 40; trial++)
        for (size_t i = 0; i < COUNT(counts); i++) {
            const size_t n = counts[i];
            int32_t *z = wholes32(n, 1 << rnd_below(31));
            int16_t *want = bytes_new(n * 2, 2), *e = bytes_new(n * 2, 2);
            const bt_int_mul m = rnd_mul(0, 63);
            assert_true(v->int_softmax16(e, z, n, m) == ref_kernels()->int_softmax16(want, z, n, m));
            assert_memory_equal(e, want, n * 2);
            free(z), free(want), free(e);
        }
}

static void exp_inside_softmax_equals_ref_over_the_whole_range(void **state)
{
    enum { N = 1 << 16 };
    const bt_kernels *v = variant_of(state);
    int32_t *z = bytes_new(N * 4, 4);
    int16_t *want = bytes_new(N * 2, 2), *e = bytes_new(N * 2, 2);
    for (int part = 0; part < 64; part++) {
        for (size_t i = 0; i < N; i++) z[i] = -(int32_t)(rnd() >> (2 + part % 24));
        z[0] = part % 2 ? 0 : 1 << 30; /* differences down to -2^31 + 1 */
        const bt_int_mul one = {1 << 30, 30};
        assert_true(v->int_softmax16(e, z, N, one) == ref_kernels()->int_softmax16(want, z, N, one));
        assert_memory_equal(e, want, N * 2);
    }
    free(z), free(want), free(e);
}

static void activations_equal_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (int trial = 0; trial < 40; trial++)
        for (size_t i = 0; i < COUNT(counts); i++) {
            const size_t n = counts[i];
            int16_t *g = wholes16(n, BT_INT_MAX16), *u = wholes16(n, BT_INT_MAX16);
            int32_t *want = bytes_new(n * 4, 4), *y = bytes_new(n * 4, 4);
            const bt_int_mul gate = rnd_mul(14, 20), out = rnd_mul(20, 28);
            ref_kernels()->int_silu_mul16(want, g, u, n, gate, out);
            v->int_silu_mul16(y, g, u, n, gate, out);
            assert_memory_equal(y, want, n * 4);
            ref_kernels()->int_gelu16(want, g, n, gate, out);
            v->int_gelu16(y, g, n, gate, out);
            assert_memory_equal(y, want, n * 4);
            ref_kernels()->int_gelu_mul16(want, g, u, n, gate, out);
            v->int_gelu_mul16(y, g, u, n, gate, out);
            assert_memory_equal(y, want, n * 4);
            free(g), free(u), free(want), free(y);
        }
}

static void add_equals_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (unsigned s = 0; s < 63; s++)
        for (size_t i = 0; i < COUNT(counts); i++) {
            const size_t n = counts[i];
            int32_t *x = wholes32(n, BT_INT_MAX_RESIDUAL), *want = copy_of(x, n * 4);
            int16_t *y = wholes16(n, BT_INT_MAX16);
            const bt_int_mul m = rnd_mul(s, 1);
            ref_kernels()->int_add32(want, y, n, m);
            v->int_add32(x, y, n, m);
            assert_memory_equal(x, want, n * 4);
            free(x), free(want), free(y);
        }
}

/* Also what the companion's quantisation gives for the same whole numbers. */
static void split_equals_ref_and_the_companions_quantisation(void **state)
{
    enum { T = 3 };
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int none = 0; none < 2; none++) {
            const size_t k = counts[i], ldx = k + i % 2, ldy = (k + 63) / 64 * 64, n = (T - 1) * ldx + k;
            const bt_int_range range =
                i % 4 ? bt_int_asymmetric((int)rnd_below(256) - 128) : BT_INT_SYMMETRIC;
            int32_t *x = wholes32(n, i % 3 ? 200 : BT_INT_MAX32);
            float *xf = floats_new(n);
            for (size_t j = 0; j < n; j++) xf[j] = (float)x[j];
            int8_t *a[3], *b[3];
            bt_int_shadow *list[3];
            uint32_t *count[3];
            for (int j = 0; j < 3; j++) {
                a[j] = bytes_new(T * ldy, 64), b[j] = bytes_new(T * ldy, 64);
                list[j] = bytes_new(T * k * sizeof **list, 8), count[j] = bytes_new(T * sizeof **count, 4);
            }
            ref_kernels()->int_split8(a[0], ldy, x, ldx, range, T, k, none ? NULL : list[0],
                                      none ? NULL : count[0]);
            v->int_split8(a[1], ldy, x, ldx, range, T, k, none ? NULL : list[1], none ? NULL : count[1]);
            v->quantise8(a[2], ldy, xf, ldx, 1.0f, range, T, k, none ? NULL : list[2],
                         none ? NULL : count[2]);
            for (int j = 1; j < 3; j++) {
                assert_memory_equal(a[j], a[0], T * ldy);
                assert_memory_equal(list[j], list[0], T * k * sizeof **list);
                assert_memory_equal(count[j], count[0], T * sizeof **count);
            }
            ref_kernels()->int_split16(a[0], b[0], ldy, x, ldx, T, k, none ? NULL : list[0],
                                       none ? NULL : count[0]);
            v->int_split16(a[1], b[1], ldy, x, ldx, T, k, none ? NULL : list[1], none ? NULL : count[1]);
            v->quantise16(a[2], b[2], ldy, xf, ldx, 1.0f, T, k, none ? NULL : list[2],
                          none ? NULL : count[2]);
            for (int j = 1; j < 3; j++) {
                assert_memory_equal(a[j], a[0], T * ldy);
                assert_memory_equal(b[j], b[0], T * ldy);
                assert_memory_equal(list[j], list[0], T * k * sizeof **list);
                assert_memory_equal(count[j], count[0], T * sizeof **count);
            }
            for (int j = 0; j < 3; j++) free(a[j]), free(b[j]), free(list[j]), free(count[j]);
            free(x), free(xf);
        }
}

static void from_f16_equals_ref_for_every_half(void **state)
{
    enum { N = 65536 };
    const bt_kernels *v = variant_of(state);
    uint16_t *h = bytes_new(N * 2, 2);
    int16_t *want = bytes_new(N * 2, 2), *y = bytes_new(N * 2, 2);
    for (size_t i = 0; i < N; i++) h[i] = (uint16_t)i;
    for (int shift = -16; shift <= 30; shift++) {
        ref_kernels()->int_from_f16(want, h, N, shift);
        v->int_from_f16(y, h, N, shift);
        assert_memory_equal(y, want, N * 2);
    }
    for (size_t i = 0; i < COUNT(counts); i++) {
        int16_t *part = bytes_new(counts[i] * 2, 2);
        v->int_from_f16(part, h + 20000, counts[i], 9);
        ref_kernels()->int_from_f16(want, h + 20000, counts[i], 9);
        assert_memory_equal(part, want, counts[i] * 2);
        free(part);
    }
    free(h), free(want), free(y);
}

static void from_q8_equals_ref_for_every_scale(void **state)
{
    enum { N = 203 };
    const bt_kernels *v = variant_of(state);
    int8_t *q = bytes_new(N, 1);
    int16_t *want = bytes_new(N * 2, 2), *y = bytes_new(N * 2, 2);
    for (size_t i = 0; i < N; i++) q[i] = (int8_t)(i < 2 ? (int)i * 255 - 128 : (int)rnd());
    for (uint32_t s = 0; s < 65536; s++) {
        if ((s & 0x7c00) == 0x7c00) continue;
        const int shift = (int)rnd_below(47) - 16;
        ref_kernels()->int_from_q8(want, q, (uint16_t)s, N, shift);
        v->int_from_q8(y, q, (uint16_t)s, N, shift);
        assert_memory_equal(y, want, N * 2);
    }
    free(q), free(want), free(y);
}

typedef struct attention {
    size_t t, pos0, heads, g, d, page_tokens;
} attention;

/* Rows [from, to) of the problem, written to their place in out. */
static void attend(const bt_kernels *v, const attention *a, const int_cache *c, int16_t *out,
                   const int16_t *q, size_t from, size_t to, const bt_int_attention_params *p)
{
    const size_t ld = a->heads * a->d;
    void *scratch = bytes_new(bt_int_attention_scratch_bytes(a->d, a->pos0 + to), 64);
    for (size_t g = 0; g < a->g; g++)
        v->int_attention16(out + from * ld, ld, q + from * ld, ld, &c->view, 1, to - from, a->pos0 + from,
                           a->heads, g, p, scratch);
    free(scratch);
}

static void attention_over(const bt_kernels *v, attention a, int_cache c)
{
    const size_t n = a.t * a.heads * a.d;
    int16_t *q = wholes16(n, BT_INT_MAX16), *want = bytes_new(n * 2, 2), *out = bytes_new(n * 2, 2);
    const size_t window = rnd_below(3) ? 1 + rnd_below(a.pos0 + a.t) : 0;
    const bt_int_attention_params p = {rnd_mul(24, 6), rnd_mul(29, 3), 13, 12, window};
    attend(ref_kernels(), &a, &c, want, q, 0, a.t, &p);
    attend(v, &a, &c, out, q, 0, a.t, &p);
    assert_memory_equal(out, want, n * 2);
    free(q), free(want), free(out), int_cache_free(&c);
}

static void attention_case(const bt_kernels *v, attention a)
{
    attention_over(v, a, int_cache_new(a.g, a.d, a.page_tokens, a.pos0 + a.t, 99, 4.0f));
    if (a.d % 2 == 0) attention_over(v, a, int_cache8_new(a.g, a.d, a.page_tokens, a.pos0 + a.t, 99, 4.0f));
}

static void attention_equals_ref(void **state)
{
    const bt_kernels *v = variant_of(state);
    static const size_t dims[] = {1, 2, 8, 15, 16, 17, 48, 64, 80, 256};
    for (size_t i = 0; i < COUNT(dims); i++)
        for (size_t group = 1; group <= 3; group += 2)
            attention_case(v, (attention){5, 60 + i, 2 * group, 2, dims[i], 16});
    static const size_t tokens[] = {0, 1, 62, 63, 64, 65, 127, 128, 200};
    for (size_t i = 0; i < COUNT(tokens); i++)
        for (size_t t = 1; t <= 33; t += 16) attention_case(v, (attention){t, tokens[i], 9, 3, 64, 64});
}

/* AC-g3: slices of any size, pages of any size. */
static void attention_is_the_same_however_queries_are_sliced_and_rows_are_paged(void **state)
{
    const bt_kernels *v = variant_of(state);
    const attention a = {40, 90, 6, 2, 32, 16};
    const size_t n = a.t * a.heads * a.d;
    int16_t *q = wholes16(n, 9000), *want = bytes_new(n * 2, 2), *out = bytes_new(n * 2, 2);
    const bt_int_attention_params p = {mul_of(5e3), mul_of(1.5), 12, 13, 50};
    for (size_t page = 16; page <= 256; page *= 4)
        for (size_t slice = 40; slice >= 1; slice = slice * 2 / 3) {
            int_cache c = int_cache_new(a.g, a.d, page, a.pos0 + a.t, 5, 2.0f);
            for (size_t i = 0; i < a.t; i += slice)
                attend(v, &a, &c, out, q, i, i + slice < a.t ? i + slice : a.t, &p);
            if (page == 16 && slice == 40) memcpy(want, out, n * 2);
            assert_memory_equal(out, want, n * 2);
            int_cache_free(&c);
        }
    free(q), free(want), free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_equals_ref_and_works_in_place),
        cmocka_unit_test(headnorm_and_rope_equal_ref),
        cmocka_unit_test(softmax_equals_ref),
        cmocka_unit_test(exp_inside_softmax_equals_ref_over_the_whole_range),
        cmocka_unit_test(activations_equal_ref),
        cmocka_unit_test(add_equals_ref),
        cmocka_unit_test(split_equals_ref_and_the_companions_quantisation),
        cmocka_unit_test(from_f16_equals_ref_for_every_half),
        cmocka_unit_test(from_q8_equals_ref_for_every_scale),
        cmocka_unit_test(attention_equals_ref),
        cmocka_unit_test(attention_is_the_same_however_queries_are_sliced_and_rows_are_paged),
    };
    const struct CMUnitTest once[1] = {{0}};
    return run_for_each_variant(__FILE__, tests, COUNT(tests), once, 0);
}
