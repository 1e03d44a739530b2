/* Chunks of a prompt at the same time on two groups of threads: the bits, the hooks and the counts of program
 * order, whatever the order. */
#include "engine/prefill.h"
#include "base/rng.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 320, PAGE = 16, EVENTS = 256 };
static const char *const policies[] = {BT_SCHEDULE_NAMES};

typedef struct told {
    struct {
        uint32_t layer;
        size_t begin, count;
    } event[EVENTS];
    size_t events, cancel_at; /* 0: never */
    atomic_bool cancel;
    size_t begun, ended, begun_tokens, ended_tokens; /* chunks */
} told;

static void on_chunk(void *ud, size_t begin, size_t count, bool is_end)
{
    told *t = ud;
    (void)begin;
    *(is_end ? &t->ended : &t->begun) += 1;
    *(is_end ? &t->ended_tokens : &t->begun_tokens) += count;
    assert_true(t->ended <= t->begun);
}

static void on_kv(void *ud, uint32_t layer, size_t begin, size_t count)
{
    told *t = ud;
    assert_true(t->events < EVENTS);
    t->event[t->events].layer = layer;
    t->event[t->events].begin = begin;
    t->event[t->events++].count = count;
    if (t->events == t->cancel_at) atomic_store(&t->cancel, true);
}

static bt_prefill *engine(const bt_model *m, const bt_pkg *pkg, bt_schedule_policy policy, size_t threads,
                          uint32_t elem_bytes)
{
    const bt_prefill_config c = {.engine = "npu",    .pkg = pkg,        .schedule = policy,
                                 .threads = threads, .ctx_tokens = CTX, .kv_elem_bytes = elem_bytes};
    bt_prefill *p = NULL;
    bt_fault f = {""};
    if (bt_prefill_new(&p, m, &c, &f) < 0) fail_msg("%s", f.text);
    return p;
}

typedef struct result {
    uint64_t kv;
    float *logits;
    told told;
    bt_report_work work;
} result;

/* ids[n], the first `kept` of them stored before by another call. */
static void run(result *r, bt_prefill *p, const bt_model *m, const int32_t *ids, size_t n, size_t kept,
                bt_prefill_out out)
{
    const bt_report_work before = bt_prefill_work(p);
    bt_kv_view kv = engine_kit_pages(m, CTX, PAGE, bt_prefill_kv_elem_bytes(p));
    memset(r, 0, sizeof *r);
    r->logits = engine_kit_floats(CTX * m->hp.vocab);
    memset(r->logits, 0, CTX * m->hp.vocab * sizeof *r->logits);
    const bt_prefill_hooks hooks = {.on_kv = on_kv, .on_chunk = on_chunk, .ud = &r->told,
                                    .cancel = &r->told.cancel};
    if (kept)
        assert_int_equal(bt_prefill_run(p, &kv, ids, kept, 0, NULL, r->logits, BT_PREFILL_LAST, NULL), BT_OK);
    assert_int_equal(bt_prefill_run(p, &kv, ids + kept, n - kept, kept, &hooks, r->logits, out, NULL), BT_OK);
    assert_true(r->told.begun > 0 && r->told.ended == r->told.begun);
    assert_true(r->told.begun_tokens == n - kept && r->told.ended_tokens == n - kept);
    r->kv = engine_kit_hash(&kv, n);
    assert_true(engine_kit_untouched(&kv, n, CTX));
    engine_kit_pages_free(&kv);
    r->work = bt_prefill_work(p);
    r->work.npu_macs -= before.npu_macs;
    r->work.companion_macs -= before.companion_macs;
    r->work.rows -= before.rows;
    r->work.shadow_entries -= before.shadow_entries;
}

static void check_equal(const result *a, const result *b, size_t logits)
{
    assert_true(a->kv == b->kv);
    assert_memory_equal(a->logits, b->logits, logits * sizeof *a->logits);
    assert_int_equal(a->told.events, b->told.events);
    assert_int_equal(a->told.begun, b->told.begun);
    assert_memory_equal(a->told.event, b->told.event, a->told.events * sizeof a->told.event[0]);
    assert_int_equal(a->work.npu_macs, b->work.npu_macs);
    assert_int_equal(a->work.companion_macs, b->work.companion_macs);
    assert_int_equal(a->work.shadow_entries, b->work.shadow_entries);
    assert_int_equal(a->work.rows, b->work.rows);
}

