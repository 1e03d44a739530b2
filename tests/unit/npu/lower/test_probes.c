/* Rows that a device refuses: left out of the table, each with what stands in; refused where nothing does.
 * The oracle of the first test is the published table of an iPhone 15 Pro. */
#include "npu/lower/probes.h"
#include "npu/compile/plan_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bt_profile profile(const char *name)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, name, NULL), BT_OK);
    return p;
}

static bt_shapes policy(const char *text, size_t ctx)
{
    bt_shapes s;
    bt_fault f = {""};
    if (bt_shapes_parse(&s, text, ctx, &f) < 0) fail_msg("%s: %s", text, f.text);
    return s;
}

static bt_shapes rows(const char *json, size_t ctx)
{
    bt_shapes s;
    bt_fault f = {""};
    if (bt_shapes_parse_bytes(&s, "rows:test", json, strlen(json), ctx, &f) < 0) fail_msg("%s", f.text);
    return s;
}

static void an_iphone_15_pro_takes_and_refuses_what_was_published(void **state)
{
    (void)state;
    static const uint32_t passes[][2] = {{1, 512},    {1, 1024},   {32, 1024}, {64, 1024}, {130, 1024},
                                         {256, 1024}, {512, 1024}, {256, 512}, {64, 2048}},
                          fails[][2] = {{128, 1024}, {32, 512}, {64, 512}, {128, 512}, {1, 2048}};
    const bt_profile p = profile("ane-a17-pro"), host = profile("host");
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        assert_false(bt_probes_refuses(&p, passes[i][0], passes[i][1]));
    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        assert_true(bt_probes_refuses(&p, fails[i][0], fails[i][1]));
        assert_false(bt_probes_refuses(&host, fails[i][0], fails[i][1]));
    }
}

static void a_refused_row_is_left_out_and_says_what_stands_in(void **state)
{
    (void)state;
    /* 16, 32, 64, 128, 256 in 512 and 1024: (32|64|128, 512) and (128, 1024) go. */
    static const bt_probes_refused want[] = {{1, 32, 512, 1, 32, 1024},
                                             {1, 64, 512, 1, 64, 1024},
                                             {1, 128, 512, 1, 256, 512},
                                             {1, 128, 1024, 1, 256, 1024}};
    const bt_profile p = profile("ane-a17-pro"), host = profile("host");
    const bt_shapes s = policy("chunk:256+tail", 1024);
    bt_probes_refused r;
    assert_int_equal(bt_probes_rows(&host, &s, 1024), 10);
    assert_int_equal(bt_probes_rows(&p, &s, 1024), 6);
    for (size_t i = 0; i < 4; i++) {
        assert_true(bt_probes_refused_at(&r, &p, &s, 1024, i));
        if (memcmp(&r, &want[i], sizeof r) != 0)
            fail_msg("%zu: (%u, %u) in (%u, %u)", i, r.seq, r.ctx, r.seq_instead, r.ctx_instead);
    }
    assert_false(bt_probes_refused_at(&r, &p, &s, 1024, 4));
    assert_false(bt_probes_refused_at(&r, &host, &s, 1024, 0));
    assert_int_equal(bt_probes_check(&p, &s, 1024, NULL), BT_OK);
    bt_profile q = profile("host"); /* the largest: the next smaller one that passes */
    q.refused_shapes = 2;
    q.refused_shape[0].seq = 256;
    q.refused_shape[1].seq = 128;
    q.refused_shape[0].ctx = q.refused_shape[1].ctx = 1024;
    const bt_probes_refused smaller[] = {{1, 128, 1024, 1, 64, 1024}, {1, 256, 1024, 1, 64, 1024}};
    for (size_t i = 0; i < 2; i++) {
        assert_true(bt_probes_refused_at(&r, &q, &s, 1024, i));
        assert_memory_equal(&r, &smaller[i], sizeof r);
    }
}

static void a_policy_of_which_nothing_is_left_is_refused_with_the_nearest_pair(void **state)
{
    (void)state;
    const bt_profile p = profile("ane-a17-pro");
    const bt_shapes all = policy("chunk:128", 512), longest = policy("chunk:1", 2048);
    bt_fault f = {""};
    assert_int_equal(bt_probes_check(&p, &all, 512, &f), BT_EARG);
    if (!strstr(f.text, "refuses (refused_shapes) each shape of it that holds 512 tokens") ||
        !strstr(f.text, "the nearest that pass: seq 256, ctx 512 (--shape-policy chunk:256)"))
        fail_msg("%s", f.text);
    assert_int_equal(bt_probes_check(&p, &longest, 2048, &f), BT_EARG);
    if (!strstr(f.text, "holds 2048 tokens") ||
        !strstr(f.text, "seq 1, ctx 1024 (a row of rows:FILE), and") ||
        !strstr(f.text, "seq 2, ctx 2048 (--shape-policy chunk:2)"))
        fail_msg("%s", f.text);
}

