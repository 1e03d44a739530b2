/* Stop strings: any way of cutting the stream gives what a search of the whole text gives. */
#include "sample/stop.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bt_stop with(const char *const *strings, size_t n)
{
    bt_stop s;
    bt_stop_init(&s);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bt_stop_add_string(&s, strings[i], strlen(strings[i]), NULL), BT_OK);
    return s;
}

/* Feeds text in pieces of the given size (0: sizes from a seed); writes what is shown. */
static bool feed(bt_stop *s, char *shown, const char *text, size_t piece, uint64_t seed)
{
    size_t n = 0, at = 0;
    const size_t len = strlen(text);
    bool stopped = false;
    for (uint64_t draw = 0; at < len; draw++) {
        size_t take = piece ? piece : 1 + bt_rng_u64(seed, draw) % 5;
        if (take > len - at) take = len - at;
        char *out = malloc(bt_stop_room(s, take)); /* exact: asan sees a byte too many */
        assert_non_null(out);
        const size_t got = bt_stop_push(s, out, text + at, take, &stopped);
        memcpy(shown + n, out, got);
        n += got;
        at += take;
        free(out);
    }
    if (!stopped) n += bt_stop_flush(s, shown + n);
    shown[n] = 0;
    return stopped;
}

static void check(const char *const *strings, size_t n, const char *text, const char *want, bool want_stopped)
{
    for (size_t piece = 1; piece < 12; piece++) {
        bt_stop s = with(strings, n);
        char shown[256];
        assert_int_equal(feed(&s, shown, text, piece, 0), want_stopped);
        assert_string_equal(shown, want);
    }
}

static void text_before_a_stop_string_is_shown_and_nothing_after(void **state)
{
    (void)state;
    check((const char *[]){"END"}, 1, "one END two", "one ", true);
    check((const char *[]){"END"}, 1, "EENDx", "E", true);
    check((const char *[]){"END"}, 1, "the EN D", "the EN D", false);
    check((const char *[]){"END"}, 1, "no stop, ends with EN", "no stop, ends with EN", false);
    check((const char *[]){"aab"}, 1, "aaaab", "aa", true);
    check((const char *[]){"abcd", "bc"}, 2, "xabcd", "xa", true);
    check((const char *[]){"bc", "abc"}, 2, "xabcd", "x", true);
    check(NULL, 0, "anything", "anything", false);
}

static void the_stop_string_that_was_found_is_known(void **state)
{
    (void)state;
    static const char *const strings[] = {"zz", "bc", "abc", "c"};
    static const struct {
        const char *text;
        size_t found;
    } c[] = {{"xabcd", 2}, {"xbcd", 1}, {"xcd", 3}, {"azz", 0}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        bt_stop s = with(strings, 4);
        char shown[256];
        assert_true(feed(&s, shown, c[i].text, 1, 0));
        assert_int_equal(s.found, c[i].found);
    }
}

static void only_what_may_become_a_stop_string_is_held_back(void **state)
{
    (void)state;
    bt_stop s = with((const char *[]){"\n\nUser:"}, 1);
    char out[64];
    bool stopped;
    assert_int_equal(bt_stop_push(&s, out, "hi\n", 3, &stopped), 2);
    assert_int_equal(bt_stop_push(&s, out, "x", 1, &stopped), 2);
    assert_memory_equal(out, "\nx", 2);
    assert_int_equal(bt_stop_push(&s, out, "\n\nUse", 5, &stopped), 0);
    assert_int_equal(bt_stop_push(&s, out, "r:tail", 6, &stopped), 0);
    assert_true(stopped);
    assert_int_equal(bt_stop_push(&s, out, "more", 4, &stopped), 0);
    assert_true(stopped);
    assert_int_equal(bt_stop_flush(&s, out), 0);
}

/* The oracle: the end of a stop string that comes first in the text, the longest that ends there. */
static bool search(char *shown, const char *text, const char *const *strings, size_t n)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t best = 0;
        for (size_t i = 0; i < n; i++) {
            const size_t len = strlen(strings[i]);
            if (len <= end && len > best && memcmp(text + end - len, strings[i], len) == 0) best = len;
        }
        if (best) {
            memcpy(shown, text, end - best);
            shown[end - best] = 0;
            return true;
        }
    }
    strcpy(shown, text);
    return false;
}

static void random_texts_over_two_letters_agree_with_a_search_of_the_whole_text(void **state)
{
    (void)state;
    const uint64_t seed = 7;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t round = 0; round < 3000; round++) {
        char text[41] = {0}, store[3][8] = {{0}}, want[41], got[41];
        const char *strings[3] = {store[0], store[1], store[2]};
        for (size_t i = 0; i < 40; i++) text[i] = (char)('a' + bt_rng_u64(seed + round, i) % 2);
        for (size_t k = 0; k < 3; k++) {
            const size_t len = 2 + bt_rng_u64(seed + round, 100 + k) % 6;
            for (size_t i = 0; i < len; i++)
                store[k][i] = (char)('a' + bt_rng_u64(seed + round, 200 + 10 * k + i) % 2);
        }
        bt_stop s = with(strings, 3);
        const bool stopped = feed(&s, got, text, 0, round);
        assert_int_equal(stopped, search(want, text, strings, 3));
        assert_string_equal(got, want);
    }
}

static void the_longest_and_the_most_stop_strings_work_and_one_more_is_refused(void **state)
{
    (void)state;
    char longest[BT_STOP_MAX_BYTES + 1], out[2 * BT_STOP_MAX_BYTES];
    memset(longest, 'a', sizeof longest);
    bt_stop s;
    bt_stop_init(&s);
    for (int i = 0; i < BT_STOP_MAX_STRINGS; i++)
        assert_int_equal(bt_stop_add_string(&s, longest, BT_STOP_MAX_BYTES, NULL), BT_OK);
    assert_int_equal(bt_stop_add_string(&s, "x", 1, NULL), BT_ELIMIT);
    bool stopped = false;
    assert_int_equal(bt_stop_push(&s, out, longest, BT_STOP_MAX_BYTES - 1, &stopped), 0);
    assert_false(stopped);
    assert_int_equal(bt_stop_push(&s, out, "ba", 2, &stopped), BT_STOP_MAX_BYTES);
    assert_int_equal(bt_stop_push(&s, out, longest, BT_STOP_MAX_BYTES - 1, &stopped), 0);
    assert_true(stopped);
    bt_stop_init(&s);
    assert_int_equal(bt_stop_add_string(&s, longest, BT_STOP_MAX_BYTES + 1, NULL), BT_ELIMIT);
    assert_int_equal(bt_stop_add_string(&s, "", 0, NULL), BT_EARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_before_a_stop_string_is_shown_and_nothing_after),
        cmocka_unit_test(the_stop_string_that_was_found_is_known),
        cmocka_unit_test(only_what_may_become_a_stop_string_is_held_back),
        cmocka_unit_test(random_texts_over_two_letters_agree_with_a_search_of_the_whole_text),
        cmocka_unit_test(the_longest_and_the_most_stop_strings_work_and_one_more_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
