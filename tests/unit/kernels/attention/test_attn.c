/* Attention and the store of KV rows: bits of every variant against ref, ref against softmax in double
 * precision. */
#include "tests/helpers/slow.h"
#include "tests/unit/kernels/variants.h"

#include <math.h>

typedef struct cache {
    bt_kv_view view;
    uint8_t **pages;
    size_t count, page_bytes;
} cache;

/* Pages of exactly the bytes the view describes: [layer][K, V][token][head][dim]. */
static cache cache_new(size_t layers, size_t g, size_t d, size_t page_tokens, size_t tokens,
                       uint32_t elem_bytes)
{
    cache c = {.count = (tokens + page_tokens - 1) / page_tokens};
    bt_kv_view *v = &c.view;
    v->page_tokens = page_tokens, v->tokens_capacity = c.count * page_tokens;
    v->elem_bytes = elem_bytes, v->layers = (uint32_t)layers, v->kv_heads = (uint32_t)g,
    v->head_dim = (uint32_t)d;
    v->head_bytes = bt_kv_head_bytes(elem_bytes, d), v->token_bytes = g * v->head_bytes;
    v->plane_bytes = page_tokens * v->token_bytes, v->layer_bytes = 2 * v->plane_bytes;
    c.page_bytes = layers * v->layer_bytes;
    c.pages = bytes_new(c.count * sizeof *c.pages, 8);
    for (size_t i = 0; i < c.count; i++) c.pages[i] = bytes_new(c.page_bytes, 64);
    v->page = c.pages;
    return c;
}

static void cache_free(cache *c)
{
    for (size_t i = 0; i < c->count; i++) free(c->pages[i]);
    free(c->pages);
}

/* One problem of three has no window, one of three no cap of the scores, and one of two no sinks. */
static size_t window_rnd(size_t tokens) { return rnd_below(3) ? 1 + rnd_below(tokens + tokens / 8 + 1) : 0; }
static float cap_rnd(void) { return (float)rnd_below(3) * 1.5f; }

typedef struct problem {
    cache c;
    size_t t, pos0, heads, d, ldq, ldo, out_count;
    float *q, *k, *v, *want, *sinks; /* k, v [pos0 + t, G, D] as they were before rounding */
    bt_attn_rule rule;
} problem;

static problem problem_new(size_t t, size_t pos0, size_t heads, size_t g, size_t d, size_t page_tokens,
                           uint32_t elem_bytes)
{
    const size_t pad = rnd_below(2) * 5, tokens = pos0 + t;
    problem p = {.c = cache_new(2, g, d, page_tokens, tokens, elem_bytes),
                 .t = t,
                 .pos0 = pos0,
                 .heads = heads,
                 .d = d,
                 .ldq = heads * d + pad,
                 .ldo = heads * d + pad,
                 .rule = {1.0f / sqrtf((float)d), window_rnd(tokens), cap_rnd(), NULL}};
    p.q = floats_rnd((t - 1) * p.ldq + heads * d, 20);
    p.k = floats_rnd(tokens * g * d, 20);
    p.v = floats_rnd(tokens * g * d, 6e4f);
    bt_kernels_select("ref")->kv_store(&p.c.view, 1, 0, tokens, p.k, p.v, g * d);
    for (size_t i = 0; i < bt_attn_begin(&p.rule, pos0) * 2; i++) /* rows that nothing sees are no numbers */
        memset(bt_kv_view_row(&p.c.view, 1, i % 2, i / 2, 0), 0xff, p.c.view.token_bytes);
    p.sinks = floats_rnd(heads, 30);
    if (rnd_below(2)) p.rule.sinks = p.sinks;
    p.out_count = (t - 1) * p.ldo + heads * d;
    p.want = floats_new(p.out_count);
    void *scratch = bytes_new(bt_attn_scratch_bytes(d), 64);
    ref_kernels()->attn(p.want, p.ldo, p.q, p.ldq, &p.c.view, 1, t, pos0, heads, 0, heads, &p.rule, scratch);
    free(scratch);
    return p;
}

static void problem_free(problem *p)
{
    cache_free(&p->c);
    free(p->q), free(p->k), free(p->v), free(p->want), free(p->sinks);
}

static void same_bits(const bt_kernels *kernels, size_t t, size_t pos0, size_t heads, size_t g, size_t d,
                      size_t page_tokens, uint32_t elem_bytes)
{
    problem p = problem_new(t, pos0, heads, g, d, page_tokens, elem_bytes);
    float *out = floats_new(p.out_count);
    void *scratch = bytes_new(bt_attn_scratch_bytes(d), 64);
    kernels->attn(out, p.ldo, p.q, p.ldq, &p.c.view, 1, t, pos0, heads, 0, heads, &p.rule, scratch);
    if (memcmp(out, p.want, p.out_count * sizeof *out))
        fail_msg("%s differs at T %zu pos %zu H %zu G %zu D %zu page %zu", kernels->isa, t, pos0, heads, g, d,
                 page_tokens);
    free(out), free(scratch);
    problem_free(&p);
}