static void a_table_that_a_profile_cannot_have_is_refused_with_what_would_work(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        size_t ctx;
        uint32_t max_shapes, max_rows;
        bool no_ranges;
        const char *says[4];
    } bad[] = {
        {"chunk:256+tail",
         1024,
         9,
         0,
         false,
         {"10 shapes at 1024 tokens", "allows 9 (max_shapes)", "--shape-policy chunk:256 has 2", ""}},
        {"chunk:256+tail",
         1024,
         1,
         0,
         false,
         {"allows 1 (max_shapes)", "--shape-policy rows:FILE takes a list of 1", "", ""}},
        {"chunk:256", 1024, 1, 0, false, {"2 shapes", "rows:FILE takes a list of 1", "", ""}},
        {"chunk:256+tail",
         512,
         0,
         100,
         false,
         {"programs of 128 rows", "allows 100 (max_rows)", "--shape-policy chunk:64+tail", ""}},
        {"pow2",
         512,
         0,
         7,
         false,
         {"programs of 16 rows", "allows 7 (max_rows)", "--shape-policy chunk:7", ""}},
        {"range:1-200", 512, 0, 0, true, {"(range_shapes)", "--shape-policy chunk:200", "", ""}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const bt_shapes s = policy(bad[i].policy, bad[i].ctx);
        bt_profile p = profile("host");
        bt_fault f = {""};
        assert_int_equal(bt_plan_limits_check(&p, &s, bad[i].ctx, &f), BT_OK);
        p.max_shapes = bad[i].max_shapes;
        p.max_rows = bad[i].max_rows;
        p.range_shapes = !bad[i].no_ranges;
        assert_int_equal(bt_plan_limits_check(&p, &s, bad[i].ctx, &f), BT_EARG);
        for (int k = 0; k < 4; k++)
            if (!strstr(f.text, bad[i].says[k])) fail_msg("%zu: %s", i, f.text);
    }
}

/* The shapes that a message proposes are taken. */
static void the_nearest_that_is_named_would_work(void **state)
{
    (void)state;
    bt_profile p = profile("host");
    p.max_shapes = 9;
    const bt_shapes alone = policy("chunk:256", 1024);
    assert_int_equal(bt_plan_limits_check(&p, &alone, 1024, NULL), BT_OK);
    p.max_shapes = 1;
    const bt_shapes listed = rows("[{\"batch_size\":1,\"seq_len\":256,\"ctx_len\":1024}]", 1024);
    assert_int_equal(bt_plan_limits_check(&p, &listed, 1024, NULL), BT_OK);
    const bt_profile a17 = profile("ane-a17-pro");
    const bt_shapes shorter = rows("[{\"batch_size\":1,\"seq_len\":1,\"ctx_len\":1024}]", 2048),
                    wider = policy("chunk:2", 2048);
    assert_int_equal(bt_probes_check(&a17, &shorter, 2048, NULL), BT_OK);
    assert_int_equal(bt_probes_check(&a17, &wider, 2048, NULL), BT_OK);
    p.max_shapes = 0;
    p.max_rows = 100;
    const bt_shapes narrow = policy("chunk:64+tail", 512);
    assert_int_equal(bt_plan_limits_check(&p, &narrow, 512, NULL), BT_OK);
}

static void nothing_is_compiled_for_a_companion(void **state)
{
    (void)state;
    const bt_profile p = profile("rtx-4090");
    const bt_shapes s = policy("chunk:16", 512);
    bt_fault f = {""};
    assert_int_equal(bt_plan_limits_check(&p, &s, 512, &f), BT_EARG);
    assert_non_null(strstr(f.text, "rtx-4090 is a companion"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_iphone_15_pro_takes_and_refuses_what_was_published),
        cmocka_unit_test(a_refused_row_is_left_out_and_says_what_stands_in),
        cmocka_unit_test(a_policy_of_which_nothing_is_left_is_refused_with_the_nearest_pair),
        cmocka_unit_test(a_table_that_a_profile_cannot_have_is_refused_with_what_would_work),
        cmocka_unit_test(the_nearest_that_is_named_would_work),
        cmocka_unit_test(nothing_is_compiled_for_a_companion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
