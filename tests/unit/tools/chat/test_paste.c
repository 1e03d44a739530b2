/* Pastes as terminals send them: whole, in any cut, with any line ends, and never past the limit. */
#include "tools/chat/paste.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Feeds all of text; how many characters were taken up to the end of the paste, 0 when that did not come. */
static size_t feed(tool_paste *p, const wchar_t *text)
{
    for (size_t i = 0; text[i]; i++) {
        bool ended;
        assert_int_equal(tool_paste_feed(p, text[i], &ended), BT_OK);
        if (ended) return i + 1;
    }
    return 0;
}

static void expect(const wchar_t *sent, const wchar_t *text)
{
    tool_paste p;
    tool_paste_init(&p, 100);
    assert_int_equal(feed(&p, sent), wcslen(sent));
    assert_int_equal(p.len, wcslen(text));
    assert_memory_equal(p.text ? p.text : L"", text, (wcslen(text) + 1) * sizeof *text);
    assert_false(p.is_too_long);
    tool_paste_done(&p);
}

static void a_paste_ends_at_its_mark_and_nowhere_before(void **state)
{
    (void)state;
    expect(L"two words" TOOL_PASTE_END, L"two words");
    expect(TOOL_PASTE_END, L"");
    expect(L"a\033[20" TOOL_PASTE_END, L"a\033[20");
    expect(L"\033\033[201" TOOL_PASTE_END, L"\033\033[201");
    expect(L"\033[200~" TOOL_PASTE_END, L"\033[200~");
    expect(L"\033[31mred\033[0m" TOOL_PASTE_END, L"\033[31mred\033[0m");
    expect(L"h\u00e9 \u4f60 \U0001F600" TOOL_PASTE_END, L"h\u00e9 \u4f60 \U0001F600");
}

static void every_kind_of_line_end_is_one(void **state)
{
    (void)state;
    expect(L"a\rb\r" TOOL_PASTE_END, L"a\nb\n");
    expect(L"a\nb\n\nc" TOOL_PASTE_END, L"a\nb\n\nc");
    expect(L"a\r\nb\r\n\r\nc" TOOL_PASTE_END, L"a\nb\n\nc");
    expect(L"a\n\rb\n\r\n\rc" TOOL_PASTE_END, L"a\nb\n\nc"); /* CR LF, as a terminal that swaps them gives it
                                                              */
    expect(L"a\r\rb" TOOL_PASTE_END, L"a\n\nb");
    expect(L"a\r\tb\n c" TOOL_PASTE_END, L"a\n\tb\n c");
}

static void what_is_past_the_limit_is_dropped_and_said(void **state)
{
    tool_paste p;
    bool ended;
    (void)state;
    tool_paste_init(&p, 3000);
    for (size_t i = 0; i < 3000; i++) assert_int_equal(tool_paste_feed(&p, L'x', &ended), BT_OK);
    assert_int_equal(feed(&p, TOOL_PASTE_END), TOOL_PASTE_END_CHARS);
    assert_false(p.is_too_long);
    tool_paste_clear(&p);
    assert_int_equal(p.len, 0);
    for (size_t i = 0; i < 100000; i++) assert_int_equal(tool_paste_feed(&p, L'x', &ended), BT_OK);
    assert_int_equal(feed(&p, L"y" TOOL_PASTE_END), 1 + TOOL_PASTE_END_CHARS);
    assert_true(p.is_too_long);
    assert_int_equal(p.len, 3000);
    assert_true(p.cap < 2 * 3000);
    tool_paste_done(&p);
}

static void the_limit_counts_bytes_not_characters(void **state)
{
    tool_paste p;
    (void)state;
    tool_paste_init(&p, 10);
    feed(&p, L"\u4f60\u4f60\u4f60x" TOOL_PASTE_END);
    assert_false(p.is_too_long);
    assert_int_equal(p.bytes, 10);
    tool_paste_clear(&p);
    feed(&p, L"\u4f60\u4f60\u4f60xy" TOOL_PASTE_END);
    assert_true(p.is_too_long);
    tool_paste_clear(&p);
    feed(&p, L"12345678\U0001F600z" TOOL_PASTE_END); /* what does not fit ends the text */
    assert_true(p.is_too_long);
    assert_memory_equal(p.text, L"12345678", 9 * sizeof(wchar_t));
    tool_paste_done(&p);
}

static void the_next_paste_begins_anew(void **state)
{
    tool_paste p;
    bool ended;
    (void)state;
    tool_paste_init(&p, 10);
    assert_int_equal(feed(&p, L"a\r\033[20"), 0); /* interrupted */
    tool_paste_clear(&p);
    assert_int_equal(tool_paste_feed(&p, L'1', &ended), BT_OK);
    assert_int_equal(feed(&p, L"~\n" TOOL_PASTE_END), 2 + TOOL_PASTE_END_CHARS);
    assert_memory_equal(p.text, L"1~\n", 4 * sizeof(wchar_t));
    tool_paste_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paste_ends_at_its_mark_and_nowhere_before),
        cmocka_unit_test(every_kind_of_line_end_is_one),
        cmocka_unit_test(what_is_past_the_limit_is_dropped_and_said),
        cmocka_unit_test(the_limit_counts_bytes_not_characters),
        cmocka_unit_test(the_next_paste_begins_anew),
    };
    return cmocka_run_group_tests_name("pastes", tests, NULL, NULL);
}