static const size_t pages[] = {16, 64, 256};

static void equals_ref_around_block_and_span_edges_for_each_head_dim(void **state)
{
    static const size_t dims[] = {1, 8, 15, 16, 17, 32, 48, 64, 80, 128, 200, 256};
    static const size_t positions[] = {0, 1, 62, 63, 64, 127, 254, 255, 256, 257, 511, 512};
    static const size_t groups[][2] = {{1, 1}, {3, 1}, {4, 2}, {8, 2}};
    const bt_kernels *v = variant_of(state);
    size_t turn = 0;
    for (size_t i = 0; i < COUNT(dims); i++)
        for (size_t j = 0; j < COUNT(positions); j++, turn++) {
            const size_t *hg = groups[turn % 4];
            same_bits(v, 1 + turn % 2, positions[j], hg[0], hg[1], dims[i], pages[turn % 3],
                      turn % 5 ? 2 : 4);
            if (dims[i] % 2 == 0)
                same_bits(v, 1 + turn % 2, positions[j], hg[0], hg[1], dims[i], pages[turn % 3], 1);
        }
}

static void equals_ref_for_many_rows_at_once(void **state)
{
    const bt_kernels *v = variant_of(state);
    same_bits(v, 17, 0, 3, 1, 64, 16, 2);
    same_bits(v, 33, 50, 9, 3, 64, 16, 2);
    same_bits(v, 70, 250, 2, 2, 32, 64, 2);
    same_bits(v, 16, 1000, 4, 1, 16, 256, 2);
    same_bits(v, 5, 600, 20, 1, 16, 64, 2);
    same_bits(v, 300, 0, 1, 1, 24, 64, 4);
    same_bits(v, 33, 50, 9, 3, 64, 16, 1);
    same_bits(v, 5, 600, 20, 1, 24, 64, 1);
}

static void gives_the_same_bits_however_heads_and_rows_are_split(void **state)
{
    const bt_kernels *v = variant_of(state);
    for (int round = 0; round < (slow_run() ? 7 : 20); round++) {
        static const size_t ratios[] = {1, 3, 4};
        const size_t g = 1 + rnd_below(3), heads = g * ratios[rnd_below(3)], d = 8 * (1 + rnd_below(10));
        problem p = problem_new(1 + rnd_below(30), rnd_below(300), heads, g, d, pages[rnd_below(3)], 2);
        float *out = floats_new(p.out_count);
        void *scratch = bytes_new(bt_attn_scratch_bytes(d), 64);
        for (size_t h0 = 0, h1; h0 < heads; h0 = h1) {
            h1 = h0 + 1 + rnd_below(heads - h0);
            for (size_t row = 0, rows; row < p.t; row += rows) {
                rows = 1 + rnd_below(p.t - row);
                v->attn(out + row * p.ldo, p.ldo, p.q + row * p.ldq, p.ldq, &p.c.view, 1, rows, p.pos0 + row,
                        heads, h0, h1, &p.rule, scratch);
            }
        }
        assert_memory_equal(out, p.want, p.out_count * sizeof *out);
        free(out), free(scratch);
        problem_free(&p);
    }
}

/* Spans in pieces, last piece first, then merged. */
static void spans_apart_and_then_merged_have_the_same_bits(void **state)
{
    static const size_t dims[] = {2, 16, 20, 64, 80, 256}, positions[] = {0, 255, 256, 700, 1300};
    const bt_kernels *v = variant_of(state);
    for (size_t i = 0; i < COUNT(dims); i++)
        for (size_t n = 0; n < COUNT(positions); n++) {
            const size_t g = 1 + n % 4, group = 1 + (i + n) % 8, heads = g * group, d = dims[i],
                         t = n % 2 ? 1 : 1 + rnd_below(12);
            const size_t floats = bt_attn_part_floats(d), spans = (positions[n] + t + 255) / 256;
            problem p = problem_new(t, positions[n], heads, g, d, 64, (i + n) % 3 ? 2 : 1);
            float *out = floats_new(p.out_count), *part = floats_new(t * heads * spans * floats);
            void *scratch = bytes_new(bt_attn_scratch_bytes(d), 64);
            memcpy(out, p.want, p.out_count * sizeof *out); /* between rows nothing is written */
            for (size_t row = 0; row < t; row++) memset(out + row * p.ldo, 0, heads * d * sizeof *out);
            for (size_t first = 0, some; first < g; first += some) {
                const size_t step = 1 + rnd_below(spans);
                some = 1 + rnd_below(g - first);
                for (size_t s0 = (spans - 1) / step * step + step; s0 > 0;) {
                    s0 -= step;
                    v->attn_span(part, spans, p.q, p.ldq, &p.c.view, 1, t, p.pos0, heads, first, first + some,
                                 s0, s0 + step < spans ? s0 + step : spans, &p.rule, scratch);
                }
            }
            for (size_t head = 0; head < g; head++) {
                bt_attn_rule rule = p.rule;
                if (rule.sinks) rule.sinks += head * group;
                v->attn_merge(out + head * group * d, p.ldo, part + head * t * group * spans * floats, spans,
                              t, p.pos0, group, d, &rule);
            }
            assert_memory_equal(out, p.want, p.out_count * sizeof *out);
            free(out), free(part), free(scratch);
            problem_free(&p);
        }
}

