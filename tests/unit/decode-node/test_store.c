/* The decode node's KV memory: rows lie in the pages that the brain names, and what was swapped out comes
 * back as it was, wherever. */
#include "decode-node/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

enum { PAGES = 8, PAGE = 16, LAYERS = 2 };

static bt_kv_memory swap; /* the store's */

/* windows: pages of window layers, of which layer 0 then is one; 0: pages hold both layers. */
static dc_store *make(size_t windows)
{
    const uint32_t every = windows ? 2 : 0;
    dc_store *s = NULL;
    const bt_kv_memory_want want = {LAYERS, 1, 4, 2, every, PAGE, PAGES * PAGE, windows * PAGE},
                            kept = {LAYERS, 1, 4, 2, every, PAGE, 3 * PAGE, windows ? 2 * PAGE : 0};
    bt_kv_memory pages;
    assert_int_equal(bt_kv_memory_new(&pages, &want, NULL), BT_OK);
    assert_int_equal(bt_kv_memory_new(&swap, &kept, NULL), BT_OK);
    assert_int_equal(dc_store_new(&s, &pages, &swap, 4, PAGES, NULL), BT_OK);
    return s;
}

/* windows: of as many pages, '-' where they are gone; NULL: there are none. */
static void set_both(dc_store *s, uint32_t slot, const char *numbers, const char *windows)
{
    uint32_t list[PAGES], window[PAGES];
    dc_action a = {.type = DC_DO_SET_PAGES};
    for (uint32_t *n = &a.u.set.pages_len; numbers[*n]; ++*n) {
        list[*n] = (uint32_t)(numbers[*n] - '0');
        if (windows) window[*n] = windows[*n] == '-' ? BT_KV_NO_PAGE : (uint32_t)(windows[*n] - '0');
    }
    a.u.set.slot = slot;
    a.u.set.pages = list;
    a.u.set.windows = windows ? window : NULL;
    assert_int_equal(dc_store_do(s, &a, NULL), BT_OK);
}

static void set(dc_store *s, uint32_t slot, const char *numbers) { set_both(s, slot, numbers, NULL); }

static void move_window(dc_store *s, dc_action_type type, uint32_t slot, uint32_t tokens, uint32_t begin)
{
    dc_action a = {.type = type};
    a.u.swap.slot = slot;
    a.u.swap.tokens = tokens;
    a.u.swap.window_begin = begin;
    if (type == DC_DO_DROP_SWAP) a.u.slot = slot;
    assert_int_equal(dc_store_do(s, &a, NULL), BT_OK);
}

static void move(dc_store *s, dc_action_type type, uint32_t slot, uint32_t tokens)
{
    move_window(s, type, slot, tokens, 0);
}

/* Fills or compares the rows [0, tokens) of a slot by `seed`, those that are there. */
static void rows(const dc_store *s, uint32_t slot, size_t tokens, int seed, bool is_filling)
{
    bt_kv_view v;
    dc_store_view(&v, s, slot);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t l = 0; l < 2 * LAYERS; l++) {
            uint8_t want[8];
            if (v.window_page && l < 2 && t < v.window_begin) continue;
            memset(want, seed + (int)(t * 5 + l), sizeof want);
            if (is_filling) memcpy(bt_kv_view_row(&v, l / 2, l % 2, t, 0), want, sizeof want);
            else assert_memory_equal(bt_kv_view_row(&v, l / 2, l % 2, t, 0), want, sizeof want);
        }
    }
}

