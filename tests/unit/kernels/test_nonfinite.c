/* Infinities and NaN in the float kernels: every variant has the bits of ref, but for which NaN a NaN is; and
 * in attention a row is NaN as a whole where its scores are not finite. */
#include "variants.h"

#include <math.h>

/* Numbers, and every so often one that is none, or that overflows with the next. */
static float rnd_odd(size_t every)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, -NAN, 3e38f, -3e38f, 65504, -1e30f};
    return rnd_below(every) ? rnd_any(30) : odd[rnd_below(COUNT(odd))];
}

static float *odd_new(size_t count, size_t every)
{
    float *x = floats_new(count);
    for (size_t i = 0; i < count; i++) x[i] = rnd_odd(every);
    return x;
}

/* Returns how many are NaN. */
static size_t same(const float *got, const float *want, size_t count, const char *what)
{
    size_t nans = 0;
    for (size_t i = 0; i < count; i++) {
        nans += isnan(want[i]) != 0;
        if (isnan(got[i]) && isnan(want[i])) continue;
        if (memcmp(&got[i], &want[i], sizeof *got))
            fail_msg("%s: element %zu of %zu is %a, ref has %a", what, i, count, (double)got[i],
                     (double)want[i]);
    }
    return nans;
}

static const size_t widths[] = {1, 7, 16, 17, 40, 64, 96, 172};

static void row_kernels_have_the_nans_of_ref(void **state)
{
    const bt_kernels *v = variant_of(state), *ref = ref_kernels();
    size_t nans = 0;
    for (int round = 0; round < 60; round++) {
        const size_t n = widths[rnd_below(COUNT(widths))], half = n / 2;
        float *x = odd_new(n, 9), *w = odd_new(n, 30), *want = floats_copy(w, n), *got = floats_copy(w, n);
        ref->rmsnorm(want, n, x, n, w, 1e-5f, 1, n), v->rmsnorm(got, n, x, n, w, 1e-5f, 1, n);
        nans += same(got, want, n, "rmsnorm");
        memcpy(want, w, n * sizeof *w), memcpy(got, w, n * sizeof *w);
        ref->add(want, x, n), v->add(got, x, n);
        nans += same(got, want, n, "add");
        ref->silu_mul(want, x, w, n), v->silu_mul(got, x, w, n);
        nans += same(got, want, n, "silu_mul");
        ref->clamp_mul(want, x, w, n), v->clamp_mul(got, x, w, n);
        nans += same(got, want, n, "clamp_mul");
        ref->gelu(want, x, n), v->gelu(got, x, n);
        nans += same(got, want, n, "gelu");
        memcpy(want, x, n * sizeof *x), memcpy(got, x, n * sizeof *x);
        ref->soft_cap(want, 3, n), v->soft_cap(got, 3, n);
        nans += same(got, want, n, "soft_cap");
        ref->layernorm(want, half, x, half, w, 1e-5f, 1, half),
            v->layernorm(got, half, x, half, w, 1e-5f, 1, half);
        nans += same(got, want, half, "layernorm");
        memcpy(want, x, n * sizeof *x), memcpy(got, x, n * sizeof *x);
        for (int neox = 0; half && neox < 2; neox++) {
            ref->rope(want, 1, n, 2 * half, w, w, neox), v->rope(got, 1, n, 2 * half, w, w, neox);
            nans += same(got, want, n, "rope");
        }
        free(x), free(w), free(want), free(got);
    }
    assert_true(nans > 100);
}

