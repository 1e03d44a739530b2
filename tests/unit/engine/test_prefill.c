/* The prefill engine: one result for every chunking, thread count and instruction set; hooks and limits. */
#include "engine/decode.h"
#include "engine/prefill.h"
#include "ref/ref.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 1024, N = 330, PAGE = 16 }; /* two spans of attention, an odd tail */
static const char *const archs[] = {"llama", "qwen2", "qwen3"};

typedef struct world {
    engine_kit kit;
    int32_t ids[N];
    size_t vocab;
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.ids, N, w.kit.model, 11);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}

static void end(world *w) { engine_kit_done(&w->kit); }

static bt_prefill *engine(const world *w, const char *policy, const char *isa, bt_pool *pool,
                          uint32_t elem_bytes)
{
    const bt_prefill_config c = {
        .engine = "host",  .want.shape_policy = policy, .isa = isa, .pool = pool, .threads = 1,
        .ctx_tokens = CTX, .kv_elem_bytes = elem_bytes};
    bt_prefill *p = NULL;
    assert_int_equal(bt_prefill_new(&p, w->kit.model, &c, NULL), BT_OK);
    return p;
}

static void chunks_threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:16", "chunk:64",    "chunk:256", "chunk:256+tail",
                                           "pow2",     "range:5-300", "chunk:100"};
    bt_pool *pool[2] = {NULL, NULL};
    assert_int_equal(bt_pool_new(&pool[1], 2, NULL), BT_OK);
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        float *first[2] = {engine_kit_floats(w.vocab), engine_kit_floats(w.vocab)},
              *logits = engine_kit_floats(w.vocab);
        uint64_t hash[2] = {0};
        for (size_t k = 0; k < bt_kernels_table_len; k++) {
            if (!rows_usable(&bt_kernels_table[k])) continue;
            /* The plain kernels are slow: one policy for each architecture. */
            const int is_ref = k == bt_kernels_table_len - 1;
            const size_t from = is_ref ? a : 0, to = is_ref ? a + 1 : sizeof policies / sizeof *policies;
            for (size_t i = from; i < to; i++) {
                for (uint32_t elem = 0; elem < 2; elem++) { /* int8 and f16 */
                    bt_prefill *p =
                        engine(&w, policies[i], bt_kernels_table[k].isa, pool[(i + a) % 2], elem + 1);
                    bt_kv_view kv = engine_kit_pages(w.kit.model, N + 40, PAGE, elem + 1);
                    const uint64_t compiled = bt_prefill_work(p).compilations;
                    assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                                     BT_OK);
                    if (!hash[elem]) {
                        hash[elem] = engine_kit_hash(&kv, N);
                        memcpy(first[elem], logits, w.vocab * sizeof **first);
                    }
                    assert_true(engine_kit_hash(&kv, N) == hash[elem]);
                    assert_true(engine_kit_untouched(&kv, N, N + 40));
                    assert_memory_equal(first[elem], logits, w.vocab * sizeof **first);
                    assert_int_equal(bt_prefill_work(p).compilations, compiled);
                    engine_kit_pages_free(&kv);
                    bt_prefill_free(p);
                }
            }
        }
        free(first[0]);
        free(first[1]);
        free(logits);
        end(&w);
    }
    bt_pool_free(pool[1]);
}

static void agrees_with_the_reference_at_every_position(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        bt_ref *ref;
        bt_ref_kv *ref_kv;
        float *mine = engine_kit_floats(N * w.vocab), *oracle = engine_kit_floats(N * w.vocab);
        float top = 0, worst[2] = {0};
        assert_int_equal(bt_ref_new(&ref, w.kit.model, NULL, NULL), BT_OK);
        assert_int_equal(bt_ref_kv_new(&ref_kv, ref, N, NULL), BT_OK);
        assert_int_equal(bt_ref_forward(ref, ref_kv, w.ids, N, 0, oracle, true, NULL, NULL), BT_OK);
        for (uint32_t elem = 0; elem < 2; elem++) {
            bt_prefill *p = engine(&w, NULL, NULL, NULL, elem + 1);
            bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, elem + 1);
            assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, mine, BT_PREFILL_ALL, NULL), BT_OK);
            for (size_t i = 0; i < N * w.vocab; i++) {
                top = fmaxf(top, fabsf(oracle[i]));
                worst[elem] = fmaxf(worst[elem], fabsf(mine[i] - oracle[i]));
            }
            engine_kit_pages_free(&kv);
            bt_prefill_free(p);
        }
        print_message("%s: logits up to %.3f, off by at most %.5f, with KV of int8 %.5f\n", archs[a],
                      (double)top, (double)worst[1], (double)worst[0]);
        assert_true(top > 0.1f && worst[1] <= 0.01f * top); /* f16 keeps 11 bits */
        assert_true(worst[0] <= 0.05f * top);
        bt_ref_kv_free(ref_kv);
        bt_ref_free(ref);
        free(mine);
        free(oracle);
        end(&w);
    }
}

