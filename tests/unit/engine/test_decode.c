/* The engines of both nodes together: a sequence prefilled by one is carried on by the other. */
#include "engine/decode.h"
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const archs[] = {"llama", "qwen2", "qwen3"};

typedef struct pair {
    bt_prefill *pf;
    bt_decode *dc;
    bt_pool *pool;
    float *logits;
    size_t vocab;
} pair;

/* One row of one sequence. */
static bt_err step_one(bt_decode *e, const bt_kv_view *kv, int32_t token, size_t pos,
                       const atomic_bool *cancel, float *logits)
{
    const bt_decode_seq seq = {.kv = kv, .pos = pos, .tokens = &token, .count = 1, .out = 1};
    return bt_decode_step(e, &seq, 1, cancel, logits, NULL);
}

static pair begin(const bt_model *m, const char *engine, const char *isa, size_t threads)
{
    const bt_prefill_config pc = {.engine = engine, .isa = isa, .threads = threads};
    pair p = {.vocab = m->hp.vocab, .logits = malloc(m->hp.vocab * sizeof(float))};
    assert_non_null(p.logits);
    assert_int_equal(bt_pool_new(&p.pool, threads, NULL), BT_OK);
    const bt_decode_config dc = {.engine = engine, .isa = isa, .pool = p.pool};
    assert_int_equal(bt_prefill_new(&p.pf, m, &pc, NULL), BT_OK);
    assert_int_equal(bt_decode_new(&p.dc, m, &dc, NULL), BT_OK);
    assert_int_equal(bt_prefill_kv_elem_bytes(p.pf), bt_decode_kv_elem_bytes(p.dc));
    assert_int_equal(bt_decode_ctx_tokens(p.dc), m->hp.ctx);
    return p;
}

static void end(pair *p)
{
    bt_prefill_free(p->pf);
    bt_decode_free(p->dc);
    bt_pool_free(p->pool);
    free(p->logits);
}

static void prefill(pair *p, const bt_kv_view *kv, const int32_t *ids, size_t n)
{
    assert_int_equal(bt_prefill_run(p->pf, kv, ids, n, 0, NULL, p->logits, BT_PREFILL_LAST, NULL), BT_OK);
}

static void step(pair *p, const bt_kv_view *kv, int32_t token, size_t pos)
{
    assert_int_equal(step_one(p->dc, kv, token, pos, NULL, p->logits), BT_OK);
}

static void a_step_gives_the_bits_of_a_longer_prompt(void **state)
{
    (void)state;
    static const size_t lengths[] = {2, 17, 64, 65, 256, 257, 321};
    int32_t ids[321];
    for (size_t a = 0; a < 6; a++) {
        engine_kit kit = engine_kit_model(archs[a % 3]);
        pair p = begin(kit.model, a < 3 ? "host" : "reference", NULL, 2);
        const uint32_t elem = bt_prefill_kv_elem_bytes(p.pf);
        float *expected = malloc(p.vocab * sizeof *expected);
        assert_non_null(expected);
        engine_kit_ids(ids, 321, kit.model, 21);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const size_t n = lengths[i];
            bt_kv_view whole = engine_kit_pages(kit.model, n + 5, 64, elem);
            bt_kv_view parts = engine_kit_pages(kit.model, n + 5, 16, elem);
            prefill(&p, &whole, ids, n);
            memcpy(expected, p.logits, p.vocab * sizeof *expected);
            prefill(&p, &parts, ids, n - 1);
            step(&p, &parts, ids[n - 1], n - 1);
            assert_memory_equal(expected, p.logits, p.vocab * sizeof *expected);
            assert_true(engine_kit_hash(&whole, n) == engine_kit_hash(&parts, n));
            assert_true(engine_kit_untouched(&parts, n, n + 5));
            engine_kit_pages_free(&whole);
            engine_kit_pages_free(&parts);
        }
        free(expected);
        end(&p);
        engine_kit_done(&kit);
    }
}

static int32_t best(const float *logits, size_t n)
{
    size_t top = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[top]) top = i;
    return (int32_t)top;
}

/* Both engines get the host's tokens, so that a near tie cannot part them. */
static void host_and_reference_agree_along_a_sequence(void **state)
{
    (void)state;
    int32_t ids[40];
    for (size_t a = 0; a < 3; a++) {
        engine_kit kit = engine_kit_model(archs[a]);
        pair host = begin(kit.model, "host", NULL, 1), ref = begin(kit.model, "reference", NULL, 1);
        bt_kv_view h = engine_kit_pages(kit.model, 104, 8, 2), r = engine_kit_pages(kit.model, 104, 8, 4);
        engine_kit_ids(ids, 40, kit.model, 5);
        prefill(&host, &h, ids, 40);
        prefill(&ref, &r, ids, 40);
        for (size_t pos = 40; pos < 100; pos++) {
            float top = 0, worst = 0;
            for (size_t i = 0; i < host.vocab; i++) {
                top = fmaxf(top, fabsf(ref.logits[i]));
                worst = fmaxf(worst, fabsf(ref.logits[i] - host.logits[i]));
            }
            assert_true(worst <= 0.01f * top);
            const int32_t token = best(host.logits, host.vocab);
            step(&host, &h, token, pos);
            step(&ref, &r, token, pos);
        }
        engine_kit_pages_free(&h);
        engine_kit_pages_free(&r);
        end(&host);
        end(&ref);
        engine_kit_done(&kit);
    }
}