static void takes_scores_far_below_the_range_of_exp(void **state)
{
    const bt_kernels *v = variant_of(state);
    problem p = problem_new(3, 700, 3, 1, 64, 64, 2);
    p.rule = (bt_attn_rule){.scale = 50, .window = 703};
    for (size_t i = 0; i < 2 * 703; i++) /* also what a window has left out */
        memset(bt_kv_view_row(&p.c.view, 1, i % 2, i / 2, 0), 0x33, p.c.view.token_bytes);
    float *out = floats_new(p.out_count);
    void *scratch = bytes_new(bt_attn_scratch_bytes(64), 64);
    for (int high = 0; high < 2; high++) { /* one position takes all: the first, then the last */
        const size_t winner = high ? 700 : 0;
        uint16_t *k = (void *)bt_kv_view_row(&p.c.view, 1, 0, winner, 0);
        for (size_t i = 0; i < 64; i++) k[i] = bt_f32_to_f16_1(p.q[i] > 0 ? 6e4f : -6e4f);
        ref_kernels()->attn(p.want, p.ldo, p.q, p.ldq, &p.c.view, 1, 3, 700, 3, 0, 3, &p.rule, scratch);
        v->attn(out, p.ldo, p.q, p.ldq, &p.c.view, 1, 3, 700, 3, 0, 3, &p.rule, scratch);
        assert_memory_equal(out, p.want, p.out_count * sizeof *out);
    }
    for (size_t i = 0; i < p.out_count; i++) assert_true(p.want[i] == p.want[i]);
    free(out), free(scratch);
    problem_free(&p);
}

static void ref_agrees_with_softmax_in_double_precision(void **state)
{
    (void)state;
    for (int round = 0; round < (slow_run() ? 4 : 12); round++) {
        const size_t g = 1 + rnd_below(2), heads = 3 * g, d = 1 + rnd_below(70), t = 1 + rnd_below(4),
                     pos0 = rnd_below(600);
        problem p = problem_new(t, pos0, heads, g, d, 16, 2);
        for (size_t row = 0; row < t; row++)
            for (size_t h = 0; h < heads; h++) {
                const size_t visible = pos0 + row + 1, window = p.rule.window;
                double sum = p.rule.sinks ? exp((double)p.rule.sinks[h]) : 0, total[256] = {0},
                       size[256] = {0};
                for (size_t j = window && window < visible ? visible - window : 0; j < visible; j++) {
                    double z = 0;
                    for (size_t i = 0; i < d; i++)
                        z += (double)p.q[row * p.ldq + h * d + i] *
                             bt_f16_to_f32_1(bt_f32_to_f16_1(p.k[(j * g + h / 3) * d + i]));
                    z *= (double)p.rule.scale;
                    if (p.rule.cap > 0) z = tanh(z / (double)p.rule.cap) * (double)p.rule.cap;
                    const double e = exp(z);
                    sum += e;
                    for (size_t i = 0; i < d; i++) {
                        const double v = bt_f16_to_f32_1(bt_f32_to_f16_1(p.v[(j * g + h / 3) * d + i]));
                        total[i] += e * v, size[i] += e * fabs(v);
                    }
                }
                for (size_t i = 0; i < d; i++)
                    assert_true(fabs(p.want[row * p.ldo + h * d + i] - total[i] / sum) <=
                                size[i] / sum * 1e-4);
            }
        problem_free(&p);
    }
}

