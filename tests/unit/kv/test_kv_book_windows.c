/* Pages of window layers: they go back while the others stay, and a prefix is taken only where the window
 * before its end is there. Pages have contents here, which each taker compares. */
#include "base/rng.h"
#include "kv/kv_book.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PAGE = 4, PAGES = 40, WINDOWS = 26, SEQS = 5, SEQ_PAGES = 12, WINDOW = 10, IDS = SEQ_PAGES * PAGE };

static bt_kv_book *book(uint32_t pages, uint32_t windows, uint32_t window)
{
    bt_kv_book *b = NULL;
    assert_int_equal(bt_kv_book_new(&b, pages, PAGE, SEQS, SEQ_PAGES, BT_PROMPT_BY_IDS, NULL), BT_OK);
    assert_int_equal(bt_kv_book_add_windows(b, windows, window, NULL), BT_OK);
    return b;
}

static bt_prompt_view of(const int32_t *ids, uint32_t len)
{
    return (bt_prompt_view){.tokens = len, .ids = ids};
}

/* Tokens [0, len) of a prompt in whole pages, kept; seq holds all and went forward to `row`. */
static void compute(bt_kv_book *b, uint32_t seq, const int32_t *ids, uint32_t len, uint32_t row)
{
    const bt_prompt_view p = of(ids, len);
    (void)bt_kv_book_share(b, seq, 1, &p, len);
    assert_true(bt_kv_book_hold(b, seq, len));
    bt_kv_book_keep(b, seq, 1, &p, len);
    bt_kv_book_forward(b, seq, row);
    assert_true(bt_kv_book_is_sound(b));
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    bt_kv_book *b = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_kv_book_new(&b, 4, PAGE, 2, 4, BT_PROMPT_BY_IDS, NULL), BT_OK);
    assert_null(bt_kv_book_windows(b, 0));
    assert_int_equal(bt_kv_book_windows_room(b), 0);
    assert_int_equal(bt_kv_book_add_windows(b, 0, 8, &f), BT_EARG);
    assert_int_equal(bt_kv_book_add_windows(b, 4, 0, &f), BT_EARG);
    assert_int_equal(bt_kv_book_add_windows(b, (1 << 24) + 1, 8, &f), BT_EARG);
    assert_int_equal(bt_kv_book_add_windows(b, 4, 8, &f), BT_OK);
    assert_int_equal(bt_kv_book_add_windows(b, 4, 8, &f), BT_EARG); /* they are there */
    bt_kv_book_free(b);
}

static void window_pages_go_back_while_the_others_stay(void **state)
{
    (void)state;
    bt_kv_book *b = book(12, 4, WINDOW);
    uint32_t len;
    assert_false(bt_kv_book_hold(b, 0, 5 * PAGE)); /* five window pages at once: there are four */
    assert_true(bt_kv_book_hold(b, 0, 4 * PAGE));
    for (uint32_t n = 5; n <= 12; n++) {
        assert_false(bt_kv_book_hold(b, 0, n * PAGE));
        bt_kv_book_forward(b, 0, (n - 4) * PAGE - 1); /* within a page: it stays */
        assert_false(bt_kv_book_hold(b, 0, n * PAGE));
        bt_kv_book_forward(b, 0, (n - 4) * PAGE);
        assert_true(bt_kv_book_hold(b, 0, n * PAGE));
        (void)bt_kv_book_table(b, 0, &len);
        assert_int_equal(len, n);
        assert_int_equal(bt_kv_book_windows(b, 0)[n - 5], BT_KV_NO_PAGE);
        assert_true(bt_kv_book_windows(b, 0)[n - 4] < 4);
        assert_int_equal(bt_kv_book_used(b), n);
        assert_int_equal(bt_kv_book_windows_used(b), 4);
        assert_true(bt_kv_book_is_sound(b));
    }
    bt_kv_book_release(b, 0);
    assert_int_equal(bt_kv_book_used(b) + bt_kv_book_windows_used(b), 0);
    assert_int_equal(bt_kv_book_windows_room(b), 4);
    /* Who begins behind a row takes none before it. */
    bt_kv_book_forward(b, 1, 9 * PAGE + 3);
    assert_true(bt_kv_book_hold(b, 1, 12 * PAGE));
    assert_int_equal(bt_kv_book_windows_used(b), 3);
    assert_int_equal(bt_kv_book_windows(b, 1)[8], BT_KV_NO_PAGE);
    bt_kv_book_release(b, 1);
    assert_true(bt_kv_book_is_sound(b));
    bt_kv_book_free(b);
}