static void products_have_the_nans_of_ref(void **state)
{
    const bt_kernels *v = variant_of(state), *ref = ref_kernels();
    size_t nans = 0;
    for (int round = 0; round < 40; round++) {
        const size_t n = 1 + rnd_below(40), k = 32 * (1 + rnd_below(3)), t = 1 + rnd_below(9);
        const size_t panels = bt_matmul_panels(n), bytes = bt_form_panel_bytes(BT_FORM_INT8, 32, k),
                     bytes4 = bt_form_panel_bytes(BT_FORM_FP4, 32, k),
                     bytes_mx = bt_form_panel_bytes(BT_FORM_MX, 32, k);
        float *x = odd_new(t * k, 200), *w = floats_rnd(n * k, 2), *bias = odd_new(n, 20);
        float *want = floats_new(t * n), *got = floats_new(t * n);
        uint16_t *wp = bytes_new(bt_matmul_packed_elems(n, k) * sizeof *wp, 64);
        uint8_t *w8 = bytes_new(panels * bytes, 64), *w4 = bytes_new(panels * bytes4, 64),
                *wx = bytes_new(panels * bytes_mx, 64);
        float *xs = bytes_new(bt_form_fp4_sums_bytes(t, k), 64),
              *xs_ref = bytes_new(bt_form_fp4_sums_bytes(t, k), 64);
        memset(wp, 0, bt_matmul_packed_elems(n, k) * sizeof *wp);
        memset(w8, 0, panels * bytes), memset(w4, 0, panels * bytes4);
        memset(wx, 0, panels * bytes_mx);
        bt_matmul_pack(wp, w, 0, n, k);
        for (size_t o = 0; o < n; o++)
            for (size_t g = 0; g < k / 32; g++) {
                uint8_t code[32];
                for (size_t i = 0; i < 32; i++) code[i] = (uint8_t)rnd();
                bt_form_int8_put(w8, 32, k, o, g, bt_f32_to_f16_1(rnd_unit()), (const int8_t *)code, 32);
                for (size_t i = 0; i < 32; i++) code[i] &= 15;
                bt_form_mx_put(wx, k, o, g, (uint8_t)(100 + rnd_below(60)), code, 32);
                bt_form_fp4_put(w4, k, o, g, bt_f32_to_f16_1(rnd_unit()), bt_f32_to_f16_1(rnd_unit()), code,
                                32);
            }
        ref->matmul(want, n, x, k, wp, bias, t, n, k, 0, panels),
            v->matmul(got, n, x, k, wp, bias, t, n, k, 0, panels);
        nans += same(got, want, t * n, "matmul");
        ref->matmul8(want, n, x, k, w8, bias, t, n, k, 32, 0, panels);
        v->matmul8(got, n, x, k, w8, bias, t, n, k, 32, 0, panels);
        nans += same(got, want, t * n, "matmul8");
        ref->fp4_sums(xs_ref, x, k, t, k), v->fp4_sums(xs, x, k, t, k);
        nans += same(xs, xs_ref, t * (k / 32), "fp4_sums");
        ref->matmul4(want, n, x, k, w4, bias, t, n, k, 0, panels, xs_ref);
        v->matmul4(got, n, x, k, w4, bias, t, n, k, 0, panels, xs);
        nans += same(got, want, t * n, "matmul4");
        ref->matmul_mx(want, n, x, k, wx, bias, t, n, k, 0, panels);
        v->matmul_mx(got, n, x, k, wx, bias, t, n, k, 0, panels);
        nans += same(got, want, t * n, "matmul_mx");
        free(wx), free(x), free(w), free(bias), free(want), free(got), free(wp), free(w8), free(w4), free(xs),
            free(xs_ref);
    }
    assert_true(nans > 100);
}

