/* Sparse attention: rows in 8 bits, the choice of the greatest, and attention over some positions. Bits of
 * every variant against ref; ref against definitions. */
#include "tests/unit/kernels/variants.h"

#include <math.h>

/* ---- rows in 8 bits ---- */

static float rnd_element(float scale)
{
    switch (rnd_below(40)) {
    case 0: return ((float)rnd_below(300) - 149.5f) * scale;
    case 1: return rnd_any(1e30f);
    case 2: return rnd() % 2 ? INFINITY : -INFINITY;
    case 3: return NAN;
    default: return rnd_unit() * 127 * scale;
    }
}

static void estimates_equal_ref(void **state)
{
    static const size_t widths[] = {1, 4, 15, 16, 20, 33, 64, 80, 128, 200, 256};
    const bt_kernels *v = variant_of(state);
    for (size_t round = 0; round < 200; round++) {
        const size_t k = widths[round % COUNT(widths)], t = 1 + rnd_below(5), ldx = k + rnd_below(3),
                     ldy = (k + 15) / 16 * 16 + 16 * rnd_below(3);
        const float scale =
            round % 7 ? 0.01f * (float)(1 + rnd_below(100)) : ldexpf(1, (int)rnd_below(200) - 100);
        float *x = floats_new((t - 1) * ldx + k);
        for (size_t i = 0; i < (t - 1) * ldx + k; i++)
            x[i] = round % 3 ? rnd_unit() * 90 * scale * (float)(1 + i / ldx) : rnd_element(scale);
        int8_t *y = bytes_new(t * ldy, 1), *want = bytes_new(t * ldy, 1);
        uint8_t *shift = bytes_new(t, 1), *want_shift = bytes_new(t, 1);
        v->estimate8(y, ldy, shift, x, ldx, scale, t, k);
        ref_kernels()->estimate8(want, ldy, want_shift, x, ldx, scale, t, k);
        assert_memory_equal(shift, want_shift, t);
        assert_memory_equal(y, want, t * ldy);
        free(x), free(y), free(want), free(shift), free(want_shift);
    }
}

static double error_of(const float *x, size_t k, double s)
{
    double sum = 0;
    for (size_t i = 0; i < k; i++) {
        const double q = fmin(fmax(rint(x[i] / s), -127), 127), r = x[i] - q * s;
        sum += r * r;
    }
    return sum;
}

/* For 1,000 rows of all sizes the unit chosen is never worse than any one unit would be. */
static void ref_takes_the_unit_with_the_least_error(void **state)
{
    enum { K = 64, ROWS = 1000 };
    size_t taken[3] = {0};
    (void)state;
    for (size_t row = 0; row < ROWS; row++) {
        float x[K];
        int8_t y[K];
        uint8_t shift;
        const float size = ldexpf(1, (int)rnd_below(5) - 2) * 127 * 0.03f;
        for (size_t i = 0; i < K; i++) x[i] = rnd_unit() * size;
        ref_kernels()->estimate8(y, K, &shift, x, K, 0.03f, 1, K);
        assert_in_range(shift, 0, 2);
        taken[shift]++;
        double sum = 0;
        const double unit = ldexp((double)0.03f, shift - 1);
        for (size_t i = 0; i < K; i++) sum += (x[i] - y[i] * unit) * (x[i] - y[i] * unit);
        for (int e = 0; e < 3; e++)
            assert_true(sum <= error_of(x, K, ldexp((double)0.03f, e - 1)) * (1 + 1e-5));
    }
    for (int e = 0; e < 3; e++) assert_true(taken[e] > ROWS / 20);
}