static void a_prefix_ends_where_the_window_before_its_end_is_there(void **state)
{
    (void)state;
    int32_t ids[IDS], other[IDS];
    uint32_t len, after;
    for (int i = 0; i < IDS; i++) ids[i] = i, other[i] = i < 24 ? i : 100 + i;
    bt_kv_book *b = book(24, 12, WINDOW); /* a window begins in the third page before its end */
    /* of a prompt whose window pages are all there: any boundary */
    compute(b, 0, ids, 32, 0);
    const bt_prompt_view p = of(other, 24);
    assert_int_equal(bt_kv_book_match(b, 1, &p, 24), 24);
    assert_int_equal(bt_kv_book_match(b, 1, &p, 4), 4);
    /* Five pages are let go of and forgotten by who takes their place. */
    bt_kv_book_forward(b, 0, 20);
    assert_int_equal(bt_kv_book_windows_cached(b), 5);
    assert_int_equal(bt_kv_book_match(b, 1, &p, 24), 24); /* as good as free, but there */
    assert_true(bt_kv_book_hold(b, 1, 9 * PAGE));
    assert_int_equal(bt_kv_book_windows_room(b), 0);
    const bt_prompt_view whole = of(ids, 32);
    assert_int_equal(bt_kv_book_match(b, 1, &whole, 32), 32); /* pages 5, 6, 7: inside the window */
    assert_int_equal(bt_kv_book_match(b, 1, &whole, 31), 0);  /* 28 would need page 4 */
    assert_int_equal(bt_kv_book_match(b, 1, &p, 24), 0);      /* outside of it */
    bt_kv_book_release(b, 1);
    assert_int_equal(bt_kv_book_room_after(b, 1, &whole, 32, &after), 16);
    assert_int_equal(after, 9);
    assert_int_equal(bt_kv_book_share(b, 2, 1, &whole, 32), 32);
    (void)bt_kv_book_table(b, 2, &len);
    assert_int_equal(len, 8);
    assert_int_equal(bt_kv_book_windows(b, 2)[4], BT_KV_NO_PAGE);
    assert_int_equal(bt_kv_book_windows(b, 2)[5], bt_kv_book_windows(b, 0)[5]);
    bt_kv_book_release(b, 0);
    bt_kv_book_release(b, 2);
    /* The prompt computed again gives its window pages to the pages that are kept. */
    compute(b, 3, other, 24, 0);
    bt_kv_book_release(b, 3);
    assert_int_equal(bt_kv_book_match(b, 1, &p, 24), 24);
    assert_int_equal(bt_kv_book_match(b, 1, &whole, 32), 32);
    assert_int_equal(bt_kv_book_match(b, 1, &whole, 31), 28);
    assert_true(bt_kv_book_is_sound(b));
    bt_kv_book_free(b);
}

static void a_page_that_goes_takes_its_window_page_with_it(void **state)
{
    (void)state;
    int32_t ids[IDS];
    for (int i = 0; i < IDS; i++) ids[i] = i;
    bt_kv_book *b = book(12, 12, WINDOW);
    compute(b, 0, ids, 48, 0);
    bt_kv_book_release(b, 0);
    assert_int_equal(bt_kv_book_cached(b), 12);
    assert_int_equal(bt_kv_book_windows_cached(b), 12);
    for (uint32_t n = 1; n <= 12; n++) { /* as many of both, though no window page is taken for its own sake
                                          */
        assert_true(bt_kv_book_hold(b, 1, n * PAGE));
        assert_int_equal(bt_kv_book_cached(b), 12 - n);
        assert_int_equal(bt_kv_book_windows_cached(b), 12 - n);
        const bt_prompt_view p = of(ids, 48);
        assert_int_equal(bt_kv_book_match(b, 1, &p, 48), (12 - n) * PAGE);
        assert_true(bt_kv_book_is_sound(b));
    }
    bt_kv_book_free(b);
}

/* ---- a storm ---- */

typedef struct sequence {
    int32_t ids[IDS];
    uint32_t tokens, front; /* rows that are there; window rows from `front` on, as the taker counts */
} sequence;

/* The content of a row stands for the prompt up to that row. */
static uint64_t content(const int32_t *ids, uint32_t page)
{
    uint64_t h = 7;
    for (uint32_t i = 0; i < (page + 1) * PAGE; i++) h = bt_rng_u64(h, (uint64_t)ids[i]);
    return h;
}

static uint64_t all_rows[PAGES], window_rows[WINDOWS];

static void check_rows(const bt_kv_book *b, uint32_t seq, const sequence *s)
{
    uint32_t len;
    const uint32_t *all = bt_kv_book_table(b, seq, &len), *windows = bt_kv_book_windows(b, seq);
    for (uint32_t i = 0; i < s->tokens / PAGE; i++) {
        assert_true(i < len && all_rows[all[i]] == content(s->ids, i));
        if ((i + 1) * PAGE > s->front) assert_true(window_rows[windows[i]] == content(s->ids, i));
    }
}

