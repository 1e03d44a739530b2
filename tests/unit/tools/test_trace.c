/* Prompt lengths of traces: three forms, and what is wrong named by its line. */
#include "tools/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void expect(const char *text, const uint32_t *want, size_t n)
{
    uint32_t *got;
    size_t count;
    bt_fault f;
    if (tool_trace_lengths(&got, &count, text, strlen(text), &f) < 0) fail_msg("%s: %s", text, f.text);
    assert_int_equal(count, n);
    assert_memory_equal(got, want, n * sizeof *want);
    free(got);
}

static void three_forms_give_the_same_lengths(void **state)
{
    (void)state;
    static const uint32_t want[] = {374, 0, 4808, 1073741824};
    static const char *const texts[] = {
        "374 0\n4808,1073741824",
        "\n 374\r\n0\r\n\r\n4808\r\n1073741824\r\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16 "
        "18:15:50.99,0,9\nx,4808,1\n,1073741824,\n",
        "\nContextTokens\n374\n0\n\n4808\n1073741824\n",
        "a, ContextTokens \r\n1, 374 \r\n1,0\r\n1,4808\r\n1,1073741824\r\n",
        "{\"timestamp\": 0, \"input_length\": 374, \"hash_ids\": [0, 1]}\n{\"input_length\": 0}\n\n "
        "{\"input_length\": 4808}\r\n{\"input_length\":1073741824}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) expect(texts[i], want, 4);
}

static void refuses_what_is_no_trace_and_names_the_line(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "no request"},
        {"\n \n", "no request"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request"},
        {"time,tokens\n1,2\n", "line 1"},
        {"-5\n", "line 1"},
        {"5\n6 seven\n", "line 2"},
        {"5\n6.5\n", "line 2"},
        {"5\n1073741825\n", "line 2"},
        {"5\n99999999999999999999999\n", "line 2"},
        {"a,ContextTokens\n1,2\n1\n", "line 3"},
        {"a,ContextTokens\n1,\n", "line 2"},
        {"a,ContextTokens\n1,-2\n", "line 2"},
        {"{\"input_length\": 5}\n{\"output_length\": 5}\n", "line 2"},
        {"{\"input_length\": 5}\n{\"input_length\": \"5\"}\n", "line 2"},
        {"{\"input_length\": -5}\n", "line 1"},
        {"{\"input_length\": 5}\n{\"input_length\": 5\n", "line 2"},
        {"{\"input_length\": 5}\n7\n", "line 2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t *got = NULL;
        size_t n = 77;
        bt_fault f = {""};
        const bt_err e = tool_trace_lengths(&got, &n, bad[i][0], strlen(bad[i][0]), &f);
        if (e != BT_EFORMAT || !strstr(f.text, bad[i][1])) fail_msg("%s: %d '%s'", bad[i][0], (int)e, f.text);
        assert_null(got);
        assert_int_equal(n, 77);
    }
    char *line = malloc(TOOL_TRACE_MAX_LINE + 3);
    assert_non_null(line);
    memset(line, ' ', TOOL_TRACE_MAX_LINE + 2);
    line[0] = '5';
    line[TOOL_TRACE_MAX_LINE + 2] = 0;
    uint32_t *got;
    size_t n;
    assert_int_equal(tool_trace_lengths(&got, &n, line, TOOL_TRACE_MAX_LINE + 2, NULL), BT_EFORMAT);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_forms_give_the_same_lengths),
        cmocka_unit_test(refuses_what_is_no_trace_and_names_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