/* The greatest difference of logits along a sequence that both engines run from its first row, against the
 * greatest logit. */
static float worst_ratio(const tiny_gguf_spec *spec, const char *weights, uint32_t kv_elem_bytes)
{
    enum { N = 120 };
    bt_fault f = {""};
    engine_kit kit = engine_kit_of(spec);
    bt_model *m = kit.model;
    bt_decode *host, *ref;
    const bt_decode_config hc = {.weights = weights, .kv_elem_bytes = kv_elem_bytes},
                           rc = {.engine = "reference"};
    if (bt_decode_new(&host, m, &hc, &f) < 0 || bt_decode_new(&ref, m, &rc, &f) < 0) fail_msg("%s", f.text);
    assert_string_equal(bt_decode_weights(host), weights);
    assert_string_equal(bt_decode_weights(ref), "f32");
    bt_kv_view h = engine_kit_pages(m, N, 8, kv_elem_bytes), r = engine_kit_pages(m, N, 8, 4);
    const size_t vocab = m->hp.vocab;
    float *a = engine_kit_floats(vocab), *b = engine_kit_floats(vocab), worst = 0, top = 0;
    int32_t ids[N];
    engine_kit_ids(ids, N, m, 3);
    for (size_t pos = 0; pos < N; pos++) {
        assert_int_equal(step_one(host, &h, ids[pos], pos, NULL, a), BT_OK);
        assert_int_equal(step_one(ref, &r, ids[pos], pos, NULL, b), BT_OK);
        for (size_t i = 0; i < vocab; i++) {
            top = fmaxf(top, fabsf(b[i]));
            worst = fmaxf(worst, fabsf(a[i] - b[i]));
        }
    }
    assert_int_equal(bt_decode_stats_of(ref).kv_bytes_written,
                     (uint64_t)N * 2 * m->hp.layers * m->hp.kv_heads * m->hp.head_dim * 4);
    free(a);
    free(b);
    engine_kit_pages_free(&h);
    engine_kit_pages_free(&r);
    bt_decode_free(host);
    bt_decode_free(ref);
    engine_kit_done(&kit);
    return worst / top;
}

/* The file's type holds the values that the form can: what is left is rounding of K, V and of sums. And
 * then a form that loses. */
static void each_form_stays_near_the_reference(void **state)
{
    (void)state;
    enum { F16 = 1, Q4_1 = 3, Q8_0 = 8 };
    static const struct {
        const char *weights;
        uint32_t type;
        float f16_kv, int8_kv;
    } rows[] = {
        {"f16", F16, 0.002f, 0.03f}, {"int8", Q8_0, 0.002f, 0.03f}, {"fp4", Q4_1, 0.002f, 0.03f},
        {"int8", F16, 0.03f, 0.05f}, {"fp4", F16, 0.4f, 0.4f},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t a = 0; a < 3; a++) {
            tiny_gguf_spec s = tiny_gguf_default();
            s.arch = archs[a];
            s.type = rows[i].type;
            const float f16 = worst_ratio(&s, rows[i].weights, 2), int8 = worst_ratio(&s, rows[i].weights, 1);
            print_message("%s from type %u, %s: %.4f of the greatest logit with f16 KV, %.4f with int8\n",
                          rows[i].weights, rows[i].type, archs[a], (double)f16, (double)int8);
            assert_true(f16 <= rows[i].f16_kv && int8 <= rows[i].int8_kv);
        }
}

static void threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    int32_t ids[70];
    engine_kit kit = engine_kit_model("qwen3");
    engine_kit_ids(ids, 70, kit.model, 9);
    uint64_t hash = 0;
    float *expected = malloc(kit.model->hp.vocab * sizeof *expected);
    assert_non_null(expected);
    for (size_t k = 0; k < bt_kernels_table_len; k++)
        for (size_t threads = 1; threads <= 3; threads++) {
            if (!rows_usable(&bt_kernels_table[k])) continue;
            pair p = begin(kit.model, NULL, bt_kernels_table[k].isa, threads);
            assert_string_equal(bt_decode_isa(p.dc), bt_kernels_table[k].isa);
            bt_kv_view kv = engine_kit_pages(kit.model, 70, 32, 2);
            prefill(&p, &kv, ids, 7);
            for (size_t pos = 7; pos < 70; pos++) step(&p, &kv, ids[pos], pos);
            if (!hash) {
                hash = engine_kit_hash(&kv, 70);
                memcpy(expected, p.logits, p.vocab * sizeof *expected);
            }
            assert_true(engine_kit_hash(&kv, 70) == hash);
            assert_memory_equal(expected, p.logits, p.vocab * sizeof *expected);
            engine_kit_pages_free(&kv);
            end(&p);
        }
    free(expected);
    engine_kit_done(&kit);
}