static void a_panel_is_that_of_the_compiler(void **state)
{
    (void)state;
    for (size_t k = 1; k < 70; k += 3)
        for (size_t rows = 1; rows <= 16; rows += 5) {
            const size_t k4 = bt_int_k4(k), ld = 4 * k4 + 16 * rnd_below(2);
            int8_t *q = bytes_new(rows * ld, 1), *wp = bytes_new(k4 * 64, 64), *want = bytes_new(k4 * 64, 64);
            int32_t colsum[16];
            memset(want, 0, k4 * 64);
            for (size_t n = 0; n < rows; n++) {
                for (size_t i = 0; i < 4 * k4; i++)
                    q[n * ld + i] = i < k ? (int8_t)(rnd_below(255) - 127) : 0;
                bt_int_pack((uint8_t *)want, q + n * ld, n, 1, k, 8);
            }
            bt_int_pack_panel(wp, colsum, q, ld, rows, k4);
            assert_memory_equal(wp, want, k4 * 64);
            for (size_t n = 0; n < 16; n++) {
                int32_t sum = 0;
                for (size_t i = 0; n < rows && i < k; i++) sum += q[n * ld + i];
                assert_int_equal(colsum[n], sum);
            }
            free(q), free(wp), free(want);
        }
}

/* ---- the greatest ---- */

enum { KINDS = 6 };
static int32_t rnd_score(size_t kind, size_t i)
{
    switch (kind) {
    case 0: return (int32_t)rnd_below(1u << 28) - (1 << 27);
    case 1: return (int32_t)rnd_below(9) - 4; /* ties everywhere */
    case 2: return 7;
    case 3: return (int32_t)i;
    case 4: return -(int32_t)i;
    default:
        return i % 170     ? (int32_t)rnd_below(100)
               : rnd() % 2 ? 1 << 28
                           : -(1 << 28); /* not as the samples say */
    }
}

typedef struct entry {
    int32_t v;
    uint32_t at;
} entry;
static int falling(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->v != y->v) return x->v > y->v ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* The list by sorting: in[i] is whether i is of the k greatest. */
static void check_choice(const uint32_t *at, size_t k, const int32_t *score, const uint8_t *shift, size_t n)
{
    entry *all = malloc(n * sizeof *all);
    for (size_t i = 0; i < n; i++) all[i] = (entry){score[i] * (1 << shift[i]), (uint32_t)i};
    qsort(all, n, sizeof *all, falling);
    uint8_t *in = calloc(n, 1);
    for (size_t i = 0; i < k; i++) in[all[i].at] = 1;
    for (size_t i = 0; i < k; i++) {
        assert_true(at[i] < n && in[at[i]]);
        if (i) assert_true(at[i] > at[i - 1]);
    }
    free(all), free(in);
}

static void choose_all(const bt_kernels *v)
{
    static const size_t sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000, 3001};
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t kind = 0; kind < KINDS; kind++)
            for (size_t turn = 0; turn < 4; turn++) {
                const size_t n = sizes[s], k = turn == 0   ? 1
                                               : turn == 1 ? n
                                               : turn == 2 ? (n + 4) / 5
                                                           : 1 + rnd_below(n);
                int32_t *score = bytes_new(n * sizeof *score, 4), *copy = bytes_new(n * sizeof *copy, 4),
                        *scratch = bytes_new(n * sizeof *scratch, 4);
                uint8_t *shift = bytes_new(n, 1);
                uint32_t *at = bytes_new((k + BT_TOPK_ROOM) * sizeof *at, 4);
                for (size_t i = 0; i < n; i++) {
                    score[i] = rnd_score(kind, i);
                    shift[i] = (uint8_t)(kind == 2 ? 1 : rnd_below(3));
                }
                memcpy(copy, score, n * sizeof *copy);
                v->int_topk(at, k, score, shift, n, scratch);
                check_choice(at, k, copy, shift, n);
                free(score), free(copy), free(scratch), free(shift), free(at);
            }
}
static void choice_is_that_of_a_sort(void **state) { choose_all(variant_of(state)); }
static void ref_choice_is_that_of_a_sort(void **state)
{
    (void)state;
    choose_all(ref_kernels());
}

/* ---- attention over some positions ---- */

enum { LAYERS = 2, LAYER = 1 };

typedef struct problem {
    bt_kv_view kv;
    uint8_t **page;
    size_t pages, tokens, d;
    float *q, scale;
} problem;