/* Every order, number of threads and length of prompt against program order on one thread. */
static void check_package(const bt_model *m, const bt_pkg *pkg, uint32_t elem_bytes)
{
    static const size_t lengths[][2] = {{70, 0}, {129, 16}, {300, 0}, {17, 0}};
    const bool is_slow = slow_run();
    const size_t count = is_slow ? 2 : sizeof lengths / sizeof *lengths;
    int32_t ids[CTX];
    engine_kit_ids(ids, CTX, m, 5);
    bt_prefill *serial = engine(m, pkg, BT_SCHEDULE_SERIAL, 1, elem_bytes);
    for (int policy = BT_SCHEDULE_FIFO; policy <= BT_SCHEDULE_OOO; policy++)
        for (size_t threads = is_slow ? 2 : 1; threads <= (is_slow ? 3 : 4); threads++) {
            bt_prefill *p = engine(m, pkg, (bt_schedule_policy)policy, threads, elem_bytes);
            for (size_t i = 0; i < count; i++)
                for (int out = BT_PREFILL_LAST; out <= BT_PREFILL_ALL; out++) {
                    result want, got;
                    const size_t n = lengths[i][0], kept = lengths[i][1];
                    run(&want, serial, m, ids, n, kept, (bt_prefill_out)out);
                    run(&got, p, m, ids, n, kept, (bt_prefill_out)out);
                    check_equal(&want, &got, (out ? n - kept : 1) * m->hp.vocab);
                    free(want.logits);
                    free(got.logits);
                }
            bt_prefill_free(p);
        }
    bt_prefill_free(serial);
}

static void every_order_has_the_bits_of_program_order(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *recipe, *policy;
        uint32_t ops, elem_bytes;
    } at[] = {{"llama", "w8a8", "chunk:16+tail", BT_PKG_OPS_LINEAR, 2},
              {"qwen2", "w8a16", "chunk:32", BT_PKG_OPS_LINEAR, 1},
              {"qwen3", "w8a8", "chunk:32+tail", BT_PKG_OPS_ALL, 2},
              {"llama", "w4a16", "chunk:64+tail", BT_PKG_OPS_ALL, 2}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        engine_kit kit = engine_kit_model(at[i].arch);
        bt_pkg *pkg = npu_kit_compiled(kit.model, at[i].recipe, at[i].ops, at[i].policy, CTX);
        print_message("%s %s %s\n", at[i].arch, at[i].recipe, at[i].policy);
        check_package(kit.model, pkg, at[i].elem_bytes);
        bt_pkg_close(pkg);
        engine_kit_done(&kit);
    }
}

static void a_cancelled_prompt_leaves_the_engine_as_it_was(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    int32_t ids[CTX];
    engine_kit_ids(ids, CTX, kit.model, 6);
    bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, "chunk:16+tail", CTX);
    bt_prefill *p = engine(kit.model, pkg, BT_SCHEDULE_OOO, 3, 2);
    result first, again;
    run(&first, p, kit.model, ids, 300, 0, BT_PREFILL_LAST);
    for (size_t at = 1; at < 40; at += 7) {
        told t = {.cancel_at = at};
        const bt_prefill_hooks hooks = {.on_kv = on_kv, .ud = &t, .cancel = &t.cancel};
        bt_kv_view kv = engine_kit_pages(kit.model, CTX, PAGE, 2);
        assert_int_equal(bt_prefill_run(p, &kv, ids, 300, 0, &hooks, again.logits = first.logits,
                                        BT_PREFILL_LAST, NULL),
                         BT_ECANCEL);
        assert_true(t.events >= at && t.events < first.told.events);
        assert_true(engine_kit_untouched(&kv, 300, CTX));
        engine_kit_pages_free(&kv);
    }
    run(&again, p, kit.model, ids, 300, 0, BT_PREFILL_LAST);
    assert_true(first.kv == again.kv);
    assert_int_equal(first.told.events, again.told.events);
    free(first.logits);
    free(again.logits);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

/* In pieces of so many tokens at least, with another prompt in between: the bytes of one call, whatever was
 * under way. */
