/* A prompt that begins in pages of another prompt has the same KV bytes, digest, token and logits as computed
 * alone, and changes nothing in those pages: for each engine, KV form and cut of either prompt, because
 * what a row holds depends on the tokens before it alone. */
#include "tests/helpers/model/worker_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGE_TOKENS = 64, COMMON = 192, FIRST = 230, SECOND = 301, PAGES = 16, SLOTS = 3 };

static worker_kit kit;

/* Slot 0: another prompt; slot 1: the prompt alone; slot 2: the prompt in pages of slot 0. */
typedef struct room {
    pf_worker *worker;
    bt_kv_pages *pages;
    uint8_t *at[SLOTS][8];
    bt_kv_view view[SLOTS];
    int32_t first[FIRST], second[SECOND];
} room;

static void place(room *r, uint32_t slot, const uint32_t *numbers, size_t len)
{
    bt_kv_pages_view_of(&r->view[slot], r->at[slot], r->pages, numbers, len);
}

static void open_room(room *r, const char *engine, const char *policy, uint32_t elem_bytes)
{
    const bt_hparams *h = &kit.model->hp;
    bt_prefill *e = NULL;
    bt_fault fault;
    memset(r, 0, sizeof *r);
    const bt_prefill_config config = {.engine = engine, .threads = 2, .kv_elem_bytes = elem_bytes,
                                      .ctx_tokens = 512, .want.shape_policy = policy};
    if (bt_prefill_new(&e, kit.model, &config, &fault) < 0) fail_msg("%s", fault.text);
    r->pages = worker_kit_pages(kit.model, elem_bytes, PAGE_TOKENS, PAGES * PAGE_TOKENS);
    assert_int_equal(pf_worker_new(&r->worker, e, SLOTS, h->layers, h->vocab, NULL, NULL), BT_OK);
    for (int32_t i = 0; i < SECOND; i++) r->second[i] = 3 + i * 7 % 300;
    for (int32_t i = 0; i < FIRST; i++) r->first[i] = i < COMMON ? r->second[i] : 5 + i * 11 % 290;
}

static void close_room(room *r)
{
    pf_worker_free(r->worker);
    bt_kv_pages_free(r->pages);
}

typedef struct result {
    pf_worker_event computed, digest;
    uint32_t rows;
} result;

static result run(room *r, uint32_t slot, const int32_t *ids, uint32_t len, uint32_t from_row)
{
    result got = {.rows = 0};
    uint32_t done[16];
    for (size_t i = 0; i < 16; i++) done[i] = from_row;
    const pf_worker_job job = {
        .slot = slot,
        .view = r->view[slot],
        .ids = ids,
        .ids_len = len,
        .from_row = from_row,
        .sampling = {.temperature = 0.9f, .seed = 77, .top_p = 1, .repetition_penalty = 1}};
    pf_worker_compute(r->worker, &job);
    while (got.digest.type != PF_WORKER_DIGEST) {
        const pf_worker_event ev = worker_kit_computed(r->worker);
        if (ev.type == PF_WORKER_FAILED) fail_msg("%s", ev.text);
        if (ev.type == PF_WORKER_COMPUTED) got.computed = ev;
        if (ev.type == PF_WORKER_DIGEST) got.digest = ev;
        if (ev.type != PF_WORKER_KV_READY) continue;
        assert_int_equal(ev.token_begin, done[ev.layer]);
        done[ev.layer] += ev.token_count;
        got.rows += ev.token_count;
    }
    /* announced: no row of the pages that were there */
    assert_int_equal(got.rows, kit.model->hp.layers * (len - from_row));
    return got;
}

static void same_bytes(const bt_kv_view *a, const bt_kv_view *b, size_t tokens)
{
    const size_t head = bt_kv_head_bytes(a->elem_bytes, a->head_dim);
    for (size_t l = 0; l < a->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = 0; t < tokens; t++)
                for (size_t g = 0; g < a->kv_heads; g++)
                    assert_memory_equal(bt_kv_view_row(a, l, is_v, t, g), bt_kv_view_row(b, l, is_v, t, g),
                                        head);
}

static void check(const char *engine, const char *policy, const char *other_policy, uint32_t elem_bytes)
{
    static const uint32_t firsts[] = {0, 1, 2, 3}, alone[] = {4, 5, 6, 7, 8};
    room r, other;
    result got[3];
    uint8_t digest[16];
    open_room(&r, engine, policy, elem_bytes);
    place(&r, 0, firsts, 4);
    place(&r, 1, alone, 5);
    got[0] = run(&r, 0, r.first, FIRST, 0);
    got[1] = run(&r, 1, r.second, SECOND, 0);
    assert_memory_not_equal(got[0].digest.kv_digest.bytes, got[1].digest.kv_digest.bytes, 16);
    memcpy(digest, got[0].digest.kv_digest.bytes, sizeof digest);
    for (uint32_t hit = PAGE_TOKENS; hit <= COMMON; hit += PAGE_TOKENS) {
        uint32_t numbers[5];
        for (uint32_t i = 0; i < 5; i++) numbers[i] = i < hit / PAGE_TOKENS ? firsts[i] : 9 + i;
        place(&r, 2, numbers, 5);
        got[2] = run(&r, 2, r.second, SECOND, hit);
        same_bytes(&r.view[2], &r.view[1], SECOND);
        assert_memory_equal(got[2].digest.kv_digest.bytes, got[1].digest.kv_digest.bytes, 16);
        assert_int_equal(got[2].computed.token, got[1].computed.token);
        assert_memory_equal(got[2].computed.top_ids, got[1].computed.top_ids, sizeof got[1].computed.top_ids);
        assert_memory_equal(got[2].computed.top_logits, got[1].computed.top_logits,
                            sizeof got[1].computed.top_logits);
    }
    got[0] = run(&r, 0, r.first, FIRST, COMMON); /* the pages that were shared are as they were */
    assert_memory_equal(got[0].digest.kv_digest.bytes, digest, sizeof digest);
    if (other_policy) { /* and cut otherwise they would have been the same */
        open_room(&other, engine, other_policy, elem_bytes);
        place(&other, 1, alone, 5);
        got[2] = run(&other, 1, other.second, SECOND, 0);
        assert_memory_equal(got[2].digest.kv_digest.bytes, got[1].digest.kv_digest.bytes, 16);
        assert_int_equal(got[2].computed.token, got[1].computed.token);
        close_room(&other);
    }
    close_room(&r);
}

static void a_hit_changes_nothing_on_the_npu(void **state)
{
    (void)state;
    check("npu", NULL, "chunk:100", 2);
    check("npu", "chunk:40", NULL, 1);
}

static void a_hit_changes_nothing_in_the_float_engine(void **state)
{
    (void)state;
    check("host", NULL, "chunk:100", 2);
    check("host", "range:1-90", "chunk:7", 1);
}

static void a_hit_changes_nothing_in_the_reference(void **state)
{
    (void)state;
    check("reference", NULL, NULL, 4);
}

static int setup(void **state)
{
    (void)state;
    worker_kit_open(&kit, NULL, 0, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    worker_kit_close(&kit);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_changes_nothing_on_the_npu),
        cmocka_unit_test(a_hit_changes_nothing_in_the_float_engine),
        cmocka_unit_test(a_hit_changes_nothing_in_the_reference),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