static void count_rows(void *ud, uint32_t layer, size_t token_begin, size_t token_count)
{
    size_t *rows = ud;
    assert_true(layer < 3);
    assert_int_equal(token_begin, 0);
    *rows += token_count;
}

static void the_reference_tells_of_every_layer(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    pair p = begin(kit.model, "reference", NULL, 1);
    int32_t ids[30];
    size_t rows = 0;
    const bt_prefill_hooks hooks = {.on_kv = count_rows, .ud = &rows};
    bt_kv_view kv = engine_kit_pages(kit.model, 30, 4, 4);
    engine_kit_ids(ids, 30, kit.model, 2);
    assert_int_equal(bt_prefill_run(p.pf, &kv, ids, 30, 0, &hooks, p.logits, BT_PREFILL_LAST, NULL), BT_OK);
    assert_int_equal(rows, 3 * 30);
    assert_int_equal(bt_prefill_work(p.pf).rows, 30);
    assert_string_equal(bt_prefill_about(p.pf).name, "reference");
    engine_kit_pages_free(&kv);
    end(&p);
    engine_kit_done(&kit);
}

static void refuses_unknown_engines_and_wrong_views(void **state)
{
    (void)state;
    bt_fault f;
    engine_kit kit = engine_kit_model("llama");
    const bt_model *m = kit.model;
    bt_prefill *pf = NULL;
    bt_decode *dc = NULL;
    assert_int_equal(bt_prefill_new(&pf, m, &(bt_prefill_config){.engine = "gpu"}, &f), BT_EARG);
    assert_non_null(strstr(f.text, "gpu"));
    assert_int_equal(bt_decode_new(&dc, m, &(bt_decode_config){.engine = "gpu"}, &f), BT_EARG);
    assert_int_equal(bt_prefill_new(&pf, m, &(bt_prefill_config){.isa = "mmx"}, &f), BT_EARG);
    assert_non_null(strstr(f.text, "mmx"));
    assert_int_equal(bt_decode_new(&dc, m, &(bt_decode_config){.isa = "mmx"}, &f), BT_EARG);
    assert_int_equal(bt_prefill_new(&pf, m,
                                    &(bt_prefill_config){.engine = "host", .want.shape_policy = "pow3"}, &f),
                     BT_EARG);
    assert_int_equal(bt_prefill_new(&pf, m, &(bt_prefill_config){.ctx_tokens = 1025}, &f), BT_ELIMIT);
    assert_int_equal(bt_decode_new(&dc, m, &(bt_decode_config){.ctx_tokens = 1025}, &f), BT_ELIMIT);
    assert_true(strstr(f.text, "1025") && strstr(f.text, "1024"));
    assert_true(!pf && !dc);

    static const char *const engines[] = {"host", "reference"};
    for (size_t i = 0; i < 2; i++) {
        pair p = begin(m, engines[i], NULL, 1);
        bt_kv_view kv = engine_kit_pages(m, 8, 4, i ? 4 : 2), other = kv;
        const int32_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        other.elem_bytes = i ? 2 : 4;
        assert_int_equal(step_one(p.dc, &other, 1, 0, NULL, p.logits), BT_EARG);
        assert_int_equal(bt_prefill_run(p.pf, &other, ids, 4, 0, NULL, p.logits, BT_PREFILL_LAST, NULL),
                         BT_EARG);
        assert_int_equal(bt_prefill_run(p.pf, &kv, ids, 9, 0, NULL, p.logits, BT_PREFILL_LAST, NULL),
                         BT_EARG);
        assert_int_equal(step_one(p.dc, &kv, 1, 8, NULL, p.logits), BT_ELIMIT);
        assert_int_equal(step_one(p.dc, &kv, 384, 0, NULL, p.logits), BT_EARG);
        assert_int_equal(step_one(p.dc, &kv, -1, 0, NULL, p.logits), BT_EARG);
        const atomic_bool cancelled = true;
        assert_int_equal(step_one(p.dc, &kv, 1, 0, &cancelled, p.logits), BT_ECANCEL);
        engine_kit_pages_free(&kv);
        end(&p);
    }
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_gives_the_bits_of_a_longer_prompt),
        cmocka_unit_test(host_and_reference_agree_along_a_sequence),
        cmocka_unit_test(each_form_stays_near_the_reference),
        cmocka_unit_test(threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(the_reference_tells_of_every_layer),
        cmocka_unit_test(refuses_unknown_engines_and_wrong_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
