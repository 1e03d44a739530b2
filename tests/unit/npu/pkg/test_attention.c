/* Attention as text: what it means, what is refused, and one text for one choice. */
#include "npu/pkg/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void texts_mean_what_they_say_and_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
        uint32_t ppm, dense, rows, is_group;
    } cases[] = {
        {NULL, "dense", 0, 0, 0, 0},
        {"dense", "dense", 0, 0, 0, 0},
        {"sparse", "sparse:0.2", 200000, 512, 1, 0},
        {"sparse:0.20", "sparse:0.2", 200000, 512, 1, 0},
        {"sparse:1.0", "sparse:1", 1000000, 512, 1, 0},
        {"sparse:0.1,dense=512", "sparse:0.1", 100000, 512, 1, 0},
        {"sparse:0.123456,dense=0", "sparse:0.123456,dense=0", 123456, 0, 1, 0},
        {"sparse:0.000001,dense=1048576", "sparse:1e-06,dense=1048576", 1, 1048576, 1, 0},
        {"sparse:0.2,rows=16", "sparse:0.2,rows=16", 200000, 512, 16, 0},
        {"sparse:0.2,group", "sparse:0.2,group", 200000, 512, 1, 1},
        {"sparse:0.2,rows=1", "sparse:0.2", 200000, 512, 1, 0},
        {"sparse:0.123456,group,rows=8,dense=1048576", "sparse:0.123456,dense=1048576,rows=8,group", 123456,
         1048576, 8, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_attention a, again;
        char text[BT_ATTENTION_MAX_TEXT];
        assert_int_equal(bt_attention_parse(&a, cases[i].text, NULL), BT_OK);
        assert_int_equal(a.ratio_ppm, cases[i].ppm);
        assert_int_equal(a.dense_rows, cases[i].dense);
        assert_int_equal(a.rows, cases[i].rows);
        assert_int_equal(a.is_group, cases[i].is_group);
        bt_attention_text(text, &a);
        assert_string_equal(text, cases[i].canonical);
        assert_int_equal(bt_attention_parse(&again, text, NULL), BT_OK);
        assert_memory_equal(&a, &again, sizeof a);
    }
}

static void what_is_no_attention_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"sparse:0", "no ratio above 0"},
        {"sparse:-0.1", "no ratio above 0"},
        {"sparse:1.01", "no ratio above 0"},
        {"sparse:", "no ratio above 0"},
        {"sparse:nan", "no ratio above 0"},
        {"sparse:0.0000001", "no ratio above 0"},
        {"sparse:0.2x", "no ratio above 0"},
        {"thin", "'thin': dense, or sparse"},
        {"sparse:0.2,dense=", "no position from"},
        {"sparse:0.2,dense=-1", "no position from"},
        {"sparse:0.2,rows=x", "1, 2, 4, 8 and 16"},
        {"sparse:0.2,rows=12", "1, 2, 4, 8 and 16"},
        {"sparse:0.2,rows=32", "1, 2, 4, 8 and 16"},
        {"sparse:0.2,rows=0", "1, 2, 4, 8 and 16"},
        {"sparse:0.2,rows=", "1, 2, 4, 8 and 16"},
        {"sparse:0.2,groups", "no choice 'groups'"},
        {"sparse:0.2,group=3", "no choice 'group=3'"},
        {"sparse:0.2,", "no choice ''"},
        {"sparse:0.2,rows=16,", "no choice ''"},
        {"sparse:0.2,dense=1048577", "no position from"},
        {"dense:0.2", "'dense:0.2': dense, or"},
        {"sparse:0.2,dense=3,dense=x", "no position from"},
        {"sparse:0.2222222222222222222222222222222222222222222222222222222222", "at most"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_attention a;
        bt_fault fault = {""};
        assert_int_equal(bt_attention_parse(&a, bad[i][0], &fault), BT_EARG);
        if (!strstr(fault.text, bad[i][1])) fail_msg("'%s': %s", bad[i][0], fault.text);
    }
}

static void a_share_keeps_what_the_formula_says(void **state)
{
    (void)state;
    assert_int_equal(bt_attention_keeps(200000, 5), 1);
    assert_int_equal(bt_attention_keeps(200000, 6), 2);
    assert_int_equal(bt_attention_keeps(100000, 10), 1);
    assert_int_equal(bt_attention_keeps(1, 1), 1);
    assert_int_equal(bt_attention_keeps(1000000, 1048576), 1048576);
    assert_int_equal(bt_attention_keeps(1, 1048576), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_mean_what_they_say_and_come_back),
        cmocka_unit_test(what_is_no_attention_is_refused_by_name),
        cmocka_unit_test(a_share_keeps_what_the_formula_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
