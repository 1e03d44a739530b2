/* The decode node's KV memory: rows that were swapped out come back as they were, wherever; shared pages outlive their first holder. */
#include "decode-node/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

enum { PAGES = 8, PAGE = 16, LAYERS = 2 };
static bt_kv_pages *pages, *swap;

static dc_store *make(void)
{
    dc_store *s = NULL;
    assert_int_equal(bt_kv_pages_new(&pages, LAYERS, 1, 4, 2, PAGE, PAGES * PAGE, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_new(&swap, LAYERS, 1, 4, 2, PAGE, 3 * PAGE, NULL), BT_OK);
    assert_int_equal(dc_store_new(&s, pages, swap, 4, NULL), BT_OK);
    return s;
}

static void act(dc_store *s, dc_action_type type, uint32_t slot, uint32_t tokens, uint32_t more)
{
    dc_action a = {.type = type};
    a.u.pages.slot = slot;
    a.u.pages.tokens = tokens;
    a.u.pages.from = a.u.pages.capacity = more;
    assert_int_equal(dc_store_do(s, &a, NULL), BT_OK);
}

/* Fills or compares the rows [0, tokens) of a slot by `seed`. */
static void rows(const dc_store *s, uint32_t slot, size_t tokens, int seed, bool is_filling)
{
    bt_kv_view v;
    dc_store_view(&v, s, slot);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t l = 0; l < 2 * LAYERS; l++) {
            uint8_t want[8];
            memset(want, seed + (int)(t * 5 + l), sizeof want);
            if (is_filling) memcpy(bt_kv_view_row(&v, l / 2, l % 2, t, 0), want, sizeof want);
            else assert_memory_equal(bt_kv_view_row(&v, l / 2, l % 2, t, 0), want, sizeof want);
        }
    }
}

static void brings_swapped_rows_back_as_they_were(void **state)
{
    (void)state;
    dc_store *s = make();
    act(s, DC_DO_RESERVE_PAGES, 0, 20, 0);
    act(s, DC_DO_GROW_PAGES, 0, 40, 0);
    rows(s, 0, 40, 3, true);
    act(s, DC_DO_SWAP_OUT, 0, 40, 0);
    assert_int_equal(bt_kv_pages_used(pages), 0);
    assert_int_equal(bt_kv_pages_used(swap), 3);
    act(s, DC_DO_RESERVE_PAGES, 1, 16, 0);      /* it lies elsewhere now */
    rows(s, 1, 16, 99, true);
    act(s, DC_DO_SWAP_IN, 0, 40, 49);
    assert_int_equal(bt_kv_pages_used(swap), 0);
    assert_int_equal(bt_kv_pages_used(pages), 5);
    rows(s, 0, 40, 3, false);
    act(s, DC_DO_SWAP_OUT, 0, 17, 0);
    act(s, DC_DO_DROP_SWAP, 0, 0, 0);
    assert_int_equal(bt_kv_pages_used(swap), 0);
    act(s, DC_DO_FREE_PAGES, 1, 0, 0);
    assert_int_equal(bt_kv_pages_used(pages), 0);
    dc_store_free(s);
}

static void keeps_shared_pages_until_their_last_holder_goes(void **state)
{
    (void)state;
    dc_store *s = make();
    act(s, DC_DO_RESERVE_PAGES, 0, 40, 0);
    rows(s, 0, 40, 7, true);
    act(s, DC_DO_SHARE_PAGES, 2, 32, 0);
    act(s, DC_DO_RESERVE_PAGES, 2, 50, 0);
    assert_int_equal(bt_kv_pages_used(pages), 5);
    act(s, DC_DO_SWAP_OUT, 0, 40, 0);
    assert_int_equal(bt_kv_pages_used(pages), 4);
    rows(s, 2, 32, 7, false);
    act(s, DC_DO_FREE_PAGES, 2, 0, 0);
    assert_int_equal(bt_kv_pages_used(pages), 0);
    dc_store_free(s);
}

static void copies_the_page_that_shared_rows_end_in(void **state)
{
    (void)state;
    dc_store *s = make();
    act(s, DC_DO_RESERVE_PAGES, 0, 40, 0);
    rows(s, 0, 40, 7, true);
    act(s, DC_DO_SHARE_PAGES, 2, 21, 0);
    assert_int_equal(bt_kv_pages_used(pages), 4);
    assert_int_equal(bt_kv_pages_shared(pages), 1);
    act(s, DC_DO_RESERVE_PAGES, 2, 30, 0);
    assert_int_equal(bt_kv_pages_used(pages), 4);
    rows(s, 2, 21, 7, false);
    bt_kv_view v;
    dc_store_view(&v, s, 2);
    for (size_t l = 0; l < 2 * LAYERS; l++) memset(bt_kv_view_row(&v, l / 2, l % 2, 21, 0), 0xee, 8);
    rows(s, 0, 40, 7, false);                   /* the first holder sees nothing of what the second writes */
    act(s, DC_DO_FREE_PAGES, 0, 0, 0);
    rows(s, 2, 21, 7, false);
    act(s, DC_DO_FREE_PAGES, 2, 0, 0);
    assert_int_equal(bt_kv_pages_used(pages), 0);
    dc_store_free(s);
}

static void says_when_the_brain_counted_wrong(void **state)
{
    (void)state;
    dc_store *s = make();
    dc_action a = {.type = DC_DO_RESERVE_PAGES};
    a.u.pages.tokens = PAGES * PAGE + 1;
    assert_true(dc_store_do(s, &a, NULL) < 0);
    dc_store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brings_swapped_rows_back_as_they_were),
        cmocka_unit_test(keeps_shared_pages_until_their_last_holder_goes),
        cmocka_unit_test(copies_the_page_that_shared_rows_end_in),
        cmocka_unit_test(says_when_the_brain_counted_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
