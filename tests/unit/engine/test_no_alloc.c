/* Nothing is allocated or freed in a step of the engine, or in the worker from a START to its end, by any
 * thread: every call of the allocator in the process is counted. Under a sanitizer, which owns malloc, by
 * its hooks; else by functions of our own in front of glibc's. */
#include "engine/decode.h"
#include "model/weights.h"
#include "decode-node/worker.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static atomic_size_t calls;

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_HOOKS 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined HAS_HOOKS
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *p, size_t n)
{
    (void)p;
    (void)n;
    atomic_fetch_add(&calls, 1);
}
static void on_free(const volatile void *p)
{
    (void)p;
    atomic_fetch_add(&calls, 1);
}
static void count_calls(void)
{
    assert_true(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0);
}
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static void count(void) { atomic_fetch_add(&calls, 1); }
void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n)
{
    count();
    return __libc_memalign(align, n);
}
int posix_memalign(void **ret, size_t align, size_t n)
{
    count();
    void *p = __libc_memalign(align, n);
    if (!p) return ENOMEM;
    *ret = p;
    return 0;
}
void free(void *p)
{
    count();
    __libc_free(p);
}
static void count_calls(void) {}
#endif

static const char batches[] =
    "[{\"batch_size\":1,\"seq_len\":16,\"ctx_len\":512},{\"batch_size\":1,\"seq_len\":1,\"ctx_len\":512},"
    "{\"batch_size\":8,\"seq_len\":1,\"ctx_len\":256}]";

static void the_counter_counts(void **state)
{
    (void)state;
    count_calls();
    const size_t before = atomic_load(&calls);
    void *volatile p = malloc(100);
    free(p);
    assert_true(atomic_load(&calls) >= before + 2);
}

enum { SEQS = 9, ROWS = 3, STEPS = 100 };

static void step_often(const bt_model *m, const bt_decode_config *c)
{
    bt_decode *e;
    bt_kv_view view[SEQS];
    bt_decode_seq seq[SEQS];
    size_t pos[SEQS] = {0};
    int32_t ids[ROWS];
    float *logits = engine_kit_floats((size_t)SEQS * ROWS * m->hp.vocab);
    assert_int_equal(bt_decode_new(&e, m, c, NULL), BT_OK);
    engine_kit_ids(ids, ROWS, m, 1);
    for (size_t i = 0; i < SEQS; i++) view[i] = engine_kit_pages(m, ROWS * STEPS, 16, c->kv_elem_bytes);
    const size_t before = atomic_load(&calls);
    for (size_t s = 0; s < STEPS; s++) {
        const size_t n = s % SEQS + 1;
        for (size_t i = 0; i < n; i++)
            seq[i] = (bt_decode_seq){.kv = &view[i], .pos = pos[i], .tokens = ids, .count = i ? 1 : ROWS,
                                     .out = (uint32_t)(s % 2)};
        if (bt_decode_step(e, seq, n, NULL, logits, NULL) != BT_OK) abort();
        for (size_t i = 0; i < n; i++) pos[i] += seq[i].count;
    }
    assert_int_equal(atomic_load(&calls), before);
    for (size_t i = 0; i < SEQS; i++) engine_kit_pages_free(&view[i]);
    bt_decode_free(e);
    free(logits);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("qwen3");
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    bt_decode_config c = {.pool = pool, .ctx_tokens = 512, .rows_max = SEQS * ROWS};
    for (c.kv_elem_bytes = 1; c.kv_elem_bytes <= 2; c.kv_elem_bytes++) {
        c.engine = "host";
        for (int w = 0; (c.weights = bt_weights_forms[w]) != NULL; w++) step_often(kit.model, &c);
        c.engine = "npu";
        for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
            bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", ops, batches, 512);
            c.pkg = pkg;
            step_often(kit.model, &c);
            bt_pkg_close(pkg);
        }
    }
    bt_pool_free(pool);
    engine_kit_done(&kit);
}