static void the_border_has_the_nans_of_ref(void **state)
{
    const bt_kernels *v = variant_of(state), *ref = ref_kernels();
    static const int8_t h3[9] = {1, 1, 1, 1, -1, 1, 1, 1, -1};
    size_t nans = 0;
    for (int round = 0; round < 60; round++) {
        const size_t n = 3 * widths[rnd_below(COUNT(widths))];
        float *scale = odd_new(n, 20), *bias = odd_new(n, 20), *y = odd_new(n, 9);
        float *want = floats_new(n), *got = floats_new(n), *scratch = floats_new(768);
        int32_t *a = bytes_new(n * sizeof *a, 4), *b = bytes_new(n * sizeof *b, 4);
        int64_t *wide = bytes_new(n * sizeof *wide, 8);
        for (size_t i = 0; i < n; i++)
            a[i] = (int32_t)rnd() >> rnd_below(31), b[i] = (int32_t)rnd_below(1000),
            wide[i] = (int64_t)a[i] * (1 << 20);
        for (int then = BT_EDGE_STORE; then <= BT_EDGE_SILU_MUL; then++) {
            memcpy(want, y, n * sizeof *y), memcpy(got, y, n * sizeof *y);
            ref->scale8(want, n, a, n, scale, bias, 1, n, (bt_edge_then)then);
            v->scale8(got, n, a, n, scale, bias, 1, n, (bt_edge_then)then);
            nans += same(got, want, n, "scale8");
            memcpy(want, y, n * sizeof *y), memcpy(got, y, n * sizeof *y);
            ref->scale16(want, n, a, b, n, scale, bias, 1, n, (bt_edge_then)then);
            v->scale16(got, n, a, b, n, scale, bias, 1, n, (bt_edge_then)then);
            nans += same(got, want, n, "scale16");
            memcpy(want, y, n * sizeof *y), memcpy(got, y, n * sizeof *y);
            ref->scale64(want, n, wide, n, scale, bias, 1, n, (bt_edge_then)then);
            v->scale64(got, n, wide, n, scale, bias, 1, n, (bt_edge_then)then);
            nans += same(got, want, n, "scale64");
        }
        const size_t log2 = rnd_below(7), block = (size_t)3 << log2;
        float *x = odd_new(2 * block, 40), *same_x = floats_copy(x, 2 * block);
        ref->rotate(x, 2 * block, 1, 2, h3, 3, (uint32_t)log2, NULL, 0.5f, scratch);
        v->rotate(same_x, 2 * block, 1, 2, h3, 3, (uint32_t)log2, NULL, 0.5f, scratch);
        nans += same(same_x, x, 2 * block, "rotate");
        free(scale), free(bias), free(y), free(want), free(got), free(scratch), free(a), free(b), free(wide);
        free(x), free(same_x);
    }
    assert_true(nans > 100);
}

/* ---- attention ---- */

enum { PAGE = 64, PAGES = 14, GROUP = 3 };

typedef struct problem {
    bt_kv_view view;
    uint8_t *page[PAGES];
    size_t d, t, pos0, heads;
    bt_attn_rule rule;
    float *q, *want, *got, *sinks;
    void *scratch;
} problem;

/* One problem of two has a window, one of two sinks. */
static void problem_new(problem *p, size_t d, size_t t, size_t pos0, uint32_t elem_bytes)
{
    const size_t g = 2, head = bt_kv_head_bytes(elem_bytes, d), plane = PAGE * g * head, tokens = pos0 + t;
    *p = (problem){.d = d, .t = t, .pos0 = pos0, .heads = g * GROUP,
                   .rule = {.scale = 0.25f, .window = rnd_below(2) ? 1 + rnd_below(tokens) : 0}};
    for (size_t i = 0; i < PAGES; i++) memset(p->page[i] = bytes_new(2 * plane, 64), 0xff, 2 * plane);
    p->view = (bt_kv_view){
        .page = p->page,          .page_tokens = PAGE,      .tokens_capacity = (size_t)PAGE * PAGES,
        .layer_bytes = 2 * plane, .plane_bytes = plane,     .token_bytes = g * head,
        .head_bytes = head,       .elem_bytes = elem_bytes, .layers = 1,
        .kv_heads = (uint32_t)g,  .head_dim = (uint32_t)d};
    float *k = floats_rnd(tokens * g * d, 20), *v = floats_rnd(tokens * g * d, 20);
    ref_kernels()->kv_store(&p->view, 0, 0, tokens, k, v, g * d);
    free(k), free(v);
    p->q = floats_rnd(t * p->heads * d, 20);
    p->sinks = floats_rnd(p->heads, 30);
    if (rnd_below(2)) p->rule.sinks = p->sinks;
    p->want = floats_new(t * p->heads * d), p->got = floats_new(t * p->heads * d);
    p->scratch = bytes_new(bt_attn_scratch_bytes(d), 64);
}

static void problem_free(problem *p)
{
    for (size_t i = 0; i < PAGES; i++) free(p->page[i]);
    free(p->q), free(p->want), free(p->got), free(p->sinks), free(p->scratch);
}

/* The part of a stored row that may be no number: in f16 and f32 an element, in int8 the scale. */
static void plant(problem *p, int is_v, size_t token, size_t g, float x)
{
    uint8_t *row = bt_kv_view_row(&p->view, 0, is_v, token, g);
    const size_t at = rnd_below(p->d);
    const uint16_t h = bt_f32_to_f16_1(x);
    if (p->view.elem_bytes == 4) memcpy(row + 4 * at, &x, 4);
    else memcpy(row + (p->view.elem_bytes == 2 ? 2 * at : p->d), &h, 2);
}