static void begin(bt_kv_book *b, uint32_t seq, sequence *s, uint64_t seed, uint64_t *draws)
{
    const uint32_t same = (uint32_t)(bt_rng_u64(seed, (*draws)++) % IDS),
                   of_whom = (uint32_t)(bt_rng_u64(seed, (*draws)++) % 3),
                   len = 1 + (uint32_t)(bt_rng_u64(seed, (*draws)++) % IDS);
    for (uint32_t i = 0; i < IDS; i++)
        s->ids[i] = (int32_t)(i < same ? bt_rng_u64(of_whom, i) % 1000 : bt_rng_u64(seed, (*draws)++) % 1000);
    const bt_prompt_view p = of(s->ids, len);
    const uint32_t got = bt_kv_book_match(b, 1, &p, len);
    uint32_t windows_after;
    const uint32_t after = bt_kv_book_room_after(b, 1, &p, len, &windows_after);
    assert_int_equal(bt_kv_book_share(b, seq, 1, &p, len), got);
    assert_int_equal(bt_kv_book_room(b), after);
    assert_int_equal(bt_kv_book_windows_room(b), windows_after);
    s->tokens = got;
    s->front = got > WINDOW ? got - WINDOW : 0;
    check_rows(b, seq, s);
}

static void grow(bt_kv_book *b, uint32_t seq, sequence *s, uint32_t tokens)
{
    uint32_t len;
    if (tokens <= s->tokens || !bt_kv_book_hold(b, seq, tokens)) return;
    const uint32_t *all = bt_kv_book_table(b, seq, &len), *windows = bt_kv_book_windows(b, seq);
    for (uint32_t i = s->tokens / PAGE; i < tokens / PAGE; i++) {
        all_rows[all[i]] = content(s->ids, i);
        if (windows[i] != BT_KV_NO_PAGE) window_rows[windows[i]] = content(s->ids, i);
    }
    s->tokens = tokens / PAGE * PAGE;
}

static void rows_of_a_storm_are_what_their_takers_made_of_them(void **state)
{
    (void)state;
    uint32_t hits = 0, missed = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        bt_kv_book *b = book(PAGES, WINDOWS, WINDOW);
        sequence s[SEQS] = {0};
        bool is_open[SEQS] = {false};
        uint64_t draws = 0;
        for (int step = 0; step < 400; step++) {
            const uint32_t seq = (uint32_t)(bt_rng_u64(seed, draws++) % SEQS),
                           what = (uint32_t)(bt_rng_u64(seed, draws++) % 4);
            if (!is_open[seq]) {
                begin(b, seq, &s[seq], seed, &draws);
                hits += s[seq].tokens > 0;
                missed += s[seq].tokens == 0;
                is_open[seq] = true;
            } else if (what == 0) {
                bt_kv_book_release(b, seq);
                is_open[seq] = false;
            } else if (what == 1 && s[seq].tokens > WINDOW) {
                s[seq].front = s[seq].tokens - WINDOW;
                bt_kv_book_forward(b, seq, s[seq].front);
            } else {
                grow(b, seq, &s[seq],
                     s[seq].tokens + 1 + (uint32_t)(bt_rng_u64(seed, draws++) % (IDS - s[seq].tokens + 1)));
                const bt_prompt_view p = of(s[seq].ids, s[seq].tokens);
                bt_kv_book_keep(b, seq, 1, &p, s[seq].tokens);
            }
            assert_true(bt_kv_book_is_sound(b));
            for (uint32_t i = 0; i < SEQS; i++)
                if (is_open[i]) check_rows(b, i, &s[i]);
        }
        for (uint32_t i = 0; i < SEQS; i++) bt_kv_book_release(b, i);
        assert_int_equal(bt_kv_book_used(b) + bt_kv_book_windows_used(b), 0);
        assert_int_equal(bt_kv_book_room(b), PAGES);
        assert_int_equal(bt_kv_book_windows_room(b), WINDOWS);
        bt_kv_book_free(b);
    }
    printf("%u hits, %u misses\n", hits, missed);
    assert_true(hits > 500 && missed > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(window_pages_go_back_while_the_others_stay),
        cmocka_unit_test(a_prefix_ends_where_the_window_before_its_end_is_there),
        cmocka_unit_test(a_page_that_goes_takes_its_window_page_with_it),
        cmocka_unit_test(rows_of_a_storm_are_what_their_takers_made_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
