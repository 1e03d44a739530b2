/* How prompts are cut. The expected numbers are written by hand. */
#include "npu/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static bt_plan_policy policy(const char *text)
{
    bt_plan_policy p = {0};
    assert_int_equal(bt_plan_parse(&p, text, NULL), BT_OK);
    return p;
}

static void expect(const char *text, size_t n, const size_t *rows)
{
    const bt_plan_policy p = policy(text);
    size_t begin = 0, total = 0;
    for (; *rows; rows++) {
        const bt_plan_chunk c = bt_plan_next(p, n, begin);
        assert_int_equal(c.begin, begin);
        assert_int_equal(c.rows, *rows);
        assert_true(c.valid >= 1 && c.valid <= c.rows);
        begin += c.valid;
        total += c.rows;
    }
    assert_int_equal(begin, n);
    assert_int_equal(bt_plan_rows(p, n), total);
}

static void cuts_as_the_table_says(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        size_t n, rows[8];
    } table[] = {
        {NULL, 1, {16}},
        {NULL, 15, {16}},
        {NULL, 16, {16}},
        {NULL, 17, {32}},
        {NULL, 33, {64}},
        {NULL, 128, {128}},
        {NULL, 129, {256}},
        {NULL, 255, {256}},
        {NULL, 256, {256}},
        {NULL, 257, {256, 16}},
        {NULL, 600, {256, 256, 128}},
        {NULL, 1024, {256, 256, 256, 256}},
        {"chunk:64+tail", 150, {64, 64, 32}},
        {"chunk:16", 33, {16, 16, 16}},
        {"chunk:64", 65, {64, 64}},
        {"chunk:256", 1, {256}},
        {"whole", 1, {16}},
        {"whole", 600, {608}},
        {"whole", 1000, {1008}},
        {"chunk:16+tail", 17, {16, 16}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        expect(table[i].policy, table[i].n, table[i].rows);
}

static void every_chunk_is_a_shape_of_the_policy(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk:256+tail", "chunk:64+tail", "chunk:16", "chunk:256", "whole"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        const bt_plan_policy p = policy(texts[t]);
        for (size_t ctx = 1; ctx <= 700; ctx += 23)
            for (size_t n = 1; n <= ctx; n++)
                for (size_t begin = 0; begin < n;) {
                    const bt_plan_chunk c = bt_plan_next(p, n, begin);
                    size_t i = 0, rows;
                    while ((rows = bt_plan_shape(p, ctx, i)) != 0 && rows != c.rows) i++;
                    assert_int_equal(rows, c.rows);
                    begin += c.valid;
                }
    }
}

static void shapes_ascend_and_end(void **state)
{
    (void)state;
    static const size_t five[] = {16, 32, 64, 128, 256, 0};
    for (size_t i = 0; i < 6; i++) assert_int_equal(bt_plan_shape(policy(NULL), 8192, i), five[i]);
    assert_int_equal(bt_plan_shape(policy(NULL), 60, 2), 64);
    assert_int_equal(bt_plan_shape(policy(NULL), 60, 3), 0);
    assert_int_equal(bt_plan_shape(policy("chunk:64"), 8192, 0), 64);
    assert_int_equal(bt_plan_shape(policy("chunk:64"), 8192, 1), 0);
    assert_int_equal(bt_plan_shape(policy("whole"), 40, 2), 48);
    assert_int_equal(bt_plan_shape(policy("whole"), 40, 3), 0);
}

static void no_token_no_rows(void **state)
{
    (void)state;
    assert_int_equal(bt_plan_rows(policy(NULL), 0), 0);
    assert_int_equal(bt_plan_rows(policy("whole"), 0), 0);
}

static void refuses_other_words_and_names_the_policies(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "chunk",      "chunk:",    "chunk:+tail",      "chunk:8",
        "chunk:100", "chunk:8192", "chunk:64 ", "chunk:64+tai",     "chunk:64+tail ",
        "chunk:-64", "Whole",      "whole:16",  "chunk:0000000064", "chunk:99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_plan_policy p = {BT_PLAN_CHUNK, 1};
        bt_fault f;
        assert_int_equal(bt_plan_parse(&p, bad[i], &f), BT_EARG);
        assert_non_null(strstr(f.text, "chunk:N+tail"));
        assert_int_equal(p.chunk_tokens, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_as_the_table_says),
        cmocka_unit_test(every_chunk_is_a_shape_of_the_policy),
        cmocka_unit_test(shapes_ascend_and_end),
        cmocka_unit_test(no_token_no_rows),
        cmocka_unit_test(refuses_other_words_and_names_the_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