static problem problem_new(size_t tokens, size_t g, size_t d, size_t page_tokens, uint32_t elem_bytes)
{
    problem p = {.pages = (tokens + page_tokens - 1) / page_tokens, .tokens = tokens, .d = d,
                 .scale = 1.0f / sqrtf((float)d)};
    p.kv = (bt_kv_view){.page_tokens = page_tokens,
                        .tokens_capacity = p.pages * page_tokens,
                        .elem_bytes = elem_bytes,
                        .layers = LAYERS,
                        .kv_heads = (uint32_t)g,
                        .head_dim = (uint32_t)d,
                        .head_bytes = bt_kv_head_bytes(elem_bytes, d)};
    p.kv.token_bytes = g * p.kv.head_bytes, p.kv.plane_bytes = page_tokens * p.kv.token_bytes;
    p.kv.layer_bytes = 2 * p.kv.plane_bytes;
    p.page = bytes_new(p.pages * sizeof *p.page, 8);
    for (size_t i = 0; i < p.pages; i++) p.page[i] = bytes_new(LAYERS * p.kv.layer_bytes, 64);
    float *k = floats_rnd(tokens * g * d, 20), *v = floats_rnd(tokens * g * d, 6e4f);
    p.q = floats_rnd(g * d, 20);
    p.kv.page = p.page;
    ref_kernels()->kv_store(&p.kv, LAYER, 0, tokens, k, v, g * d);
    free(k), free(v);
    return p;
}

static void problem_free(problem *p)
{
    for (size_t i = 0; i < p->pages; i++) free(p->page[i]);
    free(p->page);
    free(p->q);
}

/* One of `every` positions, at least one. */
static size_t some_positions(uint32_t **ret, size_t tokens, size_t every)
{
    uint32_t *at = malloc(tokens * sizeof *at);
    size_t n = 0;
    for (size_t i = 0; i < tokens; i++)
        if (rnd_below(every) == 0) at[n++] = (uint32_t)i;
    if (!n) at[n++] = (uint32_t)rnd_below(tokens);
    *ret = bytes_new(n * sizeof *at, 4);
    memcpy(*ret, at, n * sizeof *at);
    free(at);
    return n;
}

static const size_t dims[] = {2, 8, 16, 20, 24, 64, 80, 128, 200, 256};
static const size_t lengths[] = {1, 15, 16, 64, 65, 256, 257, 511, 1030};

static void some_positions_have_the_bits_of_ref(void **state)
{
    static const size_t page_tokens[] = {16, 64, 256};
    const bt_kernels *v = variant_of(state);
    size_t turn = 0;
    for (size_t i = 0; i < COUNT(dims); i++)
        for (size_t n = 0; n < COUNT(lengths); n++, turn++) {
            static const uint32_t elems[] = {2, 1, 4};
            const size_t g = 1 + turn % 2;
            problem p = problem_new(lengths[n], g, dims[i], page_tokens[turn / 3 % 3], elems[turn % 3]);
            uint32_t *at;
            const size_t count = some_positions(&at, lengths[n], 1 + turn % 7 * 3);
            float *out = floats_new(dims[i]), *want = floats_new(dims[i]);
            void *scratch = bytes_new(bt_attn_scratch_bytes(dims[i]), 64);
            const float scale = turn % 11 ? p.scale : p.scale * 300;
            const bt_attn_list list = {at, count, 1, 1, NULL};
            ref_kernels()->attn_some(want, p.d, p.q + (g - 1) * p.d, p.d, &p.kv, LAYER, g - 1, &list, scale,
                                     scratch);
            v->attn_some(out, p.d, p.q + (g - 1) * p.d, p.d, &p.kv, LAYER, g - 1, &list, scale, scratch);
            assert_memory_equal(out, want, p.d * sizeof *out);
            free(out), free(want), free(at), free(scratch);
            problem_free(&p);
        }
}

/* Rows and heads that share a list: each pair has the bits that it has alone with its own part of the list, a
 * key that it does not take may be no number, and what lies between the rows stays. */