static void all_logits_end_with_the_last_and_prefixes_can_be_continued(void **state)
{
    (void)state;
    world w = begin("qwen2");
    for (uint32_t elem_bytes = 1; elem_bytes <= 2; elem_bytes++) {
        bt_prefill *p = engine(&w, NULL, NULL, NULL, elem_bytes);
        npu_kit_check_cuts(p, w.kit.model, w.ids, N);
        bt_prefill_free(p);
    }
    end(&w);
}

typedef struct watcher {
    uint32_t layers, next_layer;
    size_t begin, end, calls, cancel_at;
    atomic_bool cancel;
} watcher;

static void stored(void *ud, uint32_t layer, size_t token_begin, size_t token_count)
{
    watcher *s = ud;
    if (layer == 0) {
        assert_int_equal(token_begin, s->end);
        s->begin = token_begin;
        s->end = token_begin + token_count;
    }
    assert_int_equal(layer, s->next_layer);
    assert_int_equal(token_begin, s->begin);
    assert_int_equal(token_begin + token_count, s->end);
    s->next_layer = (layer + 1) % s->layers;
    if (++s->calls == s->cancel_at) atomic_store(&s->cancel, true);
}

static void hooks_cover_every_layer_of_every_chunk_once(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_prefill *p = engine(&w, NULL, NULL, NULL, 2);
    float *logits = engine_kit_floats(w.vocab);
    bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, 2);
    watcher s = {.layers = 3};
    bt_prefill_hooks hooks = {.on_kv = stored, .ud = &s, .cancel = &s.cancel};
    assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, &hooks, logits, BT_PREFILL_LAST, NULL), BT_OK);
    assert_int_equal(s.calls, 2 * 3);
    assert_int_equal(s.end, N);
    assert_int_equal(bt_prefill_work(p).rows, 256 + 128);
    for (size_t at = 1; at <= 6; at++) {
        watcher c = {.layers = 3, .cancel_at = at};
        hooks.ud = &c;
        hooks.cancel = &c.cancel;
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, &hooks, logits, BT_PREFILL_LAST, NULL),
                         BT_ECANCEL);
        assert_int_equal(c.calls, at);
    }
    free(logits);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    end(&w);
}

static void a_prompt_pauses_between_chunks_and_goes_on_with_the_same_bytes(void **state)
{
    static const char *const engines[] = {"host", "reference"};
    (void)state;
    world w = begin("qwen3");
    for (size_t i = 0; i < 2; i++) {
        const bt_prefill_config c = {.engine = engines[i], .threads = 1, .ctx_tokens = CTX};
        bt_prefill *p = NULL;
        assert_int_equal(bt_prefill_new(&p, w.kit.model, &c, NULL), BT_OK);
        float *logits[2] = {engine_kit_floats(w.vocab), engine_kit_floats(w.vocab)};
        bt_kv_view kv[2];
        for (int k = 0; k < 2; k++)
            kv[k] = engine_kit_pages(w.kit.model, N, PAGE, bt_prefill_kv_elem_bytes(p));
        atomic_uint pause = 1;
        size_t at = 0;
        const bt_prefill_hooks hooks = {.pause = &pause, .ret_paused = &at};
        assert_int_equal(bt_prefill_run(p, &kv[0], w.ids, N, 0, &hooks, logits[0], BT_PREFILL_LAST, NULL),
                         BT_EAGAIN);
        assert_int_equal(at, 256);
        assert_int_equal(bt_prefill_run(p, &kv[1], w.ids, N, 0, NULL, logits[1], BT_PREFILL_LAST, NULL),
                         BT_OK);
        assert_int_equal(bt_prefill_run(p, &kv[0], w.ids + at, N - at, at, &hooks, logits[0], BT_PREFILL_LAST,
                                        NULL),
                         BT_OK); /* a call computes a chunk, whatever `pause` says */
        assert_true(engine_kit_hash(&kv[0], N) == engine_kit_hash(&kv[1], N));
        assert_memory_equal(logits[0], logits[1], w.vocab * sizeof *logits[0]);
        for (int k = 0; k < 2; k++) {
            free(logits[k]);
            engine_kit_pages_free(&kv[k]);
        }
        bt_prefill_free(p);
    }
    end(&w);
}

static void refuses_options_that_do_not_fit(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_prefill_config c = {.engine = "host", .ctx_tokens = 100, .threads = 1};
    bt_prefill *none = NULL;
    c.want.shape_policy = "chunk:0";
    assert_int_equal(bt_prefill_new(&none, w.kit.model, &c, NULL), BT_EARG);
    c.want.shape_policy = NULL;
    c.ctx_tokens = CTX + 1;
    assert_int_equal(bt_prefill_new(&none, w.kit.model, &c, NULL), BT_ELIMIT);
    assert_null(none);
    end(&w);
}

