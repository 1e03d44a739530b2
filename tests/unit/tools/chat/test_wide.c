/* Wide characters and UTF-8, there and back, against the C library's own conversion. */
#include "tools/chat/wide.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_character_is_what_the_c_library_says_and_comes_back(void **state)
{
    char bytes[64];
    bt_buf b;
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) skip();
    bt_buf_init(&b, sizeof bytes);
    for (wchar_t c = 0; c < 0x110000; c++) {
        mbstate_t mbs = {0};
        const size_t n = wcrtomb(bytes, c, &mbs);
        bt_buf_clear(&b);
        if (n == (size_t)-1) {
            assert_int_equal(tool_wide_put(&b, c), BT_EFORMAT);
            continue;
        }
        assert_int_equal(tool_wide_put(&b, c), BT_OK);
        assert_int_equal(b.len, n);
        assert_int_equal(tool_wide_bytes(&c, 1), n);
        assert_memory_equal(b.data, bytes, n);
        wchar_t back = 0;
        for (size_t part = 1; part < n; part++) assert_int_equal(tool_wide_take(&back, bytes, part), 0);
        assert_int_equal(tool_wide_take(&back, bytes, n), n);
        assert_int_equal(back, c);
    }
    bt_buf_done(&b);
}

static void bytes_that_are_no_text_are_seen_one_by_one_and_refused(void **state)
{
    static const char bad[] = {'a', '\xFF', '\xE4', '\xBD', 'b', '\xC0', '\x80'}; /* char may have no sign */
    bt_buf b;
    (void)state;
    wchar_t *wide = tool_wide_dup(bad, sizeof bad);
    assert_non_null(wide);
    for (size_t i = 0; i < sizeof bad; i++)
        assert_int_equal(wide[i], bad[i] & 0x80 ? TOOL_WIDE_BAD + (unsigned char)bad[i] : bad[i]);
    assert_int_equal(wide[sizeof bad], 0);
    assert_int_equal(tool_wide_bytes(wide, sizeof bad), sizeof bad);
    bt_buf_init(&b, 100);
    assert_int_equal(tool_wide_put_all(&b, wide, 1), BT_OK);
    assert_int_equal(tool_wide_put_all(&b, wide, sizeof bad), BT_EFORMAT);
    free(wide);
    bt_buf_done(&b);
}

static void a_buffer_that_is_full_says_so(void **state)
{
    bt_buf b;
    (void)state;
    bt_buf_init(&b, 5);
    assert_int_equal(tool_wide_put_all(&b, L"\u4f60ab", 3), BT_OK);
    assert_int_equal(tool_wide_put_all(&b, L"c", 1), BT_ELIMIT);
    assert_int_equal(b.len, 5);
    bt_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_what_the_c_library_says_and_comes_back),
        cmocka_unit_test(bytes_that_are_no_text_are_seen_one_by_one_and_refused),
        cmocka_unit_test(a_buffer_that_is_full_says_so),
    };
    return cmocka_run_group_tests_name("wide characters", tests, NULL, NULL);
}
