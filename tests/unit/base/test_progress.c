/* The words of a progress and its estimate, by a clock of the test's own. */
#include "base/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void assert_text(const bt_progress *p, int64_t now_ms, const char *want)
{
    char text[BT_PROGRESS_BYTES];
    bt_progress_text(text, p, now_ms);
    assert_string_equal(text, want);
}

static void a_wait_without_a_measure_says_what_it_waits_for(void **state)
{
    (void)state;
    bt_progress p;
    bt_progress_begin(&p, "starting the nodes", 5000);
    assert_text(&p, 5000, "starting the nodes");
    assert_text(&p, 65000, "starting the nodes");
}

static void the_time_left_follows_from_what_was_done_in_the_time_that_passed(void **state)
{
    (void)state;
    bt_progress p;
    bt_progress_begin(&p, "compiling (once, then kept)", 1000);
    bt_progress_at(&p, 0, 200, 1000);
    assert_text(&p, 1000, "compiling (once, then kept): 0 %");
    bt_progress_at(&p, 124, 200, 1000 + 32600); /* 76 more take 76 / 124 of it */
    assert_text(&p, 1000 + 32600, "compiling (once, then kept): 62 %, about 20 s left");
    bt_progress_at(&p, 124, 200, 1000 + 326000); /* the same, ten times as slow */
    assert_text(&p, 1000 + 326000, "compiling (once, then kept): 62 %, about 4 min left");
    bt_progress_at(&p, 200, 200, 1000 + 400000);
    assert_text(&p, 1000 + 400000, "compiling (once, then kept): 100 %");
}

static void it_counts_down_between_reports_and_falls_silent_when_it_was_wrong(void **state)
{
    (void)state;
    bt_progress p;
    bt_progress_begin(&p, "packing", 0);
    bt_progress_at(&p, 1, 2, 8000);
    assert_text(&p, 8000, "packing: 50 %, about 8 s left");
    assert_text(&p, 13000, "packing: 50 %, about 3 s left");
    assert_text(&p, 15999, "packing: 50 %, about 1 s left");
    assert_text(&p, 16000, "packing: 50 %");
    assert_text(&p, 90000, "packing: 50 %");
    bt_progress_at(&p, 3, 4, 90000);
    assert_text(&p, 90000, "packing: 75 %, about 30 s left");
}

static void a_second_thing_of_the_same_words_has_a_time_of_its_own(void **state)
{
    (void)state;
    bt_progress p;
    bt_progress_begin(&p, "converting", 0);
    bt_progress_at(&p, 10, 10, 60000);
    bt_progress_at(&p, 0, 10, 60000);
    bt_progress_at(&p, 5, 10, 64000);
    assert_text(&p, 64000, "converting: 50 %, about 4 s left");
}

static void nothing_is_estimated_from_too_little(void **state)
{
    (void)state;
    bt_progress p;
    bt_progress_begin(&p, "x", 0);
    bt_progress_at(&p, 500, 1000, 999);
    assert_text(&p, 999, "x: 50 %");
    bt_progress_at(&p, 9, 1000, 5000);
    assert_text(&p, 5000, "x: 0 %");
    bt_progress_at(&p, 0, 5, 5000);
    assert_text(&p, 5000, "x: 0 %");
}

static void extreme_figures_do_no_harm(void **state)
{
    (void)state;
    bt_progress p;
    char text[BT_PROGRESS_BYTES], longer[1000];
    memset(longer, 'w', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    bt_progress_begin(&p, longer, INT64_MIN / 2);
    memset(p.note, 'n', sizeof p.note - 1);
    bt_progress_at(&p, UINT64_MAX, UINT64_MAX, INT64_MAX / 2);
    bt_progress_text(text, &p, INT64_MAX / 2);
    assert_non_null(strstr(text, ": 100 %"));
    bt_progress_at(&p, UINT64_MAX / 2, UINT64_MAX, INT64_MAX / 4);
    bt_progress_text(text, &p, INT64_MAX / 4);
    bt_progress_begin(&p, "x", 0);
    bt_progress_at(&p, 7, 5, 1000); /* more than all */
    assert_text(&p, 1000, "x: 100 %");
    bt_progress_at(&p, 7, 0, 1000);
    assert_text(&p, 1000, "x");
}

static void durations_are_rounded_as_people_say_them(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *want;
    } of[] = {{1, "about 1 s"},
              {1001, "about 2 s"},
              {9000, "about 9 s"},
              {9001, "about 10 s"},
              {10001, "about 15 s"},
              {55000, "about 55 s"},
              {55001, "about 1 min"},
              {60001, "about 2 min"},
              {59 * 60000, "about 59 min"},
              {59 * 60000 + 1, "about 1 h"},
              {61 * 60000, "about 1 h 5 min"},
              {119 * 60000, "about 2 h"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[32];
        bt_progress_duration(text, sizeof text, of[i].ms);
        assert_string_equal(text, of[i].want);
    }
}

static void a_line_that_stays_comes_once_and_only_after_a_second(void **state)
{
    (void)state;
    bt_progress p;
    bt_progress_begin(&p, "opening the model", 100);
    assert_false(bt_progress_due(&p, false, 100));
    assert_false(bt_progress_due(&p, false, 1099));
    bt_progress_at(&p, 1, 10, 1100);
    assert_true(bt_progress_due(&p, false, 1100));
    assert_string_equal(p.shown, "opening the model: 10 %, about 9 s left");
    bt_progress_at(&p, 5, 10, 5000);
    assert_false(bt_progress_due(&p, false, 5000));
    bt_progress_begin(&p, "starting the nodes", 6000);
    assert_false(bt_progress_due(&p, false, 6999));
    assert_true(bt_progress_due(&p, false, 7000));
}

static void a_redrawn_line_comes_whenever_its_text_has_changed(void **state)
{
    (void)state;
    bt_progress p;
    bt_progress_begin(&p, "measuring", 0);
    assert_false(bt_progress_due(&p, true, BT_PROGRESS_REDRAW_MS - 1));
    assert_true(bt_progress_due(&p, true, BT_PROGRESS_REDRAW_MS));
    assert_false(bt_progress_due(&p, true, 400));
    bt_progress_at(&p, 1, 4, 500);
    assert_true(bt_progress_due(&p, true, 500));
    snprintf(p.note, sizeof p.note, "perplexity so far %.2f", 28.74);
    assert_true(bt_progress_due(&p, true, 600));
    assert_string_equal(p.shown, "measuring: 25 % (perplexity so far 28.74)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_without_a_measure_says_what_it_waits_for),
        cmocka_unit_test(the_time_left_follows_from_what_was_done_in_the_time_that_passed),
        cmocka_unit_test(it_counts_down_between_reports_and_falls_silent_when_it_was_wrong),
        cmocka_unit_test(a_second_thing_of_the_same_words_has_a_time_of_its_own),
        cmocka_unit_test(nothing_is_estimated_from_too_little),
        cmocka_unit_test(extreme_figures_do_no_harm),
        cmocka_unit_test(durations_are_rounded_as_people_say_them),
        cmocka_unit_test(a_line_that_stays_comes_once_and_only_after_a_second),
        cmocka_unit_test(a_redrawn_line_comes_whenever_its_text_has_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