static void a_paused_prompt_goes_on_with_the_bits_of_one_call(void **state)
{
    enum { N = 300 };
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    int32_t ids[CTX];
    engine_kit_ids(ids, CTX, kit.model, 7);
    bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_LINEAR, "chunk:16+tail", CTX);
    bt_prefill *serial = engine(kit.model, pkg, BT_SCHEDULE_SERIAL, 1, 2);
    result want;
    run(&want, serial, kit.model, ids, N, 0, BT_PREFILL_LAST);
    for (int policy = BT_SCHEDULE_SERIAL; policy <= BT_SCHEDULE_OOO; policy++)
        for (size_t threads = 1; threads <= 3; threads++)
            for (unsigned step = 1; step < N; step += 60) {
                bt_prefill *p = engine(kit.model, pkg, (bt_schedule_policy)policy, threads, 2);
                bt_kv_view kv = engine_kit_pages(kit.model, CTX, PAGE, 2);
                float *logits = engine_kit_floats(kit.model->hp.vocab);
                told t = {.cancel_at = 0};
                atomic_uint pause = step;
                size_t at = 0, pauses = 0;
                const bt_prefill_hooks hooks = {.on_kv = on_kv, .on_chunk = on_chunk, .ud = &t,
                                                .pause = &pause, .ret_paused = &at};
                for (bt_err e = BT_EAGAIN; e == BT_EAGAIN;) {
                    const size_t from = at;
                    e = bt_prefill_run(p, &kv, ids + at, N - at, at, &hooks, logits, BT_PREFILL_LAST, NULL);
                    if (e != BT_EAGAIN) assert_int_equal(e, BT_OK);
                    if (e != BT_EAGAIN) break;
                    assert_true(at >= pause && at > from && at < N && at % 16 == 0);
                    if (policy == BT_SCHEDULE_SERIAL) assert_true(at < pause + 16);
                    assert_true(t.begun == t.ended && t.ended_tokens == at);
                    pauses++;
                    result other;
                    run(&other, p, kit.model, ids + 20, 40, 0, BT_PREFILL_LAST);
                    free(other.logits);
                    atomic_store(&pause, (unsigned)at + step);
                }
                assert_true(pauses > 0 || step > 200);
                assert_true(engine_kit_hash(&kv, N) == want.kv);
                assert_memory_equal(logits, want.logits, kit.model->hp.vocab * sizeof *logits);
                assert_int_equal(t.begun, want.told.begun);
                assert_int_equal(t.events, want.told.events);
                assert_memory_equal(t.event, want.told.event, t.events * sizeof t.event[0]);
                free(logits);
                engine_kit_pages_free(&kv);
                bt_prefill_free(p);
            }
    free(want.logits);
    bt_prefill_free(serial);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void what_keeps_more_than_its_arena_is_refused_with_the_order_that_works(void **state)
{
    (void)state;
    engine_kit kit = engine_kit_model("llama");
    bt_pkg *pkg =
        npu_kit_compiled(kit.model, "w8a8:no-rotate,llm-int8", BT_PKG_OPS_LINEAR, "chunk:16+tail", CTX);
    const bt_prefill_config c = {.engine = "npu", .pkg = pkg,        .schedule = BT_SCHEDULE_FIFO,
                                 .threads = 2,    .ctx_tokens = CTX, .for_perplexity = true};
    bt_prefill *p = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_prefill_new(&p, kit.model, &c, &f), BT_EARG);
    assert_non_null(strstr(f.text, "llm-int8"));
    assert_non_null(strstr(f.text, policies[BT_SCHEDULE_SERIAL]));
    const bt_prefill_config host = {.engine = "host", .schedule = BT_SCHEDULE_OOO, .threads = 1,
                                    .ctx_tokens = CTX};
    assert_int_equal(bt_prefill_new(&p, kit.model, &host, &f), BT_EARG);
    assert_non_null(strstr(f.text, "--schedule ooo"));
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_has_the_bits_of_program_order),
        cmocka_unit_test(a_cancelled_prompt_leaves_the_engine_as_it_was),
        cmocka_unit_test(a_paused_prompt_goes_on_with_the_bits_of_one_call),
        cmocka_unit_test(what_keeps_more_than_its_arena_is_refused_with_the_order_that_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