static dc_worker_event next_event(dc_worker *w)
{
    dc_worker_event ev;
    while (!dc_worker_next(w, &ev)) {
        struct pollfd p = {.fd = dc_worker_fd(w), .events = POLLIN};
        if (poll(&p, 1, 60000) != 1) abort();
    }
    return ev;
}

enum { SLOTS = 4, PROMPT = 40, ANSWER = 60, PAGE = 16 };
/* One request of each kind in every slot, to its end. */
static void serve_all(dc_worker *w, const bt_kv_view view[SLOTS], const int32_t *prompt, const int32_t *ids)
{
    for (uint32_t i = 0, ended = 0; ended < SLOTS;) {
        for (; i < SLOTS; i++) {
            dc_worker_start a = {.slot = i,
                                 .view = view[i],
                                 .prompt = prompt,
                                 .prompt_tokens = PROMPT,
                                 .ids = ids,
                                 .ids_len = i % 2 ? 4 : 0,
                                 .rows = i % 2 ? PROMPT : 0,
                                 .max_tokens = ANSWER,
                                 .sampling = bt_sample_greedy()};
            if (i > 1) a.sampling.temperature = 1;
            a.sampling.repetition_penalty = 1 + 0.1f * (float)i;
            a.sampling.logprobs = true;
            a.sampling.top_logprobs = 5;
            a.view.tokens_capacity = 48;
            dc_worker_start_slot(w, &a);
        }
        const dc_worker_event ev = next_event(w);
        if (ev.type == DC_WORKER_NEED) dc_worker_grow_slot(w, ev.slot, &view[ev.slot]);
        if (ev.type == DC_WORKER_TOKEN && ev.slot == 0 && ev.index == 20) dc_worker_stop_slot(w, 0);
        if (ev.type == DC_WORKER_ENDED && ev.reason == BT_FINISH_ERROR) abort();
        ended += ev.type == DC_WORKER_ENDED || ev.type == DC_WORKER_STOPPED;
    }
}

/* Prefilled here or handed over, greedy and seeded, with penalties, log probabilities and drafts, with
 * pages that grow, stopped and gone on. */
static void serve_by(const char *engine)
{
    engine_kit kit = engine_kit_model("llama");
    bt_pool *pool;
    dc_worker *w;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    dc_worker_config c = {.pool = pool, .slots = SLOTS, .page_tokens = PAGE, .chunk_tokens = 16,
                          .draft_max = 3};
    bt_pkg *pkg =
        strcmp(engine, "npu") ? NULL : npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_ALL, batches, 512);
    const bt_decode_config ec = {.engine = engine, .pkg = pkg, .ctx_tokens = 512, .pool = pool,
                                 .rows_max = 8};
    const bt_prefill_config lc = {.engine = engine, .pkg = pkg, .ctx_tokens = 256, .pool = pool};
    assert_int_equal(bt_decode_new(&c.engine, kit.model, &ec, NULL), BT_OK);
    assert_int_equal(bt_prefill_new(&c.local, kit.model, &lc, NULL), BT_OK);
    assert_int_equal(dc_worker_new(&w, &c, NULL), BT_OK);
    bt_kv_view view[SLOTS];
    int32_t prompt[PROMPT], ids[4];
    engine_kit_ids(prompt, PROMPT, kit.model, 1);
    engine_kit_ids(ids, 4, kit.model, 2);
    for (uint32_t i = 0; i < SLOTS; i++) {
        view[i] = engine_kit_pages(kit.model, 128, PAGE, 2);
        for (uint32_t p = 0; p < 128 / PAGE; p++)
            memset(view[i].page[p], 0, view[i].layers * view[i].layer_bytes);
    }
    serve_all(w, view, prompt, ids); /* threads that begin allocate */
    const size_t before = atomic_load(&calls);
    serve_all(w, view, prompt, ids);
    assert_int_equal(atomic_load(&calls), before);
    dc_worker_free(w);
    for (uint32_t i = 0; i < SLOTS; i++) engine_kit_pages_free(&view[i]);
    bt_pool_free(pool);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void a_worker_with_all_its_trades_allocates_nothing(void **state)
{
    (void)state;
    serve_by("host");
    serve_by("npu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_worker_with_all_its_trades_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