static void pairs_of_a_list_have_the_bits_of_each_alone(void **state)
{
    static const struct {
        size_t rows, width;
    } shapes[] = {{16, 3}, {1, 2}, {1, 48}, {2, 7}, {16, 1}, {4, 9}, {3, 5}, {8, 6}, {16, 2}};
    static const uint32_t elems[] = {2, 1, 4};
    const bt_kernels *v = *state ? variant_of(state) : ref_kernels();
    size_t turn = 0;
    for (size_t i = 0; i < COUNT(dims); i++)
        for (size_t n = 3; n < COUNT(lengths); n++, turn++) {
            const size_t d = dims[i], rows = shapes[turn % COUNT(shapes)].rows,
                         width = shapes[turn % COUNT(shapes)].width, ld = width * d + 3;
            problem p = problem_new(lengths[n], 2, d, 16, elems[turn % 3]);
            uint32_t *some, at[1030 + 16];
            size_t count = some_positions(&some, lengths[n] - rows + 1, 1 + turn % 5 * 2);
            memcpy(at, some, count * sizeof *at);
            for (size_t r = 1; r < rows; r++) at[count++] = (uint32_t)(lengths[n] - rows + r);
            if (rows > 1 && p.kv.elem_bytes == 2) /* the last row's own key */
                memset(bt_kv_view_row(&p.kv, LAYER, (int)(turn / 6 % 2), lengths[n] - 1, 1), 0x7e, 2 * d);
            float *q = floats_rnd(rows * ld, 20), *out = floats_new(rows * ld), *want = floats_new(rows * ld);
            void *scratch = bytes_new(bt_attn_scratch_bytes(d), 64);
            const float scale = turn % 11 ? p.scale : p.scale * 300;
            memset(out, 0x55, rows * ld * sizeof *out);
            memset(want, 0x55, rows * ld * sizeof *want);
            for (size_t r = 0; r < rows; r++)
                for (size_t h = 0; h < width; h++) {
                    const bt_attn_list alone = {at, count - (rows - 1 - r), 1, 1, NULL};
                    ref_kernels()->attn_some(want + r * ld + h * d, d, q + r * ld + h * d, d, &p.kv, LAYER, 1,
                                             &alone, scale, scratch);
                }
            v->attn_some(out, ld, q, ld, &p.kv, LAYER, 1, &(bt_attn_list){at, count, rows, width, NULL},
                         scale, scratch);
            if (memcmp(out, want, rows * ld * sizeof *out) != 0)
                fail_msg("d %zu, %zu of %zu, %zu rows of %zu", d, count, lengths[n], rows, width);
            free(q), free(out), free(want), free(some), free(scratch);
            problem_free(&p);
        }
}

/* Rows that take parts of a list by their bits: each has the bits of those alone, and what it does not take
 * may be no number, a key's or a value's. */
