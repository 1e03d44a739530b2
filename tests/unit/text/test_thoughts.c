/* Thoughts apart from what is said, whatever the pieces in which the text comes. */
#include "text/thoughts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const bt_thought_marks marks = {.open = "<think>", .close = "</think>"};
static const bt_thought_marks *used = &marks; /* by split */

/* The text in steps of `step` bytes, as "thoughts|said". */
static void split(char ret[static 512], const char *text, bool is_open, size_t step)
{
    bt_thoughts t;
    bt_thoughts_part p;
    char part[2][256] = {"", ""};
    const size_t len = strlen(text);
    bt_thoughts_begin(&t, used, is_open);
    for (size_t n = step < len ? step : len;; n = n + step < len ? n + step : len) {
        while (bt_thoughts_next(&p, &t, text, n, false)) strncat(part[p.is_thought], p.text.ptr, p.text.len);
        if (n == len) break;
    }
    while (bt_thoughts_next(&p, &t, text, len, true)) strncat(part[p.is_thought], p.text.ptr, p.text.len);
    assert_int_equal(t.at, len);
    (void)snprintf(ret, 512, "%s|%s", part[1], part[0]);
}

static void is(const char *text, bool is_open, const char *want)
{
    char got[512];
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        split(got, text, is_open, step);
        assert_string_equal(got, want);
    }
}

static void an_answer_is_cut_at_its_marks_without_the_white_space_around_them(void **state)
{
    (void)state;
    is("<think>\nFirst.\n\nThen.\n</think>\n\nHello\n", false, "First.\n\nThen.|Hello\n");
    is("\n <think>a</think>b", false, "a|b");
    is("<think>\n\n</think>\n\nb", false, "|b");
    is("<think>a</think> <think> b </think>c <think>d", false, "ab|c <think>d");
    is("<think>a < b </thin </think>c", false, "a < b </thin|c");
}

static void messages_of_the_channel_analysis_are_thoughts_and_all_others_said(void **state)
{
    (void)state;
    static const char template[] = "<|start|>assistant<|channel|>analysis<|message|>";
    used = bt_thoughts_find(NULL, (bt_text_span){template, sizeof template - 1});
    assert_non_null(used);
    is("<|channel|>analysis<|message|>\nHm. <|end|><|start|>assistant<|channel|>final<|message|>Yes\n", false,
       "Hm.|Yes\n");
    is("<|channel|>final<|message|>Yes <|x", false, "|Yes <|x");
    is("<|channel|>commentary<|message|>I look. "
       "<|end|><|start|>assistant<|channel|>analysis<|message|>a<|end|>"
       "<|start|>assistant<|channel|>final<|message|>b",
       false, "a|I look. b");
    is("a<|end|>\n<|start|>assistant to=f<|channel|>commentary json<|message|>{}", true, "a|{}");
    is("Yes", false, "|Yes");
    is("<|channel|>anal", false, "|"); /* an answer that ends in a header */
    is("<|chann", false, "|<|chann");
    used = &marks;
}

static void an_answer_begins_inside_thoughts_where_the_prompt_opened_them(void **state)
{
    (void)state;
    is("so\n</think>\n\nHello", true, "so|Hello");
    is("\n\nso", true, "so|");
    is("<think>so</think>x", true, "<think>so|x");
    assert_true(bt_thoughts_opened(&marks, "x<think>\n", 9));
    assert_true(bt_thoughts_opened(&marks, "<think>", 7));
    assert_false(bt_thoughts_opened(&marks, "<think>\n\n</think>\n\n", 18));
    assert_false(bt_thoughts_opened(&marks, "think>", 6));
    assert_false(bt_thoughts_opened(NULL, "<think>", 7));
}

static void text_without_thoughts_stays_as_it_is(void **state)
{
    (void)state;
    is("\n\n Hello <think>x</think> \n", false, "|\n\n Hello <think>x</think> \n");
    is(" \n", false, "| \n");
    is("<thi", false, "|<thi");
    is("<thinking>", false, "|<thinking>");
    is("x</think>y", false, "|x</think>y");
    is("", false, "|");
}

static void thoughts_that_do_not_end_are_thoughts_to_the_end(void **state)
{
    (void)state;
    is("<think>a </thi", false, "a </thi|");
    is("<think>a \n", false, "a|");
}

static void only_so_much_white_space_waits(void **state)
{
    (void)state;
    char text[128], want[256];
    (void)snprintf(text, sizeof text, "%*s<think>a", BT_THOUGHTS_MAX_HELD_BYTES + 1, "");
    (void)snprintf(want, sizeof want, "|%s", text);
    is(text, false, want);
    bt_thoughts t;
    bt_thoughts_part p;
    (void)snprintf(text, sizeof text, "a%*s", BT_THOUGHTS_MAX_HELD_BYTES + 1, "");
    bt_thoughts_begin(&t, &marks, true);
    assert_true(bt_thoughts_next(&p, &t, text, strlen(text), false));
    assert_int_equal(p.text.len, strlen(text));
}

static void without_marks_all_is_said(void **state)
{
    (void)state;
    bt_thoughts t;
    bt_thoughts_part p;
    bt_thoughts_begin(&t, NULL, false);
    assert_true(bt_thoughts_next(&p, &t, " <think>", 8, false));
    assert_true(!p.is_thought && p.text.len == 8);
    assert_false(bt_thoughts_next(&p, &t, " <think>", 8, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_cut_at_its_marks_without_the_white_space_around_them),
        cmocka_unit_test(messages_of_the_channel_analysis_are_thoughts_and_all_others_said),
        cmocka_unit_test(an_answer_begins_inside_thoughts_where_the_prompt_opened_them),
        cmocka_unit_test(text_without_thoughts_stays_as_it_is),
        cmocka_unit_test(thoughts_that_do_not_end_are_thoughts_to_the_end),
        cmocka_unit_test(only_so_much_white_space_waits),
        cmocka_unit_test(without_marks_all_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