static void brings_swapped_rows_back_as_they_were(void **state)
{
    (void)state;
    dc_store *s = make(0);
    set(s, 0, "35");
    set(s, 0, "350"); /* growth */
    rows(s, 0, 40, 3, true);
    move(s, DC_DO_SWAP_OUT, 0, 40);
    set(s, 0, "");
    assert_int_equal(bt_kv_pages_used(swap.all), 3);
    set(s, 1, "3");
    rows(s, 1, 16, 99, true);
    set(s, 0, "0471"); /* it lies elsewhere now */
    move(s, DC_DO_SWAP_IN, 0, 40);
    assert_int_equal(bt_kv_pages_used(swap.all), 0);
    rows(s, 0, 40, 3, false);
    rows(s, 1, 16, 99, false);
    move(s, DC_DO_SWAP_OUT, 0, 17);
    move(s, DC_DO_DROP_SWAP, 0, 0);
    assert_int_equal(bt_kv_pages_used(swap.all), 0);
    dc_store_free(s);
}

/* Two of three pages of window layers are there; the store keeps those that are asked for. */
static void swaps_the_window_pages_that_are_there(void **state)
{
    (void)state;
    dc_store *s = make(4);
    bt_kv_view v;
    set_both(s, 0, "350", "-21");
    dc_store_view(&v, s, 0);
    assert_int_equal(v.layers, LAYERS);
    assert_int_equal(v.tokens_capacity, 3 * PAGE);
    assert_int_equal(v.window_begin, PAGE);
    rows(s, 0, 40, 3, true);
    set_both(s, 1, "6", "3");
    rows(s, 1, 16, 99, true);
    move_window(s, DC_DO_SWAP_OUT, 0, 40, PAGE + 5);
    set_both(s, 0, "", "");
    assert_int_equal(bt_kv_pages_used(swap.all), 3);
    assert_int_equal(bt_kv_pages_used(swap.windows), 2);
    set_both(s, 0, "0471", "-102");
    move_window(s, DC_DO_SWAP_IN, 0, 40, PAGE + 5);
    rows(s, 0, 40, 3, false);
    move_window(s, DC_DO_SWAP_OUT, 0, 40, 2 * PAGE);
    assert_int_equal(bt_kv_pages_used(swap.windows), 1);
    set_both(s, 0, "", "");
    set_both(s, 0, "0471", "--02");
    move_window(s, DC_DO_SWAP_IN, 0, 40, 2 * PAGE);
    rows(s, 0, 40, 3, false);
    rows(s, 1, 16, 99, false);
    assert_int_equal(bt_kv_pages_used(swap.all) + bt_kv_pages_used(swap.windows), 0);
    dc_store_free(s);
}

static void lets_two_slots_have_one_page(void **state)
{
    (void)state;
    dc_store *s = make(0);
    bt_kv_view v;
    set(s, 0, "160");
    rows(s, 0, 40, 7, true);
    set(s, 2, "1625");
    rows(s, 2, 32, 7, false);
    set(s, 0, "");
    dc_store_view(&v, s, 0);
    assert_int_equal(v.tokens_capacity, 0);
    rows(s, 2, 32, 7, false);
    dc_store_view(&v, s, 2);
    assert_int_equal(v.tokens_capacity, 4 * PAGE);
    dc_store_free(s);
}

static void says_when_the_brain_counted_wrong(void **state)
{
    (void)state;
    dc_store *s = make(0);
    uint32_t numbers[PAGES + 1] = {0};
    dc_action a = {.type = DC_DO_SET_PAGES};
    a.u.set.pages = numbers;
    a.u.set.pages_len = PAGES + 1;
    assert_int_equal(dc_store_do(s, &a, NULL), BT_ELIMIT);
    set(s, 0, "0123");
    a = (dc_action){.type = DC_DO_SWAP_OUT};
    a.u.swap.tokens = 3 * PAGE + 1; /* more than the store has */
    assert_true(dc_store_do(s, &a, NULL) < 0);
    a.type = DC_DO_SWAP_IN; /* nothing was kept */
    a.u.swap.tokens = 1;
    assert_int_equal(dc_store_do(s, &a, NULL), BT_EARG);
    dc_store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brings_swapped_rows_back_as_they_were),
        cmocka_unit_test(swaps_the_window_pages_that_are_there),
        cmocka_unit_test(lets_two_slots_have_one_page),
        cmocka_unit_test(says_when_the_brain_counted_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