static void attend_ref(problem *p)
{
    ref_kernels()->attn(p->want, p->heads * p->d, p->q, p->heads * p->d, &p->view, 0, p->t, p->pos0, p->heads,
                        0, p->heads, &p->rule, p->scratch);
}

/* Whole, and in spans that are merged. */
static size_t attend_and_compare(problem *p, const bt_kernels *v)
{
    const size_t ld = p->heads * p->d, spans = (p->pos0 + p->t + 255) / 256,
                 floats = bt_attn_part_floats(p->d);
    float *part = floats_new(p->t * p->heads * spans * floats);
    attend_ref(p);
    v->attn(p->got, ld, p->q, ld, &p->view, 0, p->t, p->pos0, p->heads, 0, p->heads, &p->rule, p->scratch);
    const size_t nans = same(p->got, p->want, p->t * ld, "attention");
    v->attn_span(part, spans, p->q, ld, &p->view, 0, p->t, p->pos0, p->heads, 0, 2, 0, spans, &p->rule,
                 p->scratch);
    for (size_t g = 0; g < 2; g++) {
        bt_attn_rule rule = p->rule;
        if (rule.sinks) rule.sinks += g * GROUP;
        v->attn_merge(p->got + g * GROUP * p->d, ld, part + g * p->t * GROUP * spans * floats, spans, p->t,
                      p->pos0, GROUP, p->d, &rule);
    }
    (void)same(p->got, p->want, p->t * ld, "attention in spans");
    free(part);
    return nans;
}

static void attention_has_the_nans_of_ref(void **state)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, -NAN, 65504, -65504};
    static const size_t dims[] = {2, 16, 20, 64, 128}, rows[] = {1, 1, 3, 9, 40};
    const bt_kernels *v = variant_of(state);
    size_t nans = 0, numbers = 0;
    for (int round = 0; round < 60; round++) {
        problem p;
        const size_t d = dims[rnd_below(COUNT(dims))], t = rows[rnd_below(COUNT(rows))];
        problem_new(&p, d, t, rnd_below(800), (uint32_t)1 << rnd_below(3));
        for (size_t n = rnd_below(4); n > 0; n--)
            plant(&p, rnd() % 2, rnd_below(p.pos0 + t), rnd() % 2, odd[rnd_below(COUNT(odd))]);
        for (size_t n = rnd_below(3); n > 0; n--) p.q[rnd_below(t * p.heads * d)] = rnd_odd(1);
        const size_t n = attend_and_compare(&p, v);
        nans += n, numbers += t * p.heads * d - n;
        problem_free(&p);
    }
    assert_true(nans > 1000 && numbers > 1000);
}

/* Sparse attention, over every position or one of a few. */
static void attention_over_some_positions_has_the_nans_of_ref(void **state)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN, -NAN, 65504, -65504};
    static const size_t dims[] = {2, 16, 20, 64, 128};
    const bt_kernels *v = variant_of(state);
    size_t nans = 0, numbers = 0;
    for (int round = 0; round < 60; round++) {
        problem p;
        uint32_t at[PAGE * PAGES];
        const size_t d = dims[rnd_below(COUNT(dims))], pos = rnd_below(800), every = 1 + rnd_below(6);
        problem_new(&p, d, 1, pos, (uint32_t)1 << rnd_below(3));
        for (size_t n = rnd_below(5); n > 0; n--)
            plant(&p, rnd() % 2, rnd_below(pos + 1), rnd() % 2, odd[rnd_below(COUNT(odd))]);
        if (round % 4 == 0) p.q[rnd_below(p.heads * d)] = rnd_odd(1);
        size_t count = 0;
        for (size_t i = 0; i < pos; i++)
            if (rnd_below(every) == 0) at[count++] = (uint32_t)i;
        at[count++] = (uint32_t)pos;
        const bt_attn_list list = {at, count, 1, round % 2 ? GROUP : 1, NULL}; /* heads that share it, or each
                                                                                * alone
                                                                                */
        for (size_t h = 0; h < p.heads; h += list.width) {
            ref_kernels()->attn_some(p.want + h * d, p.heads * d, p.q + h * d, p.heads * d, &p.view, 0,
                                     h / GROUP, &list, 0.25f, p.scratch);
            v->attn_some(p.got + h * d, p.heads * d, p.q + h * d, p.heads * d, &p.view, 0, h / GROUP, &list,
                         0.25f, p.scratch);
        }
        const size_t n = same(p.got, p.want, p.heads * d, "attention over some positions");
        nans += n, numbers += p.heads * d - n;
        problem_free(&p);
    }
    assert_true(nans > 1000 && numbers > 1000);
}

