/* Nothing is allocated or freed in a step, by any thread: every call of the allocator in the process is counted. Under a sanitizer,
 * which owns malloc, by its hooks; else by functions of our own in front of glibc's. */
#include "decode-node/engine/engine.h"
#include "decode-node/engine/host/weights.h"
#include "tests/helpers/engine_kit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static atomic_size_t calls;

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_HOOKS 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined HAS_HOOKS
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t), void (*on_free)(const volatile void *));
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
static void count_calls(void) { assert_true(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0); }
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

static void the_counter_counts(void **state)
{
    (void)state;
    count_calls();
    const size_t before = atomic_load(&calls);
    void *volatile p = malloc(100);
    free(p);
    assert_true(atomic_load(&calls) >= before + 2);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    enum { SEQS = 9, ROWS = 3, STEPS = 100 };
    engine_kit kit = engine_kit_model("qwen3");
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    float *logits = engine_kit_floats((size_t)SEQS * ROWS * kit.model->hp.vocab);
    for (int w = 0; dc_weights_forms[w]; w++)
        for (uint32_t kv = 1; kv <= 2; kv++) {
            dc_engine *e;
            const dc_engine_config c = {.weights = dc_weights_forms[w], .kv_elem_bytes = kv, .pool = pool, .rows_max = SEQS * ROWS};
            assert_int_equal(dc_engine_new(&e, kit.model, &c, NULL), BT_OK);
            bt_kv_view view[SEQS];
            dc_engine_seq seq[SEQS];
            int32_t ids[ROWS];
            engine_kit_ids(ids, ROWS, kit.model, 1);
            for (size_t i = 0; i < SEQS; i++) view[i] = engine_kit_pages(kit.model, ROWS * STEPS, 16, kv);
            const size_t before = atomic_load(&calls);
            for (size_t s = 0; s < STEPS; s++) {
                const size_t n = s % SEQS + 1;
                for (size_t i = 0; i < n; i++)
                    seq[i] = (dc_engine_seq){&view[i], i ? s : s * ROWS, ids, i ? 1 : ROWS, (uint32_t)(s % 2)};
                if (dc_engine_step(e, seq, n, NULL, logits, NULL) != BT_OK) abort();
            }
            assert_int_equal(atomic_load(&calls), before);
            for (size_t i = 0; i < SEQS; i++) engine_kit_pages_free(&view[i]);
            dc_engine_free(e);
        }
    free(logits);
    bt_pool_free(pool);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
