/* Two sessions of 1,000 steps each over one pool of pages, as a decode node has them: what a step stores, and
 * where. */
#include "engine/decode.h"
#include "kv/kv_pages.h"
#include "tests/helpers/model/engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 1000, PAGE = 16, SESSIONS = 2, MAX_PAGES = (STEPS + PAGE - 1) / PAGE };

typedef struct session {
    bt_kv_seq seq;
    bt_kv_view view;
    uint8_t *first[MAX_PAGES]; /* where each page was when it came */
    size_t pages;
    int32_t ids[STEPS];
} session;

static void open_pages(session *s, bt_kv_pages *pool, size_t tokens)
{
    assert_int_equal(bt_kv_pages_reserve(pool, &s->seq, tokens, NULL), BT_OK);
    bt_kv_pages_view(&s->view, pool, &s->seq);
    for (; s->pages < s->seq.len; s->pages++) s->first[s->pages] = s->view.page[s->pages];
}

/* Every page is where it was when the session got it, and no other session has it. */
static void check_addresses(const session s[SESSIONS])
{
    for (size_t i = 0; i < SESSIONS; i++)
        for (size_t n = 0; n < s[i].pages; n++) {
            assert_ptr_equal(s[i].view.page[n], s[i].first[n]);
            for (size_t m = 0; m < s[1 - i].pages; m++)
                assert_ptr_not_equal(s[i].first[n], s[1 - i].first[m]);
        }
}

static void check(const char *arch, uint32_t elem_bytes, bool together)
{
    engine_kit k = engine_kit_model(arch);
    const bt_hparams *hp = &k.model->hp;
    const bt_decode_config c = {.kv_elem_bytes = elem_bytes, .rows_max = SESSIONS};
    /* K and V of every layer and head, whatever the position: with 8 bits a scale of f16 beside them */
    const uint64_t row =
        2ull * hp->layers * hp->kv_heads * (hp->head_dim * elem_bytes + (elem_bytes == 1 ? 2 : 0));
    bt_kv_pages *pool = NULL;
    bt_decode *e = NULL;
    session s[SESSIONS] = {0};
    uint64_t hash[SESSIONS];
    assert_int_equal(bt_kv_pages_new(&pool, hp->layers, hp->kv_heads, hp->head_dim, elem_bytes, PAGE,
                                     SESSIONS * MAX_PAGES * PAGE, NULL),
                     BT_OK);
    assert_int_equal(bt_decode_new(&e, k.model, &c, NULL), BT_OK);
    for (size_t i = 0; i < SESSIONS; i++) engine_kit_ids(s[i].ids, STEPS, k.model, 31 + (uint32_t)i);
    for (size_t pos = 0; pos < STEPS; pos++) {
        bt_decode_seq item[SESSIONS];
        for (size_t i = 0; i < SESSIONS; i++) {
            open_pages(&s[i], pool, pos + 1);
            item[i] = (bt_decode_seq){.kv = &s[i].view, .pos = pos, .tokens = &s[i].ids[pos], .count = 1};
        }
        for (size_t i = 0; i < SESSIONS; i += together ? SESSIONS : 1) {
            const size_t n = together ? SESSIONS : 1;
            const uint64_t old = bt_decode_stats_of(e).kv_bytes_written;
            const bool looks = pos % 100 == 0 && !together; /* a look at all rows takes long */
            const session *other = &s[1 - i % SESSIONS];
            const size_t others = pos + (i == 1);
            const uint64_t its = looks ? engine_kit_hash(&other->view, others) : 0;
            assert_int_equal(bt_decode_step(e, &item[i], n, NULL, NULL, NULL), BT_OK);
            assert_int_equal(bt_decode_stats_of(e).kv_bytes_written - old, n * row);
            if (looks) assert_true(engine_kit_hash(&other->view, others) == its);
        }
        if (pos % PAGE == 0 || pos + 1 == STEPS) check_addresses(s);
    }
    for (size_t i = 0; i < SESSIONS; i++) hash[i] = engine_kit_hash(&s[i].view, STEPS);
    assert_true(hash[0] != hash[1]);
    for (size_t i = 0; i < SESSIONS; i++) { /* alone, in pages that the others left */
        session alone = {0};
        for (size_t n = 0; n < SESSIONS; n++) bt_kv_pages_release(pool, &s[n].seq);
        memcpy(alone.ids, s[i].ids, sizeof alone.ids);
        for (size_t pos = 0; pos < STEPS; pos++) {
            open_pages(&alone, pool, pos + 1);
            const bt_decode_seq item = {.kv = &alone.view, .pos = pos, .tokens = &alone.ids[pos], .count = 1};
            assert_int_equal(bt_decode_step(e, &item, 1, NULL, NULL, NULL), BT_OK);
        }
        assert_true(engine_kit_hash(&alone.view, STEPS) == hash[i]);
        bt_kv_pages_release(pool, &alone.seq);
    }
    bt_decode_free(e);
    bt_kv_pages_free(pool);
    engine_kit_done(&k);
}

static void a_step_stores_one_row_in_place_whatever_the_position(void **state) /* AC-e1, AC-e2 */
{
    (void)state;
    check("llama", 2, false);
    check("qwen3", 1, false);
}

static void sessions_of_one_step_store_their_own_rows(void **state) /* AC-e1, AC-e2 */
{
    (void)state;
    check("qwen2", 2, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_stores_one_row_in_place_whatever_the_position),
        cmocka_unit_test(sessions_of_one_step_store_their_own_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