static void rows_that_take_parts_of_a_list_have_the_bits_of_each_alone(void **state)
{
    static const struct {
        size_t rows, width;
    } shapes[] = {{16, 3}, {1, 2}, {2, 1}, {8, 1}, {16, 1}, {5, 9}, {3, 5}, {8, 6}, {12, 2}};
    static const uint32_t elems[] = {2, 1, 4};
    const bt_kernels *v = *state ? variant_of(state) : ref_kernels();
    size_t turn = 0;
    for (size_t i = 0; i < COUNT(dims); i++)
        for (size_t n = 0; n < COUNT(lengths); n++, turn++) {
            const size_t d = dims[i], rows = shapes[turn % COUNT(shapes)].rows,
                         width = shapes[turn % COUNT(shapes)].width, ld = width * d + 3;
            problem p = problem_new(lengths[n], 2, d, 16, elems[turn % 3]);
            uint32_t *at, own[1030];
            const size_t count = some_positions(&at, lengths[n], 1 + turn % 5 * 2), bad = rnd_below(count);
            uint16_t *take = bytes_new(count * sizeof *take, 2);
            for (size_t k = 0; k < count; k++) /* some rows have nothing of most spans */
                take[k] = (uint16_t)(rnd() % 4 ? rnd_below(1u << rows) : 1u << rnd_below(rows));
            for (size_t r = 0; r < rows; r++) take[rnd_below(count)] |= (uint16_t)(1u << r);
            if (turn % 2 && p.kv.elem_bytes == 2) { /* in the first row's way alone */
                memset(bt_kv_view_row(&p.kv, LAYER, (int)(turn / 2 % 2), at[bad], 1), 0x7e, 2 * d);
                if (rows > 1 && count > 1 && take[bad] != 1) take[bad] &= (uint16_t)~1u;
            }
            for (size_t r = 0; r < rows; r++) take[(bad + 1) % count] |= (uint16_t)(count > 1 ? 1u << r : 0);
            float *q = floats_rnd(rows * ld, 20), *out = floats_new(rows * ld), *want = floats_new(rows * ld);
            void *scratch = bytes_new(bt_attn_scratch_bytes(d), 64);
            memset(out, 0x55, rows * ld * sizeof *out);
            memset(want, 0x55, rows * ld * sizeof *want);
            for (size_t r = 0; r < rows; r++) {
                size_t k = 0;
                for (size_t e = 0; e < count; e++)
                    if (take[e] >> r & 1) own[k++] = at[e];
                for (size_t h = 0; h < width; h++)
                    ref_kernels()->attn_some(want + r * ld + h * d, d, q + r * ld + h * d, d, &p.kv, LAYER, 1,
                                             &(bt_attn_list){own, k, 1, 1, NULL}, p.scale, scratch);
            }
            const bt_attn_list list = {at, count, rows, width, take};
            v->attn_some(out, ld, q, ld, &p.kv, LAYER, 1, &list, p.scale, scratch);
            if (memcmp(out, want, rows * ld * sizeof *out) != 0)
                fail_msg("d %zu, %zu of %zu, %zu rows of %zu", d, count, lengths[n], rows, width);
            free(q), free(out), free(want), free(at), free(take), free(scratch);
            problem_free(&p);
        }
}

/* The rounded product of a value and a weight may be -0. A value that the row does not take leaves even that.
 */
static void a_sum_of_minus_zero_stays_one(void **state)
{
    enum { D = 20, N = 3 };
    static const float keys[N] = {0, -85, 0}, values[N] = {0, -1e-20f, 1};
    const bt_kernels *v = *state ? variant_of(state) : ref_kernels();
    problem p = problem_new(N, 1, D, 16, 4);
    float q[2 * D] = {1}, out[2 * D];
    q[D] = 1;
    for (size_t i = 0; i < N; i++) {
        float k[D] = {keys[i]}, x[D];
        for (size_t e = 0; e < D; e++) x[e] = values[i];
        memcpy(bt_kv_view_row(&p.kv, LAYER, 0, i, 0), k, sizeof k);
        memcpy(bt_kv_view_row(&p.kv, LAYER, 1, i, 0), x, sizeof x);
    }
    void *scratch = bytes_new(bt_attn_scratch_bytes(D), 64);
    const bt_attn_list list = {(const uint32_t[]){0, 1, 2}, N, 2, 1, (const uint16_t[]){3, 3, 2}};
    v->attn_some(out, D, q, D, &p.kv, LAYER, 0, &list, 1, scratch);
    for (size_t e = 0; e < D; e++) {
        assert_true(out[e] == 0 && signbit(out[e]));
        assert_true(out[D + e] > 0);
    }
    free(scratch);
    problem_free(&p);
}