/* K alone: it makes a score of its kv head's queries NaN or infinite from its position on, and so their rows,
 * with sinks and without. */
static void a_row_is_nan_as_a_whole_from_the_position_of_such_a_key_on(void **state)
{
    static const float odd[] = {INFINITY, NAN};
    (void)state;
    for (size_t round = 0; round < 40; round++) {
        problem p;
        problem_new(&p, 20, 30, 40 * (round % 8), 2 + 2 * (uint32_t)(round / 8 % 2));
        const size_t at = p.pos0 + rnd_below(30), g = rnd() % 2;
        p.rule.window = 0;
        p.rule.sinks = round / 2 % 2 ? p.sinks : NULL;
        for (size_t i = 0; i < p.t * p.heads * p.d; i++)
            p.q[i] += p.q[i] == 0 ? 1 : 0; /* inf * 0 would be NaN too */
        for (size_t i = 0; i < p.d; i++) {
            float x = odd[round % 2];
            const uint16_t h = bt_f32_to_f16_1(x);
            uint8_t *row = bt_kv_view_row(&p.view, 0, 0, at, g);
            for (size_t r = 0; r < p.t; r++) /* the score of every query is +inf, or NaN */
                for (size_t head = 0; head < GROUP; head++) {
                    float *q = &p.q[(r * p.heads + g * GROUP + head) * p.d + i];
                    *q = fabsf(*q);
                }
            if (p.view.elem_bytes == 4) memcpy(row + 4 * i, &x, 4);
            else memcpy(row + 2 * i, &h, 2);
        }
        attend_ref(&p);
        for (size_t i = 0; i < p.t * p.heads * p.d; i++) {
            const size_t row = i / (p.heads * p.d), head = i / p.d % p.heads;
            assert_int_equal(isnan(p.want[i]) != 0, head / GROUP == g && p.pos0 + row >= at);
        }
        problem_free(&p);
    }
}

/* Without a sink nothing is left; a sink takes the whole share, and has no value. */
static void a_row_whose_scores_are_all_minus_infinity_is_nan_or_with_a_sink_zero(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (size_t round = 0; round < 40; round++) {
        problem p;
        problem_new(&p, 20, 1 + rnd_below(30), 40 * (round % 8), 2 + 2 * (uint32_t)(round / 8 % 2));
        const float x = -INFINITY;
        const uint16_t h = bt_f32_to_f16_1(x);
        for (size_t i = 0; i < p.t * p.heads * p.d; i++) p.q[i] = fabsf(p.q[i]) + 1;
        for (size_t at = 0; at < p.pos0 + p.t; at++) {
            uint8_t *row = bt_kv_view_row(&p.view, 0, 0, at, 0);
            if (p.view.elem_bytes == 4) memcpy(row, &x, 4);
            else memcpy(row, &h, 2);
        }
        (void)attend_and_compare(&p, v);
        for (size_t i = 0; i < p.t * p.heads * p.d; i++) {
            const bool is_first = i / p.d % p.heads < GROUP; /* of the kv heads */
            if (is_first && p.rule.sinks) assert_true(p.want[i] == 0);
            else assert_int_equal(isnan(p.want[i]) != 0, is_first);
        }
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest once[] = {
        cmocka_unit_test(a_row_is_nan_as_a_whole_from_the_position_of_such_a_key_on),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_kernels_have_the_nans_of_ref),
        cmocka_unit_test(products_have_the_nans_of_ref),
        cmocka_unit_test(the_border_has_the_nans_of_ref),
        cmocka_unit_test(attention_has_the_nans_of_ref),
        cmocka_unit_test(a_row_whose_scores_are_all_minus_infinity_is_nan_or_with_a_sink_zero),
        cmocka_unit_test(attention_over_some_positions_has_the_nans_of_ref),
    };
    return RUN_VARIANTS(tests, once);
}