/* The values that a head of int8 must hold, from doubles: x / s is far from a tie unless it is one. */
static void check_head8(const uint8_t *got, const float *x, size_t d)
{
    double top = 0;
    for (size_t i = 0; i < d; i++) top = fmax(top, fabs((double)x[i]));
    uint16_t bits;
    memcpy(&bits, got + d, sizeof bits);
    assert_int_equal(bits, bt_f32_to_f16_1(fminf((float)top / 127.0f, 65504.0f)));
    const float s = bt_f16_to_f32_1(bits);
    for (size_t i = 0; i < d; i++) {
        const double q = s > 0 ? rint((double)(x[i] / s)) : 0;
        assert_int_equal((int8_t)got[i], (int)fmin(fmax(q, -127), 127));
    }
}

static void stores_rounded_rows_and_touches_nothing_else(void **state)
{
    (void)state;
    for (uint32_t elem_bytes = 1; elem_bytes <= 4; elem_bytes *= 2) {
        const size_t g = 3, d = 20, ld = g * d + 2, pos0 = 13, t = 40,
                     bytes = bt_kv_head_bytes(elem_bytes, d);
        cache c = cache_new(3, g, d, 16, 64, elem_bytes);
        float *k = floats_rnd((t - 1) * ld + g * d, 7e4f), *v = floats_rnd((t - 1) * ld + g * d, 7e4f);
        for (size_t i = 0; i < d; i++) k[ld + i] = 0;                    /* scale 0 */
        for (size_t i = 0; i < d; i++) k[2 * ld + i] = (float)i * 1e-8f; /* subnormal scale */
        for (size_t i = 0; i < d; i++) k[3 * ld + i] = (float)i - 9.5f;  /* ties of x / s among them */
        k[3 * ld] = 127, k[4 * ld] = -3e38f;                             /* scale 1; the greatest scale */
        bt_kernels_select("ref")->kv_store(&c.view, 1, pos0, t, k, v, ld);
        for (size_t row = 0; row < 3 * 2 * 64 * g; row++) {
            const size_t layer = row / (2 * 64 * g), is_v = row / (64 * g) % 2, token = row / g % 64,
                         head = row % g;
            const uint8_t *got =
                c.pages[token / 16] + ((layer * 2 + is_v) * 16 + token % 16) * g * bytes + head * bytes;
            if (layer != 1 || token < pos0 || token >= pos0 + t) {
                for (size_t b = 0; b < bytes; b++) assert_int_equal(got[b], 0x5a);
                continue;
            }
            const float *x = (is_v ? v : k) + (token - pos0) * ld + head * d;
            if (elem_bytes == 1) check_head8(got, x, d);
            for (size_t i = 0; i < d && elem_bytes > 1; i++) {
                const uint16_t h = bt_f32_to_f16_1(x[i]);
                assert_memory_equal(got + i * elem_bytes,
                                    elem_bytes == 4 ? (const void *)&x[i] : (const void *)&h, elem_bytes);
            }
        }
        free(k), free(v);
        cache_free(&c);
    }
}

static void int8_rows_are_within_half_a_step_and_keep_their_largest_element(void **state)
{
    (void)state;
    const size_t d = 64;
    cache c = cache_new(1, 1, d, 256, 256, 1);
    float *k = floats_new(256 * d);
    for (size_t i = 0; i < 256 * d; i++) k[i] = rnd_unit() * (float)(1 + i / d);
    bt_kernels_select("ref")->kv_store(&c.view, 0, 0, 256, k, k, d);
    for (size_t t = 0; t < 256; t++) {
        const uint8_t *row = bt_kv_view_row(&c.view, 0, 0, t, 0);
        uint16_t bits;
        memcpy(&bits, row + d, sizeof bits);
        const double s = (double)bt_f16_to_f32_1(bits);
        int top = 0;
        for (size_t i = 0; i < d; i++) {
            const int q = (int8_t)row[i];
            top = abs(q) > top ? abs(q) : top;
            /* clamped at 127: s may be 2^-11 short of max / 127 */
            assert_true(fabs(q * s - (double)k[t * d + i]) <= 0.5626 * s);
        }
        assert_true(top >= 126);
    }
    free(k);
    cache_free(&c);
}

int main(void)
{
    const struct CMUnitTest once[] = {
        cmocka_unit_test(ref_agrees_with_softmax_in_double_precision),
        cmocka_unit_test(stores_rounded_rows_and_touches_nothing_else),
        cmocka_unit_test(int8_rows_are_within_half_a_step_and_keep_their_largest_element),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_ref_around_block_and_span_edges_for_each_head_dim),
        cmocka_unit_test(equals_ref_for_many_rows_at_once),
        cmocka_unit_test(gives_the_same_bits_however_heads_and_rows_are_split),
        cmocka_unit_test(spans_apart_and_then_merged_have_the_same_bits),
        cmocka_unit_test(takes_scores_far_below_the_range_of_exp),
    };
    return RUN_VARIANTS(tests, once);
}