/* With nothing left out, sparse attention is attention. */
static void all_positions_have_the_bits_of_attention(void **state)
{
    const bt_kernels *v = *state ? variant_of(state) : ref_kernels();
    for (size_t i = 0; i < COUNT(dims); i++)
        for (size_t n = 0; n < COUNT(lengths); n++)
            for (uint32_t elem_bytes = 1; elem_bytes <= 4; elem_bytes *= 2) {
                problem p = problem_new(lengths[n], 1, dims[i], 64, elem_bytes);
                uint32_t *at;
                const size_t count = some_positions(&at, lengths[n], 1);
                assert_int_equal(count, lengths[n]);
                float *out = floats_new(dims[i]), *want = floats_new(dims[i]);
                void *scratch = bytes_new(bt_attn_scratch_bytes(dims[i]), 64);
                v->attn(want, p.d, p.q, p.d, &p.kv, LAYER, 1, lengths[n] - 1, 1, 0, 1,
                        &(bt_attn_rule){.scale = p.scale}, scratch);
                const bt_attn_list list = {at, count, 1, 1, NULL};
                v->attn_some(out, p.d, p.q, p.d, &p.kv, LAYER, 0, &list, p.scale, scratch);
                assert_memory_equal(out, want, p.d * sizeof *out);
                free(out), free(want), free(at), free(scratch);
                problem_free(&p);
            }
}

/* A row whose scores are no numbers is NaN as a whole; one that is left out harms nothing. */
static void a_key_that_is_left_out_takes_no_part(void **state)
{
    const bt_kernels *v = variant_of(state);
    problem p = problem_new(300, 1, 64, 64, 2);
    uint16_t *k = (void *)bt_kv_view_row(&p.kv, LAYER, 0, 100, 0),
             *w = (void *)bt_kv_view_row(&p.kv, LAYER, 1, 100, 0);
    for (size_t i = 0; i < 64; i++) k[i] = w[i] = 0x7e00; /* NaN */
    const uint32_t without[] = {3, 99, 101, 299}, with[] = {3, 99, 100, 299};
    float out[64], want[64];
    void *scratch = bytes_new(bt_attn_scratch_bytes(64), 64);
    const bt_attn_list lacks = {without, 4, 1, 1, NULL}, has = {with, 4, 1, 1, NULL};
    ref_kernels()->attn_some(want, 64, p.q, 64, &p.kv, LAYER, 0, &lacks, p.scale, scratch);
    v->attn_some(out, 64, p.q, 64, &p.kv, LAYER, 0, &lacks, p.scale, scratch);
    assert_memory_equal(out, want, sizeof out);
    for (size_t i = 0; i < 64; i++) assert_true(isfinite(out[i]));
    v->attn_some(out, 64, p.q, 64, &p.kv, LAYER, 0, &has, p.scale, scratch);
    for (size_t i = 0; i < 64; i++) assert_true(isnan(out[i]));
    free(scratch);
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_equal_ref),
        cmocka_unit_test(choice_is_that_of_a_sort),
        cmocka_unit_test(some_positions_have_the_bits_of_ref),
        cmocka_unit_test(pairs_of_a_list_have_the_bits_of_each_alone),
        cmocka_unit_test(rows_that_take_parts_of_a_list_have_the_bits_of_each_alone),
        cmocka_unit_test(a_sum_of_minus_zero_stays_one),
        cmocka_unit_test(all_positions_have_the_bits_of_attention),
        cmocka_unit_test(a_key_that_is_left_out_takes_no_part),
    };
    const struct CMUnitTest once[] = {
        cmocka_unit_test(ref_takes_the_unit_with_the_least_error),
        cmocka_unit_test(a_panel_is_that_of_the_compiler),
        cmocka_unit_test(ref_choice_is_that_of_a_sort),
        {"ref_pairs_of_a_list_have_the_bits_of_each_alone", pairs_of_a_list_have_the_bits_of_each_alone, NULL,
         NULL, NULL},
        {"ref_rows_that_take_parts_of_a_list_have_the_bits_of_each_alone",
         rows_that_take_parts_of_a_list_have_the_bits_of_each_alone, NULL, NULL, NULL},
        {"ref_a_sum_of_minus_zero_stays_one", a_sum_of_minus_zero_stays_one, NULL, NULL, NULL},
        {"ref_all_positions_have_the_bits_of_attention", all_positions_have_the_bits_of_attention, NULL, NULL,
         NULL},
    };
    return RUN_VARIANTS(tests, once);
}