/* Pages hold more than the engine's context: what it refuses it has not begun. */
static void every_engine_refuses_what_does_not_fit_and_says_both_numbers(void **state)
{
    static const struct {
        const char *name;
        uint32_t elem_bytes;
    } engines[] = {{"host", 2}, {"npu", 1}, {"reference", 4}};
    (void)state;
    bt_fault f;
    world w = begin("llama");
    const npu_kit_options o = {.ctx_tokens = CTX};
    bt_pkg *pkg = npu_kit_package(w.kit.model, &o);
    float *logits = engine_kit_floats(w.vocab);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        const bt_prefill_config c = {.engine = engines[i].name, .pkg = pkg, .ctx_tokens = 100, .threads = 1,
                                     .kv_elem_bytes = engines[i].elem_bytes};
        bt_prefill *p = NULL;
        assert_int_equal(bt_prefill_new(&p, w.kit.model, &c, NULL), BT_OK);
        bt_kv_view kv = engine_kit_pages(w.kit.model, CTX, PAGE, engines[i].elem_bytes), endless = kv;
        endless.tokens_capacity = SIZE_MAX; /* only what the engine itself says of lengths */
#define REFUSES(error, view, n, pos0, logits) \
    assert_int_equal(bt_prefill_run(p, view, w.ids, n, pos0, NULL, logits, BT_PREFILL_LAST, &f), error)
        REFUSES(BT_ELIMIT, &kv, 101, 0, logits);
        assert_true(strstr(f.text, "101") && strstr(f.text, "100"));
        REFUSES(BT_ELIMIT, &kv, 1, 100, logits);
        REFUSES(BT_ELIMIT, &kv, 1, 101, logits);
        REFUSES(BT_ELIMIT, &kv, 1, CTX - 1, logits);
        REFUSES(BT_ELIMIT, &endless, SIZE_MAX - 2, 2, logits);
        REFUSES(BT_ELIMIT, &endless, 2, SIZE_MAX - 2, logits);
        REFUSES(BT_EARG, &kv, SIZE_MAX, 2, logits);
        REFUSES(BT_EARG, &kv, 0, 0, logits);
        REFUSES(BT_EARG, &kv, 1, 0, NULL);
        w.ids[99] = 384;
        REFUSES(BT_EARG, &kv, 100, 0, logits);
        assert_non_null(strstr(f.text, "384"));
        w.ids[99] = -1;
        REFUSES(BT_EARG, &kv, 100, 0, logits);
        assert_true(engine_kit_untouched(&kv, 0, CTX));
        w.ids[99] = 383;
        REFUSES(BT_OK, &kv, 100, 0, logits);
#undef REFUSES
        engine_kit_pages_free(&kv);
        bt_prefill_free(p);
    }
    free(logits);
    bt_pkg_close(pkg);
    end(&w);
}

/* Decoding and prefill on host in one process hold f16 weights once; other forms, or tables that are too
 * short, do not do. */
static void takes_the_weights_of_a_decode_engine_where_they_are_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *form;
        size_t ctx;
    } cases[] = {{"f16", CTX}, {"int8", CTX}, {"f16", CTX / 2}};
    world w = begin("llama");
    float *own = engine_kit_floats(w.vocab), *logits = engine_kit_floats(w.vocab);
    bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, 2);
    bt_prefill *p = engine(&w, NULL, NULL, NULL, 2);
    assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, own, BT_PREFILL_LAST, NULL), BT_OK);
    bt_prefill_free(p);
    const uint64_t hash = engine_kit_hash(&kv, N);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bt_decode_config dc = {.weights = cases[i].form, .ctx_tokens = cases[i].ctx};
        bt_decode *d = NULL;
        assert_int_equal(bt_decode_new(&d, w.kit.model, &dc, NULL), BT_OK);
        const bt_prefill_config c = {.engine = "host", .weights = bt_decode_shared_weights(d), .threads = 1,
                                     .ctx_tokens = CTX};
        assert_int_equal(bt_prefill_new(&p, w.kit.model, &c, NULL), BT_OK);
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
        assert_memory_equal(own, logits, w.vocab * sizeof *own);
        assert_true(engine_kit_hash(&kv, N) == hash);
        /* A weight of the decode engine that changes shows in prompts only where it is theirs too. */
        uint8_t *panels = (uint8_t *)(uintptr_t)bt_weights_matrix_of(c.weights, 0, BT_WEIGHT_K)->panels;
        panels[1] ^= 0x40;
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
        assert_int_equal(engine_kit_hash(&kv, N) == hash, i != 0);
        bt_prefill_free(p);
        bt_decode_free(d);
    }
    free(own);
    free(logits);
    engine_kit_pages_free(&kv);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(agrees_with_the_reference_at_every_position),
        cmocka_unit_test(all_logits_end_with_the_last_and_prefixes_can_be_continued),
        cmocka_unit_test(hooks_cover_every_layer_of_every_chunk_once),
        cmocka_unit_test(a_prompt_pauses_between_chunks_and_goes_on_with_the_same_bytes),
        cmocka_unit_test(refuses_options_that_do_not_fit),
        cmocka_unit_test(every_engine_refuses_what_does_not_fit_and_says_both_numbers),
        cmocka_unit_test(takes_the_weights_of_a_decode_engine_where_they_are_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
